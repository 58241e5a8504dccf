"""Starting up: a light import, one compilation for ever, and a word about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STOPWATCH = "from time import process_time as now; start = now(); import {}; print(now() - start)"

EVALUATION = """
import numba.core.event
import numpy as np
import backcast as bc

rng = np.random.default_rng(0)
log = bc.Log(rng.normal(size=(50, 2)), rng.integers(3, size=50), rng.random(50), np.full(50, 1 / 3), n_actions=3)
with numba.core.event.install_recorder("numba:compile") as compiled:
    bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.01), reward_model=0.5, progress=True)
print("compiled", len(compiled.buffer))
"""


def output(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return done.stdout


def import_seconds(name: str) -> float:
    """Processor time, best of several: what others do on the machine can only add to it."""
    return min(float(output(STOPWATCH.format(name))) for _ in range(5))


def test_the_import_takes_at_most_twice_that_of_numpy() -> None:
    # It takes a fifth of it, names being imported when they are used; ten times that much is still no false alarm.
    assert import_seconds("backcast") <= 2 * import_seconds("numpy")


def test_the_second_run_compiles_nothing_and_the_first_says_that_it_does(tmp_path: Path) -> None:
    first, second = (output(EVALUATION, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert "compiling, once" in first
    assert int(first.split()[-1]) > 0
    assert "compiling" not in second
    assert second.split()[-2:] == ["compiled", "0"]
