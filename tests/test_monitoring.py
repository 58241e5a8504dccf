"""Monitors: a log evaluated as it arrives."""

from __future__ import annotations

import numpy as np
import pytest

import backcast as bc
from backcast.environments import LinearEnvironment

WORLD = LinearEnvironment(3, 2, seed=3, logistic=True, logging="paper")
LOG = WORLD.log(1500, np.random.default_rng(1))


def test_monitor_in_parts_is_one_run() -> None:
    def fed(*cuts: int) -> bc.Estimate:
        monitor = bc.Monitor(bc.LinUCB(), reward_range=(0, 1), smallest_propensity=float(LOG.propensities.min()))
        for start, end in zip((0, *cuts), (*cuts, len(LOG)), strict=True):
            monitor.feed(LOG[start:end])
            monitor.estimate()
        return monitor.estimate()

    assert fed(500, 501).diagnostics.to_dict()["events"] == 1500
    # looking on the way disturbs nothing
    looked, straight = fed(500), fed(500)
    assert looked.value == straight.value


def test_monitor_refuses_what_breaks_its_promise() -> None:
    monitor = bc.Monitor(bc.UCB1(), reward_range=(0, 1), smallest_propensity=0.5)
    with pytest.raises(bc.EvaluationError, match="no events have been fed"):
        monitor.estimate()
    with pytest.raises(bc.EvaluationError, match="below the declared bound"):
        monitor.feed(LOG)
    with pytest.raises(bc.EvaluationError, match="are outside the declared range"):
        monitor.feed(bc.Log(None, [0, 1], [0.0, 2.0], [0.5, 0.5]))
    with pytest.raises(bc.OptionError, match="smallest_propensity"):
        bc.Monitor(bc.UCB1(), reward_range=(0, 1), smallest_propensity=0.0)
