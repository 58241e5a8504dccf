"""The benchmark of scale in small: its log, its processes, its model, and whether anything leaks."""

from __future__ import annotations

import doctest
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bench.scale import data, model, process, report
from bench.scale import paired as paired_module
from bench.scale.child import Case, CaseFailed, Measured, run
from bench.scale.paired import Pairs, paired
from bench.scale.run import better, record, recorded_pairs, written
from bench.scale.soak import Sample, Soaked, middle
from bench.scale.works import WORKS, stream_of

ROOT = Path(__file__).parents[2]


def measured(case: Case, seconds: float, value: float = 0.5, largest: float = 400.0) -> Measured:
    return Measured(
        case.work, case.engine, case.workers, 1_000, seconds, 1.0, value, largest, together=largest, cpu=2 * seconds
    )


def sample(megabytes: float, threads: int = 5) -> Sample:
    return Sample(megabytes, threads, files=10, mapped=0)


def test_the_log_is_the_same_whoever_makes_it(tmp_path: Path) -> None:
    logs = []
    for processes in (1, 2):
        with data.log_on_disk(tmp_path / "log", 2_500, processes, part=1_000) as folder:
            stream = stream_of(folder)
            assert (stream.n_rows, stream.n_features, len(stream.slices)) == (2_500, data.N_FEATURES, 3)
            logs.append(stream.read())
        assert not (tmp_path / "log").exists()
    one, two = logs
    np.testing.assert_array_equal(one.contexts, two.contexts)
    np.testing.assert_array_equal(one.rewards, two.rewards)


def test_propensities_are_those_of_the_logger() -> None:
    """The chance of an action on phones and elsewhere: 20 shares within 4.5 errors; odds of a false alarm 1.4e-4."""
    own = data.events_of(0, 50_000)
    table = data.logging_table()
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert table.min() > 1 / 26
    np.testing.assert_array_equal(own.propensity, table[own.phone, own.action])
    for phone in (0, 1):
        actions = own.action[own.phone == phone]
        share = np.bincount(actions, minlength=data.N_ACTIONS) / actions.size
        error = np.sqrt(table[phone] * (1 - table[phone]) / actions.size)
        assert (np.abs(share - table[phone]) < 4.5 * error).all()


