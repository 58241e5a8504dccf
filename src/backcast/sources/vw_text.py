"""Vowpal Wabbit's text: ``action:cost:probability | features``, a line a decision (cb) or a line an action (adf)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from backcast.sources.vw_events import Event, Features, number

__all__ = ["read_adf_events", "read_cb_events", "text_kind"]

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
