"""Estimators of fixed policies: known values, streams, tuning, messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import backcast as bc
import backcast.evaluators._reward_predictions as predicting
from backcast._parallel.jobs import Execution
from backcast._request import EvaluationRequest, Evaluator
from backcast.environments import LinearEnvironment
from backcast.errors import EvaluationError, OptionError, PolicyError
from backcast.evaluation import evaluate
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
from backcast.evaluators._weight_transforms import slope_plus_plus
from backcast.evaluators.doubly_robust import mrdr_weights
from backcast.intervals.asymptotic import Normal
from backcast.io.stream import MemoryLogStream
from backcast.log import Log, replace_columns
from backcast.policies.fixed import Fixed, Uniform
from backcast.reward_models import Constant, Fitted, Joint, PerAction, Split
from tests.support.tabular import TabularWorld

EVERY: list[Any] = [
    IPS(),
    SNIPS(),
    BaselineIPS(),
    ClippedIPS(),
    DR(),
    SNDR(),
    MRDR(),
    CAB(),
    SwitchDR(),
    ShrinkageDR(),
    PessimisticDR(),
    SubGaussian(),
]
every = pytest.mark.parametrize("evaluator", EVERY, ids=lambda evaluator: type(evaluator).__name__)


def table_log(n: int = 20_000, seed: int = 0) -> Log:
    """Uniform log of ten actions: action 0 pays 0.6, the others 0.2."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(10, size=n)
    rewards = rng.random(n) < np.where(actions == 0, 0.6, 0.2)
    logging = np.full((n, 10), 0.1)
    return Log(None, actions, rewards, [0.1] * n, n_actions=10, reward_range=(0, 1), logging_probabilities=logging)


TABLE = table_log()


@every
@pytest.mark.parametrize(("policy", "truth"), [([1.0] + [0.0] * 9, 0.6), ([0.55] + [0.05] * 9, 0.42)])
def test_the_regression_table(evaluator: Any, policy: list[float], truth: float) -> None:
    result = evaluator.estimate(EvaluationRequest(TABLE, Fixed(policy)))
    # 4 standard errors: odds of 6e-5 each, 2e-3 for all 24 (the seed is fixed)
    assert abs(result.value - truth) < 4 * result.std_error
    assert result.interval.low < result.value < result.interval.high
    assert result.std_error < 0.02
    assert result.diagnostics.mean_weight == pytest.approx(1.0, abs=0.15)


UNBIASED: list[Any] = [IPS(), SNIPS(), BaselineIPS(), DR(), SNDR(), MRDR()]


@pytest.mark.slow
@pytest.mark.parametrize("evaluator", UNBIASED, ids=lambda evaluator: type(evaluator).__name__)
def test_unbiased_over_many_logs_of_a_tabular_world(evaluator: Any) -> None:
    world = TabularWorld(
        [0.5, 0.3, 0.2],
        mean_rewards=[[0.9, 0.1], [0.2, 0.6], [0.5, 0.4]],
        logging=[[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]],
    )
    policy = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]
    answers = [
        evaluator.estimate(EvaluationRequest(world.log(300, np.random.default_rng(run)), Fixed(lambda x: x @ policy)))
        for run in range(60)
    ]
    values = np.array([result.value for result in answers])
    # 4 standard errors of the mean of 60 logs: odds of 6e-5 each
    assert abs(values.mean() - world.value(policy)) < 4 * values.std() / 60**0.5
    # the errors they state are those they make: chi-square with 59 degrees, odds of 1e-6 beyond these bounds
    stated = np.sqrt(np.mean([result.std_error**2 for result in answers]))
    assert 0.57 < values.std() / stated < 1.49


@pytest.mark.parametrize("evaluator", UNBIASED, ids=lambda evaluator: type(evaluator).__name__)
def test_unbiased_in_a_linear_world(evaluator: Any) -> None:
    world = LinearEnvironment(3, 4, logistic=True, logging="paper", seed=2)
    weights = np.random.default_rng(1).normal(size=(4, 3))

    def policy(contexts: Any) -> Any:
        scores = np.exp(contexts @ weights)
        return scores / scores.sum(axis=1, keepdims=True)

    truth = world.value(Fixed(policy), 200_000, np.random.default_rng(7))
    result = evaluator.estimate(EvaluationRequest(world.log(20_000, np.random.default_rng(3)), Fixed(policy)))
    # odds of a false alarm 6e-5 each; the seed is fixed
    assert abs(result.value - truth.value) < 4 * math.hypot(result.std_error, truth.std_error)


