"""Arrow columns to numpy arrays: views where possible, else one copy, never a loop over rows.

Text is hashed without state, so that every file, part and machine agrees: value v of column c switches on feature
``murmur3("c=v") mod hash_size`` among the features of that column. A null hashes as ``"c"`` and the empty text as
``"c="``. Only the distinct values of a batch are hashed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from backcast._arrays import FloatArray, IntArray
from backcast._log_validation import RowError
from backcast.errors import ColumnError, LogError

TRUTH_WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "y": 1.0, "n": 0.0, "t": 1.0, "f": 0.0}
DATE = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2\d{4}(?:([ T])\d{1,2}:\d{2}(:\d{2})?)?")


def kind_of(type_: pa.DataType) -> str:
    """Return what a column of this type can serve as: number, text, list, time, empty (all null) or other.

    >>> kind_of(pa.bool_()), kind_of(pa.dictionary(pa.int8(), pa.string())), kind_of(pa.date32())
    ('number', 'text', 'time')
    """
    if kinds.is_null(type_):
        return "empty"
    if kinds.is_boolean(type_) or kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    text_tests = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view")
    # The view types are newer than the oldest supported pyarrow.
    is_text = any(getattr(kinds, test)(type_) for test in text_tests if hasattr(kinds, test))
    if kinds.is_dictionary(type_) or is_text:
        return "text"
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        return "list"
    return "time" if kinds.is_timestamp(type_) or kinds.is_date(type_) else "other"


def hash_column(column: pa.Array, name: str, size: int, fill: str | None = None) -> IntArray:
    """Return the feature, of ``size``, that each row of a text column switches on; nulls are hashed as ``fill``.

    >>> hash_column(pa.array(["phone", None, "phone"]), "device", 32)
    array([3, 7, 3])
    """
    from sklearn.utils import murmurhash3_32

    values, indices = find_distinct(column)
    key = name.encode()
    texts = [fill if value is None else str(value) for value in values]
    keys = [key if text is None else b"%b=%b" % (key, text.encode()) for text in texts]
    buckets = np.array([murmurhash3_32(key, seed=0, positive=True) for key in keys], dtype=np.int64) % size
    return np.asarray(buckets[indices])


def to_numbers(column: pa.Array, name: str, role: str) -> npt.NDArray[Any]:
    """Return a column as numbers of the same width, a view if Arrow allows it; refuse nulls and other text.

    The words yes and no, true and false (or their first letters) are 1 and 0.

    >>> to_numbers(pa.array(["1", "0.5"]), "click", "reward"), to_numbers(pa.array(["yes", "No"]), "click", "reward")
    (array([1. , 0.5]), array([1., 0.]))
    """
    check_no_nulls(column, name, role)
    if kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_boolean(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values, indices = _split_dictionary(column) if kinds.is_dictionary(column.type) else (column, None)
    try:
        numbers = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowException:
        numbers = _words_to_numbers(values, indices, name, role)
    return numbers if indices is None else numbers[indices]


def _words_to_numbers(values: pa.Array, indices: IntArray | None, name: str, role: str) -> FloatArray:
    words = to_python_values(values)
    numbers = [TRUTH_WORDS.get(str(word).strip().lower()) for word in words]
    if None not in numbers:
        return np.array(numbers, dtype=np.float64)
    index = next(
        (i for i, (word, number) in enumerate(zip(words, numbers, strict=True)) if not _is_number(word, number)), 0
    )
    row = index if indices is None else int(np.argmax(indices == index))
    raise RowError(row, f"{role} is {words[index]!r} (column {name!r}); it must be a number, or yes or no")


def _is_number(word: Any, number: float | None) -> bool:
    if number is not None:
        return True
    try:
        float(word)
    except (TypeError, ValueError):
        return False
    return True


def to_numbers_or_nan(column: pa.Array, name: str, role: str) -> FloatArray:
    """Return a column as float64, nulls as nan.

    >>> to_numbers_or_nan(pa.array([1, None]), "age", "context")
    array([ 1., nan])
    """
    numbers = np.full(len(column), np.nan)
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_valid)
    try:
        numbers[rows] = to_numbers(column.filter(is_valid), name, role)
    except RowError as error:
        raise RowError(int(rows[error.row]), error.problem) from None
    return numbers


def check_no_nulls(column: pa.Array, name: str, role: str) -> None:
    """Refuse a column with a null, also one in a dictionary; the message has the row and the remedy."""
    if column.null_count or (kinds.is_dictionary(column.type) and column.dictionary.null_count):
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        if kinds.is_dictionary(column.type):
            values, indices = find_distinct(column)
            is_null = np.array([value is None for value in values])[indices]
        if is_null.any():
            remedy = missing_remedy(name, role, is_text=kind_of(column.type) == "text")
            raise RowError(int(np.argmax(is_null)), f"{role} is missing (null in column {name!r}). {remedy}")


def missing_remedy(name: str, role: str, *, is_text: bool = False) -> str:
    """Return what to do about a missing value in a column of this role."""
    drop = f"Leave such rows out (where={quote_column(name) + ' is not null'!r})"
    if role != "context":
        return f"{drop}, or repair them"
    return f"{drop}, or fill them in (fill={{{name!r}: {'unknown' if is_text else 'mean'!r}}})"


def quote_column(name: str) -> str:
    """Return a column as a condition of ``where`` names it.

    >>> quote_column("age"), quote_column("f 1")
    ('age', '"f 1"')
    """
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else '"' + name.replace('"', '""') + '"'


def to_times(column: pa.Array, name: str, date_format: str | None = None) -> npt.NDArray[Any]:
    """Return a column without nulls as numpy values: dates as datetime64, text of a date format too, else objects.

    >>> to_times(pa.array(["24/12/2026"]), "day", "%d/%m/%Y").astype("datetime64[D]")
    array(['2026-12-24'], dtype='datetime64[D]')
    """
    check_no_nulls(column, name, "time")
    if date_format is not None:
        column = parse_dates(column, name, date_format)
    if kinds.is_dictionary(column.type):
        values, indices = _split_dictionary(column)
        return np.asarray(values.to_numpy(zero_copy_only=False)[indices])
    return np.asarray(column.to_numpy(zero_copy_only=False))


def parse_dates(column: pa.Array, name: str, date_format: str) -> pa.Array:
    """Return text of this format as timestamps; nulls stay, other text is refused."""
    text = column.cast(pa.string())
    dates = pc.strptime(text, date_format, "us", error_is_null=True)
    if dates.null_count > text.null_count:
        wrong = pc.and_(text.is_valid(), dates.is_null()).to_numpy(zero_copy_only=False)
        row = int(np.argmax(wrong))
        raise RowError(
            row, f"time is {text[row].as_py()!r} (column {name!r}); earlier rows have dates as {date_format}"
        )
    return dates


def find_date_format(values: Sequence[Any], name: str) -> str | None:
    """Return the format of dates such as 24/12/2026 10:30 or 12-24-2026; None if the text has another form.

    Whether the day or the month comes first is seen from values above 12; dates with points start with the day.

    >>> find_date_format(["03/01/2027", "24/12/2026"], "day"), find_date_format(["2026-12-24"], "day")
    ('%d/%m/%Y', None)
    >>> find_date_format(["03/01/2027"], "day")
    Traceback (most recent call last):
    backcast.errors.ColumnError: column 'day' has dates such as '03/01/2027', and none of them shows whether the day \
