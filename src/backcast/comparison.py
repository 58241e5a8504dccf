"""compare(): which policy earns more, by paired differences on common events and common randomness."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike
from typing import Any, Literal

import numpy as np

from backcast._arrays import FloatArray
from backcast._auto import Choice, resolve_by_kind, resolve_evaluator
from backcast._equality import ContentEquality
from backcast._forecast import announce
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
from backcast.checks.policy import probe_policy
from backcast.errors import EvaluationError, OptionError, StopEvaluation
from backcast.estimate import Estimate, Interval, student_quantile
from backcast.evaluation import FIRST_CALLS, complete_estimate, run_evaluator
from backcast.evaluators._replicate_statistics import Precision
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import describe
from backcast.policies.base import is_learning
from backcast.verdict import Verdict, judge

DIFFERENCE = "V_T(a) - V_T(b): what one policy earns more than the other per round, over the first T rounds"
RANKING_DRAWS = 20_000
MARTINGALES = {"martingale", "asymptotic martingale"}
UNPAIRED = "errors added"
ERRORS_ADDED = "The policies were evaluated one by one; differences add their errors as if they were independent."


@dataclass(frozen=True, eq=False)
class Difference(ContentEquality):
    """How much more the first policy earns than the second, per round: the first value minus the second.

    The interval is Student's t. If few effective events carry one of the values, it also allows for one event that the
    log may have missed, as :class:`backcast.AdjustedStudent` does, and is within what the reward range allows.
    ``monte_carlo_error`` is the part of the standard error that more replicates would reduce; the remainder only a
    longer log would. ``degrees_of_freedom`` are those of the standard error.
    """

    first: str
    second: str
    value: float
    std_error: float
    interval: Interval
    monte_carlo_error: float = 0.0
    degrees_of_freedom: float = math.inf

    def __str__(self) -> str:
        return f"{self.first} - {self.second}: {self.value:+.4g} {self.interval}"


@dataclass(frozen=True, eq=False)
class Comparison(ContentEquality):
    """Several policies on one log, at one horizon.

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
    """

    estimates: dict[str, Estimate]
    differences: tuple[Difference, ...]
    ranking: tuple[tuple[str, float], ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """What the comparison decides about the policy with the highest value, from both sides' diagnostics."""
        return judge(self.estimates, self.differences)

    def __str__(self) -> str:
        lines = [f"{name}: {estimate.value:.4g} {estimate.interval}" for name, estimate in self.estimates.items()]
        lines += [str(difference) for difference in self.differences]
        lines += [f"best: {name} with probability {chance:.0%}" for name, chance in self.ranking[:1]]
        if len(self.estimates) > 1:
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
            "verdict": to_json(self.verdict) if len(self.estimates) > 1 else None,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Comparison:
        """The comparison that :meth:`to_dict` made plain."""
        return cls(
            {name: Estimate.from_dict(estimate) for name, estimate in plain["estimates"].items()},
            tuple(from_json(Difference, difference, "difference") for difference in plain["differences"]),
            tuple((entry["policy"], float(entry["probability_best"])) for entry in plain["ranking"]),
            tuple(plain["notes"]),
        )

    def plot(self) -> Any:
        """An Altair chart of the policies with their intervals, and of their paired differences."""
        from backcast.report.charts import plot_result

        return plot_result(self)

    def _repr_html_(self) -> str:
        from backcast.report.notebook import result_html

        return result_html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from backcast.report.notebook import mime_bundle

        return mime_bundle(str(self), self._repr_html_(), include, exclude)


