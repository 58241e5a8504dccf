"""One decision as Vowpal Wabbit logs it, before it becomes a row of a log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Event", "Features", "number"]

Features: TypeAlias = "list[tuple[str, float]]"


@dataclass(frozen=True)
class Event:
    """A labelled decision.

    ``actions`` holds the features of each action, or is None when there are only shared ones. ``probabilities``
    are those of the actions ``0..``, where logged; ``eligible`` are the actions allowed, where not all are.
    """

    line: int
    action: int
    cost: float
    probability: float
    shared: Features
    actions: list[Features] | None = None
    probabilities: list[float] | None = None
    eligible: frozenset[int] = field(default_factory=frozenset)
    time: str | None = None
    drop_rate: float = 0.0

    @property
    def n_actions(self) -> int:
        """How many actions this decision shows to exist."""
        known = [self.action + 1, len(self.probabilities or ()), *(action + 1 for action in self.eligible)]
        return len(self.actions) if self.actions is not None else max(known)


def number(value: object) -> float:
    """A number, from JSON or text; anything else, and one beyond floating point, is a ValueError.

    >>> number("0.5"), number(2)
    (0.5, 2.0)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number is too large") from None
