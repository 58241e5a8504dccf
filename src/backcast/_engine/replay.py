"""What a run leaves behind of each simulated history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import FloatArray, IntArray
from backcast._engine.quantile import TOTAL, RunningQuantile, make_room, new_quantile, observe, quantile
from backcast._engine.replay_loop import (
    NEVER,
    REPLAY_RECORD,
    AcceptedEvents,
    CurveSums,
    EventArrays,
    PendingBatch,
    ReplayConstants,
    ReplayRecords,
    StopConditions,
    TraceArrays,
    close_block,
    drive,
    drive_scored,
    event_arrays,
    new_curve,
    new_record,
    pack,
    set_multiplier,
)
from backcast._kernels.contexts import View, view_of
from backcast.log import Log
from backcast.policies._calls import (
    BlockScorer,
    TrainingBatch,
    batch_from_arrays,
    batch_to_arrays,
    concat_batches,
    probabilities_of,
    start_copy,
    update_policy,
)
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy


@dataclass(frozen=True)
class Trajectory:
    """One simulated history: its sums, and the row numbers of the accepted events in order with their block weights.

    Rows and weights are empty where the run was told not to keep them.
    """

    sums: npt.NDArray[Any]
    complete: bool
    order: IntArray
    block_weights: FloatArray

    @property
    def accepted(self) -> int:
        """Length of the history, t."""
        return int(self.sums["accepted"])

    @property
    def open_weight(self) -> float:
        """``c_t |B(t)|`` of the block that no acceptance has ended."""
        return float(self.sums["weight"] - self.sums["closed_weight"])

    @property
    def value(self) -> float:
        """``R / C`` (Algorithm 1, step 3); of a history that reached its horizon, up to the last acceptance."""
        return float(self.sums["reward"] / self.sums["weight"])

    @property
    def value_per_round(self) -> float:
        """``R / T`` over the blocks completed (nan where there is none)."""
        return float(self.sums["closed_reward"] / self.accepted) if self.accepted else float("nan")

    @property
    def mean_accepted_reward(self) -> float:
        """Mean reward of the accepted events (nan where there is none)."""
        return float(self.sums["accepted_reward"] / self.accepted) if self.accepted else float("nan")


def joined(arrays: list[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Arrays end to end; an empty one of the type where there is none.

    >>> joined([np.array([1, 2]), np.array([3])], np.int64)
    array([1, 2, 3])
    """
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=dtype)


@dataclass
class Part:
    """A part of the log while it is fed, with what is worked out at its first use and kept."""

    log: Log
    events: EventArrays
    trace: TraceArrays
    packed: tuple[Any, Any] | None = None
    _asker: BlockScorer | None = None

    @cached_property
    def view(self) -> View:
        """The contexts for compiled policies."""
        return view_of(self.log._contexts)

    def asker(self, policy: Any) -> BlockScorer:
        """The policy of the present trajectory, asked about this part."""
        if self._asker is None:
            self._asker = BlockScorer(policy, self.log)
        return self._asker

    def forget(self) -> None:
        """A new trajectory begins: the policy and the arrays of its run are others."""
        self.packed = self._asker = None


FUSED_CHUNK = 1 << 16


LARGEST_BLOCK = 1 << 14


SMALLEST_BLOCK = 8


SMALLEST_ROOM = 1 << 12


TOLD_EVERY = 1 << 11


