"""Sums over weighed rewards, and how far their distribution function may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._request import EvaluationRequest, as_log, require_fixed_policy
from backcast.diagnostics import WeightDiagnostics
from backcast.errors import EvaluationError, OptionError
from backcast.estimate import Estimate, Interval
from backcast.evaluators._weighted_events import WeightedLog, weight_events
from backcast.policies._calls import policy_name

BAND_CELLS = 2000


BAND_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class RewardSums:
    """Distinct rewards in order, with the sums of the weights and of their squares at each; shards add up.

    Examples
    --------
    >>> both = RewardSums.of([1.0, 0.0], [2.0, 1.0]) + RewardSums.of([1.0], [0.5])
    >>> both.rewards, both.weights, both.squares
    (array([0., 1.]), array([1. , 2.5]), array([1.  , 4.25]))
    """

    n: int
    rewards: FloatArray
    weights: FloatArray
    squares: FloatArray
    largest: float = 0.0

    @classmethod
    def of(cls, rewards: Any, weights: Any) -> RewardSums:
        """Of events with these rewards and weights."""
        weight = np.asarray(weights, dtype=np.float64)
        return cls._gathered(weight.size, rewards, weight, weight**2, float(weight.max(initial=0.0)))

    @classmethod
    def none(cls) -> RewardSums:
        """Of no events."""
        return cls.of([], [])

    @classmethod
    def _gathered(cls, n: int, rewards: Any, weights: FloatArray, squares: FloatArray, largest: float) -> RewardSums:
        values, place = np.unique(np.asarray(rewards, dtype=np.float64), return_inverse=True)
        return cls(n, values, _summed(place, weights, values.size), _summed(place, squares, values.size), largest)

    def __add__(self, other: RewardSums) -> RewardSums:
        rewards = np.concatenate([self.rewards, other.rewards])
        weights = np.concatenate([self.weights, other.weights])
        squares = np.concatenate([self.squares, other.squares])
        return self._gathered(self.n + other.n, rewards, weights, squares, max(self.largest, other.largest))

    def thinned(self, most: int) -> RewardSums:
        """With neighbouring rewards put together, at their weighted mean, until at most ``most`` are left.

        >>> RewardSums.of([0.0, 1.0, 5.0, 6.0], [1.0, 3.0, 2.0, 2.0]).thinned(2).rewards
        array([0.75, 5.5 ])
        """
        if self.rewards.size <= most:
            return self
        cells = cells_of(self.weights, most)
        size = int(cells[-1]) + 1
        weights, squares = _summed(cells, self.weights, size), _summed(cells, self.squares, size)
        totals = _summed(cells, self.weights * self.rewards, size)
        # a cell without weight has no mean of its own: its first reward stands for it
        first = self.rewards[np.searchsorted(cells, np.arange(size))]
        means = np.divide(totals, weights, out=first, where=weights > 0)
        return self._gathered(self.n, means, weights, squares, self.largest)


def cells_of(weights: FloatArray, most: int) -> IntArray:
    """Number the values so that cells of neighbours hold about the same weight, at most ``most`` cells in a row.

    >>> cells_of(np.array([1.0, 1.0, 1.0, 1.0]), 2)
    array([0, 0, 1, 1])
    """
    share = (np.cumsum(weights) - weights / 2) / weights.sum()
    raw = np.minimum((share * most).astype(np.int64), most - 1)
    return np.unique(raw, return_inverse=True)[1].astype(np.int64)


def weighted_error(parts: FloatArray, sums: RewardSums) -> float:
    """``sqrt(sum_k w_k^2 (z_k - mean)^2) / sum_k w_k`` of the weighted mean of z.

    >>> weighted_error(np.array([0.0, 1.0]), RewardSums.of([0.0, 1.0], [1.0, 1.0]))
    0.3535533905932738

    By hand: both are 1/2 from the mean, and sqrt(1/2) / 2.
    """
    total = sums.weights.sum()
    mean = parts @ sums.weights / total
    return float(np.sqrt((parts - mean) ** 2 @ sums.squares) / total)


def band_reach(sums: RewardSums, level: float, seed: int) -> float:
    """Half-width of the band: the level's quantile of ``sup_t |sum_k g_k w_k (I(r_k <= t) - F(t))| / sum w``.

    The g are standard normal; the sum over equal rewards is normal with variance ``sum w^2``, so that one draw a
    distinct reward is enough.
    """
    cells = cells_of(sums.weights, BAND_CELLS)
    size = int(cells[-1]) + 1
    weights, squares = _summed(cells, sums.weights, size), _summed(cells, sums.squares, size)
    cdf = np.cumsum(weights) / weights.sum()
    rng = np.random.default_rng((seed, 2021))
    suprema = np.empty(BAND_DRAWS)
    for start in range(0, BAND_DRAWS, 100):
        steps = rng.standard_normal((100, weights.size)) * np.sqrt(squares)
        paths = np.cumsum(steps, axis=1)
        suprema[start : start + 100] = np.abs(paths - cdf * paths[:, -1:]).max(axis=1)
    return float(np.quantile(suprema, level) / weights.sum())


def _summed(places: npt.NDArray[np.intp] | IntArray, column: FloatArray, size: int) -> FloatArray:
    return np.bincount(places, column, minlength=size).astype(np.float64)


Tail: TypeAlias = Literal["low", "high"]


MOST_VALUES = 1 << 16  # distinct rewards kept of a stream; neighbours are then put together


ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class RewardDistribution:
    """The law of the reward under a policy: steps at the rewards seen, and a band about the whole curve.

    Attributes
    ----------
    rewards
        Where the distribution function steps.
    cdf
        Its height after each step.
    low, high
        A band that holds the whole curve at once with the level's probability (asymptotic).
    level
        Of the band and of the intervals of :meth:`quantile`, :meth:`cvar` and :meth:`at`.
    """

    rewards: FloatArray
    cdf: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    policy: str
    diagnostics: WeightDiagnostics
    _sums: RewardSums

    def at(self, reward: float) -> Estimate:
        """The chance that the policy earns at most this reward."""
        below = self.rewards <= reward
        return self._estimate(below.astype(np.float64), f"P(r <= {reward:g} | pi)", (0.0, 1.0))

    def mean(self) -> Estimate:
        """The expected reward, by the same weights (SNIPS)."""
        return self._estimate(self.rewards, "E(r | pi)", (float(self.rewards[0]), float(self.rewards[-1])))

    def quantile(self, q: float) -> Estimate:
        """The smallest reward that the policy stays at or below with probability ``q`` (Woodruff 1952 for the ends)."""
        _check_share("q", q)
        reach = _normal_quantile(self.level) * self._error(self.rewards <= self._inverse(q))
        ends = self._inverse(q - reach), self._inverse(q + reach)
        interval = Interval(*ends, self.level, "Woodruff", "asymptotic", f"{q:g}-quantile of the reward under pi")
        error = interval.half_width / _normal_quantile(self.level)
        return self._answer(self._inverse(q), error, interval, f"RewardQuantile({q:g})")

    def cvar(self, share: float, tail: Tail = "low") -> Estimate:
        """Mean of the lowest (or highest) ``share`` of the rewards under the policy."""
        _check_share("share", share)
        sign = 1.0 if tail == "low" else -1.0
        edge = self._inverse(share) if tail == "low" else self._inverse(1.0 - share + ROUNDING)
        # Rockafellar and Uryasev 2000: q - E (q - r)+ / share is the tail's mean, and flat in q at the quantile
        parts = edge - sign * np.maximum(sign * (edge - self.rewards), 0.0) / share
        name = f"mean of the {tail}est {100 * share:g} % of rewards under pi"
        return self._estimate(parts, name, (float(self.rewards[0]), float(self.rewards[-1])))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for JSON."""
        curves = {name: getattr(self, name).tolist() for name in ("rewards", "cdf", "low", "high")}
        return {**curves, "level": self.level, "policy": self.policy, "diagnostics": self.diagnostics.to_dict()}

    def _inverse(self, q: float) -> float:
        place = int(np.searchsorted(self.cdf, q - ROUNDING, side="left"))
        return float(self.rewards[min(max(place, 0), self.rewards.size - 1)])

    def _error(self, parts: FloatArray | BoolArray) -> float:
        """Standard error of the weighted mean of ``parts``, one a distinct reward (delta method)."""
        return weighted_error(np.asarray(parts, dtype=np.float64), self._sums)

    def _estimate(self, parts: FloatArray, name: str, bounds: tuple[float, float]) -> Estimate:
        value = float(parts @ self._sums.weights / self._sums.weights.sum())
        error = self._error(parts)
        reach = _normal_quantile(self.level) * error
        low, high = max(bounds[0], value - reach), min(bounds[1], value + reach)
        return self._answer(value, error, Interval(low, high, self.level, "normal", "asymptotic", name), name)

    def _answer(self, value: float, error: float, interval: Interval, name: str) -> Estimate:
        return Estimate(value, error, interval, self.diagnostics, self.policy, name)


