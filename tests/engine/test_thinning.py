"""Thinned replay: the histories and values of passes with meters, from far fewer scored events."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._arrays import BoolArray, FloatArray
from backcast._engine import thinning
from backcast._engine.clock import NO_EDGES, ClockPass, run_clock_pass
from backcast._engine.filling import Fill
from backcast._engine.replay_loop import EventArrays
from backcast._engine.thinning import run_thinned_pass
from backcast.environments import LinearEnvironment
from backcast.evaluators import PassInputs
from backcast.evaluators._pass_cost import is_thinned, thinned_scorings

WORLD = LinearEnvironment(3, 4, logging="uniform", seed=1)
LOG = WORLD.log(4_000, np.random.default_rng(0))
PREDICTED = np.full((1, 3), LOG.rewards.mean())
T = 60


class Counting:
    """A policy in Python that prefers the action with the best mean, and counts the events that it scores."""

    scored = 0
    batch_size = 1

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.sums, self.counts = np.zeros(n_actions), np.ones(n_actions)

    def probabilities(self, contexts: FloatArray, available: BoolArray | None = None) -> FloatArray:
        type(self).scored += len(contexts)
        chances = np.full(self.sums.size, 0.1)
        chances[np.argmax(self.sums / self.counts)] += 1.0 - chances.sum()
        return np.tile(chances, (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: FloatArray, probabilities: Any) -> None:
        np.add.at(self.sums, actions, rewards)
        np.add.at(self.counts, actions, 1.0)


class InTens(Counting):
    batch_size = 10


def run(policy: Any, log: bc.Log, seed: int, horizon: int = T, *, thins: bool = True) -> ClockPass:
    """One pass in which a fifth of the events is held out and read, or one with meters over the others."""
    rng = np.random.default_rng(seed)
    held_out = rng.random(len(log)) < 0.2
    means = PREDICTED[0, log.columns.actions]
    fill = Fill.from_log(log, means, horizon, rng, held_out)
    events = EventArrays.from_log(log, PREDICTED, rng.random(len(log)))
    if thins:
        return run_thinned_pass(policy, log, events, horizon, rng, NO_EDGES, 1, fill)
    return run_clock_pass(policy, log, events, horizon, rng, NO_EDGES, 1, fill)


@pytest.mark.parametrize("policy", [Counting(), InTens(), bc.LinearThompson(0.2)], ids=["single", "tens", "compiled"])
def test_values_are_those_of_passes_with_meters(policy: Any) -> None:
    # the same log, so that both have the same mean over passes; a false alarm of |z| > 4 has odds of 6e-5
    values = [
        [float(run(policy, LOG, seed, thins=thins).value.mean()) for seed in range(40)] for thins in (True, False)
    ]
    means, errors = np.mean(values, axis=1), np.std(values, axis=1) / math.sqrt(40)
    assert abs(means[0] - means[1]) < 4 * math.hypot(*errors)


def test_few_events_are_scored() -> None:
    Counting.scored = 0
    run(Counting(), LOG, 0)
    # 60 readings of 256 events, and blocks of at least 16 proposals; meters would score 60 x 4,000
    assert Counting.scored < T * (thinning.SAMPLE + 2 * thinning.SMALLEST_BLOCK)


def test_results_do_not_depend_on_the_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(InTens(), LOG, 3)
    monkeypatch.setattr(thinning, "SMALLEST_BLOCK", 1_000)
    np.testing.assert_array_equal(run(InTens(), LOG, 3).order, expected.order)
    monkeypatch.setattr(thinning, "SMALLEST_BLOCK", 1)
    monkeypatch.setattr(thinning, "LARGEST_BLOCK", 1)
    one_by_one = run(InTens(), LOG, 3)
    np.testing.assert_array_equal(one_by_one.order, expected.order)
    np.testing.assert_array_equal(one_by_one.value, expected.value)


def test_rounds_after_the_last_event_are_filled() -> None:
    played = run(Counting(), LOG[:50], 1, horizon=200)
    assert played.n_rounds == 200
    assert played.filled.sum() > 100
    assert played.filled[-50:].all()  # the clock has passed all propensities
    assert played.exhausted[-1] == pytest.approx(1.0, abs=0.5)


def test_a_policy_that_never_chooses_what_was_logged_ends_early() -> None:
    log = bc.Log(LOG.contexts[:40], np.zeros(40, dtype=int), LOG.rewards[:40], np.full(40, 0.5), n_actions=3)
    assert run(bc.Fixed([0.0, 0.5, 0.5]), log, 0, horizon=5).n_rounds == 0


def test_an_event_is_read_as_often_as_another() -> None:
    played = run(Counting(), LOG, 0, horizon=30)
    held_out = np.random.default_rng(0).random(len(LOG)) < 0.2
    was_read = np.isfinite(played.event_values)
    assert not was_read[~held_out].any()
    assert was_read.sum() == held_out.sum()  # 30 x 256 readings of about 800 events
    assert abs(played.reading.sum()) < 1e-12  # influences are relative to the mean


class TestRule:
    UNIFORM = np.full(100, 0.1)

    @pytest.mark.parametrize(
        ("policy", "n_events", "horizon", "expected"),
        [
            pytest.param(Counting(), 100_000, 1_000, True, id="python"),
            pytest.param(bc.LinearThompson(), 100_000, 1_000, True, id="integrals for every event"),
            pytest.param(bc.LinUCB(), 100_000, 1_000, False, id="a comparison per event"),
            pytest.param(bc.Uniform(), 100_000, 1_000, False, id="fixed"),
            pytest.param(Counting(), 10_000, 1_000, False, id="exhausted"),
            pytest.param(Counting(), 2_500, 60, False, id="short"),
            pytest.param(Counting(), 100_000, 19, False, id="few updates"),
        ],
    )
    def test_long_logs_are_thinned(self, policy: Any, n_events: int, horizon: int, expected: bool) -> None:
        assert is_thinned(policy, self.UNIFORM, n_events, horizon, 8) == expected

    def test_it_counts_what_is_scored(self) -> None:
        Counting.scored = 0
        log = LinearEnvironment(10, 3, logging="uniform", seed=1).log(20_000, np.random.default_rng(0))
        clock = bc.ClockReplay()
        inputs = PassInputs(log, np.zeros((1, 10)), 200)
        clock.run_pass(Counting(), inputs, None, np.random.SeedSequence(0))
        assert clock.is_thinned(Counting(), inputs)
        assert Counting.scored < thinned_scorings(Counting(), 10, 200, 8)

    def test_without_filling_meters_are_used(self) -> None:
        inputs = PassInputs(WORLD.log(50_000, np.random.default_rng(0)), PREDICTED, 200)
        assert bc.ClockReplay().is_thinned(Counting(), inputs)
        assert not bc.ClockReplay(fill=False).is_thinned(Counting(), inputs)


def test_estimates_have_errors_outcomes_and_the_same_numbers_again() -> None:
    log = LinearEnvironment(2, 2, logging="uniform", seed=1).log(12_000, np.random.default_rng(0))
    log = bc.Log(
        log.contexts,
        log.actions,
        log.rewards,
        log.propensities,
        outcomes={"double": 2 * log.rewards},
        segments={"side": np.where(np.asarray(log.contexts)[:, 0] > 0, "left", "right")},
    )
    found, again = (
        bc.compare(log, {"counting": Counting()}, horizon=80, exchangeable=True, replicates=16, n_jobs=jobs)
        for jobs in (1, 2)
    )
    estimate = found["counting"]
    assert estimate == again["counting"]
    assert estimate.diagnostics.filled_share == 0.0
    assert 0.0 < estimate.std_error < 0.1
    assert 0.0 < estimate.diagnostics.value_spread < 5.0
    doubled = found.outcomes["double"]["counting"]
    # its reward model is fitted on doubled rewards, folds and histories are the same
    assert doubled.value == pytest.approx(2 * estimate.value, rel=0.02)
    assert {segment.name for segment in found.by_segment("side")} == {"left", "right"}
