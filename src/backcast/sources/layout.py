"""How a table's columns become the log's arrays: names resolved and types known, once for all its parts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as kinds

from backcast.errors import ColumnError, OptionError
from backcast.sources.columns import Columns, find_column, find_columns
from backcast.sources.limits import MOST_FEATURES

__all__ = ["Feature", "Layout", "kind_of", "lay_out"]

DENSE_LIMIT = 512  # hashed features an event beyond which contexts are CSR: 4 KB an event, nearly all zeros


@dataclass(frozen=True)
class Feature:
    """One context column and the first of the features it becomes."""

    name: str
    is_text: bool
    first: int


@dataclass(frozen=True)
class Layout:
    """The columns to read and where they go."""

    columns: Columns
    features: tuple[Feature, ...]
    available: tuple[str, ...]
    logging: tuple[str, ...]
    n_features: int
    is_sparse: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read, none twice."""
        given = self.columns
        main = (given.action, given.reward, *propensity_column(given))
        times = () if given.times is None else (given.times,)
        return tuple(dict.fromkeys((*(f.name for f in self.features), *main, *times, *self.available, *self.logging)))

    @property
    def declared(self) -> int | None:
        """The number of actions, where the user's words or the number of columns fix it."""
        if self.columns.action_labels is not None:
            return len(self.columns.action_labels)
        if self.columns.n_actions is not None:
            return self.columns.n_actions
        # A single column may be a list of any length.
        return next((len(names) for names in (self.available, self.logging) if len(names) > 1), None)

    def name_of(self, feature: int) -> str:
        """The context column that gives this feature."""
        return next(f.name for f in reversed(self.features) if f.first <= feature)


def lay_out(columns: Columns, schema: pa.Schema) -> Layout:
    """Resolve the user's words against a table's schema.

    >>> columns = Columns(context="*", action="a", reward="r", propensity="p", hash_size=4)
    >>> schema = pa.schema([("a", pa.int64()), ("r", pa.int8()), ("p", pa.float32()), ("zip", pa.string()),
    ...                     ("age", pa.int32())])
    >>> layout = lay_out(columns, schema)
    >>> layout.features, layout.n_features
    ((Feature(name='zip', is_text=True, first=0), Feature(name='age', is_text=False, first=4)), 5)
    """
    names = schema.names
    main = [find_column(columns.action, "action", names), find_column(columns.reward, "reward", names)]
    main += [find_column(name, "propensity", names) for name in propensity_column(columns)]
    times = [] if columns.times is None else [find_column(columns.times, "times", names)]
    taken = [*main, *times]
    available = find_columns(columns.available, "available", names, taken)
    logging = find_columns(columns.logging_probabilities, "logging_probabilities", names, [*taken, *available])
    context = find_columns(columns.context, "context", names, [*taken, *available, *logging])
    for name in (columns.action, columns.reward):
        if name in context:
            raise ColumnError(f"context names the column {name!r}, which is the log's action or reward; leave it out")
    _check_matrix("available", available, schema)
    _check_matrix("logging_probabilities", logging, schema)
    _check_action(columns, schema, by_position=bool(logging) or _is_mask(available, schema))
    features, n_features, hashed = _features(context, schema, columns.hash_size)
    return Layout(columns, features, available, logging, n_features, hashed > DENSE_LIMIT)


def propensity_column(columns: Columns) -> tuple[str, ...]:
    """The column of propensities, if there is one (a constant or unknown propensity has none)."""
    return (columns.propensity,) if isinstance(columns.propensity, str) else ()


def _features(context: tuple[str, ...], schema: pa.Schema, hash_size: int) -> tuple[tuple[Feature, ...], int, int]:
    features: list[Feature] = []
    first = hashed = 0
    for name in context:
        kind = kind_of(schema.field(name).type)
        if kind in ("list", "other"):
            raise ColumnError(
                f"context column {name!r} has type {schema.field(name).type}; contexts are numbers, booleans or text. "
                "Turn it into such columns first (a time into its hour and weekday, a list into one column an entry)"
            )
        features.append(Feature(name, kind == "text", first))
        width = hash_size if kind == "text" else 1
        first += width
        hashed += width if kind == "text" else 0
        if first > MOST_FEATURES:
            raise OptionError(f"the context comes to more than {MOST_FEATURES:,} features; lower hash_size")
    return tuple(features), first, hashed


def _check_matrix(part: str, names: tuple[str, ...], schema: pa.Schema) -> None:
    found = [kind_of(schema.field(name).type) for name in names]
    if (len(found) == 1 and found != ["list"]) or (len(found) > 1 and not {"number", "empty"}.issuperset(found)):
        types = ", ".join(f"{name} ({schema.field(name).type})" for name in names[:8])
        raise ColumnError(f"{part} is given as {types}; it must be one column an action, or one column of lists")


def _is_mask(available: tuple[str, ...], schema: pa.Schema) -> bool:
    """Whether availability comes as booleans in the order of the actions, not as a list of labels."""
    return bool(available) and (len(available) > 1 or kinds.is_boolean(schema.field(available[0]).type.value_type))


def _check_action(columns: Columns, schema: pa.Schema, *, by_position: bool) -> None:
    type_ = schema.field(columns.action).type
    kind = kind_of(type_)
    if kind == "list" or kinds.is_nested(type_):
        raise ColumnError(f"action column {columns.action!r} has type {type_}; an action is one label an event")
    if kind == "text" and by_position and columns.action_labels is None:
        raise ColumnError(
            "available and logging_probabilities go by the order of the actions, and text labels have none; "
            "give action_labels in that order"
        )


def kind_of(type_: pa.DataType) -> str:
    """What a column of this type can serve as: number, text, list, empty (all null) or other.

    >>> kind_of(pa.bool_()), kind_of(pa.dictionary(pa.int8(), pa.string())), kind_of(pa.date32())
    ('number', 'text', 'other')
    """
    if kinds.is_null(type_):
        return "empty"
    if kinds.is_boolean(type_) or kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    if kinds.is_dictionary(type_) or _is_text(type_):
        return "text"
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        return "list"
    return "other"


def _is_text(type_: pa.DataType) -> bool:
    tests = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view")
    # The view types are younger than the oldest supported pyarrow.
    return any(getattr(kinds, test)(type_) for test in tests if hasattr(kinds, test))
