"""Laws that hold for estimators of fixed policies, each over all estimators that claim it."""

from __future__ import annotations

import copy
import math
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backcast._request import EvaluationRequest, RandomStreams
from backcast.checks import check
from backcast.errors import EvaluationError, NeedsStationaryPolicy
from backcast.evaluators import (
    CAB,
    DR,
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BaselineIPS,
    ClippedIPS,
    PessimisticDR,
    ShrinkageDR,
    SubGaussian,
    SwitchDR,
)
from backcast.evaluators._weight_transforms import IDENTITY
from backcast.evaluators._weighted_estimate import moments_of
from backcast.evaluators._weighted_events import weight_events
from backcast.evaluators.direct import DM
from backcast.evaluators.reward_distribution import CVaR, reward_distribution
from backcast.intervals._sample import Moments
from backcast.io.stream import LogStream
from backcast.log import Log, replace_columns
from backcast.policies.fixed import Fixed, FromScores, Logged
from backcast.policies.linear import EpsilonGreedy
from backcast.reward_models import Constant, CrossFit, PerAction

FREE = {"IPS": IPS(), "SNIPS": SNIPS(), "BaselineIPS": BaselineIPS(), "ClippedIPS": ClippedIPS(2.0)}
SHAPED = {
    "SwitchDR": SwitchDR(2.0),
    "ShrinkageDR": ShrinkageDR(2.0),
    "PessimisticDR": PessimisticDR(2.0),
    "SubGaussian": SubGaussian(0.25),
}
MODELLED = {"DR": DR(), "SNDR": SNDR(), "MRDR": MRDR(), **SHAPED}
TUNED = {
    "ClippedIPS auto": ClippedIPS(),
    "SwitchDR auto": SwitchDR(),
    "ShrinkageDR auto": ShrinkageDR(),
    "PessimisticDR auto": PessimisticDR(),
    "SubGaussian auto": SubGaussian(),
    "CAB auto": CAB(),
}
ALL: dict[str, Any] = {**FREE, **MODELLED, "CAB": CAB(2.0), **TUNED}

every = pytest.mark.parametrize("name", ALL)
seeds = st.integers(0, 10_000)
LAYOUTS = ("dense", "sparse", "masked", "actions")
EXAMPLES = settings(max_examples=5)
MakeLog = Callable[..., Log]


def scores(contexts: Any) -> Any:
    if contexts.ndim == 3:
        return contexts @ np.array([1.0, -1.0])
    return contexts @ np.array([[1.0, 0.5, -1.0], [-0.5, 1.0, 0.0]])


POLICY = FromScores(scores, epsilon=0.5)


def estimate(name: str, log: Any, policy: Any = POLICY, **asked: Any) -> Any:
    if name == "MRDR":
        asked.pop("reward_model", None)
    return ALL[name].estimate(EvaluationRequest(log, policy, **asked))


def value(name: str, log: Any, policy: Any = POLICY, **asked: Any) -> float:
    return float(estimate(name, log, policy, **asked).value)


def with_rewards(log: Log, rewards: Any, reward_range: tuple[float, float] | None = None) -> Log:
    return replace_columns(log, rewards=np.asarray(rewards, dtype=np.float64), reward_range=reward_range)


# CAB's model answers for what was cut in expectation only; clipping loses weight; IPS has no way to know
CONSTANT = [name for name in ALL if not name.startswith(("CAB", "ClippedIPS", "IPS"))]


@pytest.mark.parametrize("name", CONSTANT)
@EXAMPLES
@given(seed=seeds, level=st.sampled_from([-2.0, 0.0, 0.3, 7.0]))
def test_constant_rewards_are_worth_that_constant(name: str, make_log: MakeLog, seed: int, level: float) -> None:
    log = make_log("dense", seed=seed)
    assert value(name, with_rewards(log, np.full(len(log), level)), seed=seed) == pytest.approx(level, abs=1e-9)


@pytest.mark.parametrize("name", ["IPS", "SNIPS", "BaselineIPS", "ClippedIPS", "ClippedIPS auto", "CAB", "CAB auto"])
@EXAMPLES
@given(seed=seeds, layout=st.sampled_from(LAYOUTS))
def test_the_logger_itself_is_worth_the_mean(name: str, make_log: MakeLog, seed: int, layout: str) -> None:
    log = make_log(layout, seed=seed)
    assert value(name, log, Logged()) == pytest.approx(log.rewards.mean(), abs=1e-12)


