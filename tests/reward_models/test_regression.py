"""Reward models: what each predicts, and what each refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from backcast._arrays import Contexts, FloatArray
from backcast.environments import classification_environment
from backcast.errors import EvaluationError, OptionError
from backcast.log import Log, replace_columns
from backcast.reward_models import (
    Constant,
    CrossFit,
    Fitted,
    Joint,
    LowVariance,
    PerAction,
    Progressive,
    RewardModel,
    Split,
)
from backcast.reward_models._ridge_path import Examples, ridge_path, ridge_paths_without_folds
from backcast.reward_models.cross_fitting import Given, as_out_of_sample
from backcast.reward_models.regression import scale_to_mean_one

ALPHAS = np.array([0.1, 10.0, 1000.0])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def small_log(n: int = 60, n_actions: int = 3, **options: Any) -> Log:
    generator = rng(5)
    contexts = generator.standard_normal((n, 4))
    actions = generator.integers(n_actions, size=n)
    return Log(
        contexts=options.pop("contexts", contexts),
        actions=options.pop("actions", actions),
        rewards=options.pop("rewards", (contexts[:, 0] + actions > 0.5).astype(float)),
        propensities=generator.uniform(0.1, 0.9, size=n),
        n_actions=n_actions,
        **options,
    )


# One estimator per action


def test_per_action_is_a_ridge_on_the_actions_own_events() -> None:
    log = small_log(rewards=rng(1).standard_normal(60), reward_range=(-9.0, 9.0))
    predicted = PerAction().fit(log).predict(log.contexts)
    for action in range(3):
        rows = log.actions == action
        expected = Ridge(alpha=1.0).fit(log.contexts[rows], log.rewards[rows]).predict(log.contexts)
        assert np.allclose(predicted[:, action], expected)


@pytest.mark.parametrize(("weights", "power"), [("inverse", 1), ("inverse_square", 2)])
def test_weights_are_scaled_to_mean_one_within_the_action(weights: Any, power: int) -> None:
    log = small_log(rewards=rng(1).standard_normal(60), reward_range=(-9.0, 9.0))
    predicted = PerAction(weights=weights).fit(log).predict(log.contexts)
    rows = log.actions == 1
    weight = scale_to_mean_one(log.propensities[rows] ** -power)
    expected = Ridge(alpha=1.0).fit(log.contexts[rows], log.rewards[rows], sample_weight=weight).predict(log.contexts)
    assert np.allclose(predicted[:, 1], expected)


def test_a_function_may_give_the_weights() -> None:
    log = small_log()
    by_name = PerAction(weights="inverse").fit(log).predict(log.contexts)
    by_function = PerAction(weights=lambda part: 1 / part.propensities).fit(log).predict(log.contexts)
    assert np.allclose(by_name, by_function)


def test_tiny_propensities_do_not_overflow_the_weights() -> None:
    log = replace_columns(small_log(), propensities=np.geomspace(1e-200, 1.0, 60))
    assert np.isfinite(PerAction(weights="inverse_square").fit(log).predict(log.contexts)).all()


def test_weights_of_a_pipeline_reach_its_last_step() -> None:
    log = small_log(rewards=rng(1).standard_normal(60), reward_range=(-9.0, 9.0))
    bare = PerAction(LinearRegression(), weights="inverse").fit(log).predict(log.contexts)
    scaled = make_pipeline(StandardScaler(), LinearRegression())
    assert np.allclose(PerAction(scaled, weights="inverse").fit(log).predict(log.contexts), bare)


def test_a_classifier_is_read_as_an_expectation() -> None:
    rewards = rng(3).choice([-1.0, 0.25, 2.0], size=60)
    log = small_log(rewards=rewards)
    predicted = PerAction(LogisticRegression()).fit(log).predict(log.contexts)
    rows = log.actions == 2
    codes = np.searchsorted([-1.0, 0.25, 2.0], rewards[rows])
    chances = LogisticRegression().fit(log.contexts[rows], codes).predict_proba(log.contexts)
    assert np.allclose(predicted[:, 2], chances @ [-1.0, 0.25, 2.0])


def test_an_action_never_taken_gets_the_mean_reward() -> None:
    log = small_log(n_actions=4, actions=rng(1).integers(3, size=60))
    assert np.allclose(PerAction().fit(log).predict(log.contexts)[:, 3], log.rewards.mean())


def test_one_class_gets_that_reward() -> None:
    actions = np.repeat([0, 1], 30)
    log = small_log(n_actions=2, actions=actions, rewards=np.where(actions == 0, 1.0, rng(2).integers(0, 2, 60)))
    predicted = PerAction(LogisticRegression()).fit(log).predict(log.contexts)
    assert np.array_equal(predicted[:, 0], np.ones(60))


def test_a_class_too_small_for_the_classifier_gets_the_mean() -> None:
    from sklearn.calibration import CalibratedClassifierCV

    rewards = np.zeros(60)
    rewards[0] = 1.0
    log = small_log(n_actions=1, actions=np.zeros(60, dtype=int), rewards=rewards)
    predicted = PerAction(CalibratedClassifierCV(LogisticRegression(), cv=5)).fit(log).predict(log.contexts)
    assert np.allclose(predicted, 1 / 60)


def test_a_classifiers_own_errors_come_through_when_there_is_enough_data() -> None:
    log = small_log(n_actions=1, actions=np.zeros(60, dtype=int), rewards=np.tile([0.0, 1.0], 30))
    with pytest.raises(ValueError, match="C"):
        PerAction(LogisticRegression(C=-1.0)).fit(log)


def test_contexts_without_features_give_each_actions_mean() -> None:
    log = Log(contexts=None, actions=[0, 0, 1, 1], rewards=[0.0, 1.0, 1.0, 2.0], propensities=[0.25, 0.5, 0.5, 0.5])
    assert np.allclose(PerAction().fit(log).predict(log.contexts), [[0.5, 1.5]] * 4)
    # By hand: the first event weighs twice the second.
    assert np.allclose(PerAction(weights="inverse").fit(log).predict(log.contexts)[0], [1 / 3, 1.5])
    assert np.allclose(LowVariance().fit(log).predict(log.contexts)[0, 1], 1.5)


def test_predictions_stay_in_the_declared_range() -> None:
    log = small_log(reward_range=(-2.0, 3.0))
    predicted = PerAction(LinearRegression()).fit(log).predict(100 * log.contexts)
    assert (predicted.min(), predicted.max()) == (-2.0, 3.0)


def test_each_action_is_fitted_on_its_features() -> None:
    contexts = rng(4).standard_normal((80, 2, 3))
    actions = rng(5).integers(2, size=80)
    rewards = contexts[np.arange(80), actions, 0] * np.where(actions == 0, 1.0, -1.0)
    log = Log(contexts, actions, rewards, np.full(80, 0.5), reward_range=(-9.0, 9.0))
    predicted = PerAction(LinearRegression()).fit(log).predict(log.contexts)
    assert np.allclose(predicted, contexts[:, :, 0] * [1.0, -1.0])
    # One line for both actions cannot have both slopes.
    joint = Joint(LinearRegression()).fit(log).predict(log.contexts)
    assert not np.allclose(joint, predicted, atol=0.5)


# One estimator for all


def test_joint_shares_one_line_over_action_features() -> None:
    contexts = rng(4).standard_normal((80, 3, 2))
    actions = rng(5).integers(3, size=80)
    rewards = contexts[np.arange(80), actions] @ [0.5, -0.25]
    log = Log(contexts, actions, rewards, np.full(80, 0.5), reward_range=(-9.0, 9.0))
    predicted = Joint(LinearRegression()).fit(log).predict(log.contexts)
    assert np.allclose(predicted, contexts @ [0.5, -0.25])


def test_joint_distinguishes_actions_by_an_indicator() -> None:
    log = small_log()
    tree = Joint(DecisionTreeRegressor(random_state=0)).fit(log).predict(log.contexts)
    assert np.allclose(tree[np.arange(60), log.actions], log.rewards)


# What is refused


class NoProba(LinearSVC):  # type: ignore[misc]
    """A classifier that gives no probabilities."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PerAction(NoProba()), "without predict_proba"),
        (PerAction(KNeighborsRegressor(), weights="inverse"), "KNeighborsRegressor takes no sample weights"),
        (PerAction(weights=lambda log: np.ones(3)), r"weights returned shape \(3,\) for a log of 60"),
        (PerAction(weights=lambda log: np.full(60, -1.0)), "row 0: weights returned -1.0"),
    ],
)
def test_unusable_estimators_and_weights_are_refused(model: PerAction, message: str) -> None:
    log = small_log(actions=np.repeat([0, 1, 2], 20), rewards=np.tile([0.0, 1.0], 30))
    with pytest.raises(OptionError, match=message):
        model.fit(log)


