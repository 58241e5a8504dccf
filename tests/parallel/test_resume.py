"""A run that is stopped, killed or out of disk, and started again: the same answer, and hardly any work done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._request import is_partial

PASSES, SUBSETS = 7, 60
PIECES = PASSES + SUBSETS
CLOCK = bc.ClockReplay()


def log_of_two(n: int = 400, seed: int = 0) -> bc.Log:
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=n)
    rewards = (rng.random(n) < np.where(actions == 1, 0.7, 0.4)).astype(float)
    return bc.Log(None, actions, rewards, np.full(n, 0.5), reward_range=(0, 1))


class Counted:
    """Learns which action is better, and writes a sign into a file for every run it begins."""

    def __init__(self, runs: str, pause: float = 0.0) -> None:
        self.runs, self.pause = runs, pause
        self.sums, self.counts = np.ones(2), np.full(2, 2.0)

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        with open(self.runs, "ab") as file:
            file.write(b".")
        time.sleep(self.pause)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(np.where(np.arange(2) == np.argmax(self.sums / self.counts), 0.9, 0.1), (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.sums, actions, rewards)
        np.add.at(self.counts, actions, 1)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.touch()
    return path


def count(runs: Path) -> int:
    return runs.stat().st_size


def ask(runs: Path, folder: Path | None, **options: Any) -> str:
    asked = {"horizon": 8, "reward_model": 0.5, "replicates": SUBSETS, **options}
    found = bc.evaluate(log_of_two(), Counted(str(runs)), CLOCK, checkpoint=folder, **asked)
    return json.dumps(found.to_dict())


def test_a_finished_run_answers_from_its_folder(tmp_path: Path, runs: Path) -> None:
    plain, first = ask(runs, None), ask(runs, tmp_path / "kept")
    assert count(runs) == 2 * PIECES
    assert ask(runs, tmp_path / "kept") == first == plain
    assert count(runs) == 2 * PIECES


def test_more_replicates_go_on_from_fewer(tmp_path: Path, runs: Path) -> None:
    ask(runs, tmp_path / "kept")
    before = count(runs)
    more = ask(runs, tmp_path / "kept", replicates=70, level=0.9)
    assert count(runs) == before + 1 + 10  # one pass more, and ten subsets
    assert more == ask(runs, None, replicates=70, level=0.9)


OTHERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "log": lambda asked: asked.update(log=log_of_two(seed=1)),
    "policy": lambda asked: asked.update(policy=bc.UCB1()),
    "evaluator": lambda asked: asked.update(evaluator=bc.ClockReplay(pool=300)),
    "reward model": lambda asked: asked.update(reward_model=0.25),
    "interval": lambda asked: asked.update(interval=bc.GroupJackknife(groups=20)),
    "horizon": lambda asked: asked.update(horizon=9),
    "seed": lambda asked: asked.update(seed=1),
}


@pytest.mark.parametrize("fact", OTHERS)
def test_another_question_is_refused(fact: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"log": log_of_two(), "policy": bc.UCB1(exploration=2.0), "evaluator": CLOCK, "horizon": 8}
    asked |= {"reward_model": 0.5, "replicates": SUBSETS, "checkpoint": tmp_path / "kept"}
    bc.evaluate(**asked)
    OTHERS[fact](asked)
    with pytest.raises(bc.OptionError, match=rf"made with a different {fact} \(.*, now .*choose another folder"):
        bc.evaluate(**asked)


def test_another_version_is_refused(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(runs, tmp_path / "kept")
    monkeypatch.setattr("importlib.metadata.version", lambda name: "9.9.9")
    with pytest.raises(bc.OptionError, match=r"a different version of backcast \(.*, now 9\.9\.9\)"):
        ask(runs, tmp_path / "kept")


def test_a_policy_whose_code_was_edited_is_another(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(runs, tmp_path / "kept")
    edited = Counted.probabilities

    def probabilities(self: Counted, contexts: Any, available: Any = None) -> Any:
        return edited(self, contexts, available)[:, ::-1]

    monkeypatch.setattr(Counted, "probabilities", probabilities)
    with pytest.raises(bc.OptionError, match="made with a different policy"):
        ask(runs, tmp_path / "kept")


def test_a_policy_without_a_state_to_know_it_by_is_refused(tmp_path: Path, runs: Path) -> None:
    policy: Any = Counted(str(runs))
    with (
        runs.open() as policy.file,
        pytest.raises(bc.OptionError, match="the state of Counted cannot be fingerprinted"),
    ):
        bc.evaluate(log_of_two(), policy, CLOCK, horizon=8, checkpoint=tmp_path / "kept")


def test_pieces_that_were_changed_are_done_again(tmp_path: Path, runs: Path) -> None:
    first = ask(runs, tmp_path / "kept")
    before = count(runs)
    pieces = sorted((tmp_path / "kept").glob("*.piece"))
    whole = pieces[0].read_bytes()
    pieces[0].write_bytes(whole[:-8] + np.array([np.nan]).tobytes())
    pieces[1].write_bytes(whole)
    pieces[2].write_bytes(b"")
    pieces[3].unlink()
    assert ask(runs, tmp_path / "kept") == first
    assert count(runs) == before + 4


@pytest.mark.parametrize("stop", [3, 30])
def test_a_run_that_was_stopped_goes_on(stop: int, tmp_path: Path, runs: Path) -> None:
    told = 0

    def enough(events: int) -> None:
        nonlocal told
        told += 1
        if told == stop:
            raise bc.StopEvaluation

    partial = json.loads(ask(runs, tmp_path / "kept", progress=enough))
    assert is_partial(partial["notes"])
    assert count(runs) == stop
    assert ask(runs, tmp_path / "kept") == ask(tmp_path / "other runs", None)
    assert count(runs) == PIECES


@pytest.mark.parametrize(
    ("evaluator", "options"),
    [
        (bc.DRns(q="auto"), {"replicates": SUBSETS}),
        (CLOCK, {"interval": bc.Segments(4), "replicates": None}),
        (CLOCK, {"replicates": SUBSETS, "reward_model": bc.CrossFit(bc.Constant())}),
        (bc.DRns(q=0.05), {}),
    ],
    ids=["a search for q", "segments", "a model", "one pass"],
)
def test_parts_of_a_question_are_kept_apart(evaluator: Any, options: dict[str, Any], tmp_path: Path) -> None:
    asked = {"reward_model": 0.5, "horizon": 8, **options}
    found = [
        json.dumps(bc.evaluate(log_of_two(), bc.UCB1(), evaluator, checkpoint=folder, **asked).to_dict())
        for folder in (None, tmp_path / "kept", tmp_path / "kept")
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("evaluator", [CLOCK, bc.IPS()], ids=["paired", "one by one"])
def test_comparisons_are_kept_too(evaluator: Any, tmp_path: Path) -> None:
    policies = {"a": bc.Fixed([0.5, 0.5]), "b": bc.Fixed([0.25, 0.75])}
    asked: dict[str, Any] = {"horizon": 8 if evaluator is CLOCK else None, "reward_model": 0.5, "replicates": SUBSETS}
    found = [
        json.dumps(bc.compare(log_of_two(), policies, evaluator, checkpoint=folder, **asked).to_dict())
        for folder in (None, tmp_path / "kept", tmp_path / "kept")
    ]
    assert found[0] == found[1] == found[2]
    with pytest.raises(bc.OptionError, match="a different policy 'b'"):
        bc.compare(log_of_two(), {**policies, "b": bc.Uniform()}, evaluator, checkpoint=tmp_path / "kept", **asked)


SCRIPT = """
import json, os, resource, signal, sys
from tests.unit.test_resume import *
folder, runs, full = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Fills(Counted):
    # the disk is full from this run on
    def start(self, *sizes):
        super().start(*sizes)
        if count(Path(self.runs)) == full:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

