"""Reports as files, hostile labels and all, and a browser to open them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Dialog, Page

import backcast as bc
from tools.chromium import chromium

WIDTH, HEIGHT = 1000, 900
RARE, RARE_REWARDS = (0.985, 0.005, 0.005, 0.005), (0.10, 0.133, 0.167, 0.20)  # one or two events of each other action
HOSTILE = (
    "<script>window.ran = true</script>",
    "</script><script>window.ran = true</script>",
    '"><img src=x onerror="window.ran = true">',
    "'; window.ran = true; //",
    "javascript:window.ran = true",
    "a\u202eb\u2066c {{ 7 * 7 }} &lt;b&gt;",
)


@dataclass
class Opened:
    """A page with its console messages, errors, dialogs and requests."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def note(self, dialog: Dialog) -> None:
        self.messages.append(dialog.message)
        dialog.dismiss()


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as instance:
        yield instance


@pytest.fixture(scope="session")
def open_page(browser: Browser) -> Open:
    """``open_page(path, drawn=True, ...)``: a new page, with the charts drawn."""

    def open_one(path: Path, *, drawn: bool = True, **options: Any) -> Opened:
        opened = Opened(browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, offline=True, **options))
        opened.page.on("console", lambda message: opened.messages.append(message.text))
        opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
        opened.page.on("dialog", opened.note)
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(path.as_uri())
        if drawn:
            opened.page.wait_for_function("document.querySelectorAll('.chart:not(.vega-embed)').length === 0")
        return opened

    return open_one


@pytest.fixture(scope="session")
def opened_once(open_page: Open, reports: dict[str, Path]) -> Callable[[str], Opened]:
    """The page of a kind of report, opened once for all tests that do not change it, because drawing takes seconds."""
    return cache(lambda kind: open_page(reports[kind]))


@pytest.fixture
def shared(opened_once: Callable[[str], Opened]) -> Iterator[Callable[[str], Opened]]:
    """``shared(kind)``: that page, reset to wide, light and on screen after the test."""
    used = []

    def get(kind: str) -> Opened:
        used.append(opened_once(kind))
        return used[-1]

    yield get
    for opened in used:
        opened.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        opened.page.emulate_media(media="screen", color_scheme="light")
        opened.page.mouse.move(0, 0)


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page for each situation of a decision, replays and a fixed policy side by side, and hostile labels."""
    folder = tmp_path_factory.mktemp("reports")
    log, hostile_log = news(), news(HOSTILE[:3])  # reports draw replays from them
    slow = slow_offers()
    even, rare, good = coins(600, (0.3, 0.3, 0.3)), coins(300, RARE_REWARDS, RARE), coins(2000, (0.1, 0.5), (0.3, 0.7))
    results = {
        "winner": _comparison(log),
        "tie": bc.compare(even, {"first": bc.Fixed([1, 0, 0]), "second": bc.Fixed([0, 1, 0])}),
        "hopeless": bc.compare(rare, {"new": bc.Fixed([0, 0, 0, 1]), "control": bc.Fixed([1, 0, 0, 0])}),
        "worse": bc.evaluate(good, bc.Fixed([1, 0])),
        "guardrail": bc.compare(slow, {"new": bc.Fixed([0, 1])}, guardrails=["latency < logged + 5"]),
        "replay": _replays(log),
        "hostile": _hostile(hostile_log),
    }
    about = {HOSTILE[0]: HOSTILE[1], "log": f"{HOSTILE[2]}.csv"}
    return {
        name: bc.save_report(
            result,
            folder / f"{name}.html",
            about=about if name == "hostile" else None,
            result_file="result.json" if name == "winner" else None,
        )
        for name, result in results.items()
    }


def news(labels: tuple[str, ...] = ("sport", "politics", "weather"), events: int = 800) -> bc.Log:
    rng = np.random.default_rng(0)
    contexts = rng.dirichlet(np.ones(3), size=events)
    actions = rng.integers(3, size=events)
    rewards = (rng.random(events) < 0.2 + 0.6 * contexts[np.arange(events), actions]).astype(float)
    names = np.array(labels, dtype=object)[actions]
    times = np.datetime64("2026-05-01T00:00:00") + np.arange(events) * np.timedelta64(60, "s")
    return bc.Log(
        contexts,
        names,
        rewards,
        np.full(events, 1 / 3),
        action_labels=list(labels),
        reward_range=(0.0, 1.0),
        times=times,
    )


def slow_offers() -> bc.Log:
    """The second of two actions earns more and answers later; with a further outcome and a segment column."""
    rng, n = np.random.default_rng(0), 2000
    actions, device = rng.integers(2, size=n), rng.choice(["phone", "desk"], size=n)
    rewards = (rng.random(n) < 0.2 + 0.3 * actions).astype(float)
    latency = rng.normal(100 + 20 * actions, 10)
    return bc.Log(
        None,
        actions,
        rewards,
        np.full(n, 0.5),
        reward_range=(0, 1),
        outcomes={"latency": latency},
        segments={"device": device},
    )


def coins(events: int, rewards: tuple[float, ...], probabilities: tuple[float, ...] | None = None) -> bc.Log:
    """A log without contexts, of a logger with these probabilities of the actions."""
    rng, n_actions = np.random.default_rng(0), len(rewards)
    chosen = np.full(n_actions, 1 / n_actions) if probabilities is None else np.array(probabilities)
    actions = rng.choice(n_actions, size=events, p=chosen)
    earned = (rng.random(events) < np.array(rewards)[actions]).astype(float)
    return bc.Log(None, actions, earned, chosen[actions], n_actions=n_actions, reward_range=(0, 1))


def _comparison(log: bc.Log) -> bc.Comparison:
    policies = {
        "uniform": bc.EpsilonGreedy(1.0, batch_size=10),
        "greedy": bc.EpsilonGreedy(0.1, batch_size=10),
        "linucb": bc.LinUCB(0.3, batch_size=10),
    }
    return bc.compare(log, policies, horizon=60, replicates=60, exchangeable=True)


def _replays(log: bc.Log) -> dict[str, bc.Estimate]:
    learning = {"greedy": bc.EpsilonGreedy(0.1, batch_size=10), "linucb": bc.LinUCB(0.3, batch_size=10)}
    replays = {name: bc.evaluate(log, policy, bc.DRns(q=0.05), horizon=60) for name, policy in learning.items()}
    return {**replays, "always sport": bc.evaluate(log, bc.Fixed([1.0, 0.0, 0.0]))}


def _hostile(log: bc.Log) -> bc.Comparison:
    policies = {name: bc.EpsilonGreedy(0.1 + i / 10, batch_size=20) for i, name in enumerate(HOSTILE)}
    return bc.compare(log, policies, horizon=40, replicates=60, exchangeable=True)