def test_a_classifier_of_a_quantity_is_refused() -> None:
    with pytest.raises(OptionError, match="use a regressor"):
        Joint(LogisticRegression()).fit(small_log(n=200, rewards=rng(1).standard_normal(200)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PerAction(weights="squared"), "weights is 'squared'"),  # type: ignore[arg-type]
        (lambda: CrossFit(Constant(), folds=1), "folds is 1"),
        (lambda: Split(Constant(), fraction=1.0), "fraction is 1.0"),
        (lambda: Progressive(Constant(), first=0), "first is 0"),
        (lambda: Progressive(Constant(), growth=1.0), "growth is 1.0"),
        (lambda: LowVariance(folds=1), "folds is 1"),
        (lambda: LowVariance(alphas=(0.0,)), "alphas are"),
        (lambda: LowVariance(weights=("inverse", "cube")), "choose from"),
    ],
)
def test_options_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


@pytest.mark.parametrize("model", [Constant(), PerAction(), Joint(), LowVariance()])
def test_a_model_must_be_fitted_before_it_predicts(model: RewardModel) -> None:
    with pytest.raises(OptionError, match="has not been fitted"):
        Fitted(model).predictions(small_log(), rng())


# Predictions out of sample


def test_what_users_may_pass_as_a_reward_model() -> None:
    log = small_log()
    wrapped = Split(Constant())
    assert as_out_of_sample(wrapped) is wrapped
    assert as_out_of_sample() == CrossFit(PerAction())
    assert as_out_of_sample(Constant(), folds=3) == CrossFit(Constant(), 3)
    ridge = Ridge()
    assert as_out_of_sample(ridge) == CrossFit(PerAction(ridge))
    assert np.array_equal(as_out_of_sample(0.5).predictions(log, rng()).predicted, np.full((60, 3), 0.5))
    table = rng(1).random((60, 3))
    assert np.array_equal(as_out_of_sample(table).predictions(log, rng()).predicted, table)
    assert np.array_equal(as_out_of_sample(table.tolist()).predictions(log, rng()).predicted, table)


