"""Weighted events of a fixed policy: ratio, model value and residual of every event, in one pass over the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import FloatArray, IntArray, as_kernel_array
from backcast._engine.equations import expected_reward
from backcast._kernels.jit import compiled
from backcast._parallel.jobs import ignore_progress
from backcast._request import EvaluationRequest, RandomStreams, partial_note
from backcast.errors import StopEvaluation
from backcast.evaluators._reward_predictions import PredictedPart, predicted_parts, with_stream_model
from backcast.intervals._sample import EventColumns
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import expectation_of, probabilities_of, probability_of, select_logged, start_copy
from backcast.reward_models._calls import predict_actions

LARGEST_BLOCK = 1 << 16  # events
LARGEST_TABLE = 1 << 22  # entries of a block of probabilities
FEWEST_SHARDS, EVENTS_PER_SHARD = 64, 10**7  # a shard of ten million events takes some seconds


class WeightedBlock(NamedTuple):
    """A block of events: ratio ``pi/p``, model value, residual of the logged reward, largest possible ratio, reward."""

    ratio: FloatArray
    base: FloatArray
    residual: FloatArray
    bound: FloatArray
    reward: FloatArray

    def columns(self, transform: Callable[[FloatArray], FloatArray]) -> EventColumns:
        """Return the columns with weights that a transform computes from the ratios."""
        weight = transform(self.ratio)
        term = weight * self.residual
        return EventColumns(self.base, weight, term, self.ratio, self.residual, self.bound, self.reward)


# (policy, part, block of its events, their positions in the part) -> weighted block
WeightFunction: TypeAlias = Callable[[Any, PredictedPart, Log, IntArray], WeightedBlock]


class WeightedLog:
    """The weighted events of a request, block by block and as often as needed.

    A log in memory is weighted once; a stream is weighted again in each pass, and its ``shards`` can be read and
    weighted independently of each other. ``parts`` are the predictions of a log in memory, if they exist already.
    """

    def __init__(
        self,
        request: EvaluationRequest,
        weight: WeightFunction,
        *,
        uses_model: bool,
        notes: tuple[str, ...] = (),
        parts: Callable[[], Iterator[list[PredictedPart]]] | None = None,
    ) -> None:
        self.request, self.weight, self.uses_model, self.notes = request, weight, uses_model, notes
        log = request.log
        self.in_memory = isinstance(log, Log)
        self.reward_range, self.propensities_estimated = log.reward_range, log.propensities_estimated
        self.shards: tuple[LogStream, ...] = ()
        if isinstance(log, LogStream) and log.n_events is not None:
            # how a stream is cut depends on its files alone, so results do not depend on the number of workers
            self.shards = tuple(log.split(number_of_shards(log.n_events)))
        self._parts = parts
        if self.in_memory and parts is None:
            self._parts = predicted_parts(request, uses_model=uses_model)
        self._blocks: list[WeightedBlock] | None = None
        self.n_passes = 0

    def blocks(self) -> Iterator[WeightedBlock]:
        """Iterate over all weighted blocks."""
        if self._blocks is not None:
            return iter(self._blocks)
        if not self.in_memory:
            return self._pass()
        self._blocks = []
        try:
            self._blocks.extend(self._pass())
        except StopEvaluation:
            if not self._blocks:
                raise
            n_events, weighted = self.request.log.n_events, sum(block.ratio.size for block in self._blocks)
            if n_events is not None and weighted < n_events:
                self.notes = (*self.notes, partial_note(f"{weighted:,} of {n_events:,} events"))
        return iter(self._blocks)

    def start_pass(self) -> Callable[[int], None]:
        """Count a pass and return its progress callback: the caller's on the first pass, none on later ones."""
        self.n_passes += 1
        return self.request.execution.on_progress if self.n_passes == 1 else ignore_progress

    def bound_is_known(self, low: float, high: float) -> bool:
        """Return whether bounds between these numbers hold for unseen events: recorded, or a uniform logger."""
        policy, log = self.request.policy, self.request.log
        has_table = policy is not None and not callable(getattr(policy, "probability_of", None))
        is_uniform = abs(low - log.n_actions) + abs(high - log.n_actions) < 1e-9 * log.n_actions
        if not has_table and not is_uniform:
            return False
        columns = next(log.parts()).columns
        # a uniform logger's bound differs between events if eligible actions change
        return (has_table and columns.logging_probabilities is not None) or (is_uniform and columns.available is None)

    def _pass(self) -> Iterator[WeightedBlock]:
        on_progress = self.start_pass()
        if self._parts is not None:
            blocks = _weight_parts(self.request, self._parts(), self.weight)
        else:
            shards = self.shards or (self.request.log,)
            blocks = chain.from_iterable(
                weight_shard(self.request, self.weight, shard, uses_model=self.uses_model) for shard in shards
            )
        for block in blocks:
            yield block
            on_progress(block.ratio.size)


