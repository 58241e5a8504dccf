"""Invalid policies: each is refused with the row, the value and the remedy."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import backcast as bc
from tests.support.logs import three_action_log
from tests.support.policies import AnsweringPolicy, uniform

K, N = 3, 20  # actions and events of the log


def rows(*bad: float) -> Any:
    """Uniform probabilities up to row 2 of the log, and these from row 3 on."""
    return lambda contexts: np.where(contexts[:, :1] < 3, uniform(contexts), bad)


class Still(AnsweringPolicy):
    """The same, without learning."""

    learn = None  # type: ignore[assignment]


EVALUATORS_OF_LEARNERS = [bc.DRns(), bc.WC(), bc.RS(), bc.Replay(), bc.DM()]
EVALUATORS_OF_FIXED = [bc.IPS(), bc.SNIPS(), bc.DR()]

BAD_PROBABILITIES = [
    (lambda x: np.full((len(x), K + 1), 0.25), ["returned shape (", "4); expected (", "3)", "one row per event"]),
    (lambda x: np.full((len(x) + 1, K), 1 / K), ["returned shape (", "expected ("]),
    (lambda x: np.full(len(x), 1.0), ["returned shape (", "expected ("]),
    (rows(1.5, -0.5, 0.0), ["row 3", "-0.5 to action 1", "numbers >= 0"]),
    (rows(0.5, np.nan, 0.5), ["row 3", "nan to action 1", "numbers >= 0"]),
    (rows(0.5, np.inf, 0.5), ["row 3", "inf to action 1", "numbers >= 0"]),
    (rows(0.5, 0.25, 0.0), ["row 3", "sum to 0.75", "must sum to 1", "Normalise"]),
    (rows(0.5, 0.5, 1e-8), ["row 3", "sum to 1.00000001", "1e-09"]),
    (rows(1.0, 1.0, 1.0), ["row 3", "sum to 3"]),
    (lambda x: 1 / 0, ["probabilities failed on rows 0..", "ZeroDivisionError: division by zero"]),
    (None, ["returned shape (); expected ("]),
    ("nonsense", ["returned str; expected an array of numbers, shape (", "could not convert string"]),
    ([[0.5, 0.5], [1.0]], ["returned list; expected an array of numbers"]),
]


@pytest.mark.parametrize(("answer", "words"), BAD_PROBABILITIES)
@pytest.mark.parametrize("evaluator", [*EVALUATORS_OF_LEARNERS, *EVALUATORS_OF_FIXED])
def test_probabilities_that_break_the_contract(evaluator: Any, answer: Any, words: list[str]) -> None:
    policy = (Still if evaluator in EVALUATORS_OF_FIXED else AnsweringPolicy)(answer)
    with pytest.raises(bc.PolicyError) as caught:
        bc.evaluate(three_action_log(), policy, evaluator, reward_model=0.5)
    message = str(caught.value)
    assert type(policy).__name__ in message
    assert [word for word in words if word not in message] == []


def test_probabilities_may_miss_one_by_rounding() -> None:
    bc.evaluate(three_action_log(), AnsweringPolicy(rows(0.5, 0.5, 5e-10)), bc.DRns(), reward_model=0.5)


def test_mass_on_an_unavailable_action() -> None:
    available = np.ones((N, K), dtype=bool)
    available[5, 1] = False
    log = three_action_log(
        available=available, action_labels=["mail", "call", "none"], actions=["mail"] * N, n_actions=None
    )
    with pytest.raises(
        bc.PolicyError, match=r"row 5: AnsweringPolicy\.probabilities give 0\.333333 to action 'call', which is not"
    ):
        bc.evaluate(log, AnsweringPolicy(uniform), bc.DRns(), reward_model=0.5)


def test_rows_are_named_as_in_the_log_they_came_from() -> None:
    with pytest.raises(bc.PolicyError, match="row 10: "):
        bc.evaluate(three_action_log()[10:], AnsweringPolicy(rows(1.0, 1.0, 1.0)), bc.DRns(), reward_model=0.5)


class Failing(AnsweringPolicy):
    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        raise KeyError("no such thing")


class FailingStart(AnsweringPolicy):
    def start(self, n_actions: int, n_features: int, rng: Any) -> None:
        raise RuntimeError("out of order")


def test_errors_inside_a_policy_are_named_and_kept() -> None:
    with pytest.raises(
        bc.PolicyError, match=r"Failing\.learn failed on rows \[\d+\]: KeyError: 'no such thing'"
    ) as caught:
        bc.evaluate(three_action_log(), Failing(uniform), bc.DRns(), reward_model=0.5)
    assert isinstance(caught.value.__cause__, KeyError)
    words = r"FailingStart\.start failed for 3 actions and 2 features: RuntimeError: out of order"
    with pytest.raises(bc.PolicyError, match=words):
        bc.evaluate(three_action_log(), FailingStart(uniform), bc.DRns(), reward_model=0.5)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_batches_hold_at_least_one_event(batch_size: int) -> None:
    with pytest.raises(bc.PolicyError, match=f"AnsweringPolicy.batch_size is {batch_size}; it must be at least 1"):
        bc.evaluate(three_action_log(), AnsweringPolicy(uniform, batch_size), bc.DRns(), reward_model=0.5)
    with pytest.raises(bc.OptionError, match=f"batch_size is {batch_size}"):
        bc.LinUCB(batch_size=batch_size)


def test_a_policy_that_cannot_be_copied() -> None:
    policy = AnsweringPolicy(uniform)
    policy.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(
        bc.PolicyError,
        match=r"AnsweringPolicy cannot be copied .*lock.*evaluators train a copy\. Give it a __deepcopy__",
    ):
        bc.evaluate(three_action_log(), policy, bc.DRns(), reward_model=0.5)


def test_a_policy_that_writes_into_the_log() -> None:
    class Scribbling(AnsweringPolicy):
        def probabilities(self, contexts: Any, available: Any = None) -> Any:
            contexts[0] = 7.0
            return uniform(contexts)

    with pytest.raises(bc.PolicyError, match="read-only"):
        bc.evaluate(three_action_log(), Scribbling(None), bc.DRns(), reward_model=0.5)


def test_policies_that_want_more_than_the_log_has() -> None:
    bare = bc.Log(None, [0, 1], [1, 0], [0.5, 0.5])
    with pytest.raises(bc.OptionError, match="a linear learner needs contexts and the log has none; use UCB1"):
        bc.evaluate(bare, bc.LinUCB(), bc.DRns(), reward_model=0.5)
    wide = bc.Log(np.zeros((2, 20_000)), [0, 1], [1, 0], [0.5, 0.5])
    with pytest.raises(bc.OptionError, match=r"2 of 20000 x 20000 would need 6\.0 GiB.*fewer features"):
        bc.evaluate(wide, bc.LinUCB(), bc.DRns(), reward_model=0.5)
    with pytest.raises(bc.PolicyError, match=r"Logged\(\) needs the probabilities of all actions"):
        bc.evaluate(bare, bc.Logged(), bc.DRns(), reward_model=0.5)
    with pytest.raises(bc.PolicyError, match="Logged was given 1 rows of probabilities; the log has row 1"):
        bc.evaluate(bare, bc.Logged(np.array([[0.5, 0.5]])), bc.DRns(), reward_model=0.5)
    with pytest.raises(bc.OptionError, match=r"needs K probabilities.*write DRns\(acceptance=0\.5\)"):
        bc.Fixed(0.5)
    known = np.zeros((2, 1)), np.zeros((2, 1))
    with pytest.raises(bc.OptionError, match=r"initial rewards have shape \(2, 1\); expected \(2, 2\)"):
        bc.evaluate(bare, bc.FromClassifier(LinearRegression(), initial=known), bc.DRns(), reward_model=0.5)


def test_policies_asked_before_their_start_say_so() -> None:
    for policy in (bc.LinUCB(), bc.Uniform(), bc.FromClassifier(LinearRegression())):
        with pytest.raises(bc.PolicyError, match=r"call start\(n_actions"):
            policy.probabilities(np.zeros((1, 2)))
    with pytest.raises(bc.PolicyError, match="is defined only for the events of the log"):
        bc.Logged().probabilities(np.zeros((1, 2)))


def test_a_compiled_state_must_be_a_named_tuple_of_its_own() -> None:
    def kernel(*arguments: Any) -> None: ...

    with pytest.raises(bc.PolicyError, match=r"initial\(\) returned dict; a compiled state must be a NamedTuple"):
        bc.evaluate(three_action_log(), bc.Compiled(lambda n, d: {}, kernel, kernel), bc.DRns(), reward_model=0.5)
    from backcast.policies.context_free import CycleState

    policy = bc.Compiled(lambda n, d: CycleState(np.zeros(1, dtype=np.int64)), kernel, kernel)
    with pytest.raises(bc.PolicyError, match="CycleState has kernels already; define a state class for this policy"):
        bc.evaluate(three_action_log(), policy, bc.DRns(), reward_model=0.5)
