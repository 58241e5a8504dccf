"""The tables of a report as plain rows of text, ready for a template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from backcast.estimate import Estimate
from backcast.report.facts import Fact, belief_in, bias_bound, facts_of
from backcast.report.findings import Findings
from backcast.report.words import (
    MISSING,
    assumption_words,
    estimand_words,
    figure,
    interval_words,
    joined,
    level_words,
    percent,
    rounded_to,
    value_words,
)

__all__ = [
    "certificate_rows",
    "curve_points",
    "difference_rows",
    "fact_rows",
    "policy_rows",
    "remarks",
    "setting_rows",
    "shared_fine_print",
]

EVERY = "all"
CERTIFICATE = "bias certificate"


def policy_rows(findings: Findings) -> list[dict[str, Any]]:
    """One row a policy: value, interval with its fine print, belief."""
    chances = dict(findings.ranking)
    return [
        {
            "name": name,
            "value": value_words(estimate),
            "interval": interval_words(estimate.interval),
            "fine_print": _fine_print(estimate),
            "belief": asdict(belief_in(estimate)),
            "chance": percent(chances[name]) if name in chances else "",
        }
        for name, estimate in findings.estimates.items()
    ]


def _fine_print(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None:
        return "none can honestly be given"
    return f"{level_words(interval)}, {interval.method}; {assumption_words(interval)}; about {estimand_words(estimate)}"


def shared_fine_print(findings: Findings) -> str:
    """The fine print of the intervals where all of them have the same, else nothing."""
    prints = {_fine_print(estimate) for estimate in findings.estimates.values()}
    return prints.pop() if len(prints) == 1 else ""


def difference_rows(findings: Findings) -> list[dict[str, str]]:
    """One row a paired difference."""
    return [
        {
            "name": f"{difference.first} minus {difference.second}",
            "value": rounded_to(difference.value, difference.interval),
            "interval": interval_words(difference.interval),
        }
        for difference in findings.differences
    ]


def curve_points(findings: Findings) -> list[dict[str, str]]:
    """One row a point of a learning curve."""
    return [
        {"name": name, "round": figure(end), "value": figure(value), "band": f"{figure(low)} to {figure(high)}"}
        for name, estimate in findings.estimates.items()
        for end, value, low, high in _points(estimate)
    ]


def _points(estimate: Estimate) -> Iterator[tuple[int, float, float, float]]:
    curve = estimate.curve
    if curve is not None:
        yield from zip(
            curve.rounds.tolist(), curve.value.tolist(), curve.low.tolist(), curve.high.tolist(), strict=True
        )


def fact_rows(findings: Findings) -> list[dict[str, Any]]:
    """One row a diagnostic, one cell a policy; None where it does not apply to the evaluator."""
    columns = [{fact.name: fact for fact in facts_of(estimate)} for estimate in findings.estimates.values()]
    kinds: dict[str, Fact] = {}
    for column in columns:
        kinds |= {name: fact for name, fact in column.items() if name not in kinds}
    return [
        {"name": name, "meaning": fact.meaning, "cells": [column.get(name) for column in columns]}
        for name, fact in kinds.items()
    ]


def remarks(findings: Findings) -> list[str]:
    """What readers of the numbers must know, each sentence once, with the policies it is about."""
    about: dict[str, list[str]] = {note: list(findings.estimates) for note in findings.notes}
    for name, estimate in findings.estimates.items():
        for note in estimate.notes:
            about.setdefault(note, []).append(name)
    everyone = len(findings.estimates)
    return [note if len(names) == everyone else f"{joined(names)}: {note}" for note, names in about.items()]


def setting_rows(findings: Findings, about: Mapping[str, object]) -> list[dict[str, str]]:
    """One row a setting that all policies share, else one for each policy."""
    rows = [{"name": name, "policy": EVERY, "value": figure(value)} for name, value in about.items()]
    settings = {name: _settings(estimate) for name, estimate in findings.estimates.items()}
    for key in dict.fromkeys(key for own in settings.values() for key in own):
        values = {name: own.get(key, MISSING) for name, own in settings.items()}
        shared = len(set(values.values())) == 1 and len(values) > 1
        shown = {EVERY: next(iter(values.values()))} if shared else values
        rows += [{"name": key, "policy": name, "value": value} for name, value in shown.items()]
    return rows


def certificate_rows(findings: Findings) -> list[dict[str, Any]]:
    """One row a policy: its bias certificate, the bias that this allows, and what to think of it."""
    rows = []
    for name, estimate in findings.estimates.items():
        judged = [fact for fact in facts_of(estimate) if fact.name == CERTIFICATE]
        rows.append({"name": name, "fact": judged[0] if judged else None, "bias": figure(bias_bound(estimate))})
    return rows


def _settings(estimate: Estimate) -> dict[str, str]:
    first = {"policy": estimate.policy, "evaluator": estimate.evaluator, "horizon": estimate.horizon}
    last = {key: value for key, value in estimate.settings.items() if key not in first}
    return {str(key): _setting(value) for key, value in {**first, **last}.items()}


def _setting(value: Any) -> str:
    return " to ".join(map(figure, value)) if isinstance(value, list | tuple) else figure(value)
