"""ColumnSpec, the user's names and patterns of columns, and ColumnLayout, the columns of a table that they match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from backcast._log_validation import MOST_ACTIONS, check_labels
from backcast.errors import ColumnError, OptionError, did_you_mean
from backcast.io._arrow import find_date_format, kind_of, to_python_values
from backcast.io._column_names import find_column, find_columns
from backcast.io._features import FILL_HELP, CategoryEncoder, Encoder, FillValue, HashEncoder, make_encoders
from backcast.io._filters import RowFilter, parse_filter
from backcast.io.limits import MOST_FEATURES, check_positive_integer

DENSE_LIMIT = 512  # features of text per event beyond which contexts are CSR: 4 KB per event, nearly all zeros
MOST_NAMES = 2**16  # features beyond which their names are not kept


@dataclass(frozen=True)
class ColumnSpec:
    """The user's names for the columns of a log.

    Parameters
    ----------
    context
        Names and glob patterns (``"f_*"``), in the order of the features. A pattern does not match a column that
        has another role.
    action, reward, propensity
        Names of these columns.
    n_actions, action_labels
        The actions, if the log may not show all of them (see :class:`backcast.Log`).
    available
        Names or patterns of K columns of booleans in the order of the actions, or one list column that holds
        K booleans or the labels of the eligible actions.
    times
        Name of the column of times (numbers, dates, or text in ISO 8601). The events of the log are in this order:
        sorted in memory, checked on streams.
    reward_range
        Known bounds ``(low, high)`` of the reward.
    logging_probabilities
        Names or patterns of K columns in the order of the actions, or one list column of K numbers.
    hash_size
        Features that a text column of more values than that is hashed into. The cost of a linear learner grows with the
        square of the number of features, which 32 keeps small; m values then share a bucket in m(m-1)/64 pairs on
        average, so raise it for columns with many values.
    one_hot
        Whether a text column of at most ``hash_size`` values, in the first 65,536 rows, becomes one feature per value;
        a value that appears only later has none of them. False hashes all text; a mapping declares the values of
        single columns (``{"device": ["phone", "desk"]}``).
    fill
        What missing values (nulls, and nan) of contexts are filled with; without it they are refused. ``"mean"`` (of
        the first 65,536 rows), ``"zero"`` or a number; for text, a text or a category of its own. Every filled column
        has one more feature, 1 where its value was missing. One value is for all columns with missing values in these
        first rows; a mapping fills single columns (``{"age": "mean", "f_*": 0}``).
    outcomes
        Further outcomes to read off the same histories: a mapping from names to columns of numbers
        (``{"clicks": "clicked", "latency": "ms"}``), or names of columns. They are never context features.
    segments
        Columns to break results down by: text, booleans, or few different numbers. A column may be context too if it
        is named there; patterns leave it out.
    where
        Rows to use: a condition in the form of SQL (``"country = 'DE' and age is not null"``) or an Arrow expression.
        ``log.reading`` has the number of the others.

    Examples
    --------
    >>> ColumnSpec(context=["hour", "f_*"], action="shown", reward="click", propensity="p").hash_size
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
    one_hot: bool | Mapping[str, Sequence[Any]] = True
    fill: FillValue | Mapping[str, FillValue] | None = None
    where: Any = None
    outcomes: Mapping[str, str] | Sequence[str] | str | None = None
    segments: Sequence[str] | str | None = None

    def __post_init__(self) -> None:
        check_positive_integer("hash_size", self.hash_size, MOST_FEATURES)
        if self.n_actions is not None:
            check_positive_integer("n_actions", self.n_actions, MOST_ACTIONS)
        check_labels(self.action_labels)
        for role in ("context", "available", "logging_probabilities", "outcomes", "segments"):
            names = getattr(self, role)
            if names is not None and (isinstance(names, bytes) or not isinstance(names, Iterable)):
                raise OptionError(f"{role} is {names!r}; it must be the name of a column or a list of names")
        for role in ("action", "reward"):
            if not isinstance(getattr(self, role), str):
                raise OptionError(f"{role} is {getattr(self, role)!r}; it must be the name of a column")
        if isinstance(self.propensity, bool) or not isinstance(self.propensity, str | int | float | None):
            raise OptionError(f"propensity is {self.propensity!r}; give the name of a column, a number, or None")
        if isinstance(self.propensity, int | float) and not 0 < self.propensity <= 1:
            raise OptionError(f"propensity is {self.propensity!r}; a constant one must lie in (0, 1]")
        if self.times is not None and not isinstance(self.times, str):
            raise OptionError(f"times is {self.times!r}; it must be the name of a column")
        if not isinstance(self.one_hot, bool | Mapping):
            raise OptionError(f"one_hot is {self.one_hot!r}; give True, False, or the values of each column")
        if isinstance(self.one_hot, Mapping):
            for name, values in self.one_hot.items():
                if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
                    raise OptionError(
                        f"one_hot of {name!r} is {values!r}; it must be a list of the values of that column"
                    )
        if isinstance(self.fill, Mapping):
            for name, value in self.fill.items():
                _check_fill(f"fill of {name!r}", value, any_text=True)
        elif self.fill is not None:
            _check_fill("fill", self.fill, any_text=False)

    @property
    def outcome_columns(self) -> dict[str, str]:
        """Column of each further outcome, by its name.

        >>> ColumnSpec(context="x", action="a", reward="r", propensity="p", outcomes=["ms"]).outcome_columns
        {'ms': 'ms'}
        """
        given = self.outcomes
        if isinstance(given, Mapping):
            return {str(name): str(column) for name, column in given.items()}
        return {name: name for name in ([given] if isinstance(given, str) else given or ())}

    @property
    def segment_columns(self) -> tuple[str, ...]:
        """The segment columns."""
        return (self.segments,) if isinstance(self.segments, str) else tuple(self.segments or ())

    @property
    def single_columns(self) -> dict[str, str]:
        """Name of the column of each role that has exactly one; a constant propensity has none."""
        roles = {"action": self.action, "reward": self.reward, "propensity": self.propensity, "times": self.times}
        return {role: name for role, name in roles.items() if isinstance(name, str)}


