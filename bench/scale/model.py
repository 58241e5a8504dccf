"""What longer logs and more workers would take, from measured constants: ``python -m bench.scale.model`` fills it in.

Work on n events is cut into m pieces. A worker of one core needs c seconds an event and d seconds to be handed a piece;
w workers do ``ceil(m / w)`` rounds of pieces, and one scheduler hands out all of them:

    time = max(ceil(m / w) (n c / m + d), m d)

A pass in log order is one piece, whoever waits.
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
from bench.speed.report import table

RECORDED = Path("bench/results/scale.json")
MANUAL = Path("docs/scale.md")
COMMAND = "`make bench-scale`"
BEGIN, END = "<!-- model -->", "<!-- end of model -->"
EVENTS = (10**9, 10**11)
WORKERS = (10, 100, 1_000)
STRETCHES = 200  # of DR-ns: pieces of the log, each with histories of its own


@dataclass(frozen=True)
class Costs:
    """Measured constants: seconds of a core for an event, seconds for a piece, bytes of an event on disk."""

    event: float
    file_slice: float
    width: float


@dataclass(frozen=True)
class Forecast:
    """What a run would take, how many workers are busy, what they read together a second, and what holds them up."""

    seconds: float
    busy: int
    bandwidth: float
    limit: str


def forecast(costs: Costs, events: float, slices: int, workers: int) -> Forecast:
    """The model.

    >>> forecast(Costs(event=2.0**-20, file_slice=2.0**-8, width=32.0), events=2.0**30, slices=64, workers=16).seconds
    64.015625

    By hand: four rounds of 2^24 events, 16 s each and 1/256 s to be handed out.
    """
    rounds = math.ceil(slices / workers)
    working = rounds * (events / slices * costs.event + costs.file_slice)
    handing = slices * costs.file_slice
    seconds = max(working, handing)
    busy = min(workers, slices)
    return Forecast(seconds, busy, events * costs.width / seconds, _limit(working, handing, slices, workers))


def _limit(working: float, handing: float, slices: int, workers: int) -> str:
    if handing > working:
        return "handing out pieces"
    if slices < workers:
        return "one pass in order" if slices == 1 else f"{slices:,} pieces"
    return "processors"


def costs_of(recorded: Mapping[str, Any], work: str) -> Costs | None:
    """Constants from a recorded run: of one job here, and of Dask handing out pieces; None where not measured."""
    found, slices = _case(recorded, work, "local", 1), _case(recorded, "pieces", "dask", 2)
    if found is None or slices is None:
        return None
    log = recorded["log"]
    return Costs(found["cpu"] / found["events"], slices["seconds"] / slices["events"], log["bytes"] / log["events"])


def _case(recorded: Mapping[str, Any], work: str, engine: str, workers: int) -> dict[str, Any] | None:
    wanted = work, engine, workers
    return next((case for case in recorded["cases"] if (case["work"], case["engine"], case["workers"]) == wanted), None)


def _pools(events: int) -> int:
    return math.ceil(events / ClockReplay().pool)


class Asked(NamedTuple):
    """What is asked, whose measured constants it has, and into how many pieces so many events are cut.

    ``most`` are the events that are looked at, however long the log is.
    """

    words: str
    work: str
    slices: Callable[[int], int]
    most: int | None = None


QUESTIONS = (
    Asked("fixed policy, DR", "dr", number_of_shards),
    Asked("learning policy, DR-ns in log order", "dr-ns", lambda events: 1),
    Asked(f"learning policy, DR-ns with Segments({STRETCHES})", "dr-ns", lambda events: STRETCHES),
    Asked("learning policy, ClockReplay, all pools", "clock", _pools),
    Asked("learning policy, ClockReplay, 1,000 pools", "clock", _pools, most=1_000 * ClockReplay().pool),
)


def page(recorded: Mapping[str, Any]) -> str:
    """The constants, and a table of what they come to."""
    rows, known = [], []
    for asked in QUESTIONS:
        costs = costs_of(recorded, asked.work)
        if costs is None:
            continue
        known.append(f"{1e9 * costs.event:,.0f} ns an event for `{asked.work}`")
        common = f"{1e3 * costs.file_slice:.1f} ms a piece; {costs.width:.0f} bytes an event on disk"
        rows += [_row(asked, costs, events, workers) for events in EVENTS for workers in WORKERS]
    if not rows:
        return "Nothing to go by: none of the work could be measured."
    said = f"Constants: {'; '.join(dict.fromkeys(known))} (of one core); {common}."
    head = ["question", "events", "workers", "pieces", "time", "busy", "read together", "held up by"]
    return f"{said}\n\n{table(head, rows)}"


def _row(asked: Asked, costs: Costs, events: int, workers: int) -> list[str]:
    looked_at = min(events, asked.most or events)
    slices = asked.slices(looked_at)
    found = forecast(costs, looked_at, slices, workers)
    read = f"{found.bandwidth / 1e9:,.2f} GB/s"
    numbers = [f"10^{round(math.log10(events))}", f"{workers:,}", f"{slices:,}", spoken(found.seconds)]
    return [asked.words, *numbers, f"{found.busy:,}", read, found.limit]


def spoken(seconds: float) -> str:
    """A duration in the unit that fits.

    >>> spoken(12.4), spoken(600), spoken(9000), spoken(400_000)
    ('12 s', '10 min', '2.5 h', '4.6 days')
    """
    for size, unit in ((86_400, "days"), (3_600, "h")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def section(recorded: Path = RECORDED) -> str:
    """What the manual says: the forecast, and where its constants come from."""
    if not recorded.exists():
        return f"Nothing is recorded yet; {COMMAND} fills this in."
    found = json.loads(recorded.read_text())
    origin = f"From {COMMAND} on {found['date']}, {found['log']['events']:,} events; {found['machine']}."
    return f"{origin}\n\n{page(found)}"


def filled(text: str, section: str) -> str:
    """The text with the section between its marks.

    >>> filled(f"before {BEGIN} old {END} after", "new")
    'before <!-- model -->\\n\\nnew\\n\\n<!-- end of model --> after'
    """
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    assert mark
    return f"{before}{BEGIN}\n\n{section}\n\n{END}{after}"


def main() -> None:
    MANUAL.write_text(filled(MANUAL.read_text(), section()))
    print(section())


if __name__ == "__main__":
    main()
