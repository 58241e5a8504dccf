"""Values of the default call of the commit that is on the path: ``python -m bench.accuracy.former_answers``.

Arguments are a folder of logs, the name of a policy, and the horizon. The last line printed is JSON: value and
processor seconds of each log by number, nan without a value. Only names that exist in both versions are used.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import backcast as bc
from bench.accuracy.policies import POLICIES

WARM_EVENTS = 400  # of a first call that loads code


def read_log(path: Path) -> bc.Log:
    """Return a log of the accuracy benchmark."""
    with np.load(path) as arrays:
        columns = {name: arrays[name] for name in arrays.files if name != "n_actions"}
        return bc.Log(**columns, n_actions=int(arrays["n_actions"]), reward_range=(0.0, 1.0))


def main() -> None:
    folder, name, horizon = sys.argv[1:]
    policy, answers = POLICIES[name], []
    warnings.simplefilter("ignore")  # of drift, which either version may warn of
    for i, path in enumerate(sorted(Path(folder).iterdir(), key=lambda path: int(path.stem))):
        log = read_log(path)
        if i == 0:
            bc.evaluate(log[:WARM_EVENTS], policy, horizon=2)
        start = time.process_time()
        try:
            value = bc.evaluate(log, policy, horizon=int(horizon), seed=int(path.stem)).value
        except bc.HorizonNotReached:
            value = float("nan")
        answers.append([value, time.process_time() - start])
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
