"""Jobs and their workers: workers that die, hang, raise errors, or cannot be sent their arguments."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import backcast as bc
from backcast._parallel import workers
from backcast._parallel.jobs import Execution, JobResults, run_jobs
from backcast._parallel.workers import Job, SharedArguments
from tests.support.logs import two_action_log
from tests.support.policies import FollowTheLeader

# worker processes are sent the functions below by value: they need not find this file
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def jobs(count: int) -> list[Job]:
    return [Job(("job", n), (n,), events=1) for n in range(count)]


def square(place: Path, n: int) -> int:
    return n * n


def dies_once(place: Path, n: int) -> int:
    """The worker of job 3 is killed the first time, as the kernel does when memory runs out."""
    mark = place / "died"
    if n == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return n * n


def dies(place: Path, n: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def hangs(place: Path, n: int) -> int:
    (place / f"{n}.pid").write_text(str(os.getpid()))
    if n == 1:
        time.sleep(600)
    return n


def hangs_where_no_signal_is_heard(place: Path, n: int) -> int:
    """As a compiled loop does."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    return hangs(place, n)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def gone(place: Path) -> bool:
    """Whether all processes that said their number are gone, or will be in a moment."""
    pids = [int(path.read_text()) for path in place.glob("*.pid")]
    for _ in range(100):
        if not any(map(alive, pids)):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.xdist_group("processes")
class TestProcesses:
    def test_work_of_a_worker_that_was_killed_is_done_by_another(self, tmp_path: Path) -> None:
        result = run_jobs(dies_once, SharedArguments(tmp_path), jobs(8), Execution(n_jobs=2))
        assert (tmp_path / "died").exists()
        assert (
            result
            == run_jobs(square, SharedArguments(tmp_path), jobs(8), Execution())
            == JobResults([n * n for n in range(8)], False)
        )

    def test_workers_that_die_again_and_again_end_the_run(self, tmp_path: Path) -> None:
        with pytest.raises(bc.WorkError, match=r"died 3 times in a row while running job 0 .*memory ran out.*n_jobs"):
            run_jobs(dies, SharedArguments(tmp_path), jobs(4), Execution(n_jobs=2))

    def test_a_piece_that_hangs_ends_the_run_and_leaves_no_process(self, tmp_path: Path) -> None:
        with pytest.raises(bc.WorkError, match=r"^job 1 took longer than time_limit = 0.5 seconds; does the policy"):
            run_jobs(hangs, SharedArguments(tmp_path), jobs(4), Execution(n_jobs=2, time_limit=0.5))
        assert gone(tmp_path)

    def test_so_does_one_that_does_not_listen(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(workers, "KILL_AFTER", 1.0)
        with pytest.raises(bc.WorkError, match=r"^job ., or a job sent out with it, took longer than"):
            run_jobs(
                hangs_where_no_signal_is_heard, SharedArguments(tmp_path), jobs(4), Execution(n_jobs=2, time_limit=2)
            )
        assert gone(tmp_path)

    @pytest.mark.parametrize("policy", [bc.UCB1(), FollowTheLeader()], ids=["threads", "processes"])
    def test_all_cores_say_the_same_as_one(self, policy: Any) -> None:
        options: dict[str, Any] = {"horizon": 5, "reward_model": 0.5, "replicates": 60}
        first, every = (
            bc.evaluate(two_action_log(), policy, bc.ClockReplay(), **options, n_jobs=n_jobs).to_dict()
            for n_jobs in (1, -1)
        )
        assert first == every

    def test_arrays_are_mapped_and_not_sent(self) -> None:
        rng = np.random.default_rng(0)
        n = 10_000
        log = bc.Log(rng.normal(size=(n, 2)), rng.integers(2, size=n), rng.random(n), np.full(n, 0.5))
        (kinds,) = run_jobs(kinds_of, SharedArguments(log), [Job(("kinds",), (), 0)], Execution(n_jobs=2)).results
        # writable, else every pass would make a copy of its own
        assert kinds == dict.fromkeys(("contexts", "actions", "rewards", "propensities"), ("memmap", True))

    def test_what_cannot_be_sent_is_said(self) -> None:
        with pytest.raises(bc.OptionError, match=r"cannot be sent to other processes .*lock.*n_jobs=1"):
            run_jobs(square, SharedArguments(threading.Lock()), jobs(4), Execution(n_jobs=2))


def kinds_of(log: bc.Log) -> dict[str, tuple[str, bool]]:
    columns = {name: getattr(log.columns, name) for name in ("contexts", "actions", "rewards", "propensities")}
    return {name: (type(origin(column)).__name__, bool(column.flags.writeable)) for name, column in columns.items()}


def origin(column: Any) -> Any:
    """The array whose memory this one looks at."""
    while isinstance(column.base, np.ndarray):
        column = column.base
    return column


def test_alone_a_piece_that_hangs_is_interrupted(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(bc.WorkError, match=r"job 1 took longer than time_limit = 0\.2 seconds"):
        run_jobs(hangs, SharedArguments(tmp_path), jobs(4), Execution(n_jobs=1, time_limit=0.2))
    assert time.monotonic() - started < 60
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class Swallows:
    """A policy that catches every exception, and hangs."""

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        try:
            time.sleep(600)
        except Exception:
            return np.full((len(contexts), 2), 0.5)

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        pass


def test_a_policy_cannot_catch_the_limit() -> None:
    with pytest.raises(bc.WorkError, match=r"the first calls of the policy took longer than time_limit = 0\.2 seconds"):
        bc.evaluate(two_action_log(), Swallows(), bc.ClockReplay(), horizon=5, reward_model=0.5, time_limit=0.2)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_is_a_time(limit: float) -> None:
    with pytest.raises(bc.OptionError, match="time_limit is"):
        bc.evaluate(two_action_log(), bc.UCB1(), time_limit=limit)


class Fails:
    """Fails in one of its runs, by chance of the run."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.fine = rng.random() < 0.9

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        if not self.fine:
            raise KeyError("weights")
        return np.full((len(contexts), 2), 0.5)

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        pass


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.xdist_group("processes")
def test_a_policy_that_raises_is_named_with_its_run(n_jobs: int) -> None:
    with pytest.raises(bc.PolicyError) as caught:
        bc.evaluate(two_action_log(), Fails(), bc.ClockReplay(), horizon=5, reward_model=0.5, n_jobs=n_jobs)
    message = str(caught.value)
    assert message.startswith("Fails.probabilities failed on rows 0..399: KeyError: 'weights' (pass ")
    assert "\n" not in message
