"""The scale benchmark in small: its log, its processes, its model, and leaks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.common import processes
from bench.common.machine import ROOT, provenance
from bench.common.processes import CaseFailed
from bench.scale import data, model, paired, tables
from bench.scale.paired import Pairs, measure_pairs
from bench.scale.run import faster, make_record, read_cases, read_pairs, scale_blocks
from bench.scale.soak import Sample, Soak, median_sample
from bench.scale.worker_process import Case, Measurement, run_case
from bench.scale.workloads import WORKLOADS, open_stream


def measurement(case: Case, seconds: float, value: float = 0.5, largest: float = 400.0) -> Measurement:
    usage = {"largest": largest, "together": largest, "cpu": 2 * seconds}
    return Measurement(case.work, case.engine, case.workers, 1_000, seconds, 1.0, value, **usage)


def all_results() -> dict[Case, Measurement | str]:
    """Every case takes two seconds on one worker and one second on two."""
    return {case: measurement(case, 2.0 / case.workers) for case in tables.list_cases()}


def sample(megabytes: float, threads: int = 5) -> Sample:
    return Sample(megabytes, threads, files=10, mapped=0)


def test_the_log_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    logs = []
    for count in (1, 2):
        with data.log_on_disk(tmp_path / "log", 2_500, count, part=1_000) as folder:
            stream = open_stream(folder)
            assert (stream.n_events, stream.n_features, len(stream.split(9))) == (2_500, data.N_FEATURES, 3)
            logs.append(stream.read())
        assert not (tmp_path / "log").exists()
    first, second = logs
    np.testing.assert_array_equal(first.contexts, second.contexts)
    np.testing.assert_array_equal(first.rewards, second.rewards)


def test_propensities_are_those_of_the_logger() -> None:
    """Shares of actions on phones and elsewhere: 20 shares within 4.5 errors; odds of a false alarm 1.4e-4."""
    events = data.make_events(0, 50_000)
    table = data.logging_table()
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert table.min() > 1 / 26
    np.testing.assert_array_equal(events.propensity, table[events.phone, events.action])
    for phone in (0, 1):
        actions = events.action[events.phone == phone]
        share = np.bincount(actions, minlength=data.N_ACTIONS) / actions.size
        error = np.sqrt(table[phone] * (1 - table[phone]) / actions.size)
        assert (np.abs(share - table[phone]) < 4.5 * error).all()


def test_a_log_that_does_not_fit_on_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9 - 1, 1))
    refused = pytest.raises(data.DiskTooSmall, match="GB are free; request fewer")
    with refused, data.log_on_disk(tmp_path / "log", 10**6):
        raise AssertionError
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_log_is_removed_when_the_benchmark_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "from pathlib import Path; import sys, time; from bench.scale.data import log_on_disk\n"
        "with log_on_disk(Path(sys.argv[1]), 100, part=100): print('written', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "written\n"
        assert (tmp_path / "log" / data.FIRST_FILE).exists()
        child.send_signal(number)
        assert child.wait(timeout=30) != 0
    assert list(tmp_path.iterdir()) == []


def test_a_case_runs_in_a_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    data.write_part(tmp_path, 20_000, 20_000, part=0)
    run = run_case(Case("dr"), tmp_path)
    assert (run.events, run.case) == (20_000, Case("dr", "local", 1))
    assert 0 < run.value < 1
    assert run.rate == run.events / run.seconds
    assert 50 < run.largest <= run.together < 5_000
    with pytest.raises(CaseFailed, match="unknown-workload"):
        run_case(Case("unknown-workload"), tmp_path)


def test_child_processes_are_counted() -> None:
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(sleep, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in processes.list_descendants(os.getpid())
        usage = processes.measure_usage()
        assert usage.together > usage.largest > 0
        child.kill()
    assert child.pid not in processes.list_descendants(os.getpid())


ALLOCATE = """
import numpy as np
from bench.common import processes
before = processes.resident_megabytes()
array = np.ones(8_000_000)
assert 50 < processes.resident_megabytes() - before < 80
assert processes.measure_usage().largest >= before + array.nbytes / 1e6 - 10
"""


def test_allocated_memory_is_measured() -> None:
    # in a new process: this one may have memory to spare that other tests freed
    subprocess.run([sys.executable, "-c", ALLOCATE], check=True, cwd=ROOT)
    assert processes.count_threads() >= 1
    with open(os.devnull) as _:
        count = processes.count_open_files()
    assert processes.count_open_files() == count - 1


def test_every_case_is_listed_once() -> None:
    cases = tables.list_cases()
    assert len(cases) == len(set(cases)) == 2 + 4 * (len(WORKLOADS) - 2)
    assert Case("dr", "dask", 2) in cases
    assert Case("dr-ns", "local", 2) not in cases


def test_the_faster_run_counts() -> None:
    slow, quick = (measurement(Case("dr"), seconds) for seconds in (2.0, 1.0))
    assert faster(slow, quick) == faster(quick, slow) == faster("failed", quick) == faster(quick, "failed") == quick
    assert faster(None, "failed") == "failed"


def test_tables_show_which_goals_are_reached() -> None:
    results = all_results()
    results[Case("compiled", "dask", 2)] = measurement(Case("compiled", "dask", 2), 1.5)
    results[Case("clock")] = "no clocks here"
    results[Case("preset")] = measurement(Case("preset"), 1.0, largest=1_600.0)
    passes = tables.passes_table(results)
    assert "| 1,600 MB | below 1,500 MB | no |" in passes
    assert "| 400 MB | below 1,500 MB | yes |" in passes
    assert "left out: no clocks here" in passes
    lines = tables.speed_ups_table(results).splitlines()
    [local, dask] = [line for line in lines if line.startswith(f"| {WORKLOADS['compiled'].description} ")]
    assert "2.00× |  |  | 2.0, 2.0 | yes | 1.7× | yes |" in local
    assert "1.33× |  |  | 2.0, 2.0 | yes | 1.7× | no |" in dask
    assert "| dask | 2 | 1.00 ms | 1.0 s |" in tables.job_costs_table(results)


def test_the_median_of_pairs_counts() -> None:
    pairs = Pairs("python", "local", one=(20.0, 21.0, 30.0), two=(10.0, 12.0, 20.0), beside=(21.0, 21.0))
    lines = tables.speed_ups_table(all_results(), [pairs]).splitlines()
    [line] = [line for line in lines if "NumPy | local" in line]
    assert "1.75× | 3: 1.50 to 2.00 | 2.00× | 2.0, 2.0 | yes | 1.8× | no |" in line


class FakeWorkerProcess:
    """A run takes as many seconds as runs were started by all processes."""

    def __init__(self, case: Case, started: list[int]) -> None:
        self.case, self.started = case, started

    def start_run(self) -> None:
        self.started.append(self.case.workers)

    def wait_for_run(self) -> Measurement:
        return measurement(self.case, float(len(self.started)))

    def run(self) -> Measurement:
        self.start_run()
        return self.wait_for_run()


@pytest.mark.parametrize(("engine", "order"), [("local", [1, 2, 2, 1, 1, 1]), ("dask", [1, 2, 2, 1])])
def test_one_worker_and_two_run_in_turn(engine: str, order: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(
        paired, "start_worker_process", lambda case, folder: nullcontext(FakeWorkerProcess(case, started))
    )
    pairs, medians = measure_pairs("python", engine, Path(), 1)
    assert started == order
    assert (pairs.one, pairs.two, pairs.beside) == ((1.0, 4.0), (2.0, 3.0), (6.0, 6.0) if engine == "local" else ())
    assert medians == [measurement(Case("python", engine, 1), 4.0), measurement(Case("python", engine, 2), 3.0)]


def test_the_page_has_all_sections_and_the_record_can_be_read() -> None:
    soak = Soak(200, sample(400), sample(404))
    log = {"events": 10**6, "files": 4, "bytes": 26 * 10**6, "seconds": 3.0}
    pairs = [Pairs("python", "local", one=(2.0,), two=(1.0,), beside=())]
    record = json.loads(json.dumps(make_record(provenance("make bench-scale"), all_results(), pairs, soak, log)))
    assert read_cases(record) == all_results()
    assert read_pairs(record) == pairs
    assert read_pairs({}) == []
    page = "\n\n".join(scale_blocks(all_results(), record))
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == [
        "From disk, one job",
        "One worker and two",
        "Distributing jobs",
        "Many runs in a row",
        "Forecast for longer logs",
    ]
    assert "Made with `make bench-scale` on " in page
    assert "200 runs in a row: nothing grew (memory +1.0%; goal: within 5%)." in page
    assert "1,000,000 events in partitioned Parquet (4 files, 0.03 GB)" in page
    assert "ClockReplay, 1,000 pools | 10^11 | 10 |" in page


def test_different_values_are_detected() -> None:
    results = all_results()
    workload = WORKLOADS["python"]
    assert tables.have_same_value(workload, results)
    results[Case("python", "dask", 1)] = measurement(Case("python", "dask", 1), 2.0, value=np.nextafter(0.5, 1))
    assert not tables.have_same_value(workload, results)


def test_the_chart_has_a_bar_for_every_shared_case(tmp_path: Path) -> None:
    assert len(tables.chart_rows(all_results())) == 4 * (len(WORKLOADS) - 3)
    files = tables.save_workers_chart(all_results(), tmp_path)
    assert [file.stat().st_size > 1_000 for file in files] == [True, True]


def synthetic_record() -> dict[str, Any]:
    """DR takes 2 us of a core per event, DR-ns 1 us, a job 1 ms, and an event 32 bytes."""
    runs = (("dr", "local", 1, 2.0), ("dr-ns", "local", 1, 1.0), ("empty-jobs", "dask", 2, 1e3))
    cases = [
        {"work": work, "engine": engine, "workers": workers, "events": 10**6, "cpu": cpu, "seconds": cpu}
        for work, engine, workers, cpu in runs
    ]
    return {"log": {"events": 10**6, "bytes": 32 * 10**6}, "cases": cases}


def test_the_model_takes_its_constants_from_the_record() -> None:
    assert model.read_costs(synthetic_record(), "dr") == model.Costs(event=2e-6, job=1e-3, width=32.0)
    assert model.read_costs(synthetic_record(), "clock") is None
    text = model.forecast_section(synthetic_record())
    assert "2,000 ns per event for `dr`; 1,000 ns per event for `dr-ns` (of one core); 1.0 ms per job; 32 by" in text
    # 10^9 events at a microsecond each, in order: 1,000 s
    in_order = "| learning policy, DR-ns in log order | 10^9 | 1,000 | 1 | 17 min | 1 | 0.03 GB/s | one pass in order |"
    assert in_order in text
    # in segments, on 100 workers: two rounds of jobs of 5 s
    assert "| learning policy, DR-ns with Segments(200) | 10^9 | 100 | 200 | 10 s | 100 |" in text
    # a job per 10 million events: 10,000 jobs of 20 s, ten rounds of them on 1,000 workers
    assert "| fixed policy, DR | 10^9 | 1,000 | 100 | 20 s | 100 | 1.60 GB/s | 100 jobs |" in text
    assert "| fixed policy, DR | 10^11 | 1,000 | 10,000 | 3 min | 1,000 | 16.00 GB/s | processors |" in text
    assert "ClockReplay" not in text
    assert "There is no forecast" in model.forecast_section({"log": {}, "cases": []})


@pytest.mark.parametrize(
    ("jobs", "workers", "seconds", "bottleneck"),
    [
        (1, 10, 1_000.001, "one pass in order"),
        (100, 1_000, 10.001, "100 jobs"),
        (100, 10, 100.01, "processors"),
        (100, 30, 40.004, "processors"),
        (10**6, 1_000, 1_000.0, "distributing jobs"),
    ],
)
def test_bottlenecks_of_the_model(jobs: int, workers: int, seconds: float, bottleneck: str) -> None:
    result = model.forecast(model.Costs(event=1e-6, job=1e-3, width=32.0), 10**9, jobs, workers)
    assert result.seconds == pytest.approx(seconds)
    assert (result.bottleneck, result.busy) == (bottleneck, min(jobs, workers))


def test_the_manual_agrees_with_the_record(tmp_path: Path) -> None:
    manual = (ROOT / model.MANUAL).read_text()
    assert manual == model.replace_section(manual, model.manual_section(ROOT / model.RECORD))
    path = tmp_path / "scale.json"
    assert "Nothing is recorded yet" in model.manual_section(path)
    path.write_text(json.dumps({**synthetic_record(), "date": "2026-01-02", "machine": "a machine"}))
    assert "on 2026-01-02, 1,000,000 events; a machine.\n\nConstants: " in model.manual_section(path)


def test_leaks_are_detected() -> None:
    assert Soak(200, sample(400), sample(419)).leaks == []
    assert Soak(200, sample(400), sample(421)).leaks == ["memory grew by 5.2%, from 400 MB"]
    assert Soak(200, sample(400), sample(400, threads=6)).leaks == ["threads grew from 5 to 6"]
    assert median_sample([sample(1), sample(5), sample(2)]) == sample(2)


def test_two_hundred_runs_in_a_row_leak_nothing() -> None:
    command = [sys.executable, "-m", "bench.scale.soak", "--runs", "200", "--events", "500"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert json.loads(completed.stdout)["runs"] == 200
