"""Paths that cannot be written: one line of error, an older file unchanged, no partial file left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import backcast as bc
from backcast._files import atomic_write
from backcast.cli import main
from backcast.errors import OptionError, ResourceError

LOG = bc.Log(None, actions=[0, 1] * 30, rewards=[1, 0] * 30, propensities=[0.5] * 60)
ROWS = "a,r,p\n" + "0,1,0.5\n1,0,0.5\n" * 30
OPTIONS = ["--action", "a", "--reward", "r", "--propensity", "p", "--policy", "uniform", "--evaluator", "ips"]
NOBODY = 65534


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(ROWS)
    return path


def error_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """Return the error line of a command that fails with exit code 2."""
    capsys.readouterr()
    assert main(arguments) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ")
    assert line.count("\n") == 1
    return line


def write(path: Path | str, content: bytes, problem: Any = None) -> None:
    with atomic_write(path, "report") as file:
        file.write(content)
        if problem is not None:
            raise problem


@contextmanager
def without_write_access() -> Iterator[None]:
    """Run as the user nobody if the tests run as root, which may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def protected() -> Iterator[Path]:
    """A write-protected folder with a file in it."""
    folder = Path(tempfile.mkdtemp())
    (folder / "old.html").write_text("old")
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_write_protected_folder(protected: Path) -> None:
    with without_write_access():
        for name in ("new.html", "old.html"):
            with pytest.raises(OptionError, match="is write-protected"):
                write(protected / name, b"new")
    assert [path.name for path in protected.iterdir()] == ["old.html"]
    assert (protected / "old.html").read_text() == "old"


def unwritable_paths(folder: Path) -> list[tuple[str, str]]:
    """Paths that cannot be written, and the reason."""
    return [
        (str(folder), "it is a folder"),
        (f"{folder}/", "it is a folder"),
        (str(folder / "none" / "x.html"), "there is no folder"),
        (str(folder / "file.txt" / "x.html"), "there is no folder"),
        ("a\0b", "NUL"),
        (str(folder / ("y" * 300 + ".html")), "File name too long"),
    ]


@pytest.mark.parametrize("number", range(6))
def test_every_output_names_the_reason(
    log: Path, tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file.txt").write_text("x")
    path, why = unwritable_paths(folder)[number]
    saved = tmp_path / "result.json"
    bc.save_result(bc.evaluate(LOG, bc.Uniform(), bc.IPS()), saved)
    before = set(tmp_path.rglob("*"))
    plan = ["plan", "--reward-sd", "0.3", "--weight", "5", "--horizon", "100", "--difference", "0.01"]
    for arguments in (
        ["evaluate", str(log), *OPTIONS, "--report", path],
        ["evaluate", str(log), *OPTIONS, "--save-json", path.replace(".html", ".json")],
        ["report", str(saved), "--report", path],
        ["report", str(saved), "--report", str(tmp_path / "r.html"), "--svg", path],
        [*plan, "--png", path],
        [*plan, "--html", path],
        ["demo", "--log", path],
    ):
        assert why in error_line(capsys, arguments)
    assert set(tmp_path.rglob("*")) - before <= {tmp_path / "r.html"}


def test_paths_are_checked_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log does not exist either, but the output path is reported first."""
    line = error_line(capsys, ["evaluate", "no.csv", *OPTIONS, "--save-json", str(tmp_path)])
    assert "the result cannot be written" in line


def run_with_full_disk(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose files may not exceed 4,000 bytes, which acts like a full disk."""
    head = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
    command = [sys.executable, "-B", "-c", head + textwrap.dedent(code)]
    # Compiled code would be cached in files.
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=300, check=False)


def test_a_full_disk(log: Path, tmp_path: Path) -> None:
    for name in ("report.html", "result.json", "news.csv"):
        (tmp_path / name).write_text("old")
    done = run_with_full_disk(
        f"""
        from backcast.cli import main
        outputs = ["--report", "report.html", "--save-json", "result.json"]
        print(main(["evaluate", "log.csv", *{OPTIONS!r}, *outputs]), flush=True)
        print(main(["demo", "--log", "news.csv"]), flush=True)
        """,
        tmp_path,
    )
    assert "Traceback" not in done.stderr
    assert "the result cannot be written to 'result.json': File too large" in done.stderr
    assert "the report cannot be written to 'report.html': File too large" in done.stderr
    assert "the log cannot be written to 'news.csv': File too large" in done.stderr
    # The table is printed before files are written.
    assert "uniform" in done.stdout
    assert done.stdout.split()[-1] == "7"
    for name in ("report.html", "result.json", "news.csv"):
        assert (tmp_path / name).read_text() == "old"
    assert not list(tmp_path.glob(".backcast*"))


def test_full_standard_output(log: Path, tmp_path: Path) -> None:
    """Standard output is full: one line reports it, and the requested files are written."""
    command = [sys.executable, "-m", "backcast.cli", "evaluate", str(log), *OPTIONS]
    command += ["--save-json", str(tmp_path / "result.json")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.returncode == 7
    assert done.stderr.splitlines()[-1] == "error: the output cannot be written: No space left on device"
    assert "Traceback" not in done.stderr
    assert bc.load_result(tmp_path / "result.json").result


def test_a_result_that_cannot_be_saved_goes_to_a_temporary_file(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder vanishes during the work."""
    folder = tmp_path / "folder"
    folder.mkdir()
    from backcast.cli import commands, run

    run_evaluations = run.run_evaluations

    def run_and_remove_folder(*args: Any, **options: Any) -> Any:
        results = run_evaluations(*args, **options)
        folder.rmdir()
        return results

    monkeypatch.setattr(commands, "run_evaluations", run_and_remove_folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    report = tmp_path / "report.html"
    arguments = ["evaluate", str(log), *OPTIONS, "--save-json", str(folder / "result.json"), "--report", str(report)]
    assert main(arguments) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "there is no folder" in line
    temporary = Path(line.rpartition("it was saved in ")[2])
    assert bc.load_result(temporary).result
    assert report.exists()


def test_an_older_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    old = tmp_path / "report.html"
    old.write_text("old")
    old.chmod(0o640)
    for problem in (KeyboardInterrupt, OSError(28, "No space left on device"), RuntimeError):
        with pytest.raises((KeyboardInterrupt, ResourceError, RuntimeError)):
            write(old, b"half of the new one", problem)
        assert old.read_text() == "old"
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    write(old, b"new")
    assert old.read_text() == "new"
    assert old.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    write(tmp_path / "link.html", b"new")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"


def test_devices_are_written_directly() -> None:
    write("/dev/null", b"gone")
    with pytest.raises(ResourceError, match="No space left"):
        write("/dev/full", b"x" * 10**6)


def test_ctrl_c_while_a_report_is_written(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    code = """
    import sys, time
    from backcast.cli import main
    from backcast.report import html
    def slow(*given, **more):
        print("writing", flush=True)
        time.sleep(60)
    html.report_html = slow
    sys.exit(main(["evaluate", "log.csv", *OPTIONS, "--report", "report.html"]))
    """
    (tmp_path / "log.csv").write_text(ROWS)
    program = textwrap.dedent(code).replace("OPTIONS", repr(OPTIONS))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        printed = ""
        while "writing" not in printed:
            line = process.stdout.readline()
            assert line, "it ended before it wrote"
            printed += line
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "uniform" in printed
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert (tmp_path / "report.html").read_text() == "old"
    assert not list(tmp_path.glob(".backcast*"))
