"""One answer from several of disjoint stretches of a log, each of which counts the same: its curve, its diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from backcast.arrays import FloatArray, IntArray
from backcast.diagnostics import KINDS, Diagnostics, OtherDiagnostics, PermutedDiagnostics
from backcast.estimate import LearningCurve

__all__ = ["joined_curve", "joined_diagnostics"]

Rows: TypeAlias = "Sequence[dict[str, Any]]"
Rule: TypeAlias = Callable[[Rows, str], Any]


def joined_curve(curves: Sequence[LearningCurve], level: float) -> LearningCurve:
    """The mean of the curves, with a pointwise band of Student's t over them.

    A curve that is cut otherwise than the shortest, or goes on after it, is averaged over the stretches of that one.

    >>> ends, flat = np.array([1, 2]), np.array([0.5, 0.5])
    >>> one = LearningCurve(ends, np.array([0.0, 1.0]), flat, flat)
    >>> other = LearningCurve(ends + 2, np.array([1.0, 3.0]), flat, flat)
    >>> found = joined_curve([one, other], level=0.5)
    >>> found.value, found.high
    (array([0.5, 1. ]), array([1., 1.]))

    By hand: the other is worth 1 in both of the first two rounds. In the first the two differ by 1, so the mean has the
    standard error 1/2, and Student's quartile with 1 degree of freedom is 1.
    """
    rounds = min((curve.rounds for curve in curves), key=lambda ends: int(ends[-1]))
    values = np.array([_over(curve, rounds) for curve in curves])
    value = values.mean(axis=0)
    reach = stats.t.ppf((1 + level) / 2, len(values) - 1) * values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return LearningCurve(rounds, value, value - reach, value + reach)


def _over(curve: LearningCurve, rounds: IntArray) -> FloatArray:
    """The curve averaged over stretches that end at these rounds."""
    if np.array_equal(curve.rounds, rounds):
        return curve.value
    ends, wanted = np.append(0, curve.rounds), np.append(0, rounds)
    total = np.append(0.0, np.cumsum(curve.value * np.diff(ends)))
    return np.asarray(np.diff(np.interp(wanted, ends, total)) / np.diff(wanted))


def joined_diagnostics(found: Sequence[Diagnostics]) -> Diagnostics:
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

    >>> from backcast.diagnostics import WeightDiagnostics
    >>> joined_diagnostics([WeightDiagnostics(4, 4.0, 1.0, 1.0), WeightDiagnostics(4, 2.0, 0.5, 2.0)])
    WeightDiagnostics(events=8, effective_sample_size=6.0, mean_weight=0.75, largest_weight=2.0, \
propensities_estimated=False)

    By hand: the weights add up to 4 + 2, their squares to 16/4 + 4/2, and 36/6 is 6.
    """
    kind: Any = type(found[0])
    rows = [one.to_dict() for one in found]
    if kind not in KINDS:
        alike = {name: value for name, value in rows[0].items() if all(row.get(name) == value for row in rows)}
        return OtherDiagnostics({**alike, "events": sum(one.events for one in found)})
    rules = RULES | OWN_RULES.get(kind, {})
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


RULES: dict[str, Rule] = {
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
OWN_RULES: dict[type, dict[str, Rule]] = {PermutedDiagnostics: {"trajectories": _mean}}