@pytest.mark.parametrize("name", [*SHAPED, "DR", "SNDR"])
@EXAMPLES
@given(seed=seeds, layout=st.sampled_from(LAYOUTS))
def test_the_logger_itself_is_worth_the_mean_without_a_model(
    name: str, make_log: MakeLog, seed: int, layout: str
) -> None:
    log = make_log(layout, seed=seed)
    # the ratio is 1: shrinkage at l makes l/(1+l) of it, all others leave it alone
    factor = 2 / 3 if name == "ShrinkageDR" else 1.0
    assert value(name, log, Logged(), reward_model=0.0) == pytest.approx(factor * log.rewards.mean(), abs=1e-12)


@EXAMPLES
@given(seed=seeds, layout=st.sampled_from(LAYOUTS))
def test_without_a_model_the_robust_ones_are_their_plain_relatives(make_log: MakeLog, seed: int, layout: str) -> None:
    log = make_log(layout, seed=seed)
    zero = np.zeros((len(log), log.n_actions))
    for robust, plain in (("DR", "IPS"), ("SNDR", "SNIPS"), ("PessimisticDR", "ClippedIPS")):
        for model in (0.0, zero):
            assert value(robust, log, reward_model=model) == pytest.approx(value(plain, log), abs=1e-12)
    assert SubGaussian(0.0).estimate(EvaluationRequest(log, POLICY, reward_model=0.0)).value == pytest.approx(
        value("IPS", log)
    )


@EXAMPLES
@given(seed=seeds)
def test_without_a_threshold_the_shaped_ones_are_doubly_robust(make_log: MakeLog, seed: int) -> None:
    request = EvaluationRequest(make_log("dense", seed=seed), POLICY, seed=seed)
    whole = DR().estimate(request).value
    for loose in (SwitchDR(math.inf), ShrinkageDR(math.inf), PessimisticDR(math.inf), SubGaussian(0.0)):
        assert loose.estimate(request).value == pytest.approx(whole, abs=1e-12)
    assert CAB(math.inf).estimate(request).value == pytest.approx(IPS().estimate(request).value, abs=1e-12)
    # at the other end stands the direct method
    for strict in (SwitchDR(0.0), ShrinkageDR(0.0), PessimisticDR(0.0)):
        direct = strict.estimate(request).value
        assert direct == pytest.approx(SwitchDR(0.0).estimate(request).value, abs=1e-12)


@every
@EXAMPLES
@given(seed=seeds, scale=st.sampled_from([0.25, 2.0, 64.0]))
def test_rescaled_rewards_rescale_the_value(name: str, make_log: MakeLog, seed: int, scale: float) -> None:
    log = make_log("dense", seed=seed)
    result, rescaled = (
        estimate(name, with_rewards(log, factor * log.rewards, (0.0, factor)), seed=seed) for factor in (1.0, scale)
    )
    assert rescaled.value == pytest.approx(scale * result.value, rel=1e-9)
    assert rescaled.std_error == pytest.approx(scale * result.std_error, rel=1e-6)
    assert rescaled.interval.low == pytest.approx(scale * result.interval.low, rel=1e-6, abs=1e-9)
    assert rescaled.interval.high == pytest.approx(scale * result.interval.high, rel=1e-6, abs=1e-9)


SHIFTED = ["SNIPS", "BaselineIPS", "DR", "SNDR", "MRDR", *SHAPED]


@pytest.mark.parametrize("name", SHIFTED)
@EXAMPLES
@given(seed=seeds, shift=st.sampled_from([-1.0, 3.0]))
def test_shifted_rewards_shift_the_value(name: str, make_log: MakeLog, seed: int, shift: float) -> None:
    log = make_log("dense", seed=seed)
    shifted = with_rewards(log, log.rewards + shift, (shift, 1.0 + shift))
    assert value(name, shifted, seed=seed) == pytest.approx(value(name, log, seed=seed) + shift, abs=1e-9)


@every
@EXAMPLES
@given(seed=seeds, order=st.permutations(range(3)))
def test_relabelled_actions_change_nothing(name: str, make_log: MakeLog, seed: int, order: list[int]) -> None:
    log = make_log("dense", seed=seed)
    assert log.logging_probabilities is not None
    back = np.argsort(order)
    logging = np.ascontiguousarray(log.logging_probabilities[:, order])
    renamed = replace_columns(log, actions=back[log.actions], logging_probabilities=logging)
    policy = FromScores(lambda contexts: scores(contexts)[:, order], epsilon=0.5)
    assert value(name, renamed, policy, seed=seed) == pytest.approx(value(name, log, seed=seed), abs=1e-9)


