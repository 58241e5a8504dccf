"""compare(): which policy earns more, by paired differences on common events and common randomness."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
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
from backcast._parallel.jobs import Execution, ignore_progress
from backcast._parallel.time_limit import limit_calls
from backcast._progress import show_progress
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
from backcast.estimate import LOGGED, PAIRED_BY_EVENT, Difference, Estimate, Precision
from backcast.evaluation import (
    FIRST_CALLS,
    complete_estimate,
    convert_evaluator_errors,
    find_baseline,
    run_evaluator,
    with_lift,
)
from backcast.evaluators._disjoint_parts import PartResults
from backcast.evaluators._logged_rewards import LoggedMean
from backcast.policies._calls import describe
from backcast.policies.base import is_learning
from backcast.policies.wrappers import WarmStart
from backcast.reward_models.cross_fitting import number_predictions
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
    """

    estimates: dict[str, Estimate]
    differences: tuple[Difference, ...]
    ranking: tuple[tuple[str, float], ...]
    notes: tuple[str, ...] = ()
    baseline: Estimate | None = None
    baseline_name: str = LOGGED
    lifts: dict[str, Difference] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """What the comparison decides about the policy with the highest value, from both sides' diagnostics.

        With a baseline it is compared with the baseline, else with all other policies.
        """
        if self.baseline is None:
            return judge(self.estimates, self.differences)
        return judge_lifts(self.estimates, self.baseline, self.baseline_name, self.lifts)

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
        if len(self.estimates) > 1 or self.baseline is not None:
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
            "verdict": to_json(self.verdict) if len(self.estimates) > 1 or self.baseline is not None else None,
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
    reward_model: AnyRewardModel | None = None,
    horizon: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    replicates: int | str | None = "default",
    exchangeable: bool | None = None,
    n_jobs: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[int], None] | None = None,
) -> Comparison:
    """Compare policies with what the log earned, and with each other: same events, same randomness.

    Parameters are those of :func:`backcast.evaluate`; ``policies`` names the policies. ``baseline`` is what lifts and
    the verdict are relative to: "logged", the mean of the logged rewards; the name of one of the policies; or None, for
    a comparison of the policies with each other alone.

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
    )
    log, split = as_log(log), None
    predictions = number_predictions(reward_model, log)
    if any(isinstance(policy, WarmStart) for policy in policies.values()):
        split = TrainingSplit.of(log, policies)
        log, policies = split.log, split.policies
    request = EvaluationRequest(
        log=log,
        policy=None,
        reward_model=predictions,
        horizon=horizon,
        level=level,
        seed=seed,
        replicates=replicates,
        execution=Execution(n_jobs, time_limit),
        arguments={
            "evaluator": evaluator,
            "reward_model": reward_model,
            "horizon": horizon,
            "level": level,
            "seed": seed,
            "replicates": replicates,
            "exchangeable": exchangeable,
            "baseline": baseline,
        },
        pairs_with_log=True,
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
    shown = show_progress(request.log, progress) if progress else nullcontext(ignore_progress)
    with convert_evaluator_errors(chosen, request), request.report_damage(), shown as on_progress:
        request = replace(request, execution=replace(request.execution, on_progress=on_progress))
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
    if split is not None:
        estimates = {name: split.complete(estimate, name) for name, estimate in estimates.items()}
        notes += split.notes()
    if not stopped:
        estimates = {name: estimates[name] for name in policies}
    logged = find_baseline(request, estimates)
    if logged is not None:
        estimates = {name: with_lift(estimate, logged, request) for name, estimate in estimates.items()}
    pairing = None
    if not stopped and (passes is None or passes.has_standard_errors):
        in_parts = isinstance(passes, PartResults) and alone is not None
        pairing = _Pairing(estimates, [*learners, *fixed] if in_parts else list(learners), passes)
    return _comparison(estimates, pairing, request, notes, baseline, logged)


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


class _Pairing:
    """How precise the difference of two estimates is, by what they have in common.

    Policies that were run jointly are paired by their passes, fixed policies event by event by the influences of
    events on their values, and a fixed policy with one that was run in passes by the influences on both. Otherwise
    errors are added as if they were independent.
    """

    def __init__(self, estimates: Mapping[str, Estimate], joint: Sequence[str], passes: Any) -> None:
        self._estimates, self._passes = list(estimates.values()), passes
        names = list(estimates)
        self._place = {} if passes is None else {names.index(name): i for i, name in enumerate(joint)}

    def precision(self, a: int, b: int) -> Precision:
        """Return the precision of the difference of two estimates."""
        first, second = self._estimates[a], self._estimates[b]
        precision: Precision | None = None
        if a in self._place and b in self._place:
            precision = self._passes.difference_precision(self._place[a], self._place[b])
        one, other = first.influences, second.influences
        if precision is None and (a in self._place or b in self._place):
            joint, influences = (a, other) if a in self._place else (b, one)
            has_common_events = influences is not None and influences.size == getattr(self._passes, "n_events", None)
            if has_common_events and hasattr(self._passes, "fixed_difference_precision"):
                precision = self._passes.fixed_difference_precision(self._place[joint], influences)
        elif precision is None and one is not None and other is not None and one.size == other.size:
            difference = one - other
            return Precision(float(difference.var(ddof=1) / difference.size), 0.0, math.inf, PAIRED_BY_EVENT)
        if precision is not None:
            return precision
        for estimate in (first, second):
            if not math.isfinite(estimate.std_error):
                raise EvaluationError(
                    f"{estimate.evaluator} gives no standard error here, so policies cannot be compared with it"
                )
        return Precision(first.std_error**2 + second.std_error**2, 0.0, math.inf, UNPAIRED)


def _comparison(
    estimates: dict[str, Estimate],
    pairing: _Pairing | None,
    request: EvaluationRequest,
    notes: tuple[str, ...],
    baseline_name: str | None,
    logged: Estimate | None,
) -> Comparison:
    """Return the comparison of all pairs and with the baseline; without a pairing there are no differences."""
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
        lifts = _lifts(sides, precisions, pair_errors, baseline, baseline_name, request)
    if any(each.interval.method == UNPAIRED for each in (*differences, *lifts.values())):
        notes = (*notes, ERRORS_ADDED)
    if len(lifts) > 1:
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
