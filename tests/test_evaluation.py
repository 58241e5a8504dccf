"""The front door: what comes back from `evaluate`, with which options, from which kind of log."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy import stats

import backcast as bc
from backcast._request import EvaluationRequest
from backcast.log import replace_columns
from tests.support.tabular import TabularWorld

WORLD = TabularWorld([0.5, 0.5], mean_rewards=[[0.2, 0.7], [0.6, 0.1]], logging=[[0.25, 0.75], [0.5, 0.5]])
LOG = WORLD.log(600, np.random.default_rng(0))
FIXED = bc.Fixed([0.5, 0.5])


def four(**fields: Any) -> bc.Log:
    """Four events at even odds: actions 0 1 0 1, rewards 1 0 1 1."""
    columns = {"contexts": None, "actions": [0, 1, 0, 1], "rewards": [1, 0, 1, 1], "propensities": [0.5] * 4}
    return bc.Log(**{**columns, "reward_range": (0, 1), **fields})


def test_estimates_by_hand() -> None:
    always = bc.Fixed([0.25, 0.75])
    # weights .5 1.5 .5 1.5
    assert bc.evaluate(four(), always, bc.IPS()).value == (0.5 + 0.5 + 1.5) / 4
    assert bc.evaluate(four(), always, bc.SNIPS()).value == 2.5 / 4
    assert bc.evaluate(four(), always, bc.DR(), reward_model=0.5).value == 0.5 + (0.25 - 0.75 + 0.25 + 0.75) / 4
    assert bc.evaluate(four(), always, bc.WC(), reward_model=0.5).value == 0.625
    assert bc.evaluate(four(), always, bc.DM(), reward_model=np.tile([1.0, 0.5], (4, 1))).value == 0.625


@pytest.mark.parametrize("evaluator", [bc.DRns(), bc.WC(), bc.RS(), bc.DM(), bc.IPS(), bc.SNIPS(), bc.DR()])
def test_what_an_estimate_carries(evaluator: Any) -> None:
    estimate = bc.evaluate(LOG, FIXED, evaluator, seed=4)
    assert estimate.policy == "Fixed([0.5, 0.5])"
    assert estimate.evaluator
    assert estimate.settings["seed"] == 4
    assert estimate.diagnostics.events == 600
    plain = estimate.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["value"] == estimate.value
    assert str(estimate).startswith("Fixed([0.5, 0.5]): ")


def test_an_estimate_of_a_policy_without_a_repr_has_no_address_in_it() -> None:
    class Mine:
        def probabilities(self, contexts: Any, available: Any = None) -> Any:
            return np.full((contexts.shape[0], 2), 0.5)

    assert bc.evaluate(LOG, Mine(), bc.IPS()).policy == "Mine"


def test_diagnostics_are_those_of_the_trace() -> None:
    policy = bc.EpsilonGreedy(0.2)
    passed = bc.trace(LOG, policy, bc.DRns(q=0.1), seed=3)
    result: Any = bc.evaluate(LOG, policy, bc.DRns(q=0.1), reward_model=0.0, seed=3).diagnostics
    w, c = passed.weight, passed.multiplier
    assert result.accepted == passed.accepted.sum() == len(passed.order)
    assert result.acceptance_rate == result.accepted / 600
    assert (result.trajectories_complete, result.trajectories_failed) == (1, 0)
    assert result.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert result.mean_weight == pytest.approx(w.mean())
    assert result.largest_weight == w.max()
    excess = np.maximum(0, c * w - 1)
    assert result.bias_mass == pytest.approx(excess.sum() / c.sum())
    # one event in four has the very ratio that the multiplier is, to the last bit or nearly so: those are not cut
    assert result.cut_share == np.mean(c * w > 1 + 1e-9) < 0.01
    rounds, mass = result.accepted, result.bias_mass
    assert result.theorem_1 == pytest.approx((rounds + 1) / 2 * mass / (1 - mass))
    last = passed.order[-1] + 1
    assert result.value_per_round == pytest.approx((c * passed.value)[:last].sum() / result.accepted)
    assert result.bias_certificate == pytest.approx(excess.sum())


def test_value_is_that_of_the_trace() -> None:
    for evaluator in (bc.DRns(q=0.1), bc.DRns(q=0.0, warm_up=50), bc.WC()):
        passed = bc.trace(LOG, bc.UCB1(), evaluator, seed=3)
        value = bc.evaluate(LOG, bc.UCB1(), evaluator, reward_model=0.0, seed=3).value
        assert value == pytest.approx(passed.estimate, rel=1e-12)
    accepted = bc.trace(LOG, bc.UCB1(), bc.RS(), seed=3).order
    assert bc.evaluate(LOG, bc.UCB1(), bc.RS(), seed=3).value == pytest.approx(LOG.rewards[accepted].mean())


def test_horizon_cuts_the_log_into_trajectories() -> None:
    horizon = 15
    passed = bc.trace(LOG, bc.UCB1(), bc.DRns(q=0.1), horizon=horizon, seed=3)
    estimate: Any = bc.evaluate(LOG, bc.UCB1(), bc.DRns(q=0.1), reward_model=0.0, horizon=horizon, seed=3)
    ends = passed.order[horizon - 1 :: horizon] + 1
    spans = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    c, value = passed.multiplier, passed.value
    values = np.array([(c[span] * value[span]).sum() / c[span].sum() for span in spans])
    per_round = [(c[span] * value[span]).sum() / horizon for span in spans]
    assert estimate.horizon == horizon
    assert estimate.diagnostics.trajectories_complete == len(ends) > 3
    assert estimate.diagnostics.trajectories_failed == (len(passed.order) % horizon > 0 or ends[-1] < 600)
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.diagnostics.value_per_round == pytest.approx(np.mean(per_round))
    assert estimate.std_error == pytest.approx(stats.sem(values))
    # the interval is widened by the bias of what is cut
    spread = math.hypot(stats.sem(values), estimate.bias_estimate.size)
    reach = stats.t.ppf(0.975, len(values) - 1) * spread
    assert estimate.interval.low == pytest.approx(values.mean() - reach)
    assert estimate.interval.estimand.startswith("V_T(pi)")
    assert estimate.interval.assumption == "asymptotic martingale"
    assert estimate.notes == ()


def test_a_single_run_says_what_its_interval_is_about() -> None:
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.DRns(), reward_model=0.5)
    assert estimate.interval is not None
    assert estimate.interval.estimand.startswith("V(pi_PV)")
    assert estimate.interval.assumption == "martingale"
    assert any("Only one trajectory" in note for note in estimate.notes)


def test_levels_order_intervals() -> None:
    for evaluator in (bc.DRns(), bc.RS(), bc.IPS(), bc.DR()):
        narrow, wide = (bc.evaluate(LOG, FIXED, evaluator, level=level).interval for level in (0.5, 0.99))
        assert narrow is not None
        assert wide is not None
        assert wide.low < narrow.low < narrow.high < wide.high
        assert (narrow.level, wide.level) == (0.5, 0.99)


@pytest.mark.parametrize("horizon", [None, 20])
def test_curve_is_the_value_by_round(horizon: int | None) -> None:
    policy = bc.EpsilonGreedy(0.2)
    curve = bc.evaluate(LOG, policy, bc.DRns(q=0.1), reward_model=0.0, horizon=horizon).curve
    passed = bc.trace(LOG, policy, bc.DRns(q=0.1), horizon=horizon)
    accepted: Any = np.cumsum(passed.accepted) - passed.accepted
    rounds = accepted % (horizon or len(LOG))
    # a trajectory that the end of the log cuts off is not part of the curve
    complete = accepted < (accepted.max() + passed.accepted[-1]) // horizon * horizon if horizon else accepted >= 0
    assert curve is not None
    assert len(curve.rounds) <= 50
    assert curve.rounds[-1] == rounds.max() + 1
    for start, end, value in zip([0, *curve.rounds[:-1]], curve.rounds, curve.value, strict=True):
        inside = complete & (rounds >= start) & (rounds < end)
        c = passed.multiplier[inside]
        assert value == pytest.approx(c @ passed.value[inside] / c.sum())
    assert (curve.low <= curve.value).all()
    assert (curve.value <= curve.high).all()
    assert set(curve.to_dict()) == {"rounds", "value", "low", "high"}


def test_theorem_2_by_hand() -> None:
    # evaluate() would keep the ends within the reward range
    estimate = bc.WC().estimate(EvaluationRequest(four(), FIXED, reward_model=0.5, interval=bc.TheoremTwo(), level=0.5))
    # n = 4, c = c_max, C = n c, M = 2: 2 max{3 L / 4, sqrt(5 L / 4)} with L = ln 4
    reach = 2 * max(3 * math.log(4) / 4, math.sqrt(5 * math.log(4) / 4))
    assert estimate.interval is not None
    assert estimate.interval.half_width == pytest.approx(reach)
    assert estimate.interval.low + reach == pytest.approx(estimate.value)


def test_bounds_know_of_predictions_outside_the_reward_range() -> None:
    widths = []
    for model in (0.5, -1.0, 3.0):
        request = EvaluationRequest(LOG, bc.UCB1(), reward_model=model, interval=bc.TheoremTwo())
        result = bc.DRns().estimate(request).interval
        assert result is not None
        widths.append(result.half_width)
    np.testing.assert_allclose(widths, np.array([1, 2, 3]) * widths[0])


def test_a_known_bound_on_the_weights_narrows_the_interval() -> None:
    for method in (bc.Anytime, bc.TheoremTwo):
        usual, known = (
            bc.DRns().estimate(EvaluationRequest(LOG, bc.Uniform(), reward_model=0.5, interval=interval)).interval
            for interval in (method(), method(largest_weight=2.0))
        )
        assert usual is not None
        assert known is not None
        assert known.half_width < usual.half_width


def test_intervals_stay_within_the_rewards() -> None:
    result = bc.evaluate(LOG[:20], bc.UCB1(), bc.DRns(), reward_model=0.5).interval
    assert result is not None
    assert (result.low, result.high) == (0.0, 1.0)


def test_rewards_that_never_vary() -> None:
    log = four(rewards=[0.5] * 4, reward_range=None)
    estimate = bc.evaluate(log, bc.UCB1(), bc.DRns(), reward_model=0.5)
    assert estimate.value == 0.5
    assert estimate.std_error == 0.0
    assert estimate.interval is not None
    assert (estimate.interval.low, estimate.interval.high) == (0.5, 0.5)


def test_segments_are_evaluated_apart() -> None:
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.DRns(), reward_model=0.5, interval=bc.Segments(4), seed=9)
    values = [
        bc.evaluate(LOG[start : start + 150], bc.UCB1(), bc.DRns(), reward_model=0.5, seed=10 + number).value
        for number, start in enumerate(range(0, 600, 150))
    ]
    assert estimate.value == pytest.approx(np.mean(values))
    assert estimate.std_error == pytest.approx(stats.sem(values))
    assert estimate.interval is not None
    assert estimate.interval.method == "4 disjoint segments"


def test_direct_method_gives_no_error_it_cannot_know() -> None:
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.DM(), horizon=50, reward_model=0.5)
    assert math.isnan(estimate.std_error)
    assert estimate.interval is None
    assert estimate.curve is not None
    assert estimate.curve.rounds[-1] == 50
    assert any("bias of its reward model" in note for note in estimate.notes)
    assert estimate.to_dict()["std_error"] is None


def test_progressive_policy_is_a_policy() -> None:
    estimate = bc.evaluate(LOG, bc.EpsilonGreedy(0.2), bc.DRns(), reward_model=0.5, horizon=40)
    mixed = estimate.progressive_policy()
    again = bc.evaluate(LOG, mixed, bc.DR())
    # two estimates of one value from one log: 5 of the larger standard error
    assert abs(again.value - estimate.value) < 5 * max(again.std_error, estimate.std_error)
    assert repr(mixed).startswith("ProgressivePolicy(EpsilonGreedy")


class Random:
    """Starts at random, so that a replay must meet the same start."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.weights = rng.random(n_actions)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.weights / self.weights.sum(), (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.weights[actions] += 0.1


