"""A log of Vowpal Wabbit in which readers differ: crossed features let a linear policy learn that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import backcast as bc
from bench.accuracy.vw_news import draw_news, linear_choice, popular_choice, write_log

HORIZON = 2000


@pytest.fixture(scope="module")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(23)
    path = tmp_path_factory.mktemp("news") / "log.dsjson"
    write_log(path, draw_news(10_000, rng, candidates=(4, 4)), rng, exploration=1.0)
    return path


def test_a_learner_exceeds_the_best_policy_that_is_alike_for_all_readers(log_path: Path) -> None:
    """The expected margin is six standard errors: four are missed by about one log in 70."""
    log = bc.read_vw(log_path)
    news = draw_news(20_000, np.random.default_rng(24), candidates=(4, 4))
    best_without = news.clicks[np.arange(20_000), popular_choice(news)].mean()
    learner = bc.EpsilonGreedy(0.1, batch_size=100)
    estimate = bc.evaluate(log, learner, bc.ClockReplay(), horizon=HORIZON, reward_model=0.2, replicates=8)
    assert estimate.value > best_without + 4 * estimate.std_error


def test_the_greedy_policy_of_crossed_features_is_near_the_best(tmp_path: Path) -> None:
    rng = np.random.default_rng(25)
    news, test_news = draw_news(2000, rng), draw_news(1000, rng)
    for name, drawn in (("log", news), ("test", test_news)):
        write_log(tmp_path / f"{name}.dsjson", drawn, rng, exploration=0.5)
    values = {}
    for interactions in (None, "auto"):
        log, test = (
            bc.read_vw(tmp_path / f"{name}.dsjson", interactions=interactions, n_actions=15) for name in ("log", "test")
        )
        values[interactions] = test_news.clicks[np.arange(1000), linear_choice(log, test)].mean()
    best = test_news.clicks.max(axis=1).mean()
    assert values[None] < 0.7 * best
    assert values["auto"] > 0.8 * best
