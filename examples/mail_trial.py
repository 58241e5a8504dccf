"""An e-mail trial: which customers should get which mail?

In the trial each customer got one of three arms at random: the men's catalogue, the women's catalogue, or no mail. All
arms have the same known probability, so any rule for choosing arms can be evaluated, including rules that were never
used.

Kevin Hillstrom's "MineThatData" file of 64,000 customers has these columns; give its path. Without a path, a small
trial with the same columns is simulated.

    python examples/mail_trial.py [hillstrom.csv]
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import backcast as bc

ARMS = ("Mens E-Mail", "No E-Mail", "Womens E-Mail")
COLUMNS = ("recency", "history", "mens", "womens", "newbie", "segment", "visit")
FEATURES = ("recency", "history", "mens", "womens", "newbie")
MENS, WOMENS = FEATURES.index("mens"), FEATURES.index("womens")


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(arguments[0]) if arguments else simulate_trial(Path(folder) / "trial.csv")
        log = bc.read_log(
            path,
            context=list(FEATURES),
            action="segment",
            reward="visit",
            propensity=1 / len(ARMS),  # the arms were drawn at random
            action_labels=ARMS,
            reward_range=(0, 1),
        )
    print(f"{log}: {log.rewards.mean():.4f} visits per customer in the trial.")
    print(f"Health of the log: {bc.check(log).verdict}.")

    rules = {
        "no mail": bc.Fixed([0, 1, 0]),
        "men's catalogue to all": bc.Fixed([1, 0, 0]),
        "women's catalogue to all": bc.Fixed([0, 0, 1]),
        "by past purchases": bc.Fixed(by_past_purchases),
    }
    comparison = bc.compare(log, rules)
    for name, estimate in comparison.estimates.items():
        print(f"{name:26} {estimate.value:.4f} {estimate.interval}")
    for difference in comparison.differences:
        if "by past purchases" in (difference.first, difference.second):
            print(difference)


def by_past_purchases(contexts: Any) -> Any:
    """Choose the catalogue of past purchases; the women's for both or neither."""
    mens = (contexts[:, MENS] == 1) & (contexts[:, WOMENS] == 0)
    return np.column_stack([mens, np.zeros_like(mens), ~mens]).astype(float)


def simulate_trial(path: Path, customers: int = 6_000) -> Path:
    """Write a trial with the columns of the real one, and effects of similar size."""
    rng = np.random.default_rng(0)
    recency, newbie = rng.integers(1, 13, customers), rng.integers(2, size=customers)
    history = rng.lognormal(5.0, 0.9, customers).round(2)
    mens = rng.random(customers) < 0.55
    womens = ~mens | (rng.random(customers) < 0.2)
    arm = rng.integers(len(ARMS), size=customers)
    fits = np.where(arm == 0, mens, womens) & (arm != 1)
    probability = 0.14 - 0.006 * recency + 0.00005 * np.minimum(history, 800) + 0.04 * (arm != 1) + 0.05 * fits
    visits = rng.random(customers) < probability
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        rows = zip(recency, history, mens, womens, newbie, arm, visits, strict=True)
        writer.writerows([r, h, int(m), int(w), n, ARMS[a], int(v)] for r, h, m, w, n, a, v in rows)
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
