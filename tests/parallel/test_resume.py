"""Runs that are stopped, killed or out of disk continue from their checkpoint to the same result, to the bit."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backcast as bc
from backcast._parallel.checkpoint import open_checkpoint
from backcast._parallel.jobs import Execution
from backcast._request import EvaluationRequest, is_partial
from backcast.evaluators import _reward_predictions as predictions
from backcast.evaluators import _stream_checkpoint as stream_checkpoint
from tests.support.logs import two_action_log
from tests.support.policies import CountedLeader, count_runs

PIECES = 60  # passes over the log, one job each
CLOCK = bc.ClockReplay()


def ask(runs: Path, folder: Path | None, **options: Any) -> str:
    asked = {"horizon": 8, "reward_model": 0.5, "replicates": PIECES, **options}
    result = bc.evaluate(two_action_log(), CountedLeader(str(runs)), CLOCK, checkpoint=folder, **asked)
    return json.dumps(result.to_dict())


def test_a_finished_run_answers_from_its_folder(tmp_path: Path, runs: Path) -> None:
    plain, first = ask(runs, None), ask(runs, tmp_path / "kept")
    assert count_runs(runs) == 2 * PIECES
    assert ask(runs, tmp_path / "kept") == first == plain
    assert count_runs(runs) == 2 * PIECES


def test_more_replicates_go_on_from_fewer(tmp_path: Path, runs: Path) -> None:
    ask(runs, tmp_path / "kept")
    before = count_runs(runs)
    more = ask(runs, tmp_path / "kept", replicates=70, level=0.9)
    assert count_runs(runs) == before + 10
    assert more == ask(runs, None, replicates=70, level=0.9)


OTHERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "log": lambda asked: asked.update(log=two_action_log(seed=1)),
    "policy": lambda asked: asked.update(policy=bc.UCB1()),
    "evaluator": lambda asked: asked.update(evaluator=bc.ClockReplay(pool=300)),
    "reward model": lambda asked: asked.update(reward_model=0.25),
    "interval": lambda asked: asked.update(interval=bc.GroupJackknife(groups=20)),
    "horizon": lambda asked: asked.update(horizon=9),
    "seed": lambda asked: asked.update(seed=1),
}


@pytest.mark.parametrize("fact", OTHERS)
def test_another_question_is_refused(fact: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "log": two_action_log(),
        "policy": bc.UCB1(exploration=2.0),
        "evaluator": CLOCK,
        "horizon": 8,
    }
    asked |= {"reward_model": 0.5, "replicates": PIECES, "checkpoint": tmp_path / "kept"}
    bc.evaluate(**asked)
    OTHERS[fact](asked)
    with pytest.raises(bc.OptionError, match=rf"made with a different {fact} \(.*, now .*choose another folder"):
        bc.evaluate(**asked)


def test_another_version_is_refused(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(runs, tmp_path / "kept")
    monkeypatch.setattr("backcast._request.source_digest", lambda: "9.9.9")
    with pytest.raises(bc.OptionError, match=r"a different version of backcast \(.*, now 9\.9\.9\)"):
        ask(runs, tmp_path / "kept")


def test_a_policy_whose_code_was_edited_is_another(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(runs, tmp_path / "kept")
    edited = CountedLeader.probabilities

    def probabilities(self: CountedLeader, contexts: Any, available: Any = None) -> Any:
        return edited(self, contexts, available)[:, ::-1]

    monkeypatch.setattr(CountedLeader, "probabilities", probabilities)
    with pytest.raises(bc.OptionError, match="made with a different policy"):
        ask(runs, tmp_path / "kept")


class SharedFileLeader(CountedLeader):
    """Can be copied although it holds a file."""

    def __deepcopy__(self, memo: Any) -> SharedFileLeader:
        return copy.copy(self)


def test_a_policy_without_a_state_to_know_it_by_is_refused(tmp_path: Path, runs: Path) -> None:
    policy: Any = SharedFileLeader(str(runs))
    with (
        runs.open() as policy.file,
        pytest.raises(bc.OptionError, match="SharedFileLeader cannot be fingerprinted"),
    ):
        bc.evaluate(two_action_log(), policy, CLOCK, horizon=8, checkpoint=tmp_path / "kept")


def test_pieces_that_were_changed_are_done_again(tmp_path: Path, runs: Path) -> None:
    first = ask(runs, tmp_path / "kept")
    before = count_runs(runs)
    pieces = sorted((tmp_path / "kept").glob("*.piece"))
    whole = pieces[0].read_bytes()
    pieces[0].write_bytes(whole[:-8] + np.array([np.nan]).tobytes())
    pieces[1].write_bytes(whole)
    pieces[2].write_bytes(b"")
    pieces[3].unlink()
    assert ask(runs, tmp_path / "kept") == first
    assert count_runs(runs) == before + 4


@pytest.mark.parametrize("stop", [3, 30])
def test_a_run_that_was_stopped_goes_on(stop: int, tmp_path: Path, runs: Path) -> None:
    reported = 0

    def enough(events: int) -> None:
        nonlocal reported
        reported += 1
        if reported == stop:
            raise bc.StopEvaluation

    partial = json.loads(ask(runs, tmp_path / "kept", progress=enough))
    assert is_partial(partial["notes"])
    assert count_runs(runs) == stop
    assert ask(runs, tmp_path / "kept") == ask(tmp_path / "other runs", None)
    assert count_runs(runs) == PIECES


@pytest.mark.parametrize(
    ("evaluator", "options"),
    [
        (bc.DRns(q="auto"), {"replicates": PIECES}),
        (CLOCK, {"interval": bc.Segments(4), "replicates": None}),
        (CLOCK, {"replicates": PIECES, "reward_model": bc.CrossFit(bc.Constant())}),
        (bc.DRns(q=0.05), {}),
    ],
    ids=["a search for q", "segments", "a model", "one pass"],
)
def test_parts_of_a_question_are_kept_apart(evaluator: Any, options: dict[str, Any], tmp_path: Path) -> None:
    asked = {"reward_model": 0.5, "horizon": 8, **options}
    result = [
        json.dumps(bc.evaluate(two_action_log(), bc.UCB1(), evaluator, checkpoint=folder, **asked).to_dict())
        for folder in (None, tmp_path / "kept", tmp_path / "kept")
    ]
    assert result[0] == result[1] == result[2]


@pytest.mark.parametrize("evaluator", [CLOCK, bc.IPS()], ids=["paired", "one by one"])
def test_comparisons_are_kept_too(evaluator: Any, tmp_path: Path) -> None:
    policies = {"a": bc.Fixed([0.5, 0.5]), "b": bc.Fixed([0.25, 0.75])}
    asked: dict[str, Any] = {"horizon": 8 if evaluator is CLOCK else None, "reward_model": 0.5, "replicates": PIECES}
    result = [
        json.dumps(bc.compare(two_action_log(), policies, evaluator, checkpoint=folder, **asked).to_dict())
        for folder in (None, tmp_path / "kept", tmp_path / "kept")
    ]
    assert result[0] == result[1] == result[2]
    with pytest.raises(bc.OptionError, match="a different policy 'b'"):
        bc.compare(two_action_log(), {**policies, "b": bc.Uniform()}, evaluator, checkpoint=tmp_path / "kept", **asked)


SCRIPT = """
import json, os, resource, signal, sys
from tests.parallel.test_resume import *
folder, runs = sys.argv[1], sys.argv[2]

