"""Values and standard errors from full passes of clock replay: no selection, no dependence on other policies."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.checks import check_policy
from backcast.environments import LinearEnvironment
from backcast.evaluators._passes import mean_of_pairs, remaining_values

LOG = LinearEnvironment(3, 4, logistic=True, seed=1).log(800, np.random.default_rng(0))
OPTIONS: dict[str, Any] = {"horizon": 40, "reward_model": 0.5, "replicates": 16}


class Uncertain:
    """A policy that explores with random numbers of its own."""

    def __init__(self, generator: Any) -> None:
        self.parts = {"generator": generator}
        self.shares = np.array([0.5, 0.3, 0.2])

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.shares, (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.shares = self.shares[:: int(np.sign(self.parts["generator"].random() - 0.5))]


class Started(Uncertain):
    """The same policy with the random numbers of the evaluator."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.parts = {"generator": rng}


def test_a_value_does_not_depend_on_other_policies() -> None:
    policies: dict[str, Any] = {"p": bc.LinUCB(0.5), "q": bc.Uniform(), "s": bc.UCB1()}
    alone = bc.evaluate(LOG, policies["p"], bc.ClockReplay(), **OPTIONS)
    two = bc.compare(LOG, {name: policies[name] for name in "pq"}, bc.ClockReplay(), **OPTIONS)
    three = bc.compare(LOG, policies, bc.ClockReplay(), **OPTIONS)
    for other in (two.estimates["p"], three.estimates["p"]):
        assert other.value == alone.value
        assert other.std_error == alone.std_error
        assert other.interval == alone.interval
    for comparison in (two, three):
        for difference in comparison.differences:
            values = [comparison.estimates[name].value for name in (difference.first, difference.second)]
            assert difference.value == values[0] - values[1]


@pytest.mark.parametrize("policy", [bc.EpsilonGreedy(0.2), bc.LinUCB(0.5, batch_size=7), bc.Uniform()], ids=repr)
def test_the_curve_averages_to_the_value(policy: Any) -> None:
    estimate = bc.evaluate(LOG, policy, bc.ClockReplay(), **{**OPTIONS, "horizon": 73})
    assert estimate.curve is not None
    lengths = np.diff(np.append(0, estimate.curve.rounds))
    assert np.average(estimate.curve.value, weights=lengths) == pytest.approx(estimate.value, abs=1e-12)
    assert (estimate.curve.low < estimate.curve.value).all()


def test_a_fixed_policy_has_the_error_of_the_mean_of_event_values() -> None:
    policy = bc.Fixed([0.5, 0.3, 0.2])
    estimate = bc.evaluate(LOG, policy, bc.ClockReplay(), **OPTIONS)
    doubly_robust = bc.evaluate(LOG, policy, bc.DR(), reward_model=0.5)
    assert estimate.std_error == pytest.approx(doubly_robust.std_error, rel=0.1)
    assert estimate.value == pytest.approx(doubly_robust.value, abs=0.3 * doubly_robust.std_error)


def test_both_jackknives_agree() -> None:
    """Standard errors of one log, from 64 passes and from 300 subsets; each is uncertain by about a tenth."""
    options = {**OPTIONS, "replicates": 64}
    passes = bc.evaluate(LOG, bc.EpsilonGreedy(0.2), bc.ClockReplay(), **options)
    options = {**OPTIONS, "replicates": 300, "interval": bc.GroupJackknife()}
    groups = bc.evaluate(LOG, bc.EpsilonGreedy(0.2), bc.ClockReplay(), **options)
    assert passes.std_error == pytest.approx(groups.std_error, rel=0.4)
    assert passes.interval is not None
    assert groups.interval is not None
    assert (passes.interval.method, groups.interval.method) == ("infinitesimal jackknife", "group jackknife")


def test_a_horizon_that_some_passes_miss_is_refused_with_the_one_that_all_reach() -> None:
    log = bc.Log(None, [0, 1] * 20, [1.0, 0.0] * 20, [0.5] * 40)
    with pytest.raises(bc.HorizonNotReached, match="Ask for a horizon of at most"):
        bc.evaluate(log, bc.UCB1(), bc.ClockReplay(fill=False), horizon=39, reward_model=0.5)


