"""Drawing actions, and the loggers that worlds explore with."""

from __future__ import annotations

import numpy as np

from backcast.arrays import BoolArray, FloatArray, IntArray

__all__ = ["draw_actions", "exploring_scores", "paper_logging", "sharp_logging"]


def draw_actions(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One action for each row of probabilities; an action of probability 0 is never drawn.

    >>> draw_actions(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0))
    array([1, 0])
    """
    steps = np.cumsum(probabilities, axis=1)
    levels = rng.random((steps.shape[0], 1)) * steps[:, -1:]
    actions: IntArray = (steps <= levels).sum(axis=1).astype(np.int64)
    return actions


def exploring_scores(n: int, n_actions: int, rng: np.random.Generator) -> FloatArray:
    """The random scores of the paper's logger, uniform on [0.1, 1]: they spread propensities without information."""
    return rng.uniform(0.1, 1.0, size=(n, n_actions))


def paper_logging(scores: FloatArray, good: BoolArray) -> FloatArray:
    """``mu(a|x) = 0.3 s_a / sum s + 0.7 I(a good) / #good`` (Dudik et al. 2012, section 4.1).

    >>> paper_logging(np.array([[0.5, 0.5]]), np.array([[True, False]]))
    array([[0.85, 0.15]])
    """
    spread = scores / scores.sum(axis=1, keepdims=True)
    informed = good / good.sum(axis=1, keepdims=True)
    probabilities: FloatArray = 0.3 * spread + 0.7 * informed
    return probabilities


def sharp_logging(scores: FloatArray, temperature: float, floor: float) -> FloatArray:
    """A softmax of the scores that never gives an action less than the floor.

    >>> sharp_logging(np.array([[0.0, np.log(3.0)]]), temperature=1.0, floor=0.25)
    array([[0.375, 0.625]])

    By hand: the softmax is (1/4, 3/4); half the mass is the floor's, half the softmax's.
    """
    exponent = (scores - scores.max(axis=1, keepdims=True)) / temperature
    odds = np.exp(exponent)
    softmax = odds / odds.sum(axis=1, keepdims=True)
    probabilities: FloatArray = floor + (1 - floor * scores.shape[1]) * softmax
    return probabilities
