"""Ctrl-C: the estimate so far is printed, and the exit code is 130."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backcast.cli.progress import catch_interrupt
from tests.support.cli import LOG_AND_COLUMNS, golden, run_process, tidy, write_click_log


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_click_log(folder / "log.csv")
    return folder


# A policy that learns five times per pass, and sends a signal to its process after ``at`` updates.
STOPS = """
import os, signal
import numpy as np

class Stops:
    learnt = 0

    def __init__(self, at=100):
        self.at, self.sums, self.counts = at, np.ones(2), np.full(2, 2.0)

    def probabilities(self, contexts, available=None):
        best = np.arange(2) == np.argmax(self.sums / self.counts)
        return np.tile(np.where(best, 0.9, 0.1), (len(contexts), 1))

    def learn(self, contexts, actions, rewards, probabilities):
        np.add.at(self.sums, actions, rewards)
        np.add.at(self.counts, actions, 1)
        Stops.learnt += 1
        if Stops.learnt == self.at:
            os.kill(os.getpid(), signal.SIGINT)
"""
CLOCK = f"{LOG_AND_COLUMNS} --evaluator clock --horizon 5"


class TestInterrupt:
    @pytest.fixture(autouse=True)
    def policy(self, folder: Path) -> None:
        (folder / "stops.py").write_text(STOPS)

    def test_the_estimate_so_far_is_printed(self) -> None:
        done = run_process(f"evaluate {CLOCK} --policy a=stops:Stops --policy b=ucb1 --save-json result.json")
        assert done.returncode == 130
        assert tidy(done.stdout) == golden("partial.txt")
        lines = done.stderr.strip().splitlines()
        assert lines[0] == "stopping: the estimate so far follows; press Ctrl-C again to leave at once"
        assert lines[1] == "stopped before b"
        assert lines[-1] == "interrupted"
        assert json.loads(Path("result.json").read_text())["partial"] is True

    def test_so_is_the_comparison(self) -> None:
        done = run_process(f"compare {CLOCK} --policy a=stops:Stops --policy b=ucb1 --json")
        assert done.returncode == 130
        document = json.loads(done.stdout)
        assert document["partial"] is True
        assert list(document["estimates"]) == ["a", "b"]
        assert len(document["differences"]) == 1
        assert done.stderr == "interrupted\n"

    def test_nothing_is_printed_before_the_first_estimate(self) -> None:
        done = run_process(
            f"evaluate {LOG_AND_COLUMNS} --evaluator dr-ns --horizon 300 --policy 'stops:Stops:at=1' --quiet"
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")

    def test_the_handler_is_restored(self) -> None:
        import signal

        before = signal.getsignal(signal.SIGINT)
        with catch_interrupt(quiet=True) as interrupt:
            assert signal.getsignal(signal.SIGINT) is not before
            interrupt.raise_if_requested()
        assert signal.getsignal(signal.SIGINT) is before
