"""Checks of logs: properties of the evidence, each check, and the report."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, poisson

from backcast._arrays import FloatArray
from backcast.checks import Finding, HealthReport, check
from backcast.checks._association import predict_actions, rank_correlation
from backcast.checks._evidence import (
    ODDS,
    SURE,
    balance_evidence,
    excess_by_group,
    excess_evidence,
    hits_evidence,
    shortfall_evidence,
)
from backcast.checks._propensities import (
    clipped_propensities,
    constant_propensity,
    rounded_propensities,
    unsupported_actions,
)
from backcast.checks._rewards import (
    context_hashes,
    find_predictors,
    rank_association,
    repeated_stretches,
    reward_leak,
    reward_range,
)
from backcast.checks.log import CHECKS, LogFacts
from backcast.environments import LinearEnvironment
from backcast.errors import OptionError
from backcast.log import Log, replace_columns
from backcast.policies.fixed import Fixed, Logged, Uniform
from backcast.propensities import with_estimated_propensities
from tests.support.logs import random_log

quick = settings(max_examples=30, deadline=None)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def paper_log(n: int = 2000, seed: int = 0) -> Log:
    return LinearEnvironment(4, 3, logistic=True, logging="paper").log(n, rng(seed))


def log_of(propensities: Any, actions: Any = None, **columns: Any) -> Log:
    p = np.asarray(propensities, dtype=np.float64)
    taken = np.arange(p.size) % 2 if actions is None else actions
    return Log(None, taken, np.arange(p.size) % 3, p, **columns)


# Evidence


@quick
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_mean_wealth_of_the_gambler_is_one(seed: int, blind: bool) -> None:
    # the exact mean of exp(evidence) over all histories of three choices is 1, or less if an action is never taken
    generator = rng(seed)
    mu, q = generator.dirichlet(np.ones(3)), generator.dirichlet(np.ones(3))
    if blind:
        mu = np.array([mu[0] + mu[1], mu[2], 0.0])
    average = 0.0
    for history in itertools.product(range(3), repeat=3):
        chance = math.prod(mu[a] for a in history)
        if chance > 0:
            ratios = np.array([q[a] / mu[a] for a in history])
            average += chance * math.exp(excess_evidence(ratios))
    assert average <= 1 + 1e-9
    assert blind or average == pytest.approx(1.0)


def test_evidence_by_group_is_that_of_each_group() -> None:
    ratios, groups = rng().exponential(size=60), rng(1).integers(3, size=60)
    grouped = excess_by_group(ratios, np.ones(60), groups, 3)
    np.testing.assert_allclose(grouped, [excess_evidence(ratios[groups == g]) for g in range(3)])


@pytest.mark.parametrize("rate", [1.0, 5.0, 14.0, 20.0, 40.0, 100.0, 300.0, 2000.0])
@pytest.mark.parametrize("weight", [1.0, 50.0])
def test_shortfall_evidence_has_the_stated_odds(rate: float, weight: float) -> None:
    counts = np.arange(int(rate) + 1)
    evidence = [shortfall_evidence(np.full(count, weight), rate * weight, weight) for count in counts]
    alarms = counts[np.array(evidence) >= SURE]
    assert alarms.size == 0 or poisson.cdf(alarms.max(), rate) <= ODDS


@pytest.mark.parametrize(("n", "p"), [(20, 0.3), (200, 0.02), (400, 0.9)])
def test_tails_of_counts_are_bounded(n: int, p: float) -> None:
    for hits in range(n + 1):
        above = binom.sf(hits - 1, n, p)
        assert above <= math.exp(-hits_evidence(hits, np.full(n, p))) * (1 + 1e-9)
        both = min(above, binom.cdf(hits, n, p))
        assert both <= math.exp(-float(balance_evidence(hits - n * p, n * p * (1 - p))))


# The report


def test_report_as_text_and_as_json() -> None:
    log = paper_log(8000)
    report = check(replace_columns(log, propensities=np.minimum(1.0, 2 * log.propensities), logging_probabilities=None))
    assert report.verdict == "fail"
    assert report.faults[0].verdict == "fail"
    assert [f.verdict for f in report.faults] == sorted((f.verdict for f in report.faults), key=["fail", "warn"].index)
    text = str(report)
    assert text.startswith("Log(8,000 events, 4 actions, 3 features): fail\nfail  ")
    assert all(finding.message in text and finding.remedy in text for finding in report.faults)
    assert all(finding.remedy for finding in report.faults)
    content = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert content["verdict"] == "fail"
    assert content["policy"] is None
    assert [entry["name"] for entry in content["findings"]] == [finding.name for finding in report.findings]


def test_findings_are_looked_up_by_name() -> None:
    report = HealthReport("a log", (Finding("order", "warn", 1.0, "m", "r"),))
    assert report["order"].figure == 1.0
    with pytest.raises(OptionError, match="there is no finding 'odor'; there are order"):
        report["odor"]


def test_same_log_same_report() -> None:
    assert check(paper_log()) == check(paper_log())


def test_findings_are_named_after_their_checks() -> None:
    log = replace_columns(with_estimated_propensities(paper_log(300), folds=2), logging_probabilities=None)
    names = {finding.name for finding in check(log).findings}
    assert names == {test.__name__ for test in CHECKS} - {"logging_probabilities"}


@pytest.mark.parametrize("n", [1, 2, 5, 30, 199, 1001])
@pytest.mark.parametrize("layout", ["dense", "sparse", "masked", "actions"])
def test_small_logs_raise_no_alarm(n: int, layout: str) -> None:
    report = check(random_log(layout, n=n, seed=n), Uniform() if n > 100 else None)
    # few events may be dominated by one of them, have one reward, or be worth little for a policy
    allowed = {"propensity_range", "reward_range", "policy_overlap"} if n < 1000 else set()
    assert {finding.name for finding in report.faults} <= allowed


def test_a_log_of_one_action_without_features_passes() -> None:
    report = check(Log(None, [0] * 300, rng().random(300), [1.0] * 300))
    assert report.verdict == "ok"


def test_other_objects_than_logs_are_rejected() -> None:
    with pytest.raises(OptionError, match=r"list is neither a log in memory nor a stream .*; read it with read_log"):
        check([1, 2])


# Values of propensities


@pytest.mark.parametrize(
    ("propensity", "n_actions", "verdict"),
    [(0.25, 4, "ok"), (0.33, 3, "warn"), (0.25, 5, "fail"), (0.2, 4, "fail"), (0.4, 2, "fail")],
)
def test_constant_propensity_is_one_over_the_actions(propensity: float, n_actions: int, verdict: str) -> None:
    log = log_of([propensity] * 600, actions=np.arange(600) % n_actions)
    assert constant_propensity(LogFacts(log)).verdict == verdict


def test_constant_propensity_of_unseen_actions() -> None:
    few = rng().integers(1000, size=4000)
    assert constant_propensity(LogFacts(log_of([0.001] * 4000, actions=few, n_actions=1000))).verdict == "ok"
    # the number of actions, 50, is not declared, and few of them are seen
    some = rng().integers(50, size=40)
    assert constant_propensity(LogFacts(log_of([0.02] * 40, actions=some))).verdict == "ok"


def test_constant_propensity_with_fewer_eligible_is_impossible() -> None:
    mask = np.ones((300, 4), bool)
    mask[:150, 3] = False
    log = log_of([0.25] * 300, actions=np.arange(300) % 3, available=mask)
    assert constant_propensity(LogFacts(log)).verdict == "fail"


def test_a_log_without_exploration_fails() -> None:
    assert check(log_of([1.0] * 300))["propensity_range"].verdict == "fail"


def test_an_event_that_dominates_all_others_is_reported() -> None:
    finding = check(log_of([0.5] * 299 + [1e-4]))["propensity_range"]
    assert finding.verdict == "warn"
    assert "row 299 alone has 94 % of all inverse propensities" in finding.message


def test_round_numbers_of_a_logger_pass() -> None:
    chosen = rng().choice([0.05, 0.1, 0.85], size=500)
    assert rounded_propensities(LogFacts(log_of(chosen))).verdict == "ok"
    drawn = np.maximum(0.01, rng().random(500).round(2))
    finding = rounded_propensities(LogFacts(log_of(drawn)))
    assert finding.verdict == "warn"
    assert "at most 2 decimals; the smallest, 0.01, may be off by 50 %" in finding.message
    # rounding the sixth digit is harmless
    assert rounded_propensities(LogFacts(log_of(np.maximum(0.01, rng().random(500)).round(6)))).verdict == "ok"


def test_limits_of_the_logger_pass() -> None:
    # a softmax so sharp that both ends saturate: 0.1 for each loser, 0.8 for the winner, others in between
    generator = rng()
    sharp = np.where(generator.random(3000) < 0.5, 0.0, generator.random(3000))
    table = 0.1 + 0.7 * np.stack([1 - sharp, sharp, np.zeros(3000)], axis=1)
    actions = (table.cumsum(axis=1) < generator.random((3000, 1))).sum(axis=1)
    p = table[np.arange(3000), actions]
    finding = clipped_propensities(LogFacts(log_of(p, actions=actions)))
    assert finding.verdict == "ok"
    assert "they add up, so it is the logger's limit" in finding.message
    capped = clipped_propensities(LogFacts(log_of(np.minimum(p, 0.6), actions=actions)))
    assert capped.verdict == "fail"
    assert "exactly 0.6 and none is above" in capped.message


def test_estimated_propensities_are_reported() -> None:
    finding = check(with_estimated_propensities(paper_log(400), folds=2))["estimated_propensities"]
    assert finding.verdict == "warn"


# Actions


def test_actions_too_rare_to_be_seen_pass() -> None:
    seen = rng().integers(999, size=3000)
    ok = unsupported_actions(LogFacts(log_of([0.001] * 3000, actions=seen, n_actions=1000)))
    assert ok.verdict == "ok"
    assert "too few events to expect them" in ok.message
    never = unsupported_actions(LogFacts(log_of([0.5] * 300, n_actions=9)))
    assert never.verdict == "warn"
    assert never.message == "7 of 9 actions were never taken: 2, 3, 4, 5, 6 and 2 more"


def test_actions_that_were_never_available_are_not_reported() -> None:
    mask = np.tile([True, True, False], (300, 1))
    assert unsupported_actions(LogFacts(log_of([0.5] * 300, available=mask))).verdict == "ok"


def test_predictions_use_earlier_events_only() -> None:
    log = paper_log(1200)
    prediction = predict_actions(log)
    assert prediction is not None
    assert prediction.rows.min() == 300
    # other actions in the second half do not change the predicted probabilities there
    later = np.array(log.actions)
    later[600:] = (later[600:] + 1) % 4
    changed = predict_actions(replace_columns(log, actions=later))
    assert changed is not None
    np.testing.assert_array_equal(prediction.top, changed.top)
    np.testing.assert_array_equal(prediction.taken[:300], changed.taken[:300])


def test_recorded_probabilities_are_compared_with_frequencies() -> None:
    log = paper_log(3000)
    assert check(log)["logging_probabilities"].verdict == "ok"
    table = np.roll(np.asarray(log.logging_probabilities), 1, axis=1)
    wrong = replace_columns(log, logging_probabilities=table, propensities=table[np.arange(3000), log.actions])
    assert check(wrong)["logging_probabilities"].verdict == "fail"


# Rewards


def test_reward_range() -> None:
    assert reward_range(LogFacts(Log(None, [0, 1], [1, 1], [0.5, 0.5]))).verdict == "warn"
    narrow = Log(None, [0, 1], [0.001, 0.002], [0.5, 0.5], reward_range=(0, 1))
    assert reward_range(LogFacts(narrow)).verdict == "warn"
    assert reward_range(LogFacts(Log(None, [0, 1], [0, 1], [0.5, 0.5], reward_range=(0, 1)))).verdict == "ok"


@pytest.mark.parametrize("layout", ["dense", "sparse", "actions"])
def test_leaks_are_detected_in_every_layout(layout: str) -> None:
    generator = rng()
    rewards = (generator.random(1000) < 0.2).astype(np.float64)
    actions = generator.integers(3, size=1000)
    contexts = generator.normal(size=(1000, 3, 4) if layout == "actions" else (1000, 4))
    contexts[..., 2] = rewards[:, None] if layout == "actions" else rewards
    given: Any = scipy.sparse.csr_array(contexts) if layout == "sparse" else contexts
    finding = reward_leak(LogFacts(Log(given, actions, rewards, np.full(1000, 1 / 3))))
    assert finding.verdict == "warn"
    assert "'feature 2' determines the reward" in finding.message


def test_a_good_predictor_is_not_a_leak() -> None:
    generator = rng()
    x = generator.normal(size=(2000, 2))
    rewards = (generator.random(2000) < 1 / (1 + np.exp(-6 * x[:, 0]))).astype(np.float64)
    finding = reward_leak(LogFacts(Log(x, generator.integers(2, size=2000), rewards, np.full(2000, 0.5))))
    assert finding.verdict == "ok"
    assert finding.figure > 0.8


def test_association_depends_on_the_order_only() -> None:
    x = rng().normal(size=(200, 1))
    np.testing.assert_allclose(rank_association(x, np.exp(x[:, 0])), 1.0)
    np.testing.assert_allclose(rank_association(-x, (x[:, 0] > 0.5).astype(float)), 1.0)
    assert rank_association(x, np.zeros(200)).tolist() == [0.0]
    assert rank_correlation(x[:, 0], np.ones(200)) == 0.0


# Duplicates


@pytest.mark.parametrize("layout", ["dense", "sparse", "masked", "actions"])
def test_equal_contexts_have_equal_hashes(layout: str) -> None:
    log = random_log(layout, n=80)
    twice = log[np.concatenate([np.arange(80), np.arange(80)])]
    hashes = context_hashes(twice.columns.contexts)
    np.testing.assert_array_equal(hashes[:80], hashes[80:])
    assert np.unique(hashes).size == (80 if layout != "sparse" else np.unique(_dense(log), axis=0).shape[0])


def _dense(log: Log) -> FloatArray:
    contexts: Any = log.contexts
    return np.asarray(contexts.toarray())


def test_repeated_contexts_are_not_duplicates() -> None:
    generator = rng()
    users = generator.normal(size=(50, 3))[generator.integers(50, size=2000)]
    log = Log(users, generator.integers(4, size=2000), generator.integers(2, size=2000), np.full(2000, 0.25))
    assert check(log)["duplicates"].verdict == "ok"


def test_copies_at_other_times_are_not_duplicates() -> None:
    generator = rng()
    log = Log(
        generator.normal(size=(500, 2)), generator.integers(2, size=500), generator.random(500), np.full(500, 0.5)
    )
    twice = log[np.concatenate([np.arange(500), np.arange(50)])]
    assert check(twice)["duplicates"].verdict == "fail"
    timed = replace_columns(twice, times=np.arange(550))
    assert check(timed)["duplicates"].verdict == "ok"


def test_copies_of_different_contexts_are_found_wherever_they_are() -> None:
    """400 copies among 8,400 rows in any order: of different contexts, each with the action of its original."""
    generator = rng(5)
    order = generator.permutation(np.r_[0:8000, generator.choice(8000, 400, replace=False)])
    actions = generator.integers(2, size=8000)
    clicks = (generator.random(8000) < 0.2).astype(np.float64)
    log = Log(generator.normal(size=(8000, 2)), actions, clicks, np.full(8000, 0.5))[order]
    finding = check(log)["duplicates"]
    assert finding.verdict == "warn"
    assert finding.figure == pytest.approx(400 / 8400)
    assert "400 events equal an earlier one in every column" in finding.message


def test_copies_among_equal_contexts_are_counted_and_not_judged() -> None:
    """Scattered copies of events that repeat anyway look like chance; the message does not exclude them."""
    order = rng(5).permutation(np.r_[0:8000, 0:400])
    finding = check(discrete_log(order))["duplicates"]
    assert finding.verdict == "ok"
    assert "equal an earlier one in every column, which may be chance" in finding.message


# How a log suits a policy


def test_the_policy_of_the_logger_fits() -> None:
    report = check(paper_log(), Logged())
    assert report.policy is not None
    assert report.policy.effective_sample_size == pytest.approx(2000)
    assert report.policy.mean_weight == pytest.approx(1.0)
    assert report.policy.evaluator == "DR()"
    assert report.verdict == "ok"
    assert "effective sample size 2,000" in str(report)
    assert report.to_dict()["policy"]["largest_weights"][0][1] == pytest.approx(1.0)


def test_choices_outside_the_log_are_reported() -> None:
    log = log_of([0.5] * 2000, n_actions=4)
    half = check(log, Fixed([0.25, 0.25, 0.5, 0.0]))
    assert half["policy_support"].verdict == "fail"
    assert half["policy_support"].figure == pytest.approx(0.5)
    assert half.policy is not None
    assert half.policy.evaluator == "DM()"
    little = check(log, Fixed([0.55, 0.4, 0.05, 0.0]))
    assert little["policy_support"].verdict == "ok"
    none = check(log, Fixed([0.0, 0.0, 0.0, 1.0]))
    assert none["policy_overlap"].verdict == "fail"
    assert none.policy is not None
    assert none.policy.effective_sample_size == 0.0


def test_few_events_with_most_of_the_weight_are_reported() -> None:
    generator = rng()
    actions = (generator.random(4000) < 0.01).astype(np.int64)
    log = log_of(np.where(actions == 1, 0.01, 0.99), actions=actions)
    report = check(log, Fixed([0.0, 1.0]))
    assert report["policy_overlap"].verdict == "warn"
    assert report.policy is not None
    assert report.policy.evaluator == "ShrinkageDR()"
    assert report.policy.largest_weights[0][1] == pytest.approx(100.0)
    assert all(actions[row] == 1 for row, _ in report.policy.largest_weights)


class Learner:
    def probabilities(self, contexts: Any, available: Any = None) -> FloatArray:
        return np.full((contexts.shape[0], 4), 0.25)

    def learn(self, *columns: Any) -> None:
        raise AssertionError("check must not train a policy")


def test_evaluators_recommended_for_learning_policies() -> None:
    log = paper_log(600)
    learner = Learner()
    report = check(log, learner)
    assert report.policy is not None
    assert report.policy.learning
    assert report.policy.evaluator == "ClockReplay()"
    ordered = check(log, learner, exchangeable=False)
    assert ordered.policy is not None
    assert ordered.policy.evaluator == "DRns(q=0.01)"
    falling = replace_columns(log, rewards=np.linspace(1.0, 0.0, 600))
    drifting = check(falling, learner)
    assert drifting.policy is not None
    assert drifting.policy.evaluator == "DRns(q=0.01)"


def test_other_objects_than_policies_are_rejected() -> None:
    with pytest.raises(OptionError, match="is not a policy"):
        check(paper_log(60), "greedy")


# Copies, leaks and large rewards in logs of few different contexts


def discrete_log(rows: Any = slice(None), n: int = 8000, **columns: Any) -> Log:
    """A log of 360 different contexts, as of age, device and city, with 22 events in each."""
    generator = rng(7)
    odds = np.array([0.5, 0.25, 0.25])
    actions = generator.choice(3, size=n, p=odds)
    contexts = generator.integers(0, [60, 2, 3], size=(n, 3)).astype(np.float64)
    rewards = (generator.random(n) < 0.2).astype(np.float64)
    return Log(contexts[rows], actions[rows], rewards[rows], odds[actions][rows], **columns)


@pytest.mark.parametrize("context", ["discrete", "none"])
def test_an_appended_stretch_is_found_in_any_log(context: str) -> None:
    log = discrete_log(np.r_[0:8000, 0:400])
    if context == "none":
        log = Log(None, log.actions, log.rewards, log.propensities)
    finding = check(log)["duplicates"]
    assert finding.verdict == "warn"
    assert "events repeat earlier stretches of the log" in finding.message
    assert finding.figure == pytest.approx(400 / 8400, rel=0.1)
    assert check(log[:8000])["duplicates"].verdict == "ok"


def test_events_that_are_written_twice_are_found_among_equal_contexts() -> None:
    twice = np.sort(np.r_[0:8000, rng().choice(8000, 400, replace=False)])
    assert check(discrete_log(twice))["duplicates"].verdict != "ok"


def test_all_equal_events_are_counted() -> None:
    log = Log(None, [0, 1, 0, 0], [1, 0, 1, 1], [0.5] * 4)
    assert "2 events equal an earlier one" in check(log)["duplicates"].message


def test_chance_repeats_no_stretch() -> None:
    # odds of 1e-5 per log, by the bound of the docstring, for any logger: 300 logs have 3e-3; seeds are fixed
    for seed in range(300):
        generator = rng(seed)
        p = generator.dirichlet(np.ones(3))
        actions = generator.choice(3, size=400, p=p)
        assert not repeated_stretches(actions.astype(np.uint64), p[actions]).any()


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_an_outcome_in_the_context_is_named(layout: str) -> None:
    log = discrete_log()
    revenue = log.rewards * (1 + np.arange(8000) % 5)
    # the reward has other causes than revenue, so that the association is weak
    rewards = np.maximum(log.rewards, np.arange(8000) % 4 == 0)
    dense = np.column_stack([np.asarray(log.contexts), revenue])
    contexts: Any = scipy.sparse.csr_array(dense) if layout == "sparse" else dense
    names = ["age", "phone", "city", "revenue"]
    finding = check(Log(contexts, log.actions, rewards, log.propensities, feature_names=names))["reward_leak"]
    assert finding.verdict == "warn"
    assert "where 'revenue' has an unusual value, the reward is other than 0" in finding.message


def test_a_category_with_likely_rewards_is_no_leak() -> None:
    # the reward is likely (0.9) where the feature is 1, and chance alone must not make it look certain
    for seed in range(200):
        generator = rng(seed)
        x = (generator.random((500, 1)) < 0.3).astype(np.float64)
        rewards = (generator.random(500) < np.where(x[:, 0] == 1, 0.9, 0.2)).astype(np.float64)
        assert not find_predictors(x, rewards).size


def test_few_large_rewards_are_reported() -> None:
    log = discrete_log()
    rewards = np.array(log.rewards)
    rewards[[5, 50, 500, 5000, 7000]] = 2000.0
    finding = check(Log(log.contexts, log.actions, rewards, log.propensities))["reward_concentration"]
    assert finding.verdict == "warn"
    assert finding.message.startswith("the 5 largest events carry ")
    assert finding.figure > 0.7
    assert check(log)["reward_concentration"].verdict == "ok"


def test_three_events_are_described_in_words() -> None:
    report = check(Log(None, [0, 0, 1], [1, 0, 1], [0.8166] * 3))
    assert report["constant_propensity"].verdict == "ok"
    assert "1.225 actions" not in "".join(finding.message for finding in report.findings)
    assert check(Log(None, [0, 1] * 50, [1, 0] * 50, [0.8166] * 100))["constant_propensity"].verdict == "fail"
