"""The first answer of a fresh process, beside ``import numpy, numba``; writes bench/results/cold_start.md.

    python -m bench.horizon.cold_start [--repeats 5]

Compiled code is in the cache already. Every answer is on 2,000 events with four actions and ten features; its cost is
the processor time of the process, the smallest of several runs that take turns.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import RESULTS, write_json, write_page
from bench.common.processes import ONE_THREAD

BASE = "import numpy, numba"
LOG = """
import numpy as np, backcast as bc
rng = np.random.default_rng(0)
log = bc.Log(rng.normal(size=(2000, 10)), rng.integers(4, size=2000), rng.random(2000), np.full(2000, 0.25))
"""
LEARNER = "bc.evaluate(log, bc.EpsilonGreedy(0.1), horizon=100, exchangeable=True"
CASES = {
    BASE: BASE,
    "import backcast": "import backcast",
    "a log": LOG,
    "IPS, fixed policy": f"{LOG}bc.evaluate(log, bc.Uniform(), bc.IPS())",
    "default call, fixed policy (DR)": f"{LOG}bc.evaluate(log, bc.Uniform())",
    "EpsilonGreedy, eight passes": f"{LOG}{LEARNER}, replicates=8)",
    "default call, EpsilonGreedy": f"{LOG}{LEARNER})",
}
HEAVY = ("scipy.stats", "scipy.special", "sklearn", "pyarrow", "joblib", "numba")
REPORT = f"\nimport sys, json; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"


def run_case(code: str) -> tuple[float, list[str]]:
    """Return the processor seconds of a fresh process that runs the code, and which heavy modules it loaded."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code + REPORT]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **ONE_THREAD})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, json.loads(printed.stdout.splitlines()[-1])


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    for code in CASES.values():
        run_case(code)  # compiles and fills the cache of files
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    loaded = {}
    for _ in range(options.repeats):
        for name, code in CASES.items():
            cost, loaded[name] = run_case(code)
            seconds[name].append(cost)
    least = {name: min(costs) for name, costs in seconds.items()}
    rows = [[name, f"{least[name]:.2f}", f"{least[name] / least[BASE]:.2f}", ", ".join(loaded[name])] for name in CASES]
    origin = provenance(f"python -m bench.horizon.cold_start --repeats {options.repeats}")
    intro = (
        "Processor seconds of a fresh process, compiled code in the cache; 2,000 events, four actions, ten features, "
        f"T = 100; the smallest of {options.repeats} runs."
    )
    table = markdown_table(["process", "seconds", f"÷ {BASE}", "loads of " + ", ".join(HEAVY)], rows)
    write_page(options.output / "cold_start.md", ["# The first answer", describe_provenance(origin), intro, table])
    write_json(options.output / "cold_start.json", {**origin, "seconds": seconds, "loaded": loaded})


if __name__ == "__main__":
    main()
