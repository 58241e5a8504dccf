"""Intervals for fixed policies: equations against independent computations, refusals, invariances."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from backcast._request import EvaluationRequest
from backcast.errors import OptionError
from backcast.evaluators import CAB, DR, IPS, SNDR, SNIPS, BaselineIPS, ClippedIPS, PessimisticDR, ShrinkageDR
from backcast.intervals._sample import (
    ControlVariateMean,
    EventColumns,
    IntervalMethod,
    Mean,
    Moments,
    SelfNormalizedMean,
    WeightedSample,
    sample_from_values,
    std_error,
)
from backcast.intervals.asymptotic import (
    AdjustedStudent,
    CressieRead,
    Normal,
    Student,
    WeightSums,
    least_value,
    least_value_at_infinity,
)
from backcast.intervals.betting import Betting, Game, play
from backcast.intervals.bootstrap import BCa, Bootstrap, replicate_values, sum_groups
from backcast.intervals.concentration import ClopperPearson, EmpiricalBernstein, Hoeffding, binomial_interval
from backcast.io.stream import LogStream
from backcast.log import Log, replace_columns
from backcast.policies.fixed import Fixed, Uniform

FINITE: list[Any] = [Hoeffding(), EmpiricalBernstein(), ClopperPearson(), Betting()]
ASYMPTOTIC: list[Any] = [Normal(), Student(), AdjustedStudent(), Bootstrap(200), BCa(200), CressieRead()]
EVERY = [*FINITE, *ASYMPTOTIC]
every = pytest.mark.parametrize("method", EVERY, ids=lambda method: type(method).__name__)
POLICY = Fixed([0.5, 0.3, 0.2])


def random_log(n: int = 300, seed: int = 0, low: float = 0.0, high: float = 1.0, *, logging: bool = True) -> Log:
    rng = np.random.default_rng(seed)
    table = np.tile([0.125, 0.375, 0.5], (n, 1))
    actions = rng.choice(3, n, p=table[0])
    share = (rng.random(n) < np.array([0.9, 0.3, 0.5])[actions]) * rng.random(n)
    return Log(
        None,
        actions,
        low + (high - low) * share,
        table[np.arange(n), actions],
        n_actions=3,
        reward_range=(low, high),
        logging_probabilities=table if logging else None,
    )


def interval(method: Any, log: Any = None, evaluator: Any = None, level: float = 0.95, **options: Any) -> Any:
    request = EvaluationRequest(random_log() if log is None else log, POLICY, interval=method, level=level, **options)
    return (evaluator or IPS()).estimate(request).interval


@every
def test_each_states_its_assumption_and_estimand(method: Any) -> None:
    assert isinstance(method, IntervalMethod)
    computed = interval(method)
    assert computed.assumption in ("independent", "martingale", "asymptotic")
    assert (computed.assumption == "asymptotic") == (method in ASYMPTOTIC)
    assert computed.estimand.startswith("V(pi)")
    assert computed.level == 0.95
    assert computed.low < computed.high
    for words in ("Assumption:", "Estimand:"):
        # Normal and Student say both in their first lines
        assert words in str(type(method).__doc__) or type(method) in (Normal, Student)


@every
def test_a_higher_level_is_wider(method: Any) -> None:
    inner, outer = (interval(method, level=level) for level in (0.8, 0.99))
    assert outer.low <= inner.low < inner.high <= outer.high
    assert outer.high - outer.low > inner.high - inner.low


@every
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (2.0, 6.0), (0.0, 0.25)])
def test_the_reward_range_is_carried_through(method: Any, low: float, high: float) -> None:
    """Rewards in another range: within it for those that know it, and rescaled with it for all."""
    computed = interval(method, random_log(low=low, high=high))
    doubled = interval(method, random_log(low=2 * low, high=2 * high))
    assert [doubled.low, doubled.high] == pytest.approx([2 * computed.low, 2 * computed.high], abs=1e-6)
    if not isinstance(method, Normal | Student | Bootstrap | BCa):
        assert low <= computed.low < computed.high <= high


SHIFTS: list[Any] = [ClopperPearson(), Betting(), CressieRead()]


@pytest.mark.parametrize("method", SHIFTS, ids=lambda method: type(method).__name__)
def test_those_that_use_the_mean_of_the_weights_follow_a_shift(method: Any) -> None:
    plain, shifted = interval(method), interval(method, random_log(low=3.0, high=4.0))
    assert [shifted.low, shifted.high] == pytest.approx([3 + plain.low, 3 + plain.high], abs=1e-9)


@every
def test_the_blocks_do_not_matter_and_the_seed_decides(method: Any) -> None:
    log = random_log(200)
    whole, refit = interval(method, log, seed=5), interval(method, log, seed=5)
    parts = interval(method, LogStream.from_logs([log[:50], log[50:51], log[51:]]), seed=5)
    assert whole == refit
    assert [parts.low, parts.high] == pytest.approx([whole.low, whole.high], rel=1e-6)


@pytest.mark.parametrize("method", [*FINITE, CressieRead()], ids=lambda method: type(method).__name__)
def test_no_declared_range_is_an_error_with_a_remedy(method: Any) -> None:
    with pytest.raises(OptionError, match="reward_range="):
        interval(method, replace_columns(random_log(), reward_range=None))


@pytest.mark.parametrize("evaluator", [SNDR(), SNIPS(), BaselineIPS()])
@pytest.mark.parametrize("method", [Hoeffding(), EmpiricalBernstein()], ids=lambda method: type(method).__name__)
def test_bounds_for_averages_refuse_what_is_none(method: Any, evaluator: Any) -> None:
    with pytest.raises(OptionError, match="is about averages"):
        interval(method, evaluator=evaluator)


@pytest.mark.parametrize("evaluator", [DR(), SNDR(), ClippedIPS(2.0), PessimisticDR(2.0), CAB(2.0)])
@pytest.mark.parametrize("method", [ClopperPearson(), CressieRead()], ids=lambda method: type(method).__name__)
def test_those_for_weighted_rewards_refuse_models_and_transforms(method: Any, evaluator: Any) -> None:
    with pytest.raises(OptionError, match="is about weighted rewards"):
        interval(method, evaluator=evaluator)


@pytest.mark.parametrize("method", FINITE, ids=lambda method: type(method).__name__)
def test_a_bound_that_the_log_breaks_is_refused(method: Any) -> None:
    with pytest.raises(OptionError, match="the log has a weight of 4"):
        interval(replace(method, largest_weight=2.0))
    with pytest.raises(OptionError, match=r"largest_weight is 0\.5"):
        replace(method, largest_weight=0.5)


def test_predictions_outside_the_range_void_the_bounds() -> None:
    with pytest.raises(OptionError, match="the reward model leaves it"):
        interval(Hoeffding(), evaluator=DR(), reward_model=np.full((300, 3), 1.5))


def test_bounds_come_from_the_record_where_there_is_one() -> None:
    """The record shows 4 = 0.5/0.125."""
    recorded = interval(Hoeffding(), random_log())
    assert recorded == interval(Hoeffding(largest_weight=4.0), random_log(logging=False))
    width = 4 * math.sqrt(math.log(2 / 0.05) / (2 * 300))
    value = IPS().estimate(EvaluationRequest(random_log(), POLICY)).value
    assert recorded.high == pytest.approx(min(1.0, value + width))


UNKNOWN: list[tuple[Any, Any]] = [
    (Hoeffding(), IPS()),
    (EmpiricalBernstein(), IPS()),
    (ClopperPearson(), IPS()),
    (Hoeffding(), DR()),
    (Betting(), DR()),
    (Betting(math.inf), DR()),
    (Hoeffding(), PessimisticDR(threshold="auto")),
]


@pytest.mark.parametrize(("method", "evaluator"), UNKNOWN, ids=lambda each: type(each).__name__)
def test_a_log_that_shows_no_bound_on_the_weights_is_refused(method: Any, evaluator: Any) -> None:
    """One over the smallest propensity of the log is none: what is rarer still is missing from it."""
    with pytest.raises(OptionError, match=r"largest_weight=1/floor.*logging_probabilities"):
        interval(method, random_log(logging=False), evaluator, reward_model=0.5)
    if not math.isinf(method.largest_weight or 0.0):
        assert interval(replace(method, largest_weight=4.0), random_log(logging=False), evaluator, reward_model=0.5)


def test_no_default_needs_a_bound_on_the_weights() -> None:
    for evaluator in (IPS(), SNIPS(), DR(), PessimisticDR()):
        assert interval(None, random_log(logging=False), evaluator) is not None


@pytest.mark.parametrize("evaluator", [ClippedIPS(2.0), PessimisticDR(2.0), ShrinkageDR(4.0)])
def test_transforms_that_bound_the_weight_need_no_other_bound(evaluator: Any) -> None:
    known, unknown = (
        interval(EmpiricalBernstein(), random_log(logging=logging), evaluator, reward_model=0.5)
        for logging in (True, False)
    )
    assert known == unknown


def test_estimated_propensities_leave_no_claim_for_every_n() -> None:
    log = replace_columns(random_log(), propensities_estimated=True)
    for method in (*FINITE, Normal()):
        assert interval(method, log).assumption == "asymptotic"


def test_cressie_read_and_betting_assume_no_bound_they_do_not_know() -> None:
    for method in (CressieRead(), Betting()):
        unknown = interval(method, random_log(logging=False))
        assert unknown == interval(replace(method, largest_weight=math.inf), random_log(logging=False))
        assert unknown.half_width > interval(method, random_log(logging=True)).half_width
    # a uniform log shows its bound: no action had more than one over the number of actions
    log = random_log(logging=False)
    uniform = replace_columns(log, propensities=np.full(len(log), 1 / 3))
    for method in (CressieRead(), Betting()):
        assert interval(method, uniform) == interval(replace(method, largest_weight=3.0), uniform)


@pytest.mark.parametrize(
    ("evaluator", "width"),
    [
        (IPS(), 4.0),
        (ClippedIPS(2.0), 2.0),
        (DR(), 1.0 + 2 * 4.0),
        (PessimisticDR(2.0), 1.0 + 2 * 2.0),
        (ShrinkageDR(4.0), 1.0 + 2 * 1.0),
        (CAB(2.0), 1.0 + 2.0),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, float) else "",
)
def test_hoeffding_uses_the_range_of_every_transform(evaluator: Any, width: float) -> None:
    """Shapes bound the weight themselves: clipping at 2 by 2, shrinking at 4 by sqrt(4)/2."""
    log = random_log(100_000, seed=1)
    computed = interval(Hoeffding(), log, evaluator, reward_model=0.5)
    assert computed.high - computed.low == pytest.approx(2 * width * math.sqrt(math.log(40) / 200_000))


def reweighted(w: Any, r: Any, budget: float) -> float:
    """The least value by general-purpose optimisation: what the closed form must equal."""
    n = w.size
    constraints: Any = [
        {"type": "eq", "fun": lambda g: g.mean() - 1},
        {"type": "eq", "fun": lambda g: (g * w).mean() - 1},
        {"type": "ineq", "fun": lambda g: budget - n * ((g**2).mean() - 1)},
    ]
    options: Any = {"constraints": constraints, "method": "SLSQP", "options": {"ftol": 1e-14}}

    def objective(g: Any) -> float:
        return float((g * w * r).mean())

    best = optimize.minimize(objective, np.ones(n), **options)
    return float(best.fun)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_least_value_is_the_solution_of_its_problem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, r = rng.exponential(size=8), rng.random(8)
    sums = WeightSums(8, w.sum(), (w * w).sum(), (w * r).sum(), (w * w * r).sum(), ((w * r) ** 2).sum())
    budget = 4.0 + 8 * (1 - w.mean()) ** 2 / w.var()
    assert least_value(sums, budget) == pytest.approx(reweighted(w, r, budget), abs=1e-5)
    assert least_value(sums, 0.5 * (budget - 4.0) - 0.01) is None


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_least_value_at_infinity_is_the_limit_of_heavier_events(seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, r = rng.exponential(0.5, size=30), rng.random(30)
    sums = WeightSums(30, w.sum(), (w * w).sum(), (w * r).sum(), (w * w * r).sum(), ((w * r) ** 2).sum())
    budget = 31 / 30 + 4.0
    assert least_value_at_infinity(sums, 0.25, budget) == pytest.approx(
        least_value(sums.with_event(1e6, 0.25), budget), abs=1e-4
    )


def test_cressie_read_gives_the_whole_range_where_nothing_is_known() -> None:
    log = Log(None, [1] * 20, [0.5] * 20, [0.5] * 20, n_actions=2, reward_range=(0, 1))
    computed = IPS().estimate(EvaluationRequest(log, Fixed([0.999, 0.001]), interval=CressieRead())).interval
    assert computed is not None
    assert (computed.low, computed.high) == pytest.approx((0.0, 1.0), abs=0.01)


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_standard_errors_by_the_delta_method_are_jackknife_errors(seed: int) -> None:
    """The infinitesimal slope and leaving one event out agree up to 1/n."""
    rng = np.random.default_rng(seed)
    n = 400
    base, w, e = rng.random(n), rng.exponential(size=n), rng.normal(size=n)
    columns = EventColumns(base, w, w * e, w, e, w, e)
    for form in (Mean(), SelfNormalizedMean(), ControlVariateMean(0.3)):
        totals = np.array([base.sum(), w.sum(), (w * e).sum()])
        left = [form.value(*(totals - [base[k], w[k], w[k] * e[k]]) / (n - 1)) for k in range(n)]
        jackknife = math.sqrt((n - 1) / n * ((np.array(left) - np.mean(left)) ** 2).sum())
        assert std_error(form, Moments.of(columns)) == pytest.approx(jackknife, rel=0.05)


def test_the_bootstrap_fits_the_baseline_anew() -> None:
    """Replicates of BaselineIPS are BaselineIPS of resampled logs, event by event."""
    log = random_log(40)
    sample: list[WeightedSample] = []
    spy = SimpleNamespace(interval=lambda given, level: sample.append(given))
    BaselineIPS().estimate(EvaluationRequest(log, POLICY, interval=spy))
    computed = replicate_values(sample[0], sum_groups(sample[0]), 100)
    times = np.random.default_rng((0, 1979)).multinomial(40, np.full(40, 1 / 40), size=64)
    for replicate in range(10):
        refit = log[np.repeat(np.arange(40), times[replicate])]
        assert computed[replicate] == pytest.approx(
            BaselineIPS().estimate(EvaluationRequest(refit, POLICY)).value, abs=1e-12
        )


def test_the_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    values = rng.exponential(size=300)
    kinds: list[tuple[Any, Any]] = [(Bootstrap(5000), "percentile"), (BCa(5000), "BCa")]
    for ours, theirs in kinds:
        known = stats.bootstrap(
            (values,), np.mean, n_resamples=5000, method=theirs, rng=np.random.default_rng(1)
        ).confidence_interval
        computed = ours.interval(sample_from_values(*values), 0.95)
        # two runs of 5000 replicates differ by a few per cent of the width
        assert [computed.low, computed.high] == pytest.approx([known.low, known.high], abs=0.012)


def test_groups_stand_for_events_in_the_bootstrap() -> None:
    """20,000 skewed events in 2,000 groups: the same ends as one group an event would give, up to its own noise."""
    values = np.random.default_rng(3).exponential(size=20_000) ** 2
    computed = BCa(4000).interval(sample_from_values(*values), 0.95)
    error = values.std() / math.sqrt(values.size)
    skew = stats.skew(values) / math.sqrt(values.size)
    # Cornish-Fisher ends of the mean's own law, which BCa approaches
    shift = skew * (1.96**2 * 2 + 1) / 6 * error
    assert computed.low == pytest.approx(values.mean() - 1.96 * error + shift, abs=0.15 * error)
    assert computed.high == pytest.approx(values.mean() + 1.96 * error + shift, abs=0.15 * error)


def test_clopper_pearson_selects_the_expected_share() -> None:
    log = random_log(8000)
    computed = interval(ClopperPearson(), log, level=0.5)
    value = IPS().estimate(EvaluationRequest(log, POLICY)).value
    # 2,000 of 8,000 events are kept at a largest weight of 4
    assert computed.high - computed.low == pytest.approx(2 * 0.674 * math.sqrt(value * (1 - value) / 2000), rel=0.1)


@given(st.integers(0, 30), st.integers(1, 30), st.sampled_from([0.5, 0.9, 0.99]))
def test_binomial_interval_has_the_tails_it_claims(successes: int, trials: int, level: float) -> None:
    successes = min(successes, trials)
    low, high = binomial_interval(successes, trials, level)
    tail = (1 - level) / 2
    assert successes == 0 or stats.binom.sf(successes - 1, trials, low) == pytest.approx(tail)
    assert successes == trials or stats.binom.cdf(successes, trials, high) == pytest.approx(tail)


def test_wealth_is_never_negative() -> None:
    """Whatever the outcomes, wealth stays positive, hedged or not, even against a goal that makes bets bold."""
    rng = np.random.default_rng(0)
    for max_weight in (math.inf, 50.0):
        wealth, candidates = np.ones(64), np.linspace(0, 1, 64)
        w = rng.choice(np.array([0.0, 0.5, 50.0]), p=[0.2, 0.79, 0.01], size=200)
        x = np.where(rng.random(200) < 0.5, w, 0.0)
        play(x, w, candidates, wealth, np.zeros(6), Game(200.0, 1e30, max_weight, 0.25))
        assert (wealth > 0).all()
        assert wealth[-1] < 1e-9


def test_the_true_value_is_a_fair_game() -> None:
    """The mean fortune against the truth is 1: 4,000 games of 30 rounds, standard error from the games themselves."""
    rng = np.random.default_rng(1)
    fortunes = []
    for _ in range(4000):
        acted = rng.random(30) < 0.25
        w = np.where(acted, 2.0, 2 / 3)
        wealth = np.ones(1)
        # E w = 1; r pays 0.8 on the first action and 0.2 on the other: 0.5 * 0.8 + 0.5 * 0.2
        rewards: Any = (rng.random(30) < np.where(acted, 0.8, 0.2)) * w
        play(rewards, w, np.array([0.5]), wealth, np.zeros(6), Game(1e5, 1e300, 2.0, 0.25))
        fortunes.append(wealth[0])
    error = np.std(fortunes) / math.sqrt(4000)
    # 4 standard errors: odds of 6e-5, the seed is fixed
    assert abs(np.mean(fortunes) - 1.0) < 4 * error
    assert error < 0.05


def test_hedging_on_the_weights_pays_where_rewards_are_high() -> None:
    rng = np.random.default_rng(2)
    log = random_log(2000, seed=2)
    sure = replace_columns(log, rewards=(rng.random(2000) < 0.95) * 1.0)
    hedged, unhedged = (interval(Betting(bound), sure) for bound in (4.0, math.inf))
    assert hedged.half_width < 0.7 * unhedged.half_width


def test_samples_without_events_serve_intervals_from_sums() -> None:
    sample = replace(WeightedSample.of(EventColumns(*np.ones((7, 10)))), columns=lambda: iter(()))
    assert Normal().interval(sample, 0.95).low == sample.value == 2.0


def test_uniform_logging_of_the_uniform_policy_has_weights_of_one() -> None:
    log = replace_columns(random_log(), propensities=np.full(300, 1 / 3), logging_probabilities=None)
    computed = IPS().estimate(EvaluationRequest(log, Uniform(), interval=Hoeffding(1.0))).interval
    assert computed is not None
    assert computed.half_width == pytest.approx(math.sqrt(math.log(40) / 600))


def weighted_sample(weights: Any, rewards: Any, *, bound: float, model: float = 0.0) -> WeightedSample:
    """The sample of IPS, or of DR with a constant model, for rewards in [0, 1] and a known bound on the weights."""
    w, r = np.asarray(weights, dtype=np.float64), np.asarray(rewards, dtype=np.float64) - model
    columns = EventColumns(np.full(w.size, model), w, w * r, w, r, np.full(w.size, bound), r)
    residuals = (0.0, 1.0) if model == 0.0 else (-1.0, 1.0)
    sample = WeightedSample.of(columns)
    return replace(sample, reward_range=(0.0, 1.0), base_range=(0, 1), residual_range=residuals, bound_known=True)


def test_rounded_weights_leave_cressie_read_as_wide_as_weights_of_one() -> None:
    """A logger evaluated with its own probabilities in single precision: the interval was 7 % too narrow.

    Coverage of 95 % intervals over 600 logs; fewer than 553 hits have a chance of 1e-3, old code had about 552.
    """
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(600):
        rewards = (rng.random(200) < 0.3).astype(float)
        noisy = 1 + 6e-8 * rng.standard_normal(200)
        exact, rounded = (
            CressieRead().interval(weighted_sample(weights, rewards, bound=float(weights.max())), 0.95)
            for weights in (np.ones(200), noisy)
        )
        normal = Normal().interval(weighted_sample(np.ones(200), rewards, bound=1.0), 0.95)
        assert rounded.half_width == pytest.approx(exact.half_width, rel=1e-4)
        assert rounded.half_width > normal.half_width
        hits += rounded.low <= 0.3 <= rounded.high
    assert hits >= stats.binom.ppf(1e-3, 600, 0.95)


@pytest.mark.parametrize(("rate", "mean"), [(0.005, 0.2), (0.005, 0.02), (0.03, 0.02), (0.3, 0.2)])
@pytest.mark.parametrize("n", [300, 3000])
def test_adjusted_student_covers_where_few_events_carry_the_value(n: int, rate: float, mean: float) -> None:
    """DR of an action that the logger takes at this rate; where it is rare, the normal interval covers 3 to 90 %."""
    rng = np.random.default_rng([n, int(1000 * rate)])
    hits = runs = 0
    for _ in range(300):
        taken = rng.random(n) < rate
        if not taken.any():
            continue
        rewards = (rng.random(n) < mean).astype(float)
        sample = weighted_sample(taken / rate, rewards, bound=1 / rate, model=0.1)
        interval = AdjustedStudent().interval(sample, 0.95)
        assert interval.low <= sample.value <= interval.high
        hits, runs = hits + (interval.low <= mean <= interval.high), runs + 1
    # false alarm: 1 in 1,000
    assert hits >= stats.binom.ppf(1e-3, runs, 0.95)


def test_adjusted_student_is_normal_where_many_events_carry_the_value() -> None:
    rng = np.random.default_rng(1)
    sample = weighted_sample(2.0 * (rng.random(100_000) < 0.5), rng.random(100_000) < 0.3, bound=2.0, model=0.3)
    adjusted, normal = (method.interval(sample, 0.95) for method in (AdjustedStudent(), Normal()))
    assert adjusted.half_width == pytest.approx(normal.half_width, rel=0.01)


def test_columns_that_are_the_same_array_have_the_moments_of_copies() -> None:
    rewards = np.random.default_rng(3).normal(size=10_001)
    zeros, ones = np.zeros_like(rewards), np.ones_like(rewards)
    shared = Moments.of(EventColumns(zeros, ones, rewards, ones, rewards, ones, rewards))
    copies = Moments.of(
        EventColumns(*(column.copy() for column in (zeros, ones, rewards, ones, rewards, ones, rewards)))
    )
    for name in ("n", "mean", "scatter", "low", "high"):
        assert np.array_equal(getattr(shared, name), getattr(copies, name))
