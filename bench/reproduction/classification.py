"""Tables 1 and 2 and their variants: a fixed and a learning policy on classification data turned into a log."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast._arrays import IntArray
from backcast.environments import ClassificationEnvironment
from backcast.policies._calls import draw_actions
from bench.reproduction.datasets import UCI, load_world
from bench.reproduction.protocol import (
    BATCH_SIZE,
    Case,
    Options,
    Result,
    RidgeChoice,
    Score,
    choose_ridge,
    evaluate_as_published,
    evaluate_as_recommended,
    make_learner,
    score_trials,
)

STATIC_TRIALS, ADAPTIVE_TRIALS, WORLDS_TRIALS = 300, 50, 30
HORIZON, LONG_HORIZON = 300, 500
STATIC_SEED, ADAPTIVE_SEED = 1, 2  # second number of the seeds of each task
RUNS_PER_JOB = 10  # live runs
WORLDS_RUNS = 200  # live runs of each of the other data sets, at most
WORLDS_BATCHES = 20  # batches of 15 rounds on the other data sets, at most
FEWEST_LABELLED = 20  # examples to which the first policy is fitted, at least


class StaticTask(NamedTuple):
    """What the trials of Table 1 share: data, a fixed policy, and the examples that did not train it."""

    world: ClassificationEnvironment
    policy: bc.Fixed
    examples: IntArray
    ridge: RidgeChoice
    seed: int


class AdaptiveTask(NamedTuple):
    """What the trials of Table 2 share: the first policy, and the examples for evaluation and for the ground truth."""

    policy: bc.FromClassifier
    evaluation: ClassificationEnvironment
    ground: ClassificationEnvironment
    ridge: RidgeChoice
    horizon: int
    seed: int


class LiveRun(NamedTuple):
    """Mean loss met in a live run, and the mean of the exact losses of its policies on the whole set.

    Both have the same mean over runs (except that a run meets an example at most once); the second varies far less.
    """

    met: float
    exact: float


def run_table1(options: Options) -> dict[str, Any]:
    """Return scores and facts of Table 1."""
    return score_static_task(options, options.world, options.trials or STATIC_TRIALS)


def run_table2(options: Options) -> dict[str, Any]:
    """Return scores and facts of Table 2."""
    return score_adaptive_task(options, options.world, HORIZON, options.trials or ADAPTIVE_TRIALS, options.simulations)


def run_long_horizon(options: Options) -> dict[str, Any]:
    """Return scores and facts of Table 2 with 500 rounds, at which RS and WC fail according to the paper."""
    trials = options.trials or ADAPTIVE_TRIALS
    return score_adaptive_task(options, options.world, LONG_HORIZON, trials, options.simulations)


def run_worlds(options: Options) -> dict[str, Any]:
    """Return scores of both tasks on digits and the UCI sets; on digits only if there is no data folder."""
    trials = options.trials or WORLDS_TRIALS
    tables: dict[str, Any] = {"static": {}, "adaptive": {}, "facts": {}}
    for name in ("digits",) if options.data is None else ("digits", *UCI):
        static = score_static_task(options, name, trials)
        horizon = horizon_for(len(load_world(name, options.data)))
        adaptive = score_adaptive_task(options, name, horizon, trials, min(options.simulations, WORLDS_RUNS))
        tables["static"][name] = static["scores"]
        tables["adaptive"][name] = adaptive["scores"]["evaluation"]
        tables["facts"][name] = {"static": static["facts"], "adaptive": adaptive["facts"]}
    return tables


def horizon_for(n_examples: int) -> int:
    """Return the rounds of the adaptive task: 300, or fewer on a small set, in whole batches of 15.

    >>> horizon_for(10_992), horizon_for(1797), horizon_for(214)
    (300, 75, 30)
    """
    return BATCH_SIZE * min(WORLDS_BATCHES, max(2, n_examples // 350))


def prepare_static_task(world: ClassificationEnvironment, seed: int) -> StaticTask:
    """Train the policy on 10 % of the data, labelled in full, and choose our reward model on a log of that tenth.

    No example of that tenth occurs in a trial.
    """
    rng = np.random.default_rng([seed, STATIC_SEED])
    order = rng.permutation(len(world))
    tenth = len(world) // 10
    labelled = world[order[:tenth]]
    policy = bc.Fixed(make_learner(labelled).probabilities)
    return StaticTask(world, policy, order[tenth:], choose_ridge(labelled.log(rng)), seed)


def run_static_trial(task: StaticTask, number: int) -> tuple[float, dict[str, Result]]:
    """Log a random half of the data; return the policy's exact loss there and the result of each evaluator."""
    rng = np.random.default_rng([task.seed, STATIC_SEED, number])
    rows = rng.choice(task.examples, len(task.world) // 2, replace=False)
    half = task.world[rows]
    case = Case(half.log(rng), task.policy, None, number)
    truth = half.value(task.policy.probabilities(half.features))
    return truth, {**evaluate_as_published(case), **evaluate_as_recommended(case, task.ridge)}


def score_static_task(options: Options, name: str, trials: int) -> dict[str, Any]:
    """Return the scores of all evaluators on one data set, and the facts of the task."""
    task = prepare_static_task(load_world(name, options.data), options.seed)
    facts = {"world": name}
    results = options.runner.run(f"static-{name}", run_static_trial, (task,), trials, facts, (Result,))
    truths = [truth for truth, _ in results]
    scores: list[Score] = score_trials([by_evaluator for _, by_evaluator in results], truths)
    return {
        "scores": scores,
        "facts": {
            **facts,
            "examples": len(task.world),
            "events": len(task.world) // 2,
            "trials": trials,
            "truth": float(np.mean(truths)),
            "our reward model": task.ridge._asdict(),
        },
    }


def prepare_adaptive_task(world: ClassificationEnvironment, horizon: int, seed: int) -> AdaptiveTask:
    """Split into 1 % labelled in full for the first policy, 80 % for evaluation, and the rest for the ground truth.

    Our reward model is chosen on a log of the rest, whose examples occur in no trial.
    """
    rng = np.random.default_rng([seed, ADAPTIVE_SEED])
    order = rng.permutation(len(world))
    first = max(len(world) // 100, FEWEST_LABELLED)
    last = first + round(0.8 * len(world))
    ground = world[order[last:]]
    ridge = choose_ridge(ground.log(rng))
    return AdaptiveTask(make_learner(world[order[:first]]), world[order[first:last]], ground, ridge, horizon, seed)


def run_adaptive_trial(task: AdaptiveTask, number: int) -> dict[str, Result]:
    """Log the shuffled evaluation set, and return the result of each evaluator."""
    rng = np.random.default_rng([task.seed, ADAPTIVE_SEED, number])
    shuffled = task.evaluation[rng.permutation(len(task.evaluation))]
    case = Case(shuffled.log(rng), task.policy, task.horizon, number)
    return {**evaluate_as_published(case), **evaluate_as_recommended(case, task.ridge)}


def score_adaptive_task(options: Options, name: str, horizon: int, trials: int, runs: int) -> dict[str, Any]:
    """Return the scores against both truths, and the facts of the task."""
    task = prepare_adaptive_task(load_world(name, options.data), horizon, options.seed)
    stem, facts = f"adaptive-{name}-{horizon}", {"world": name, "horizon": horizon}
    # exact losses need few runs; the second truth only shows how far the two sets differ
    truths = {
        "ground": estimate_truth(options, task, "ground", f"{stem}-ground", runs),
        "evaluation": estimate_truth(options, task, "evaluation", f"{stem}-evaluation", max(1, runs // 5)),
    }
    results = options.runner.run(stem, run_adaptive_trial, (task,), trials, facts, (Result,))
    return {
        "scores": {split: score_trials(results, [truth["value"]] * trials) for split, truth in truths.items()},
        "facts": {
            **facts,
            "events": len(task.evaluation),
            "trials": trials,
            "truths": truths,
            "our reward model": task.ridge._asdict(),
        },
    }


def estimate_truth(options: Options, task: AdaptiveTask, split: str, name: str, runs: int) -> dict[str, float]:
    """Return the average loss over live runs on one of the two sets of examples, and its standard error."""
    world: ClassificationEnvironment = getattr(task, split)
    facts = {"horizon": task.horizon, "set": split}
    count = -(-runs // RUNS_PER_JOB)
    batches = options.runner.run(name, _run_live_batch, (task, world), count, facts, (LiveRun,))
    met, exact = np.array([run for batch in batches for run in batch]).T
    return {
        "runs": met.size,
        "value": float(exact.mean()),
        "error": float(exact.std(ddof=1) / met.size**0.5),
        "met": float(met.mean()),
        "met error": float(met.std(ddof=1) / met.size**0.5),
        "sd live": float(met.std(ddof=1)),
        "examples": len(world),
    }


def _run_live_batch(task: AdaptiveTask, world: ClassificationEnvironment, number: int) -> list[LiveRun]:
    seeds = [[task.seed, ADAPTIVE_SEED, 1, number * RUNS_PER_JOB + i] for i in range(RUNS_PER_JOB)]
    return [run_live(task.policy, world, task.horizon, np.random.default_rng(seed)) for seed in seeds]


def run_live(
    policy: bc.FromClassifier, world: ClassificationEnvironment, horizon: int, rng: np.random.Generator
) -> LiveRun:
    """Run a copy of the policy on the first ``horizon`` of the shuffled examples."""
    policy = copy.deepcopy(policy)
    # a set smaller than the horizon is repeated
    order = np.resize(rng.permutation(len(world)), horizon)
    met = exact = 0.0
    for start in range(0, horizon, policy.batch_size):
        rows = order[start : start + policy.batch_size]
        probabilities = policy.probabilities(world.features)
        actions = draw_actions(probabilities[rows], rng.random(rows.size))
        losses = world.rewards[rows, actions]
        met += losses.sum()
        exact += rows.size * world.value(probabilities)
        policy.learn(world.features[rows], actions, losses, probabilities[rows, actions])
    return LiveRun(met / horizon, exact / horizon)
