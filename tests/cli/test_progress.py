"""The progress bar and what it is written to."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import backcast as bc
from backcast._progress import progress_bar
from backcast.cli.progress import watch_run
from backcast.cli.run import RunOptions


class TestProgress:
    @given(st.lists(st.lists(st.integers(0, 150), max_size=4), min_size=1, max_size=4))
    def test_a_task_never_shows_more_than_its_events(self, tasks: list[list[int]]) -> None:
        console = Console(file=io.StringIO(), force_terminal=True)
        with progress_bar(100, len(tasks), console=console) as bar:
            for number, steps in enumerate(tasks):
                bar.start_task(str(number))
                assert bar.completed == 100 * number
                for events in steps:
                    bar.advance(events)
                assert bar.completed == 100 * number + min(100, sum(steps))

    def test_speed_and_names_are_shown_on_a_terminal(self) -> None:
        stream = io.StringIO()
        with progress_bar(100, 1, console=Console(file=stream, force_terminal=True, width=100)) as bar:
            bar.start_task("[b]uniform[/b]")
            bar.advance(50)
            bar.advance(50)
        assert "[b]uniform[/b]" in stream.getvalue()
        assert "events/s" in stream.getvalue()

    def test_the_length_may_be_unknown(self) -> None:
        with progress_bar(None, 2, console=Console(file=io.StringIO(), force_terminal=True)) as bar:
            for number in range(2):
                bar.start_task(str(number))
                bar.advance(50)
        assert bar.completed == 100

    def test_nothing_is_written_without_a_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        with watch_run(100, 1, quiet=False) as run:
            run.start_task("uniform")
            run(100)
        assert capsys.readouterr() == ("", "")

    @pytest.mark.parametrize(("disable", "times"), [(False, 1), (True, 0)])
    def test_compilation_is_reported_once(self, disable: bool, times: int) -> None:
        from backcast._kernels.jit import uncached

        stream = io.StringIO()
        with progress_bar(1, 1, console=Console(file=stream), disable=disable):
            uncached(lambda: 1)()
            uncached(lambda: 2)()
        assert stream.getvalue().count("compiling, once") == times

    @pytest.mark.parametrize(
        ("policy", "evaluator", "keywords", "passes"),
        [
            (bc.UCB1(), "auto", {}, 1),
            (bc.UCB1(), "auto", {"horizon": 5}, 40),
            (bc.Uniform(), "auto", {"horizon": 5}, 1),
            (bc.UCB1(), "auto", {"horizon": 5, "exchangeable": False}, 1),
            (bc.UCB1(), "auto", {"horizon": 5, "replicates": None}, 1),
            (bc.UCB1(), bc.ClockReplay(), {"replicates": 60}, 60),
            (bc.UCB1(), bc.DRns(), {"horizon": 5}, 1),
        ],
    )
    def test_replicates_make_a_longer_bar(
        self, policy: Any, evaluator: Any, keywords: dict[str, Any], passes: int
    ) -> None:
        assert RunOptions({"policy": policy}, evaluator, keywords).count_passes() == passes
