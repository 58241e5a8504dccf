"""The distribution of the reward under a fixed policy: reward_distribution, RewardQuantile and CVaR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._equality import ContentEquality
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest, SeedKey, as_log, require_fixed_policy
from backcast.diagnostics import WeightDiagnostics, effective_sample_size
from backcast.errors import EvaluationError, OptionError
from backcast.estimate import Estimate, Interval, normal_quantile
from backcast.evaluators._weighted_events import WeightedLog, weight_events
from backcast.policies._calls import class_name_of

BAND_CELLS = 2000  # rewards are merged into at most this many cells to simulate the band
BAND_DRAWS = 2000
MAX_VALUES = 1 << 16  # distinct rewards of a stream; beyond, neighbours are merged
ROUNDING = 1e-12

Tail: TypeAlias = Literal["low", "high"]


def reward_distribution(log: Any, policy: Any, *, level: float = 0.95, seed: int = 0) -> RewardDistribution:
    """Estimate the distribution of the rewards of a fixed policy, by self-normalised weighting.

    Parameters
    ----------
    log
        A :class:`backcast.Log`, or a stream of parts. Of a stream at most 65,536 distinct rewards are stored;
        beyond, neighbours are merged.
    policy
        A policy that does not learn.
    level
        Level of the band around the distribution function and of the intervals.
    seed
        Seed of the simulation of the band.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1, 0, 1], rewards=[0, 1, 2, 3], propensities=[0.5] * 4)
    >>> distribution = reward_distribution(log, Fixed([0.75, 0.25]))
    >>> distribution.cdf
    array([0.375, 0.5  , 0.875, 1.   ])
    >>> distribution.quantile(0.5).value, distribution.cvar(0.5).value, distribution.cvar(0.5, "high").value
    (1.0, 0.25, 2.25)

    By hand: the weights are 1.5, 0.5, 1.5, 0.5. The lower half holds 0 with 0.375 and 1 with 0.125, so its mean is
    0.125 / 0.5.
    """
    return distribution_for_request(EvaluationRequest(as_log(log), policy, level=level, seed=seed))


@dataclass(frozen=True)
class RewardQuantile(Parametrized):
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
        """Return the quantile, with Woodruff's interval."""
        return distribution_for_request(request).quantile(self.q)


@dataclass(frozen=True)
class CVaR(Parametrized):
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
        """Return the mean of the tail, with a normal interval."""
        return distribution_for_request(request).cvar(self.share, self.tail)


