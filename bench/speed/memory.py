"""Peak memory of DR-ns from Parquet: a log of 20 million events beside one of 2 million."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import backcast as bc
from bench.scale.process import used
from bench.speed.data import FOLDER, ROW_GROUP, WeightTransform, columns
from bench.speed.ours import one_pass, stream_of

LENGTHS = (2_000_000, 20_000_000)
PART = 1_000_000
ALLOWED = 400.0


def long_file(events: int) -> Path:
    """A Parquet file of so many events, written in parts so that making it takes no memory either."""
    path = FOLDER / f"memory-{events}.parquet"
    if path.exists():
        return path
    FOLDER.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    writer = None
    for number in range(max(1, events // PART)):
        table = _part(WeightTransform(min(events, PART)), number)
        writer = writer or pq.ParquetWriter(unfinished, table.schema)
        writer.write_table(table, row_group_size=ROW_GROUP)
    assert writer is not None
    writer.close()
    return unfinished.rename(path)


def _part(shape: WeightTransform, number: int) -> pa.Table:
    log = columns(shape, seed=2012 + number)
    features = {f"f_{j}": log.contexts[:, j] for j in range(shape.features)}
    return pa.table({**features, "action": log.actions, "reward": log.rewards, "p": log.propensities})


def measure(events: int) -> dict[str, float]:
    """Peak megabytes and seconds of one evaluation in a process of its own."""
    path = long_file(events)
    done = subprocess.run([sys.executable, "-m", __spec__.name, str(path)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def section(scale: float) -> str:
    """What both lengths took, and whether the promise holds."""
    lengths = [int(n * scale) for n in LENGTHS]
    found = {n: measure(n) for n in lengths}
    rows = [f"| {n:,} | {f['megabytes']:,.0f} MB | {f['seconds']:.1f} s |" for n, f in found.items()]
    growth = found[lengths[1]]["megabytes"] - found[lengths[0]]["megabytes"]
    for n in lengths:
        long_file(n).unlink()
    head = ["| events | peak memory | seconds |", "|---:|---:|---:|", *rows]
    return "\n".join([*head, "", f"Ten times the events take {growth:+.0f} MB (asked: at most {ALLOWED:g} MB more)."])


def main() -> None:
    from time import perf_counter

    start = perf_counter()
    one_pass(stream_of(sys.argv[1], WeightTransform()), bc.EpsilonGreedy(0.1), bc.DRns(q=0.01))
    print(json.dumps({"megabytes": used().largest, "seconds": perf_counter() - start}))


if __name__ == "__main__":
    main()
