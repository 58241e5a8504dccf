"""Laws of reward models: predictions are out of sample, inputs stay unchanged, irrelevant changes have no effect."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Self

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from backcast._arrays import Contexts, FloatArray
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
from backcast.reward_models.cross_fitting import Given, OutOfSampleModel, as_out_of_sample

quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 60)

MODELS: dict[str, Callable[[], RewardModel]] = {
    "constant": Constant,
    "per_action": PerAction,
    "per_action_inverse": lambda: PerAction(weights="inverse"),
    "per_action_inverse_square": lambda: PerAction(weights="inverse_square"),
    "joint": Joint,
    "low_variance": lambda: LowVariance(folds=2, alphas=(1.0, 100.0)),
}
WRAPPERS: dict[str, Callable[[RewardModel], OutOfSampleModel]] = {
    "cross_fit": lambda model: CrossFit(model, folds=3),
    "split": lambda model: Split(model, fraction=0.4),
    "progressive": lambda model: Progressive(model, first=3, growth=1.4),
}


class Memory:
    """Predicts 1 where it has seen the event, whose row number is its context, and 0 elsewhere."""

    def __init__(self) -> None:
        self.seen: set[float] = set()
        self.n_actions = 0

    def fit(self, log: Log) -> Self:
        self.seen = set(np.asarray(log.contexts)[:, 0].tolist())
        self.n_actions = log.n_actions
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        known = np.array([float(x in self.seen) for x in np.asarray(contexts)[:, 0]])
        return np.tile(known[:, None], (1, self.n_actions))


def random_log(n: int, seed: int, n_actions: int = 3, kind: str = "dense") -> Log:
    rng = np.random.default_rng(seed)
    shape = (n, n_actions, 2) if kind == "per_action" else (n, 2)
    contexts = rng.standard_normal(shape)
    actions = rng.integers(n_actions, size=n)
    return Log(
        contexts=scipy.sparse.csr_array(contexts) if kind == "sparse" else contexts,
        actions=actions,
        rewards=rng.integers(0, 5, size=n) / 4,
        propensities=rng.uniform(0.05, 1.0, size=n),
        n_actions=n_actions,
    )


@pytest.mark.parametrize("name", WRAPPERS)
@given(n=sizes, seed=seeds)
@quick
def test_no_event_is_scored_by_a_model_that_saw_it(name: str, n: int, seed: int) -> None:
    log = replace_columns(random_log(n, seed), contexts=np.arange(float(n))[:, None])
    left, predicted = WRAPPERS[name](Memory()).predictions(log, np.random.default_rng(seed))
    assert predicted.shape == (len(left), log.n_actions)
    assert predicted.max() == 0


@given(n=sizes, seed=seeds, fraction=st.floats(0.05, 0.95))
@quick
def test_split_keeps_the_order_and_the_rest(n: int, seed: int, fraction: float) -> None:
    log = random_log(n, seed)
    left, _ = Split(Constant(), fraction).predictions(log, np.random.default_rng(seed))
    assert np.all(np.diff(left.rows) > 0)
    assert 1 <= len(left) < n
    assert abs((n - len(left)) - fraction * n) <= 1


@given(n=sizes, seed=seeds)
@quick
def test_every_fold_leaves_events_to_learn_from(n: int, seed: int) -> None:
    log = random_log(n, seed)
    left, predicted = CrossFit(Constant(), folds=5).predictions(log, np.random.default_rng(seed))
    assert left is log
    # The mean of the others differs from the mean of all by less than the share of the fold left out.
    share = -(-n // min(5, n)) / n
    assert np.abs(predicted - log.rewards.mean()).max() <= share / (1 - share) + 1e-12


@given(n=st.integers(6, 60), seed=seeds, cut=st.integers(1, 59))
@quick
def test_progressive_predictions_do_not_know_the_future(n: int, seed: int, cut: int) -> None:
    cut = min(cut, n - 1)
    log = random_log(n, seed)
    later = log.rewards.copy()
    later[cut:] = 1 - later[cut:]
    wrapped = Progressive(PerAction(), first=3, growth=1.3)
    rng = np.random.default_rng(0)
    before, after = wrapped.predictions(log, rng), wrapped.predictions(replace_columns(log, rewards=later), rng)
    assert np.array_equal(before.predicted[: cut + 1], after.predicted[: cut + 1])


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("model", MODELS)
def test_the_callers_model_is_never_fitted(model: str, wrapper: str) -> None:
    reward_model = MODELS[model]()
    before = copy.deepcopy(vars(reward_model))
    WRAPPERS[wrapper](reward_model).predictions(random_log(40, 1), np.random.default_rng(0))
    assert vars(reward_model) == before


@pytest.mark.parametrize("kind", ["dense", "sparse", "per_action"])
@pytest.mark.parametrize("model", MODELS)
@given(n=sizes, seed=seeds)
@settings(max_examples=8, deadline=None)
def test_predictions_are_an_array_within_the_reward_range(model: str, kind: str, n: int, seed: int) -> None:
    log = random_log(n, seed, kind=kind)
    predictions = as_out_of_sample(MODELS[model]()).predictions(log, np.random.default_rng(seed))
    assert predictions.predicted.shape == (n, log.n_actions)
    assert predictions.predicted.dtype == np.float64
    assert predictions.predicted.flags.c_contiguous
    low, high = log.reward_bounds
    assert predictions.predicted.min() >= low
    assert predictions.predicted.max() <= high


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("model", MODELS)
def test_same_seed_same_predictions(model: str, wrapper: str) -> None:
    log = random_log(50, 2)
    first, second = (
        WRAPPERS[wrapper](MODELS[model]()).predictions(log, np.random.default_rng(7)).predicted for _ in range(2)
    )
    assert np.array_equal(first, second)


@pytest.mark.parametrize("model", MODELS)
@given(n=sizes, seed=seeds, level=st.integers(-8, 8))
@settings(max_examples=8, deadline=None)
def test_a_constant_reward_is_predicted_everywhere(model: str, n: int, seed: int, level: int) -> None:
    log = random_log(n, seed)
    log = replace_columns(log, rewards=np.full(n, level / 4))
    fitted = MODELS[model]().fit(log)
    assert np.allclose(fitted.predict(log.contexts), level / 4, rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "low_variance"])
@given(n=st.integers(10, 60), seed=seeds)
@settings(max_examples=8, deadline=None)
def test_rescaled_rewards_rescale_the_predictions(model: str, n: int, seed: int) -> None:
    log = random_log(n, seed)
    plain = MODELS[model]().fit(log).predict(log.contexts)
    scaled = MODELS[model]().fit(replace_columns(log, rewards=4 * log.rewards - 1)).predict(log.contexts)
    assert np.allclose(scaled, 4 * plain - 1, atol=1e-6)


@given(n=sizes, seed=seeds)
@settings(max_examples=8, deadline=None)
def test_rewards_times_four_change_no_choice(n: int, seed: int) -> None:
    # A factor that is a power of two is exact in every step, so that not even a tie may fall differently.
    log = random_log(n, seed)
    model, scaled = (
        MODELS["low_variance"]().fit(log),
        MODELS["low_variance"]().fit(replace_columns(log, rewards=4 * log.rewards)),
    )
    assert np.array_equal(scaled.predict(log.contexts), 4 * model.predict(log.contexts))


@pytest.mark.parametrize("model", [name for name in MODELS if name != "low_variance"])
@given(n=st.integers(10, 60), seed=seeds)
@settings(max_examples=8, deadline=None)
def test_relabelled_actions_relabel_the_predictions(model: str, n: int, seed: int) -> None:
    log = random_log(n, seed)
    names = np.array([2, 0, 1])
    plain = MODELS[model]().fit(log).predict(log.contexts)
    renamed = MODELS[model]().fit(replace_columns(log, actions=names[log.actions])).predict(log.contexts)
    assert np.allclose(renamed[:, names], plain, atol=1e-8)


@pytest.mark.parametrize("model", ["per_action", "per_action_inverse", "joint", "low_variance"])
def test_sparse_contexts_give_what_dense_ones_give(model: str) -> None:
    dense, sparse = random_log(200, 3), random_log(200, 3, kind="sparse")
    expected = MODELS[model]().fit(dense).predict(dense.contexts)
    assert np.allclose(MODELS[model]().fit(sparse).predict(sparse.contexts), expected, atol=2e-3)


@given(n=sizes, seed=seeds)
@quick
def test_given_and_fitted_pass_their_predictions_on(n: int, seed: int) -> None:
    log = random_log(n, seed)
    table = np.random.default_rng(seed).random((n, log.n_actions))
    rng = np.random.default_rng(0)
    assert np.array_equal(Given(table).predictions(log, rng).predicted, table)
    model = PerAction().fit(log)
    assert np.array_equal(Fitted(model).predictions(log, rng).predicted, model.predict(log.contexts))
