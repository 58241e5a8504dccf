"""One answer in a process of its own, by this version of backcast or by another: ``python -m bench.horizon.answer``.

Only names that exist in both versions are used. The last line printed is JSON: seconds, processor seconds of all
processes, value, standard error and the seconds that were forecast, or the error that was raised.
"""

from __future__ import annotations

import json
import logging
import sys
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

import backcast as bc
from bench.common.processes import measure_usage
from bench.speed.numpy_policy import NumpyGreedy

WARM_EVENTS, WARM_ROUNDS = 400, 20  # a first answer that loads code and starts the workers
PASS_SECONDS = 0.5  # of passes whose mean cost is taken


class NumpyGreedyInBatches(NumpyGreedy):
    """A user's policy that learns from 15 events at a time."""

    batch_size = 15


def make_policy(name: str, n_actions: int, n_features: int) -> Any:
    """Return a policy by its name in the table."""
    if name == "NumPy, batches of 15":
        return NumpyGreedyInBatches(n_actions, n_features)
    if name == "FromClassifier, batches of 50":
        return bc.FromClassifier(SGDClassifier(loss="log_loss", random_state=0), epsilon=0.1, batch_size=50)
    return {"EpsilonGreedy": bc.EpsilonGreedy(0.1), "LinUCB": bc.LinUCB(0.5), "LinearThompson": bc.LinearThompson()}[
        name
    ]


def read_events(path: str, n_events: int) -> bc.Log:
    """Return the first events of a stored log."""
    with np.load(path) as arrays:
        columns = {name: arrays[name][:n_events] for name in ("contexts", "actions", "rewards", "propensities")}
        return bc.Log(**columns, n_actions=int(arrays["n_actions"]), reward_range=(0.0, 1.0))


def time_answer(log: bc.Log, policy: Any, rounds: int) -> dict[str, Any]:
    """Return the cost of the default call with two jobs, and its answer."""
    bc.evaluate(log[:WARM_EVENTS], policy, horizon=WARM_ROUNDS, exchangeable=True, n_jobs=2)
    forecasts: list[float] = []

    class Forecasts(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            forecasts.extend([record.forecast_seconds] if hasattr(record, "forecast_seconds") else [])

    logging.getLogger("backcast").addHandler(Forecasts())
    logging.getLogger("backcast").setLevel(logging.INFO)
    before, start = measure_usage().cpu, perf_counter()
    estimate = bc.evaluate(log, policy, horizon=rounds, exchangeable=True, n_jobs=2)
    seconds, cpu = perf_counter() - start, measure_usage().cpu - before
    answer = {"seconds": seconds, "cpu": cpu, "value": estimate.value, "std_error": estimate.std_error}
    # what is stated before the work starts, if this version states it
    return answer | ({"forecast": forecasts[-1]} if forecasts else {})


def time_pass(log: bc.Log, policy: Any, rounds: int) -> dict[str, Any]:
    """Return the mean cost of a bare pass, without reward model and standard error, over half a second of passes."""
    from backcast.evaluators import PassInputs

    clock, nothing = bc.ClockReplay(pool=len(log)), np.zeros((1, log.n_actions))
    clock.run_pass(policy, PassInputs(log[:WARM_EVENTS], nothing, WARM_ROUNDS), None, np.random.SeedSequence(0))
    values: list[float] = []
    before, start = process_time(), perf_counter()
    # short passes are repeated: one of 40 milliseconds by itself is measured with an error of a tenth
    while not values or process_time() - before < PASS_SECONDS:
        result = clock.run_pass(policy, PassInputs(log, nothing, rounds), None, np.random.SeedSequence(len(values)))
        values.append(result.value)
    seconds, cpu = ((now - then) / len(values) for now, then in ((perf_counter(), start), (process_time(), before)))
    return {"seconds": seconds, "cpu": cpu, "passes": len(values), "value": float(np.mean(values))}


def main() -> None:
    kind, path, events, rounds, name = sys.argv[1:]
    log = read_events(path, int(events))
    policy = make_policy(name, log.n_actions, log.n_features)
    try:
        outcome = {"answer": time_answer, "pass": time_pass}[kind](log, policy, int(rounds))
    except (bc.EvaluationError, bc.HorizonNotReached) as error:
        outcome = {"error": type(error).__name__}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
