"""Invalid policies: each is refused with the row, the value and the remedy."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

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
    (rows(0.5, 0.5, 1e-5), ["row 3", "sum to 1.00001", "1e-06"]),
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


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "5", True])
@pytest.mark.parametrize("evaluator", [bc.DRns(), "auto"])
def test_batches_are_whole_numbers_of_events(batch_size: Any, evaluator: Any) -> None:
    with pytest.raises(bc.PolicyError, match=f"AnsweringPolicy.batch_size is {batch_size!r}; it must be at least 1"):
        bc.evaluate(three_action_log(), AnsweringPolicy(uniform, batch_size), evaluator, reward_model=0.5, horizon=5)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_batches_of_built_in_policies_hold_at_least_one_event(batch_size: int) -> None:
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


# What every evaluation checks of its policy

LONG = bc.Log(np.arange(400.0)[:, None], [0, 1, 2, 1] * 100, [1, 0, 0, 1] * 100, [1 / 3] * 400, n_actions=K)


class Fickle(Still):
    """Probabilities that change from call to call."""

    calls = 0

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        self.calls += 1
        shift = 0.1 * (self.calls % 2)
        return np.tile([0.5 + shift, 0.3 - shift, 0.2], (contexts.shape[0], 1))


class Centred(Still):
    """Scores relative to the mean of the block, which does not change if the block is put in another order."""

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        first = 1 / (2 + np.exp((contexts[:, 0] - contexts.mean()) / 100))
        return np.column_stack([first, np.full_like(first, 0.5), 0.5 - first])


class ByPosition(Still):
    """Probabilities by position in the block, not by context."""

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.eye(K)[np.arange(contexts.shape[0]) % K]


@pytest.mark.parametrize(
    ("policy", "law"),
    [
        (Fickle(None), "change between two calls; they may change only in learn"),
        (Centred(None), "depend on the other events of the block; score each event separately"),
        (ByPosition(None), "depend on the other events of the block; score each event separately"),
    ],
)
def test_every_evaluation_refuses_a_policy_that_breaks_a_law(policy: Any, law: str) -> None:
    name = type(policy).__name__
    for log in (LONG, [LONG[:100], LONG[100:]]):
        with pytest.raises(bc.PolicyError, match=rf"row \d+: {name}\.probabilities {law}\. Action \d had"):
            bc.evaluate(log, policy, bc.IPS())
    with pytest.raises(bc.PolicyError, match=law):
        bc.compare(LONG, {"even": bc.Uniform(), "own": policy}, bc.IPS())


def test_a_policy_for_logged_actions_alone_is_checked_too() -> None:
    class Drawn:
        def probability_of(self, contexts: Any, actions: Any) -> Any:
            return np.arange(len(actions)) % 2 * 1.0

    with pytest.raises(bc.PolicyError, match="depend on the other events of the block"):
        bc.evaluate(LONG, Drawn(), bc.IPS())


def test_rounding_in_single_precision_is_no_violation() -> None:
    class Single(Still):
        def probabilities(self, contexts: Any, available: Any = None) -> Any:
            noise = 1e-7 * (contexts.shape[0] % 7)
            return np.tile([0.5 + noise, 0.25 - noise, 0.25], (contexts.shape[0], 1))

    assert bc.evaluate(LONG, Single(None), bc.IPS()).value > 0


def test_the_check_asks_three_times_for_few_events() -> None:
    sizes: list[int] = []

    class Counting(Still):
        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def probabilities(self, contexts: Any, available: Any = None) -> Any:
            sizes.append(contexts.shape[0])
            return uniform(contexts)

    bc.evaluate(LONG, Counting(None), bc.IPS())
    assert sizes == [256, 256, 128, 400]


# Actions by label

LABELLED = bc.Log(
    np.array([[1.0], [-1.0]] * 40),
    ["zeta", "alpha", "zeta", "zeta"] * 20,
    [1.0, 0.0, 1.0, 1.0] * 20,
    [0.5] * 80,
    action_labels=["zeta", "alpha"],
)


def test_a_fixed_policy_names_actions_by_label() -> None:
    always = bc.evaluate(LABELLED, bc.Fixed("zeta"), bc.IPS()).value
    assert always == bc.evaluate(LABELLED, bc.Fixed([1.0, 0.0]), bc.IPS()).value == 1.5
    for policy in (bc.Fixed({"zeta": 1}), bc.Fixed({"zeta": 1.0, "alpha": 0.0})):
        assert bc.evaluate(LABELLED, policy, bc.IPS()).value == always
    assert repr(bc.Fixed({"alpha": 0.25, "zeta": 0.75})) == "Fixed({'alpha': 0.25, 'zeta': 0.75})"


def test_labels_and_probabilities_that_the_log_does_not_have() -> None:
    with pytest.raises(
        bc.PolicyError, match=r"no action 'zetta'; did you mean 'zeta'\? Its actions are 'zeta', 'alpha'"
    ):
        bc.evaluate(LABELLED, bc.Fixed("zetta"), bc.IPS())
    with pytest.raises(bc.PolicyError, match="has 3 probabilities, and the log has 2 actions: 'zeta', 'alpha'"):
        bc.evaluate(LABELLED, bc.Fixed([1.0, 0.0, 0.0]), bc.IPS())
    masked = three_action_log(available=np.ones((N, K), dtype=bool))
    with pytest.raises(bc.PolicyError, match="has 2 probabilities, and the log has 3 actions"):
        bc.evaluate(masked, bc.Fixed([1.0, 0.0]), bc.IPS())
    for probabilities in ({"a": 0.5, "b": 0.25}, {"a": "much"}, ["a", "b"], {}):
        with pytest.raises(bc.OptionError, match="Fixed"):
            bc.Fixed(probabilities)
    with pytest.raises(bc.OptionError, match=r"Fixed\(\{3: 1\}\)"):
        bc.Fixed(3)


def test_columns_of_a_classifier_follow_its_classes() -> None:
    """The classifier's columns are in sorted order, "alpha" first; the log has "zeta" first."""
    x = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    right = LogisticRegression().fit(x, ["zeta", "alpha", "zeta", "alpha"])
    mapped = bc.evaluate(LABELLED, bc.FromScores(right), bc.IPS()).value
    by_hand = bc.Fixed(lambda x: np.column_stack([x[:, 0] > 0, x[:, 0] < 0]).astype(float))
    assert mapped == bc.evaluate(LABELLED, by_hand, bc.IPS()).value
    wrong = LogisticRegression().fit(x, [0, 1, 0, 1])
    with pytest.raises(
        bc.PolicyError, match="classes of the classifier are 0, 1, and the actions of the log are 'zeta'"
    ):
        bc.evaluate(LABELLED, bc.FromScores(wrong), bc.IPS())


def test_a_table_of_logging_probabilities_is_shown() -> None:
    assert repr(bc.Logged(np.full((4, 2), 0.5))) == "Logged(array of 4 rows)"
