"""Evaluators of other authors, written with public names only, give the known values of small worlds."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import backcast as bc
from backcast.environments import coin_flips, run_live
from bench.accuracy import contestants
from bench.accuracy.contestants import BRED, PSRS, Queue
from bench.accuracy.evaluators import applies
from bench.reproduction.protocol import Case

MEANS = np.array([0.2, 0.5, 0.7])


def bandit_log(seed: int, n: int = 600, propensities: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3)) -> bc.Log:
    """A log without contexts whose rewards of 0 and 1 have the means above."""
    rng = np.random.default_rng(seed)
    actions = rng.choice(3, size=n, p=propensities)
    rewards = coin_flips(MEANS[actions], rng)
    return bc.Log(None, actions, rewards, np.array(propensities)[actions], n_actions=3, reward_range=(0, 1))


def two_state_log(seed: int, n: int = 800) -> bc.Log:
    """A log of two contexts whose logger prefers the worse action of each."""
    rng = np.random.default_rng(seed)
    states = rng.integers(2, size=n)
    logging = np.array([[0.3, 0.7], [0.6, 0.4]])[states]
    actions = (rng.random(n) < logging[:, 1]).astype(int)
    rewards = coin_flips(np.where(actions == states, 0.25, 0.75), rng)
    contexts = np.eye(2)[states]
    propensities = logging[np.arange(n), actions]
    return bc.Log(contexts, actions, rewards, propensities, reward_range=(0, 1), logging_probabilities=logging)


def imports_of(path: Path) -> set[tuple[str, str]]:
    """Modules of backcast and the names that a file imports from them."""
    tree = ast.walk(ast.parse(path.read_text()))
    nodes = [node for node in tree if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("backcast")]
    return {(node.module or "", alias.name) for node in nodes for alias in node.names}


def test_contestants_use_public_names_only() -> None:
    source = Path(contestants.__file__)
    imported = imports_of(source)
    assert imported
    assert not [pair for pair in imported if any(part.startswith("_") for part in ".".join(pair).split("."))]
    assert [name for module, name in imported if module == "backcast.evaluators"] != []
    assert all(name in bc.evaluators.__all__ for module, name in imported if module == "backcast.evaluators")
    private = [node.attr for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Attribute)]
    own = ("_jittered", "__file__")
    assert [name for name in private if name.startswith("_") and name not in own] == []


@cache
def live_bandit() -> Any:
    """Average rewards of live runs of UCB1 over 20 rounds."""
    rng = np.random.default_rng(1)
    return run_live(np.zeros((1, 1)), MEANS[None], bc.UCB1(), horizon=20, runs=400, rng=rng, draw=coin_flips)


def unequal_log(seed: int, n: int) -> bc.Log:
    return bandit_log(seed, n, propensities=(0.5, 0.3, 0.2))


@pytest.mark.parametrize(
    ("evaluator", "log_of"),
    [(Queue(), bandit_log), (PSRS(), bandit_log), (BRED(10), bandit_log), (Queue(), unequal_log)],
    ids=["queue", "PSRS", "BRED", "queue, unequal propensities"],
)
def test_value_of_a_bandit_is_that_of_live_runs(evaluator: Any, log_of: Any) -> None:
    logs = [log_of(seed, 300) for seed in range(10)]
    values = np.array([bc.evaluate(log, bc.UCB1(), evaluator, horizon=20, replicates=None).value for log in logs])
    live = live_bandit()
    error = np.hypot(values.std(ddof=1) / np.sqrt(len(logs)), live.std(ddof=1) / np.sqrt(live.size))
    # Student's t with 9 degrees of freedom, beyond 5: the odds of a false alarm are 7e-4, and seeds are fixed
    assert abs(values.mean() - live.mean()) < 5 * error


def test_value_of_a_learner_with_contexts_by_psrs() -> None:
    policy, n_logs = bc.EpsilonGreedy(0.2), 6
    table = np.array([[0.25, 0.75], [0.75, 0.25]])
    live = run_live(np.eye(2), table, policy, horizon=20, runs=300, rng=np.random.default_rng(1), draw=coin_flips)
    values = np.array(
        [bc.evaluate(two_state_log(seed), policy, PSRS(), horizon=20, replicates=None).value for seed in range(n_logs)]
    )
    error = np.hypot(values.std(ddof=1) / np.sqrt(n_logs), live.std(ddof=1) / np.sqrt(live.size))
    # Student's t with 5 degrees of freedom, beyond 7: odds 9e-4
    assert abs(values.mean() - live.mean()) < 7 * error


def test_they_are_compared_like_any_evaluator() -> None:
    log = bandit_log(0, n=300)
    comparison = bc.compare(log, {"ucb": bc.UCB1(), "robin": bc.RoundRobin()}, Queue(), horizon=20, replicates=60)
    [difference] = comparison.differences
    assert difference.interval.method == "paired group jackknife"
    assert difference.value == comparison.estimates["ucb"].value - comparison.estimates["robin"].value
    assert 0 < difference.std_error < 0.2
    with pytest.raises(bc.EvaluationError, match=r"BRED x 5 gives no standard error here"):
        bc.compare(log, {"ucb": bc.UCB1(), "robin": bc.RoundRobin()}, BRED(5), horizon=20)


def test_each_refuses_what_it_cannot_evaluate() -> None:
    contextual, uniform = two_state_log(0), bandit_log(0)
    features = np.random.default_rng(0).normal(size=(len(uniform), 1))
    continuous = bc.Log(features, uniform.actions, uniform.rewards, uniform.propensities)
    for evaluator, other in ((Queue(), contextual), (PSRS(), continuous), (BRED(2), contextual)):
        assert applies(evaluator, Case(uniform, bc.UCB1(), 10, 0))
        assert not applies(evaluator, Case(other, bc.UCB1(), 10, 0))
    log = bc.Log(contextual.contexts, contextual.actions, contextual.rewards, 0.5 + 0 * contextual.rewards)
    with pytest.raises(bc.EvaluationError, match="a policy that ignores contexts"):
        bc.evaluate(log, bc.FromScores(lambda contexts: contexts), Queue(), horizon=5, replicates=None)


def test_bred_meets_events_again_and_jobs_do_not_change_it(tmp_path: Path) -> None:
    log = bandit_log(3, n=60)
    first = bc.evaluate(log, bc.UCB1(), BRED(4), horizon=60)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        second = bc.evaluate(log, bc.UCB1(), BRED(4), horizon=60)
    assert first.to_dict() == second.to_dict()
    assert first.diagnostics.repeated_share > 0.2
    assert "repeated share" in str(first.diagnostics)
    page = bc.save_report(first, tmp_path / "report.html").read_text()
    assert "repeated share" in page
    read = bc.load_result(bc.save_result(first, tmp_path / "result.json")).result
    assert isinstance(read, bc.Estimate)
    assert read.to_dict() == first.to_dict()
