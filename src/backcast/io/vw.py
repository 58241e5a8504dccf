"""One decision as Vowpal Wabbit logs it, before it becomes a row of a log."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._log_validation import EncodedActions, RowError, check_number_of_actions
from backcast.errors import LogError, OptionError, SourceError
from backcast.io._columns import DENSE_LIMIT
from backcast.io._files import match_pattern, path_to_text
from backcast.io.limits import MOST_FEATURES, MOST_LINE, check_positive_integer, check_size, read_lines
from backcast.log import Log

Features: TypeAlias = "list[tuple[str, float]]"


@dataclass(frozen=True)
class Event:
    """A labelled decision.

    ``actions`` holds the features of each action, or is None when there are only shared ones. ``probabilities``
    are those of the actions ``0..``, where logged; ``eligible`` are the actions allowed, where not all are.
    """

    line: int
    action: int
    cost: float
    probability: float
    shared: Features
    actions: list[Features] | None = None
    probabilities: list[float] | None = None
    eligible: frozenset[int] = field(default_factory=frozenset)
    time: str | None = None
    drop_rate: float = 0.0

    @property
    def n_actions(self) -> int:
        """How many actions this decision shows to exist."""
        known = [self.action + 1, len(self.probabilities or ()), *(action + 1 for action in self.eligible)]
        return len(self.actions) if self.actions is not None else max(known)


def number(value: object) -> float:
    """A number, from JSON or text; anything else, and one beyond floating point, is a ValueError.

    >>> number("0.5"), number(2)
    (0.5, 2.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number is too large") from None


def read_json_events(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Event | None]]:
    """The decision of each line; None for lines that hold none to learn from."""
    for line, text in lines:
        # Vowpal Wabbit's own logs are sprinkled with lines such as [CHECKPOINT INFO LINE].
        if text.strip() and not text.startswith("["):
            yield line, _event(line, json.loads(text))


def _event(line: int, record: Any) -> Event | None:
    if not isinstance(record, dict):
        raise ValueError("the line is not a JSON object")
    _refuse_other_problems(record)
    context = record.get("c")
    if context is None or "_label_cost" not in record or record.get("_skipLearn"):
        return None
    if not isinstance(context, dict):
        raise ValueError("c, the context, is not a JSON object")
    many = _list(context, "_multi")
    actions = None if many is None else [features_of(action) for action in many]
    return Event(
        line=line,
        action=_action(record),
        cost=number(record["_label_cost"]),
        probability=number(_needed(record, "_label_probability")),
        shared=features_of(context),
        actions=actions,
        probabilities=_probabilities(record),
        time=str(record["Timestamp"]) if "Timestamp" in record else None,
        drop_rate=number(record.get("pdrop", 0.0)),
    )


def _refuse_other_problems(record: dict[str, Any]) -> None:
    context = record.get("c")
    if "_label_ca" in record:
        raise ValueError("continuous actions (cats) are not supported; only decisions among finitely many are")
    if "_outcomes" in record or (isinstance(context, dict) and "_slots" in context):
        raise ValueError("decisions on several slots (ccb, slates) are not supported; only one action a line is")
    for seen in _list(record, "o") or ():
        if isinstance(seen, dict) and ("_definitely_bad" in seen or isinstance(seen.get("v"), dict)):
            raise ValueError("interaction-grounded feedback (igl) is not supported; a numeric cost is needed")


def _needed(record: dict[str, Any], key: str) -> Any:
    if record.get(key) is None:
        raise ValueError(f"{key} is missing; every decision needs its logged action, cost and probability")
    return record[key]


def _list(record: dict[str, Any], key: str) -> list[Any] | None:
    value = record.get(key)
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{key} is {value!r}; it must be a list")
    return value


def _action(record: dict[str, Any]) -> int:
    index = record.get("_labelIndex")
    index = int(number(_needed(record, "_label_Action"))) - 1 if index is None else int(number(index))
    if index < 0:
        raise ValueError(f"the logged action is number {index + 1}; actions count from 1")
    return index


def _probabilities(record: dict[str, Any]) -> list[float] | None:
    """Probabilities in the order of the actions; ``p`` goes along with ``a``, which counts from 1 or from 0."""
    order, listed = _list(record, "a"), _list(record, "p")
    if not order or not listed:
        return None
    first = 0 if 0 in order else 1
    places = [int(number(action)) - first for action in order]
    if sorted(places) != list(range(len(listed))):
        raise ValueError(f"a lists the actions {order} but p has {len(listed)} probabilities")
    found = [0.0] * len(listed)
    for place, probability in zip(places, listed, strict=True):
        found[place] = number(probability)
    return found


def features_of(node: Any, path: str = "") -> Features:
    """Named numbers in a JSON value, by Vowpal Wabbit's conventions.

    Text and true become indicators, keys that start with an underscore are no features, save ``_text``, whose
    words each are one.

    >>> features_of({"geo": {"city": "Rome", "age": 3, "_id": 7}, "tags": ["a", "b"], "size": [0.5, 2]})
    [('geo.city=Rome', 1.0), ('geo.age', 3.0), ('tags=a', 1.0), ('tags=b', 1.0), ('size[0]', 0.5), ('size[1]', 2.0)]
    """
    if node is None or node is False:
        return []
    if node is True:
        return [(path, 1.0)]
    if isinstance(node, str):
        return [(f"{path}={node}", 1.0)]
    if isinstance(node, list):
        return [pair for place, child in enumerate(node) for pair in features_of(child, _place(path, place, child))]
    if isinstance(node, dict):
        return [pair for key, child in node.items() for pair in _field(path, key, child)]
    return [(path, number(node))]


