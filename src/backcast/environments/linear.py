"""Environment with Gaussian contexts and linear, logistic or curved mean rewards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast.environments.live import (
    coin_flips,
    draw_exploration_scores,
    log_without_choices,
    paper_logging,
    sharp_logging,
)
from backcast.errors import OptionError
from backcast.log import Log
from backcast.policies._calls import draw_actions, probabilities_of
from backcast.policies.base import Policy

Logger: TypeAlias = Literal["uniform", "paper", "sharp"] | Callable[[FloatArray], FloatArray]

TEMPERATURE = 0.2  # of the sharp logger: small compared with the spread of the scores, which is about 1
FLOOR = 0.01  # smallest probability of the sharp logger


class EnvironmentValue(NamedTuple):
    """Value of a policy averaged over sampled contexts, and the standard error of that average."""

    value: float
    std_error: float


@dataclass(frozen=True)
class LinearEnvironment:
    """Contexts ``x ~ N(0, I)``; the score of an action is ``offset_a + signal x.u_a + curvature ((x.v_a)^2 - 1)``.

    Directions u and v have length 1 and are drawn once from the seed, as are the offsets. Linear: the score is the
    mean reward, and rewards are normal around it. Logistic: rewards are 0 or 1, and the probability of 1 is the
    logistic function of the score.

    Parameters
    ----------
    n_actions, n_features
        Numbers of actions K and features d.
    noise
        Linear: standard deviation of the rewards. Logistic: share of rewards replaced by a fair coin flip.
    seed
        Seed of offsets and directions; every log and table is drawn from a generator passed to it.
    logistic
        Whether rewards are 0 or 1.
    signal
        Size of the linear part of the score.
    curvature
        Size of the quadratic part, which a linear model cannot fit.
    spread
        Standard deviation of the offsets: how much actions differ in all contexts alike.
    logging
        "uniform"; "paper" (0.7 on the best action, 0.3 spread at random); "sharp" (softmax of a noisy score, with a
        floor of 0.01 per action, at most 0.5 in all); or a function from contexts to probabilities ``(n, K)``.

    Examples
    --------
    >>> environment = LinearEnvironment(3, 5, logistic=True, logging="paper")
    >>> environment.log(100, np.random.default_rng(0))
    Log(100 events, 3 actions, 5 features)
    >>> contexts, means = environment.table(100, np.random.default_rng(0))
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
            raise OptionError(
                f"noise is {self.noise}; it must be >= 0, and <= 1 if logistic=True, where it is a share of the rewards"
            )
        if not callable(self.logging) and self.logging not in ("uniform", "paper", "sharp"):
            raise OptionError(
                f"logging is {self.logging!r}; give 'uniform', 'paper', 'sharp' or a function of contexts"
            )

    def table(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw contexts ``(n, d)``; return them and the mean reward of every action at each, ``(n, K)``."""
        contexts = rng.standard_normal((n, self.n_features))
        return contexts, self.mean_rewards(contexts)

    def mean_rewards(self, contexts: FloatArray) -> FloatArray:
        """Return the mean reward of every action at each context, shape ``(n, K)``."""
        offsets, u, v = self._parameters
        curves = np.square(contexts @ v.T) - 1
        scores: FloatArray = offsets + self.signal * (contexts @ u.T) + self.curvature * curves
        if not self.logistic:
            return scores
        from scipy.special import expit

        means: FloatArray = self.noise / 2 + (1 - self.noise) * expit(scores)
        return means

    def log(self, n: int, rng: np.random.Generator) -> Log:
        """Return a log of n independent events collected by the logger of the environment."""
        contexts, means = self.table(n, rng)
        logging = self._logging_probabilities(contexts, means, rng)
        actions = draw_actions(logging, rng.random(n))
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
        """Draw rewards around their means: 0 or 1 if logistic, otherwise normal."""
        if self.logistic:
            return coin_flips(means, rng)
        return means + self.noise * rng.standard_normal(means.shape)

    def value(self, policy: Policy, n: int, rng: np.random.Generator) -> EnvironmentValue:
        """Return the value of a fixed policy, averaged over n sampled contexts by their exact mean rewards.

        Examples
        --------
        >>> class First:
        ...     def probabilities(self, contexts, available=None):
        ...         return np.tile([1.0, 0.0], (len(contexts), 1))
        >>> flat = LinearEnvironment(2, 3, logistic=True, signal=0.0)
        >>> flat.value(First(), 10, np.random.default_rng(0))
        EnvironmentValue(value=0.5, std_error=0.0)
        """
        contexts, means = self.table(n, rng)
        probabilities = probabilities_of(policy, log_without_choices(contexts, self.n_actions))
        values = (probabilities * means).sum(axis=1)
        return EnvironmentValue(float(values.mean()), float(values.std()) / n**0.5)

    @cached_property
    def _parameters(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Offsets ``(K,)`` and the directions u and v of the linear and the quadratic part, ``(K, d)`` each."""
        rng = np.random.default_rng(self.seed)
        shape = (self.n_actions, self.n_features)
        u, v = rng.standard_normal(shape), rng.standard_normal(shape)
        offsets = self.spread * rng.standard_normal(self.n_actions)
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        return offsets, u, v

    def _logging_probabilities(self, contexts: FloatArray, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        n, k = means.shape
        if callable(self.logging):
            return np.asarray(self.logging(contexts), dtype=np.float64)
        if self.logging == "uniform":
            return np.full((n, k), 1 / k)
        if self.logging == "paper":
            best: BoolArray = np.arange(k) == means.argmax(axis=1)[:, None]
            return paper_logging(draw_exploration_scores(n, k, rng), best)
        scores = means / (means.std() or 1.0) + rng.standard_normal((n, k))
        return sharp_logging(scores, TEMPERATURE, min(FLOOR, 0.5 / k))