class Fills(CountedLeader):
    # the disk is full from this run on
    def learn(self, *batch):
        super().learn(*batch)
        if count_runs(Path(self.runs)) == int(sys.argv[3]):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

policy = Fills(runs, pause=0.01)
log, asked = two_action_log(), {"horizon": 8, "reward_model": 0.5, "replicates": PIECES}
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
            while count_runs(runs) < target_seconds and run.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.01)
            run.send_signal(signal.SIGKILL)
    with script(str(tmp_path / "kept"), runs) as last, script("-", tmp_path / "undisturbed") as whole:
        assert last.stdout is not None
        assert whole.stdout is not None
        assert last.stdout.read() == whole.stdout.read() != ""
    # of each run that was killed, the piece it had in hand is done again, and no other
    assert PIECES < count_runs(runs) <= PIECES + kills
    assert count_runs(tmp_path / "undisturbed") == PIECES


def test_a_full_disk_ends_the_run_with_what_is_kept_whole(tmp_path: Path, runs: Path) -> None:
    with script(str(tmp_path / "kept"), runs, full=20) as run:
        _, reported = run.communicate()
    assert run.returncode == 1
    assert reported.splitlines() == [
        "the checkpoint folder 'kept' cannot be written: File too large; finished jobs are stored, and the same run "
        "continues from there once this is fixed"
    ]
    assert len(list((tmp_path / "kept").glob("*.piece"))) == 19
    with script(str(tmp_path / "kept"), runs) as again, script("-", tmp_path / "undisturbed") as whole:
        assert again.stdout is not None
        assert whole.stdout is not None
        assert again.stdout.read() == whole.stdout.read() != ""
    assert count_runs(runs) == 20 + PIECES - 19


