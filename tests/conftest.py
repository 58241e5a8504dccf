"""What many tests share: random logs of every layout, the profile of property tests, and whether there is a browser."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from backcast.log import Log
from tests.support.logs import random_log
from tools.chromium import HOW_TO_ADD, find_chromium

# Processes that tests start and interrupt would inherit a signal that is ignored, as SIGINT is under nohup.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

FAST_EXAMPLES = 5  # examples per property in ``make test-fast``
# The same examples in every run, and no deadline that a busy machine could miss.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("ci"), max_examples=FAST_EXAMPLES)

MakeLog = Callable[..., Log]

TESTS = Path(__file__).parent
BROWSER_TESTS = TESTS / "browser"
# Marked "slow" and left out by ``make test-fast``: clusters, browsers, samples large enough for statistics, records of
# numbers, attacks, programs as a whole, and benchmarks.
SLOW = [
    *(TESTS / name for name in ("browser", "golden", "parallel", "security", "statistical")),
    *(TESTS / "project" / f"test_{name}.py" for name in ("docs", "examples", "startup")),
    *(TESTS / "cli" / f"test_{name}.py" for name in ("examples", "help", "init", "interrupt")),
    *(TESTS / "properties" / f"test_{name}.py" for name in ("stream_cuts", "streams")),
    TESTS.parent / "bench",
]
LEFT_OUT = f"The browser tests were left out, because no Chromium was found; to run them, {HOW_TO_ADD}."


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and leave out browser tests without a browser, which is an error in automatic checks."""
    is_fast = config.getoption("--hypothesis-profile") == "fast"
    for item in items:
        if any(item.path.is_relative_to(path) for path in SLOW):
            item.add_marker("slow")
        own_settings = getattr(getattr(item, "function", None), "_hypothesis_internal_use_settings", None)
        if is_fast and own_settings is not None:
            # a test's own number of examples would take precedence over that of the profile
            few = settings(own_settings, max_examples=min(own_settings.max_examples, FAST_EXAMPLES))
            item.function._hypothesis_internal_use_settings = few  # type: ignore[attr-defined]
    if find_chromium() is not None:
        return
    without = [item for item in items if item.path.is_relative_to(BROWSER_TESTS)]
    if without and os.environ.get("CI", "").lower() in ("1", "true"):
        raise pytest.UsageError(f"CI is set and no Chromium was found, which the browser tests need; {HOW_TO_ADD}.")
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that the browser tests were left out, because silence would look like success."""
    if find_chromium() is None:
        terminalreporter.section("browser tests", sep="=", yellow=True)
        terminalreporter.line(LEFT_OUT)


@pytest.fixture(scope="session")
def make_log() -> MakeLog:
    """``make_log(layout, n, n_actions, n_features, seed)``."""
    return random_log


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """An empty file in which ``CountedLeader`` counts its runs."""
    path = tmp_path / "runs"
    path.touch()
    return path
