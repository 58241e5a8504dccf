"""Table 1: a policy that never learns, evaluated on classification data turned into a log."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import IntArray
from backcast.environments import ClassificationEnvironment
from backcast.policies.fixed import Fixed
from bench.reproduction.datasets import load_world
from bench.reproduction.journal import Plan, work_through
from bench.reproduction.protocol import Case, Model, chosen_model, learner, our_findings, paper_findings
from bench.reproduction.results import Score, scores_of

__all__ = ["TRIALS", "Static", "prepare", "run", "static_scores", "trial"]

TRIALS = 300
CODE = 1  # of the random streams of this experiment


class Static(NamedTuple):
    """What all trials share: the data, the policy trained on a tenth of it, and the examples left to evaluate on."""

    world: ClassificationEnvironment
    policy: Fixed
    rest: IntArray
    model: Model
    seed: int


def prepare(world: ClassificationEnvironment, seed: int) -> Static:
    """Train pi_0 on 10 % of the data, labelled in full; log the same tenth to choose our reward model on.

    No example of that tenth occurs in a trial.
    """
    rng = np.random.default_rng([seed, CODE])
    order = rng.permutation(len(world))
    tenth = len(world) // 10
    spare = world[order[:tenth]]
    policy = Fixed(learner(spare).probabilities)
    return Static(world, policy, order[tenth:], chosen_model(spare.log(rng)), seed)


def trial(setup: Static, number: int) -> dict[str, Any]:
    """Draw half of the data, convert it, and ask every evaluator what the policy loses on it."""
    rng = np.random.default_rng([setup.seed, CODE, number])
    rows = rng.choice(setup.rest, len(setup.world) // 2, replace=False)
    part = setup.world[rows]
    case = Case(part.log(rng), setup.policy, None, number)
    truth = part.value(setup.policy.probabilities(part.features))
    return {"truth": truth, "found": {**paper_findings(case), **our_findings(case, setup.model)}}


def static_scores(plan: Plan, name: str, journal: str, trials: int) -> tuple[list[Score], dict[str, Any]]:
    """Scores of all evaluators on one data set, and the facts of the experiment."""
    setup = prepare(load_world(name, plan.data), plan.seed)
    results = work_through(plan, plan.journal(journal, {"world": name}), trials, trial, setup)
    truths = [result["truth"] for result in results]
    facts = {
        "world": name,
        "examples": len(setup.world),
        "events": len(setup.world) // 2,
        "trials": trials,
        "truth": float(np.mean(truths)),
        "our reward model": setup.model._asdict(),
    }
    return scores_of([result["found"] for result in results], truths), facts


def run(plan: Plan) -> tuple[list[Score], dict[str, Any]]:
    """The whole table."""
    return static_scores(plan, plan.world, f"table1-{plan.world}", plan.trials or TRIALS)
