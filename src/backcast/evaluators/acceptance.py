"""Acceptance rules of DRns: Quantile, WorstCase, Budget, or a fixed multiplier; and their multiplier schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.replay import MultiplierSchedule
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest
from backcast._validation import at_least, count, share
from backcast.errors import OptionError
from backcast.log import Log
from backcast.policies._calls import probabilities_of
from backcast.policies.base import batch_size_of


@dataclass(frozen=True)
class Quantile(Parametrized):
    """Multiplier ``min(c_max, q-quantile of p/pi over the events seen)`` (Dudik et al. 2012, Algorithm 1).

    Examples
    --------
    >>> Quantile(0.01)
    Quantile(q=0.01)
    """

    q: float = 0.01

    def __post_init__(self) -> None:
        share("q", self.q)


@dataclass(frozen=True)
class WorstCase(Parametrized):
    """The smallest probability that the logger gave to any action in this log: no bias, few acceptances.

    Examples
    --------
    >>> from backcast.evaluators.drns import DRns
    >>> DRns(acceptance=WorstCase()).name
    'DRns(WorstCase())'
    """


@dataclass(frozen=True)
class Budget(Parametrized):
    """The largest multiplier whose bias mass, on calibration events, is at most ``eta / T`` per round.

    Parameters
    ----------
    eta
        Total variation allowed over the whole history: the bias of the average reward is at most eta times the
        reward range.
    calibration
        Events at the head of the log, never accepted, on which the mass is measured.
    refreshes
        How often per trajectory the multiplier is computed again; None for whenever the policy has learned. Fewer
        refreshes are cheaper and let the mass exceed the budget in between.

    Examples
    --------
    >>> Budget(eta=0.1).eta
    0.1
    """

    eta: float = 0.05
    calibration: int = 1000
    refreshes: int | None = None

    def __post_init__(self) -> None:
        at_least("eta", self.eta, 0.0, strict=True)
        count("calibration", self.calibration)
        if self.refreshes is not None:
            count("refreshes", self.refreshes)


AcceptanceRule: TypeAlias = Quantile | WorstCase | Budget | float


def schedule_for(
    rule: AcceptanceRule, request: EvaluationRequest, c_max: float, *, carry: bool, head: Log | None
) -> MultiplierSchedule:
    """Return the multiplier schedule of a rule; ``head`` are the events set aside for warm-up or calibration."""
    if isinstance(rule, Quantile):
        return MultiplierSchedule(c_max=c_max, q=rule.q, carry=carry, warm_up=head)
    if isinstance(rule, WorstCase):
        return MultiplierSchedule(c_max=min(c_max, smallest_propensity(request)))
    if isinstance(rule, Budget):
        return _budget_schedule(rule, request, c_max, head)
    if not (isinstance(rule, int | float) and 0 < rule <= 1):
        raise OptionError(
            f"acceptance is {rule!r}; give Quantile(q), WorstCase(), Budget(eta), or a fixed multiplier in (0, 1]"
        )
    return MultiplierSchedule(c_max=min(c_max, float(rule)))


def smallest_propensity(request: EvaluationRequest) -> float:
    """Return the smallest probability of the logger, by one pass over a stream; stored in the checkpoint."""
    if isinstance(request.log, Log):
        return request.log.smallest_propensity
    stored = None if request.checkpoint is None else request.checkpoint.get("smallest")
    if stored is not None:
        return float(stored.value)
    smallest = min(part.smallest_propensity for part in request.log.parts())
    if request.checkpoint is not None:
        request.checkpoint.put("smallest", smallest)
    return smallest


def _budget_schedule(
    rule: Budget, request: EvaluationRequest, c_max: float, calibration: Log | None
) -> MultiplierSchedule:
    horizon = request.horizon
    if horizon is None or calibration is None:
        raise OptionError("Budget(eta) divides a bias among T rounds; give horizon=T")
    largest_weight = 1.0 / min(smallest_propensity(request), calibration.smallest_propensity)

    def calibrate(policy: Any) -> float:
        weights, masses = _weights_and_masses(probabilities_of(policy, calibration), calibration, largest_weight)
        return largest_multiplier(weights, rule.eta / horizon, c_max, masses)

    refresh = batch_size_of(request.policy) if rule.refreshes is None else max(1, horizon // rule.refreshes)
    return MultiplierSchedule(c_max=c_max, calibrate=calibrate, refresh=refresh)


def _weights_and_masses(probabilities: FloatArray, log: Log, largest_weight: float) -> tuple[FloatArray, FloatArray]:
    """Return weights ``pi/mu`` and their masses: of all actions if mu is recorded, else of the logged ones.

    The logged ones may miss the rare event that matters, so one event of the largest possible weight is added: the
    expected mass of a further event is then within the budget (conformal risk control, Angelopoulos et al. 2022).
    """
    logging = log.logging_probabilities
    if logging is None:
        weights = probabilities[np.arange(len(log)), log.actions] / log.propensities
        return np.append(weights, max(largest_weight, weights.max())), np.full(len(log) + 1, 1.0 / (len(log) + 1))
    possible = logging > 0
    return probabilities[possible] / logging[possible], logging[possible] / len(log)


def largest_multiplier(weights: FloatArray, budget: float, c_max: float, masses: FloatArray | None = None) -> float:
    """Return the largest ``c <= c_max`` with ``sum_i m_i max(0, w_i - 1/c) <= budget``; masses ``m_i`` sum to 1.

    With weights in descending order, the level ``l = 1/c`` that uses up the budget is
    ``max_j [sum_{i<=j} m_i w_i - budget] / sum_{i<=j} m_i`` (docs/theory.md, Proposition 5).

    >>> largest_multiplier(np.array([4.0, 1.0]), budget=1.0, c_max=1.0)
    0.5

    By hand: at c = 1/2 only the first weight exceeds 2, by 2, and the mean of (2, 0) is the budget.
    """
    masses = np.full(weights.size, 1.0 / weights.size) if masses is None else masses
    order = np.argsort(weights)[::-1]
    w, m = weights[order], masses[order]
    if (m * np.maximum(0.0, w - 1.0 / c_max)).sum() <= budget:
        return c_max
    inverse_c = ((np.cumsum(m * w) - budget) / np.cumsum(m)).max()
    return float(min(c_max, 1.0 / inverse_c))
