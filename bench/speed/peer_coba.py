"""coba: ``RejectionCB``, which cites the same Algorithm 1, with its own LinUCB and with a VW epsilon-greedy learner."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from coba.evaluators import RejectionCB
from coba.learners import LinUCBLearner, VowpalEpsilonLearner
from coba.primitives import LoggedInteraction

from bench.speed.data import LogShape, load_columns
from bench.speed.timing import PreparedRun, main

# linear in the context for each action, like the policies of the other systems; coba's default also has squares
FEATURES = [1, "a", "ax"]


class Interactions:
    """An environment of coba: its ``read`` returns interactions."""

    def __init__(self, interactions: list[Any]) -> None:
        self._interactions = interactions

    def read(self) -> Iterator[Any]:
        return iter(self._interactions)


def make_interactions(shape: LogShape, limit: int, names: list[Any]) -> Interactions:
    log = load_columns(shape, limit)
    rows = zip(
        map(tuple, log.contexts.tolist()),
        log.actions.tolist(),
        log.rewards.tolist(),
        log.propensities.tolist(),
        strict=True,
    )
    return Interactions([LoggedInteraction(x, names[a], r, p, actions=names) for x, a, r, p in rows])


def replay(environment: Interactions, learner: Any) -> tuple[float, int]:
    evaluator = RejectionCB(cpct=0.01, cmax=1.0, seed=1)
    rewards = [result["reward"] for result in evaluator.evaluate(environment, learner)]
    return fmean(rewards), len(rewards)


def prepare_epsilon_greedy(shape: LogShape, limit: int) -> PreparedRun:
    environment = make_interactions(shape, limit, [f"a{a}" for a in range(shape.actions)])
    learner = VowpalEpsilonLearner(epsilon=0.1, features=FEATURES)
    return PreparedRun("coba RejectionCB", "epsilon-greedy", lambda: replay(environment, learner))


def prepare_linucb(shape: LogShape, limit: int) -> PreparedRun:
    one_hot = [tuple(int(a == b) for b in range(shape.actions)) for a in range(shape.actions)]
    environment = make_interactions(shape, limit, one_hot)
    learner = LinUCBLearner(alpha=0.3, features=FEATURES)
    return PreparedRun("coba RejectionCB", "LinUCB", lambda: replay(environment, learner))


if __name__ == "__main__":
    main({"epsilon-greedy": prepare_epsilon_greedy, "linucb": prepare_linucb})
