"""A run of a policy through a log in order: start, feed parts of any size, read off the trajectories.

The answer does not depend on how the log was cut into parts, nor on which driver took which part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast.arrays import FloatArray, IntArray
from backcast.engine.drivers import NEVER, Pending, Stops, drive, drive_scored, pack
from backcast.engine.events import (
    Accepted,
    Book,
    Curve,
    Rule,
    TraceArrays,
    end_block,
    events_of,
    new_curve,
    new_run,
    set_multiplier,
)
from backcast.engine.part import Part
from backcast.engine.quantile import TOTAL, RunningQuantile, make_room, new_quantile, observe, quantile
from backcast.engine.scoring import Lesson, fresh_copy, give, joined_lesson, probabilities_of
from backcast.engine.trajectory import Trajectory, joined
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.protocol import batch_size_of, is_learning

__all__ = ["Run", "Steering"]

FUSED_CHUNK = 1 << 16
LARGEST_BLOCK = 1 << 14
SMALLEST_BLOCK = 8
SMALLEST_ROOM = 1 << 12
TOLD_EVERY = 1 << 11


@dataclass(frozen=True)
class Steering:
    """How the multiplier moves.

    By the ``q``-quantile of the ratios seen, or not at all (``q`` None), or as ``calibrate`` says of the present
    policy, asked again every ``refresh`` acceptances. ``warm_up`` events fill the ratios before the first one;
    ``carry`` keeps the ratios from one trajectory to the next.
    """

    c_max: float = 1.0
    q: float | None = None
    carry: bool = False
    warm_up: Log | None = None
    calibrate: Callable[[Any], float] | None = None
    refresh: int = 1


@dataclass
class Run:
    """Algorithm 1 (Dudik et al. 2012) as a machine that is fed.

    Parameters
    ----------
    policy
        The caller's policy; each trajectory runs on a fresh copy.
    steering
        How the multiplier moves.
    reward_range
        Bounds of the reward, for the predictable mean of the anytime interval.
    rng
        The policy's own stream of randomness.
    horizon
        Acceptances that complete a trajectory; None for one trajectory through the whole log.
    length
        Events to come in all, where known: bounds the memory of the quantile.
    driver
        ``"auto"`` (compiled policies fused) or ``"block"``.
    block_size
        A fixed block length; adapted to the acceptance rate where None.
    keep_order
        Whether to remember which events were accepted.
    lessons
        A list to write down what the policy of the present trajectory is taught, where it learns outside compiled code.
    """

    policy: Any
    steering: Steering
    reward_range: tuple[float, float]
    rng: np.random.Generator
    horizon: int | None = None
    length: int | None = None
    driver: str = "auto"
    block_size: int | None = None
    keep_order: bool = True
    lessons: list[Lesson] | None = None
    trajectories: list[Trajectory] = field(default_factory=list)
    curve: Curve = field(init=False)

    def __post_init__(self) -> None:
        adaptive = self.steering.q is not None and self.steering.calibrate is None
        low, high = self.reward_range
        self._rule = Rule(float(self.steering.c_max), adaptive, float(low), float(high))
        self._goal = NEVER if self.horizon is None else self.horizon
        self.curve = new_curve(self.horizon)
        self._ratios: RunningQuantile | None = None
        self._twin: Any = None

    def feed(
        self,
        log: Log,
        predicted: FloatArray,
        uniforms: FloatArray,
        trace: TraceArrays | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Take in the next part of the log, with the reward model's predictions and the acceptance draws."""
        part = Part(log, events_of(log, predicted, uniforms), TraceArrays.of_length(0) if trace is None else trace)
        place = told = 0
        while place < len(log):
            if self._twin is None:
                self._begin(log)
            place += self._fused_stretch(place, part) if self._is_fused() else self._block_stretch(place, part)
            self._after_stretch(part)
            if on_progress is not None and (place - told >= TOLD_EVERY or place == len(log)):
                on_progress(place - told)
                told = place
        self._leave(part)

    def close(self) -> list[Trajectory]:
        """Book the unfinished trajectory, if events have been spent on one; all trajectories."""
        if self._twin is not None and self._seen() > 0:
            self._finish(complete=self.horizon is None)
        return self.trajectories

    def so_far(self) -> list[Trajectory]:
        """The trajectories up to now, the one under way included, without disturbing it."""
        if self._twin is None or self._seen() == 0:
            return list(self.trajectories)
        sums = self._sums.copy()
        end_block(sums[0], self._rule, Curve(self.curve.sums.copy(), self.curve.width.copy()))
        order, weights = joined(self._order, np.int64), joined(self._weights, np.float64)
        return [*self.trajectories, Trajectory(sums[0], self.horizon is None, order, weights)]

    def _begin(self, log: Log) -> None:
        # a stream of its own for each trajectory, so that any of them can be replayed
        self._enter(fresh_copy(self.policy, log, self.rng.spawn(1)[0]))
        if self._ratios is None or not self.steering.carry:
            self._ratios = self._first_ratios()
        self._watch(new_run(self._first_multiplier(self._ratios), self._rule))

    def _enter(self, twin: Any) -> None:
        """Let a policy into a trajectory, its queues empty."""
        self._twin = twin
        self._batch = batch_size_of(self._twin) if is_learning(self._twin) else NEVER
        self._pending = Pending.of_length(self._batch if self._batch < NEVER else 0)
        # events set aside in earlier parts, and how many more the policy learns with them
        self._waiting: list[Lesson] = []
        self._due = self._batch
        self._order: list[IntArray] = []
        self._weights: list[FloatArray] = []
        self._room, self._found = 0, Accepted.of_length(0)

    def _watch(self, sums: npt.NDArray[Any]) -> None:
        self._sums = sums
        self._accepted, *self._spent = (self._sums[name] for name in ("accepted", "events", "block_events"))

    def _first_ratios(self) -> RunningQuantile:
        ratios = new_quantile(self.steering.q or 0.0, self._rule.c_max, self._quantile_length())
        slice_ = self.steering.warm_up
        if slice_ is None or not self._rule.adaptive:
            return ratios
        probabilities = probabilities_of(self._twin, slice_)
        own = probabilities[np.arange(len(slice_)), slice_._actions]
        ratios = make_room(ratios, len(slice_))
        with np.errstate(divide="ignore"):
            for ratio in slice_._propensities / own:
                observe(ratios, ratio)
        return ratios

    def _quantile_length(self) -> int | None:
        if self.length is None:
            return None
        return self.length + (0 if self.steering.warm_up is None else len(self.steering.warm_up))

    def _first_multiplier(self, ratios: RunningQuantile) -> float:
        if self.steering.calibrate is not None:
            return min(self._rule.c_max, self.steering.calibrate(self._twin))
        if not self._rule.adaptive or ratios.counts[TOTAL] == 0:
            return self._rule.c_max
        return float(min(self._rule.c_max, quantile(ratios)))

    def _seen(self) -> int:
        return int(self._spent[0][0] + self._spent[1][0])

    def _is_fused(self) -> bool:
        return self.driver != "block" and isinstance(self._twin, CompiledPolicy)

    def _pause(self) -> int:
        """Number of acceptances at which the loops must come back for a new multiplier or a new trajectory."""
        if self.steering.calibrate is None:
            return self._goal
        accepted = int(self._accepted[0])
        return min(self._goal, accepted - accepted % self.steering.refresh + self.steering.refresh)

    def _make_room(self, length: int, part: Part) -> None:
        """Room for the ratios and the acceptances of this many events, made for many blocks at a time."""
        if self._room < length:
            assert self._ratios is not None
            self._note_accepted(part.log)
            self._room = max(length, SMALLEST_ROOM)
            if self._rule.adaptive:
                self._ratios = make_room(self._ratios, self._room)
            self._found = Accepted.of_length(self._room if self.keep_order else 0)
            part.packed = None

    def _book(self, part: Part) -> Book:
        assert self._ratios is not None
        return Book(self._sums, self._ratios, self.curve, self._found, part.trace)

    def _fused_stretch(self, place: int, part: Part) -> int:
        """Let the compiled policy run on; how many events it took."""
        end = min(len(part.log), place + FUSED_CHUNK)
        self._make_room(end - place, part)
        # events queued in an earlier part are out of the loop's reach: it stops once, and Python teaches them
        alone = not self._waiting
        stops = Stops(self._pause(), NEVER if alone else self._due, self._batch if alone else NEVER)
        state = self._twin.state_for(part.log._contexts)
        after = drive((place, end), state, part.view, part.events, self._rule, stops, self._book(part), self._pending)
        self._room -= after - place
        return after - place

    def _block_stretch(self, place: int, part: Part) -> int:
        """Let the Python policy score a block, and go on to where it learns or the block ends; how many events."""
        end = min(len(part.log), place + self._block_length(part.log.n_actions))
        self._make_room(end - place, part)
        if part.packed is None:
            part.packed = pack(part.events, self._rule, self._book(part), self._pending)
        probabilities = part.asker(self._twin)(place, end)
        after = drive_scored((place, end), probabilities, self._pause(), self._due, *part.packed)
        self._room -= after - place
        return after - place

    def _block_length(self, n_actions: int) -> int:
        """Some more events than pass on average before the policy learns.

        Fewer would often need another call, more would be scored in vain; a call costs as much as some hundred events.
        """
        if self.block_size is not None:
            return self.block_size
        largest = max(SMALLEST_BLOCK, min(LARGEST_BLOCK, (1 << 20) // n_actions))
        if self._batch == NEVER:
            return largest
        rate = (self._accepted[0] + 1) / (self._seen() + 2)
        due = self._due - int(self._pending.filled[0])
        return int(min(max((due + due**0.5) / rate, SMALLEST_BLOCK), largest))

    def _note_accepted(self, log: Log) -> None:
        count = int(self._found.filled[0])
        if count:
            self._order.append(log._rows[self._found.places[:count]])
            self._weights.append(self._found.weights[:count].copy())
            self._found.filled[0] = 0

    def _after_stretch(self, part: Part) -> None:
        accepted = int(self._accepted[0])
        if accepted >= self._goal:
            self._note_accepted(part.log)
            self._finish(complete=True)
            part.forget()
            return
        if self._pending.filled[0] >= self._due:
            self._set_aside(part)
            lesson = joined_lesson(self._waiting)
            give(self._twin, lesson)
            if self.lessons is not None:
                self.lessons.append(lesson)
            self._waiting, self._due = [], self._batch
        if self.steering.calibrate is not None and accepted > 0 and accepted % self.steering.refresh == 0:
            set_multiplier(self._sums[0], min(self._rule.c_max, self.steering.calibrate(self._twin)))

    def _set_aside(self, part: Part) -> None:
        """Copy the queued events out of the part they are in."""
        count = int(self._pending.filled[0])
        if count:
            places, probabilities = self._pending.places[:count], self._pending.probabilities[:count].copy()
            self._waiting.append(part.asker(self._twin).lesson(places, probabilities))
            self._due -= count
            self._pending.filled[0] = 0

    def _leave(self, part: Part) -> None:
        """Take along what is still needed of a part that is about to go."""
        if self._twin is not None:
            self._note_accepted(part.log)
            self._set_aside(part)
            self._room = 0

    def _finish(self, *, complete: bool) -> None:
        end_block(self._sums[0], self._rule, self.curve)
        order = joined(self._order, np.int64)
        self.trajectories.append(Trajectory(self._sums[0], complete, order, joined(self._weights, np.float64)))
        self._twin = None
        if self.lessons is not None:
            self.lessons.clear()
