"""PassInputs: what the passes of an evaluation share, and what they read besides the reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.readings import ReadColumns
from backcast._readings import OutcomeReading, Reading, SegmentReading
from backcast.evaluators._fresh_rewards import FreshRewards
from backcast.evaluators._passes import PassResult
from backcast.log import Log

NO_PREDICTIONS: FloatArray = np.zeros((0, 0, 0))


class PassInputs(NamedTuple):
    """What passes share: the events, their predicted rewards ``(n, K)`` (or one row for all), and the horizon.

    ``fresh`` are the fresh rewards of rounds that are filled, if any can be. ``readings`` are the outcomes and segments
    to be read besides the reward, outcomes first, and ``outcomes_predicted`` the predictions of the outcomes,
    ``(O, n, K)`` or ``(O, 1, K)``.
    """

    log: Log
    predicted: FloatArray
    horizon: int
    fresh: FreshRewards | None = None
    readings: tuple[Reading, ...] = ()
    outcomes_predicted: FloatArray = NO_PREDICTIONS

    def of_rows(self, rows: IntArray) -> PassInputs:
        """Return the inputs of some of the events."""
        predicted = self.predicted if len(self.predicted) == 1 else self.predicted[rows]
        fresh = None if self.fresh is None else self.fresh.of_rows(rows)
        outcomes = self.outcomes_predicted
        outcomes = outcomes if outcomes.shape[1] <= 1 else outcomes[:, rows]
        return PassInputs(self.log[rows], predicted, self.horizon, fresh, self.readings, outcomes)

    def with_readings(self, readings: Sequence[Reading], predict: Callable[[OutcomeReading], FloatArray]) -> PassInputs:
        """Return the inputs with what is to be read besides the reward, given how outcomes are predicted."""
        outcomes = [predict(reading) for reading in readings if isinstance(reading, OutcomeReading)]
        stacked = np.array(np.broadcast_arrays(*outcomes)) if outcomes else NO_PREDICTIONS
        return self._replace(readings=tuple(readings), outcomes_predicted=stacked)

    def without_readings(self) -> PassInputs:
        """Return the inputs of the reward alone."""
        return self._replace(readings=(), outcomes_predicted=NO_PREDICTIONS)

    def read_as(self, number: int) -> PassInputs:
        """Return the inputs with what one reading reads in place of the reward."""
        reading = self.readings[number]
        if isinstance(reading, OutcomeReading):
            return self.without_readings()._replace(
                log=reading.apply(self.log), predicted=self.outcomes_predicted[number]
            )
        log, predicted = reading.apply(self.log, self.predicted)
        return self.without_readings()._replace(log=log, predicted=predicted)

    def read_columns(self) -> ReadColumns:
        """Return what is read besides the reward, for compiled code."""
        if not self.readings:
            return ReadColumns.nothing()
        segments = [reading for reading in self.readings if isinstance(reading, SegmentReading)]
        n_outcomes, n_events = len(self.readings) - len(segments), len(self.log)
        outcomes = np.zeros((n_events, 0)) if n_outcomes == 0 else self.log.columns.outcomes
        assert outcomes is not None
        scales = np.zeros((len(segments), n_events))
        for row, segment in zip(scales, segments, strict=True):
            row[segment.contains(self.log)] = 1 / segment.share
        origins = np.array([segment.origin for segment in segments])
        return ReadColumns.of_arrays(outcomes.T, self.outcomes_predicted, scales, origins)


# (policy, inputs, rows of the log or None for all, seed) -> result of one pass, with the results of all readings
OnePass: TypeAlias = Callable[[Any, PassInputs, IntArray | None, np.random.SeedSequence], PassResult]


def run_policies(
    passes: Sequence[OnePass],
    policies: Sequence[Any],
    inputs: PassInputs,
    rows: IntArray | None,
    seeds: Sequence[np.random.SeedSequence],
) -> list[PassResult]:
    """Run one pass of every policy, each with its seed; return the results for the reward, then for each reading."""
    columns = []
    for one_pass, policy, seed in zip(passes, policies, seeds, strict=True):
        result = one_pass(policy, inputs, rows, seed)
        columns.append([result._replace(further=()), *result.further])
    return [result for results in zip(*columns, strict=True) for result in results]


def repeat_for_readings(
    one_pass: OnePass, policy: Any, inputs: PassInputs, rows: IntArray | None, seed: np.random.SeedSequence
) -> PassResult:
    """Run a pass that reads one value: for the reward, and with the same seed once more for each reading.

    The history of a policy is the same whatever is read, because it learns from the reward.
    """
    # a pass may spawn further seeds of its own, which another pass with the same object would not get again
    again = [
        np.random.SeedSequence(
            seed.entropy,
            spawn_key=seed.spawn_key,
            pool_size=seed.pool_size,
            n_children_spawned=seed.n_children_spawned,
        )
        for _ in inputs.readings
    ]
    result = one_pass(policy, inputs.without_readings(), rows, seed)
    further = [one_pass(policy, inputs.read_as(i), rows, own_seed) for i, own_seed in enumerate(again)]
    return result._replace(further=tuple(further))
