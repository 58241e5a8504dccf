"""Features of Vowpal Wabbit's decisions: crossed, and hashed into a fixed number of columns.

A feature goes to column ``abs(h) mod d`` with the sign of ``h``, its 32-bit murmur3 hash (as in scikit-learn's
FeatureHasher). The hash of two crossed features is ``(h1 * 16777619) xor h2``, as in Vowpal Wabbit, so that crossing
needs no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.errors import OptionError, SourceError
from backcast.io._vw_events import Feature, Features, VwEvent

SHARED_BY_ACTION = "shared x action"  # the crossing of every shared feature with every feature of the action
ANY, DEFAULT_NAMESPACE = ":", " "
CROSSING_PRIME = np.uint32(16777619)  # of the FNV hash
CHUNK_PAIRS = 2**21  # crossed pairs made at a time, about 100 bytes each
MOST_PAIRS = 2**23  # of one decision: more are a fault of the log, not features


def resolve_interactions(interactions: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the crossings as pairs of letters, or the default one.

    >>> resolve_interactions("auto"), resolve_interactions(["UA", "::"]), resolve_interactions(None)
    (('shared x action',), ('UA', '::'), ())
    """
    if isinstance(interactions, str):
        interactions = [SHARED_BY_ACTION] if interactions == "auto" else [interactions]
    pairs = tuple(interactions or ())
    for pair in pairs:
        if pair != SHARED_BY_ACTION and not (isinstance(pair, str) and len(pair) == 2):
            raise OptionError(
                f"interactions holds {pair!r}; give pairs of first letters of namespaces as for -q of Vowpal Wabbit, "
                "such as 'UA' (':' for any namespace), 'auto', or None for none"
            )
    return pairs


class _FlatFeatures(NamedTuple):
    """Features of consecutive rows, one after another: one row per listed action, or per event."""

    rows: IntArray
    hashes: npt.NDArray[np.uint32]
    values: FloatArray
    letters: npt.NDArray[np.str_]
    shared: BoolArray


class FeatureHashing:
    """Hash features into ``size`` columns, with crossings; remembers the hashes of names."""

    def __init__(self, size: int, interactions: tuple[str, ...]) -> None:
        self.size, self.interactions = size, interactions
        self._hashes: dict[str, int] = {}

    def transform(self, events: Sequence[VwEvent], n_actions: int, is_sparse: bool) -> Contexts:
        """Return features ``(n, K, d)`` if decisions list their actions, else ``(n, d)``, dense or CSR."""
        import scipy.sparse

        rows_per_event = 1 if events[0].actions is None else n_actions
        target = None if is_sparse else np.zeros((len(events) * rows_per_event, self.size))
        blocks: list[Any] = []
        for start, stop in self._chunks(events):
            n_rows = (stop - start) * rows_per_event
            rows, columns, values = self._entries(self._flatten(events[start:stop], rows_per_event))
            block = scipy.sparse.coo_array((values, (rows, columns)), shape=(n_rows, self.size)).tocsr()
            if target is None:
                blocks.append(block)
            else:
                target[start * rows_per_event : stop * rows_per_event] = block.toarray()
        if target is None:
            return scipy.sparse.csr_array(scipy.sparse.vstack(blocks))
        return target if events[0].actions is None else target.reshape(len(events), n_actions, self.size)

    def _chunks(self, events: Sequence[VwEvent]) -> Iterator[tuple[int, int]]:
        """Yield ranges of events whose crossed pairs fit in memory."""
        start = total = 0
        for index, event in enumerate(events):
            lengths = [len(event.shared) + len(action) for action in event.actions or [[]]]
            pairs = sum(
                len(event.shared) * (length - len(event.shared)) if pair == SHARED_BY_ACTION else length**2
                for pair in self.interactions
                for length in lengths
            )
            if pairs > MOST_PAIRS:
                raise SourceError(
                    f"line {event.line}: crossing makes up to {pairs:,} features of one decision, and {MOST_PAIRS:,} "
                    "are the most; give interactions=None, or pairs of smaller namespaces"
                )
            total += pairs + sum(lengths)
            if total > CHUNK_PAIRS and index > start:
                yield start, index
                start, total = index, pairs + sum(lengths)
        yield start, len(events)

    def _flatten(self, events: Sequence[VwEvent], rows_per_event: int) -> _FlatFeatures:
        rows: list[int] = []
        hashes: list[int] = []
        values: list[float] = []
        letters: list[str] = []
        shared: list[bool] = []
        for index, event in enumerate(events):
            for position, own in enumerate(event.actions if event.actions is not None else [[]]):
                for number, feature in enumerate(chain(event.shared, own)):
                    rows.append(index * rows_per_event + position)
                    hashes.append(self._hash(feature.name))
                    values.append(feature.value)
                    letters.append(_letter(feature))
                    shared.append(number < len(event.shared))
        return _FlatFeatures(
            np.array(rows, dtype=np.int64),
            np.array(hashes, dtype=np.uint32),
            np.array(values, dtype=np.float64),
            np.array(letters, dtype="U1"),
            np.array(shared, dtype=np.bool_),
        )

    def _hash(self, name: str) -> int:
        code = self._hashes.get(name)
        if code is None:
            from sklearn.utils import murmurhash3_32

            try:
                code = self._hashes[name] = int(murmurhash3_32(name.encode(), seed=0, positive=True))
            except UnicodeEncodeError as problem:
                raise SourceError(
                    f"the name of a feature cannot be hashed ({problem}); it must be valid text"
                ) from None
        return code

    def _entries(self, flat: _FlatFeatures) -> tuple[IntArray, IntArray, FloatArray]:
        """Return row, column and value of every feature and every crossed pair."""
        rows, hashes, values = [flat.rows], [flat.hashes], [flat.values]
        for pair in self.interactions:
            left, right = _find_members(flat, pair)
            first, second = _pair_features(flat.rows, left, right)
            rows.append(flat.rows[first])
            hashes.append((flat.hashes[first] * CROSSING_PRIME) ^ flat.hashes[second])
            with np.errstate(over="ignore", invalid="ignore"):  # the log refuses contexts that are not finite
                values.append(flat.values[first] * flat.values[second])
        signed = np.concatenate(hashes).view(np.int32).astype(np.int64)
        return (
            np.concatenate(rows),
            np.abs(signed) % self.size,
            np.where(signed < 0, -1.0, 1.0) * np.concatenate(values),
        )


