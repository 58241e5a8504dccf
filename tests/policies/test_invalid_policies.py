"""Bad policies and bad questions: each is refused with the right error, which says what, where and what to do."""

from __future__ import annotations

import threading
from typing import Any, cast

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import backcast as bc

K, N = 3, 20


def log_of(n: int = N, **fields: Any) -> bc.Log:
    rng = np.random.default_rng(0)
    columns = {
        "contexts": np.column_stack([np.arange(n), rng.normal(size=n)]),
        "actions": np.arange(n) % K,
        "rewards": rng.random(n),
        "propensities": np.full(n, 1 / K),
        "n_actions": K,
    }
    return bc.Log(**{**columns, **fields})


class Says:
    """A learning policy that returns whatever it is told to."""

    def __init__(self, answer: Any, batch_size: Any = 1) -> None:
        self.estimate, self.batch_size = answer, batch_size

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return self.estimate(contexts) if callable(self.estimate) else self.estimate

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        pass


def uniform(contexts: Any) -> Any:
    return np.full((contexts.shape[0], K), 1 / K)


def rows(*bad: float) -> Any:
    """Uniform probabilities up to row 2 of the log, and these from row 3 on."""
    return lambda contexts: np.where(contexts[:, :1] < 3, uniform(contexts), bad)


class Still(Says):
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
    policy = (Still if evaluator in EVALUATORS_OF_FIXED else Says)(answer)
    with pytest.raises(bc.PolicyError) as caught:
        bc.evaluate(log_of(), policy, evaluator, reward_model=0.5)
    message = str(caught.value)
    assert type(policy).__name__ in message
    assert [word for word in words if word not in message] == []


def test_probabilities_may_miss_one_by_rounding() -> None:
    bc.evaluate(log_of(), Says(rows(0.5, 0.5, 5e-10)), bc.DRns(), reward_model=0.5)


def test_mass_on_an_unavailable_action() -> None:
    available = np.ones((N, K), dtype=bool)
    available[5, 1] = False
    log = log_of(available=available, action_labels=["mail", "call", "none"], actions=["mail"] * N, n_actions=None)
    with pytest.raises(
        bc.PolicyError, match=r"row 5: Says\.probabilities give 0\.333333 to action 'call', which is not"
    ):
        bc.evaluate(log, Says(uniform), bc.DRns(), reward_model=0.5)


def test_rows_are_named_as_in_the_log_they_came_from() -> None:
    with pytest.raises(bc.PolicyError, match="row 10: "):
        bc.evaluate(log_of()[10:], Says(rows(1.0, 1.0, 1.0)), bc.DRns(), reward_model=0.5)


class Failing(Says):
    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        raise KeyError("no such thing")


class FailingStart(Says):
    def start(self, n_actions: int, n_features: int, rng: Any) -> None:
        raise RuntimeError("out of order")


def test_errors_inside_a_policy_are_named_and_kept() -> None:
    with pytest.raises(
        bc.PolicyError, match=r"Failing\.learn failed on rows \[\d+\]: KeyError: 'no such thing'"
    ) as caught:
        bc.evaluate(log_of(), Failing(uniform), bc.DRns(), reward_model=0.5)
    assert isinstance(caught.value.__cause__, KeyError)
    words = r"FailingStart\.start failed for 3 actions and 2 features: RuntimeError: out of order"
    with pytest.raises(bc.PolicyError, match=words):
        bc.evaluate(log_of(), FailingStart(uniform), bc.DRns(), reward_model=0.5)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_batches_hold_at_least_one_event(batch_size: int) -> None:
    with pytest.raises(bc.PolicyError, match=f"Says.batch_size is {batch_size}; it must be at least 1"):
        bc.evaluate(log_of(), Says(uniform, batch_size), bc.DRns(), reward_model=0.5)
    with pytest.raises(bc.OptionError, match=f"batch_size is {batch_size}"):
        bc.LinUCB(batch_size=batch_size)


def test_a_policy_that_cannot_be_copied() -> None:
    policy = Says(uniform)
    policy.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(
        bc.PolicyError, match=r"Says cannot be copied .*lock.*evaluators train a copy\. Give it a __deepcopy__"
    ):
        bc.evaluate(log_of(), policy, bc.DRns(), reward_model=0.5)


def test_a_policy_that_writes_into_the_log() -> None:
    class Scribbling(Says):
        def probabilities(self, contexts: Any, available: Any = None) -> Any:
            contexts[0] = 7.0
            return uniform(contexts)

    with pytest.raises(bc.PolicyError, match="read-only"):
        bc.evaluate(log_of(), Scribbling(None), bc.DRns(), reward_model=0.5)