def compare(
    log: AnyLog,
    policies: Mapping[str, Any],  # of policies: mypy takes a dict of several classes for a dict of objects
    evaluator: Evaluator | Literal["auto"] = "auto",
    *,
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
    """Compare policies on the same log: same groups, same randomness, so that what they share cancels out.

    Parameters are those of :func:`backcast.evaluate`; ``policies`` names the policies. With ``evaluator="auto"``, fixed
    policies beside learning ones are evaluated as if they were alone; an evaluator that is given is used for all.

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
    """
    if not isinstance(policies, Mapping) or not all(isinstance(name, str) for name in policies):
        raise OptionError(
            f"policies is a {type(policies).__name__}; give a dict from names (text) to policies, such as "
            '{"linucb": LinUCB(), "uniform": Uniform()}'
        )
    if len(policies) < 2:
        raise OptionError(f"{len(policies)} policies given; compare needs at least two, by name")
    check_request(
        policies.values(),
        level=level,
        horizon=horizon,
        seed=seed,
        replicates=replicates,
        exchangeable=exchangeable,
        n_jobs=n_jobs,
        time_limit=time_limit,
    )
    request = EvaluationRequest(
        log=as_log(log),
        policy=None,
        reward_model=reward_model,
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
        },
    )
    fixed = {name: policy for name, policy in policies.items() if not is_learning(policy)}
    learners = {name: policy for name, policy in policies.items() if name not in fixed}
    alone: Choice | None = None
    if isinstance(evaluator, str) and evaluator == "auto" and fixed and learners:
        # simulated histories would only add noise to a fixed policy: it is evaluated as if it were alone
        (chosen, request, notes), alone = resolve_by_kind(
            request, list(learners.values()), list(fixed.values()), exchangeable
        )
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
    with request.report_damage(), shown as on_progress:
        request = replace(request, execution=replace(request.execution, on_progress=on_progress))
        estimates: dict[str, Estimate] = {}
        stopped: tuple[str, ...] = ()
        if alone is not None:
            fixed_evaluator, fixed_request, fixed_notes = alone
            fixed_request = replace(fixed_request, execution=request.execution).scoped("fixed")
            estimates, stopped = _evaluate_one_by_one(fixed_evaluator, fixed_request, fixed)
            notes += fixed_notes + stopped
        run_jointly = None if stopped else getattr(chosen, "run_jointly", None)
        passes = None if run_jointly is None else run_jointly(request, list(learners.values()))
        if passes is not None:
            for i, (name, policy) in enumerate(learners.items()):
                own_request = replace(request, policy=policy, policy_name=describe(policy))
                estimate = chosen.estimate_of(i, passes, own_request)
                estimates[name] = complete_estimate(estimate, chosen, own_request)
            notes += passes.notes
        elif not stopped:
            by_name, stopped = _evaluate_one_by_one(chosen, request, learners)
            estimates |= by_name
            notes += stopped
    if stopped:
        return Comparison(estimates, (), (), notes)
    if passes is not None and not passes.has_standard_errors:
        return Comparison({name: estimates[name] for name in policies}, (), (), notes)
    estimates = {name: estimates[name] for name in policies}
    return _comparison(estimates, _Pairing(estimates, list(learners), passes), request, notes)


def _evaluate_one_by_one(
    evaluator: Any, request: EvaluationRequest, policies: Mapping[str, Any]
) -> tuple[dict[str, Estimate], tuple[str, ...]]:
    """Evaluate policies one after another; with a note if the run is stopped before the last."""
    estimates: dict[str, Estimate] = {}
    for i, (name, policy) in enumerate(policies.items()):
        own_request = replace(
            request.scoped(f"policy-{i}"), policy=policy, policy_name=describe(policy), replicates=None
        )
        try:
            estimates[name] = run_evaluator(evaluator, own_request)
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

    def precision(self, a: int, b: int) -> tuple[Precision, str]:
        """Return the precision of the difference of two estimates, and the method."""
        first, second = self._estimates[a], self._estimates[b]
        if a in self._place and b in self._place:
            places = self._place[a], self._place[b]
            return self._passes.difference_precision(*places), f"paired {self._passes.method}"
        one, other = first.influences, second.influences
        if one is not None and other is not None and one.size == other.size:
            if a not in self._place and b not in self._place:
                difference = one - other
                precision = Precision(float(difference.var(ddof=1) / difference.size), 0.0, math.inf)
                return precision, "paired by event"
            if hasattr(self._passes, "fixed_difference_precision"):
                joint, influences = (a, other) if a in self._place else (b, one)
                precision = self._passes.fixed_difference_precision(self._place[joint], influences)
                return precision, f"paired {self._passes.method}"
        for estimate in (first, second):
            if not math.isfinite(estimate.std_error):
                raise EvaluationError(
                    f"{estimate.evaluator} gives no standard error here, so policies cannot be compared with it"
                )
        return Precision(first.std_error**2 + second.std_error**2, 0.0, math.inf), UNPAIRED


