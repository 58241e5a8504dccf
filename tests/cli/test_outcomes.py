"""``backcast compare`` with outcomes, segments and guardrails: exit codes, JSON and text."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.cli import OUTPUT_SCHEMA, run

READ = "log.csv --context x --action shown --reward click --propensity p --reward-range 0 1"
GOOD = "--policy good='fixed:probabilities=[0,1]'"
OUTCOMES = "--outcome latency=ms --outcome paid --segment device"


@pytest.fixture(autouse=True)
def log(folder: Path) -> None:
    """Two actions that are logged equally often; the second earns 0.3 more and takes 10 ms more."""
    rng = np.random.default_rng(0)
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "shown", "click", "p", "ms", "paid", "device"])
        for k in range(1000):
            shown = int(rng.integers(2))
            click = int(rng.random() < 0.3 + 0.3 * shown)
            ms, device = round(50 + 10 * shown + rng.normal(), 3), "phone" if k % 3 else ""
            writer.writerow([round(rng.normal(), 3), shown, click, 0.5, ms, 2 * click, device])


@pytest.mark.parametrize(
    ("guardrail", "code"),
    [
        ("latency < logged + 8", 0),
        ("latency < logged + 2", 3),
        ("latency < logged + 5", 4),
        ("latency <= 70", 0),
        ("latency > logged + 1 %", 0),
        ("paid >= logged - 2 %", 0),
    ],
)
def test_exit_code(guardrail: str, code: int) -> None:
    assert run(f"compare {READ} {OUTCOMES} {GOOD} --guardrail '{guardrail}' --quiet") == code
    required = {0: 0, 3: 3, 4: 4}[code]
    assert run(f"compare {READ} {OUTCOMES} {GOOD} --guardrail '{guardrail}' --require better --quiet") == required


def test_a_guardrail_on_a_poor_estimate_ends_with_5(folder: Path) -> None:
    lines = (folder / "log.csv").read_text().splitlines(keepends=True)
    (folder / "log.csv").write_text("".join(lines[:12]))
    assert run(f"compare {READ} {OUTCOMES} {GOOD} --guardrail 'latency < 100' --quiet") == 5


@pytest.mark.parametrize("guardrail", ["speed < 5", "latency", "latency < fast"])
def test_a_guardrail_that_cannot_be_read_is_refused(guardrail: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"compare {READ} {OUTCOMES} {GOOD} --guardrail '{guardrail}'") == 2
    assert "guardrail is" in capsys.readouterr().err


@pytest.mark.parametrize("stream", ["", "--stream"])
def test_json_has_outcomes_segments_and_guardrails(stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"compare {READ} {OUTCOMES} {GOOD} --guardrail 'latency < logged + 2' --json {stream}") == 3
    document = json.loads(capsys.readouterr().out)
    OUTPUT_SCHEMA.validate(document)
    assert list(document["outcomes"]) == ["latency", "paid"]
    assert document["outcomes"]["latency"]["verdict"] is None
    assert 4 < document["outcomes"]["latency"]["lifts"]["good"]["value"] < 6
    segments = document["segments"]["device"]["segments"]
    assert [(segment["name"], segment["events"]) for segment in segments] == [("phone", 666), ("missing", 334)]
    assert document["guardrails"][0]["outcome"] == "contradicted"
    assert document["verdict"]["decision"] == "worse"


def test_text_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"compare {READ} {OUTCOMES} {GOOD} --guardrail 'latency < logged + 2'") == 3
    text = " ".join(capsys.readouterr().out.split())
    assert "good breaks the guardrail latency < logged + 2: latency minus logged lies between +4" in text
    assert "phone good 666" in text


def test_a_run_file_has_the_same_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "run.toml").write_text(
        'log = "log.csv"\ncontext = "x"\naction = "shown"\nreward = "click"\npropensity = "p"\n'
        'outcomes = { latency = "ms" }\nsegments = "device"\nguardrails = ["latency < logged + 2"]\n'
        '[policies]\ngood = "fixed:probabilities=[0,1]"\n'
    )
    assert run("compare run.toml --json") == 3
    document = json.loads(capsys.readouterr().out)
    assert list(document["segments"]) == ["device"]


def test_logs_of_vowpal_wabbit_have_no_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"compare log.csv --format vw --segment device {GOOD}") == 2
    assert "have no columns; leave it out" in capsys.readouterr().err
