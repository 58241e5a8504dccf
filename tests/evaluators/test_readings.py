"""Outcomes and segments are read in the pass of the reward, and agree with passes of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import backcast as bc
from backcast._readings import plan_readings
from backcast.environments import LinearEnvironment
from backcast.evaluators import PassEvaluator, PassInputs, PassResult, PolicyRun
from backcast.io.stream import LogStream
from tests.support.policies import RewardProportional

N, HORIZON = 600, 60
WHOLE = LinearEnvironment(3, 4, logistic=True, logging="paper").log(N, np.random.default_rng(2))
RNG = np.random.default_rng(3)
LOG = bc.Log(
    WHOLE.contexts,
    WHOLE.actions,
    WHOLE.rewards,
    WHOLE.propensities,
    n_actions=3,
    outcomes={"ms": 20 + 5 * WHOLE.actions + RNG.normal(size=N), "cost": RNG.normal(size=N)},
    segments={"device": RNG.choice(["phone", "desk", "tv"], size=N, p=[0.5, 0.3, 0.2])},
)
PLAIN = bc.Log(WHOLE.contexts, WHOLE.actions, WHOLE.rewards, WHOLE.propensities, n_actions=3)
POLICIES: dict[str, Any] = {
    "greedy": bc.LinUCB(0.3),
    "batches": bc.EpsilonGreedy(0.1, batch_size=7),
    "all events change": bc.Softmax(0.1),
    "context-free": bc.UCB1(),
    "python": RewardProportional(),
    "fixed": bc.Fixed([0.5, 0.3, 0.2]),
}


def inputs_with_readings(horizon: int = HORIZON, *, one_row: bool = False) -> PassInputs:
    rng = np.random.default_rng(7)
    rows = 1 if one_row else N
    inputs = PassInputs(LOG, rng.random((rows, 3)), horizon)
    return inputs.with_readings(plan_readings(LOG), lambda reading: 10 * rng.random((rows, 3)))


def assert_same_results(result: PassResult, expected: PassResult) -> None:
    for name in set(PassResult._fields) - {"readings", "further"}:
        values = getattr(result, name), getattr(expected, name)
        np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("one_row", [False, True])
@pytest.mark.parametrize("name", POLICIES)
def test_one_pass_reads_what_passes_of_their_own_read(name: str, one_row: bool) -> None:
    clock = bc.ClockReplay()
    inputs = clock.with_fresh_rewards(inputs_with_readings(one_row=one_row), None, 0)
    for rows in (None, np.arange(0, N, 2)):
        result = clock.run_pass(POLICIES[name], inputs, rows, np.random.SeedSequence(1))
        alone = clock.run_pass(POLICIES[name], inputs.without_readings(), rows, np.random.SeedSequence(1))
        assert result.value == alone.value
        np.testing.assert_array_equal(result.curve, alone.curve)
        np.testing.assert_array_equal(result.own, alone.own)
        assert len(result.further) == len(inputs.readings) == 5
        for number, read in enumerate(result.further):
            own = clock.run_pass(POLICIES[name], inputs.read_as(number), rows, np.random.SeedSequence(1))
            assert_same_results(read, own)


@pytest.mark.parametrize("reads_held_out", [False, True])
def test_filled_passes_read_what_passes_of_their_own_read(reads_held_out: bool) -> None:
    clock = bc.ClockReplay(fill=True)
    inputs = clock.with_fresh_rewards(inputs_with_readings(2 * N), None, 0)
    for of_half in (False, True):
        options: dict[str, Any] = {"reads_held_out": reads_held_out, "of_half": of_half}
        result = clock.run_pass(POLICIES["batches"], inputs, None, np.random.SeedSequence(1), **options)
        assert result.filled.size > 0
        for number, read in enumerate(result.further):
            own = clock.run_pass(
                POLICIES["batches"], inputs.read_as(number), None, np.random.SeedSequence(1), **options
            )
            assert_same_results(read, own)


class CountedUpdates(RewardProportional):
    """Counts the batches that all copies learn from."""

    updates: ClassVar[list[int]] = []

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.updates.append(len(actions))
        super().learn(contexts, actions, rewards, probabilities)


@pytest.mark.parametrize("in_parts", [False, True])
def test_readings_need_no_passes_of_their_own(in_parts: bool) -> None:
    """The policy learns as often with two outcomes and three segments as it does without them."""
    counts = []
    for log in (PLAIN, LOG):
        CountedUpdates.updates.clear()
        options: dict[str, Any] = {"replicates": 8, "horizon": HORIZON}
        read: Any = log
        if in_parts:
            read, options = LogStream.from_logs([log[:200], log[200:]]), {"horizon": 10}
        found = bc.compare(read, {"a": CountedUpdates()}, bc.ClockReplay(), exchangeable=True, **options)
        assert len(found.outcomes) == (2 if log is LOG else 0)
        counts.append(len(CountedUpdates.updates))
    assert counts[0] == counts[1] > 0


class FirstMatches(PassEvaluator):
    """A pass of a user: rewards of the events whose action the policy would rather choose than not."""

    def run_pass(self, policy: Any, inputs: PassInputs, rows: Any, seed: np.random.SeedSequence) -> PassResult:
        rng = np.random.default_rng(seed)
        log = inputs.log if rows is None else inputs.log[rows]
        run, rewards = PolicyRun(policy, log, np.random.default_rng(seed.spawn(1)[0])), []
        for k in rng.permutation(len(log)):
            probability = run.probabilities([k])[0, log.actions[k]]
            if rng.random() < 0.1 * probability / log.propensities[k]:
                rewards.append(log.rewards[k])
                run.accept(int(k), probability)
        return PassResult.from_rounds(np.array(rewards), inputs.horizon)


def test_passes_of_users_are_repeated_for_each_reading() -> None:
    options: dict[str, Any] = {"horizon": 5, "replicates": 60, "exchangeable": True}
    found = bc.compare(LOG, {"a": bc.LinUCB()}, FirstMatches(), **options)
    alone = bc.compare(PLAIN, {"a": bc.LinUCB()}, FirstMatches(), **options)
    assert found.estimates["a"].value == alone.estimates["a"].value
    assert 20 < found.outcomes["ms"].estimates["a"].value < 30
    total = sum(segment.share * segment.values["a"] for segment in found.by_segment("device"))
    assert total == pytest.approx(found.estimates["a"].value, abs=0.2)
