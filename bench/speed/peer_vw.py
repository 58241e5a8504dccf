"""Vowpal Wabbit: ``--explore_eval``, rejection sampling in C++, on its text file (reading it is part of the work)."""

from __future__ import annotations

from pathlib import Path

from vowpalwabbit import Workspace

from bench.speed.data import WeightTransform, vw_file
from bench.speed.timing import Job, main

OPTIONS = "--explore_eval --epsilon 0.1 --interactions ax --ignore_linear x --random_seed 1 --quiet"


def explore_eval(path: Path) -> tuple[float, None]:
    workspace = Workspace(f"{OPTIONS} --data {path}")
    reward = -workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()
    return reward, None


def epsilon_greedy(shape: WeightTransform, limit: int) -> Job:
    path = vw_file(shape, limit)
    return Job("VW --explore_eval", "epsilon-greedy", lambda: explore_eval(path))


if __name__ == "__main__":
    main({"epsilon-greedy": epsilon_greedy})
