"""Fixed policies on logs of loggers that learn: coverage and error of StableVar, CADR and DR.

    python -m bench.accuracy.adaptive [--logs 1000] [--jobs 2]

Writes bench/results/adaptive.md and adaptive.json. Rewards are 0 or 1; the policy under evaluation always takes one
action, in turn each of the world's actions (with contexts they have the same value, so one is shown).
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

SEED = 15
MEANS = (0.5, 0.4, 0.3)
POSTERIOR_DRAWS = 64  # for the probabilities of a Thompson logger
LOGGERS = ("epsilon-greedy", "Thompson", "UCB")
EVALUATORS: dict[str, Any] = {"DR": bc.DR(), "StableVar": bc.StableVar(), "CADR": bc.CADR()}
REPORTED = ("bias", "root mean squared error", "mean standard error", "coverage")


class Setting(NamedTuple):
    """A logger, the number of events, of actions and of contexts (1 for none)."""

    logger: str
    events: int
    n_actions: int
    n_contexts: int

    def means(self) -> Any:
        """Return the mean rewards ``(contexts, actions)``: the best action differs from context to context."""
        return np.array([np.roll(MEANS[: self.n_actions], shift) for shift in range(self.n_contexts)])

    def make_log(self, number: int) -> bc.Log:
        """Let the logger learn for all events, and return what it recorded.

        Each action has at least the probability ``max(t^-0.5, 0.04) / K`` in round t: without a floor that decays more
        slowly than 1/t, no estimator is consistent for an action that the logger gives up.
        """
        rng = np.random.default_rng([SEED, number])
        means, n_actions = self.means(), self.n_actions
        counts, sums = np.ones_like(means), np.full_like(means, 0.5)
        contexts = rng.integers(self.n_contexts, size=self.events)
        actions, rewards = np.zeros(self.events, dtype=np.int64), np.zeros(self.events)
        logging = np.zeros((self.events, n_actions))
        for t, x in enumerate(contexts):
            floor = max((t + 1) ** -0.5, 0.04) / n_actions
            preferred = self._preferred(counts[x], sums[x], t, rng)
            logging[t] = floor + (1 - floor * n_actions) * preferred
            a = actions[t] = min(int(np.searchsorted(np.cumsum(logging[t]), rng.random())), n_actions - 1)
            rewards[t] = rng.random() < means[x, a]
            counts[x, a] += 1
            sums[x, a] += rewards[t]
        return bc.Log(
            None if self.n_contexts == 1 else np.eye(self.n_contexts)[contexts],
            actions,
            rewards,
            logging[np.arange(self.events), actions],
            n_actions=n_actions,
            reward_range=(0, 1),
            logging_probabilities=logging / logging.sum(axis=1, keepdims=True),
        )

    def _preferred(self, counts: Any, sums: Any, t: int, rng: np.random.Generator) -> Any:
        """Return the probabilities before the floor."""
        if self.logger == "Thompson":
            draws = rng.beta(sums + 0.5, counts - sums + 0.5, size=(POSTERIOR_DRAWS, self.n_actions))
            return np.bincount(draws.argmax(axis=1), minlength=self.n_actions) / POSTERIOR_DRAWS
        width = np.sqrt(np.log(t + 2) / (2 * counts)) if self.logger == "UCB" else 0.0
        best: Any = np.arange(self.n_actions) == (sums / counts + width).argmax()
        return best.astype(np.float64)


SETTINGS = [
    *(Setting(logger, events, 2, 1) for logger in LOGGERS for events in (1_000, 4_000)),
    *(Setting(logger, events, 3, 3) for logger in LOGGERS for events in (1_000, 4_000)),
]


def targets(setting: Setting) -> list[int]:
    """Return the actions that are evaluated."""
    return list(range(setting.n_actions)) if setting.n_contexts == 1 else [0]


def evaluate_log(setting: Setting, number: int) -> list[list[list[float]]]:
    """Return error, standard error and whether the interval covers, by target and evaluator."""
    log, truth = setting.make_log(number), setting.means().mean(axis=0)
    results = []
    for action in targets(setting):
        policy, row = bc.Fixed(np.eye(setting.n_actions)[action]), []
        for evaluator in EVALUATORS.values():
            estimate = bc.evaluate(log, policy, evaluator, seed=number)
            assert estimate.interval is not None
            covered = estimate.interval.low <= truth[action] <= estimate.interval.high
            row.append([estimate.value - truth[action], estimate.std_error, float(covered)])
        results.append(row)
    return results


def summarize(setting: Setting, trials: Any) -> list[list[Any]]:
    """Return the rows of the table, one for each target."""
    rows = []
    for i, action in enumerate(targets(setting)):
        by_evaluator = np.array(trials, dtype=np.float64)[:, i]
        errors, _, covered = np.moveaxis(by_evaluator, -1, 0)
        rmse = np.sqrt((errors**2).mean(axis=0))
        cells = [f"{c:.3f}, {r:.4f} ({r / rmse[0]:.2f})" for c, r in zip(covered.mean(axis=0), rmse, strict=True)]
        world = "no contexts" if setting.n_contexts == 1 else f"{setting.n_contexts} contexts"
        value = f"{setting.means().mean(axis=0)[action]:.2f}"
        rows.append([setting.logger, f"{setting.events:,}", f"{setting.n_actions} actions, {world}", value, *cells])
    return rows


def summarize_trials(trials: Any) -> list[list[list[float]]]:
    """Return bias, root mean squared error, mean standard error and coverage, by target and evaluator."""
    errors, std_errors, covered = np.moveaxis(np.array(trials, dtype=np.float64), -1, 0)
    moments = errors.mean(axis=0), np.sqrt((errors**2).mean(axis=0)), std_errors.mean(axis=0), covered.mean(axis=0)
    summary: list[list[list[float]]] = np.stack(moments, axis=-1).tolist()
    return summary


def main() -> None:
    options = make_parser(__doc__, logs=1000).parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    rows, records = [], {}
    for setting in SETTINGS:
        stem = f"adaptive-{'-'.join(map(str, setting))}"
        trials = runner.run(stem, evaluate_log, (setting,), options.logs, {"setting": list(setting)})
        rows += summarize(setting, trials)
        records[stem] = summarize_trials(trials)
    origin = provenance(f"python -m bench.accuracy.adaptive --logs {options.logs}")
    intro = (
        "A logger learns while it collects the log; in round t every action keeps the probability max(t^-0.5, 0.04)/K. "
        "The policy under evaluation always takes one action, whose value is given. Each cell: coverage of the 95 % "
        "interval, root mean squared error, and its ratio to that of cross-fitted `DR`; "
        f"{options.logs} logs per row, so that a coverage of 0.95 has the standard error "
        f"{np.sqrt(0.95 * 0.05 / options.logs):.3f}. `CADR` sees only the propensities of the logged actions."
    )
    table = markdown_table(["logger", "n", "world", "value", *EVALUATORS], rows)
    write_page(options.output / "adaptive.md", ["# Loggers that learn", describe_provenance(origin), intro, table])
    write_json(options.output / "adaptive.json", {**origin, "reported": list(REPORTED), "settings": records})


if __name__ == "__main__":
    main()
