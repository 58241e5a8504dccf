"""Which columns of a table play which part, by name and pattern."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from backcast.door import check_number_of_actions
from backcast.errors import ColumnError, OptionError
from backcast.sources.limits import MOST_FEATURES, check_whole

__all__ = ["Columns", "find_column", "find_columns"]

SHOWN = 20  # names listed in a message
SEARCHED = 5_000  # names searched for a near one: a hostile header must not cost minutes


@dataclass(frozen=True)
class Columns:
    """The user's words for the columns of a log.

    Parameters
    ----------
    context
        Names and glob patterns (``"f_*"``), in the order the features shall have. A pattern never picks up a
        column that has another part to play.
    action, reward, propensity
        Names of these columns.
    n_actions, action_labels
        The actions, where the log need not show all of them (see :class:`backcast.Log`).
    available
        Names or patterns of K columns of booleans in the order of the actions, or one list column that holds
        K booleans or the labels of the eligible actions.
    times
        Name of a column to keep for ordering and drift checks.
    reward_range
        Known bounds ``(low, high)`` of the reward.
    logging_probabilities
        Names or patterns of K columns in the order of the actions, or one list column of K numbers.
    hash_size
        Features that each text column is hashed into. 32 keeps the square of the number of features, which is
        what a linear learner pays for, small; m values then share a bucket in m(m-1)/64 pairs on average (one
        pair at m = 8), so raise it for columns of many values.

    Examples
    --------
    >>> Columns(context=["hour", "f_*"], action="shown", reward="click", propensity="p").hash_size
    32
    """

    context: Sequence[str] | str
    action: str
    reward: str
    propensity: str | float | None
    n_actions: int | None = None
    action_labels: Sequence[Any] | None = None
    available: Sequence[str] | str | None = None
    times: str | None = None
    reward_range: tuple[float, float] | None = None
    logging_probabilities: Sequence[str] | str | None = None
    hash_size: int = 32

    def __post_init__(self) -> None:
        check_whole("hash_size", self.hash_size, MOST_FEATURES)
        if isinstance(self.n_actions, int):
            check_number_of_actions(self.n_actions)
        for part in ("action", "reward"):
            if not isinstance(getattr(self, part), str):
                raise OptionError(f"{part} is {getattr(self, part)!r}; it must be the name of a column")
        if isinstance(self.propensity, int | float) and not 0 < self.propensity <= 1:
            raise OptionError(f"propensity is {self.propensity!r}; a constant one must lie in (0, 1]")
        if not isinstance(self.propensity, str | int | float | None):
            raise OptionError(f"propensity is {self.propensity!r}; give the name of a column, a number, or None")


def find_column(name: str, part: str, names: Sequence[str]) -> str:
    """The column of exactly this name, or an error that suggests a near one.

    >>> find_column("clik", "reward", ["hour", "click"])
    Traceback (most recent call last):
    backcast.errors.ColumnError: there is no column 'clik' (given as reward); did you mean 'click'? Columns: hour, click
    """
    return _one(name, part, Counter(names))


def _one(name: str, part: str, counts: Counter[str]) -> str:
    if counts[name] > 1:
        raise ColumnError(f"column {name!r} (given as {part}) appears {counts[name]} times; rename all but one")
    if not counts[name]:
        names = list(counts)
        raise ColumnError(
            f"there is no column {name!r} (given as {part}){_near(name, names)} Columns: {_listed(names)}"
        )
    return name


def find_columns(
    wanted: Sequence[str] | str | None, part: str, names: Sequence[str], taken: Iterable[str] = ()
) -> tuple[str, ...]:
    """The columns of these names and patterns, in order, none twice; patterns leave the taken ones alone.

    >>> find_columns(["b", "*"], "context", ["a", "b", "click"], taken=["click"])
    ('b', 'a')
    """
    patterns = (wanted,) if isinstance(wanted, str) else tuple(wanted or ())
    counts, shut = Counter(names), set(taken)
    found: dict[str, None] = {}
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ColumnError(f"{part} holds {pattern!r}; columns are given by name")
        found.update(dict.fromkeys(_matches(pattern, part, counts, shut)))
    return tuple(found)


def _matches(pattern: str, part: str, counts: Counter[str], taken: set[str]) -> list[str]:
    if pattern in counts or not any(sign in pattern for sign in "*?["):
        return [_one(pattern, part, counts)]
    found = [_one(name, part, counts) for name in counts if fnmatchcase(name, pattern) and name not in taken]
    if not found:
        names = _listed(list(counts))
        raise ColumnError(f"no column matches the pattern {pattern!r} (given as {part}). Columns: {names}")
    return found


def _near(name: str, names: Sequence[str]) -> str:
    folded = {other.casefold(): other for other in names[:SEARCHED]}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else "."


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f", and {more} more" if more > 0 else "")