def list_letters(event: VwEvent) -> set[str]:
    """Return the first letters of the namespaces of all features of a decision."""
    return {_letter(feature) for feature in chain(event.shared, *(event.actions or ()))}


def crosses(event: VwEvent, pair: str) -> bool:
    """Return whether a crossing makes a feature of any action of the decision.

    >>> user, item = Feature("user", "user^old", 1.0), Feature("item", "item^news", 1.0)
    >>> event = VwEvent(1, 0, cost=0.0, probability=0.5, shared=[user], actions=[[item], []])
    >>> [crosses(event, pair) for pair in ("ui", "ii", "ux", SHARED_BY_ACTION)]
    [True, True, False, True]
    """
    listed: list[Features] = [[]] if event.actions is None else event.actions
    for own in listed:
        if pair == SHARED_BY_ACTION:
            if event.shared and own:
                return True
            continue
        letters = set(map(_letter, chain(event.shared, own)))
        if all(letter in letters or (letter == ANY and letters) for letter in pair):
            return True
    return False


def _letter(feature: Feature) -> str:
    return feature.namespace[:1] or DEFAULT_NAMESPACE


def _find_members(flat: _FlatFeatures, pair: str) -> tuple[BoolArray, BoolArray]:
    if pair == SHARED_BY_ACTION:
        return flat.shared, ~flat.shared
    everything = np.ones(flat.rows.size, dtype=np.bool_)
    left, right = (everything if letter == ANY else flat.letters == letter for letter in pair)
    return left, right


def _pair_features(rows: IntArray, left: BoolArray, right: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the positions of both features of every pair within a row; a pair in two orders counts once.

    >>> rows, some = np.array([0, 0, 0, 1, 1]), np.array([True, False, False, True, False])
    >>> _pair_features(rows, some, ~some)
    (array([0, 0, 3]), array([1, 2, 4]))
    """
    if not rows.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lefts, rights = np.flatnonzero(left), np.flatnonzero(right)
    n_rights = np.bincount(rows[rights], minlength=int(rows[-1]) + 1)
    partners = n_rights[rows[lefts]]
    first = np.repeat(lefts, partners)
    offset = np.arange(first.size) - np.repeat(np.cumsum(partners) - partners, partners)
    second = rights[(np.cumsum(n_rights) - n_rights)[rows[first]] + offset]
    is_repeated = (first > second) & left[second] & right[first]
    return first[~is_repeated], second[~is_repeated]
