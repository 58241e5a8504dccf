"""Table 3: real randomised data in place of the paper's proprietary log; the logger itself and an argmax policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression

import backcast as bc
from backcast._arrays import Contexts, FloatArray, IntArray
from bench.reproduction.datasets import Campaign, load_campaign
from bench.reproduction.protocol import Case, Options, Result, run_replay

SUBSETS = 10
SHARES = (9 / 13, 3 / 13, 1 / 13)  # of the favourite, the next and the last action: the paper's smallest p is 1/13
# name -> campaign, logged by a skewed logger, rewards of -1 and 1
CASES = {
    "Hillstrom, p >= 1/13, visit": ("hillstrom", True, False),
    "Hillstrom, p >= 1/13, -1/+1": ("hillstrom", True, True),
    "Hillstrom, uniform, visit": ("hillstrom", False, False),
    "Hillstrom, uniform, -1/+1": ("hillstrom", False, True),
    "Open Bandit, random, all": ("obd-all", False, False),
    "Open Bandit, random, men": ("obd-men", False, False),
    "Open Bandit, random, women": ("obd-women", False, False),
}


class Study(NamedTuple):
    """A log whose first half trains, and the second half in ten subsets.

    ``held_out`` contains the uniform events of the second half, before any was rejected, and ``logging`` the
    probabilities of the skewed logger there.
    """

    train: bc.Log
    subsets: list[bc.Log]
    held_out: bc.Log
    logging: FloatArray


@dataclass(frozen=True)
class Cell:
    """Estimates of one evaluator for one policy over the subsets: mean and deviation, also normalised."""

    evaluator: str
    policy: str
    mean: float
    sd: float
    normalised: float
    normalised_sd: float
    accepted: float


def run_table3(options: Options) -> dict[str, Any]:
    """Return the results of every case by name."""
    shared = (options.data, options.seed)
    results = options.runner.run("table3", _run_numbered_case, shared, len(CASES), result_types=(Cell,))
    return dict(zip(CASES, results, strict=True))


def _run_numbered_case(data: Path | None, seed: int, number: int) -> dict[str, Any]:
    name, skewed, signed = list(CASES.values())[number]
    return evaluate_study(make_study(load_campaign(name, data), seed, skewed=skewed, signed=signed))


def make_study(campaign: Campaign, seed: int, *, skewed: bool, signed: bool) -> Study:
    """Shuffle and halve the events, reject some for a skewed logger, and cut the second half into ten subsets."""
    rng = np.random.default_rng([seed, 3])
    n, k = campaign.actions.size, campaign.n_actions
    order = rng.permutation(n)
    uniform = np.full((n, k), 1 / k)
    logging = skewed_logging(campaign) if skewed else uniform
    accepted = np.isin(order, accept_rows(campaign.actions, logging, rng))
    first, second = order[: n // 2], order[n // 2 :]
    train = _make_log(campaign, first[accepted[: n // 2]], logging, signed=signed)
    parts = np.array_split(second[accepted[n // 2 :]], SUBSETS)
    subsets = [_make_log(campaign, part, logging, signed=signed) for part in parts]
    return Study(train, subsets, _make_log(campaign, second, uniform, signed=signed), logging[second])


def skewed_logging(campaign: Campaign) -> FloatArray:
    """Return probabilities of 9/13 for the favourite action, 3/13 for the next and 1/13 for the last."""
    n = campaign.favourite.size
    probabilities = np.empty((n, campaign.n_actions))
    for step, share in enumerate(SHARES):
        probabilities[np.arange(n), (campaign.favourite + step) % campaign.n_actions] = share
    return probabilities


def accept_rows(uniform_actions: IntArray, logging: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return rows of a uniform log, accepted with probability ``mu(a|x)/max mu``: those are logged by ``mu``.

    The probability to be accepted, averaged over the uniform action, is the same at every context, so the
    distribution of contexts does not change.
    """
    probability = logging[np.arange(uniform_actions.size), uniform_actions] / logging.max()
    return np.flatnonzero(rng.random(uniform_actions.size) < probability)


