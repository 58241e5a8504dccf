"""Which columns of a table play which part, by name and pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from backcast._log_validation import check_number_of_actions
from backcast.errors import ColumnError, OptionError, did_you_mean
from backcast.io.limits import MOST_FEATURES, check_positive_integer

SHOWN = 20  # names listed in a message


@dataclass(frozen=True)
class ColumnSpec:
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

    def __post_init__(self) -> None:
        check_positive_integer("hash_size", self.hash_size, MOST_FEATURES)
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
            f"there is no column {name!r} (given as {part}){did_you_mean(name, names)} Columns: {_listed(names)}"
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


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f", and {more} more" if more > 0 else "")


DENSE_LIMIT = 512  # hashed features an event beyond which contexts are CSR: 4 KB an event, nearly all zeros


@dataclass(frozen=True)
class Feature:
    """One context column and the first of the features it becomes."""

    name: str
    is_text: bool
    first: int


@dataclass(frozen=True)
class ColumnLayout:
    """The columns to read and where they go."""

    columns: ColumnSpec
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

    def feature_name(self, feature: int) -> str:
        """The context column that gives this feature."""
        return next(f.name for f in reversed(self.features) if f.first <= feature)


def resolve_columns(columns: ColumnSpec, schema: pa.Schema) -> ColumnLayout:
    """Resolve the user's words against a table's schema.

    >>> columns = ColumnSpec(context="*", action="a", reward="r", propensity="p", hash_size=4)
    >>> schema = pa.schema([("a", pa.int64()), ("r", pa.int8()), ("p", pa.float32()), ("zip", pa.string()),
    ...                     ("age", pa.int32())])
    >>> layout = resolve_columns(columns, schema)
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
    return ColumnLayout(columns, features, available, logging, n_features, hashed > DENSE_LIMIT)


def propensity_column(columns: ColumnSpec) -> tuple[str, ...]:
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


def _check_action(columns: ColumnSpec, schema: pa.Schema, *, by_position: bool) -> None:
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
