"""Evaluators of other authors, written with public names of backcast only: a queue per action, PSRS and BRED.

Mandel, Liu, Brunskill, Popovic, "The Queue Method: Handling Delay, Heuristics, Prior Data, and Evaluation in Bandits",
AAAI 2015; the same, "Offline Evaluation of Online Reinforcement Learning Algorithms", AAAI 2016; Nicol, Mary, Preux,
"Improving Offline Evaluation of Contextual Bandit Algorithms via Bootstrapping Techniques", ICML 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import backcast as bc
from backcast.diagnostics import PrintedDiagnostics
from backcast.evaluators import EvaluationRequest, PassEvaluator, PassInputs, PassResult, PolicyRun

Rows = npt.NDArray[np.int64]
PROBES = 20  # events at which a policy is scored to see whether it ignores contexts


@dataclass(frozen=True)
class Queue(PassEvaluator):
    """One queue of events for each action: the policy draws an action, and its next event is what happened.

    Exact for a policy that ignores contexts, on a log whose logger ignored them too: otherwise the events of one action
    are no sample of its rewards. A pass ends when the queue of the drawn action is empty.
    """

    def run_pass(self, policy: Any, inputs: PassInputs, rows: Rows | None, seed: np.random.SeedSequence) -> PassResult:
        """Simulate the policy until a queue is empty."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(inputs.log) if rows is None else rows)
        actions = inputs.log.actions[order]
        # popped from their ends
        queues = [order[actions == action].tolist() for action in range(inputs.log.n_actions)]
        rewards: list[float] = []
        run = PolicyRun(policy, inputs.log, rng)
        probabilities = _context_free_probabilities(run, inputs.log)
        while len(rewards) < inputs.horizon:
            action = int(rng.choice(probabilities.size, p=probabilities))
            if not queues[action]:
                break
            row = queues[action].pop()
            rewards.append(inputs.log.rewards[row])
            if run.accept(row, float(probabilities[action])):
                probabilities = run.probabilities([0])[0]
        return PassResult.from_rounds(np.array(rewards), inputs.horizon)


def _context_free_probabilities(run: PolicyRun, log: bc.Log) -> npt.NDArray[np.float64]:
    """Return the probabilities of a policy that ignores contexts; raise if policy or logger depend on them."""
    propensities = np.full(log.n_actions, np.nan)
    propensities[log.actions] = log.propensities
    if not np.allclose(log.propensities, propensities[log.actions]):
        raise bc.EvaluationError("a queue needs a logger that ignores contexts: one propensity for each action")
    table = run.probabilities(np.linspace(0, len(log) - 1, PROBES).astype(np.int64))
    if not np.allclose(table, table[0]):
        raise bc.EvaluationError("a queue needs a policy that ignores contexts; use PSRS or ClockReplay")
    return np.asarray(table[0])


@dataclass(frozen=True)
class PSRS(PassEvaluator):
    """Per-state rejection sampling: a queue for each context, whose events are accepted by ``pi / (M mu)``.

    ``M`` is the largest ratio ``pi/mu`` of an action in the present state of the policy, the least that rejection
    sampling needs. Needs few distinct contexts and the logger's probabilities of all actions. The context of each round
    is drawn from those of the log. A pass ends when the queue of the drawn context is empty.
    """

    most_states: int = 100

    def run_pass(self, policy: Any, inputs: PassInputs, rows: Rows | None, seed: np.random.SeedSequence) -> PassResult:
        """Simulate the policy until a queue is empty."""
        rng = np.random.default_rng(seed)
        log = inputs.log
        order = rng.permutation(len(log) if rows is None else rows)
        _, first, states = np.unique(np.asarray(log.contexts)[order], axis=0, return_index=True, return_inverse=True)
        if first.size > self.most_states:
            raise bc.EvaluationError(f"PSRS has a queue for each context, and the log has {first.size} of them")
        queues = [order[states.ravel() == state].tolist() for state in range(first.size)]
        logging = _logging_probabilities(log)
        arrivals = states.ravel()[rng.integers(order.size, size=inputs.horizon)]
        rewards: list[float] = []
        run = PolicyRun(policy, log, rng)
        target = run.probabilities(order[first])
        for state in arrivals:
            accepted = None
            while accepted is None and queues[state]:
                row = queues[state].pop()
                ratios = np.divide(target[state], logging[row], out=np.zeros(log.n_actions), where=target[state] > 0)
                if rng.random() * ratios.max() <= ratios[log.actions[row]]:
                    accepted = row
            if accepted is None:
                break
            rewards.append(log.rewards[accepted])
            if run.accept(accepted, float(target[state, log.actions[accepted]])):
                target = run.probabilities(order[first])
        return PassResult.from_rounds(np.array(rewards), inputs.horizon)


