"""The benchmark of long horizons: its cells, its trials, its scores, and which calls are timed."""

from __future__ import annotations

import json
import math
import subprocess
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.common.machine import ROOT
from bench.common.trials import TrialRunner
from bench.horizon import times, trial
from bench.horizon.accuracy import make_options
from bench.horizon.cells import Setting, make_grid, pair_policies, parse_cells, parse_names
from bench.horizon.page import describe_coverage, make_blocks, make_records, score_default
from bench.horizon.trial import RIVALS, DefaultCall, Trial, Truth
from bench.horizon.worlds import NAMES, NEED_DATA, POLICIES
from bench.reproduction.protocol import Case

SETTING = Setting("soft", "LinUCB(0.5)", 400, 20)


def test_policies_alternate_over_simulated_worlds_and_over_real_ones() -> None:
    pairs = pair_policies(NAMES, [])
    assert [world for world, _ in pairs] == list(NAMES)
    assert {policy for world, policy in pairs if world in NEED_DATA} == set(POLICIES)
    assert {policy for world, policy in pairs if world not in NEED_DATA} == set(POLICIES)
    # a world that is left out changes nothing for the others
    assert pair_policies(NAMES[1:], []) == pairs[1:]
    assert len(pair_policies(NAMES, list(POLICIES))) == 2 * len(NAMES)


def test_short_horizons_come_first_and_have_logs_of_their_own() -> None:
    pairs = pair_policies(["soft", "bent"], [])
    grid = make_grid(pairs, [400], [20, 50], [7, 3])
    assert [(setting.rounds, logs) for setting, logs in grid.items()] == [(20, 7), (20, 7), (50, 3), (50, 3)]
    with pytest.raises(ValueError, match="--logs has 3 numbers; give one, or one for each of 2 rounds"):
        make_grid(pairs, [400], [20, 50], [7, 3, 1])


def test_further_cells_replace_those_of_the_grid() -> None:
    options = make_options(["soft"]).parse_args(["--cells", "soft:LinUCB(0.5):400:20:9;soft:LinUCB(0.5):400:800:2"])
    grid = make_grid([("soft", "LinUCB(0.5)")], [400], [20], [1])
    assert grid | options.cells == {SETTING: 9, SETTING._replace(rounds=800): 2}
    assert make_options(["soft"]).parse_args(["--worlds", ""]).worlds == []


@pytest.mark.parametrize("text", ["soft:LinUCB(0.5):400:20", "soft:UCB1:400:20:9", "mars:LinUCB(0.5):400:20:9"])
def test_cells_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a cell such as"):
        parse_cells(text)


def test_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="'mars' is none of soft, bent"):
        parse_names("soft,mars", ",", NAMES)


def test_a_log_is_evaluated_by_the_default_and_by_its_rivals() -> None:
    result = trial.evaluate_log(SETTING, None, 0)
    call = result.default
    assert call.low < call.value < call.high
    assert call.grade in ("good", "fair", "poor")
    assert call.seconds > 0
    assert len(result.rivals) == len(RIVALS)
    # the same passes over the log, if hardly any round is filled
    assert abs(result.rivals[0] - call.value) < call.std_error
    exhausted = Case(
        trial._cached_world("soft", None).log(60, np.random.default_rng(0)), POLICIES["LinUCB(0.5)"], 90, 0
    )
    assert math.isnan(trial.replay_without_filling(exhausted))


def test_truth_is_the_mean_over_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "LIVE_ROUNDS", 100)
    runner = TrialRunner(tmp_path, show_progress=False)
    truth = trial.find_truth(runner, SETTING._replace(rounds=5), None)
    batches = [trial.simulate_batch("soft", "LinUCB(0.5)", 5, None, number) for number in range(4)]
    assert truth.value == pytest.approx(np.mean(batches))
    assert truth.error == pytest.approx(np.std(batches, ddof=1) / math.sqrt(40))


# errors of +0.1 and -0.3: a bias of -0.1, which the first estimate is one error away from, the second three
CALLS = [
    DefaultCall(0.6, 0.1, 0.4, 0.8, "fair", -0.05, 0.05, 0.25, 1.0),
    DefaultCall(0.2, 0.1, 0.0, 0.4, "poor", 0.05, 0.05, 0.75, 3.0),
]
TRUTH = Truth(0.5, 0.0)


def test_the_default_call_is_scored_by_hand() -> None:
    score = score_default(TRUTH, CALLS)
    assert score.bias == pytest.approx(-0.1)
    assert score.bias_error == pytest.approx(0.2)
    assert score.rmse == pytest.approx(math.sqrt(0.05))
    assert (score.coverage, score.poor, score.uncovered, score.uncovered_poor) == (0.5, 0.5, 1, 1)
    assert (score.filled_share, score.seconds) == (0.5, 2.0)
    assert score.estimated_bias == pytest.approx(0.0)
    assert (score.within, score.within_both) == (0.5, 1.0)
    # without filled rounds no estimate is needed: the bias is 0, which is within 2 errors of the mean error
    unfilled = [call._replace(bias=math.nan, bias_error=math.nan, filled_share=0.0) for call in CALLS]
    score = score_default(TRUTH, unfilled)
    assert (score.estimated_bias, score.within_both) == (0.0, 1.0)


