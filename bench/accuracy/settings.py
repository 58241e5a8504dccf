"""Which policy is evaluated in which world, from how long a log, and for how many rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import backcast as bc
from bench.accuracy.worlds import LOGGERS, names

EVENTS = 3000
HORIZON = 45
# kinds of learners, each with its own way of exploring; one learns by the batch
POLICIES: dict[str, Any] = {
    "epsilon-greedy by 15": bc.EpsilonGreedy(0.1, batch_size=15),
    "LinUCB": bc.LinUCB(0.5),
    "softmax": bc.Softmax(0.1),
    "UCB1": bc.UCB1(),
}


class Setting(NamedTuple):
    """One cell of the benchmark."""

    world: str
    logging: str
    policy: str
    events: int = EVENTS
    horizon: int = HORIZON

    @property
    def stem(self) -> str:
        """A name for files."""
        return "-".join(map(str, self)).replace(" ", "_")


def settings(data: Path | None) -> list[Setting]:
    """Every world under every logger; policies take turns, so that each meets every logger."""
    kinds = list(POLICIES)
    return [
        Setting(world, logging, kinds[(i + j) % len(kinds)])
        for i, world in enumerate(names(data))
        for j, logging in enumerate(LOGGERS)
    ]
