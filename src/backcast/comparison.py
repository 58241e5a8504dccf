"""Which policy earns more: paired differences on common events and common randomness."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from backcast._arrays import FloatArray
from backcast._auto import resolve_evaluator
from backcast._request import EvaluationRequest, check_request, stopped_note, with_checkpoint
from backcast._serialization import from_json, to_json
from backcast.diagnostics import Diagnostics
from backcast.errors import EvaluationError, OptionError, StopEvaluation
from backcast.estimate import Estimate, Interval
from backcast.evaluation import answer_with, showing_progress, with_replay_summary
from backcast.evaluators._disjoint_parts import estimate_on_parts
from backcast.evaluators._replicate_statistics import Replicated, replicated_from
from backcast.evaluators._replicates import run_replicates
from backcast.evaluators.clock_replay import ClockReplay, clock_diagnostics
from backcast.evaluators.drns import WC, DRns, Permuted, permuted_diagnostics
from backcast.policies._calls import describe_policy

DIFFERENCE = "V_T(a) - V_T(b): what one policy earns more than the other per round, over the first T rounds"


DRAWS = 20_000


@dataclass(frozen=True)
class Difference:
    """How much more the first policy earns than the second, per round.

    ``monte_carlo_error`` is the part of the standard error that more replicates would take away; the rest only a longer
    log would.
    """

    first: str
    second: str
    value: float
    std_error: float
    interval: Interval
    monte_carlo_error: float = 0.0

    def __str__(self) -> str:
        return f"{self.first} - {self.second}: {self.value:+.4g} {self.interval}"


@dataclass(frozen=True)
class Comparison:
    """Several policies on one log, at one horizon.

    Attributes
    ----------
    estimates
        Each policy by itself.
    differences
        Every pair; their intervals hold together at the level (Bonferroni), as one note says.
    ranking
        Names with the probability that each is the best of them, best first.
    notes
        Sentences a reader must know.
    """

    estimates: dict[str, Estimate]
    differences: tuple[Difference, ...]
    ranking: tuple[tuple[str, float], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{name}: {estimate.value:.4g} {estimate.interval}" for name, estimate in self.estimates.items()]
        lines += [str(difference) for difference in self.differences]
        lines += [f"best: {name} with probability {chance:.0%}" for name, chance in self.ranking[:1]]
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings, lists and dicts, for JSON."""
        return {
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "differences": to_json(self.differences),
            "ranking": [{"policy": name, "probability_best": chance} for name, chance in self.ranking],
            "notes": list(self.notes),
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
        from backcast.report.charts import comparison_chart

        return comparison_chart(self)

    def _repr_html_(self) -> str:
        from backcast.report.notebook import comparison_html

        return comparison_html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from backcast.report.notebook import mime_bundle

        return mime_bundle(str(self), self._repr_html_(), include, exclude)


def compare(
    log: Any,
    policies: Mapping[str, Any],
    evaluator: Any = "auto",
    *,
    reward_model: Any = None,
    horizon: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    replicates: int | str = "auto",
    exchangeable: bool | None = None,
    n_jobs: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[int], None] | None = None,
) -> Comparison:
    """Compare policies on the same log: same groups, same randomness, so that what they share cancels out.

    Parameters are those of :func:`backcast.evaluate`; ``policies`` names the policies.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.integers(2, size=400)
    >>> log = Log(None, actions, rewards=actions * 1.0, propensities=np.full(400, 0.5), reward_range=(0, 1))
    >>> found = compare(log, {"one": Fixed([0, 1]), "zero": Fixed([1, 0])}, horizon=20, replicates=60)
    >>> round(found.differences[0].value, 2), found.ranking[0]
    (1.0, ('one', 1.0))
    """
    if len(policies) < 2:
        raise OptionError(f"{len(policies)} policies given; compare needs at least two, by name")
    for policy in policies.values():
        check_request(policy, level, horizon, seed, time_limit)
    terms: dict[str, Any] = {"n_jobs": n_jobs, "time_limit": time_limit}
    request = EvaluationRequest(log, None, reward_model, horizon, None, level, seed, replicates=replicates, **terms)
    chosen, request, notes = resolve_evaluator(evaluator, request, list(policies.values()), exchangeable)
    request = with_checkpoint(checkpoint, request, chosen, {f"policy {name!r}": one for name, one in policies.items()})
    with showing_progress(log, progress) as tell:
        request = replace(request, on_progress=tell)
        if isinstance(chosen, ClockReplay) and not request.in_memory:
            return _paired_by_part(chosen, request, policies, notes)
        if isinstance(chosen, ClockReplay):
            return _paired(chosen, clock_diagnostics, request, policies, notes)
        may_permute = (request.in_memory and (evaluator == "auto" or exchangeable)) or isinstance(replicates, int)
        if isinstance(chosen, DRns | WC) and horizon is not None and request.replicates is not None and may_permute:
            return _paired(Permuted(chosen, horizon), permuted_diagnostics, request, policies, notes)
        return _one_by_one(chosen, request, policies, notes)