@pytest.mark.parametrize("wrong", ["ridge", np.zeros(3), object()])
def test_other_things_are_refused(wrong: object) -> None:
    with pytest.raises(OptionError, match="reward_model is a"):
        as_out_of_sample(wrong)


def test_predictions_of_a_wrong_shape_or_value_are_refused() -> None:
    log = small_log()
    with pytest.raises(OptionError, match=r"shape \(60, 2\); expected \(60, 3\)"):
        Given(np.zeros((60, 2))).predictions(log, rng())
    table = np.zeros((60, 3))
    table[7, 1] = np.nan
    with pytest.raises(OptionError, match="row 7, action 1 is nan"):
        Given(table).predictions(log, rng())


def test_given_predictions_are_contiguous_and_writable_whatever_came_in() -> None:
    table = np.asfortranarray(rng(1).random((60, 3)))
    table.flags.writeable = False
    predicted = Given(table).predictions(small_log(), rng()).predicted
    assert predicted.flags.c_contiguous
    assert predicted.flags.writeable


def test_before_anything_is_seen_the_midpoint_of_the_declared_range_is_predicted() -> None:
    bounded = small_log(reward_range=(-1.0, 2.0))
    start = Progressive(Constant(), first=10).predictions(bounded, rng()).predicted[:10]
    assert np.array_equal(start, np.full((10, 3), 0.5))
    assert not Progressive(Constant(), first=10).predictions(small_log(), rng()).predicted[:10].any()
    assert CrossFit(Constant()).predictions(bounded[:1], rng()).predicted.tolist() == [[0.5] * 3]


