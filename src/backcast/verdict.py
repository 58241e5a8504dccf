"""Verdict: what a comparison decides, from the differences and the reliability of both sides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from backcast._display import NotebookDisplay
from backcast._format import (
    format_change,
    format_interval,
    format_level,
    join_names,
    round_by_width,
    round_up,
)
from backcast.break_even import BreakEven
from backcast.errors import OptionError
from backcast.estimate import LOGGED, PROGRESSIVE_VALUE, Difference, Estimate, Interval
from backcast.guardrails import GuardrailResult

Decision: TypeAlias = Literal["better", "worse", "unclear", "not trustworthy"]

DECISIONS: tuple[Decision, ...] = ("better", "worse", "unclear", "not trustworthy")  # the last one present decides
MOST_TIMES = 1000  # a log that would have to be longer by more than this factor is not worth a number


class PairedDifference(Protocol):
    """The first policy's value minus the second's, with an interval."""

    @property
    def first(self) -> str:
        """Name of the first policy."""

    @property
    def second(self) -> str:
        """Name of the second policy."""

    @property
    def value(self) -> float:
        """The first value minus the second."""

    @property
    def interval(self) -> Interval:
        """Interval of the difference."""


@dataclass(frozen=True)
class Verdict(NotebookDisplay):
    """What a comparison decides about one policy.

    Attributes
    ----------
    decision
        "better" or "worse" if the intervals of the differences to all other policies exclude zero on that side;
        "unclear" if one of them does not; "not trustworthy" if the diagnostics of the policy, or of one that it is
        compared with, are poor, whatever the intervals are.
    policy
        The policy that the decision is about: the one with the highest value.
    sentence
        The decision in words.
    reasons
        Why an estimate is not trustworthy, with the name of its policy.
    next_step
        What would lead to a decision; empty if there is one.
    against
        Every other policy, or the baseline, with the decision about the pair.
    policies
        Every policy with the decision about it and the baseline; empty without a baseline.

    Examples
    --------
    >>> from backcast.diagnostics import WeightDiagnostics
    >>> from backcast.estimate import POLICY_VALUE
    >>> def estimate(value, events):
    ...     interval = Interval(value - 0.125, value + 0.125, 0.95, "normal", "asymptotic", POLICY_VALUE)
    ...     return Estimate(value, 0.0625, interval, WeightDiagnostics(4000, events, 1.0, 2.0), "", "IPS")
    >>> print(judge({"new": estimate(0.75, 2000.0), "control": estimate(0.25, 4000.0)}))
    better: new is better than control.
    >>> print(judge({"new": estimate(0.75, 4.0), "control": estimate(0.25, 4000.0)}))
    not trustworthy: The log does not support a decision: the estimate of new is not trustworthy.
    """

    decision: Decision
    policy: str
    sentence: str
    reasons: tuple[str, ...] = ()
    next_step: str = ""
    against: tuple[tuple[str, Decision], ...] = ()
    policies: tuple[tuple[str, Decision], ...] = ()

    def __str__(self) -> str:
        return f"{self.decision}: {self.sentence}"


def judge(
    estimates: Mapping[str, Estimate],
    differences: Sequence[PairedDifference] = (),
    policy: str | None = None,
    others: Sequence[str] | None = None,
) -> Verdict:
    """Return the verdict on one policy against others; by default the one with the highest value against all others.

    Without paired differences the separate intervals are compared, which needs a larger distance.
    """
    if len(estimates) < 2:
        raise OptionError(f"a verdict compares at least two policies; there are {len(estimates)}")
    # a missing value (nan) is not the highest
    best = max(estimates, key=lambda name: -math.inf if math.isnan(estimates[name].value) else estimates[name].value)
    policy = best if policy is None else policy
    others = [name for name in estimates if name != policy] if others is None else others
    paired = {(difference.first, difference.second): difference for difference in differences}
    grades = {name: estimates[name].reliability for name in (policy, *others)}
    poor = [name for name, reliability in grades.items() if not reliability.is_trustworthy]
    against: list[tuple[str, Decision]] = []
    for other in others:
        if policy in poor or other in poor:
            against.append((other, "not trustworthy"))
        elif differences:
            against.append((other, _by_difference(paired, policy, other)))
        else:
            against.append((other, _by_intervals(estimates[policy].interval, estimates[other].interval)))
    made = [decision for _, decision in against]
    decision = max(made, key=DECISIONS.index)
    if {"better", "worse"} <= set(made):
        decision = "unclear"
    reasons = tuple(f"{name}: {'; '.join(grades[name].reasons)}" for name in poor)
    steps = [f"{name}: {grades[name].next_step}" for name in poor]
    if decision == "unclear":
        steps = [_events_needed(estimates[policy], paired, policy, [o for o, d in against if d == "unclear"])]
    sentence = _sentence(decision, policy, against, poor, paired)
    return Verdict(decision, policy, sentence, reasons, " ".join(steps), tuple(against))


def judge_lifts(
    estimates: Mapping[str, Estimate],
    baseline: Estimate,
    baseline_name: str,
    lifts: Mapping[str, Difference],
    guardrails: Sequence[GuardrailResult] = (),
) -> Verdict:
    """Return the verdict on the policy with the highest value against a baseline, with decisions on all policies.

    Of policies that keep all guardrails and others, the first come first. One that earns more but is not shown to keep
    a guardrail is not better: worse if it breaks one, else unclear or not trustworthy, as the guardrail is.
    """
    candidates = [name for name in estimates if name != baseline_name]
    sides = {**{name: estimates[name] for name in candidates}, baseline_name: baseline}
    verdicts = {
        name: judge({name: sides[name], baseline_name: baseline}, tuple(lifts.values()), name) for name in candidates
    }
    not_kept = {
        name: [result for result in guardrails if result.policy == name and result.outcome != "met"]
        for name in candidates
    }
    best = max(
        candidates,
        key=lambda name: (not not_kept[name], -math.inf if math.isnan(sides[name].value) else sides[name].value),
    )
    chosen = verdicts[best]
    decided = tuple((name, verdict.decision) for name, verdict in verdicts.items())
    sentence, lift = chosen.sentence, lifts.get(best)
    if lift is not None and chosen.decision != "not trustworthy":
        sentence = describe_lift(lift, sides[best].break_even)
    others = [_join_decided(decided, best, decision, _reference(baseline_name)) for decision in DECISIONS]
    reasons = tuple(dict.fromkeys(reason for verdict in (chosen, *verdicts.values()) for reason in verdict.reasons))
    guarded = [describe_guardrail(result) for name in (best, *candidates) for result in not_kept[name]]
    final = tuple((name, _with_guardrails(decision, not_kept[name])) for name, decision in decided)
    return replace(
        chosen,
        decision=dict(final)[best],
        sentence=" ".join(filter(None, [sentence, *others, *dict.fromkeys(guarded)])),
        reasons=reasons,
        policies=final,
    )


def _with_guardrails(decision: Decision, not_kept: Sequence[GuardrailResult]) -> Decision:
    if decision != "better" or not not_kept:
        return decision
    outcomes = {result.outcome for result in not_kept}
    if "not trustworthy" in outcomes:
        return "not trustworthy"
    return "worse" if "contradicted" in outcomes else "unclear"


def describe_guardrail(result: GuardrailResult) -> str:
    """Return in words that a policy is not shown to keep a guardrail.

    >>> print(describe_guardrail(GuardrailResult("ms < logged + 5", "a", "contradicted", "ms minus logged is 9.")))
    a breaks the guardrail ms < logged + 5: ms minus logged is 9.
    """
    if result.outcome == "contradicted":
        return f"{result.policy} breaks the guardrail {result.guardrail}: {result.reason}"
    return f"{result.policy} is not shown to keep the guardrail {result.guardrail}: {result.reason}"


def _reference(baseline_name: str) -> str:
    return "the log did" if baseline_name == LOGGED else baseline_name


def describe_lift(lift: Difference, break_even: BreakEven | None = None) -> str:
    """Return the lift of a trustworthy estimate in words, with its break-even and payback rounds if it has them.

    >>> interval = Interval(-0.02, 0.04, 0.95, "paired by event", "independent", "")
    >>> print(describe_lift(Difference("a", "logged", 0.01, 0.015, interval)))
    The log does not show whether a earns more than the log did: 0.010 more per round (95 % interval -0.020 to 0.040).
    >>> from backcast.break_even import RoundInterval
    >>> break_even = BreakEven(40, RoundInterval(30, 60), 90, RoundInterval(70, 200), 500, 0.95, "logged")
    >>> interval = Interval(0.02, 0.04, 0.95, "paired by event", "independent", "")
    >>> print(describe_lift(Difference("a", "logged", 0.03, 0.005, interval), break_even))  # doctest: +ELLIPSIS
    a earns 0.030 more per round than the log did (95 % interval 0.020 to 0.040), from round 40 on; it has paid ...
    """
    if lift.relative_interval is None:
        numbers = f"{format_level(lift.interval)} interval {format_interval(lift.interval)}"
    else:
        share, relative = format_change(lift.relative, lift.relative_interval), lift.relative_interval
        ends = f"{format_change(relative.low, relative)} to {format_change(relative.high, relative)}"
        numbers = f"{share}, {format_level(relative)} interval {ends}"
    reference, amount = _reference(lift.second), round_by_width(abs(lift.value), lift.interval)
    direction = "more" if lift.value >= 0 else "less"
    if lift.interval.low <= 0 <= lift.interval.high:
        shown = f"{amount} {direction} per round ({numbers})"
        unclear = f"The log does not show whether {lift.first} earns more than {reference}: {shown}."
        return f"{unclear}{_unpaid_learning(break_even)}"
    sentence = f"{lift.first} earns {amount} {direction} per round than {reference} ({numbers})"
    if lift.value < 0:
        return f"{sentence}.{_unpaid_learning(break_even)}"
    return f"{sentence}{_paid_learning(break_even)}."


def _paid_learning(break_even: BreakEven | None) -> str:
    """Return from which round on a better policy earns more, as the end of a sentence; empty if it is not known."""
    if break_even is None or break_even.round is None:
        return ""
    if break_even.round == 1:
        return ", from the first round on"
    paid = "" if break_even.payback is None else f"; it has paid for its learning by round {break_even.payback:,}"
    return f", from round {break_even.round:,} on{paid}"


def _unpaid_learning(break_even: BreakEven | None) -> str:
    """Return a sentence on a policy that is not better on average, if the log shows that it is better in the end."""
    if break_even is None or break_even.round in (None, 1) or break_even.interval.high is None:
        return ""
    paid = f", but has not paid for its learning within {break_even.horizon:,} rounds"
    return f" It earns more from round {break_even.round:,} on{paid if break_even.payback is None else ''}."


def decide_lift(estimate: Estimate, lift: Difference) -> Decision:
    """Return the decision on one policy and the log, by the lift and the reliability of the estimate."""
    if not estimate.reliability.is_trustworthy:
        return "not trustworthy"
    return _by_difference({(lift.first, lift.second): lift}, lift.first, lift.second)


def _join_decided(decided: Sequence[tuple[str, Decision]], best: str, decision: Decision, reference: str) -> str:
    """Return a sentence on the other policies with this decision; empty if there are none."""
    names = [name for name, each in decided if each == decision and name != best]
    if not names:
        return ""
    noun, verb, earns = ("estimates", "are", "earn") if len(names) > 1 else ("estimate", "is", "earns")
    if decision == "not trustworthy":
        return f"The {noun} of {join_names(names)} {verb} not trustworthy."
    if decision == "unclear":
        return f"The log does not show whether {join_names(names)} {earns} more than {reference}."
    return f"{join_names(names)} {earns} {'more' if decision == 'better' else 'less'} than {reference}."


def _by_difference(paired: Mapping[tuple[str, str], PairedDifference], policy: str, other: str) -> Decision:
    """Return the decision on two reliable policies by the interval of their difference."""
    ends = _difference_ends(paired, policy, other)
    if ends is None or ends[0] <= 0 <= ends[1] or any(map(math.isnan, ends)):
        return "unclear"
    return "better" if ends[0] > 0 else "worse"


def _difference_ends(
    paired: Mapping[tuple[str, str], PairedDifference], policy: str, other: str
) -> tuple[float, float] | None:
    """Return the interval of ``policy`` minus ``other``, whichever of them comes first in the comparison."""
    if (policy, other) in paired:
        interval = paired[policy, other].interval
        return interval.low, interval.high
    if (other, policy) in paired:
        interval = paired[other, policy].interval
        return -interval.high, -interval.low
    return None


def _by_intervals(first: Interval | None, second: Interval | None) -> Decision:
    """Return the decision on two reliable policies by their separate intervals."""
    if first is None or second is None or not _same_estimand(first, second):
        return "unclear"
    if first.low > second.high:
        return "better"
    return "worse" if first.high < second.low else "unclear"


def _same_estimand(first: Interval, second: Interval) -> bool:
    # the value of a fixed policy has two estimands that mean the same; only the mixture of one run differs
    return (first.estimand == PROGRESSIVE_VALUE) == (second.estimand == PROGRESSIVE_VALUE)


def _sentence(
    decision: Decision,
    policy: str,
    against: Sequence[tuple[str, Decision]],
    poor: Sequence[str],
    paired: Mapping[tuple[str, str], PairedDifference],
) -> str:
    others = [other for other, _ in against]
    if decision == "not trustworthy":
        plural = "estimates" if len(poor) > 1 else "estimate"
        verb = "are" if len(poor) > 1 else "is"
        words = f"The log does not support a decision: the {plural} of {join_names(poor)} {verb} not trustworthy."
        clear = [other for other, each in against if each in ("better", "worse")]
        return f"{words} {policy} is better than {join_names(clear)}." if clear else words
    if decision == "unclear":
        undecided = join_names([other for other, each in against if each == "unclear"] or others)
        return f"The log does not show whether {policy} is better than {undecided}."
    numbers = ""
    if len(others) == 1 and (pair := paired.get((policy, others[0])) or paired.get((others[0], policy))) is not None:
        value, interval = round_by_width(pair.value, pair.interval), format_interval(pair.interval)
        shown = f"{pair.first} minus {pair.second} is {value} per round"
        numbers = f": {shown} ({format_level(pair.interval)} interval {interval})"
    return f"{policy} is {decision} than {join_names(others)}{numbers}."


def _events_needed(
    estimate: Estimate, paired: Mapping[tuple[str, str], PairedDifference], policy: str, others: Sequence[str]
) -> str:
    """Return how long a log would distinguish the policies: half-widths shrink with the root of the events."""
    times = 0.0
    for other in others:
        pair = paired.get((policy, other)) or paired.get((other, policy))
        if pair is None:
            return "Compare the policies with compare(): paired differences are more precise. Or give a longer log."
        distance = abs(pair.value)
        times = max(times, (pair.interval.half_width / distance) ** 2 if distance > 0 else math.inf)
    if times > MOST_TIMES:
        return f"The values are too close: more than {MOST_TIMES:,} times as many events would not distinguish them."
    needed = round_up(estimate.diagnostics.events * max(times, 1.0))
    return f"Needs about {needed:,} events like these, if the difference is as large as it is here."
