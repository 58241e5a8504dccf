"""Reliability of an estimate: its diagnostics, each with an explanation and a grade, and what would improve it.

Whether an estimate may carry a decision depends on the grade alone; the rate of false decisions under these thresholds
is measured in bench/results/decisions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from backcast._display import NotebookDisplay
from backcast._format import MISSING, NO_INTERVAL, format_bias, format_number, format_percent, round_up
from backcast.diagnostics import ModelDiagnostics, PermutedDiagnostics, ReplayDiagnostics
from backcast.estimate import POLICY_VALUE, BiasEstimate, Estimate

Grade: TypeAlias = Literal["", "good", "fair", "poor"]

GRADES: tuple[Grade, ...] = ("", "good", "fair", "poor")  # from best to worst
# bias certificates: a hundredth of the reward range, what ClockReplay tolerates in subsets, and one half
SMALL_CERTIFICATE, TOLERATED_CERTIFICATE, USELESS_CERTIFICATE = 0.01, 0.05, 0.5
# effective events below which an estimate carries no decision; that a longer log, or filled histories, should have;
# that are always enough
FEW_EVENTS, WANTED_EVENTS, MANY_EVENTS = 30, 100, 1000
LARGE_BIAS = 3.0  # standard errors from which a bias is too large for an interval to be worth its level
SMALL_FILLED_SHARE = 0.02  # filled rounds that cannot matter much
BIAS_MEANING = (
    "Estimated bias of the value because the log ran out of events or acceptance probabilities were cut at 1, with its "
    "standard error."
)
FEWEST_HISTORIES = 3  # independent histories below which an estimate carries no decision
FAR_FROM_ONE = 5.0  # standard errors of the mean weight from 1; the odds of chance are 6e-7
WANTED_PROBABILITY = 0.05  # of a rare action, in advice on how to log


@dataclass(frozen=True)
class GradedDiagnostic:
    """One diagnostic: its name, its value as text, its meaning, and the judgement of this value."""

    name: str
    figure: str
    meaning: str
    grade: Grade = ""
    judgement: str = ""


@dataclass(frozen=True)
class Reliability(NotebookDisplay):
    """Reliability of an estimate: the worst grade of its diagnostics, the diagnostics with that grade, and a remedy.

    Attributes
    ----------
    grade
        "good", "fair", "poor", or "" if no diagnostic could be graded.
    reasons
        The diagnostics with that grade, unless it is "good".
    next_step
        What would make a poor estimate reliable; empty for other grades.

    Examples
    --------
    >>> from backcast.diagnostics import WeightDiagnostics
    >>> from backcast.estimate import BiasEstimate, Estimate
    >>> facts = WeightDiagnostics(300, 2.0, 1.3, 200.0, least_covered_action="3", least_covered_share=0.005)
    >>> reliability = Estimate(0.5, 0.9, None, facts, policy="new", evaluator="DR").reliability
    >>> reliability.grade, reliability.is_trustworthy
    ('poor', False)
    >>> reliability.next_step
    'Needs about 15,000 events like these, or about 2,000 with a probability of at least 0.05 for action 3.'
    """

    grade: Grade
    reasons: tuple[str, ...]
    next_step: str = ""

    @property
    def label(self) -> str:
        """The grade as shown to users."""
        return self.grade or "not graded"

    @property
    def is_trustworthy(self) -> bool:
        """Whether a decision may be based on the estimate."""
        return self.grade != "poor"


class Judgement(NamedTuple):
    """A grade and its reason."""

    grade: Grade = ""
    reason: str = ""


def grade(estimate: Estimate) -> Reliability:
    """Return the reliability of an estimate, which is that of its worst diagnostic."""
    diagnostics = grade_diagnostics(estimate)
    if estimate.interval is None:
        diagnostics.append(GradedDiagnostic("interval", "", "", "fair", NO_INTERVAL))
    if isinstance(estimate.diagnostics, ModelDiagnostics):
        diagnostics.append(GradedDiagnostic("reward model", "", "", "fair", "the estimate depends on it alone"))
    worst = max((diagnostic.grade for diagnostic in diagnostics), key=GRADES.index, default=GRADES[0])
    if worst in ("", "good"):
        return Reliability(worst, ())
    reasons = tuple(f"{d.name}: {d.judgement}" for d in diagnostics if d.grade == worst)
    return Reliability(worst, reasons, _next_step(estimate) if worst == "poor" else "")


def _next_step(estimate: Estimate) -> str:
    """Return what would make a poor estimate reliable, with numbers where the diagnostics have them."""
    diagnostics = estimate.diagnostics.to_dict()
    size = diagnostics.get("effective_sample_size", diagnostics.get("effective_events", math.inf))
    if size < FEW_EVENTS:
        events = estimate.diagnostics.events
        needed = round_up(WANTED_EVENTS * events / max(size, 1.0))
        action, share = diagnostics.get("least_covered_action"), diagnostics.get("least_covered_share", math.nan)
        if action is None:
            return f"Needs about {needed:,} events like these."
        fewer = round_up(WANTED_EVENTS / WANTED_PROBABILITY)
        explored = f"{fewer:,} with a probability of at least {WANTED_PROBABILITY:g} for action {action}"
        if share == 0:
            return f"Needs about {explored}, which the log never took."
        alternative = f", or about {explored}" if fewer < needed else ""
        return f"Needs about {needed:,} events like these{alternative}."
    if abs(diagnostics.get("mean_weight", 1.0) - 1) > 0.1:
        return (
            "Check that the propensities are those of the logged actions, and that the log contains all actions of "
            "the policy (backcast check)."
        )
    if "bias_certificate" in diagnostics:
        return "Ask for a shorter horizon, limit the bias with DRns(acceptance=Budget(0.1)), or give a longer log."
    return "Give a longer log."


def grade_diagnostics(estimate: Estimate) -> list[GradedDiagnostic]:
    """Return the bias estimate and every diagnostic; one that is not in ``KNOWN`` has neither explanation nor grade."""
    graded = []
    if estimate.bias_estimate is not None:
        judgement = _judge_bias(estimate.bias_estimate, estimate)
        figure = format_bias(estimate.bias_estimate)
        graded.append(GradedDiagnostic("bias estimate", figure, BIAS_MEANING, judgement.grade, judgement.reason))
    for key, value in estimate.diagnostics.to_dict().items():
        known = KNOWN.get(key, _Known(key.replace("_", " "), ""))
        figure = known.format(value)
        judgement = Judgement() if known.judge is None or figure == MISSING else known.judge(value, estimate)
        graded.append(GradedDiagnostic(known.name, figure, known.meaning, judgement.grade, judgement.reason))
    return graded


def _judge_bias(bias: BiasEstimate, estimate: Estimate) -> Judgement:
    """Judge the bias estimate against the standard error.

    An interval for V_T is widened by the bias or by its error, whichever is larger. Above three standard errors most of
    its width is this term, which is itself an extrapolation.
    """
    if math.isnan(estimate.std_error):
        return Judgement()
    if bias.size <= estimate.std_error / 2:
        return Judgement("good", "small compared with the standard error")
    if bias.size <= LARGE_BIAS * estimate.std_error:
        widened = estimate.interval is not None and estimate.interval.estimand == POLICY_VALUE
        widening = "; the interval is widened by it" if widened else ""
        return Judgement("fair", f"not small compared with the standard error{widening}")
    return Judgement("poor", "larger than three standard errors, or not known more precisely than that")


def bias_bound(estimate: Estimate) -> float:
    """Return the largest bias that the certificate allows, in units of reward; nan if it is unknown."""
    certificate = estimate.diagnostics.to_dict().get("bias_certificate", math.nan)
    low, high = estimate.settings.get("reward_range", (math.nan, math.nan))
    # two values differ by at most the range, however large the certificate
    return float(min(certificate, 1.0) * (high - low))


def _judge_sample_size(size: float, estimate: Estimate) -> Judgement:
    """Judge the effective sample size by itself and in relation to the log, whose length the interval accounts for."""
    events = estimate.diagnostics.events
    if size < FEW_EVENTS:
        if size >= events / 2:
            return Judgement("poor", f"the log has only {events:,} event{'s' if events > 1 else ''}")
        return Judgement("poor", "very few events carry the estimate")
    if size >= min(MANY_EVENTS, events / 2):
        return Judgement("good", "large enough")
    return Judgement("fair", "few events carry the estimate")


def _judge_effective_events(number: float, _: Estimate) -> Judgement:
    """Judge the number of events that carry the standard error, which misses what no logged event shows.

    In the two of 27 settings of bench/results/learning_coverage.md whose 95 % intervals contained the value in fewer
    than 90 % of 100 logs, 82 and 97 % of the logs are graded poor.
    """
    if number >= WANTED_EVENTS:
        return Judgement("good", "large enough")
    if number >= FEW_EVENTS:
        return Judgement("fair", "few events carry the standard error")
    return Judgement("poor", "very few events carry the standard error, which is then often too small")


def _learns(estimate: Estimate) -> bool:
    """Return whether the policy learns, as far as known."""
    return estimate.settings.get("learns") is not False


def _judge_histories(count: float, estimate: Estimate) -> Judgement:
    if not _learns(estimate):
        return Judgement()
    if count >= 20:
        return Judgement("good", "large enough")
    if count >= FEWEST_HISTORIES:
        return Judgement("fair", "fewer than 20 independent histories: rare events have much influence")
    facts = estimate.diagnostics.to_dict()
    # a history that is filled uses events again: what counts is how many events it is drawn from
    if facts.get("filled_share", 0.0) > SMALL_FILLED_SHARE and count * facts["rounds"] >= WANTED_EVENTS:
        return Judgement("fair", "fewer than 3 independent histories, each of them from many events")
    return Judgement("poor", "fewer than 3 independent histories: the estimate rests on a few events")


def _judge_filled_share(share: float, _: Estimate) -> Judgement:
    if share <= SMALL_FILLED_SHARE:
        return Judgement("good", "small" if share else "none")
    return Judgement("fair", "what the policy learns in these rounds depends on the reward model")


def _judge_mean_weight(mean: float, estimate: Estimate) -> Judgement:
    """Judge the distance of the mean weight from 1 by its size and by its standard error, which falls with n."""
    distance = abs(mean - 1)
    size, events = estimate.diagnostics.to_dict().get("effective_sample_size", math.nan), estimate.diagnostics.events
    # the sum of squares follows from the effective sample size, so that sd(w) / sqrt(n) is known
    error = mean * math.sqrt(max(1 / size - 1 / events, 0.0)) if size > 0 else math.inf
    by_chance = distance <= FAR_FROM_ONE * error
    if distance <= 0.01 or (distance <= 0.1 and by_chance):
        return Judgement("good", "close to 1, as expected")
    if by_chance:
        return Judgement("fair", "not close to 1, which may be chance with so few effective events")
    if distance <= 0.1:
        return Judgement("fair", "not close to 1")
    return Judgement("poor", "far from 1: check the propensities, and whether the log contains the policy's actions")


def _judge_certificate(certificate: float, estimate: Estimate) -> Judgement:
    """Judge the bound on total variation by the bias that it allows, compared with the standard error.

    While simulated and live histories are coupled (docs/theory.md, Proposition 3), the certificate bounds the share
    of them that differ at all, and the bias is at most that share of the reward range. A bias of half a standard
    error reduces the coverage of a 95 % interval to 92 %; a larger one leaves its level uncertain. From one half on,
    more histories may differ than agree, and nothing is certified. The events of DR-ns have the value of a policy that
    does not learn as their mean, whatever its history is. If there is a bias estimate, that is judged instead.
    """
    if not _learns(estimate) and isinstance(estimate.diagnostics, ReplayDiagnostics | PermutedDiagnostics):
        return Judgement("good", "the policy does not learn, so its value does not depend on histories")
    if estimate.bias_estimate is not None:
        # the worst case of whole histories: one event in 3,000 that differs counts as another history
        return Judgement("", "no guarantee: only a bound below 1 excludes anything" if certificate >= 1 else "")
    if certificate >= 1:
        return Judgement("poor", "no guarantee: only a bound below 1 excludes anything")
    if certificate >= USELESS_CERTIFICATE:
        return Judgement("poor", "too large to certify anything")
    if certificate == 0:
        return Judgement("good", "nothing was cut off")
    bias = bias_bound(estimate)
    if math.isnan(bias) or math.isnan(estimate.std_error):
        small = certificate <= SMALL_CERTIFICATE
    else:
        small = bias <= estimate.std_error / 2
    if small and certificate <= TOLERATED_CERTIFICATE:
        return Judgement("good", "negligible")
    return Judgement("fair", "a relevant bias is not ruled out")


def _judge_bias_mass(mass: float, estimate: Estimate) -> Judgement:
    # a small mass, added up over all rounds, is judged by the certificate
    if mass <= 0.01 or not _learns(estimate):
        return Judgement()
    if mass <= 0.1:
        return Judgement("fair", "acceptance probabilities were cut at 1 in some rounds")
    return Judgement("poor", "acceptance probabilities were cut at 1 in many rounds")


def _judge_failures(count: int, estimate: Estimate) -> Judgement:
    # the remainder of the log, or of a segment of it, is nearly always too short for another trajectory
    setting = estimate.settings.get("segments")
    segments = setting if isinstance(setting, int) else 1
    if count > segments:
        return Judgement("fair", "some ran out of events and were not used")
    remainders = "only the remainder of the log" if segments == 1 else "only the remainders of the segments"
    return Judgement("good", remainders if count else "none")


def _judge_monte_carlo_error(error: float, estimate: Estimate) -> Judgement:
    """Judge the error of the runs against that of the log: more runs reduce only the former."""
    diagnostics = estimate.diagnostics.to_dict()
    sampling_error = diagnostics["sampling_error"]
    # each part of a stream has its own passes, so that the standard error over parts contains both
    if not math.isfinite(sampling_error) or "parts" in diagnostics:
        return Judgement()
    if error <= 0.5 * sampling_error:
        return Judgement("good", "small compared with the sampling error")
    return Judgement("fair", "not small compared with the sampling error: use more replicates")


def _judge_degrees_of_freedom(number: float, _: Estimate) -> Judgement:
    if number >= 10:
        return Judgement("good", "large enough")
    return Judgement("fair", "the standard error itself is uncertain by more than a fifth")


def _judge_propensities(estimated: bool, _: Estimate) -> Judgement:
    if estimated:
        return Judgement("fair", "the estimate depends on estimated propensities")
    return Judgement("good", "recorded")


class _Known(NamedTuple):
    """Name, explanation, judgement and number format of a diagnostic."""

    name: str
    meaning: str
    judge: Callable[[Any, Estimate], Judgement] | None = None
    format: Callable[[Any], str] = format_number


KNOWN = {
    "events": _Known("events", "Events of the log that were used."),
    "accepted": _Known("accepted events", "Events that became part of a simulated history of the policy."),
    "acceptance_rate": _Known("acceptance rate", "Share of the events that were accepted.", format=format_percent),
    "rounds": _Known("rounds", "Rounds of the policy in a simulated history."),
    "trajectories": _Known("trajectories", "Simulated histories."),
    "trajectories_complete": _Known("complete trajectories", "Simulated histories that reached the horizon."),
    "trajectories_failed": _Known(
        "failed trajectories", "Simulated histories that ran out of events before the horizon.", _judge_failures
    ),
    "effective_sample_size": _Known(
        "effective sample size",
        "Number of equally weighted events with the same information as the weighted ones; below 30 it carries no "
        "decision.",
        _judge_sample_size,
    ),
    "mean_weight": _Known(
        "mean weight",
        "Mean ratio of the policy's to the logger's probability of the logged action; expected to be 1.",
        _judge_mean_weight,
    ),
    "largest_weight": _Known("largest weight", "Largest weight of a single event."),
    "least_covered_action": _Known(
        "least covered action", "Action of the policy that the log supports least; given if few events carry the value."
    ),
    "least_covered_share": _Known("its share of the log", "Probability with which the logger took that action."),
    "bias_mass": _Known(
        "bias mass",
        "Estimated probability mass that is lost because acceptance probabilities end at 1.",
        _judge_bias_mass,
    ),
    "cut_share": _Known(
        "cut share", "Share of events whose acceptance probability was cut at 1.", format=format_percent
    ),
    "bias_certificate": _Known(
        "bias certificate",
        "Upper bound, estimated from the log, on the share of simulated histories that would differ live.",
        _judge_certificate,
    ),
    "passes": _Known("passes", "Simulated histories from the whole log; their average is the value."),
    "parts": _Known("parts", "Parts of the stream; the standard error comes from their spread."),
    "passes_each": _Known("passes over each part", "Simulated histories from each part; their average is its value."),
    "permutations": _Known("permutations", "Random orders of the whole log; their average is the value."),
    "replicates": _Known("replicates", "Runs on subsets of the log, for the group jackknife."),
    "sampling_error": _Known("sampling error", "Standard error due to the log, which is one random sample."),
    "monte_carlo_error": _Known(
        "Monte-Carlo error", "Standard error due to the finite number of runs.", _judge_monte_carlo_error
    ),
    "value_spread": _Known(
        "spread of event values", "Divided by the root of the number of events: the error if histories were fixed."
    ),
    "separate_histories": _Known(
        "separate histories",
        "Number of histories without a common event that the log is equivalent to; its sampling error averages over "
        "that many.",
        _judge_histories,
    ),
    "degrees_of_freedom": _Known(
        "degrees of freedom",
        "Precision of the standard error: its relative error is about one over the root of twice this number.",
        _judge_degrees_of_freedom,
    ),
    "filled_share": _Known(
        "filled rounds",
        "Share of rounds for which no event was left: one was drawn again, with a reward of the reward model.",
        _judge_filled_share,
        format_percent,
    ),
    "effective_events": _Known(
        "effective events",
        "Number of events of equal influence that the standard error rests on; below 30 it carries no decision.",
        _judge_effective_events,
    ),
    "theorem_1": _Known("Theorem 1 bound", "Coarser bound of the original paper on the same bias, for reference."),
    "value_per_round": _Known("value, not normalised", "Sum divided by rounds, not by multipliers; a cross-check."),
    "propensities_estimated": _Known(
        "propensities estimated",
        "Whether propensities come from a model instead of the logger's record.",
        _judge_propensities,
    ),
}
