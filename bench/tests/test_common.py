"""Tables, provenance, resumable trials, and the docstring examples of all benchmarks."""

from __future__ import annotations

import doctest
import json
import math
from importlib import import_module
from pathlib import Path

import pytest

import backcast as bc
from bench.common.machine import ROOT, describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner

WITH_EXAMPLES = [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for path in sorted((ROOT / "bench").glob("[!t]*/*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_docstring_examples(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert (result.failed, result.attempted > 0) == (0, True)


def test_text_columns_are_aligned_left() -> None:
    table = markdown_table(["a", "b", "c"], [["x", "y", 1]], text_columns=2)
    assert table == "| a | b | c |\n|:---|:---|---:|\n| x | y | 1 |"


def test_files_are_written_into_new_folders(tmp_path: Path) -> None:
    assert write_page(tmp_path / "new" / "page.md", ["# Title", "text"]) == "# Title\n\ntext\n"
    write_json(tmp_path / "new" / "data.json", {"nan": math.nan, "values": (1, 2)})
    assert json.loads((tmp_path / "new" / "data.json").read_text()) == {"nan": None, "values": [1, 2]}


def test_provenance_names_everything_a_result_depends_on() -> None:
    record = provenance("make it")
    assert record["versions"].keys() >= {"python", "backcast", "numpy", "numba"}
    assert record["cores"] > 0
    assert record["memory_gib"] > 0
    start = f"Made with `make it` on {record['date']} at commit {record['commit']}; {record['machine']}; "
    assert describe_provenance(record).startswith(start)
    assert f"numba {record['versions']['numba']}" in describe_provenance(record)


class Interrupted(Exception):
    """Stands for Ctrl-C in a trial."""


def run_and_stop(calls: list[int], stop_at: int, number: int) -> int:
    calls.append(number)
    if number == stop_at:
        raise Interrupted
    return 10 + number


def test_a_stopped_run_continues_after_its_last_trial(tmp_path: Path) -> None:
    runner, calls = TrialRunner(tmp_path, show_progress=False), list[int]()
    with pytest.raises(Interrupted):
        runner.run("trials", run_and_stop, (calls, 2), 4)
    assert calls == [0, 1, 2]
    assert runner.run("trials", run_and_stop, (calls, 9), 4) == [10, 11, 12, 13]
    assert calls == [0, 1, 2, 2, 3]


def test_a_damaged_trial_is_run_again(tmp_path: Path) -> None:
    runner = TrialRunner(tmp_path, show_progress=False)
    runner.run("powers", pow, (2,), 3)
    [damaged] = tmp_path.glob("powers/trial-1.*")
    damaged.write_bytes(damaged.read_bytes()[:-4])
    assert runner.run("powers", pow, (2,), 3) == [1, 2, 4]


def test_trials_of_other_facts_are_refused(tmp_path: Path) -> None:
    runner = TrialRunner(tmp_path, show_progress=False)
    runner.run("powers", pow, (2,), 1, {"world": "digits"})
    with pytest.raises(bc.OptionError, match=r"world \(digits, now rcv1\); choose another folder"):
        runner.run("powers", pow, (2,), 1, {"world": "rcv1"})


def test_results_do_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    for jobs in (1, 2):
        runner = TrialRunner(tmp_path / f"{jobs}", jobs=jobs, show_progress=False)
        assert runner.run("powers", pow, (2,), 6) == [1, 2, 4, 8, 16, 32]
