"""Diagnostics with a plain explanation and a judgement each; thresholds are rules of thumb and stand here only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from backcast.diagnostics import ModelDiagnostics
from backcast.estimate import Estimate
from backcast.report._format import MISSING, format_number, percent

Grade: TypeAlias = Literal["", "good", "fair", "poor"]


# of certificates: a hundredth of the reward range, what ClockReplay tolerates in subsets, and no better than a coin
SMALL_CERTIFICATE, TOLERATED, OPEN = 0.01, 0.05, 0.5


ORDER: tuple[Grade, ...] = ("", "good", "fair", "poor")


BELIEFS = {"": "not judged", "good": "well supported", "fair": "with care", "poor": "weak"}


class Judgement(NamedTuple):
    """A grade and the words for it."""

    grade: Grade
    words: str


@dataclass(frozen=True)
class GradedDiagnostic:
    """One diagnostic: its name, its figure, what it means, and what to think of this figure."""

    name: str
    figure: str
    meaning: str
    grade: Grade = ""
    judgement: str = ""


@dataclass(frozen=True)
class Reliability:
    """How far to believe an estimate: the worst grade of its facts, and the facts that gave it."""

    grade: Grade
    words: str
    reasons: tuple[str, ...]


def _sample_size(size: float) -> Judgement:
    if size >= 1000:
        return Judgement("good", "plenty")
    if size >= 100:
        return Judgement("fair", "few events carry the estimate")
    return Judgement("poor", "hardly any event carries the estimate")


def _histories(count: float) -> Judgement:
    if count >= 20:
        return Judgement("good", "plenty")
    if count >= 3:
        return Judgement("fair", "what few rare events teach the policy decides much")
    return Judgement("poor", "hardly more than one story, told again and again")


def _mean_weight(mean: float) -> Judgement:
    if abs(mean - 1) <= 0.1:
        return Judgement("good", "near 1, as it should be")
    if abs(mean - 1) <= 0.25:
        return Judgement("fair", "some way from 1")
    return Judgement("poor", "far from 1: are the propensities right, and does the log show what the policy does?")


def _certificate(certificate: float, estimate: Estimate) -> Judgement:
    """Judge the bound on total variation by what it allows: histories that differ, and a bias beside the error.

    While simulated and live histories are coupled (theory, Proposition 3), the certificate bounds the share of them
    that differ at all, and the bias is at most that share of the reward range. A bias of half a standard error takes
    an interval of 95 % down to 92 %; beyond that its level is no longer vouched for. From one half on, more
    histories may differ than agree, and nothing is certified.
    """
    if certificate >= OPEN:
        return Judgement("poor", "too large to vouch for anything")
    bias = bias_bound(estimate)
    if math.isnan(bias) or math.isnan(estimate.std_error):
        small = certificate <= SMALL_CERTIFICATE
    else:
        small = bias <= estimate.std_error / 2
    if certificate == 0:
        return Judgement("good", "nothing was cut off")
    if small and certificate <= TOLERATED:
        return Judgement("good", "too small to matter")
    return Judgement("fair", "a bias that matters is not ruled out")


def bias_bound(estimate: Estimate) -> float:
    """The largest bias that the certificate allows, in units of reward; nan where it is not known."""
    certificate = estimate.diagnostics.to_dict().get("bias_certificate", math.nan)
    low, high = estimate.settings.get("reward_range", (math.nan, math.nan))
    # two values never differ by more than the range, whatever the certificate
    return float(min(certificate, 1.0) * (high - low))


def _bias_mass(mass: float) -> Judgement:
    # what a small mass comes to over all rounds is for the certificate to judge
    if mass <= 0.01:
        return Judgement("", "")
    if mass <= 0.1:
        return Judgement("fair", "acceptance lags behind the policy in places")
    return Judgement("poor", "acceptance could not follow the policy")


def _failures(count: int, estimate: Estimate) -> Judgement:
    # the remainder of the log, or of a segment of it, is nearly always too short for one more
    told = estimate.settings.get("segments")
    segments = told if isinstance(told, int) else 1
    if count > segments:
        return Judgement("fair", "some ran out of events and were left out")
    remainders = "only the remainder of the log" if segments == 1 else "only the remainders of the segments"
    return Judgement("good", remainders if count else "none")


def _estimated(estimated: bool) -> Judgement:
    return (
        Judgement("fair", "the answer leans on estimated propensities") if estimated else Judgement("good", "recorded")
    )


def _monte_carlo_share(facts: Mapping[str, Any]) -> Judgement:
    """Chance in the runs against chance in the log: only the first can be bought down by more of them."""
    chance, log = facts["monte_carlo_error"], facts["sampling_error"]
    # of the parts of a stream each has passes of its own, so their standard error holds both
    if not math.isfinite(log) or "parts" in facts:
        return Judgement("", "")
    if chance <= 0.5 * log:
        return Judgement("good", "small beside the sampling error")
    return Judgement("fair", "no longer small beside the sampling error: more replicates would help")


class _Known(NamedTuple):
    """How a diagnostic is called, explained and judged."""

    name: str
    meaning: str
    judge: Callable[[Any], Judgement] | None = None
    write: Callable[[Any], str] = format_number


KNOWN = {
    "events": _Known("events", "Events of the log that were used."),
    "accepted": _Known("accepted events", "Events that joined a simulated history of the policy."),
    "acceptance_rate": _Known("acceptance rate", "Share of the events that were accepted.", write=percent),
    "rounds": _Known("rounds", "Rounds that the policy played in a simulated history."),
    "trajectories": _Known("trajectories", "Histories that were simulated."),
    "trajectories_complete": _Known("complete trajectories", "Simulated histories that reached the horizon."),
    "trajectories_failed": _Known("failed trajectories", "Histories that ran out of events before it."),
    "effective_sample_size": _Known(
        "effective sample size",
        "How many equally weighted events the weighted ones are worth; 1,000 and more is comfortable.",
        _sample_size,
    ),
    "mean_weight": _Known(
        "mean weight", "Policy's over logger's probability of the logged actions; 1 on average.", _mean_weight
    ),
    "largest_weight": _Known("largest weight", "The most that one single event counts."),
    "bias_mass": _Known(
        "bias mass", "Estimated probability that acceptance could not follow, because it ends at 1.", _bias_mass
    ),
    "cut_share": _Known("cut share", "Share of events whose acceptance probability was cut at 1.", write=percent),
    "bias_certificate": _Known(
        "bias certificate",
        "Of simulated histories, at most about this share would have gone differently live; estimated from the log.",
    ),
    "passes": _Known("passes", "Simulated histories from the whole log, whose average is the value."),
    "parts": _Known("parts", "Parts of the stream; how much they differ gives the standard error."),
    "passes_each": _Known("passes over each part", "Simulated histories from each part; their average is its value."),
    "permutations": _Known("permutations", "Orders of the whole log that were run; their average is the value."),
    "replicates": _Known("replicates", "Runs on subsets of the log, from which the standard error comes."),
    "sampling_error": _Known("sampling error", "How far the value would be off because the log is one of many."),
    "monte_carlo_error": _Known("Monte-Carlo error", "How far it is off because the number of runs is finite."),
    "value_spread": _Known("spread of event values", "Over the root of the events, no standard error can be below it."),
    "separate_histories": _Known(
        "separate histories",
        "How many histories without an event in common the log is worth; chance in it averages out over so many.",
        _histories,
    ),
    "theorem_1": _Known("Theorem 1 bound", "The founding paper's coarser bound on the same bias, for reference."),
    "value_per_round": _Known("value, not normalised", "The sum divided by rounds, not by multipliers; a cross-check."),
    "propensities_estimated": _Known(
        "propensities estimated", "Whether propensities came from a model, not from the logger's record.", _estimated
    ),
}


def grade_diagnostics(estimate: Estimate) -> list[GradedDiagnostic]:
    """Every diagnostic of an estimate; one that is not known here is shown without an explanation."""
    return [_fact(key, value, estimate) for key, value in estimate.diagnostics.to_dict().items()]


def _fact(key: str, value: Any, estimate: Estimate) -> GradedDiagnostic:
    known = KNOWN.get(key, _Known(key.replace("_", " "), ""))
    judged = Judgement("", "")
    if known.write(value) != MISSING:
        judged = _judged(key, value, estimate)
    return GradedDiagnostic(known.name, known.write(value), known.meaning, judged.grade, judged.words)


def _judged(key: str, value: Any, estimate: Estimate) -> Judgement:
    if key == "bias_certificate":
        return _certificate(value, estimate)
    if key == "trajectories_failed":
        return _failures(value, estimate)
    if key == "monte_carlo_error":
        return _monte_carlo_share(estimate.diagnostics.to_dict())
    judge = KNOWN[key].judge if key in KNOWN else None
    return judge(value) if judge else Judgement("", "")


def grade(estimate: Estimate) -> Reliability:
    """How far to believe an estimate, by its worst diagnostic."""
    facts = grade_diagnostics(estimate)
    if estimate.interval is None:
        facts.append(GradedDiagnostic("interval", "", "", "fair", "none can honestly be given"))
    if isinstance(estimate.diagnostics, ModelDiagnostics):
        facts.append(GradedDiagnostic("reward model", "", "", "fair", "everything hangs on it"))
    worst = max((fact.grade for fact in facts), key=ORDER.index, default=ORDER[0])
    reasons = () if worst in ("", "good") else tuple(f"{f.name}: {f.judgement}" for f in facts if f.grade == worst)
    return Reliability(worst, BELIEFS[worst], reasons)
