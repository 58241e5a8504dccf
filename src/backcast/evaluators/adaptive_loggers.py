"""StableVar and CADR: fixed policies on the log of a logger that was learning while it collected the log.

The doubly robust values ``G_k`` of such a log have the right conditional mean, but their conditional variance follows
the logger, so that their plain mean need not be normal. Both evaluators weight ``G_k`` by one over an estimate of its
conditional standard deviation that is determined by the events before k: ``h_k (G_k - V)`` are then martingale
differences of similar variance, and a central limit theorem holds (docs/theory.md, section 7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest, require_fixed_policy
from backcast.errors import EvaluationError, OptionError
from backcast.estimate import Estimate, Interval, student_quantile
from backcast.evaluators._reward_predictions import PredictedPart, with_stream_model
from backcast.evaluators._weight_transforms import IDENTITY
from backcast.evaluators._weighted_estimate import describe_weights, require_overlap
from backcast.evaluators._weighted_events import WeightedBlock, WeightedLog, WeightFunction, weight_doubly_robust
from backcast.intervals._sample import FIXED_VALUE, RATIO, RESIDUAL, Moments
from backcast.intervals.asymptotic import adjusted_student_ends
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import probabilities_of
from backcast.reward_models.cross_fitting import CrossFit, Progressive, Split, default_model
from backcast.reward_models.regression import PerAction, RewardModel, is_estimator

MARTINGALE_CLT = "asymptotic martingale"
RECENT = 1 / 16  # weight of the latest event in a running mean: half of the total is on the latest eleven


class _VarianceEstimate(Protocol):
    """Estimates the conditional variance of each ``G_k`` from the events before k."""

    def of(self, block: WeightedBlock) -> FloatArray:
        """Return the estimates at the next block of events, then include its events."""
        ...


class _AdaptiveEstimator(Parametrized):
    """What StableVar and CADR share: progressive model, weighted mean, Student's interval."""

    name: ClassVar[str]

    def _weight(self) -> WeightFunction:
        """Return how events are weighted; what the variance estimate needs takes the place of the largest ratio."""
        raise NotImplementedError

    def _variance_estimate(self, log: Log) -> _VarianceEstimate:
        raise NotImplementedError

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Return the weighted mean with an interval that is valid for loggers that learn."""
        require_fixed_policy(request.policy, self.name)
        if request.interval is not None:
            raise OptionError(
                f"{type(request.interval).__name__} assumes independent events; leave interval out: {self.name} has an "
                "interval of its own, for loggers that learn"
            )
        request, notes = with_stream_model(
            replace(request, reward_model=progressive_model(request.reward_model, request.log))
        )
        first = next(request.log.parts())
        events = WeightedLog(request, self._weight(), uses_model=True, notes=notes)
        variances = self._variance_estimate(first)
        moments, sums = Moments.empty(), WeightedSums()
        for block in events.blocks():
            moments = moments + Moments.of(block.columns(IDENTITY))
            sums.add(*values_and_weights(block, variances))
        require_overlap(self.name, moments)
        value, error, effective = sums.value, sums.std_error, sums.effective_events
        interval = None
        if moments.n > 1:
            half = student_quantile(request.level, effective) * error
            ends = value - half, value + half
            if error == 0:
                # no event shows any variance: one that the log may have missed, as in AdjustedStudent
                missed = _missed_event(moments, events.reward_range)
                freedom = moments.effective_sample_size - 1
                ends = adjusted_student_ends(
                    value, 0.0, moments.n, imagined=missed, degrees_of_freedom=freedom, level=request.level
                )
            assumption = "asymptotic" if events.propensities_estimated else MARTINGALE_CLT
            interval = Interval(*ends, request.level, "stabilized t", assumption, FIXED_VALUE)

        influences = None
        if events.in_memory:
            again = self._variance_estimate(first)
            columns = [values_and_weights(block, again) for block in events.blocks()]
            g, h = (np.concatenate(column) for column in zip(*columns, strict=True))
            h = h if h.any() else np.ones_like(h)
            influences = np.asarray(h * (g - value) / h.mean())
        return Estimate(
            value=value,
            std_error=error,
            interval=interval,
            **describe_weights(self.name, request, events, moments),
            influences=influences,
        )


@dataclass(frozen=True)
class StableVar(_AdaptiveEstimator):
    """``sum_k h_k G_k / sum_k h_k`` with ``h_k = 1 / sqrt(E[sum_a pi(a|x)^2 / mu_k(a|x)])`` (Hadad et al. 2021).

    ``G_k = sum_a pi(a|x_k) q_k(x_k, a) + w_k (r_k - q_k(x_k, a_k))`` with a reward model ``q_k`` that is fitted on the
    events before k. The variance is ``sum_k h_k^2 (G_k - V)^2 / (sum_k h_k)^2``. Needs the logger's probabilities of
    all actions; :class:`CADR` does not.

    Without contexts ``mu_k`` is determined by the events before k, and so is its weight. With contexts the weight must
    not depend on ``x_k``, or the mean would be that of other contexts; Zhan et al. (2021) average over earlier
    contexts, at which a log does not record ``mu_k``. A running mean of ``sum_a pi^2 / mu`` over earlier events, each
    with its own ``mu``, replaces it, in which an event counts 15/16 of the next.

    Examples
    --------
    >>> from backcast.policies.fixed import Fixed
    >>> logging = [[0.5, 0.5], [0.125, 0.875]]
    >>> log = Log(None, actions=[0, 0], rewards=[1, 0], propensities=[0.5, 0.125], logging_probabilities=logging)
    >>> round(StableVar().estimate(EvaluationRequest(log, Fixed([1.0, 0.0]), reward_model=0.5)).value, 12)
    -0.166666666667

    By hand: the values are 0.5 + 2 * 0.5 = 1.5 and 0.5 - 8 * 0.5 = -3.5, their variances 2 and 8, so the first has
    twice the weight of the second.
    """

    name: ClassVar[str] = "StableVar"

    def _weight(self) -> WeightFunction:
        return _with_mean_ratio

    def _variance_estimate(self, log: Log) -> _VarianceEstimate:
        return _OwnVariance() if _depends_on_past_alone(log) else _RecentMean()


@dataclass(frozen=True)
class CADR(_AdaptiveEstimator):
    """``sum_k G_k/sigma_k / sum_k 1/sigma_k``: the contextual adaptive doubly robust estimator (Bibaut et al. 2021).

    ``G_k = sum_a pi(a|x_k) q_k(x_k, a) + w_k (r_k - q_k(x_k, a_k))`` with a reward model ``q_k`` that is fitted on the
    events before k, and ``sigma_k^2`` an estimate of its conditional variance from the events before k. The variance
    is ``sum_k (G_k - V)^2/sigma_k^2 / (sum_k 1/sigma_k)^2``. Needs only the propensities of the logged actions.

    The paper computes ``sigma_k`` with the logger's probabilities of round k at all earlier contexts, which a log does
    not record. Here it is ``u_k sum_j w_j e_j^2 / sum_j w_j + var_j(b_j)`` over earlier events j, with residuals e and
    model values b; one event of weight 1 with the mean squared residual is added, for the first events. ``u_k`` is a
    running mean, as in :class:`StableVar`, of ``pi^2/p + (1-pi)^2/(1-p)`` of the logged action: the least that
    ``sum_a pi^2/mu`` can be, and equal to it for two actions.

    Parameters
    ----------
    published
        Compute ``sigma_k`` as published. It needs the logger's probabilities of all actions in a log without contexts,
        and is unstable for actions that the logger hardly explored.

    Examples
    --------
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 0, 0], rewards=[1, 1, 0], propensities=[0.5, 0.5, 0.125], n_actions=2)
    >>> round(CADR().estimate(EvaluationRequest(log, Fixed([1.0, 0.0]), reward_model=0.5)).value, 4)
    -0.9665

    By hand: the values are 1.5, 1.5 and -3.5, and every squared residual is 1/4. The first event has no variance
    estimate and no weight. ``u`` is 1 before it, 1 + 1/16 = 17/16 before the second (where ``pi^2/p`` is 2), and
    17/16 + 15/256 = 287/256 before the third, so that the weights are 8/sqrt(17) and 32/sqrt(287).
    """

    published: bool = False
    name: ClassVar[str] = "CADR"

    def __post_init__(self) -> None:
        if not isinstance(self.published, bool):
            raise OptionError(f"published is {self.published!r}; give True or False")

    def _weight(self) -> WeightFunction:
        return _PublishedVariance() if self.published else _with_smallest_mean_ratio

    def _variance_estimate(self, log: Log) -> _VarianceEstimate:
        return _OwnVariance() if self.published else _ResidualVariance()


def _missed_event(moments: Moments, reward_range: tuple[float, float] | None) -> tuple[float, float]:
    """Return the least and the largest deviation of an event of the mean weight that the policy meets."""
    weight = moments.sum_of_products(RATIO, RATIO) / (moments.n * float(moments.mean[RATIO]))
    width = 0.0 if reward_range is None else reward_range[1] - reward_range[0]
    least, most = min(float(moments.low[RESIDUAL]), -width), max(float(moments.high[RESIDUAL]), width)
    return weight * least, weight * most


def progressive_model(model: Any, log: Log | LogStream) -> Any:
    """Return the reward model such that no prediction depends on later events.

    >>> progressive_model(None, Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5]))
    Progressive(model=PerAction(estimator=None, weights=None), first=100, growth=1.5)
    """
    if isinstance(model, CrossFit | Split):
        kind = type(model).__name__
        raise OptionError(
            f"{kind} fits the reward model on later events too, on which the logger's choices depend; give "
            f"Progressive({type(model.model).__name__}()), or leave reward_model out"
        )
    if model is None:
        return Progressive(default_model(log))
    if callable(getattr(model, "predictions", None)):
        return model
    if is_estimator(model):
        return Progressive(PerAction(model))
    return Progressive(model) if isinstance(model, RewardModel) else model


def _depends_on_past_alone(log: Log) -> bool:
    """Return whether the logger's probabilities of an event are determined by earlier events: there is no context."""
    return log.n_features == 0 and log.columns.available is None


