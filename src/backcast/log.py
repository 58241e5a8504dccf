"""Log: columns of past decisions, validated when the log is built."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, concat_contexts, is_sparse
from backcast._log_validation import (
    check_available,
    check_feature_names,
    check_length,
    check_logging,
    check_propensities,
    check_reward_range,
    check_rewards,
    encode_actions,
    find_declared_actions,
    to_availability_mask,
    to_contexts,
    to_float_column,
    to_probability_matrix,
)
from backcast._outcome_columns import EncodedSegments, SegmentColumn, encode_segments, merge_segments, to_outcomes
from backcast._time_order import find_time_order, to_time_column
from backcast.errors import LogError
from backcast.provenance import LogSource
from backcast.reading_summary import ReadingSummary


class SparseMatrix(Protocol):
    """A sparse matrix of scipy, of any format."""

    def tocsr(self) -> Any:
        """Return the matrix in CSR format."""
        ...


class LogColumns(NamedTuple):
    """The arrays of a log, for code of the package; the properties of a log return read-only views of them.

    ``outcomes`` is ``(n, J)``, ``segments`` the ``(n, S)`` codes of segments. ``learned`` are the rewards that a policy
    learns from if ``rewards`` are those of another outcome, which is read off the same histories.
    """

    contexts: Contexts
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    available: BoolArray | None
    times: npt.NDArray[Any] | None
    logging_probabilities: FloatArray | None
    rows: IntArray
    outcomes: FloatArray | None = None
    segments: IntArray | None = None
    learned: FloatArray | None = None

    @property
    def learned_rewards(self) -> FloatArray:
        """The rewards that a policy learns from."""
        return self.rewards if self.learned is None else self.learned


class Log:
    """Past decisions: context, chosen action, reward, and the probability of that choice.

    Parameters
    ----------
    contexts
        ``(n, d)`` array or scipy CSR matrix, ``(n, K, d)`` array of features of each action, or
        None if there are none.
    actions
        The chosen action of each event: codes ``0..K-1`` or any labels (strings, numbers).
    rewards
        One finite number per event.
    propensities
        Probability in ``(0, 1]`` with which the logged action was chosen.
    n_actions
        Number of actions K, if some may not occur in the log.
    action_labels
        The K labels in order; actions are then given as labels.
    available
        ``(n, K)`` mask of the eligible actions of each event.
    times
        The time of each event: numbers, dates, or text in ISO 8601. The events of a log with times are in the order
        of time: rows that are not are moved, ties stay in row order, and :attr:`rows` holds the row numbers of the
        arguments.
    reward_range
        Known bounds ``(low, high)`` of the reward.
    logging_probabilities
        ``(n, K)`` probabilities of all actions under the logger, if recorded.
    feature_names
        The d names of the context features, for messages; "feature 0", "feature 1" and so on if not given.
    outcomes
        Further outcomes by name, one finite number per event each: what else :func:`backcast.compare` reads off the
        same histories, such as clicks or latency. Policies learn from the reward alone.
    segments
        Columns by name to break results down by, one value per event each: text or few numbers; None and nan are the
        segment "missing".

    Examples
    --------
    >>> log = Log(contexts=[[0.0], [1.0]], actions=["mail", "none"], rewards=[1, 0], propensities=[0.5, 0.25])
    >>> log
    Log(2 events, 2 actions, 1 feature)
    >>> log.actions, log.action_labels
    (array([0, 1]), ('mail', 'none'))
    >>> log[1:].propensities
    array([0.25])
    >>> late_first = Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.25], times=[20, 10])
    >>> late_first.rewards, late_first.rows
    (array([0., 1.]), array([1, 0]))

    Attributes
    ----------
    source
        The files that the log was read from, and how; None for a log from arrays or frames, and for a part of a log.
    """

    FIELDS = (
        *("_names", "action_labels", "columns", "n_actions", "propensities_estimated", "reading", "reward_range"),
        *("source", "outcome_names", "segment_columns"),
    )
    __slots__ = (*FIELDS, "__weakref__", "_digest")

    columns: LogColumns
    n_actions: int
    action_labels: tuple[Any, ...]
    reward_range: tuple[float, float] | None
    propensities_estimated: bool
    reading: ReadingSummary
    _names: tuple[str, ...] | None
    source: LogSource | None
    outcome_names: tuple[str, ...]
    segment_columns: tuple[SegmentColumn, ...]
    _digest: str

    def __init__(
        self,
        contexts: npt.ArrayLike | SparseMatrix | None,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        propensities: npt.ArrayLike,
        *,
        n_actions: int | None = None,
        action_labels: Sequence[Any] | None = None,
        available: npt.ArrayLike | None = None,
        times: npt.ArrayLike | Sequence[Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        logging_probabilities: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        outcomes: Mapping[str, npt.ArrayLike] | None = None,
        segments: Mapping[str, Any] | EncodedSegments | None = None,
    ) -> None:
        reward_column = to_float_column(rewards, "reward")
        n = reward_column.size
        if n == 0:
            raise LogError("the log is empty; it needs at least one event")
        features = to_contexts(contexts, n, feature_names)
        propensity = to_float_column(propensities, "propensity")
        mask = to_availability_mask(available)
        logging = to_probability_matrix(logging_probabilities)
        declared = find_declared_actions(features, mask, logging, n_actions, action_labels)
        codes, labels = encode_actions(actions, declared, action_labels)
        given: tuple[tuple[str, Any], ...] = (("contexts", features), ("actions", codes), ("propensities", propensity))
        for name, column in given:
            check_length(name, column.shape[0], n)
        time = to_time_column(times)
        for name, optional in (("available", mask), ("times", time), ("logging_probabilities", logging)):
            if optional is not None:
                check_length(name, optional.shape[0], n)
        check_rewards(reward_column, reward_range)
        check_propensities(propensity)
        check_available(mask, codes, labels)
        logging = check_logging(logging, codes, propensity, len(labels))
        rows = np.arange(n, dtype=np.int64)
        segment_codes, segment_columns = encode_segments(segments, n)
        outcome_names, outcome_table = to_outcomes(outcomes, n)
        columns = LogColumns(
            *(features, codes, reward_column, propensity, mask, time, logging, rows, outcome_table, segment_codes)
        )
        order = find_time_order(time)
        self._set(
            columns=columns if order is None else _take(columns, order),
            n_actions=len(labels),
            action_labels=labels,
            reward_range=None if reward_range is None else check_reward_range(reward_range),
            propensities_estimated=False,
            reading=ReadingSummary(
                events=n,
                order="rows" if time is None else "times",
                moved=0 if order is None else int((order != rows).sum()),
            ),
            _names=check_feature_names(feature_names, features.shape[-1]),
            source=None,
            outcome_names=outcome_names,
            segment_columns=segment_columns,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        context: Sequence[str] | str,
        action: str,
        reward: str,
        propensity: str | float | None,
        **options: Any,
    ) -> Log:
        """Build a log from any Arrow frame: pandas, polars, pyarrow, duckdb.

        ``context`` takes names and glob patterns; ``options`` are those of :func:`backcast.read_log`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> frame = pa.table({"hour": [1, 2], "shown": ["a", "b"], "click": [0, 1], "p": [0.5, 0.5]})
        >>> Log.from_frame(frame, context="hour", action="shown", reward="click", propensity="p")
        Log(2 events, 2 actions, 1 feature)
        """
        from backcast.io._columns import make_column_spec
        from backcast.io.tables import log_from_frame

        columns = make_column_spec(context=context, action=action, reward=reward, propensity=propensity, **options)
        return log_from_frame(frame, columns)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Log is immutable; build a new one to change {name!r}")

    def __len__(self) -> int:
        return self.columns.rewards.size

    def __repr__(self) -> str:
        d = self.n_features
        kind = " per action" if self.has_action_features else ""
        return f"Log({len(self):,} events, {self.n_actions} actions, {d} feature{'' if d == 1 else 's'}{kind})"

    def __getitem__(self, index: Any) -> Log:
        """Return the events of a slice, an index array or a boolean mask as a log."""
        if not isinstance(index, slice):
            index = np.atleast_1d(index)
            index = index if index.size else index.astype(np.int64)
        return _rebuild({**self._fields(), "columns": _take(self.columns, index), "source": None})

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.FIELDS}

    @property
    def n_events(self) -> int:
        """Number of events."""
        return len(self)

    def slice(self, start: int, stop: int) -> Log:
        """Return the events ``start..stop-1``."""
        return self[start:stop]

    def split_head(self, n: int) -> tuple[Log, Log | None]:
        """Return the first ``n`` events and the others; None if there are no others.

        >>> log = Log(None, actions=[0, 1, 0], rewards=[1, 2, 3], propensities=[0.5] * 3)
        >>> [part.rewards.tolist() for part in log.split_head(2)], log.split_head(3)[1]
        ([[1.0, 2.0], [3.0]], None)
        """
        return self[:n], self[n:] if len(self) > n else None

    def parts(self) -> Iterator[Log]:
        """Iterate over the log in parts that fit into memory: here one, the log itself."""
        yield self

    def fingerprint(self) -> str:
        """Return a digest of everything in the log that an estimate depends on.

        >>> log = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
        >>> other = Log(None, actions=[0, 1], rewards=[1, 1], propensities=[0.5, 0.5])
        >>> log.fingerprint() == log[:].fingerprint(), log.fingerprint() == other.fingerprint()
        (True, False)
        """
        # a log is immutable, and hashing takes about a second per gigabyte
        if not hasattr(self, "_digest"):
            self._set(_digest=self._compute_digest())
        return self._digest

    def _compute_digest(self) -> str:
        facts = f"{len(self)} {self.n_actions} {self.reward_range} {self.action_labels}"
        if self.outcome_names or self.segment_columns:
            facts += f" {self.outcome_names} {self.segment_columns}"
        digest = hashlib.sha256(facts.encode())
        contexts: Any = self.columns.contexts
        features = (contexts.data, contexts.indices, contexts.indptr) if is_sparse(contexts) else (contexts,)
        columns = self.columns
        for column in (
            *features,
            columns.actions,
            columns.rewards,
            columns.propensities,
            columns.available,
            columns.logging_probabilities,
            # logs without these have the digests that they had before there were any
            *(column for column in (columns.outcomes, columns.segments, columns.learned) if column is not None),
        ):
            if column is None:
                digest.update(b"-")
                continue
            array = np.ascontiguousarray(column)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.data if array.size else b"")
        return digest.hexdigest()[:16]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._fields(),)

    @property
    def contexts(self) -> Contexts:
        """Context of each event, read-only: ``(n, d)`` dense or CSR, or ``(n, K, d)``."""
        contexts: Any = self.columns.contexts
        if not is_sparse(contexts):
            return _locked(np.asarray(contexts))
        arrays = tuple(map(_locked, (contexts.data, contexts.indices, contexts.indptr)))
        return type(contexts)(arrays, shape=contexts.shape)

    @property
    def actions(self) -> IntArray:
        """Code ``0..K-1`` of the logged action of each event, read-only."""
        return _locked(self.columns.actions)

    @property
    def rewards(self) -> FloatArray:
        """Reward of each event, read-only."""
        return _locked(self.columns.rewards)

    @property
    def propensities(self) -> FloatArray:
        """Probability with which each logged action was chosen, read-only."""
        return _locked(self.columns.propensities)

    @property
    def available(self) -> BoolArray | None:
        """``(n, K)`` mask of eligible actions, or None if all actions are always eligible."""
        return None if self.columns.available is None else _locked(self.columns.available)

    @property
    def times(self) -> npt.NDArray[Any] | None:
        """Time of each event, or None."""
        return None if self.columns.times is None else _locked(self.columns.times)

    @property
    def logging_probabilities(self) -> FloatArray | None:
        """``(n, K)`` probabilities of all actions under the logger, or None."""
        return None if self.columns.logging_probabilities is None else _locked(self.columns.logging_probabilities)

    @property
    def outcomes(self) -> dict[str, FloatArray]:
        """Further outcomes of each event by name, read-only.

        >>> Log(None, [0, 1], [1, 0], [0.5, 0.5], outcomes={"ms": [12, 30]}).outcomes
        {'ms': array([12., 30.])}
        """
        table = self.columns.outcomes
        return {} if table is None else {name: _locked(table[:, j]) for j, name in enumerate(self.outcome_names)}

    @property
    def segments(self) -> dict[str, npt.NDArray[np.str_]]:
        """Label of each event's segment, by segment column.

        >>> Log(None, [0, 1], [1, 0], [0.5, 0.5], segments={"device": ["phone", None]}).segments
        {'device': array(['phone', 'missing'], dtype='<U7')}
        """
        codes = self.columns.segments
        if codes is None:
            return {}
        return {name: np.array(labels)[codes[:, j]] for j, (name, labels) in enumerate(self.segment_columns)}

    @property
    def segment_names(self) -> tuple[str, ...]:
        """Names of the segment columns."""
        return tuple(column.name for column in self.segment_columns)

    @property
    def rows(self) -> IntArray:
        """Row number of each event in the arguments, frame or files it comes from; slicing and sorting keep it.

        Tables of predictions and of probabilities, and messages about an event, are by row number.
        """
        return _locked(self.columns.rows)

    @property
    def n_features(self) -> int:
        """Number of context features d (per action, if contexts are ``(n, K, d)``)."""
        return int(self.columns.contexts.shape[-1])

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each context feature.

        >>> Log([[0.0, 1.0]], [0], [1], [1.0], feature_names=["age", "is new"]).feature_names
        ('age', 'is new')
        """
        return tuple(map(self.feature_name, range(self.n_features))) if self._names is None else self._names

    def feature_name(self, feature: int) -> str:
        """Return the name of one feature."""
        return f"feature {feature}" if self._names is None else self._names[feature]

    @property
    def has_action_features(self) -> bool:
        """Whether contexts are ``(n, K, d)``: features of each action."""
        return self.columns.contexts.ndim == 3

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """The declared reward range, or the smallest and largest reward seen."""
        if self.reward_range is not None:
            return self.reward_range
        return float(self.columns.rewards.min()), float(self.columns.rewards.max())

    @property
    def bytes_in_memory(self) -> int:
        """Memory of all columns."""
        contexts: Any = self.columns.contexts
        features = (contexts.data, contexts.indices, contexts.indptr) if is_sparse(contexts) else (contexts,)
        return sum(array.nbytes for array in (*features, *self.columns[1:]) if array is not None)

    @property
    def smallest_propensity(self) -> float:
        """``min_k min_a mu(a|x_k)`` where the logger's probabilities are recorded, else the smallest propensity."""
        if self.columns.logging_probabilities is None:
            return float(self.columns.propensities.min())
        return float(self.columns.logging_probabilities[self.columns.logging_probabilities > 0].min())

    @property
    def smallest_propensity_is_known(self) -> bool:
        """Whether no propensity of this logger can be smaller: all are recorded, or all are those of a uniform choice.

        >>> Log(None, [0, 1], [0, 0], [0.5, 0.5]).smallest_propensity_is_known
        True
        >>> Log(None, [0, 1], [0, 0], [0.4, 0.6]).smallest_propensity_is_known
        False
        """
        if self.columns.logging_probabilities is not None:
            return True
        extremes = self.columns.propensities.min(), self.columns.propensities.max()
        return bool(np.allclose(extremes, 1 / self.n_actions, rtol=1e-6, atol=0.0))