def test_a_good_model_takes_variance_away() -> None:
    world = LinearEnvironment(4, 5, noise=0.1, logging="uniform", seed=1)
    log = world.log(4000, np.random.default_rng(0))
    policy = Fixed([0.7, 0.1, 0.1, 0.1])
    assert (
        DR().estimate(EvaluationRequest(log, policy)).std_error
        < 0.6 * IPS().estimate(EvaluationRequest(log, policy)).std_error
    )


def test_evaluators_satisfy_the_protocol_and_name_themselves() -> None:
    for evaluator in EVERY:
        assert isinstance(evaluator, Evaluator)
        assert evaluator.estimate(EvaluationRequest(TABLE[:100], Uniform())).evaluator == type(evaluator).__name__


class CountedStream(MemoryLogStream):
    """Counts how often its parts are read."""

    passes = 0

    def parts(self) -> Iterator[Log]:
        CountedStream.passes += 1
        return super().parts()


def stream_of(log: Log, rows: int) -> CountedStream:
    CountedStream.passes = 0
    return CountedStream(tuple(log[start : start + rows] for start in range(0, len(log), rows)))


def test_a_stream_trains_its_model_on_the_head_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "HEAD_EVENTS", 1000)
    log = TABLE[:5000]
    result = DR().estimate(EvaluationRequest(stream_of(log, 400), Fixed([0.55] + [0.05] * 9), reward_model=PerAction()))
    by_hand = DR().estimate(
        EvaluationRequest(log[1000:], Fixed([0.55] + [0.05] * 9), reward_model=Fitted(PerAction().fit(log[:1000])))
    )
    assert result.value == pytest.approx(by_hand.value, rel=1e-12)
    assert result.diagnostics.events == 4000
    assert "first 1,000 events" in result.notes[0]


def test_a_short_stream_is_read_whole_and_cross_fitted() -> None:
    log, policy = TABLE[:3000], Fixed([0.55] + [0.05] * 9)
    streamed, whole = (
        DR().estimate(EvaluationRequest(source, policy, seed=4)) for source in (stream_of(log, 700), log)
    )
    assert streamed.value == pytest.approx(whole.value, rel=1e-12)
    assert streamed.diagnostics.events == 3000


def test_a_stream_is_weighed_once_where_sums_are_enough() -> None:
    stream = stream_of(TABLE[:2000], 300)
    SNIPS().estimate(EvaluationRequest(stream, Uniform()))
    # one pass for the sums, and one look at the first part for what the log declares
    assert stream.passes == 2


def test_progress_is_reported_once_for_every_event() -> None:
    for source in (TABLE[:2000], stream_of(TABLE[:2000], 300)):
        reported: list[int] = []
        ClippedIPS().estimate(EvaluationRequest(source, Uniform(), execution=Execution(on_progress=reported.append)))
        assert sum(reported) == 2000


def test_a_split_model_leaves_its_events_out() -> None:
    result = DR().estimate(EvaluationRequest(TABLE[:1000], Uniform(), reward_model=Split(Constant(), 0.25)))
    assert result.diagnostics.events == 750


def test_slope_prefers_the_narrow_only_while_it_agrees() -> None:
    reaches = np.array([1.0, 0.1, 0.01])
    assert slope_plus_plus(np.array([0.0, 0.5, 0.55]), reaches) == 2
    assert slope_plus_plus(np.array([0.0, 0.5, 5.0]), reaches) == 1
    assert slope_plus_plus(np.array([0.0, 5.0, 0.0]), reaches) == 0
    # candidates need not come in order
    assert slope_plus_plus(np.array([0.55, 0.0, 0.5]), reaches[[2, 0, 1]]) == 0


def heavy_log(n: int, seed: int) -> tuple[Log, float]:
    """A log whose policy lives on an action of probability 0.002, and what the policy is worth."""
    rng = np.random.default_rng(seed)
    rare = rng.random(n) < 0.002
    rewards = (rng.random(n) < 0.5) * 1.0
    propensities = np.where(rare, 0.002, 0.998)
    return Log(None, rare.astype(int), rewards, propensities, n_actions=2, reward_range=(0, 1)), 0.5


