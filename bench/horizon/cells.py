"""The cells of the benchmark of long horizons: a world, a policy, a length of the log, rounds, and how many logs."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from bench.horizon.worlds import NAMES, POLICIES


class Setting(NamedTuple):
    """A world, the name of the policy, the length of the log, and the rounds."""

    world: str
    policy: str
    events: int
    rounds: int

    @property
    def stem(self) -> str:
        """A name for files."""
        return "-".join(map(str, ("horizon", *self))).replace(" ", "_")

    @property
    def label(self) -> str:
        """A name for sentences."""
        return f"{self.world}, {self.policy}, n = {self.events:,}, T = {self.rounds:,}"


def pair_policies(worlds: Sequence[str], policies: Sequence[str]) -> list[tuple[str, str]]:
    """Return every world with every policy, or without policies each world with one of them, alternating.

    A world keeps its policy whatever other worlds there are.

    >>> pair_policies(["soft", "bent"], [])
    [('soft', 'EpsilonGreedy(0.1)'), ('bent', 'LinUCB(0.5)')]
    """
    if policies:
        return list(product(worlds, policies))
    kinds = list(POLICIES)
    return [(world, kinds[NAMES.index(world) % len(kinds)]) for world in worlds]


def make_grid(
    pairs: Sequence[tuple[str, str]], events: Sequence[int], rounds: Sequence[int], logs: Sequence[int]
) -> dict[Setting, int]:
    """Return the logs of each setting, short horizons first; ``logs`` has one number, or one for each of the rounds.

    >>> make_grid([("soft", "LinUCB(0.5)")], [2000], [300, 1000], [4])
    {Setting(world='soft', policy='LinUCB(0.5)', events=2000, rounds=300): 4, \
Setting(world='soft', policy='LinUCB(0.5)', events=2000, rounds=1000): 4}
    """
    if len(logs) == 1:
        logs = list(logs) * len(rounds)
    if len(logs) != len(rounds):
        raise ValueError(f"--logs has {len(logs)} numbers; give one, or one for each of {len(rounds)} rounds")
    each = zip(rounds, logs, strict=True)
    return {Setting(*pair, n, horizon): count for (horizon, count), n, pair in product(each, events, pairs)}


def parse_cells(text: str) -> dict[Setting, int]:
    """Return the logs of each setting in "world:policy:n:T:logs;...".

    >>> parse_cells("soft:LinUCB(0.5):2000:300:4")
    {Setting(world='soft', policy='LinUCB(0.5)', events=2000, rounds=300): 4}
    """
    cells = {}
    for cell in filter(None, text.split(";")):
        fields = cell.split(":")
        is_known = len(fields) == 5 and fields[0] in NAMES and fields[1] in POLICIES
        if not is_known or not all(field.isdigit() for field in fields[2:]):
            raise ArgumentTypeError(
                f"{cell!r} is not a cell such as soft:LinUCB(0.5):10000:3000:20; worlds are {', '.join(NAMES)}, "
                f"policies {', '.join(POLICIES)}"
            )
        world, policy, *numbers = fields
        events, rounds, logs = map(int, numbers)
        cells[Setting(world, policy, events, rounds)] = logs
    return cells


def parse_numbers(text: str) -> list[int]:
    """Return whole numbers separated by commas.

    >>> parse_numbers("300,1000")
    [300, 1000]
    """
    return [int(number) for number in text.split(",")]


def parse_names(text: str, separator: str, known: Sequence[str]) -> list[str]:
    """Return the names in a text, which may be empty.

    >>> parse_names("soft,bent", ",", NAMES), parse_names("", ";", list(POLICIES))
    (['soft', 'bent'], [])
    """
    names = [name for name in text.split(separator) if name]
    if unknown := [name for name in names if name not in known]:
        raise ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return names