def test_progressive_policy_meets_the_random_start_of_the_run() -> None:
    for seed in range(3):
        estimate = bc.evaluate(LOG, Random(), bc.DRns(q=0.0), reward_model=0.0, horizon=1, seed=seed)
        passed = bc.trace(LOG, Random(), bc.DRns(q=0.0), horizon=1, seed=seed)
        # weights times propensities are the probabilities of the logged actions, from which all follow
        first = np.where(LOG.actions == 0, 1.0, -1.0) * passed.weight * LOG.propensities + (LOG.actions == 1)
        mean = np.mean([first[start] for start in [0, *(passed.order[:-1] + 1)]])
        assert estimate.progressive_policy().probabilities(np.eye(2))[0, 0] == pytest.approx(mean, rel=1e-9)


# Streams of parts.


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bc.LogStream:
    path: Path = tmp_path_factory.mktemp("logs") / "log.parquet"
    contexts = np.asarray(LOG.contexts)
    columns = {"x0": contexts[:, 0], "x1": contexts[:, 1], "a": LOG.actions, "r": LOG.rewards, "p": LOG.propensities}
    pyarrow.parquet.write_table(pa.table(columns), path)
    return bc.scan_log(
        str(path), context=["x*"], action="a", reward="r", propensity="p", reward_range=(0, 1), batch_rows=70
    )


