"""Resumable work: every finished piece is a line of JSON, and a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backcast.errors import OptionError

__all__ = ["Journal", "Plan", "Watch", "work_through"]

Watch = Callable[[Iterable[Any], str, int], Iterable[Any]]


def _unwatched(pieces: Iterable[Any], name: str, total: int) -> Iterable[Any]:
    return pieces


@dataclass(frozen=True)
class Plan:
    """What the user asked for.

    Parameters
    ----------
    data
        Folder of the data sets, or None.
    out
        Folder of the results.
    trials
        Trials of each experiment; None for the paper's number.
    jobs
        Trials at once.
    world
        Data set of Tables 1 and 2.
    simulations
        Live runs that give the truth.
    seed
        Same seed, same tables.
    watch
        Wraps what is waited for, to show progress.
    """

    data: Path | None
    out: Path
    trials: int | None = None
    jobs: int = 1
    world: str = "rcv1"
    simulations: int = 2000
    seed: int = 0
    watch: Watch = field(default=_unwatched)

    def journal(self, name: str, settings: dict[str, Any]) -> Journal:
        """The journal of one part of an experiment, made under these settings."""
        return Journal(self.out / "journals" / f"{name}.jsonl", {"seed": self.seed, **settings})


@dataclass(frozen=True)
class Journal:
    """A file of JSON lines: the settings first, then one line for each piece of work that is done."""

    path: Path
    settings: dict[str, Any]

    def read(self) -> dict[int, Any]:
        """Finished pieces by number; a line that was cut off in mid-write does not count."""
        if not self.path.exists():
            return {}
        lines = [_parsed(line) for line in self.path.read_text().splitlines()]
        found = [line for line in lines if line is not None]
        if found and found[0].get("settings") != self.settings:
            raise OptionError(
                f"{self.path.name} in the output folder was made with {found[0].get('settings')}, now the settings are "
                f"{self.settings}; choose another folder with --out"
            )
        return {line["number"]: line["result"] for line in found[1:]}

    def add(self, number: int, result: Any) -> None:
        """Write down one finished piece."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        with self.path.open("a") as file:
            if is_new:
                file.write(json.dumps({"settings": self.settings}) + "\n")
            elif not self._ends_whole():
                file.write("\n")
            file.write(json.dumps({"number": number, "result": result}) + "\n")

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read() == b"\n"


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        parsed: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return parsed


def work_through(plan: Plan, journal: Journal, count: int, piece: Callable[..., Any], *shared: Any) -> list[Any]:
    """Results of ``piece(*shared, number)`` for each number below ``count``; only those not in the journal are done."""
    from joblib import Parallel, delayed

    done = journal.read()
    missing = [number for number in range(count) if number not in done]
    calls = (delayed(_numbered)(piece, shared, number) for number in missing)
    results = Parallel(n_jobs=plan.jobs, return_as="generator_unordered")(calls) if missing else ()
    for number, result in plan.watch(results, journal.path.stem, len(missing)):
        journal.add(number, result)
        done[number] = result
    return [done[number] for number in range(count)]


def _numbered(piece: Callable[..., Any], shared: tuple[Any, ...], number: int) -> tuple[int, Any]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return number, piece(*shared, number)