def _logging_probabilities(block: Log, evaluator: str) -> FloatArray:
    logging = block.columns.logging_probabilities
    if logging is None:
        raise EvaluationError(
            f"{evaluator} needs the logger's probabilities of all actions and this log records only those of the "
            "logged ones; pass logging_probabilities to the log, or use CADR()"
        )
    return logging


def _with_mean_ratio(policy: Any, part: PredictedPart, block: Log, positions: IntArray) -> WeightedBlock:
    """Weight events, with ``sum_a pi^2 / mu``, the mean of the ratio under the policy."""
    logging = _logging_probabilities(block, "StableVar")
    target = probabilities_of(policy, block)
    squares = np.divide(target**2, logging, out=np.zeros_like(target), where=logging > 0).sum(axis=1)
    return weight_doubly_robust(policy, part, block, positions)._replace(bound=squares)


def _with_smallest_mean_ratio(policy: Any, part: PredictedPart, block: Log, positions: IntArray) -> WeightedBlock:
    """Weight events, with the least that ``sum_a pi^2 / mu`` can be, given pi and mu of the logged action."""
    weighted = weight_doubly_robust(policy, part, block, positions)
    p = block.columns.propensities
    target = weighted.ratio * p
    others = np.divide((1 - target) ** 2, 1 - p, out=np.zeros_like(p), where=p < 1)
    return weighted._replace(bound=weighted.ratio * target + others)


