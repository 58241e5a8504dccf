"""Charts and tables of replays show what the summaries contain, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.replay_summary import ReplaySummary, weight_shares
from backcast.report._summary import ResultSummary, summarize
from backcast.report._trust_sections import acceptance_rows, action_table, weight_rows
from backcast.report.html import check_common_log, report_html
from backcast.report.replay_charts import LOGGED, MOST_ACTIONS, OTHERS, WEIGHT_CLASSES, action_shares, replay_charts

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
IN_ORDER = replay_summary(ends=ENDS, accepted=np.array([0.5, 0.25]), multiplier=np.array([1.0, 0.5]), in_order=True)
CLOCK = replay_summary(ends=ENDS, accepted=np.array([0.5, 0.25]), rounds=ENDS, exhausted=np.array([0.0, 0.125]))


@pytest.fixture(scope="module")
def log() -> bc.Log:
    actions = np.arange(400) % 2
    return bc.Log(None, actions, rewards=actions * 1.0, propensities=np.full(400, 0.5), reward_range=(0, 1))


def summary_of(log: bc.Log, *names: str) -> ResultSummary:
    estimate = bc.evaluate(log, bc.Uniform(), bc.IPS())
    return summarize(dict.fromkeys(names, estimate))


@pytest.mark.parametrize(
    ("replay", "names"),
    [
        (FIXED, {"weights", "actions"}),
        (IN_ORDER, {"weights", "actions", "accepted", "multiplier"}),
        (CLOCK, {"weights", "actions", "accepted", "exhausted"}),
        (replace(CLOCK, exhausted=np.zeros(2)), {"weights", "actions", "accepted"}),
    ],
    ids=["fixed", "in log order", "clock", "clock without exhausted mass"],
)
def test_every_chart_with_data_is_drawn(log: bc.Log, replay: ReplaySummary, names: set[str]) -> None:
    charts = replay_charts(summary_of(log, "p"), {"p": replay})
    assert set(charts) == names
    assert all(chart.to_dict()["description"].endswith(".") for chart in charts.values())


def test_no_replay_no_chart(log: bc.Log) -> None:
    assert replay_charts(summary_of(log, "p"), {}) == {}


def test_of_many_actions_the_most_frequent_are_shown_and_the_others_combined() -> None:
    taken = np.arange(40) / np.arange(40).sum()
    rows = list(action_shares({"p": replay_summary(40, taken=taken)}))
    for name in (LOGGED, "p"):
        shares = [row for row in rows if row["policy"] == name]
        assert len(shares) == MOST_ACTIONS
        assert shares[-1]["action"] == OTHERS
        assert sum(row["x"] for row in shares) == pytest.approx(1)
    assert {row["action"] for row in rows} >= {"a39", "a30"}


def test_a_policy_may_have_the_name_of_the_log() -> None:
    rows = list(action_shares({LOGGED: FIXED}))
    assert [row["logged"] for row in rows] == [True, True, False, False]


def test_a_policy_without_action_shares_is_left_out_of_the_table() -> None:
    table = action_table({"p": FIXED, "q": replay_summary(taken=None)})
    assert table == {"names": [LOGGED, "p"], "rows": [["a0", "50 %", "50 %"], ["a1", "50 %", "50 %"]]}


def test_tables_hold_the_same_numbers() -> None:
    assert acceptance_rows({"p": IN_ORDER}) == [["p", "50", "50 %", "1"], ["p", "100", "25 %", "0.5"]]
    assert acceptance_rows({"p": CLOCK})[0] == ["p", "50", "50 %", "–"]
    # (0.5 + 1.5 + 2)^2 / (0.25 + 2.25 + 4) = 2.46 of 4, so 62 of 100
    [row] = weight_rows({"p": FIXED})
    assert (row["size"], row["largest"], row["zero"]) == ("62 of 100", "2", "25 %")
    assert row["shares"] == f"0: 25 %, {WEIGHT_CLASSES[3]}: 25 %, {WEIGHT_CLASSES[5]}: 50 %"


class TestHealth:
    def test_faults_come_first_with_their_remedies(self) -> None:
        faults = (bc.Finding("duplicates", "fail", 0.5, "many", "remove them"), bc.Finding("order", "ok", 0.0, "fine"))
        report = bc.HealthReport("Log(9 events)", faults)
        assert [(finding.name, finding.remedy) for finding in report.faults] == [("duplicates", "remove them")]
        assert [finding.name for finding in report.passed] == ["order"]

    def test_drift_is_no_fault_for_a_run_in_log_order(self) -> None:
        actions = np.arange(2000) % 2
        drifting = np.linspace(0.0, 1.0, 2000) > np.random.default_rng(0).random(2000)
        log = bc.Log(None, actions, drifting * 1.0, np.full(2000, 0.5), reward_range=(0, 1))
        summary = summary_of(log, "p")
        in_order, shuffled = (check_common_log(summary, {"p": replay}) for replay in (IN_ORDER, CLOCK))
        assert in_order is not None
        assert shuffled is not None
        assert (in_order["reward_drift"].verdict, shuffled["reward_drift"].verdict) == ("ok", "warn")

    def test_estimates_of_two_logs_have_no_common_check(self, log: bc.Log) -> None:
        other = bc.evaluate(log[:300], bc.Uniform(), bc.IPS())
        assert check_common_log(summarize({"a": bc.evaluate(log, bc.Uniform(), bc.IPS()), "b": other}), {}) is None

    def test_a_given_health_report_is_used(self, log: bc.Log) -> None:
        known = bc.HealthReport("Log as examined", (bc.Finding("duplicates", "ok", 0.0, "none"),))
        page = report_html(bc.evaluate(log, bc.Uniform(), bc.IPS()), health=known)
        assert "Log as examined" in page
