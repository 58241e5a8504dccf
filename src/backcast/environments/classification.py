"""From classification to bandits: examples with known labels become a log of one chosen action each."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, is_sparse
from backcast.environments.live import draw_actions, exploring_scores, paper_logging
from backcast.errors import OptionError
from backcast.log import Log


@dataclass(frozen=True, eq=False)
class ClassificationEnvironment:
    """Labelled examples: choosing one of an example's labels is right, anything else is wrong.

    Made by :func:`classification_environment`. All rewards are known, so every fixed policy's value on the set is exact.

    Parameters
    ----------
    features
        ``(n, d)`` array or CSR matrix.
    labels
        ``(n, K)`` mask: which actions are right at each example.
    loss
        False rewards a right action with 1; True charges a wrong one 1, as the paper's tables do.
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
        """The examples at a slice, an index array or a mask, as a world of their own."""
        names = self.action_labels
        return ClassificationEnvironment(self.features[index], self.labels[index], loss=self.loss, action_labels=names)

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
        """Convert every example once, in order, into a logged event of a partly informed explorer.

        The explorer is that of Dudik et al. 2012, section 4.1: scores s uniform on [0.1, 1] and
        ``mu(a|x) = 0.3 s_a / sum s + 0.7 I(a right) / #right``.
        """
        n = len(self)
        logging = paper_logging(exploring_scores(n, self.n_actions, rng), self.labels)
        actions = draw_actions(logging, rng)
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
        """Exact average reward (or loss) on the set of a fixed policy, given as probabilities ``(n, K)``."""
        table = np.asarray(probabilities, dtype=np.float64)
        if table.shape != self.labels.shape:
            raise OptionError(f"probabilities have shape {table.shape}; expected {self.labels.shape}")
        return float((table * self.rewards).sum(axis=1).mean())


def classification_environment(features: Any, labels: Any, *, loss: bool = False) -> ClassificationEnvironment:
    """A bandit world from labelled examples.

    Parameters
    ----------
    features
        ``(n, d)`` array or scipy sparse matrix.
    labels
        One label an example, or an ``(n, K)`` mask where an example may have several; each needs at least one.
    loss
        False rewards a right action with 1; True charges a wrong one 1.

    Examples
    --------
    >>> world = classification_environment([[0.0], [1.0]], ["cat", "dog"])
    >>> world.action_labels
    ('cat', 'dog')
    >>> world.value([[1.0, 0.0], [0.5, 0.5]])
    0.75
    >>> world.log(np.random.default_rng(0))
    Log(2 events, 2 actions, 1 feature)
    """
    mask, names = _label_mask(np.asarray(labels))
    matrix: Contexts = features.tocsr() if is_sparse(features) else np.asarray(features, dtype=np.float64)
    if matrix.shape[0] != mask.shape[0]:
        raise OptionError(f"features have {matrix.shape[0]} rows but labels have {mask.shape[0]}; they must agree")
    bare = ~mask.any(axis=1)
    if bare.any():
        raise OptionError(f"row {int(np.flatnonzero(bare)[0])}: the example has no label; drop it first")
    return ClassificationEnvironment(matrix, mask, loss=loss, action_labels=names)


def _label_mask(labels: npt.NDArray[Any]) -> tuple[BoolArray, tuple[Any, ...]]:
    """Which labels each example has, ``(n, K)``, and their names."""
    if labels.ndim == 2:
        return labels.astype(np.bool_), tuple(range(labels.shape[1]))
    if labels.ndim != 1:
        raise OptionError(f"labels have shape {labels.shape}; give one label an example, or an (n, K) mask")
    names, codes = np.unique(labels, return_inverse=True)
    return np.arange(names.size) == codes[:, None], tuple(names.tolist())
