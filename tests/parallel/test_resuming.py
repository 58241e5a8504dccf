"""A pass over a stream that is killed goes on where it was, to the bit; what cannot go on is refused."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import backcast as bc
from backcast._parallel.checkpoint import open_checkpoint
from backcast._parallel.jobs import Execution
from backcast._request import EvaluationRequest
from backcast.evaluators import _reward_predictions as predicting
from backcast.evaluators import _reward_predictions as predictions
from backcast.evaluators import _stream_checkpoint as resuming

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
    found = {}
    for name, (policy, evaluator, options) in QUESTIONS.items():
        execution = Execution(checkpoint=keep) if tell is None else Execution(checkpoint=keep, on_progress=tell)
        one = evaluator.estimate(
            EvaluationRequest(stream, policy, execution=execution, **options).scoped(name.replace(" ", "-"))
        )
        curve = [] if one.curve is None else one.curve.value.tolist()
        found[name] = [one.value, one.std_error, one.interval, one.diagnostics, curve, one.notes]
    return found


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the state after every part."""
    monkeypatch.setattr(resuming, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(resuming, "SAVE_SHARE", 0)
    monkeypatch.setattr(predictions, "HEAD_EVENTS", 500)
    monkeypatch.setattr(predictions, "MEAN_EVENTS", 450)


REPLAY_RECORD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.unit.test_resuming import answers, predictions, resuming
resuming.SAVE_SECONDS, resuming.SAVE_SHARE, predictions.HEAD_EVENTS, predictions.MEAN_EVENTS = 0.0, 0, 500, 450
def tell(events):
    print(events, flush=True)
answers(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), tell)
"""


def run_and_kill(path: Path, folder: Path, batch_rows: int, after: int) -> None:
    """Answer in a process of its own, and kill it when so many events have been told of."""
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
    told: list[int] = []

    def stop(events: int) -> None:
        told.append(events)
        if sum(told) >= 3_700:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluator.estimate(
            EvaluationRequest(stream, policy, execution=Execution(checkpoint=keep, on_progress=stop), **options)
        )
    told.clear()
    evaluator.estimate(
        EvaluationRequest(stream, policy, execution=Execution(checkpoint=keep, on_progress=told.append), **options)
    )
    assert told[0] == 3_500  # what was kept
    assert sum(told) == ROWS


class Forgetful(Leaning):
    """Draws from a generator that nobody gave it, so that no two of them are alike."""

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
    one, again = (bc.scan_log(path, batch_rows=rows, **WORDS) for rows in (10, 500))
    assert one.fingerprint() == again.fingerprint()
    others = [one.slice(1), one.slice(0, 10), bc.scan_log(path, **{**WORDS, "reward": "f_0"})]
    assert len({one.fingerprint(), *(other.fingerprint() for other in others)}) == 4
    write(path, seed=1)
    assert bc.scan_log(path, **WORDS).fingerprint() != one.fingerprint()
    open_checkpoint(tmp_path / "kept", {"log": one.fingerprint()})
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
    monkeypatch.setattr(predicting, "HEAD_EVENTS", 500)
    stream = bc.scan_log(write(tmp_path / "log.parquet"), **WORDS)
    policy = bc.Fixed([0.5, 0.25, 0.25])
    for evaluator in (bc.IPS(), bc.DR(), bc.SwitchDR()):
        folder = tmp_path / type(evaluator).__name__
        one, again = (bc.evaluate(stream, policy, evaluator, checkpoint=folder) for _ in range(2))
        assert one.value == again.value == bc.evaluate(stream, policy, evaluator).value
        pieces = sorted(folder.glob("*moments-1-*.piece"))
        assert len(pieces) == 4  # row groups
        pieces[1].unlink()
        assert bc.evaluate(stream, policy, evaluator, checkpoint=folder).value == one.value
    execution = Execution(checkpoint=open_checkpoint(tmp_path / "kept", {}))
    request = EvaluationRequest(stream, policy, reward_model=Wavering(), execution=execution)
    bc.DR().estimate(request)
    with pytest.raises(bc.OptionError, match=r"Wavering predicts something else"):
        bc.DR().estimate(request)


def test_parts_are_kept_one_by_one(tmp_path: Path) -> None:
    stream = bc.scan_log(write(tmp_path / "log.parquet"), **WORDS)
    options: dict[str, Any] = {"horizon": 5, "reward_model": 0.5}
    told: list[int] = []

    def stop(events: int) -> None:
        told.append(events)
        if len(told) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), checkpoint=tmp_path / "kept", progress=stop, **options)
    assert len(list((tmp_path / "kept").glob("part-*.piece"))) in (4, 5)
    found = bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), checkpoint=tmp_path / "kept", **options)
    assert found.interval == bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), **options).interval
    with pytest.raises(bc.OptionError, match="a different seed"):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), checkpoint=tmp_path / "kept", seed=1, **options)
