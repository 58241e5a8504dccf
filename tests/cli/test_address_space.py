"""Runs under a limit of the address space: too small a limit is one line, and every larger one suffices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backcast.cli.address_space import SMALLEST_LIMIT

LIMITED = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv.pop(1)),) * 2)\n"
LIMITED += "from backcast.cli import main; sys.exit(main())"
RUN = "--context f* --action a --reward r --propensity p --policy uniform --evaluator dr --stream --quiet"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    n = 5_000
    columns: dict[str, Any] = {f"f{i}": rng.normal(size=n) for i in range(143)}
    columns |= {"a": rng.integers(3, size=n), "r": (rng.random(n) < 0.3).astype(float), "p": np.full(n, 1 / 3)}
    path = tmp_path_factory.mktemp("limited") / "log.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def run_limited(limit: float, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED, str(int(limit)), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


# before, 1.0 GB ended the process, 1.25 and 2.0 GB gave code 7, and 1.5, 1.75 and 2.5 GB sufficed
@pytest.mark.parametrize("limit", [SMALLEST_LIMIT, 2.0e9])
def test_a_stream_is_evaluated_from_the_smallest_limit_on(log: Path, limit: float) -> None:
    done = run_limited(limit, "evaluate", str(log), *RUN.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert "uniform" in done.stdout


def test_a_smaller_limit_is_refused(log: Path) -> None:
    done = run_limited(1.0e9, "evaluate", str(log), *RUN.split())
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr == (
        "error: the address space is limited to 1.00 GB (ulimit -v), and 1.20 GB are the least; raise the limit "
        "(ulimit -v 1171876), or limit memory by a control group\n"
    )
    assert run_limited(0.3e9, "--help").returncode == 0
