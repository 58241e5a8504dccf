"""Estimate, Interval, Difference, LearningCurve, AfterLearning: what an evaluation returns; blocks of rounds."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._equality import ContentEquality
from backcast._serialization import from_json, to_json
from backcast.break_even import BreakEven
from backcast.diagnostics import OtherDiagnostics, diagnostics_from
from backcast.errors import EvaluationError, OptionError
from backcast.log import Log
from backcast.provenance import Provenance

if TYPE_CHECKING:
    from backcast.grading import Reliability
    from backcast.policies.base import Policy
    from backcast.replay_summary import ReplaySummary

CURVE_POINTS = 50  # points of a learning curve
POLICY_VALUE = "V_T(pi): what the policy earns per round, on average over its first T rounds"
PROGRESSIVE_VALUE = "V(pi_PV): the value of the progressive-validation policy of this run"
LAST_ROUNDS = "V_t: what the policy earns per round, on average over its last rounds"
END_POLICY = "V_T: what the policy of the last round earns per round if it is frozen there, on average over histories"
SAMPLES = ("influences", "pass_values", "group_values")  # fields of an estimate that are saved on request only
LOGGED = "logged"  # name of the baseline that is the log itself
PAIRED_BY_EVENT = "paired by event"


@dataclass(frozen=True, eq=False)
class Interval(ContentEquality):
    """A confidence interval with its level, method, assumption and estimand.

    ``assumption`` is one of "independent" (events are i.i.d.), "martingale" (any logger that does not look ahead),
    "asymptotic" (enough events; also wherever propensities were estimated), "asymptotic martingale" (both),
    "reward model" (the reward model has the right form).

    Examples
    --------
    >>> print(Interval(0.25, 0.75, 0.95, "normal", "asymptotic", POLICY_VALUE))
    [0.25, 0.75] (95 % normal)
    """

    low: float
    high: float
    level: float
    method: str
    assumption: str
    estimand: str

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}] ({100 * self.level:g} % {self.method})"


class Precision(NamedTuple):
    """Variance over logs, Monte-Carlo variance, degrees of freedom of the standard error, and its method.

    ``bias`` is the size of the bias estimate, by which an interval is widened.
    """

    sampling: float
    monte_carlo: float
    degrees_of_freedom: float
    method: str = ""
    bias: float = 0.0

    @property
    def std_error(self) -> float:
        """Root of both variances together."""
        return math.sqrt(self.sampling + self.monte_carlo)


@dataclass(frozen=True, eq=False)
class Difference(ContentEquality):
    """How much more the first policy earns than the second, per round: the first value minus the second.

    The interval is Student's t. If few effective events carry one of the values, it also allows for one event that the
    log may have missed, as :class:`backcast.AdjustedStudent` does, and is within what the reward range allows.
    ``monte_carlo_error`` is the part of the standard error that more replicates would reduce; the remainder only a
    longer log would. ``degrees_of_freedom`` are those of the standard error.

    A lift is the difference to a baseline. ``relative`` is the same as a share of the value of the baseline, with
    Fieller's interval, which excludes 0 if and only if ``interval`` does; nan and None if the log does not show that
    the baseline is above 0.

    Examples
    --------
    >>> interval = Interval(0.25, 0.75, 0.95, "paired by event", "independent", POLICY_VALUE)
    >>> print(Difference("new", "logged", 0.5, 0.125, interval, relative=0.25))
    new - logged: +0.5 [0.25, 0.75] (95 % paired by event), +25 %
    """

    first: str
    second: str
    value: float
    std_error: float
    interval: Interval
    monte_carlo_error: float = 0.0
    degrees_of_freedom: float = math.inf
    relative: float = math.nan
    relative_interval: Interval | None = None

    def __neg__(self) -> Difference:
        """Return the second minus the first; the share is that of the first, and known if its interval has an end.

        >>> interval = Interval(-0.25, 0.5, 0.95, "paired by event", "independent", POLICY_VALUE)
        >>> print(-Difference("new", "logged", 0.25, 0.125, interval))
        logged - new: -0.25 [-0.5, 0.25] (95 % paired by event)
        """
        turned = replace(self.interval, low=-self.interval.high, high=-self.interval.low)
        relative, share = math.nan, self.relative_interval
        if share is not None and share.low > -1:
            # (b - a) / a for the share s = (a - b) / b, which falls as s rises
            relative = -self.relative / (1 + self.relative)
            share = replace(share, low=-share.high / (1 + share.high), high=-share.low / (1 + share.low))
        else:
            share = None
        negative = replace(self, first=self.second, second=self.first, value=-self.value, interval=turned)
        return replace(negative, relative=relative, relative_interval=share)

    def __str__(self) -> str:
        share = "" if math.isnan(self.relative) else f", {100 * self.relative:+.3g} %"
        return f"{self.first} - {self.second}: {self.value:+.4g} {self.interval}{share}"


@dataclass(frozen=True, eq=False)
class BiasEstimate(ContentEquality):
    """Estimated bias of a value in units of reward, its standard error, and the method.

    The bias is that of a simulated history: events ran out, or acceptance probabilities were cut off. An interval is
    widened by it; the value is not corrected, because the correction would add more error than it removes.

    Examples
    --------
    >>> BiasEstimate(-0.25, 0.5, "subsets of the log").size
    0.5
    """

    value: float
    std_error: float
    method: str

    @property
    def size(self) -> float:
        """The larger of the absolute bias and its error, which is added to a standard error in quadrature."""
        return max(abs(self.value), self.std_error)

    def __str__(self) -> str:
        return f"{self.value:+.2g} ± {self.std_error:.2g} ({self.method})"


@dataclass(frozen=True, eq=False)
class LearningCurve(ContentEquality):
    """Value by round: estimates of V_t averaged over blocks of rounds that end at ``rounds``, with a band.

    Examples
    --------
    >>> import numpy as np
    >>> half = np.array([0.5])
    >>> LearningCurve(rounds=np.array([10]), value=half, low=half - 0.25, high=half + 0.25).to_dict()
    {'rounds': [10], 'value': [0.5], 'low': [0.25], 'high': [0.75]}
    """

    rounds: IntArray
    value: FloatArray
    low: FloatArray
    high: FloatArray

    def to_dict(self) -> dict[str, list[float]]:
        """Return lists, for JSON."""
        return {
            "rounds": self.rounds.tolist(),
            "value": self.value.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }


@dataclass(frozen=True, eq=False)
class AfterLearning(ContentEquality):
    """What a learning policy earns per round once it has learned, where the value of the estimate includes learning.

    Attributes
    ----------
    first_round
        The first of the last rounds that are averaged, about a fifth of all.
    value, std_error, interval
        Mean of V_t over the rounds from ``first_round`` to the horizon.
    end_value, end_std_error, end_interval
        Value of the policy of the last round, averaged over histories: what it would go on to earn if it were frozen
        there. nan and None if the evaluator does not give it.

    Examples
    --------
    >>> interval = Interval(0.25, 0.75, 0.95, "infinitesimal jackknife", "independent", LAST_ROUNDS)
    >>> AfterLearning(81, 0.5, 0.125, interval).interval.half_width
    0.25
    """

    first_round: int
    value: float
    std_error: float
    interval: Interval
    end_value: float = math.nan
    end_std_error: float = math.nan
    end_interval: Interval | None = None

    def within(self, low: float, high: float) -> AfterLearning:
        """Return the values and the ends of the intervals moved into a range that holds every true value."""

        def moved(interval: Interval) -> Interval:
            return replace(interval, low=min(max(interval.low, low), high), high=min(max(interval.high, low), high))

        return replace(
            self,
            value=min(max(self.value, low), high),
            interval=moved(self.interval),
            end_value=self.end_value if math.isnan(self.end_value) else min(max(self.end_value, low), high),
            end_interval=self.end_interval and moved(self.end_interval),
        )


class LogComputation:
    """A result that is computed from the log on request; the log is not kept alive for it, and not pickled.

    ``stored`` means that the result is kept, also when this is pickled.

    >>> log = Log(None, actions=[0, 1], rewards=[1, 2], propensities=[0.5, 0.5])
    >>> mean = LogComputation(lambda log: float(log.rewards.mean()), log)
    >>> mean(), mean(log[:1])
    (1.5, 1.0)
    """

    def __init__(self, function: Callable[[Log], Any] | None, log: Log | None, *, stored: bool = False) -> None:
        self._function = function
        self._log = None if log is None else weakref.ref(log)
        self._stored, self._result = stored, None

    @property
    def log(self) -> Log | None:
        """The log that was evaluated, if it is still in memory."""
        return None if self._log is None else self._log()

    @property
    def lacks_log(self) -> bool:
        """Whether the result is not known, and the log that was evaluated is not in memory any more."""
        return self._result is None and self.log is None

    def __call__(self, log: Log | None = None) -> Any:
        """Return the result on this log or on the one that was evaluated; None if that is not in memory any more."""
        log = self.log if log is None else log
        if self._result is not None or self._function is None or log is None:
            return self._result
        result = self._function(log)
        self._result = result if self._stored else None
        return result

    def with_log(self, log: Log) -> LogComputation:
        """Return the same computation on another log."""
        return LogComputation(self._function, log, stored=self._stored)

    def without_head(self, log: Log, n_head: int) -> LogComputation:
        """Return the same computation for a log whose first events are left out."""
        function = self._function
        if function is None or n_head == 0:
            return self.with_log(log)
        return LogComputation(lambda whole: function(whole[n_head:]), log, stored=self._stored)

    @classmethod
    def of_result(cls, result: Any) -> LogComputation:
        """Return a computation whose result is known."""
        computation = cls(None, None, stored=True)
        computation._result = result
        return computation

    def __reduce__(self) -> tuple[Any, ...]:
        return LogComputation.of_result, (self._result,)


@dataclass(frozen=True, eq=False)
class Estimate(ContentEquality):
    """What a policy would have earned.

    An estimate holds no log, so it can be stored, pickled, compared with ``==`` and hashed. Two estimates are equal if
    all of their results are; provenance is not compared.

    Attributes
    ----------
    value
        Estimated mean reward per round.
    std_error
        Standard error of the value; nan if no valid one is known.
    interval
        Interval with its method, assumption and estimand; None if no valid one is known.
    diagnostics
        Diagnostics that show how reliable the value is; print them by ``print(estimate.diagnostics)``.
    curve
        Value by round, from evaluators that estimate it.
    policy, evaluator
        Names of the policy and of the evaluator.
    bias_estimate
        Estimated bias of the value, with its error, from evaluators that simulate histories; None if it is not known.
        The interval is widened by it, the standard error is not.
    horizon
        Number of rounds T; None for one pass over the log.
    notes
        Remarks on how the value was obtained and how to read it.
    settings
        Settings of the evaluator, for tables and reports.
    influences
        Influence of each event on the value, in log order: the value is off by their mean, so their standard deviation
        over the root of n is the standard error due to the log, apart from Monte-Carlo noise of passes. From
        evaluators of fixed policies and from ``ClockReplay``, of a log in memory. Eight bytes per event, at most a
        quarter of what the log itself takes; None for a stream, whose events are not held in memory either.
    pass_values
        Value of each pass over the whole log, of evaluators that run passes; their spread is Monte-Carlo noise.
    group_values
        Values of disjoint groups of events whose mean has the standard error of the value: of the segments or the parts
        of a stream, or the pseudo-values of the groups of a jackknife.
    lift
        How much more the policy earns than the log did, per round and as a share of it: the value minus the mean of
        the logged rewards, on the same events. None without a standard error, or for other quantities than the mean.
    break_even
        When a learning policy begins to earn more than the baseline, and when it has paid for its learning, with
        intervals. The baseline is the mean of the logged rewards, or the policy that is the ``baseline`` of
        :func:`backcast.compare`. None for fixed policies, and from evaluators whose curve has no standard error over
        logs.
    after_learning
        What a learning policy earns in the last fifth of the rounds, and frozen at their end; None as above.
    provenance
        Everything that is needed to run the evaluation again: log, files, policy, options, versions; None for an
        estimate that :func:`backcast.evaluate` or :func:`backcast.compare` did not make.

    Examples
    --------
    >>> from backcast.diagnostics import ModelDiagnostics
    >>> estimate = Estimate(0.5, float("nan"), None, ModelDiagnostics(4, 4, 1), policy="Uniform()", evaluator="DM")
    >>> estimate.to_dict()["value"], estimate.to_dict()["std_error"]
    (0.5, None)
    """

    value: float
    std_error: float
    # "| Any" (typeshed's convention for values that are hardly ever None): type checkers accept estimate.interval.low
    interval: Interval | Any
    diagnostics: Any  # Diagnostics, of which each kind has fields of its own
    policy: str
    evaluator: str
    curve: LearningCurve | None = None
    horizon: int | None = None
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    influences: FloatArray | None = field(default=None, repr=False, compare=False)
    pass_values: FloatArray | None = field(default=None, repr=False, compare=False)
    group_values: FloatArray | None = field(default=None, repr=False, compare=False)
    lift: Difference | None = None
    break_even: BreakEven | None = None
    after_learning: AfterLearning | None = None
    bias_estimate: BiasEstimate | None = None
    provenance: Provenance | None = field(default=None, repr=False, compare=False)
    _progressive: LogComputation | None = field(default=None, repr=False, compare=False)
    # precision of the value minus the mean of the logged rewards, from evaluators that pair the two
    _lift_precision: Precision | None = field(default=None, repr=False, compare=False)
    _replay_summary: LogComputation | None = field(default=None, repr=False, compare=False)

    @property
    def reliability(self) -> Reliability:
        """Grade of the estimate, the reasons for it, and what would improve it."""
        from backcast.grading import grade

        return grade(self)

    def __str__(self) -> str:
        from backcast.report.text import estimate_text

        return estimate_text(self)

    def to_dict(self, *, influences: bool = False) -> dict[str, Any]:
        """Return the estimate as numbers, strings, lists and dicts for JSON; nan becomes None.

        The entry ``kind`` of the diagnostics is their class, for :meth:`from_dict`. ``influences``, ``pass_values`` and
        ``group_values`` are included on request only: they may be as long as the log. Provenance, which has a date, is
        not part of it: the same evaluation gives the same entries. :func:`backcast.save_result` writes both.
        The entry ``reliability`` follows from the others.
        """
        left_out: Any = dict.fromkeys(("provenance", *(() if influences else SAMPLES)))
        kind = type(self.diagnostics).__name__
        if isinstance(self.diagnostics, OtherDiagnostics):
            kind = self.diagnostics.kind or kind
        diagnostics = {"kind": kind, **self.diagnostics.to_dict()}
        entries = {**to_json(replace(self, **left_out)), "diagnostics": to_json(diagnostics)}
        entries["reliability"] = to_json(self.reliability)
        return {name: entry for name, entry in entries.items() if name not in left_out}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Estimate:
        """Return the estimate that :meth:`to_dict` stored, without its progressive policy."""
        estimate = from_json(cls, stored, "estimate")
        return replace(estimate, diagnostics=diagnostics_from(stored["diagnostics"]))

    def plot(self) -> Any:
        """Return an Altair chart of the learning curve with its band, or of the value with its interval."""
        from backcast.report.charts import plot_result

        return plot_result(self)

    def to_frame(self) -> Any:
        """Return one row as an Arrow table; its columns are those of :meth:`Comparison.to_frame`."""
        from backcast.report.frames import estimate_frame

        return estimate_frame(self)

    def replay_summary(self, log: Log | None = None) -> ReplaySummary | None:
        """Return a summary of one pass, which is run again on the first call; None if there is none, as for a stream.

        It needs the log, which the estimate does not hold: pass it if it is no longer in memory elsewhere. A summary
        that was computed before the estimate is pickled is pickled with it.
        """
        self._check_log(log)
        summary: ReplaySummary | None = None if self._replay_summary is None else self._replay_summary(log)
        return summary

    def progressive_policy(self, log: Log | None = None) -> Policy:
        """Return pi_PV, the mixture of the policies of all rounds (Dudik et al. 2012, section 3.3).

        It needs the log, which the estimate does not hold: pass it if it is no longer in memory elsewhere.
        """
        self._check_log(log)
        if self._progressive is None:
            raise EvaluationError(f"{self.evaluator} gives no progressive policy; use DRns with a log in memory")
        policy: Policy | None = self._progressive(log)
        if policy is None:
            raise EvaluationError(
                "the progressive policy consists of events of the log, which is no longer in memory; give it as "
                "progressive_policy(log), in the process that evaluated the policy"
            )
        return policy

    def _check_log(self, log: Log | None) -> None:
        """Raise if this is not the log that was evaluated."""
        if log is None or self.provenance is None:
            return
        digest, expected = log.fingerprint(), self.provenance.log.digest
        if digest != expected:
            raise OptionError(f"log has the digest {digest}, and {expected} was evaluated; give the same log")


def normal_quantile(level: float) -> float:
    """Return z with ``P(|Z| <= z) = level`` for a standard normal Z.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def student_quantile(level: float, degrees_of_freedom: float) -> float:
    """Return t with ``P(|T| <= t) = level`` for Student's T; the degrees of freedom may be infinite.

    >>> round(student_quantile(0.5, 1), 6)
    1.0
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 0.5 + level / 2))


def block_edges(n: int, n_blocks: int = CURVE_POINTS) -> IntArray:
    """Return the edges of at most ``n_blocks`` blocks of nearly equal length.

    >>> block_edges(5, n_blocks=2)
    array([0, 2, 5])
    """
    return np.unique(np.linspace(0, n, min(n, n_blocks) + 1).astype(np.int64))


def block_means(values: FloatArray, edges: IntArray) -> FloatArray:
    """Return the means of consecutive blocks.

    >>> block_means(np.array([1.0, 3.0, 5.0]), np.array([0, 2, 3]))
    array([2., 5.])
    """
    return np.asarray(np.add.reduceat(values, edges[:-1]) / np.diff(edges))


def mean_curve(rounds: IntArray, values: FloatArray, level: float) -> LearningCurve:
    """Return the mean of independent curves ``(m, points)`` with a pointwise band of Student's t."""
    m = len(values)
    value = values.mean(axis=0)
    half_width = student_quantile(level, m - 1) * values.std(axis=0, ddof=1) / math.sqrt(m)
    return LearningCurve(rounds, value, value - half_width, value + half_width)


