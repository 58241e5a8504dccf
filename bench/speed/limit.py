"""Physical limits: loops that only score a policy, and the running quantile by itself."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.engine.quantile import RunningQuantile, make_room, new_quantile, observe, quantile
from bench.speed.data import Shape, load
from bench.speed.timing import Job, Runner, main

SMALL = 100


@numba.njit(cache=True)
def score_greedy(contexts: FloatArray, actions: IntArray, theta: FloatArray) -> float:
    """How often the action of largest ``theta_a . x`` is the logged one."""
    hits = 0
    scores = np.empty(theta.shape[1])
    for k in range(actions.size):
        scores[:] = 0.0
        for j in range(theta.shape[0]):
            for a in range(theta.shape[1]):
                scores[a] += contexts[k, j] * theta[j, a]
        hits += scores.argmax() == actions[k]
    return hits / actions.size


@numba.njit(cache=True)
def score_upper(contexts: FloatArray, actions: IntArray, theta: FloatArray, inverse: FloatArray) -> float:
    """The same with ``theta_a . x + sqrt(x' A_a^-1 x)``."""
    hits = 0
    d, n_actions = theta.shape
    scores, row = np.empty(n_actions), np.empty(d)
    for k in range(actions.size):
        for a in range(n_actions):
            row[:] = 0.0
            for j in range(d):
                for i in range(d):
                    row[i] += inverse[a, j, i] * contexts[k, j]
            mean = width = 0.0
            for j in range(d):
                mean += theta[j, a] * contexts[k, j]
                width += row[j] * contexts[k, j]
            scores[a] = mean + np.sqrt(width)
        hits += scores.argmax() == actions[k]
    return hits / actions.size


@numba.njit(cache=True)
def watch(ratios: RunningQuantile, values: FloatArray) -> float:
    """Feed every value to the running quantile and ask for it each time."""
    total = 0.0
    for value in values:
        observe(ratios, value)
        total += quantile(ratios)
    return total / values.size


def scoring(name: str, loop: Callable[..., float], with_inverse: bool) -> Runner:
    """A runner that scores every event once with fixed parameters."""

    def make(shape: Shape, limit: int) -> Job:
        log = load(shape, limit)
        theta = np.random.default_rng(1).normal(size=(shape.features, shape.actions))
        inverse = np.repeat(np.eye(shape.features)[None], shape.actions, axis=0)
        parameters = (theta, inverse) if with_inverse else (theta,)
        loop(log.contexts[:SMALL], log.actions[:SMALL], *parameters)
        return Job("scoring only", name, lambda: (loop(log.contexts, log.actions, *parameters), None))

    return make


def running_quantile(shape: Shape, limit: int) -> Job:
    """Ratios of an epsilon-greedy policy on a uniform log: either of two values, here blurred so that none tie."""
    rng = np.random.default_rng(1)
    greedy = rng.random(limit) < 1 / shape.actions
    values = np.where(greedy, 0.11, 10.0) * rng.uniform(0.5, 1.5, size=limit)

    def run() -> tuple[float, None]:
        return watch(make_room(new_quantile(0.01, ceiling=1.0), limit), values), None

    watch(make_room(new_quantile(0.01, ceiling=1.0), SMALL), values[:SMALL])
    return Job("running quantile", "quantile", run)


RUNNERS: dict[str, Runner] = {
    "epsilon-greedy": scoring("epsilon-greedy", score_greedy, with_inverse=False),
    "linucb": scoring("LinUCB", score_upper, with_inverse=True),
    "quantile": running_quantile,
}

if __name__ == "__main__":
    main(RUNNERS)
