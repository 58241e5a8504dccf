"""read_vw: contextual-bandit logs of Vowpal Wabbit (dsjson, cb and adf text) to a Log."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import dropwhile, islice, takewhile
from typing import IO, Any

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._log_validation import EncodedActions, RowError, check_number_of_actions
from backcast.errors import LogError, OptionError, SourceError
from backcast.io._columns import DENSE_LIMIT
from backcast.io._files import FilePath, list_files, list_paths, match_pattern
from backcast.io._vw_events import EVENT_READERS, Lines, VwEvent, is_adf_line
from backcast.io._vw_features import FeatureHashing, resolve_interactions
from backcast.io.limits import MOST_FEATURES, check_positive_integer, check_size, read_lines, size_error
from backcast.log import Log, replace_columns
from backcast.provenance import log_source
from backcast.reading_summary import LeftOut

VW_EXTENSIONS = (".vw", ".dsjson")
JSON_EXTENSIONS = (".json", ".jsonl", ".ndjson")
TEXT_EXTENSIONS = (".dat", ".ldf", ".txt", ".log")
DETECTION_LINES, DETECTION_CHARACTERS = 1000, 2**22  # at the head of a file, which decide on its format
LABELLED_LINE = re.compile(r"\s*(\d+\s+)*\d+:[-+.\deE]+:[-+.\deE]+\s[^|]*\|")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
FILE_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
MANY_ACTIONS = 100_000  # a larger action number is more likely a typing error than a log


def read_vw(
    path: FilePath | Sequence[FilePath],
    *,
    format: str | None = None,  # noqa: A002
    hash_size: int = 128,
    interactions: str | Sequence[str] | None = "auto",
    n_actions: int | None = None,
    reward_scale: float = -1.0,
    reward_range: tuple[float, float] | None = None,
) -> Log:
    r"""Read a contextual-bandit log of Vowpal Wabbit.

    Features are hashed into ``hash_size`` numbers (signed, as by scikit-learn's FeatureHasher). Decisions that list
    their actions (dsjson with ``_multi``, text with one line per action) give contexts ``(n, K, d)``: the features of
    each action, the shared ones, and the products of both; zeros and a mask if a decision has fewer than K actions. The
    logging probabilities of all actions are kept if dsjson has them. Events are in the order of ``Timestamp`` if all
    decisions have one.

    As in Vowpal Wabbit's learning, decisions without a label, decisions marked ``_skipLearn`` and observations without
    a decision are left out; ``log.reading`` contains their numbers. Decisions on several slots (ccb, slates),
    continuous actions (cats) and interaction-grounded feedback (igl) are refused, and so are logs that were subsampled
    at varying rates (``pdrop``).

    Parameters
    ----------
    path
        A file, a folder, a pattern, or a list of these; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
    format
        ``"dsjson"``, ``"cb"`` (one line per decision) or ``"adf"`` (one line per action); by default detected.
    hash_size
        Number of features d. Dense contexts take ``8 n K d`` bytes.
    interactions
        Features to cross, that is, to multiply. "auto": every shared feature with every feature of the action, without
        which a linear policy ranks the actions alike for all users. Pairs of first letters of namespaces are those of
        Vowpal Wabbit's ``-q``: ``["UA"]``, with ``":"`` for any namespace. None for no crossing.
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
        "interactions": [] if interactions is None else interactions,
        "n_actions": n_actions,
        "reward_scale": reward_scale,
        "reward_range": reward_range,
    }
    check_positive_integer("hash_size", hash_size, MOST_FEATURES)
    if isinstance(n_actions, int):
        check_number_of_actions(n_actions)
    if format is not None and format not in EVENT_READERS:
        raise OptionError(f"format is {format!r}; it must be one of {', '.join(map(repr, EVENT_READERS))}")
    hashing = FeatureHashing(hash_size, resolve_interactions(interactions))
    files = _find_files(path)
    counts = _ReadingCounts()
    located = [(file, event) for file in files for event in _read_events(file, format or _detect_format(file), counts)]
    if not located:
        reasons = "".join(f"; left out: {count:,} ({reason})" for reason, count in counts.left_out.items())
        raise LogError(f"{files[0]}: no decision with action, cost and probability is in it{reasons}")
    _check_consistent(located)
    n_actions = _find_number_of_actions(located, n_actions)
    try:
        log = _build_log([event for _, event in located], n_actions, hashing, reward_scale, reward_range)
    except RowError as error:
        file, event = located[error.row]
        raise error.shift(0, f"{file}, line {event.line}") from None
    reading = replace(
        log.reading,
        files=tuple(files),
        lines=counts.lines,
        left_out=tuple(LeftOut(reason, count) for reason, count in counts.left_out.items()),
        interactions=tuple(pair for pair in hashing.interactions if pair in hashing.used),
    )
    return replace_columns(log, reading=reading, source=log_source("read_vw", path, options))


