"""Intervals of lifts hold the true lifts, one by one and all together: a small version of bench/accuracy/lifts.py."""

from __future__ import annotations

from scipy import stats

from bench.accuracy.lifts import WORLDS, measure_log

LOGS, RUNS, ALARM = 24, 1500, 1e-3


def test_lifts_cover_alone_and_together() -> None:
    """Odds of a false alarm: 1e-3 for each of the three statements."""
    world = WORLDS[0]._replace(n_events=500, horizon=20)
    truth = world.lifts(RUNS)  # known to a tenth of the standard error of a lift
    trials = [measure_log(world, truth, number) for number in range(LOGS)]
    least = stats.binom.ppf(ALARM, LOGS, 0.95)
    # of five policies
    alone = [sum(trial["alone"][name] for trial in trials) for name in truth]
    assert min(alone) >= stats.binom.ppf(ALARM / 5, LOGS, 0.95)
    assert sum(trial["together"] for trial in trials) >= least
    assert sum(trial["better"] for trial in trials) <= stats.binom.ppf(1 - ALARM, LOGS, 0.025)