def _logging_probabilities(log: bc.Log) -> npt.NDArray[np.float64]:
    if log.logging_probabilities is not None:
        return log.logging_probabilities
    if not np.allclose(log.propensities * log.n_actions, 1.0):
        raise bc.EvaluationError("PSRS needs the logger's probabilities of all actions, or a uniform log")
    return np.full((len(log), log.n_actions), 1 / log.n_actions)


@dataclass(frozen=True)
class BootstrapDiagnostics(PrintedDiagnostics):
    """Diagnostics of BRED."""

    events: int
    rounds: int
    bootstraps: int
    repeated_share: float
    propensities_estimated: bool = False


@dataclass(frozen=True)
class BRED:
    """Bootstrapped replay on expanded data: replay on events drawn with replacement, on average over bootstraps.

    For uniform logs. Events drawn with replacement are never exhausted, so any horizon is reached; a policy that learns
    meets the same event again, which no live policy does (``repeated_share``); ``jitter`` is the deviation of normal
    noise that the authors add to contexts against that. The spread over bootstraps is that of single runs, so there is
    no standard error.
    """

    bootstraps: int = 50
    jitter: float = 0.0

    def estimate(self, request: EvaluationRequest) -> bc.Estimate:
        """Return the mean of replays."""
        log, horizon = request.log, request.horizon
        if not isinstance(log, bc.Log) or horizon is None:
            raise bc.EvaluationError("BRED needs a log in memory and a horizon")
        if not np.allclose(log.propensities * log.n_actions, 1.0):
            raise bc.NeedsUniformLog("BRED needs a uniform log; use PSRS or ClockReplay")
        seeds = [[int(seed)] for seed in request.generator().integers(2**62, size=self.bootstraps)]
        shared = [request.policy, self._jittered(log, request), horizon]
        results = np.array(request.run_jobs(replay_bootstrap, shared, seeds, events=len(log)))
        return bc.Estimate(
            value=float(results[:, 0].mean()),
            std_error=math.nan,
            interval=None,
            diagnostics=BootstrapDiagnostics(len(log), horizon, len(results), float(results[:, 1].mean())),
            policy=request.policy_name,
            evaluator=f"BRED x {self.bootstraps}",
            horizon=horizon,
            notes=("The spread over bootstraps is that of single runs and no standard error.",),
            settings={"seed": request.seed, "bootstraps": self.bootstraps},
            pass_values=results[:, 0],
        )

    def _jittered(self, log: bc.Log, request: EvaluationRequest) -> bc.Log:
        if self.jitter == 0:
            return log
        contexts = np.asarray(log.contexts)
        noise = self.jitter * request.generator(1).standard_normal(contexts.shape)
        return bc.Log(contexts + noise, log.actions, log.rewards, log.propensities, n_actions=log.n_actions)


def replay_bootstrap(policy: Any, log: bc.Log, horizon: int, seed: int) -> tuple[float, float]:
    """Return the mean reward of a replay on events drawn with replacement, and the share of events it met before."""
    rng = np.random.default_rng(seed)
    accepted: list[int] = []
    run = PolicyRun(policy, log, rng)
    while len(accepted) < horizon:
        rows = rng.integers(len(log), size=log.n_actions * (horizon - len(accepted)))
        target, start = run.probabilities(rows), 0
        for k, row in enumerate(rows):
            probability = float(target[k - start, log.actions[row]])
            # a uniform log: events are accepted in proportion to the policy's probability of their action
            if rng.random() > probability or len(accepted) == horizon:
                continue
            accepted.append(int(row))
            if run.accept(int(row), probability) and k + 1 < rows.size:
                target, start = run.probabilities(rows[k + 1 :]), k + 1
    return float(log.rewards[accepted].mean()), 1 - np.unique(accepted).size / horizon