def test_a_refused_log_is_not_covered_and_counts_in_no_error() -> None:
    score = score_default(TRUTH, [*CALLS, DefaultCall()])
    assert score.rmse == pytest.approx(math.sqrt(0.05))
    assert score.coverage == pytest.approx(1 / 3)
    assert score.refused == pytest.approx(1 / 3)


def test_rows_of_low_coverage_are_listed_with_their_grades() -> None:
    scores = {SETTING: score_default(TRUTH, CALLS), SETTING._replace(rounds=5): score_default(TRUTH, CALLS[:1] * 6)}
    text = describe_coverage(scores)
    assert text.startswith("Coverage over all rows, weighted by logs: 0.875 (8 logs); 1 of 2 rows are below 0.90:\n\n")
    line = "- soft, LinUCB(0.5), n = 400, T = 20: 0.50; graded poor in 50% of all logs, and in 1 of the 1 that are"
    assert line in text


def test_a_rival_without_a_value_on_a_log_has_an_empty_cell() -> None:
    values = [[0.5, math.nan, 0.4, 0.4, 0.4, 0.4], [0.5, 0.5, 0.4, 0.4, 0.4, 0.4]]
    trials = [Trial(call, rivals) for call, rivals in zip(CALLS, values, strict=True)]
    blocks = make_blocks({SETTING: (TRUTH, trials)})
    assert "| soft | LinUCB(0.5) | 400 | 20 | 2 | 0.2236 | 0.0000 |  | 0.1000 |" in blocks[-1]
    assert "| soft | LinUCB(0.5) | 400 | 20 | 2 | 0.5000 ± 0.0000 | -0.1000 ± 0.2000 | 0.2236 |" in blocks[2]
    [record] = make_records({SETTING: (TRUTH, trials)}).values()
    assert record["trials"][1][4:6] == ["poor", 0.05]


CASE = ("LinUCB", 1000, 100)
LIMITS = {times.PRESENT: 10.0, times.PASS: 10.0, times.FORMER_CALL: 5.0}


def row_of(n_events: int, rounds: int, **outcomes: Any) -> dict[str, Any]:
    return {"policy": "LinUCB", "n": n_events, "T": rounds, **outcomes}


def test_a_call_over_its_limit_is_not_run_where_it_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[float]()

    def answer(*arguments: Any, limit: float) -> dict[str, Any]:
        calls.append(limit)
        return {"seconds": 2.0, "cpu": 4.0, "value": 0.5, "std_error": 0.25, "forecast": 3.0}

    monkeypatch.setattr(times, "run_answer", answer)
    monkeypatch.setattr(times, "write_events", lambda n: Path("events.npz"))
    sources = dict.fromkeys(LIMITS, Path("src"))
    rows = [row_of(1000, 10, former={"error": "over 5 s"}), row_of(1000, 200, present={"error": "over 10 s"})]
    record = times.measure_case(rows, CASE, sources, LIMITS)
    assert record["former"] == {"error": "over"}
    assert calls == [10.0, 10.0]
    # seconds, forecast, processor seconds, former seconds, times faster, one pass, over one pass
    assert times.format_row(record, 5.0)[3:-1] == ["2.0", "3.0", "4.0", "over", "over 2", "2.0", "1"]
    # neither another policy nor a shorter case is over
    assert not times.was_over(rows, ("LinUCB", 500, 100), "former")
    assert not times.was_over(rows, ("EpsilonGreedy", 1000, 100), "former")
    assert times.was_over([record], ("LinUCB", 2000, 100), "former")


def test_an_interrupted_run_is_continued_at_the_same_commit_only(tmp_path: Path) -> None:
    path = tmp_path / "horizon_times.json"
    first, second = ({"commit": "abc", **ORIGIN, "command": command} for command in ("first", "second"))
    assert times.read_rows(path, first) == ([], first)
    times.write_results(tmp_path / "horizon_times", first, [row_of(1000, 10, present={"error": "over"})], LIMITS)
    rows, origin = times.read_rows(path, second)
    assert rows == json.loads(path.read_text())["rows"]
    assert origin["command"] == "first`, then `second"
    for commit in ("def", "abc-dirty"):
        with pytest.raises(SystemExit, match=f"made at commit abc, and the code is at {commit}"):
            times.read_rows(path, {**ORIGIN, "commit": commit})


ORIGIN: dict[str, Any] = {"command": "", "date": "", "machine": "", "versions": {}}


def test_a_process_over_its_limit_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_long(*arguments: Any, limit: float) -> Any:
        raise subprocess.TimeoutExpired("python", limit)

    monkeypatch.setattr(times, "run_with_source", run_long)
    outcome = times.run_answer(ROOT / "src", "answer", limit=5.0)
    assert outcome == {"error": "over 5 s"}
    assert times.is_over(outcome)
