"""No selection: policies whose history decides how many rare events they need are evaluated without bias.

A small version of ``bench.accuracy.selection``, which has more settings and logs.
"""

from __future__ import annotations

import numpy as np
import pytest

import backcast as bc
from bench.accuracy.selection import HORIZON, Commit, Setting

LOGS = 80


@pytest.mark.parametrize("setting", [Setting(7, 1200, 0.1), Setting(None, 600, 0.2)], ids=["threshold", "better mean"])
def test_policies_that_commit_are_evaluated_without_bias(setting: Setting) -> None:
    """The mean error is within 3 of its standard errors (odds of a false alarm 1 in 370), and 68 logs are covered.

    At a coverage of 92 %, fewer than 68 of 80 would be covered in one case of 93.
    """
    truth = setting.live_value()
    estimates = [
        bc.evaluate(setting.make_log(number), Commit(setting.threshold), horizon=HORIZON, seed=number, replicates=32)
        for number in range(1000, 1000 + LOGS)
    ]
    errors = np.array([estimate.value for estimate in estimates]) - truth
    assert abs(errors.mean()) < 3 * errors.std(ddof=1) / np.sqrt(LOGS)
    intervals = [estimate.interval for estimate in estimates if estimate.interval is not None]
    assert sum(interval.low <= truth <= interval.high for interval in intervals) >= 68
