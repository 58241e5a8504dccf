"""Processes of another source folder, and the former default on the logs of the accuracy benchmark."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench.accuracy import former, former_answers, settings
from bench.accuracy.evaluators import RecordedEstimate
from bench.accuracy.former import COLUMNS, FormerEstimates
from bench.accuracy.live import Truth
from bench.accuracy.settings import SEED, Setting
from bench.accuracy.wide_coverage import WideRow, describe_coverage, score_default, wide_blocks
from bench.accuracy.worlds import make_world
from bench.common.former import run_with_source
from bench.common.machine import ROOT
from bench.common.trials import TrialRunner
from bench.reproduction.protocol import Case

SETTING = Setting("straight", "uniform", "UCB1", events=200, horizon=5)


def test_the_last_line_of_a_process_is_its_answer(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text(json.dumps({"value": [1, 2]}, indent=1))
    answer = run_with_source(ROOT / "src", "json.tool", tmp_path / "answer.json", "--compact")
    assert answer == {"value": [1, 2]}
    with pytest.raises(RuntimeError, match=r"No module named bench\.nothing"):
        run_with_source(ROOT / "src", "bench.nothing")
    with pytest.raises(subprocess.TimeoutExpired):
        run_with_source(ROOT / "src", "timeit", "-n1", "-r1", "import time; time.sleep(9)", limit=0.3)


def test_logs_are_the_same_in_all_benchmarks_of_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def return_case(case: Case) -> dict[str, RecordedEstimate]:
        return {"rewards": RecordedEstimate(float(case.log.rewards.sum()), complete=case.seed)}

    monkeypatch.setattr(settings, "evaluate_all", return_case)
    case = settings.draw_case(SETTING, None, 3)
    rng = np.random.default_rng([SEED, 3, *map(ord, SETTING.stem)])
    np.testing.assert_array_equal(make_world("straight", "uniform", None).log(200, rng).rewards, case.log.rewards)
    assert settings.evaluate_log(SETTING, None, 3) == {"rewards": RecordedEstimate(case.log.rewards.sum(), complete=3)}


def test_the_other_process_reads_the_same_log(tmp_path: Path) -> None:
    log = settings.draw_case(SETTING, None, 0).log
    former.write_log(log, tmp_path / "0.npz")
    read = former_answers.read_log(tmp_path / "0.npz")
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(read, name), getattr(log, name))
    assert read.reward_range == log.reward_range


def test_only_the_logs_that_are_asked_for_are_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former, "check_out_former", lambda: Path("src"))
    monkeypatch.setattr(former, "LOGS_PER_PROCESS", 2)
    monkeypatch.setattr(former, "run_with_source", lambda source, module, folder, policy, horizon: list_values(folder))
    estimates = former.run_former(TrialRunner(tmp_path, show_progress=False), SETTING, None, 3)
    assert estimates.values.tolist() == [0.0, 1.0, 2.0]
    assert estimates.seconds.tolist() == [0.5, 0.5, 0.5]


def list_values(folder: str) -> list[list[float]]:
    """Return the numbers of the logs in place of values."""
    return [[number, 0.5] for number in sorted(float(path.stem) for path in Path(folder).iterdir())]


def test_errors_without_a_value_are_not_compared() -> None:
    ratio, error, logs = former.compare_errors(np.array([0.25, -0.25, 0.5]), np.array([0.5, 0.5, math.nan]))
    assert (ratio, error, logs) == (0.5, 0.0, 2)
    assert math.isnan(former.compare_errors(np.array([0.25]), np.array([0.5]))[0])
    # leaving out one log gives ratios of 1 and 3: sqrt(1/2) times the root of their sum of squares around 2
    assert former.compare_errors(np.array([1.5, 0.5]), np.array([0.5, 0.5]))[1] == pytest.approx(1.0)


ESTIMATES = [
    RecordedEstimate(0.6, 0.4, 0.7, std_error=0.1, spread=0.6, histories=3.0, poor=0.0),
    RecordedEstimate(0.4, 0.3, 0.45, std_error=0.2, spread=0.6, histories=3.0, poor=1.0),
]


def test_a_wide_row_is_scored_by_hand() -> None:
    past = FormerEstimates(np.array([0.7, 0.3, 0.5]), np.zeros(3))
    row = score_default(SETTING, Truth(0.5, 0.0, 0.2, 0.1), ESTIMATES, past)
    assert (row.logs, row.coverage, row.poor, row.uncovered, row.uncovered_poor) == (2, 0.5, 0.5, 1, 1)
    assert row.rmse == pytest.approx(0.1)
    assert row.error_to_deviation == pytest.approx(0.15 / math.sqrt(0.02))
    assert row.ratio == pytest.approx(0.5)
    assert row.compared == 2
    assert math.isnan(score_default(SETTING, Truth(0.5, 0.0, 0.2, 0.1), ESTIMATES, None).ratio)


def test_settings_of_low_coverage_are_listed_with_their_grades() -> None:
    low = WideRow("bent, sharp, UCB1", 4, 0.5, 0.1, 0.01, 0.0, 1.0, 0.75, 2, 1)
    text = describe_coverage([low, low._replace(logs=12, coverage=1.0)])
    assert text.startswith(
        "Average coverage 0.875 (16 logs); 1 of 2 settings are below 0.90:\n\n- bent, sharp, UCB1: 0.50"
    )
    assert "graded poor in 75% of all logs, and in 1 of the 2 that are not covered." in text
    row = "| bent, sharp, UCB1 | 4 | 0.50 | 0.1000 ± 0.0100 | +0.0000 | 1.00 | 0.75 |  |  |"
    assert wide_blocks([low])[-1].splitlines()[-1] == row
