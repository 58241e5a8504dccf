"""Estimates with chosen numbers, hostile labels, and a parser of pages, for tests of reports."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np

from backcast.comparison import Comparison
from backcast.diagnostics import ClockDiagnostics, PermutedDiagnostics, ReplayDiagnostics
from backcast.estimate import POLICY_VALUE, Difference, Estimate, Interval, LearningCurve

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); //",
    "<!-- & --> &amp; {{ 7 * 7 }} {% raw %}",
    "line\u2028separator \u202eright to left",
]


def replay_diagnostics(**changes: Any) -> ReplayDiagnostics:
    facts = ReplayDiagnostics(
        events=10_000,
        accepted=4_312,
        acceptance_rate=0.4312,
        trajectories_complete=4,
        trajectories_failed=1,
        effective_sample_size=2210.0,
        mean_weight=1.002,
        largest_weight=8.1,
        bias_mass=0.0001,
        cut_share=0.002,
        bias_certificate=0.002,
        theorem_1=0.3,
        value_per_round=0.082,
    )
    return replace(facts, **changes)


def learning_curve(value: float) -> LearningCurve:
    rounds = np.arange(100, 1001, 100)
    values = value - 0.03 / np.arange(1, 11)
    return LearningCurve(rounds, values, values - 0.01, values + 0.01)


def make_estimate(value: float = 0.08, name: str = "LinUCB(alpha=0.3)", **changes: Any) -> Estimate:
    interval = Interval(value - 0.01, value + 0.01, 0.95, "10 disjoint segments", "independent", POLICY_VALUE)
    estimate = Estimate(
        value,
        0.005,
        interval,
        replay_diagnostics(),
        policy=name,
        evaluator="DRns(q=0.01)",
        curve=learning_curve(value),
        horizon=1000,
        settings={"seed": 7, "level": 0.95, "reward_range": [0.0, 1.0]},
    )
    return replace(estimate, **changes)


def make_comparison(low: float) -> Comparison:
    interval = Interval(low, 0.05, 0.95, "group jackknife", "independent", POLICY_VALUE)
    estimates = {"greedy": make_estimate(0.07), "linucb": make_estimate(0.08)}
    difference = Difference("linucb", "greedy", 0.01, 0.004, interval)
    return Comparison(estimates, (difference,), (("linucb", 0.9), ("greedy", 0.1)), ("Auto chose.",))


def clock_diagnostics(**changes: Any) -> ClockDiagnostics:
    facts = ClockDiagnostics(
        events=8_000,
        rounds=200,
        passes=16,
        replicates=300,
        bias_certificate=0.001,
        sampling_error=0.004,
        monte_carlo_error=0.001,
        value_spread=0.5,
    )
    return replace(facts, **changes)


def permuted_diagnostics(**changes: Any) -> PermutedDiagnostics:
    facts = PermutedDiagnostics(
        events=8_000,
        rounds=200,
        permutations=16,
        trajectories=7.5,
        replicates=300,
        bias_certificate=0.001,
        sampling_error=0.004,
        monte_carlo_error=0.001,
    )
    return replace(facts, **changes)


class Page(HTMLParser):
    """What a browser would make of a page: tags with their attributes, text by the id of its element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def script_texts(self) -> list[str]:
        return self.texts["script"]