@every
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_seed_gives_the_same_answer_and_nothing_is_touched(name: str, layout: str, make_log: MakeLog) -> None:
    log = make_log(layout, seed=3)
    policy = FromScores(scores, epsilon=0.5)
    columns: list[Any] = [log.actions.copy(), log.rewards.copy(), log.propensities.copy(), copy.deepcopy(log.contexts)]
    state = copy.copy(vars(policy))
    first, second = estimate(name, log, policy, seed=11), estimate(name, log, policy, seed=11)
    assert first.to_dict() == second.to_dict()
    assert vars(policy) == state
    for before, after in zip(columns, (log.actions, log.rewards, log.propensities, log.contexts), strict=True):
        assert abs(before - after).max() == 0


@every
def test_a_learning_policy_is_refused(name: str, make_log: MakeLog) -> None:
    with pytest.raises(NeedsStationaryPolicy, match="evaluates fixed policies and EpsilonGreedy learns;"):
        estimate(name, make_log("dense"), EpsilonGreedy(0.1))


@every
def test_a_log_that_says_nothing_of_the_policy_is_refused(name: str) -> None:
    logging = np.tile([0.5, 0.5, 0.0], (4, 1))
    log = Log(None, [0, 1, 0, 1], [1, 0, 1, 0], [0.5] * 4, n_actions=3, logging_probabilities=logging)
    with pytest.raises(EvaluationError, match="probability 0"):
        estimate(name, log, Fixed([0.0, 0.0, 1.0]))


