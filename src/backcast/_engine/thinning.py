"""Clock replay by thinning: in a pass an event is scored once, when it is proposed, and not after every update.

Event k is proposed at clock time ``u_k p_k``, the earliest at which its meter could reach its threshold, and accepted
with probability ``pi_t(a_k|x_k)`` (thinning: Lewis and Shedler 1979). Before time ``p_k`` it is so accepted at the rate
``w_k``, as with meters, and from then on it is exhausted; histories have the law of Theorem 10 (docs/theory.md).
V_t is read on samples of held-out events, whose mean needs no meters. A pass of T rounds then scores about K T proposed
events instead of n after every update.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.clock import ClockPass, Rounds
from backcast._engine.filling import COIN, DONOR, LATE_COIN, REWARD, Fill, draw_fresh_reward
from backcast._engine.meters import speed_and_value
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.jit import compiled
from backcast._parallel.stop import raise_if_stopped
from backcast.log import Log
from backcast.policies._calls import BlockScorer, start_copy, update_policy
from backcast.policies.base import batch_size_of, is_learning

SAMPLE = 256  # held-out events of a reading of V_t, and exhausted events of which one may be drawn
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 1 << 14  # proposals that are scored per call
ROOM = 1.5  # proposals that are scored, relative to those that acceptances are expected to take


def run_thinned_pass(
    policy: Any,
    log: Log,
    events: EventArrays,
    horizon: int,
    rng: np.random.Generator,
    edges: IntArray,
    reading_interval: int,
    fill: Fill,
) -> ClockPass:
    """Run a copy of the policy for ``horizon`` rounds; values are read on the events that ``fill`` holds out.

    Where an event was not read, its value is nan.
    """
    rounds = Rounds.of_length(horizon, len(log), edges, fill)
    return _ThinnedPass(start_copy(policy, log, rng), log, events, rounds, rng).run(reading_interval)


class _ThinnedPass:
    """A pass under way: the policy, the clock, which event is proposed next, and what was read so far."""

    def __init__(
        self, policy_copy: Any, log: Log, events: EventArrays, rounds: Rounds, rng: np.random.Generator
    ) -> None:
        fill = rounds.fill
        self._policy, self._log, self._events, self._rounds, self._fill = policy_copy, log, events, rounds, fill
        self._scorer = BlockScorer(self._policy, log)
        self._chosen = np.zeros(rounds.order.size)  # probability of the action of each round
        self._played, self._clock = 0, 0.0
        # random numbers of their own for samples: thresholds and coins stay the same however many rounds are filled
        coins, self._rng = rng.random(len(log)), rng.spawn(1)[0]
        can_be_accepted = np.flatnonzero(~fill.held_out)
        times = events.uniforms[can_be_accepted] * events.propensities[can_be_accepted]
        order = np.argsort(times, kind="stable")
        self._proposed, self._times = can_be_accepted[order], times[order]
        self._coins = coins[self._proposed]
        self._next = self._scored_from = 0  # positions among proposals
        self._scored: FloatArray = np.zeros(0)  # probabilities of the logged actions from ``scored_from`` on
        self._by_propensity = np.argsort(events.propensities, kind="stable")
        self._propensities = events.propensities[self._by_propensity]
        self._to_read = self._rng.permutation(np.flatnonzero(fill.held_out))
        self._position = 0  # in ``to_read``
        self._value_sum, self._value_rounds, self._reading, self._refills = np.zeros((4, len(log)))

    def run(self, reading_interval: int) -> ClockPass:
        """Play all rounds."""
        rounds, learning = self._rounds, is_learning(self._policy)
        horizon = rounds.order.size
        batch_size = batch_size_of(self._policy) if learning else horizon
        rounds.plan_readings(batch_size, reading_interval, self._rng)
        for start in range(0, horizon, batch_size):
            if rounds.stop[0] != 0:
                break
            if rounds.last[start] > 0:
                self._read_value(rounds.first[start], rounds.last[start])
            end = min(start + batch_size, horizon)
            while self._played < end and self._play_round(self._played, end):
                self._played += 1
            self._record_edges(start, self._played)
            if self._played < end:
                break
            if learning and end < horizon:
                fired = rounds.order[start:end]
                batch = self._scorer.training_batch(fired, self._chosen[start:end].copy())
                update_policy(self._policy, batch._replace(rewards=rounds.reward[start:end].copy()))
                self._scored = np.zeros(0)
        raise_if_stopped()
        n = self._played
        was_read = self._value_rounds > 0
        event_values = np.full(len(self._log), np.nan)
        event_values[was_read] = self._value_sum[was_read] / self._value_rounds[was_read]
        return ClockPass(
            order=rounds.order[:n],
            filled=rounds.filled[:n],
            reward=rounds.reward[:n],
            value=rounds.value[:n],
            exhausted=rounds.exhausted[:n],
            variance=rounds.variance[:n],
            event_values=event_values,
            reading=self._reading / max(n, 1),
            own=np.zeros(len(self._log)),  # events that are read are not accepted
            compensator=rounds.compensator,
            readings=rounds.readings / np.float32(max(n, 1)),
        )

    def _score(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return speeds ``w_k`` and values ``R_k`` of these events under the present policy."""
        probabilities = BlockScorer(self._policy, self._log[rows])(0, rows.size)
        return speeds_and_values(self._events, probabilities, rows)

    def _read_value(self, first: int, last: int) -> None:
        """Read V_t for the rounds from ``first`` to ``last`` as the mean value of the next held-out events."""
        positions = np.arange(self._position, self._position + min(SAMPLE, self._to_read.size))
        self._position = int(positions[-1]) + 1
        rows, n_rounds = self._to_read[positions % self._to_read.size], last - first
        _, values = self._score(rows)
        value = values.mean()
        influences = (values - value) / rows.size
        self._reading[rows] += n_rounds * influences
        self._value_sum[rows] += n_rounds * values
        self._value_rounds[rows] += n_rounds
        self._rounds.value[first:last], self._rounds.variance[first:last] = value, influences @ influences

    def _play_round(self, t: int, end: int) -> bool:
        """Play one round as Theorem 10 says: fill it from what is exhausted, or accept the next event.

        Return whether there was an event; there is none if the policy never chooses what was logged.
        """
        draws, rounds, n = self._fill.draws[t], self._rounds, len(self._log)
        n_exhausted = self._count_exhausted()
        mass, rows, speeds = self._sample_exhausted(0, n_exhausted)
        rounds.exhausted[t] = mass
        self._refills[rows] += _shares(speeds) * mass
        rounds.filled[t] = True
        if not draws[COIN] < mass:
            k, probability = self._accept_next(end - t)
            if k < 0:  # no event is left that could be accepted: all of them are exhausted
                self._clock = math.inf
                rounds.exhausted[t], rows, speeds = self._sample_exhausted(0, n)
            else:
                # an event that is accepted now does not stand for what was exhausted since the round began
                late, rows, speeds = self._sample_exhausted(n_exhausted, self._count_exhausted())
                if not draws[LATE_COIN] * (1.0 - mass) < late:
                    rounds.filled[t] = False
                    rounds.order[t], rounds.reward[t] = k, self._events.learned[k]
                    self._chosen[t] = probability
                    return True
        if speeds.sum() == 0.0:
            return False
        k = int(np.searchsorted(np.cumsum(speeds), draws[DONOR] * speeds.sum(), side="right"))
        rounds.order[t] = rows[k]
        rounds.reward[t] = draw_fresh_reward(self._fill, rows[k], draws[REWARD])
        self._chosen[t] = speeds[k] * self._events.propensities[rows[k]]
        return True

    def _count_exhausted(self) -> int:
        return int(np.searchsorted(self._propensities, self._clock, side="right"))

    def _sample_exhausted(self, first: int, last: int) -> tuple[float, IntArray, FloatArray]:
        """Return the mass of the events from ``first`` to ``last`` in order of propensity, some of them, their speeds.

        The mass is estimated from a sample without bias, so that an event is drawn with its probability ``w_k/n``.
        """
        if first == last:
            return 0.0, np.zeros(0, dtype=np.int64), np.zeros(0)
        positions = np.arange(first, last) if last - first <= SAMPLE else self._rng.integers(first, last, SAMPLE)
        rows = self._by_propensity[positions]
        speeds, _ = self._score(rows)
        return float(speeds.mean()) * (last - first) / self._propensities.size, rows, speeds

    def _accept_next(self, most: int) -> tuple[int, float]:
        """Move the clock to the next proposal that is accepted; return its event and probability, or -1.

        As many proposals are scored as up to ``most`` acceptances are expected to take.
        """
        while self._next < self._proposed.size:
            position = self._next - self._scored_from
            if position >= self._scored.size:
                expected = most * (self._next + 1) / (self._played + 1)
                size = min(max(math.ceil(ROOM * expected), SMALLEST_BLOCK), LARGEST_BLOCK)
                rows = self._proposed[self._next : self._next + size]
                speeds, _ = self._score(rows)
                self._scored, self._scored_from = speeds * self._events.propensities[rows], self._next
                position = 0
            is_accepted = self._coins[self._next : self._scored_from + self._scored.size] < self._scored[position:]
            if is_accepted.any():
                k = self._next + int(is_accepted.argmax())
                self._next, self._clock = k + 1, max(self._clock, self._times[k])
                return int(self._proposed[k]), float(self._scored[k - self._scored_from])
            self._next = self._scored_from + self._scored.size
        return -1, 0.0

    def _record_edges(self, start: int, end: int) -> None:
        """Record readings, and compensators: the probability that a round accepts an event, which meters would refine.

        What remains of the value has mean 0 given what came before, so that any compensator that does not depend on
        later rounds leaves influences without bias (docs/theory.md, section 5).
        """
        rounds = self._rounds
        for j in np.flatnonzero((start < rounds.edges) & (rounds.edges <= end)):
            n_accepted = end - int(rounds.filled[:end].sum())
            rounds.compensator[j] = self._refills
            rounds.compensator[j, ~self._fill.held_out] += n_accepted / self._proposed.size
            rounds.readings[j] = self._reading


def _shares(speeds: FloatArray) -> FloatArray:
    """Return the probability of each sampled event to be the one that is drawn."""
    total = speeds.sum()
    return speeds / total if total > 0 else speeds


@compiled
def speeds_and_values(events: EventArrays, probabilities: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return speed ``w_k`` and value ``R_k`` of these events, one row of probabilities each."""
    speeds, values = np.empty(rows.size), np.empty(rows.size)
    for i in range(rows.size):
        speeds[i], values[i] = speed_and_value(events, probabilities[i], rows[i])
    return speeds, values