def test_nothing_of_the_folder_is_unpickled(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(runs, tmp_path / "kept")

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("unpickled")

    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.Unpickler", refuse)
    ask(runs, tmp_path / "kept")
    assert os.listdir(tmp_path / "kept")


ROWS = 6_000
WORDS: dict[str, Any] = {"context": "f_*", "action": "action", "reward": "reward", "propensity": "p", "n_actions": 3}


def write(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    chosen = rng.integers(3, size=ROWS)
    columns = {"f_0": rng.normal(size=ROWS), "f_1": rng.normal(size=ROWS), "action": chosen}
    table = pa.table({**columns, "reward": rng.random(ROWS) + 0.25 * chosen, "p": np.full(ROWS, 1 / 3)})
    pq.write_table(table, path, row_group_size=1_700)
    return path


class Leaning:
    """A policy of a user that draws randomness of its own when it starts and when it learns."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.rng, self.paid = rng, 1 + rng.random(n_actions)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.paid / self.paid.sum(), (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.paid, actions, rewards * self.rng.random())


QUESTIONS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "histories": (bc.EpsilonGreedy(0.2, batch_size=3), bc.DRns(q=0.05, carry=True), {"horizon": 40}),
    "preset": (bc.EpsilonGreedy(0.1), bc.DRns.recommended(ROWS), {}),
    "own policy": (Leaning(), bc.DRns(q=0.05), {"horizon": 700}),
    "own policy, one history": (Leaning(), bc.WC(), {"reward_model": bc.PerAction()}),
}


def answers(path: Path, folder: Path | None, batch_rows: int, tell: Any = None) -> dict[str, Any]:
    """All questions on the file, kept in the folder if there is one."""
    stream = bc.scan_log(path, batch_rows=batch_rows, **WORDS)
    keep = None if folder is None else open_checkpoint(folder, {"log": stream.fingerprint()})
    result = {}
    for name, (policy, evaluator, options) in QUESTIONS.items():
        execution = Execution(checkpoint=keep) if tell is None else Execution(checkpoint=keep, on_progress=tell)
        item = evaluator.estimate(
            EvaluationRequest(stream, policy, execution=execution, **options).scoped(name.replace(" ", "-"))
        )
        curve = [] if item.curve is None else item.curve.value.tolist()
        result[name] = [item.value, item.std_error, item.interval, item.diagnostics, curve, item.notes]
    return result


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the state after every part."""
    monkeypatch.setattr(stream_checkpoint, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(stream_checkpoint, "SAVE_SHARE", 0)
    monkeypatch.setattr(predictions, "HEAD_EVENTS", 500)
    monkeypatch.setattr(predictions, "MEAN_EVENTS", 450)


REPLAY_RECORD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.parallel.test_resume import answers, predictions, stream_checkpoint
stream_checkpoint.SAVE_SECONDS, stream_checkpoint.SAVE_SHARE = 0.0, 0
predictions.HEAD_EVENTS, predictions.MEAN_EVENTS = 500, 450
def tell(events):
    print(events, flush=True)
answers(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), tell)
"""


def run_and_kill(path: Path, folder: Path, batch_rows: int, after: int) -> None:
    """Answer in a process of its own, and kill it once this many events are done."""
    command = [sys.executable, "-c", REPLAY_RECORD, str(Path.cwd()), str(path), str(folder), str(batch_rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        done = 0
        for line in process.stdout:
            done += int(line)
            if done >= after:
                process.kill()
                break
        process.stdout.read()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.usefixtures("often")
def test_a_killed_run_gives_the_bit_identical_answer(tmp_path: Path) -> None:
    path, chance = write(tmp_path / "log.parquet"), random.Random(8)
    for kill in (1, 2):
        # somewhere in the first and in the second half of the work, a part of another length each time
        run_and_kill(path, tmp_path / "kept", 197 * kill, chance.randrange(1_000, 2 * ROWS) + (kill - 1) * 2 * ROWS)
    expected = answers(path, None, 333)
    # the last part has one event
    assert answers(path, tmp_path / "kept", 857) == expected
    # and once it is done, asking again says the same
    assert answers(path, tmp_path / "kept", 1_000) == expected


@pytest.mark.usefixtures("often")
def test_no_more_than_a_part_is_done_again(tmp_path: Path) -> None:
    path, name = write(tmp_path / "log.parquet"), "histories"
    policy, evaluator, options = QUESTIONS[name]
    stream = bc.scan_log(path, batch_rows=500, **WORDS)
    keep = open_checkpoint(tmp_path / "kept", {"log": stream.fingerprint()})
    reported: list[int] = []

    def stop(events: int) -> None:
        reported.append(events)
        if sum(reported) >= 3_700:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluator.estimate(
            EvaluationRequest(stream, policy, execution=Execution(checkpoint=keep, on_progress=stop), **options)
        )
    reported.clear()
    evaluator.estimate(
        EvaluationRequest(stream, policy, execution=Execution(checkpoint=keep, on_progress=reported.append), **options)
    )
    assert reported[0] == 3_500  # what was kept
    assert sum(reported) == ROWS


class Forgetful(Leaning):
    """Draw from a generator without a seed, so that every copy learns something else."""

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.paid = self.paid + np.random.default_rng().random(3)


@pytest.mark.usefixtures("often")
def test_a_policy_that_does_not_come_back_is_refused(tmp_path: Path) -> None:
    stream = bc.scan_log(write(tmp_path / "log.parquet"), batch_rows=500, **WORDS)
    keep = open_checkpoint(tmp_path / "kept", {"log": stream.fingerprint()})
    request = EvaluationRequest(stream, Forgetful(), reward_model=0.5, execution=Execution(checkpoint=keep))
    bc.DRns(q=0.1).estimate(request)
    with pytest.raises(bc.OptionError, match=r"Forgetful predicts something else .*remove the folder and start again"):
        bc.DRns(q=0.1).estimate(request)


@pytest.mark.usefixtures("often")
def test_lost_batches_are_missed(tmp_path: Path) -> None:
    stream = bc.scan_log(write(tmp_path / "log.parquet"), batch_rows=500, **WORDS)
    keep = open_checkpoint(tmp_path / "kept", {"log": stream.fingerprint()})
    request = EvaluationRequest(stream, Leaning(), reward_model=0.5, execution=Execution(checkpoint=keep))
    bc.DRns(q=0.1).estimate(request)
    (tmp_path / "kept" / "batches-2.piece").write_bytes(b"spoilt")
    with pytest.raises(bc.OptionError, match="lost what the policy learned"):
        bc.DRns(q=0.1).estimate(request)


def test_streams_are_known_by_their_files(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet")
    first, again = (bc.scan_log(path, batch_rows=rows, **WORDS) for rows in (10, 500))
    assert first.fingerprint() == again.fingerprint()
    others = [first.slice(1), first.slice(0, 10), bc.scan_log(path, **{**WORDS, "reward": "f_0"})]
    assert len({first.fingerprint(), *(other.fingerprint() for other in others)}) == 4
    write(path, seed=1)
    assert bc.scan_log(path, **WORDS).fingerprint() != first.fingerprint()
    open_checkpoint(tmp_path / "kept", {"log": first.fingerprint()})
    changed = {"log": bc.scan_log(path, **WORDS).fingerprint()}
    with pytest.raises(bc.OptionError, match="a different log"):
        open_checkpoint(tmp_path / "kept", changed)


def test_parts_in_memory_can_be_resumed_too(tmp_path: Path) -> None:
    parts = bc.LogStream.from_logs([bc.Log(None, [0, 1] * 5, [0.0, 1.0] * 5, [0.5, 0.5] * 5)] * 3)
    execution = Execution(checkpoint=open_checkpoint(tmp_path / "kept", {"log": "-"}))
    first, again = (bc.DRns(q=0.1).estimate(EvaluationRequest(parts, bc.UCB1(), execution=execution)) for _ in range(2))
    assert first.value == again.value == bc.DRns(q=0.1).estimate(EvaluationRequest(parts, bc.UCB1())).value


class Wavering:
    """A reward model that comes out differently every time."""

    def fit(self, log: bc.Log) -> Wavering:
        self.level = np.random.default_rng().random()
        return self

    def predict(self, contexts: Any) -> Any:
        return np.full((contexts.shape[0], 3), self.level)


def test_sums_of_a_fixed_policy_are_kept_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "HEAD_EVENTS", 500)
    stream = bc.scan_log(write(tmp_path / "log.parquet"), **WORDS)
    policy = bc.Fixed([0.5, 0.25, 0.25])
    for evaluator in (bc.IPS(), bc.DR(), bc.SwitchDR()):
        folder = tmp_path / type(evaluator).__name__
        first, again = (bc.evaluate(stream, policy, evaluator, checkpoint=folder) for _ in range(2))
        assert first.value == again.value == bc.evaluate(stream, policy, evaluator).value
        pieces = sorted(folder.glob("*moments-1-*.piece"))
        assert len(pieces) == 4  # row groups
        pieces[1].unlink()
        assert bc.evaluate(stream, policy, evaluator, checkpoint=folder).value == first.value
    execution = Execution(checkpoint=open_checkpoint(tmp_path / "kept", {}))
    request = EvaluationRequest(stream, policy, reward_model=Wavering(), execution=execution)
    bc.DR().estimate(request)
    with pytest.raises(bc.OptionError, match=r"Wavering predicts something else"):
        bc.DR().estimate(request)


def test_parts_are_kept_one_by_one(tmp_path: Path) -> None:
    stream = bc.scan_log(write(tmp_path / "log.parquet"), **WORDS)
    options: dict[str, Any] = {"horizon": 5, "reward_model": 0.5}
    reported: list[int] = []

    def stop(events: int) -> None:
        reported.append(events)
        if len(reported) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), checkpoint=tmp_path / "kept", progress=stop, **options)
    assert len(list((tmp_path / "kept").glob("part-*.piece"))) in (4, 5)
    result = bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), checkpoint=tmp_path / "kept", **options)
    assert result.interval == bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), **options).interval
    with pytest.raises(bc.OptionError, match="a different seed"):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), checkpoint=tmp_path / "kept", seed=1, **options)
