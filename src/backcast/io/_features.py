"""Encoders: how each context column becomes features, decided once from the schema and the first rows of a log.

Every part of a stream, and the same log in memory, is encoded alike: what depends on the data (categories, means,
lengths of lists) comes from the first ``HEAD_ROWS`` rows, never from later ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from backcast._arrays import IntArray
from backcast._log_validation import RowError
from backcast.errors import ColumnError, OptionError
from backcast.io._arrow import (
    check_no_nulls,
    find_date_format,
    find_distinct,
    flatten_lists,
    hash_column,
    kind_of,
    parse_dates,
    to_numbers,
    to_numbers_or_nan,
)
from backcast.io._column_names import find_column, find_columns

if TYPE_CHECKING:
    from backcast.io._columns import ColumnSpec

HEAD_ROWS = 65_536  # rows from which categories, means and lengths of lists are taken
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FILL_HELP = "give 'mean', 'zero', a number, or one of these for each column: {'age': 'mean'}"

FillValue: TypeAlias = "str | float"


class Entry(NamedTuple):
    """One number of each row: the feature that it belongs to, the same for all rows or one for each, and its value."""

    feature: int | IntArray
    values: Any


class Encoder(Protocol):
    """How one context column becomes ``width`` features, of which at most ``n_entries`` are not zero in a row."""

    @property
    def name(self) -> str: ...

    @property
    def width(self) -> int: ...

    @property
    def n_entries(self) -> int: ...

    def feature_names(self) -> list[str]: ...

    def encode(self, column: pa.Array) -> list[Entry]: ...


@dataclass(frozen=True)
class NumberEncoder:
    """A number or boolean as one feature; missing values as ``fill``, with a second feature that marks them.

    >>> encoder = NumberEncoder("age", fill=40.0)
    >>> [entry.values.tolist() for entry in encoder.encode(pa.array([30, None]))], encoder.feature_names()
    ([[30.0, 40.0], [False, True]], ['age', 'age is missing'])
    """

    name: str
    fill: float | None = None

    @property
    def width(self) -> int:
        return 1 if self.fill is None else 2

    @property
    def n_entries(self) -> int:
        return self.width

    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"][: self.width]

    def encode(self, column: pa.Array) -> list[Entry]:
        if self.fill is None:
            return [Entry(0, to_numbers(column, self.name, "context"))]
        numbers = to_numbers_or_nan(column, self.name, "context")
        is_missing = np.isnan(numbers)
        numbers[is_missing] = self.fill
        return [Entry(0, numbers), Entry(1, is_missing)]


@dataclass(frozen=True)
class ListEncoder:
    """Lists of ``length`` numbers as so many features; missing entries as with :class:`NumberEncoder`."""

    name: str
    length: int
    fill: float | None = None

    @property
    def width(self) -> int:
        return self.length + (self.fill is not None)

    @property
    def n_entries(self) -> int:
        return self.width

    def feature_names(self) -> list[str]:
        names = [f"{self.name}[{i}]" for i in range(self.length)]
        return names if self.fill is None else [*names, f"{self.name} is missing"]

    def encode(self, column: pa.Array) -> list[Entry]:
        if self.fill is None:
            check_no_nulls(column, self.name, "context")
        is_valid = column.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_valid)
        entries, lengths = flatten_lists(column.filter(is_valid), self.name, "context")
        wrong = np.flatnonzero(lengths != self.length)
        if wrong.size:
            raise RowError(
                int(rows[wrong[0]]),
                f"context column {self.name!r} is a list of {lengths[wrong[0]]} numbers, and of {self.length} in the "
                "first row; all lists of a column must have one length",
            )
        convert = to_numbers if self.fill is None else to_numbers_or_nan
        values = np.full((is_valid.size, self.length), np.nan)
        try:
            values[rows] = convert(entries, self.name, "context").reshape(rows.size, self.length)
        except RowError as error:
            raise RowError(int(rows[error.row // self.length]), error.problem) from None
        if self.fill is None:
            return [Entry(i, values[:, i]) for i in range(self.length)]
        is_missing = np.isnan(values)
        values[is_missing] = self.fill
        return [*(Entry(i, values[:, i]) for i in range(self.length)), Entry(self.length, is_missing.any(axis=1))]


@dataclass(frozen=True)
class TimeEncoder:
    """A timestamp as its hour on a circle (sine and cosine, so that 23:59 is near 0:00) and its weekday (one of seven).

    A date has no hour. Missing times have only zeros and, if they are filled, a feature that marks them.
    """

    name: str
    has_hour: bool
    marks_missing: bool = False
    date_format: str | None = None

    @property
    def width(self) -> int:
        return 2 * self.has_hour + len(WEEKDAYS) + self.marks_missing

    @property
    def n_entries(self) -> int:
        return 2 * self.has_hour + 1 + self.marks_missing

    def feature_names(self) -> list[str]:
        hour = [f"{self.name} hour (sine)", f"{self.name} hour (cosine)"] if self.has_hour else []
        weekdays = [f"{self.name} is a {weekday}" for weekday in WEEKDAYS]
        return [*hour, *weekdays, *([f"{self.name} is missing"] if self.marks_missing else [])]

    def encode(self, column: pa.Array) -> list[Entry]:
        if self.date_format is not None:
            column = parse_dates(column, self.name, self.date_format)
        if not self.marks_missing:
            check_no_nulls(column, self.name, "context")
        is_missing = column.is_null().to_numpy(zero_copy_only=False)
        weekday = pc.day_of_week(column).fill_null(0).to_numpy(zero_copy_only=False)
        entries = [Entry(2 * self.has_hour + weekday, 1.0 - is_missing)]
        if self.has_hour:
            minutes = pc.add(pc.multiply(pc.hour(column), 60), pc.minute(column)).fill_null(0)
            angle = minutes.to_numpy(zero_copy_only=False) * (math.tau / (24 * 60))
            entries = [
                Entry(0, np.where(is_missing, 0.0, np.sin(angle))),
                Entry(1, np.where(is_missing, 0.0, np.cos(angle))),
                *entries,
            ]
        return [*entries, Entry(self.width - 1, is_missing)] if self.marks_missing else entries


@dataclass(frozen=True)
class CategoryEncoder:
    """Text of few values as one feature per value; another value has none of them.

    A missing value is None among the categories, or the text ``fill``; without either it is refused.

    >>> encoder = CategoryEncoder("device", ("desk", "phone"))
    >>> encoder.encode(pa.array(["phone", "watch"])), encoder.feature_names()
    ([Entry(feature=array([1, 0]), values=array([1., 0.]))], ['device=desk', 'device=phone'])
    """

    name: str
    categories: tuple[str | None, ...]
    is_filled: bool = False
    fill: str | None = None

    @property
    def width(self) -> int:
        return len(self.categories)

    @property
    def n_entries(self) -> int:
        return 1

    def feature_names(self) -> list[str]:
        return [f"{self.name} is missing" if c is None else f"{self.name}={c}" for c in self.categories]

    def encode(self, column: pa.Array) -> list[Entry]:
        if not self.is_filled:
            check_no_nulls(column, self.name, "context")
        values, indices = find_distinct(column)
        codes = [self._code_of.get(self.fill if value is None else str(value), -1) for value in values]
        code = np.array(codes, dtype=np.int64)[indices]
        return [Entry(np.maximum(code, 0), (code >= 0).astype(np.float64))]

    @cached_property
    def _code_of(self) -> dict[str | None, int]:
        return {category: code for code, category in enumerate(self.categories)}


@dataclass(frozen=True)
class HashEncoder:
    """Text of many values, hashed into ``size`` features; a missing value as such, or as the text ``fill``."""

    name: str
    size: int
    is_filled: bool = False
    fill: str | None = None

    @property
    def width(self) -> int:
        return self.size

    @property
    def n_entries(self) -> int:
        return 1

    def feature_names(self) -> list[str]:
        return [f"{self.name} (hash {i})" for i in range(self.size)]

    def encode(self, column: pa.Array) -> list[Entry]:
        if not self.is_filled:
            check_no_nulls(column, self.name, "context")
        return [Entry(hash_column(column, self.name, self.size, self.fill), 1.0)]


def make_encoders(
    columns: ColumnSpec, context: Sequence[str], schema: pa.Schema, read_head: Callable[[list[str]], pa.Table]
) -> tuple[Encoder, ...]:
    """Return the encoder of each context column; ``read_head`` is called only if an encoder depends on the data."""
    fill_of: dict[str, FillValue] = {}
    if isinstance(columns.fill, Mapping):
        for pattern, value in columns.fill.items():
            fill_of |= dict.fromkeys(find_columns(pattern, "fill", context), value)
    elif columns.fill is not None:
        fill_of = dict.fromkeys(context, columns.fill)
    declared = columns.one_hot if isinstance(columns.one_hot, Mapping) else {}
    for name in declared:
        find_column(name, "one_hot", context)
    types = {name: schema.field(name).type for name in context}
    from_head = [
        name
        for name, type_ in types.items()
        if name in fill_of
        or (kind_of(type_) == "text" and name not in declared and columns.one_hot is not False)
        or (kind_of(type_) == "list" and not kinds.is_fixed_size_list(type_))
    ]
    head = read_head(from_head) if from_head else None
    encoders: list[Encoder] = []
    for name, type_ in types.items():
        rows = None if head is None or name not in from_head else head.column(name).combine_chunks()
        fill = _Fill(name, fill_of.get(name), always=isinstance(columns.fill, Mapping))
        kind = kind_of(type_)
        if kind in ("number", "empty"):
            encoders.append(NumberEncoder(name, fill.number(rows)))
        elif kind == "list":
            encoders.append(_make_list_encoder(name, type_, rows, fill))
        elif kind == "time":
            encoders.append(TimeEncoder(name, kinds.is_timestamp(type_), fill.marks_missing(rows)))
        elif kind == "text":
            encoders.append(_make_text_encoder(name, rows, fill, declared.get(name), columns))
        else:
            raise ColumnError(
                f"context column {name!r} has type {type_}; contexts are numbers, booleans, text, timestamps or lists "
                "of numbers. Turn it into such columns first"
            )
    return tuple(encoders)


@dataclass(frozen=True)
class _Fill:
    """What missing values of a column are filled with.

    A column that is named in ``fill`` is always filled. If one value is given for all columns, those with missing
    values in the first rows are filled: a feature that marks them in every column would double the features.
    """

    name: str
    value: FillValue | None
    always: bool

    def number(self, head: pa.Array | None) -> float | None:
        """Return the number for missing values; None if they are refused."""
        if self.value is None or head is None:
            return None
        numbers = to_numbers_or_nan(head, self.name, "context")
        if not self.always and not np.isnan(numbers).any():
            return None
        if self.value == "zero":
            return 0.0
        if self.value == "mean":
            present = numbers[np.isfinite(numbers)]
            if not present.size:
                raise ColumnError(
                    f"column {self.name!r} has no number in the first {len(head):,} rows, so it has no mean to fill "
                    "missing values with; give a number, or leave the column out"
                )
            return float(present.mean())
        if isinstance(self.value, str):
            raise OptionError(f"fill of {self.name!r} is {self.value!r}, but the column holds numbers; {FILL_HELP}")
        return float(self.value)

    def marks_missing(self, head: pa.Array | None) -> bool:
        """Return whether missing values are accepted and marked by a feature."""
        return self.value is not None and (self.always or (head is not None and head.null_count > 0))

    @property
    def text(self) -> str | None:
        """The text for missing values; None if they are a category of their own."""
        return None if self.value in ("mean", "zero") or not isinstance(self.value, str) else self.value


def _make_list_encoder(name: str, type_: pa.DataType, head: pa.Array | None, fill: _Fill) -> ListEncoder:
    if kind_of(type_.value_type) not in ("number", "empty"):
        raise ColumnError(f"context column {name!r} has type {type_}; lists of a context must hold numbers")
    lists = None if head is None else head.drop_null()
    if kinds.is_fixed_size_list(type_):
        length = int(type_.list_size)
    else:
        length = len(lists[0]) if lists is not None and len(lists) else 0
    if length == 0:
        raise ColumnError(f"context column {name!r} has empty lists, or none, in its first rows; leave it out")
    number = None
    if lists is not None:
        has_missing = head is not None and head.null_count > 0
        number = replace(fill, always=fill.always or has_missing).number(lists.flatten())
    return ListEncoder(name, length, number)


def _make_text_encoder(
    name: str, head: pa.Array | None, fill: _Fill, declared: Sequence[Any] | None, columns: ColumnSpec
) -> Encoder:
    is_filled = fill.value is not None
    if declared is not None:
        categories: list[Any] = [*declared, *([None] if is_filled and fill.text is None else [])]
        if len(set(categories)) < len(categories):
            raise OptionError(f"one_hot repeats a category of {name!r}; each is given once")
        return CategoryEncoder(name, tuple(None if c is None else str(c) for c in categories), is_filled, fill.text)
    if head is not None and columns.one_hot is not False:
        # Not pc.unique: decoding a dictionary column may repeat a long text for every row.
        distinct, indices = find_distinct(head)
        values = [distinct[i] for i in np.unique(indices).tolist()]
        with suppress(ColumnError):  # a date that may be read in two ways is text like any other
            date_format = find_date_format([value for value in values if value is not None], name)
            if date_format is not None:
                return TimeEncoder(name, "%H" in date_format, fill.marks_missing(head), date_format)
        if len(values) <= columns.hash_size:
            texts: set[str | None] = {fill.text if value is None else str(value) for value in values}
            ordered = sorted(texts, key=lambda text: (text is None, text or ""))
            if is_filled or None not in texts:
                return CategoryEncoder(name, tuple(ordered), is_filled, fill.text)
            return CategoryEncoder(name, tuple(ordered[:-1]), is_filled, fill.text)
    return HashEncoder(name, columns.hash_size, is_filled, fill.text)
