"""What one event says of a fixed policy, compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from backcast._arrays import FloatArray, IntArray, plain
from backcast._kernels.jit import compiled
from backcast._parallel.jobs import no_progress
from backcast._request import EvaluationRequest, RandomStreams, stopped_note
from backcast.errors import StopEvaluation
from backcast.evaluators._reward_predictions import PredictedPart, StagedLog, predicted_parts, with_fitted_model
from backcast.intervals._sample import EventColumns
from backcast.log import Log
from backcast.policies._calls import expectation_of, probabilities_of, probability_of, select_logged, start_copy


@compiled
def expectations(target: FloatArray, predicted: FloatArray) -> FloatArray:
    """``sum_a pi(a|x_k) q(x_k, a)`` for every event: the direct method's answer.

    >>> expectations(np.array([[0.5, 0.5]]), np.array([[0.25, 0.5]]))
    array([0.375])
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            out[k] += target[k, a] * predicted[k, a]
    return out


@compiled
def beyond(target: FloatArray, predicted: FloatArray, logging: FloatArray, threshold: float) -> FloatArray:
    """``sum_a max(0, pi(a) - M mu(a)) q(a)``: what weights cut at M leave to the model (Su et al. 2019).

    >>> beyond(np.array([[0.75, 0.25]]), np.array([[0.5, 1.0]]), np.array([[0.25, 0.75]]), 2.0)
    array([0.125])

    By hand: action 0 has 0.75 - 2 * 0.25 left, at 0.5; action 1 has nothing left.
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            left = target[k, a]
            if logging[k, a] > 0.0:  # an action the logger never takes is all the model's, however large M is
                left -= threshold * logging[k, a]
            if left > 0.0:
                out[k] += left * predicted[k, a]
    return out


@compiled
def largest_ratios(target: FloatArray, logging: FloatArray) -> FloatArray:
    """``max_a pi(a)/mu(a)`` over the actions the logger may take: how large a weight could have been.

    >>> largest_ratios(np.array([[0.5, 0.25, 0.25]]), np.array([[0.5, 0.5, 0.0]]))
    array([1.])
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            if logging[k, a] > 0.0:
                out[k] = max(out[k], target[k, a] / logging[k, a])
    return out


LARGEST_BLOCK = 1 << 16


LARGEST_TABLE = 1 << 22  # entries of a block of probabilities


LEAST_SHARDS = 64


SHARD_ROWS = 10**7  # some seconds of work, beside which handing out a piece is nothing


WeightTransform = Callable[[FloatArray], FloatArray]


def identity(ratios: FloatArray) -> FloatArray:
    """The ratios as they are."""
    return ratios


class WeightedBlock(NamedTuple):
    """A block of events as estimators of fixed policies see it."""

    ratio: FloatArray
    base: FloatArray
    residual: FloatArray
    bound: FloatArray

    def columns(self, shape: WeightTransform = identity) -> EventColumns:
        """With the weights that a shape makes of the ratios."""
        weight = shape(self.ratio)
        return EventColumns(self.base, weight, weight * self.residual, self.ratio, self.residual, self.bound)


class Weigher(Protocol):
    """How a block of a stage's events is weighed."""

    def __call__(self, policy: Any, stage: PredictedPart, block: Log, places: IntArray) -> WeightedBlock:
        """``places`` are the block's positions within the stage."""
        ...


