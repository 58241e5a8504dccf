"""Policies whose history decides whether a log is long enough for them; writes bench/results/selection.md.

    python -m bench.accuracy.selection [--logs 200] [--jobs 2]

A policy explores for ten rounds and then commits to the rare action if that paid often enough. Histories that commit
need many rare events, so an evaluator that leaves out the runs which fall short averages over the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from bench.accuracy.settings import CHECKPOINTS, make_parser
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner

SEED = 22
EXPLORED, HORIZON = 10, 50
MEANS = (0.3, 0.9)  # of the frequent and of the rare action
LIVE_RUNS = 400_000


class Commit:
    """Choose both actions evenly for ten rounds, then one of them for good.

    With a threshold: the rare action if it paid at least that often. Without: the action of the higher mean reward.
    """

    batch_size = EXPLORED  # it changes once, after exploration: the same policy as with 1, in a third of the time

    def __init__(self, threshold: int | None) -> None:
        self.threshold = threshold

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.counts, self.sums = np.zeros(2), np.zeros(2)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        if self.counts.sum() < EXPLORED:
            shares = np.array([0.5, 0.5])
        else:
            rare = chooses_rare(self.counts, self.sums, self.threshold)
            shares = np.array([0.0, 1.0]) if rare else np.array([1.0, 0.0])
        return np.tile(shares, (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        if self.counts.sum() < EXPLORED:
            np.add.at(self.counts, actions, 1.0)
            np.add.at(self.sums, actions, rewards)


def chooses_rare(counts: Any, sums: Any, threshold: int | None) -> Any:
    """Return whether the policy commits to the rare action; arrays have the actions in their first axis."""
    if threshold is not None:
        return sums[1] >= threshold
    means = sums / np.maximum(counts, 1)
    return means[1] > means[0]


class Setting(NamedTuple):
    """A policy, the length of the log and the probability of the rare action."""

    threshold: int | None
    events: int
    rare: float

    def make_log(self, number: int) -> bc.Log:
        """Draw a log."""
        rng = np.random.default_rng([SEED, number])
        actions = (rng.random(self.events) < self.rare).astype(np.int64)
        rewards = (rng.random(self.events) < np.array(MEANS)[actions]).astype(np.float64)
        propensities = np.where(actions == 1, self.rare, 1 - self.rare)
        return bc.Log(None, actions, rewards, propensities, reward_range=(0, 1))

    def live_value(self) -> float:
        """Return the value of the policy from live runs, exact but for their number."""
        rng = np.random.default_rng(SEED)
        rare = rng.binomial(EXPLORED, 0.5, LIVE_RUNS)
        counts = np.array([EXPLORED - rare, rare])
        sums = rng.binomial(counts, np.array(MEANS)[:, None])
        share = chooses_rare(counts, sums, self.threshold).mean()
        later = share * MEANS[1] + (1 - share) * MEANS[0]
        return float((EXPLORED * np.mean(MEANS) + (HORIZON - EXPLORED) * later) / HORIZON)


SETTINGS = [
    *(Setting(threshold, events, rare) for threshold in (6, 7, 8) for events, rare in ((600, 0.2), (1200, 0.1))),
    Setting(None, 600, 0.2),
]


def evaluate_log(setting: Setting, number: int) -> list[float]:
    """Return value, standard error, ends of the interval and certificate of the default call; nan if it refuses."""
    try:
        estimate = bc.evaluate(setting.make_log(number), Commit(setting.threshold), horizon=HORIZON, seed=number)
    except bc.HorizonNotReached:
        return [np.nan] * 5
    low, high = (np.nan, np.nan) if estimate.interval is None else (estimate.interval.low, estimate.interval.high)
    return [estimate.value, estimate.std_error, low, high, estimate.diagnostics.to_dict()["bias_certificate"]]


def summarize(setting: Setting, trials: Any) -> dict[str, Any]:
    """Return one row of the table."""
    truth = setting.live_value()
    values, errors, low, high, certificates = np.array(trials, dtype=np.float64).T
    answered = np.isfinite(values)
    deviation = float(values[answered].std(ddof=1))
    return {
        "policy": "explore, then commit" if setting.threshold is None else f"threshold {setting.threshold}",
        "n": setting.events,
        "p": setting.rare,
        "truth": f"{truth:.4f}",
        "bias": f"{values[answered].mean() - truth:+.4f} ± {deviation / np.sqrt(answered.sum()):.4f}",
        "sd": f"{deviation:.4f}",
        "mean standard error": f"{errors[answered].mean():.4f}",
        "coverage": f"{((low <= truth) & (truth <= high))[answered].mean():.3f}",
        "below, above": f"{(high < truth)[answered].mean():.3f}, {(low > truth)[answered].mean():.3f}",
        "correlation": f"{np.corrcoef(values[answered], errors[answered])[0, 1]:+.2f}",
        "refused": f"{(~answered).mean():.0%}",
        "certificate": f"{certificates[answered].mean():.3g}",
    }


def main() -> None:
    options = make_parser(__doc__, logs=200).parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    rows, records = [], {}
    for setting in SETTINGS:
        stem = f"selection-{'-'.join(map(str, setting))}"
        trials = runner.run(stem, evaluate_log, (setting,), options.logs, {"setting": list(setting)})
        rows.append(summarize(setting, trials))
        records[stem] = trials
    origin = provenance(f"python -m bench.accuracy.selection --logs {options.logs}")
    intro = (
        f"Two actions, mean rewards {MEANS[0]:g} and {MEANS[1]:g}, the better one logged with probability p; "
        f"`evaluate(log, policy, horizon={HORIZON})` on {options.logs} logs per row. *threshold m*: after ten rounds "
        "of exploration, the rare action if it paid at least m times. Below, above: share of logs whose interval is "
        "below or above the truth. Correlation: of value and standard error. Refused: share of logs on which a pass "
        "fell short."
    )
    table = markdown_table(list(rows[0]), [list(row.values()) for row in rows])
    write_page(options.output / "selection.md", ["# Selection", describe_provenance(origin), intro, table])
    write_json(options.output / "selection.json", {**origin, "trials": records})


if __name__ == "__main__":
    main()
