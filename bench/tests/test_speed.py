"""The speed comparison's own parts, as far as they need no peer."""

from __future__ import annotations

import numpy as np

from bench.speed.data import ColumnSpec, WeightTransform, columns, vw_event
from bench.speed.report import table, times
from bench.speed.run import quicker
from bench.speed.timing import Job, Timing, timed


def test_vw_event_has_a_shared_line_and_one_labelled_action() -> None:
    log = ColumnSpec(np.array([[0.5, -1.25]]), np.array([1]), np.array([1.0]), np.array([0.25]))
    assert vw_event(log, 0, n_actions=3) == "shared |x 0:0.5 1:-1.25\n|a 0\n0:-1:0.25 |a 1\n|a 2\n\n"


def test_contexts_survive_the_text_format() -> None:
    log = columns(WeightTransform(events=50, actions=3, features=4))
    written = [vw_event(log, k, 3).splitlines()[0].split()[2:] for k in range(50)]
    assert [[float(item.split(":")[1]) for item in row] for row in written] == log.contexts.tolist()


def test_a_job_is_timed_and_reported() -> None:
    timing = timed(Job("system", "work", lambda: (0.5, 3)), events=10)
    assert (timing.value, timing.accepted, timing.events) == (0.5, 3, 10)
    assert timing.rate == 10 / timing.seconds > 0


def test_the_best_round_counts_and_a_failure_only_alone() -> None:
    slow, quick = (Timing("s", "w", 10, seconds, 0.0) for seconds in (2.0, 1.0))
    assert quicker(slow, quick) == quicker(quick, slow) == quicker(quick, "failed") == quicker("failed", quick) == quick
    assert quicker(None, "failed") == "failed"


def test_markdown() -> None:
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert (times(812.4), times(0.6123)) == ("812×", "0.61×")
