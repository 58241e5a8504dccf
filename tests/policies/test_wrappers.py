"""WarmStart and Delayed: what they train on, what is evaluated, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import backcast as bc
from backcast.checks import check_policy
from backcast.cli.objects import POLICIES, build, build_from
from backcast.environments import LinearEnvironment
from backcast.policies.wrappers import train_policy
from tests.support.logs import two_action_log
from tests.support.policies import FollowTheLeader

WORLD = LinearEnvironment(3, 4, logistic=True, spread=0.5)
LOG = WORLD.log(600, np.random.default_rng(1))
COMPILED, PYTHON = bc.LinUCB(batch_size=5), bc.FromClassifier(Ridge(), batch_size=20)
SHORT: dict[str, Any] = {"horizon": 20, "reward_model": bc.Fitted(bc.PerAction(Ridge()).fit(LOG))}


def figures(estimate: bc.Estimate) -> list[float]:
    return [estimate.value, estimate.std_error, estimate.interval.low, estimate.interval.high]


@pytest.mark.parametrize("policy", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_a_share_of_0_is_the_policy_itself(policy: Any) -> None:
    warm, plain = (bc.evaluate(LOG, each, replicates=8, **SHORT) for each in (bc.WarmStart(policy, share=0.0), policy))
    assert figures(warm) == figures(plain)
    assert warm.notes == plain.notes


@pytest.mark.parametrize("evaluator", [bc.ClockReplay(), bc.DRns(q=0.05), bc.WC(), bc.DM()], ids=lambda each: each.name)
@pytest.mark.parametrize("policy", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_the_first_share_trains_and_the_others_are_evaluated(evaluator: Any, policy: Any) -> None:
    options = SHORT | ({"replicates": 8} if isinstance(evaluator, bc.ClockReplay) else {})
    warm = bc.evaluate(LOG, bc.WarmStart(policy, share=0.25), evaluator, **options)
    trained = train_policy(policy, LOG[:150], np.random.default_rng(0))
    by_hand = bc.evaluate(LOG[150:], trained, evaluator, **options)
    untrained = bc.evaluate(LOG[150:], policy, evaluator, **options)
    assert warm.value == by_hand.value != untrained.value
    assert warm.diagnostics.events == by_hand.diagnostics.events
    assert any("The first 150 events of the log trained the policy" in note for note in warm.notes)
    assert warm.policy == repr(bc.WarmStart(policy, share=0.25))


def test_training_is_what_a_user_would_do() -> None:
    """A greedy policy trained on a log is the argmax of ridge regressions on the events of each action."""
    trained = train_policy(bc.EpsilonGreedy(0.0, ridge=1.0), LOG, np.random.default_rng(0))
    predicted = np.column_stack(
        [
            LOG.contexts @ Ridge(1.0, fit_intercept=False).fit(LOG.contexts[at], LOG.rewards[at]).coef_
            for at in (LOG.actions == action for action in range(3))
        ]
    )
    assert (trained.probabilities(LOG.contexts).argmax(axis=1) == predicted.argmax(axis=1)).all()


def test_python_policies_learn_in_batches_of_their_size() -> None:
    sizes: list[int] = []

    class Recorder(FollowTheLeader):
        batch_size = 40

        def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
            sizes.append(len(actions))
            assert (probabilities == 0.5).all()  # those of the logger
            super().learn(contexts, actions, rewards, probabilities)

    train_policy(Recorder(), two_action_log(100), np.random.default_rng(0))
    assert sizes == [40, 40, 20]


def test_all_policies_of_a_comparison_are_evaluated_on_the_same_events() -> None:
    policies: dict[str, Any] = {
        "cold": COMPILED,
        "warm": bc.WarmStart(COMPILED, share=0.25),
        "less": bc.WarmStart(COMPILED, share=0.125),
        "fixed": bc.Fixed([0.5, 0.25, 0.25]),
    }
    comparison = bc.compare(LOG, policies, replicates=8, **SHORT)
    trained = {
        name: train_policy(COMPILED, LOG[:size], np.random.default_rng(0))
        for name, size in (("warm", 150), ("less", 75))
    }
    for name, policy in {**policies, **trained}.items():
        alone = bc.evaluate(LOG[150:], policy, replicates=8, **SHORT)
        assert comparison.estimates[name].value == alone.value
    assert [note for note in comparison.notes if "The first 150 events of the log trained the warm-started" in note]
    assert comparison.estimates["warm"].policy == repr(policies["warm"])


def test_another_log_trains_and_its_actions_are_found_by_their_labels() -> None:
    columns = LOG.contexts, np.array(["c", "a", "b"])[LOG.actions], LOG.rewards, LOG.propensities
    past, log = bc.Log(*columns), bc.Log(*columns, action_labels=list("bca"))
    assert past.action_labels != log.action_labels
    for policy in (COMPILED, PYTHON):
        warm = bc.evaluate(log, bc.WarmStart(policy, log=past[:200]), replicates=8, **SHORT)
        trained = train_policy(policy, log[:200], np.random.default_rng(0))
        assert warm.value == bc.evaluate(log, trained, replicates=8, **SHORT).value
        assert warm.diagnostics.events == 600


@pytest.mark.parametrize("policy", [COMPILED, PYTHON], ids=["compiled", "python"])
def test_streams_train_on_their_first_events(policy: Any) -> None:
    warm = bc.evaluate([LOG[:100], LOG[100:]], bc.WarmStart(policy, share=0.25), bc.DRns(q=0.05), **SHORT)
    trained = train_policy(policy, LOG[:150], np.random.default_rng(0))
    assert warm.value == bc.evaluate([LOG[150:]], trained, bc.DRns(q=0.05), **SHORT).value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bc.WarmStart(bc.Uniform(), share=0.5), "needs a policy that learns"),
        (lambda: bc.WarmStart(bc.LinUCB, share=0.5), "LinUCB is a class; give an instance"),
        (lambda: bc.WarmStart(bc.LinUCB()), "give share=0.2 or log="),
        (lambda: bc.WarmStart(bc.LinUCB(), share=0.5, log=LOG), "give share=0.2 or log="),
        (lambda: bc.WarmStart(bc.LinUCB(), share=1.0), "share is 1; it must be below 1"),
        (lambda: bc.WarmStart(bc.LinUCB(), share="half"), "share is 'half'"),  # type: ignore[arg-type]
        (lambda: bc.WarmStart(bc.LinUCB(), log="log.csv"), "log is a str"),  # type: ignore[arg-type]
        (lambda: bc.Delayed(bc.LinUCB(), delay=-1), "delay is -1"),
        (lambda: bc.Delayed(bc.LinUCB(), every=0), "every is 0"),
        (lambda: bc.Delayed(bc.Uniform()), "Delayed needs a policy that learns"),
    ],
)
def test_wrong_options_are_refused(call: Any, words: str) -> None:
    with pytest.raises(bc.OptionError, match=words):
        call()


def test_logs_that_do_not_fit_are_refused() -> None:
    policy = bc.WarmStart(bc.LinUCB(), log=two_action_log(20))
    with pytest.raises(bc.PolicyError, match="has 0 features, and the log that is evaluated has 4"):
        bc.evaluate(LOG, policy, **SHORT)
    other = bc.Log(LOG.contexts[:3], ["x", "y", "z"], LOG.rewards[:3], LOG.propensities[:3])
    with pytest.raises(bc.PolicyError, match="'x', 'y', 'z' are not among them"):
        bc.evaluate(LOG, bc.WarmStart(PYTHON, log=other), **SHORT)
    with pytest.raises(bc.PolicyError, match=r"elsewhere give it a log of its own: WarmStart\(policy, log=log\)"):
        bc.trace(LOG, bc.WarmStart(bc.LinUCB(), share=0.5), bc.DRns(q=0.05))
    with pytest.raises(bc.LogError, match=r"a share of 0\.9 leaves none to evaluate"):
        bc.evaluate(LOG[:3], bc.WarmStart(bc.LinUCB(), share=0.9), **SHORT)


def test_results_can_be_run_again_and_summarised_with_the_whole_log(tmp_path: Path) -> None:
    estimate = bc.evaluate(LOG, bc.WarmStart(COMPILED, share=0.25), bc.DRns(q=0.05), horizon=20, reward_model=0.5)
    assert estimate.provenance is not None
    assert estimate.provenance.log.events == 600
    again = bc.rerun_result(bc.save_result(estimate, tmp_path / "result.json"), log=LOG)
    assert again.same
    summary = pickle.loads(pickle.dumps(estimate)).replay_summary(LOG)
    assert summary is None or summary == estimate.replay_summary(LOG)
    fresh = bc.evaluate(LOG, bc.WarmStart(COMPILED, share=0.25), bc.DRns(q=0.05), horizon=20, reward_model=0.5)
    assert fresh.replay_summary(LOG) is not None
    assert fresh.progressive_policy(LOG).probabilities(LOG.contexts[:2]).shape == (2, 3)


def test_checkpoints_depend_on_the_events_that_train(tmp_path: Path) -> None:
    for policy in (COMPILED, PYTHON):
        folder = tmp_path / type(policy).__name__
        options = SHORT | {"replicates": 8, "checkpoint": folder}
        first = bc.evaluate(LOG, bc.WarmStart(policy, share=0.25), **options)
        assert bc.evaluate(LOG, bc.WarmStart(policy, share=0.25), **options) == first
        changed = bc.Log(
            LOG.contexts,
            LOG.actions,
            np.where(np.arange(600) == 0, 1 - LOG.rewards, LOG.rewards),
            LOG.propensities,
            n_actions=3,
        )
        with pytest.raises(bc.BackcastError, match="checkpoint"):
            bc.evaluate(changed, bc.WarmStart(policy, share=0.25), **options)


@pytest.mark.parametrize(
    "policy",
    [
        bc.WarmStart(COMPILED, log=LOG[:50]),
        bc.WarmStart(PYTHON, log=LOG[:50]),
        bc.Delayed(COMPILED, delay=3, every=5),
        bc.Delayed(PYTHON, delay=3, every=5),
        bc.WarmStart(bc.Delayed(COMPILED, delay=3), log=LOG[:50]),
        bc.Delayed(bc.WarmStart(COMPILED, log=LOG[:50]), every=4),
    ],
    ids=repr,
)
def test_wrapped_policies_keep_the_contract(policy: Any) -> None:
    check_policy(policy, LOG[50:250])
    duplicate = copy.deepcopy(policy)
    assert repr(duplicate) == repr(policy)


@pytest.mark.parametrize("every", [1, 4])
def test_updates_once_in_so_many_rounds_are_batches(every: int) -> None:
    delayed = bc.evaluate(LOG, bc.Delayed(bc.EpsilonGreedy(), every=every), replicates=8, **SHORT)
    batches = bc.evaluate(LOG, bc.EpsilonGreedy(batch_size=every), replicates=8, **SHORT)
    # the Python loop reads V_t after every update, the compiled one may not: the same histories, rounded differently
    assert delayed.value == pytest.approx(batches.value, abs=1e-9)


@pytest.mark.parametrize(("delay", "every", "known"), [(0, 1, 10), (3, 1, 7), (3, 5, 7), (4, 5, 6), (20, 5, 0)])
def test_rewards_are_learned_when_they_have_arrived(delay: int, every: int, known: int) -> None:
    learned: list[float] = []

    class Recorder(FollowTheLeader):
        def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
            assert len(rewards) == 1
            learned.extend(rewards)

    policy = bc.Delayed(Recorder(), delay=delay, every=every)
    log = two_action_log(10)
    for start in range(0, 10, every):
        batch = log[start : start + every]
        policy.learn(batch.contexts, batch.actions, batch.rewards, batch.propensities)
    assert learned == log.rewards[:known].tolist()


def test_the_command_line_builds_policies_around_others() -> None:
    text = "warm-start:share=0.25,policy=(linucb:alpha=0.5,batch_size=10)"
    assert repr(build(text, POLICIES)) == repr(bc.WarmStart(bc.LinUCB(0.5, batch_size=10), share=0.25))
    table = {"delay": 2, "policy": {"kind": "warm-start", "share": 0.25, "policy": {"kind": "ucb1"}}}
    delayed = bc.Delayed(bc.WarmStart(bc.UCB1(), share=0.25), delay=2)
    assert repr(build_from("delayed", table, POLICIES)) == repr(delayed)
    with pytest.raises(bc.OptionError, match="there is no policy 'linubc'; did you mean 'linucb'"):
        build("delayed:policy=linubc", POLICIES)
    with pytest.raises(bc.OptionError, match="policy is 3; give a policy"):
        build("delayed:policy=3", POLICIES)
    with pytest.raises(bc.OptionError, match="missing a required argument: 'policy'"):
        build("delayed:delay=3", POLICIES)
