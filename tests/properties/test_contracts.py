"""Every built-in evaluator, interval and reward model passes the checks that extensions can run on themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest

import backcast as bc
from backcast.checks import check_evaluator, check_interval, check_reward_model
from backcast.evaluators import EvaluationRequest, PassEvaluator, PassResult
from backcast.intervals import IntervalMethod, WeightedSample
from bench.accuracy.contestants import PSRS, Queue
from tests.properties.test_evaluators import EVALUATORS, FITS_ITS_OWN_MODEL
from tests.properties.test_reward_models import MODELS, random_log
from tests.support.logs import two_action_log

INTERVALS = {
    name: getattr(bc.intervals, name)()
    for name in bc.intervals.__all__
    if isinstance(getattr(bc.intervals, name), type)
    and not getattr(getattr(bc.intervals, name), "_is_protocol", False)
    and issubclass(getattr(bc.intervals, name), IntervalMethod)
}


@pytest.mark.parametrize("name", [name for name in EVALUATORS if name not in FITS_ITS_OWN_MODEL])
def test_built_in_evaluators_keep_the_contract(name: str) -> None:
    averages_rounds = name not in ("DRns", "WC")
    report = check_evaluator(EVALUATORS[name], draws_actions=name == "DM", averages_rounds=averages_rounds)
    assert len(report.laws) >= 7


@pytest.mark.parametrize("evaluator", [Queue(), PSRS()])
def test_evaluators_of_other_authors_keep_the_contract(evaluator: Any) -> None:
    report = check_evaluator(evaluator, two_action_log(), draws_actions=True)
    assert len(report.laws) >= 7


@pytest.mark.parametrize("name", INTERVALS)
def test_built_in_intervals_keep_the_contract(name: str) -> None:
    assert len(check_interval(INTERVALS[name], runs=40).laws) == 5


@pytest.mark.parametrize("name", MODELS)
def test_built_in_reward_models_keep_the_contract(name: str) -> None:
    assert len(check_reward_model(MODELS[name](), random_log(60, 1)).laws) == 7


# Each check fails on an extension that breaks its law.


@dataclass
class FaultyEvaluator(PassEvaluator):
    """Mean reward of the log, with one fault."""

    fault: str
    calls: int = 0

    def run_pass(self, policy: Any, inputs: Any, rows: Any, seed: Any) -> PassResult:
        log = inputs.log if rows is None else inputs.log[rows]
        order = np.random.default_rng(seed).permutation(len(log))
        rewards = log.rewards[order]
        if self.fault == "unseeded":
            rewards = rewards[np.random.default_rng().permutation(rewards.size)]
        if self.fault == "offset":
            rewards = rewards + 0.1
        if self.fault == "squared":
            rewards = np.sqrt(0.75 * rewards)
        if self.fault == "first action":
            rewards = np.where(log.actions[order] == 0, 0.75, rewards)
        if self.fault == "trains":
            policy.memory.append(1)
        return PassResult.from_rounds(rewards, inputs.horizon)

    def estimate(self, request: EvaluationRequest) -> Any:
        if self.fault == "number":
            return 0.5
        estimate = super().estimate(request)
        if self.fault == "curve":
            curve = bc.LearningCurve(*(2 * np.asarray(column) for column in vars(estimate.curve).values()))
            return bc.Estimate(**{**vars(estimate), "curve": curve})
        if self.fault == "jobs":
            return bc.Estimate(**{**vars(estimate), "value": float(request.execution.n_jobs or 0)})
        return estimate


class Remembering:
    """A fixed policy with a state that shows whether it was changed."""

    def __init__(self) -> None:
        self.memory: list[int] = []

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.full((contexts.shape[0], 3), 1 / 3)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("unseeded", "two calls with the same seed differ"),
        ("offset", "rewards that are all the same do not give that reward"),
        ("squared", "rewards times 4 do not give 4 times the value"),
        ("first action", "rewards times 4|other names of the actions"),
        ("trains", "changed the policy"),
        ("number", "returned a float"),
        ("curve", "the learning curve does not average to the value"),
        ("jobs", "with n_jobs=2 differs"),
    ],
)
def test_faulty_evaluators_are_found(fault: str, words: str) -> None:
    policy = Remembering() if fault == "trains" else None
    with pytest.raises(bc.ContractError, match=words):
        check_evaluator(FaultyEvaluator(fault), policy=policy)


def test_an_evaluator_without_a_fault_passes() -> None:
    assert len(check_evaluator(FaultyEvaluator("none")).laws) == 10


@dataclass(frozen=True)
class FaultyInterval:
    """A normal interval with a fault."""

    fault: str

    def interval(self, sample: WeightedSample, level: float) -> Any:
        normal = bc.Normal().interval(sample, level)
        shift, shrink = (1.0 if self.fault == "beside" else 0.0), (0.5 if self.fault == "narrow" else 1.0)
        if self.fault == "fixed width":
            shrink = 0.2 / normal.half_width
        if self.fault == "inverted":
            shrink = (1 - level) * 10
        if self.fault == "random":
            shrink = 2 + float(np.random.default_rng().random())
        half_width = shrink * normal.half_width
        ends = sample.value + shift - half_width, sample.value + shift + half_width
        return bc.Interval(*ends, level, "faulty", "none", "V(pi)") if self.fault != "pair" else ends


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("beside", "does not contain the value"),
        ("narrow", r"contained the true value in \d+ of 200 simulated logs, fewer than"),
        ("fixed width", "rewards times 4 change the half-width"),
        ("inverted", "does not contain"),
        ("random", "two intervals of the same sample differ"),
        ("pair", "returned a tuple"),
    ],
)
def test_faulty_intervals_are_found(fault: str, words: str) -> None:
    with pytest.raises(bc.ContractError, match=words):
        check_interval(FaultyInterval(fault))


@dataclass
class FaultyModel:
    """The mean reward, with a fault."""

    fault: str
    mean: float = 0.0
    fits: int = 0
    shape: tuple[int, ...] = ()

    def fit(self, log: bc.Log) -> Self:
        self.fits += 1
        self.mean = float(log.rewards.mean())
        self.shape = (log.n_actions,)
        if self.fault == "random":
            self.mean = float(np.random.default_rng().random())
        if self.fault == "remembers":
            self.mean /= self.fits
        return self if self.fault != "none returned" else None  # type: ignore[return-value]

    def predict(self, contexts: Any) -> Any:
        table = np.full((contexts.shape[0], *self.shape), self.mean)
        if self.fault == "block":
            table *= 1 - 1 / contexts.shape[0]
        if self.fault == "range":
            table += 5.0
        return table[:, 0] if self.fault == "column" else table


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("random", "differ between two fits"),
        ("remembers", "depend on an earlier fit"),
        ("none returned", "end it with 'return self'"),
        ("block", "depend on the other events of the block"),
        ("range", r"clip predictions to log\.reward_bounds"),
        ("column", r"returned the shape \(60,\)"),
    ],
)
def test_faulty_reward_models_are_found(fault: str, words: str) -> None:
    with pytest.raises(bc.ContractError, match=words):
        check_reward_model(FaultyModel(fault), random_log(60, 1))


@pytest.mark.parametrize(
    "check", [check_evaluator, check_interval, lambda item: check_reward_model(item, two_action_log())]
)
def test_other_objects_are_refused(check: Any) -> None:
    for item in (bc.DRns, "normal", None):
        with pytest.raises(bc.ContractError, match="give an instance with"):
            check(item)
