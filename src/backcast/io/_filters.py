"""RowFilter: the rows of a table to use, from a condition in the form of SQL or from an Arrow expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from backcast.errors import OptionError
from backcast.io._arrow import kind_of
from backcast.io._column_names import find_column

MOST_CHARACTERS = 10_000  # of a condition
TOKEN = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<quoted>"(?:[^"]|"")+")|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,))"""
)
KEYWORDS = ("and", "or", "not", "in", "is", "null", "between", "true", "false")
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
EXAMPLE = "such as \"country = 'DE' and hour between 8 and 20\""


@dataclass(frozen=True)
class RowFilter:
    """A condition on rows, and the columns that it needs; a row for which it is null is left out.

    >>> batch = pa.record_batch({"hour": [7, 9, None]})
    >>> parse_filter("hour > 8", batch.schema).select(batch).num_rows
    1
    """

    expression: Any
    columns: tuple[str, ...]

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that fulfil the condition."""
        table = pa.Table.from_batches([batch]).filter(self.expression).combine_chunks()
        return next(iter(table.to_batches()), batch.slice(0, 0))

    def apply(
        self, batches: Iterable[pa.RecordBatch], names: list[str], left_out: list[int]
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns of the rows that fulfil the condition; append the numbers of others to ``left_out``."""
        for batch in batches:
            selected = self.select(batch)
            left_out.append(batch.num_rows - selected.num_rows)
            if selected.num_rows:
                yield selected.select(names)


def parse_filter(where: Any, schema: pa.Schema) -> RowFilter:
    """Return the filter of a condition, checked against the columns of a table.

    >>> schema = pa.schema([("hour", pa.int64()), ("device", pa.string())])
    >>> parse_filter("hour >= 8 and not device in ('desk', 'tv')", schema).columns
    ('hour', 'device')
    >>> parse_filter("hour = 'early'", schema)
    Traceback (most recent call last):
    backcast.errors.OptionError: where compares the column 'hour' (int64) with 'early'; give a number
    """
    if isinstance(where, pc.Expression):
        # An expression does not list its columns, but its text contains their names.
        row_filter = RowFilter(where, tuple(dict.fromkeys(name for name in schema.names if name in str(where))))
    elif isinstance(where, str):
        row_filter = _Parser(where, schema).parse()
    else:
        raise OptionError(f"where is {where!r}; give a condition {EXAMPLE}, or an Arrow expression")
    try:
        pa.schema([schema.field(name) for name in row_filter.columns]).empty_table().filter(row_filter.expression)
    except (pa.ArrowException, KeyError, ValueError) as problem:
        reason = (str(problem).splitlines() or ["unknown"])[0]
        raise OptionError(f"where ({where}) cannot be applied to the columns of this log ({reason})") from None
    return row_filter


