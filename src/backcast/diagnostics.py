"""Diagnostics of an evaluation: one dataclass per kind of evaluator, and how those of segments are pooled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backcast._equality import ContentEquality
from backcast._serialization import from_json


class Diagnostics(Protocol):
    """Diagnostics of an evaluation."""

    @property
    def events(self) -> int:
        """Number of events used."""

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnostics by name."""


def effective_sample_size(weight_sum: float, squared_sum: float) -> float:
    """Return ``(sum w)^2 / sum w^2``: how many equally weighted events these weights are worth (0 if all are 0).

    >>> effective_sample_size(4.0, 6.0)
    2.6666666666666665
    """
    return weight_sum**2 / squared_sum if squared_sum else 0.0


TOP_EVENTS, TOP_SHARE = 5, 0.25  # number of the largest events, and their share of a sum that is too much
FEWEST_FOR_TOP = 100  # events from which five of them are few


def share_of_largest(values: NDArray[np.float64]) -> float:
    """Return the share of the five largest in the sum of absolute values; 0 if there are fewer than 100 values.

    >>> share_of_largest(np.array([95.0] * 5 + [5.0] * 95))
    0.5
    """
    sizes = np.abs(values)
    total = float(sizes.sum())
    if sizes.size < FEWEST_FOR_TOP or not 0 < total < np.inf:
        return 0.0
    return float(np.partition(sizes, -TOP_EVENTS)[-TOP_EVENTS:].sum()) / total