def test_a_log_that_the_disk_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9 - 1, 1))
    with pytest.raises(data.NoRoom, match="GB are free; ask for fewer"), data.log_on_disk(tmp_path / "log", 10**6):
        raise AssertionError
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_log_is_removed_when_the_benchmark_is_stopped(tmp_path: Path, sent: signal.Signals) -> None:
    program = (
        "from pathlib import Path; import sys, time; from bench.scale.data import log_on_disk\n"
        "with log_on_disk(Path(sys.argv[1]), 100, part=100): print('made', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "made\n"
        assert (tmp_path / "log" / data.FIRST).exists()
        child.send_signal(sent)
        assert child.wait(timeout=30) != 0
    assert list(tmp_path.iterdir()) == []


def test_a_case_runs_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    data.write_part(tmp_path, 20_000, 20_000, part=0)
    found = run(Case("dr"), tmp_path)
    assert (found.events, found.engine, found.workers) == (20_000, "local", 1)
    assert 0 < found.value < 1
    assert found.rate == found.events / found.seconds
    assert 50 < found.largest <= found.together < 5_000
    with pytest.raises(CaseFailed, match="nothing-of-the-kind"):
        run(Case("nothing-of-the-kind"), tmp_path)


def test_children_are_counted() -> None:
    sleeper = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(sleeper, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in process.descendants(os.getpid())
        before = process.used()
        assert before.together > before.largest > 0
        child.kill()
    assert child.pid not in process.descendants(os.getpid())


def test_memory_taken_is_seen() -> None:
    before = process.resident()
    taken = np.ones(8_000_000)
    assert 50 < process.resident() - before < 80
    assert process.used().largest >= before + taken.nbytes / 1e6 - 10
    assert process.threads() >= 1
    with open(os.devnull) as _:
        held = process.open_files()
    assert process.open_files() == held - 1


def test_every_case_is_asked_for_once() -> None:
    cases = report.cases()
    assert len(cases) == len(set(cases)) == 2 + 4 * (len(WORKS) - 2)
    assert Case("dr", "dask", 2) in cases
    assert Case("dr-ns", "local", 2) not in cases


def test_the_quicker_attempt_counts() -> None:
    slow, quick = (measured(Case("dr"), seconds) for seconds in (2.0, 1.0))
    assert better(slow, quick) == better(quick, slow) == better("failed", quick) == better(quick, "failed") == quick
    assert better(None, "failed") == "failed"


def results(**seconds: float) -> dict[Case, Measured | str]:
    """All cases take a second on two workers and two on one, but for those said otherwise."""
    return {case: measured(case, seconds.get(case.work, 2.0) / case.workers) for case in report.cases()}


def test_tables_say_what_was_reached() -> None:
    found = results()
    found[Case("compiled", "dask", 2)] = measured(Case("compiled", "dask", 2), 1.5)
    found[Case("clock")] = "no clocks here"
    found[Case("preset")] = measured(Case("preset"), 1.0, largest=1_600.0)
    passes = report.passes(found)
    assert "| 1,600 MB | below 1,500 MB | no |" in passes
    assert "| 400 MB | below 1,500 MB | yes |" in passes
    assert "left out: no clocks here" in passes
    gains = report.speed_ups(found).splitlines()
    [local, dask] = [line for line in gains if line.startswith(f"| {WORKS['compiled'].words} ")]
    assert "2.00× |  |  | 2.0, 2.0 | yes | 1.7× | yes |" in local
    assert "1.33× |  |  | 2.0, 2.0 | yes | 1.7× | no |" in dask
    assert "| dask | 2 | 1.00 ms | 1.0 s |" in report.costs(found)


def test_the_median_of_pairs_counts() -> None:
    pairs = Pairs("python", "local", one=(20.0, 21.0, 30.0), two=(10.0, 12.0, 20.0), beside=(21.0, 21.0))
    [line] = [line for line in report.speed_ups(results(), [pairs]).splitlines() if "NumPy | local" in line]
    assert "1.75× | 3: 1.50 to 2.00 | 2.00× | 2.0, 2.0 | yes | 1.8× | no |" in line


class Toy:
    """A child that notes when it is asked, and takes a second for each time anybody was."""

    def __init__(self, case: Case, asked: list[int]) -> None:
        self.case, self.asked = case, asked

    def start(self) -> None:
        self.asked.append(self.case.workers)

    def found(self) -> Measured:
        return measured(self.case, float(len(self.asked)))

    def run(self) -> Measured:
        self.start()
        return self.found()


@pytest.mark.parametrize(("engine", "order"), [("local", [1, 2, 2, 1, 1, 1]), ("dask", [1, 2, 2, 1])])
def test_one_worker_and_two_run_in_turns(engine: str, order: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(paired_module, "ready", lambda case, folder: nullcontext(Toy(case, asked)))
    pairs, (one, two) = paired("python", engine, Path(), 1, lambda line: None)
    assert asked == order
    assert (pairs.one, pairs.two, pairs.beside) == ((1.0, 4.0), (2.0, 3.0), (6.0, 6.0) if engine == "local" else ())
    assert (one, two) == (measured(Case("python", engine, 1), 4.0), measured(Case("python", engine, 2), 3.0))


def test_the_page_has_everything_and_the_record_can_be_read_back() -> None:
    soak, log = (
        Soaked(200, sample(400), sample(404)),
        {"events": 10**6, "files": 4, "bytes": 26 * 10**6, "seconds": 3.0},
    )
    pairs = [Pairs("python", "local", one=(2.0,), two=(1.0,), beside=())]
    kept = json.loads(json.dumps(record(results(), pairs, soak, log)))
    assert recorded_pairs(kept) == pairs
    assert recorded_pairs({}) == []
    text = written(results(), soak, kept, "make bench-scale")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "From disk, one job",
        "One worker and two",
        "Handing out pieces",
        "Many runs in a row",
        "What that makes of longer logs",
    ]
    assert "200 runs in a row: nothing grew (memory +1.0%; asked: within 5%)." in text
    assert "1,000,000 events in partitioned Parquet (4 files, 0.03 GB)" in text
    assert "ClockReplay, 1,000 pools | 10^11 | 10 |" in text
    assert len(kept["cases"]) == len(report.cases())


def test_another_answer_is_told() -> None:
    found = results()
    work = WORKS["python"]
    assert report.same_answer(work, found)
    found[Case("python", "dask", 1)] = measured(Case("python", "dask", 1), 2.0, value=np.nextafter(0.5, 1))
    assert not report.same_answer(work, found)


def test_the_chart_has_a_bar_for_every_shared_case(tmp_path: Path) -> None:
    rows = report.chart_rows(results())
    assert len(rows) == 4 * (len(WORKS) - 3)
    assert [file.stat().st_size > 1_000 for file in report.save_chart(results(), tmp_path)] == [True, True]


def recorded() -> dict[str, Any]:
    """Made up: DR takes 2 us of a core an event, DR-ns 1 us, a piece 1 ms, an event 32 bytes."""
    cases = [
        {"work": work, "engine": engine, "workers": workers, "events": 10**6, "cpu": cpu, "seconds": cpu}
        for work, engine, workers, cpu in (
            ("dr", "local", 1, 2.0),
            ("dr-ns", "local", 1, 1.0),
            ("pieces", "dask", 2, 1e3),
        )
    ]
    return {"log": {"events": 10**6, "bytes": 32 * 10**6}, "cases": cases}


def test_the_model_takes_its_constants_from_the_record() -> None:
    assert model.costs_of(recorded(), "dr") == model.Costs(event=2e-6, file_slice=1e-3, width=32.0)
    assert model.costs_of(recorded(), "clock") is None
    page = model.page(recorded())
    assert "2,000 ns an event for `dr`; 1,000 ns an event for `dr-ns` (of one core); 1.0 ms a piece; 32 bytes" in page
    # 10^9 events at a microsecond each, in order: 1,000 s, whoever waits
    assert (
        "| learning policy, DR-ns in log order | 10^9 | 1,000 | 1 | 17 min | 1 | 0.03 GB/s | one pass in order |"
        in page
    )
    # in segments, on 100 workers: two rounds of pieces of 5 s
    assert "| learning policy, DR-ns with Segments(200) | 10^9 | 100 | 200 | 10 s | 100 |" in page
    # a piece for 10 million events: 10,000 pieces of 20 s, ten rounds of them on 1,000 workers
    assert "| fixed policy, DR | 10^9 | 1,000 | 100 | 20 s | 100 | 1.60 GB/s | 100 pieces |" in page
    assert "| fixed policy, DR | 10^11 | 1,000 | 10,000 | 3 min | 1,000 | 16.00 GB/s | processors |" in page
    assert "ClockReplay" not in page
    assert "Nothing to go by" in model.page({"log": {}, "cases": []})


@pytest.mark.parametrize(
    ("pieces", "workers", "seconds", "limit"),
    [
        (1, 10, 1_000.001, "one pass in order"),
        (100, 1_000, 10.001, "100 pieces"),
        (100, 10, 100.01, "processors"),
        (100, 30, 40.004, "processors"),
        (10**6, 1_000, 1_000.0, "handing out pieces"),
    ],
)
def test_where_the_model_stops_scaling(slices: int, workers: int, seconds: float, limit: str) -> None:
    costs = model.Costs(event=1e-6, file_slice=1e-3, width=32.0)
    found = model.forecast(costs, 10**9, slices, workers)
    assert found.seconds == pytest.approx(seconds)
    assert found.limit == limit
    assert found.busy == min(slices, workers)


def test_the_manual_says_what_was_recorded(tmp_path: Path) -> None:
    manual = (ROOT / model.MANUAL).read_text()
    assert manual == model.filled(manual, model.section(ROOT / model.RECORDED))
    assert "Nothing is recorded yet" in model.section(tmp_path / "scale.json")
    made_up = {**recorded(), "date": "2026-01-02", "machine": "an abacus"}
    (tmp_path / "scale.json").write_text(json.dumps(made_up))
    assert "on 2026-01-02, 1,000,000 events; an abacus.\n\nConstants: " in model.section(tmp_path / "scale.json")


@pytest.mark.parametrize("module", [data, model, paired_module])
def test_examples_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_leaks_are_recognised() -> None:
    assert Soaked(200, sample(400), sample(419)).leaks == []
    assert Soaked(200, sample(400), sample(421)).leaks == ["memory grew by 5.2%, from 400 MB"]
    assert Soaked(200, sample(400), sample(400, threads=6)).leaks == ["threads grew from 5 to 6"]
    assert middle([sample(1), sample(5), sample(2)]) == sample(2)


def test_two_hundred_runs_in_a_row_leak_nothing() -> None:
    command = [sys.executable, "-m", "bench.scale.soak", "--runs", "200", "--events", "500"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["runs"] == 200
