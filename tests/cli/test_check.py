"""``backcast check``: exit codes, remedies, JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import backcast as bc
from tests.support.cli import CHECK, run, write_even_log


class TestCheck:
    def test_a_sound_log_is_code_0(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        assert run(f"{CHECK} --policy ucb1") == 0
        printed = capsys.readouterr()
        assert re.search(r"^ +ok +duplicates +0 +0 events equal an earlier one", printed.out, re.MULTILINE)
        assert "UCB1(exploration=1, batch_size=1): effective sample size 400" in printed.out
        assert printed.out.endswith("Log(400 events, 2 actions, 1 feature): no problem found.\n")
        assert printed.err == ""

    def test_a_fault_is_code_1_with_its_remedy(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        spoilt = (folder / "log.csv").read_text().replace(",0.5\n", ",0.9\n")
        (folder / "log.csv").write_text(spoilt)
        assert run(f"{CHECK} --quiet") == 1
        printed = capsys.readouterr().out
        assert re.search(r"^ +fail +constant propensity +0\.9 +every propensity is 0\.9", printed, re.MULTILINE)
        assert "→ Record the probability of the action taken" in printed
        assert " ok " not in printed
        assert re.search(r"failed, \d+ warned, of \d+ checks; do not rely on estimates", printed)

    def test_json_is_that_of_the_library(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        assert run(f"{CHECK} --policy linucb --json") == 0
        log = bc.read_log("log.csv", context="hour", action="shown", reward="click", propensity="p")
        assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == bc.check(log, bc.LinUCB()).to_dict()

    def test_logs_of_vowpal_wabbit_need_no_columns(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rng = np.random.default_rng(0)
        lines = "".join(f"{a}:{1 - a}:0.5 | hour:{rng.random():.3f}\n" for a in rng.integers(1, 3, 400))
        (folder / "log.vw").write_text(lines)
        (folder / "log.dat").write_text(lines.replace(":0.5 ", ":0.9 "))
        assert run("check log.vw --policy 'fixed:probabilities=[0.25,0.75]' --json") == 0
        document = json.loads(capsys.readouterr().out)
        assert document == bc.check(bc.read_vw("log.vw"), bc.Fixed([0.25, 0.75])).to_dict()
        assert document["policy"]["evaluator"] == "ShrinkageDR()"
        assert run("check log.dat --format cb --quiet") == 1
        assert "fail      constant propensity" in capsys.readouterr().out
        assert run("evaluate log.dat --format vw --policy uniform --evaluator ips --json") == 0
        estimates = json.loads(capsys.readouterr().out)["estimates"]
        # the second action earns 1, has about half of the events, and weighs 0.5 / 0.9
        assert estimates["uniform"]["value"] == pytest.approx(0.5 * 0.5 / 0.9, abs=0.05)

    def test_a_parquet_file_is_examined_like_a_csv(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        pq.write_table(pyarrow.csv.read_csv(folder / "log.csv"), folder / "log.parquet")
        printed = []
        for words in (CHECK, CHECK.replace("log.csv", "log.parquet")):
            assert run(f"{words} --json --policy uniform") == 0
            printed.append(capsys.readouterr().out.replace("log.parquet", "log.csv"))
        assert printed[0] == printed[1]

    def test_drift_is_no_fault_where_the_order_matters(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv", 1000, drifting=True)
        verdicts = []
        for words in ("", "--not-exchangeable"):
            run(f"{CHECK} {words} --json")
            findings = json.loads(capsys.readouterr().out)["findings"]
            verdicts += [finding["verdict"] for finding in findings if finding["name"] == "reward_drift"]
        assert verdicts == ["warn", "ok"]
