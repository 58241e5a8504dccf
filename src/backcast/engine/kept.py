"""The state of a run between two parts of the log as plain arrays, and a run that goes on from there.

A compiled policy is its arrays. Any other policy is what it was taught: a fresh copy is given the same lessons again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast.arrays import Contexts, is_sparse
from backcast.engine.events import RUN, Curve
from backcast.engine.quantile import RunningQuantile
from backcast.engine.run import Run
from backcast.engine.scoring import Lesson, fresh_copy, give
from backcast.engine.trajectory import Trajectory
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy

__all__ = ["lesson_from", "plain_lesson", "restore_run", "run_state"]

NONE: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


def run_state(run: Run) -> dict[str, Any]:
    """All that a run has come to; it must be between two parts, and keep no record of accepted events."""
    assert not run.keep_order
    done = np.array([trajectory.sums for trajectory in run.trajectories], dtype=RUN)
    state: dict[str, Any] = {
        "done": _bare(done),
        "complete": np.array([trajectory.complete for trajectory in run.trajectories], dtype=np.bool_),
        "curve": list(run.curve),
        "ratios": None if run._ratios is None else list(run._ratios),
        "twin": None,
    }
    if run._twin is not None:
        state["twin"] = {
            "sums": _bare(run._sums),
            "due": int(run._due),
            "waiting": [plain_lesson(lesson) for lesson in run._waiting],
            "policy": list(_leaves(run._twin._state)) if isinstance(run._twin, CompiledPolicy) else None,
        }
    return state


def restore_run(run: Run, state: dict[str, Any], log: Log, lessons: Iterable[Lesson]) -> None:
    """Bring a new run to a state; ``log`` are any events of its log, ``lessons`` those of the present trajectory."""
    sums = _record(state["done"])
    run.trajectories[:] = [
        Trajectory(own, bool(complete), NONE, NONE.astype(np.float64))
        for own, complete in zip(sums, state["complete"], strict=True)
    ]
    run.curve = Curve(*state["curve"])
    run._ratios = None if state["ratios"] is None else RunningQuantile(*state["ratios"])
    # every trajectory took a stream of randomness of its own
    run.rng.spawn(len(run.trajectories))
    twin = state["twin"]
    if twin is None:
        return
    run._enter(fresh_copy(run.policy, log, run.rng.spawn(1)[0]))
    run._watch(_record(twin["sums"]))
    run._due = twin["due"]
    run._waiting = [lesson_from(lesson) for lesson in twin["waiting"]]
    if isinstance(run._twin, CompiledPolicy):
        _restore_policy(run._twin, twin["policy"], log)
    for lesson in lessons:
        give(run._twin, lesson)


def _restore_policy(policy: CompiledPolicy, kept: list[Any], log: Log) -> None:
    if kept:
        for own, was in zip(_leaves(policy.state_for(log._contexts)), kept, strict=True):
            if isinstance(own, np.ndarray):
                own[...] = was


def _leaves(state: Any) -> Iterator[Any]:
    """Arrays and numbers of a compiled policy's state, tuples inside it included, in order."""
    if isinstance(state, tuple):
        for part in state:
            yield from _leaves(part)
    elif state is not None:
        yield state


def _bare(records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    # all fields have eight bytes
    return np.ascontiguousarray(records).view(np.int64).copy()


def _record(bare: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return bare.view(RUN)


def plain_lesson(lesson: Lesson) -> list[Any]:
    """A lesson as arrays.

    >>> lesson = Lesson(np.zeros((1, 2)), np.array([1]), np.array([0.5]), np.array([0.25]), np.array([7]))
    >>> lesson_from(plain_lesson(lesson)) == lesson
    True
    """
    return [_plain_contexts(lesson.contexts), *lesson[1:]]


def lesson_from(plain: list[Any]) -> Lesson:
    """The lesson that :func:`plain_lesson` made plain."""
    contexts, *rest = plain
    if isinstance(contexts, list):
        import scipy.sparse

        values, indices, ends, width = contexts
        contexts = scipy.sparse.csr_array((values, indices, ends), shape=(ends.size - 1, width))
    return Lesson(contexts, *rest)


def _plain_contexts(contexts: Contexts) -> Any:
    if not is_sparse(contexts):
        return np.asarray(contexts)
    matrix: Any = contexts
    return [matrix.data, matrix.indices, matrix.indptr, int(matrix.shape[1])]
