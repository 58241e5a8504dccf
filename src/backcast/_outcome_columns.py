"""Outcome and segment columns of a log: numbers that are read off a replay, and groups to break results down by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast._arrays import FloatArray, IntArray
from backcast._log_validation import RowError, check_length, check_rewards, to_float_column
from backcast.errors import LogError, OptionError

MISSING = "missing"  # the segment of events without a value
MOST_NUMBERS = 20  # different numbers of a segment column; more are a measurement, which must be cut into ranges first
MOST_LABELS = 1000  # different texts: nearly all of more would be pooled as too small


class SegmentColumn(NamedTuple):
    """Name of a segment column, and the labels of its codes."""

    name: str
    labels: tuple[str, ...]


class EncodedSegments(NamedTuple):
    """Codes ``(n, S)`` of S segment columns, and the columns; codes are None without any."""

    codes: IntArray | None
    columns: tuple[SegmentColumn, ...]


NO_SEGMENTS = EncodedSegments(None, ())


def to_outcomes(given: Mapping[str, Any] | None, n: int) -> tuple[tuple[str, ...], FloatArray | None]:
    """Return names and ``(n, J)`` values of further outcomes, checked as rewards are; None without any.

    >>> to_outcomes({"clicks": [1, 0], "ms": [20, 30]}, 2)
    (('clicks', 'ms'), array([[ 1., 20.],
           [ 0., 30.]]))
    """
    if given is None:
        return (), None
    if not isinstance(given, Mapping):
        raise OptionError(f"outcomes is a {type(given).__name__}; give a dict from names to one number per event")
    columns = []
    for name, values in given.items():
        if not str(name).strip():
            raise OptionError("an outcome has an empty name; name what it measures, such as clicks")
        column = to_float_column(values, f"outcome {name!r}")
        check_length(f"outcomes[{name!r}]", column.size, n)
        try:
            check_rewards(column, None)
        except RowError as error:
            raise RowError(error.row, error.problem.replace("reward", f"outcome {name!r}", 1)) from None
        columns.append(column)
    return tuple(map(str, given)), np.column_stack(columns) if columns else None


def encode_segments(given: Mapping[str, Any] | EncodedSegments | None, n: int) -> EncodedSegments:
    """Return segment columns as codes; labels are the values as text, in order, and "missing" for None and nan.

    >>> encode_segments({"device": ["phone", None, "desk", "phone"]}, 4).columns
    (SegmentColumn(name='device', labels=('desk', 'missing', 'phone')),)
    """
    if given is None or isinstance(given, EncodedSegments):
        return given or NO_SEGMENTS
    if not isinstance(given, Mapping):
        raise OptionError(f"segments is a {type(given).__name__}; give a dict from names to one value per event")
    codes, columns = [], []
    for name, values in given.items():
        column = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=object)
        check_length(f"segments[{name!r}]", len(column), n)
        labels, code = label_values(str(name), column)
        codes.append(code)
        columns.append(SegmentColumn(str(name), labels))
    return EncodedSegments(np.column_stack(codes) if codes else None, tuple(columns))


def label_values(name: str, values: npt.NDArray[Any]) -> tuple[tuple[str, ...], IntArray]:
    """Return the labels of a segment column in order, and the code of each value.

    >>> label_values("vip", np.array([True, False, True]))
    (('false', 'true'), array([1, 0, 1]))
    """
    if values.dtype == object:
        distinct: list[Any] = list(dict.fromkeys(values.tolist()))
    else:
        distinct = np.unique(values).tolist()
    label_of = {value: segment_label(value) for value in distinct}
    labels = tuple(sorted(set(label_of.values())))
    is_number = all(isinstance(value, int | float) or label_of[value] == MISSING for value in distinct)
    check_number_of_labels(name, labels, is_number=is_number)
    code_of = {label: code for code, label in enumerate(labels)}
    codes = {value: code_of[label] for value, label in label_of.items()}
    missing = code_of.get(MISSING, 0)  # nan is not equal to itself
    return labels, np.array([codes.get(value, missing) for value in values.tolist()], dtype=np.int64)


def segment_label(value: Any) -> str:
    """Return the label of a value of a segment column."""
    if value is None or value != value or value == "":
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def check_number_of_labels(name: str, labels: Sequence[str], *, is_number: bool) -> None:
    """Raise if a column has too many values for segments."""
    if is_number and len(labels) > MOST_NUMBERS:
        raise LogError(
            f"segment column {name!r} has {len(labels):,} different numbers; segments are groups. Cut the column into "
            f"at most {MOST_NUMBERS} ranges first, or leave it out of segments"
        )
    if len(labels) > MOST_LABELS:
        raise LogError(
            f"segment column {name!r} has {len(labels):,} different values, more than {MOST_LABELS:,}; merge them into "
            "fewer groups first, or leave the column out of segments"
        )


def merge_segments(parts: Sequence[EncodedSegments]) -> EncodedSegments:
    """Return the segment columns of several parts as those of one log.

    >>> first, second = (encode_segments({"device": [label]}, 1) for label in ("phone", "desk"))
    >>> merged = merge_segments([first, second])
    >>> merged.codes.ravel(), merged.columns[0].labels
    (array([1, 0]), ('desk', 'phone'))
    """
    first = parts[0]
    if first.codes is None:
        return first
    if all(part.columns == first.columns for part in parts):
        return EncodedSegments(np.concatenate([_codes_of(part) for part in parts]), first.columns)
    columns, codes = [], []
    for place, (name, _) in enumerate(first.columns):
        labels = tuple(sorted({label for part in parts for label in part.columns[place].labels}))
        code_of = {label: code for code, label in enumerate(labels)}
        translations = [
            np.array([code_of[label] for label in part.columns[place].labels], dtype=np.int64) for part in parts
        ]
        codes.append(
            np.concatenate([table[_codes_of(part)[:, place]] for table, part in zip(translations, parts, strict=True)])
        )
        columns.append(SegmentColumn(name, labels))
    return EncodedSegments(np.column_stack(codes), tuple(columns))


def join_segments(columns: Sequence[EncodedSegments]) -> EncodedSegments:
    """Return single segment columns of the same events as one table of codes."""
    if not columns:
        return NO_SEGMENTS
    codes = np.column_stack([_codes_of(each) for each in columns])
    return EncodedSegments(codes, tuple(column for each in columns for column in each.columns))


def _codes_of(part: EncodedSegments) -> IntArray:
    assert part.codes is not None
    return part.codes
