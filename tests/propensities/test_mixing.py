"""Logs of several loggers mixed into one: bias, variance, layouts, rejected input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backcast._arrays import FloatArray
from backcast.errors import LogError, OptionError
from backcast.log import Log, replace_columns
from backcast.policies import Fixed
from backcast.propensities import mix_logs
from backcast.propensities.mixing import balanced_probabilities
from tests.support.logs import random_log
from tests.support.tabular import TabularWorld

quick = settings(max_examples=25, deadline=None)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def table_of(log: Log) -> FloatArray:
    assert log.logging_probabilities is not None
    return np.asarray(log.logging_probabilities)


# Logs of several loggers


CONTEXTS, MEANS = [0.5, 0.5], [[0.9, 0.2, 0.4], [0.1, 0.8, 0.5]]
FIRST = np.array([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1]])
SECOND = np.array([[0.05, 0.9, 0.05], [0.1, 0.1, 0.8]])
TARGET = np.array([[0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])


def logger(table: FloatArray) -> Any:
    return lambda contexts: contexts @ table


def ips_terms(log: Log) -> FloatArray:
    target = np.asarray(log.contexts) @ TARGET
    terms: FloatArray = target[np.arange(len(log)), log.actions] / log.propensities * log.rewards
    return terms


def two_logs(sizes: tuple[int, int], seed: int) -> list[Log]:
    worlds = (TabularWorld(CONTEXTS, MEANS, FIRST), TabularWorld(CONTEXTS, MEANS, SECOND))
    return [world.log(n, generator) for world, n, generator in zip(worlds, sizes, rng(seed).spawn(2), strict=True)]


def test_the_mixture_is_unbiased() -> None:
    truth = TabularWorld(CONTEXTS, MEANS).value(TARGET)
    loggers = [logger(FIRST), logger(SECOND)]
    values = [ips_terms(mix_logs(two_logs((60, 140), seed), loggers)).mean() for seed in range(200)]
    # beyond 4 standard errors once in 16,000 seeds
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / 200**0.5


def variance(laws: list[FloatArray], weighing: list[FloatArray], sizes: list[int], means: FloatArray) -> float:
    """Exact variance of IPS over a union of logs of one context, rewards 0 or 1, events weighted by 1/weighing."""
    total, n = 0.0, sum(sizes)
    for law, generator, size in zip(laws, weighing, sizes, strict=True):
        weights = TARGET[0] / generator
        mean, square = (law * weights * means).sum(), (law * weights**2 * means).sum()
        total += size / n**2 * (square - mean**2)
    return total


@quick
@given(st.integers(0, 2**32 - 1), st.integers(1, 50), st.integers(1, 50))
def test_the_mixture_never_has_a_larger_variance(seed: int, first: int, second: int) -> None:
    generator = rng(seed)
    laws = list(np.maximum(generator.dirichlet(np.full(3, 0.5), size=2), 1e-3))
    laws = [law / law.sum() for law in laws]
    sizes, means = [first, second], generator.random(3)
    mixed = balanced_probabilities([law[None] for law in laws], sizes)[0]
    assert variance(laws, [mixed, mixed], sizes, means) <= variance(laws, laws, sizes, means) * (1 + 1e-12)


def test_the_mixture_of_opposite_loggers_has_a_much_smaller_variance() -> None:
    laws = [np.array([0.98, 0.01, 0.01]), np.array([0.01, 0.98, 0.01])]
    means, mixed = np.full(3, 0.5), np.array([0.495, 0.495, 0.01])
    assert variance(laws, [mixed, mixed], [10, 10], means) < variance(laws, laws, [10, 10], means) / 3


def test_balanced_propensities_by_hand() -> None:
    logs = two_logs((1, 3), 0)
    mixed = mix_logs(logs, [logger(FIRST), logger(SECOND)])
    contexts = np.asarray(mixed.contexts)
    np.testing.assert_allclose(table_of(mixed), contexts @ (0.25 * FIRST + 0.75 * SECOND))
    assert len(mixed) == 4
    assert mixed.reward_range == (0.0, 1.0)


def test_a_single_log_is_unchanged() -> None:
    log = two_logs((50, 1), 3)[0]
    again = mix_logs([log], [logger(FIRST)])
    np.testing.assert_allclose(again.propensities, log.propensities)


@pytest.mark.parametrize("layout", ["dense", "sparse", "masked", "actions"])
def test_logs_of_every_layout_mix(layout: str) -> None:
    logs = [random_log(layout, n=n, seed=n) for n in (30, 50)]
    table = np.concatenate([table_of(log) for log in logs])
    mixed = mix_logs(logs, [table, table])
    np.testing.assert_allclose(mixed.propensities, np.concatenate([log.propensities for log in logs]))
    assert mixed.n_features == logs[0].n_features
    assert (mixed.available is None) == (logs[0].available is None)


def test_policies_can_be_the_loggers() -> None:
    class Coin:
        def probabilities(self, contexts: Any, available: Any = None) -> FloatArray:
            return np.full((contexts.shape[0], 2), 0.5)

    log = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5], times=[1, 2])
    mixed = mix_logs([log, log], [Coin(), Coin()])
    assert mixed.times is not None
    assert mixed.times.tolist() == [1, 1, 2, 2]


def test_missing_masks_are_filled_with_true() -> None:
    unmasked = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
    masked = Log(None, [0, 0], [0, 1], [1.0, 1.0], available=[[True, False]] * 2)
    halves, first = np.full((4, 2), 0.5), np.tile([1.0, 0.0], (4, 1))
    mixed = mix_logs([unmasked, masked], [halves, first])
    assert mixed.available is not None
    assert mixed.available.tolist() == [[True, True]] * 2 + [[True, False]] * 2


def test_the_mixture_of_estimated_propensities_is_marked() -> None:
    log = replace_columns(two_logs((40, 40), 0)[0], propensities_estimated=True)
    assert mix_logs([log], [logger(SECOND)]).propensities_estimated


class Learner:
    def probabilities(self, contexts: Any, available: Any = None) -> FloatArray:
        return np.full((contexts.shape[0], 3), 1 / 3)

    def learn(self, *columns: Any) -> None: ...


@pytest.mark.parametrize(
    ("loggers", "message"),
    [
        ([logger(FIRST)], "2 logs and 1 loggers"),
        ([logger(SECOND), logger(FIRST)], "are the loggers in the order of their logs?"),
        ([FIRST, SECOND], r"shape \(2, 3\); expected \(40, 3\): every action at every event of all logs"),
        ([Learner(), logger(SECOND)], "logger 0 learns"),
        ([logger(FIRST / 2), logger(SECOND)], "probabilities must be >= 0 and sum to 1"),
    ],
)
def test_invalid_loggers_are_rejected(loggers: list[Any], message: str) -> None:
    with pytest.raises((OptionError, LogError), match=message):
        mix_logs(two_logs((20, 20), 0), loggers)


def test_logs_that_differ_are_rejected() -> None:
    log = Log([[0.0]], ["a"], [0], [1.0])
    with pytest.raises(LogError, match="log 1 has other action labels than log 0"):
        mix_logs([log, Log([[0.0]], ["b"], [0], [1.0])], [None, None])
    with pytest.raises(LogError, match=r"log 1 has contexts of shape \(1, 2\), log 0 \(1, 1\)"):
        mix_logs([log, Log([[0.0, 1.0]], ["a"], [0], [1.0])], [None, None])


def test_outcomes_and_segments_are_mixed_too() -> None:
    columns = ({"ms": [1.0, 2.0]}, {"ms": [3.0, 4.0]})
    devices = (["phone", "desk"], ["watch", "phone"])
    logs = [
        Log(None, [0, 1], [0, 1], [0.5, 0.5], outcomes=outcomes, segments={"device": device})
        for outcomes, device in zip(columns, devices, strict=True)
    ]
    mixed = mix_logs(logs, [Fixed([0.5, 0.5]), Fixed([0.5, 0.5])])
    assert mixed.outcomes["ms"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert mixed.segments["device"].tolist() == ["phone", "desk", "watch", "phone"]
    with pytest.raises(LogError, match="other outcomes or segment columns"):
        mix_logs([logs[0], Log(None, [0, 1], [0, 1], [0.5, 0.5])], [Fixed([0.5, 0.5]), Fixed([0.5, 0.5])])
