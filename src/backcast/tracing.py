"""trace(): one pass of an evaluator, event by event, so that it can be repeated and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._engine.clock import run_clock_pass
from backcast._engine.filling import Fill
from backcast._engine.replay_loop import EventArrays, TraceArrays
from backcast._equality import ContentEquality
from backcast._request import EvaluationRequest, RandomStreams, SeedKey, seed_sequence
from backcast.errors import OptionError
from backcast.evaluators._pass_inputs import PassInputs
from backcast.evaluators._replay import replay
from backcast.evaluators.clock_replay import ClockReplay, horizon_error
from backcast.log import Log


@dataclass(frozen=True, eq=False)
class Trace(ContentEquality):
    """What happened at every event of one pass of Algorithm 1.

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


@dataclass(frozen=True, eq=False)
class ClockTrace(ContentEquality):
    """One pass of clock replay.

    Attributes
    ----------
    accepted
        Whether each event joined the history with its own reward.
    order
        Event of each round, as positions in the log.
    curve
        The value V_t by round.
    exhausted
        The exhausted mass by round; its sum bounds the total variation to a true history.
    filled
        Whether the event of each round was drawn again, with a fresh reward, because none was left.
    """

    accepted: BoolArray
    order: IntArray
    curve: FloatArray
    exhausted: FloatArray
    filled: BoolArray

    @property
    def estimate(self) -> float:
        """Mean of the curve."""
        return float(self.curve.mean())


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
        The acceptance draws ``u_k``, one per event; None draws them from ``seed``.
    horizon
        Acceptances after which a new copy of the policy starts; None for never. ``ClockReplay`` fills rounds up to the
        horizon if there are predictions to fill them with.
    seed
        Seed of the draws that are not given.

    Examples
    --------
    >>> from backcast.evaluators.drns import DRns
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1], rewards=[1.0, 0.0], propensities=[0.5, 0.5], n_actions=2)
    >>> steps = trace(log, Fixed([1.0, 0.0]), DRns(q=0.0), uniforms=[0.25, 0.25])
    >>> steps.weight, steps.value, steps.accepted
    (array([2., 0.]), array([2., 0.]), array([ True, False]))
    >>> steps.multiplier
    array([1. , 0.5])

    By hand: the first event has p/pi = 1/2, so after its acceptance the multiplier is 1/2.
    """
    n = len(log)
    table = np.zeros((1, log.n_actions)) if predicted is None else np.asarray(predicted, dtype=np.float64)
    if predicted is not None and table.shape != (n, log.n_actions):
        raise OptionError(f"predicted has shape {table.shape}; expected {(n, log.n_actions)}: events by actions")
    streams = RandomStreams.from_seed(seed)
    draws = streams.acceptance.random(n) if uniforms is None else np.asarray(uniforms, dtype=np.float64)
    if draws.shape != (n,):
        raise OptionError(f"uniforms have shape {draws.shape}; expected {(n,)}: one per event")
    request = EvaluationRequest(log, policy, horizon=horizon, seed=seed)
    if isinstance(evaluator, ClockReplay):
        fill = None
        if evaluator.fill and predicted is not None and horizon is not None:
            rng = np.random.default_rng(seed_sequence(seed, SeedKey.FILL))
            fill = Fill.from_log(log, table[np.arange(n), log.columns.actions], horizon, rng)
        return trace_clock(log, policy, table, draws, horizon, streams.policy, fill)
    if not hasattr(evaluator, "plan_replay"):
        raise OptionError(f"{type(evaluator).__name__} accepts no events, so there is nothing to trace")
    request, schedule = evaluator.plan_replay(request)
    replayed = request.log
    assert isinstance(replayed, Log)
    # events set aside for warm-up or calibration have no draw, as in evaluate with the same seed, and count for nothing
    n_head = n - len(replayed)
    arrays = TraceArrays.of_length(len(replayed))
    replay(
        replayed,
        policy,
        schedule,
        predictions=table if len(table) == 1 else table[n_head:],
        draws=draws[: n - n_head] if uniforms is None else draws[n_head:],
        horizon=horizon,
        rng=streams.policy,
        trace=arrays,
    )
    whole = TraceArrays.of_length(n)
    for column, values in zip(whole, arrays, strict=True):
        column[n_head:] = values
    return Trace(*whole, np.flatnonzero(whole.accepted))


def trace_clock(
    log: Log,
    policy: Any,
    predicted: FloatArray,
    thresholds: FloatArray,
    horizon: int | None,
    rng: np.random.Generator,
    fill: Fill | None = None,
) -> ClockTrace:
    """Run one pass of clock replay with given thresholds, to the horizon or until no event can fire."""
    events = EventArrays.from_log(log, predicted, thresholds)
    clock_pass = run_clock_pass(policy, log, events, horizon or len(log), rng, fill=fill)
    if horizon is not None and clock_pass.n_rounds < horizon:
        raise horizon_error(PassInputs(log, predicted, horizon), clock_pass.n_rounds)
    accepted = np.zeros(len(log), dtype=np.bool_)
    accepted[clock_pass.order[~clock_pass.filled]] = True
    return ClockTrace(accepted, clock_pass.order, clock_pass.value, clock_pass.exhausted, clock_pass.filled)