def reward_distribution(log: Any, policy: Any, *, level: float = 0.95, seed: int = 0) -> RewardDistribution:
    """Say how the rewards of a fixed policy would have been distributed.

    Parameters
    ----------
    log
        A :class:`backcast.Log`, or a stream of parts. Of a stream at most 65,536 distinct rewards are kept;
        beyond that, neighbours are put together.
    policy
        A policy that does not learn.
    level
        Of the band about the distribution function and of the intervals.
    seed
        Same seed, same band.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1, 0, 1], rewards=[0, 1, 2, 3], propensities=[0.5] * 4)
    >>> law = reward_distribution(log, Fixed([0.75, 0.25]))
    >>> law.cdf
    array([0.375, 0.5  , 0.875, 1.   ])
    >>> law.quantile(0.5).value, law.cvar(0.5).value, law.cvar(0.5, "high").value
    (1.0, 0.25, 2.25)

    By hand: the weights are 1.5, 0.5, 1.5, 0.5. The lower half holds 0 with 0.375 and 1 with 0.125, so its mean is
    0.125 / 0.5.
    """
    return distribution_for(EvaluationRequest(as_log(log), policy, level=level, seed=seed))


def distribution_for(request: EvaluationRequest) -> RewardDistribution:
    """The law of the reward that a question asks about."""
    require_fixed_policy(request.policy, "the reward distribution")
    if not 0 < request.level < 1:
        raise OptionError(f"level is {request.level}; it must lie strictly between 0 and 1")
    events = weight_events(request, uses_model=False)
    sums = _sums(events)
    total = float(sums.weights.sum())
    if total == 0.0:
        raise EvaluationError(
            f"the policy gives probability 0 to the logged action in all {sums.n:,} events, so the log says nothing "
            "of its rewards; use a log that explores the policy's actions"
        )
    cdf = np.minimum(np.cumsum(sums.weights) / total, 1.0)
    cdf[-1] = 1.0
    reach = band_reach(sums, request.level, request.seed)
    facts = WeightDiagnostics(
        events=sums.n,
        effective_sample_size=total**2 / float(sums.squares.sum()),
        mean_weight=total / sums.n,
        largest_weight=sums.largest,
        propensities_estimated=events.propensities_estimated,
    )
    low, high = np.maximum(cdf - reach, 0.0), np.minimum(cdf + reach, 1.0)
    name = request.policy_name or policy_name(request.policy)
    return RewardDistribution(sums.rewards, cdf, low, high, request.level, name, facts, sums)