@pytest.mark.parametrize("evaluator", EVALUATORS_OF_FIXED)
@pytest.mark.parametrize("policy", [bc.LinUCB(), Says(uniform)])
def test_a_learner_given_to_an_estimator_of_fixed_policies(evaluator: Any, policy: Any) -> None:
    with pytest.raises(bc.NeedsStationaryPolicy) as caught:
        bc.evaluate(log_of(), policy, evaluator)
    words = [type(evaluator).__name__, type(policy).__name__, "learns as it goes", "use DRns"]
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("evaluator", [bc.DRns(), bc.WC(), bc.RS()])
def test_a_horizon_that_no_trajectory_reaches(evaluator: Any) -> None:
    words = r"no trajectory of 500 rounds .* 20 events gave \d+ acceptances .*shorter horizon"
    with pytest.raises(bc.HorizonNotReached, match=words):
        bc.evaluate(log_of(), bc.UCB1(), evaluator, horizon=500, reward_model=0.5)


def test_horizons_of_the_direct_method_and_of_segments() -> None:
    with pytest.raises(bc.HorizonNotReached, match="the horizon is 50 and the log has 20 events"):
        bc.evaluate(log_of(), bc.UCB1(), bc.DM(), horizon=50, reward_model=0.5)
    with pytest.raises(bc.HorizonNotReached, match=r"segment 0 of 4: no trajectory of 6 rounds.*fewer segments"):
        bc.evaluate(log_of(), bc.Uniform(), bc.DRns(), horizon=6, interval=bc.Segments(4), reward_model=0.5)


def test_replay_refuses_logs_that_were_not_uniform() -> None:
    propensities = np.full(N, 1 / K)
    propensities[7] = 0.5
    with pytest.raises(bc.NeedsUniformLog, match=r"row 7: propensity is 0\.5; Replay needs .*uniformly.*Use RS, DRns"):
        bc.evaluate(log_of(propensities=propensities), bc.UCB1(), bc.Replay())


def test_replay_knows_that_fewer_actions_may_be_available() -> None:
    available = np.ones((N, K), dtype=bool)
    available[np.arange(N), (np.arange(N) + 1) % K] = False
    log = log_of(available=available, propensities=np.full(N, 0.5))
    assert bc.evaluate(log, bc.Uniform(), bc.Replay()).value > 0
    with pytest.raises(bc.NeedsUniformLog, match=r"row 0: propensity is 0\.333"):
        bc.evaluate(log_of(available=available), bc.Uniform(), bc.Replay())


def test_a_policy_that_the_log_says_nothing_of() -> None:
    log = log_of(actions=np.zeros(N, dtype=int))
    for evaluator in (*EVALUATORS_OF_FIXED, bc.RS()):
        with pytest.raises(bc.EvaluationError, match=r"probability 0 to the logged action|accepted no event"):
            bc.evaluate(log, bc.Fixed([0.0, 0.5, 0.5]), evaluator, reward_model=0.5)


BAD_OPTIONS = [
    (lambda: bc.DRns(q=1.5), r"q is 1\.5; it must lie in \[0, 1\]"),
    (lambda: bc.DRns(q=-0.1), r"q is -0\.1"),
    (lambda: bc.DRns(q=float("nan")), r"q is nan"),
    (lambda: bc.Quantile(2.0), r"q is 2\.0"),
    (lambda: bc.DRns(c_max=0), "c_max is 0; it must be a finite number > 0"),
    (lambda: bc.DRns(c_max=float("inf")), "c_max is inf"),
    (lambda: bc.DRns(q=0.1, acceptance=bc.WorstCase()), "give q or acceptance, not both"),
    (lambda: bc.DRns(warm_up=-1), "warm_up is -1"),
    (lambda: bc.Budget(eta=0), "eta is 0"),
    (lambda: bc.Budget(calibration=0), "calibration is 0"),
    (lambda: bc.Budget(refreshes=0), "refreshes is 0"),
    (lambda: bc.Segments(1), "count is 1; it must be a whole number >= 2"),
    (lambda: bc.Anytime(rho=0), "rho is 0"),
    (lambda: bc.TheoremTwo(largest_weight=-1), "largest_weight is -1"),
    (lambda: bc.EpsilonGreedy(epsilon=1.5), r"epsilon is 1\.5"),
    (lambda: bc.EpsilonGreedy(ridge=0), "ridge is 0"),
    (lambda: bc.LinUCB(alpha=-1), "alpha is -1"),
    (lambda: bc.Softmax(temperature=0), "temperature is 0"),
    (lambda: bc.Fixed([0.5, 0.6]), r"Fixed\(\[0\.5, 0\.6\]\): give K probabilities >= 0 that sum to 1"),
    (lambda: bc.Fixed([1.5, -0.5]), "give K probabilities"),
    (lambda: bc.FromScores(3), r"FromScores\(3\): give a function"),
    (lambda: bc.FromClassifier(LinearRegression(), batch_size=0), "batch_size is 0"),
]


@pytest.mark.parametrize(("make", "words"), BAD_OPTIONS)
def test_options_without_sense(make: Any, words: str) -> None:
    with pytest.raises(bc.OptionError, match=words):
        make()


