"""A fresh process that answers a small question loads only what it needs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import numpy as np
import backcast as bc

rng = np.random.default_rng(0)
log = bc.Log(rng.normal(size=(60, 2)), rng.integers(2, size=60), rng.random(60), np.full(60, 0.5))
bc.evaluate(log, bc.Uniform(), bc.IPS())
bc.evaluate(log, bc.Uniform(), exchangeable=None)
bc.evaluate(log, bc.EpsilonGreedy(), horizon=5, exchangeable=None)
heavy = ["altair", "joblib", "pandas", "pyarrow", "scipy.optimize", "scipy.stats", "sklearn"]
print(*(name for name in heavy if name in sys.modules))
"""


def test_fixed_policies_and_clock_replay_load_neither_scikit_learn_nor_the_statistics_of_scipy() -> None:
    # with the evaluator and the reward model that are chosen by default, and with the test for drift before it
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []
