"""The specification as code: Algorithm 1 (DR-ns), rejection sampling and clock replay in plain Python.

One loop each, over lists, with the step numbers of the paper beside the lines; no speed, and no options beyond those of
the algorithms. The compiled engine is tested against these functions. DR-ns and rejection sampling: Dudik, Erhan,
Langford, Li, "Sample-efficient Nonstationary Policy Evaluation for Contextual Bandits", UAI 2012. Clock replay:
docs/theory.md.

>>> events = [Event(None, action=0, reward=1.0, propensity=0.5), Event(None, action=1, reward=0.0, propensity=0.5)]
>>> class AlwaysFirst:
...     def probabilities(self, context):
...         return [1.0, 0.0]
...     def learn(self, context, action, reward, probability):
...         pass
>>> result = dr_ns(AlwaysFirst(), events, predicted=[[0.0, 0.0]] * 2, uniforms=[0.25, 0.25], q=0.0)
>>> result.values, result.multipliers, result.accepted, result.value
([2.0, 0.0], [1.0, 0.5], [0], 1.3333333333333333)

By hand: the first event has weight 2 and is accepted; its ratio 1/2 is the next multiplier; R/C = 2 / 1.5.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from backcast.log import Log


class Event(NamedTuple):
    """One logged decision ``(x_k, a_k, r_k, p_k)``."""

    context: Any
    action: int
    reward: float
    propensity: float


class EventPolicy(Protocol):
    """A policy for one event at a time: ``pi(. | x, h)`` for its present history h."""

    def probabilities(self, context: Any) -> Sequence[float]:
        """Return the probabilities of all actions."""
        ...

    def learn(self, context: Any, action: int, reward: float, probability: float) -> None:
        """Append an event to the history."""
        ...


class DRnsResult(NamedTuple):
    """The estimate R/C, the accepted events in order, and by event the multiplier c_t, the weight and the value R_k."""

    value: float
    accepted: list[int]
    multipliers: list[float]
    weights: list[float]
    values: list[float]


class ClockResult(NamedTuple):
    """The estimate, the events of the history in order, and by round V_t, exhausted mass, and whether it was filled."""

    value: float
    accepted: list[int]
    curve: list[float]
    exhausted: list[float]
    filled: list[bool]


class FillDraws(NamedTuple):
    """Random numbers of filled replay: per round whether to fill, whether to fill late, which event, which reward.

    ``fresh_reward(k, uniform)`` draws a reward at the context and action of event ``k`` from a reward model.
    """

    uniforms: Sequence[tuple[float, float, float, float]]
    fresh_reward: Callable[[int, float], float]


def event_value(
    target: Sequence[float], predicted: Sequence[float], action: int, reward: float, propensity: float
) -> float:
    """Return ``R_k = sum_a pi(a) rhat(a) + pi(a_k)/p_k (r_k - rhat(a_k))`` (step 2a).

    >>> event_value([0.5, 0.5], [0.25, 0.5], action=1, reward=1.0, propensity=0.25)
    1.375

    By hand: the model predicts 0.375; the residual 0.5 has weight 2.
    """
    expected = 0.0
    for probability, reward_model in zip(target, predicted, strict=True):
        expected += probability * reward_model
    return expected + target[action] / propensity * (reward - predicted[action])


def quantile(values: Sequence[float], q: float) -> float:
    """Return the smallest value v with ``#{values <= v} >= q n``; the minimum for q = 0.

    >>> quantile([0.5, 0.25, 1.0, 0.75], 0.5), quantile([0.5, 0.25], 0.0)
    (0.5, 0.25)
    """
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1]


def dr_ns(
    policy: EventPolicy,
    events: Sequence[Event],
    predicted: Sequence[Sequence[float]],
    uniforms: Sequence[float],
    q: float,
    c_max: float = 1.0,
) -> DRnsResult:
    """Run Algorithm 1: DR-ns with quantile ``q`` and largest multiplier ``c_max``."""
    # 1. the history is empty, t = 1, c_1 = c_max, R = C = 0, Q is empty
    c, R, C = c_max, 0.0, 0.0  # noqa: N806
    Q: list[float] = []  # noqa: N806
    result = DRnsResult(math.nan, [], [], [], [])
    # 2. consider the events one after another
    for k, (x, a, r, p) in enumerate(events):
        pi = policy.probabilities(x)
        # (a) R_k, the doubly robust value
        value = event_value(pi, predicted[k], a, r, p)
        result.multipliers.append(c)
        result.weights.append(pi[a] / p)
        result.values.append(value)
        # (b) R += c_t R_k
        R += c * value  # noqa: N806
        # (c) C += c_t
        C += c  # noqa: N806
        # (d) Q gains p_k / pi(a_k | x_k, h)
        Q.append(p / pi[a] if pi[a] > 0 else math.inf)
        # (e), (f) accept with probability min(1, c_t pi(a_k | x_k, h) / p_k)
        if pi[a] > 0 and uniforms[k] <= c * pi[a] / p:
            # i. the history gains (x_k, a_k, r_k); ii. t += 1
            result.accepted.append(k)
            policy.learn(x, a, r, pi[a])
            # iii. c_t = min(c_max, q-quantile of Q)
            c = min(c_max, quantile(Q, q))
    # 3. return R / C
    return result._replace(value=R / C)


def rejection_sampling(
    policy: EventPolicy, events: Sequence[Event], uniforms: Sequence[float], multiplier: float
) -> tuple[float, list[int]]:
    """Return the mean reward of the events that rejection sampling accepts, and those events (section 4.1, RS)."""
    accepted = []
    for k, (x, a, r, p) in enumerate(events):
        pi = policy.probabilities(x)
        # accept with probability c pi(a_k | x_k, h) / p_k; c <= min mu makes that at most 1
        if pi[a] > 0 and uniforms[k] <= multiplier * pi[a] / p:
            accepted.append(k)
            policy.learn(x, a, r, pi[a])
    rewards = [events[k].reward for k in accepted]
    return (sum(rewards) / len(rewards) if rewards else math.nan), accepted


def clock_replay(
    policy: EventPolicy,
    events: Sequence[Event],
    predicted: Sequence[Sequence[float]],
    thresholds: Sequence[float],
    horizon: int,
    batch_size: int = 1,
    fill: FillDraws | None = None,
    held_out: Collection[int] = (),
) -> ClockResult:
    """Run clock replay for ``horizon`` rounds, or until no event can fire.

    A policy that learns from ``batch_size`` events together is the same in between, and V_t is read once per update.
    With ``fill``, a round for which no unused event is left draws an exhausted event again, with a fresh reward. Events
    that are held out never fire, and are always read.
    """
    n = len(events)
    meter, used = [0.0] * n, [k in held_out for k in range(n)]
    result = ClockResult(math.nan, [], [], [], [])
    for t in range(horizon):
        if t % batch_size == 0:
            # 1. speeds w_k = pi_t(a_k|x_k)/p_k and values R_k under the present policy
            targets = [policy.probabilities(event.context) for event in events]
            speed = [pi[event.action] / event.propensity for pi, event in zip(targets, events, strict=True)]
            values = [
                event_value(pi, rhat, event.action, event.reward, event.propensity)
                for pi, rhat, event in zip(targets, predicted, events, strict=True)
            ]
            # 2. V_t = sum i_k R_k / sum i_k over unused events with i_k = 1/(1 - W_k), before the clock moves; with m
            # events held out i_k = 1/((1 - W_k)_+ + m/(n - m))
            read = [k for k in range(n) if not used[k] or k in held_out]
            if read:
                shares = [1 / (max(1 - meter[k], 0.0) + len(held_out) / (n - len(held_out))) for k in read]
                value = sum(i * values[k] for i, k in zip(shares, read, strict=True)) / sum(shares)
            elif fill is None:
                break
        # 3. the event whose meter reaches its threshold first fires
        delay = [(thresholds[k] - meter[k]) / speed[k] if not used[k] and speed[k] > 0 else math.inf for k in range(n)]
        first = min(range(n), key=delay.__getitem__)
        exhausted = [k for k in range(n) if meter[k] >= 1 and speed[k] > 0]
        if delay[first] == math.inf and not exhausted and fill is not None:
            # no unused event can fire: all meters run until the first used event is exhausted
            rest = [(1 - meter[k]) / speed[k] if used[k] and speed[k] > 0 else math.inf for k in range(n)]
            if min(rest) < math.inf:
                exhausted = [k for k in range(n) if rest[k] <= min(rest) + 1e-12]
                meter = [1.0 if k in exhausted else meter[k] + speed[k] * min(rest) for k in range(n)]
        if delay[first] == math.inf and (fill is None or not exhausted):
            break
        # the exhausted mass grows in every round, also between updates
        mass = sum(speed[k] for k in exhausted) / n
        chosen, donors = first, []
        if fill is not None and (fill.uniforms[t][0] < mass or delay[first] == math.inf):
            # 4a. with the probability of the exhausted mass, one of these events stands for the round; the clock stops
            donors = exhausted
        else:
            # 4b. all meters run until then; what they exhaust in the meantime has its probability, too
            meter = [W + w * delay[first] for W, w in zip(meter, speed, strict=True)]
            used[first] = True
            late = [k for k in range(n) if meter[k] >= 1 and speed[k] > 0 and k not in exhausted]
            if fill is not None and fill.uniforms[t][1] * (1 - mass) < sum(speed[k] for k in late) / n:
                donors = late
        if donors and fill is not None:
            chosen = choose_in_proportion(donors, speed, fill.uniforms[t][2])
        # 5. the history gains the event
        result.accepted.append(chosen)
        result.curve.append(value)
        result.exhausted.append(mass)
        result.filled.append(bool(donors))
        x, a, r, _ = events[chosen]
        policy.learn(x, a, fill.fresh_reward(chosen, fill.uniforms[t][3]) if fill and donors else r, targets[chosen][a])
    return result._replace(value=sum(result.curve) / len(result.curve) if result.curve else math.nan)


def choose_in_proportion(items: Sequence[int], weights: Sequence[float], uniform: float) -> int:
    """Return the item at which the running sum of the items' weights exceeds this share of their total.

    >>> choose_in_proportion([0, 2], [1.0, 5.0, 3.0], uniform=0.5)
    2
    """
    remaining = uniform * sum(weights[item] for item in items)
    for item in items:
        remaining -= weights[item]
        if remaining < 0:
            return item
    return items[-1]


class OneEventAtATime:
    """A policy of the package (which scores blocks and learns batches) as an :class:`EventPolicy` for one log.

    Contexts are positions in the log. A copy of the policy is used.
    """

    def __init__(self, policy: Any, log: Log, rng: np.random.Generator | None = None) -> None:
        self._policy, self._log = copy.deepcopy(policy), log
        if hasattr(self._policy, "start"):
            self._policy.start(log.n_actions, log.n_features, rng or np.random.default_rng(0))
        self.batch_size = int(getattr(policy, "batch_size", 1)) if hasattr(policy, "learn") else 1
        self._batch: list[tuple[int, int, float, float]] = []

    def events(self) -> list[Event]:
        """Return the events of the log, their positions as contexts."""
        log = self._log
        columns = log.actions.tolist(), log.rewards.tolist(), log.propensities.tolist()
        return [Event(k, *event) for k, event in enumerate(zip(*columns, strict=True))]

    def probabilities(self, context: int) -> Sequence[float]:
        """Return the probabilities at one position of the log."""
        event = self._log[context : context + 1]
        if hasattr(self._policy, "probabilities_of"):
            return [float(p) for p in self._policy.probabilities_of(event)[0]]
        return [float(p) for p in self._policy.probabilities(event.contexts, event.available)[0]]

    def learn(self, context: int, action: int, reward: float, probability: float) -> None:
        """Learn once a batch is complete."""
        self._batch.append((context, action, reward, probability))
        if hasattr(self._policy, "learn") and len(self._batch) == self.batch_size:
            rows, actions, rewards, probabilities = (np.array(column) for column in zip(*self._batch, strict=True))
            self._policy.learn(self._log.contexts[rows], actions, rewards, probabilities)
            self._batch = []