@pytest.mark.parametrize("policy", [FIXED, bc.EpsilonGreedy(0.2, batch_size=4), Random()])
@pytest.mark.parametrize("evaluator", [bc.DRns(q=0.05), bc.WC(), bc.RS(), bc.DM(), bc.IPS(), bc.SNIPS(), bc.DR()])
def test_a_stream_gives_the_answer_of_the_log(stream: bc.LogStream, policy: Any, evaluator: Any) -> None:
    if not isinstance(policy, bc.Fixed) and isinstance(evaluator, bc.IPS | bc.SNIPS | bc.DR):
        with pytest.raises(bc.NeedsStationaryPolicy):
            bc.evaluate(stream, policy, evaluator, reward_model=0.25)
        return
    if not isinstance(policy, bc.Fixed) and isinstance(evaluator, bc.DM):
        with pytest.raises(bc.EvaluationError, match="in memory"):
            bc.evaluate(stream, policy, evaluator, reward_model=0.25)
        return
    log = replace_columns(LOG, logging_probabilities=None)
    first, two = (bc.evaluate(source, policy, evaluator, reward_model=0.25, seed=2) for source in (log, stream))
    assert two.value == pytest.approx(first.value, rel=1e-12)
    assert two.std_error == pytest.approx(first.std_error, rel=1e-9, nan_ok=True)
    assert two.diagnostics.events == first.diagnostics.events


