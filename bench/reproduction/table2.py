"""Table 2: a policy that learns as it goes, evaluated on classification data turned into a log."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast.environments import ClassificationEnvironment
from backcast.policies.classifier import FromClassifier
from bench.reproduction.datasets import load_world
from bench.reproduction.journal import Plan, work_through
from bench.reproduction.protocol import Case, Model, chosen_model, learner, our_findings, paper_findings
from bench.reproduction.results import scores_of
from bench.reproduction.truth import live_runs

__all__ = ["HORIZON", "TRIALS", "Adaptive", "adaptive_scores", "prepare", "run", "trial", "truth_on"]

TRIALS = 50
HORIZON = 300
CODE = 2  # of the random streams of this experiment
CHUNK = 10  # live runs in one piece of work
FEWEST = 20  # examples that the first policy is trained on, at least


class Adaptive(NamedTuple):
    """What all trials share: the learner as it starts, and the examples to evaluate on and to find the truth on."""

    policy: FromClassifier
    evaluation: ClassificationEnvironment
    ground: ClassificationEnvironment
    model: Model
    horizon: int
    seed: int


def prepare(world: ClassificationEnvironment, horizon: int, seed: int) -> Adaptive:
    """Split into 1 % labelled in full for the first policy, 80 % for evaluation, and the rest for the truth.

    Our reward model is chosen on a log of the rest, whose examples occur in no trial.
    """
    rng = np.random.default_rng([seed, CODE])
    order = rng.permutation(len(world))
    first = max(len(world) // 100, FEWEST)
    last = first + round(0.8 * len(world))
    ground = world[order[last:]]
    model = chosen_model(ground.log(rng))
    return Adaptive(learner(world[order[:first]]), world[order[first:last]], ground, model, horizon, seed)


def trial(setup: Adaptive, number: int) -> dict[str, Any]:
    """Shuffle the evaluation set, convert it, and ask every evaluator what the learner loses."""
    rng = np.random.default_rng([setup.seed, CODE, number])
    shuffled = setup.evaluation[rng.permutation(len(setup.evaluation))]
    case = Case(shuffled.log(rng), setup.policy, setup.horizon, number)
    return {**paper_findings(case), **our_findings(case, setup.model)}


def _chunk(setup: Adaptive, world: ClassificationEnvironment, number: int) -> list[Any]:
    seeds = [[setup.seed, CODE, 1, number * CHUNK + i] for i in range(CHUNK)]
    return live_runs(setup.policy, world, setup.horizon, seeds)


def truth_on(plan: Plan, setup: Adaptive, where: str, journal: str, runs: int) -> dict[str, float]:
    """Average loss over live runs on one of the two sets of examples, and its standard error."""
    world: ClassificationEnvironment = getattr(setup, where)
    settings = {"horizon": setup.horizon, "set": where}
    slices = work_through(plan, plan.journal(journal, settings), -(-runs // CHUNK), _chunk, setup, world)
    met, exact = np.array([run for file_slice in slices for run in file_slice]).T
    return {
        "runs": met.size,
        "value": float(exact.mean()),
        "error": float(exact.std(ddof=1) / met.size**0.5),
        "met": float(met.mean()),
        "met error": float(met.std(ddof=1) / met.size**0.5),
        "sd live": float(met.std(ddof=1)),
        "examples": len(world),
    }


def adaptive_scores(plan: Plan, name: str, horizon: int, trials: int, runs: int) -> dict[str, Any]:
    """Scores against both truths, and the facts of the experiment."""
    setup = prepare(load_world(name, plan.data), horizon, plan.seed)
    stem = f"adaptive-{name}-{horizon}"
    # exact scoring needs few runs; the second truth only tells how far the two sets differ
    wanted = {"ground": runs, "evaluation": max(1, runs // 5)}
    truths = {where: truth_on(plan, setup, where, f"{stem}-{where}", count) for where, count in wanted.items()}
    results = work_through(plan, plan.journal(stem, {"world": name, "horizon": horizon}), trials, trial, setup)
    against = {where: scores_of(results, [truth["value"]] * trials) for where, truth in truths.items()}
    facts = {
        "world": name,
        "events": len(setup.evaluation),
        "horizon": horizon,
        "trials": trials,
        "truths": truths,
        "our reward model": setup.model._asdict(),
    }
    return {"scores": against, "facts": facts}


def run(plan: Plan) -> dict[str, Any]:
    """The whole table."""
    return adaptive_scores(plan, plan.world, HORIZON, plan.trials or TRIALS, plan.simulations)
