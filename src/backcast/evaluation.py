"""evaluate(): validate the arguments, choose an evaluator, return an Estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

from backcast._auto import resolve_evaluator
from backcast._parallel.jobs import Execution
from backcast._progress import show_progress
from backcast._request import EvaluationRequest, Evaluator, as_log, check_request, with_checkpoint
from backcast._validation import count
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.evaluators._disjoint_parts import estimate_segments
from backcast.intervals.learning import Segments
from backcast.io.stream import LogStream
from backcast.replay_summary import has_replay, summarize_replay


def evaluate(
    log: Any,
    policy: Any,
    evaluator: Any = "auto",
    *,
    reward_model: Any = None,
    horizon: int | None = None,
    interval: Any = None,
    level: float = 0.95,
    seed: int = 0,
    replicates: int | str | None = "default",
    exchangeable: bool | None = None,
    n_jobs: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: bool | Callable[[int], None] | None = None,
) -> Estimate:
    """Estimate what a policy would have earned on a log.

    Parameters
    ----------
    log
        A :class:`backcast.Log`, or a stream of parts from :func:`backcast.scan_log`.
    policy
        Anything with ``probabilities`` (and ``learn``, if it learns); a copy is run, never the object itself.
    evaluator
        How: ``DRns(...)``, ``WC()``, ``RS()``, ``Replay()``, ``DM()``, ``IPS()``, ...; "auto" chooses.
    reward_model
        What the doubly robust estimators lean on: a model, an honesty wrapper, an array, a number, or None for the
        default.
    horizon
        Rounds T that the policy would run for; None for one pass over the log.
    interval
        An interval in place of the evaluator's own, such as ``Segments()`` or ``TheoremTwo()``.
    level
        Level of the interval.
    seed
        Same seed, same answer.
    replicates
        Runs on subsets of the log for the standard error of a learning policy: a number, "auto" (until Monte-Carlo
        error is a small part of the total), or None for none. The default is "auto" for ClockReplay, None for DRns.
    exchangeable
        Whether the order of the log means nothing (a fixed logger, no drift): True lets "auto" permute it, False keeps
        its order, None looks for drift and warns of it.
    n_jobs
        Replicates run at once, -1 for one a core; None for one, or for what ``joblib.parallel_config`` says, be it a
        cluster. The answer does not depend on it.
    checkpoint
        A folder in which finished replicates are kept, and of a stream its parts or the state of a pass. The same
        question asked again goes on from there; another one is refused.
    time_limit
        Seconds that one replicate may take, after which the run ends with a :class:`backcast.WorkError`; None for any
        time.
    progress
        True for a progress bar, or a function that is told how many more events are done. It may raise
        :class:`backcast.StopEvaluation`: the answer then comes from what is done, and a note says so.

    Examples
    --------
    >>> from backcast.evaluators.drns import DRns
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 0, 1, 0], propensities=[0.5] * 4, reward_range=(0, 1))
    >>> evaluate(log, Fixed([0.5, 0.5]), DRns(q=0.0), reward_model=0.0).value
    0.5
    """
    check_request(policy, level, horizon, seed, time_limit)
    if isinstance(replicates, str) and replicates not in ("auto", "default"):
        raise OptionError(f"replicates is {replicates!r}; give a number, 'auto' or None")
    if isinstance(replicates, int):
        count("replicates", replicates)
    request = EvaluationRequest(
        log=as_log(log),
        policy=policy,
        reward_model=reward_model,
        horizon=horizon,
        interval=interval,
        level=level,
        seed=seed,
        replicates=replicates,
        policy_name=describe_policy(policy),
        execution=Execution(n_jobs, time_limit),
    )
    evaluator, request, notes = resolve_evaluator(evaluator, request, [policy], exchangeable)
    request = with_checkpoint(request, checkpoint, evaluator, {"policy": policy})
    with show_progress(request.log, progress) as on_progress:
        request = replace(request, execution=replace(request.execution, on_progress=on_progress))
        estimate = run_evaluator(evaluator, request)
    return replace(estimate, notes=(*notes, *estimate.notes))


def run_evaluator(evaluator: Evaluator, request: EvaluationRequest) -> Estimate:
    """Return the estimate of a complete request, on segments if these are its interval."""
    if isinstance(request.interval, Segments):
        estimate = estimate_segments(evaluator, request, request.interval)
    else:
        estimate = evaluator.estimate(request)
    return with_replay_summary(estimate, evaluator, request)


def with_replay_summary(estimate: Estimate, evaluator: Evaluator, request: EvaluationRequest) -> Estimate:
    """Return the estimate with further settings, its log, and a function that summarizes one of its passes."""
    settings = dict(estimate.settings)
    if request.reward_model is not None:
        shape = getattr(request.reward_model, "shape", None)
        given = f"predictions given, {' by '.join(map(str, shape))}" if shape else repr(request.reward_model)
        settings["reward_model"] = given
    log = request.log
    if isinstance(log, LogStream):
        return replace(estimate, settings=settings)
    settings["reward_range"] = list(log.reward_bounds)
    request = replace(request, horizon=estimate.horizon, execution=Execution())
    summarize = partial(summarize_replay, evaluator, request) if has_replay(evaluator, request) else None
    return replace(estimate, settings=settings, _replay_summary=summarize, _log=log)


def describe_policy(policy: object) -> str:
    """Return the name of a policy in results: its repr, or its class if that contains a memory address."""
    text = repr(policy)
    return type(policy).__name__ if " object at 0x" in text else text
