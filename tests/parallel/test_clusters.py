"""Clusters of real processes: Dask and Ray give the answers of one process, to the bit, and survive a dead worker."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backcast as bc
from backcast._parallel import workers
from backcast._parallel.jobs import Execution, run_jobs
from backcast._parallel.workers import Job, SharedArguments
from backcast.cli import main
from backcast.cli import run as engines
from backcast.cli.run import Engine
from tests.support.policies import FollowTheLeader

pytestmark = pytest.mark.xdist_group("clusters")
# workers receive policies by value: they need not find the files of tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(sys.modules[FollowTheLeader.__module__])

EVENTS = 900


@pytest.fixture(scope="module")
def log() -> bc.Log:
    rng = np.random.default_rng(0)
    contexts, actions = rng.normal(size=(EVENTS, 2)), rng.integers(2, size=EVENTS)
    rewards = (rng.random(EVENTS) < np.where(actions == 1, 0.7, 0.4)).astype(float)
    return bc.Log(contexts, actions, rewards, np.full(EVENTS, 0.5), reward_range=(0, 1))


class KilledLeader(FollowTheLeader):
    """The first run kills its process if there is a path of a mark, which is created before."""

    def __init__(self, mark: str = "") -> None:
        super().__init__()
        self.mark, self.parent = mark, os.getpid()

    def __repr__(self) -> str:
        return "KilledLeader()"

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        if self.mark and os.getpid() != self.parent and rng.random() < 0.2:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)


class Hangs(KilledLeader):
    """Does not come back in a worker: in Python code, or in code that nothing interrupts before it returns."""

    def __init__(self, deaf: bool) -> None:
        super().__init__()
        self.deaf = deaf

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        while os.getpid() != self.parent:
            time.sleep(600 if self.deaf else 0.01)
        return super().probabilities(contexts, available)


def ask(log: bc.Log, policy: Any, **options: Any) -> str:
    keywords = {"horizon": 10, "reward_model": 0.5, "replicates": 60, **options}
    return json.dumps(bc.evaluate(log, policy, bc.ClockReplay(), **keywords).to_dict())


@pytest.fixture(scope="module")
def stream(log: bc.Log, tmp_path_factory: pytest.TempPathFactory) -> bc.LogStream:
    """The same events in a file that workers read for themselves."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    columns = {"f_0": log.contexts[:, 0], "f_1": log.contexts[:, 1], "action": log.actions, "reward": log.rewards}
    pq.write_table(pa.table(columns), path, row_group_size=128)
    words: dict[str, Any] = {"action": "action", "reward": "reward", "propensity": 0.5, "n_actions": 2}
    return bc.scan_log(path, context="f_*", reward_range=(0, 1), **words)


def ask_segments(stream: bc.LogStream) -> list[str]:
    """What a compiled policy and one in Python are worth in segments of a stream."""
    options: dict[str, Any] = {"horizon": 10, "reward_model": 0.5, "interval": bc.Segments(5)}
    result = [bc.evaluate(stream, policy, bc.DRns(q=0.05), **options) for policy in (bc.UCB1(), KilledLeader())]
    return [json.dumps(estimate.to_dict()) for estimate in result]


@pytest.fixture(scope="module")
def alone(log: bc.Log) -> list[str]:
    """What one process says."""
    return [ask(log, policy, n_jobs=1) for policy in (bc.UCB1(), KilledLeader())]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with LocalCluster(**options, dashboard_address=":0", host="127.0.0.1", silence_logs=50) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    from distributed import Client

    with Client(cluster) as client:
        yield client


