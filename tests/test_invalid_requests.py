"""Invalid evaluators, options and requests: each is refused with the right error and its remedy."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import backcast as bc
from tests.support.logs import three_action_log
from tests.support.policies import AnsweringPolicy, uniform

K, N = 3, 20  # actions and events of the log

EVALUATORS_OF_FIXED: list[Any] = [bc.IPS(), bc.SNIPS(), bc.DR()]


@pytest.mark.parametrize("evaluator", EVALUATORS_OF_FIXED)
@pytest.mark.parametrize("policy", [bc.LinUCB(), AnsweringPolicy(uniform)])
def test_a_learner_given_to_an_estimator_of_fixed_policies(evaluator: Any, policy: Any) -> None:
    with pytest.raises(bc.NeedsStationaryPolicy) as caught:
        bc.evaluate(three_action_log(), policy, evaluator)
    words = [type(evaluator).__name__, type(policy).__name__, "evaluates fixed policies", "use DRns"]
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("evaluator", [bc.DRns(), bc.WC(), bc.RS()])
def test_a_horizon_that_no_trajectory_reaches(evaluator: Any) -> None:
    words = r"no trajectory of 500 rounds .* 20 events gave \d+ acceptances .*shorter horizon"
    with pytest.raises(bc.HorizonNotReached, match=words):
        bc.evaluate(three_action_log(), bc.UCB1(), evaluator, horizon=500, reward_model=0.5)


def test_horizons_of_the_direct_method_and_of_segments() -> None:
    with pytest.raises(bc.HorizonNotReached, match="the horizon is 50 and the log has 20 events"):
        bc.evaluate(three_action_log(), bc.UCB1(), bc.DM(), horizon=50, reward_model=0.5)
    with pytest.raises(bc.HorizonNotReached, match=r"segment 0 of 4: no trajectory of 6 rounds.*fewer segments"):
        bc.evaluate(three_action_log(), bc.Uniform(), bc.DRns(), horizon=6, interval=bc.Segments(4), reward_model=0.5)


def test_replay_refuses_logs_that_were_not_uniform() -> None:
    propensities = np.full(N, 1 / K)
    propensities[7] = 0.5
    with pytest.raises(bc.NeedsUniformLog, match=r"row 7: propensity is 0\.5; Replay needs .*uniformly.*Use RS, DRns"):
        bc.evaluate(three_action_log(propensities=propensities), bc.UCB1(), bc.Replay())


def test_replay_knows_that_fewer_actions_may_be_available() -> None:
    available = np.ones((N, K), dtype=bool)
    available[np.arange(N), (np.arange(N) + 1) % K] = False
    log = three_action_log(available=available, propensities=np.full(N, 0.5))
    assert bc.evaluate(log, bc.Uniform(), bc.Replay()).value > 0
    with pytest.raises(bc.NeedsUniformLog, match=r"row 0: propensity is 0\.333"):
        bc.evaluate(three_action_log(available=available), bc.Uniform(), bc.Replay())


def test_a_policy_that_the_log_says_nothing_of() -> None:
    log = three_action_log(actions=np.zeros(N, dtype=int))
    for evaluator in (*EVALUATORS_OF_FIXED, bc.RS()):
        with pytest.raises(bc.EvaluationError, match=r"probability 0 to the logged action|events was accepted"):
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
    (lambda: bc.CADR(published=cast(Any, "yes")), "published is 'yes'; give True or False"),
    (lambda: bc.plan(cast(Any, None), 0.1), "source is a NoneType; give a comparison on a pilot log"),
    (lambda: bc.plan(bc.PlanAssumptions(0.5, 2), cast(Any, "x")), "difference is 'x'; it must be a finite number"),
    (lambda: bc.plan(bc.PlanAssumptions(0.5, 2), 0.1, power=cast(Any, "high")), "power is 'high'"),
    (lambda: bc.save_result(cast(Any, 3), "result.json"), "the result is a int; give an estimate, a dict of them"),
    (lambda: bc.save_result(cast(Any, {"a": 3}), "result.json"), "the result is a dict; give an estimate"),
]


@pytest.mark.parametrize(("make", "words"), BAD_OPTIONS)
def test_options_without_sense(make: Any, words: str) -> None:
    with pytest.raises(bc.OptionError, match=words):
        make()


BAD_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"level": 2}, "level is 2; it must be between 0 and 1"),
    ({"level": 0}, "level is 0"),
    ({"horizon": 0}, "horizon is 0; it must be a whole number >= 1"),
    ({"level": float("nan")}, "level is nan; it must be between 0 and 1"),
    ({"level": "95 %"}, "level is '95 %'"),
    ({"horizon": 2.5}, r"horizon is 2\.5"),
    ({"horizon": 2**63}, "horizon is 9223372036854775808; it must be a whole number of 64 bits"),
    ({"horizon": True}, "horizon is True; it must be a whole number >= 1"),
    ({"horizon": 1.0}, r"horizon is 1\.0; it must be a whole number >= 1"),
    ({"horizon": "5"}, "horizon is '5'"),
    ({"seed": None}, "seed is None; it must be a whole number >= 0"),
    ({"seed": "a"}, "seed is 'a'"),
    ({"seed": -1}, "seed is -1"),
    ({"replicates": True}, "replicates is True; it must be a whole number >= 1"),
    ({"replicates": 2.5}, r"replicates is 2\.5"),
    ({"replicates": "many"}, "replicates is 'many'; give a number, 'auto' or None"),
    ({"exchangeable": "no"}, "exchangeable is 'no'; give True, False, or None"),
    ({"n_jobs": 0}, "n_jobs is 0; give a whole number, -1 for one job per core, or None"),
    ({"n_jobs": "2"}, "n_jobs is '2'"),
    ({"time_limit": "soon"}, "time_limit is 'soon'; it must be a finite number > 0"),
    ({"progress": "yes"}, "progress is 'yes'; give True, False, or a function"),
    ({"checkpoint": 3}, "checkpoint is 3; give the path of a folder"),
    ({"evaluator": "nonsense"}, "evaluator is 'nonsense'; give an evaluator such as DRns"),
    ({"evaluator": None}, "evaluator is None"),
    ({"evaluator": bc.DRns}, "give an evaluator such as DRns"),
    ({"policy": object()}, "is not a policy; it needs a method probabilities"),
    ({"policy": None}, "None is not a policy"),
    ({"policy": bc.LinUCB}, r"LinUCB is a class; give an instance, such as LinUCB\(\)"),
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
    ({"reward_model": bc.PerAction}, r"reward_model is the class PerAction; give an instance, such as PerAction\(\)"),
    ({"reward_model": LinearRegression}, "reward_model is the class LinearRegression"),
    ({"reward_model": np.zeros((3, K))}, r"shape \(3, 3\); expected \(20, 3\)"),
    ({"reward_model": np.full((N, K), np.nan)}, "row 0, action 0 is nan"),
]


@pytest.mark.parametrize(("options", "words"), BAD_REQUESTS)
def test_requests_without_sense(options: dict[str, Any], words: str) -> None:
    options = {"policy": bc.Fixed([0.5, 0.25, 0.25]), "evaluator": "auto", "reward_model": 0.5, **options}
    policy, evaluator = options.pop("policy"), options.pop("evaluator")
    with pytest.raises(bc.OptionError, match=words):
        bc.evaluate(three_action_log(), policy, evaluator, **options)


@pytest.mark.parametrize(("options", "words"), BAD_REQUESTS[:21])
def test_comparisons_refuse_the_same_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(bc.OptionError, match=words):
        bc.compare(three_action_log(), {"a": bc.Uniform(), "b": bc.Fixed([0.5, 0.25, 0.25])}, **options)


def test_policies_of_a_comparison_have_names() -> None:
    for policies in ([bc.Uniform(), bc.UCB1()], {1: bc.Uniform(), 2: bc.UCB1()}, bc.Uniform()):
        with pytest.raises(bc.OptionError, match=r"policies is a \w+; give a dict from names \(text\) to policies"):
            bc.compare(three_action_log(), cast(Any, policies))


def test_a_frame_or_a_path_instead_of_a_log_gets_the_function_that_reads_it() -> None:
    columns = {"x": [0.0, 1.0], "a": [0, 1], "r": [1.0, 0.0], "p": [0.5, 0.5]}
    for frame in (pd.DataFrame(columns), pa.table(columns), columns):
        with pytest.raises(bc.OptionError, match=rf"log is a {type(frame).__name__}; .*Log\.from_frame\(frame"):
            bc.evaluate(cast(Any, frame), bc.Uniform())
    with pytest.raises(bc.OptionError, match=r"log is a str; read it first: read_log\(path, context="):
        bc.compare(cast(Any, "log.csv"), {"a": bc.Uniform(), "b": bc.UCB1()})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cast(Any, bc.evaluate)(three_action_log()), "missing 1 required positional argument: 'policy'"),
        (lambda: cast(Any, bc.compare)(three_action_log()), "missing 1 required positional argument: 'policies'"),
        (lambda: cast(Any, bc.LinUCB)(alpa=1), "unexpected keyword argument 'alpa'"),
        (lambda: cast(Any, bc.Log)(contexts=None), "missing 3 required positional arguments: 'actions', 'rewards'"),
        (lambda: cast(Any, bc.evaluate)(three_action_log(), bc.Uniform(), horizn=3), "keyword argument 'horizn'"),
    ],
)
def test_a_call_that_does_not_fit_the_signature_is_a_type_error_of_python(call: Any, words: str) -> None:
    """Values are checked with errors of ours; names of arguments are checked by Python, which names them as well."""
    with pytest.raises(TypeError, match=words):
        call()


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    log, horizon, seed = three_action_log(), np.int32(3), np.uint64(2**63)
    estimate = bc.evaluate(log, bc.Uniform(), bc.DRns(q=0.0), horizon=cast(Any, horizon), seed=cast(Any, seed))
    assert estimate.value == bc.evaluate(log, bc.Uniform(), bc.DRns(q=0.0), horizon=3, seed=2**63).value


def test_a_horizon_of_64_bits_is_out_of_reach_and_no_more() -> None:
    for evaluator in (bc.DRns(), bc.ClockReplay(), bc.RS(), bc.DM()):
        with pytest.raises(bc.HorizonNotReached):
            bc.evaluate(three_action_log(), bc.UCB1(), evaluator, horizon=2**62, reward_model=0.5)


def test_events_set_aside_must_leave_some() -> None:
    for evaluator in (bc.DRns(warm_up=N), bc.DRns(acceptance=bc.Budget(calibration=N + 5))):
        with pytest.raises(
            bc.EvaluationError, match=r"\d+ events are needed for warm-up or calibration; the log has only 20"
        ):
            bc.evaluate(three_action_log(), bc.UCB1(), evaluator, horizon=3)
    with pytest.raises(bc.EvaluationError, match="20 events cannot be cut into 30 segments; use fewer"):
        bc.evaluate(three_action_log(), bc.Uniform(), bc.DRns(), interval=bc.Segments(30))


def test_traces_that_cannot_be() -> None:
    log = three_action_log()
    with pytest.raises(bc.OptionError, match=r"predicted has shape \(2, 3\); expected \(20, 3\): events by actions"):
        bc.trace(log, bc.UCB1(), bc.DRns(), predicted=np.zeros((2, 3)))
    with pytest.raises(bc.OptionError, match=r"uniforms have shape \(5,\); expected \(20,\): one per event"):
        bc.trace(log, bc.UCB1(), bc.DRns(), uniforms=np.zeros(5))
    with pytest.raises(bc.OptionError, match="IPS accepts no events, so there is nothing to trace"):
        bc.trace(log, bc.Uniform(), bc.IPS())


def test_estimates_without_a_history_have_no_progressive_policy() -> None:
    estimate = bc.evaluate(three_action_log(), bc.Uniform(), bc.IPS())
    with pytest.raises(bc.EvaluationError, match="IPS gives no progressive policy; use DRns"):
        estimate.progressive_policy()


@pytest.mark.parametrize("name", [name for name in bc.__all__ if isinstance(getattr(bc, name), type)])
def test_the_tree_of_errors_is_as_drawn(name: str) -> None:
    kind = getattr(bc, name)
    if issubclass(kind, Exception) and not issubclass(kind, Warning):
        assert issubclass(kind, bc.BackcastError)
        assert issubclass(kind, ValueError) == issubclass(kind, bc.LogError | bc.OptionError)
