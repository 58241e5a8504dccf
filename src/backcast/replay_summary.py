"""One run of an evaluation seen from close by, summed up so that it can be drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._request import EvaluationRequest, RandomStreams
from backcast.evaluators._replicates import FULL
from backcast.evaluators.clock_replay import ClockReplay
from backcast.log import Log
from backcast.policies._calls import probabilities_of, probability_of, start_copy, update_on_events
from backcast.policies.base import LogPolicy, Policy, batch_size_of, is_learning
from backcast.tracing import Trace, trace

WEIGHT_EDGES = tuple(2.0**power for power in range(-3, 7))


"""Weights are counted in classes that double: 0, at most 1/8, up to 1/4, ..., up to 64, more."""


@dataclass(frozen=True)
class WeightShares:
    """How the weights ``pi/p`` of events are spread.

    Attributes
    ----------
    shares
        Share of the events in each class: 0 exactly, then up to each of ``WEIGHT_EDGES``, then more than the last.
    effective_sample_size
        ``(sum w)^2 / sum w^2``: how many equally weighted events these are worth.
    largest
        The largest weight.
    """

    shares: FloatArray
    effective_sample_size: float
    largest: float


def weight_shares(weights: FloatArray, events: int) -> WeightShares:
    """Count weights by class; a sample of them speaks for all the events.

    >>> found = weight_shares(np.array([0.0, 1.0, 1.0, 2.0]), events=8)
    >>> found.shares[[0, 4, 5]], found.largest
    (array([0.25, 0.5 , 0.25]), 2.0)
    >>> round(found.effective_sample_size, 3)
    5.333

    By hand: (1 + 1 + 2)^2 / (1 + 1 + 4) = 16/6 of four events, so twice that of eight.
    """
    classes = np.where(weights > 0, 1 + np.searchsorted(WEIGHT_EDGES, weights), 0)
    counts = np.bincount(classes, minlength=len(WEIGHT_EDGES) + 2)
    squares = float((weights**2).sum())
    worth = float(weights.sum()) ** 2 / squares if squares else 0.0
    return WeightShares(counts / weights.size, worth * events / weights.size, float(weights.max()))


@dataclass(frozen=True)
class ReplaySummary:
    """One run: what it accepted along the log, how events weigh, and which actions the policy takes.

    Attributes
    ----------
    events
        Events that the run went through.
    in_order
        Whether it went through them in the order of the log.
    actions
        Labels of the actions.
    logged, taken
        Share of each action in the log, and under the policy, averaged over the run; ``taken`` is None for a policy
        that only tells the probability of one action.
    weights
        How the weights of events are spread.
    ends
        Events at which stretches of the run end; empty where nothing is accepted.
    accepted, multiplier
        Share of events accepted, and mean multiplier ``c_t``, in each stretch; empty where there is none.
    rounds, exhausted
        For clock replay: rounds, and the exhausted mass added up so far, which ends as the bias certificate.
    """

    events: int
    in_order: bool
    actions: tuple[str, ...]
    logged: FloatArray
    taken: FloatArray | None
    weights: WeightShares
    ends: IntArray
    accepted: FloatArray
    multiplier: FloatArray
    rounds: IntArray
    exhausted: FloatArray


STRETCHES = 20


STATES = 9  # of a learning policy, from its start to its end


SAMPLE = 4_000  # events that each state is asked about


NONE: FloatArray = np.zeros(0)


def has_replay(evaluator: Any, request: EvaluationRequest) -> bool:
    """Whether there is one pass to show: of a log in memory, by an evaluator of histories or of a fixed policy."""
    if not request.in_memory or getattr(evaluator, "q", None) == "auto":
        return False
    return isinstance(evaluator, ClockReplay) or hasattr(evaluator, "plan_replay") or not is_learning(request.policy)


def summarize_replay(evaluator: Any, request: EvaluationRequest) -> ReplaySummary:
    """One pass of the evaluator: the very first one where it makes many."""
    if isinstance(evaluator, ClockReplay):
        return _summarize_clock_replay(evaluator, request)
    if hasattr(evaluator, "plan_replay"):
        return _summarize_replay(evaluator, request)
    return _summarize_fixed(request)


def _summarize_fixed(request: EvaluationRequest) -> ReplaySummary:
    """A policy that does not learn, asked about events of the log."""
    log = request.log
    some = _sample(log)
    twin = start_copy(request.policy, log, RandomStreams.of(request.seed).policy)
    taken = probabilities_of(twin, some).mean(axis=0) if isinstance(twin, Policy | LogPolicy) else None
    return _replay_summary(log, taken, weight_shares(probability_of(twin, some) / some._propensities, len(log)))


def _summarize_clock_replay(evaluator: ClockReplay, request: EvaluationRequest) -> ReplaySummary:
    """The first of the passes whose mean is the value; weights and actions are averaged over its rounds."""
    rng = np.random.default_rng(np.random.SeedSequence(request.seed, spawn_key=(FULL, 0)))
    log = request.log
    if len(log) > evaluator.pool:
        log = log[np.sort(rng.choice(len(log), evaluator.pool, replace=False))]
    zeros = np.zeros((1, log.n_actions))
    one = evaluator.trace(log, request.policy, zeros, rng.random(len(log)), request.horizon, rng)
    some = _sample(log)
    mixed = _average_policy(request, some, log[one.order])
    weights = mixed[np.arange(len(some)), some._actions] / some._propensities
    found = _replay_summary(log, mixed.mean(axis=0), weight_shares(weights, len(log)))
    ends = _ends(one.order.size)
    return replace(
        found,
        ends=_ends(len(log)),
        accepted=_means(one.accepted.astype(np.float64)),
        rounds=ends,
        exhausted=np.cumsum(one.exhausted)[ends - 1],
    )


def _average_policy(request: EvaluationRequest, some: Log, history: Log) -> FloatArray:
    """Probabilities at some events, averaged over states of the policy as it learns this history."""
    twin = start_copy(request.policy, some, np.random.default_rng(request.seed))
    if not is_learning(twin):
        return probabilities_of(twin, some)
    batch = batch_size_of(twin)
    lessons = len(history) // batch
    stops = np.unique(np.linspace(0, lessons, STATES).astype(np.int64))
    total = np.zeros((len(some), some.n_actions))
    for done in range(lessons + 1):
        if done in stops:
            total += probabilities_of(twin, some)
        lesson = history[done * batch : (done + 1) * batch]
        if len(lesson) == batch:
            update_on_events(twin, lesson, probability_of(twin, lesson))
    return np.asarray(total / stops.size)


def _summarize_replay(evaluator: Any, request: EvaluationRequest) -> ReplaySummary:
    """Algorithm 1 event by event: over the log as it lies, or over one permutation where the evaluator makes many."""
    log = request.log
    if request.replicates is not None:
        rng = np.random.default_rng(np.random.SeedSequence(request.seed, spawn_key=(FULL, 0)))
        log = log[rng.permutation(len(log))]
    steps = trace(log, request.policy, evaluator, horizon=request.horizon, seed=request.seed)
    used = steps.multiplier > 0  # not those set aside for warm-up or calibration
    found = _replay_summary(log, _taken(log, steps), weight_shares(steps.weight[used], int(used.sum())))
    return replace(
        found,
        in_order=request.replicates is None,
        ends=_ends(int(used.sum())),
        accepted=_means(steps.accepted[used].astype(np.float64)),
        multiplier=_means(steps.multiplier[used]),
    )


def _taken(log: Log, steps: Trace) -> FloatArray | None:
    """Share of each action under the policies of the run, weighed as the estimate weighs them: rewards 1 for it."""
    counts = np.bincount(log._actions, weights=steps.multiplier * steps.weight, minlength=log.n_actions)
    return counts / counts.sum() if counts.sum() > 0 else None


def _replay_summary(log: Log, taken: FloatArray | None, weights: WeightShares) -> ReplaySummary:
    return ReplaySummary(
        events=len(log),
        in_order=False,
        actions=tuple(str(label) for label in log.action_labels),
        logged=np.bincount(log._actions, minlength=log.n_actions) / len(log),
        taken=taken,
        weights=weights,
        ends=_ends(0),
        accepted=NONE,
        multiplier=NONE,
        rounds=_ends(0),
        exhausted=NONE,
    )


def _sample(log: Log) -> Log:
    return log if len(log) <= SAMPLE else log[np.linspace(0, len(log) - 1, SAMPLE).astype(np.int64)]


def _ends(count: int) -> IntArray:
    """Where stretches end that cut so many things in parts of a size."""
    return np.unique(np.linspace(0, count, STRETCHES + 1).astype(np.int64))[1:]


def _means(column: FloatArray) -> FloatArray:
    """Means of the column over the stretches.

    >>> _means(np.array([0.0, 1.0]))
    array([0., 1.])
    """
    ends = _ends(column.size)
    starts = np.append(0, ends[:-1])
    return np.asarray(np.add.reduceat(column, starts) / (ends - starts))
