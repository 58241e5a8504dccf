"""What many tests share: random logs of every layout, the profile of property tests, and whether there is a browser."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, settings

from backcast.log import Log
from tools.chromium import HOW_TO_ADD, find_chromium

# The same examples in every run, and no deadline that a busy machine could miss.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])

MakeLog = Callable[..., Log]

BROWSER_TESTS = Path(__file__).with_name("browser")
LEFT_OUT = f"The browser tests were left out, because no Chromium was found; to run them, {HOW_TO_ADD}."


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the browser tests where there is no browser; where checks are automatic, that is an error."""
    if find_chromium() is not None:
        return
    without = [item for item in items if item.path.is_relative_to(BROWSER_TESTS)]
    if without and os.environ.get("CI", "").lower() in ("1", "true"):
        raise pytest.UsageError(f"CI is set and no Chromium was found, which the browser tests need; {HOW_TO_ADD}.")
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that the browser tests were left out, so that nobody takes silence for success."""
    if find_chromium() is None:
        terminalreporter.section("browser tests", sep="=", yellow=True)
        terminalreporter.line(LEFT_OUT)


def random_log(layout: str, n: int = 60, n_actions: int = 3, n_features: int = 2, seed: int = 0) -> Log:
    """A log of a layout ("dense", "sparse", "masked", "actions") whose logger's probabilities are all recorded.

    Probabilities are multiples of 1/64 that sum to 1 exactly, none below 1/64 except on unavailable actions.
    """
    rng = np.random.default_rng(seed)
    available = rng.random((n, n_actions)) < 0.7 if layout in ("masked", "actions") else np.ones((n, n_actions), bool)
    available[np.arange(n), rng.integers(n_actions, size=n)] = True
    logging = np.array([_dyadic(row, rng) for row in available])
    actions = np.array([rng.choice(n_actions, p=row) for row in logging])
    features = rng.normal(size=(n, n_actions, n_features) if layout == "actions" else (n, n_features))
    contexts: Any = features
    if layout == "sparse":
        contexts = scipy.sparse.csr_array(np.where(rng.random(features.shape) < 0.6, features, 0.0))
    return Log(
        contexts,
        actions=actions,
        rewards=rng.random(n).round(3),
        propensities=logging[np.arange(n), actions],
        n_actions=n_actions,
        available=None if available.all() else available,
        reward_range=(0.0, 1.0),
        logging_probabilities=logging,
    )


def _dyadic(available: np.ndarray[Any, np.dtype[np.bool_]], rng: np.random.Generator) -> Any:
    open_ = int(available.sum())
    counts = np.zeros(available.size)
    counts[available] = 1 + rng.multinomial(64 - open_, rng.dirichlet(np.ones(open_)))
    return counts / 64


@pytest.fixture(scope="session")
def make_log() -> MakeLog:
    """``make_log(layout, n, n_actions, n_features, seed)``."""
    return random_log
