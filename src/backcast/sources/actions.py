"""Labels of actions: found once, then every part is coded alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from backcast.arrays import BoolArray, IntArray
from backcast.door import RowError, action_codes, check_number_of_actions, not_a_label
from backcast.sources.encode import distinct, list_rows, values_of
from backcast.sources.layout import Layout

__all__ = ["ActionCoder", "known_labels", "labels_among"]


def known_labels(layout: Layout, type_: pa.DataType) -> tuple[Any, ...] | None:
    """The labels, where they need not be looked for: declared, or booleans.

    >>> from backcast.sources.columns import Columns
    >>> columns = Columns(context=(), action="a", reward="r", propensity="p", n_actions=3)
    >>> known_labels(Layout(columns, (), (), (), 0, False), pa.int8())
    (0, 1, 2)
    """
    if layout.columns.action_labels is not None:
        labels = tuple(layout.columns.action_labels)
        return action_codes(labels, None, labels)[1]
    if kinds.is_boolean(type_) and layout.declared in (None, 2):
        return (False, True)
    if layout.declared is not None and (kinds.is_integer(type_) or kinds.is_floating(type_)):
        return tuple(range(layout.declared))
    return None


def labels_among(columns: Iterable[pa.Array], declared: int | None) -> tuple[Any, ...]:
    """The labels seen in these columns, by the rules of :func:`backcast.door.action_codes`.

    >>> labels_among([pa.array([7, 3]), pa.array([3, None])], None)
    (3, 7)
    """
    seen: set[Any] = set()
    for column in columns:
        seen.update(values_of(pc.unique(column)))
        check_number_of_actions(len(seen) - 1)  # one may be null
    # A missing action is reported with its row, when the rows are read.
    labels = [label for label in seen if label is not None and label == label]
    return action_codes(labels, declared, None)[1] if labels else ()


@dataclass(frozen=True)
class ActionCoder:
    """Codes ``0..K-1`` of the actions in an Arrow column.

    >>> ActionCoder(("call", "mail")).codes(pa.array(["mail", "mail", "call"]))
    array([1, 1, 0])
    """

    labels: tuple[Any, ...]

    @cached_property
    def _position(self) -> Mapping[Any, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def _is_range(self) -> bool:
        return self.labels == tuple(range(len(self.labels)))

    def codes(self, column: pa.Array) -> IntArray:
        """The code of each action; an action that is none of the labels is refused with its row."""
        if self._is_range and kinds.is_integer(column.type) and not column.null_count:
            codes: IntArray = np.asarray(column.to_numpy(zero_copy_only=False))
            wrong = np.flatnonzero((codes < 0) | (codes >= len(self.labels)))
            codes = codes.astype(np.int64, copy=False)
        else:
            values, positions = distinct(column)
            codes = np.array([self._position.get(value, -1) for value in values], dtype=np.int64)[positions]
            wrong = np.flatnonzero(codes < 0)
        if wrong.size:
            row = int(wrong[0])
            raise not_a_label(row, column[row].as_py(), self.labels)
        return codes

    def mask(self, column: pa.Array, name: str) -> BoolArray:
        """Eligible actions ``(n, K)`` from a column of lists, of K booleans or of labels."""
        entries, lengths = list_rows(column, name, "available")
        owner = np.repeat(np.arange(lengths.size), lengths)
        mask = np.zeros((lengths.size, len(self.labels)), dtype=np.bool_)
        try:
            mask[owner, self.codes(entries)] = True
        except RowError as error:
            raise RowError(int(owner[error.row]), f"in column {name!r} (available), {error.problem}") from None
        return mask
