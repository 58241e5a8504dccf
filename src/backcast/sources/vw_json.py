"""Vowpal Wabbit's dsjson: one decision a line, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from backcast.sources.vw_events import Event, Features, number

__all__ = ["features_of", "read_json_events"]


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
