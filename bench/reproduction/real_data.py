"""Table 3: real randomised data in place of the paper's proprietary log; self-evaluation and an argmax policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression

from backcast._arrays import Contexts, FloatArray, IntArray
from backcast.evaluation import evaluate
from backcast.evaluators import DR, IPS
from backcast.evaluators.direct import DM
from backcast.evaluators.drns import DRns
from backcast.evaluators.rejection import RS
from backcast.log import Log
from backcast.policies.fixed import Fixed, Logged
from backcast.reward_models import Fitted, LowVariance, PerAction
from bench.reproduction.datasets import Campaign, load_campaign
from bench.reproduction.journal import Plan, work_through
from bench.reproduction.protocol import Case, Found, simulated

__all__ = ["CASES", "Cell", "Study", "logged_by", "rejected", "run", "study"]

SUBSETS = 10
SHARES = (9 / 13, 3 / 13, 1 / 13)  # of the favourite, the next and the last arm: the paper's smallest p is 1/13
CASES = {
    "Hillstrom, p >= 1/13, visit": ("hillstrom", True, False),
    "Hillstrom, p >= 1/13, -1/+1": ("hillstrom", True, True),
    "Hillstrom, uniform, visit": ("hillstrom", False, False),
    "Hillstrom, uniform, -1/+1": ("hillstrom", False, True),
    "Open Bandit, random, all": ("obd-all", False, False),
    "Open Bandit, random, men": ("obd-men", False, False),
    "Open Bandit, random, women": ("obd-women", False, False),
}


class Cell(NamedTuple):
    """One evaluator on one policy over the subsets: mean and spread, as estimated and normalised; events accepted."""

    evaluator: str
    policy: str
    mean: float
    sd: float
    normalised: float
    normalised_sd: float
    accepted: float


class Study(NamedTuple):
    """A log whose first part trains, the rest in ten subsets.

    ``held_out`` holds the uniform events behind the subsets, before any was rejected, and ``logger`` what the
    non-uniform logger would have done there.
    """

    train: Log
    subsets: list[Log]
    held_out: Log
    logger: FloatArray


def logged_by(campaign: Campaign) -> FloatArray:
    """Probabilities of a logger that gives 9/13 to its favourite arm, 3/13 to the next and 1/13 to the last."""
    n = campaign.favourite.size
    probabilities = np.empty((n, campaign.n_actions))
    for step, share in enumerate(SHARES):
        probabilities[np.arange(n), (campaign.favourite + step) % campaign.n_actions] = share
    return probabilities


def rejected(uniform: IntArray, logging: FloatArray, rng: np.random.Generator) -> IntArray:
    """Rows kept of a uniform log so that what is left was logged by ``logging``: each with chance ``mu(a|x)/max mu``.

    The chance to be kept, averaged over the uniform action, is the same at every context: contexts keep their law.
    """
    chance = logging[np.arange(uniform.size), uniform] / logging.max()
    return np.flatnonzero(rng.random(uniform.size) < chance)


def study(campaign: Campaign, seed: int, *, skewed: bool, signed: bool) -> Study:
    """Shuffle, cut in halves, make the log non-uniform if asked, and cut the second half in ten."""
    rng = np.random.default_rng([seed, 3])
    n, k = campaign.actions.size, campaign.n_actions
    order = rng.permutation(n)
    flat = np.full((n, k), 1 / k)
    logging = logged_by(campaign) if skewed else flat
    kept = np.isin(order, rejected(campaign.actions, logging, rng))
    first, second = order[: n // 2], order[n // 2 :]
    train = _log_of(campaign, first[kept[: n // 2]], logging, signed=signed)
    parts = np.array_split(second[kept[n // 2 :]], SUBSETS)
    subsets = [_log_of(campaign, part, logging, signed=signed) for part in parts]
    return Study(train, subsets, _log_of(campaign, second, flat, signed=signed), logging[second])


def _log_of(campaign: Campaign, rows: IntArray, logging: FloatArray, *, signed: bool) -> Log:
    rewards = campaign.rewards[rows]
    actions, chances = campaign.actions[rows], logging[rows]
    return Log(
        campaign.contexts[rows],
        actions,
        2 * rewards - 1 if signed else rewards,
        chances[np.arange(rows.size), actions],
        n_actions=campaign.n_actions,
        reward_range=(-1.0, 1.0) if signed else (0.0, 1.0),
        logging_probabilities=chances,
    )


def argmax_policy(train: Log) -> Fixed:
    """The action of largest predicted reward, by linear regressions weighted by 1/p."""
    model = PerAction(LinearRegression(), weights="inverse").fit(train)

    def largest(contexts: Contexts) -> FloatArray:
        best = model.predict(contexts).argmax(axis=1)
        chosen: FloatArray = (np.arange(train.n_actions) == best[:, None]).astype(np.float64)
        return chosen

    return Fixed(largest)


def _findings(part: Log, policy: Any, models: dict[str, Any], seed: int) -> dict[str, Found]:
    """Every evaluator's answer on one subset."""
    case = Case(part, policy, None, seed)
    plain = models["paper"].predict(part.contexts)
    none = np.zeros((1, part.n_actions))

    def estimate(evaluator: Any, model: Any) -> Found:
        return Found(evaluate(part, policy, evaluator, reward_model=model, seed=seed).value)

    return {
        "RS": simulated(RS(), case, none),
        "IPS": estimate(IPS(), None),
        "DM": estimate(DM(), Fitted(models["paper"])),
        "DR": estimate(DR(), Fitted(models["paper"])),
        "DRns(q=0.1)": simulated(DRns(q=0.1, c_max=1.0), case, plain),
        "DR, low variance": estimate(DR(), Fitted(models["ours"])),
    }


