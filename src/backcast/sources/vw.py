"""Logs of Vowpal Wabbit to logs: dsjson, and text of the kinds cb and cb_adf."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any

import numpy as np

from backcast.arrays import BoolArray, Contexts, FloatArray
from backcast.door import Coded, RowError, check_number_of_actions
from backcast.errors import LogError, OptionError, SourceError
from backcast.log import Log
from backcast.sources.files import path_text
from backcast.sources.layout import DENSE_LIMIT
from backcast.sources.limits import MOST_FEATURES, MOST_LINE, check_size, check_whole, lines_of
from backcast.sources.vw_events import Event, Features
from backcast.sources.vw_json import read_json_events
from backcast.sources.vw_text import read_adf_events, read_cb_events, text_kind
from backcast.sources.walking import matches

__all__ = ["looks_like_vw", "read_vw", "sample_vw"]

READERS: dict[str, Callable[[Iterable[tuple[int, str]]], Iterator[tuple[int, Event | None]]]] = {
    "dsjson": read_json_events,
    "cb": read_cb_events,
    "adf": read_adf_events,
}
MANY_ACTIONS = 100_000  # beyond it, a slip of the pen is likelier than a log
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def read_vw(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002
    hash_size: int = 128,
    n_actions: int | None = None,
    reward_scale: float = -1.0,
    reward_range: tuple[float, float] | None = None,
) -> Log:
    r"""Read a contextual-bandit log of Vowpal Wabbit.

    Features are hashed into ``hash_size`` numbers (signed, by scikit-learn's FeatureHasher). Decisions that list
    their actions (dsjson with ``_multi``, text with one line an action) give contexts ``(n, K, d)``: each action's
    features with the shared ones added, zeros and a mask where a decision has fewer than K. All logging
    probabilities are kept where dsjson has them.

    Left out, as Vowpal Wabbit does in learning: decisions without a label, those marked ``_skipLearn``, and
    observations that belong to none. Decisions on several slots (ccb, slates), continuous actions (cats) and
    interaction-grounded feedback (igl) are refused, and so are logs that were thinned at varying rates (``pdrop``).

    Parameters
    ----------
    path
        A file, a pattern, or a list of these; ``.gz``, ``.bz2`` and ``.xz`` are unpacked.
    format
        ``"dsjson"``, ``"cb"`` (a decision a line) or ``"adf"`` (a line an action), where the text does not say.
    hash_size
        Number of features d.
    n_actions
        Number of actions K; without it, the largest number seen.
    reward_scale
        What a cost is multiplied by to give the reward.
    reward_range
        Known bounds of the reward.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.vw")
    >>> _ = file.write_text("1:0.5:0.25 | age:2 new\n2:-1:0.75 | age:3\n")
    >>> log = read_vw(file)
    >>> log, log.action_labels, log.rewards
    (Log(2 events, 2 actions, 128 features), (1, 2), array([-0.5,  1. ]))
    """
    check_whole("hash_size", hash_size, MOST_FEATURES)
    if isinstance(n_actions, int):
        check_number_of_actions(n_actions)
    if format is not None and format not in READERS:
        raise OptionError(f"format is {format!r}; it must be one of {', '.join(map(repr, READERS))}")
    places: list[tuple[str, Event]] = []
    for file in _files(path):
        places.extend((file, event) for event in _events(file, format))
    if not places:
        raise LogError(f"{os.fspath(_files(path)[0])}: no decision with action, cost and probability is in it")
    events = [event for _, event in places]
    _check_alike(places)
    n_actions = _number_of_actions(places, n_actions)
    rewards = reward_scale * np.array([event.cost for event in events]) + 0.0  # no -0.0
    check_size(len(events), _numbers_an_event(events, n_actions, hash_size))
    try:
        return _log(events, n_actions, hash_size, rewards, reward_range)
    except RowError as error:
        file, event = places[error.row]
        raise error.moved(0, f"{file}, line {event.line}") from None


VW_ENDINGS = (".vw", ".dsjson")


def looks_like_vw(path: str) -> bool:
    """Whether a file's name, or its first line, is that of a log of Vowpal Wabbit.

    >>> looks_like_vw("day.dsjson.gz"), looks_like_vw("day.csv")
    (True, False)
    """
    stem = path.lower().removesuffix(os.path.splitext(path)[1] if os.path.splitext(path)[1] in OPENERS else "")
    if stem.endswith(VW_ENDINGS):
        return True
    if not stem.endswith((".json", ".jsonl", ".ndjson")) or not os.path.isfile(path):
        return False
    try:
        with _open(path) as stream:
            return '"_label_cost"' in stream.readline(MOST_LINE)
    except UNREADABLE:
        return False  # whoever reads it will say what is wrong with it


def sample_vw(path: str, events: int, kind: str | None = None) -> tuple[str, list[Event]]:
    """The kind of a log of Vowpal Wabbit, and its first decisions."""
    file = _files(path)[0]
    try:
        kind = kind or _kind(file)
    except (*UNREADABLE, ValueError) as problem:
        raise SourceError(f"{file}: cannot be read as a log of Vowpal Wabbit ({problem})") from None
    return kind, list(islice(_events(file, kind), events))


def _files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    given = list(path) if isinstance(path, Iterable) and not isinstance(path, str | bytes) else [path]
    found: list[str] = []
    for text in map(path_text, given):
        fitting = [text] if os.path.isfile(text) else list(filter(os.path.isfile, matches(text)))
        if not fitting:
            raise SourceError(f"no file matches {text!r}")
        found.extend(fitting)
    if not found:
        raise SourceError("the list of files is empty; name at least one")
    return found


class _Numbered:
    """Lines with their numbers; ``at`` is the one read last."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream, self.at = stream, 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for text in lines_of(self.stream):
            self.at += 1
            yield self.at, text


def _events(file: str, kind: str | None) -> Iterator[Event]:
    lines = None
    try:
        kind = kind or _kind(file)
        with _open(file) as stream:
            lines = _Numbered(stream)
            yield from (event for _, event in READERS[kind](lines) if event is not None)
    except (*UNREADABLE, ValueError, OverflowError, RecursionError, MemoryError) as problem:
        where = f"{file}, line {lines.at}" if lines else file
        raise SourceError(f"{where}: cannot be read as {kind or 'text'} ({problem})") from None


def _open(file: str) -> IO[str]:
    opener = OPENERS.get(os.path.splitext(file)[1], open)
    stream: IO[str] = opener(file, "rt", encoding="utf-8", errors="replace")
    return stream


def _kind(file: str) -> str:
    with _open(file) as stream:
        head = list(islice(lines_of(stream), 1000))
    while head and not head[0].strip():
        head.pop(0)
    return "dsjson" if head and head[0].lstrip()[:1] in ("{", "[") else text_kind(head)


def _check_alike(places: list[tuple[str, Event]]) -> None:
    first = places[0][1]
    for file, event in places:
        if (event.actions is None) != (first.actions is None):
            raise SourceError(
                f"{file}, line {event.line}: some decisions list features of their actions and others do not; "
                "read them apart"
            )
        if event.actions is not None and event.action >= len(event.actions):
            raise SourceError(
                f"{file}, line {event.line}: the logged action is number {event.action + 1}, but only "
                f"{len(event.actions)} are listed"
            )
        if event.actions is not None and len(event.probabilities or event.actions) != len(event.actions):
            raise SourceError(
                f"{file}, line {event.line}: {len(event.actions)} actions are listed, but "
                f"{len(event.probabilities or ())} probabilities"
            )
        if event.drop_rate != first.drop_rate:
            raise SourceError(
                f"{file}, line {event.line}: pdrop is {event.drop_rate:g}, and {first.drop_rate:g} before; a log that "
                "was thinned at varying rates is no fair sample. Draw the decisions that were kept anew, at one rate"
            )


def _number_of_actions(places: list[tuple[str, Event]], declared: int | None) -> int:
    file, largest = max(places, key=lambda place: place[1].n_actions)
    if declared is not None and largest.n_actions > declared:
        raise SourceError(f"{file}, line {largest.line}: {largest.n_actions} actions, but n_actions is {declared}")
    if declared is None and largest.n_actions > MANY_ACTIONS:
        raise SourceError(
            f"{file}, line {largest.line}: action number {largest.n_actions}; give n_actions if there are so many"
        )
    return largest.n_actions if declared is None else declared


def _log(
    events: list[Event], n_actions: int, hash_size: int, rewards: FloatArray, reward_range: tuple[float, float] | None
) -> Log:
    listed = events[0].actions is not None
    times = [event.time for event in events]
    return Log(
        _action_contexts(events, n_actions, hash_size) if listed else _shared_contexts(events, hash_size),
        Coded(np.array([event.action for event in events]), tuple(range(0 if listed else 1, n_actions + (not listed)))),
        rewards,
        np.array([event.probability for event in events]),
        available=_available(events, n_actions),
        times=None if None in times else np.array(times),
        reward_range=reward_range,
        logging_probabilities=_logging(events, n_actions),
    )


def _numbers_an_event(events: list[Event], n_actions: int, hash_size: int) -> int:
    """How many numbers of eight bytes an event is kept as."""
    contexts = hash_size * n_actions if events[0].actions is not None else hash_size * (hash_size <= DENSE_LIMIT)
    masked = any(event.eligible or event.actions for event in events)
    known = all(event.probabilities is not None for event in events)
    return contexts + 3 + n_actions * (masked + known)


def _hashed(rows: Iterable[Features], hash_size: int) -> Any:
    from sklearn.feature_extraction import FeatureHasher

    try:
        return FeatureHasher(hash_size, input_type="pair").transform(rows)
    except UnicodeEncodeError as problem:
        raise SourceError(f"a feature's name cannot be hashed ({problem}); it must be valid text") from None


def _shared_contexts(events: list[Event], hash_size: int) -> Contexts:
    matrix = _hashed((event.shared for event in events), hash_size)
    contexts: Contexts = matrix.toarray() if hash_size <= DENSE_LIMIT else matrix
    return contexts


def _action_contexts(events: list[Event], n_actions: int, hash_size: int) -> Contexts:
    rows = (row for event in events for row in _padded(event, n_actions))
    matrix = _hashed(rows, hash_size)
    try:
        return np.asarray(matrix.toarray()).reshape(len(events), n_actions, hash_size)
    except MemoryError:
        size = 8.0 * len(events) * n_actions * hash_size
        raise SourceError(
            f"{len(events):,} decisions among {n_actions} actions of {hash_size} features need {size / 1e9:,.0f} GB, "
            "more than there is; lower hash_size or read fewer files at a time"
        ) from None


def _padded(event: Event, n_actions: int) -> list[Features]:
    rows = [[*event.shared, *action] for action in event.actions or ()]
    return rows + [[]] * (n_actions - len(rows))


def _available(events: list[Event], n_actions: int) -> BoolArray | None:
    if not any(event.eligible or event.actions for event in events):
        return None
    counts = np.array([len(event.actions) if event.actions is not None else n_actions for event in events])
    mask: BoolArray = np.arange(n_actions) < counts[:, None]
    for row, event in enumerate(events):
        if event.eligible:
            mask[row] = [action in event.eligible for action in range(n_actions)]
    return None if mask.all() else mask


def _logging(events: list[Event], n_actions: int) -> FloatArray | None:
    if any(event.probabilities is None for event in events):
        return None
    matrix = np.zeros((len(events), n_actions))
    for row, event in enumerate(events):
        matrix[row, : len(event.probabilities or ())] = event.probabilities
    sums = matrix.sum(axis=1, keepdims=True)
    # Logged in single precision: seven digits do not sum to one exactly.
    return np.where(np.abs(sums - 1) < 1e-3, matrix / sums, matrix)
