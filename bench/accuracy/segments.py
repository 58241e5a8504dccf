"""Coverage of the lift of a fixed policy by the events of a segment, for the size below which segments are pooled.

A segment of a fixed policy is evaluated as a log of its own events, so logs of this size are. Run:
``python -m bench.accuracy.segments``.
"""

from __future__ import annotations

import numpy as np

import backcast as bc

SIZES = (25, 50, 100, 200)
LOGS = 400


def coverage(n_events: int, base_rate: float, n_actions: int = 3) -> tuple[float, float]:
    """Return the share of 95 % lift intervals that cover, and the share of estimates that are not trustworthy."""
    covered = poor = 0
    for seed in range(LOGS):
        rng = np.random.default_rng(seed)
        actions = rng.integers(n_actions, size=n_events)
        rewards = (rng.random(n_events) < np.where(actions == 1, 1.5 * base_rate, base_rate)).astype(float)
        log = bc.Log(None, actions, rewards, np.full(n_events, 1 / n_actions), n_actions=n_actions, reward_range=(0, 1))
        estimate = bc.evaluate(log, bc.Fixed(np.eye(n_actions)[1]), bc.DR(), reward_model=base_rate)
        truth = 0.5 * base_rate * (1 - 1 / n_actions)
        poor += not estimate.reliability.is_trustworthy
        covered += estimate.lift is not None and estimate.lift.interval.low <= truth <= estimate.lift.interval.high
    return covered / LOGS, poor / LOGS


def main() -> None:
    """Print one line per base rate and size."""
    for base_rate in (0.05, 0.3):
        for n_events in SIZES:
            share, poor = coverage(n_events, base_rate)
            print(f"rate {base_rate:g}, {n_events} events: {share:.3f} cover, {poor:.3f} not trustworthy", flush=True)


if __name__ == "__main__":
    main()
