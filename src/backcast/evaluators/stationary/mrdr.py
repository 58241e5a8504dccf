"""More robust doubly robust: DR with a reward model fitted for low variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backcast.arrays import FloatArray
from backcast.engine.scoring import fresh_copy
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.evaluators.question import Question, Streams, require_stationary
from backcast.evaluators.stationary.method import Method, answer_by
from backcast.evaluators.stationary.target import probability_of
from backcast.log import Log
from backcast.reward_models.honesty import CrossFit
from backcast.reward_models.per_action import PerAction

__all__ = ["MRDR", "mrdr_weights"]


@dataclass(frozen=True)
class MRDR:
    """DR whose model minimises ``sum_k pi_k^2 (1 - p_k)/p_k^2 (r_k - q(x_k, a_k))^2`` (Farajtabar et al. 2018).

    That sum estimates the part of DR's variance that the model can do something about (exactly so for a policy
    that is sure of its action; for others the covariances between actions, which no log shows, are left out).
    The model is one regression an action, cross-fitted: the question's ``reward_model`` if it is a scikit-learn
    estimator or a ``PerAction``, else ridge regression.

    Parameters
    ----------
    folds
        Parts of the cross-fitting.

    Examples
    --------
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 1] * 4, rewards=[0.5, 0.25] * 4, propensities=[0.5] * 8)
    >>> MRDR().answer(Question(log, Fixed([1.0, 0.0]))).value
    0.5
    """

    folds: int = 5

    def answer(self, question: Question) -> Estimate:
        """DR with the model fitted for this policy."""
        require_stationary(question.policy, "MRDR")
        model = PerAction(_estimator(question.reward_model), weights=mrdr_weights(question.policy, question.seed))
        asked = replace(question, reward_model=CrossFit(model, self.folds))
        return answer_by(Method("MRDR", model=True, settings={"folds": self.folds}), asked)


def mrdr_weights(policy: Any, seed: int = 0) -> Callable[[Log], FloatArray]:
    """The training weights ``pi(a_k|x_k)^2 (1 - p_k)/p_k^2`` as a function of the log.

    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.5, 0.25])
    >>> mrdr_weights(Fixed([0.5, 0.5]))(log)
    array([0.5, 3. ])
    """

    def weights(log: Log) -> FloatArray:
        ratio = probability_of(fresh_copy(policy, log, Streams.of(seed).policy), log) / log._propensities
        wanted = ratio**2 * (1.0 - log._propensities)
        # never quite 0, so that every action seen can be fitted
        return np.maximum(wanted, max(1e-9 * wanted.max(), 1e-300))

    return weights


def _estimator(reward_model: Any) -> Any:
    if isinstance(reward_model, PerAction):
        return reward_model.estimator
    if reward_model is None or hasattr(reward_model, "get_params"):
        return reward_model
    raise OptionError(
        f"MRDR fits its own reward model and was given {type(reward_model).__name__}; give a scikit-learn estimator, "
        "PerAction(estimator) or nothing, or use DR with this model"
    )
