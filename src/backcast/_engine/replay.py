"""ReplayRun: Algorithm 1 over a log that is fed in parts of any size, for one trajectory or many.

Results do not depend on how the log is cut into parts, nor on which driver (compiled or Python policy) processes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import FloatArray, IntArray, as_kernel_array
from backcast._engine.quantile import TOTAL, RunningQuantile, grow, new_quantile, observe, quantile
from backcast._engine.replay_loop import (
    NEVER,
    TRAJECTORY,
    AcceptedEvents,
    CurveSums,
    EventArrays,
    PendingBatch,
    ReplayConstants,
    ReplayRecords,
    StopConditions,
    TraceArrays,
    close_block,
    new_trajectory,
    pack_replay,
    replay_events,
    replay_scored_block,
    set_multiplier,
)
from backcast._kernels.contexts import View, view_of
from backcast._kernels.jit import compiled
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

FUSED_EVENTS = 1 << 16  # events that a compiled policy processes per call, at most
FUSED_PRODUCTS = 1 << 31  # multiplications of K ridge models per call: about a second, after which a run can be stopped
LARGEST_BLOCK, SMALLEST_BLOCK = 1 << 14, 8  # events that a Python policy scores per call
SMALLEST_ROOM = 1 << 12  # events for which room is made at a time
PROGRESS_EVENTS = 1 << 11  # events between two calls of the progress callback
UNKNOWN_RANGE = (np.inf, -np.inf)


@dataclass(frozen=True)
class MultiplierSchedule:
    """How the multiplier c_t changes.

    By the ``q``-quantile of the ratios observed, or not at all (``q`` None), or as ``calibrate`` computes it for the
    present policy, every ``refresh`` acceptances. ``warm_up`` events fill the ratios before the first one; ``carry``
    keeps the ratios from one trajectory to the next. ``scale`` multiplies every c_t: above 1 more is accepted and more
    acceptance probabilities are cut at 1, for bias estimates.
    """

    c_max: float = 1.0
    q: float | None = None
    carry: bool = False
    warm_up: Log | None = None
    calibrate: Callable[[Any], float] | None = None
    refresh: int = 1
    scale: float = 1.0


@dataclass(frozen=True)
class Trajectory:
    """One simulated history: its sums (fields of ``TRAJECTORY``), the rows of the accepted events, block weights.

    Rows and weights are empty if the run does not record them.
    """

    sums: npt.NDArray[Any]
    complete: bool
    order: IntArray
    block_weights: FloatArray

    @property
    def accepted(self) -> int:
        """Length of the history."""
        return int(self.sums["accepted"])

    @property
    def open_weight(self) -> float:
        """``c_t |B(t)|`` of the last block, which no acceptance has closed."""
        return float(self.sums["weight"] - self.sums["closed_weight"])

    @property
    def value(self) -> float:
        """``R / C`` (step 3); of a history that reached its horizon, up to the last acceptance."""
        return float(self.sums["reward"] / self.sums["weight"])

    @property
    def value_per_round(self) -> float:
        """``R / T`` over the closed blocks (nan if there is none)."""
        return float(self.sums["closed_reward"] / self.accepted) if self.accepted else float("nan")

    @property
    def mean_accepted_reward(self) -> float:
        """Mean reward of the accepted events (nan if there is none)."""
        return float(self.sums["accepted_reward"] / self.accepted) if self.accepted else float("nan")


@dataclass
class _OpenTrajectory:
    """The trajectory under way: its policy, its record, and events that its policy has not learned yet."""

    policy: Any
    batch_size: int  # NEVER for a policy that does not learn
    sums: npt.NDArray[Any]
    pending: PendingBatch
    due: int  # further events that complete the next batch
    earlier_batches: list[TrainingBatch] = field(default_factory=list)  # pending events of earlier parts
    order: list[IntArray] = field(default_factory=list)
    block_weights: list[FloatArray] = field(default_factory=list)

    @classmethod
    def start(cls, policy: Any, sums: npt.NDArray[Any]) -> _OpenTrajectory:
        batch_size = batch_size_of(policy) if is_learning(policy) else NEVER
        pending = PendingBatch.of_length(batch_size if batch_size < NEVER else 0)
        return cls(policy, batch_size, sums, pending, due=batch_size)

    @property
    def is_compiled(self) -> bool:
        return isinstance(self.policy, CompiledPolicy)

    @property
    def accepted(self) -> int:
        return int(self.sums["accepted"][0])

    @property
    def n_events(self) -> int:
        return int(self.sums["events"][0] + self.sums["block_events"][0])


@dataclass
class _FedPart:
    """The part that is being fed, and what is computed from it on first use."""

    log: Log
    events: EventArrays
    trace: TraceArrays
    accepted: AcceptedEvents
    room: int = 0  # events for which there is room in ``accepted`` and in the ratios
    view: View | None = None
    scorer: BlockScorer | None = None
    packed: tuple[Any, ...] | None = None


class ReplayRun:
    """Algorithm 1 (Dudik et al. 2012), fed part by part.

    Parameters
    ----------
    policy
        The caller's policy; each trajectory runs on a copy.
    schedule
        How the multiplier changes.
    reward_range
        Bounds of the reward, for the predictable mean of the anytime interval.
    rng
        Generator of the policies; each trajectory's policy gets a child of it.
    horizon
        Acceptances that complete a trajectory; None for one trajectory through the whole log.
    n_events
        Events to be fed in total, if known: bounds the memory of the quantile.
    driver
        ``"auto"`` (compiled policies inside the loop) or ``"block"`` (scored block by block).
    block_size
        Events that a Python policy scores at once; adapted to the acceptance rate if None.
    record_order
        Whether to record which events were accepted.
    record_batches
        Whether to record what the policy of the present trajectory learns, for a policy that is not compiled.
    """

    def __init__(
        self,
        policy: Any,
        schedule: MultiplierSchedule,
        reward_range: tuple[float, float],
        rng: np.random.Generator,
        *,
        horizon: int | None = None,
        n_events: int | None = None,
        driver: str = "auto",
        block_size: int | None = None,
        record_order: bool = True,
        record_batches: bool = False,
    ) -> None:
        self.policy, self.schedule, self.horizon = policy, schedule, horizon
        self._rng, self._n_events, self._driver, self._block_size = rng, n_events, driver, block_size
        self._record_order, self._record_batches = record_order, record_batches
        adaptive = schedule.q is not None and schedule.calibrate is None
        limits = float(schedule.c_max), float(schedule.scale)
        self._constants = ReplayConstants(*limits, adaptive, *map(float, reward_range))
        self._max_accepted = NEVER if horizon is None else horizon
        self._ratios: RunningQuantile | None = None
        self._open: _OpenTrajectory | None = None
        self._complete_curve, self._open_curve = CurveSums.empty(horizon), CurveSums.empty(horizon)
        self.trajectories: list[Trajectory] = []
        self.batches: list[TrainingBatch] = []
        # of the events fed so far
        self.events_fed = 0
        self._reward_moments = np.zeros(4)
        self.smallest_propensity, self.smallest_is_known = 1.0, True
        self.reward_bounds, self.prediction_bounds = UNKNOWN_RANGE, UNKNOWN_RANGE

    @property
    def curve(self) -> CurveSums:
        """Sums by round over the complete trajectories; without a horizon, over the one under way.

        A trajectory that the end of the log cuts off is in neither curve nor value: long trajectories are the more
        likely ones to be cut off, so its rounds would count long histories too often (docs/theory.md, section 2).
        """
        return self._open_curve if self.horizon is None else self._complete_curve

    @property
    def current_policy(self) -> Any:
        """The policy of the trajectory under way; None between two trajectories."""
        return None if self._open is None else self._open.policy

    def feed(
        self,
        log: Log,
        predicted: FloatArray,
        uniforms: FloatArray,
        trace: TraceArrays | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Process the next part of the log, with the reward model's predictions and the acceptance draws."""
        self.smallest_propensity = min(self.smallest_propensity, log.smallest_propensity)
        self.smallest_is_known = self.smallest_is_known and log.smallest_propensity_is_known
        self.reward_bounds = _union(self.reward_bounds, log.reward_bounds)
        add_moments(as_kernel_array(log.columns.rewards), self._reward_moments)
        self.prediction_bounds = _union(self.prediction_bounds, (float(predicted.min()), float(predicted.max())))
        events = EventArrays.from_log(log, predicted, uniforms)
        trace = TraceArrays.of_length(0) if trace is None else trace
        part = _FedPart(log, events, trace, AcceptedEvents.of_length(0))
        position = reported = 0
        while position < len(log):
            if self._open is None:
                self._open = self._start_trajectory(log)
            if self._open.is_compiled and self._driver != "block":
                position = self._run_compiled(self._open, part, position)
            else:
                position = self._run_block(self._open, part, position)
            self._finish_step(self._open, part)
            if on_progress is not None and (position - reported >= PROGRESS_EVENTS or position == len(log)):
                on_progress(position - reported)
                reported = position
        if self._open is not None:
            # copy what is still needed of this part
            self._collect_accepted(self._open, part)
            self._set_aside_pending(self._open, part)
        self.events_fed += len(log)

    @property
    def reward_spread(self) -> float:
        """Standard deviation of the rewards fed to this run; the same however the log is cut into parts."""
        count, _, total, squares = self._reward_moments
        return math.sqrt(max(squares / count - (total / count) ** 2, 0.0)) if count else 0.0

    def close(self) -> list[Trajectory]:
        """End the trajectory under way, if it has events, and return all trajectories."""
        if self._open is not None and self._open.n_events > 0:
            self._end_trajectory(self._open, complete=self.horizon is None)
        return self.trajectories

    def trajectories_so_far(self) -> list[Trajectory]:
        """Return all trajectories, the one under way included, without ending it."""
        if self._open is None or self._open.n_events == 0:
            return list(self.trajectories)
        sums = self._open.sums.copy()
        close_block(sums[0], self._constants, CurveSums(self._open_curve.sums.copy(), self._open_curve.width.copy()))
        return [*self.trajectories, _trajectory_of(self._open, sums[0], complete=self.horizon is None)]

    def _start_trajectory(self, log: Log) -> _OpenTrajectory:
        # step 1; a generator of its own for each trajectory, so that any of them can be repeated
        policy = start_copy(self.policy, log, self._rng.spawn(1)[0])
        if self._ratios is None or not self.schedule.carry:
            self._ratios = self._initial_ratios(policy)
        c = self._constants.c_max
        if self.schedule.calibrate is not None:
            c = min(c, self.schedule.calibrate(policy))
        elif self._constants.adaptive and self._ratios.counts[TOTAL] > 0:
            c = float(min(c, quantile(self._ratios)))
        return _OpenTrajectory.start(policy, new_trajectory(self._constants.scale * c, self._constants))

    def _initial_ratios(self, policy: Any) -> RunningQuantile:
        warm_up = self.schedule.warm_up
        total = None
        if self._n_events is not None:
            total = self._n_events + (0 if warm_up is None else len(warm_up))
        ratios = new_quantile(self.schedule.q or 0.0, self._constants.c_max, total)
        if warm_up is None or not self._constants.adaptive:
            return ratios
        probabilities = probabilities_of(policy, warm_up)[np.arange(len(warm_up)), warm_up.columns.actions]
        ratios = grow(ratios, len(warm_up))
        with np.errstate(divide="ignore"):
            for ratio in warm_up.columns.propensities / probabilities:
                observe(ratios, ratio)
        return ratios

    def _run_compiled(self, trajectory: _OpenTrajectory, part: _FedPart, start: int) -> int:
        """Process events with a compiled policy; return the position after the last one."""
        products = part.log.n_actions * max(1, part.log.n_features) ** 2
        stop = min(len(part.log), start + min(FUSED_EVENTS, 1 + FUSED_PRODUCTS // products))
        records = self._make_room(trajectory, part, stop - start)
        if part.view is None:
            part.view = view_of(part.log.columns.contexts)
        # events pending from an earlier part are not in these arrays: the loop returns once for them
        alone = not trajectory.earlier_batches
        stops = StopConditions(
            self._next_stop(trajectory), NEVER if alone else trajectory.due, trajectory.batch_size if alone else NEVER
        )
        state = trajectory.policy.state_for(part.log.columns.contexts)
        position = replay_events(start, stop, state, part.view, part.events, self._constants, stops, records)
        part.room -= position - start
        return position

    def _run_block(self, trajectory: _OpenTrajectory, part: _FedPart, start: int) -> int:
        """Score a block with a Python policy and process it up to where the policy learns; return the position."""
        stop = min(len(part.log), start + self._block_length(trajectory, part.log.n_actions))
        records = self._make_room(trajectory, part, stop - start)
        if part.packed is None:
            part.packed = pack_replay(part.events, self._constants, records)
        if part.scorer is None:
            part.scorer = BlockScorer(trajectory.policy, part.log)
        probabilities = part.scorer(start, stop)
        limits = self._next_stop(trajectory), trajectory.due
        position = int(replay_scored_block(start, stop, probabilities, *limits, part.packed))
        part.room -= position - start
        return position

    def _next_stop(self, trajectory: _OpenTrajectory) -> int:
        """Return the number of acceptances at which the loops return, for a new multiplier or a new trajectory."""
        if self.schedule.calibrate is None:
            return self._max_accepted
        accepted = trajectory.accepted
        return min(self._max_accepted, accepted - accepted % self.schedule.refresh + self.schedule.refresh)

    def _block_length(self, trajectory: _OpenTrajectory, n_actions: int) -> int:
        """Return a few more events than are needed on average until the policy learns.

        Fewer would often need another call, more would be scored in vain; a call costs as much as some hundred events.
        """
        if self._block_size is not None:
            return self._block_size
        largest = max(SMALLEST_BLOCK, min(LARGEST_BLOCK, (1 << 20) // n_actions))
        if trajectory.batch_size == NEVER:
            return largest
        rate = (trajectory.accepted + 1) / (trajectory.n_events + 2)
        due = trajectory.due - int(trajectory.pending.filled[0])
        return int(min(max((due + due**0.5) / rate, SMALLEST_BLOCK), largest))

    def _make_room(self, trajectory: _OpenTrajectory, part: _FedPart, n: int) -> ReplayRecords:
        """Return the records with room for ``n`` events; room is made for many blocks at a time."""
        assert self._ratios is not None
        if part.room < n:
            self._collect_accepted(trajectory, part)
            part.room = max(n, SMALLEST_ROOM)
            if self._constants.adaptive:
                self._ratios = grow(self._ratios, part.room)
            part.accepted = AcceptedEvents.of_length(part.room if self._record_order else 0)
            part.packed = None
        return ReplayRecords(
            trajectory.sums, self._ratios, self._open_curve, part.accepted, part.trace, trajectory.pending
        )

    def _finish_step(self, trajectory: _OpenTrajectory, part: _FedPart) -> None:
        """End the trajectory at its horizon; else let the policy learn and set the multiplier, if they are due."""
        if trajectory.accepted >= self._max_accepted:
            self._collect_accepted(trajectory, part)
            self._end_trajectory(trajectory, complete=True)
            # the next trajectory has another policy and other arrays
            part.packed = part.scorer = None
            part.room = 0
            return
        if trajectory.pending.filled[0] >= trajectory.due:
            self._set_aside_pending(trajectory, part)
            batch = concat_batches(trajectory.earlier_batches)
            update_policy(trajectory.policy, batch)
            if self._record_batches:
                self.batches.append(batch)
            trajectory.earlier_batches, trajectory.due = [], trajectory.batch_size
        refresh = self.schedule.refresh
        if self.schedule.calibrate is not None and trajectory.accepted > 0 and trajectory.accepted % refresh == 0:
            c = min(self._constants.c_max, self.schedule.calibrate(trajectory.policy))
            set_multiplier(trajectory.sums[0], self._constants.scale * c)

    def _collect_accepted(self, trajectory: _OpenTrajectory, part: _FedPart) -> None:
        n = int(part.accepted.filled[0])
        if n:
            trajectory.order.append(part.log.columns.rows[part.accepted.positions[:n]])
            trajectory.block_weights.append(part.accepted.weights[:n].copy())
            part.accepted.filled[0] = 0

    def _set_aside_pending(self, trajectory: _OpenTrajectory, part: _FedPart) -> None:
        """Copy the pending events out of the part they are in."""
        pending = trajectory.pending
        n = int(pending.filled[0])
        if n:
            if part.scorer is None:
                part.scorer = BlockScorer(trajectory.policy, part.log)
            batch = part.scorer.training_batch(pending.positions[:n], pending.probabilities[:n].copy())
            trajectory.earlier_batches.append(batch)
            trajectory.due -= n
            pending.filled[0] = 0

    def _end_trajectory(self, trajectory: _OpenTrajectory, *, complete: bool) -> None:
        close_block(trajectory.sums[0], self._constants, self._open_curve)
        if self.horizon is not None:
            if complete:
                self._complete_curve.sums[:] += self._open_curve.sums
            self._open_curve.sums[:] = 0.0
        self.trajectories.append(_trajectory_of(trajectory, trajectory.sums[0], complete=complete))
        self._open = None
        self.batches.clear()

    def state(self) -> dict[str, Any]:
        """Return the state between two parts as arrays and numbers; the order must not be recorded.

        A compiled policy is its arrays. The state of any other policy is what it learned: ``batches``, which the caller
        stores.
        """
        assert not self._record_order
        sums = np.array([trajectory.sums for trajectory in self.trajectories], dtype=TRAJECTORY)
        state: dict[str, Any] = {
            "events": self.events_fed,
            "bounds": [
                self.smallest_propensity,
                self.smallest_is_known,
                *self.reward_bounds,
                *self.prediction_bounds,
            ],
            "sums": _as_integers(sums),
            "complete": np.array([trajectory.complete for trajectory in self.trajectories], dtype=np.bool_),
            "curves": [list(self._complete_curve), list(self._open_curve)],
            "ratios": None if self._ratios is None else list(self._ratios),
            "open": None,
        }
        trajectory = self._open
        if trajectory is not None:
            state["open"] = {
                "sums": _as_integers(trajectory.sums),
                "due": int(trajectory.due),
                "batches": [batch_to_arrays(batch) for batch in trajectory.earlier_batches],
                "policy": list(_leaves(trajectory.policy._state)) if trajectory.is_compiled else None,
            }
        return state

    def load_state(self, state: dict[str, Any], log: Log, batches: Iterable[TrainingBatch]) -> None:
        """Bring a new run to a state; ``log`` holds any events of the log, ``batches`` what the policy learned."""
        self.events_fed = state["events"]
        self.smallest_propensity, self.smallest_is_known, *bounds = state["bounds"]
        self.reward_bounds, self.prediction_bounds = (bounds[0], bounds[1]), (bounds[2], bounds[3])
        no_rows, no_weights = np.zeros(0, dtype=np.int64), np.zeros(0)
        self.trajectories = [
            Trajectory(sums, bool(complete), no_rows, no_weights)
            for sums, complete in zip(state["sums"].view(TRAJECTORY), state["complete"], strict=True)
        ]
        self._complete_curve, self._open_curve = (CurveSums(*arrays) for arrays in state["curves"])
        self._ratios = None if state["ratios"] is None else RunningQuantile(*state["ratios"])
        # every finished trajectory took one child of the generator
        self._rng.spawn(len(self.trajectories))
        stored = state["open"]
        if stored is None:
            return
        policy = start_copy(self.policy, log, self._rng.spawn(1)[0])
        trajectory = _OpenTrajectory.start(policy, stored["sums"].view(TRAJECTORY))
        trajectory.due = stored["due"]
        trajectory.earlier_batches = [batch_from_arrays(batch) for batch in stored["batches"]]
        if stored["policy"]:
            for array, value in zip(_leaves(policy.state_for(log.columns.contexts)), stored["policy"], strict=True):
                if isinstance(array, np.ndarray):
                    array[...] = value
        for batch in batches:
            update_policy(policy, batch)
        self._open = trajectory


def _trajectory_of(open_trajectory: _OpenTrajectory, sums: npt.NDArray[Any], *, complete: bool) -> Trajectory:
    order, weights = open_trajectory.order, open_trajectory.block_weights
    return Trajectory(
        sums,
        complete,
        np.concatenate(order) if order else np.zeros(0, dtype=np.int64),
        np.concatenate(weights) if weights else np.zeros(0),
    )


@compiled
def add_moments(rewards: FloatArray, moments: FloatArray) -> None:
    """Add rewards to their number, the first of them, and the sums of deviations from it and of their squares.

    One after the other, so that rounding does not depend on how the log is cut into parts.

    >>> moments = np.zeros(4)
    >>> add_moments(np.array([3.0, 4.0]), moments)
    >>> add_moments(np.array([6.0]), moments)
    >>> moments
    array([ 3.,  3.,  4., 10.])
    """
    if moments[0] == 0 and rewards.size > 0:
        moments[1] = rewards[0]
    for reward in rewards:
        deviation = reward - moments[1]
        moments[0] += 1.0
        moments[2] += deviation
        moments[3] += deviation * deviation


def _union(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return the smallest range that contains both ranges."""
    return min(first[0], second[0]), max(first[1], second[1])


def _as_integers(records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    # all fields of TRAJECTORY have eight bytes
    return np.ascontiguousarray(records).view(np.int64).copy()


def _leaves(state: Any) -> Iterator[Any]:
    """Iterate over arrays and numbers of a compiled policy's state, nested tuples included, in order."""
    if isinstance(state, tuple):
        for part in state:
            yield from _leaves(part)
    elif state is not None:
        yield state
