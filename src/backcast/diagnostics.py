"""How far to believe an estimate: facts of the run, one small type for each kind of evaluator."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from backcast.plain import from_plain

__all__ = [
    "ClockDiagnostics",
    "Diagnostics",
    "Facts",
    "ModelDiagnostics",
    "OtherDiagnostics",
    "PermutedDiagnostics",
    "ReplayDiagnostics",
    "WeightDiagnostics",
    "as_lines",
    "diagnostics_from",
]


class Diagnostics(Protocol):
    """Facts of a run; ``to_dict`` gives them by name."""

    @property
    def events(self) -> int:
        """Events of the log that were used."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The facts by name."""
        ...


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
    found: Diagnostics = OtherDiagnostics(facts) if kind is None else from_plain(kind, facts, where)
    return found
