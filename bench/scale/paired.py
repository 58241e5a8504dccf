"""One worker and two in turns, so that a slow minute hits both: one, two, two, one, and so on.

Each side is a process that has made itself ready and waits; the ratio is taken of runs that stand side by side. What
the machine itself can give is measured too: two processes that know nothing of each other, each at the whole question.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.scale.child import Case, Measured, ready


@dataclass(frozen=True)
class Pairs:
    """Runs side by side: seconds on one worker and on two; and on one while a stranger does the same work beside it."""

    work: str
    engine: str
    one: tuple[float, ...]
    two: tuple[float, ...]
    beside: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Speed-up of each pair.

        >>> Pairs("w", "local", one=(2.0, 3.0, 2.0), two=(1.0, 2.0, 1.25), beside=()).ratios
        [2.0, 1.5, 1.6]
        """
        return [one / two for one, two in zip(self.one, self.two, strict=True)]

    @property
    def gain(self) -> float:
        """The median of them."""
        return median(self.ratios)

    @property
    def ceiling(self) -> float | None:
        """What two processes that share nothing gain: twice the work, in the time it takes them beside each other.

        >>> Pairs("w", "local", one=(2.0,), two=(1.25,), beside=(2.5, 2.5)).ceiling
        1.6
        """
        return 2 * median(self.one) / median(self.beside) if self.beside else None


def paired(
    work: str, engine: str, folder: Path, rounds: int, tell: Callable[[str], None]
) -> tuple[Pairs, tuple[Measured, Measured]]:
    """Rounds of one, two, two, one; and the run of middle length of each."""
    one, two = Case(work, engine, 1), Case(work, engine, 2)
    alone: list[Measured] = []
    shared: list[Measured] = []
    beside: list[float] = []
    with ExitStack() as stack:
        single, double = (stack.enter_context(ready(case, folder)) for case in (one, two))
        # a cluster's processes know of each other, so strangers are tried on this machine alone
        strangers = [single, stack.enter_context(ready(one, folder))] if engine == "local" else []
        for turn in range(rounds):
            for child, found in ((single, alone), (double, shared), (double, shared), (single, alone)):
                found.append(child.run())
            for child in strangers:
                child.start()
            beside += [child.found().seconds for child in strangers]
            tell(f"{work}, {engine}: {_times(alone[-2:])} and {_times(shared[-2:])} s (round {turn + 1} of {rounds})")
    times = [tuple(run.seconds for run in runs) for runs in (alone, shared)]
    return Pairs(work, engine, times[0], times[1], tuple(beside)), (_middle(alone), _middle(shared))


def _times(runs: list[Measured]) -> str:
    return ", ".join(f"{one.seconds:.1f}" for one in runs)


def _middle(runs: list[Measured]) -> Measured:
    """A run of middle length, with all the values that were found where they are not one."""
    middle = sorted(runs, key=lambda one: one.seconds)[len(runs) // 2]
    odd = [one.value for one in runs if one.value != runs[0].value]
    return replace(middle, value=odd[0]) if odd else middle
