"""A quick version of every experiment on scikit-learn's digits, and the laws of its parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import backcast as bc
from backcast.environments import ClassificationEnvironment
from bench.reproduction import table1, table2, table3, worlds
from bench.reproduction.__main__ import main
from bench.reproduction.datasets import Campaign, load_world
from bench.reproduction.journal import Journal, Plan, work_through
from bench.reproduction.protocol import OURS, PAPER, SeenColumns
from bench.reproduction.results import score
from bench.reproduction.truth import live_runs
from bench.reproduction.writing import EXPERIMENTS, reproduce


@pytest.fixture(scope="module")
def small() -> ClassificationEnvironment:
    """Three digits of ten: few actions, quick refits."""
    world = load_world("digits", None)
    rows = np.flatnonzero(world.labels[:, :3].any(axis=1))
    return ClassificationEnvironment(world.features[rows], world.labels[rows, :3], loss=True, action_labels=(0, 1, 2))


@pytest.fixture
def plan(tmp_path: Path, small: ClassificationEnvironment, monkeypatch: pytest.MonkeyPatch) -> Plan:
    for module in (table1, table2, worlds):
        monkeypatch.setattr(module, "load_world", lambda name, folder: small)
    monkeypatch.setattr("backcast.evaluators._replicates.FIRST_PASSES", 2)
    monkeypatch.setattr(table2, "HORIZON", 30)
    monkeypatch.setattr("bench.reproduction.horizon.HORIZON", 45)
    monkeypatch.setattr(table3, "load_campaign", lambda name, folder: campaign(1200))
    return Plan(None, tmp_path, trials=2, world="digits", simulations=4)


def campaign(n: int) -> Campaign:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(n, 2))
    actions = rng.integers(3, size=n)
    rewards = (rng.random(n) < 0.2 + 0.3 * (actions == 1)).astype(np.float64)
    return Campaign(contexts, actions, rewards, 3, (contexts[:, 0] > 0).astype(np.int64))


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_each_experiment_writes_its_table_json_and_goes_on_where_it_was(name: str, plan: Plan) -> None:
    text = reproduce(name, plan, "python -m bench.reproduction")
    assert (plan.out / f"{name}.md").read_text() == text
    saved = json.loads((plan.out / f"{name}.json").read_text())
    assert saved["made"]["command"] == "python -m bench.reproduction"
    before = {path: path.read_text() for path in (plan.out / "journals").iterdir()}
    assert reproduce(name, plan, "python -m bench.reproduction") == text
    assert {path: path.read_text() for path in (plan.out / "journals").iterdir()} == before


def test_both_tasks_score_every_evaluator(plan: Plan) -> None:
    static, _ = table1.run(plan)
    assert [one.evaluator for one in static] == [*PAPER, OURS[0]]
    adaptive = table2.run(plan)["scores"]
    assert {one.evaluator for one in adaptive["ground"]} == {*PAPER, *OURS[1:]}
    assert all(np.isfinite(one.rmse) for one in static)


def test_a_run_with_other_settings_is_refused(plan: Plan) -> None:
    plan.journal("one", {"world": "digits"}).add(0, 1.0)
    with pytest.raises(bc.OptionError, match="choose another folder"):
        plan.journal("one", {"world": "rcv1"}).read()


def test_a_line_cut_off_in_mid_write_is_done_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "cut.jsonl", {})
    journal.add(0, 10)
    journal.add(1, 11)
    journal.path.write_text(journal.path.read_text()[:-4])
    assert journal.read() == {0: 10}
    assert work_through(Plan(None, tmp_path), journal, 3, lambda number: 10 + number) == [10, 11, 12]
    assert journal.read() == {0: 10, 1: 11, 2: 12}


def test_trials_do_not_depend_on_the_number_of_jobs(small: ClassificationEnvironment) -> None:
    setup = table1.prepare(small, 0)
    one, again = table1.trial(setup, 3), table1.trial(setup, 3)
    values = [{name: found.value for name, found in result["found"].items()} for result in (one, again)]
    assert values[0] == values[1]


def test_live_runs_of_a_policy_that_is_right_lose_only_to_exploration(small: ClassificationEnvironment) -> None:
    from bench.reproduction.protocol import EPSILON, learner

    found = np.array(live_runs(learner(small), small, 60, [[0, i] for i in range(20)]))
    # epsilon 0.1 spread over 3 actions, two of them wrong
    assert found[:, 1].mean() == pytest.approx(EPSILON * 2 / 3, abs=0.01)
    # 1,200 losses of sd 0.25: their mean is within five standard errors, 0.036, with odds of 1e-6
    assert abs(found[:, 0].mean() - found[:, 1].mean()) < 0.036


def test_rejection_leaves_a_log_of_the_stated_propensities() -> None:
    made = table3.study(campaign(60_000), 0, skewed=True, signed=False)
    everything = made.subsets[0]
    assert everything.propensities.min() == pytest.approx(1 / 13)
    # harmonic mean test: E[1/p] = K; sd of 1/p is below 4, so five standard errors are odds of 1e-6
    inverse = 1 / everything.propensities
    assert abs(inverse.mean() - 3) < 5 * inverse.std() / len(everything) ** 0.5


def test_only_seen_columns_change_nothing() -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.1)
    labels = rng.integers(2, size=40)
    sparse = scipy.sparse.csr_array(dense)
    ours = SeenColumns(solver="liblinear", C=1.0).fit(sparse, labels)
    theirs = LogisticRegression(solver="liblinear", C=1.0).fit(sparse, labels)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-12)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), LinearRegression(), DecisionTreeClassifier(random_state=0)]
)
def test_scores_side_by_side_are_those_of_the_estimators(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(60, 3))
    rewards = (contexts @ rng.normal(size=(3, 4)) > 0).astype(np.float64)
    rewards[:, 3] = 1.0  # one class only: a level
    policy = bc.FromClassifier(estimator, epsilon=0.0, initial=(contexts, rewards))
    policy.start(4, 3, rng)
    models = [type(estimator)(**estimator.get_params()).fit(contexts, rewards[:, a]) for a in range(3)]
    read = [m.predict_proba(contexts)[:, 1] if hasattr(m, "predict_proba") else m.predict(contexts) for m in models]
    table = np.column_stack([*read, np.ones(60)])
    best = table == table.max(axis=1, keepdims=True)
    np.testing.assert_allclose(policy.probabilities(contexts), best / best.sum(axis=1, keepdims=True))


def test_score_of_a_biased_evaluator() -> None:
    found = score("biased", np.array([0.5, 0.5, np.nan]))
    assert found[1:6] == (2, 0.5, 0.0, 0.5, 0.0)


def test_the_command_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BACKCAST_DATA", raising=False)
    assert main(["table1", "--out", str(tmp_path), "--quiet"]) == 2
    assert "BACKCAST_DATA" in capsys.readouterr().err
    assert main(["table9", "--out", str(tmp_path)]) == 2
    assert "there is no experiment 'table9'" in capsys.readouterr().err


def test_json_of_reproduce_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("bench.reproduction.writing.reproduce", lambda name, plan, command: f"# {name}")
    assert main(["table1", "--json", "--out", "results"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"experiment": "table1", "file": "results/table1.json", "table": "# table1"}
    assert printed.err == ""
