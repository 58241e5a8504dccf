"""No file that another user could have written is executed or taken for a result."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._parallel.checkpoint import HEADER_FILE, open_checkpoint
from backcast._parallel.shared_file import SharedFile, load_shared
from backcast._private_files import NotPrivateError, find_other_writer, make_private_folder, open_private
from backcast._serialization import to_bytes

OTHER_USER = 54_321
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only the administrator can give files to another user")
FACTS = {"seed": "0"}


class TestFolders:
    def test_a_new_folder_is_accessible_to_this_user_only(self, tmp_path: Path) -> None:
        make_private_folder(tmp_path / "a" / "b")
        for folder in (tmp_path / "a", tmp_path / "a" / "b"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    @pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
    def test_a_folder_that_others_can_write_is_not_private(self, tmp_path: Path, mode: int) -> None:
        tmp_path.chmod(mode)
        with pytest.raises(NotPrivateError, match="other users can write to"):
            make_private_folder(tmp_path)

    def test_a_parent_that_others_can_write_must_be_sticky(self, tmp_path: Path) -> None:
        folder = tmp_path / "shared" / "mine"
        make_private_folder(folder)
        folder.parent.chmod(0o777)
        assert find_other_writer(folder) == f"other users can write to {folder.parent}"
        folder.parent.chmod(0o1777)
        assert find_other_writer(folder) is None

    def test_a_group_counts_as_others_unless_it_is_the_users_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_private_folder(tmp_path / "mine")
        (tmp_path / "mine").chmod(0o770)
        monkeypatch.setattr("backcast._private_files._is_private_group", lambda group: False)
        assert find_other_writer(tmp_path / "mine") is not None
        monkeypatch.setattr("backcast._private_files._is_private_group", lambda group: True)
        assert find_other_writer(tmp_path / "mine") is None

    def test_links_are_checked_like_folders(self, tmp_path: Path) -> None:
        target = tmp_path / "open" / "target"
        make_private_folder(target)
        (tmp_path / "link").symlink_to(tmp_path / "open")
        assert find_other_writer(tmp_path / "link" / "target") is None
        (tmp_path / "open").chmod(0o777)
        assert find_other_writer(tmp_path / "link" / "target") is not None

    @as_root
    def test_what_belongs_to_another_user_is_not_private(self, tmp_path: Path) -> None:
        folder = tmp_path / "theirs" / "mine"
        make_private_folder(folder)
        os.chown(folder.parent, OTHER_USER, -1)
        assert find_other_writer(folder) == f"{folder.parent} belongs to another user"
        os.chown(folder.parent, 0, -1)
        os.chown(folder, OTHER_USER, -1)
        assert find_other_writer(folder) == f"{folder} belongs to another user"


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


class TestFiles:
    def test_a_private_file_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"mine")
        with open_private(tmp_path / "file") as file:
            assert file.read() == b"mine"

    @pytest.mark.parametrize("make", ["pipe", "socket", "link", "folder", "writable"])
    def test_other_files_are_refused_at_once(self, tmp_path: Path, make: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # names of sockets must be short
        path = Path("file")
        (tmp_path / "target").write_text("")
        makers: dict[str, Callable[[], object]] = {
            "pipe": lambda: os.mkfifo(path),
            "socket": lambda: bind_socket(path),
            "link": lambda: path.symlink_to("target"),
            "folder": path.mkdir,
            "writable": lambda: path.touch(0o777),
        }
        before = os.umask(0)
        makers[make]()
        os.umask(before)
        with pytest.raises(OSError, match="file"), open_private(path):
            pass

    @as_root
    def test_a_shared_file_of_another_user_is_not_read(self) -> None:
        file = SharedFile((1,))
        os.chown(file.reference.path, OTHER_USER, -1)
        with pytest.raises(bc.WorkError, match=r"not private to this user \(it belongs to another user\)"):
            load_shared(file.reference)


EVALUATION = """
import sys, warnings
import numpy as np
import backcast as bc
from backcast._kernels.jit import cache_folder
log = bc.Log(np.zeros((40, 1)), actions=[0, 1] * 20, rewards=[1, 0] * 20, propensities=[0.5] * 40)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    value = bc.evaluate(log, bc.Uniform(), bc.IPS()).value
print(value, cache_folder(), len([w for w in caught if "compiled code" in str(w.message)]))
"""
# A program that a cache may hold: Numba unpickles every index file of the folder that it is given.
PAYLOAD = """
import os, pathlib, pickle, sys
class Payload:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)
for index in pathlib.Path(sys.argv[1]).rglob("*.nbi"):
    index.write_bytes(pickle.dumps(Payload()))
