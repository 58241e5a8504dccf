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
BATCH = 50  # logs that are made together
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
        """Return one log."""
        (log,) = self.make_logs(number, 1)
        return log

    def make_logs(self, batch: int, count: int) -> list[bc.Log]:
        """Let loggers learn for all events, independently of each other, and return what they recorded.

        Each action has at least the probability ``max(t^-0.5, 0.04) / K`` in round t: without a floor that decays more
        slowly than 1/t, no estimator is consistent for an action that the logger gives up.
        """
        rng = np.random.default_rng([SEED, batch])
        means, n_actions = self.means(), self.n_actions
        each = np.arange(count)
        counts, sums = np.ones((count, *means.shape)), np.full((count, *means.shape), 0.5)
        contexts = rng.integers(self.n_contexts, size=(count, self.events))
        actions, rewards = np.zeros((count, self.events), dtype=np.int64), np.zeros((count, self.events))
        logging = np.zeros((count, self.events, n_actions))
        for t, x in enumerate(contexts.T):
            floor = max((t + 1) ** -0.5, 0.04) / n_actions
            preferred = self._preferred(counts[each, x], sums[each, x], t, rng)
            logging[:, t] = floor + (1 - floor * n_actions) * preferred
            drawn = (np.cumsum(logging[:, t], axis=1) < rng.random((count, 1))).sum(axis=1)
            a = actions[:, t] = np.minimum(drawn, n_actions - 1)
            rewards[:, t] = rng.random(count) < means[x, a]
            counts[each, x, a] += 1
            sums[each, x, a] += rewards[:, t]
        return [self._record(*columns) for columns in zip(contexts, actions, rewards, logging, strict=True)]

    def _record(self, contexts: Any, actions: Any, rewards: Any, logging: Any) -> bc.Log:
        return bc.Log(
            None if self.n_contexts == 1 else np.eye(self.n_contexts)[contexts],
            actions,
            rewards,
            logging[np.arange(self.events), actions],
            n_actions=self.n_actions,
            reward_range=(0, 1),
            logging_probabilities=logging / logging.sum(axis=1, keepdims=True),
        )

    def _preferred(self, counts: Any, sums: Any, t: int, rng: np.random.Generator) -> Any:
        """Return the probabilities ``(logs, K)`` before the floor."""
        if self.logger == "Thompson":
            draws = rng.beta(sums + 0.5, counts - sums + 0.5, size=(POSTERIOR_DRAWS, *counts.shape)).argmax(axis=2)
            return (draws[:, :, None] == np.arange(self.n_actions)).mean(axis=0)
        width = np.sqrt(np.log(t + 2) / (2 * counts)) if self.logger == "UCB" else 0.0
        best: Any = np.arange(self.n_actions) == (sums / counts + width).argmax(axis=1)[:, None]
        return best.astype(np.float64)


SETTINGS = [
    *(Setting(logger, events, 2, 1) for logger in LOGGERS for events in (1_000, 4_000)),
    *(Setting(logger, events, 3, 3) for logger in LOGGERS for events in (1_000, 4_000)),
]


def targets(setting: Setting) -> list[int]:
    """Return the actions that are evaluated."""
    return list(range(setting.n_actions)) if setting.n_contexts == 1 else [0]


def evaluate_batch(setting: Setting, batch: int) -> list[list[list[list[float]]]]:
    """Return the results of a batch of logs."""
    return [evaluate_log(setting, log) for log in setting.make_logs(batch, BATCH)]


def evaluate_log(setting: Setting, log: bc.Log) -> list[list[list[float]]]:
    """Return error, standard error and whether the interval covers, by target and evaluator."""
    truth, results = setting.means().mean(axis=0), []
    for action in targets(setting):
        policy, row = bc.Fixed(np.eye(setting.n_actions)[action]), []
        for evaluator in EVALUATORS.values():
            estimate = bc.evaluate(log, policy, evaluator)
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
        coverage, rmse = covered.mean(axis=0), np.sqrt((errors**2).mean(axis=0))
        cells = [f"{coverage[0]:.3f}, {rmse[0]:.4f}"]
        for j in range(1, len(EVALUATORS)):
            ratio, error = compare_errors(errors[:, j], errors[:, 0])
            cells.append(f"{coverage[j]:.3f}, {rmse[j]:.4f} ({ratio:.2f} ± {error:.2f})")
        world = "no contexts" if setting.n_contexts == 1 else f"{setting.n_contexts} contexts"
        value = f"{setting.means().mean(axis=0)[action]:.2f}"
        rows.append([setting.logger, f"{setting.events:,}", f"{setting.n_actions} actions, {world}", value, *cells])
    return rows


def compare_errors(errors: Any, others: Any) -> tuple[float, float]:
    """Return the ratio of root mean squared errors on the same logs, and its standard error by the delta method.

    >>> compare_errors(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    (0.5, 0.0)
    """
    squares, reference = np.square(errors), np.square(others)
    ratio = squares.mean() / reference.mean()
    error = (squares - ratio * reference).std() / np.sqrt(len(squares)) / reference.mean()
    return float(np.sqrt(ratio)), float(error / (2 * np.sqrt(ratio)))


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
        batches = runner.run(stem, evaluate_batch, (setting,), options.logs // BATCH, {"setting": list(setting)})
        trials = [trial for batch in batches for trial in batch]
        rows += summarize(setting, trials)
        records[stem] = summarize_trials(trials)
    origin = provenance(f"python -m bench.accuracy.adaptive --logs {options.logs}")
    intro = (
        "A logger learns while it collects the log; in round t every action keeps the probability max(t^-0.5, 0.04)/K. "
        "The policy under evaluation always takes one action, whose value is given. Each cell: coverage of the 95 % "
        "interval, root mean squared error, and its ratio to that of cross-fitted `DR` with its standard error; "
        f"{options.logs} logs per row, so that a coverage of 0.95 has the standard error "
        f"{np.sqrt(0.95 * 0.05 / options.logs):.3f}. `CADR` sees only the propensities of the logged actions."
    )
    table = markdown_table(["logger", "n", "world", "value", *EVALUATORS], rows)
    write_page(options.output / "adaptive.md", ["# Loggers that learn", describe_provenance(origin), intro, table])
    write_json(options.output / "adaptive.json", {**origin, "reported": list(REPORTED), "settings": records})


if __name__ == "__main__":
    main()
