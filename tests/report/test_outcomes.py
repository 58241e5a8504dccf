"""Rows of outcomes, segments and guardrails, and the chart of the trade-off."""

from __future__ import annotations

import json

import numpy as np
import pytest

import backcast as bc
from backcast.errors import OptionError
from backcast.report._summary import summarize, verdict
from backcast.report.outcomes import guardrail_rows, outcome_rows, segment_rows, trade_off_rows
from backcast.report.text import outcome_tables

N = 1000


def compared() -> bc.Comparison:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=N)
    device = np.where(np.arange(N) % 4 == 0, "desk", "phone")
    log = bc.Log(
        None,
        actions,
        (rng.random(N) < 0.3 + 0.4 * actions).astype(float),
        np.full(N, 0.5),
        reward_range=(0, 1),
        outcomes={"ms": 20 + 10 * actions + rng.normal(size=N)},
        segments={"device": device},
    )
    policies = {"[red]": bc.Fixed([0.0, 1.0]), "half": bc.Fixed([0.5, 0.5])}
    return bc.compare(log, policies, guardrails=["ms < logged + 3"])


FOUND = compared()


def test_outcome_rows_begin_with_the_baseline() -> None:
    rows = outcome_rows(FOUND)
    assert [(row["outcome"], row["policy"]) for row in rows] == [("ms", "logged"), ("ms", "[red]"), ("ms", "half")]
    assert rows[0]["lift"] == ""
    assert rows[1]["lift"].startswith(("4.", "5."))
    assert rows[1]["relative"].startswith("+1")


def test_segment_rows_have_one_row_per_segment_and_policy() -> None:
    rows = segment_rows(FOUND, "device")
    assert [(row["segment"], row["policy"], row["events"]) for row in rows] == [
        ("phone", "[red]", "750"),
        ("phone", "half", "750"),
        ("desk", "[red]", "250"),
        ("desk", "half", "250"),
    ]
    assert [row["decision"] for row in rows] == ["better", "unclear", "better", "unclear"]
    assert rows[0]["share"] == "75 %"


def test_guardrail_rows_state_the_reason() -> None:
    rows = guardrail_rows(FOUND)
    assert [row["outcome"] for row in rows] == ["contradicted", "met"]
    assert "ms minus logged lies between +4" in rows[0]["reason"]


def test_tables_show_names_unchanged() -> None:
    tables = outcome_tables(summarize(FOUND))
    assert [table.row_count for table in tables] == [3, 2, 4]
    assert outcome_tables(summarize(FOUND.estimates)) == []


def test_the_trade_off_chart_has_both_intervals() -> None:
    rows = {row["policy"]: row for row in trade_off_rows(FOUND, "ms")}
    lift, other = FOUND.lifts["[red]"], FOUND.outcomes["ms"].lifts["[red]"]
    assert (rows["[red]"]["y"], rows["[red]"]["x"]) == (lift.value, other.value)
    assert rows["[red]"]["x_low"] == other.interval.low
    spec = FOUND.plot_outcomes("ms").to_dict()
    assert json.dumps(spec)
    assert "Lift in the reward against lift in ms" in spec["description"]
    assert FOUND.plot_outcomes().to_dict() == spec
    with pytest.raises(OptionError, match="there is no outcome 'speed'"):
        FOUND.plot_outcomes("speed")
    with pytest.raises(OptionError, match="has no further outcomes"):
        FOUND.outcomes["ms"].plot_outcomes()


def test_segments_as_a_frame() -> None:
    frame = FOUND.by_segment("device").to_frame()
    assert frame["segment"].to_pylist() == ["phone", "phone", "desk", "desk"]
    assert frame["lift"].to_pylist()[0] == FOUND.by_segment("device")["phone"].lifts["[red]"].value


def test_another_outcome_has_no_verdict_in_text_frames_and_notebooks() -> None:
    read = FOUND.outcomes["ms"]
    assert verdict(summarize(read)) == "Values are ms per round, of which more may be better or worse."
    assert set(read.to_frame()["decision"].to_pylist()) == {None}
    assert "more may be better or worse" in read._repr_html_()
    assert "Lifts in further outcomes hold simultaneously" in str(read)