@dataclass(eq=False)
class WeightedLog:
    """The weighed events of a question, block by block and as often as wanted.

    A log in memory is weighed once and kept; a stream is weighed anew in each pass. ``uniform`` is the weight bound
    that a uniform logger would have (nan where actions come and go), ``records_logging`` tells whether bounds come
    from the logger's probabilities of all actions. Of a stream, ``shards`` gives the same events in pieces that can be
    read and weighed apart; ``request`` and ``recipe`` are all that whoever does it needs besides.
    """

    blocks: Callable[[], Iterator[WeightedBlock]]
    keep: bool
    reward_range: tuple[float, float] | None
    propensities_estimated: bool
    uniform: float
    records_logging: bool
    events: int
    request: EvaluationRequest
    recipe: Recipe
    notes: tuple[str, ...] = ()
    shards: tuple[Any, ...] = ()
    passes: int = field(default=0, repr=False)
    _kept: list[WeightedBlock] | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[WeightedBlock]:
        if self._kept is not None:
            return iter(self._kept)
        blocks = self._pass()
        if self.keep:
            self._kept = self._collected(blocks)
            return iter(self._kept)
        return blocks

    def telling(self) -> Callable[[int], None]:
        """Whom to tell of events that are weighed now: of the first pass whoever watches, of others nobody."""
        self.passes += 1
        return self.request.on_progress if self.passes == 1 else no_progress

    def _collected(self, blocks: Iterator[WeightedBlock]) -> list[WeightedBlock]:
        """The blocks, or those that were weighed before somebody had enough."""
        kept: list[WeightedBlock] = []
        try:
            kept.extend(blocks)
        except StopEvaluation:
            done = sum(block.ratio.size for block in kept)
            if done < self.events:
                self.notes = (*self.notes, stopped_note(f"{done:,} of {self.events:,} events"))
        return kept

    def knows_bound(self, low: float, high: float) -> bool:
        """Whether bounds between these numbers hold for events not seen: all recorded, or a uniform logger."""
        return self.records_logging or abs(low - self.uniform) + abs(high - self.uniform) < 1e-9 * self.uniform

    def _pass(self) -> Iterator[WeightedBlock]:
        tell = self.telling()
        passes = [weighted_shard(self.request, self.recipe, shard) for shard in self.shards] or [self.blocks()]
        for block in chain.from_iterable(passes):
            yield block
            tell(block.ratio.size)


class Recipe(NamedTuple):
    """How events are weighed, and whether a reward model is asked."""

    weigher: Weigher
    model: bool


def weight_events(request: EvaluationRequest, *, model: bool) -> WeightedLog:
    """Weigh the question's events, with residuals from its reward model or (``model=False``) plain rewards."""
    request, notes = with_fitted_model(request) if model else (request, ())
    recipe = Recipe(weight_doubly_robust if model else weight_rewards, model)
    events = weight_predicted(request, predicted_parts(request, model=model), recipe)
    return replace(events, notes=(*notes, *events.notes))


