"""The cases of the speed comparison: what is run, at which size, and which ratios are the goal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from bench.common.processes import run_module
from bench.speed.timing import Timing

REPEAT = 2  # runs in one process, of which the faster counts: the first run of any system meets cold memory


@dataclass(frozen=True)
class Case:
    """One runner of one module on the first ``limit`` events of a log of ``shape``."""

    module: str
    runner: str
    limit: int
    shape: tuple[int, int, int]
    repeat: int = 1

    def with_limit(self, limit: int) -> Case:
        return replace(self, limit=limit)


@dataclass(frozen=True)
class Comparison:
    """The goal is to be at least ``goal`` times as fast as the peer (below 1: at most that much slower)."""

    work: str
    ours: Case
    peer: Case
    goal: float | None = None


def run_case(case: Case) -> Timing:
    """Run a case in a new process on one thread."""
    shape = map(str, case.shape)
    options = ["--shape", *shape, "--limit", str(case.limit), "--repeat", str(case.repeat)]
    return Timing(**json.loads(run_module(f"bench.speed.{case.module}", case.runner, *options)))


def list_comparisons(scale: float = 1.0) -> list[Comparison]:
    """Return the comparisons; a peer gets as many events as it processes in some seconds.

    Ratios are on the peer's events; the speed on the whole log is in the table of systems.
    """
    shape = (int(1_000_000 * scale), 10, 20)

    def case(module: str, runner: str, events: int = 1_000_000) -> Case:
        return Case(module, runner, int(events * scale), shape, REPEAT)

    parquet, linucb = case("ours", "epsilon-greedy-parquet"), case("ours", "linucb")
    numpy_policy, arrays = case("ours", "numpy-policy"), case("ours", "epsilon-greedy")
    vw = case("peer_vw", "epsilon-greedy", 200_000)
    coba_greedy, coba_linucb = case("peer_coba", "epsilon-greedy", 25_000), case("peer_coba", "linucb", 8_000)
    return [
        Comparison("epsilon-greedy linear, file to estimate", parquet, vw, 80),
        Comparison("epsilon-greedy linear, Parquet file to estimate", parquet, coba_greedy, 800),
        Comparison("epsilon-greedy linear, the default call", case("ours", "default", 25_000), coba_greedy),
        Comparison("LinUCB, arrays", linucb, coba_linucb, 400),
        Comparison("a user's NumPy policy, arrays", numpy_policy, coba_greedy, 25),
        Comparison("LinUCB, arrays", linucb, case("peer_contextualbandits", "linucb", 50_000)),
        Comparison("LinUCB, arrays", linucb, case("peer_river", "linucb", 10_000)),
        Comparison("epsilon-greedy linear against scoring only", arrays, case("limit", "epsilon-greedy"), 0.5),
        Comparison("LinUCB against scoring only", linucb, case("limit", "linucb"), 0.5),
    ]