def test_one_event_cannot_be_split() -> None:
    with pytest.raises(EvaluationError, match="cannot be split"):
        Split(Constant()).predictions(small_log()[:1], rng())


# Ridge paths


def expected_ridge(examples: Examples, alpha: float) -> tuple[FloatArray, float]:
    model = Ridge(
        alpha=alpha, solver="cholesky" if isinstance(examples.features, np.ndarray) else "sparse_cg", tol=1e-12
    )
    model.fit(examples.features, examples.rewards, sample_weight=scale_to_mean_one(examples.weights))
    return model.coef_, float(model.intercept_)


def some_examples(features: Contexts) -> Examples:
    n = int(features.shape[0])
    return Examples(features, rng(1).standard_normal(n), rng(2).uniform(0.1, 3.0, size=n))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ridge_path_is_ridge_at_every_penalty(offset: float) -> None:
    examples = some_examples(rng(3).standard_normal((50, 7)) + offset)
    path = ridge_path(examples, ALPHAS)
    for which, alpha in enumerate(ALPHAS):
        slopes, _ = expected_ridge(examples, float(alpha))
        assert np.allclose(path.slopes[which], slopes, rtol=1e-5, atol=1e-8)
    line = np.asarray(examples.features) @ path.slopes[0] + path.intercepts[0]
    assert np.average(line - examples.rewards, weights=examples.weights) == pytest.approx(0, abs=1e-7)


def test_fold_paths_are_fits_on_the_other_folds() -> None:
    examples = some_examples(rng(3).standard_normal((50, 4)))
    fold = rng(4).integers(3, size=50)
    for f, path in enumerate(ridge_paths_without_folds(examples, fold, 3, ALPHAS)):
        again = ridge_path(examples[fold != f], ALPHAS)
        assert np.allclose(path.slopes, again.slopes)
        assert np.allclose(path.intercepts, again.intercepts)


def test_krylov_path_is_ridge_on_sparse_features() -> None:
    filled = rng(5).random((300, 400)) * (rng(6).random((300, 400)) < 0.02)
    examples = some_examples(scipy.sparse.csr_array(filled))
    path = ridge_path(examples, np.array([1.0, 100.0]))
    for which, alpha in enumerate((1.0, 100.0)):
        slopes, intercept = expected_ridge(examples, alpha)
        assert np.allclose(path.slopes[which], slopes, atol=1e-4)
        assert path.intercepts[which] == pytest.approx(intercept, abs=1e-4)
    folds = ridge_paths_without_folds(examples, np.arange(300) % 2, 2, np.array([1.0]))
    assert np.allclose(folds[0].slopes, ridge_path(examples[1::2], np.array([1.0])).slopes)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_krylov_path_ends_where_its_space_does(columns: int) -> None:
    features = scipy.sparse.csr_array(rng(3).standard_normal((20, columns)))
    examples = some_examples(features)
    dense = ridge_path(Examples(features.toarray(), examples.rewards, examples.weights), ALPHAS)
    path = ridge_path(examples, ALPHAS)
    assert np.allclose(path.slopes, dense.slopes)
    assert np.allclose(path.intercepts, dense.intercepts)


# Little variance


def event_values(log: Log, target: FloatArray, predicted: FloatArray) -> FloatArray:
    logged = (np.arange(len(log)), log.actions)
    direct: FloatArray = (target * predicted).sum(axis=1)
    return direct + target[logged] / log.propensities * (log.rewards - predicted[logged])


