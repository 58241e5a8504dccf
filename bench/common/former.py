"""An earlier commit of backcast, whose source is extracted from git, and processes that run it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from bench.common.machine import ROOT
from bench.common.processes import ONE_THREAD, last_line

FORMER = "38f3d63"
FOLDER = Path("build/former")


def check_out_former() -> Path:
    """Return the folder of the former commit's source, extracted if it is not there yet.

    An archive, not a worktree: git would remember a worktree after its folder was removed, and not make it again.
    """
    folder = FOLDER.resolve() / FORMER
    if not folder.exists():
        archive = subprocess.run(["git", "archive", FORMER, "src"], cwd=ROOT, capture_output=True, check=True).stdout
        folder.parent.mkdir(parents=True, exist_ok=True)
        # renamed when it is complete, so that an interrupted run leaves no half of it
        unfinished = tempfile.mkdtemp(dir=folder.parent)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(unfinished, filter="data")
        os.rename(unfinished, folder)
    return folder / "src"


def run_with_source(source: Path, module: str, *arguments: Any, limit: float | None = None) -> Any:
    """Return the JSON in the last line that a module prints, run on one thread with the backcast of a source folder.

    Raises ``subprocess.TimeoutExpired`` after the limit in seconds, and ``RuntimeError`` with the last line of the
    error stream if the module fails. Compiled code is stored apart for each source folder.
    """
    paths = os.pathsep.join([str(source), str(ROOT)])
    cache = FOLDER.resolve() / "compiled" / source.parent.name
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    # a session of its own: its workers are stopped with it, and do not slow down what runs next
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise RuntimeError(last_line(errors))
    return json.loads(output.splitlines()[-1])
