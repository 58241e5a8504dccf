"""coba: ``RejectionCB``, which cites the same Algorithm 1, with its own LinUCB and with a VW epsilon-greedy learner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean
from typing import Any

from coba.evaluators import RejectionCB
from coba.learners import LinUCBLearner, VowpalEpsilonLearner
from coba.primitives import LoggedInteraction

from bench.speed.data import WeightTransform, load
from bench.speed.timing import Job, main

# Linear in the context for each action, as the policies of the other systems; coba's default also has squares.
FEATURES = [1, "a", "ax"]


class Interactions:
    """An environment in coba's sense: something whose ``read`` yields interactions."""

    def __init__(self, interactions: list[Any]) -> None:
        self._interactions = interactions

    def read(self) -> Iterator[Any]:
        return iter(self._interactions)


def interactions(shape: WeightTransform, limit: int, names: list[Any]) -> Interactions:
    log = load(shape, limit)
    rows = zip(
        map(tuple, log.contexts.tolist()),
        log.actions.tolist(),
        log.rewards.tolist(),
        log.propensities.tolist(),
        strict=True,
    )
    return Interactions([LoggedInteraction(x, names[a], r, p, actions=names) for x, a, r, p in rows])


def mean_reward(results: Iterable[dict[str, float]]) -> tuple[float, int]:
    rewards = [result["reward"] for result in results]
    return fmean(rewards), len(rewards)


def vw_epsilon_greedy(shape: WeightTransform, limit: int) -> Job:
    env = interactions(shape, limit, [f"a{a}" for a in range(shape.actions)])
    learner = VowpalEpsilonLearner(epsilon=0.1, features=FEATURES)
    evaluator = RejectionCB(cpct=0.01, cmax=1.0, seed=1)
    return Job("coba RejectionCB", "epsilon-greedy", lambda: mean_reward(evaluator.evaluate(env, learner)))


def linucb(shape: WeightTransform, limit: int) -> Job:
    one_hot = [tuple(int(a == b) for b in range(shape.actions)) for a in range(shape.actions)]
    env = interactions(shape, limit, one_hot)
    evaluator = RejectionCB(cpct=0.01, cmax=1.0, seed=1)
    learner = LinUCBLearner(alpha=0.3, features=FEATURES)
    return Job("coba RejectionCB", "LinUCB", lambda: mean_reward(evaluator.evaluate(env, learner)))


if __name__ == "__main__":
    main({"epsilon-greedy": vw_epsilon_greedy, "linucb": linucb})
