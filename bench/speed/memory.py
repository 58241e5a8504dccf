"""Peak memory of DR-ns from Parquet: a log of 20 million events compared with one of 2 million."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

import pyarrow.parquet as pq

import backcast as bc
from bench.common.markdown import markdown_table
from bench.common.processes import measure_usage, run_module
from bench.speed.data import FOLDER, ROW_GROUP, LogShape, make_columns, to_table
from bench.speed.ours import evaluate_once, open_stream

LENGTHS = (2_000_000, 20_000_000)
PART = 1_000_000  # events
GOAL = 400.0  # megabytes that ten times the events may take more


def write_long_file(events: int) -> Path:
    """Write a Parquet file in parts, so that writing it takes little memory too; return the path."""
    path = FOLDER / f"memory-{events}.parquet"
    if path.exists():
        return path
    FOLDER.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    shape = LogShape(min(events, PART))
    first = to_table(make_columns(shape))
    with pq.ParquetWriter(unfinished, first.schema) as writer:
        writer.write_table(first, row_group_size=ROW_GROUP)
        for number in range(1, events // PART):
            writer.write_table(to_table(make_columns(shape, seed=2012 + number)), row_group_size=ROW_GROUP)
    return unfinished.rename(path)


def memory_section(scale: float) -> str:
    """Measure both lengths in new processes, and return a table and whether the goal is reached."""
    paths = {n: write_long_file(n) for n in (int(n * scale) for n in LENGTHS)}
    usages = {n: json.loads(run_module("bench.speed.memory", str(path))) for n, path in paths.items()}
    for path in paths.values():
        path.unlink()
    rows = [[f"{n:,}", f"{usage['megabytes']:,.0f} MB", f"{usage['seconds']:.1f} s"] for n, usage in usages.items()]
    small, large = (usage["megabytes"] for usage in usages.values())
    sentence = f"Ten times the events take {large - small:+.0f} MB (goal: at most {GOAL:g} MB more)."
    return f"{markdown_table(['events', 'peak memory', 'seconds'], rows)}\n\n{sentence}"


def main() -> None:
    start = perf_counter()
    evaluate_once(open_stream(sys.argv[1], LogShape()), bc.EpsilonGreedy(0.1), bc.DRns(q=0.01))
    print(json.dumps({"megabytes": measure_usage().largest, "seconds": perf_counter() - start}))


if __name__ == "__main__":
    main()
