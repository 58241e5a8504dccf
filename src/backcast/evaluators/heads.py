"""The first events of a log and the rest of it, whether it is in memory or comes in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast.engine.scoring import joined_contexts
from backcast.errors import EvaluationError
from backcast.log import Log

__all__ = ["cut_head", "head_of", "joined_log"]


@dataclass(frozen=True)
class Tail:
    """The parts of a log without its first ``rows`` events."""

    log: Any
    rows: int

    @property
    def n_rows(self) -> int | None:
        """Number of events, where it is known."""
        known = getattr(self.log, "n_rows", None)
        return None if known is None else known - self.rows

    def __iter__(self) -> Iterator[Log]:
        left = self.rows
        for part in self.log:
            if left < len(part):
                yield part[left:] if left else part
            left = max(0, left - len(part))


def cut_head(log: Any, rows: int) -> tuple[Log, Any]:
    """The first ``rows`` events as a log in memory (fewer where there are not so many), and the rest, or None.

    >>> log = Log(None, actions=[0, 1, 0], rewards=[1, 2, 3], propensities=[0.5] * 3)
    >>> head, rest = cut_head([log[:1], log[1:]], 2)
    >>> head.rewards, [part.rewards for part in rest]
    (array([1., 2.]), [array([3.])])
    """
    if isinstance(log, Log):
        return log[:rows], log[rows:] if len(log) > rows else None
    if hasattr(log, "after"):
        return log.head(rows), log.after(rows)
    taken: list[Log] = []
    for part in log:
        missing = rows - sum(map(len, taken))
        if missing == 0:
            return joined_log(taken), Tail(log, rows)
        taken.append(part[:missing])
        if missing < len(part):
            return joined_log(taken), Tail(log, rows)
    if not taken:
        raise EvaluationError("the stream gave no events")
    return joined_log(taken), None


def head_of(log: Any, rows: int) -> tuple[Log | None, Any]:
    """The first ``rows`` events of a log, for warm-up or calibration, and the rest, which must not be empty."""
    if rows == 0:
        return None, log
    head, rest = cut_head(log, rows)
    if rest is None:
        raise EvaluationError(f"{rows} events are asked for warm-up or calibration; the log has only {len(head)}")
    return head, rest


def joined_log(parts: list[Log]) -> Log:
    """Parts end to end as one log.

    >>> log = Log(contexts=[[0.0], [1.0], [2.0]], actions=[0, 1, 0], rewards=[1, 2, 3], propensities=[0.5] * 3)
    >>> joined_log([log[:1], log[1:]]).rewards
    array([1., 2., 3.])
    """
    names = ("_actions", "_rewards", "_propensities", "_available", "_times", "_logging", "_rows")
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    whole = {name: None if some[0] is None else np.concatenate(some) for name, some in columns.items()}
    return parts[0].replace(_contexts=joined_contexts([part._contexts for part in parts]), **whole)
