"""What one pass reads besides the reward: further outcomes, and the reward of segments.

The history of a pass depends on the reward alone: which events it uses, their weights, and what the policy learns. All
that is read from it is therefore read in the same pass. An outcome has doubly robust values of its own, which change
with the policy; the value of an event in a segment follows from its value in the reward.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray, as_kernel_array
from backcast._engine.equations import doubly_robust, expected_reward
from backcast._engine.meters import sum_of_numbers, sum_of_products
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.jit import compiled


class ReadColumns(NamedTuple):
    """What is read of each event: outcomes ``(O, n)`` with their predictions ``(O, n, K)``, and segments ``(S, n)``.

    Predictions may have one row for all events, ``(O, 1, K)``. An event counts as ``v + scale (R_k - v)`` in a segment,
    with ``v`` of ``origins (S,)``; ``scales`` are 1 over the share of the segment for its events, and 0 for others.
    """

    rewards: FloatArray
    predicted: FloatArray
    scales: FloatArray
    origins: FloatArray

    @classmethod
    def of_arrays(
        cls, rewards: FloatArray, predicted: FloatArray, scales: FloatArray, origins: FloatArray
    ) -> ReadColumns:
        """Return the columns in the memory layout that kernels are compiled for."""
        return cls(*map(as_kernel_array, (rewards, predicted, scales, origins)))

    @classmethod
    def nothing(cls) -> ReadColumns:
        """Return no columns."""
        return cls(np.zeros((0, 0)), np.zeros((0, 0, 0)), np.zeros((0, 0)), np.zeros(0))

    @property
    def n_readings(self) -> int:
        """Number of outcomes and segments J."""
        return len(self.rewards) + len(self.scales)


class FurtherReading(NamedTuple):
    """One outcome or segment in a pass; the names are those of :class:`backcast._engine.clock.ClockPass`."""

    value: FloatArray
    variance: FloatArray
    event_values: FloatArray
    reading: FloatArray
    own: FloatArray


class ReadingMeters(NamedTuple):
    """Readings of clock replay: values of events in all outcomes ``(O, n)``, and in all readings what errors need.

    The names are those of :class:`backcast._engine.meters.Meters`; ``reading`` and ``own`` are ``(J, n)``. ``curve``
    and ``variance`` are ``(J, T)``: V_t and its variance by round. ``influence`` is scratch for one reading,
    ``changed`` and ``targets`` for events whose probabilities change, if there are outcomes.
    """

    columns: ReadColumns
    value: FloatArray
    value_sum: FloatArray
    value_round: IntArray
    changed: IntArray
    targets: FloatArray
    influence: FloatArray
    reading: FloatArray
    own: FloatArray
    curve: FloatArray
    variance: FloatArray

    @classmethod
    def of_length(cls, horizon: int, n_events: int, columns: ReadColumns) -> ReadingMeters:
        """Return room for the readings of a pass."""
        value, value_sum = (np.zeros((len(columns.rewards), n_events)) for _ in range(2))
        reading, own = (np.zeros((columns.n_readings, n_events)) for _ in range(2))
        curve, variance = (np.zeros((columns.n_readings, horizon)) for _ in range(2))
        n_changed = n_events if len(columns.rewards) else 0
        value_round, changed = np.zeros(n_events, np.int64), np.zeros(n_changed, np.int64)
        targets, influence = np.zeros((n_changed, columns.predicted.shape[2])), np.zeros(n_events)
        return cls(columns, value, value_sum, value_round, changed, targets, influence, reading, own, curve, variance)

    def finish(self, n_rounds: int, event_values: FloatArray) -> tuple[FurtherReading, ...]:
        """Return the readings of a pass of so many rounds, given the mean values of events in the reward."""
        n, origins = max(n_rounds, 1), self.columns.origins[:, None]
        if self.columns.n_readings == 0:
            return ()
        outcomes = (self.value_sum + self.value * (n_rounds - self.value_round)) / n
        segments = origins + self.columns.scales * (event_values - origins)
        values, curve, variance = [*outcomes, *segments], self.curve[:, :n_rounds], self.variance[:, :n_rounds]
        return tuple(map(FurtherReading, curve, variance, values, self.reading / n, self.own / n))


@compiled
def change_outcomes(events: EventArrays, changed: IntArray, targets: FloatArray, t: int, read: ReadingMeters) -> None:
    """Change the values of some events in all outcomes from round t on, given their rows of probabilities."""
    columns = read.columns
    for i in range(changed.size):
        k = changed[i]
        action, row = events.actions[k], k if columns.predicted.shape[1] > 1 else 0
        weight = targets[i, action] / events.propensities[k]
        for j in range(read.value.shape[0]):
            predicted = columns.predicted[j, row]
            read.value_sum[j, k] += read.value[j, k] * (t - read.value_round[k])
            expected = expected_reward(targets[i], predicted)
            read.value[j, k] = doubly_robust(expected, weight, columns.rewards[j, k], predicted[action])
        read.value_round[k] = t


@compiled
def read_further(
    first: int, last: int, share: FloatArray, log_unused: FloatArray, value: FloatArray, read: ReadingMeters
) -> None:
    """Read all outcomes and segments for the rounds from ``first`` to ``last``, as ``read_clock`` reads the reward.

    ``share`` are the weights ``i_k`` of the events, 0 if they are not read, ``log_unused`` the logarithms of
    ``1 - W_k``, and ``value`` the values of the events in the reward.
    """
    n_outcomes, n_readings, influence = read.value.shape[0], read.curve.shape[0], read.influence
    if n_readings == 0:
        return
    weight = sum_of_numbers(share)
    if weight == 0.0:
        # no event is left: what was read last stands for these rounds, as for the reward
        for j in range(n_readings):
            read.curve[j, first:last] = read.curve[j, first - 1]
            read.variance[j, first:last] = read.variance[j, first - 1]
        return
    per_round = (last - first) / weight
    for j in range(n_readings):
        if j < n_outcomes:
            for k in range(share.size):
                influence[k] = read.value[j, k]
        else:
            origin, scales = read.columns.origins[j - n_outcomes], read.columns.scales[j - n_outcomes]
            for k in range(share.size):
                influence[k] = origin + scales[k] * (value[k] - origin)
        mean = sum_of_products(share, influence) / weight
        reading, own = read.reading[j], read.own[j]
        for k in range(share.size):
            influence[k] = share[k] * (influence[k] - mean)
            reading[k] += per_round * influence[k]
            own[k] += per_round * influence[k] * log_unused[k]
        read.curve[j, first:last] = mean
        read.variance[j, first:last] = sum_of_products(influence, influence) / (weight * weight)
