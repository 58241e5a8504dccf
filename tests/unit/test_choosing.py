"""What "auto" takes, and that it says why."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._auto import DriftWarning, resolve_evaluator
from backcast._request import EvaluationRequest
from backcast.environments import LinearEnvironment

LOG = LinearEnvironment(3, 4, logistic=True).log(2000, np.random.default_rng(0))


def chosen(
    policy: Any, log: Any = LOG, exchangeable: bool | None = None, **options: Any
) -> tuple[Any, EvaluationRequest, str]:
    request = EvaluationRequest(log, policy, **{"replicates": "default", "horizon": 40, **options})
    evaluator, request, (why,) = resolve_evaluator("auto", request, [policy], exchangeable)
    assert why.startswith("auto chose")
    return evaluator, request, why


def test_a_fixed_policy_is_weighed() -> None:
    evaluator, _, why = chosen(bc.Uniform())
    assert isinstance(evaluator, bc.DR)
    assert "fixed" in why


@pytest.mark.parametrize(
    "policy", [bc.EpsilonGreedy(0.1), bc.LinUCB(), bc.UCB1(), bc.EpsilonGreedy(0.1, batch_size=15)]
)
def test_a_learner_on_an_exchangeable_log_gets_the_clock(policy: Any) -> None:
    evaluator, request, why = chosen(policy)
    assert isinstance(evaluator, bc.ClockReplay)
    assert isinstance(request.reward_model, bc.CrossFit)
    assert request.replicates == "auto"
    assert "exchangeable" in why


def test_a_policy_that_is_slow_to_score_is_permuted_instead() -> None:
    evaluator, request, why = chosen(bc.LinearThompson())
    assert evaluator == bc.DRns.recommended(len(LOG))
    assert request.replicates == "auto"
    assert "too long with this policy" in why
    assert isinstance(chosen(bc.LinearThompson(batch_size=40), LOG[:200])[0], bc.ClockReplay)


def test_order_is_kept_where_the_log_is_not_exchangeable() -> None:
    evaluator, request, why = chosen(bc.LinUCB(), exchangeable=False)
    assert evaluator == bc.DRns.recommended(len(LOG))
    assert isinstance(request.reward_model, bc.Progressive)
    assert request.replicates is None
    assert "not exchangeable" in why


def test_drift_is_warned_of_and_may_be_overruled() -> None:
    moved = LOG.rewards.copy()
    moved[:1000] = 1 - (1 - moved[:1000]) * 0.5
    drifting = bc.Log(LOG.contexts, LOG.actions, moved, LOG.propensities, n_actions=3, reward_range=(0, 1))
    with pytest.warns(DriftWarning, match="evaluated in log order"):
        evaluator, _, _ = chosen(bc.LinUCB(), drifting)
    assert isinstance(evaluator, bc.DRns)
    with pytest.warns(DriftWarning, match="its order may matter"):
        assert isinstance(chosen(bc.LinUCB(), drifting, exchangeable=True)[0], bc.ClockReplay)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen(bc.LinUCB(), drifting, exchangeable=False)


def test_what_the_user_chose_is_kept() -> None:
    _, request, _ = chosen(bc.LinUCB(), reward_model=0.5, replicates=None)
    assert request.reward_model == 0.5
    assert request.replicates is None