class _PublishedVariance:
    """Weights events, with the variance estimate of Bibaut et al. (2021), section 3.

    ``D_k(s)`` is the doubly robust value of an earlier event s under the logger and the model of event k. Its variance
    under that logger is estimated by the means of ``mu_k/mu_s D_k(s)^2`` and ``mu_k/mu_s D_k(s)`` over the events
    before k. Without contexts they follow from the sums of ``r^j / mu_s`` by action, with j = 0, 1, 2.
    """

    def __init__(self) -> None:
        self._sums: FloatArray = np.zeros((3, 1, 1))
        self._n = 0

    def __call__(self, policy: Any, part: PredictedPart, block: Log, positions: IntArray) -> WeightedBlock:
        if not _depends_on_past_alone(block):
            raise EvaluationError(
                "CADR(published=True) needs the logger's probabilities at earlier contexts, which a log does not "
                "record; use CADR() for a log with contexts or available actions"
            )
        logging = _logging_probabilities(block, "CADR(published=True)")
        target, predicted = probabilities_of(policy, block), part.table(block, positions)
        weighted = weight_doubly_robust(policy, part, block, positions)
        is_taken = np.arange(block.n_actions) == block.columns.actions[:, None]
        powers = block.columns.rewards ** np.arange(3)[:, None] / block.columns.propensities
        sums = self._sums + np.cumsum(powers[:, :, None] * is_taken, axis=1)
        ones, rewards, squares = np.concatenate([self._sums + np.zeros_like(sums[:, :1]), sums[:, :-1]], axis=1)
        self._sums = sums[:, -1:]
        n = np.maximum(self._n + np.arange(len(block)), 1)
        self._n += len(block)
        ratio = np.divide(target, logging, out=np.zeros_like(target), where=logging > 0)
        base = weighted.base[:, None]
        residuals = rewards - predicted * ones
        squared_residuals = squares - 2 * predicted * rewards + predicted**2 * ones
        second = logging * (ratio**2 * squared_residuals + 2 * ratio * base * residuals + base**2 * ones)
        first = logging * (ratio * residuals + base * ones)
        return weighted._replace(bound=second.sum(axis=1) / n - (first.sum(axis=1) / n) ** 2)


class _OwnVariance:
    """What the event itself has, for loggers whose probabilities the past determines."""

    def of(self, block: WeightedBlock) -> FloatArray:
        return block.bound


