"""Ctrl-C: the estimate so far is printed, and the exit code is 130."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backcast.cli.signals import HANDLED, watch_signals
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
# A policy whose pass takes minutes, in compiled code or in Python; SIGTERM is sent half a second after its start.
LONG = """
import os, pathlib, signal, sys, threading, time
import numpy as np
import backcast as bc
from backcast._engine import clock

def send(number):
    pathlib.Path("sent").write_text(str(time.time()))
    os.kill(os.getpid(), number)

def compiled():
    small = bc.Log(np.ones((4, 40)), actions=[0, 1] * 2, rewards=[0, 1] * 2, propensities=[0.5] * 4)
    bc.evaluate(small, bc.LinUCB(), bc.ClockReplay(), horizon=1, reward_model=0.0, replicates=None)  # compiles the loop
    run_compiled = clock._run_compiled

    def run_and_signal(policy, *arguments):
        if isinstance(policy, bc.LinUCB):
            threading.Timer(0.5, send, [signal.SIGTERM]).start()
        return run_compiled(policy, *arguments)

    clock._run_compiled = run_and_signal
    return bc.LinUCB()

class Python:
    batch_size = 1

    def probabilities(self, contexts, available=None):
        threading.Timer(0.5, send, [signal.SIGTERM]).start()
        try:
            time.sleep(300)
        except Exception:
            pass
        return np.full((len(contexts), 2), 0.5)

    def learn(self, contexts, actions, rewards, probabilities):
        pass

class Deaf:
    def probabilities(self, contexts, available=None):
        threading.Timer(0.2, send, [signal.SIGINT]).start()
        threading.Timer(0.4, send, [signal.SIGINT]).start()
        while True:
            try:
                time.sleep(1)
            except BaseException:
                pass
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
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted: no estimate was finished\n")

    @pytest.mark.parametrize("evaluator", ["dr", "dr-ns"])
    def test_a_stream_ends_with_a_message(self, evaluator: str, folder: Path) -> None:
        (folder / "halts.py").write_text(
            "import os, signal\n"
            "class Halts:\n"
            "    def probabilities(self, contexts, available=None):\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "        return [[0.5, 0.5]] * len(contexts)\n"
        )
        words = f"evaluate {LOG_AND_COLUMNS} --stream --evaluator {evaluator} --policy halts:Halts --quiet"
        done = run_process(words)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted: no estimate was finished\n")

    def test_handlers_are_restored(self) -> None:
        before = [signal.getsignal(number) for number in HANDLED]
        with watch_signals() as signals:
            assert all(signal.getsignal(number) == signals.handle for number in HANDLED)
            signals.raise_if_received()
        assert [signal.getsignal(number) for number in HANDLED] == before


class TestLongPass:
    @pytest.fixture(autouse=True)
    def policies(self, folder: Path) -> None:
        (folder / "long.py").write_text(LONG)

    @staticmethod
    def run_until_stopped(words: str) -> subprocess.CompletedProcess[str]:
        done = run_process(words)
        # 1 s on an idle core, where the pass itself would take minutes
        assert time.time() - float(Path("sent").read_text()) < 15
        return done

    def test_sigterm_ends_a_compiled_pass(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        n = 20_000
        columns = {f"f{i}": rng.normal(size=n) for i in range(40)}
        columns |= {"shown": (rng.random(n) < 0.5).astype(float), "click": (rng.random(n) < 0.5).astype(float)}
        pq.write_table(pa.table({**columns, "p": np.full(n, 0.5)}), folder / "log.parquet")
        done = self.run_until_stopped(
            "evaluate log.parquet --context 'f*' --action shown --reward click --propensity p --evaluator clock "
            "--horizon 8000 --replicates none --policy a=round-robin:batch_size=8000 --policy b=long:compiled --json "
            "--jobs 1"  # one pass, one signal
        )
        assert done.returncode == 143
        document = json.loads(done.stdout)
        assert (document["partial"], list(document["estimates"])) == (True, ["a"])
        assert done.stderr == "stopped before b\ninterrupted\n"

    def test_sigterm_ends_a_policy_in_python(self) -> None:
        done = self.run_until_stopped(f"evaluate {CLOCK} --policy long:Python --json")
        assert done.returncode == 143
        assert json.loads(done.stdout)["error"] == {
            "kind": "StopEvaluation",
            "message": "interrupted: no estimate was finished",
            "exit_code": 143,
        }

    def test_the_second_signal_ends_a_process_that_does_not_react(self) -> None:
        done = self.run_until_stopped(f"evaluate {LOG_AND_COLUMNS} --evaluator ips --policy long:Deaf --quiet")
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
