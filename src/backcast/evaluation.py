"""The front door: one question, one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

from backcast._auto import resolve_evaluator
from backcast._parallel.jobs import no_progress
from backcast._request import EvaluationRequest, Evaluator, check_request, with_checkpoint
from backcast._validation import count
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.evaluators._disjoint_parts import segmented_estimate
from backcast.evaluators.clock_replay import ClockReplay
from backcast.intervals.learning import Segments
from backcast.policies._calls import describe_policy
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
    """Say what a policy would have earned on a log.

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
    request = EvaluationRequest(
        log=log,
        policy=policy,
        reward_model=reward_model,
        horizon=horizon,
        interval=interval,
        level=level,
        seed=seed,
        replicates=_replicates(replicates),
        n_jobs=n_jobs,
        time_limit=time_limit,
        policy_name=describe_policy(policy),
    )
    chosen, request, why = resolve_evaluator(evaluator, request, [policy], exchangeable)
    request = with_checkpoint(checkpoint, request, chosen, {"policy": policy})
    with showing_progress(log, progress) as tell:
        answer = answer_with(chosen, replace(request, on_progress=tell))
    return replace(answer, notes=(*why, *answer.notes))


def answer_with(evaluator: Evaluator, request: EvaluationRequest) -> Estimate:
    """Put a complete question to an evaluator."""
    if request.replicates == "default":
        request = replace(request, replicates="auto" if isinstance(evaluator, ClockReplay) else None)
    if isinstance(request.interval, Segments):
        return with_replay_summary(segmented_estimate(evaluator, request, request.interval), evaluator, request)
    return with_replay_summary(evaluator.estimate(request), evaluator, request)


def with_replay_summary(estimate: Estimate, evaluator: Evaluator, request: EvaluationRequest) -> Estimate:
    """The estimate with what else its question held, and with the means to look at its log and at one of its runs."""
    model = {} if request.reward_model is None else {"reward_model": _model_words(request.reward_model)}
    if not request.in_memory:
        return replace(estimate, settings={**estimate.settings, **model})
    settings = {**estimate.settings, **model, "reward_range": list(request.log.reward_bounds)}
    own = replace(request, horizon=estimate.horizon, on_progress=no_progress)
    look = partial(summarize_replay, evaluator, own) if has_replay(evaluator, own) else None
    return replace(estimate, settings=settings, _replay_summary=look, _log=request.log)


def _model_words(model: Any) -> str:
    """How settings call a reward model: an array of predictions by its shape, all else as it is written."""
    shape = getattr(model, "shape", None)
    return repr(model) if not shape else f"predictions given, {' by '.join(map(str, shape))}"


def _replicates(asked: int | str | None) -> int | str | None:
    if isinstance(asked, str) and asked not in ("auto", "default"):
        raise OptionError(f"replicates is {asked!r}; give a number, 'auto' or None")
    return asked if asked is None or isinstance(asked, str) else count("replicates", asked)


@contextmanager
def showing_progress(log: Any, progress: bool | Callable[[int], None] | None) -> Iterator[Callable[[int], None]]:
    """A function to tell of events done: the caller's, a progress bar's, or nobody's."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda events: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from backcast._kernels.jit import COMPILING, telling_of_compilation

    total = len(log) if hasattr(log, "__len__") else log.n_rows
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, transient=True) as bar, telling_of_compilation(lambda: bar.console.print(COMPILING)):
        task = bar.add_task("events", total=total)
        yield lambda events: bar.advance(task, events)