@dataclass(frozen=True)
class MultiplierSchedule:
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
    schedule: MultiplierSchedule
    reward_range: tuple[float, float]
    rng: np.random.Generator
    horizon: int | None = None
    length: int | None = None
    driver: str = "auto"
    block_size: int | None = None
    keep_order: bool = True
    lessons: list[TrainingBatch] | None = None
    trajectories: list[Trajectory] = field(default_factory=list)
    curve: CurveSums = field(init=False)

    def __post_init__(self) -> None:
        adaptive = self.schedule.q is not None and self.schedule.calibrate is None
        low, high = self.reward_range
        self._constants = ReplayConstants(float(self.schedule.c_max), adaptive, float(low), float(high))
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
        part = Part(log, event_arrays(log, predicted, uniforms), TraceArrays.of_length(0) if trace is None else trace)
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
        close_block(sums[0], self._constants, CurveSums(self.curve.sums.copy(), self.curve.width.copy()))
        order, weights = joined(self._order, np.int64), joined(self._weights, np.float64)
        return [*self.trajectories, Trajectory(sums[0], self.horizon is None, order, weights)]

    def _begin(self, log: Log) -> None:
        # a stream of its own for each trajectory, so that any of them can be replayed
        self._enter(start_copy(self.policy, log, self.rng.spawn(1)[0]))
        if self._ratios is None or not self.schedule.carry:
            self._ratios = self._first_ratios()
        self._watch(new_record(self._first_multiplier(self._ratios), self._constants))

    def _enter(self, twin: Any) -> None:
        """Let a policy into a trajectory, its queues empty."""
        self._twin = twin
        self._batch = batch_size_of(self._twin) if is_learning(self._twin) else NEVER
        self._pending = PendingBatch.of_length(self._batch if self._batch < NEVER else 0)
        # events set aside in earlier parts, and how many more the policy learns with them
        self._waiting: list[TrainingBatch] = []
        self._due = self._batch
        self._order: list[IntArray] = []
        self._weights: list[FloatArray] = []
        self._room, self._found = 0, AcceptedEvents.of_length(0)

    def _watch(self, sums: npt.NDArray[Any]) -> None:
        self._sums = sums
        self._accepted, *self._spent = (self._sums[name] for name in ("accepted", "events", "block_events"))

    def _first_ratios(self) -> RunningQuantile:
        ratios = new_quantile(self.schedule.q or 0.0, self._constants.c_max, self._quantile_length())
        slice_ = self.schedule.warm_up
        if slice_ is None or not self._constants.adaptive:
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
        return self.length + (0 if self.schedule.warm_up is None else len(self.schedule.warm_up))

    def _first_multiplier(self, ratios: RunningQuantile) -> float:
        if self.schedule.calibrate is not None:
            return min(self._constants.c_max, self.schedule.calibrate(self._twin))
        if not self._constants.adaptive or ratios.counts[TOTAL] == 0:
            return self._constants.c_max
        return float(min(self._constants.c_max, quantile(ratios)))

    def _seen(self) -> int:
        return int(self._spent[0][0] + self._spent[1][0])

    def _is_fused(self) -> bool:
        return self.driver != "block" and isinstance(self._twin, CompiledPolicy)

    def _pause(self) -> int:
        """Number of acceptances at which the loops must come back for a new multiplier or a new trajectory."""
        if self.schedule.calibrate is None:
            return self._goal
        accepted = int(self._accepted[0])
        return min(self._goal, accepted - accepted % self.schedule.refresh + self.schedule.refresh)

    def _make_room(self, length: int, part: Part) -> None:
        """Room for the ratios and the acceptances of this many events, made for many blocks at a time."""
        if self._room < length:
            assert self._ratios is not None
            self._note_accepted(part.log)
            self._room = max(length, SMALLEST_ROOM)
            if self._constants.adaptive:
                self._ratios = make_room(self._ratios, self._room)
            self._found = AcceptedEvents.of_length(self._room if self.keep_order else 0)
            part.packed = None

    def _records(self, part: Part) -> ReplayRecords:
        assert self._ratios is not None
        return ReplayRecords(self._sums, self._ratios, self.curve, self._found, part.trace)

    def _fused_stretch(self, place: int, part: Part) -> int:
        """Let the compiled policy run on; how many events it took."""
        end = min(len(part.log), place + FUSED_CHUNK)
        self._make_room(end - place, part)
        # events queued in an earlier part are out of the loop's reach: it stops once, and Python teaches them
        alone = not self._waiting
        stops = StopConditions(self._pause(), NEVER if alone else self._due, self._batch if alone else NEVER)
        state = self._twin.state_for(part.log._contexts)
        after = drive(
            (place, end), state, part.view, part.events, self._constants, stops, self._records(part), self._pending
        )
        self._room -= after - place
        return after - place

    def _block_stretch(self, place: int, part: Part) -> int:
        """Let the Python policy score a block, and go on to where it learns or the block ends; how many events."""
        end = min(len(part.log), place + self._block_length(part.log.n_actions))
        self._make_room(end - place, part)
        if part.packed is None:
            part.packed = pack(part.events, self._constants, self._records(part), self._pending)
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
            lesson = concat_batches(self._waiting)
            update_policy(self._twin, lesson)
            if self.lessons is not None:
                self.lessons.append(lesson)
            self._waiting, self._due = [], self._batch
        if self.schedule.calibrate is not None and accepted > 0 and accepted % self.schedule.refresh == 0:
            set_multiplier(self._sums[0], min(self._constants.c_max, self.schedule.calibrate(self._twin)))

    def _set_aside(self, part: Part) -> None:
        """Copy the queued events out of the part they are in."""
        count = int(self._pending.filled[0])
        if count:
            places, probabilities = self._pending.places[:count], self._pending.probabilities[:count].copy()
            self._waiting.append(part.asker(self._twin).training_batch(places, probabilities))
            self._due -= count
            self._pending.filled[0] = 0

    def _leave(self, part: Part) -> None:
        """Take along what is still needed of a part that is about to go."""
        if self._twin is not None:
            self._note_accepted(part.log)
            self._set_aside(part)
            self._room = 0

    def _finish(self, *, complete: bool) -> None:
        close_block(self._sums[0], self._constants, self.curve)
        order = joined(self._order, np.int64)
        self.trajectories.append(Trajectory(self._sums[0], complete, order, joined(self._weights, np.float64)))
        self._twin = None
        if self.lessons is not None:
            self.lessons.clear()


