"""A world of Gaussian contexts whose mean rewards are linear, logistic or bent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast.environments.live import AnyPolicy, draw_actions, exploring_scores, paper_logging, scored, sharp_logging
from backcast.errors import OptionError
from backcast.log import Log

Logger: TypeAlias = Literal["uniform", "paper", "sharp"] | Callable[[FloatArray], FloatArray]


TEMPERATURE = 0.2  # of the sharp logger: small beside the spread of the scores, which is about 1


FLOOR = 0.01


class EnvironmentValue(NamedTuple):
    """A policy's value in a world, averaged over sampled contexts, and the standard error of that average."""

    value: float
    std_error: float


@dataclass(frozen=True)
class LinearEnvironment:
    """Contexts ``x ~ N(0, I)``; the score of an action is ``offset_a + signal x.u_a + curvature ((x.v_a)^2 - 1)``.

    Directions u and v have length 1 and are drawn once from the seed, as are the offsets. Linear: the score is the
    mean reward, and rewards are normal around it. Logistic: rewards are 0 or 1, with the logistic of the score as
    chance of 1.

    Parameters
    ----------
    n_actions, n_features
        Numbers of actions K and features d.
    noise
        Linear: standard deviation of the rewards. Logistic: share of rewards replaced by a fair coin.
    seed
        Of the world itself; each log and table has its own generator.
    logistic
        Whether rewards are 0 or 1.
    signal
        How much of the score a linear model can tell.
    curvature
        How much it cannot.
    spread
        Standard deviation of the offsets: how much the actions differ whatever the context.
    logging
        "uniform"; "paper" (0.7 on the best action, 0.3 spread at random); "sharp" (softmax of a noisy score, floor
        0.01 an action, at most half of the mass); or a function from contexts to probabilities ``(n, K)``.

    Examples
    --------
    >>> world = LinearEnvironment(3, 5, logistic=True, logging="paper")
    >>> world.log(100, np.random.default_rng(0))
    Log(100 events, 3 actions, 5 features)
    >>> contexts, means = world.table(100, np.random.default_rng(0))
    >>> means.shape
    (100, 3)
    """

    n_actions: int
    n_features: int
    _: KW_ONLY
    noise: float = 0.1
    seed: int = 0
    logistic: bool = False
    signal: float = 1.0
    curvature: float = 0.0
    spread: float = 0.0
    logging: Logger = "uniform"

    def __post_init__(self) -> None:
        if self.n_actions < 1 or self.n_features < 1:
            raise OptionError(f"n_actions is {self.n_actions}, n_features {self.n_features}; both must be at least 1")
        if self.noise < 0 or (self.logistic and self.noise > 1):
            raise OptionError(f"noise is {self.noise}; it must be >= 0, and a share <= 1 in a logistic world")
        if not callable(self.logging) and self.logging not in ("uniform", "paper", "sharp"):
            raise OptionError(
                f"logging is {self.logging!r}; give 'uniform', 'paper', 'sharp' or a function of contexts"
            )

    def table(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Contexts ``(n, d)`` and the mean reward of every action at each, ``(n, K)``."""
        contexts = rng.standard_normal((n, self.n_features))
        return contexts, self.mean_rewards(contexts)

    def mean_rewards(self, contexts: FloatArray) -> FloatArray:
        """Mean reward of every action at each context, shape ``(n, K)``."""
        offsets, straight, bent = self._parameters
        curves = np.square(contexts @ bent.T) - 1
        scores: FloatArray = offsets + self.signal * (contexts @ straight.T) + self.curvature * curves
        if not self.logistic:
            return scores
        return self.noise / 2 + (1 - self.noise) * _logistic(scores)

    def log(self, n: int, rng: np.random.Generator) -> Log:
        """A log of n independent events collected by the world's logger."""
        contexts, means = self.table(n, rng)
        logging = self._logging_probabilities(contexts, means, rng)
        actions = draw_actions(logging, rng)
        taken = (np.arange(n), actions)
        return Log(
            contexts=contexts,
            actions=actions,
            rewards=self.draw_rewards(means[taken], rng),
            propensities=logging[taken],
            n_actions=self.n_actions,
            reward_range=(0.0, 1.0) if self.logistic else None,
            logging_probabilities=logging,
        )

    def draw_rewards(self, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rewards around their means: 0 or 1 in a logistic world, normal in a linear one."""
        if self.logistic:
            return (rng.random(means.shape) < means).astype(np.float64)
        return means + self.noise * rng.standard_normal(means.shape)

    def value(self, policy: AnyPolicy, n: int, rng: np.random.Generator) -> EnvironmentValue:
        """Value of a fixed policy, averaged over n sampled contexts with the mean rewards known.

        Examples
        --------
        >>> class First:
        ...     def probabilities(self, contexts, available=None):
        ...         return np.tile([1.0, 0.0], (len(contexts), 1))
        >>> still = LinearEnvironment(2, 3, logistic=True, signal=0.0)
        >>> still.value(First(), 10, np.random.default_rng(0))
        EnvironmentValue(value=0.5, std_error=0.0)
        """
        contexts, means = self.table(n, rng)
        values = (scored(policy, contexts, self.n_actions) * means).sum(axis=1)
        return EnvironmentValue(float(values.mean()), float(values.std()) / n**0.5)

    @cached_property
    def _parameters(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Offsets ``(K,)`` and the directions of slope and bend, ``(K, d)`` each."""
        rng = np.random.default_rng(self.seed)
        shape = (self.n_actions, self.n_features)
        straight, bent = _directions(rng.standard_normal(shape)), _directions(rng.standard_normal(shape))
        return self.spread * rng.standard_normal(self.n_actions), straight, bent

    def _logging_probabilities(self, contexts: FloatArray, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        n, k = means.shape
        if callable(self.logging):
            return np.asarray(self.logging(contexts), dtype=np.float64)
        if self.logging == "uniform":
            return np.full((n, k), 1 / k)
        if self.logging == "paper":
            best: BoolArray = np.arange(k) == means.argmax(axis=1)[:, None]
            return paper_logging(exploring_scores(n, k, rng), best)
        scores = means / (means.std() or 1.0) + rng.standard_normal((n, k))
        return sharp_logging(scores, TEMPERATURE, min(FLOOR, 0.5 / k))


def _directions(vectors: FloatArray) -> FloatArray:
    unit: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _logistic(scores: FloatArray) -> FloatArray:
    """``1 / (1 + exp(-s))``, written so that it never overflows."""
    return 0.5 * (1 + np.tanh(scores / 2))