BAD_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"level": 2}, "level is 2; it must lie between 0 and 1"),
    ({"level": 0}, "level is 0"),
    ({"horizon": 0}, "horizon is 0; it must be a whole number >= 1"),
    ({"horizon": 2.5}, r"horizon is 2\.5"),
    ({"evaluator": "nonsense"}, "evaluator is 'nonsense'; give an evaluator such as DRns"),
    ({"evaluator": None}, "evaluator is None"),
    ({"evaluator": bc.DRns}, "give an evaluator such as DRns"),
    ({"policy": object()}, "is not a policy; it needs a method probabilities"),
    ({"policy": None}, "None is not a policy"),
    ({"policy": bc.LinUCB}, r"LinUCB is a class; give a policy made from it, such as LinUCB\(\)"),
    ({"evaluator": bc.DRns(), "interval": "wide"}, "str is not an interval for simulated histories"),
    ({"evaluator": bc.RS(), "interval": bc.Anytime()}, "Anytime is not an interval for accepted rewards"),
    ({"evaluator": bc.DRns(acceptance=bc.Budget(calibration=5))}, "give horizon=T"),
    ({"evaluator": bc.DRns(acceptance=1.5)}, r"acceptance is 1\.5; .*a fixed multiplier in \(0, 1\]"),
    ({"evaluator": bc.DRns(acceptance=0.0)}, r"acceptance is 0\.0"),
    ({"evaluator": bc.DRns(acceptance=cast(Any, bc.Fixed([0.5, 0.5])))}, r"acceptance is Fixed"),
    (
        {"evaluator": bc.DRns(), "interval": bc.TheoremTwo(largest_weight=0.5)},
        r"largest_weight is 0\.5 but a weight of",
    ),
    ({"reward_model": "nonsense"}, "reward_model"),
    ({"reward_model": np.zeros((3, K))}, r"shape \(3, 3\); expected \(20, 3\)"),
    ({"reward_model": np.full((N, K), np.nan)}, "row 0, action 0 is nan"),
]


@pytest.mark.parametrize(("options", "words"), BAD_REQUESTS)
def test_requests_without_sense(options: dict[str, Any], words: str) -> None:
    options = {"policy": bc.Fixed([0.5, 0.25, 0.25]), "evaluator": "auto", "reward_model": 0.5, **options}
    policy, evaluator = options.pop("policy"), options.pop("evaluator")
    with pytest.raises(bc.OptionError, match=words):
        bc.evaluate(log_of(), policy, evaluator, **options)


def test_events_set_aside_must_leave_some() -> None:
    for evaluator in (bc.DRns(warm_up=N), bc.DRns(acceptance=bc.Budget(calibration=N + 5))):
        with pytest.raises(
            bc.EvaluationError, match=r"\d+ events are asked for warm-up or calibration; the log has only 20"
        ):
            bc.evaluate(log_of(), bc.UCB1(), evaluator, horizon=3)
    with pytest.raises(bc.EvaluationError, match="20 events cannot be cut into 30 segments; use fewer"):
        bc.evaluate(log_of(), bc.Uniform(), bc.DRns(), interval=bc.Segments(30))


def test_traces_that_cannot_be() -> None:
    log = log_of()
    with pytest.raises(bc.OptionError, match=r"predicted has shape \(2, 3\); expected \(20, 3\): events by actions"):
        bc.trace(log, bc.UCB1(), bc.DRns(), predicted=np.zeros((2, 3)))
    with pytest.raises(bc.OptionError, match=r"uniforms have shape \(5,\); expected \(20,\): one an event"):
        bc.trace(log, bc.UCB1(), bc.DRns(), uniforms=np.zeros(5))
    with pytest.raises(bc.OptionError, match="IPS accepts no events, so there is nothing to trace"):
        bc.trace(log, bc.Uniform(), bc.IPS())


def test_estimates_without_a_history_have_no_progressive_policy() -> None:
    estimate = bc.evaluate(log_of(), bc.Uniform(), bc.IPS())
    with pytest.raises(bc.EvaluationError, match="IPS keeps no history to mix; use DRns"):
        estimate.progressive_policy()


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
        bc.evaluate(log_of(), bc.Compiled(lambda n, d: {}, kernel, kernel), bc.DRns(), reward_model=0.5)
    from backcast.policies.context_free import CycleState

    policy = bc.Compiled(lambda n, d: CycleState(np.zeros(1, dtype=np.int64)), kernel, kernel)
    with pytest.raises(bc.PolicyError, match="CycleState has kernels already; define a state class for this policy"):
        bc.evaluate(log_of(), policy, bc.DRns(), reward_model=0.5)


@pytest.mark.parametrize("name", [name for name in bc.__all__ if isinstance(getattr(bc, name), type)])
def test_the_tree_of_errors_is_as_drawn(name: str) -> None:
    kind = getattr(bc, name)
    if issubclass(kind, Exception) and not issubclass(kind, Warning):
        assert issubclass(kind, bc.BackcastError)
        assert issubclass(kind, ValueError) == issubclass(kind, bc.LogError | bc.OptionError)
