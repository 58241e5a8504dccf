"""Clock replay on its own: passes done by hand, how far a log reaches, certificates, replicates, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import backcast as bc
from backcast.diagnostics import ClockDiagnostics
from backcast.environments import LinearEnvironment
from backcast.evaluators._passes import PassResult
from backcast.evaluators.clock_replay import subsets_are_long_enough


def uniform_log(n: int, n_actions: int, seed: int = 0) -> bc.Log:
    rng = np.random.default_rng(seed)
    actions = rng.integers(n_actions, size=n)
    rewards = (rng.random(n) < (1 + actions) / (n_actions + 1)).astype(float)
    return bc.Log(None, actions, rewards, np.full(n, 1 / n_actions), n_actions=n_actions, reward_range=(0, 1))


def clock(log: bc.Log, policy: Any, **options: Any) -> Any:
    return bc.trace(log, policy, bc.ClockReplay(), **options)


def test_a_pass_done_by_hand() -> None:
    # Speeds are 1.5, 0.5, 1.5, so the events fire at 1/3, 1 and 1/2 of the clock, in the order 0, 2, 1.
    log = bc.Log(None, actions=[0, 1, 0], rewards=[1.0, 0.0, 0.0], propensities=[0.5] * 3, n_actions=2)
    passed = clock(log, bc.Fixed([0.75, 0.25]), uniforms=[0.5, 0.5, 0.75], horizon=3)
    assert passed.order.tolist() == [0, 2, 1]
    # A fixed policy never learns, so its value is read once: the mean of 1.5, 0 and 0.
    assert passed.curve.tolist() == [0.5, 0.5, 0.5]
    assert passed.estimate == 0.5
    assert passed.exhausted.tolist() == [0.0, 0.0, 0.0]


def test_a_learners_pass_done_by_hand() -> None:
    # Round robin: first only action 0 runs, at speed 2, and its first event fires at 1/8; then only action 1.
    log = bc.Log(None, actions=[0, 0, 1, 1], rewards=[1.0, 0.5, 0.25, 0.75], propensities=[0.5] * 4, n_actions=2)
    passed = clock(log, bc.RoundRobin(), uniforms=[0.5, 0.25, 0.5, 0.75], horizon=3)
    assert passed.order.tolist() == [1, 2, 0]
    # Round 2: meters are 1/4, 1/4, 0, 0; event 1 is used; shares are 4/3, 1, 1 and action 1's values 1/2 and 3/2.
    # Round 3: event 2 fired after another 1/4; meters 1/4, 1/2; shares 4/3 and 2, values 2 and 0.
    np.testing.assert_allclose(passed.curve, [3 / 4, 2 / (10 / 3), (8 / 3) / (10 / 3)], rtol=1e-15)


@pytest.mark.parametrize("n_actions", [2, 5])
def test_a_fixed_action_reaches_the_events_that_have_it(n_actions: int) -> None:
    log = uniform_log(2000, n_actions)
    passed = clock(log, bc.Fixed(np.eye(n_actions)[1]))
    assert passed.order.size == (log.actions == 1).sum()
    assert passed.order.size == pytest.approx(2000 / n_actions, rel=0.2)


@pytest.mark.parametrize("n_actions", [2, 5])
def test_round_robin_reaches_nearly_all_events(n_actions: int) -> None:
    log = uniform_log(2000, n_actions)
    passed = clock(log, bc.RoundRobin())
    counts = np.bincount(log.actions, minlength=n_actions)
    # it stops when it comes round to an action of which no event is left
    assert passed.order.size == (counts * n_actions + np.arange(n_actions)).min()
    assert passed.order.size > 0.9 * 2000
    assert bc.trace(log, bc.RoundRobin(), bc.Replay()).accepted.sum() < 1.2 * 2000 / n_actions


def test_self_evaluation_accepts_every_event() -> None:
    log = LinearEnvironment(3, 4, logging="paper").log(500, np.random.default_rng(0))
    passed = clock(log, bc.Logged(log.logging_probabilities), horizon=500)
    assert passed.accepted.all()
    assert (passed.exhausted == 0).all()


def test_exhaustion_says_how_far_it_got() -> None:
    log = uniform_log(300, 3)
    reached = int((log.actions == 0).sum())
    for ask in (bc.trace, bc.evaluate):
        with pytest.raises(bc.HorizonNotReached, match=rf"250 rounds.* after {reached} rounds none of its 300"):
            ask(log, bc.Fixed([1.0, 0.0, 0.0]), bc.ClockReplay(fill=False), horizon=250)


@pytest.mark.parametrize("policy", [bc.UCB1(), bc.UCB1(batch_size=10)])
def test_a_history_may_be_longer_than_the_log(policy: Any) -> None:
    log = uniform_log(300, 3)
    result = bc.evaluate(log, policy, bc.ClockReplay(fill=True), horizon=700, replicates=8)
    # the best action pays 3/4, and UCB1 takes others in less than a quarter of the rounds
    assert result.value == pytest.approx(0.7, abs=0.1)
    assert result.diagnostics.filled_share > 0.5
    assert result.bias_estimate is not None
    assert result.bias_estimate.std_error > 0
    widened = math.hypot(result.std_error, result.bias_estimate.size) / result.std_error
    # within the range of rewards
    assert result.interval.half_width >= min(1.9 * widened * result.std_error, 0.5)
    assert "of the rounds filled from the reward model" in str(result)
    assert result.replay_summary() is not None


def test_without_exhaustion_filling_changes_nothing() -> None:
    filled, plain = (
        bc.evaluate(LOG, bc.UCB1(), bc.ClockReplay(fill=fill), horizon=15, replicates=8, reward_model=0.5)
        for fill in (True, False)
    )
    assert filled.bias_estimate is None
    assert replace(filled, settings={}) == replace(plain, settings={})


@pytest.mark.parametrize("n_actions", [1, 4])
def test_separate_histories_are_as_many_as_fit_into_what_the_policy_can_use(n_actions: int) -> None:
    # only one event in K serves a policy that always does the same: 1,000 of them hold 25 histories of 40 rounds
    log = uniform_log(1000 * n_actions, n_actions)
    policy = bc.Fixed(np.eye(n_actions)[0])
    result = bc.evaluate(log, policy, bc.ClockReplay(), horizon=40, replicates=None, reward_model=0.5)
    # 16 passes make 120 pairs, in each of which a common event has the odds 40/1000 for each of 40: 192 in all, known
    # to sqrt(192), 7 % (pairs that share a pass are independent given it); five of these are odds of about 1e-6
    usable = (log.actions == 0).sum()
    assert result.diagnostics.to_dict()["separate_histories"] == pytest.approx(usable / 40, rel=5 / math.sqrt(192))


def test_what_a_logger_rarely_does_makes_histories_alike() -> None:
    rare, often = (
        bc.evaluate(
            LinearEnvironment(4, 5, logistic=True, logging=logging, seed=1).log(1500, np.random.default_rng(0)),
            bc.EpsilonGreedy(0.1, batch_size=5),
            bc.ClockReplay(),
            horizon=20,
            replicates=None,
        ).diagnostics.to_dict()["separate_histories"]
        for logging in ("sharp", "uniform")
    )
    assert 1 < rare < often / 2 <= 1500 / 20 / 2


def certificate(horizon: int) -> float:
    log = LinearEnvironment(3, 4).log(600, np.random.default_rng(0))
    result = bc.evaluate(log, bc.EpsilonGreedy(), bc.ClockReplay(), horizon=horizon, replicates=None)
    assert isinstance(result.diagnostics, ClockDiagnostics)
    return result.diagnostics.bias_certificate


def test_the_certificate_is_0_far_from_exhaustion_and_grows_near_it() -> None:
    assert certificate(30) == 0.0
    assert 0.0 < certificate(220) < certificate(250)


@pytest.mark.parametrize("policy", [bc.UCB1(), bc.EpsilonGreedy()])
def test_without_a_horizon_one_is_taken_that_all_passes_reach(policy: Any) -> None:
    log = LinearEnvironment(3, 4, logging="uniform").log(600, np.random.default_rng(0))
    strict, lax, alone = (
        bc.evaluate(log, policy, bc.ClockReplay(tolerance=tolerance), reward_model=0.5, replicates=replicates)
        for tolerance, replicates in ((0.0, 60), (1.0, 60), (1.0, None))
    )
    assert strict.horizon is not None
    assert lax.horizon is not None
    assert 30 < strict.horizon <= lax.horizon < 600
    assert alone.horizon == lax.horizon


def test_one_prediction_for_all_is_the_same_as_a_table_of_it() -> None:
    log = LinearEnvironment(3, 4).log(200, np.random.default_rng(0))
    table = np.full((200, 3), 0.25)
    first, other = (
        bc.evaluate(log, bc.EpsilonGreedy(), bc.ClockReplay(), reward_model=model, horizon=20, replicates=None)
        for model in (0.25, table)
    )
    assert first.value == other.value


def test_a_pool_takes_a_part_of_the_log_for_each_pass() -> None:
    log = LinearEnvironment(3, 4, logistic=True).log(900, np.random.default_rng(0))
    values = [
        bc.evaluate(log, bc.EpsilonGreedy(), bc.ClockReplay(pool=pool), reward_model=0.5, horizon=20, replicates=None)
        for pool in (300, 900, 1000)
    ]
    assert values[1].value == values[2].value != values[0].value
    # six standard errors: passes over a third of the log are as unbiased
    assert abs(values[0].value - values[1].value) < 6 * values[0].diagnostics.to_dict()["monte_carlo_error"]


LOG = LinearEnvironment(3, 4, logistic=True, logging="paper").log(600, np.random.default_rng(1))


def estimate(policy: Any, replicates: Any, n_jobs: int = 1, seed: int = 5, evaluator: Any = None) -> bc.Estimate:
    return bc.evaluate(
        LOG,
        policy,
        evaluator or bc.ClockReplay(),
        reward_model=bc.CrossFit(bc.PerAction()),
        horizon=15,
        replicates=replicates,
        n_jobs=n_jobs,
        seed=seed,
    )


@pytest.mark.parametrize("replicates", ["auto", 80, None])
@pytest.mark.parametrize("evaluator", [bc.ClockReplay(), bc.DRns(q=0.05, carry=True, warm_up=50)])
def test_the_answer_does_not_depend_on_the_number_of_threads(replicates: Any, evaluator: Any) -> None:
    policy = bc.EpsilonGreedy(0.2)
    first, two = (estimate(policy, replicates, n_jobs, evaluator=evaluator).to_dict() for n_jobs in (1, 2))
    assert first == two
    assert estimate(policy, replicates, seed=6, evaluator=evaluator).value != first["value"]


class Counting:
    """A learner in NumPy, which replicates run in processes."""

    batch_size = 5

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.paid = np.ones(n_actions)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.paid / self.paid.sum(), (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.paid, actions, rewards)


@pytest.mark.slow
def test_the_answer_does_not_depend_on_the_number_of_processes() -> None:
    first, two = (estimate(Counting(), 60, n_jobs).to_dict() for n_jobs in (1, 2))
    assert first == two


def test_monte_carlo_error_is_reported_apart() -> None:
    few, many = (estimate(bc.EpsilonGreedy(0.2), replicates) for replicates in (60, 320))
    for result in (few, many):
        facts = result.diagnostics.to_dict()
        assert result.std_error == pytest.approx(math.hypot(facts["sampling_error"], facts["monte_carlo_error"]))
    assert many.diagnostics.to_dict()["monte_carlo_error"] < few.diagnostics.to_dict()["monte_carlo_error"]


def test_auto_leaves_little_monte_carlo_error() -> None:
    facts = estimate(bc.EpsilonGreedy(0.2), "auto").diagnostics.to_dict()
    assert facts["monte_carlo_error"] ** 2 <= 0.1 * facts["sampling_error"] ** 2


def test_the_spread_over_passes_is_never_offered_as_a_standard_error() -> None:
    result = estimate(bc.EpsilonGreedy(0.2), None)
    facts = result.diagnostics.to_dict()
    assert math.isnan(result.std_error)
    assert result.interval is None
    assert math.isnan(facts["sampling_error"])
    assert facts["monte_carlo_error"] > 0
    assert result.curve is not None
    np.testing.assert_array_equal(result.curve.low, result.curve.high)


def test_the_interval_says_what_it_is() -> None:
    result = estimate(bc.EpsilonGreedy(0.2), 60)
    assert result.interval is not None
    assert (result.interval.method, result.interval.assumption) == ("infinitesimal jackknife", "independent")
    assert result.interval.estimand.startswith("V_T(pi)")
    assert result.interval.low < result.value < result.interval.high


def test_the_curve_averages_to_the_value() -> None:
    result = bc.evaluate(LOG, bc.EpsilonGreedy(0.2), bc.ClockReplay(), reward_model=0.5, horizon=120, replicates=None)
    assert result.curve is not None
    assert result.curve.rounds[-1] == 120
    weights = np.diff(result.curve.rounds, prepend=0)
    assert result.value == pytest.approx(np.average(result.curve.value, weights=weights), rel=1e-12)


@pytest.mark.parametrize("options", [{"pool": 0}, {"tolerance": -0.1}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(bc.OptionError, match=next(iter(options))):
        bc.ClockReplay(**options)


@pytest.mark.parametrize(
    ("replicates", "message"), [("often", "give a number, 'auto' or None"), (7, "at least 8 passes")]
)
def test_replicates_that_make_no_sense_are_refused(replicates: Any, message: str) -> None:
    with pytest.raises(bc.OptionError, match=message):
        estimate(bc.UCB1(), replicates)


def test_a_log_too_short_for_subsets_still_gives_a_value() -> None:
    log = uniform_log(300, 3)
    options: dict[str, Any] = {"evaluator": bc.ClockReplay(fill=False), "reward_model": 0.5, "horizon": 250}
    result = bc.evaluate(log, bc.RoundRobin(), **options, interval=bc.GroupJackknife())
    assert result.value == pytest.approx(0.5, abs=0.1)
    assert math.isnan(result.std_error)
    assert result.interval is None
    assert result.notes[0].startswith("Not all subsets of the log reach 250 rounds")


def test_a_stream_too_short_for_parts_is_refused(tmp_path: Path) -> None:
    table = pa.table({"x": [0.0, 1.0], "a": [0, 1], "r": [1.0, 0.0], "p": [0.5, 0.5]})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    stream = bc.scan_log(tmp_path / "log.parquet", context=["x"], action="a", reward="r", propensity="p")
    with pytest.raises(bc.EvaluationError, match="too few for 10 parts; read it with read_log"):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=1)


def error_with(logging: Any, groups_per_subset: int | None) -> float:
    log = LinearEnvironment(4, 5, logistic=True, logging=logging, seed=1).log(600, np.random.default_rng(2))
    interval = bc.GroupJackknife(groups_per_subset=groups_per_subset)
    options: dict[str, Any] = {"horizon": 15, "reward_model": 0.5, "replicates": 60}
    return bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), interval=interval, **options).std_error


def test_subsets_are_quarters_where_those_exhaust_little_and_larger_where_they_exhaust_more() -> None:
    # pilots are the first replicates, so that it is the same whether a size was chosen or given
    assert error_with("uniform", None) == error_with("uniform", 8)
    assert error_with("sharp", None) != error_with("sharp", 8)
    assert error_with("sharp", None) in [error_with("sharp", size) for size in (10, 15, 20, 25)]


def test_a_size_of_subsets_is_judged_by_all_its_pilots() -> None:
    little, much = (PassResult(0.5, np.zeros(1), 100, certificate) for certificate in (0.5, 4.0))
    assert subsets_are_long_enough([little, little, little])
    assert subsets_are_long_enough([little, little, little, little, much])
    assert not subsets_are_long_enough([little, much])
