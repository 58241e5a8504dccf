"""The policy under evaluation, asked for no more than an estimator needs.

Three questions of a policy, the first answered by every policy and the others by those that know many actions:

``probabilities(contexts, available)``
    all K probabilities, ``(n, K)``;
``probability_of(contexts, actions)``
    the probability of one action an event, ``(n,)`` (``available=`` is passed too where the log has it);
``expectation(contexts, values)``
    ``sum_a pi(a|x) values(a)``, ``(n,)``, where ``values(actions)`` gives the predicted reward of one action an
    event: a policy that considers ten of ten thousand actions calls it ten times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.engine.scoring import contexts_for, name_of, probabilities_of
from backcast.errors import PolicyError
from backcast.evaluators.stationary.kernels import taken
from backcast.log import Log

__all__ = ["expectation_of", "probability_of"]


def probability_of(policy: Any, log: Log) -> FloatArray:
    """The policy's probability of each logged action, asked for directly where the policy can tell.

    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[1, 0], rewards=[0, 0], propensities=[0.5, 0.5])
    >>> probability_of(Fixed([0.25, 0.75]), log)
    array([0.75, 0.25])
    """
    ask = getattr(policy, "probability_of", None)
    if not callable(ask):
        return taken(probabilities_of(policy, log), log._actions)
    more = {} if log.available is None else {"available": log.available}
    own = _column(policy, "probability_of", ask(contexts_for(policy, log), log.actions, **more), log)
    wrong = ~((own >= 0) & (own <= 1 + 1e-9))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise PolicyError(
            f"row {int(log.rows[place])}: {name_of(policy)}.probability_of is {own[place]:g}; it must lie in [0, 1]"
        )
    return own


def expectation_of(policy: Any, log: Log, values: Callable[[IntArray], FloatArray]) -> FloatArray:
    """``sum_a pi(a|x_k) values(a)_k`` by the policy's own ``expectation``."""
    return _column(policy, "expectation", policy.expectation(contexts_for(policy, log), values), log)


def _column(policy: Any, verb: str, raw: Any, log: Log) -> FloatArray:
    column = np.asarray(raw, dtype=np.float64)
    if column.shape != (len(log),):
        raise PolicyError(
            f"{name_of(policy)}.{verb} returned shape {column.shape}; expected ({len(log)},), one number an event"
        )
    if not np.isfinite(column).all():
        place = int(np.flatnonzero(~np.isfinite(column))[0])
        raise PolicyError(
            f"row {int(log.rows[place])}: {name_of(policy)}.{verb} is {column[place]}; it must be a finite number"
        )
    return column