@pytest.mark.parametrize("evaluator", [SwitchDR(), ShrinkageDR(), PessimisticDR(), SubGaussian()])
def test_tuning_beats_no_tuning_where_weights_are_heavy_and_the_model_is_right(evaluator: Any) -> None:
    errors = []
    for seed in range(30):
        log, truth = heavy_log(500, seed)
        request = EvaluationRequest(log, Fixed([0.5, 0.5]), reward_model=Constant(), seed=seed)
        errors.append([evaluator.estimate(request).value - truth, DR().estimate(request).value - truth])
    select_threshold, untuned = np.sqrt(np.mean(np.square(errors), axis=0))
    assert select_threshold < 0.7 * untuned


def test_a_chosen_threshold_is_on_record_and_its_bias_noted() -> None:
    log, _ = heavy_log(5000, 1)
    result = ClippedIPS(threshold=2.0).estimate(EvaluationRequest(log, Fixed([0.5, 0.5])))
    assert result.settings["threshold"] == 2.0
    assert any("bias" in note for note in result.notes)
    assert result.interval is not None
    assert "bias" in result.interval.estimand


@pytest.mark.parametrize("evaluator", [ClippedIPS(), SwitchDR(), ShrinkageDR(), PessimisticDR(), SubGaussian(), CAB()])
def test_a_tuned_estimate_states_the_error_of_the_untuned(evaluator: Any) -> None:
    """With SWITCH at 0 the model alone would speak, and claim a tiny error."""
    request = EvaluationRequest(TABLE, Fixed([0.55] + [0.05] * 9))
    plain: Any = IPS() if isinstance(evaluator, ClippedIPS | CAB) else DR()
    untuned, select_threshold = plain.estimate(request), evaluator.estimate(request)
    assert select_threshold.settings["tuned"]
    assert select_threshold.std_error == pytest.approx(untuned.std_error)
    assert select_threshold.interval.low <= select_threshold.value <= select_threshold.interval.high
    assert select_threshold.interval.estimand == untuned.interval.estimand
    assert any("smallest estimated mean squared error" in note for note in select_threshold.notes)


def test_warnings_of_poor_overlap_and_of_wrong_propensities() -> None:
    log, _ = heavy_log(5000, 1)
    poor = IPS().estimate(EvaluationRequest(log, Fixed([0.0, 1.0])))
    assert any("hardly overlap" in note for note in poor.notes)
    wrong = replace_columns(TABLE, propensities=np.full(len(TABLE), 0.2), logging_probabilities=None)
    assert any("average 0.5" in note for note in IPS().estimate(EvaluationRequest(wrong, Uniform())).notes)


def test_estimated_propensities_are_carried_along() -> None:
    log = replace_columns(TABLE[:100], propensities_estimated=True)
    assert IPS().estimate(EvaluationRequest(log, Uniform())).diagnostics.to_dict()["propensities_estimated"]


def test_mrdr_fits_what_the_policy_does() -> None:
    """Two lines on one action: the policy cares for large x only, and so does the model fitted for it."""
    x = np.linspace(0, 1, 200)
    rewards = np.abs(x - 0.5)
    log = Log(x[:, None], np.zeros(200, dtype=int), rewards, np.where(x > 0.5, 0.1, 0.9), n_actions=1)
    model = PerAction(LinearRegression(), weights=mrdr_weights(Uniform())).fit(log)
    np.testing.assert_allclose(model.predict(np.array([[1.0]]))[0, 0], 0.5, atol=0.05)
    assert PerAction(LinearRegression()).fit(log).predict(np.array([[1.0]]))[0, 0] < 0.3


def test_mrdr_takes_an_estimator_and_refuses_a_model() -> None:
    for model in (None, Ridge(), PerAction(Ridge())):
        assert np.isfinite(MRDR().estimate(EvaluationRequest(TABLE[:200], Uniform(), reward_model=model)).value)
    with pytest.raises(OptionError, match="MRDR fits its own reward model and was given Joint"):
        MRDR().estimate(EvaluationRequest(TABLE[:200], Uniform(), reward_model=Joint()))


def test_cab_needs_the_whole_record() -> None:
    log = replace_columns(TABLE[:50], logging_probabilities=None)
    with pytest.raises(EvaluationError, match="PessimisticDR"):
        CAB().estimate(EvaluationRequest(log, Uniform()))