"""


def evaluate_in_process(**environment: str) -> str:
    command = [sys.executable, "-c", EVALUATION]
    variables = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    result = subprocess.run(command, env=variables | environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@as_root
def test_compiled_code_of_another_user_is_not_executed(tmp_path: Path) -> None:
    """The cache is filled, given to another user, and a program put into it, as that user could have done."""
    home, cache, temporary = tmp_path / "home", tmp_path / "cache", tmp_path / "tmp"
    home.write_text("no folder, so that there is no cache below it")
    temporary.mkdir(mode=0o1777)
    assert evaluate_in_process(HOME=str(home), NUMBA_CACHE_DIR=str(cache)).endswith(" 0")
    indexes = list(cache.rglob("*.nbi"))
    assert indexes
    executed = tmp_path / "executed"
    subprocess.run([sys.executable, "-c", PAYLOAD, str(cache), str(executed)], check=True)
    for path in (cache / "backcast", *(cache / "backcast").rglob("*")):
        os.chown(path, OTHER_USER, -1)
    output = evaluate_in_process(HOME=str(home), NUMBA_CACHE_DIR=str(cache), TMPDIR=str(temporary))
    assert not executed.exists()
    # a private folder of this user among the temporary files is used instead
    assert output.startswith(f"0.5 {temporary}/backcast-0/")


def test_without_a_private_folder_code_is_compiled_for_one_process(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    output = evaluate_in_process(HOME=str(shared), NUMBA_CACHE_DIR=str(shared), TMPDIR=str(shared))
    assert output == "0.5 None 1"
    assert not list(shared.rglob("*.nbi"))


def test_a_cache_that_is_full_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from numba.core import caching

    from backcast._kernels import jit

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(caching.IndexDataCacheFile, "save", fail)
    jit._warn_once.cache_clear()
    add = jit.compiled(add_one)
    with pytest.warns(
        RuntimeWarning, match=r"cannot be stored \(No space left on device\), so it is compiled for this"
    ):
        assert add(1.0) == 2.0


def test_a_cache_that_is_damaged_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from backcast._kernels import jit

    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    assert jit.compiled(add_one)(1.0) == 2.0
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(b"\x80")
    jit._warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match="compiled for this process only"):
        assert jit.compiled(add_one)(1.0) == 2.0


def add_one(x: float) -> float:
    return x + 1.0


class TestCheckpoints:
    def test_a_new_folder_is_private(self, tmp_path: Path) -> None:
        open_checkpoint(tmp_path / "done", FACTS)
        assert stat.S_IMODE((tmp_path / "done").stat().st_mode) == 0o700

    def test_a_folder_that_others_can_write_is_refused(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)
        with pytest.raises(bc.OptionError, match=r"other users can write to the checkpoint folder .*chmod go-w"):
            open_checkpoint(tmp_path, FACTS)

    @as_root
    def test_a_folder_and_results_of_another_user_are_not_used(self, tmp_path: Path) -> None:
        checkpoint = open_checkpoint(tmp_path / "done", FACTS)
        checkpoint.put("pass-0", 0.5)
        os.chown(tmp_path / "done" / "pass-0.piece", OTHER_USER, -1)
        assert checkpoint.get("pass-0") is None
        os.chown(tmp_path / "done", OTHER_USER, -1)
        with pytest.raises(bc.OptionError, match=r"belongs to another user.*give the name of a new folder"):
            open_checkpoint(tmp_path / "done", FACTS)

    def test_a_pipe_in_place_of_a_result_does_not_block(self, tmp_path: Path) -> None:
        checkpoint = open_checkpoint(tmp_path / "done", FACTS)
        os.mkfifo(tmp_path / "done" / "pass-0.piece")
        assert checkpoint.get("pass-0") is None
        checkpoint.put("pass-0", 0.5)
        stored = checkpoint.get("pass-0")
        assert stored is not None
        assert stored.value == 0.5

    def test_a_pipe_in_place_of_the_header_does_not_block(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        os.mkfifo(tmp_path / HEADER_FILE)
        with pytest.raises(bc.OptionError, match="is not a checkpoint of backcast"):
            open_checkpoint(tmp_path, FACTS)


def make_log() -> bc.Log:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=200)
    return bc.Log(None, actions, (rng.random(200) < 0.3 + 0.3 * actions) * 1.0, np.full(200, 0.5), reward_range=(0, 1))


def nested(depth: int) -> bytes:
    header = b"[" * depth + b"]" * depth
    return len(header).to_bytes(8, "little") + header


FORGED = {
    "a number": to_bytes(7),
    "nothing": to_bytes(None),
    "a table": to_bytes({"run": {}}),
    "text": to_bytes("pass"),
    "arrays": to_bytes([np.zeros(3), np.zeros((2, 2))]),
    "no header": b"",
    "a header beyond the end": (2**40).to_bytes(8, "little"),
    "no JSON": (4).to_bytes(8, "little") + b"nope",
    "deep nesting": nested(100_000),
    "an unknown kind": (len(b'["kind","os.system",1]')).to_bytes(8, "little") + b'["kind","os.system",1]',
    "an array without data": (len(b'["array","<f8",[9]]')).to_bytes(8, "little") + b'["array","<f8",[9]]',
    "an array of a huge shape": (len(b'["array","<f8",[4611686018427387904]]')).to_bytes(8, "little")
    + b'["array","<f8",[4611686018427387904]]',
    "an array of objects": (len(b'["array","|O",[1]]')).to_bytes(8, "little") + b'["array","|O",[1]]' + b"12345678",
}
RUNS: dict[str, Callable[..., bc.Estimate]] = {
    "passes": lambda **options: bc.evaluate(
        make_log(), bc.UCB1(), bc.ClockReplay(), horizon=5, replicates=60, **options
    ),
    "a stream": lambda **options: bc.evaluate([make_log()[:90], make_log()[90:]], bc.UCB1(), bc.DRns(q=0.1), **options),
}


@pytest.mark.parametrize("run", RUNS)
def test_a_forged_result_gives_one_error_of_ours(tmp_path: Path, run: str) -> None:
    """Whoever may write to the folder can compute seals: then the content is not that of a job."""
    folder = tmp_path / "done"
    expected = RUNS[run](checkpoint=folder)
    pieces = sorted(folder.glob("*.piece"))
    genuine = {piece: piece.read_bytes() for piece in pieces}
    header = (folder / HEADER_FILE).read_text()
    checkpoint = open_checkpoint(
        folder, {k: v for k, v in json.loads(header).items() if k not in ("format", "version")}
    )
    for content in FORGED.values():
        for piece in pieces[:1] + pieces[-1:]:
            piece.write_bytes(checkpoint._seal(piece.name.removesuffix(".piece"), content) + content)
            # predictions of the reward model are read, but not needed where all passes are stored
            if piece.name == "predictions.piece":
                genuine[pieces[0]] = pieces[0].read_bytes()
                pieces[0].unlink()
            with pytest.raises(bc.WorkError, match=r"may be damaged; remove the folder"):
                RUNS[run](checkpoint=folder)
            for restored in {piece, pieces[0]}:
                restored.write_bytes(genuine[restored])
    assert RUNS[run](checkpoint=folder) == expected
