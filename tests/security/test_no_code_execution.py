"""No content of a file is run, and names from files cannot control a terminal or break a page."""

from __future__ import annotations

import ast
import io
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import backcast as bc
from backcast.cli import main
from backcast.errors import BackcastError

SOURCE = Path(bc.__file__).parent
# Calls that turn data into code or into objects of any class.
FORBIDDEN = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "marshal.loads", "marshal.load"),
    *("pickle.load", "pickle.loads", "joblib.load", "cloudpickle.load", "cloudpickle.loads", "shelve.open"),
    *("subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_output", "runpy.run_path"),
}
# Arguments that a process passes to its workers, in a file that no other user can write.
ALLOWED = {("shared_file.py", "pickle.loads")}
IMPORTING = {"importlib.import_module", "importlib.util.spec_from_file_location", "importlib.util.find_spec"}


def calls_in(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


MODULES = sorted(SOURCE.rglob("*.py"))


def test_no_module_turns_data_into_code() -> None:
    assert len(MODULES) > 100
    for path in MODULES:
        for name, call in calls_in(path):
            assert name not in FORBIDDEN or (path.name, name) in ALLOWED, f"{path.name}: {name}"
            for word in call.keywords:
                allowed = not (word.arg == "allow_pickle" and not _is_false(word.value))
                assert allowed, f"{path.name}: {ast.unparse(call)}"


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_users_modules_are_imported_in_one_place() -> None:
    modules = {
        path.relative_to(SOURCE).as_posix()
        for path in MODULES
        for name, call in calls_in(path)
        if name in IMPORTING and not isinstance(call.args[0], ast.Constant)
    }
    # _lazy_imports imports the modules of backcast itself; a fingerprint what the code of the user's policy imports.
    assert modules == {"cli/objects.py", "_lazy_imports.py", "_parallel/fingerprint.py"}


class Trap:
    """An object that writes a file when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (self.mark, "w"))


@pytest.mark.parametrize(
    "name", ["t.parquet", "t.csv", "t.ndjson", "t.vw", "t.dsjson", "t.vw.gz", "t.csv.gz", "run.toml", "result.json"]
)
def test_a_pickle_is_never_opened(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "mark"
    trap = pickle.dumps(Trap(str(mark)))
    (tmp_path / name).write_bytes(trap)
    command = "report" if name == "result.json" else "check"
    columns = ["--action", "a", "--reward", "r", "--propensity", "p"]
    columns = [] if ".vw" in name or ".dsjson" in name or command == "report" else columns
    assert main([command, str(tmp_path / name), *columns]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not mark.exists()
    # The trap itself works.
    pickle.load(io.BytesIO(trap)).close()
    assert mark.exists()


# Names that would control a terminal

EVIL = "a\x1b[2J\x1b]0;own\x07\r\n\x9b31m\u202e[bold red]x[/bold red]\0"


def test_messages_are_printable() -> None:
    for error in (bc.LogError, bc.OptionError, bc.PolicyError, bc.EvaluationError, BackcastError):
        shown = str(error(f"column {EVIL}")).replace("\n", "")
        assert shown.isprintable()
        assert "[bold red]" in shown


def test_tables_and_lines_on_the_terminal_hold_no_escapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = EVIL.replace("\0", "").replace("\r\n", "")
    rows = "".join(f'{row % 7},"{evil}{row % 2}",{row % 2},0.5\n' for row in range(80))
    log = tmp_path / "log.csv"
    log.write_text(f'"x{evil}",a,r,p\n{rows}', newline="")
    columns = ["--context", "x*", "--action", "a", "--reward", "r", "--propensity", "p"]
    assert main(["init", str(log), "--out", str(tmp_path / "run.toml")]) == 0
    assert main(["evaluate", str(log), *columns, "--policy", f"{evil}=uniform", "--evaluator", "ips"]) == 0
    main(["check", str(log), *columns])
    assert main(["check", str(log), "--context", f"y{evil}", *columns[2:]]) == 2
    assert main(["check", str(tmp_path / f"no{evil}.csv"), *columns]) == 2
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert all(character.isprintable() or character == "\n" for character in text)
    assert "[bold red]x[/bold red]" in printed.out
    # The written run file can be read.
    assert main(["check", str(tmp_path / "run.toml"), "--quiet"]) in (0, 1)


def test_the_page_shows_names_and_runs_none_of_them(tmp_path: Path) -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    log = bc.Log(None, actions=[0, 1] * 30, rewards=[1, 0] * 30, propensities=[0.5] * 60)
    estimates = {name: bc.evaluate(log, bc.Uniform(), bc.IPS()), "other": bc.evaluate(log, bc.Uniform(), bc.IPS())}
    page = bc.save_report(estimates, tmp_path / "report.html", about={"log": name}).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