class _Parser:
    """Recursive descent: or, and, not, then one comparison."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.text, self.schema, self.columns = text, schema, dict[str, None]()
        if len(text) > MOST_CHARACTERS:
            raise OptionError(f"where has {len(text):,} characters, and {MOST_CHARACTERS:,} are the most")
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = TOKEN.match(text, position)
            if match is None:
                raise self._error(f"{text[position:].strip()[:20]!r} is not understood")
            kind = match.lastgroup or ""
            word = match[kind]
            is_keyword = kind == "word" and word.lower() in KEYWORDS
            self.tokens.append(("sign", word.lower()) if is_keyword else (kind, word))
            position = match.end()
        self.next = 0

    def parse(self) -> RowFilter:
        """Return the filter of the whole text."""
        try:
            expression = self._parse_or()
        except RecursionError:
            raise self._error("it nests too deep") from None
        if self.next < len(self.tokens):
            raise self._error(f"{self.tokens[self.next][1]!r} is not expected there")
        return RowFilter(expression, tuple(self.columns))

    def _parse_or(self) -> Any:
        expression = self._parse_and()
        while self._accept("or"):
            expression = expression | self._parse_and()
        return expression

    def _parse_and(self) -> Any:
        expression = self._parse_not()
        while self._accept("and"):
            expression = expression & self._parse_not()
        return expression

    def _parse_not(self) -> Any:
        if self._accept("not"):
            return ~self._parse_not()
        if self._accept("("):
            expression = self._parse_or()
            self._expect(")")
            return expression
        return self._parse_comparison()

    def _parse_comparison(self) -> Any:
        name = self._take_column()
        column, type_ = pc.field(name), self.schema.field(name).type
        if self._accept("is"):
            is_negated = self._accept("not")
            self._expect("null")
            # A nan is a missing value, as in pandas.
            missing = column.is_null(nan_is_null=kinds.is_floating(type_))
            return ~missing if is_negated else missing
        is_negated = self._accept("not")
        if self._accept("in"):
            self._expect("(")
            values = [self._take_value(name)]
            while self._accept(","):
                values.append(self._take_value(name))
            self._expect(")")
            expression = column == values[0]
            for value in values[1:]:
                expression = expression | (column == value)
            return ~expression if is_negated else expression
        if self._accept("between"):
            low = self._take_value(name)
            self._expect("and")
            expression = (column >= low) & (column <= self._take_value(name))
            return ~expression if is_negated else expression
        if is_negated:
            raise self._error("after a column and 'not', 'in' or 'between' is expected")
        for sign, compare in COMPARISONS.items():
            if self._accept(sign):
                if self.next < len(self.tokens) and self.tokens[self.next][0] in ("word", "quoted"):
                    return compare(column, pc.field(self._take_column()))
                return compare(column, self._take_value(name))
        if kinds.is_boolean(type_):
            return column
        raise self._error(f"a comparison is expected after the column {name!r}")

    def _accept(self, sign: str) -> bool:
        if self.next < len(self.tokens) and self.tokens[self.next] == ("sign", sign):
            self.next += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise self._error(f"{sign!r} is expected {self._where()}")

    def _take_column(self) -> str:
        kind, word = self.tokens[self.next] if self.next < len(self.tokens) else ("", "")
        if kind not in ("word", "quoted"):
            raise self._error(f"a column is expected {self._where()} (text is written in single quotes)")
        self.next += 1
        name = find_column(word if kind == "word" else word[1:-1].replace('""', '"'), "where", self.schema.names)
        self.columns[name] = None
        return name

    def _take_value(self, name: str) -> pa.Scalar:
        """Return a literal as a value of the column that it is compared with."""
        kind, word = self.tokens[self.next] if self.next < len(self.tokens) else ("", "")
        type_ = self.schema.field(name).type
        wanted = kind_of(type_)
        self.next += 1
        if (kind, word) in (("sign", "true"), ("sign", "false")) and kinds.is_boolean(type_):
            return pa.scalar(word == "true")
        if kind == "number" and wanted == "number" and not kinds.is_boolean(type_):
            return pa.scalar(float(word) if re.search(r"[.eE]", word) else int(word))
        if kind == "text" and wanted in ("text", "time"):
            text = word[1:-1].replace("''", "'")
            return pa.scalar(text) if wanted == "text" else self._to_time(text, type_, name)
        expected = {"number": "a number", "text": "text in single quotes", "time": "a time such as '2026-12-24 10:30'"}
        what = "true or false" if kinds.is_boolean(type_) else expected.get(wanted, "another column")
        raise OptionError(f"where compares the column {name!r} ({type_}) with {word or 'nothing'}; give {what}")

    def _to_time(self, text: str, type_: pa.DataType, name: str) -> pa.Scalar:
        zone = getattr(type_, "tz", None)
        try:
            if zone is None:
                return pa.scalar(text).cast(type_)
            return pc.assume_timezone(pa.scalar(text).cast(pa.timestamp(type_.unit)), zone)
        except pa.ArrowException:
            raise OptionError(
                f"where compares the column {name!r} ({type_}) with {text!r}; give a time such as '2026-12-24 10:30:00'"
            ) from None

    def _where(self) -> str:
        return f"before {self.tokens[self.next][1]!r}" if self.next < len(self.tokens) else "at the end"

    def _error(self, problem: str) -> OptionError:
        return OptionError(f"where is {self.text!r}; {problem}. Give a condition {EXAMPLE}")
