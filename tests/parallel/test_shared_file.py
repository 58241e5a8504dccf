"""Arguments of jobs in a shared file: mapped by workers, private, and removed afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import backcast as bc
from backcast._parallel import shared_file as mapped
from backcast._parallel.shared_file import SharedFile, load_shared


class TestSharedFile:
    def test_values_come_back_writable_and_whole(self) -> None:
        whole = np.arange(12.0).reshape(3, 4)
        values = (whole, np.asfortranarray(whole), whole[:, ::2], np.zeros(0), "text", [whole, None])
        file = SharedFile(values)
        result = load_shared(file.reference)
        assert str(result) == str(values)
        assert result[0].flags.writeable
        assert result[0].ctypes.data % 64 == 0
        result[0][:] = 0
        assert file.close() is None
        assert whole.sum() == 66

    def test_the_file_goes_with_the_values(self) -> None:
        file = SharedFile((1,))
        path = file.reference.path
        assert os.stat(path).st_mode & 0o077 == 0
        del file
        assert not os.path.exists(path)

    def test_a_file_that_was_removed_is_named(self) -> None:
        reference = SharedFile((1,)).reference
        with pytest.raises(bc.WorkError, match=r"backcast-.* cannot be read: No such file"):
            load_shared(reference)

    def test_a_file_that_others_could_have_written_is_not_read(self) -> None:
        file = SharedFile((1,))
        os.chmod(file.reference.path, 0o622)
        with pytest.raises(
            bc.WorkError, match=r"is not private to this user \(other users can write to it\); it is not read"
        ):
            load_shared(file.reference)

    def test_too_little_room_is_said(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
        assert Path(SharedFile((1,)).reference.path).parent == tmp_path
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10, 5, 5))
        with pytest.raises(
            bc.WorkError, match=rf"could not be written to {tmp_path} .*set JOBLIB_TEMP_FOLDER to .*, or use n_jobs=1"
        ):
            SharedFile((np.ones(1000),))
        assert list(tmp_path.iterdir()) == []

    def test_values_are_forgotten_when_the_file_is_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mapped, "POLL_SECONDS", 0.01)
        file = SharedFile((1,))
        load_shared(file.reference)
        assert file.reference.path in mapped._mapped
        file.close()
        for _ in range(1_000):
            if file.reference.path not in mapped._mapped:
                return
            time.sleep(0.01)
        raise AssertionError


def test_a_parent_that_is_killed_leaves_no_file(tmp_path: Path) -> None:
    program = (
        "import os, signal, numpy as np; from backcast._parallel.shared_file import SharedFile\n"
        "file = SharedFile((np.ones(10),)); print(file.reference.path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "JOBLIB_TEMP_FOLDER": str(tmp_path)}
    killed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert Path(killed.stdout.strip()).parent == tmp_path
    for _ in range(200):
        if not list(tmp_path.iterdir()):
            return
        time.sleep(0.05)
    raise AssertionError