def parts_of(log: Log, cuts: list[int]) -> list[Log]:
    """A log in parts, as a stream gives it."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(log)}), len(log)]
    return [log[start:end] for start, end in pairwise(edges)]


STREAMED = [name for name in ALL if name != "MRDR"]


@pytest.mark.parametrize("name", STREAMED)
@EXAMPLES
@given(seed=seeds, cuts=st.lists(st.integers(1, 59), max_size=5))
def test_a_stream_gives_the_answer_of_the_log(name: str, make_log: MakeLog, seed: int, cuts: list[int]) -> None:
    log = make_log("dense", seed=seed)
    table = np.random.default_rng(seed).random((len(log), log.n_actions))
    whole, streamed = (
        estimate(name, part, reward_model=table) for part in (log, LogStream.from_logs(parts_of(log, cuts)))
    )
    assert streamed.value == pytest.approx(whole.value, rel=1e-9)
    assert streamed.std_error == pytest.approx(whole.std_error, rel=1e-6)
    assert streamed.interval.low == pytest.approx(whole.interval.low, rel=1e-6, abs=1e-9)
    assert streamed.diagnostics.events == len(log)


@EXAMPLES
@given(seed=seeds, cuts=st.lists(st.integers(1, 59), max_size=5))
def test_merged_shards_are_the_whole(make_log: MakeLog, seed: int, cuts: list[int]) -> None:
    log = make_log("dense", seed=seed)

    def sums(part: Log) -> Moments:
        return moments_of(
            weight_events(EvaluationRequest(part, POLICY, reward_model=0.25), uses_model=True), [IDENTITY]
        )[0]

    whole, merged = sums(log), sum((sums(part) for part in parts_of(log, cuts)), start=Moments.empty())
    assert merged.n == whole.n
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(merged.low, whole.low)
    np.testing.assert_array_equal(merged.high, whole.high)


@EXAMPLES
@given(seed=seeds)
def test_cross_fitting_fold_by_fold_is_cross_fitting(make_log: MakeLog, seed: int) -> None:
    """The pass never holds predictions of all events and actions, and yet uses the very same ones."""
    log = make_log("dense", seed=seed)
    model = CrossFit(PerAction(), folds=4)
    table = model.predictions(log, RandomStreams.from_seed(seed).folds).predicted
    for name in ("DR", "SNDR", "SwitchDR"):
        by_table = value(name, log, reward_model=table, seed=seed)
        assert value(name, log, reward_model=model, seed=seed) == pytest.approx(by_table, rel=1e-12)


class Sparse:
    """A policy over many actions that answers for single ones: half on one action, half on the next."""

    def __init__(self, n_actions: int, *, tables: bool = True) -> None:
        self.n_actions, self.tables = n_actions, tables

    def first(self, contexts: Any) -> Any:
        return (np.abs(contexts[:, 0]) * 1000).astype(np.int64) % self.n_actions

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        assert self.tables, "no caller may ask for a table"
        table = np.zeros((len(contexts), self.n_actions))
        first = self.first(contexts)
        table[np.arange(len(contexts)), first] += 0.5
        table[np.arange(len(contexts)), (first + 1) % self.n_actions] += 0.5
        return table

    def probability_of(self, contexts: Any, actions: Any) -> Any:
        first = self.first(contexts)
        return 0.5 * (actions == first) + 0.5 * (actions == (first + 1) % self.n_actions)

    def expectation(self, contexts: Any, values: Any) -> Any:
        first = self.first(contexts)
        return 0.5 * values(first) + 0.5 * values((first + 1) % self.n_actions)


class Sloping:
    """A reward model that answers for single actions too."""

    def __init__(self, n_actions: int, *, tables: bool = True) -> None:
        self.n_actions, self.tables = n_actions, tables

    def fit(self, log: Log) -> Sloping:
        return self

    def predict(self, contexts: Any) -> Any:
        assert self.tables, "no caller may ask for a table"
        return np.tile(np.arange(self.n_actions) / self.n_actions, (contexts.shape[0], 1))

    def predict_actions(self, contexts: Any, actions: Any) -> Any:
        return actions / self.n_actions


def many_actions(n: int, n_actions: int, rng: np.random.Generator) -> Log:
    contexts = rng.normal(size=(n, 2))
    # half of the events show what the policy might have done
    best = (Sparse(n_actions).first(contexts) + rng.integers(2, size=n)) % n_actions
    actions = np.where(rng.random(n) < 0.5, best, rng.integers(n_actions, size=n))
    return Log(contexts, actions, rng.random(n), rng.uniform(0.1, 1.0, n), n_actions=n_actions, reward_range=(0, 1))


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith(("CAB", "MRDR"))])
def test_a_policy_that_answers_for_single_actions_is_never_asked_for_all(name: str) -> None:
    log = many_actions(200, 50, np.random.default_rng(0))
    by_table = estimate(name, log, Fixed(Sparse(50).probabilities), reward_model=Sloping(50))
    single = estimate(name, log, Sparse(50, tables=False), reward_model=Sloping(50, tables=False))
    assert single.value == pytest.approx(by_table.value, rel=1e-12)
    assert single.std_error == pytest.approx(by_table.std_error, rel=1e-9)


def test_the_direct_method_needs_no_table_either() -> None:
    log = many_actions(200, 50, np.random.default_rng(0))
    by_table = answer_of(DM(), log, Fixed(Sparse(50).probabilities), Sloping(50))
    assert answer_of(DM(), log, Sparse(50, tables=False), Sloping(50, tables=False)) == pytest.approx(by_table)


def answer_of(evaluator: Any, log: Log, policy: Any, model: Any) -> float:
    return float(evaluator.estimate(EvaluationRequest(log, policy, reward_model=model)).value)


def peak_memory(work: Any, n: int, n_actions: int) -> int:
    """Bytes at the most while a log of so many events and actions is worked on, without the log itself."""
    log = many_actions(n, n_actions, np.random.default_rng(0))
    work(log[:100], n_actions)  # imports and compilation are not counted
    tracemalloc.start()
    work(log, n_actions)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def by_evaluator(evaluator: Any) -> Any:
    def work(log: Log, n_actions: int) -> None:
        answer_of(evaluator, log, Sparse(n_actions, tables=False), Sloping(n_actions, tables=False))

    return work


LEAN = {
    **{type(each).__name__: by_evaluator(each) for each in (IPS(), SNIPS(), DR(), DM(), SwitchDR(), CVaR())},
    "reward_distribution": lambda log, k: reward_distribution(log, Sparse(k, tables=False)),
}


@pytest.mark.parametrize("name", LEAN)
def test_memory_grows_with_the_events_and_not_with_the_actions(name: str) -> None:
    few, many, longer = (
        peak_memory(LEAN[name], *size) for size in [(20_000, 1_000), (20_000, 10_000), (40_000, 1_000)]
    )
    # events times actions would be 160 MB, 1,600 MB and 320 MB
    assert few < 20e6
    assert many < 1.2 * few
    assert longer < 2.5 * few


def test_check_asks_for_single_actions_too() -> None:
    def work(log: Log, n_actions: int) -> None:
        check(log, Sparse(n_actions, tables=False))

    # it predicts at most 4 million events times actions at a time, in a few arrays of 32 MB; the log has 200 million
    assert peak_memory(work, 20_000, 10_000) < 200e6


@every
def test_one_event_gives_a_value_and_no_interval(name: str) -> None:
    log = Log([[1.0, 0.0]], [0], [0.5], [0.5], n_actions=3, logging_probabilities=[[0.5, 0.25, 0.25]])
    result = estimate(name, log, reward_model=Constant(0.25))
    assert np.isfinite(result.value)
    assert math.isnan(result.std_error)
    assert result.interval is None