def _cells(policy: str, found: list[dict[str, Found]], norm: float) -> list[Cell]:
    cells = []
    for name in found[0]:
        values = np.array([subset[name].value for subset in found])
        mean, sd = float(values.mean()), float(values.std(ddof=1))
        scaled = (mean / norm, sd / abs(norm)) if norm else (math.nan, math.nan)
        cells.append(Cell(name, policy, mean, sd, *scaled, float(np.mean([s[name].accepted for s in found]))))
    return cells


def case_results(made: Study) -> dict[str, Any]:
    """Both policies on one log: cells, and the value of each policy on all held-out events with its error."""
    argmax = argmax_policy(made.train)
    paper = PerAction(LinearRegression()).fit(made.train)
    empirical = float(np.mean([part.rewards.mean() for part in made.subsets]))
    results: dict[str, Any] = {"cells": [], "references": {}}
    for name, policy, truth in (("self-evaluation", Logged(), Logged(made.logger)), ("argmax", argmax, argmax)):
        target = argmax.probabilities if name == "argmax" else None
        models = {"paper": paper, "ours": LowVariance(target=target).fit(made.train)}
        found = [_findings(part, policy, models, seed) for seed, part in enumerate(made.subsets)]
        norm = float(np.mean([one["IPS"].value for one in found])) if name == "argmax" else empirical
        results["cells"] += _cells(name, found, norm)
        reference = evaluate(made.held_out, truth, DR())
        results["references"][name] = {"value": reference.value, "error": reference.std_error}
    results["sizes"] = {"train": len(made.train), "subset": len(made.subsets[0]), "held out": len(made.held_out)}
    return results


def run(plan: Plan) -> dict[str, Any]:
    """All logs; each is quick, so only whole ones are written down."""
    journal = plan.journal("table3", {})
    return dict(zip(CASES, work_through(plan, journal, len(CASES), _numbered_case, plan.data, plan.seed), strict=True))


def _numbered_case(data: Path | None, seed: int, number: int) -> dict[str, Any]:
    name, skewed, signed = list(CASES.values())[number]
    return case_results(study(load_campaign(name, data), seed, skewed=skewed, signed=signed))
