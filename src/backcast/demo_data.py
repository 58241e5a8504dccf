"""news_log(): an example log of a simulated news page, drawn from a seed."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._files import atomic_write
from backcast.environments.live import coin_flips
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
EVENTS = 20_000
TRAINING_EVENTS = 2_000  # from which the logger chose its articles
EPSILON = 0.5  # exploration of the logger
EVENING = FEATURES.index("evening")
# Log-odds of a click: one row per article, one column per feature. Interests sum to 1, so they include the offsets.
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
    """Return the log of the news page, which depends only on the number of events and the seed.

    The logger shows the article that was clicked most at this time of day, in the evening or before it, and with
    probability ``EPSILON`` any article. It does not use a visitor's interests, so a policy that learns them earns more.

    Examples
    --------
    >>> log = news_log(1000)
    >>> log
    Log(1,000 events, 5 actions, 9 features)
    >>> log.action_labels[1]
    'cup final'
    """
    rng = np.random.default_rng(seed)
    past, visitors = _draw_visitors(TRAINING_EVENTS, rng), _draw_visitors(events, rng)
    shown = rng.integers(len(ARTICLES), size=TRAINING_EVENTS)
    top = _most_clicked(past[:, EVENING], shown, _draw_clicks(past, shown, rng))
    best = np.arange(len(ARTICLES)) == top[visitors[:, EVENING].astype(np.intp), None]
    # rounded, so that a file of decimals contains exactly the same numbers
    probabilities = ((1 - EPSILON) * best + EPSILON / len(ARTICLES)).round(6)
    actions = draw_actions(probabilities, rng.random(events))
    return Log(
        visitors,
        np.array(ARTICLES)[actions],
        _draw_clicks(visitors, actions, rng),
        probabilities[np.arange(events), actions],
        action_labels=ARTICLES,
        reward_range=(0.0, 1.0),
        feature_names=FEATURES,
    )


def write_news(path: str | os.PathLike[str], log: Log) -> Path:
    """Write the log as a CSV file with the columns ``COLUMNS`` and return its absolute path."""
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


def _draw_visitors(n: int, rng: np.random.Generator) -> FloatArray:
    """Draw contexts: subjects of each visitor's last twenty articles, as shares, and four facts about the visit."""
    tastes = rng.dirichlet(np.full(5, 0.5), size=n)
    interests = rng.multinomial(20, tastes) / 20
    facts = rng.random((n, 4)) < [0.6, 0.4, 0.3, 0.5]
    return np.column_stack([interests, facts])


def _draw_clicks(visitors: FloatArray, shown: IntArray, rng: np.random.Generator) -> FloatArray:
    log_odds = (visitors * TASTES[shown]).sum(axis=1)
    return coin_flips(1 / (1 + np.exp(-log_odds)), rng)


def _most_clicked(evening: FloatArray, shown: IntArray, clicks: FloatArray) -> IntArray:
    """Return the article with the highest click rate before the evening, and in the evening."""
    rates = [[clicks[(evening == e) & (shown == a)].mean() for a in range(len(ARTICLES))] for e in (0, 1)]
    return np.asarray(np.argmax(rates, axis=1))