def _make_log(campaign: Campaign, rows: IntArray, logging: FloatArray, *, signed: bool) -> bc.Log:
    actions, rewards, probabilities = campaign.actions[rows], campaign.rewards[rows], logging[rows]
    return bc.Log(
        campaign.contexts[rows],
        actions,
        2 * rewards - 1 if signed else rewards,
        probabilities[np.arange(rows.size), actions],
        n_actions=campaign.n_actions,
        reward_range=(-1.0, 1.0) if signed else (0.0, 1.0),
        logging_probabilities=probabilities,
    )


def evaluate_study(study: Study) -> dict[str, Any]:
    """Return the cells of both policies, and the value of each on all held-out events with its standard error."""
    argmax = make_argmax_policy(study.train)
    paper_model = bc.PerAction(LinearRegression()).fit(study.train)
    mean_reward = float(np.mean([subset.rewards.mean() for subset in study.subsets]))
    cells: list[Cell] = []
    references = {}
    for name, policy, reference_policy in (
        ("self-evaluation", bc.Logged(), bc.Logged(study.logging)),
        ("argmax", argmax, argmax),
    ):
        target = argmax.probabilities if name == "argmax" else None
        models = {"paper": paper_model, "ours": bc.LowVariance(target=target).fit(study.train)}
        results = [_evaluate_subset(subset, policy, models, seed) for seed, subset in enumerate(study.subsets)]
        norm = float(np.mean([result["IPS"].value for result in results])) if name == "argmax" else mean_reward
        cells += [_summarize_cell(evaluator, name, results, norm) for evaluator in results[0]]
        reference = bc.evaluate(study.held_out, reference_policy, bc.DR())
        references[name] = {"value": reference.value, "error": reference.std_error}
    sizes = {"train": len(study.train), "subset": len(study.subsets[0]), "held out": len(study.held_out)}
    return {"cells": cells, "references": references, "sizes": sizes}


def make_argmax_policy(train: bc.Log) -> bc.Fixed:
    """Return the policy of largest predicted reward, by linear regressions weighted by 1/p."""
    model = bc.PerAction(LinearRegression(), weights="inverse").fit(train)

    def probabilities(contexts: Contexts) -> FloatArray:
        best = model.predict(contexts).argmax(axis=1)
        one_hot: FloatArray = (np.arange(train.n_actions) == best[:, None]).astype(np.float64)
        return one_hot

    return bc.Fixed(probabilities)


def _evaluate_subset(subset: bc.Log, policy: Any, models: dict[str, Any], seed: int) -> dict[str, Result]:
    case = Case(subset, policy, None, seed)
    predicted = models["paper"].predict(subset.contexts)

    def estimate(evaluator: Any, model: Any) -> Result:
        return Result(bc.evaluate(subset, policy, evaluator, reward_model=model, seed=seed).value)

    return {
        "RS": run_replay(bc.RS(), case, np.zeros((1, subset.n_actions))),
        "IPS": estimate(bc.IPS(), None),
        "DM": estimate(bc.DM(), bc.Fitted(models["paper"])),
        "DR": estimate(bc.DR(), bc.Fitted(models["paper"])),
        "DRns(q=0.1)": run_replay(bc.DRns(q=0.1, c_max=1.0), case, predicted),
        "DR, low variance": estimate(bc.DR(), bc.Fitted(models["ours"])),
    }


def _summarize_cell(evaluator: str, policy: str, results: list[dict[str, Result]], norm: float) -> Cell:
    values = np.array([result[evaluator].value for result in results])
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    normalised, normalised_sd = (mean / norm, sd / abs(norm)) if norm else (math.nan, math.nan)
    accepted = float(np.mean([result[evaluator].accepted for result in results]))
    return Cell(evaluator, policy, mean, sd, normalised, normalised_sd, accepted)
