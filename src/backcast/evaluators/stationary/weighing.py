"""One pass over the log: every event becomes a ratio, the model's answer and a residual.

Events are scored in blocks, so memory grows with the number of events (in-memory logs) or not at all (streams),
never with events times actions. A policy that offers ``probability_of(contexts, actions)`` is asked for the logged
actions only: then nothing of the size of the action set is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from backcast.arrays import FloatArray
from backcast.engine.scoring import contexts_for, fresh_copy, name_of, probabilities_of
from backcast.errors import PolicyError
from backcast.evaluators.question import Question, Streams
from backcast.evaluators.stationary.kernels import expectations, taken
from backcast.evaluators.stationary.predicting import Predicted, predicted_parts
from backcast.intervals.moments import Columns
from backcast.log import Log

__all__ = ["Shape", "Weighed", "WeighedLog", "unshaped", "weigh"]

LARGEST_BLOCK = 1 << 16
LARGEST_TABLE = 1 << 22  # entries of a block of probabilities

Shape = Callable[[FloatArray], FloatArray]


def unshaped(ratios: FloatArray) -> FloatArray:
    """The ratios as they are."""
    return ratios


class Weighed(NamedTuple):
    """A block of events as estimators of fixed policies see it."""

    ratio: FloatArray
    base: FloatArray
    residual: FloatArray
    inverse: FloatArray

    def columns(self, shape: Shape = unshaped) -> Columns:
        """With the weights that a shape makes of the ratios."""
        weight = shape(self.ratio)
        return Columns(self.base, weight, weight * self.residual, self.ratio, self.residual, self.inverse)


@dataclass(frozen=True, eq=False)
class WeighedLog:
    """The weighed events of a question, block by block and as often as wanted.

    A log in memory is weighed once and kept, a stream is weighed anew in each pass.
    """

    blocks: Callable[[], Iterator[Weighed]]
    reward_range: tuple[float, float] | None
    propensities_estimated: bool
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Weighed]:
        return self.blocks()


def weigh(question: Question, *, model: bool) -> WeighedLog:
    """Weigh the question's events, with residuals from its reward model or (``model=False``) plain rewards."""
    parts = predicted_parts(question, model=model)

    def blocks() -> Iterator[Weighed]:
        policy = None
        for part in parts:
            if policy is None:
                policy = fresh_copy(question.policy, part.log, Streams.of(question.seed).policy)
            for block in _blocks(part):
                yield weighed(policy, block)

    first = question.log if question.in_memory else next(iter(question.log))
    return WeighedLog(
        _kept(blocks, question) if question.in_memory else _watched(blocks, question),
        first.reward_range,
        first.propensities_estimated,
        parts.notes,
    )


def weighed(policy: Any, block: Predicted) -> Weighed:
    """Ratio, base, residual and 1/p of every event in a block."""
    log, predicted = block
    inverse = 1.0 / log._propensities
    if predicted is None:
        own = probability_of(policy, log)
        return Weighed(own * inverse, np.zeros(len(log)), log._rewards, inverse)
    target = probabilities_of(policy, log)
    return Weighed(
        taken(target, log._actions) * inverse,
        expectations(target, predicted),
        log._rewards - taken(predicted, log._actions),
        inverse,
    )


def probability_of(policy: Any, log: Log) -> FloatArray:
    """The policy's probability of each logged action, asked for directly where the policy can tell."""
    ask = getattr(policy, "probability_of", None)
    if not callable(ask):
        return taken(probabilities_of(policy, log), log._actions)
    more = {} if log.available is None else {"available": log.available}
    own = np.asarray(ask(contexts_for(policy, log), log.actions, **more), dtype=np.float64)
    if own.shape != (len(log),):
        raise PolicyError(
            f"{name_of(policy)}.probability_of returned shape {own.shape}; expected ({len(log)},), one an event"
        )
    wrong = ~((own >= 0) & (own <= 1 + 1e-9))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise PolicyError(
            f"row {int(log.rows[place])}: {name_of(policy)}.probability_of is {own[place]:g}; it must lie in [0, 1]"
        )
    return own


def _blocks(part: Predicted) -> Iterator[Predicted]:
    log, predicted = part
    rows = max(1, min(LARGEST_BLOCK, LARGEST_TABLE // log.n_actions))
    for start in range(0, len(log), rows):
        span = slice(start, start + rows)
        yield Predicted(log[span], None if predicted is None else predicted[span])


def _kept(blocks: Callable[[], Iterator[Weighed]], question: Question) -> Callable[[], Iterator[Weighed]]:
    once = list(_watched(blocks, question)())
    return lambda: iter(once)


def _watched(blocks: Callable[[], Iterator[Weighed]], question: Question) -> Callable[[], Iterator[Weighed]]:
    def watched() -> Iterator[Weighed]:
        for block in blocks():
            yield block
            question.on_progress(block.ratio.size)

    return watched
