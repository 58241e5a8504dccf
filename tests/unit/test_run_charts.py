"""Charts and tables of runs draw what the passages hold, and only what there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.replay_summary import ReplaySummary, weight_shares
from backcast.report._summary import ResultSummary, summarize
from backcast.report.html import action_table, health_of, health_rows, report_html, stretch_table, weight_table
from backcast.report.replay_charts import LOGGED, MOST_ACTIONS, REST, WEIGHT_CLASSES, action_shares, run_charts

NOTHING = np.zeros(0)
ENDS = np.array([50, 100])


def replay_summary(n_actions: int = 2, **changes: Any) -> ReplaySummary:
    even = np.full(n_actions, 1 / n_actions)
    plain = ReplaySummary(
        events=100,
        in_order=False,
        actions=tuple(f"a{i}" for i in range(n_actions)),
        logged=even,
        taken=even,
        weights=weight_shares(np.array([0.0, 0.5, 1.5, 2.0]), events=100),
        ends=np.zeros(0, dtype=np.int64),
        accepted=NOTHING,
        multiplier=NOTHING,
        rounds=np.zeros(0, dtype=np.int64),
        exhausted=NOTHING,
    )
    return replace(plain, **changes)


FIXED = replay_summary()
STEERED = replay_summary(ends=ENDS, accepted=np.array([0.5, 0.25]), multiplier=np.array([1.0, 0.5]), in_order=True)
CLOCKED = replay_summary(ends=ENDS, accepted=np.array([0.5, 0.25]), rounds=ENDS, exhausted=np.array([0.0, 0.125]))


@pytest.fixture(scope="module")
def log() -> bc.Log:
    actions = np.arange(400) % 2
    return bc.Log(None, actions, rewards=actions * 1.0, propensities=np.full(400, 0.5), reward_range=(0, 1))


def findings(log: bc.Log, *names: str) -> ResultSummary:
    estimate = bc.evaluate(log, bc.Uniform(), bc.IPS())
    return summarize(dict.fromkeys(names, estimate))


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (FIXED, {"weights", "actions"}),
        (STEERED, {"weights", "actions", "accepted", "multiplier"}),
        (CLOCKED, {"weights", "actions", "accepted", "exhausted"}),
        (replace(CLOCKED, exhausted=np.zeros(2)), {"weights", "actions", "accepted"}),
    ],
    ids=["fixed", "steered", "clock", "clock with events to spare"],
)
def test_there_is_a_chart_for_what_there_is(log: bc.Log, found: ReplaySummary, names: set[str]) -> None:
    charts = run_charts(findings(log, "p"), {"p": found})
    assert set(charts) == names
    assert all(chart.to_dict()["description"].endswith(".") for chart in charts.values())


def test_no_passage_no_chart(log: bc.Log) -> None:
    assert run_charts(findings(log, "p"), {}) == {}


def test_of_many_actions_the_most_taken_are_shown_and_the_rest_in_one() -> None:
    taken = np.arange(40) / np.arange(40).sum()
    rows = list(action_shares({"p": replay_summary(40, taken=taken)}))
    for who in (LOGGED, "p"):
        own = [row for row in rows if row["policy"] == who]
        assert len(own) == MOST_ACTIONS
        assert own[-1]["action"] == REST
        assert sum(row["height"] for row in own) == pytest.approx(1)
    assert {row["action"] for row in rows} >= {"a39", "a30"}


def test_a_policy_may_be_called_as_the_log_is() -> None:
    rows = list(action_shares({LOGGED: FIXED}))
    assert [row["logged"] for row in rows] == [True, True, False, False]


def test_a_policy_without_action_shares_is_left_out_of_the_table() -> None:
    table = action_table({"p": FIXED, "q": replay_summary(taken=None)})
    assert table == {"names": [LOGGED, "p"], "rows": [["a0", "50 %", "50 %"], ["a1", "50 %", "50 %"]]}


def test_tables_hold_the_same_numbers() -> None:
    assert stretch_table({"p": STEERED}) == [["p", "50", "50 %", "1"], ["p", "100", "25 %", "0.5"]]
    assert stretch_table({"p": CLOCKED})[0] == ["p", "50", "50 %", "–"]
    # (0.5 + 1.5 + 2)^2 / (0.25 + 2.25 + 4) = 2.46 of 4, so 62 of 100
    [row] = weight_table({"p": FIXED})
    assert (row["worth"], row["largest"], row["idle"]) == ("62 of 100", "2", "25 %")
    assert row["shares"] == f"0: 25 %, {WEIGHT_CLASSES[3]}: 25 %, {WEIGHT_CLASSES[5]}: 50 %"


class TestHealth:
    def test_faults_come_first_with_their_remedies(self) -> None:
        faults = (bc.Finding("duplicates", "fail", 0.5, "many", "remove them"), bc.Finding("order", "ok", 0.0, "fine"))
        rows = health_rows(bc.HealthReport("Log(9 events)", faults))
        assert rows is not None
        assert rows["grade"] == "poor"
        assert [(row["name"], row["remedy"]) for row in rows["faults"]] == [("duplicates", "remove them")]
        assert [row["name"] for row in rows["sound"]] == ["order"]

    def test_drift_is_no_fault_for_a_run_in_log_order(self) -> None:
        actions = np.arange(2000) % 2
        drifting = np.linspace(0.0, 1.0, 2000) > np.random.default_rng(0).random(2000)
        log = bc.Log(None, actions, drifting * 1.0, np.full(2000, 0.5), reward_range=(0, 1))
        found = findings(log, "p")
        in_order, shuffled = (health_of(found, {"p": run}) for run in (STEERED, CLOCKED))
        assert in_order is not None
        assert shuffled is not None
        assert (in_order["reward_drift"].verdict, shuffled["reward_drift"].verdict) == ("ok", "warn")

    def test_estimates_of_two_logs_have_no_one_health(self, log: bc.Log) -> None:
        other = bc.evaluate(log[:300], bc.Uniform(), bc.IPS())
        assert health_of(summarize({"a": bc.evaluate(log, bc.Uniform(), bc.IPS()), "b": other}), {}) is None

    def test_what_was_found_before_is_not_looked_for_again(self, log: bc.Log) -> None:
        known = bc.HealthReport("Log as examined", (bc.Finding("duplicates", "ok", 0.0, "none"),))
        page = report_html(bc.evaluate(log, bc.Uniform(), bc.IPS()), health=known)
        assert "Log as examined" in page