def test_cab_uses_the_model_where_the_logger_never_goes() -> None:
    logging = np.tile([1.0, 0.0], (10, 1))
    log = Log(None, [0] * 10, [0.5] * 10, [1.0] * 10, n_actions=2, logging_probabilities=logging)
    result = CAB(math.inf).estimate(
        EvaluationRequest(log, Fixed([0.5, 0.5]), reward_model=np.tile([0.0, 1.0], (10, 1)))
    )
    # half of the mass at the reward seen, half at the model's 1
    assert result.value == pytest.approx(0.75)


@pytest.mark.parametrize("threshold", [-1.0, math.nan, "best"])
@pytest.mark.parametrize("kind", [ClippedIPS, SwitchDR, ShrinkageDR, PessimisticDR, SubGaussian, CAB])
def test_thresholds_that_make_no_sense_are_refused(kind: Any, threshold: Any) -> None:
    with pytest.raises(OptionError, match="threshold is"):
        kind(threshold)


def test_a_sub_gaussian_threshold_is_a_share() -> None:
    with pytest.raises(OptionError, match="<= 1"):
        SubGaussian(2.0)


class Liar:
    """A policy whose probabilities of single actions are no probabilities."""

    def __init__(self, answer: Any) -> None:
        self.estimate = answer

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        raise AssertionError

    def probability_of(self, contexts: Any, actions: Any) -> Any:
        return self.estimate


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5, 1.5, 0.5], "row 1: Liar.probability_of is 1.5"),
        ([0.5, math.nan, 0.5], "row 1: Liar.probability_of is nan"),
        ([0.5, 0.5], r"shape \(2,\); expected \(3,\)"),
    ],
)
def test_a_policy_that_breaks_the_short_contract_is_refused(answer: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        IPS().estimate(EvaluationRequest(TABLE[:3], Liar(answer)))


def test_options_of_the_interval_are_checked() -> None:
    for wrong in ("wide", Normal):
        with pytest.raises(OptionError, match=r"interval is .*give an interval for fixed policies"):
            IPS().estimate(EvaluationRequest(TABLE[:10], Uniform(), interval=wrong))
    with pytest.raises(OptionError, match=r"level is 1\.5"):
        IPS().estimate(EvaluationRequest(TABLE[:10], Uniform(), level=1.5))


def test_default_intervals_follow_the_declared_range() -> None:
    request = EvaluationRequest(TABLE[:500], Uniform())
    assert _method(IPS(), request) == _method(SNIPS(), request) == "Cressie-Read"
    assert _method(DR(), request) == "adjusted Student"
    unknown = EvaluationRequest(replace_columns(TABLE[:500], reward_range=None), Uniform())
    assert _method(IPS(), unknown) == "adjusted Student"
    assert _method(IPS(), EvaluationRequest(TABLE[:500], Uniform(), interval=Normal())) == "normal"


def _method(evaluator: Any, request: EvaluationRequest) -> str:
    interval = evaluator.estimate(request).interval
    return str(interval.method)


def test_a_stream_refuses_a_model_that_cannot_be_fitted_on_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    class Oracle:
        def predictions(self, log: Log, rng: Any) -> Any:
            raise AssertionError

    monkeypatch.setattr(predicting, "HEAD_EVENTS", 100)
    with pytest.raises(EvaluationError, match="Oracle needs the whole log in memory"):
        DR().estimate(EvaluationRequest(stream_of(TABLE[:500], 100), Uniform(), reward_model=Oracle()))


def test_a_log_that_can_be_read_only_once_is_refused() -> None:
    with pytest.raises(OptionError, match=r"log is a list_iterator; give a Log, .*Monitor"):
        evaluate(cast(Any, iter([TABLE[:10], TABLE[10:20]])), Uniform(), IPS())


def test_a_value_that_few_events_carry_has_a_note() -> None:
    rng = np.random.default_rng(0)
    rewards, actions = rng.random(1000), rng.integers(2, size=1000)
    even = bc.Log(None, actions, rewards, np.full(1000, 0.5))
    assert not any("largest events" in note for note in bc.evaluate(even, bc.Uniform(), bc.IPS()).notes)
    rewards[:5] = 200.0
    outliers = bc.Log(None, actions, rewards, np.full(1000, 0.5))
    share = 1000 / rewards.sum()  # about 0.66
    notes = bc.evaluate(outliers, bc.Uniform(), bc.IPS()).notes
    assert f"the 5 largest events carry {100 * share:.0f} % of the value: inspect their rewards" in notes