def _sums(events: WeightedLog) -> RewardSums:
    if events.in_memory:
        blocks = list(events.blocks())
        return RewardSums.of(
            np.concatenate([block.residual for block in blocks]), np.concatenate([block.ratio for block in blocks])
        )
    sums = RewardSums.none()
    for block in events.blocks():
        sums = (sums + RewardSums.of(block.residual, block.ratio)).thinned(MOST_VALUES)
    return sums


def _normal_quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def _check_share(name: str, value: float) -> None:
    if not 0.0 < value <= 1.0:
        raise OptionError(f"{name} is {value}; it must lie in (0, 1]")


@dataclass(frozen=True)
class RewardQuantile:
    """The q-quantile of the reward under a fixed policy, by self-normalised weighting.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1, 0, 1], rewards=[0, 1, 2, 3], propensities=[0.5] * 4)
    >>> RewardQuantile(0.75).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]))).value
    2.0
    """

    q: float = 0.5

    def __post_init__(self) -> None:
        _check_share("q", self.q)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The quantile, with Woodruff's interval."""
        return distribution_for(request).quantile(self.q)


@dataclass(frozen=True)
class CVaR:
    """Mean of the lowest (or highest) share of the rewards under a fixed policy: conditional value at risk.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1, 0, 1], rewards=[0, 1, 2, 3], propensities=[0.5] * 4)
    >>> CVaR(0.5).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]))).value
    0.25
    """

    share: float = 0.1
    tail: Tail = "low"

    def __post_init__(self) -> None:
        _check_share("share", self.share)
        if self.tail not in ("low", "high"):
            raise OptionError(f"tail is {self.tail!r}; it must be 'low' or 'high'")

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The tail's mean, with a normal interval."""
        return distribution_for(request).cvar(self.share, self.tail)
