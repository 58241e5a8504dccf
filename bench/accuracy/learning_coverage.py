"""Coverage of the default's intervals for learning policies; writes bench/results/learning_coverage.md.

    python -m bench.accuracy.learning_coverage [--logs 400] [--jobs 2]

A learner that updates on every event and one that updates on batches of 15, with light weights (a uniform logger) and
heavy ones (the paper's logger, and a sharp one).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from bench.accuracy.evaluators import RecordedEstimate, evaluate_default
from bench.accuracy.live import Truth
from bench.accuracy.settings import CHECKPOINTS, Setting, make_parser, mean_truth
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner

SEED = 77
HEAD = ("policy, logger", "intervals", "coverage", "95 % of that", "width", "mean error claimed", "sd", "bias")
LEVEL, GOAL = 0.95, (0.91, 0.98)
SETTINGS = [
    Setting("straight", logging, policy, events=2000, horizon=30)
    for policy in ("epsilon-greedy by 15", "LinUCB")
    for logging in ("uniform", "paper", "sharp")
]


def evaluate_log(setting: Setting, number: int) -> RecordedEstimate:
    """Return the default's estimate on one log."""
    return evaluate_default(setting.make_case(None, [SEED, number], number))


def coverage_row(setting: Setting, truth: Truth, estimates: list[RecordedEstimate]) -> list[str]:
    """Return coverage with its own interval, width, and the estimated standard error beside the real deviation."""
    values, lows, highs = np.array([estimate[:3] for estimate in estimates if np.isfinite(estimate.low)]).T
    covered = int(((lows <= truth.value) & (truth.value <= highs)).sum())
    low, high = stats.binomtest(covered, values.size).proportion_ci(0.95, "wilson")
    errors = (highs - lows) / 2 / stats.t.ppf((1 + LEVEL) / 2, 29)
    return [
        f"{setting.policy}, {setting.logging}",
        f"{values.size} of {len(estimates)}",
        f"{covered / values.size:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{(highs - lows).mean():.4f}",
        f"{np.sqrt((errors**2).mean()):.4f}",
        f"{values.std(ddof=1):.4f}",
        f"{(values - truth.value).mean():+.4f}",
    ]


def main() -> None:
    options = make_parser(__doc__, logs=400).parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    rows, records = [], {}
    for setting in SETTINGS:
        truth = mean_truth(setting, runner, "coverage")
        estimates = setting.run_trials(runner, "coverage", evaluate_log, (setting,), options.logs)
        rows.append(coverage_row(setting, truth, estimates))
        records[setting.stem] = {"truth": truth._asdict(), **dict(zip(HEAD, rows[-1], strict=True))}
        print(*rows[-1], sep="  ", flush=True)
    origin = provenance(f"python -m bench.accuracy.learning_coverage --logs {options.logs}")
    intro = (
        "`evaluate(log, policy, horizon=T)` with no other option: how often its 95 % interval contains V_T, "
        f"n = 2,000, T = 30, K = 4, d = 10. Goal: {GOAL[0]:.0%} to {GOAL[1]:.0%}."
    )
    title = "# Coverage for learning policies"
    blocks = [title, describe_provenance(origin), intro, markdown_table(HEAD, rows)]
    write_page(options.output / "learning_coverage.md", blocks)
    write_json(options.output / "learning_coverage.json", {**origin, "settings": records})


if __name__ == "__main__":
    main()
