"""Markdown tables and the numbers in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]], text_columns: int = 1) -> str:
    """Return a table whose first ``text_columns`` are aligned left and the others, numbers, right; None is empty.

    >>> print(markdown_table(["evaluator", "rmse"], [["RS", "0.5"], ["DM", None]]))
    | evaluator | rmse |
    |:---|---:|
    | RS | 0.5 |
    | DM |  |
    """
    ruler = "|".join([":---"] * text_columns + ["---:"] * (len(head) - text_columns))
    first, *others = (" | ".join("" if cell is None else str(cell) for cell in cells) for cells in (head, *rows))
    return "\n".join([f"| {first} |", f"|{ruler}|", *(f"| {line} |" for line in others)])


def format_number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many decimals, or nothing if there is none.

    >>> format_number(0.12345), format_number(1234.5, 0), format_number(float("nan"))
    ('0.1235', '1,234', '')
    """
    return "" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"