def _comparison(
    estimates: dict[str, Estimate], pairing: _Pairing, request: EvaluationRequest, notes: tuple[str, ...]
) -> Comparison:
    """Return the comparison of all pairs."""
    names, level = list(estimates), request.level
    missed = [_missed_event(estimate, request.log) for estimate in estimates.values()]
    sizes = [estimate.diagnostics.to_dict().get("effective_sample_size", math.inf) for estimate in estimates.values()]
    widest = math.inf if request.log.reward_range is None else float(np.ptp(request.log.reward_range))
    values = np.array([estimate.value for estimate in estimates.values()])
    pairs = list(combinations(range(len(names)), 2))
    pair_level = 1 - (1 - level) / len(pairs)
    variances = np.array([estimate.std_error**2 for estimate in estimates.values()])
    covariance = np.diag(variances)
    # valid for loggers that learn if each of the estimates is
    assumptions = {"" if estimate.interval is None else estimate.interval.assumption for estimate in estimates.values()}
    assumption = "asymptotic martingale" if assumptions <= MARTINGALES else "independent"
    differences = []
    for a, b in pairs:
        precision, method = pairing.precision(a, b)
        error, value = precision.std_error, float(values[a] - values[b])
        covariance[a, b] = covariance[b, a] = (variances[a] + variances[b] - error**2) / 2
        freedom = max(min(precision.degrees_of_freedom, sizes[a] - 1, sizes[b] - 1), 1.0)
        imagined = max(missed[a], missed[b])
        half_width = imagined + student_quantile(pair_level, freedom) * math.hypot(error, imagined)
        ends = max(value - half_width, -widest), min(value + half_width, widest)
        interval = Interval(*ends, level, method, assumption, DIFFERENCE)
        monte_carlo_error = math.sqrt(precision.monte_carlo)
        differences.append(Difference(names[a], names[b], value, error, interval, monte_carlo_error, freedom))
    if any(difference.interval.method == UNPAIRED for difference in differences):
        notes = (*notes, ERRORS_ADDED)
    if len(pairs) > 1:
        simultaneous = f"their intervals hold simultaneously at {100 * level:g} % (Bonferroni)"
        notes = (*notes, f"{len(pairs)} pairs are compared; {simultaneous}.")
    # values that are not trustworthy have no known distribution
    trustworthy = all(estimate.reliability.is_trustworthy for estimate in estimates.values())
    ranking = _ranking(names, values, covariance) if trustworthy else ()
    return Comparison(estimates, tuple(differences), ranking, notes)


def _missed_event(estimate: Estimate, log: Log | LogStream) -> float:
    """Return by how much one event that the log may have missed would change a weighted estimate; 0 without weights.

    The event has the weight that the policy meets on average, ``sum w^2 / sum w``, and a residual as large as the
    reward range, as in :class:`backcast.AdjustedStudent`.
    """
    diagnostics = estimate.diagnostics.to_dict()
    bounds = log.reward_bounds if isinstance(log, Log) else log.reward_range
    size = diagnostics.get("effective_sample_size", 0.0)
    if size == 0 or bounds is None:
        return 0.0
    # n of the mean and n of the weight cancel
    return float(diagnostics.get("mean_weight", 1.0) / size * (bounds[1] - bounds[0]))


def _ranking(names: list[str], values: FloatArray, covariance: FloatArray) -> tuple[tuple[str, float], ...]:
    """Return the probability that each policy is the best, under a normal distribution around the estimates."""
    eigenvalues, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    draws = values + np.random.default_rng(0).standard_normal((RANKING_DRAWS, len(names))) @ root.T
    probabilities = np.bincount(draws.argmax(axis=1), minlength=len(names)) / RANKING_DRAWS
    order = np.lexsort((-values, -probabilities))
    return tuple((names[i], float(probabilities[i])) for i in order)
