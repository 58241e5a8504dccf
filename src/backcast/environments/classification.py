"""Environment made of labelled examples: choosing a correct label is rewarded."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, is_sparse
from backcast.environments.live import draw_exploration_scores, paper_logging
from backcast.errors import OptionError
from backcast.log import Log
from backcast.policies._calls import draw_actions


@dataclass(frozen=True, eq=False)
class ClassificationEnvironment:
    """Labelled examples as a bandit problem: an action is right if it is one of the example's labels.

    Built by :func:`classification_environment`. All rewards are known, so the value of a fixed policy on the examples
    is exact.

    Parameters
    ----------
    features
        ``(n, d)`` array or CSR matrix.
    labels
        ``(n, K)`` mask: which actions are right at each example.
    loss
        If False, the reward of a right action is 1; if True, the loss of a wrong one is 1, as in the paper's tables.
    action_labels
        Names of the actions.
    """

    features: Contexts
    labels: BoolArray
    _: KW_ONLY
    loss: bool = False
    action_labels: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> ClassificationEnvironment:
        """Return the examples at a slice, an index array or a mask."""
        return replace(self, features=self.features[index], labels=self.labels[index])

    @property
    def n_actions(self) -> int:
        """Number of actions K."""
        return int(self.labels.shape[1])

    @property
    def rewards(self) -> FloatArray:
        """Reward (or loss) of every action at each example, shape ``(n, K)``."""
        rewards: FloatArray = (self.labels != self.loss).astype(np.float64)
        return rewards

    def log(self, rng: np.random.Generator) -> Log:
        """Return a log with one event per example, in order, collected by the paper's logger.

        Dudik et al. 2012, section 4.1: :func:`~backcast.environments.live.paper_logging`.
        """
        n = len(self)
        logging = paper_logging(draw_exploration_scores(n, self.n_actions, rng), self.labels)
        actions = draw_actions(logging, rng.random(n))
        taken = (np.arange(n), actions)
        return Log(
            contexts=self.features,
            actions=np.array(self.action_labels, dtype=object)[actions],
            rewards=self.rewards[taken],
            propensities=logging[taken],
            action_labels=self.action_labels,
            reward_range=(0.0, 1.0),
            logging_probabilities=logging,
        )

    def value(self, probabilities: npt.ArrayLike) -> float:
        """Return the average reward (or loss) over the examples of a policy given by its probabilities ``(n, K)``."""
        table = np.asarray(probabilities, dtype=np.float64)
        if table.shape != self.labels.shape:
            raise OptionError(f"probabilities have shape {table.shape}; expected {self.labels.shape}")
        return float((table * self.rewards).sum(axis=1).mean())


def classification_environment(features: Any, labels: Any, *, loss: bool = False) -> ClassificationEnvironment:
    """Build an environment from labelled examples.

    Parameters
    ----------
    features
        ``(n, d)`` array or scipy sparse matrix.
    labels
        One label per example, or an ``(n, K)`` mask if examples have several; each needs at least one.
    loss
        If False, the reward of a right action is 1; if True, the loss of a wrong one is 1.

    Examples
    --------
    >>> environment = classification_environment([[0.0], [1.0]], ["cat", "dog"])
    >>> environment.action_labels
    ('cat', 'dog')
    >>> environment.value([[1.0, 0.0], [0.5, 0.5]])
    0.75
    >>> environment.log(np.random.default_rng(0))
    Log(2 events, 2 actions, 1 feature)
    """
    mask, names = _label_mask(np.asarray(labels))
    matrix: Contexts = features.tocsr() if is_sparse(features) else np.asarray(features, dtype=np.float64)
    if matrix.shape[0] != mask.shape[0]:
        raise OptionError(f"features have {matrix.shape[0]} rows but labels have {mask.shape[0]}; they must agree")
    unlabelled = np.flatnonzero(~mask.any(axis=1))
    if unlabelled.size:
        raise OptionError(f"row {int(unlabelled[0])}: the example has no label; drop it first")
    return ClassificationEnvironment(matrix, mask, loss=loss, action_labels=names)


def _label_mask(labels: npt.NDArray[Any]) -> tuple[BoolArray, tuple[Any, ...]]:
    """Return the mask of the labels of each example, ``(n, K)``, and their names."""
    if labels.ndim == 2:
        return labels.astype(np.bool_), tuple(range(labels.shape[1]))
    if labels.ndim != 1:
        raise OptionError(f"labels have shape {labels.shape}; give one label per example, or an (n, K) mask")
    names, codes = np.unique(labels, return_inverse=True)
    return np.arange(names.size) == codes[:, None], tuple(names.tolist())
