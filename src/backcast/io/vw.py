"""read_vw: contextual-bandit logs of Vowpal Wabbit (dsjson, cb and adf text) to a Log."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, dropwhile, islice, takewhile
from typing import IO, Any

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._log_validation import EncodedActions, RowError, check_number_of_actions
from backcast.errors import LogError, OptionError, SourceError
from backcast.io._columns import DENSE_LIMIT
from backcast.io._files import FilePath, list_paths, match_pattern
from backcast.io._vw_events import EVENT_READERS, Features, Lines, VwEvent
from backcast.io.limits import MOST_FEATURES, MOST_LINE, check_positive_integer, check_size, read_lines
from backcast.log import Log, replace_columns
from backcast.provenance import log_source

VW_EXTENSIONS = (".vw", ".dsjson")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
FILE_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
MANY_ACTIONS = 100_000  # a larger action number is more likely a typing error than a log


def read_vw(
    path: FilePath | Sequence[FilePath],
    *,
    format: str | None = None,  # noqa: A002
    hash_size: int = 128,
    n_actions: int | None = None,
    reward_scale: float = -1.0,
    reward_range: tuple[float, float] | None = None,
) -> Log:
    r"""Read a contextual-bandit log of Vowpal Wabbit.

    Features are hashed into ``hash_size`` numbers (signed, by scikit-learn's FeatureHasher). Decisions that list
    their actions (dsjson with ``_multi``, text with one line per action) give contexts ``(n, K, d)``: the features of
    each action plus the shared ones, zeros and a mask if a decision has fewer than K actions. The logging
    probabilities of all actions are kept if dsjson has them.

    As in Vowpal Wabbit's learning, decisions without a label, decisions marked ``_skipLearn`` and observations without
    a decision are left out. Decisions on several slots (ccb, slates), continuous actions (cats) and
    interaction-grounded feedback (igl) are refused, and so are logs that were subsampled at varying rates (``pdrop``).

    Parameters
    ----------
    path
        A file, a pattern, or a list of these; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
    format
        ``"dsjson"``, ``"cb"`` (one line per decision) or ``"adf"`` (one line per action); by default detected.
    hash_size
        Number of features d.
    n_actions
        Number of actions K; by default the largest number in the log.
    reward_scale
        Factor that turns a cost into a reward.
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
    options = {
        "format": format,
        "hash_size": hash_size,
        "n_actions": n_actions,
        "reward_scale": reward_scale,
        "reward_range": reward_range,
    }
    check_positive_integer("hash_size", hash_size, MOST_FEATURES)
    if isinstance(n_actions, int):
        check_number_of_actions(n_actions)
    if format is not None and format not in EVENT_READERS:
        raise OptionError(f"format is {format!r}; it must be one of {', '.join(map(repr, EVENT_READERS))}")
    files = _find_files(path)
    located = [(file, event) for file in files for event in _read_events(file, format or _detect_format(file))]
    if not located:
        raise LogError(f"{files[0]}: no decision with action, cost and probability is in it")
    _check_consistent(located)
    n_actions = _find_number_of_actions(located, n_actions)
    try:
        log = _build_log([event for _, event in located], n_actions, hash_size, reward_scale, reward_range)
    except RowError as error:
        file, event = located[error.row]
        raise error.shift(0, f"{file}, line {event.line}") from None
    return replace_columns(log, source=log_source("read_vw", path, options))


def looks_like_vw(path: str) -> bool:
    """Return whether the name of a file, or its first line, is that of a log of Vowpal Wabbit.

    >>> looks_like_vw("day.dsjson.gz"), looks_like_vw("day.csv")
    (True, False)
    """
    extension = os.path.splitext(path)[1]
    stem = path.lower().removesuffix(extension if extension in OPENERS else "")
    if stem.endswith(VW_EXTENSIONS):
        return True
    if not stem.endswith((".json", ".jsonl", ".ndjson")) or not os.path.isfile(path):
        return False
    try:
        with _open(path) as stream:
            return '"_label_cost"' in stream.readline(MOST_LINE)
    except FILE_ERRORS:
        return False  # reported when the file is read


def sample_vw(path: str, n_events: int, vw_format: str | None = None) -> tuple[str, list[VwEvent]]:
    """Return the format of a log of Vowpal Wabbit, and its first decisions."""
    file = _find_files(path)[0]
    vw_format = vw_format or _detect_format(file)
    return vw_format, list(islice(_read_events(file, vw_format), n_events))


def _find_files(path: FilePath | Sequence[FilePath]) -> list[str]:
    files: list[str] = []
    for text in list_paths(path):
        matches = [text] if os.path.isfile(text) else list(filter(os.path.isfile, match_pattern(text)))
        if not matches:
            raise SourceError(f"no file matches {text!r}")
        files += matches
    return files


def _open(file: str) -> IO[str]:
    opener = OPENERS.get(os.path.splitext(file)[1], open)
    stream: IO[str] = opener(file, "rt", encoding="utf-8", errors="replace")
    return stream


def _read_events(file: str, vw_format: str) -> Iterator[VwEvent]:
    line = 0

    def number_lines(stream: IO[str]) -> Lines:
        nonlocal line
        for line, text in enumerate(read_lines(stream), 1):  # noqa: UP028  # sets the line that an error names
            yield line, text

    try:
        with _open(file) as stream:
            yield from filter(None, EVENT_READERS[vw_format](number_lines(stream)))
    except (*FILE_ERRORS, ValueError, OverflowError, RecursionError, MemoryError) as problem:
        where = f"{file}, line {line}" if line else file
        raise SourceError(f"{where}: cannot be read as {vw_format} ({problem})") from None


def _detect_format(file: str) -> str:
    try:
        with _open(file) as stream:
            head = list(islice(read_lines(stream), 1000))
    except (*FILE_ERRORS, ValueError) as problem:
        raise SourceError(f"{file}: cannot be read as text ({problem})") from None
    first_block = list(takewhile(str.strip, dropwhile(lambda line: not line.strip(), head)))
    if first_block and first_block[0].lstrip()[0] in "{[":
        return "dsjson"
    # Only adf has shared lines and lines without a label.
    is_adf = any(line.startswith("shared") or not line.partition("|")[0].strip() for line in first_block)
    return "adf" if is_adf else "cb"


def _check_consistent(located: list[tuple[str, VwEvent]]) -> None:
    """Refuse decisions that contradict themselves or do not belong in one log."""
    first = located[0][1]
    for file, event in located:
        n_listed = None if event.actions is None else len(event.actions)
        problem = ""
        if (event.actions is None) != (first.actions is None):
            problem = "some decisions list features of their actions and others do not; read them separately"
        elif n_listed is not None and event.action >= n_listed:
            problem = f"the logged action is number {event.action + 1}, but only {n_listed} are listed"
        elif n_listed is not None and event.probabilities and len(event.probabilities) != n_listed:
            problem = f"{n_listed} actions are listed, but {len(event.probabilities)} probabilities"
        elif event.drop_rate != first.drop_rate:
            problem = (
                f"pdrop is {event.drop_rate:g}, and {first.drop_rate:g} before; a log that was subsampled at varying "
                "rates is no fair sample. Subsample the remaining decisions again, so that all have one rate"
            )
        if problem:
            raise SourceError(f"{file}, line {event.line}: {problem}")


def _find_number_of_actions(located: list[tuple[str, VwEvent]], declared: int | None) -> int:
    file, largest = max(located, key=lambda pair: pair[1].n_actions)
    if declared is not None and largest.n_actions > declared:
        raise SourceError(f"{file}, line {largest.line}: {largest.n_actions} actions, but n_actions is {declared}")
    if declared is None and largest.n_actions > MANY_ACTIONS:
        raise SourceError(
            f"{file}, line {largest.line}: action number {largest.n_actions}; give n_actions if there are so many"
        )
    return largest.n_actions if declared is None else declared


def _build_log(
    events: list[VwEvent], n_actions: int, hash_size: int, reward_scale: float, reward_range: tuple[float, float] | None
) -> Log:
    has_mask = any(event.eligible or event.actions for event in events)
    has_probabilities = all(event.probabilities is not None for event in events)
    contexts = _build_contexts(events, n_actions, hash_size, n_actions * (has_mask + has_probabilities))
    times = [event.time for event in events]
    labels = range(n_actions) if contexts.ndim == 3 else range(1, n_actions + 1)
    return Log(
        contexts,
        EncodedActions(np.array([event.action for event in events]), tuple(labels)),
        reward_scale * np.array([event.cost for event in events]) + 0.0,  # no -0.0
        np.array([event.probability for event in events]),
        available=_build_mask(events, n_actions) if has_mask else None,
        times=None if None in times else np.array(times),
        reward_range=reward_range,
        logging_probabilities=_build_logging_probabilities(events, n_actions) if has_probabilities else None,
    )


def _build_contexts(events: list[VwEvent], n_actions: int, hash_size: int, other_numbers: int) -> Contexts:
    """Return hashed features ``(n, K, d)`` if decisions list their actions, else ``(n, d)``; CSR if d is large.

    Refuses a log that does not fit in memory, with so many ``other_numbers`` per decision in its matrices.
    """
    from sklearn.feature_extraction import FeatureHasher

    shape: tuple[int, ...] = (len(events), hash_size)
    is_sparse = events[0].actions is None and hash_size > DENSE_LIMIT
    rows: Iterable[Features] = (event.shared for event in events)
    if events[0].actions is not None:
        shape = (len(events), n_actions, hash_size)
        padding: list[Features] = [[]] * n_actions
        listed = ([[*event.shared, *action] for action in event.actions or ()] for event in events)
        rows = chain.from_iterable((features + padding)[:n_actions] for features in listed)
    check_size(len(events), (0 if is_sparse else math.prod(shape[1:])) + 3 + other_numbers)
    try:
        matrix = FeatureHasher(hash_size, input_type="pair").transform(rows)
        return matrix if is_sparse else np.asarray(matrix.toarray()).reshape(shape)
    except UnicodeEncodeError as problem:
        raise SourceError(f"the name of a feature cannot be hashed ({problem}); it must be valid text") from None
    except MemoryError:
        raise SourceError(
            f"contexts of shape {shape} need {8 * math.prod(shape) / 1e9:,.0f} GB, more than there is; lower hash_size "
            "or read fewer files at a time"
        ) from None


def _build_mask(events: list[VwEvent], n_actions: int) -> BoolArray | None:
    """Return the mask of eligible actions; None if all always are."""
    counts = np.array([n_actions if event.actions is None else len(event.actions) for event in events])
    mask: BoolArray = np.arange(n_actions) < counts[:, None]
    for row, event in enumerate(events):
        if event.eligible:
            mask[row] = [action in event.eligible for action in range(n_actions)]
    return None if mask.all() else mask


def _build_logging_probabilities(events: list[VwEvent], n_actions: int) -> FloatArray:
    matrix = np.zeros((len(events), n_actions))
    for row, event in enumerate(events):
        matrix[row, : len(event.probabilities or ())] = event.probabilities
    sums = matrix.sum(axis=1, keepdims=True)
    # Logged in single precision: seven digits do not sum to one exactly.
    return np.where(np.abs(sums - 1) < 1e-3, matrix / sums, matrix)
