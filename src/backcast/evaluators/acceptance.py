"""Acceptance rules: how eagerly events are taken into the simulated history. They are values, given to DRns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.replay import MultiplierSchedule
from backcast._request import EvaluationRequest
from backcast._validation import at_least, count, share
from backcast.errors import OptionError
from backcast.log import Log
from backcast.policies._calls import probabilities_of
from backcast.policies.base import batch_size_of


@dataclass(frozen=True)
class Quantile:
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
class WorstCase:
    """The smallest probability the logger gave to anything in this log: never a bias, few acceptances.

    Examples
    --------
    >>> from backcast.evaluators.drns import DRns
    >>> DRns(acceptance=WorstCase()).name
    'DRns(WorstCase())'
    """


@dataclass(frozen=True)
class Budget:
    """The largest multiplier whose bias mass, on a calibration slice, stays within ``eta / T`` a round.

    Parameters
    ----------
    eta
        Total variation allowed over the whole history: the bias of the average reward is at most eta times the
        reward range.
    calibration
        Events at the head of the log, never accepted, on which the mass is measured.
    refreshes
        How often in a trajectory the multiplier is set anew; None for whenever the policy has learned. Setting it
        less often is cheaper and lets the mass drift above the budget in between.

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


def smallest_probability(request: EvaluationRequest) -> float:
    """``min_k min_a mu(a|x_k)`` where the logger's probabilities are recorded, else the smallest propensity."""
    kept = None if request.keep is None else request.keep.get("smallest")
    if kept is not None:
        return float(kept.value)
    found = min(smallest_in(part) for part in request.parts())
    if request.keep is not None and not request.in_memory:
        # it took a pass over the whole stream
        request.keep.put("smallest", found)
    return found


def smallest_in(log: Log) -> float:
    """The same for one part of a log."""
    logging = log.logging_probabilities
    if logging is None:
        return float(log.propensities.min())
    return float(logging[logging > 0].min())


def largest_multiplier(weights: FloatArray, budget: float, c_max: float, masses: FloatArray | None = None) -> float:
    """The largest ``c <= c_max`` with ``sum m max(0, w - 1/c) <= budget``, solved exactly; masses m sum to 1.

    With the weights in descending order, the sum is ``m_1 w_1 + .. + m_j w_j - (m_1 + .. + m_j)/c`` while
    ``w_j >= 1/c``.

    >>> largest_multiplier(np.array([4.0, 1.0]), budget=1.0, c_max=1.0)
    0.5

    By hand: at c = 1/2 only the first weight exceeds 2, by 2, and the mean of (2, 0) is the budget.
    """
    masses = np.full(weights.size, 1.0 / weights.size) if masses is None else masses
    order = np.argsort(weights)[::-1]
    ordered, mass = weights[order], masses[order]
    if (mass * np.maximum(0.0, ordered - 1.0 / c_max)).sum() <= budget:
        return c_max
    # level j: the level 1/c at which the j largest weights together exceed it by the budget; with too few or too many
    # of them it comes out lower, so the largest is the one
    levels = (np.cumsum(mass * ordered) - budget) / np.cumsum(mass)
    return float(min(c_max, 1.0 / levels.max()))


def schedule_for(
    rule: AcceptanceRule, request: EvaluationRequest, c_max: float, *, carry: bool, warm_up: Log | None
) -> MultiplierSchedule:
    """Turn a rule into what the engine does."""
    if isinstance(rule, Quantile):
        return MultiplierSchedule(c_max=c_max, q=rule.q, carry=carry, warm_up=warm_up)
    if isinstance(rule, WorstCase):
        return MultiplierSchedule(c_max=min(c_max, smallest_probability(request)))
    if isinstance(rule, Budget):
        return _budget_schedule(rule, request, c_max, warm_up)
    if not isinstance(rule, int | float | np.number) or not 0 < rule <= 1:
        raise OptionError(f"acceptance is {rule!r}; give a number in (0, 1], Quantile(q), WorstCase() or Budget(eta)")
    return MultiplierSchedule(c_max=min(c_max, float(rule)))


def _budget_schedule(
    rule: Budget, request: EvaluationRequest, c_max: float, calibration: Log | None
) -> MultiplierSchedule:
    if request.horizon is None or calibration is None:
        raise OptionError("Budget(eta) shares a bias among T rounds; give horizon=T")
    horizon, slice_ = request.horizon, calibration
    largest = 1.0 / min(smallest_probability(request), smallest_in(slice_))

    def calibrate(policy: Any) -> float:
        weights, masses = _weights_and_masses(probabilities_of(policy, slice_), slice_, largest)
        return largest_multiplier(weights, rule.eta / horizon, c_max, masses)

    refresh = batch_size_of(request.policy) if rule.refreshes is None else max(1, horizon // rule.refreshes)
    return MultiplierSchedule(c_max=c_max, calibrate=calibrate, refresh=refresh)


def _weights_and_masses(probabilities: FloatArray, log: Log, largest: float) -> tuple[FloatArray, FloatArray]:
    """Weights ``pi/mu`` with the mass of each: of all actions where mu is recorded, else of the logged ones alone.

    Logged ones alone may miss the rare event that matters, so one more of the largest weight there is joins them: the
    expected mass of a further event then stays within the budget (conformal risk control, Angelopoulos et al. 2022).
    """
    logging = log.logging_probabilities
    if logging is None:
        own = probabilities[np.arange(len(log)), log.actions] / log.propensities
        return np.append(own, max(largest, own.max())), np.full(len(log) + 1, 1.0 / (len(log) + 1))
    possible = logging > 0
    return probabilities[possible] / logging[possible], logging[possible] / len(log)