policy = Fills(runs, pause=0.01)
log, asked = log_of_two(), {"horizon": 8, "reward_model": 0.5, "replicates": SUBSETS}
try:
    found = bc.evaluate(log, policy, CLOCK, checkpoint=folder if folder != "-" else None, **asked)
except bc.WorkError as problem:
    sys.exit(str(problem))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps(found.to_dict()))
"""


def script(folder: str, runs: Path, full: int = -1) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    words = [sys.executable, "-c", SCRIPT, folder, str(runs), str(full)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root)


def test_a_run_killed_at_any_moment_goes_on_to_the_same_answer(tmp_path: Path, runs: Path) -> None:
    rng = np.random.default_rng(8)
    kills = 3
    for target_seconds in np.sort(rng.integers(1, PIECES, size=kills)):
        with script(str(tmp_path / "kept"), runs) as run:
            while count(runs) < target_seconds and run.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.01)
            run.send_signal(signal.SIGKILL)
    with script(str(tmp_path / "kept"), runs) as last, script("-", tmp_path / "undisturbed") as whole:
        assert last.stdout is not None
        assert whole.stdout is not None
        assert last.stdout.read() == whole.stdout.read() != ""
    # of each run that was killed, the piece it had in hand is done again, and no other
    assert PIECES < count(runs) <= PIECES + kills
    assert count(tmp_path / "undisturbed") == PIECES


def test_a_full_disk_ends_the_run_with_what_is_kept_whole(tmp_path: Path, runs: Path) -> None:
    with script(str(tmp_path / "kept"), runs, full=20) as run:
        _, told = run.communicate()
    assert run.returncode == 1
    assert told.splitlines() == [
        "the checkpoint folder 'kept' cannot be written: File too large; finished jobs are stored, and the same run "
        "continues from there once this is fixed"
    ]
    assert len(list((tmp_path / "kept").glob("*.piece"))) == 19
    with script(str(tmp_path / "kept"), runs) as again, script("-", tmp_path / "undisturbed") as whole:
        assert again.stdout is not None
        assert whole.stdout is not None
        assert again.stdout.read() == whole.stdout.read() != ""
    assert count(runs) == 20 + PIECES - 19


def test_nothing_of_the_folder_is_unpickled(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(runs, tmp_path / "kept")

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("unpickled")

    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.Unpickler", refuse)
    ask(runs, tmp_path / "kept")
    assert os.listdir(tmp_path / "kept")
