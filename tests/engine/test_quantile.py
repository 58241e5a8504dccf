"""The running quantile of acceptance ratios, compared with numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backcast._engine.equations import quantile_rank
from backcast._engine.quantile import grow, new_quantile, observe, quantile

ratios = st.lists(
    st.one_of(st.floats(0, 3), st.sampled_from((0.0, 0.25, 0.5, 1.0, 2.0, np.inf))), min_size=1, max_size=60
)
shares = st.one_of(st.sampled_from((0.0, 0.01, 0.05, 0.07, 0.1, 0.5, 1.0)), st.floats(0, 1))
ceilings = st.sampled_from((0.25, 1.0, 2.0, 10.0))


@given(ratios, shares, ceilings, st.booleans(), st.integers(1, 17), st.integers(0, 40))
def test_running_quantile_is_numpys_capped(
    values: list[float], q: float, ceiling: float, known: bool, chunk: int, more: int
) -> None:
    running = new_quantile(q, ceiling, len(values) + more if known else None)
    for k, value in enumerate(values):
        if k % chunk == 0:
            running = grow(running, chunk)
        observe(running, value)
        expected = min(ceiling, float(np.quantile(values[: k + 1], q, method="inverted_cdf")))
        assert quantile(running) == expected


@given(st.integers(0, 2**32 - 1), shares, st.integers(1, 60), st.booleans())
def test_running_quantile_may_be_asked_seldom(seed: int, q: float, every: int, known: bool) -> None:
    # two stretches of different size, so that values must move between the heaps in both directions
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.random(300) + rng.integers(2), rng.random(300)])
    running = new_quantile(q, 3.0, values.size if known else None)
    for k, value in enumerate(values):
        running = grow(running, 1)
        observe(running, value)
        if k % every == 0:
            assert quantile(running) == np.quantile(values[: k + 1], q, method="inverted_cdf")


@given(st.integers(0, 2**32 - 1), shares, st.sampled_from(("falling", "rising", "random")))
@settings(max_examples=25)
def test_long_streams_stay_exact_while_values_are_dropped(seed: int, q: float, order: str) -> None:
    n = 3000
    values = np.random.default_rng(seed).random(n)
    values = {"falling": np.sort(values)[::-1], "rising": np.sort(values), "random": values}[order]
    running = new_quantile(q, 2.0, n)
    for k, value in enumerate(values):
        running = grow(running, 1)
        observe(running, value)
        if k % 97 == 0 or k == n - 1:
            assert quantile(running) == np.quantile(values[: k + 1], q, method="inverted_cdf")


@pytest.mark.parametrize("order", ["falling", "random"])
@pytest.mark.parametrize("q", [0.0, 0.01, 0.1])
def test_memory_is_bounded_by_the_rank_when_the_length_is_known(q: float, order: str) -> None:
    n, chunk = 100_000, 2_000
    values = np.random.default_rng(0).random(n)
    values = np.sort(values)[::-1] if order == "falling" else values
    running = new_quantile(q, 2.0, n)
    most = 0
    for start in range(0, n, chunk):
        running = grow(running, chunk)
        feed(running, values[start : start + chunk])
        most = max(most, running.low.size + running.high.size)
    assert quantile(running) == np.quantile(values, q, method="inverted_cdf")
    # the rank itself, a waiting room of twice that, growth by half, and a constant
    assert most <= 6 * max(1, q * n) + 8192


def feed(running: Any, values: Any) -> None:
    for value in values:
        observe(running, value)


def test_values_at_the_ceiling_are_counted_and_not_kept() -> None:
    running = grow(new_quantile(0.5, 1.0), 1000)
    feed(running, [1.0, np.inf, 5.0] * 300)
    assert running.counts[:3].tolist() == [0, 0, 900]
    assert quantile(running) == 1.0
    feed(running, [0.5])
    assert quantile(running) == 1.0
    assert quantile_rank(0.5, 901) == 451