def number_of_shards(rows: int) -> int:
    """Into how many pieces a stream of so many events is cut, where its row groups allow it; workers have no say in it.

    >>> number_of_shards(1_000_000), number_of_shards(10**9), number_of_shards(10**11)
    (64, 100, 10000)
    """
    return max(LEAST_SHARDS, rows // SHARD_ROWS)


def _shards(log: Any) -> tuple[Any, ...]:
    """Pieces of a stream that need not wait for each other.

    How it is cut depends on its files alone, so the answer does not depend on who does how many of them.
    """
    if isinstance(log, Log) or getattr(log, "n_rows", None) is None or not hasattr(log, "split"):
        return ()
    return tuple(log.split(number_of_shards(log.n_rows)))


def weight_predicted(request: EvaluationRequest, log: StagedLog, recipe: Recipe) -> WeightedLog:
    """Weigh events whose predictors are known."""
    first = next(request.parts())
    return WeightedLog(
        lambda: _pass(request, log, recipe.weigher),
        request.in_memory,
        first.reward_range,
        first.propensities_estimated,
        float(first.n_actions) if first._available is None else math.nan,
        first._logging is not None and not callable(getattr(request.policy, "probability_of", None)),
        len(request.log) if request.in_memory else 0,
        request,
        recipe,
        log.notes,
        _shards(request.log),
    )


def weighted_shard(request: EvaluationRequest, recipe: Recipe, shard: Any) -> Iterator[WeightedBlock]:
    """The events of one piece of a stream."""
    own = replace(request, log=shard)
    return _pass(own, predicted_parts(own, model=recipe.model), recipe.weigher)


def _pass(request: EvaluationRequest, log: StagedLog, weigher: Weigher) -> Iterator[WeightedBlock]:
    blocks = _weighed(request, log, weigher)
    return blocks if request.in_memory else reblocked(blocks, LARGEST_BLOCK)


def reblocked(blocks: Iterator[WeightedBlock], rows: int) -> Iterator[WeightedBlock]:
    """The same events in blocks of ``rows``, so that sums over blocks do not depend on how a stream was read.

    >>> block = WeightedBlock(*np.ones((4, 3)))
    >>> [one.ratio.size for one in reblocked(iter([block, block, block]), 4)]
    [4, 4, 1]
    """
    held: list[WeightedBlock] = []
    size = 0
    for block in blocks:
        held, size = [*held, block], size + block.ratio.size
        if size >= rows:
            whole = _joined(held)
            for start in range(0, size - size % rows, rows):
                yield WeightedBlock(*(column[start : start + rows] for column in whole))
            size %= rows
            held = [WeightedBlock(*(column[column.size - size :] for column in whole))] if size else []
    if size:
        yield _joined(held)


def _joined(blocks: list[WeightedBlock]) -> WeightedBlock:
    # most often there is one, of just the length that is wanted
    return blocks[0] if len(blocks) == 1 else WeightedBlock(*map(np.concatenate, zip(*blocks, strict=True)))


def _weighed(request: EvaluationRequest, log: StagedLog, weigher: Weigher) -> Iterator[WeightedBlock]:
    policy = None
    for stages in log.parts():
        if policy is None:
            policy = start_copy(request.policy, stages[0].log, RandomStreams.of(request.seed).policy)
        if len(stages) == 1 and stages[0].places is None:
            yield from (weigher(policy, stages[0], *block) for block in _blocks(stages[0].log))
        else:
            yield _in_log_order(policy, stages, weigher)


def _in_log_order(policy: Any, stages: list[PredictedPart], weigher: Weigher) -> WeightedBlock:
    """Stages hold events from all over the part; each is written where it stands."""
    whole = WeightedBlock(*np.empty((4, sum(len(stage.log) for stage in stages))))
    for stage in stages:
        assert stage.places is not None
        for block, places in _blocks(stage.log):
            for column, values in zip(whole, weigher(policy, stage, block, places), strict=True):
                column[stage.places[places]] = values
    return whole


def _blocks(log: Log) -> Iterator[tuple[Log, IntArray]]:
    rows = max(1, min(LARGEST_BLOCK, LARGEST_TABLE // log.n_actions))
    for start in range(0, len(log), rows):
        end = min(start + rows, len(log))
        yield log[start:end], np.arange(start, end)


def weight_rewards(policy: Any, stage: PredictedPart, block: Log, places: IntArray) -> WeightedBlock:
    """Without a model: the residual is the reward."""
    return _weigh_level(policy, block, 0.0)


def weight_doubly_robust(policy: Any, stage: PredictedPart, block: Log, places: IntArray) -> WeightedBlock:
    """With a model: its expectation under the policy, and the surprise at the logged action."""
    if stage.level is not None:
        return _weigh_level(policy, block, stage.level)
    if callable(getattr(policy, "expectation", None)) and callable(getattr(stage.model, "predict_actions", None)):
        return _weigh_few(policy, stage.model, block)
    predicted = stage.table(block, places)
    target = probabilities_of(policy, block)
    return WeightedBlock(
        select_logged(target, block._actions) / block._propensities,
        expectations(target, predicted),
        block._rewards - select_logged(predicted, block._actions),
        bounds(target, block),
    )


def bounds(target: FloatArray, block: Log) -> FloatArray:
    """What each ratio could have been at most, as far as the log shows."""
    return 1.0 / block._propensities if block._logging is None else largest_ratios(target, plain(block._logging))


def _weigh_level(policy: Any, block: Log, level: float) -> WeightedBlock:
    """A model that says one number: its expectation is that number, so only the logged actions matter."""
    base, residual = np.full(len(block), level), block._rewards - level
    if not callable(getattr(policy, "probability_of", None)):
        target = probabilities_of(policy, block)
        ratio = select_logged(target, block._actions) / block._propensities
        return WeightedBlock(ratio, base, residual, bounds(target, block))
    return WeightedBlock(probability_of(policy, block) / block._propensities, base, residual, 1.0 / block._propensities)


def _weigh_few(policy: Any, model: Any, block: Log) -> WeightedBlock:
    """Policy and model both answer for single actions: no table over the action set is built."""

    def values(actions: IntArray) -> FloatArray:
        return np.asarray(model.predict_actions(block.contexts, actions), dtype=np.float64)

    return WeightedBlock(
        probability_of(policy, block) / block._propensities,
        expectation_of(policy, block, values),
        block._rewards - values(block._actions),
        1.0 / block._propensities,
    )
