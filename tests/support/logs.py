"""Small logs that several tests use."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from backcast.log import Log


def two_action_log(n: int = 400, seed: int = 0, means: tuple[float, float] = (0.4, 0.7)) -> Log:
    """A log without contexts of two actions, taken equally often, whose rewards of 0 and 1 have these means."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=n)
    rewards = (rng.random(n) < np.where(actions == 1, means[1], means[0])).astype(float)
    return Log(None, actions, rewards, np.full(n, 0.5), reward_range=(0, 1))


def random_log(layout: str, n: int = 60, n_actions: int = 3, n_features: int = 2, seed: int = 0) -> Log:
    """A log of a layout ("dense", "sparse", "masked", "actions") whose logger's probabilities are all recorded.

    Probabilities are multiples of 1/64 that sum to 1 exactly, none below 1/64 except on unavailable actions.
    """
    rng = np.random.default_rng(seed)
    available = rng.random((n, n_actions)) < 0.7 if layout in ("masked", "actions") else np.ones((n, n_actions), bool)
    available[np.arange(n), rng.integers(n_actions, size=n)] = True
    logging = np.array([_dyadic(row, rng) for row in available])
    actions = np.array([rng.choice(n_actions, p=row) for row in logging])
    features = rng.normal(size=(n, n_actions, n_features) if layout == "actions" else (n, n_features))
    contexts: Any = features
    if layout == "sparse":
        contexts = scipy.sparse.csr_array(np.where(rng.random(features.shape) < 0.6, features, 0.0))
    return Log(
        contexts,
        actions=actions,
        rewards=rng.random(n).round(3),
        propensities=logging[np.arange(n), actions],
        n_actions=n_actions,
        available=None if available.all() else available,
        reward_range=(0.0, 1.0),
        logging_probabilities=logging,
    )


def _dyadic(available: np.ndarray[Any, np.dtype[np.bool_]], rng: np.random.Generator) -> Any:
    open_ = int(available.sum())
    counts = np.zeros(available.size)
    counts[available] = 1 + rng.multinomial(64 - open_, rng.dirichlet(np.ones(open_)))
    return counts / 64


def small_log(n: int = 60, n_actions: int = 3, **options: Any) -> Log:
    """A log of four features with rewards of 0 and 1; columns may be replaced."""
    generator = np.random.default_rng(5)
    contexts = generator.standard_normal((n, 4))
    actions = generator.integers(n_actions, size=n)
    return Log(
        contexts=options.pop("contexts", contexts),
        actions=options.pop("actions", actions),
        rewards=options.pop("rewards", (contexts[:, 0] + actions > 0.5).astype(float)),
        propensities=generator.uniform(0.1, 0.9, size=n),
        n_actions=n_actions,
        **options,
    )


def three_action_log(n: int = 20, **fields: Any) -> Log:
    """A log of three actions taken in turn, whose first feature is the number of the row."""
    rng = np.random.default_rng(0)
    columns = {
        "contexts": np.column_stack([np.arange(n), rng.normal(size=n)]),
        "actions": np.arange(n) % 3,
        "rewards": rng.random(n),
        "propensities": np.full(n, 1 / 3),
        "n_actions": 3,
    }
    return Log(**{**columns, **fields})
