"""Time budgets: counts by a fixed cost model, the same on every machine, and what they do to results."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import backcast as bc
from backcast._auto import resolve_evaluator
from backcast._progress import progress_bar
from backcast._request import EvaluationRequest
from backcast._time_budget import (
    CORES,
    default_budget,
    event_seconds,
    plan_for_log,
    plan_parts,
    plan_passes,
    update_cost,
)
from backcast.environments import LinearEnvironment
from backcast.evaluators._pass_cost import smallest_pool
from backcast.evaluators._passes import most_cheap_passes
from backcast.evaluators.drns import small_quantile
from backcast.io.stream import LogStream

ENVIRONMENT = LinearEnvironment(3, 4, logistic=True)
LOG = ENVIRONMENT.log(6_000, np.random.default_rng(0))
POLICY = bc.EpsilonGreedy(0.1)
OPTIONS: dict[str, Any] = {"horizon": 40, "exchangeable": True, "seed": 3}
BUDGETS = st.floats(1e-6, 1e6)
COSTS = st.floats(1e-9, 1e-2)


def choose(
    budget: Any, log: Any = LOG, horizon: int = 40, evaluator: Any = "auto"
) -> tuple[Any, EvaluationRequest, Any]:
    request = EvaluationRequest(log, POLICY, horizon=horizon, replicates="default", time_budget=budget)
    return resolve_evaluator(evaluator, request, [POLICY], True)


class TestPlan:
    @given(BUDGETS, BUDGETS, COSTS, st.integers(1, 10**6), st.integers(1, 10**6), st.integers(8, 500) | st.none())
    def test_more_time_is_never_less_work(
        self, first: float, second: float, cost: float, n_events: int, fewest: int, passes: int | None
    ) -> None:
        less, more = (
            plan_passes(seconds, (cost, 0.9 * cost), n_events, fewest, passes) for seconds in sorted((first, second))
        )
        assert less.pool <= more.pool
        assert less.reading_interval >= more.reading_interval
        # shorter passes may be more, but not the events of all of them
        assert less.passes <= more.passes or less.pool < more.pool

    @given(BUDGETS, COSTS, st.integers(1, 10**6), st.integers(1, 10**6), st.integers(8, 500) | st.none())
    def test_a_plan_fits_unless_it_is_the_smallest(
        self, seconds: float, cost: float, n_events: int, fewest: int, passes: int | None
    ) -> None:
        plan = plan_passes(seconds, (cost, 0.9 * cost), n_events, fewest, passes)
        assert min(fewest, n_events) <= plan.pool <= n_events
        assert plan.passes == passes or 16 <= plan.passes <= most_cheap_passes(plan.pool)
        smallest = plan.pool == min(fewest, n_events) and plan.passes == (passes or 16)
        assert smallest or plan.passes * plan.pool * 0.9 * cost <= CORES * seconds * (1 + 1e-9)

    def test_passes_become_shorter_before_they_become_fewer(self) -> None:
        plans = [plan_passes(seconds, (1e-5, 9e-6), 100_000, 20_000) for seconds in (1e3, 30.0, 18.0, 15.0, 6.0, 0.1)]
        assert [plan.pool for plan in plans] == [100_000, 92_592, 55_555, 46_296, 20_000, 20_000]
        assert [plan.passes for plan in plans] == [64, 64, 64, 64, 48, 16]
        # as short as is enough, but not so short that they are exhausted
        pools = [plan_passes(18.0, (1e-5, 9e-6), 100_000, 20_000, enough_events=n).pool for n in (12_500, 30_000)]
        assert pools == [20_000, 30_000]
        # unless they cannot be shorter
        whole = plan_passes(30.0, (1e-5, 9e-6), 100_000, 100_000)
        assert (whole.pool, whole.passes, whole.reading_interval) == (100_000, 48, 8)

    def test_without_a_shortage_nothing_is_reduced(self) -> None:
        plan = plan_for_log(1e4, LOG, [POLICY], 40, 100_000, None, 0)
        assert (plan.pool, plan.passes, plan.reading_interval) == (len(LOG), 416, 8)

    def test_more_passes_than_usual_take_a_small_share_of_the_budget(self) -> None:
        passes = [plan_passes(30.0, (cost, cost), 3_000, 100).passes for cost in (1e-7, 3e-6, 1e-5, 1e-4)]
        assert passes == [512, 192, 64, 64]
        # half of a second per pass, and 1.8 of 60 core-seconds for more than 64 of them
        assert plan_passes(30.0, (1e-5, 1e-5), 100_000, 100).passes == 64

    def test_policies_and_readings_share_the_time(self) -> None:
        one = plan_for_log(0.1, LOG, [POLICY], 200, 100_000, None, 0)
        two = plan_for_log(0.1, LOG, [POLICY, POLICY], 200, 100_000, None, 0)
        assert two.passes < one.passes
        # a reading is a tenth of a pass
        assert plan_for_log(0.1, LOG, [POLICY], 200, 100_000, None, 10) == two

    def test_the_default_grows_with_the_log(self) -> None:
        assert default_budget(10) == default_budget(100_000) == 30.0
        assert 1.9 < default_budget(10**6) / default_budget(10**5) < 2.1

    def test_costs_have_the_order_that_was_measured(self) -> None:
        kinds = [bc.EpsilonGreedy(0.1), bc.Softmax(), bc.LinearThompson()]
        costs = [update_cost(policy, 10, 20) for policy in kinds]
        assert costs == sorted(costs)
        assert 4 < costs[0] < 7
        assert 70 < costs[1] < 110
        assert 300 < costs[2] < 400
        slow = bc.FromClassifier(object())
        assert update_cost(slow, 10, 20) > update_cost(object(), 10, 20)
        assert event_seconds(bc.LinUCB(batch_size=15), LOG, 300) < event_seconds(bc.LinUCB(), LOG, 300)

    def test_a_pool_is_not_exhausted(self) -> None:
        assert smallest_pool(np.full(100, 0.5), 1_000) == 4_000
        rare = np.append(np.full(99, 0.5), 0.001)
        # its one event stands for a thousand pairs of event and action, most of all
        assert smallest_pool(rare, 1_000) == 2_000_000

    @pytest.mark.parametrize("n_events", [20_000, 3_000_000])
    def test_parts_become_shorter_before_they_become_few(self, n_events: int) -> None:
        class Long(type(LogStream.from_logs([LOG]))):  # type: ignore[misc]
            @property
            def n_events(self) -> int:
                return n_events

        stream = Long((LOG,))
        plans = [plan_parts(seconds, stream, [POLICY], 200, 100_000, 0) for seconds in (1e-3, 1.0, 10.0, 100.0, 1e5)]
        assert plans[-1].parts is None
        assert plans[-1].pool == 100_000
        assert [plan.pool for plan in plans] == sorted(plan.pool for plan in plans)
        assert all(plan.parts is None or plan.parts >= 20 for plan in plans)
        assert plans[0].pool >= smallest_pool(LOG.columns.propensities, 200)


class TestChoice:
    def test_a_budget_that_is_enough_changes_nothing(self) -> None:
        evaluator, request, notes = choose("default")
        assert evaluator == bc.ClockReplay() == choose(None)[0]
        assert len(notes) == len(choose(None)[2])
        assert request.plan is not None
        assert request.time_budget == 30.0
        with_budget, without = (bc.evaluate(LOG, POLICY, time_budget=budget, **OPTIONS) for budget in (1e4, None))
        assert (with_budget.value, with_budget.std_error, with_budget.interval) == (
            without.value,
            without.std_error,
            without.interval,
        )

    def test_monte_carlo_is_smaller_where_passes_are_cheap(self) -> None:
        options = {**OPTIONS, "horizon": 200}
        cheap, usual = (
            bc.evaluate(LOG[:800], POLICY, evaluator, **options) for evaluator in ("auto", bc.ClockReplay())
        )
        assert usual.settings["replicates"] <= 64 < cheap.settings["replicates"]
        shares = [(e.diagnostics.monte_carlo_error / e.diagnostics.sampling_error) ** 2 for e in (cheap, usual)]
        assert shares[0] < 0.06 < shares[1]  # 0.03 and 0.1 are aimed at; both depend on noisy pilots

    def test_a_small_one_uses_fewer_events_and_says_so(self) -> None:
        evaluator, request, notes = choose(0.05)
        assert request.plan is not None
        assert evaluator.pool == request.plan.pool < len(LOG)
        assert evaluator.reading_interval == request.plan.reading_interval == 64
        assert f"{request.plan.passes} passes over {evaluator.pool:,} events each" in notes[1]

    def test_an_evaluator_that_is_given_has_no_default_budget(self) -> None:
        given_pool = bc.ClockReplay(pool=5_000)
        assert choose("default", evaluator=given_pool)[0] == given_pool
        limited, _, _ = choose(0.05, evaluator=given_pool)
        assert limited.pool < 5_000

    def test_what_cannot_be_made_shorter_is_longer_than_the_budget(self) -> None:
        _, request, notes = choose(0.005)
        assert request.plan is not None
        assert request.plan.seconds > 0.005
        assert "longer than the time budget of 0.005 seconds" in notes[1]

    def test_far_beyond_the_budget_permutations_are_faster(self) -> None:
        evaluator, _, notes = choose(1e-4, horizon=900)
        assert evaluator == bc.DRns.recommended(len(LOG))
        assert "too long" in notes[0]
        # but not for a horizon that they would not reach: a third of the events may be accepted
        evaluator, _, notes = choose(1e-4, horizon=2_100)
        assert isinstance(evaluator, bc.ClockReplay)
        assert "longer than the time budget" in notes[1]

    def test_the_acceptance_rule_is_stricter_for_longer_logs(self) -> None:
        quantiles = [small_quantile(n) for n in (100, 10_000, 100_000, 10**6, 10**8)]
        assert quantiles == [0.01, 0.01, 0.0032, 0.001, 0.0001]
        # bias falls as fast as the standard error
        assert small_quantile(4_000_000) / small_quantile(1_000_000) == pytest.approx(0.5)
        assert bc.DRns.recommended(10**6).q == 0.001

    @pytest.mark.parametrize("budget", [0, -1.0, math.nan, math.inf, "soon", True])
    def test_other_budgets_are_refused(self, budget: Any) -> None:
        message = r"time_budget is .*; give a number of seconds above 0, or None for no limit on the work"
        with pytest.raises(bc.OptionError, match=message):
            bc.evaluate(LOG, POLICY, time_budget=budget, **OPTIONS)
        with pytest.raises(bc.OptionError, match=message):
            bc.compare(LOG, {"greedy": POLICY}, time_budget=budget, **OPTIONS)


class TestResults:
    def test_the_interval_is_wider_and_covers(self) -> None:
        """Ten logs at 95 %: fewer than seven hits have a probability below 1e-3."""
        rng = np.random.default_rng(9)
        table = ENVIRONMENT.table(200_000, rng)
        truth = float(np.mean(bc.environments.run_live(*table, POLICY, horizon=60, runs=3_000, rng=rng)))
        hits, ratios = 0, []
        for seed in range(10):
            log = ENVIRONMENT.log(8_000, np.random.default_rng(100 + seed))
            options: dict[str, Any] = {"horizon": 60, "exchangeable": True, "seed": seed}
            short = bc.evaluate(log, POLICY, time_budget=0.03, **options)
            whole = bc.evaluate(log, POLICY, time_budget=None, **options)
            ratios.append(short.std_error / whole.std_error)
            assert short.interval is not None
            hits += short.interval.low <= truth <= short.interval.high
        assert np.mean(ratios) > 1.02
        assert hits >= 7

    def test_settings_and_provenance_state_the_plan(self) -> None:
        result = bc.evaluate(LOG, POLICY, time_budget=0.05, **OPTIONS)
        assert result.settings["plan_budget"] == 0.05
        assert result.settings["plan_passes"] == result.diagnostics.to_dict()["passes"]
        whole = bc.evaluate(LOG, POLICY, time_budget=None, **OPTIONS)
        spread = whole.diagnostics.to_dict()["value_spread"]
        assert result.diagnostics.to_dict()["value_spread"] == pytest.approx(spread, rel=0.1)
        assert result.provenance is not None
        assert result.provenance.arguments["time_budget"] == 0.05
        assert result.provenance.options["time_budget"] == 0.05
        assert result.provenance.options["evaluator"]["options"]["pool"] == result.settings["plan_pool"]

    def test_jobs_and_reruns_do_not_change_it(self) -> None:
        results = [bc.evaluate(LOG, POLICY, time_budget=0.05, n_jobs=jobs, **OPTIONS) for jobs in (1, 2)]
        assert results[0].value == results[1].value
        assert results[0].std_error == results[1].std_error

    def test_a_comparison_has_one_plan(self) -> None:
        policies = {"greedy": POLICY, "ucb": bc.LinUCB()}
        result = bc.compare(LOG, policies, time_budget=0.05, **OPTIONS)
        plans = [
            {key: value for key, value in each.settings.items() if "plan" in key} for each in result.estimates.values()
        ]
        assert plans[0] == plans[1]
        assert result.differences[0].std_error < sum(each.std_error for each in result.estimates.values())


class TestProgressLine:
    def test_values_so_far_are_reported(self) -> None:
        class Watch:
            def __init__(self) -> None:
                self.shown: list[Any] = []

            def __call__(self, events: int) -> None:
                pass

            def show_values(self, values: Any) -> None:
                self.shown.append(values)

        watch = Watch()
        result = bc.evaluate(LOG, POLICY, progress=watch, replicates=16, **OPTIONS)
        assert len(watch.shown) == 16
        assert math.isnan(watch.shown[0][0][1])
        value, error = watch.shown[-1][0]
        assert value == pytest.approx(result.value)
        assert error == pytest.approx(result.std_error)
        stream = LogStream.from_logs([LOG[:3_000], LOG[3_000:]])
        watch = Watch()
        result = bc.evaluate(stream, POLICY, bc.ClockReplay(), progress=watch, horizon=20)
        assert watch.shown[-1][0] == pytest.approx((result.value, result.std_error))

    def test_the_line_has_value_and_error(self) -> None:
        stream = io.StringIO()
        with progress_bar(100, 1, console=Console(file=stream, force_terminal=True, width=120)) as bar:
            bar.start_task("linucb")
            bar.show_values([(0.46971, 0.00312)])
            bar.advance(50)
        assert "0.4697 ± 0.0031" in stream.getvalue()


def test_the_forecast_is_that_of_the_plan(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="backcast"):
        for n_jobs in (1, 2):
            bc.evaluate(LOG, POLICY, time_budget=0.05, n_jobs=n_jobs, **OPTIONS)
    one, two = (record.forecast_seconds for record in caplog.records if hasattr(record, "forecast_seconds"))
    _, request, _ = choose(0.05)
    assert request.plan is not None
    # passes are divided among jobs, the reward model and the influences of events are not
    assert 2 * (one - two) == pytest.approx(CORES * request.plan.seconds, rel=0.3)
    assert one - CORES * request.plan.seconds > 0.1
    assert replace(request, plan=None).plan is None
