"""read_vw: contextual-bandit logs of Vowpal Wabbit (dsjson, cb and adf text) to a Log."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, dropwhile, islice, takewhile
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._log_validation import EncodedActions, RowError, check_number_of_actions
from backcast.errors import LogError, OptionError, SourceError
from backcast.io._columns import DENSE_LIMIT
from backcast.io._files import FilePath, list_paths, match_pattern
from backcast.io.limits import MOST_FEATURES, MOST_LINE, check_positive_integer, check_size, read_lines
from backcast.log import Log

Features: TypeAlias = "list[tuple[str, float]]"
Label: TypeAlias = "tuple[int, float, float]"  # action, cost, probability
Lines: TypeAlias = "Iterable[tuple[int, str]]"  # numbered from 1

VW_EXTENSIONS = (".vw", ".dsjson")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
FILE_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
MANY_ACTIONS = 100_000  # a larger action number is more likely a typing error than a log
UNSUPPORTED_LABELS = {
    "ca": "continuous actions (cats) are not supported; only decisions among finitely many are",
    "ccb": "decisions on several slots (ccb) are not supported; only one action per decision is",
    "slates": "decisions on several slots (slates) are not supported; only one action per decision is",
}


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
        return _build_log([event for _, event in located], n_actions, hash_size, reward_scale, reward_range)
    except RowError as error:
        file, event = located[error.row]
        raise error.shift(0, f"{file}, line {event.line}") from None


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


@dataclass(frozen=True)
class VwEvent:
    """A labelled decision.

    ``actions`` holds the features of each action, or is None if there are only shared ones. ``probabilities`` are
    those of the actions ``0..``, if logged; ``eligible`` are the eligible actions, if not all are.
    """

    line: int
    action: int
    cost: float
    probability: float
    shared: Features
    actions: list[Features] | None = None
    probabilities: list[float] | None = None
    eligible: frozenset[int] = frozenset()
    time: str | None = None
    drop_rate: float = 0.0

    @property
    def n_actions(self) -> int:
        """The number of actions that this decision shows to exist."""
        if self.actions is not None:
            return len(self.actions)
        return max(self.action + 1, len(self.probabilities or ()), *(action + 1 for action in self.eligible))


class _NumberedLines:
    """Lines of a text with their numbers; ``current`` is the number of the line read last."""

    def __init__(self) -> None:
        self.current = 0

    def read(self, stream: IO[str]) -> Iterator[tuple[int, str]]:
        for self.current, text in enumerate(read_lines(stream), 1):
            yield self.current, text


def _read_events(file: str, vw_format: str) -> Iterator[VwEvent]:
    lines = _NumberedLines()
    try:
        with _open(file) as stream:
            yield from (event for event in EVENT_READERS[vw_format](lines.read(stream)) if event is not None)
    except (*FILE_ERRORS, ValueError, OverflowError, RecursionError, MemoryError) as problem:
        where = f"{file}, line {lines.current}" if lines.current else file
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


def _to_number(value: object) -> float:
    """Return a number from JSON or text; anything else, or a number that is too large, is a ValueError.

    >>> _to_number("0.5"), _to_number(2)
    (0.5, 2.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number is too large") from None


# dsjson


def _read_json_events(lines: Lines) -> Iterator[VwEvent | None]:
    for line, text in lines:
        # Vowpal Wabbit writes lines such as [CHECKPOINT INFO LINE] into its logs.
        if text.strip() and not text.startswith("["):
            yield _parse_json_event(line, json.loads(text))


def _parse_json_event(line: int, record: Any) -> VwEvent | None:
    """Return the decision of a line; None if it has no label to learn from."""
    if not isinstance(record, dict):
        raise ValueError("the line is not a JSON object")
    _refuse_unsupported(record)
    context = record.get("c")
    if context is None or "_label_cost" not in record or record.get("_skipLearn"):
        return None
    if not isinstance(context, dict):
        raise ValueError("c, the context, is not a JSON object")
    actions = _get_list(context, "_multi")
    index = record.get("_labelIndex")
    action = int(_to_number(_get_required(record, "_label_Action"))) - 1 if index is None else int(_to_number(index))
    if action < 0:
        raise ValueError(f"the logged action is number {action + 1}; actions count from 1")
    return VwEvent(
        line=line,
        action=action,
        cost=_to_number(record["_label_cost"]),
        probability=_to_number(_get_required(record, "_label_probability")),
        shared=_parse_json_features(context),
        actions=None if actions is None else [_parse_json_features(action) for action in actions],
        probabilities=_parse_probabilities(record),
        time=str(record["Timestamp"]) if "Timestamp" in record else None,
        drop_rate=_to_number(record.get("pdrop", 0.0)),
    )


def _refuse_unsupported(record: dict[str, Any]) -> None:
    context = record.get("c")
    if "_label_ca" in record:
        raise ValueError(UNSUPPORTED_LABELS["ca"])
    if "_outcomes" in record or (isinstance(context, dict) and "_slots" in context):
        raise ValueError("decisions on several slots (ccb, slates) are not supported; only one action per line is")
    observations = [item for item in _get_list(record, "o") or () if isinstance(item, dict)]
    if any("_definitely_bad" in item or isinstance(item.get("v"), dict) for item in observations):
        raise ValueError("interaction-grounded feedback (igl) is not supported; a numeric cost is needed")


def _get_required(record: dict[str, Any], key: str) -> Any:
    if record.get(key) is None:
        raise ValueError(f"{key} is missing; every decision needs its logged action, cost and probability")
    return record[key]


def _get_list(record: dict[str, Any], key: str) -> list[Any] | None:
    value = record.get(key)
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{key} is {value!r}; it must be a list")
    return value


def _parse_probabilities(record: dict[str, Any]) -> list[float] | None:
    """Return probabilities in the order of the actions; ``p`` is in the order of ``a``, which counts from 1 or 0."""
    order, values = _get_list(record, "a"), _get_list(record, "p")
    if not order or not values:
        return None
    first = 0 if 0 in order else 1
    indices = [int(_to_number(action)) - first for action in order]
    if sorted(indices) != list(range(len(values))):
        raise ValueError(f"a lists the actions {order} but p has {len(values)} probabilities")
    probabilities = [0.0] * len(values)
    for index, value in zip(indices, values, strict=True):
        probabilities[index] = _to_number(value)
    return probabilities


def _parse_json_features(node: Any, path: str = "") -> Features:
    """Return the named numbers in a JSON value, by Vowpal Wabbit's conventions.

    Text and true become indicators. Keys that start with an underscore are no features, except ``_text``, which
    gives one feature per word.

    >>> _parse_json_features({"geo": {"city": "Rome", "age": 3, "_id": 7}, "tags": ["a", "b"], "size": [0.5, 2]})
    [('geo.city=Rome', 1.0), ('geo.age', 3.0), ('tags=a', 1.0), ('tags=b', 1.0), ('size[0]', 0.5), ('size[1]', 2.0)]
    """
    if node is None or node is False:
        return []
    if node is True:
        return [(path, 1.0)]
    if isinstance(node, str):
        return [(f"{path}={node}", 1.0)]
    features: Features = []
    if isinstance(node, list):
        for index, child in enumerate(node):
            is_number = isinstance(child, int | float) and not isinstance(child, bool)
            features += _parse_json_features(child, f"{path}[{index}]" if is_number else path)
        return features
    if isinstance(node, dict):
        for key, child in node.items():
            if key == "_text":
                features += [(f"{path}._text={word}", 1.0) for word in str(child).split()]
            elif not key.startswith("_"):
                features += _parse_json_features(child, f"{path}.{key}" if path else key)
        return features
    return [(path, _to_number(node))]


# cb and adf text


def _read_cb_events(lines: Lines) -> Iterator[VwEvent]:
    """Yield one decision per line; actions count from 1, and those without a cost are the other eligible ones."""
    for line, text in lines:
        logged, others = _parse_label(text)
        if logged is None:
            continue
        action, cost, probability = logged
        first = min([action, *others])
        if first < 1:
            raise ValueError(f"the logged action is number {first}; actions count from 1")
        eligible = frozenset(other - 1 for other in (action, *others)) if others else frozenset()
        yield VwEvent(line, action - 1, cost, probability, _parse_text_features(text), eligible=eligible)


def _read_adf_events(lines: Lines) -> Iterator[VwEvent | None]:
    """Yield one decision per block: perhaps a shared line, then a line per action, the logged one with a label."""
    block: list[_AdfLine] = []
    for line, text in chain(lines, [(0, "")]):
        if text.strip():
            is_shared = text.partition("|")[0].split()[:1] == ["shared"]
            label = None if is_shared else _parse_label(text)[0]
            block.append(_AdfLine(line, is_shared, label, _parse_text_features(text)))
        elif block:
            yield _combine_block(block)
            block = []


class _AdfLine(NamedTuple):
    line: int
    is_shared: bool
    label: Label | None
    features: Features


def _combine_block(block: list[_AdfLine]) -> VwEvent | None:
    """Return the decision of a block of lines; None if no action has a label."""
    shared = block[0].features if block[0].is_shared else []
    actions = block[1:] if block[0].is_shared else block
    logged = [(index, action.label) for index, action in enumerate(actions) if action.label is not None]
    if not logged:
        return None
    if len(logged) > 1:
        raise ValueError(f"{len(logged)} actions of one decision carry a cost; only the one taken may")
    index, (_, cost, probability) = logged[0]
    return VwEvent(block[0].line, index, cost, probability, shared, [action.features for action in actions])


def _parse_label(text: str) -> tuple[Label | None, list[int]]:
    """Return the action with its cost and probability, and the actions that are only listed."""
    logged = None
    others = []
    for word in text.partition("|")[0].split():
        if word in UNSUPPORTED_LABELS:
            raise ValueError(UNSUPPORTED_LABELS[word])
        values = word.split(":")
        if word.startswith("'"):  # a tag
            continue
        if len(values) == 1:
            others.append(_to_action_number(word))
        elif len(values) != 3:
            raise ValueError(f"the label {word!r} is not action:cost:probability")
        elif logged is not None:
            raise ValueError("two actions of one decision carry a cost; only the one taken may")
        else:
            logged = _to_action_number(values[0]), _to_number(values[1]), _to_number(values[2])
    return logged, others


def _to_action_number(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"the action {word!r} is not a whole number") from None


def _parse_text_features(text: str) -> Features:
    """Return the named numbers in ``|namespace:scale name:value`` after the label.

    >>> _parse_text_features("1:0:0.5 |user age:2 new |:0.5 x")
    [('user^age', 2.0), ('user^new', 1.0), ('^x', 0.5)]
    """
    features: Features = []
    for section in text.rstrip("\r\n").split("|")[1:]:
        words = section.split()
        namespace, scale = "", 1.0
        if words and not section[0].isspace():
            namespace, _, scale_text = words.pop(0).partition(":")
            scale = _to_number(scale_text) if scale_text else 1.0
        for word in words:
            name, _, value = word.partition(":")
            features.append((f"{namespace}^{name}", scale * (_to_number(value) if value else 1.0)))
    return features


EVENT_READERS: dict[str, Callable[[Lines], Iterator[VwEvent | None]]] = {
    "dsjson": _read_json_events,
    "cb": _read_cb_events,
    "adf": _read_adf_events,
}


# Decisions to a log


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
