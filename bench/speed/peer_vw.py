"""Vowpal Wabbit: ``--explore_eval``, rejection sampling in C++; reading its text file is timed too."""

from __future__ import annotations

from pathlib import Path

from vowpalwabbit import Workspace

from bench.speed.data import LogShape, write_vw
from bench.speed.timing import PreparedRun, main

OPTIONS = "--explore_eval --epsilon 0.1 --interactions ax --ignore_linear x --random_seed 1 --quiet"


def run_explore_eval(path: Path) -> tuple[float, None]:
    workspace = Workspace(f"{OPTIONS} --data {path}")
    reward = -workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()
    return reward, None


def prepare_epsilon_greedy(shape: LogShape, limit: int) -> PreparedRun:
    path = write_vw(shape, limit)
    return PreparedRun("VW --explore_eval", "epsilon-greedy", lambda: run_explore_eval(path))


if __name__ == "__main__":
    main({"epsilon-greedy": prepare_epsilon_greedy})