def _paired(
    evaluator: Any,
    diagnose: Callable[[Replicated, EvaluationRequest], Diagnostics],
    request: EvaluationRequest,
    policies: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Comparison:
    inputs = evaluator.inputs(replace(request, policy=next(iter(policies.values()))))
    found = run_replicates(evaluator, request, list(policies.values()), inputs)
    estimates = {}
    for place, (name, policy) in enumerate(policies.items()):
        own = replace(request, policy=policy, policy_name=describe_policy(policy))
        answer = replicated_from(found, place, own)
        estimate = answer.estimate(evaluator, own, diagnose(answer, own))
        estimates[name] = with_replay_summary(estimate, evaluator, own)
    notes = (*notes, *found.notes)
    if not found.has_standard_errors:
        return Comparison(estimates, (), (), notes)
    sampling, monte_carlo = found.covariance()
    freedom = found.member.shape[1] - 1
    gaps = _Gaps("paired group jackknife", sampling + monte_carlo, found.gap_variance, freedom)
    return _comparison(estimates, gaps, request.level, notes)


def _paired_by_part(
    evaluator: ClockReplay, request: EvaluationRequest, policies: Mapping[str, Any], notes: tuple[str, ...]
) -> Comparison:
    """All policies on the same parts of a stream: the variance of their differences by part, over the parts."""
    found = estimate_on_parts(evaluator, request, list(policies.values()))
    estimates = {}
    for place, (name, policy) in enumerate(policies.items()):
        own = replace(request, policy=policy, policy_name=describe_policy(policy))
        estimates[name] = with_replay_summary(found.estimate(place, evaluator.name, own), evaluator, own)
    freedom = len(found.passes) - 1
    gaps = _Gaps("paired by part, Student", found.covariance(), found.gap_variance, freedom)
    return _comparison(estimates, gaps, request.level, (*notes, *found.notes))


def _one_by_one(
    evaluator: Any, request: EvaluationRequest, policies: Mapping[str, Any], notes: tuple[str, ...]
) -> Comparison:
    """Policies one after another; paired event by event where every estimate knows what its events add to it."""
    estimates: dict[str, Estimate] = {}
    for place, (name, policy) in enumerate(policies.items()):
        own = request.within(f"policy-{place}")
        own = replace(own, policy=policy, policy_name=describe_policy(policy), replicates=None)
        try:
            estimates[name] = answer_with(evaluator, own)
        except StopEvaluation:
            left = len(policies) - len(estimates)
            return Comparison(estimates, (), (), (*notes, stopped_note(f"all but {left} policies")))
    pulls = [estimate._influence() for estimate in estimates.values() if estimate._influence is not None]
    if len(pulls) == len(policies) and len({pull.size for pull in pulls}) == 1:
        return _comparison(estimates, _by_event(np.array(pulls)), request.level, notes)
    errors = np.array([estimate.std_error for estimate in estimates.values()])
    if not np.isfinite(errors).all():
        raise EvaluationError(f"{evaluator.name} gives no standard error here, so policies cannot be compared with it")
    apart = "The policies were evaluated one by one; differences add their errors as if they were independent."
    return _comparison(estimates, _added(errors), request.level, (*notes, apart))


class _Gaps(NamedTuple):
    """How sure differences are: covariance of the values, sampling and Monte-Carlo variance of two values' gap."""

    method: str
    covariance: FloatArray
    variance: Callable[[int, int], tuple[float, float]]
    freedom: float = math.inf


def _by_event(pulls: FloatArray) -> _Gaps:
    """Both policies weigh the same events: the variance of the differences of what each event adds, over n."""
    n = pulls.shape[1]

    def variance(a: int, b: int) -> tuple[float, float]:
        return float((pulls[a] - pulls[b]).var(ddof=1) / n), 0.0

    return _Gaps("paired by event, normal", np.cov(pulls) / n, variance)


def _added(errors: FloatArray) -> _Gaps:
    """As if independent, which is safe where the policies are alike."""

    def variance(a: int, b: int) -> tuple[float, float]:
        return float(errors[a] ** 2 + errors[b] ** 2), 0.0

    return _Gaps("normal, errors added", np.diag(errors**2), variance)


def _comparison(estimates: dict[str, Estimate], gaps: _Gaps, level: float, notes: tuple[str, ...]) -> Comparison:
    names = list(estimates)
    values = np.array([estimate.value for estimate in estimates.values()])
    pairs = list(combinations(range(len(names)), 2))
    each = 1 - (1 - level) / len(pairs)
    reach = float(stats.t.ppf((1 + each) / 2, gaps.freedom))
    differences = []
    for a, b in pairs:
        sampling, monte_carlo = gaps.variance(a, b)
        error = math.sqrt(sampling + monte_carlo)
        gap = float(values[a] - values[b])
        interval = Interval(gap - reach * error, gap + reach * error, level, gaps.method, "independent", DIFFERENCE)
        differences.append(Difference(names[a], names[b], gap, error, interval, math.sqrt(monte_carlo)))
    many = f"{len(pairs)} pairs are compared; their intervals hold together at {100 * level:g} % (Bonferroni)."
    return Comparison(
        estimates,
        tuple(differences),
        _ranking(names, values, gaps.covariance),
        (*notes, many) if len(pairs) > 1 else notes,
    )


def _ranking(names: list[str], values: FloatArray, covariance: FloatArray) -> tuple[tuple[str, float], ...]:
    """Probability that each policy is the best, under a normal law around the estimates."""
    eigenvalues, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    draws = values + np.random.default_rng(0).standard_normal((DRAWS, len(names))) @ root.T
    chances = np.bincount(draws.argmax(axis=1), minlength=len(names)) / DRAWS
    order = np.lexsort((-values, -chances))
    return tuple((names[i], float(chances[i])) for i in order)