@dataclass(frozen=True, eq=False)
class PrintedDiagnostics(ContentEquality):
    """Base of diagnostics: printed one per line."""

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnostics by name."""
        return asdict(self)

    def __str__(self) -> str:
        entries = self.to_dict()
        width = max(map(len, entries), default=0)
        return "\n".join(f"{name.replace('_', ' '):<{width}}  {_to_text(value)}" for name, value in entries.items())


def _to_text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, eq=False)
class WeightDiagnostics(PrintedDiagnostics):
    """Diagnostics of estimators that weight events by ``pi / p``, for fixed policies.

    If few events carry the estimate, ``least_covered_action`` is the action of the policy that the log supports least,
    and ``least_covered_share`` the probability with which the logger took it.
    """

    events: int
    effective_sample_size: float
    mean_weight: float
    largest_weight: float
    propensities_estimated: bool = False
    least_covered_action: str | None = None
    least_covered_share: float = math.nan


@dataclass(frozen=True, eq=False)
class ModelDiagnostics(PrintedDiagnostics):
    """Diagnostics of the direct method, whose value depends on the reward model alone."""

    events: int
    rounds: int
    trajectories: int
    propensities_estimated: bool = False


@dataclass(frozen=True, eq=False)
class ReplayDiagnostics(PrintedDiagnostics):
    """Diagnostics of evaluators that simulate histories by accepting events.

    Attributes
    ----------
    events, accepted, acceptance_rate
        Events used, how many were accepted into a history, and their share.
    trajectories_complete, trajectories_failed
        Histories that reached the horizon, and those that ran out of events.
    effective_sample_size
        ``(sum w)^2 / sum w^2`` over the events.
    mean_weight, largest_weight
        Of ``w = pi / p``; the mean is 1 in expectation.
    bias_mass
        ``sum max(0, c w - 1) / sum c``: the estimated mass that acceptance at most 1 cuts off.
    cut_share
        Share of events whose acceptance probability was cut at 1.
    bias_certificate
        Estimated bound on the total variation between the simulated and the true history: ``sum max(0, c w - 1)``
        over a trajectory. Its blocks estimate ``eps_t / (1 - eps_t)`` without bias (by Wald's identity), where the
        mean over a block would be biased upwards, because blocks end early at the very events that are cut.
    theorem_1
        The paper's bound on the bias of the average reward, ``(T+1)/2 eps/(1-eps)``, with eps the bias mass.
    value_per_round
        ``R / T``, the unnormalised variant of the value (nan if no block was completed).
    propensities_estimated
        Whether propensities were estimated from the log rather than recorded.
    """

    events: int
    accepted: int
    acceptance_rate: float
    trajectories_complete: int
    trajectories_failed: int
    effective_sample_size: float
    mean_weight: float
    largest_weight: float
    bias_mass: float
    cut_share: float
    bias_certificate: float
    theorem_1: float
    value_per_round: float
    propensities_estimated: bool = False


@dataclass(frozen=True, eq=False)
class ClockDiagnostics(PrintedDiagnostics):
    """Diagnostics of clock replay.

    Attributes
    ----------
    events, rounds
        Events of the log, and rounds T of a pass.
    passes, replicates
        Passes over the whole log, for the value; replicates on subsets of groups, for its error.
    bias_certificate
        Mean over passes of the exhausted mass, summed over rounds: bounds the total variation between the simulated
        and the true history.
    sampling_error, monte_carlo_error
        Standard deviation over logs, and over passes on one log.
    value_spread
        Standard deviation of the doubly robust event values, each averaged over rounds and passes; divided by the
        root of n it is the first term of the yardstick of docs/theory.md, section 5.
    separate_histories
        Number of histories without a common event that carry the same information as the log. At most n/T, fewer if
        the logger rarely chooses what the policy would.
    propensities_estimated
        Whether propensities were estimated from the log rather than recorded.
    degrees_of_freedom
        Precision of the standard error itself: its relative error is about ``1 / sqrt(2 df)``.
    filled_share
        Share of rounds for which the log had no event left, so that one was drawn again with a reward of the model.
    effective_events
        Number of events of equal influence from which the standard error would be as uncertain: with ``D_k`` the
        influence of event k by being read, ``(sum D_k^2)^2 / sum D_k^4``. Not known for the group jackknife.
    """

    events: int
    rounds: int
    passes: int
    replicates: int
    bias_certificate: float
    sampling_error: float
    monte_carlo_error: float
    value_spread: float
    separate_histories: float = math.nan
    propensities_estimated: bool = False
    degrees_of_freedom: float = math.nan
    filled_share: float = 0.0
    effective_events: float = math.nan


@dataclass(frozen=True, eq=False)
class PermutedDiagnostics(PrintedDiagnostics):
    """Diagnostics of DR-ns over permutations of the log.

    Attributes
    ----------
    events, rounds
        Events of the log, and rounds T of a trajectory.
    permutations, trajectories
        Orders of the whole log that were run, for the value, and complete trajectories in each, on average.
    replicates
        Runs on subsets of groups, for the error.
    bias_certificate
        Mean estimated bound on the total variation between a simulated and a true history.
    sampling_error, monte_carlo_error
        Standard deviation over logs, and over permutations of one log.
    propensities_estimated
        Whether propensities were estimated from the log rather than recorded.
    effective_events
        Number of events of equal influence from which the standard error would be as uncertain, as for clock replay.
    """

    events: int
    rounds: int
    permutations: int
    trajectories: float
    replicates: int
    bias_certificate: float
    sampling_error: float
    monte_carlo_error: float
    propensities_estimated: bool = False
    effective_events: float = math.nan


@dataclass(frozen=True, eq=False)
class PassDiagnostics(PrintedDiagnostics):
    """Diagnostics of evaluators that are derived from ``PassEvaluator``.

    Attributes
    ----------
    events, rounds
        Events of the log, and rounds T of a pass.
    passes, replicates
        Passes over the whole log, for the value; replicates on subsets of groups, for its error.
    bias_certificate
        Mean bound on the total variation between a simulated and a true history; nan if passes give none.
    sampling_error, monte_carlo_error
        Standard deviation over logs, and over passes on one log.
    propensities_estimated
        Whether propensities were estimated from the log rather than recorded.
    """

    events: int
    rounds: int
    passes: int
    replicates: int
    bias_certificate: float
    sampling_error: float
    monte_carlo_error: float
    propensities_estimated: bool = False


@dataclass(frozen=True, eq=False)
class PartsDiagnostics(PrintedDiagnostics):
    """Diagnostics of clock replay on the parts of a stream.

    Attributes
    ----------
    events, rounds
        Events of the parts that were used, and rounds T of a pass.
    parts, passes_each
        Parts of the stream, and passes over each.
    bias_certificate
        Mean over parts and passes of the exhausted mass, summed over rounds: bounds the total variation between the
        simulated and the true history.
    sampling_error, monte_carlo_error
        Standard deviation over logs, and over passes on one log; together they give the standard error.
    propensities_estimated
        Whether propensities were estimated from the log rather than recorded; those of a stream never are.
    filled_share
        Mean share of rounds that were filled because no event was left for them.
    """

    events: int
    rounds: int
    parts: int
    passes_each: int
    bias_certificate: float
    sampling_error: float
    monte_carlo_error: float
    propensities_estimated: bool = False
    filled_share: float = 0.0


@dataclass(frozen=True, eq=False)
class OtherDiagnostics(PrintedDiagnostics):
    """Diagnostics of an evaluator of another package, as read from a file; ``kind`` is the name of their class."""

    facts: dict[str, Any]
    kind: str = ""

    @property
    def events(self) -> int:
        """Number of events used, 0 if it is not recorded."""
        return int(self.facts.get("events", 0))

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnostics by name."""
        return dict(self.facts)


KINDS: tuple[type[Any], ...] = (
    WeightDiagnostics,
    ModelDiagnostics,
    ReplayDiagnostics,
    ClockDiagnostics,
    PermutedDiagnostics,
    PassDiagnostics,
    PartsDiagnostics,
)


def diagnostics_from(stored: dict[str, Any], where: str = "diagnostics") -> Diagnostics:
    """Return diagnostics from JSON: by their kind if it is one of this package, else as OtherDiagnostics.

    >>> diagnostics_from({"kind": "ModelDiagnostics", "events": 4, "rounds": 4, "trajectories": 1})
    ModelDiagnostics(events=4, rounds=4, trajectories=1, propensities_estimated=False)
    """
    facts = {name: value for name, value in stored.items() if name != "kind"}
    kind = next((kind for kind in KINDS if kind.__name__ == stored.get("kind")), None)
    if kind is None:
        return OtherDiagnostics(facts, str(stored.get("kind", "")))
    diagnostics: Diagnostics = from_json(kind, facts, where)
    return diagnostics


def pool_diagnostics(segments: Sequence[Diagnostics]) -> Diagnostics:
    """Return the diagnostics of the mean over disjoint segments.

    - Counts are summed: events, accepted events, trajectories, passes, permutations, parts, replicates, and the
      separate histories, as segments have no event in common.
    - Shares of events and the mean weight are means over all events; the largest weight is the largest.
    - The effective sample size is that of all events together, ``(sum w)^2 / sum w^2``.
    - Bias mass, certificate and Theorem 1 are means over segments, because the mean of bounds on the biases bounds the
      bias of the mean. So is the value per round.
    - Sampling and Monte-Carlo errors are those of a mean of independent values, ``sqrt(sum s^2) / m``; the spread of
      event values is pooled, ``sqrt(sum n s^2 / sum n)``.
    - Rounds, and passes over each part, are the smallest of any segment. The least covered action is that of the first.

    Of OtherDiagnostics the entries that all segments share are kept, and the events summed.

    >>> pool_diagnostics([WeightDiagnostics(4, 4.0, 1.0, 1.0), WeightDiagnostics(4, 2.0, 0.5, 2.0)])
    WeightDiagnostics(events=8, effective_sample_size=6.0, mean_weight=0.75, largest_weight=2.0, \
propensities_estimated=False, least_covered_action=None, least_covered_share=nan)

    By hand: the weights sum to 4 + 2, their squares to 16/4 + 4/2, and 36/6 is 6.
    """
    kind: Any = type(segments[0])
    rows = [segment.to_dict() for segment in segments]
    if kind not in KINDS:
        common = {name: value for name, value in rows[0].items() if all(row.get(name) == value for row in rows)}
        name = getattr(segments[0], "kind", kind.__name__)
        return OtherDiagnostics({**common, "events": sum(segment.events for segment in segments)}, name)
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    rules = POOLING_RULES | ({"trajectories": _apply(np.mean)} if kind is PermutedDiagnostics else {})
    pooled: Diagnostics = kind(**{name: rules[name](table, name).item() for name in table})
    return pooled


Table: TypeAlias = "dict[str, NDArray[Any]]"  # diagnostics by name, one entry per segment


def _apply(reduce: Callable[[NDArray[Any]], Any]) -> Callable[[Table, str], Any]:
    return lambda table, name: reduce(table[name])


def _mean_over_events(table: Table, name: str) -> Any:
    return (table["events"] * table[name]).sum() / table["events"].sum()


def _root_mean_square_over_events(table: Table, name: str) -> Any:
    return np.sqrt((table["events"] * table[name] ** 2).sum() / table["events"].sum())


def _error_of_mean(table: Table, name: str) -> Any:
    return np.sqrt((table[name] ** 2).sum()) / table[name].size


def _pool_effective_sample_sizes(table: Table, name: str) -> Any:
    # each size gives, with the sum of weights, the sum of squared weights
    sums, sizes = table["events"] * table["mean_weight"], table[name]
    squares = sums[sizes > 0] ** 2 / sizes[sizes > 0]
    return np.float64(effective_sample_size(sums.sum(), squares.sum()))


POOLING_RULES: dict[str, Callable[[Table, str], Any]] = {
    **dict.fromkeys(
        ("events", "accepted", "trajectories", "trajectories_complete", "trajectories_failed"), _apply(np.sum)
    ),
    **dict.fromkeys(
        (
            *("passes", "permutations", "parts", "replicates", "separate_histories", "degrees_of_freedom"),
            "effective_events",
        ),
        _apply(np.sum),
    ),
    **dict.fromkeys(("rounds", "passes_each"), _apply(np.min)),
    **dict.fromkeys(("acceptance_rate", "cut_share", "mean_weight"), _mean_over_events),
    **dict.fromkeys(("bias_mass", "bias_certificate", "theorem_1", "value_per_round", "filled_share"), _apply(np.mean)),
    **dict.fromkeys(("sampling_error", "monte_carlo_error"), _error_of_mean),
    **dict.fromkeys(("largest_weight", "propensities_estimated"), _apply(np.max)),
    **dict.fromkeys(("least_covered_action", "least_covered_share"), lambda table, name: table[name][:1]),
    "effective_sample_size": _pool_effective_sample_sizes,
    "value_spread": _root_mean_square_over_events,
}