def test_a_stream_in_rounds_gives_the_answer_of_the_log(stream: bc.LogStream) -> None:
    first, two = (
        bc.evaluate(source, bc.UCB1(), bc.DRns(q=0.05), reward_model=0.25, horizon=25) for source in (LOG, stream)
    )
    assert two.value == pytest.approx(first.value, rel=1e-12)
    with pytest.raises(bc.EvaluationError, match="gives no progressive policy"):
        two.progressive_policy()


def test_what_a_stream_cannot_do_is_said(stream: bc.LogStream) -> None:
    questions: list[dict[str, Any]] = [
        {"evaluator": bc.DRns(q=0.1), "horizon": 5, "replicates": 60},
        {"evaluator": bc.DM()},
        {"evaluator": bc.DM(), "horizon": 50},
    ]
    for request in questions:
        with pytest.raises(bc.EvaluationError, match="in memory"):
            bc.evaluate(stream, bc.UCB1(), reward_model=0.25, **request)


def test_a_short_stream_is_read_whole_for_a_reward_model(stream: bc.LogStream) -> None:
    for model in (bc.PerAction(), bc.CrossFit(bc.Constant())):
        streamed, whole = (
            bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.1), reward_model=model).value for log in (stream, stream.read())
        )
        assert streamed == whole


def test_a_stream_of_rewards_that_grow_is_bounded_by_all_of_them(tmp_path: Path) -> None:
    rewards = np.linspace(0, 10, 300)
    table = pa.table({"x": np.ones(300), "a": np.arange(300) % 2, "r": rewards, "p": np.full(300, 0.5)})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    options: Any = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    parts = bc.scan_log(str(tmp_path / "log.parquet"), batch_rows=100, **options)
    whole = bc.read_log(str(tmp_path / "log.parquet"), **options)
    widths = [
        bc.evaluate(source, bc.UCB1(), bc.DRns(), reward_model=5.0, interval=bc.TheoremTwo()).interval
        for source in (parts, whole)
    ]
    assert widths[0] is not None
    assert widths[1] is not None
    assert widths[0].half_width == pytest.approx(widths[1].half_width)


def test_a_progress_bar_changes_nothing() -> None:
    seen, unseen = (bc.evaluate(LOG, bc.UCB1(), bc.DRns(), reward_model=0.5, progress=bar) for bar in (True, False))
    assert seen.to_dict() == unseen.to_dict()


def test_a_bound_that_the_log_does_not_show_is_named() -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=200)
    reported = bc.Log(None, actions, rng.random(200), np.where(actions == 0, 0.25, 0.75), reward_range=(0, 1))
    options: dict[str, Any] = {"evaluator": bc.DRns(q=0.01), "reward_model": 0.5}
    notes = bc.evaluate(reported, bc.UCB1(), **options).notes
    assert any("uses 4, the inverse of the smallest propensity" in note for note in notes)
    declared = bc.evaluate(reported, bc.UCB1(), interval=bc.Anytime(largest_weight=4.0), **options)
    recorded = bc.evaluate(
        bc.Log(
            None,
            actions,
            rng.random(200),
            np.where(actions == 0, 0.25, 0.75),
            reward_range=(0, 1),
            logging_probabilities=np.tile([0.25, 0.75], (200, 1)),
        ),
        bc.UCB1(),
        **options,
    )
    for result in (declared, recorded):
        assert not any("smallest propensity" in note for note in result.notes)


def test_an_interval_for_several_trajectories_says_what_it_is_about() -> None:
    rng = np.random.default_rng(3)
    actions = rng.integers(2, size=600)
    log = bc.Log(None, actions, rng.random(600) < 0.3 + 0.4 * actions, np.full(600, 0.5), reward_range=(0, 1))
    options: dict[str, Any] = {"horizon": 40, "reward_model": 0.0}
    several = bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.0), interval=bc.Anytime(), **options)
    assert several.interval is not None
    middle = (several.interval.low + several.interval.high) / 2
    (note,) = [note for note in several.notes if "trajectories together" in note]
    assert f"R/C is {middle:.4g};" in note
    assert not any("together" in note for note in bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.0), **options).notes)
