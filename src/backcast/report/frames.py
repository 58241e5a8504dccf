"""Results as tidy Arrow tables: one row per policy, finding, need or candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from backcast.checks.findings import HealthReport
from backcast.comparison import Comparison
from backcast.estimate import LOGGED, Difference, Estimate
from backcast.planning import Plan
from backcast.searching import SearchResult
from backcast.segments import Breakdown
from backcast.verdict import decide_lift

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, NUMBER, COUNT, FLAG = "string", "float64", "int64", "bool"  # names of Arrow types
POLICY_COLUMNS = {
    "policy": TEXT,
    "description": TEXT,
    "is_baseline": FLAG,
    "value": NUMBER,
    "std_error": NUMBER,
    "low": NUMBER,
    "high": NUMBER,
    "level": NUMBER,
    "method": TEXT,
    "lift": NUMBER,
    "lift_std_error": NUMBER,
    "lift_low": NUMBER,
    "lift_high": NUMBER,
    "relative_lift": NUMBER,
    "relative_lift_low": NUMBER,
    "relative_lift_high": NUMBER,
    "baseline": TEXT,
    "decision": TEXT,
    "grade": TEXT,
    "probability_best": NUMBER,
    "events": COUNT,
    "horizon": COUNT,
    "evaluator": TEXT,
}
FINDING_COLUMNS = {"name": TEXT, "verdict": TEXT, "figure": NUMBER, "message": TEXT, "remedy": TEXT}
NEED_COLUMNS = {
    "pair": TEXT,
    "difference": NUMBER,
    "events": COUNT,
    "low": COUNT,
    "high": COUNT,
    "power": NUMBER,
    "level": NUMBER,
    "horizon": COUNT,
}
SEGMENT_COLUMNS = {
    "segment": TEXT,
    "policy": TEXT,
    "events": COUNT,
    "share": NUMBER,
    "baseline_value": NUMBER,
    "value": NUMBER,
    "lift": NUMBER,
    "lift_std_error": NUMBER,
    "lift_low": NUMBER,
    "lift_high": NUMBER,
    "relative_lift": NUMBER,
    "baseline": TEXT,
    "decision": TEXT,
}
CANDIDATE_COLUMNS = {
    "name": TEXT,
    "value": NUMBER,
    "difference": NUMBER,
    "low": NUMBER,
    "high": NUMBER,
    "stage": COUNT,
    "passes": COUNT,
    "share_won": NUMBER,
}


def comparison_frame(comparison: Comparison) -> pa.Table:
    """Return one row per policy, that of the baseline first; ``Comparison.to_frame`` describes the columns.

    >>> from backcast.diagnostics import ModelDiagnostics
    >>> estimate = Estimate(0.5, float("nan"), None, ModelDiagnostics(4, 4, 1), policy="Uniform()", evaluator="DM")
    >>> frame = comparison_frame(Comparison({"a": estimate}, (), (), baseline=estimate))
    >>> frame["policy"].to_pylist(), frame["value"].to_pylist(), frame["lift"].to_pylist()
    (['logged', 'a'], [0.5, 0.5], [None, None])
    """
    estimates, baseline = dict(comparison.estimates), comparison.baseline
    name = None if baseline is None else comparison.baseline_name
    if name is not None and baseline is not None:
        estimates = {name: baseline, **{key: each for key, each in estimates.items() if key != name}}
    probabilities = dict(comparison.ranking)
    # decisions depend on both sides, and are about the reward
    decisions = {} if name is None or comparison.outcome else dict(comparison.verdict.policies)
    rows = [
        {
            **_policy_row(key, estimate, comparison.lifts.get(key), None if key == name else name),
            "is_baseline": key == name,
            "decision": decisions.get(key),
            "probability_best": probabilities.get(key),
        }
        for key, estimate in estimates.items()
    ]
    return _table(POLICY_COLUMNS, rows)


def estimate_frame(estimate: Estimate) -> pa.Table:
    """Return one row, with the columns of a comparison and the lift over what the log earned."""
    row = _policy_row(estimate.policy, estimate, estimate.lift, LOGGED if estimate.lift is not None else None)
    return _table(POLICY_COLUMNS, [{**row, "is_baseline": False}])


def health_frame(report: HealthReport) -> pa.Table:
    """Return one row per finding, the worst first."""
    findings = (*report.faults, *report.passed)
    return _table(FINDING_COLUMNS, [{name: getattr(each, name) for name in FINDING_COLUMNS} for each in findings])


def plan_frame(plan: Plan) -> pa.Table:
    """Return one row per pair and difference: the number of events, its range, and what it was computed for."""
    common = {"power": plan.power, "level": plan.level, "horizon": plan.horizon}
    rows = [{name: getattr(need, name) for name in NEED_COLUMNS if name not in common} | common for need in plan.needs]
    return _table(NEED_COLUMNS, rows)


def search_frame(result: SearchResult) -> pa.Table:
    """Return one row per candidate, best first, with a column per parameter after the name."""
    rows = []
    for candidate in result.candidates:
        gap = candidate.difference
        ends = (0.0, 0.0, 0.0) if gap is None else (gap.value, gap.interval.low, gap.interval.high)
        row = {name: getattr(candidate, name) for name in ("name", "value", "stage", "passes", "share_won")}
        rows.append(row | dict(zip(("difference", "low", "high"), ends, strict=True)))
    table = _table(CANDIDATE_COLUMNS, rows)
    names = dict.fromkeys(name for candidate in result.candidates for name in candidate.parameters)
    for place, name in enumerate(names, start=1):
        column = f"param_{name}" if name in CANDIDATE_COLUMNS else name
        values = [candidate.parameters.get(name) for candidate in result.candidates]
        table = table.add_column(place, column, [_plain_values(values)])
    return table


def segments_frame(breakdown: Breakdown) -> pa.Table:
    """Return one row per segment and policy, the largest segment first."""
    rows = [
        {
            "segment": segment.name,
            "policy": name,
            "events": segment.events,
            "share": segment.share,
            "baseline_value": segment.baseline,
            "value": segment.values[name],
            "lift": lift.value,
            "lift_std_error": lift.std_error,
            "lift_low": lift.interval.low,
            "lift_high": lift.interval.high,
            "relative_lift": lift.relative,
            "baseline": breakdown.baseline_name,
            "decision": segment.decisions[name],
        }
        for segment in breakdown
        for name, lift in segment.lifts.items()
    ]
    return _table(SEGMENT_COLUMNS, rows)


def _policy_row(name: str, estimate: Estimate, lift: Difference | None, baseline: str | None) -> dict[str, Any]:
    interval = estimate.interval
    row = {
        "policy": name,
        "description": estimate.policy,
        "value": estimate.value,
        "std_error": estimate.std_error,
        "baseline": baseline,
        "grade": estimate.reliability.grade or None,
        "events": estimate.diagnostics.to_dict().get("events"),
        "horizon": estimate.horizon,
        "evaluator": estimate.evaluator,
    }
    if interval is not None:
        row |= {key: getattr(interval, key) for key in ("low", "high", "level", "method")}
    if lift is None:
        return row
    row |= {"lift": lift.value, "lift_std_error": lift.std_error, "relative_lift": lift.relative}
    row |= {"lift_low": lift.interval.low, "lift_high": lift.interval.high, "decision": decide_lift(estimate, lift)}
    if lift.relative_interval is not None:
        row |= {f"relative_lift_{end}": getattr(lift.relative_interval, end) for end in ("low", "high")}
    return row


def _plain_values(values: Sequence[Any]) -> Sequence[Any]:
    """Return values of one type that a column can hold; others as text, such as those of several types.

    >>> _plain_values([0.5, None, 1]), _plain_values([1, "a"])
    ([0.5, None, 1.0], ['1', 'a'])
    """
    given = [value for value in values if value is not None]
    if any(isinstance(value, float) for value in given) and {type(value) for value in given} <= {float, int}:
        return [None if value is None else float(value) for value in values]
    if any(all(type(value) is kind for value in given) for kind in (bool, int, str)):
        return values
    return [None if value is None else str(value) for value in values]


def _table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a table with these columns; what a row does not have, and nan, is null."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    present = [{name: value for name, value in row.items() if not _is_nan(value)} for row in rows]
    return pa.Table.from_pylist(present, schema)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
