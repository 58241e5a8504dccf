"""Horizons as spans of time, and horizons that are proposed from a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._horizon import EventRate, find_event_rate, parse_span, resolve_horizon
from backcast._horizon_proposal import describe_flattening, propose_horizon
from backcast.errors import OptionError
from backcast.io.stream import LogStream
from tests.support.cli import run

START = np.datetime64("2026-05-01T00:00", "s")


def timed_log(n: int = 289, *, minutes: float = 10, times: Any = "dates") -> bc.Log:
    """One event every ten minutes for two days: 144 per day."""
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=n)
    rewards = (rng.random(n) < np.where(actions == 1, 0.75, 0.25)).astype(float)
    seconds = (60 * minutes * np.arange(n)).astype(np.int64)
    columns = {"dates": START + seconds, "unix": 1_750_000_000 + seconds, "numbers": seconds, "none": None}
    return bc.Log(None, actions, rewards, np.full(n, 0.5), times=columns[times], reward_range=(0, 1))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30min", 1800), ("12h", 43_200), ("1d", 86_400), ("0.5 w", 302_400)]
)
def test_spans(text: str, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["1", "1 month", "-1d", "0d", "d", "", "1d 2h"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(OptionError, match="give a number of rounds, or a span of time such as '30min'"):
        bc.evaluate(timed_log(), bc.UCB1(), horizon=text)


@pytest.mark.parametrize("times", ["dates", "unix"])
def test_a_day_is_the_events_of_a_day(times: str) -> None:
    log = timed_log(times=times)
    assert resolve_horizon(log, "1d")[0] == 144
    assert resolve_horizon(log, "1h")[0] == 6
    assert resolve_horizon(log, "1s")[0] == 1
    assert resolve_horizon(log, 7) == (7, ())
    assert find_event_rate(LogStream.from_logs([log[:100], log[100:]])) == (289, 172_800)


@pytest.mark.parametrize(("times", "message"), [("none", "the log has no times"), ("numbers", "unit is not known")])
def test_logs_without_known_times_are_refused(times: str, message: str) -> None:
    for log in (timed_log(times=times), LogStream.from_logs([timed_log(times=times)])):
        with pytest.raises(OptionError, match=message):
            bc.evaluate(log, bc.UCB1(), horizon="1d")
    with pytest.raises(OptionError, match="all times of the log are equal"):
        resolve_horizon(timed_log(minutes=0), "1d")


def test_evaluate_compare_and_search_agree_with_the_number_of_rounds() -> None:
    log = timed_log()
    fast: dict[str, Any] = {"replicates": 8, "exchangeable": True, "reward_model": 0.5}
    spanned, counted = (bc.evaluate(log, bc.UCB1(), horizon=horizon, **fast) for horizon in ("3h", 18))
    note = "A horizon of 3h is 18 rounds: the log has 289 events in 2 days."
    assert (spanned.value, spanned.interval, spanned.horizon) == (counted.value, counted.interval, 18)
    assert note in spanned.notes
    assert note not in counted.notes
    assert spanned.provenance is not None
    assert spanned.provenance.arguments["horizon"] == "3h"
    compared = bc.compare(log, {"a": bc.UCB1(), "b": bc.Uniform()}, horizon="3h", **fast)
    assert compared.estimates["a"].horizon == 18
    assert note in compared.notes
    found = bc.search(log, bc.UCB1, {"exploration": [0.1, 1.0]}, horizon="3h", exchangeable=True, reward_model=0.5)
    assert note in found.notes
    assert found.estimate.horizon == 18


class TestProposal:
    def test_rare_actions_limit_it(self) -> None:
        assert propose_horizon(10_000, np.full(50, 0.5), 2, 3).rounds == 1000
        assert propose_horizon(10_000, np.full(50, 0.05), 2, 3).rounds == 100
        short = propose_horizon(100, np.full(50, 0.05), 2, 3)
        assert short.rounds is None
        assert "fewer than 10 rounds" in short.reasons[0]

    def test_time_limits_it(self) -> None:
        proposal = propose_horizon(1_000_000, np.full(50, 0.5), 10, 100, batch_size=1)
        assert proposal.rounds is not None
        assert proposal.rounds <= 1_000
        assert "A minute of work on one core" in proposal.reasons[1]

    def test_in_the_unit_of_time(self) -> None:
        rate = EventRate(289, 172_800.0)
        reason = propose_horizon(2_000, np.full(50, 0.5), 2, 3, rate=rate).reasons[-1]
        assert reason == 'It has about 144 events per day: 200 rounds are 33.3 hours, and horizon = "1d" is 144 rounds.'

    def test_where_a_curve_flattens(self) -> None:
        log = timed_log(3_000)
        fast: dict[str, Any] = {"replicates": 16, "exchangeable": True, "reward_model": 0.5}
        greedy = bc.evaluate(log, bc.UCB1(exploration=0.2), horizon=200, **fast)
        slow = bc.evaluate(log, bc.UCB1(exploration=2.0), horizon=12, **fast)
        assert "is flat from about round" in describe_flattening("greedy", greedy)
        assert "still rises near round 12" in describe_flattening("slow", slow)
        assert describe_flattening("fixed", bc.evaluate(log, bc.Uniform())) == ""
        pilot = bc.compare(log, {"greedy": bc.UCB1(exploration=0.2), "even": bc.Uniform()}, horizon=200, **fast)
        assert any("is flat from about round" in note for note in bc.plan(pilot, 0.1).notes)


class TestCommands:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        log = timed_log()
        times = np.asarray(log.times).tolist()
        rows = (
            f"{time.isoformat()},{'ab'[action]},{int(reward)},0.5"
            for time, action, reward in zip(times, log.actions, log.rewards, strict=True)
        )
        (tmp_path / "log.csv").write_text("\n".join(["timestamp,shown,click,p", *rows]) + "\n")
        return tmp_path

    COLUMNS = "log.csv --action shown --reward click --propensity p"
    RUN = "--policy ucb1 --replicates 8 --exchangeable --json"

    def test_a_span_on_the_command_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"evaluate {self.COLUMNS} --times timestamp --horizon 3h {self.RUN}") == 0
        document = json.loads(capsys.readouterr().out)
        (estimate,) = document["estimates"].values()
        assert estimate["horizon"] == 18
        assert estimate["break_even"]["baseline"] == "logged"
        assert estimate["after_learning"]["first_round"] > 10

    def test_without_times_it_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"evaluate {self.COLUMNS} --horizon 3h {self.RUN}") == 2
        assert "the log has no times; give the number of rounds" in capsys.readouterr().out
        assert run("plan --reward-sd 1 --weight 2 --horizon 1d --difference 0.1") == 2
        assert "there is no log with times" in capsys.readouterr().err

    def test_the_table_of_learning(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"evaluate {self.COLUMNS} --horizon 18 --policy ucb1 --replicates 8 --exchangeable") == 0
        printed = capsys.readouterr().out
        assert "has paid by" in printed
        assert "frozen at" in printed

    def test_plan_proposes_a_horizon(self, capsys: pytest.CaptureFixture[str]) -> None:
        policies = "--policy a=ucb1 --policy b=uniform --horizon 3h --replicates 8 --exchangeable"
        assert run(f"plan {self.COLUMNS} --times timestamp {policies} --difference 0.1 --json") == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert any(note.startswith("A horizon for this log is 20 rounds") for note in notes)
        assert any("144 events per day" in note for note in notes)

    def test_init_explains_its_horizon(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("init log.csv") == 0
        assert "144 events per day" in " ".join(capsys.readouterr().out.split())
        text = (folder / "run.toml").read_text()
        assert 'A span of time, such as "1d", is as many rounds' in text
        assert "# It has about 144 events per day" in text
        assert "horizon = 20\n" in text
