"""StableVar and CADR: the published formulas, coverage on a logger that learns, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import backcast as bc
from backcast._format import describe_assumption
from bench.accuracy.adaptive import Setting

CONTEXTUAL = Setting("Thompson", 400, 3, 3).make_log(0)
CONTEXT_FREE = Setting("UCB", 400, 2, 1).make_log(0)


def reference(log: bc.Log, target: Any, predicted: Any, variance: Any, level: float = 0.95) -> tuple[float, ...]:
    """Value, error and interval of a stabilized doubly robust mean, event by event in plain NumPy.

    ``variance(k, events)`` is the variance estimate of event k from (weight, residual, model value, probability of the
    logged action under the policy) of earlier events.
    """
    events: list[tuple[float, float, float, float]] = []
    g, h = np.zeros(len(log)), np.zeros(len(log))
    for k in range(len(log)):
        a = log.actions[k]
        w, residual = target[a] / log.propensities[k], log.rewards[k] - predicted[k, a]
        v = variance(k, events)
        h[k] = v**-0.5 if v > 0 else 0.0
        g[k] = target @ predicted[k] + w * residual
        events.append((w, residual, target @ predicted[k], target[a]))
    value = (h * g).sum() / h.sum()
    u = h * (g - value)
    error = np.sqrt((u**2).sum()) / h.sum()
    half = stats.t.ppf((1 + level) / 2, (u**2).sum() ** 2 / (u**4).sum()) * error
    return value, error, value - half, value + half


def numbers(estimate: bc.Estimate) -> tuple[float, ...]:
    assert estimate.interval is not None
    return estimate.value, estimate.std_error, estimate.interval.low, estimate.interval.high


def recent_mean(values: Any) -> float:
    """Mean of 1 and these values, in which each counts 15/16 of the next."""
    mean = 1.0
    for value in values:
        mean += (value - mean) / 16
    return mean


def cadr_variance(k: int, events: list[tuple[float, float, float, float]]) -> float:
    if not events:
        return 0.0
    w, e, b, pi = np.array(events).T
    p = pi / w
    mean_ratio = recent_mean(pi**2 / p + (1 - pi) ** 2 / (1 - p))
    return float(mean_ratio * ((w * e**2).sum() + (e**2).mean()) / (w.sum() + 1) + b.var())


@pytest.mark.parametrize("log", [CONTEXTUAL, CONTEXT_FREE], ids=["contexts", "no contexts"])
def test_both_agree_with_the_formulas_in_plain_numpy(log: bc.Log) -> None:
    target = np.full(log.n_actions, 0.1 / (log.n_actions - 1))
    target[1] = 0.9
    predicted = bc.Progressive(bc.PerAction()).predictions(log, np.random.default_rng(0)).predicted
    v = (target**2 / log.logging_probabilities).sum(axis=1)

    def stable_variance(k: int, events: Any) -> float:
        return float(v[k]) if log.n_features == 0 else recent_mean(v[:k])

    for evaluator, variance in ((bc.StableVar(), stable_variance), (bc.CADR(), cadr_variance)):
        expected = reference(log, target, predicted, variance)
        assert numbers(bc.evaluate(log, bc.Fixed(target), evaluator)) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("reward_model", [None, 0.5])
def test_published_weights_agree_with_the_formula_of_the_paper(reward_model: Any) -> None:
    """Bibaut et al. (2021), section 3: the variance under the present logger, from all earlier events."""
    log = Setting("epsilon-greedy", 300, 3, 1).make_log(1)
    g, a, r = np.asarray(log.logging_probabilities), log.actions, log.rewards
    target = np.array([0.2, 0.7, 0.1])
    predicted = np.full((300, 3), 0.5)
    if reward_model is None:
        predicted = bc.Progressive(bc.PerAction()).predictions(log, np.random.default_rng(0)).predicted

    def variance(k: int, events: Any) -> float:
        if k == 0:
            return 0.0
        s = np.arange(k)
        d = target[a[s]] / g[k, a[s]] * (r[s] - predicted[k, a[s]]) + target @ predicted[k]
        importance = g[k, a[s]] / g[s, a[s]]
        return float((importance * d**2).mean() - (importance * d).mean() ** 2)

    evaluator = bc.CADR(published=True)
    expected = reference(log, target, predicted, variance)
    result = bc.evaluate(log, bc.Fixed(target), evaluator, reward_model=reward_model)
    assert numbers(result) == pytest.approx(expected, abs=1e-10)
    # the state of the estimate passes from part to part of a stream
    in_parts = bc.evaluate([log[:120], log[120:]], bc.Fixed(target), evaluator, reward_model=0.5)
    whole = bc.evaluate(log, bc.Fixed(target), evaluator, reward_model=0.5)
    assert numbers(in_parts) == pytest.approx(numbers(whole), abs=1e-10)


def test_what_the_published_weights_need() -> None:
    with pytest.raises(bc.EvaluationError, match=r"which a log does not record; use CADR\(\)"):
        bc.evaluate(CONTEXTUAL, bc.Uniform(), bc.CADR(published=True))
    with pytest.raises(bc.EvaluationError, match=r"CADR\(published=True\) needs the logger's probabilities of all"):
        bc.evaluate(bc.Log(None, [0, 1], [1, 0], [0.5, 0.5]), bc.Uniform(), bc.CADR(published=True))


def test_weights_follow_a_logger_that_jumps() -> None:
    """The variance of an event is 50 times larger while the logger prefers the other action, 200 events at a time."""
    rng = np.random.default_rng(0)
    p = np.where(np.arange(2_000) // 200 % 2, 0.98, 0.02)
    actions = (rng.random(2_000) < p).astype(int)
    rewards = (rng.random(2_000) < 0.5).astype(float)
    log = bc.Log(None, actions, rewards, np.where(actions, p, 1 - p), reward_range=(0, 1))
    estimate = bc.evaluate(log, bc.Fixed([0, 1]), bc.CADR(), reward_model=0.5)
    # with known variances the error is sqrt(n) / sum(1/sigma), 0.020; nearly equal weights, as from a mean over all
    # earlier events, give 0.057
    known = np.sqrt(2_000) / (np.sqrt(p) / 0.5).sum()
    assert estimate.std_error < 1.5 * known


def test_equal_probabilities_of_a_fixed_logger_give_the_plain_mean() -> None:
    rng = np.random.default_rng(0)
    logging = np.tile([0.25, 0.75], (200, 1))
    actions = (rng.random(200) < 0.75).astype(int)
    log = bc.Log(None, actions, rng.random(200), logging[0][actions], logging_probabilities=logging)
    stable = bc.evaluate(log, bc.Fixed([0.5, 0.5]), bc.StableVar(), reward_model=0.5)
    assert stable.value == pytest.approx(bc.evaluate(log, bc.Fixed([0.5, 0.5]), bc.DR(), reward_model=0.5).value)


def test_a_weight_never_depends_on_its_own_event() -> None:
    """With contexts, the mean must not favour contexts that the logger explores: 1/sqrt of the own variance would."""
    rng = np.random.default_rng(1)
    n = 4_000
    x = rng.integers(2, size=n)
    logging = np.where(x[:, None] == 1, [[0.95, 0.05]], [[0.5, 0.5]])
    actions = (rng.random(n) < logging[:, 1]).astype(int)
    rewards = np.where(x == 1, 1.0, 0.0)
    log = bc.Log(x[:, None], actions, rewards, logging[np.arange(n), actions], logging_probabilities=logging)
    # with a perfect model G_k is x_k: mean 0.5, standard error 0.008; own variances 2 and 20 would give 0.24
    for evaluator in (bc.StableVar(), bc.CADR()):
        value = bc.evaluate(log, bc.Fixed([0.0, 1.0]), evaluator, reward_model=np.tile(rewards[:, None], 2)).value
        assert value == pytest.approx(rewards.mean(), abs=0.01)


@pytest.mark.parametrize("evaluator", [bc.StableVar(), bc.CADR()])
def test_intervals_cover_where_the_logger_learns_and_errors_are_below_those_of_dr(evaluator: Any) -> None:
    setting = Setting("epsilon-greedy", 1_000, 2, 1)
    hits, errors = 0, []
    for number in range(40):
        log, policy = setting.make_log(number), bc.Fixed([0.0, 1.0])
        results = [bc.evaluate(log, policy, each) for each in (evaluator, bc.DR())]
        interval = results[0].interval
        assert interval is not None
        hits += interval.low <= 0.4 <= interval.high
        errors.append([result.value - 0.4 for result in results])
    # a coverage of 0.95 misses at least 8 of 40 with probability 1e-3; the mean squared error of both evaluators is
    # about 0.75 of DR's on the same logs (bench/results/adaptive.md)
    assert hits >= stats.binom.ppf(1e-3, 40, 0.95)
    squares = (np.array(errors) ** 2).mean(axis=0)
    assert squares[0] < squares[1]


def test_the_interval_states_its_assumption() -> None:
    interval = bc.evaluate(CONTEXTUAL, bc.Uniform(), bc.CADR()).interval
    assert interval is not None
    assert interval.assumption == "asymptotic martingale"
    assert "does not look ahead" in describe_assumption(interval)


def test_predictions_come_from_earlier_events_only() -> None:
    """Later rewards change no earlier prediction, so that changing the last reward changes only the last value."""
    rewards = CONTEXTUAL.rewards.copy()
    rewards[-1] = 1.0 - rewards[-1]
    changed = bc.Log(
        CONTEXTUAL.contexts,
        CONTEXTUAL.actions,
        rewards,
        CONTEXTUAL.propensities,
        n_actions=3,
        reward_range=(0, 1),
        logging_probabilities=CONTEXTUAL.logging_probabilities,
    )
    first, second = (bc.evaluate(log, bc.Uniform(), bc.StableVar()) for log in (CONTEXTUAL, changed))
    assert first.influences is not None
    assert second.influences is not None
    # influences are h (G - V) / mean h: where G is the same, they differ by h / mean h times the change of V
    v = (1 / 9 / np.asarray(CONTEXTUAL.logging_probabilities)).sum(axis=1)
    h = np.array([recent_mean(v[:k]) for k in range(len(v))]) ** -0.5
    expected = (h / h.mean() * (second.value - first.value))[:-1]
    assert (first.influences - second.influences)[:-1] == pytest.approx(expected, abs=1e-10)


def test_what_looks_ahead_or_lacks_probabilities_is_refused() -> None:
    with pytest.raises(bc.OptionError, match="Progressive"):
        bc.evaluate(CONTEXTUAL, bc.Uniform(), bc.CADR(), reward_model=bc.CrossFit(bc.PerAction()))
    with pytest.raises(bc.OptionError, match="assumes independent events"):
        bc.evaluate(CONTEXTUAL, bc.Uniform(), bc.StableVar(), interval=bc.Normal())
    with pytest.raises(bc.NeedsStationaryPolicy, match="CADR"):
        bc.evaluate(CONTEXTUAL, bc.LinUCB(), bc.CADR())
    plain = bc.Log(None, [0, 1], [1, 0], [0.5, 0.5])
    with pytest.raises(bc.EvaluationError, match="or use CADR"):
        bc.evaluate(plain, bc.Uniform(), bc.StableVar())
    with pytest.raises(bc.EvaluationError, match="probability 0"):
        bc.evaluate(plain[:1], bc.Fixed([0.0, 1.0]), bc.CADR())


def test_rewards_without_variance_give_equal_weights() -> None:
    log = bc.Log(None, [0, 1] * 10, np.zeros(20), [0.5] * 20)
    estimate = bc.evaluate(log, bc.Fixed([0.5, 0.5]), bc.CADR())
    assert numbers(estimate) == (0.0, 0.0, 0.0, 0.0)
    # with a known range, an event that the log missed may have earned 1
    declared = bc.Log(None, [0, 1] * 10, np.zeros(20), [0.5] * 20, reward_range=(0, 1))
    interval = bc.evaluate(declared, bc.Fixed([0.5, 0.5]), bc.CADR(), reward_model=0.0).interval
    assert (interval.low, interval.high) == pytest.approx((0.0, 1 / 21 + stats.t.ppf(0.975, 19) / 21))


def test_a_stream_gives_the_estimate_of_the_log_in_memory() -> None:
    parts = [CONTEXTUAL[:150], CONTEXTUAL[150:151], CONTEXTUAL[151:]]
    for evaluator in (bc.StableVar(), bc.CADR()):
        in_memory = bc.evaluate(CONTEXTUAL, bc.Uniform(), evaluator, reward_model=0.5)
        streamed = bc.evaluate(parts, bc.Uniform(), evaluator, reward_model=0.5)
        assert numbers(streamed) == pytest.approx(numbers(in_memory), abs=1e-12)


def test_two_policies_are_paired_by_event() -> None:
    policies = {"first": bc.Fixed([0.8, 0.1, 0.1]), "second": bc.Fixed([0.7, 0.2, 0.1])}
    comparison = bc.compare(CONTEXTUAL, policies, bc.CADR())
    (difference,) = comparison.differences
    errors = [estimate.std_error for estimate in comparison.estimates.values()]
    # the policies agree in 0.9 of their choices, so their errors nearly cancel
    assert difference.std_error < 0.5 * max(errors)
