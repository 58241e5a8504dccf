"""Break-even rounds and values after learning: by hand, from every source of errors, relative to each baseline."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backcast as bc
from backcast._request import EvaluationRequest
from backcast.break_even import GainCurve, find_break_even
from backcast.environments import LinearEnvironment
from backcast.evaluators._curve_gains import Baseline
from backcast.evaluators._curve_influences import CurveInfluences
from backcast.evaluators._passes import ErrorTerms, fine_edges
from backcast.evaluators._replicate_statistics import ReplicateTable
from backcast.io.stream import LogStream
from backcast.verdict import describe_lift

LOG = LinearEnvironment(3, 4, logistic=True, seed=1).log(1500, np.random.default_rng(0))
OPTIONS: dict[str, Any] = {"horizon": 60, "reward_model": 0.5, "exchangeable": True}
POLICIES: dict[str, Any] = {"greedy": bc.EpsilonGreedy(0.1), "linucb": bc.LinUCB(0.3), "even": bc.Uniform()}


@pytest.fixture(scope="module", params=[100_000, 900], ids=["whole log", "pools"])
def table(request: Any) -> ReplicateTable:
    made = EvaluationRequest(LOG, policy=None, horizon=60, reward_model=0.5, replicates=12)
    table = bc.ClockReplay(pool=request.param).run_jointly(made, [POLICIES["greedy"], POLICIES["linucb"]])
    assert isinstance(table, ReplicateTable)
    return table


@pytest.fixture(scope="module")
def compared() -> bc.Comparison:
    return bc.compare(LOG, POLICIES, replicates=16, **OPTIONS)


def gains(gain: list[float], half_width: float = 0.5, lengths: int = 10) -> GainCurve:
    """A curve in blocks of ten rounds, with a smaller error of the running mean."""
    values, edges = np.array(gain), lengths * np.arange(len(gain) + 1)
    means = np.cumsum(values) / np.arange(1, values.size + 1)
    return GainCurve(edges, values, np.full(values.size, half_width), means, np.full(values.size, half_width / 2))


class TestByHand:
    def test_a_policy_that_pays_back(self) -> None:
        found = find_break_even(gains([-3.0, -1.0, 0.0, 1.0, 3.0, 3.0]), 0.9, "today")
        # sums -30, -40, -40, -30, 0, 30: the last smallest is after 30 rounds, and the sum is positive after 50
        assert (found.round, found.payback) == (31, 51)
        # the second block is below and the fourth is above; means -3, -2, -4/3, -3/4, 0, 1/2 against 1/4
        assert (found.interval, found.payback_interval) == (bc.RoundInterval(11, 40), bc.RoundInterval(41, 60))
        assert (found.horizon, found.level, found.baseline) == (60, 0.9, "today")

    def test_a_policy_that_is_better_from_the_first_round_on(self) -> None:
        found = find_break_even(gains([1.0, 1.0, 2.0]), 0.95, "logged")
        assert (found.round, found.payback) == (1, 1)
        assert (found.interval, found.payback_interval) == (bc.RoundInterval(1, 10), bc.RoundInterval(1, 10))

    def test_a_policy_that_is_never_better(self) -> None:
        found = find_break_even(gains([-1.0, -1.0, -2.0]), 0.95, "logged")
        assert (found.round, found.payback) == (None, None)
        assert found.interval == found.payback_interval == bc.RoundInterval(None, None)
        assert "not within 30 rounds (95 %: more than 30)" in str(found)

    def test_a_policy_that_does_not_pay_back(self) -> None:
        found = find_break_even(gains([-3.0, -3.0, 1.0]), 0.95, "logged")
        assert (found.round, found.payback) == (21, None)
        assert (found.interval, found.payback_interval) == (bc.RoundInterval(11, 30), bc.RoundInterval(None, None))

    def test_noise_leaves_both_ends_open(self) -> None:
        found = find_break_even(gains([-1.0, 1.0, -1.0, 2.0], half_width=5.0), 0.95, "logged")
        assert found.round == 31
        assert found.interval == found.payback_interval == bc.RoundInterval(1, None)

    def test_a_policy_that_gets_worse_has_no_break_even_round(self) -> None:
        found = find_break_even(gains([3.0, 1.0, -1.0]), 0.95, "logged")
        assert found.round is None
        assert found.interval == bc.RoundInterval(None, None)

    def test_a_policy_equal_to_the_baseline_is_not_better(self) -> None:
        assert find_break_even(gains([0.0, 0.0]), 0.95, "logged").round is None

    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=30), st.floats(0, 4))
    def test_estimates_are_in_their_intervals(self, gain: list[float], half_width: float) -> None:
        found = find_break_even(gains(gain, half_width), 0.95, "logged")
        for number, interval in ((found.round, found.interval), (found.payback, found.payback_interval)):
            low, high = (np.inf if end is None else end for end in (interval.low, interval.high))
            assert low <= (np.inf if number is None else number) <= high
        if found.round is not None and found.payback is not None:
            assert found.round <= found.payback


class TestPrecision:
    """The variance of all bins together is that of the value."""

    def test_of_the_lift_over_the_log(self, table: ReplicateTable) -> None:
        deviations = LOG.rewards - LOG.rewards.mean()
        influences = table._curve_influences(0, Baseline(0.0, 0.0, influences=deviations))
        self.check(influences, table, table.influences.of_difference_to_fixed(0, deviations))
        self.check(influences, table, table.influences.of_value(0), less_baseline=False)

    def test_of_the_difference_to_a_policy_in_the_same_passes(self, table: ReplicateTable) -> None:
        influences = table._curve_influences(0, Baseline(0.0, 0.0, place=1))
        self.check(influences, table, table.influences.of_difference(0, 1))

    def check(
        self, influences: CurveInfluences, table: ReplicateTable, expected: ErrorTerms, *, less_baseline: bool = True
    ) -> None:
        lengths = np.diff(influences.edges) / influences.edges[-1]
        found = influences.precision(lengths, table.full_values()[:, 0], less_baseline=less_baseline)
        assert (found.sampling, found.monte_carlo) == pytest.approx((expected.sampling, expected.monte_carlo), rel=1e-5)

    def test_early_rounds_depend_less_on_histories(self, table: ReplicateTable) -> None:
        """The policy of the first round is always the same; what passes differ by comes later."""
        influences = table._curve_influences(0, Baseline(0.0, 0.0))
        curves = np.array([result.fine_curve for result in table.passes_of(0)])
        assert fine_edges(60)[1] == 1
        bins = np.eye(influences.edges.size - 1)
        first, last = (influences.precision(bins[place], curves[:, place]) for place in (0, -1))
        assert first.monte_carlo < 0.2 * last.monte_carlo
        whole = influences.precision(np.diff(influences.edges) / 60, table.full_values()[:, 0])
        assert last.std_error > 0.8 * whole.std_error


class TestSources:
    def test_learners_have_it_and_fixed_policies_do_not(self, compared: bc.Comparison) -> None:
        for name in ("greedy", "linucb"):
            estimate = compared.estimates[name]
            found, after = estimate.break_even, estimate.after_learning
            assert found is not None
            assert (found.baseline, found.horizon, found.level) == ("logged", 60, 0.95)
            assert after is not None
            assert after.first_round == 49
            assert after.value > estimate.value
            assert after.interval.low < after.end_value < after.interval.high
            text = str(estimate)
            assert "break-even  earns more than the log did" in text
            assert f"{after.value:.2f}" in text
        assert compared.estimates["even"].break_even is None
        assert compared.estimates["even"].after_learning is None

    def test_alone_as_in_company(self, compared: bc.Comparison) -> None:
        alone = bc.evaluate(LOG, POLICIES["greedy"], bc.ClockReplay(), replicates=16, **OPTIONS)
        assert alone.break_even == compared.estimates["greedy"].break_even
        assert alone.after_learning == compared.estimates["greedy"].after_learning

    def test_results_are_values(self, compared: bc.Comparison) -> None:
        assert bc.Comparison.from_dict(json.loads(json.dumps(compared.to_dict()))) == compared
        copy = pickle.loads(pickle.dumps(compared))
        assert copy == compared
        assert hash(copy.estimates["linucb"].break_even) == hash(compared.estimates["linucb"].break_even)
        changed = replace(compared.estimates["linucb"], break_even=None)
        assert changed != compared.estimates["linucb"]

    @pytest.mark.parametrize("baseline", ["greedy", "even"])
    def test_relative_to_a_policy(self, compared: bc.Comparison, baseline: str) -> None:
        result = bc.compare(LOG, POLICIES, replicates=16, baseline=baseline, **OPTIONS)
        found = result.estimates["linucb"].break_even
        assert found is not None
        assert found.baseline == baseline
        assert result.estimates[baseline].break_even is None
        assert result.estimates["linucb"].after_learning == compared.estimates["linucb"].after_learning

    def test_the_verdict_names_both_rounds(self, compared: bc.Comparison) -> None:
        found = compared.estimates["linucb"].break_even
        assert found is not None
        expected = f", from round {found.round} on; it has paid for its learning by round {found.payback}."
        assert expected in compared.verdict.sentence

    def test_from_subsets_of_groups(self) -> None:
        estimate = bc.evaluate(
            LOG, POLICIES["linucb"], bc.ClockReplay(), interval=bc.GroupJackknife(), replicates=60, **OPTIONS
        )
        assert estimate.break_even is not None
        assert estimate.break_even.round is not None
        assert estimate.after_learning is not None
        assert estimate.after_learning.end_interval is None

    def test_from_parts_of_a_stream(self) -> None:
        stream = LogStream.from_logs([LOG])
        options = {**OPTIONS, "horizon": 15}
        result = bc.compare(stream, POLICIES, baseline="greedy", **options)
        alone = bc.evaluate(stream, POLICIES["linucb"], bc.ClockReplay(), **options)
        assert alone.break_even is not None
        assert alone.break_even.baseline == "logged"
        assert alone.after_learning is not None
        assert alone.after_learning.end_interval is not None
        assert result.estimates["linucb"].break_even is not None

    def test_from_segments(self) -> None:
        options = {**OPTIONS, "horizon": 15}
        estimate = bc.evaluate(
            LOG, POLICIES["linucb"], bc.ClockReplay(), interval=bc.Segments(5), replicates=None, **options
        )
        assert estimate.break_even is not None
        assert estimate.after_learning is not None
        # by hand: the mean over segments of the last fifth of their curves is that of the mean curve
        assert estimate.curve is not None
        last = estimate.curve.value[estimate.curve.rounds >= estimate.after_learning.first_round]
        assert estimate.after_learning.value == pytest.approx(last.mean())

    def test_one_run_in_log_order_has_none(self) -> None:
        estimate = bc.evaluate(LOG, POLICIES["linucb"], bc.DRns(q=0.05), reward_model=0.5)
        assert estimate.curve is not None
        assert estimate.break_even is None
        assert estimate.after_learning is None


def test_values_after_learning_stay_in_the_reward_range() -> None:
    wide = bc.Interval(-0.5, 1.5, 0.95, "jackknife", "independent", "")
    after = bc.AfterLearning(81, 1.25, 0.5, wide, end_value=0.5, end_std_error=0.5, end_interval=wide).within(0.0, 1.0)
    assert (after.value, after.interval.low, after.interval.high, after.end_value) == (1.0, 0.0, 1.0, 0.5)
    assert after.end_interval == after.interval
    assert bc.AfterLearning(81, 0.5, 0.5, wide).within(0.0, 1.0).end_interval is None


def lift(value: float) -> bc.Difference:
    interval = bc.Interval(value - 0.01, value + 0.01, 0.95, "paired", "independent", "")
    return bc.Difference("new", "logged", value, 0.005, interval)


@pytest.mark.parametrize(
    ("value", "found", "expected"),
    [
        (0.05, (40, (30, 60), 90, (70, 200)), ", from round 40 on; it has paid for its learning by round 90."),
        (0.05, (1, (1, 10), 1, (1, 10)), ", from the first round on."),
        (-0.05, (40, (30, 60), None, (400, None)), "It earns more from round 40 on, but has not paid for its learning"),
        (0.0, (40, (30, 60), 300, (70, None)), "It earns more from round 40 on."),
        (0.0, (40, (30, None), 300, (70, None)), "(95 % interval -0.010 to 0.010)."),
        (-0.05, (None, (None, None), None, (None, None)), "(95 % interval -0.060 to -0.040)."),
    ],
)
def test_sentences(value: float, found: Any, expected: str) -> None:
    first, ends, paid, paid_ends = found
    break_even = bc.BreakEven(first, bc.RoundInterval(*ends), paid, bc.RoundInterval(*paid_ends), 500, 0.95, "logged")
    sentence = describe_lift(lift(value), break_even)
    assert expected in sentence
    assert sentence.endswith(expected) or "within 500 rounds." in sentence
