"""Results as Arrow tables: columns and types are fixed, numbers are those of the result."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import backcast as bc
from backcast.report.frames import CANDIDATE_COLUMNS, FINDING_COLUMNS, NEED_COLUMNS, POLICY_COLUMNS

PROMISED = [
    *("policy", "description", "is_baseline", "value", "std_error", "low", "high", "level", "method"),
    *("lift", "lift_std_error", "lift_low", "lift_high", "relative_lift", "relative_lift_low", "relative_lift_high"),
    *("baseline", "decision", "grade", "probability_best", "events", "horizon", "evaluator"),
]


@pytest.fixture(scope="module")
def log() -> bc.Log:
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=600)
    rewards = (rng.random(600) < 0.2 + 0.2 * actions).astype(float)
    return bc.Log(None, actions, rewards, np.full(600, 1 / 3), n_actions=3, reward_range=(0, 1))


@pytest.fixture(scope="module")
def comparison(log: bc.Log) -> bc.Comparison:
    return bc.compare(log, {"low": bc.Fixed([1, 0, 0]), "high": bc.Fixed([0, 0, 1])}, bc.DR())


def test_a_comparison_has_one_row_per_policy_and_the_baseline_first(comparison: bc.Comparison) -> None:
    frame = comparison.to_frame()
    assert isinstance(frame, pa.Table)
    assert frame.column_names == PROMISED == list(POLICY_COLUMNS)
    logged, low, high = frame.to_pylist()
    assert [row["policy"] for row in (logged, low, high)] == ["logged", "low", "high"]
    assert (logged["is_baseline"], low["is_baseline"], logged["lift"], logged["decision"]) == (True, False, None, None)
    estimate, lift = comparison.estimates["low"], comparison.lifts["low"]
    assert (low["value"], low["std_error"]) == (estimate.value, estimate.std_error)
    assert (low["low"], low["high"], low["level"]) == (estimate.interval.low, estimate.interval.high, 0.95)
    assert (low["lift"], low["lift_low"], low["lift_high"]) == (lift.value, lift.interval.low, lift.interval.high)
    assert lift.relative_interval is not None
    assert (low["relative_lift"], low["relative_lift_low"]) == (lift.relative, lift.relative_interval.low)
    assert (low["decision"], high["decision"], low["baseline"]) == ("worse", "better", "logged")
    assert (high["grade"], high["events"], high["horizon"], high["evaluator"]) == ("fair", 600, None, "DR")
    assert high["probability_best"] == dict(comparison.ranking)["high"]


def test_a_policy_as_the_baseline_comes_first_and_without_one_there_are_no_lifts(log: bc.Log) -> None:
    policies = {"low": bc.Fixed([1, 0, 0]), "high": bc.Fixed([0, 0, 1])}
    rows = bc.compare(log, policies, bc.DR(), baseline="high").to_frame().to_pylist()
    assert [(row["policy"], row["is_baseline"], row["decision"]) for row in rows] == [
        ("high", True, None),
        ("low", False, "worse"),
    ]
    frame = bc.compare(log, policies, bc.DR(), baseline=None).to_frame()
    assert frame.column_names == PROMISED
    assert frame["policy"].to_pylist() == ["low", "high"]
    assert frame["lift"].null_count == frame["decision"].null_count == 2


def test_an_estimate_is_one_row_with_the_same_columns(log: bc.Log) -> None:
    estimate = bc.evaluate(log, bc.Fixed([0, 0, 1]), bc.DR())
    [row] = estimate.to_frame().to_pylist()
    assert estimate.lift is not None
    assert (row["policy"], row["value"], row["lift"]) == (estimate.policy, estimate.value, estimate.lift.value)
    assert (row["baseline"], row["decision"]) == ("logged", "better")
    unknown = replace(estimate, std_error=math.nan, interval=None, lift=None).to_frame()
    assert unknown.schema == estimate.to_frame().schema
    assert [unknown[name][0].as_py() for name in ("std_error", "low", "lift", "decision")] == [None] * 4


def test_findings_and_needs_are_rows(log: bc.Log, comparison: bc.Comparison) -> None:
    report = bc.check(log)
    frame = report.to_frame()
    assert frame.column_names == list(FINDING_COLUMNS) == ["name", "verdict", "figure", "message", "remedy"]
    assert sorted(frame["name"].to_pylist()) == sorted(finding.name for finding in report.findings)
    plan = bc.plan(comparison, [0.05, 0.1])
    frame = plan.to_frame()
    assert frame.column_names == list(NEED_COLUMNS)
    assert frame["events"].to_pylist() == [need.events for need in plan.needs]
    assert frame["power"].to_pylist() == [0.8, 0.8]


def test_candidates_have_a_column_for_each_parameter(log: bc.Log) -> None:
    best = bc.search(log, {"low": bc.Fixed([1, 0, 0]), "high": bc.Fixed([0, 0, 1])})
    assert best.to_frame().column_names == list(CANDIDATE_COLUMNS)
    # parameters of several types, and one with the name of another column
    parameters: tuple[dict[str, Any], ...] = (
        {"alpha": 1, "value": 0.5, "model": None},
        {"alpha": "auto", "value": 1, "model": bc.Constant()},
    )
    pairs = zip(best.candidates, parameters, strict=True)
    varied = replace(best, candidates=tuple(replace(each, parameters=values) for each, values in pairs))
    frame = varied.to_frame()
    assert frame.column_names[:5] == ["name", "alpha", "param_value", "model", "value"]
    assert frame["alpha"].to_pylist() == ["1", "auto"]
    assert frame["param_value"].to_pylist() == [0.5, 1.0]
    assert frame["difference"].to_pylist()[0] == 0.0
    gap = best.candidates[1].difference
    assert gap is not None
    assert frame["difference"].to_pylist()[1] == gap.value
