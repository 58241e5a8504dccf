"""Lower bounds of the time: loops that only score a policy, and the running quantile alone."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

import backcast as bc
from backcast._arrays import FloatArray, IntArray
from backcast._engine.quantile import RunningQuantile, grow, new_quantile, observe, quantile
from backcast._kernels.contexts import view_of
from backcast._kernels.dispatch import score
from backcast._kernels.jit import borrow
from bench.speed.data import LogShape, load_columns
from bench.speed.timing import PreparedRun, Runner, main

SMALL = 100


@numba.njit(nogil=True, error_model="numpy")
def score_only(state: Any, view: Any, actions: IntArray, n_actions: int) -> float:
    """Return the mean probability of the logged action, computed by the kernels that the engine runs."""
    state, view = borrow(state), borrow(view)
    target, available = np.empty(n_actions), np.ones((0, 0), dtype=np.bool_)
    total = 0.0
    for k in range(actions.size):
        score(state, view, k, available, target)
        total += target[actions[k]]
    return total / actions.size


@numba.njit(cache=True)
def observe_all(ratios: RunningQuantile, values: FloatArray) -> float:
    """Add every value to the running quantile and read it each time."""
    total = 0.0
    for value in values:
        observe(ratios, value)
        total += quantile(ratios)
    return total / values.size


def make_scoring_runner(name: str, policy: Any) -> Runner:
    """Return a runner that scores every event once with constant parameters."""

    def prepare(shape: LogShape, limit: int) -> PreparedRun:
        log = load_columns(shape, limit)
        policy.start(shape.actions, shape.features, np.random.default_rng(0))
        head = slice(0, SMALL)
        policy.learn(log.contexts[head], log.actions[head], log.rewards[head], log.propensities[head])
        state, view = policy.state_for(log.contexts), view_of(log.contexts)
        score_only(state, view, log.actions[head], shape.actions)
        return PreparedRun("scoring only", name, lambda: (score_only(state, view, log.actions, shape.actions), None))

    return prepare


def prepare_quantile(shape: LogShape, limit: int) -> PreparedRun:
    """Prepare ratios like those of an epsilon-greedy policy on a uniform log: two values, with noise to avoid ties."""
    rng = np.random.default_rng(1)
    greedy = rng.random(limit) < 1 / shape.actions
    values = np.where(greedy, 0.11, 10.0) * rng.uniform(0.5, 1.5, size=limit)

    def run() -> tuple[float, None]:
        return observe_all(grow(new_quantile(0.01, ceiling=1.0), limit), values), None

    observe_all(grow(new_quantile(0.01, ceiling=1.0), SMALL), values[:SMALL])
    return PreparedRun("running quantile", "quantile", run)


RUNNERS: dict[str, Runner] = {
    "epsilon-greedy": make_scoring_runner("epsilon-greedy", bc.EpsilonGreedy(0.1)),
    "linucb": make_scoring_runner("LinUCB", bc.LinUCB(0.3)),
    "quantile": prepare_quantile,
}

if __name__ == "__main__":
    main(RUNNERS)
