"""Decisions in logs of Vowpal Wabbit: dsjson, cb and adf text, parsed to events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

Features: TypeAlias = "list[Feature]"
Label: TypeAlias = "tuple[int, float, float]"  # action, cost, probability
Lines: TypeAlias = "Iterator[tuple[int, str]]"  # numbered from 1

UNSUPPORTED_LABELS = {
    "ca": "continuous actions (cats) are not supported; only decisions among finitely many are",
    "ccb": "decisions on several slots (ccb) are not supported; only one action per decision is",
    "slates": "decisions on several slots (slates) are not supported; only one action per decision is",
}

# Why a record is no event of the log.
OBSERVATION = "observation without a decision"
NO_COST = "no _label_cost"
SKIPPED = "marked _skipLearn"
INFORMATION = "line of information, such as [CHECKPOINT INFO LINE]"
NO_LABEL = "no action with cost and probability"
TAG_LIKE_LABEL = "no label: what touches the bar is a tag, as in Vowpal Wabbit; put a space before the bar"


class Feature(NamedTuple):
    """A named number; the empty namespace is the default one."""

    namespace: str
    name: str
    value: float


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


def _read_json_events(lines: Lines) -> Iterator[VwEvent | str]:
    for line, text in lines:
        if text.startswith("["):
            yield INFORMATION
        elif text.strip():
            yield _parse_json_event(line, json.loads(text))


def _parse_json_event(line: int, record: Any) -> VwEvent | str:
    """Return the decision of a line, or why it has no label to learn from."""
    if not isinstance(record, dict):
        raise ValueError("the line is not a JSON object")
    _refuse_unsupported(record)
    context = record.get("c")
    if context is None:
        return OBSERVATION
    if "_label_cost" not in record or record.get("_skipLearn"):
        return SKIPPED if record.get("_skipLearn") else NO_COST
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


def _parse_json_features(node: Any) -> Features:
    """Return the named numbers in a JSON object, by Vowpal Wabbit's conventions.

    Text and true become indicators. Keys that start with an underscore are no features, except ``_text``, which
    gives one feature per word. Objects and lists of the outer level are namespaces.

    >>> _parse_json_features({"geo": {"city": "Rome", "_id": 7}, "age": 3})
    [Feature(namespace='geo', name='geo.city=Rome', value=1.0), Feature(namespace='', name='age', value=3.0)]
    >>> [(f.name, f.value) for f in _parse_json_features({"tags": ["a", "b"], "size": [0.5, 2]})]
    [('tags=a', 1.0), ('tags=b', 1.0), ('size[0]', 0.5), ('size[1]', 2.0)]
    """
    if not isinstance(node, dict):
        return _parse_json_node(node, "", "")
    features: Features = []
    for key, child in node.items():
        if key == "_text" or not key.startswith("_"):
            namespace = key if isinstance(child, dict | list) else ""
            features += _parse_json_node({key: child}, namespace, "")
    return features


def _parse_json_node(node: Any, namespace: str, path: str) -> Features:
    if node is None or node is False:
        return []
    if node is True:
        return [Feature(namespace, path, 1.0)]
    if isinstance(node, str):
        return [Feature(namespace, f"{path}={node}", 1.0)]
    features: Features = []
    if isinstance(node, list):
        for index, child in enumerate(node):
            is_number = isinstance(child, int | float) and not isinstance(child, bool)
            features += _parse_json_node(child, namespace, f"{path}[{index}]" if is_number else path)
        return features
    if isinstance(node, dict):
        for key, child in node.items():
            if key == "_text":
                features += [Feature(namespace, f"{path}._text={word}", 1.0) for word in str(child).split()]
            elif not key.startswith("_"):
                features += _parse_json_node(child, namespace, f"{path}.{key}" if path else key)
        return features
    return [Feature(namespace, path, _to_number(node))]


# cb and adf text


def _read_cb_events(lines: Lines) -> Iterator[VwEvent | str]:
    """Yield one decision per line; actions count from 1, and those without a cost are the other eligible ones."""
    for line, text in lines:
        words, tag = _split_label(text)
        logged, others = _parse_label(words)
        if logged is None:
            if text.strip():
                yield TAG_LIKE_LABEL if _is_like_label(tag) else NO_LABEL
            continue
        action, cost, probability = logged
        first = min([action, *others])
        if first < 1:
            raise ValueError(f"the logged action is number {first}; actions count from 1")
        eligible = frozenset(other - 1 for other in (action, *others)) if others else frozenset()
        yield VwEvent(line, action - 1, cost, probability, _parse_text_features(text), eligible=eligible)


def _read_adf_events(lines: Lines) -> Iterator[VwEvent | str]:
    """Yield one decision per block of lines that are not blank, or why it is none."""
    for has_text, block in groupby(lines, key=lambda numbered: bool(numbered[1].strip())):
        if has_text:
            yield _parse_block(block)


def _parse_block(block: Lines) -> VwEvent | str:
    """Return the decision of a block: perhaps a shared line, then a line per action, the logged one with a label."""
    first_line, shared = 0, []
    actions: list[Features] = []
    logged: list[tuple[int, Label]] = []
    has_tag_like_label = False
    for line, text in block:
        words, tag = _split_label(text)
        is_shared = words[:1] == ["shared"]
        label = None if is_shared else _parse_label(words)[0]
        has_tag_like_label |= _is_like_label(tag)
        if is_shared and not first_line:
            shared = _parse_text_features(text)
        else:
            actions.append(_parse_text_features(text))
        if label is not None:
            logged.append((len(actions) - 1, label))
        first_line = first_line or line
    if not logged:
        return TAG_LIKE_LABEL if has_tag_like_label else NO_LABEL
    if len(logged) > 1:
        raise ValueError(f"{len(logged)} actions of one decision carry a cost; only the one taken may")
    index, (_, cost, probability) = logged[0]
    return VwEvent(first_line, index, cost, probability, shared, actions)


def _split_label(text: str) -> tuple[list[str], str]:
    """Return the words before the bar, and the tag: a last word that touches the bar or starts with a quote.

    >>> _split_label("1:0.5:0.25 mail|user age:2"), _split_label("1:0.5:0.25 'mail | a"), _split_label("1:0:0.5 | a")
    ((['1:0.5:0.25'], 'mail'), (['1:0.5:0.25'], 'mail'), (['1:0:0.5'], ''))
    """
    head, bar, _ = text.partition("|")
    words = head.split()
    touches_bar = bool(bar) and bool(words) and not head[-1].isspace()
    if touches_bar or (words and words[-1].startswith("'")):
        return words[:-1], words[-1].removeprefix("'")
    return words, ""


def _is_like_label(tag: str) -> bool:
    return tag.count(":") == 2


def is_adf_line(text: str) -> bool:
    """Return whether a line of text can only be one of several of a decision: shared, or without a label.

    >>> is_adf_line("shared |U a"), is_adf_line("news|A b"), is_adf_line("1:0.5:0.25 |A b")
    (True, True, False)
    """
    words, _ = _split_label(text)
    return not words or words[0] == "shared"


def _parse_label(words: list[str]) -> tuple[Label | None, list[int]]:
    """Return the action with its cost and probability, and the actions that are only listed."""
    logged = None
    others = []
    for word in words:
        if word in UNSUPPORTED_LABELS:
            raise ValueError(UNSUPPORTED_LABELS[word])
        values = word.split(":")
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

    >>> [(f.name, f.value) for f in _parse_text_features("1:0:0.5 |user age:2 new |:0.5 x")]
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
            number = scale * (_to_number(value) if value else 1.0)
            features.append(Feature(namespace, f"{namespace}^{name}", number))
    return features


# A reader yields a decision, or the reason why a record is none.
EVENT_READERS: dict[str, Callable[[Lines], Iterator[VwEvent | str]]] = {
    "dsjson": _read_json_events,
    "cb": _read_cb_events,
    "adf": _read_adf_events,
}