def _take(columns: LogColumns, index: Any) -> LogColumns:
    taken: Any = [None if column is None else column[index] for column in columns]
    return LogColumns(*taken)


def _rebuild(fields: dict[str, Any]) -> Log:
    log = object.__new__(Log)
    log._set(**fields)
    return log


def _locked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def concat_logs(parts: Sequence[Log]) -> Log:
    """Concatenate logs of the same layout.

    >>> log = Log(contexts=[[0.0], [1.0], [2.0]], actions=[0, 1, 0], rewards=[1, 2, 3], propensities=[0.5] * 3)
    >>> concat_logs([log[:1], log[1:]]).rewards
    array([1., 2., 3.])
    """
    contexts = concat_contexts([part.columns.contexts for part in parts])
    if any(_layout_of(part) != _layout_of(parts[0]) for part in parts):
        raise LogError("the logs have different outcomes or segment columns; give the same ones for all of them")
    others: Any = [
        None if columns[0] is None else np.concatenate(columns)
        for columns in zip(*(part.columns[1:] for part in parts), strict=True)
    ]
    # labels of segments may differ from part to part
    segments = merge_segments([EncodedSegments(part.columns.segments, part.segment_columns) for part in parts])
    columns = LogColumns(contexts, *others)._replace(segments=segments.codes)
    fields = {**parts[0]._fields(), "columns": columns, "source": None, "segment_columns": segments.columns}
    return _rebuild(fields)


def _layout_of(log: Log) -> tuple[Any, ...]:
    return log.outcome_names, [column.name for column in log.segment_columns]


def replace_columns(log: Log, **fields: Any) -> Log:
    """Return a copy with other columns or other fields, which are not checked.

    >>> log = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
    >>> replace_columns(log, rewards=np.array([2.0, 3.0]), reward_range=(0, 4)).rewards
    array([2., 3.])
    """
    columns = {name: value for name, value in fields.items() if name in LogColumns._fields}
    others = {name: value for name, value in fields.items() if name not in columns}
    replaced = log.columns._replace(**columns)
    if replaced.contexts.shape[-1] != log.n_features:
        others.setdefault("_names", None)
    return _rebuild({**log._fields(), "source": None, "columns": replaced, **others})
