"""One pass, event by event, so that a run can be replayed and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._engine.replay import MultiplierSchedule, Run
from backcast._engine.replay_loop import TraceArrays
from backcast._request import EvaluationRequest, RandomStreams
from backcast.errors import OptionError
from backcast.evaluators.clock_replay import ClockReplay, ClockTrace
from backcast.log import Log


class Traceable(Protocol):
    """An evaluator that goes through the log in order."""

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """The events to run on, and how the multiplier moves."""
        ...


@dataclass(frozen=True)
class Trace:
    """What happened at every event of one pass.

    Attributes
    ----------
    multiplier
        ``c_t`` in force at the event.
    weight
        ``pi(a_k|x_k, h) / p_k``.
    value
        ``R_k``.
    accepted
        Whether the event joined the history.
    order
        Accepted events in order, as positions in the log.

    Examples
    --------
    >>> c, w, r = np.array([1.0, 0.5]), np.array([2.0, 0.0]), np.array([2.0, 0.5])
    >>> Trace(c, w, r, accepted=np.array([True, False]), order=np.array([0])).estimate
    1.5

    By hand: R = 1 * 2 + 0.5 * 0.5 and C = 1.5.
    """

    multiplier: FloatArray
    weight: FloatArray
    value: FloatArray
    accepted: BoolArray
    order: IntArray

    @property
    def estimate(self) -> float:
        """``R / C`` of the pass."""
        return float((self.multiplier * self.value).sum() / self.multiplier.sum())


@overload
def trace(
    log: Log,
    policy: Any,
    evaluator: ClockReplay,
    *,
    predicted: npt.ArrayLike | None = None,
    uniforms: npt.ArrayLike | None = None,
    horizon: int | None = None,
    seed: int = 0,
) -> ClockTrace: ...


@overload
def trace(
    log: Log,
    policy: Any,
    evaluator: Any,
    *,
    predicted: npt.ArrayLike | None = None,
    uniforms: npt.ArrayLike | None = None,
    horizon: int | None = None,
    seed: int = 0,
) -> Trace: ...


def trace(
    log: Log,
    policy: Any,
    evaluator: Any,
    *,
    predicted: npt.ArrayLike | None = None,
    uniforms: npt.ArrayLike | None = None,
    horizon: int | None = None,
    seed: int = 0,
) -> Trace | ClockTrace:
    """Run one pass of an evaluator and record every event.

    Parameters
    ----------
    log, policy, evaluator
        As for :func:`backcast.evaluate`; the evaluator is one that accepts events (DRns, WC, RS, Replay, ClockReplay).
    predicted
        ``(n, K)`` predicted rewards; None for zero everywhere.
    uniforms
        The acceptance draws ``u_k``, one an event; None draws them from ``seed``.
    horizon
        Acceptances after which a fresh copy of the policy starts; None for never.
    seed
        Seed of the draws that are not given.

    Examples
    --------
    >>> from backcast.evaluators.drns import DRns
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1], rewards=[1.0, 0.0], propensities=[0.5, 0.5], n_actions=2)
    >>> passed = trace(log, Fixed([1.0, 0.0]), DRns(q=0.0), uniforms=[0.25, 0.25])
    >>> passed.weight, passed.value, passed.accepted
    (array([2., 0.]), array([2., 0.]), array([ True, False]))
    >>> passed.multiplier
    array([1. , 0.5])

    By hand: the first event has p/pi = 1/2, so after its acceptance the multiplier is 1/2.
    """
    n = len(log)
    table = np.zeros((1, log.n_actions)) if predicted is None else np.asarray(predicted, dtype=np.float64)
    if predicted is not None and table.shape != (n, log.n_actions):
        raise OptionError(f"predicted has shape {table.shape}; expected {(n, log.n_actions)}: events by actions")
    streams = RandomStreams.of(seed)
    draws = streams.acceptance.random(n) if uniforms is None else np.asarray(uniforms, dtype=np.float64)
    if draws.shape != (n,):
        raise OptionError(f"uniforms have shape {draws.shape}; expected {(n,)}: one an event")
    if hasattr(evaluator, "trace"):
        traced: Trace | ClockTrace = evaluator.trace(log, policy, table, draws, horizon, streams.policy)
        return traced
    if not hasattr(evaluator, "plan_replay"):
        raise OptionError(f"{type(evaluator).__name__} accepts no events, so there is nothing to trace")
    request, schedule = evaluator.plan_replay(EvaluationRequest(log, policy, horizon=horizon, seed=seed))
    if uniforms is None:
        # events set aside take no draw, as in evaluate with the same seed
        draws = np.roll(draws, n - len(request.log))
    return _trace_run(request, schedule, n, table, draws, streams)


def _trace_run(
    request: EvaluationRequest,
    schedule: MultiplierSchedule,
    n: int,
    table: FloatArray,
    draws: FloatArray,
    streams: RandomStreams,
) -> Trace:
    log, skipped = request.log, n - len(request.log)
    run = Run(request.policy, schedule, log.reward_bounds, streams.policy, horizon=request.horizon, length=len(log))
    arrays = TraceArrays.of_length(len(log))
    run.feed(log, table if len(table) == 1 else table[skipped:], draws[skipped:], arrays)
    # events set aside for warm-up or calibration count for nothing
    whole = TraceArrays.of_length(n)
    for name in TraceArrays._fields:
        getattr(whole, name)[skipped:] = getattr(arrays, name)
    return Trace(whole.multiplier, whole.weight, whole.value, whole.accepted, np.flatnonzero(whole.accepted))
