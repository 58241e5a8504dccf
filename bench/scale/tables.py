"""Measurements of scale as Markdown tables and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common.charts import bar_chart, save_chart
from bench.common.markdown import markdown_table
from bench.scale.paired import Pairs
from bench.scale.soak import ALLOWED_GROWTH, Soak
from bench.scale.worker_process import ENGINES, Case, Measurement
from bench.scale.workloads import WORKLOADS, Workload

MOST_MEGABYTES = 1_500.0
WORKERS = (1, 2)

Results = Mapping[Case, Measurement | str]


def list_cases() -> list[Case]:
    """Return every workload on one local job; parallel ones also on two, and on clusters of one and two workers."""
    return [
        Case(workload.name, engine, workers)
        for workload in WORKLOADS.values()
        for engine in (ENGINES if workload.parallel else ("local",))
        for workers in (WORKERS if workload.parallel else (1,))
    ]


def shared_workloads() -> list[Workload]:
    """Return the workloads whose speed-up is measured."""
    return [workload for workload in WORKLOADS.values() if workload.parallel and workload.name != "empty-jobs"]


def passes_table(results: Results) -> str:
    """Return events per second and peak memory of one job."""
    rows = []
    for workload in WORKLOADS.values():
        if not workload.streamed:
            continue
        run = results[Case(workload.name)]
        if isinstance(run, str):
            rows.append([workload.description, "", "", f"left out: {run}", "", "", "", ""])
            continue
        numbers = [f"{run.events:,}", f"{run.seconds:.1f}", f"{run.rate:,.0f}", f"{run.cores:.1f}"]
        memory = [f"{run.largest:,.0f} MB", f"below {MOST_MEGABYTES:,.0f} MB"]
        rows.append([workload.description, *numbers, *memory, "yes" if run.largest < MOST_MEGABYTES else "no"])
    head = ["workload", "events", "seconds", "events/s", "cores busy", "peak memory", "goal", "reached"]
    return markdown_table(head, rows)


def speed_ups_table(results: Results, pairs: Sequence[Pairs] = ()) -> str:
    """Return the speed-up of two workers over one, local and on Dask; the median of pairs of runs if there are any."""
    pairs_by_case = {(p.work, p.engine): p for p in pairs}
    rows = [
        _speed_up_row(workload, engine, results, pairs_by_case.get((workload.name, engine)))
        for workload in shared_workloads()
        for engine in ENGINES
    ]
    head = ["workload", "engine", "1 worker", "2 workers", "speed-up", "of pairs", "independent", "cores busy"]
    return markdown_table([*head, "same value", "goal", "reached"], rows, text_columns=2)


def _speed_up_row(workload: Workload, engine: str, results: Results, pairs: Pairs | None) -> list[str]:
    one, two = (results[Case(workload.name, engine, n)] for n in WORKERS)
    if isinstance(one, str) or isinstance(two, str):
        failure = one if isinstance(one, str) else two
        return [workload.description, engine, f"left out: {failure}", *[""] * 8]
    speed_up, spread = one.seconds / two.seconds, ["", ""]
    if pairs is not None:
        speed_up = pairs.speed_up
        ceiling = "" if pairs.ceiling is None else f"{pairs.ceiling:.2f}×"
        spread = [f"{len(pairs.ratios)}: {min(pairs.ratios):.2f} to {max(pairs.ratios):.2f}", ceiling]
    goal = workload.goal
    verdict = ["", ""] if goal is None else [f"{goal:g}×", "yes" if speed_up >= goal else "no"]
    times = [f"{one.seconds:.1f} s", f"{two.seconds:.1f} s", f"{speed_up:.2f}×", *spread]
    same = "yes" if have_same_value(workload, results) else "no"
    return [workload.description, engine, *times, f"{one.cores:.1f}, {two.cores:.1f}", same, *verdict]


def have_same_value(workload: Workload, results: Results) -> bool:
    """Return whether all runs of a workload gave the same value, to the bit."""
    runs = [run for run in results.values() if isinstance(run, Measurement) and run.work == workload.name]
    return len({run.value for run in runs}) == 1


def job_costs_table(results: Results) -> str:
    """Return the time to distribute a job, and to start the workers."""
    rows = []
    for case in (Case("empty-jobs", engine, workers) for engine in ENGINES for workers in WORKERS):
        run = results[case]
        if isinstance(run, str):
            costs = [f"left out: {run}", ""]
        else:
            costs = [f"{1e3 * run.seconds / run.events:.2f} ms", f"{run.first_seconds:.1f} s"]
        rows.append([case.engine, f"{case.workers}", *costs])
    return markdown_table(["engine", "workers", "per job", "first jobs, with the start of workers"], rows)


def soak_section(soak: Soak) -> str:
    """Return whether anything grew in many runs."""
    rows = [
        [name, f"{before:,.0f}", f"{after:,.0f}"]
        for name, before, after in (
            ("resident memory, MB", soak.begin.megabytes, soak.end.megabytes),
            ("threads", soak.begin.threads, soak.end.threads),
            ("open files", soak.begin.files, soak.end.files),
            ("files mapped for workers", soak.begin.mapped, soak.end.mapped),
        )
    ]
    verdict = "; ".join(soak.leaks) or "nothing grew"
    sentence = f"{soak.runs} runs in a row: {verdict} (memory {soak.growth:+.1%}; goal: within {ALLOWED_GROWTH:.0%})."
    return markdown_table(["after a run", "at the beginning", "at the end"], rows) + f"\n\n{sentence}"


def chart_rows(results: Results) -> list[dict[str, Any]]:
    """Return the seconds of every shared workload, by engine and number of workers."""
    names = {workload.name: workload.description for workload in shared_workloads()}
    return [
        {"workload": names[run.work], "engine": f"{run.engine}, {run.workers}", "seconds": run.seconds}
        for run in results.values()
        if isinstance(run, Measurement) and run.work in names
    ]


def save_workers_chart(results: Results, folder: Path) -> list[Path]:
    """Save the seconds by workload, engine and workers as SVG and PNG."""
    chart = bar_chart(chart_rows(results), "seconds", "engine", "workload")
    return save_chart(chart, folder / "scale-workers", (".svg", ".png"))
