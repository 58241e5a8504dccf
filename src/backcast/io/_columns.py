"""ColumnSpec, the user's names and patterns of columns, and ColumnLayout, the columns of a table that they match."""

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

LISTED_NAMES = 20  # names listed in a message
DENSE_LIMIT = 512  # hashed features per event beyond which contexts are CSR: 4 KB per event, nearly all zeros


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
        Features that each text column is hashed into. The cost of a linear learner grows with the square of the
        number of features, which 32 keeps small; m values then share a bucket in m(m-1)/64 pairs on average (one
        pair at m = 8), so raise it for columns with many values.

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
        for role in ("action", "reward"):
            if not isinstance(getattr(self, role), str):
                raise OptionError(f"{role} is {getattr(self, role)!r}; it must be the name of a column")
        if isinstance(self.propensity, int | float) and not 0 < self.propensity <= 1:
            raise OptionError(f"propensity is {self.propensity!r}; a constant one must lie in (0, 1]")
        if not isinstance(self.propensity, str | int | float | None):
            raise OptionError(f"propensity is {self.propensity!r}; give the name of a column, a number, or None")

    @property
    def single_columns(self) -> dict[str, str]:
        """Name of the column of each role that has exactly one; a constant propensity has none."""
        roles = {"action": self.action, "reward": self.reward, "propensity": self.propensity, "times": self.times}
        return {role: name for role, name in roles.items() if isinstance(name, str)}


@dataclass(frozen=True)
class Feature:
    """A context column and the first of the features that it becomes."""

    name: str
    is_text: bool
    first: int


@dataclass(frozen=True)
class ColumnLayout:
    """The columns to read, and the features that the context columns become."""

    columns: ColumnSpec
    features: tuple[Feature, ...]
    available: tuple[str, ...]
    logging: tuple[str, ...]
    n_features: int
    is_sparse: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Every column to read, none twice."""
        context = (feature.name for feature in self.features)
        return tuple(dict.fromkeys((*context, *self.columns.single_columns.values(), *self.available, *self.logging)))

    @property
    def declared(self) -> int | None:
        """The number of actions, if the options or the number of columns determine it."""
        if self.columns.action_labels is not None:
            return len(self.columns.action_labels)
        if self.columns.n_actions is not None:
            return self.columns.n_actions
        # A single column may be a list of any length.
        return next((len(names) for names in (self.available, self.logging) if len(names) > 1), None)

    def feature_name(self, feature: int) -> str:
        """Return the context column that a feature comes from."""
        return next(f.name for f in reversed(self.features) if f.first <= feature)


def resolve_columns(columns: ColumnSpec, schema: pa.Schema) -> ColumnLayout:
    """Match the user's names with the schema of a table.

    >>> columns = ColumnSpec(context="*", action="a", reward="r", propensity="p", hash_size=4)
    >>> schema = pa.schema([("a", pa.int64()), ("r", pa.int8()), ("p", pa.float32()), ("zip", pa.string()),
    ...                     ("age", pa.int32())])
    >>> layout = resolve_columns(columns, schema)
    >>> layout.features, layout.n_features
    ((Feature(name='zip', is_text=True, first=0), Feature(name='age', is_text=False, first=4)), 5)
    """
    names = schema.names
    assigned = [find_column(name, role, names) for role, name in columns.single_columns.items()]
    available = find_columns(columns.available, "available", names, assigned)
    assigned += available
    logging = find_columns(columns.logging_probabilities, "logging_probabilities", names, assigned)
    assigned += logging
    context = find_columns(columns.context, "context", names, assigned)
    for name in (columns.action, columns.reward):
        if name in context:
            raise ColumnError(f"context names the column {name!r}, which is the log's action or reward; leave it out")
    _check_matrix("available", available, schema)
    _check_matrix("logging_probabilities", logging, schema)
    # A single column of eligible actions may hold lists of labels, which need no order.
    has_mask = len(available) > 1 or (available and kinds.is_boolean(schema.field(available[0]).type.value_type))
    _check_action(columns, schema, by_position=bool(logging or has_mask))
    features, n_features = _assign_features(context, schema, columns.hash_size)
    n_hashed = columns.hash_size * sum(feature.is_text for feature in features)
    return ColumnLayout(columns, features, available, logging, n_features, n_hashed > DENSE_LIMIT)


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


def _assign_features(context: tuple[str, ...], schema: pa.Schema, hash_size: int) -> tuple[tuple[Feature, ...], int]:
    """Return the features of each context column, and the number of all features."""
    features: list[Feature] = []
    n_features = 0
    for name in context:
        kind = kind_of(schema.field(name).type)
        if kind in ("list", "other"):
            raise ColumnError(
                f"context column {name!r} has type {schema.field(name).type}; contexts are numbers, booleans or text. "
                "Turn it into such columns first (a time into its hour and weekday, a list into one column per entry)"
            )
        features.append(Feature(name, kind == "text", n_features))
        n_features += hash_size if kind == "text" else 1
        if n_features > MOST_FEATURES:
            raise OptionError(f"the context has more than {MOST_FEATURES:,} features; lower hash_size")
    return tuple(features), n_features


def kind_of(type_: pa.DataType) -> str:
    """Return what a column of this type can serve as: number, text, list, empty (all null) or other.

    >>> kind_of(pa.bool_()), kind_of(pa.dictionary(pa.int8(), pa.string())), kind_of(pa.date32())
    ('number', 'text', 'other')
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
    return "other"