def looks_like_vw(path: str) -> bool:
    """Return whether a path stands for a log of Vowpal Wabbit, by the name of its first file or by its first lines.

    >>> looks_like_vw("day.dsjson.gz"), looks_like_vw("day.csv")
    (True, False)
    """
    try:
        file = _expand_path(path)[0]
    except SourceError:
        file = path  # reported when it is read
    stem = _strip_compression(file)
    if stem.endswith(VW_EXTENSIONS):
        return True
    is_json, is_text = stem.endswith(JSON_EXTENSIONS), stem.endswith(TEXT_EXTENSIONS)
    if not (is_json or is_text) or not os.path.isfile(file):
        return False
    try:
        head = _read_head(file)
    except (*FILE_ERRORS, ValueError):
        return False  # reported when the file is read
    if any('"_label_cost"' in line or '"_multi"' in line for line in head):
        return True
    # only some lines of adf have a label, but all have a bar
    return is_text and all("|" in line for line in head if line.strip()) and any(map(LABELLED_LINE.match, head))


def sample_vw(path: str, n_events: int, vw_format: str | None = None) -> tuple[str, list[VwEvent]]:
    """Return the format of a log of Vowpal Wabbit, and its first decisions."""
    file = _find_files(path)[0]
    vw_format = vw_format or _detect_format(file)
    return vw_format, list(islice(_read_events(file, vw_format, _ReadingCounts()), n_events))


def _find_files(path: FilePath | Sequence[FilePath]) -> list[str]:
    return [file for text in list_paths(path) for file in _expand_path(text)]


