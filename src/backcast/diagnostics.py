"""How far to believe an estimate: facts of the run, one small type for each kind of evaluator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, TypeAlias

import numpy as np

from backcast._arrays import FloatArray
from backcast._serialization import from_json


class Diagnostics(Protocol):
    """Facts of a run; ``to_dict`` gives them by name."""

    @property
    def events(self) -> int:
        """Events of the log that were used."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The facts by name."""
        ...


def effective_sample_size(weight_sum: float, squared_sum: float) -> float:
    """Return ``(sum w)^2 / sum w^2``: how many equally weighted events these weights are worth (0 if all are 0).

    >>> effective_sample_size(4.0, 6.0)
    2.6666666666666665
    """
    return weight_sum**2 / squared_sum if squared_sum else 0.0


def as_lines(diagnostics: Any) -> str:
    """One fact a line, for printing."""
    names = [entry.name for entry in fields(diagnostics)]
    width = max(len(name) for name in names)
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {_figure(getattr(diagnostics, name))}" for name in names)


def _figure(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Facts:
    """What all diagnostics can do: tell their facts by name, and print them."""

    def to_dict(self) -> dict[str, Any]:
        """The facts by name."""
        return asdict(self)

    def __str__(self) -> str:
        return as_lines(self)


@dataclass(frozen=True)
class WeightDiagnostics(Facts):
    """Of estimators that weigh events of a fixed policy."""

    events: int
    effective_sample_size: float
    mean_weight: float
    largest_weight: float
    propensities_estimated: bool = False


@dataclass(frozen=True)
class ModelDiagnostics(Facts):
    """Of the direct method: everything hangs on the reward model."""

    events: int
    rounds: int
    trajectories: int
    propensities_estimated: bool = False


@dataclass(frozen=True)
class ReplayDiagnostics(Facts):
    """Of evaluators that simulate histories by accepting events.

    Attributes
    ----------
    events, accepted, acceptance_rate
        Events used, and how many joined a simulated history.
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
        ``R / T``, the unnormalised variant of the value (nan where no block was completed).
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


@dataclass(frozen=True)
class ClockDiagnostics(Facts):
    """Of clock replay.

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
        What another log would change, and what more passes would.
    value_spread
        Standard deviation of the doubly robust event values, each averaged over rounds and passes; over the root of n
        it is the first term of the information floor.
    separate_histories
        How many histories without an event in common the log is worth: what chance in the log teaches the policy is
        averaged over so many. At most n/T, fewer where the logger rarely does what the policy would.
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
    value_spread: float
    separate_histories: float = math.nan
    propensities_estimated: bool = False


@dataclass(frozen=True)
class PermutedDiagnostics(Facts):
    """Of DR-ns over permutations of the log.

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
        What another log would change, and what more permutations would.
    propensities_estimated
        Whether propensities were estimated from the log rather than recorded.
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


@dataclass(frozen=True)
class PartsDiagnostics(Facts):
    """Of clock replay on the parts of a stream.

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
        What another log would change, and what more passes would; together they make the standard error.
    propensities_estimated
        Whether propensities were estimated from the log rather than recorded; those of a stream never are.
    """

    events: int
    rounds: int
    parts: int
    passes_each: int
    bias_certificate: float
    sampling_error: float
    monte_carlo_error: float
    propensities_estimated: bool = False


@dataclass(frozen=True)
class OtherDiagnostics:
    """Facts of an evaluator that is not ours, as a file has them."""

    facts: dict[str, Any]

    @property
    def events(self) -> int:
        """Events of the log that were used, as far as the facts say."""
        return int(self.facts.get("events", 0))

    def to_dict(self) -> dict[str, Any]:
        """The facts by name."""
        return dict(self.facts)

    def __str__(self) -> str:
        return "\n".join(f"{name.replace('_', ' ')}  {_figure(value)}" for name, value in self.facts.items())


KINDS: tuple[type[Any], ...] = (
    WeightDiagnostics,
    ModelDiagnostics,
    ReplayDiagnostics,
    ClockDiagnostics,
    PermutedDiagnostics,
    PartsDiagnostics,
)


def diagnostics_from(plain: dict[str, Any], where: str = "diagnostics") -> Diagnostics:
    """The diagnostics that a file tells of: ours by their kind, others as bare facts.

    >>> diagnostics_from({"kind": "ModelDiagnostics", "events": 4, "rounds": 4, "trajectories": 1})
    ModelDiagnostics(events=4, rounds=4, trajectories=1, propensities_estimated=False)
    """
    by_name = {kind.__name__: kind for kind in KINDS}
    facts = {name: value for name, value in plain.items() if name != "kind"}
    kind = by_name.get(str(plain.get("kind")))
    found: Diagnostics = OtherDiagnostics(facts) if kind is None else from_json(kind, facts, where)
    return found


Rows: TypeAlias = "Sequence[dict[str, Any]]"
PoolingRule: TypeAlias = Callable[[Rows, str], Any]


def pool_diagnostics(found: Sequence[Diagnostics]) -> Diagnostics:
    """The facts of all stretches as facts of their mean.

    - Counts are added up: events, accepted events, trajectories, passes, permutations, parts, replicates, and the
      separate histories, as stretches have no event in common.
    - Shares of events and the mean weight are means over all events; the largest weight is the largest.
    - The effective sample size is that of all events together, ``(sum w)^2 / sum w^2``.
    - Bias mass, certificate and Theorem 1 are means over stretches: what bounds the bias of each bounds, on average,
      that of their mean. So is the value per round.
    - Sampling and Monte-Carlo errors are those of a mean of independent values, ``sqrt(sum s^2) / m``; the spread of
      event values is pooled, ``sqrt(sum n s^2 / sum n)``.
    - Rounds, and passes over each part, are the fewest of any stretch.

    Facts of an evaluator that is not ours are kept where all stretches say the same, and its events added up.


    >>> pool_diagnostics([WeightDiagnostics(4, 4.0, 1.0, 1.0), WeightDiagnostics(4, 2.0, 0.5, 2.0)])
    WeightDiagnostics(events=8, effective_sample_size=6.0, mean_weight=0.75, largest_weight=2.0, \
propensities_estimated=False)

    By hand: the weights add up to 4 + 2, their squares to 16/4 + 4/2, and 36/6 is 6.
    """
    kind: Any = type(found[0])
    rows = [one.to_dict() for one in found]
    if kind not in KINDS:
        alike = {name: value for name, value in rows[0].items() if all(row.get(name) == value for row in rows)}
        return OtherDiagnostics({**alike, "events": sum(one.events for one in found)})
    rules = POOLING_RULES | SPECIAL_POOLING_RULES.get(kind, {})
    joined: Diagnostics = kind(**{name: rules[name](rows, name) for name in rows[0]})
    return joined


def _column(rows: Rows, name: str) -> FloatArray:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _added(rows: Rows, name: str) -> Any:
    return sum(row[name] for row in rows)


def _fewest(rows: Rows, name: str) -> int:
    return int(min(row[name] for row in rows))


def _largest(rows: Rows, name: str) -> float:
    return float(max(row[name] for row in rows))


def _any(rows: Rows, name: str) -> bool:
    return any(row[name] for row in rows)


def _mean(rows: Rows, name: str) -> float:
    return float(_column(rows, name).mean())


def _by_event(rows: Rows, name: str) -> float:
    events = _column(rows, "events")
    return float((events * _column(rows, name)).sum() / events.sum())


def _pooled(rows: Rows, name: str) -> float:
    events = _column(rows, "events")
    return math.sqrt(float((events * _column(rows, name) ** 2).sum() / events.sum()))


def _of_mean(rows: Rows, name: str) -> float:
    return math.sqrt(float((_column(rows, name) ** 2).sum())) / len(rows)


def _worth(rows: Rows, name: str) -> float:
    """Effective sample size: each stretch tells the sum of its weights, and so that of their squares."""
    sums = _column(rows, "events") * _column(rows, "mean_weight")
    sizes = _column(rows, name)
    squares = sums[sizes > 0] ** 2 / sizes[sizes > 0]
    return float(sums.sum() ** 2 / squares.sum()) if squares.size else 0.0


POOLING_RULES: dict[str, PoolingRule] = {
    **dict.fromkeys(("events", "accepted", "trajectories", "trajectories_complete", "trajectories_failed"), _added),
    **dict.fromkeys(("passes", "permutations", "parts", "replicates", "separate_histories"), _added),
    **dict.fromkeys(("rounds", "passes_each"), _fewest),
    **dict.fromkeys(("acceptance_rate", "cut_share", "mean_weight"), _by_event),
    **dict.fromkeys(("bias_mass", "bias_certificate", "theorem_1", "value_per_round"), _mean),
    **dict.fromkeys(("sampling_error", "monte_carlo_error"), _of_mean),
    "largest_weight": _largest,
    "effective_sample_size": _worth,
    "value_spread": _pooled,
    "propensities_estimated": _any,
}
# trajectories of one order, on average
SPECIAL_POOLING_RULES: dict[type, dict[str, PoolingRule]] = {PermutedDiagnostics: {"trajectories": _mean}}