def _place(path: str, place: int, child: Any) -> str:
    is_number = isinstance(child, int | float) and not isinstance(child, bool)
    return f"{path}[{place}]" if is_number else path


def _field(path: str, key: str, child: Any) -> Features:
    if key == "_text":
        return [(f"{path}._text={word}", 1.0) for word in str(child).split()]
    if key.startswith("_"):
        return []
    return features_of(child, f"{path}.{key}" if path else key)


REFUSED = {
    "ca": "continuous actions (cats) are not supported; only decisions among finitely many are",
    "ccb": "decisions on several slots (ccb) are not supported; only one action a decision is",
    "slates": "decisions on several slots (slates) are not supported; only one action a decision is",
}


def text_kind(lines: Iterable[str]) -> str:
    """Which text it is, told from its first block of lines.

    >>> text_kind(["1:0:0.5 | a", "2:1:0.5 | b"]), text_kind(["shared | s", "0:1:0.5 | a", "| b"])
    ('cb', 'adf')
    """
    for line in lines:
        if not line.strip():
            break
        if not line.partition("|")[0].split() or line.startswith("shared"):
            return "adf"
    return "cb"


def read_cb_events(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Event | None]]:
    """A decision a line; actions count from 1, and those listed without a cost are the others allowed."""
    for line, text in lines:
        if not text.strip():
            continue
        logged, others = _label(text)
        if logged is None:
            yield line, None
            continue
        action, cost, probability = logged
        if min([action, *others]) < 1:
            raise ValueError(f"the logged action is number {min([action, *others])}; actions count from 1")
        eligible = frozenset(other - 1 for other in (action, *others)) if others else frozenset()
        yield line, Event(line, action - 1, cost, probability, _features(text), eligible=eligible)


def read_adf_events(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Event | None]]:
    """A decision a block of lines: perhaps a shared line, then a line an action, the logged one with its label."""
    block: list[_Line] = []
    for line, text in lines:
        if text.strip():
            block.append(_line(line, text))
        elif block:
            yield block[0].line, _block_event(block)
            block = []
    if block:
        yield block[0].line, _block_event(block)


class _Line(NamedTuple):
    line: int
    is_shared: bool
    label: tuple[int, float, float] | None
    features: Features


def _line(line: int, text: str) -> _Line:
    is_shared = text.partition("|")[0].split()[:1] == ["shared"]
    return _Line(line, is_shared, None if is_shared else _label(text)[0], _features(text))


def _block_event(block: list[_Line]) -> Event | None:
    shared = block[0].features if block[0].is_shared else []
    actions = block[1:] if block[0].is_shared else block
    logged = [(place, action.label) for place, action in enumerate(actions) if action.label is not None]
    if not logged:
        return None
    if len(logged) > 1:
        raise ValueError(f"{len(logged)} actions of one decision carry a cost; only the one taken may")
    place, (_, cost, probability) = logged[0]
    return Event(block[0].line, place, cost, probability, shared, [action.features for action in actions])


def _label(text: str) -> tuple[tuple[int, float, float] | None, list[int]]:
    """The action with cost and probability, and the actions that are only listed."""
    logged = None
    others = []
    for word in text.partition("|")[0].split():
        if word in REFUSED:
            raise ValueError(REFUSED[word])
        parts = word.split(":")
        if word.startswith("'"):  # a tag
            continue
        if len(parts) == 1:
            others.append(_whole(word))
        elif len(parts) != 3:
            raise ValueError(f"the label {word!r} is not action:cost:probability")
        elif logged is not None:
            raise ValueError("two actions of one decision carry a cost; only the one taken may")
        else:
            logged = _whole(parts[0]), number(parts[1]), number(parts[2])
    return logged, others


def _whole(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"the action {word!r} is not a whole number") from None


def _features(text: str) -> Features:
    """``|space:scale name:value`` after the label, as named numbers.

    >>> _features("1:0:0.5 |user age:2 new |:0.5 x")
    [('user^age', 2.0), ('user^new', 1.0), ('^x', 0.5)]
    """
    found: Features = []
    for section in text.rstrip("\r\n").split("|")[1:]:
        words = section.split()
        space, scale = "", 1.0
        if words and not section[0].isspace():
            space, _, given = words.pop(0).partition(":")
            scale = number(given) if given else 1.0
        for word in words:
            name, _, value = word.partition(":")
            found.append((f"{space}^{name}", scale * (number(value) if value else 1.0)))
    return found


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
    check_positive_integer("hash_size", hash_size, MOST_FEATURES)
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
        raise error.shift(0, f"{file}, line {event.line}") from None


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
    for text in map(path_to_text, given):
        fitting = [text] if os.path.isfile(text) else list(filter(os.path.isfile, match_pattern(text)))
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
        for text in read_lines(self.stream):
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
        head = list(islice(read_lines(stream), 1000))
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
        EncodedActions(
            np.array([event.action for event in events]), tuple(range(0 if listed else 1, n_actions + (not listed)))
        ),
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