def test_subsets_that_miss_the_horizon_give_no_standard_error() -> None:
    options = {**OPTIONS, "horizon": 250, "replicates": 60, "interval": bc.GroupJackknife()}
    log = bc.Log(None, np.arange(300) % 3, np.ones(300), np.full(300, 1 / 3))
    estimate = bc.evaluate(log, bc.RoundRobin(), bc.ClockReplay(fill=False), **options)
    assert np.isnan(estimate.std_error)
    assert estimate.interval is None
    assert any("selected" in note for note in estimate.notes)


@pytest.mark.parametrize(
    "generator", [np.random.default_rng(1), np.random.RandomState(1), random.Random(1)], ids=lambda g: type(g).__name__
)
def test_a_generator_of_the_policy_is_refused(generator: Any) -> None:
    with pytest.raises(bc.PolicyError, match=r"random generator of its own.*start"):
        bc.evaluate(LOG, Uncertain(generator), bc.ClockReplay(), **OPTIONS)
    with pytest.raises(bc.PolicyError, match="random generator of its own"):
        check_policy(Uncertain(generator), LOG)


def test_a_generator_from_start_makes_the_policys_seed_irrelevant() -> None:
    values = {bc.evaluate(LOG, Started(np.random.default_rng(s)), bc.ClockReplay(), **OPTIONS).value for s in range(3)}
    assert len(values) == 1


def test_too_many_groups_per_subset_are_refused() -> None:
    for groups_per_subset in (30, 31):
        with pytest.raises(bc.OptionError, match=f"groups_per_subset is {groups_per_subset}; .* smaller than groups"):
            bc.GroupJackknife(30, groups_per_subset=groups_per_subset)


def test_few_passes_are_refused() -> None:
    with pytest.raises(bc.OptionError, match="at least 8 passes"):
        bc.evaluate(LOG, bc.UCB1(), bc.ClockReplay(), **{**OPTIONS, "replicates": 5})


def test_a_pool_of_a_longer_log_has_a_standard_error_of_the_whole_log() -> None:
    log = LinearEnvironment(3, 4, logistic=True, seed=1).log(4000, np.random.default_rng(5))
    options = {**OPTIONS, "replicates": 48}
    pooled, whole = (
        bc.evaluate(log, bc.EpsilonGreedy(0.2), bc.ClockReplay(pool=pool), **options) for pool in (1000, 4000)
    )
    # 48 passes over quarters of the log; that each sees a quarter adds noise of passes, not of logs
    assert pooled.diagnostics.to_dict()["sampling_error"] == pytest.approx(
        whole.diagnostics.to_dict()["sampling_error"], rel=0.5
    )


def test_mean_of_pairs_and_remaining_values_by_hand() -> None:
    gram = np.array([[5.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 5.0]])
    mean, error = mean_of_pairs(gram)
    assert mean == 2.0
    # leaving out one pass leaves the pairs 3, 2 and 1
    assert error == pytest.approx(np.sqrt(2 / 3 * 2))
    bins = np.zeros((4, 3, 1))
    bins[:, 2, 0] = [1.0, 2.0, 3.0, 6.0]
    # without features each pass is compared with the mean of the others
    assert remaining_values(bins)[:, 0] == pytest.approx([1 - 11 / 3, 2 - 10 / 3, 3 - 3, 6 - 2])


class TestTrueWords:
    def test_a_model_that_looks_ahead_needs_independent_events(self) -> None:
        ahead = bc.evaluate(LOG, bc.LinUCB(), bc.DRns(q=0.01), reward_model=bc.CrossFit(bc.PerAction()))
        default = bc.evaluate(LOG, bc.LinUCB(), bc.DRns(q=0.01))
        auto = bc.evaluate(LOG, bc.LinUCB())
        assumptions = [each.interval.assumption for each in (ahead, default, auto) if each.interval is not None]
        assert assumptions == ["independent", "martingale", "martingale"]

    def test_notes_name_the_model_that_was_used(self) -> None:
        given = bc.evaluate(LOG, bc.UCB1(), horizon=20, reward_model=0.0)
        assert not any("low-variance" in note for note in given.notes)
        default = bc.evaluate(LOG, bc.UCB1(), horizon=20)
        assert any("low-variance" in note for note in default.notes)

    def test_settings_have_no_addresses(self) -> None:
        class Model(bc.Constant):
            __repr__ = object.__repr__

        estimate = bc.evaluate(LOG, bc.Uniform(), bc.DR(), reward_model=bc.CrossFit(Model()))
        assert "0x" not in str(estimate.settings)
        assert "Model" in estimate.settings["reward_model"]