@dataclass(frozen=True, eq=False)
class RewardDistribution(ContentEquality):
    """Distribution of the reward under a policy: a step function over the logged rewards, with a simultaneous band.

    Attributes
    ----------
    rewards
        Distinct rewards, at which the distribution function steps.
    cdf
        Its value after each step.
    low, high
        A band that contains the whole curve with probability ``level`` (asymptotic).
    level
        Level of the band and of the intervals of :meth:`quantile`, :meth:`cvar` and :meth:`at`.
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
        """Return the probability that the policy earns at most this reward."""
        below = self.rewards <= reward
        return self._estimate(below.astype(np.float64), f"P(r <= {reward:g} | pi)", (0.0, 1.0))

    def mean(self) -> Estimate:
        """Return the expected reward, by the same weights (SNIPS)."""
        return self._estimate(self.rewards, "E(r | pi)", (float(self.rewards[0]), float(self.rewards[-1])))

    def quantile(self, q: float) -> Estimate:
        """Return the smallest reward that is not exceeded with probability ``q`` (interval by Woodruff 1952)."""
        _check_share("q", q)
        half = normal_quantile(self.level) * self._std_error(self.rewards <= self._inverse(q))
        ends = self._inverse(q - half), self._inverse(q + half)
        interval = Interval(*ends, self.level, "Woodruff", "asymptotic", f"{q:g}-quantile of the reward under pi")
        error = interval.half_width / normal_quantile(self.level)
        return Estimate(self._inverse(q), error, interval, self.diagnostics, self.policy, f"RewardQuantile({q:g})")

    def cvar(self, share: float, tail: Tail = "low") -> Estimate:
        """Return the mean of the lowest (or highest) ``share`` of the rewards under the policy."""
        _check_share("share", share)
        sign = 1.0 if tail == "low" else -1.0
        edge = self._inverse(share) if tail == "low" else self._inverse(1.0 - share + ROUNDING)
        # Rockafellar and Uryasev 2000: q - E (q - r)+ / share is the mean of the tail, and its derivative in q is 0 at
        # the quantile, so that the error of the quantile adds nothing to first order
        terms = edge - sign * np.maximum(sign * (edge - self.rewards), 0.0) / share
        name = f"mean of the {tail}est {100 * share:g} % of rewards under pi"
        return self._estimate(terms, name, (float(self.rewards[0]), float(self.rewards[-1])))

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for JSON."""
        curves = {name: getattr(self, name).tolist() for name in ("rewards", "cdf", "low", "high")}
        return {**curves, "level": self.level, "policy": self.policy, "diagnostics": self.diagnostics.to_dict()}

    def _inverse(self, q: float) -> float:
        """Return the smallest reward at which the distribution function reaches q."""
        index = int(np.searchsorted(self.cdf, q - ROUNDING, side="left"))
        return float(self.rewards[min(max(index, 0), self.rewards.size - 1)])

    def _std_error(self, terms: FloatArray | BoolArray) -> float:
        """Standard error of the weighted mean of ``terms``, one per distinct reward (delta method)."""
        return weighted_mean_error(np.asarray(terms, dtype=np.float64), self._sums)

    def _estimate(self, terms: FloatArray, name: str, bounds: tuple[float, float]) -> Estimate:
        """Return the weighted mean of ``terms`` with a normal interval, clipped to the bounds."""
        value = float(terms @ self._sums.weights / self._sums.weights.sum())
        error = self._std_error(terms)
        half = normal_quantile(self.level) * error
        low, high = max(bounds[0], value - half), min(bounds[1], value + half)
        interval = Interval(low, high, self.level, "normal", "asymptotic", name)
        return Estimate(value, error, interval, self.diagnostics, self.policy, name)


def _check_share(name: str, value: float) -> None:
    if not 0.0 < value <= 1.0:
        raise OptionError(f"{name} is {value}; it must lie in (0, 1]")


def distribution_for_request(request: EvaluationRequest) -> RewardDistribution:
    """Return the reward distribution that the request describes."""
    require_fixed_policy(request.policy, "the reward distribution")
    if not 0 < request.level < 1:
        raise OptionError(f"level is {request.level}; it must lie strictly between 0 and 1")
    events = weight_events(request, uses_model=False)
    sums = _sum_rewards(events)
    total = float(sums.weights.sum())
    if total == 0.0:
        raise EvaluationError(
            f"the policy gives probability 0 to the logged action in all {sums.n:,} events, so the log has no "
            "information about its rewards; use a log that explores the policy's actions"
        )
    cdf = np.minimum(np.cumsum(sums.weights) / total, 1.0)
    cdf[-1] = 1.0
    half = band_half_width(sums, request.level, request.seed)
    diagnostics = WeightDiagnostics(
        events=sums.n,
        effective_sample_size=effective_sample_size(total, float(sums.squares.sum())),
        mean_weight=total / sums.n,
        largest_weight=sums.largest,
        propensities_estimated=events.propensities_estimated,
    )
    low, high = np.maximum(cdf - half, 0.0), np.minimum(cdf + half, 1.0)
    name = request.policy_name or class_name_of(request.policy)
    return RewardDistribution(sums.rewards, cdf, low, high, request.level, name, diagnostics, sums)


def _sum_rewards(events: WeightedLog) -> RewardSums:
    if events.in_memory:
        blocks = list(events.blocks())
        return RewardSums.of(
            np.concatenate([block.residual for block in blocks]), np.concatenate([block.ratio for block in blocks])
        )
    sums = RewardSums.empty()
    for block in events.blocks():
        sums = (sums + RewardSums.of(block.residual, block.ratio)).merge_neighbours(MAX_VALUES)
    return sums


