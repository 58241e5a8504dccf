"""What is run, at which size, and which figures are to be reached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace

from bench.speed.timing import Timing

REPEAT = 2  # runs in one process, of which the quicker counts: the first one of any system meets cold memory
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Case:
    """One runner of one module on the first ``limit`` events of a log of ``shape``."""

    module: str
    runner: str
    limit: int
    shape: tuple[int, int, int]
    repeat: int = 1

    def command(self) -> list[str]:
        shape = map(str, self.shape)
        options = ["--shape", *shape, "--limit", str(self.limit), "--repeat", str(self.repeat)]
        return [sys.executable, "-m", f"bench.speed.{self.module}", self.runner, *options]

    def on(self, limit: int) -> Case:
        return replace(self, limit=limit)


@dataclass(frozen=True)
class Target:
    """Ours should be at least ``factor`` times as quick as the peer (below 1: at most that much slower)."""

    work: str
    ours: Case
    peer: Case
    factor: float | None = None


class CaseFailed(Exception):
    """A runner ended with an error; its last words are the message."""


def run(case: Case) -> Timing:
    """Run a case in a process of its own, on one thread, and read the line of JSON that it ends with."""
    done = subprocess.run(case.command(), capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
    if done.returncode:
        raise CaseFailed((done.stderr.strip() or "no message").splitlines()[-1])
    return Timing(**json.loads(done.stdout.splitlines()[-1]))


def targets(scale: float = 1.0) -> list[Target]:
    """The comparisons; a peer gets as many events as it manages in some seconds, ours gets the whole log."""
    shape = (int(1_000_000 * scale), 10, 20)

    def case(module: str, runner: str, events: int) -> Case:
        return Case(module, runner, int(events * scale), shape, REPEAT)

    greedy, linucb, numpy_policy = (
        case("ours", runner, 1_000_000) for runner in ("epsilon-greedy-parquet", "linucb", "numpy-policy")
    )
    vw = case("peer_vw", "epsilon-greedy", 200_000)
    coba_greedy = case("peer_coba", "epsilon-greedy", 25_000)
    coba_linucb = case("peer_coba", "linucb", 8_000)
    arrays = case("ours", "epsilon-greedy", 1_000_000)
    return [
        Target("epsilon-greedy linear, file to estimate", greedy, vw, 80),
        Target("epsilon-greedy linear, Parquet file to estimate", greedy, coba_greedy, 800),
        Target("LinUCB, arrays", linucb, coba_linucb, 400),
        Target("a user's NumPy policy, arrays", numpy_policy, coba_greedy, 25),
        Target("LinUCB, arrays", linucb, case("peer_contextualbandits", "linucb", 50_000)),
        Target("LinUCB, arrays", linucb, case("peer_river", "linucb", 10_000)),
        Target("epsilon-greedy linear against scoring only", arrays, case("limit", "epsilon-greedy", 1_000_000), 0.5),
        Target("LinUCB against scoring only", linucb, case("limit", "linucb", 1_000_000), 0.5),
    ]
