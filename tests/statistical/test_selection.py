"""No selection: a value is a mean over runs that does not depend on how many of them fit into a log or look precise.

The first test is a small version of ``bench.accuracy.selection``, which has more settings and logs.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._engine.replay import MultiplierSchedule, ReplayRun
from backcast._request import EvaluationRequest, SeedKey
from backcast.evaluators._pass_inputs import PassInputs
from backcast.evaluators._passes import PassResult
from backcast.evaluators._replicates import run_replicates
from bench.accuracy.selection import HORIZON, Commit, Setting

LOGS = 80


@pytest.mark.parametrize("setting", [Setting(7, 1200, 0.1), Setting(None, 600, 0.2)], ids=["threshold", "better mean"])
def test_policies_that_commit_are_evaluated_without_bias(setting: Setting) -> None:
    """The mean error is within 3 of its standard errors (odds of a false alarm 1 in 370), and 68 logs are covered.

    At a coverage of 92 %, fewer than 68 of 80 would be covered in one case of 93.
    """
    truth = setting.live_value()
    estimates = [
        bc.evaluate(setting.make_log(number), Commit(setting.threshold), horizon=HORIZON, seed=number, replicates=32)
        for number in range(1000, 1000 + LOGS)
    ]
    errors = np.array([estimate.value for estimate in estimates]) - truth
    assert abs(errors.mean()) < 3 * errors.std(ddof=1) / np.sqrt(LOGS)
    intervals = [estimate.interval for estimate in estimates if estimate.interval is not None]
    assert sum(interval.low <= truth <= interval.high for interval in intervals) >= 68


class WaitsAfterAReward:
    """Choose evenly until a reward of 1, and action 1 alone from then on, which takes more events to accept."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.shares = np.array([0.5, 0.5])

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.shares, (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        if rewards[0] == 1:
            self.shares = np.array([0.0, 1.0])


@cache
def runs_of_all_logs() -> list[ReplayRun]:
    """One run for each of the 256 logs of four events with two actions and rewards 0 and 1."""
    runs = []
    for events in product(product((0, 1), (0.0, 1.0)), repeat=4):
        actions, rewards = zip(*events, strict=True)
        log = bc.Log(None, actions, rewards, [0.5] * 4, n_actions=2, reward_range=(0, 1))
        schedule = MultiplierSchedule(q=0.0)
        run = ReplayRun(WaitsAfterAReward(), schedule, (0.0, 1.0), np.random.default_rng(0), horizon=2)
        run.feed(log, np.zeros((1, 2)), np.full(4, 0.5))
        run.close()
        runs.append(run)
    return runs


class TestTrajectoriesOfAllLogs:
    """All 256 logs of four events, uniform actions and rewards, each as likely as the others.

    A trajectory has two rounds. Acceptance has the probability 0 or 1, so nothing else is random. Longer trajectories
    have a higher value here: the mean over all logs shows exactly what is selected.
    """

    def test_the_mean_over_complete_trajectories_has_the_expectation_of_the_first(self) -> None:
        runs = runs_of_all_logs()
        complete = [[each.value for each in run.trajectories if each.complete] for run in runs]
        complete = [values for values in complete if values]
        first = np.mean([values[0] for values in complete])
        assert np.mean([np.mean(values) for values in complete]) == pytest.approx(first, abs=1e-12)
        # with the trajectory that the end of the log cuts off, the mean over the same logs is another
        started = [[each.value for each in run.trajectories] for run in runs if run.trajectories[0].complete]
        assert abs(np.mean([np.mean(values) for values in started]) - first) > 0.01

    def test_the_curve_is_that_of_the_complete_trajectories(self) -> None:
        for run in runs_of_all_logs():
            weight = sum(float(each.sums["weight"]) for each in run.trajectories if each.complete)
            reward = sum(float(each.sums["reward"]) for each in run.trajectories if each.complete)
            assert run.curve.sums[:, :2].sum(axis=0) == pytest.approx([reward, weight], abs=1e-12)

    def test_a_cut_off_trajectory_that_is_the_longest_is_noted(self) -> None:
        log = bc.Log(None, [0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0.5] * 6, n_actions=2, reward_range=(0, 1))
        options: dict[str, Any] = {"horizon": 2, "reward_model": 0.0}
        estimate = bc.evaluate(log, WaitsAfterAReward(), bc.DRns(q=0.0), **options)
        assert any(
            note.startswith("The end of the log cut off a trajectory after 4 events and 1 of 2")
            for note in estimate.notes
        )
        shorter = bc.evaluate(log[:4], WaitsAfterAReward(), bc.DRns(q=0.0), **options)
        assert not any("cut off" in note for note in shorter.notes)


@pytest.mark.parametrize(("pilots_differ", "n_passes"), [(True, 96), (False, 16)])
def test_passes_of_the_value_do_not_decide_on_their_number(pilots_differ: bool, n_passes: int) -> None:
    """Pilots that differ ask for more passes, and passes of the value do not, for the jackknife over groups too."""

    def one_pass(policy: Any, inputs: PassInputs, rows: Any, seed: np.random.SeedSequence) -> PassResult:
        key, number = seed.spawn_key[0], seed.spawn_key[-1]
        value = 0.01 * float(np.random.default_rng(seed).random())
        if (key == SeedKey.PILOT and pilots_differ) or (key == SeedKey.FULL_PASS and not pilots_differ):
            value += number % 2
        if rows is not None:
            value = float(rows.mean()) / 100
        return PassResult(value, np.full(2, value), inputs.horizon, 0.0)

    log = bc.Log(None, [0, 1] * 50, [1.0, 0.0] * 50, [0.5] * 100)
    table = run_replicates(
        PassInputs(log, np.zeros((1, 2)), 2),
        EvaluationRequest(log, bc.UCB1(), horizon=2, replicates="auto"),
        [bc.UCB1()],
        one_pass=one_pass,
        default_interval=bc.GroupJackknife(),
        long_enough=lambda passes: True,
        horizon_error=lambda inputs, reached: bc.HorizonNotReached("too short"),
    )
    assert (len(table.full), len(table.subset)) == (n_passes, 300)
    assert table.has_standard_errors
