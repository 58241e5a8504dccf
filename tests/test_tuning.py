"""OptunaObjective, by Optuna itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pytest

import backcast as bc
from backcast._racing import STAGES
from backcast.environments import LinearEnvironment

LOG = LinearEnvironment(3, 4, logistic=True, spread=0.5).log(600, np.random.default_rng(1))
SHORT: dict[str, Any] = {"horizon": 40, "reward_model": 0.5, "exchangeable": True}
EPSILONS = [0.05, 0.2, 0.5, 1.0]


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def make_policy(trial: Any) -> bc.EpsilonGreedy:
    return bc.EpsilonGreedy(trial.suggest_categorical("epsilon", EPSILONS), batch_size=10)


def make_study(pruner: Any, direction: str = "maximize") -> Any:
    sampler = optuna.samplers.GridSampler({"epsilon": EPSILONS}, seed=0)
    return optuna.create_study(direction=direction, sampler=sampler, pruner=pruner)


def test_trials_run_common_passes_and_report_after_each_stage() -> None:
    study = make_study(optuna.pruners.NopPruner())
    study.optimize(bc.OptunaObjective(LOG, make_policy, **SHORT), n_trials=4)
    best = bc.search(LOG, [bc.EpsilonGreedy(each, batch_size=10) for each in EPSILONS], **SHORT)
    assert make_policy(study.best_trial).epsilon == best.policy.epsilon
    for trial in study.trials:
        assert list(trial.intermediate_values) == list(STAGES)
        assert trial.value == trial.intermediate_values[64]
    # the first stage of the search runs the same passes
    by_epsilon = {trial.params["epsilon"]: trial.intermediate_values for trial in study.trials}
    for candidate in best.candidates:
        difference = candidate.difference
        if difference is not None:
            epsilon = float(candidate.name.partition("=")[2].partition(",")[0])
            values, winner = by_epsilon[epsilon], by_epsilon[best.policy.epsilon]
            assert difference.value == pytest.approx(values[candidate.passes] - winner[candidate.passes])


def test_the_pruner_ends_trials_that_are_behind() -> None:
    study = make_study(optuna.pruners.MedianPruner(n_startup_trials=1))
    study.enqueue_trial({"epsilon": 0.05})
    study.optimize(bc.OptunaObjective(LOG, make_policy, **SHORT), n_trials=4)
    pruned = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.PRUNED]
    assert {trial.params["epsilon"] for trial in pruned} >= {1.0}
    assert all(len(trial.intermediate_values) < len(STAGES) for trial in pruned)


def test_fixed_policies_and_warm_starts_have_values() -> None:
    def make_fixed(trial: Any) -> bc.Fixed:
        p = trial.suggest_float("p", 0.0, 0.5)
        return bc.Fixed([p, 0.3, 0.7 - p])

    value = bc.OptunaObjective(LOG, make_fixed, bc.IPS())(optuna.trial.FixedTrial({"p": 0.4}))
    assert value == bc.evaluate(LOG, bc.Fixed([0.4, 0.3, 0.3]), bc.IPS()).value

    def make_warm(trial: Any) -> bc.WarmStart:
        return bc.WarmStart(make_policy(trial), share=0.25)

    trial = optuna.trial.FixedTrial({"epsilon": 0.05})
    warm = bc.OptunaObjective(LOG, make_warm, **SHORT)(trial)
    cold = bc.OptunaObjective(LOG, make_policy, **SHORT)(trial)
    assert warm > cold


def test_a_study_that_minimizes_is_refused() -> None:
    with pytest.raises(bc.OptionError, match="the study minimizes"):
        make_study(None, "minimize").optimize(bc.OptunaObjective(LOG, make_policy, **SHORT), n_trials=1)
    with pytest.raises(bc.OptionError, match="give a function from a trial to a policy"):
        bc.OptunaObjective(LOG, bc.LinUCB(), **SHORT)  # type: ignore[arg-type]