class TestDask:
    def test_two_workers_say_the_same(self, log: bc.Log, alone: list[str], client: Any) -> None:
        with joblib.parallel_config(backend="dask"):
            assert [ask(log, policy) for policy in (bc.UCB1(), KilledLeader())] == alone

    def test_segments_of_a_stream_are_the_same_wherever_they_are_done(self, stream: bc.LogStream, client: Any) -> None:
        with joblib.parallel_config(backend="dask"):
            result = ask_segments(stream)
        assert result == ask_segments(stream)

    def test_the_log_travels_once_to_each_worker(self, log: bc.Log, client: Any) -> None:
        sent: list[int] = []
        scatter = client.scatter

        def counting(data: Any, **options: Any) -> Any:
            sent.append(1)
            return scatter(data, **options)

        client.scatter = counting
        with joblib.parallel_config(backend="dask", client=client):
            ask(log, KilledLeader())
        # passes, pilots and subsets are sent out one after another, and find it where it is
        assert len(sent) == 1

    def test_a_worker_killed_in_the_middle_changes_nothing(
        self, log: bc.Log, alone: list[str], client: Any, tmp_path: Path
    ) -> None:
        mark = tmp_path / "killed"
        with joblib.parallel_config(backend="dask"):
            result = ask(log, KilledLeader(str(mark)))
        assert mark.exists()
        assert result == alone[1]

    def test_a_worker_that_leaves_while_the_log_is_sent_changes_nothing(
        self, log: bc.Log, alone: list[str], client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scatter, tries = client.scatter, iter([KeyError("tcp://127.0.0.1:1")])

        def leaving(data: Any, **options: Any) -> Any:
            for problem in tries:
                raise problem
            return scatter(data, **options)

        monkeypatch.setattr(workers, "SCATTER_PAUSE", 0.0)
        client.scatter = leaving
        with joblib.parallel_config(backend="dask", client=client):
            assert ask(log, bc.UCB1()) == alone[0]
        assert next(tries, None) is None

    @pytest.mark.parametrize("deaf", [False, True])
    def test_a_policy_that_hangs_is_ended_and_the_cluster_goes_on(
        self, log: bc.Log, alone: list[str], client: Any, monkeypatch: pytest.MonkeyPatch, deaf: bool
    ) -> None:
        # workers work in threads, which no signal reaches; one that is deaf to exceptions too is ended after the grace
        monkeypatch.setattr(workers, "KILL_AFTER", 2.0)
        with joblib.parallel_config(backend="dask"):
            with pytest.raises(bc.WorkError, match=r"^pass \d+.* took longer than time_limit"):
                ask(log, Hangs(deaf), time_limit=1.0)
            monkeypatch.undo()
            assert ask(log, KilledLeader(), time_limit=60) == alone[1]

    def test_three_workers_say_the_same(self, log: bc.Log, alone: list[str], cluster: Any, client: Any) -> None:
        cluster.scale(3)
        client.wait_for_workers(3, timeout=60)
        with joblib.parallel_config(backend="dask"):
            assert [ask(log, policy) for policy in (bc.UCB1(), KilledLeader())] == alone

    def test_a_single_worker_does_the_work_and_says_the_same(
        self, log: bc.Log, alone: list[str], cluster: Any, client: Any
    ) -> None:
        cluster.scale(1)
        while len(client.scheduler_info()["workers"]) > 1:
            time.sleep(0.05)
        with joblib.parallel_config(backend="dask"):
            done = run_jobs(os.getpid, SharedArguments(), [Job(("where",), (), events=1)], Execution())
            assert ask(log, bc.UCB1()) == alone[0]
        assert done.results != [os.getpid()]

    def test_the_command_line_says_the_same(
        self, cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        news = tmp_path / "news.csv"
        assert main(["demo", "--log", str(news), "--quiet"]) == 0
        words = f"evaluate {news} --context reads_* --action article --reward clicked --propensity probability "
        words += "--policy ucb1 --evaluator clock --horizon 5 --replicates 60 --json"
        capsys.readouterr()
        printed = []
        for where in ("", f" --engine dask --scheduler {cluster.scheduler_address} --checkpoint {tmp_path / 'kept'}"):
            assert main((words + where).split()) == 0
            document = json.loads(capsys.readouterr().out)
            del document["provenance"]["ucb1"]["date"]
            printed.append(document)
        assert printed[0] == printed[1]
        assert len(list((tmp_path / "kept").glob("ucb1-*/pass-*.piece"))) == 60

    def test_a_scheduler_without_workers_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from distributed import LocalCluster

        monkeypatch.setattr(engines, "CONNECT_SECONDS", 0.5)
        with (
            LocalCluster(
                n_workers=0, processes=True, dashboard_address=":0", host="127.0.0.1", silence_logs=50
            ) as empty,
            pytest.raises(bc.OptionError, match=r"has no workers; start some with 'dask worker tcp://127"),
            Engine("dask", empty.scheduler_address).connect(),
        ):
            pass

    def test_an_address_without_a_scheduler_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engines, "CONNECT_SECONDS", 0.5)
        with (
            pytest.raises(bc.OptionError, match=r"no Dask scheduler responds at tcp://127.0.0.1:1 .*is it running"),
            Engine("dask", "tcp://127.0.0.1:1").connect(),
        ):
            pass


@pytest.fixture(scope="module")
def alone_in_segments(stream: bc.LogStream) -> list[str]:
    return ask_segments(stream)


@pytest.fixture(scope="module")
def on_ray(alone: list[str], alone_in_segments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What one process says is found out first: after that, all work goes to Ray."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.cloudpickle.register_pickle_by_value(sys.modules[FollowTheLeader.__module__])
    with pytest.MonkeyPatch.context() as patch:
        # Ray writes to the home folder, which may be read-only; its workers find the code that was compiled already
        patch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser()))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        with Engine("ray").connect():
            yield
    assert not ray.is_initialized()


@pytest.mark.usefixtures("on_ray")
class TestRay:
    # workers take seconds to start, for every question anew: one test asks about a compiled policy, one about Python

    def test_a_policy_that_hangs_is_ended_and_the_next_says_the_same(self, log: bc.Log, alone: list[str]) -> None:
        # the worker says which piece it was; if it starts so slowly that patience runs out, it may have been another
        which = r"^pass \d+(, or a job sent out with it,)? took longer than time_limit = 1 seconds"
        with pytest.raises(bc.WorkError, match=which):
            ask(log, Hangs(deaf=True), time_limit=1.0)
        assert ask(log, bc.UCB1()) == alone[0]

    def test_a_worker_killed_in_the_middle_changes_nothing(self, log: bc.Log, alone: list[str], tmp_path: Path) -> None:
        mark = tmp_path / "killed"
        result = ask(log, KilledLeader(str(mark)))
        assert mark.exists()
        assert result == alone[1]

    def test_segments_say_the_same(self, stream: bc.LogStream, alone_in_segments: list[str]) -> None:
        assert ask_segments(stream) == alone_in_segments


@pytest.mark.parametrize(
    ("name", "scheduler", "words"),
    [
        ("dusk", None, "there is no engine 'dusk'; did you mean 'dask'? Engines: local, dask, ray"),
        ("local", "tcp://127.0.0.1:1", "scheduler is given and the engine is local; add --engine dask or --engine ray"),
        ("dask", None, "the engine dask needs the address of a scheduler; give it as --scheduler tcp://HOST:PORT"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(name: str, scheduler: str | None, words: str) -> None:
    with pytest.raises(bc.OptionError) as caught:
        Engine(name, scheduler)
    assert str(caught.value) == words


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_an_engine_that_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda module: None)
    with pytest.raises(bc.OptionError, match=rf"the engine {name} is not installed; pip install 'backcast\[{name}\]'"):
        Engine(name, "tcp://127.0.0.1:1")
