"""Measurements into Markdown and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.scale.child import ENGINES, Case, Measured
from bench.scale.paired import Pairs
from bench.scale.soak import ALLOWED, Soaked
from bench.scale.works import WORKS, Work
from bench.speed.report import table

MOST_MEGABYTES = 1_500.0
WORKERS = (1, 2)

Results = Mapping[Case, Measured | str]


def cases() -> list[Case]:
    """Every work on one job here; those that others can help with on two, and on clusters of one and two as well."""
    found = []
    for work in WORKS.values():
        engines = ENGINES if work.parallel else ("local",)
        workers = WORKERS if work.parallel else (1,)
        found += [Case(work.name, engine, n) for engine in engines for n in workers]
    return found


def passes(results: Results) -> str:
    """Events a second and peak memory of one job."""
    rows = [_pass_row(work, results[Case(work.name)]) for work in WORKS.values() if work.streamed]
    head = ["work", "events", "seconds", "events/s", "cores busy", "peak memory", "asked", "reached"]
    return table(head, rows)


def _pass_row(work: Work, found: Measured | str) -> list[str]:
    if isinstance(found, str):
        return [work.words, "", "", f"left out: {found}", "", "", "", ""]
    reached = "yes" if found.largest < MOST_MEGABYTES else "no"
    numbers = [f"{found.events:,}", f"{found.seconds:.1f}", f"{found.rate:,.0f}", f"{found.cores:.1f}"]
    return [work.words, *numbers, f"{found.largest:,.0f} MB", f"below {MOST_MEGABYTES:,.0f} MB", reached]


def speed_ups(results: Results, pairs: Sequence[Pairs] = ()) -> str:
    """Two workers over one, here and on Dask; the median of pairs of runs where there are any."""
    found = {(one.work, one.engine): one for one in pairs}
    rows = [
        _speed_up_row(work, engine, results, found.get((work.name, engine)))
        for work in WORKS.values()
        if work.parallel and work.name != "pieces"
        for engine in ENGINES
    ]
    head = ["work", "engine", "1 worker", "2 workers", "speed-up", "of pairs", "of strangers", "cores busy"]
    return table([*head, "same answer", "asked", "reached"], rows)


def _speed_up_row(work: Work, engine: str, results: Results, pairs: Pairs | None) -> list[str]:
    one, two = (results[Case(work.name, engine, n)] for n in WORKERS)
    if isinstance(one, str) or isinstance(two, str):
        failure = one if isinstance(one, str) else two
        return [work.words, engine, f"left out: {failure}", *[""] * 8]
    gain = one.seconds / two.seconds if pairs is None else pairs.gain
    asked, reached = ("", "") if work.asked is None else (f"{work.asked:g}×", "yes" if gain >= work.asked else "no")
    same = "yes" if same_answer(work, results) else "no"
    times = [f"{one.seconds:.1f} s", f"{two.seconds:.1f} s", f"{gain:.2f}×", *_spread(pairs)]
    return [work.words, engine, *times, f"{one.cores:.1f}, {two.cores:.1f}", same, asked, reached]


def _spread(pairs: Pairs | None) -> list[str]:
    """The range of the pairs, and what two processes that know nothing of each other gain."""
    if pairs is None:
        return ["", ""]
    ceiling = "" if pairs.ceiling is None else f"{pairs.ceiling:.2f}×"
    return [f"{len(pairs.ratios)}: {min(pairs.ratios):.2f} to {max(pairs.ratios):.2f}", ceiling]


def same_answer(work: Work, results: Results) -> bool:
    """Whether everybody who did this work found the same, to the last bit."""
    mine = [found for case, found in results.items() if case.work == work.name]
    return len({found.value for found in mine if isinstance(found, Measured)}) == 1


def costs(results: Results) -> str:
    """What handing out a piece takes, and what waking the workers does."""
    rows = []
    for engine in ENGINES:
        for workers in WORKERS:
            found = results[Case("pieces", engine, workers)]
            if isinstance(found, str):
                rows.append([engine, f"{workers}", f"left out: {found}", ""])
            else:
                file_slice = 1e3 * found.seconds / found.events
                rows.append([engine, f"{workers}", f"{file_slice:.2f} ms", f"{found.first_seconds:.1f} s"])
    return table(["engine", "workers", "a piece", "the first pieces, workers waking"], rows)


def soaked(found: Soaked) -> str:
    """Whether anything grew in many runs."""
    rows = [
        [what, f"{before:,.0f}", f"{after:,.0f}"]
        for what, before, after in (
            ("resident memory, MB", found.begin.megabytes, found.end.megabytes),
            ("threads", found.begin.threads, found.end.threads),
            ("open files", found.begin.files, found.end.files),
            ("files mapped for workers", found.begin.mapped, found.end.mapped),
        )
    ]
    verdict = "; ".join(found.leaks) or "nothing grew"
    words = f"{found.runs} runs in a row: {verdict} (memory {found.growth:+.1%}; asked: within {ALLOWED:.0%})."
    return table(["after a run", "at the beginning", "at the end"], rows) + f"\n\n{words}"


def chart_rows(results: Results) -> list[dict[str, Any]]:
    """Seconds of every work that workers can share, by engine and number of workers."""
    return [
        {"work": WORKS[case.work].words, "who": f"{case.engine}, {case.workers}", "seconds": found.seconds}
        for case, found in results.items()
        if isinstance(found, Measured) and WORKS[case.work].parallel and case.work != "pieces"
    ]


def save_chart(results: Results, folder: Path) -> list[Path]:
    """Seconds by work and workers, as SVG and PNG."""
    import altair as alt

    chart = (
        alt.Chart(alt.Data(values=chart_rows(results)))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="seconds"),
            y=alt.Y("who:N", title=None),
            color=alt.Color("who:N", title="engine, workers", legend=None),
            row=alt.Row("work:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
        )
        .properties(width=420)
    )
    files = [folder / "scale-workers.svg", folder / "scale-workers.png"]
    for file in files:
        chart.save(str(file))
    return files
