"""ReplaySummary: one pass of an evaluation in numbers for charts, and how it is computed again from the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._equality import ContentEquality
from backcast._request import EvaluationRequest, RandomStreams, SeedKey, seed_sequence
from backcast.diagnostics import effective_sample_size
from backcast.estimate import block_edges, block_means
from backcast.evaluators._pass_inputs import PassInputs
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.evaluators.clock_replay import ClockReplay
from backcast.log import Log
from backcast.policies._calls import probabilities_of, probability_of, start_copy, update_on_events
from backcast.policies.base import LogPolicy, Policy, batch_size_of, is_learning
from backcast.tracing import trace, trace_clock

WEIGHT_EDGES = tuple(2.0**power for power in range(-3, 7))


"""Weights are counted in classes that double: 0, at most 1/8, up to 1/4, ..., up to 64, more."""


@dataclass(frozen=True, eq=False)
class WeightShares(ContentEquality):
    """Distribution of the weights ``pi/p`` of events.

    Attributes
    ----------
    shares
        Share of the events in each class: 0 exactly, then up to each of ``WEIGHT_EDGES``, then more than the last.
    effective_sample_size
        ``(sum w)^2 / sum w^2``: the number of equally weighted events with the same information.
    largest
        Largest weight.
    """

    shares: FloatArray
    effective_sample_size: float
    largest: float


def weight_shares(weights: FloatArray, events: int) -> WeightShares:
    """Count weights by class; a sample of them speaks for all the events.

    >>> weights = weight_shares(np.array([0.0, 1.0, 1.0, 2.0]), events=8)
    >>> weights.shares[[0, 4, 5]], weights.largest
    (array([0.25, 0.5 , 0.25]), 2.0)
    >>> round(weights.effective_sample_size, 3)
    5.333

    By hand: (1 + 1 + 2)^2 / (1 + 1 + 4) = 16/6 of four events, so twice that of eight.
    """
    classes = np.where(weights > 0, 1 + np.searchsorted(WEIGHT_EDGES, weights), 0)
    counts = np.bincount(classes, minlength=len(WEIGHT_EDGES) + 2)
    worth = effective_sample_size(float(weights.sum()), float((weights**2).sum()))
    return WeightShares(counts / weights.size, worth * events / weights.size, float(weights.max()))


@dataclass(frozen=True, eq=False)
class ReplaySummary(ContentEquality):
    """One run of an evaluation: events accepted along the log, weights of events, and actions of the policy.

    Attributes
    ----------
    events
        Number of events that the run processed.
    in_order
        Whether they were processed in the order of the log.
    actions
        Labels of the actions.
    logged, taken
        Share of each action in the log, and under the policy, averaged over the run; ``taken`` is None for a policy
        that gives only the probability of one action.
    weights
        Distribution of the weights of events.
    ends
        Number of events processed at the end of each segment of the run; empty if the evaluator accepts no events.
    accepted, multiplier
        Share of events accepted, and mean multiplier ``c_t``, in each segment; empty if there is none.
    rounds, exhausted
        For clock replay: rounds, and the exhausted mass up to each of them; the last one is the bias certificate.
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


N_BLOCKS = 20  # blocks of a run in charts
N_STATES = 9  # states of a learning policy over which probabilities are averaged, from its start to its end
SAMPLE_EVENTS = 4_000  # events at which each state is evaluated
NONE: FloatArray = np.zeros(0)


def summarize_replay(evaluator: Any, request: EvaluationRequest) -> ReplaySummary | None:
    """Repeat and summarize one pass of the evaluator, the first one if it has several; None if it has no pass."""
    log = request.log
    assert isinstance(log, Log)
    if isinstance(evaluator, ClockReplay):
        return _summarize_clock_replay(evaluator, request, log)
    if getattr(evaluator, "q", None) == "auto":
        return None  # a pass per candidate
    if hasattr(evaluator, "plan_replay"):
        return _summarize_algorithm_1(evaluator, request, log)
    if is_learning(request.policy) or getattr(request.policy, "repeats_log", False):
        return None
    sample = _sample_events(log)
    policy = start_copy(request.policy, log, RandomStreams.from_seed(request.seed).policy)
    taken = probabilities_of(policy, sample).mean(axis=0) if isinstance(policy, Policy | LogPolicy) else None
    return _new_summary(
        log, taken, weight_shares(probability_of(policy, sample) / sample.columns.propensities, len(log))
    )