or the month comes first; write them as 2026-12-24
    """
    matches = [DATE.fullmatch(value) for value in values if isinstance(value, str)]
    first = next(iter(matches), None)
    if first is None or any(match is None or match.group(2, 4) != first.group(2, 4) for match in matches):
        return None
    dates = [match for match in matches if match is not None]
    if any((match[5] is None) != (first[5] is None) for match in dates):
        return None
    day_first = first[2] == "." or any(int(match[1]) > 12 for match in dates)
    month_first = any(int(match[3]) > 12 for match in dates)
    if day_first == month_first:
        if day_first:
            return None
        raise ColumnError(
            f"column {name!r} has dates such as {first[0]!r}, and none of them shows whether the day or the month "
            "comes first; write them as 2026-12-24"
        )
    order = f"%d{first[2]}%m" if day_first else f"%m{first[2]}%d"
    clock = "" if first[4] is None else f"{first[4]}%H:%M" + ("" if first[5] is None else ":%S")
    return f"{order}{first[2]}%Y{clock}"


def flatten_lists(column: pa.Array, name: str, role: str) -> tuple[pa.Array, IntArray]:
    """Return the entries of a list column one after another, and the number of entries of each row."""
    check_no_nulls(column, name, role)
    return column.flatten(), np.asarray(pc.list_value_length(column).to_numpy(zero_copy_only=False), dtype=np.int64)


def find_distinct(column: pa.Array) -> tuple[list[Any], IntArray]:
    """Return the distinct values of a column, then None, and for each row the index of its value among them.

    >>> find_distinct(pa.array(["a", None, "a", "b"]))
    (['a', 'b', None], array([0, 2, 0, 1]))
    """
    if kinds.is_dictionary(column.type):
        used, indices = _split_dictionary(column)
    else:
        encoded = column.dictionary_encode()
        used, indices = encoded.dictionary, _to_indices(encoded)
    values = [*to_python_values(used), None]
    return values, np.where(indices < 0, len(values) - 1, indices)


def _split_dictionary(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """Return the values that a dictionary column uses, and for each row the index of its value (-1 for a null).

    Values are not repeated per row: a file of few bytes may repeat a text of many megabytes.
    """
    # Arrow cannot take rows of view types.
    plain_types = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    plain_type = plain_types.get(str(column.dictionary.type))
    values = column.dictionary if plain_type is None else column.dictionary.cast(plain_type)
    used = column.indices.dictionary_encode()
    return values.take(used.dictionary), _to_indices(used)


def _to_indices(encoded: pa.Array) -> IntArray:
    return np.asarray(encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def to_python_values(column: pa.Array) -> list[Any]:
    """Return a column as Python values, bytes as text; refuse text that is not UTF-8.

    >>> to_python_values(pa.array([b"mail", None]))
    ['mail', None]
    """
    try:
        values = list(column.to_pylist())
        return [value.decode() if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError as problem:
        raise LogError(
            f"a text column holds {problem.object!r}, which is not UTF-8; write it again, or give encoding=... for CSV"
        ) from None
