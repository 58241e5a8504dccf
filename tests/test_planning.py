"""How long a log must be: the arithmetic, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import backcast as bc
from backcast.errors import OptionError
from backcast.planning import distance_for_power

COIN = bc.PlanAssumptions(reward_sd=0.5, weight=2)  # 2 * 2 * 1/4: a variance of 1 per event
LEARNERS = bc.PlanAssumptions(reward_sd=0.5, weight=2, horizon=10, run_sd=0.1)


@cache
def pilot(policies: int = 2) -> bc.Comparison:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=600)
    rewards = (rng.random(600) < np.where(actions == 1, 0.7, 0.4)).astype(float)
    log = bc.Log(None, actions, rewards, np.full(600, 0.5), reward_range=(0, 1))
    every = {"a": bc.UCB1(), "b": bc.RoundRobin(), "c": bc.UCB1(exploration=0.1)}
    return bc.compare(log, dict(list(every.items())[:policies]), horizon=20, replicates=60)


class TestAssumptions:
    def test_variance_by_hand(self) -> None:
        assert COIN.variance == 1.0
        assert replace(COIN, agreement=0.75).variance == 0.25
        # the spread over runs adds 2 * 10 * 0.01
        assert LEARNERS.variance == pytest.approx(1.2)

    def test_a_textbook_case(self) -> None:
        # two-sided 5 %, power 80 %: ((1.959964 + 0.841621) / 0.1)^2 = 784.9
        assert bc.plan(COIN, 0.1).needs[0].events == 785

    @given(st.floats(0.01, 10), st.floats(1, 50), st.floats(0.001, 1), st.floats(0.1, 0.99))
    def test_the_planned_length_has_the_power_asked_for(
        self, reward_sd: float, weight: float, difference: float, power: float
    ) -> None:
        plan = bc.plan(bc.PlanAssumptions(reward_sd, weight), difference, power=power)
        events = plan.needs[0].events
        assert plan.power_at(events, difference) >= power - 1e-9
        assert events < 2 or plan.power_at(events - 1, difference) < power

    def test_learners_pay_for_the_jackknifes_few_groups(self) -> None:
        plan = bc.plan(LEARNERS, 0.1)
        assert plan.power_at(plan.needs[0].events, 0.1) == pytest.approx(0.8, abs=1e-3)
        assert plan.needs[0].events > 785 * 1.2
        assert plan.power_at(10**9, 0.1) == 1.0

    def test_no_difference_is_so_large_that_the_horizon_does_not_matter(self) -> None:
        # 1.2 events per round and unit of weight
        plan = bc.plan(LEARNERS, 100.0)
        assert plan.needs[0].events == 24
        assert "Fewer than 24 events could not simulate the horizon" in plan.notes[0]

    @given(st.floats(0.01, 1), st.floats(1.5, 4))
    def test_half_the_difference_takes_four_times_the_events(self, difference: float, factor: float) -> None:
        first, other = (need.events for need in bc.plan(COIN, [difference, difference / factor]).needs)
        assert other == pytest.approx(first * factor**2, rel=0.01, abs=factor**2 + 1)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"reward_sd": 0.0}, "reward_sd is 0.0; it must be a finite number > 0"),
            ({"weight": 0.5}, "weight is 0.5; it must be a finite number >= 1"),
            ({"agreement": 1.0}, "agreement is 1; policies that always agree do not differ"),
            ({"agreement": 1.5}, "agreement is 1.5"),
            ({"run_sd": -1.0}, "run_sd is -1.0"),
            ({"horizon": 0}, "horizon is 0"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options: dict[str, float], words: str) -> None:
        with pytest.raises(OptionError, match=words):
            bc.PlanAssumptions(**{"reward_sd": 0.5, "weight": 2, **options})  # type: ignore[arg-type]  # a test of values


class TestPilots:
    def test_the_spread_is_that_of_the_comparison(self) -> None:
        measured = pilot()
        plan = bc.plan(measured, 0.15)
        gap = measured.differences[0]
        chance, distance = gap.monte_carlo_error**2, 2.85  # about 2.0 of Student's t and 0.85 more
        assert 0 < chance < gap.std_error**2
        assert plan.spreads[0].error_at(600) == pytest.approx(gap.std_error)
        expected = 600 * (gap.std_error**2 - chance) / ((0.15 / distance) ** 2 - chance)
        assert plan.needs[0].events == pytest.approx(expected, rel=0.05)
        assert (plan.horizon, plan.pilot_events) == (20, 600)

    def test_the_range_is_that_of_the_degrees_of_freedom(self) -> None:
        measured = pilot()
        need, freedom = bc.plan(measured, 0.15).needs[0], measured.differences[0].degrees_of_freedom
        low, high = (freedom / float(stats.chi2.ppf(share, freedom)) for share in (0.975, 0.025))
        assert need.low == pytest.approx(need.events * low, abs=1)
        assert need.high == pytest.approx(need.events * high, abs=2)

    def test_more_pairs_need_more_events(self) -> None:
        two, three = (bc.plan(pilot(policies), 0.2) for policies in (2, 3))
        assert [spread.pair for spread in three.spreads] == ["a minus b", "a minus c", "b minus c"]
        assert three.needs[0].events > two.needs[0].events * 1.1

    def test_fixed_policies_are_planned_by_their_intervals(self) -> None:
        rng = np.random.default_rng(0)
        actions = rng.integers(2, size=500)
        log = bc.Log(None, actions, rng.random(500), np.full(500, 0.5), reward_range=(0, 1))
        measured = bc.compare(log, {"a": bc.Uniform(), "b": bc.Fixed([0, 1])}, bc.IPS())
        plan = bc.plan(measured, 0.05)
        need, spread = plan.needs[0], plan.spreads[0]
        assert need.low < need.events < need.high
        # Student's t with the effective sample size of about 250 events instead of 2.80 for the normal distribution
        freedom = measured.differences[0].degrees_of_freedom
        distance = distance_for_power(0.8, float(stats.t.ppf(0.975, freedom)), freedom)
        assert 2.8016 < distance < 2.85
        without_missed_event = 500 * (distance * measured.differences[0].std_error / 0.05) ** 2
        assert without_missed_event < need.events < 1.1 * without_missed_event
        # the interval that is planned with is that of the comparison
        error, missed = spread.error_at(500), spread.missed / 500
        half_width = missed + float(stats.t.ppf(0.975, freedom)) * math.hypot(error, missed)
        assert measured.differences[0].interval.half_width == pytest.approx(half_width)
        assert plan.power_at(need.events, 0.05) >= 0.8 > plan.power_at(need.events - 1, 0.05)

    def test_a_comparison_without_errors_is_refused(self) -> None:
        with pytest.raises(OptionError, match="no differences with standard errors"):
            bc.plan(bc.Comparison({}, (), ()), 0.1)

    def test_what_more_events_cannot_mend_is_refused(self) -> None:
        with pytest.raises(OptionError, match="hidden by the Monte-Carlo error of the replicates"):
            bc.plan(pilot(), 0.001)

    def test_policies_that_do_the_same_are_refused(self) -> None:
        same = replace(pilot().differences[0], std_error=0.0)
        with pytest.raises(OptionError, match="do the same on the pilot log"):
            bc.plan(replace(pilot(), differences=(same,)), 0.1)


class TestPlan:
    def test_text_and_json(self) -> None:
        plan = bc.plan(LEARNERS, [0.1, 0.2])
        assert str(plan).splitlines()[0] == "To distinguish policies over 10 rounds, 95 % intervals, power 80 %:"
        assert str(plan).count("needs") == 2
        plain = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
        assert [need["difference"] for need in plain["needs"]] == [0.1, 0.2]
        assert json.loads(json.dumps(bc.plan(COIN, 0.1).to_dict()))["spreads"][0]["freedom"] == "inf"

    def test_chart_has_a_line_for_each_difference(self) -> None:
        spec = bc.plan(COIN, [0.1, 0.2]).plot().to_dict()
        rows = [row for layer in spec["layer"] for row in layer["data"].get("values", []) if "events" in row]
        assert {row["difference"] for row in rows} == {"0.1", "0.2"}
        assert {(row["events"], round(row["power"], 2)) for row in rows if row["planned"]} == {(785, 0.8), (197, 0.8)}
        assert "needs 785 events" in spec["description"]
        json.dumps(spec, allow_nan=False)

    @pytest.mark.parametrize(
        ("difference", "options", "words"),
        [
            (0.0, {}, "difference is 0.0; it must be a finite number other than 0"),
            (math.inf, {}, "difference is inf"),
            ([], {}, "no difference is given"),
            (1e-12, {}, "would need more than 1e"),
            (0.1, {"power": 0.01}, "power is 0.01; it must lie between 0.05"),
            (0.1, {"level": 95}, "level is 95; it must be between 0 and 1"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, difference: float | list[float], options: dict[str, float], words: str
    ) -> None:
        with pytest.raises(OptionError, match=words):
            bc.plan(COIN, difference, **options)

    def test_pairs_are_known_by_name(self) -> None:
        with pytest.raises(OptionError, match="there is no pair 'x'; there are a minus b"):
            bc.plan(COIN, 0.1).power_at(100, 0.1, "x")