def make_column_spec(**options: Any) -> ColumnSpec:
    """Return the specification of these options; an unknown one is refused with a suggestion.

    >>> make_column_spec(context="x", action="a", reward="r", propensity="p", time="t")
    Traceback (most recent call last):
    backcast.errors.OptionError: there is no option 'time' of a log; did you mean 'times'?
    """
    known = [field.name for field in fields(ColumnSpec)]
    for name in options:
        if name not in known:
            raise OptionError(f"there is no option {name!r} of a log{did_you_mean(name, known)}")
    return ColumnSpec(**options)


def _check_fill(what: str, value: Any, *, any_text: bool) -> None:
    """Refuse what is neither a finite number nor a text; only a single column can be filled with any text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    if not is_number and not (isinstance(value, str) and (any_text or value in ("mean", "zero"))):
        raise OptionError(f"{what} is {value!r}; {FILL_HELP}")


@dataclass(frozen=True)
class ColumnLayout:
    """The columns to read, the rows to use, and the encoders of the context columns (none until the head was read).

    ``date_format`` is the format of times that are text such as 24/12/2026.
    """

    columns: ColumnSpec
    context: tuple[str, ...]
    available: tuple[str, ...]
    logging: tuple[str, ...]
    where: RowFilter | None = None
    encoders: tuple[Encoder, ...] = ()
    date_format: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that the log is made of, none twice."""
        return tuple(
            dict.fromkeys(
                (
                    *self.context,
                    *self.columns.single_columns.values(),
                    *self.available,
                    *self.logging,
                    *self.columns.outcome_columns.values(),
                    *self.columns.segment_columns,
                )
            )
        )

    @property
    def read_names(self) -> tuple[str, ...]:
        """Every column to read: those of the log, and those that the filter of rows needs."""
        return tuple(dict.fromkeys((*self.names, *(self.where.columns if self.where else ()))))

    @property
    def declared(self) -> int | None:
        """The number of actions, if the options or the number of columns determine it."""
        if self.columns.action_labels is not None:
            return len(self.columns.action_labels)
        if self.columns.n_actions is not None:
            return self.columns.n_actions
        # A single column may be a list of any length.
        return next((len(names) for names in (self.available, self.logging) if len(names) > 1), None)

    @cached_property
    def n_features(self) -> int:
        """Number of features of all context columns."""
        return sum(encoder.width for encoder in self.encoders)

    @property
    def n_entries(self) -> int:
        """Numbers of an event that may not be zero."""
        return sum(encoder.n_entries for encoder in self.encoders)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether so many features come from text that contexts are a sparse matrix."""
        text = sum(encoder.width for encoder in self.encoders if isinstance(encoder, CategoryEncoder | HashEncoder))
        return text > DENSE_LIMIT

    @property
    def first_features(self) -> list[int]:
        """The first feature of each encoder."""
        return list(accumulate((encoder.width for encoder in self.encoders), initial=0))[:-1]

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """The name of every feature; None if there are too many to keep them."""
        if self.n_features > MOST_NAMES:
            return None
        return tuple(name for encoder in self.encoders for name in encoder.feature_names())

    def column_of(self, feature: int) -> str:
        """Return the context column that a feature comes from."""
        return next(
            e.name for e, first in zip(self.encoders[::-1], self.first_features[::-1], strict=True) if first <= feature
        )


def resolve_columns(columns: ColumnSpec, schema: pa.Schema) -> ColumnLayout:
    """Match the user's names with the schema of a table; :func:`fit_layout` adds the encoders.

    >>> columns = ColumnSpec(context="*", action="a", reward="r", propensity="p")
    >>> schema = pa.schema([("a", pa.int64()), ("r", pa.int8()), ("p", pa.float32()), ("zip", pa.string()),
    ...                     ("age", pa.int32())])
    >>> resolve_columns(columns, schema).context
    ('zip', 'age')
    """
    names = schema.names
    assigned = [find_column(name, role, names) for role, name in columns.single_columns.items()]
    available = find_columns(columns.available, "available", names, assigned)
    assigned += available
    logging = find_columns(columns.logging_probabilities, "logging_probabilities", names, assigned)
    assigned += logging
    outcomes = [find_column(name, "outcomes", names) for name in columns.outcome_columns.values()]
    segments = [find_column(name, "segments", names) for name in columns.segment_columns]
    for name in outcomes:
        if name in assigned:
            raise ColumnError(f"outcomes names the column {name!r}, which has another role; leave it out")
    context = find_columns(columns.context, "context", names, [*assigned, *outcomes, *segments])
    for name in (columns.action, columns.reward, *outcomes):
        if name in context:
            role = "an outcome, which is known only afterwards" if name in outcomes else "the log's action or reward"
            raise ColumnError(f"context names the column {name!r}, which is {role}; leave it out")
    _check_matrix("available", available, schema)
    _check_matrix("logging_probabilities", logging, schema)
    # A single column of eligible actions may hold lists of labels, which need no order.
    has_mask = len(available) > 1 or (available and kinds.is_boolean(schema.field(available[0]).type.value_type))
    _check_action(columns, schema, by_position=bool(logging or has_mask))
    where = None if columns.where is None else parse_filter(columns.where, schema)
    return ColumnLayout(columns, context, available, logging, where)


def fit_layout(layout: ColumnLayout, schema: pa.Schema, read_head: Callable[[list[str]], pa.Table]) -> ColumnLayout:
    """Return the layout with the encoders of its context columns; ``read_head`` returns the first rows of columns.

    >>> columns = ColumnSpec(context=["zip", "age"], action="a", reward="r", propensity=0.5)
    >>> table = pa.table({"zip": ["x", "y"], "age": [30, 40], "a": [0, 1], "r": [0, 1]})
    >>> fit_layout(resolve_columns(columns, table.schema), table.schema, table.select).feature_names
    ('zip=x', 'zip=y', 'age')
    """
    columns, date_format = layout.columns, None
    if columns.times is not None and kind_of(schema.field(columns.times).type) == "text":
        values = to_python_values(read_head([columns.times]).column(0).combine_chunks())
        date_format = find_date_format(values, columns.times)
    encoders = make_encoders(columns, layout.context, schema, read_head)
    if sum(encoder.width for encoder in encoders) > MOST_FEATURES:
        raise OptionError(f"the context has more than {MOST_FEATURES:,} features; lower hash_size")
    return replace(layout, encoders=encoders, date_format=date_format)


def _check_matrix(role: str, names: tuple[str, ...], schema: pa.Schema) -> None:
    """Refuse K columns, or one, that cannot hold a value per action."""
    types = [kind_of(schema.field(name).type) for name in names]
    if (len(types) == 1 and types != ["list"]) or (len(types) > 1 and not {"number", "empty"}.issuperset(types)):
        listed = ", ".join(f"{name} ({schema.field(name).type})" for name in names[:8])
        raise ColumnError(f"{role} is given as {listed}; it must be one column per action, or one column of lists")


def _check_action(columns: ColumnSpec, schema: pa.Schema, *, by_position: bool) -> None:
    type_ = schema.field(columns.action).type
    kind = kind_of(type_)
    if kind == "list" or kinds.is_nested(type_):
        raise ColumnError(f"action column {columns.action!r} has type {type_}; an action is one label per event")
    if kind == "text" and by_position and columns.action_labels is None:
        raise ColumnError(
            "available and logging_probabilities are in the order of the actions, and text labels have no order; "
            "give action_labels in that order"
        )