NONE: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


def run_state(run: Run) -> dict[str, Any]:
    """All that a run has come to; it must be between two parts, and keep no record of accepted events."""
    assert not run.keep_order
    done = np.array([trajectory.sums for trajectory in run.trajectories], dtype=REPLAY_RECORD)
    state: dict[str, Any] = {
        "done": _bare(done),
        "complete": np.array([trajectory.complete for trajectory in run.trajectories], dtype=np.bool_),
        "curve": list(run.curve),
        "ratios": None if run._ratios is None else list(run._ratios),
        "twin": None,
    }
    if run._twin is not None:
        state["twin"] = {
            "sums": _bare(run._sums),
            "due": int(run._due),
            "waiting": [batch_to_arrays(lesson) for lesson in run._waiting],
            "policy": list(_leaves(run._twin._state)) if isinstance(run._twin, CompiledPolicy) else None,
        }
    return state


def restore_run(run: Run, state: dict[str, Any], log: Log, lessons: Iterable[TrainingBatch]) -> None:
    """Bring a new run to a state; ``log`` are any events of its log, ``lessons`` those of the present trajectory."""
    sums = _record(state["done"])
    run.trajectories[:] = [
        Trajectory(own, bool(complete), NONE, NONE.astype(np.float64))
        for own, complete in zip(sums, state["complete"], strict=True)
    ]
    run.curve = CurveSums(*state["curve"])
    run._ratios = None if state["ratios"] is None else RunningQuantile(*state["ratios"])
    # every trajectory took a stream of randomness of its own
    run.rng.spawn(len(run.trajectories))
    twin = state["twin"]
    if twin is None:
        return
    run._enter(start_copy(run.policy, log, run.rng.spawn(1)[0]))
    run._watch(_record(twin["sums"]))
    run._due = twin["due"]
    run._waiting = [batch_from_arrays(lesson) for lesson in twin["waiting"]]
    if isinstance(run._twin, CompiledPolicy):
        _restore_policy(run._twin, twin["policy"], log)
    for lesson in lessons:
        update_policy(run._twin, lesson)


def _restore_policy(policy: CompiledPolicy, kept: list[Any], log: Log) -> None:
    if kept:
        for own, was in zip(_leaves(policy.state_for(log._contexts)), kept, strict=True):
            if isinstance(own, np.ndarray):
                own[...] = was


def _leaves(state: Any) -> Iterator[Any]:
    """Arrays and numbers of a compiled policy's state, tuples inside it included, in order."""
    if isinstance(state, tuple):
        for part in state:
            yield from _leaves(part)
    elif state is not None:
        yield state


def _bare(records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    # all fields have eight bytes
    return np.ascontiguousarray(records).view(np.int64).copy()


def _record(bare: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return bare.view(REPLAY_RECORD)
