"""Policies as a user may write them, for laws that must hold for those too."""

from __future__ import annotations

from typing import Any

import numpy as np


class Leaning:
    """A policy of a user: it leans towards what paid."""

    def __init__(self) -> None:
        self.paid = np.ones(3)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.paid / self.paid.sum(), (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.paid, actions, rewards)