def spread_ratio(seed: int, loss: bool) -> float:
    """Spread of the event values with the low-variance model, over that with a plain ridge."""
    generator = rng(seed)
    labels = generator.integers(6, size=2000)
    features = generator.standard_normal((6, 10))[labels] + generator.standard_normal((2000, 10))
    log = classification_environment(features, labels, loss=loss).log(generator)
    rough = PerAction().fit(log[:300]).predict(log.contexts)
    best = rough.argmin(axis=1) if loss else rough.argmax(axis=1)
    target = 0.1 / 6 + 0.9 * (np.arange(6) == best[:, None])
    models: list[RewardModel] = [LowVariance(), PerAction()]
    spreads = [
        event_values(log[300:], target[300:], CrossFit(model, 3).predictions(log[300:], rng(1)).predicted).std()
        for model in models
    ]
    return float(spreads[0] / spreads[1])


@pytest.mark.parametrize("loss", [False, True])
def test_low_variance_lowers_the_spread_on_logs_as_in_the_paper(loss: bool) -> None:
    # Over seeds the logarithm of the ratio has mean -0.92 and standard deviation 0.27: the mean of three would fail
    # to be below -0.3 once in 25,000 draws.
    assert np.mean([np.log(spread_ratio(seed, loss)) for seed in (1, 2, 3)]) < -0.3


def test_losses_are_treated_as_negated_rewards() -> None:
    labels = rng(1).integers(3, size=600)
    features = rng(2).standard_normal((3, 4))[labels] + rng(3).standard_normal((600, 4))
    gains, losses = (classification_environment(features, labels, loss=loss).log(rng(4)) for loss in (False, True))
    spreads = [[choice.std_dev for choice in LowVariance().fit(log).tried] for log in (gains, losses)]
    assert np.allclose(spreads[0], spreads[1])


def test_low_variance_chooses_the_least_spread_it_tried() -> None:
    log = small_log(n=300)
    model = LowVariance(alphas=(1.0, 10.0)).fit(log)
    assert model.choice is not None
    assert len(model.tried) == 2 * 4
    assert model.choice.std_dev == min(candidate.std_dev for candidate in model.tried)


def test_low_variance_takes_the_target_it_is_given() -> None:
    # Action 1 pays at random, action 0 along a line: a policy of action 0 wants the line, whatever it costs action 1.
    contexts = rng(1).standard_normal((400, 1))
    actions = rng(2).integers(2, size=400)
    rewards = np.where(actions == 0, contexts[:, 0], 5 * rng(3).standard_normal(400))
    log = Log(contexts, actions, rewards, np.full(400, 0.5))
    first = LowVariance(alphas=(0.1, 1e5), target=lambda x: np.tile([1.0, 0.0], (x.shape[0], 1))).fit(log)
    second = LowVariance(alphas=(0.1, 1e5), target=lambda x: np.tile([0.0, 1.0], (x.shape[0], 1))).fit(log)
    assert first.choice is not None
    assert second.choice is not None
    assert first.choice.alpha == 0.1
    assert first.choice.std_dev < 1.2 < 5 < second.choice.std_dev
    with pytest.raises(OptionError, match=r"target returned shape \(400, 3\)"):
        LowVariance(target=lambda x: np.zeros((400, 3))).fit(log)


def test_low_variance_stays_with_available_actions() -> None:
    available = np.ones((60, 3), dtype=bool)
    available[:, 2] = False
    actions = rng(1).integers(2, size=60)
    log = small_log(actions=actions, available=available)
    predicted = LowVariance().fit(log).predict(log.contexts)
    assert np.allclose(predicted[:, 2], log.rewards.mean())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_low_variance_fits_a_few_events(n: int) -> None:
    log = small_log()[:n]
    assert np.isfinite(LowVariance().fit(log).predict(log.contexts)).all()


def test_reward_models_load_without_scikit_learn() -> None:
    code = "import sys, backcast.reward_models; print([m for m in ('sklearn', 'scipy', 'numba') if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
