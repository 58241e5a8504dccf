"""Shared by the attacks: damaging files, checking the outcome, and running code in an isolated process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from backcast.errors import BackcastError
from backcast.log import Log

PARTS: dict[str, Any] = {"context": "x*", "action": "a", "reward": "r", "propensity": "p"}


def check_log(log: Log) -> None:
    """Assert what every valid log guarantees."""
    assert len(log) > 0
    assert np.isfinite(log.rewards).all()
    assert ((log.propensities > 0) & (log.propensities <= 1)).all()
    assert log.actions.min() >= 0
    assert log.actions.max() < log.n_actions == len(log.action_labels) == len(set(log.action_labels))
    assert log.contexts.shape[0] == len(log)
    data: Any = log.contexts
    assert np.isfinite(data.data if hasattr(data, "indptr") else data).all()
    if log.available is not None:
        assert log.available[np.arange(len(log)), log.actions].all()


def read_or_refuse(read: Callable[[], Any]) -> str:
    """Assert that reading gives a valid log or a short, printable BackcastError; return the message, if any."""
    try:
        log = read()
    except BackcastError as error:
        message = str(error)
        assert message
        assert len(message) < 5_000
        assert message.isprintable()
        return message
    if isinstance(log, Log):
        check_log(log)
    return ""


@st.composite
def damaged_bytes(draw: st.DrawFn, original: bytes) -> bytes:
    """Draw a file with bytes changed, removed, inserted, repeated or zeroed, up to four times; often near its end."""
    content = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        size = len(content)
        back = draw(st.booleans())
        at = size - draw(st.integers(0, min(size, 400))) if back else draw(st.integers(0, size))
        length = draw(st.integers(1, 24))
        kind = draw(st.sampled_from(["flip", "put", "cut", "drop", "double", "zero", "ones", "splice"]))
        if kind == "flip" and at < size:
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "put":
            content[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif kind == "cut":
            del content[at:]
        elif kind == "drop":
            del content[at : at + length]
        elif kind == "double":
            content[at:at] = content[at : at + length]
        elif kind in ("zero", "ones"):
            content[at : at + length] = (b"\0" if kind == "zero" else b"\xff") * len(content[at : at + length])
        elif kind == "splice":
            other = draw(st.integers(0, size))
            content[at : at + length] = original[other : other + length]
    return bytes(content)


def run_isolated(code: str, *, gigabytes: float = 3.0, seconds: float = 120.0, folder: Path | None = None) -> str:
    """Return what code prints in a process with this much address space and time; a crash fails."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({int(gigabytes * 2**30)},) * 2)\n"
    done = subprocess.run(
        [sys.executable, "-c", limit + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout
