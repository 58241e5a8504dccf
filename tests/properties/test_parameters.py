"""get_params and set_params of every policy, reward model and evaluator, by scikit-learn's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ParameterGrid

import backcast as bc
from backcast.policies._calls import describe
from backcast.policies.compiled import CompiledPolicy
from backcast.provenance import describe_object
from tests.support.logs import small_log

LOG = small_log()


def scores(contexts: Any) -> Any:
    return np.zeros((len(contexts), 3))


POLICIES = [
    bc.Uniform(),
    bc.Fixed([0.25, 0.75]),
    bc.Fixed("mail"),
    bc.FromScores(scores, epsilon=0.25),
    bc.Logged(),
    bc.EpsilonGreedy(0.5, ridge=2.0, batch_size=3),
    bc.Softmax(0.5),
    bc.LinUCB(0.5),
    bc.LinearThompson(0.5),
    bc.UCB1(0.5),
    bc.RoundRobin(batch_size=2),
    bc.FromClassifier(LogisticRegression(C=2.0), epsilon=0.25),
    bc.Compiled(max, scores, scores, batch_size=2),
    bc.WarmStart(bc.LinUCB(0.5), share=0.25),
    bc.Delayed(bc.LinUCB(0.5), delay=2, every=3),
]
REWARD_MODELS = [
    bc.Constant(0.5),
    bc.PerAction(Ridge(2.0), weights="inverse"),
    bc.Joint(Ridge(2.0)),
    bc.LowVariance(folds=4),
    bc.CrossFit(bc.LowVariance(alphas=(1.0, 2.0)), folds=3),
    bc.Split(bc.Constant(), 0.25),
    bc.Progressive(bc.PerAction(Ridge(2.0)), first=10),
    bc.Fitted(bc.Constant(0.5)),
]
EVALUATORS = [
    *(bc.ClockReplay(pool=50), bc.DRns(acceptance=bc.Quantile(0.05)), bc.DRns(q=0.05, carry=True), bc.WC(), bc.RS()),
    *(bc.Replay(), bc.DM(), bc.IPS(), bc.SNIPS(), bc.ClippedIPS(2.0), bc.BaselineIPS(), bc.DR(), bc.SNDR()),
    *(bc.SwitchDR(2.0), bc.ShrinkageDR(2.0), bc.PessimisticDR(2.0), bc.SubGaussian(0.5), bc.CAB(), bc.MRDR()),
    *(
        bc.StableVar(),
        bc.CADR(),
        bc.RewardQuantile(0.25),
        bc.CVaR(0.25),
        bc.WorstCase(),
        bc.Budget(0.25),
        bc.Quantile(0.25),
    ),
]
ALL = [*POLICIES, *REWARD_MODELS, *EVALUATORS]


def test_every_public_class_is_in_the_list() -> None:
    others = {
        *("Policy", "LearningPolicy", "RewardModel", "OutOfSampleModel", "Evaluator"),  # protocols
        *("PassEvaluator", "PolicyRun", "PassInputs", "PassResult", "EvaluationRequest"),
        *("OutOfSamplePredictions", "RewardDistribution"),
    }
    for package in (bc.policies, bc.reward_models, bc.evaluators):
        public = {name for name in package.__all__ if isinstance(getattr(package, name), type)}
        assert public - others <= {type(each).__name__ for each in ALL}


@pytest.mark.parametrize("value", ALL, ids=describe)
def test_clone_makes_an_equal_object(value: Any) -> None:
    duplicate = clone(value)
    assert duplicate is not value
    assert type(duplicate) is type(value)
    assert describe(duplicate) == describe(value)
    before, after = value.get_params(deep=False), duplicate.get_params(deep=False)
    assert list(before) == list(after)
    assert describe_object(duplicate) == describe_object(value)


@pytest.mark.parametrize("value", ALL, ids=describe)
def test_parameters_are_set_as_they_are_read(value: Any) -> None:
    duplicate = clone(value)
    parameters = value.get_params()
    assert duplicate.set_params(**value.get_params(deep=False)) is duplicate
    assert describe(duplicate) == describe(value)
    with pytest.raises(bc.OptionError, match=f"{type(value).__name__} has no parameter 'nothing'") as problem:
        duplicate.set_params(nothing=1)
    for name in value.get_params(deep=False):
        assert name in str(problem.value)
    assert all("__" in name for name in set(parameters) - set(value.get_params(deep=False)))


def test_nested_parameters_are_read_and_set() -> None:
    model = bc.CrossFit(bc.PerAction(Ridge(2.0)))
    assert model.get_params()["model__estimator__alpha"] == 2.0
    assert model.set_params(model__estimator__alpha=4.0, folds=3).folds == 3
    assert model.get_params()["model__estimator__alpha"] == 4.0
    policy = bc.WarmStart(bc.LinUCB(), share=0.5).set_params(policy__alpha=2.0)
    assert policy.policy.alpha == 2.0
    evaluator = bc.DRns(acceptance=bc.Quantile(0.05))
    assert evaluator.set_params(acceptance__q=0.1) == bc.DRns(acceptance=bc.Quantile(0.1))


def test_values_are_checked_and_nothing_changes_if_one_is_wrong() -> None:
    policy = bc.LinUCB(0.5)
    with pytest.raises(bc.OptionError, match="alpha is -1"):
        policy.set_params(alpha=-1, ridge=4.0)
    assert policy.get_params() == {"alpha": 0.5, "ridge": 1.0, "batch_size": 1}
    with pytest.raises(bc.OptionError, match=r"alpha of LinUCB is 0\.5, which has no parameters of its own"):
        policy.set_params(alpha__scale=2)
    with pytest.raises(bc.OptionError, match="no parameter 'alfa'; did you mean 'alpha'"):
        policy.set_params(alfa=2)


def test_a_policy_with_other_parameters_has_learned_nothing() -> None:
    policy = bc.EpsilonGreedy(0.5)
    policy.start(3, 4, np.random.default_rng(0))
    policy.learn(LOG.contexts, LOG.actions, LOG.rewards, LOG.propensities)
    policy.set_params(epsilon=0.0)
    policy.start(3, 4, np.random.default_rng(0))
    assert policy.probabilities(LOG.contexts[:1]) == pytest.approx(np.full((1, 3), 1 / 3))


def test_a_grid_of_scikit_learn_gives_policies() -> None:
    grid = ParameterGrid({"alpha": [0.25, 0.5], "ridge": [1.0, 2.0]})
    policies = [clone(bc.LinUCB()).set_params(**parameters) for parameters in grid]
    assert sorted((policy.alpha, policy.ridge) for policy in policies) == [(0.25, 1), (0.25, 2), (0.5, 1), (0.5, 2)]


def test_fitted_models_stay_fitted_when_they_are_cloned() -> None:
    classifier = LogisticRegression().fit(LOG.contexts, LOG.actions)
    policy = clone(bc.FromScores(classifier))
    policy.use_labels((0, 1, 2))
    assert policy.probabilities(LOG.contexts).shape == (60, 3)
    model = clone(bc.Fitted(bc.Constant().fit(LOG)))
    assert model.predictions(LOG, np.random.default_rng(0)).predicted.shape == (60, 3)


def test_a_users_reward_model_and_estimators_of_scikit_learn_are_distinguished() -> None:
    estimates = [
        bc.evaluate(LOG, bc.Fixed([0.5, 0.25, 0.25]), bc.DR(), reward_model=model).value
        for model in (Ridge(1.0), bc.PerAction(Ridge(1.0)), bc.CrossFit(bc.PerAction(Ridge(1.0))))
    ]
    assert estimates[0] == estimates[1] == estimates[2]


def test_a_class_that_does_not_store_its_arguments_is_named() -> None:
    class Forgetful(CompiledPolicy):
        def __init__(self, alpha: float) -> None:
            super().__init__()

        def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> Any: ...

    with pytest.raises(bc.OptionError, match="Forgetful does not store every argument"):
        Forgetful(0.5).get_params()