class _RecentMean:
    """A running mean over earlier events, which starts at 1, the least that ``sum_a pi^2 / mu`` can be.

    The latest events count most, because a logger that learns may jump from one action to another: with the mean over
    all earlier events the root mean squared error was up to 1.15 times that of DR, with this one at most 1.00 times.
    """

    def __init__(self) -> None:
        self._latest = 1.0

    def of(self, block: WeightedBlock) -> FloatArray:
        from scipy.signal import lfilter

        means, _ = lfilter([RECENT], [1.0, RECENT - 1], block.bound, zi=[(1 - RECENT) * self._latest])
        earlier = np.append(self._latest, means[:-1])
        self._latest = float(means[-1])
        return earlier


class _ResidualVariance:
    """The variance estimate of :class:`CADR`, from running sums over earlier events."""

    def __init__(self) -> None:
        self._mean_ratio = _RecentMean()
        self._sums = np.zeros((6, 1))
        self._centre: float | None = None

    def of(self, block: WeightedBlock) -> FloatArray:
        if self._centre is None:
            self._centre = float(block.base[0])
        w, e, b = block.ratio, block.residual, block.base - self._centre
        columns = np.array([np.ones_like(w), w, e**2, w * e**2, b, b**2])
        sums = self._sums + np.cumsum(np.append(np.zeros((6, 1)), columns, axis=1), axis=1)
        self._sums = sums[:, -1:]
        n, w, ee, wee, b, bb = sums[:, :-1]
        n = np.maximum(n, 1.0)
        residual_variance = (wee + ee / n) / (w + 1.0)
        return np.asarray(self._mean_ratio.of(block) * residual_variance + np.maximum(bb / n - (b / n) ** 2, 0.0))


def values_and_weights(block: WeightedBlock, variances: _VarianceEstimate) -> tuple[FloatArray, FloatArray]:
    """Return ``G_k`` and ``h_k`` of a block; the weight is 0 while no earlier event shows any variance."""
    variance = variances.of(block)
    positive = variance > 0
    h = np.where(positive, 1.0 / np.sqrt(np.where(positive, variance, 1.0)), 0.0)
    return block.base + block.ratio * block.residual, h


class WeightedSums:
    """Sums of ``h^i (G - c)^j`` from which a weighted mean and its error follow, in one pass.

    >>> sums = WeightedSums()
    >>> sums.add(np.array([0.0, 4.0]), np.array([3.0, 1.0]))
    >>> sums.value, sums.std_error, sums.effective_events
    (1.0, 1.0606601717798212, 2.0)

    By hand: (3 * 0 + 1 * 4) / 4 = 1; h (G - V) is -3 and 3, so the error is sqrt(18) / 4.
    """

    def __init__(self) -> None:
        self._centre: float | None = None
        # rows: i = 0 (no weights), 1, 2, 4; columns: j = 0..4
        self._sums = np.zeros((4, 5))

    def add(self, g: FloatArray, h: FloatArray) -> None:
        """Add a block of values with their weights."""
        if self._centre is None:
            self._centre = float(g.mean())
        powers = (g - self._centre)[:, None] ** np.arange(5)
        self._sums += np.array([np.ones_like(h), h, h**2, h**4]) @ powers

    def _weighted(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sums with weights h, h^2 and h^4; if no event has a weight, all have the same."""
        plain, *weighted = self._sums
        h, h2, h4 = weighted if weighted[0][0] > 0 else (plain, plain, plain)
        return h, h2, h4

    def _central_powers(self) -> tuple[float, float]:
        """Return the sums of the second and of the fourth power of ``h (G - V)``."""
        h, h2, h4 = self._weighted()
        shift = -h[1] / h[0]
        square = h2[2] + 2 * shift * h2[1] + shift**2 * h2[0]
        fourth = h4 @ (shift ** np.arange(4, -1, -1) * np.array([1, 4, 6, 4, 1]))
        return max(float(square), 0.0), max(float(fourth), 0.0)

    @property
    def value(self) -> float:
        """The weighted mean."""
        h = self._weighted()[0]
        assert self._centre is not None
        return self._centre + float(h[1] / h[0])

    @property
    def std_error(self) -> float:
        """``sqrt(sum h^2 (G - V)^2) / sum h`` (Hadad et al. 2021)."""
        return float(np.sqrt(self._central_powers()[0]) / self._weighted()[0][0])

    @property
    def effective_events(self) -> float:
        """``(sum u^2)^2 / sum u^4`` of ``u = h (G - V)``: how many events carry the variance; at least 1."""
        square, fourth = self._central_powers()
        return max(square**2 / fourth, 1.0) if fourth > 0 else float("inf")