def weight_events(request: EvaluationRequest, *, uses_model: bool) -> WeightedLog:
    """Weight the events of a request, with residuals from its reward model or plain rewards."""
    request, notes = with_stream_model(request) if uses_model else (request, ())
    weight = weight_doubly_robust if uses_model else weight_rewards
    return WeightedLog(request, weight, uses_model=uses_model, notes=notes)


def number_of_shards(n_events: int) -> int:
    """Return the number of shards of a stream, whatever the number of workers.

    >>> number_of_shards(1_000_000), number_of_shards(10**9), number_of_shards(10**11)
    (64, 100, 10000)
    """
    return max(FEWEST_SHARDS, n_events // EVENTS_PER_SHARD)


def weight_shard(
    request: EvaluationRequest, weight: WeightFunction, shard: Log | LogStream, *, uses_model: bool
) -> Iterator[WeightedBlock]:
    """Weight the events of one shard of a stream, in blocks that do not depend on how the stream is read."""
    request = replace(request, log=shard)
    blocks = _weight_parts(request, predicted_parts(request, uses_model=uses_model)(), weight)
    return reblock(blocks, LARGEST_BLOCK)


def reblock(blocks: Iterator[WeightedBlock], n: int) -> Iterator[WeightedBlock]:
    """Regroup events into blocks of ``n``, so that sums over blocks do not depend on how a stream was read.

    >>> block = WeightedBlock(*np.ones((5, 3)))
    >>> [regrouped.ratio.size for regrouped in reblock(iter([block, block, block]), 4)]
    [4, 4, 1]
    """
    buffer: list[WeightedBlock] = []
    size = 0
    for block in blocks:
        buffer, size = [*buffer, block], size + block.ratio.size
        if size >= n:
            joined = _concat(buffer)
            for start in range(0, size - size % n, n):
                yield WeightedBlock(*(column[start : start + n] for column in joined))
            size %= n
            buffer = [WeightedBlock(*(column[column.size - size :] for column in joined))] if size else []
    if size:
        yield _concat(buffer)


def _concat(blocks: list[WeightedBlock]) -> WeightedBlock:
    return blocks[0] if len(blocks) == 1 else WeightedBlock(*map(np.concatenate, zip(*blocks, strict=True)))


def _weight_parts(
    request: EvaluationRequest, parts: Iterator[list[PredictedPart]], weight: WeightFunction
) -> Iterator[WeightedBlock]:
    policy = None
    for models in parts:
        if policy is None:
            policy = start_copy(request.policy, models[0].log, RandomStreams.from_seed(request.seed).policy)
        if len(models) == 1 and models[0].positions is None:
            yield from (weight(policy, models[0], *block) for block in _cut_blocks(models[0].log))
            continue
        # each model has events from the whole part: they are written back in log order
        ordered = WeightedBlock(*np.empty((5, len(models[0].log))))
        for model in models:
            assert model.positions is not None
            for start in range(0, model.positions.size, _block_length(model.log)):
                positions = model.positions[start : start + _block_length(model.log)]
                # a block is copied out of the log, not all events of the model
                block = weight(policy, model, model.log[positions], positions)
                for column, values in zip(ordered, block, strict=True):
                    column[positions] = values
        yield ordered


def _block_length(log: Log) -> int:
    return max(1, min(LARGEST_BLOCK, LARGEST_TABLE // log.n_actions))


def _cut_blocks(log: Log) -> Iterator[tuple[Log, IntArray]]:
    for start in range(0, len(log), _block_length(log)):
        stop = min(start + _block_length(log), len(log))
        yield log[start:stop], np.arange(start, stop)


def weight_rewards(policy: Any, part: PredictedPart, block: Log, positions: IntArray) -> WeightedBlock:
    """Weight events without a model: the residual is the reward."""
    if _is_known_by_log_alone(policy, block):
        return weight_logged(block)
    return _weight_with_constant(policy, block, 0.0)


def weight_logged(block: Log) -> WeightedBlock:
    """Weight events of the logger itself: each counts once, with its own reward."""
    rewards = block.columns.rewards
    ones = np.ones_like(rewards)
    return WeightedBlock(ones, np.zeros_like(rewards), rewards, ones, rewards)


def _is_known_by_log_alone(policy: Any, block: Log) -> bool:
    """Return whether the policy is the logger, and the log does not record its probabilities of all actions."""
    return getattr(policy, "repeats_log", False) and block.columns.logging_probabilities is None


def weight_doubly_robust(policy: Any, part: PredictedPart, block: Log, positions: IntArray) -> WeightedBlock:
    """Weight events with a model: its expectation under the policy, and the residual at the logged action."""
    if _is_known_by_log_alone(policy, block):
        return weight_logged(block)
    if part.constant is not None:
        return _weight_with_constant(policy, block, part.constant)
    if callable(getattr(policy, "expectation", None)) and callable(getattr(part.model, "predict_actions", None)):
        return _weight_single_actions(policy, part.model, block)
    predicted = part.table(block, positions)
    target = probabilities_of(policy, block)
    return WeightedBlock(
        select_logged(target, block.columns.actions) / block.columns.propensities,
        expected_rewards(target, predicted),
        block.columns.rewards - select_logged(predicted, block.columns.actions),
        ratio_bounds(target, block),
        block.columns.rewards,
    )


def ratio_bounds(target: FloatArray, block: Log) -> FloatArray:
    """Return the largest possible ratio of each event, as far as the log shows it."""
    if block.columns.logging_probabilities is None:
        return 1.0 / block.columns.propensities
    return largest_ratios(target, as_kernel_array(block.columns.logging_probabilities))


def _weight_with_constant(policy: Any, block: Log, constant: float) -> WeightedBlock:
    """Weight events whose model predicts one number: only the logged actions matter."""
    base, residual = np.full(len(block), constant), block.columns.rewards - constant
    if callable(getattr(policy, "probability_of", None)):
        ratio, bound = probability_of(policy, block) / block.columns.propensities, 1.0 / block.columns.propensities
        return WeightedBlock(ratio, base, residual, bound, block.columns.rewards)
    target = probabilities_of(policy, block)
    ratio = select_logged(target, block.columns.actions) / block.columns.propensities
    return WeightedBlock(ratio, base, residual, ratio_bounds(target, block), block.columns.rewards)


def _weight_single_actions(policy: Any, model: Any, block: Log) -> WeightedBlock:
    """Weight events of a policy and a model that both answer for single actions: there is no table of all actions."""
    predict = partial(predict_actions, model, block)
    return WeightedBlock(
        probability_of(policy, block) / block.columns.propensities,
        expectation_of(policy, block, predict),
        block.columns.rewards - predict(block.columns.actions),
        1.0 / block.columns.propensities,
        block.columns.rewards,
    )


@compiled
def expected_rewards(target: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return ``sum_a pi(a|x_k) rhat(x_k, a)`` for every event.

    >>> expected_rewards(np.array([[0.5, 0.5]]), np.array([[0.25, 0.5]]))
    array([0.375])
    """
    out = np.empty(target.shape[0])
    for k in range(target.shape[0]):
        out[k] = expected_reward(target[k], predicted[k])
    return out


@compiled
def largest_ratios(target: FloatArray, logging: FloatArray) -> FloatArray:
    """Return ``max_a pi(a)/mu(a)`` over the actions that the logger may take.

    >>> largest_ratios(np.array([[0.5, 0.25, 0.25]]), np.array([[0.5, 0.5, 0.0]]))
    array([1.])
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            if logging[k, a] > 0.0:
                out[k] = max(out[k], target[k, a] / logging[k, a])
    return out
