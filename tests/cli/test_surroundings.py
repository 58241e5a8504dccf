"""Commands in a terminal without UTF-8, and with SIGINT ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import CHECK, EVALUATE, run_process, write_click_log

IPS = "--policy uniform --evaluator ips"


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=lambda environment: next(iter(environment)),
)
def test_a_terminal_without_utf_8(environment: dict[str, str], folder: Path) -> None:
    log = (folder / "log.csv").read_text().replace("mail", "tên").replace("none", "→")
    (folder / "log.csv").write_text(log, encoding="utf-8")
    for words in (f"{EVALUATE} {IPS}", CHECK):
        done = run_process(words, **environment)
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, done.stderr
        assert "uniform" in done.stdout or "check" in done.stdout
    done = run_process(f"{EVALUATE} {IPS} --reward prix→", **environment)
    assert done.returncode == 2
    assert "prix" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_sigint_that_is_ignored_stays_ignored(folder: Path) -> None:
    """As under nohup: the policy sends SIGINT to its own process, and the command goes on."""
    write_click_log(folder / "log.csv")
    (folder / "sends.py").write_text(
        "import os, signal\n"
        "class Sends:\n"
        "    def probabilities(self, contexts, available=None):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        return [[0.5, 0.5]] * len(contexts)\n"
    )
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from backcast.cli import main\n"
        "words = 'evaluate log.csv --action shown --reward click --propensity p --policy sends:Sends --evaluator ips'\n"
        "sys.exit(main(words.split()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert "sends:Sends" in done.stdout
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
