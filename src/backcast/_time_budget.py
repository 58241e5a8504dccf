"""Time budget: the passes, pool, parts and reading grid of clock replay that a number of seconds allows.

Seconds become counts by a fixed cost model of n, T, K, d and the kind of policy, never by the clock: the same call has
the same numbers on every machine, however busy it is. The constants are nanoseconds of one core, of passes over 2,000
to 60,000 events with T from 50 to 400, K from 3 to 40, d from 6 to 60, batches of 1 and 15. The model is 0.7 to 1.8
times what these took; LinUCB with 40 actions took 2.3 times as much as the model says (docs/performance.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.clock import FIRST_LONG_SPAN
from backcast._request import PassPlan
from backcast.evaluators._bias import BIAS_PASSES
from backcast.evaluators._disjoint_parts import FEWEST_PARTS, FEWEST_PASSES, TOTAL_PASSES, number_of_parts
from backcast.evaluators._pass_cost import is_thinned, smallest_pool, thinned_scorings
from backcast.evaluators._passes import MORE_PASSES, MOST_PASSES, most_cheap_passes
from backcast.evaluators._replicates import FIRST_PASSES, PILOT_PASSES
from backcast.evaluators.clock_replay import READING_INTERVAL
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.context_free import UCB1, RoundRobin
from backcast.policies.linear import EpsilonGreedy, LinearThompson, LinUCB, Softmax
from backcast.policies.wrappers import WarmStart

CORES = 2  # on which a budget is spent: results must not depend on n_jobs
DEFAULT_SECONDS, DEFAULT_EVENTS = 30.0, 100_000  # the default budget, up to so many events
GROWTH = 0.3  # its exponent in longer logs, whose smaller errors need more passes: a minute at a million events
CHEAP_SHARE = 0.03  # of the budget that more passes than MOST_PASSES may take, if it is enough for twice as many
ENOUGH_READS = 8  # of an event, by all passes together: its direct influence then has an eighth of noise
SMALLEST_PASSES = 16  # intervals of a prototype covered in 93 to 99 % of logs with so many, over whole logs
LONG_READING_INTERVAL = 64  # where time is short; spans stay below 1/32 of the rounds played
ENOUGH_PARTS = 2 * FEWEST_PARTS  # below, parts are made shorter
HEAD_EVENTS = 10_000  # events of a stream from which its propensities are known
# nanoseconds per event and update
FIRE, FIRE_SEVERAL = 1.5, 35.0  # find the next event; find those of a batch, which takes a selection
CHOICE = 0.1  # find the best action, per action
ACTION, PRODUCT = 1.0, 0.1  # change the score of an action; its product, per feature
SOFTMAX, SOFTMAX_ACTION = 30.0, 5.0  # probabilities; per action
THOMPSON, THOMPSON_ACTION = 40.0, 32.0  # integrals; per action
CONTEXT_FREE, CONTEXT_FREE_ACTION = 6.0, 0.3
PYTHON, PYTHON_PRODUCT = 75.0, 0.2  # one matrix product in NumPy; per action and feature
CLASSIFIER_ACTION = 160.0  # predict_proba of scikit-learn
READING = 5.0  # per event and reading of V_t
READING_SHARE = 0.1  # of a pass, for each outcome and segment that is read in it: measured as 0.05 to 0.15
CACHE_BYTES, OUT_OF_CACHE = 1 << 23, 2.0  # contexts and scores larger than that: 1.6 to 2 times, with two passes
EVENT = 400.0  # per event and pass: thresholds and arrays
EARLY_ACTION = 30.0  # per event, action and pass of a linear policy, most of whose choices change in its first rounds


def default_budget(n_events: int) -> float:
    """Return the default budget in seconds: 30 up to 100,000 events, and 2 times as much for 10 times as many.

    >>> default_budget(5_000), round(default_budget(1_000_000))
    (30.0, 60)
    """
    return DEFAULT_SECONDS * float(max(1.0, n_events / DEFAULT_EVENTS) ** GROWTH)


def update_cost(policy: Any, n_actions: int, n_features: int, *, is_shared: bool = False) -> float:
    """Return the nanoseconds per event in which a pass follows one update of the policy.

    ``is_shared`` is whether an update changes the scores of all actions, as with features of actions.

    >>> round(update_cost(EpsilonGreedy(0.1), n_actions=10, n_features=20), 2)
    5.5

    By hand: 1.5 to find the next event, 0.1 x 10 for the best action, and 1 + 0.1 x 20 for the action that changed.
    """
    if isinstance(policy, WarmStart):
        policy = policy.policy
    if isinstance(policy, UCB1 | RoundRobin):
        return CONTEXT_FREE + CONTEXT_FREE_ACTION * n_actions
    if isinstance(policy, EpsilonGreedy | LinUCB | Softmax | LinearThompson):
        batch = batch_size_of(policy)
        changed = n_actions if is_shared else n_actions * (1.0 - (1.0 - 1.0 / n_actions) ** batch)
        fire = FIRE if batch == 1 else FIRE_SEVERAL
        linear = fire + CHOICE * n_actions + changed * (ACTION + PRODUCT * n_features)
        if isinstance(policy, Softmax):
            return linear + SOFTMAX + SOFTMAX_ACTION * n_actions
        return linear + THOMPSON + THOMPSON_ACTION * n_actions if isinstance(policy, LinearThompson) else linear
    if type(policy).__name__ == "FromClassifier":  # by name: what is not used is not imported
        return PYTHON + CLASSIFIER_ACTION * n_actions
    per_product = PYTHON_PRODUCT * (2 if isinstance(policy, CompiledPolicy) else 1)  # kernels of users: no vectors
    return PYTHON + per_product * n_actions * max(1, n_features)


def scorings_per_event(
    policy: Any, propensities: FloatArray, n_events: int, horizon: int, reading_interval: int = READING_INTERVAL
) -> float:
    """Return how often a pass over ``n_events`` events scores each of them: after every update, or less if thinned.

    >>> scorings_per_event(EpsilonGreedy(0.1, batch_size=10), np.full(1, 0.1), n_events=10**5, horizon=1_000)
    100.0
    """
    if not is_learning(policy):
        return 1.0
    if is_thinned(policy, propensities, n_events, horizon, reading_interval):
        n_actions = float(np.mean(1.0 / propensities))
        return thinned_scorings(policy, n_actions, horizon, reading_interval) / n_events
    return math.ceil(horizon / batch_size_of(policy)) * 1.0


def event_seconds(
    policy: Any,
    log: Log | LogStream,
    horizon: int,
    reading_interval: int = READING_INTERVAL,
    *,
    propensities: FloatArray | None = None,
    n_events: int | None = None,
    n_readings: int = 0,
) -> float:
    """Return the seconds per event of one pass of clock replay over ``n_events`` events on one core.

    ``propensities`` are those of a log in memory if they are not given.
    """
    if propensities is None:
        assert isinstance(log, Log)
        propensities = log.columns.propensities
    n_events = n_events or log.n_events or 1
    per_update = update_cost(policy, log.n_actions, log.n_features, is_shared=log.has_action_features)
    if n_events * 8 * (log.n_actions + log.n_features) > CACHE_BYTES and not isinstance(policy, UCB1 | RoundRobin):
        per_update *= OUT_OF_CACHE
    per_event = EVENT + (EARLY_ACTION * log.n_actions if isinstance(policy, EpsilonGreedy | LinUCB) else 0.0)
    scorings = scorings_per_event(policy, propensities, n_events, horizon, reading_interval)
    if is_learning(policy) and is_thinned(policy, propensities, n_events, horizon, reading_interval):
        return 1e-9 * (per_event + scorings * per_update) * (1 + n_readings)  # each reading is a pass of its own
    readings = min(scorings, FIRST_LONG_SPAN + horizon / reading_interval)
    return 1e-9 * (per_event + scorings * per_update + readings * READING) * (1 + READING_SHARE * n_readings)


def plan_passes(
    seconds: float,
    per_event: Sequence[float],
    n_events: int,
    fewest_events: int,
    passes: int | None = None,
    further: int = 0,
    enough_events: int | None = None,
) -> PassPlan:
    """Return the largest plan that takes at most so many seconds on two cores, or the smallest one.

    ``per_event`` are the seconds per event of a pass on one core, with readings of V_t after 8 and after 64 rounds;
    ``passes`` is their number if it is given, and ``further`` passes follow for the bias. As long as the most passes
    over all events fit, or the usual ones if passes cannot be shorter, only their number is limited. If they do not,
    passes become shorter before they become fewer: the history of a pass is most of its noise, and shorter passes draw
    more of them in the same time. They are then over ``enough_events`` at most (n = 100,000, T = 1,000, epsilon-greedy:
    64 passes over 20,000, 30,000, 46,000 and 74,000 events had standard errors of 0.0025, 0.0022, 0.0024 and 0.0023,
    and took 8, 9, 15 and 29 seconds).

    >>> plan_passes(30.0, (1e-5, 9e-6), n_events=100_000, fewest_events=20_000)
    PassPlan(budget=30.0, pool=92592, passes=64, reading_interval=64, seconds=30.0, parts=None)
    >>> plan_passes(15.0, (1e-5, 9e-6), n_events=100_000, fewest_events=20_000)
    PassPlan(budget=15.0, pool=46296, passes=64, reading_interval=64, seconds=15.0, parts=None)
    """
    fewest_events = min(fewest_events, n_events)
    fine, coarse = per_event
    affordable = CORES * seconds / (n_events * fine) - further
    fitting = PILOT_PASSES + (FIRST_PASSES if fewest_events == n_events else MOST_PASSES)
    if affordable >= (fitting if passes is None else passes):
        most = _most_passes(affordable, n_events) if passes is None else passes
        usual = most if most <= FIRST_PASSES or passes is not None else PILOT_PASSES + FIRST_PASSES
        if passes is None and most > MOST_PASSES:  # they are cheap, and as many as that are often needed
            usual = PILOT_PASSES + most
        cost = round((usual + further) * n_events * fine / CORES, 2)
        return PassPlan(seconds, n_events, most, READING_INTERVAL, cost)
    wanted = further + (PILOT_PASSES + MOST_PASSES if passes is None else passes)
    pool = max(fewest_events, min(n_events, enough_events or n_events, int(CORES * seconds / (wanted * coarse))))
    most = _most_passes(CORES * seconds / (pool * coarse) - further, pool) if passes is None else passes
    total = further + most + (PILOT_PASSES if most > FIRST_PASSES and passes is None else 0)
    return PassPlan(seconds, pool, most, LONG_READING_INTERVAL, round(total * pool * coarse / CORES, 2))


def _most_passes(affordable: float, n_events: int) -> int:
    """Return the most passes of a value: those that pilots leave, or as many as are usual without pilots.

    More than ``MOST_PASSES`` are run only where they take a small share of the budget and of memory. Short horizons can
    need them: of 100 logs of the accuracy benchmark (satimage, uniform logger, epsilon-greedy by 15, T = 45) 64 passes
    of 2 milliseconds left a Monte-Carlo variance of 0.7 of that over logs.
    """
    if affordable >= PILOT_PASSES + FIRST_PASSES + MORE_PASSES:
        cheap = min(CHEAP_SHARE * affordable, most_cheap_passes(n_events))
        most = cheap if cheap >= 2 * MOST_PASSES else min(affordable - PILOT_PASSES, MOST_PASSES)
        return int(most) // MORE_PASSES * MORE_PASSES
    return max(SMALLEST_PASSES, min(FIRST_PASSES, int(affordable)))


def plan_for_log(
    seconds: float, log: Log, policies: Sequence[Any], horizon: int, most_events: int, passes: int | None, readings: int
) -> PassPlan:
    """Return the plan of a log in memory, for all policies together; further readings are parts of the same passes."""
    propensities, n_events = log.columns.propensities, min(len(log), most_events)
    fewest = smallest_pool(propensities, horizon)
    if any(is_thinned(policy, propensities, n_events, horizon, READING_INTERVAL) for policy in policies):
        fewest = n_events  # shorter passes would not be thinned, and take longer
    options: dict[str, Any] = {"n_events": n_events, "n_readings": readings}
    per_event = [
        sum(event_seconds(policy, log, horizon, interval, **options) for policy in policies)
        for interval in (READING_INTERVAL, LONG_READING_INTERVAL)
    ]
    further = BIAS_PASSES // 2 if fewest > n_events else 0  # a shorter log is exhausted; they are over halves of it
    enough = ENOUGH_READS * len(log) // (passes or MOST_PASSES)
    return plan_passes(seconds, per_event, n_events, fewest, passes, further, enough)


def plan_parts(
    seconds: float, stream: LogStream, policies: Sequence[Any], horizon: int, most_events: int, readings: int
) -> PassPlan:
    """Return the parts of a stream that take at most so many seconds on two cores; at least 20, or all if fewer.

    Parts become shorter before they become fewer than 20, down to the fewest events that are not exhausted.
    """
    n_events = stream.n_events or 0
    propensities = stream.slice(0, min(HEAD_EVENTS, n_events)).read().columns.propensities
    options: dict[str, Any] = {"propensities": propensities, "n_readings": readings}
    length = n_events // number_of_parts(n_events, most_events)
    per_event = sum(event_seconds(policy, stream, horizon, n_events=length, **options) for policy in policies)
    affordable = CORES * seconds / per_event  # events of all passes together
    pool = most_events
    if affordable < TOTAL_PASSES * length:
        pool = min(most_events, max(smallest_pool(propensities, horizon), int(affordable / TOTAL_PASSES)))
    number = number_of_parts(n_events, pool)
    used = min(number, max(ENOUGH_PARTS, int(affordable * number / (FEWEST_PASSES * n_events))))
    passes = max(FEWEST_PASSES, math.ceil(TOTAL_PASSES / used))
    cost = round(used * passes * n_events / number * per_event / CORES, 2)
    return PassPlan(seconds, pool, passes, READING_INTERVAL, cost, None if used == number else used)
