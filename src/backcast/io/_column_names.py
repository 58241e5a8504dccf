"""Names and patterns of columns matched with the columns of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from backcast.errors import ColumnError, did_you_mean

LISTED_NAMES = 20  # names listed in a message


def find_column(name: str, role: str, names: Iterable[str]) -> str:
    """Return the name if exactly one column has it; the error suggests a similar one.

    >>> find_column("clik", "reward", ["hour", "click"])
    Traceback (most recent call last):
    backcast.errors.ColumnError: there is no column 'clik' (given as reward); did you mean 'click'? Columns: hour, click
    """
    counts = names if isinstance(names, Counter) else Counter(names)
    if counts[name] > 1:
        raise ColumnError(f"column {name!r} (given as {role}) appears {counts[name]} times; rename all but one")
    if not counts[name]:
        raise ColumnError(
            f"there is no column {name!r} (given as {role}){did_you_mean(name, counts)} Columns: {_list_names(counts)}"
        )
    return name


def find_columns(
    patterns: Sequence[str] | str | None, role: str, names: Sequence[str], assigned: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the columns of these names and patterns, in order, none twice; patterns skip assigned columns.

    >>> find_columns(["b", "*"], "context", ["a", "b", "click"], assigned=["click"])
    ('b', 'a')
    """
    counts, excluded = Counter(names), set(assigned)
    matched: list[str] = []
    for pattern in (patterns,) if isinstance(patterns, str) else patterns or ():
        if not isinstance(pattern, str):
            raise ColumnError(f"{role} holds {pattern!r}; columns are given by name")
        if pattern in counts or not any(character in pattern for character in "*?["):
            matched.append(find_column(pattern, role, counts))
            continue
        names_of_pattern = [name for name in counts if fnmatchcase(name, pattern) and name not in excluded]
        if not names_of_pattern:
            raise ColumnError(
                f"no column matches the pattern {pattern!r} (given as {role}). Columns: {_list_names(counts)}"
            )
        matched += [find_column(name, role, counts) for name in names_of_pattern]
    return tuple(dict.fromkeys(matched))


def _list_names(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - LISTED_NAMES
    return ", ".join(listed[:LISTED_NAMES]) + (f", and {more} more" if more > 0 else "")