def _expand_path(path: str) -> list[str]:
    """Return the files of a path, in natural order; of a folder only those that look like logs of Vowpal Wabbit."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        hidden = tuple(f"{os.sep}{mark}" for mark in "._")
        visible = [file for file in list_files(path) if not any(mark in file[len(path) :] for mark in hidden)]
        matches = [file for file in visible if looks_like_vw(file)]
        if not matches:
            raise SourceError(f"{path}: the folder holds no log of Vowpal Wabbit (dsjson, cb or adf)")
        return matches
    matches = list(filter(os.path.isfile, match_pattern(path)))
    if not matches:
        raise SourceError(f"no file matches {path!r}")
    return matches


def _strip_compression(file: str) -> str:
    stem, extension = os.path.splitext(file.lower())
    return stem if extension in OPENERS else file.lower()


def _open(file: str) -> IO[str]:
    opener = OPENERS.get(os.path.splitext(file)[1], open)
    # utf-8-sig: a byte-order mark is no part of the first line
    stream: IO[str] = opener(file, "rt", encoding="utf-8-sig", errors="replace")
    return stream


def _read_head(file: str) -> list[str]:
    """Return the first lines of a file, of bounded length together."""
    lines: list[str] = []
    n_left = DETECTION_CHARACTERS
    with _open(file) as stream:
        for line in islice(read_lines(stream), DETECTION_LINES):
            lines.append(line)
            n_left -= len(line)
            if n_left < 0:
                break
    return lines


@dataclass
class _ReadingCounts:
    """Lines read so far, and records that were left out, by reason."""

    lines: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def _read_events(file: str, vw_format: str, counts: _ReadingCounts) -> Iterator[VwEvent]:
    line = 0

    def number_lines(stream: IO[str]) -> Lines:
        nonlocal line
        for line, text in enumerate(read_lines(stream), 1):
            counts.lines += 1
            yield line, text

    try:
        with _open(file) as stream:
            for record in EVENT_READERS[vw_format](number_lines(stream)):
                if isinstance(record, VwEvent):
                    yield record
                else:
                    counts.left_out[record] += 1
    except (*FILE_ERRORS, ValueError, OverflowError, RecursionError, MemoryError) as problem:
        where = f"{file}, line {line}" if line else file
        raise SourceError(f"{where}: cannot be read as {vw_format} ({problem})") from None


def _detect_format(file: str) -> str:
    try:
        head = _read_head(file)
    except (*FILE_ERRORS, ValueError) as problem:
        raise SourceError(f"{file}: cannot be read as text ({problem})") from None
    first_block = list(takewhile(str.strip, dropwhile(lambda line: not line.strip(), head)))
    if first_block and first_block[0].lstrip()[0] in "{[":
        return "dsjson"
    return "adf" if any(map(is_adf_line, first_block)) else "cb"


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
    events: list[VwEvent],
    n_actions: int,
    hashing: FeatureHashing,
    reward_scale: float,
    reward_range: tuple[float, float] | None,
) -> Log:
    has_mask = any(event.eligible or event.actions for event in events)
    has_probabilities = all(event.probabilities is not None for event in events)
    contexts = _build_contexts(events, n_actions, hashing, n_actions * (has_mask + has_probabilities))
    times = [event.time for event in events]
    labels = range(n_actions) if contexts.ndim == 3 else range(1, n_actions + 1)
    propensities = np.array([event.probability for event in events])
    return Log(
        contexts,
        EncodedActions(np.array([event.action for event in events]), tuple(labels)),
        reward_scale * np.array([event.cost for event in events]) + 0.0,  # no -0.0
        propensities,
        available=_build_mask(events, n_actions) if has_mask else None,
        times=None if None in times else np.array(times),
        reward_range=reward_range,
        logging_probabilities=_build_logging_probabilities(events, propensities, n_actions)
        if has_probabilities
        else None,
    )


def _build_contexts(events: list[VwEvent], n_actions: int, hashing: FeatureHashing, other_numbers: int) -> Contexts:
    """Return hashed features ``(n, K, d)`` if decisions list their actions, else ``(n, d)``; CSR if d is large.

    Refuses a log that does not fit in memory, with so many ``other_numbers`` per decision in its matrices.
    """
    shape: tuple[int, ...] = (len(events), hashing.size)
    if events[0].actions is not None:
        shape = (len(events), n_actions, hashing.size)
    is_sparse = events[0].actions is None and hashing.size > DENSE_LIMIT
    check_size(len(events), (0 if is_sparse else math.prod(shape[1:])) + 3 + other_numbers)
    try:
        return hashing.transform(events, n_actions, is_sparse)
    except MemoryError:
        raise size_error(shape[0], 8.0 * math.prod(shape), "lower hash_size or read fewer files at a time") from None


def _build_mask(events: list[VwEvent], n_actions: int) -> BoolArray | None:
    """Return the mask of eligible actions; None if all always are."""
    counts = np.array([n_actions if event.actions is None else len(event.actions) for event in events])
    mask: BoolArray = np.arange(n_actions) < counts[:, None]
    for row, event in enumerate(events):
        if event.eligible:
            mask[row] = [action in event.eligible for action in range(n_actions)]
    return None if mask.all() else mask


def _build_logging_probabilities(events: list[VwEvent], propensities: FloatArray, n_actions: int) -> FloatArray:
    """Return the probabilities of all actions, rows that sum to 1 but for their printed digits made to.

    ``_label_probability`` is compared with the probabilities as they were recorded. It stays as it is, and those of the
    other actions are scaled; only a propensity that must be 1 is corrected, in place. Other rows are left as they are,
    and the log refuses them.
    """
    matrix = np.zeros((len(events), n_actions))
    for row, event in enumerate(events):
        recorded, propensity = event.probabilities or [], event.probability
        matrix[row, : len(recorded)] = recorded
        error = _rounding_error(recorded, propensity)
        total = sum(recorded)
        if event.action >= len(recorded) or abs(total - 1) > max(1e-3, len(recorded) * error):
            continue
        if abs(recorded[event.action] - propensity) > error:
            continue
        others = total - recorded[event.action]
        if others > 0:
            matrix[row] *= max(0.0, 1 - propensity) / others
            matrix[row, event.action] = propensity
        else:
            matrix[row, event.action] = propensities[row] = 1.0
    return matrix


def _rounding_error(recorded: list[float], propensity: float) -> float:
    """Return half a unit of the last printed decimal, at least the precision of a 32-bit float.

    Numbers lose trailing zeros, so that the longest of the row counts, and three decimals or more of the propensity.

    >>> _rounding_error([0.24619, 0.5, 0.25381], 0.24619), _rounding_error([0.5, 0.25, 0.25], 0.5)
    (5e-06, 0.005)
    """
    digits = max((_count_decimals(number) for number in recorded), default=6)
    if 3 <= _count_decimals(propensity) < digits:
        digits = _count_decimals(propensity)
    return float(max(0.5 * 10.0**-digits, 1e-6))


def _count_decimals(number: float) -> int:
    exponent = Decimal(repr(number)).as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0  # neither nan nor inf has an exponent
