"""compare(): which policy earns more, by paired differences on common events and common randomness."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from os import PathLike
from typing import Any, Literal, overload

import numpy as np

from backcast._arrays import FloatArray
from backcast._auto import Choice, resolve_as_fixed, resolve_by_kind, resolve_evaluator, simulates_histories
from backcast._differences import (
    UNPAIRED,
    Comparand,
    comparand,
    covariance_of_differences,
    lift_precision,
    make_difference,
    make_lift,
    simultaneous_level,
)
from backcast._equality import ContentEquality
from backcast._forecast import announce
from backcast._format import join_names
from backcast._horizon import resolve_horizon
from backcast._pairing import Pairing
from backcast._parallel.jobs import Execution
from backcast._parallel.time_limit import limit_calls
from backcast._progress import show_progress
from backcast._reading_results import PolicyRuns, ReadEstimates, Side, break_down, joint_level, lift_influences
from backcast._readings import OutcomeReading, plan_readings
from backcast._request import (
    AnyLog,
    AnyRewardModel,
    EvaluationRequest,
    Evaluator,
    as_log,
    check_request,
    partial_note,
    with_checkpoint,
)
from backcast._serialization import from_json, to_json
from backcast._training_split import TrainingSplit
from backcast.checks.policy import probe_policy
from backcast.errors import EvaluationError, OptionError, StopEvaluation
from backcast.estimate import LOGGED, Difference, Estimate, Precision, student_quantile
from backcast.evaluation import (
    FIRST_CALLS,
    complete_estimate,
    convert_evaluator_errors,
    find_baseline,
    run_evaluator,
    with_lift,
)
from backcast.evaluators._curve_gains import rebase_break_even
from backcast.evaluators._logged_rewards import LoggedMean
from backcast.guardrails import Guardrail, GuardrailResult, check_guardrail, parse_guardrail
from backcast.policies._calls import describe
from backcast.policies.base import is_learning
from backcast.policies.wrappers import WarmStart
from backcast.reward_models.cross_fitting import number_predictions
from backcast.segments import Breakdown
from backcast.verdict import Verdict, judge, judge_lifts

RANKING_DRAWS = 20_000
ERRORS_ADDED = "The policies were evaluated one by one; differences add their errors as if they were independent."


@dataclass(frozen=True, eq=False)
class Comparison(ContentEquality):
    """Policies on one log, at one horizon, compared with a baseline and with each other.

    Attributes
    ----------
    estimates
        Each policy by itself.
    differences
        Every pair; their intervals hold together at the level (Bonferroni), as a note states.
    ranking
        Names with the probability that each is the best of them, best first; empty unless all are trustworthy.
    notes
        Sentences a reader must know.
    baseline
        What the log itself earned, the mean of its rewards, or the policy that was named as the baseline; None without
        one.
    baseline_name
        "logged", or the name of that policy.
    lifts
        How much more each policy earns than the baseline, per round and as a share of it, on the same events. Their
        intervals hold together at the level (comparison with a control, Dunnett 1955); those of ``differences`` are a
        family of their own.
    outcomes
        The same comparison read off each further outcome of the log, by name. Policies learn from the reward alone.
        Intervals of lifts hold together for all further outcomes and policies.
    segments
        The lifts by segment, for each segment column of the log; see :meth:`by_segment`.
    guardrails
        What the log says about each guardrail for each policy.
    outcome
        The outcome that this comparison is read off; empty for the reward.
    """

    estimates: dict[str, Estimate]
    differences: tuple[Difference, ...]
    ranking: tuple[tuple[str, float], ...]
    notes: tuple[str, ...] = ()
    baseline: Estimate | None = None
    baseline_name: str = LOGGED
    lifts: dict[str, Difference] = field(default_factory=dict)
    outcomes: dict[str, Comparison] = field(default_factory=dict)
    segments: dict[str, Breakdown] = field(default_factory=dict)
    guardrails: tuple[GuardrailResult, ...] = ()
    outcome: str = ""

    @property
    def has_verdict(self) -> bool:
        """Whether there is something to decide: a baseline or another policy, and more of it is better."""
        return not self.outcome and (len(self.estimates) > 1 or self.baseline is not None)

    @property
    def verdict(self) -> Verdict:
        """What the comparison decides about the policy with the highest value, from both sides' diagnostics.

        With a baseline it is compared with the baseline, else with all other policies. A policy is better only if it
        is shown to keep all guardrails; those that keep them come before those that do not, whatever their values.
        """
        if self.outcome:
            raise EvaluationError(
                f"a verdict is about the reward, and more of {self.outcome!r} may be better or worse; give compare a "
                f"guardrail such as '{self.outcome} < {self.baseline_name} + 5'"
            )
        if self.baseline is None:
            return judge(self.estimates, self.differences)
        return judge_lifts(self.estimates, self.baseline, self.baseline_name, self.lifts, self.guardrails)

    def by_segment(self, column: str) -> Breakdown:
        """Return the same lifts by the segments of one column, with intervals that hold together.

        The column is one of those that the log was given as ``segments``.
        """
        if column not in self.segments:
            known = f"; the segment columns are {', '.join(self.segments)}" if self.segments else ""
            raise OptionError(
                f"the comparison has no segments by {column!r}{known}. Name the column when the log is read: "
                f"segments=[{column!r}]"
            )
        return self.segments[column]

    def plot_outcomes(self, outcome: str | None = None) -> Any:
        """An Altair chart of the lift in the reward against the lift in one further outcome, by default the first."""
        from backcast.report.outcomes import plot_outcomes

        return plot_outcomes(self, outcome)

    @overload
    def __getitem__(self, key: str) -> Estimate: ...
    @overload
    def __getitem__(self, key: tuple[str, str]) -> Difference: ...
    def __getitem__(self, key: str | tuple[str, str]) -> Estimate | Difference:
        """Return the estimate of one policy, or the first of two minus the second, whichever is stored first.

        The baseline has its name, such as "logged"; a difference to it is a lift, or the negative of one.
        """
        estimates = self.estimates if self.baseline is None else {**self.estimates, self.baseline_name: self.baseline}
        wanted = key if isinstance(key, tuple) else (key,)
        unknown = next((name for name in wanted if name not in estimates), None)
        if unknown is not None or len(wanted) > 2 or len(set(wanted)) < len(wanted):
            problem = "give one name or two that differ" if unknown is None else f"there is no policy {unknown!r}"
            raise OptionError(f"{problem}; there are {join_names([repr(name) for name in estimates])}")
        if len(wanted) == 1:
            return estimates[wanted[0]]
        first, second = wanted
        for stored in (*self.differences, *self.lifts.values()):
            if (stored.first, stored.second) in ((first, second), (second, first)):
                return stored if stored.first == first else -stored
        raise OptionError(f"the difference of {first!r} and {second!r} has no standard error, so it is not known")

    def __str__(self) -> str:
        lines = [f"{name}: {estimate.value:.4g} {estimate.interval}" for name, estimate in self.estimates.items()]
        if self.baseline is not None and self.baseline_name not in self.estimates:
            lines.insert(0, f"{self.baseline_name}: {self.baseline.value:.4g} {self.baseline.interval}")
        lines += [str(difference) for difference in (*self.lifts.values(), *self.differences)]
        lines += [f"best: {name} with probability {chance:.0%}" for name, chance in self.ranking[:1]]
        lines += [str(result) for result in self.guardrails]
        for name, comparison in self.outcomes.items():
            lines += [f"{name}: {lift}" for lift in comparison.lifts.values()]
        lines += [str(breakdown) for breakdown in self.segments.values()]
        if self.has_verdict:
            verdict = self.verdict
            lines.append(" ".join(filter(None, [str(verdict), *verdict.reasons, verdict.next_step])))
        return "\n".join([*lines, *self.notes])

    def to_dict(self, *, influences: bool = False) -> dict[str, Any]:
        """Everything as plain numbers, strings, lists and dicts, for JSON; influences on request (see Estimate)."""
        return {
            "estimates": {name: each.to_dict(influences=influences) for name, each in self.estimates.items()},
            "differences": to_json(self.differences),
            "ranking": [{"policy": name, "probability_best": chance} for name, chance in self.ranking],
            "notes": list(self.notes),
            "baseline": None if self.baseline is None else self.baseline.to_dict(influences=influences),
            "baseline_name": self.baseline_name,
            "lifts": to_json(self.lifts),
            "verdict": to_json(self.verdict) if self.has_verdict else None,
            "outcomes": {name: each.to_dict(influences=influences) for name, each in self.outcomes.items()},
            "segments": {column: each.to_dict() for column, each in self.segments.items()},
            "guardrails": to_json(self.guardrails),
            "outcome": self.outcome,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Comparison:
        """The comparison that :meth:`to_dict` made plain."""
        return cls(
            {name: Estimate.from_dict(estimate) for name, estimate in plain["estimates"].items()},
            tuple(from_json(Difference, difference, "difference") for difference in plain["differences"]),
            tuple((entry["policy"], float(entry["probability_best"])) for entry in plain["ranking"]),
            tuple(plain["notes"]),
            # files of older versions have no baseline
            Estimate.from_dict(plain["baseline"]) if plain.get("baseline") is not None else None,
            str(plain.get("baseline_name", LOGGED)),
            {name: from_json(Difference, lift, f"lift of {name}") for name, lift in plain.get("lifts", {}).items()},
            {name: cls.from_dict(each) for name, each in plain.get("outcomes", {}).items()},
            {column: Breakdown.from_dict(each) for column, each in plain.get("segments", {}).items()},
            tuple(from_json(GuardrailResult, each, "guardrail") for each in plain.get("guardrails", ())),
            str(plain.get("outcome", "")),
        )

    def plot(self) -> Any:
        """An Altair chart of the policies with their intervals, and of their paired differences."""
        from backcast.report.charts import plot_result

        return plot_result(self)

    def to_frame(self) -> Any:
        """Return one row per policy as an Arrow table, that of the baseline first; missing numbers are null.

        Columns: ``policy``, its name; ``description``, as it is written in code; ``is_baseline``; ``value``,
        ``std_error``, ``low``, ``high``, ``level`` and ``method`` of the interval; ``lift``, ``lift_std_error``,
        ``lift_low``, ``lift_high``, ``relative_lift``, ``relative_lift_low``, ``relative_lift_high`` over the
        ``baseline``; ``decision`` against it; ``grade``; ``probability_best``; ``events``, ``horizon``, ``evaluator``.
        ``.to_pandas()`` makes a frame of pandas, ``polars.from_arrow(...)`` one of Polars.
        """
        from backcast.report.frames import comparison_frame

        return comparison_frame(self)


def compare(
    log: AnyLog,
    policies: Mapping[str, Any],  # of policies: mypy takes a dict of several classes for a dict of objects
    evaluator: Evaluator | Literal["auto"] = "auto",
    *,
    baseline: str | None = LOGGED,
    guardrails: Sequence[str] = (),
    reward_model: AnyRewardModel | None = None,
    horizon: int | str | None = None,
    level: float = 0.95,
    seed: int = 0,
    replicates: int | str | None = "default",
    exchangeable: bool | None = None,
    n_jobs: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    time_limit: float | None = None,
    time_budget: float | str | None = "default",
    progress: bool | Callable[[int], None] | None = None,
) -> Comparison:
    """Compare policies with what the log earned, and with each other: same events, same randomness.

    Parameters are those of :func:`backcast.evaluate`; ``policies`` names the policies, and ``time_budget`` is for all
    together. ``baseline`` is what lifts and the verdict are relative to: "logged", the mean of the logged rewards; the
    name of one of the policies; or None, for a comparison of the policies with each other alone.

    A log with ``outcomes`` and ``segments`` is also read by them, off the same histories: ``comparison.outcomes`` and
    ``comparison.by_segment``. ``guardrails`` are bounds on outcomes that a better policy must be shown to keep, such as
    ``"latency < logged + 5"``, ``"clicks >= logged - 2 %"`` or ``"complaints < 0.01"``.

    Fixed policies are always evaluated as fixed policies: an evaluator that simulates histories (``ClockReplay``,
    ``DRns``, ``WC``, ``RS``, ``Replay``) is used for the policies that learn, and what "auto" chooses for the fixed
    ones. A note states it.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.integers(2, size=400)
    >>> log = Log(None, actions, rewards=actions * 1.0, propensities=np.full(400, 0.5), reward_range=(0, 1))
    >>> comparison = compare(log, {"one": Fixed([0, 1]), "zero": Fixed([1, 0])}, horizon=20, replicates=60)
    >>> round(comparison.differences[0].value, 2), comparison.ranking[0]
    (1.0, ('one', 1.0))
    >>> float(log.rewards.mean()) == comparison.baseline.value
    True
    >>> round(comparison.lifts["one"].value, 2), comparison.verdict.decision
    (0.45, 'better')
    """
    if not isinstance(policies, Mapping) or not all(isinstance(name, str) for name in policies):
        raise OptionError(
            f"policies is a {type(policies).__name__}; give a dict from names (text) to policies, such as "
            '{"linucb": LinUCB(), "uniform": Uniform()}'
        )
    if baseline not in (None, LOGGED, *policies):
        raise OptionError(
            f"baseline is {baseline!r}; give {LOGGED!r} for what the log earned, the name of one of the policies, or "
            "None for no baseline"
        )
    fewest = 1 if baseline == LOGGED and LOGGED not in policies else 2
    if len(policies) < fewest:
        needed = "at least two, by name" if fewest == 2 else "at least one, by name"
        raise OptionError(f"{len(policies)} policies given; compare needs {needed}")
    check_request(
        policies.values(),
        level=level,
        horizon=horizon,
        seed=seed,
        replicates=replicates,
        exchangeable=exchangeable,
        n_jobs=n_jobs,
        time_limit=time_limit,
        progress=progress,
        time_budget=time_budget,
    )
    log, split = as_log(log), None
    rounds, horizon_notes = resolve_horizon(log, horizon)
    rails = _parse_guardrails(guardrails, log, baseline)
    predictions = number_predictions(reward_model, log)
    if any(isinstance(policy, WarmStart) for policy in policies.values()):
        split = TrainingSplit.of(log, policies)
        log, policies = split.log, split.policies
    request = EvaluationRequest(
        log=log,
        policy=None,
        reward_model=predictions,
        horizon=rounds,
        level=level,
        seed=seed,
        replicates=replicates,
        time_budget=time_budget,
        execution=Execution(n_jobs, time_limit),
        arguments={
            "evaluator": evaluator,
            "reward_model": reward_model,
            "horizon": horizon,
            "level": level,
            "seed": seed,
            "replicates": replicates,
            "exchangeable": exchangeable,
            "time_budget": time_budget,
            "baseline": baseline,
            **({"guardrails": list(guardrails)} if guardrails else {}),
        },
        pairs_with_log=True,
        readings=plan_readings(log),
    )
    fixed = {name: policy for name, policy in policies.items() if not is_learning(policy)}
    learners = {name: policy for name, policy in policies.items() if name not in fixed}
    alone: Choice | None = None
    # an evaluator of fixed policies is used as given; else each kind of policy has its own
    by_kind = (isinstance(evaluator, str) and evaluator == "auto") or simulates_histories(evaluator)
    if fixed and learners and by_kind:
        # simulated histories would only add noise to a fixed policy: it is evaluated as if it were alone
        (chosen, request, notes), alone = resolve_by_kind(
            evaluator, request, list(learners.values()), list(fixed.values()), exchangeable
        )
    elif fixed and simulates_histories(evaluator):
        fixed, learners = {}, fixed
        chosen, request, notes = resolve_as_fixed(evaluator, request, list(learners.values()), exchangeable)
    else:
        learners = dict(policies)
        chosen, request, notes = resolve_evaluator(evaluator, request, list(policies.values()), exchangeable)
    with limit_calls(time_limit, FIRST_CALLS):
        for policy in policies.values():
            probe_policy(policy, request.log, seed)
        facts = {f"policy {name!r}": policy for name, policy in policies.items()}
        request = with_checkpoint(request, checkpoint, chosen, facts)
        announce(request, chosen, list(policies.values()), notes)
    shown = show_progress(request.log, progress)
    with convert_evaluator_errors(chosen, request), request.report_damage(), shown as callbacks:
        request = replace(request, execution=replace(request.execution, **callbacks._asdict()))
        estimates: dict[str, Estimate] = {}
        stopped: tuple[str, ...] = ()
        if alone is not None:
            fixed_evaluator, fixed_request, fixed_notes = alone
            fixed_request = replace(fixed_request, execution=request.execution).scoped("fixed")
            estimates, stopped = _evaluate_one_by_one(fixed_evaluator, fixed_request, fixed, by_kind=True)
            notes += fixed_notes + stopped
        run_jointly = None if stopped else getattr(chosen, "run_jointly", None)
        joint_request = request if alone is None else replace(request, fixed_policies=tuple(fixed.values()))
        passes = None if run_jointly is None else run_jointly(joint_request, list(learners.values()))
        if passes is not None:
            for i, (name, policy) in enumerate(learners.items()):
                own_request = replace(request, policy=policy, policy_name=describe(policy))
                estimate = chosen.estimate_of(i, passes, own_request)
                estimates[name] = complete_estimate(estimate, chosen, own_request)
            notes += passes.notes
        elif not stopped:
            by_name, stopped = _evaluate_one_by_one(chosen, request, learners, by_kind=by_kind)
            estimates |= by_name
            notes += stopped
        side = None if alone is None else Side(fixed_evaluator, fixed_request, fixed, by_kind=True)
        runs = PolicyRuns(list(policies), Side(chosen, request, learners, by_kind), passes, side)
        read: list[ReadEstimates] = []
        if request.readings and not stopped:
            read, not_read = _read_all(runs, request)
            notes += not_read
    if split is not None:
        estimates = {name: split.complete(estimate, name) for name, estimate in estimates.items()}
        notes += split.notes()
    if not stopped:
        estimates = {name: estimates[name] for name in policies}
    logged = find_baseline(request, estimates)
    if logged is not None:
        estimates = {name: with_lift(estimate, logged, request) for name, estimate in estimates.items()}
    if not stopped and baseline in estimates and baseline != LOGGED:
        places = {} if passes is None else {name: i for i, name in enumerate(runs.columns)}
        estimates = rebase_break_even(estimates, places, passes, baseline, level)
    pairing = None
    if not stopped and (passes is None or passes.has_standard_errors):
        pairing = Pairing(estimates, runs.columns, passes)
    comparison = _comparison(estimates, pairing, request, (*horizon_notes, *notes), baseline, logged)
    if pairing is None or not read:
        return comparison
    outcomes, results = _read_outcomes(runs, read, request, baseline, rails)
    segments = break_down(runs, read, baseline, level)
    return replace(comparison, outcomes=outcomes, segments=segments, guardrails=results)


def _parse_guardrails(given: Sequence[str], log: Any, baseline: str | None) -> list[Guardrail]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise OptionError(f"guardrails is {given!r}; give a list of texts, such as ['latency < logged + 5']")
    rails = [parse_guardrail(text, log.outcome_names, baseline or LOGGED) for text in given]
    if rails and baseline is None:
        raise OptionError("guardrails are part of the verdict against a baseline; leave baseline out, or name one")
    return rails


def _read_all(runs: PolicyRuns, request: EvaluationRequest) -> tuple[list[ReadEstimates], tuple[str, ...]]:
    """Read all outcomes and segments; with a note if the run is stopped before."""
    not_read = (partial_note("the policies, but not their outcomes and segments,"),)
    if not runs.has_readings:
        return [], not_read
    try:
        return [runs.read(number, reading) for number, reading in enumerate(request.readings)], ()
    except StopEvaluation:
        return [], not_read


def _read_outcomes(
    runs: PolicyRuns,
    read: Sequence[ReadEstimates],
    request: EvaluationRequest,
    baseline: str | None,
    rails: Sequence[Guardrail],
) -> tuple[dict[str, Comparison], tuple[GuardrailResult, ...]]:
    """Return the comparison by outcome, with intervals of lifts that hold together, and what guardrails show."""
    by_outcome = {each.reading.name: each for each in read if isinstance(each.reading, OutcomeReading)}
    influences = [
        lift_influences(each, name, baseline or LOGGED, runs.log)
        for each in by_outcome.values()
        for name in runs.names
        if name != baseline and math.isfinite(each.estimates[name].std_error)
    ]
    own_level, method = joint_level(influences, request.level)
    note = f"Lifts in further outcomes hold simultaneously at {100 * request.level:g} % ({method})."
    comparisons = {}
    for outcome, each in by_outcome.items():
        own_request = replace(request, log=each.log)
        estimates = {name: with_lift(estimate, each.logged, own_request) for name, estimate in each.estimates.items()}
        pairing = Pairing(estimates, runs.columns, runs.passes, each.first_column)
        found = _comparison(estimates, pairing, own_request, (), baseline, each.logged, own_level)
        comparisons[outcome] = replace(found, outcome=outcome, ranking=(), notes=(*found.notes, note))
    results = []
    for rail in rails:
        comparison = comparisons[rail.outcome]
        for name in runs.names:
            if name != baseline:
                estimate, lift = comparison.estimates[name], comparison.lifts.get(name)
                ends = _value_ends(estimate, lift, own_level)
                results.append(check_guardrail(rail, name, estimate, lift, ends))
    return comparisons, tuple(results)


def _value_ends(estimate: Estimate, lift: Difference | None, own_level: float) -> tuple[float, float] | None:
    """Return the interval of a value at the level of the lifts, with their degrees of freedom."""
    if lift is None or not math.isfinite(estimate.std_error):
        return None
    half_width = student_quantile(own_level, lift.degrees_of_freedom) * estimate.std_error
    return estimate.value - half_width, estimate.value + half_width


def _evaluate_one_by_one(
    evaluator: Any, request: EvaluationRequest, policies: Mapping[str, Any], *, by_kind: bool
) -> tuple[dict[str, Estimate], tuple[str, ...]]:
    """Evaluate policies one after another, the logger by its own rewards; with a note if the run is stopped early."""
    estimates: dict[str, Estimate] = {}
    for i, (name, policy) in enumerate(policies.items()):
        own_request = replace(
            request.scoped(f"policy-{i}"), policy=policy, policy_name=describe(policy), replicates=None
        )
        try:
            own_evaluator = LoggedMean() if by_kind and getattr(policy, "repeats_log", False) else evaluator
            estimates[name] = run_evaluator(own_evaluator, own_request)
        except StopEvaluation:
            missing = len(policies) - len(estimates)
            return estimates, (partial_note(f"all but {missing} policies"),)
    return estimates, ()


def _comparison(
    estimates: dict[str, Estimate],
    pairing: Pairing | None,
    request: EvaluationRequest,
    notes: tuple[str, ...],
    baseline_name: str | None,
    logged: Estimate | None,
    lift_level: float | None = None,
) -> Comparison:
    """Return the comparison of all pairs and with the baseline; without a pairing there are no differences.

    ``lift_level`` is the level of each lift if lifts are part of a larger family.
    """
    names, level, log = list(estimates), request.level, request.log
    baseline = None if baseline_name is None else estimates.get(baseline_name, logged)
    baseline_name = baseline_name or LOGGED
    if pairing is None:
        return Comparison(estimates, (), (), notes, baseline, baseline_name)
    sides = [comparand(name, estimate, log) for name, estimate in estimates.items()]
    pairs = list(combinations(range(len(names)), 2))
    precisions = {pair: pairing.precision(*pair) for pair in pairs}
    pair_level = 1 - (1 - level) / max(len(pairs), 1)
    differences = tuple(
        make_difference(sides[a], sides[b], precision, level, pair_level, log)
        for (a, b), precision in precisions.items()
    )
    pair_errors = np.zeros((len(names), len(names)))
    for (a, b), precision in precisions.items():
        pair_errors[a, b] = pair_errors[b, a] = precision.std_error
    lifts = {}
    if baseline is not None:
        lifts = _lifts(sides, precisions, pair_errors, baseline, baseline_name, request, lift_level)
    if any(each.interval.method == UNPAIRED for each in (*differences, *lifts.values())):
        notes = (*notes, ERRORS_ADDED)
    if len(lifts) > 1 and lift_level is None:
        over = "the log" if baseline_name == LOGGED else baseline_name
        notes = (*notes, f"Lifts over {over} hold simultaneously at {100 * level:g} % (comparison with a control).")
    if len(pairs) > 1:
        simultaneous = f"their intervals hold simultaneously at {100 * level:g} % (Bonferroni)"
        notes = (*notes, f"{len(pairs)} pairs are compared; {simultaneous}.")
    # values that are not trustworthy have no known distribution
    trustworthy = all(estimate.reliability.is_trustworthy for estimate in estimates.values())
    values, errors = (np.array([getattr(e, key) for e in estimates.values()]) for key in ("value", "std_error"))
    is_ranked = trustworthy and len(names) > 1
    ranking = _ranking(names, values, covariance_of_differences(errors, pair_errors)) if is_ranked else ()
    return Comparison(estimates, differences, ranking, notes, baseline, baseline_name, lifts)


def _lifts(
    sides: Sequence[Comparand],
    precisions: Mapping[tuple[int, int], Precision],
    pair_errors: FloatArray,
    baseline: Estimate,
    baseline_name: str,
    request: EvaluationRequest,
    own_level: float | None,
) -> dict[str, Difference]:
    """Return the differences of all other policies to the baseline, whose intervals hold simultaneously."""
    names, log, level = [side.name for side in sides], request.log, request.level
    # without a standard error, or for another quantity than the mean reward, there is no lift over the log
    others = [i for i, side in enumerate(sides) if side.name != baseline_name and side.estimate.lift is not None]
    if not others:
        return {}
    if baseline_name in names:
        place = names.index(baseline_name)
        own = [precisions[min(i, place), max(i, place)] for i in others]
        reference = sides[place]
    else:
        own = [lift_precision(sides[i].estimate, baseline, log) for i in others]
        reference = Comparand(baseline_name, baseline)
    errors = np.array([precision.std_error for precision in own])
    if own_level is None:
        own_level = simultaneous_level(covariance_of_differences(errors, pair_errors[np.ix_(others, others)]), level)
    return {
        names[i]: make_lift(sides[i], reference, precision, level, own_level, log)
        for i, precision in zip(others, own, strict=True)
    }


def _ranking(names: list[str], values: FloatArray, covariance: FloatArray) -> tuple[tuple[str, float], ...]:
    """Return the probability that each policy is the best, under a normal distribution around the estimates."""
    eigenvalues, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    draws = values + np.random.default_rng(0).standard_normal((RANKING_DRAWS, len(names))) @ root.T
    # policies with equal values are the best with equal probability
    is_best = draws == draws.max(axis=1, keepdims=True)
    probabilities = (is_best / is_best.sum(axis=1, keepdims=True)).mean(axis=0)
    order = np.lexsort((-values, -probabilities))
    return tuple((names[i], float(probabilities[i])) for i in order)
