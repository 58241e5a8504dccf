"""What one pass reads besides the reward: further outcomes, and the reward of segments.

The history of a pass depends on the reward alone: which events it uses, their weights, and what the policy learns. All
that is read from it is therefore read in the same pass. An outcome has doubly robust values of its own, which change
with the policy; the value of an event in a segment follows from its value in the reward.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray, as_kernel_array
from backcast._engine.equations import doubly_robust, expected_reward
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.jit import compiled, inlined


class ReadColumns(NamedTuple):
    """What is read of each event: outcomes ``(n, O)`` with their predictions ``(O, n, K)``, and segments ``(n, S)``.

    Predictions may have one row for all events, ``(O, 1, K)``. ``inside`` is whether events are in each segment,
    ``origins`` and ``shares`` are those of :class:`backcast._readings.SegmentReading`.
    """

    rewards: FloatArray
    predicted: FloatArray
    inside: BoolArray
    origins: FloatArray
    shares: FloatArray

    @classmethod
    def of_arrays(
        cls, rewards: FloatArray, predicted: FloatArray, inside: BoolArray, origins: FloatArray, shares: FloatArray
    ) -> ReadColumns:
        """Return the columns in the memory layout that kernels are compiled for."""
        return cls(
            as_kernel_array(rewards),
            as_kernel_array(predicted),
            as_kernel_array(inside, np.bool_),
            as_kernel_array(origins),
            as_kernel_array(shares),
        )

    @classmethod
    def nothing(cls) -> ReadColumns:
        """Return no columns."""
        none = np.zeros((0, 0))
        return cls(none, np.zeros((0, 0, 0)), np.zeros((0, 0), dtype=np.bool_), np.zeros(0), np.zeros(0))

    @property
    def n_outcomes(self) -> int:
        """Number of outcomes O."""
        return self.rewards.shape[1]

    @property
    def n_readings(self) -> int:
        """Number of outcomes and segments J."""
        return self.rewards.shape[1] + self.inside.shape[1]


class FurtherReading(NamedTuple):
    """One outcome or segment in a pass; the names are those of :class:`backcast._engine.clock.ClockPass`."""

    value: FloatArray
    variance: FloatArray
    event_values: FloatArray
    reading: FloatArray
    own: FloatArray


class ReadingMeters(NamedTuple):
    """Readings of clock replay: per event and outcome its value, per event and reading what standard errors need.

    The names are those of :class:`backcast._engine.meters.Meters`. Events are the first axis, so that a loop over them
    reads all readings of an event together. ``curve`` and ``variance`` are ``(J, T)``: V_t and its variance by round.
    """

    columns: ReadColumns
    value: FloatArray
    value_sum: FloatArray
    value_round: IntArray
    reading: FloatArray
    own: FloatArray
    curve: FloatArray
    variance: FloatArray

    @classmethod
    def of_length(cls, horizon: int, n_events: int, columns: ReadColumns) -> ReadingMeters:
        """Return room for the readings of a pass."""
        n_outcomes, n_readings = columns.n_outcomes, columns.n_readings
        value, value_sum = (np.zeros((n_events, n_outcomes)) for _ in range(2))
        reading, own = (np.zeros((n_events, n_readings)) for _ in range(2))
        curve, variance = (np.zeros((n_readings, horizon)) for _ in range(2))
        return cls(columns, value, value_sum, np.zeros(n_events, np.int64), reading, own, curve, variance)


    def finish(self, n_rounds: int, event_values: FloatArray) -> tuple[FurtherReading, ...]:
        """Return the readings of a pass of so many rounds, given the mean values of events in the reward."""
        columns, n = self.columns, max(n_rounds, 1)
        if columns.n_readings == 0:
            return ()
        outcomes = self.value_sum + self.value * (n_rounds - self.value_round)[:, None]
        origins, shares = columns.origins, columns.shares
        segments = np.where(columns.inside, origins + (event_values[:, None] - origins) / shares, origins)
        values = [*(outcomes / n).T, *segments.T]
        return tuple(
            FurtherReading(
                self.curve[j, :n_rounds],
                self.variance[j, :n_rounds],
                np.ascontiguousarray(values[j]),
                self.reading[:, j] / n,
                self.own[:, j] / n,
            )
            for j in range(columns.n_readings)
        )


@inlined
def value_in_segment(value: float, inside: bool, origin: float, share: float) -> float:
    """Return ``v + [k in s] (R_k - v) / q``, whose mean over all events is the mean of ``R_k`` in the segment.

    >>> value_in_segment(3.0, True, 1.0, 0.5), value_in_segment(3.0, False, 1.0, 0.5)
    (5.0, 1.0)
    """
    return origin + (value - origin) / share if inside else origin


@inlined
def change_outcomes(events: EventArrays, target: FloatArray, k: int, t: int, read: ReadingMeters) -> None:
    """Change the values of one event in all outcomes from round t on, given its row of probabilities."""
    columns = read.columns
    if columns.rewards.shape[1] > 0:
        action, row = events.actions[k], k if columns.predicted.shape[1] > 1 else 0
        speed = target[action] / events.propensities[k]
        for j in range(columns.rewards.shape[1]):
            predicted = columns.predicted[j, row]
            read.value_sum[k, j] += read.value[k, j] * (t - read.value_round[k])
            expected = expected_reward(target, predicted)
            read.value[k, j] = doubly_robust(expected, speed, columns.rewards[k, j], predicted[action])
        read.value_round[k] = t


@compiled
def read_further(first: int, last: int, share: FloatArray, value: FloatArray, read: ReadingMeters) -> None:
    """Read all outcomes and segments for the rounds from ``first`` to ``last``, as ``read_clock`` reads the reward.

    ``share`` are the weights ``i_k`` of the events, 0 if they are not read, and ``value`` their values in the reward.
    """
    columns = read.columns
    n_readings = read.curve.shape[0]
    if n_readings == 0:
        return
    total, variance, values = np.zeros(n_readings), np.zeros(n_readings), np.zeros(n_readings)
    weight = 0.0
    for k in range(share.size):
        if share[k] > 0.0:
            _values_of_event(k, value[k], columns, read.value, values)
            weight += share[k]
            for j in range(n_readings):
                total[j] += share[k] * values[j]
    if weight == 0.0:
        # no event is left: what was read last stands for these rounds, as for the reward
        read.curve[:, first:last] = read.curve[:, first - 1 : first]
        read.variance[:, first:last] = read.variance[:, first - 1 : first]
        return
    for j in range(n_readings):
        total[j] /= weight
    for k in range(share.size):
        if share[k] > 0.0:
            _values_of_event(k, value[k], columns, read.value, values)
            log_share, part = np.log(share[k]), share[k] / weight
            for j in range(n_readings):
                influence = part * (values[j] - total[j])
                variance[j] += influence * influence
                read.reading[k, j] += (last - first) * influence
                read.own[k, j] -= (last - first) * influence * log_share
    for j in range(n_readings):
        read.curve[j, first:last], read.variance[j, first:last] = total[j], variance[j]


@inlined
def _values_of_event(
    k: int, value: float, columns: ReadColumns, outcomes: FloatArray, out: FloatArray
) -> None:
    """Write the values of one event in all outcomes and segments."""
    n_outcomes = outcomes.shape[1]
    for j in range(n_outcomes):
        out[j] = outcomes[k, j]
    for s in range(columns.inside.shape[1]):
        out[n_outcomes + s] = value_in_segment(value, columns.inside[k, s], columns.origins[s], columns.shares[s])
