"""Making estimated probabilities honest: temperature and exploration, a floor, and the error that is left.

Two numbers for all actions, fitted by maximum likelihood on predictions that never saw the event: a temperature
(Guo et al. 2017), and a share of even exploration, because that is what loggers mix in and what a softmax cannot
express. They keep rows summing to 1 and the order of actions, and a few hundred events pin them down. Isotonic
regression, one action at a time, does neither: it needs many events of every action, and it makes exact zeros, which
are fatal where one divides by them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast.arrays import BoolArray, FloatArray, IntArray

__all__ = ["AS_PREDICTED", "Calibration", "calibration_error", "fit_calibration", "lift_to_floor"]

TINY = 1e-12
FLATTEST, SHARPEST = 0.05, 20.0
BINS = 10
ENOUGH = 10_000  # events that pin two numbers down


class Calibration(NamedTuple):
    """``(1 - e) p_a^b / sum p^b + e / m`` over the m actions that may be chosen.

    ``exponent`` b is one over the temperature; ``exploration`` e is the share of even choice.

    >>> Calibration(exponent=0.5, exploration=0.25).applied(np.array([[0.2, 0.8, 0.0]]))
    array([[0.375, 0.625, 0.   ]])

    By hand: roots are as 1 to 2, so (1/3, 2/3); three quarters of that, and an eighth each.
    """

    exponent: float
    exploration: float

    def applied(self, chances: FloatArray) -> FloatArray:
        """The calibrated probabilities of each row; what was impossible stays so."""
        return (1 - self.exploration) * _tilted(chances, self.exponent) + self.exploration * _even(chances)


AS_PREDICTED = Calibration(exponent=1.0, exploration=0.0)


def fit_calibration(chances: FloatArray, actions: IntArray) -> Calibration:
    """The calibration under which the actions are likeliest.

    >>> coins = np.tile([0.2, 0.8], (30, 1))
    >>> fitted = fit_calibration(coins, np.array([0, 1, 1] * 10))
    >>> fitted.applied(coins[:1]).round(3)
    array([[0.333, 0.667]])
    """
    from scipy.optimize import minimize

    some = slice(None, None, 1 + actions.size // ENOUGH)
    loss = _Loss(chances[some], actions[some])
    bounds = [(np.log(FLATTEST), np.log(SHARPEST)), (0.0, 1.0)]
    # several starts: a sharp softmax with exploration and a flat one without are two hills
    tries: list[Any] = [minimize(loss, start, jac=True, bounds=bounds) for start in ([0.0, 0.05], [1.5, 0.2])]
    best = min(tries, key=lambda found: float(found.fun))
    return Calibration(float(np.exp(best.x[0])), float(best.x[1]))


class _Loss:
    """Mean negative log-likelihood of the actions at (log exponent, exploration), and its gradient."""

    def __init__(self, chances: FloatArray, actions: IntArray) -> None:
        self.possible, self.logs = chances > 0, np.log(np.maximum(chances, TINY))
        self.taken = (np.arange(actions.size), actions)
        self.even = _even(chances)[self.taken]

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        exponent, exploration = float(np.exp(point[0])), float(point[1])
        powers = np.exp(exponent * self.logs) * self.possible
        tilted = powers / powers.sum(axis=1, keepdims=True)
        own = tilted[self.taken]
        mixed = np.maximum((1 - exploration) * own + exploration * self.even, TINY)
        pull = self.logs[self.taken] - (tilted * self.logs).sum(axis=1)
        by_exponent = (1 - exploration) * own * pull * exponent / mixed
        by_exploration = (self.even - own) / mixed
        return -float(np.log(mixed).mean()), -np.array([by_exponent.mean(), by_exploration.mean()])


def _tilted(chances: FloatArray, exponent: float) -> FloatArray:
    powers = np.where(chances > 0, np.maximum(chances, TINY) ** exponent, 0.0)
    tilted: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return tilted


def _even(chances: FloatArray) -> FloatArray:
    possible = chances > 0
    even: FloatArray = possible / possible.sum(axis=1, keepdims=True)
    return even


def lift_to_floor(chances: FloatArray, eligible: BoolArray, floor: float) -> FloatArray:
    """Lift eligible actions to the floor; the others of the row give way in proportion.

    >>> lift_to_floor(np.array([[0.0, 0.2, 0.8, 0.0]]), np.array([[True, True, True, False]]), 0.125)
    array([[0.125, 0.175, 0.7  , 0.   ]])
    """
    low = np.zeros(chances.shape, dtype=np.bool_)
    lifted = chances
    # giving way may push another action below the floor: at most K rounds
    for _ in range(chances.shape[1]):
        fresh = eligible & ~low & (lifted < floor)
        if not fresh.any():
            break
        low |= fresh
        free = np.where(low, 0.0, chances)
        total = free.sum(axis=1, keepdims=True)
        share = (1.0 - floor * low.sum(axis=1, keepdims=True)) / np.where(total > 0, total, 1.0)
        lifted = np.where(low, floor, free * share)
    return lifted


def calibration_error(chances: FloatArray, actions: IntArray, eligible: BoolArray) -> float:
    """Average gap between what was predicted and how often it came, over bins of equal size of all predictions.

    >>> calibration_error(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 1]), np.ones((2, 2), bool))
    0.0
    """
    hits = np.zeros(chances.shape)
    hits[np.arange(actions.size), actions] = 1.0
    predicted, came = chances[eligible], hits[eligible]
    # equal predictions must share a bin, or their order would make up an error
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, predicted, side="left")
    gaps = np.bincount(bins, weights=predicted - came)
    return float(np.abs(gaps).sum() / predicted.size)
