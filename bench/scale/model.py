"""Forecasts for longer logs and more workers from measured constants: ``python -m bench.scale.model``.

n events are divided into m jobs. A worker of one core needs c seconds per event and d seconds to receive a job;
w workers need ``ceil(m / w)`` rounds, and one scheduler distributes all jobs:

    time = max(ceil(m / w) (n c / m + d), m d)

A pass in log order is one job. The forecast is written into docs/performance.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from backcast.evaluators._weighted_events import number_of_shards
from backcast.evaluators.clock_replay import ClockReplay
from bench.common.markdown import markdown_table

RECORD = Path("bench/results/scale.json")
MANUAL = Path("docs/performance.md")
COMMAND = "`make bench-scale`"
BEGIN, END = "<!-- model -->", "<!-- end of model -->"
EVENTS = (10**9, 10**11)
WORKERS = (10, 100, 1_000)
SEGMENTS = 200  # of DR-ns


@dataclass(frozen=True)
class Costs:
    """Measured constants: processor seconds per event, seconds per job, bytes per event on disk."""

    event: float
    job: float
    width: float


@dataclass(frozen=True)
class Forecast:
    """Time of a run, number of busy workers, bytes per second that they read together, and the bottleneck."""

    seconds: float
    busy: int
    bandwidth: float
    bottleneck: str


class Scenario(NamedTuple):
    """An evaluation, the workload that measured its constants, and the number of jobs for so many events.

    ``most`` is the number of events that are used at most, however long the log is.
    """

    description: str
    work: str
    count_jobs: Callable[[int], int]
    most: int | None = None


def _count_pools(events: int) -> int:
    return math.ceil(events / ClockReplay().pool)


SCENARIOS = (
    Scenario("fixed policy, DR", "dr", number_of_shards),
    Scenario("learning policy, DR-ns in log order", "dr-ns", lambda events: 1),
    Scenario(f"learning policy, DR-ns with Segments({SEGMENTS})", "dr-ns", lambda events: SEGMENTS),
    Scenario("learning policy, ClockReplay, all pools", "clock", _count_pools),
    Scenario("learning policy, ClockReplay, 1,000 pools", "clock", _count_pools, most=1_000 * ClockReplay().pool),
)


def forecast(costs: Costs, events: float, jobs: int, workers: int) -> Forecast:
    """Return the forecast of the model.

    >>> forecast(Costs(event=2.0**-20, job=2.0**-8, width=32.0), events=2.0**30, jobs=64, workers=16).seconds
    64.015625

    By hand: four rounds of 2^24 events, 16 s each and 1/256 s to be distributed.
    """
    working = math.ceil(jobs / workers) * (events / jobs * costs.event + costs.job)
    distributing = jobs * costs.job
    seconds = max(working, distributing)
    if distributing > working:
        bottleneck = "distributing jobs"
    elif jobs < workers:
        bottleneck = "one pass in order" if jobs == 1 else f"{jobs:,} jobs"
    else:
        bottleneck = "processors"
    return Forecast(seconds, min(workers, jobs), events * costs.width / seconds, bottleneck)


def read_costs(record: Mapping[str, Any], work: str) -> Costs | None:
    """Return the constants of a recorded run: of one local job, and of Dask distributing jobs; None if not measured."""
    cases = {(case["work"], case["engine"], case["workers"]): case for case in record["cases"]}
    run, empty_jobs = cases.get((work, "local", 1)), cases.get(("empty-jobs", "dask", 2))
    if run is None or empty_jobs is None:
        return None
    log = record["log"]
    per_job = empty_jobs["seconds"] / empty_jobs["events"]
    return Costs(run["cpu"] / run["events"], per_job, log["bytes"] / log["events"])


def forecast_section(record: Mapping[str, Any]) -> str:
    """Return the constants and a table of forecasts."""
    rows, constants = [], []
    for scenario in SCENARIOS:
        costs = read_costs(record, scenario.work)
        if costs is None:
            continue
        constants.append(f"{1e9 * costs.event:,.0f} ns per event for `{scenario.work}`")
        common = f"{1e3 * costs.job:.1f} ms per job; {costs.width:.0f} bytes per event on disk"
        rows += [_forecast_row(scenario, costs, events, workers) for events in EVENTS for workers in WORKERS]
    if not rows:
        return "There is no forecast: none of the workloads could be measured."
    sentence = f"Constants: {'; '.join(dict.fromkeys(constants))} (of one core); {common}."
    head = ["evaluation", "events", "workers", "jobs", "time", "busy", "read together", "bottleneck"]
    return f"{sentence}\n\n{markdown_table(head, rows)}"


def _forecast_row(scenario: Scenario, costs: Costs, events: int, workers: int) -> list[str]:
    used = min(events, scenario.most or events)
    jobs = scenario.count_jobs(used)
    result = forecast(costs, used, jobs, workers)
    numbers = [f"10^{round(math.log10(events))}", f"{workers:,}", f"{jobs:,}", format_duration(result.seconds)]
    bandwidth = f"{result.bandwidth / 1e9:,.2f} GB/s"
    return [scenario.description, *numbers, f"{result.busy:,}", bandwidth, result.bottleneck]


def format_duration(seconds: float) -> str:
    """Return a duration in a suitable unit.

    >>> format_duration(12.4), format_duration(600), format_duration(9000), format_duration(400_000)
    ('12 s', '10 min', '2.5 h', '4.6 days')
    """
    for size, unit in ((86_400, "days"), (3_600, "h")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def manual_section(path: Path = RECORD) -> str:
    """Return the section of the manual: the forecast, and where its constants come from."""
    if not path.exists():
        return f"Nothing is recorded yet; {COMMAND} writes this section."
    record = json.loads(path.read_text())
    origin = f"From {COMMAND} on {record['date']}, {record['log']['events']:,} events; {record['machine']}."
    return f"{origin}\n\n{forecast_section(record)}"


def replace_section(text: str, section: str) -> str:
    """Return the text with the section between its marks.

    >>> replace_section(f"before {BEGIN} old {END} after", "new")
    'before <!-- model -->\\n\\nnew\\n\\n<!-- end of model --> after'
    """
    before, _, tail = text.partition(BEGIN)
    _, mark, after = tail.partition(END)
    assert mark
    return f"{before}{BEGIN}\n\n{section}\n\n{END}{after}"


def main() -> None:
    MANUAL.write_text(replace_section(MANUAL.read_text(), manual_section()))
    print(manual_section())


if __name__ == "__main__":
    main()
