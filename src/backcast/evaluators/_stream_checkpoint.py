"""A pass over a stream that is kept as it goes, and goes on from where it was when it is asked for again.

Kept are the state of the run after some part, and of a policy that is not compiled also what it was taught since its
trajectory began: a file of lessons for each time that the state was kept. When a pass goes on, policy and reward model
are asked about the last events before that place, and must say what they said then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._parallel.checkpoint import Checkpoint
from backcast.errors import OptionError
from backcast.evaluators._reward_predictions import Guide, Model
from backcast.log import Log
from backcast.policies._calls import TrainingBatch, batch_from_arrays, batch_to_arrays, class_name_of, probabilities_of
from backcast.policies.base import is_learning
from backcast.policies.compiled import CompiledPolicy

if TYPE_CHECKING:
    from backcast.evaluators._replay import Course

EVERY = 5.0  # seconds between two times that the state is kept


SHARE = 20  # and at least so many times as long as keeping it takes


PROBE = 8  # events that policy and model are asked about


@dataclass
class Diary:
    """Keeps a course through a stream."""

    keep: Checkpoint
    course: Course
    guide: Guide
    _next: float = 0.0
    _files: range = range(0)
    _trajectories: int = field(default=-1)

    def begin(self, log: Any) -> Any:
        """What is left of the stream: all of it, or what comes after the place where the state was kept; or None."""
        if not hasattr(log, "after"):
            raise OptionError(
                f"a pass over a {type(log).__name__} cannot be kept; a checkpoint needs a log in memory or scan_log"
            )
        run = self.course.run
        if is_learning(run.policy) and not isinstance(run.policy, CompiledPolicy):
            run.lessons = []
        self._next = monotonic() + EVERY
        found = self.keep.get("state")
        if found is None:
            return log
        state, events = found.value, found.value["course"]["events"]
        self._files, self._trajectories = range(*state["files"]), len(state["course"]["run"]["complete"])
        last = log.after(events - state["probe"]).head(state["probe"])
        self.course.restore(state["course"], last, self._lessons())
        self.guide.restore(state["guide"])
        self._check_same(state["said"], self._said(last))
        self.course.on_progress(events)
        return log.after(events)

    def note(self, part: Log, *, last: bool = False) -> None:
        """Keep the state after this part, if it is time to."""
        if not last and monotonic() < self._next:
            return
        started = monotonic()
        self._keep_lessons()
        state = {
            "course": self.course.state(),
            "guide": self.guide.state(),
            "files": [self._files.start, self._files.stop],
            "probe": min(PROBE, len(part)),
            "said": self._said(part[-PROBE:]),
        }
        self.keep.put("state", state)
        self._next = monotonic() + max(EVERY, SHARE * (monotonic() - started))

    def _keep_lessons(self) -> None:
        """Put down what was taught since the last time; lessons of trajectories that are over are left behind."""
        run = self.course.run
        if len(run.trajectories) != self._trajectories:
            self._files, self._trajectories = range(self._files.stop, self._files.stop), len(run.trajectories)
        if run.lessons:
            self.keep.put(f"lessons-{self._files.stop}", [batch_to_arrays(lesson) for lesson in run.lessons])
            self._files = range(self._files.start, self._files.stop + 1)
            run.lessons.clear()

    def _lessons(self) -> list[TrainingBatch]:
        lessons: list[TrainingBatch] = []
        for number in self._files:
            found = self.keep.get(f"lessons-{number}")
            if found is None:
                raise OptionError(
                    f"the checkpoint has lost what the policy was taught (lessons-{number}), so this run cannot go on "
                    "from it; remove the folder and start again"
                )
            lessons += [batch_from_arrays(lesson) for lesson in found.value]
        return lessons

    def _said(self, log: Log) -> dict[str, Any]:
        """What policy and reward model say of these events."""
        said: dict[str, Any] = {}
        if self.course.run._twin is not None:
            said[class_name_of(self.course.run.policy)] = probabilities_of(self.course.run._twin, log)
        if isinstance(self.guide, Model):
            said[class_name_of(self.guide.model)] = np.asarray(self.guide.model.predict(log.contexts))
        return said

    def _check_same(self, then: dict[str, Any], now: dict[str, Any]) -> None:
        for name, said in then.items():
            if not np.array_equal(said, now[name]):
                raise OptionError(
                    f"{name} did not come back to what it was when it was given the same events again, so this run "
                    "cannot go on from its checkpoint; remove the folder and start again. What it does may depend on "
                    "nothing but what it was taught and the generator that start() hands it"
                )
