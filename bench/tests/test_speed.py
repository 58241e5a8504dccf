"""The parts of the speed comparison that need no peer."""

from __future__ import annotations

import numpy as np

from bench.speed.cases import Case, Comparison, list_comparisons
from bench.speed.data import LogColumns, LogShape, format_vw_event, make_columns
from bench.speed.run import faster
from bench.speed.tables import comparisons_table
from bench.speed.timing import PreparedRun, Timing, measure_time


def test_vw_event_has_a_shared_line_and_one_labelled_action() -> None:
    log = LogColumns(np.array([[0.5, -1.25]]), np.array([1]), np.array([1.0]), np.array([0.25]))
    assert format_vw_event(log, 0, n_actions=3) == "shared |x 0:0.5 1:-1.25\n|a 0\n0:-1:0.25 |a 1\n|a 2\n\n"


def test_the_text_format_preserves_contexts() -> None:
    log = make_columns(LogShape(events=50, actions=3, features=4))
    written = [format_vw_event(log, k, 3).splitlines()[0].split()[2:] for k in range(50)]
    assert [[float(item.split(":")[1]) for item in row] for row in written] == log.contexts.tolist()


def test_a_run_is_timed() -> None:
    timing = measure_time(PreparedRun("system", "work", lambda: (0.5, 3)), events=10)
    assert (timing.value, timing.accepted, timing.events) == (0.5, 3, 10)
    assert timing.rate == 10 / timing.seconds > 0


def test_the_fastest_round_counts_and_a_failure_only_without_timing() -> None:
    slow, quick = (Timing("s", "w", 10, seconds, 0.0) for seconds in (2.0, 1.0))
    assert faster(slow, quick) == faster(quick, slow) == faster(quick, "failed") == faster("failed", quick) == quick
    assert faster(None, "failed") == "failed"


def test_ratios_are_on_the_same_events_for_both_sides() -> None:
    ours, peer = Case("ours", "linucb", 1000, (1000, 2, 2)), Case("peer_coba", "linucb", 10, (1000, 2, 2))
    comparison = Comparison("LinUCB", ours, peer, goal=3)
    results: dict[Case, Timing | str] = {
        peer: Timing("coba", "LinUCB", 10, 1.0, 0.0),
        ours: Timing("backcast", "LinUCB", 1000, 1.0, 0.0),
        ours.with_limit(10): Timing("backcast", "LinUCB", 10, 0.5, 0.0),
    }
    assert comparisons_table([comparison], results).splitlines()[-1] == "| LinUCB | coba | 10 | 2.00× | 3× | no |"


def test_one_comparison_is_the_default_call() -> None:
    assert [c.work for c in list_comparisons() if c.ours.runner == "default"] == [
        "epsilon-greedy linear, the default call"
    ]