@dataclass(frozen=True, eq=False)
class RewardSums:
    """Sorted distinct rewards, with the sums of the weights and of their squares at each; sums of shards can be added.

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
        """Return the sums of events with these rewards and weights."""
        weight = np.asarray(weights, dtype=np.float64)
        return cls._group(weight.size, rewards, weight, weight**2, float(weight.max(initial=0.0)))

    @classmethod
    def empty(cls) -> RewardSums:
        """Return the sums of no events."""
        return cls.of([], [])

    @classmethod
    def _group(cls, n: int, rewards: Any, weights: FloatArray, squares: FloatArray, largest: float) -> RewardSums:
        """Add the sums of equal rewards."""
        values, index = np.unique(np.asarray(rewards, dtype=np.float64), return_inverse=True)
        return cls(n, values, _sum_by_index(index, weights), _sum_by_index(index, squares), largest)

    def __add__(self, other: RewardSums) -> RewardSums:
        rewards = np.concatenate([self.rewards, other.rewards])
        weights = np.concatenate([self.weights, other.weights])
        squares = np.concatenate([self.squares, other.squares])
        return self._group(self.n + other.n, rewards, weights, squares, max(self.largest, other.largest))

    def merge_neighbours(self, max_values: int) -> RewardSums:
        """Merge neighbouring rewards, at their weighted mean, so that at most ``max_values`` remain.

        >>> RewardSums.of([0.0, 1.0, 5.0, 6.0], [1.0, 3.0, 2.0, 2.0]).merge_neighbours(2).rewards
        array([0.75, 5.5 ])
        """
        if self.rewards.size <= max_values:
            return self
        cells = assign_cells(self.weights, max_values)
        weights, squares = _sum_by_index(cells, self.weights), _sum_by_index(cells, self.squares)
        totals = _sum_by_index(cells, self.weights * self.rewards)
        # a cell of weight 0 has no weighted mean: use its first reward
        first = self.rewards[np.searchsorted(cells, np.arange(weights.size))]
        means = np.divide(totals, weights, out=first, where=weights > 0)
        return self._group(self.n, means, weights, squares, self.largest)


def assign_cells(weights: FloatArray, max_cells: int) -> IntArray:
    """Return the cell of each value: cells are runs of neighbours of about the same weight, numbered from 0.

    >>> assign_cells(np.array([1.0, 1.0, 1.0, 1.0]), 2)
    array([0, 0, 1, 1])
    """
    share = (np.cumsum(weights) - weights / 2) / weights.sum()
    raw = np.minimum((share * max_cells).astype(np.int64), max_cells - 1)
    return np.unique(raw, return_inverse=True)[1].astype(np.int64)


def weighted_mean_error(terms: FloatArray, sums: RewardSums) -> float:
    """``sqrt(sum_k w_k^2 (z_k - mean)^2) / sum_k w_k`` of the weighted mean of z.

    >>> weighted_mean_error(np.array([0.0, 1.0]), RewardSums.of([0.0, 1.0], [1.0, 1.0]))
    0.3535533905932738

    By hand: both are 1/2 from the mean, and sqrt(1/2) / 2.
    """
    total = sums.weights.sum()
    mean = terms @ sums.weights / total
    return float(np.sqrt((terms - mean) ** 2 @ sums.squares) / total)


def band_half_width(sums: RewardSums, level: float, seed: int) -> float:
    """Half-width of the band: the ``level`` quantile of ``sup_t |sum_k g_k w_k (I(r_k <= t) - F(t))| / sum w``.

    The g are standard normal (multiplier bootstrap); the sum over equal rewards is normal with variance ``sum w^2``, so
    that one draw per distinct reward is enough.
    """
    cells = assign_cells(sums.weights, BAND_CELLS)
    weights, squares = _sum_by_index(cells, sums.weights), _sum_by_index(cells, sums.squares)
    cdf = np.cumsum(weights) / weights.sum()
    rng = np.random.default_rng((seed, SeedKey.REWARD_BOOTSTRAP))
    suprema = np.empty(BAND_DRAWS)
    for start in range(0, BAND_DRAWS, 100):
        steps = rng.standard_normal((100, weights.size)) * np.sqrt(squares)
        paths = np.cumsum(steps, axis=1)
        suprema[start : start + 100] = np.abs(paths - cdf * paths[:, -1:]).max(axis=1)
    return float(np.quantile(suprema, level) / weights.sum())


def _sum_by_index(index: npt.NDArray[np.intp] | IntArray, column: FloatArray) -> FloatArray:
    return np.bincount(index, column).astype(np.float64)
