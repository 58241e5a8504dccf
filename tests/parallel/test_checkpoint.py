"""Checkpoints: whole files only, one question only, and no code in them."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import backcast as bc
from backcast._parallel.checkpoint import HEADER_FILE, open_checkpoint

FACTS = {"log": "abc", "policy": "UCB1", "seed": "0"}
VALUES = {"value": np.array([0.1, 1 / 3, np.nan]), "rounds": np.array([7])}


def test_what_is_kept_comes_back_to_the_bit(tmp_path: Path) -> None:
    open_checkpoint(tmp_path, FACTS).put("pass-3", VALUES)
    result = open_checkpoint(tmp_path, FACTS).get("pass-3")
    assert result is not None
    assert {key: value.tobytes() for key, value in result.value.items()} == {k: v.tobytes() for k, v in VALUES.items()}


@pytest.mark.parametrize("fact", [*FACTS, "version"])
def test_another_question_is_refused_with_the_reason(tmp_path: Path, fact: str) -> None:
    open_checkpoint(tmp_path, {**FACTS, "version of backcast": "1"})
    if fact == "version":
        head = json.loads((tmp_path / HEADER_FILE).read_text())
        (tmp_path / HEADER_FILE).write_text(json.dumps({**head, "version": "0"}))
        other = {**FACTS, "version of backcast": "1"}
    else:
        other = {**FACTS, "version of backcast": "1", fact: "other"}
    with pytest.raises(bc.OptionError, match=f"a different {fact} .*choose another folder"):
        open_checkpoint(tmp_path, other)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_text("years of work")
    with pytest.raises(bc.OptionError, match=r"contains 'thesis.docx'"):
        open_checkpoint(tmp_path, FACTS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.docx"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', "\x00\x01"])
def test_a_damaged_head_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / HEADER_FILE).write_text(text)
    with pytest.raises(bc.OptionError, match="is not a checkpoint of backcast"):
        open_checkpoint(tmp_path, FACTS)


def test_a_damaged_piece_is_done_again(tmp_path: Path) -> None:
    stored = open_checkpoint(tmp_path, FACTS)
    stored.put("pass-0", VALUES)
    whole = (tmp_path / "pass-0.piece").read_bytes()
    for cut in range(0, len(whole), 7):
        (tmp_path / "pass-0.piece").write_bytes(whole[:cut])
        assert stored.get("pass-0") is None
    for place in range(0, len(whole), 7):
        turned = bytes([whole[place] ^ 1])
        (tmp_path / "pass-0.piece").write_bytes(whole[:place] + turned + whole[place + 1 :])
        assert stored.get("pass-0") is None
    stored.put("pass-0", VALUES)
    assert stored.get("pass-0") is not None


def test_a_piece_from_elsewhere_is_not_trusted(tmp_path: Path) -> None:
    stored, foreign = (
        open_checkpoint(tmp_path / "one", FACTS),
        open_checkpoint(tmp_path / "other", {**FACTS, "seed": "1"}),
    )
    foreign.put("pass-0", VALUES)
    whole = (tmp_path / "other" / "pass-0.piece").read_bytes()
    (tmp_path / "one" / "pass-0.piece").write_bytes(whole)
    assert stored.get("pass-0") is None
    # nor one of the same question under another name
    (tmp_path / "other" / "pass-1.piece").write_bytes(whole)
    assert foreign.get("pass-1") is None
    assert foreign.get("pass-0") is not None


class Runs:
    """Touches a file if it is ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_code_hidden_in_a_piece_is_not_run(tmp_path: Path) -> None:
    stored = open_checkpoint(tmp_path / "kept", FACTS)
    trap = tmp_path / "sprung"
    (tmp_path / "kept" / "pass-0.piece").write_bytes(pickle.dumps(Runs(trap)))
    np.savez(tmp_path / "kept" / "pass-1.npz", value=np.array([Runs(trap)], dtype=object))
    (tmp_path / "kept" / "pass-1.npz").rename(tmp_path / "kept" / "pass-1.piece")
    assert stored.get("pass-0") is None
    assert stored.get("pass-1") is None
    assert not trap.exists()


WRITER = """
import sys, numpy as np
from backcast._parallel.checkpoint import open_checkpoint
kept = open_checkpoint(sys.argv[1], {})
print("ready", flush=True)
for number in range(10**9):
    kept.put(f"pass-{number % 50}", {"value": np.full(20_000, float(number))})
"""


def test_a_writer_killed_at_any_moment_leaves_whole_pieces(tmp_path: Path) -> None:
    for target_seconds in (0.02, 0.1, 0.3):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(target_seconds)
            writer.send_signal(signal.SIGKILL)
        stored = open_checkpoint(tmp_path, {})
        names = [path.stem for path in tmp_path.glob("pass-*.piece")]
        for name in names:
            result = stored.get(name)
            assert result is not None
            assert np.unique(result.value["value"]).size == 1
    assert names


def test_a_read_only_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(bc.OptionError, match=r"cannot be used: .*choose a folder that can be written"):
        open_checkpoint(blocked / "inside", FACTS)


def test_the_fingerprint_knows_every_column() -> None:
    columns: dict[str, Any] = {"actions": [0, 1, 1], "rewards": [0.0, 1.0, 0.5], "propensities": [0.5, 0.25, 0.5]}
    log = bc.Log(np.arange(6.0).reshape(3, 2), **columns, n_actions=2)
    others = [
        bc.Log(np.arange(1.0, 7.0).reshape(3, 2), **columns, n_actions=2),
        bc.Log(sparse.csr_array(np.arange(6.0).reshape(3, 2)), **columns, n_actions=2),
        bc.Log(np.arange(6.0).reshape(3, 2), **{**columns, "actions": [1, 1, 1]}, n_actions=2),
        bc.Log(np.arange(6.0).reshape(3, 2), **{**columns, "rewards": [0.0, 1.0, 0.25]}, n_actions=2),
        bc.Log(np.arange(6.0).reshape(3, 2), **{**columns, "propensities": [0.5, 0.25, 0.25]}, n_actions=2),
        bc.Log(np.arange(6.0).reshape(3, 2), **columns, n_actions=3),
        bc.Log(np.arange(6.0).reshape(3, 2), **columns, n_actions=2, reward_range=(0, 1)),
        bc.Log(np.arange(6.0).reshape(3, 2), **columns, n_actions=2, available=np.ones((3, 2), dtype=bool)),
        bc.Log(np.arange(6.0).reshape(3, 2), **columns, n_actions=2)[[1, 0, 2]],
    ]
    prints = [item.fingerprint() for item in (log, *others)]
    assert len(set(prints)) == len(prints)
    assert log.fingerprint() == log[:].fingerprint()
