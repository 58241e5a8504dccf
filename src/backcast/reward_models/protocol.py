"""What a reward model must do: learn from a log, then predict the reward of every action."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from backcast.arrays import Contexts, FloatArray
from backcast.errors import OptionError
from backcast.log import Log

__all__ = ["RewardModel", "not_fitted"]


@runtime_checkable
class RewardModel(Protocol):
    """A guess at the reward of each action in each context, of any quality.

    A poor model costs precision, never correctness: doubly robust evaluators repair it from the log.
    """

    def fit(self, log: Log) -> Self:
        """Learn from the events of the log; what was learnt before is forgotten."""
        ...

    def predict(self, contexts: Contexts) -> FloatArray:
        """Predicted reward of all K actions for each context, shape ``(n, K)``."""
        ...


def not_fitted(model: object) -> OptionError:
    """The error of a model that is asked before it was taught."""
    return OptionError(f"{type(model).__name__} has not been fitted; call fit(log) before predict or Fitted(model)")