def _summarize_clock_replay(evaluator: ClockReplay, request: EvaluationRequest, log: Log) -> ReplaySummary:
    """Summarize the first of the passes whose mean is the value; weights and actions are averaged over its rounds.

    The reward model is needed only where rounds may be filled. No events are held out, also where passes hold
    out a fold.
    """
    seed = seed_sequence(request.seed, SeedKey.FULL_PASS, 0)
    rng, horizon = np.random.default_rng(seed), request.horizon
    fills = evaluator.fill and horizon is not None and evaluator.may_exhaust(log, horizon)
    inputs = PassInputs(log, np.zeros((1, log.n_actions)), horizon or len(log))
    if fills:
        inputs = PassInputs(*out_of_sample_predictions(request), inputs.horizon)
        inputs = evaluator.with_fresh_rewards(inputs, request.reward_model, request.seed)
    if len(log) > evaluator.pool:
        inputs = inputs.of_rows(np.sort(rng.choice(len(inputs.log), evaluator.pool, replace=False)))
    log, predicted = inputs[:2]
    fill = evaluator.make_fill(inputs, seed) if fills else None
    steps = trace_clock(log, request.policy, predicted, rng.random(len(log)), horizon, rng, fill)
    sample = _sample_events(log)
    mixture = _average_policy(request, sample, log[steps.order])
    weights = mixture[np.arange(len(sample)), sample.columns.actions] / sample.columns.propensities
    ends = block_edges(steps.order.size, N_BLOCKS)[1:]
    return replace(
        _new_summary(log, mixture.mean(axis=0), weight_shares(weights, len(log))),
        ends=block_edges(len(log), N_BLOCKS)[1:],
        accepted=_block_means(steps.accepted.astype(np.float64)),
        rounds=ends,
        exhausted=np.cumsum(steps.exhausted)[ends - 1],
    )


def _average_policy(request: EvaluationRequest, sample: Log, history: Log) -> FloatArray:
    """Return probabilities at sampled events, averaged over states of the policy while it learns this history."""
    policy = start_copy(request.policy, sample, np.random.default_rng(request.seed))
    if not is_learning(policy):
        return probabilities_of(policy, sample)
    batch_size = batch_size_of(policy)
    n_updates = len(history) // batch_size
    states = np.unique(np.linspace(0, n_updates, N_STATES).astype(np.int64))
    total = np.zeros((len(sample), sample.n_actions))
    for update in range(n_updates + 1):
        if update in states:
            total += probabilities_of(policy, sample)
        batch = history[update * batch_size : (update + 1) * batch_size]
        if len(batch) == batch_size:
            update_on_events(policy, batch, probability_of(policy, batch))
    return np.asarray(total / states.size)


def _summarize_algorithm_1(evaluator: Any, request: EvaluationRequest, log: Log) -> ReplaySummary:
    """Summarize Algorithm 1 over the log in its order, or over one permutation if the evaluator has several."""
    if request.replicates is not None:
        rng = np.random.default_rng(seed_sequence(request.seed, SeedKey.FULL_PASS, 0))
        log = log[rng.permutation(len(log))]
    steps = trace(log, request.policy, evaluator, horizon=request.horizon, seed=request.seed)
    # the share of each action under the policies of the run, weighted as in the estimate (as if it paid 1)
    counts = np.bincount(log.columns.actions, weights=steps.multiplier * steps.weight, minlength=log.n_actions)
    taken = counts / counts.sum() if counts.sum() > 0 else None
    used = steps.multiplier > 0  # not the events set aside for warm-up or calibration
    n_used = int(used.sum())
    return replace(
        _new_summary(log, taken, weight_shares(steps.weight[used], n_used)),
        in_order=request.replicates is None,
        ends=block_edges(n_used, N_BLOCKS)[1:],
        accepted=_block_means(steps.accepted[used].astype(np.float64)),
        multiplier=_block_means(steps.multiplier[used]),
    )


def _new_summary(log: Log, taken: FloatArray | None, weights: WeightShares) -> ReplaySummary:
    return ReplaySummary(
        events=len(log),
        in_order=False,
        actions=tuple(str(label) for label in log.action_labels),
        logged=np.bincount(log.columns.actions, minlength=log.n_actions) / len(log),
        taken=taken,
        weights=weights,
        ends=block_edges(0)[1:],
        accepted=NONE,
        multiplier=NONE,
        rounds=block_edges(0)[1:],
        exhausted=NONE,
    )


def _sample_events(log: Log) -> Log:
    return log if len(log) <= SAMPLE_EVENTS else log[np.linspace(0, len(log) - 1, SAMPLE_EVENTS).astype(np.int64)]


def _block_means(column: FloatArray) -> FloatArray:
    return block_means(column, block_edges(column.size, N_BLOCKS))