def average_curves(curves: Sequence[LearningCurve], level: float) -> LearningCurve:
    """Return the mean of independent curves over the blocks of the shortest, with a band of Student's t.

    >>> ends, flat = np.array([1, 2]), np.array([0.5, 0.5])
    >>> first = LearningCurve(ends, np.array([0.0, 1.0]), flat, flat)
    >>> second = LearningCurve(ends + 2, np.array([1.0, 3.0]), flat, flat)
    >>> average = average_curves([first, second], level=0.5)
    >>> average.value, average.high
    (array([0.5, 1. ]), array([1., 1.]))

    By hand: the second curve is 1 in both of the first two rounds. In the first round the two differ by 1, so the mean
    has the standard error 1/2, and Student's quartile with 1 degree of freedom is 1.
    """
    rounds = min((curve.rounds for curve in curves), key=lambda ends: int(ends[-1]))
    return mean_curve(rounds, np.array([_average_over(curve, rounds) for curve in curves]), level)


def _average_over(curve: LearningCurve, rounds: IntArray) -> FloatArray:
    """Average a curve over blocks that end at these rounds."""
    if np.array_equal(curve.rounds, rounds):
        return curve.value
    edges, new_edges = np.append(0, curve.rounds), np.append(0, rounds)
    total = np.append(0.0, np.cumsum(curve.value * np.diff(edges)))
    return np.asarray(np.diff(np.interp(new_edges, edges, total)) / np.diff(new_edges))
