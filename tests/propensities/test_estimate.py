"""Estimated propensities: accuracy, calibration, diagnostics, rejected input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from backcast._arrays import FloatArray
from backcast.environments import LinearEnvironment
from backcast.errors import LogError, OptionError
from backcast.evaluation import evaluate
from backcast.evaluators import IPS, SNIPS
from backcast.evaluators.clock_replay import ClockReplay
from backcast.evaluators.direct import DM
from backcast.evaluators.drns import DRns
from backcast.evaluators.rejection import RS
from backcast.evaluators.reward_distribution import CVaR
from backcast.log import Log, replace_columns
from backcast.monitoring import Monitor
from backcast.policies._calls import draw_actions
from backcast.policies.context_free import UCB1
from backcast.policies.fixed import Fixed
from backcast.propensities import PropensityEstimate, estimate_propensities, with_estimated_propensities
from backcast.propensities._choice_model import fit_logit, softmax_among
from backcast.propensities.estimate import (
    Calibration,
    balanced_folds,
    calibration_error,
    fit_calibration,
    raise_to_floor,
)
from tests.support.logs import random_log

K = 4
quick = settings(max_examples=25, deadline=None)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def soft_logger(contexts: FloatArray) -> FloatArray:
    """A softmax of linear scores with 8 % of uniform exploration."""
    scores = contexts @ rng(3).normal(size=(contexts.shape[1], K))
    return 0.08 / K + 0.92 * softmax_among(scores, np.ones(scores.shape, bool))


def soft_log(n: int = 4000, seed: int = 0) -> Log:
    return LinearEnvironment(K, 3, logistic=True, logging=soft_logger).log(n, rng(seed))


def table_of(log: Log) -> FloatArray:
    assert log.logging_probabilities is not None
    return np.asarray(log.logging_probabilities)


def masked_log(contexts: Any, scores: FloatArray, seed: int = 0) -> Log:
    generator = rng(seed)
    n, k = scores.shape
    available = generator.random((n, k)) < 0.6
    available[np.arange(n), generator.integers(k, size=n)] = True
    chances = softmax_among(scores, available)
    actions = draw_actions(chances, generator.random(len(chances)))
    taken = chances[np.arange(n), actions]
    return Log(contexts, actions, np.zeros(n), taken, n_actions=k, available=available, logging_probabilities=chances)


# Estimates


def test_recovers_a_softmax_with_exploration() -> None:
    log = soft_log()
    estimate = estimate_propensities(log)
    # an average error of 0.0115 at 20,000 events, of 0.02 at 4,000; frequencies alone are off by 0.22
    assert np.abs(estimate.probabilities - table_of(log)).mean() < 0.04
    assert estimate.diagnostics.calibration_error < 0.03
    assert abs(estimate.diagnostics.inverse_mean - 1) < 0.1


def test_recovers_exploration_that_no_softmax_can_express() -> None:
    log = LinearEnvironment(K, 3, logistic=True, logging="paper").log(6000, rng())
    diagnostics = estimate_propensities(log).diagnostics
    # the paper's logger puts 0.7 on the best action: 0.3 is spread; a standard error is about 0.01
    assert abs(diagnostics.exploration - 0.3) < 0.06
    assert abs(diagnostics.inverse_mean - 1) < 0.1
    raw = estimate_propensities(log, calibrate=False).diagnostics
    assert raw.calibration_error > 3 * diagnostics.calibration_error


@pytest.mark.parametrize("layout", ["masked", "actions"])
def test_unavailable_actions_get_probability_zero(layout: str) -> None:
    generator = rng(1)
    n = 4000
    if layout == "actions":
        features = generator.normal(size=(n, K, 2))
        log = masked_log(features, features @ np.array([1.0, -1.0]))
    else:
        contexts = generator.normal(size=(n, 2))
        log = masked_log(contexts, contexts @ generator.normal(size=(2, K)))
    estimate = estimate_propensities(log)
    assert (estimate.probabilities[~np.asarray(log.available)] == 0).all()
    assert np.abs(estimate.probabilities - table_of(log)).mean() < 0.03


@pytest.mark.parametrize("layout", ["dense", "sparse", "masked", "actions"])
def test_rows_are_distributions_with_a_floor(layout: str) -> None:
    log = random_log(layout, n=120)
    estimate = estimate_propensities(log, folds=3, floor=0.05)
    np.testing.assert_allclose(estimate.probabilities.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_array_equal(estimate.propensities, estimate.probabilities[np.arange(120), log.actions])
    assert estimate.propensities.min() >= 0.05 - 1e-12
    assert estimate.floor == 0.05
    eligible = np.ones((120, 3), bool) if log.available is None else log.available
    assert (estimate.probabilities[eligible] >= 0.05 - 1e-12).all()
    assert (estimate.probabilities[~eligible] == 0).all()


def test_sparse_and_dense_contexts_agree() -> None:
    log = soft_log(600)
    sparse = replace_columns(log, contexts=scipy.sparse.csr_array(log.contexts))
    np.testing.assert_allclose(
        estimate_propensities(log).propensities, estimate_propensities(sparse).propensities, atol=1e-3
    )


def test_no_features_gives_frequencies() -> None:
    estimate = estimate_propensities(None, [0, 0, 0, 1] * 50)
    np.testing.assert_allclose(estimate.probabilities, np.tile([0.75, 0.25], (200, 1)), atol=0.02)


def test_an_event_is_predicted_by_models_not_fitted_on_it() -> None:
    # contexts that identify the event would reveal its action to a model fitted on it
    n = 200
    actions = rng().integers(2, size=n)
    estimate = estimate_propensities(np.eye(n), actions, DecisionTreeClassifier(max_leaf_nodes=50))
    np.testing.assert_allclose(estimate.propensities, 0.5, atol=0.15)


def test_same_seed_same_estimate() -> None:
    log = soft_log(400)
    first, second, other = (estimate_propensities(log, seed=seed).propensities for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_any_classifier_can_be_the_model() -> None:
    log = soft_log(3000)
    model = DecisionTreeClassifier(min_samples_leaf=50)
    estimate = estimate_propensities(log, model=model)
    # frequencies alone are off by 0.22
    assert np.abs(estimate.probabilities - table_of(log)).mean() < 0.1
    assert not hasattr(model, "classes_")


def test_actions_that_never_occur_have_no_probability() -> None:
    estimate = estimate_propensities(rng().normal(size=(90, 2)), [0, 1, 3] * 30, n_actions=5)
    assert (estimate.probabilities[:, [2, 4]] == 0).all()
    assert estimate.diagnostics.actions_seen == 3


def test_rare_actions_are_spread_over_folds() -> None:
    actions = np.array([0] * 95 + [1] * 5)
    parts = balanced_folds(actions, 5, rng())
    assert sorted(parts[actions == 1].tolist()) == [0, 1, 2, 3, 4]


def test_diagnostics_contain_the_share_at_the_floor() -> None:
    generator = rng()
    contexts = np.where(generator.random((600, 1)) < 0.5, 1.0, -1.0)
    actions = (contexts[:, 0] > 0).astype(np.int64)
    actions[:12] = 1 - actions[:12]  # the model gives each of these about 0.02
    estimate = estimate_propensities(contexts, actions, calibrate=False, floor=0.05)
    assert estimate.diagnostics.share_floored == 0.02
    assert estimate.diagnostics.smallest == pytest.approx(0.05)
    assert "share floored" in str(estimate.diagnostics)
    assert estimate.diagnostics.to_dict()["events"] == 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds is 1; it must be a whole number >= 2"),
        ({"folds": 50}, "60 events are too few to estimate propensities in 50 folds"),
        ({"floor": 0.4}, r"floor is 0.4; 3 actions may be chosen at once, so it must lie in \[0, 1/3\)"),
        ({"model": LinearSVC()}, "has no predict_proba"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, LogError), match=message):
        estimate_propensities(random_log("dense"), **options)


def test_classifiers_are_rejected_if_actions_have_features() -> None:
    with pytest.raises(OptionError, match="features of each action; leave model=None"):
        estimate_propensities(random_log("actions"), model=DecisionTreeClassifier())


def test_missing_columns_are_rejected() -> None:
    with pytest.raises(OptionError, match="actions are missing"):
        estimate_propensities(np.zeros((9, 1)))
    with pytest.raises(OptionError, match="actions or rewards are missing"):
        with_estimated_propensities(np.zeros((9, 1)), [0] * 9)


# Logs of estimated propensities


def every_kind_of_result(log: Log) -> list[Any]:
    """Return results with every kind of diagnostics, of fixed and learning policies, in memory and in parts."""
    few = log[:300]
    monitor = Monitor(UCB1(), reward_range=(0.0, 1.0), smallest_propensity=1e-3)
    monitor.feed(few)
    return [
        evaluate([few[:100], few[100:]], Fixed([0.25] * K), SNIPS()),
        evaluate(few, Fixed([0.25] * K), DM()),
        evaluate(few, Fixed([0.25] * K), CVaR(0.5)),
        evaluate(few, UCB1(), DRns(q=0.01)),
        evaluate(few, UCB1(), DRns(q=0.01), horizon=5, replicates=60),
        evaluate(few, UCB1(), RS(), horizon=5),
        evaluate(few, UCB1(), ClockReplay(), horizon=5, replicates=60),
        monitor.estimate(),
    ]


def test_results_are_marked_if_propensities_were_estimated() -> None:
    known = soft_log(3000)
    log = with_estimated_propensities(
        known.contexts, known.actions, known.rewards, n_actions=K, reward_range=(0.0, 1.0), times=np.arange(3000)
    )
    assert log.propensities_estimated
    assert log[:5].propensities_estimated
    assert log.reward_range == (0.0, 1.0)
    estimate = evaluate(log, Fixed([0.25] * K), IPS())
    for result in (estimate, *every_kind_of_result(log)):
        assert result.diagnostics.to_dict()["propensities_estimated"] is True
        assert "Propensities were estimated from the log" in str(result)
    truth = evaluate(known, Fixed([0.25] * K), IPS())
    # both have standard errors of about 0.02, from the same events
    assert abs(estimate.value - truth.value) < 0.04


def test_propensities_of_a_log_can_be_replaced() -> None:
    log = soft_log(400)
    again = with_estimated_propensities(log, folds=3)
    assert isinstance(estimate_propensities(log, folds=3), PropensityEstimate)
    np.testing.assert_array_equal(again.propensities, estimate_propensities(log, folds=3).propensities)
    np.testing.assert_array_equal(again.rewards, log.rewards)
    assert not log.propensities_estimated
    with pytest.raises(OptionError, match="reward_range is not an option here"):
        with_estimated_propensities(log, reward_range=(0, 1))


# Calibration


@quick
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 4.0), st.floats(0.0, 0.9))
def test_calibration_keeps_distributions_and_order(seed: int, exponent: float, exploration: float) -> None:
    chances = rng(seed).dirichlet(np.ones(4), size=5)
    calibrated = Calibration(exponent, exploration).apply(chances)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1.0)
    np.testing.assert_array_equal(calibrated.argsort(axis=1), chances.argsort(axis=1))


def test_calibration_is_recovered_from_actions() -> None:
    generator = rng(2)
    chances = generator.dirichlet(np.ones(3), size=8000)
    truth = Calibration(exponent=0.5, exploration=0.2).apply(chances)
    calibration = fit_calibration(chances, draw_actions(truth, generator.random(len(truth))))
    assert np.abs(calibration.apply(chances) - truth).mean() < 0.01
    # the likelihood at the optimum is at least that of the truth
    actions = draw_actions(truth, generator.random(len(truth)))
    best = fit_calibration(chances, actions).apply(chances)
    rows = np.arange(8000)
    assert np.log(best[rows, actions]).mean() >= np.log(truth[rows, actions]).mean() - 1e-9


@quick
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.24))
def test_probabilities_are_above_the_floor_and_sum_to_one(seed: int, floor: float) -> None:
    chances = rng(seed).dirichlet(np.full(4, 0.2), size=6)
    raised = raise_to_floor(chances, np.ones((6, 4), bool), floor)
    np.testing.assert_allclose(raised.sum(axis=1), 1.0)
    assert (raised >= floor - 1e-12).all()
    # probabilities above the floor are never increased
    assert (raised[chances > floor] <= chances[chances > floor] + 1e-12).all()


def test_calibration_error_of_an_overconfident_model() -> None:
    generator = rng()
    actions = generator.integers(2, size=4000)
    sure = np.where(generator.random((4000, 1)) < 0.5, [[0.9, 0.1]], [[0.1, 0.9]])
    assert calibration_error(sure, actions, np.ones((4000, 2), bool)) == pytest.approx(0.4, abs=0.03)


def test_logit_recovers_its_slopes() -> None:
    generator = rng(5)
    features = generator.normal(size=(6000, 3, 2))
    slopes = np.array([1.0, -0.5])
    chances = softmax_among(features @ slopes, np.ones((6000, 3), bool))
    actions = draw_actions(chances, generator.random(len(chances)))
    fitted = fit_logit(Log(features, actions, np.zeros(6000), np.ones(6000)))
    # the standard error of a slope is about 0.02
    np.testing.assert_allclose(fitted.slopes, slopes, atol=0.1)
