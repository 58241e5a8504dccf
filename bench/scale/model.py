"""What longer logs and more workers would take, from measured constants: ``python -m bench.scale.model``.

Work on n events is cut into m pieces. A worker of one core needs c seconds an event and d seconds to be handed a piece;
w workers do ``ceil(m / w)`` rounds of pieces, and one scheduler hands out all of them:

    time = max(ceil(m / w) (n c / m + d), m d)

A pass in log order is one piece, whoever waits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backcast.evaluators.stationary.weighing import SHARDS
from bench.speed.report import table

RECORDED = Path("bench/results/scale.json")
EVENTS = (10**9, 10**11)
WORKERS = (10, 100, 1_000)
SEGMENTS = 200  # of DR-ns: pieces of the log, each with histories of its own


@dataclass(frozen=True)
class Costs:
    """Measured constants: seconds of a core for an event, seconds for a piece, bytes of an event on disk."""

    event: float
    piece: float
    width: float


@dataclass(frozen=True)
class Forecast:
    """What a run would take, how many workers are busy, what they read together a second, and what holds them up."""

    seconds: float
    busy: int
    bandwidth: float
    limit: str


def forecast(costs: Costs, events: float, pieces: int, workers: int) -> Forecast:
    """The model.

    >>> forecast(Costs(event=2.0**-20, piece=2.0**-8, width=32.0), events=2.0**30, pieces=64, workers=16)
    Forecast(seconds=64.015625, busy=16, bandwidth=536739880..., limit='processors')

    By hand: four rounds of 2^24 events, 16 s each and 1/256 s to be handed out; 2^35 bytes in that time.
    """
    rounds = math.ceil(pieces / workers)
    working = rounds * (events / pieces * costs.event + costs.piece)
    handing = pieces * costs.piece
    seconds = max(working, handing)
    busy = min(workers, pieces)
    return Forecast(seconds, busy, events * costs.width / seconds, _limit(working, handing, pieces, workers))


def _limit(working: float, handing: float, pieces: int, workers: int) -> str:
    if handing > working:
        return "handing out pieces"
    if pieces < workers:
        return "one pass in order" if pieces == 1 else f"{pieces:,} pieces"
    return "processors"


def costs_of(recorded: Mapping[str, Any], work: str, engine: str = "local") -> Costs:
    """Constants from a recorded run: of one job here, with pieces handed out by Dask where it was measured."""
    found = _case(recorded, work, engine, 1)
    pieces = _case(recorded, "pieces", "dask", 2) or _case(recorded, "pieces", "local", 2)
    if found is None or pieces is None:
        raise KeyError(work)
    log = recorded["log"]
    return Costs(found["cpu"] / found["events"], pieces["seconds"] / pieces["events"], log["bytes"] / log["events"])


def _case(recorded: Mapping[str, Any], work: str, engine: str, workers: int) -> dict[str, Any] | None:
    wanted = work, engine, workers
    return next((case for case in recorded["cases"] if (case["work"], case["engine"], case["workers"]) == wanted), None)


# what is asked, whose measured constants it has, and into how many pieces it is cut
QUESTIONS = (
    ("fixed policy, DR", "dr", SHARDS),
    ("learning policy, DR-ns in log order", "dr-ns", 1),
    (f"learning policy, DR-ns in {SEGMENTS} segments", "dr-ns", SEGMENTS),
)


def page(recorded: Mapping[str, Any]) -> str:
    """The constants, and a table of what they come to."""
    rows, known = [], []
    for words, work, pieces in QUESTIONS:
        try:
            costs = costs_of(recorded, work)
        except KeyError:
            continue
        known.append(f"{1e9 * costs.event:.0f} ns an event ({words})")
        rows += [_row(words, costs, events, pieces, workers) for events in EVENTS for workers in WORKERS]
    piece, width = 1e3 * costs.piece, costs.width
    said = f"Constants: {'; '.join(dict.fromkeys(known))}; {piece:.1f} ms a piece; {width:.0f} bytes an event on disk."
    head = ["question", "events", "workers", "pieces", "time", "busy", "read together", "held up by"]
    return f"{said}\n\n{table(head, rows)}"


def _row(words: str, costs: Costs, events: int, pieces: int, workers: int) -> list[str]:
    found = forecast(costs, events, pieces, workers)
    length = f"10^{round(math.log10(events))}"
    read = f"{found.bandwidth / 1e9:,.2f} GB/s"
    return [words, length, f"{workers:,}", f"{pieces:,}", spoken(found.seconds), f"{found.busy:,}", read, found.limit]


def spoken(seconds: float) -> str:
    """A duration in the unit that fits.

    >>> spoken(12.4), spoken(600), spoken(9000), spoken(400_000)
    ('12 s', '10 min', '2.5 h', '4.6 days')
    """
    for size, unit in ((86_400, "days"), (3_600, "h")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def main() -> None:
    print(page(json.loads(RECORDED.read_text())))


if __name__ == "__main__":
    main()
