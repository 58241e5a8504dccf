"""A quick version of every experiment on scikit-learn's digits, and properties of their parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import backcast as bc
from backcast.environments import ClassificationEnvironment
from bench.reproduction import classification, real_data, tables
from bench.reproduction.__main__ import main
from bench.reproduction.datasets import Campaign, load_world
from bench.reproduction.protocol import (
    DEFAULT,
    EPSILON,
    OURS,
    PAPER,
    CompactLogisticRegression,
    Options,
    make_learner,
    score_errors,
)

COMMAND = "python -m bench.reproduction"


@pytest.fixture(scope="module")
def small() -> ClassificationEnvironment:
    """Three digits of ten: few actions, quick refits."""
    world = load_world("digits", None)
    rows = np.flatnonzero(world.labels[:, :3].any(axis=1))
    return ClassificationEnvironment(world.features[rows], world.labels[rows, :3], loss=True, action_labels=(0, 1, 2))


@pytest.fixture
def options(tmp_path: Path, small: ClassificationEnvironment, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setattr(classification, "load_world", lambda name, folder: small)
    monkeypatch.setattr("backcast.evaluators._replicates.FIRST_PASSES", 2)
    monkeypatch.setattr(classification, "HORIZON", 30)
    monkeypatch.setattr(classification, "LONG_HORIZON", 45)
    monkeypatch.setattr(real_data, "load_campaign", lambda name, folder: make_campaign(1200))
    return Options(None, tmp_path, trials=2, world="digits", simulations=4)


def make_campaign(n: int) -> Campaign:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(n, 2))
    actions = rng.integers(3, size=n)
    rewards = (rng.random(n) < 0.2 + 0.3 * (actions == 1)).astype(np.float64)
    return Campaign(contexts, actions, rewards, 3, (contexts[:, 0] > 0).astype(np.int64))


def modification_times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("name", list(tables.EXPERIMENTS))
def test_each_experiment_writes_its_results_and_reuses_its_trials(name: str, options: Options) -> None:
    page = tables.write_experiment(name, options, COMMAND)
    assert (options.out / f"{name}.md").read_text() == page
    record = json.loads((options.out / f"{name}.json").read_text())
    assert record["command"] == COMMAND
    before = modification_times(options.out / "checkpoints")
    assert before
    assert tables.write_experiment(name, options, COMMAND) == page
    assert modification_times(options.out / "checkpoints") == before


def test_charts_may_have_another_folder(options: Options) -> None:
    page = tables.write_experiment("table1", replace(options, charts=options.out / "docs" / "charts"), COMMAND)
    assert "](docs/charts/table1.svg)" in page
    assert (options.out / "docs" / "charts" / "table1.svg").exists()


def test_both_tasks_score_every_evaluator(options: Options) -> None:
    static = classification.run_table1(options)["scores"]
    assert [score.evaluator for score in static] == [*PAPER, OURS[0], DEFAULT]
    adaptive = classification.run_table2(options)["scores"]
    assert {score.evaluator for score in adaptive["ground"]} == {*PAPER, *OURS[1:]}
    assert all(np.isfinite(score.rmse) for score in static)


def test_a_run_with_another_seed_is_refused(options: Options) -> None:
    classification.run_table1(options)
    with pytest.raises(bc.OptionError, match=r"seed \(0, now 1\); choose another folder"):
        classification.run_table1(replace(options, seed=1))


def test_a_trial_depends_on_its_number_only(small: ClassificationEnvironment) -> None:
    task = classification.prepare_static_task(small, 0)
    trials = [classification.run_static_trial(task, 3)[1] for _ in range(2)]
    first, second = ({name: result.value for name, result in trial.items()} for trial in trials)
    assert first == second


def test_live_runs_of_a_trained_policy_lose_only_by_exploration(small: ClassificationEnvironment) -> None:
    policy = make_learner(small)
    runs = [classification.run_live(policy, small, 60, np.random.default_rng([0, i])) for i in range(20)]
    met, exact = np.array(runs).mean(axis=0)
    # epsilon 0.1 spread over 3 actions, two of them wrong
    assert exact == pytest.approx(EPSILON * 2 / 3, abs=0.01)
    # 1,200 losses of sd 0.25: their mean is within five standard errors, 0.036, with odds of 1e-6
    assert abs(met - exact) < 0.036


def test_rejection_leaves_a_log_of_the_stated_propensities() -> None:
    subset = real_data.make_study(make_campaign(60_000), 0, skewed=True, signed=False).subsets[0]
    assert subset.propensities.min() == pytest.approx(1 / 13)
    # harmonic mean test: E[1/p] = K; sd of 1/p is below 4, so five standard errors are odds of 1e-6
    inverse = 1 / subset.propensities
    assert abs(inverse.mean() - 3) < 5 * inverse.std() / len(subset) ** 0.5


def test_columns_that_do_not_occur_change_nothing() -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.1)
    labels = rng.integers(2, size=40)
    sparse = scipy.sparse.csr_array(dense)
    compact = CompactLogisticRegression(solver="liblinear", C=1.0).fit(sparse, labels)
    full = LogisticRegression(solver="liblinear", C=1.0).fit(sparse, labels)
    np.testing.assert_allclose(compact.coef_, full.coef_, atol=1e-12)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), LinearRegression(), DecisionTreeClassifier(random_state=0)]
)
def test_the_policy_takes_the_largest_prediction_of_the_estimators(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(60, 3))
    rewards = (contexts @ rng.normal(size=(3, 4)) > 0).astype(np.float64)
    rewards[:, 3] = 1.0  # one class only: a constant
    policy = bc.FromClassifier(estimator, epsilon=0.0, initial=(contexts, rewards))
    policy.start(4, 3, rng)
    models = [type(estimator)(**estimator.get_params()).fit(contexts, rewards[:, a]) for a in range(3)]
    predicted = [
        m.predict_proba(contexts)[:, 1] if hasattr(m, "predict_proba") else m.predict(contexts) for m in models
    ]
    table = np.column_stack([*predicted, np.ones(60)])
    best = table == table.max(axis=1, keepdims=True)
    np.testing.assert_allclose(policy.probabilities(contexts), best / best.sum(axis=1, keepdims=True))


def test_score_of_a_biased_evaluator() -> None:
    score = score_errors("biased", np.array([0.5, 0.5, np.nan]))
    assert (score.trials, score.rmse, score.half_width, score.bias, score.stdev) == (2, 0.5, 0.0, 0.5, 0.0)


def test_errors_of_the_command_name_the_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BACKCAST_DATA", raising=False)
    assert main(["table1", "--out", str(tmp_path), "--quiet"]) == 2
    assert "BACKCAST_DATA" in capsys.readouterr().err
    assert main(["table9", "--out", str(tmp_path)]) == 2
    assert "there is no experiment 'table9'" in capsys.readouterr().err


def test_json_output_is_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(tables, "write_experiment", lambda name, options, command: f"# {name}")
    assert main(["table1", "--json", "--out", "results"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"experiment": "table1", "file": "results/table1.json", "table": "# table1"}
    assert printed.err == ""
