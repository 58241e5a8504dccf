"""The command line on logs read in parts, because that is set or because they are large for the memory."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backcast as bc
from backcast.checks import log as log_checks
from backcast.cli import main
from backcast.cli import run as cli_run
from backcast.io import _file_stream, limits
from backcast.io._file_stream import FileLogStream
from backcast.io.limits import size_error

COLUMNS = "--context f --action shown --reward click --propensity p --reward-range 0 1"


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    """A folder with a log of 600 events in row groups of 70."""
    rng = np.random.default_rng(3)
    shown = rng.integers(2, size=600)
    clicks = (rng.random(600) < np.where(shown, 0.75, 0.25)).astype(float)
    table = pa.table({"f": rng.normal(size=600), "shown": shown, "click": clicks, "p": np.full(600, 0.5)})
    pq.write_table(table, folder / "log.parquet", row_group_size=70)
    return folder


def result(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(shlex.split(f"{words} --json")) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_stream_gives_the_answer_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"evaluate log.parquet {COLUMNS} --policy fixed:probabilities=[0.25,0.75] --evaluator ips"
    whole, parts = (result(f"{words} {flag}", capsys) for flag in ("--no-stream", "--stream"))
    whole_estimate, parts_estimate = (next(iter(document["estimates"].values())) for document in (whole, parts))
    assert parts_estimate["value"] == pytest.approx(whole_estimate["value"], rel=1e-12)
    assert {key: parts["log"][key] for key in ("events", "actions", "features")} == {
        key: whole["log"][key] for key in ("events", "actions", "features")
    }


def test_learners_are_compared_by_parts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "run.toml").write_text(
        'log = "log.parquet"\ncontext = "f"\naction = "shown"\nreward = "click"\npropensity = "p"\nstream = true\n'
        'exchangeable = true\nhorizon = 4\n[policies]\na = "ucb1"\nb = "round-robin"\n'
    )
    document = result("compare run.toml", capsys)
    assert document["estimates"]["a"]["diagnostics"]["kind"] == "PartsDiagnostics"
    assert document["differences"][0]["interval"]["method"] == "paired Student over parts"
    assert main(["compare", "run.toml", "--report", "report.html"]) == 0
    assert "parts" in (folder / "report.html").read_text()


def test_a_log_too_large_for_memory_is_read_in_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_run, "free_memory", lambda: 40_000)
    # further jobs need memory of their own
    words = f"log.parquet {COLUMNS} --policy uniform --evaluator ips --jobs 1"
    assert main(shlex.split(f"evaluate {words}")) == 0
    status = capsys.readouterr().err
    # 600 events of one feature and four more columns of eight bytes
    sizes = "the log needs 24 KB of memory and its evaluation 173 KB, and 40 KB are free"
    assert f"{sizes}; it is read in parts (--no-stream" in status
    assert main(shlex.split(f"evaluate {words} --no-stream")) == 0
    assert "in parts" not in capsys.readouterr().err
    assert main(shlex.split(f"check log.parquet {COLUMNS}")) == 0
    assert "it is read in parts" in capsys.readouterr().err


def test_a_stream_that_fits_is_checked_as_the_log_is(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"check log.parquet {COLUMNS} --policy ucb1"
    assert result(f"{words} --stream", capsys) == result(f"{words} --no-stream", capsys)


def test_a_longer_stream_is_checked_by_a_sample_that_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_checks, "MOST_EVENTS", 300)
    outcome = result(f"check log.parquet {COLUMNS} --stream", capsys)
    assert outcome["log"] == ("300 events in evenly spaced slices of LogStream(600 events in 1 file, 2 actions)")
    assert outcome["verdict"] == "ok"
    monkeypatch.setattr(log_checks, "MOST_BYTES", 200 * 8 * 5)
    assert result(f"check log.parquet {COLUMNS} --stream", capsys)["log"].startswith("200 events")
    # the log in memory is looked at whole
    assert result(f"check log.parquet {COLUMNS}", capsys)["log"].startswith("Log(600 events")


def test_a_fault_in_a_stream_is_found_in_its_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table("log.parquet")
    pq.write_table(table.set_column(3, "p", pa.array(np.full(600, 0.25))), folder / "wrong.parquet")
    monkeypatch.setattr(log_checks, "MOST_EVENTS", 300)
    assert main(shlex.split(f"check wrong.parquet {COLUMNS} --stream")) == 1
    assert "every propensity is 0.25" in " ".join(capsys.readouterr().out.split())


def test_a_plan_may_be_made_from_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"plan log.parquet {COLUMNS} --policy a=fixed:probabilities=[0.25,0.75] --policy b=uniform --difference 0.1"
    whole, parts = (result(f"{words} --evaluator ips {flag}", capsys) for flag in ("--no-stream", "--stream"))
    assert parts["pilot_events"] == whole["pilot_events"] == 600
    # policies of a stream are not paired event by event, so more events are needed
    assert whole["needs"][0]["events"] < parts["needs"][0]["events"] < 20 * whole["needs"][0]["events"]
    learners = f"plan log.parquet {COLUMNS} --policy ucb1 --policy uniform --difference 0.1 --horizon 4 --exchangeable"
    document = result(f"{learners} --evaluator clock:pool=20 --stream", capsys)
    # 30 parts, all of whose error falls with the log
    assert (document["spreads"][0]["freedom"], document["spreads"][0]["monte_carlo"]) == (29, 0.0)


def test_a_log_that_cannot_be_streamed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--context f --action shown --reward click --estimate-propensities --policy uniform --stream"
    assert main(shlex.split(f"evaluate log.parquet {words}")) == 2
    assert "propensities are estimated are read whole" in capsys.readouterr().err


def test_a_log_that_turns_out_too_large_is_read_in_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_out_of_memory(self: FileLogStream) -> None:
        raise size_error(600, 24_000)

    monkeypatch.setattr(FileLogStream, "read", run_out_of_memory)
    words = f"evaluate log.parquet {COLUMNS} --policy uniform --evaluator ips"
    assert main(shlex.split(words)) == 0
    assert "the log does not fit in memory; it is read in parts" in capsys.readouterr().err
    assert main(shlex.split(f"{words} --no-stream")) == 7
    assert "more than there is; leave out --no-stream to read it in parts" in capsys.readouterr().err


def test_free_memory_is_what_the_system_and_the_groups_leave(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROC", folder)
    monkeypatch.setattr(limits, "CGROUP", folder / "cgroup")
    monkeypatch.setattr(limits, "_process_limits", lambda: ())
    assert limits.free_memory() is None
    (folder / "meminfo").write_text("MemTotal:  8000 kB\nMemAvailable:   4000 kB\nHugePages_Total: 0\n")
    assert limits.free_memory() == 4_096_000

    def write_group(path: str, limit: str, names: tuple[str, str, str]) -> None:
        group = folder / "cgroup" / path
        group.mkdir(parents=True, exist_ok=True)
        (group / names[0]).write_text(f"{limit}\n")
        (group / names[1]).write_text("1000000\n")
        (group / "memory.stat").write_text(f"anon 1\n{names[2]} 100000\n")

    version_2 = ("memory.max", "memory.current", "inactive_file")
    write_group("", "3000000", version_2)
    assert limits.free_memory() == 2_100_000
    write_group("", "max", version_2)
    assert limits.free_memory() == 4_096_000
    # a group of its own, whose parent is the one with the limit
    (folder / "self").mkdir()
    (folder / "self" / "cgroup").write_text("0::/slice/job\n")
    write_group("slice/job", "max", version_2)
    write_group("slice", "2500000", version_2)
    assert limits.free_memory() == 1_600_000
    (folder / "self" / "cgroup").write_text("4:memory:/job\n1:cpu:/job\n")
    write_group("memory/job", "2000000", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))
    assert limits.free_memory() == 1_100_000


@pytest.mark.parametrize("kind", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_free_memory_is_what_the_process_may_have(kind: str) -> None:
    code = (
        f"import resource; resource.setrlimit(resource.{kind}, (2**32, 2**32))\n"
        "from backcast.io.limits import free_memory, total_memory; print(free_memory(), total_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    free, total = map(int, done.stdout.split())
    assert 0 < free < total <= 2**32


def test_parts_are_smaller_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = bc.scan_log("log.parquet", context="f", action="shown", reward="click", propensity="p")
    assert [len(part) for part in stream.parts()] == [600]
    # 40 bytes per row, and room for a sixteenth of what is free
    monkeypatch.setattr(_file_stream, "FEWEST_ROWS", 50)
    monkeypatch.setattr(_file_stream, "free_memory", lambda: 16 * 40 * 250)
    assert [len(part) for part in stream.parts()] == [250, 250, 100]
    build_part = FileLogStream._build_part

    def build_small_part(self: FileLogStream, batches: Any, n: int, *rows: int) -> bc.Log:
        if n > limit:
            raise MemoryError
        return build_part(self, batches, n, *rows)

    monkeypatch.setattr(FileLogStream, "_build_part", build_small_part)
    limit = 70
    parts = list(stream.parts())
    assert [len(part) for part in parts] == [63, 62, 63, 62, 63, 62, 63, 62, 50, 50]
    assert np.concatenate([part.rows for part in parts]).tolist() == list(range(600))
    limit = 10
    with pytest.raises(bc.ResourceError, match="more than there is; use fewer columns, or allow more memory"):
        list(stream.parts())


@pytest.mark.parametrize("mode", ["--stream", "--no-stream"])
def test_rows_and_missing_values(mode: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pq.read_table(folder / "log.parquet")
    ages = pa.array([None if row % 3 == 0 else row % 60 for row in range(600)])
    pq.write_table(table.append_column("age", ages), folder / "log.parquet", row_group_size=70)
    words = f"evaluate log.parquet {COLUMNS} --context age --policy uniform --evaluator ips {mode}"
    assert main(shlex.split(words)) == 2
    assert "context is missing (null in column 'age')" in capsys.readouterr().err
    values = [
        result(f"{words} --fill age=mean --where 'shown = 1'", capsys)["estimates"]["uniform"]["diagnostics"]["events"],
        result(f"{words} --where 'age is not null'", capsys)["estimates"]["uniform"]["diagnostics"]["events"],
    ]
    assert values == [int(np.sum(table["shown"].to_numpy())), 400]
    (folder / "run.toml").write_text(
        'log = "log.parquet"\ncontext = ["f", "age"]\naction = "shown"\nreward = "click"\npropensity = "p"\n'
        'where = "age > 5"\nfill = { age = 0 }\n[policies]\neven = "uniform"\n'
    )
    older = sum(age is not None and age > 5 for age in ages.to_pylist())
    estimate = result("evaluate run.toml --evaluator ips", capsys)["estimates"]["even"]
    assert estimate["diagnostics"]["events"] == older
    assert main(["evaluate", "run.toml", "--fill", "mean", "--fill", "age=0"]) == 2
    assert "give one value for all columns" in capsys.readouterr().err
