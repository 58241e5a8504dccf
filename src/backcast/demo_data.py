"""An embedded log to try things on: a news page, made anew from a seed whenever it is asked for."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._files import atomic_write
from backcast.log import Log
from backcast.policies._calls import draw_actions

ARTICLES = ("city budget", "cup final", "new telescope", "theatre night", "storm warning")


FEATURES = (
    "reads_politics",
    "reads_sport",
    "reads_science",
    "reads_culture",
    "reads_weather",
    "mobile",
    "evening",
    "weekend",
    "returning",
)


COLUMNS = (*FEATURES, "article", "clicked", "probability")


EVENTS = 8_000


LAST_WEEK = 2_000


EPSILON = 0.4


# Log-odds of a click: a row an article, a column a feature. Interests are shares that sum to 1: offsets as well.
TASTES = np.array(
    [
        [-1.3, -4.2, -3.4, -3.4, -3.0, -0.2, -0.3, -0.4, 0.5],
        [-3.9, -0.9, -3.6, -3.9, -3.0, 0.4, 0.6, 0.5, 0.1],
        [-3.3, -3.8, -1.1, -2.8, -3.0, -0.3, 0.2, 0.1, 0.3],
        [-3.4, -4.2, -3.0, -1.2, -3.3, -0.2, 0.7, 0.4, 0.2],
        [-2.8, -2.7, -2.7, -2.9, -1.6, 0.6, -0.5, 0.0, -0.2],
    ]
)


def news_log(events: int = EVENTS, seed: int = 0) -> Log:
    """The log of the news page: the same for the same seed.

    Examples
    --------
    >>> log = news_log(1000)
    >>> log
    Log(1,000 events, 5 actions, 9 features)
    >>> log.action_labels[1]
    'cup final'
    """
    rng = np.random.default_rng(seed)
    past, visitors = _visitors(LAST_WEEK, rng), _visitors(events, rng)
    shown = rng.integers(len(ARTICLES), size=LAST_WEEK)
    chances = _greedy(visitors @ _fitted(past, shown, _clicks(past, shown, rng)), EPSILON)
    actions = draw_actions(chances, rng.random(events))
    return Log(
        visitors,
        np.array(ARTICLES)[actions],
        _clicks(visitors, actions, rng),
        chances[np.arange(events), actions],
        action_labels=ARTICLES,
        reward_range=(0.0, 1.0),
    )


def write_news(path: str | os.PathLike[str], log: Log) -> Path:
    """Write the log as a CSV file with the columns ``COLUMNS``."""
    rows = zip(log.contexts, log.actions, log.rewards, log.propensities, strict=True)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for context, action, reward, propensity in rows:
        features = (f"{feature:g}" for feature in context)
        writer.writerow([*features, ARTICLES[action], int(reward), f"{propensity:g}"])
    with atomic_write(path, "log") as file:
        file.write(text.getvalue().encode())
    return Path(path).resolve()


def _visitors(n: int, rng: np.random.Generator) -> FloatArray:
    """Subjects of each visitor's last twenty articles, as shares, and four facts of the visit."""
    tastes = rng.dirichlet(np.full(5, 0.5), size=n)
    interests = rng.multinomial(20, tastes) / 20
    facts = rng.random((n, 4)) < [0.6, 0.4, 0.3, 0.5]
    return np.column_stack([interests, facts])


def _clicks(visitors: FloatArray, shown: IntArray, rng: np.random.Generator) -> FloatArray:
    odds = (visitors * TASTES[shown]).sum(axis=1)
    clicks: FloatArray = (rng.random(odds.size) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    return clicks


def _fitted(visitors: FloatArray, shown: IntArray, clicks: FloatArray) -> FloatArray:
    """Ridge regressions of clicks on features, a column an article."""
    weights = []
    for article in range(len(ARTICLES)):
        own = visitors[shown == article]
        weights.append(np.linalg.solve(own.T @ own + np.eye(own.shape[1]), own.T @ clicks[shown == article]))
    return np.column_stack(weights)


def _greedy(scores: FloatArray, epsilon: float) -> FloatArray:
    best = np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]
    # rounded, so that a file of decimals gives back the very same numbers
    probabilities: FloatArray = ((1 - epsilon) * best + epsilon / scores.shape[1]).round(6)
    return probabilities
