"""The command line on logs read in parts, because that is set or because they are large for the memory."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backcast.checks import log as log_checks
from backcast.cli import main
from backcast.cli import run as cli_run
from backcast.io import limits

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
        'exchangeable = true\nhorizon = 4\n[policies]\na = "ucb1"\nb = "uniform"\n'
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
    words = f"log.parquet {COLUMNS} --policy uniform --evaluator ips"
    assert main(shlex.split(f"evaluate {words}")) == 0
    status = capsys.readouterr().err
    # 600 events of one feature and four more columns of eight bytes
    assert "the log needs 0 MB of memory and 0 MB are free; it is read in parts (--no-stream" in status
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


def test_free_memory_is_what_the_system_and_the_group_leave(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMINFO", folder / "meminfo")
    monkeypatch.setattr(limits, "CGROUP", folder)
    assert limits.free_memory() is None
    (folder / "meminfo").write_text("MemTotal:  8000 kB\nMemAvailable:   4000 kB\n")
    assert limits.free_memory() == 4_096_000
    (folder / "memory.max").write_text("3000000\n")
    (folder / "memory.current").write_text("1000000\n")
    assert limits.free_memory() == 2_000_000
    (folder / "memory.max").write_text("max\n")
    assert limits.free_memory() == 4_096_000
