"""Unusual paths: pipes, devices, links in a circle, odd names and addresses; no hang and no traceback."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import backcast as bc
from backcast.cli import main
from backcast.cli.settings import read_run_file
from backcast.errors import BackcastError, OptionError, SourceError
from tests.security.attack import PARTS, read_or_refuse

GOOD = "x,a,r,p\n1,0,1,0.5\n2,1,0,0.5\n"


READERS: list[Callable[[Any], Any]] = [bc.read_vw, bc.load_result, bc.read_obd, read_run_file]
READERS.append(lambda path: bc.read_log(path, **PARTS))


def message_of(path: Any, **options: Any) -> str:
    with pytest.raises(BackcastError) as caught:
        bc.read_log(path, **{**PARTS, **options})
    return str(caught.value)


def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    (tmp_path / "link.csv").symlink_to(pipe)
    for path in (pipe, tmp_path / "link.csv"):
        for read in READERS:
            with pytest.raises(SourceError, match="this is a pipe; only files and folders can be read"):
                read(path)
    assert "this is a device" in message_of("/dev/zero", format="csv")
    # In a folder they are skipped, by a pattern refused.
    (tmp_path / "log.csv").write_text(GOOD)
    assert len(bc.read_log(tmp_path, **PARTS)) == 2
    assert read_or_refuse(lambda: bc.read_log(str(tmp_path / "*.csv"), **PARTS))


def test_pipes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "run.toml")
    os.mkfifo(tmp_path / "log.ndjson")
    os.mkfifo(tmp_path / "log.dsjson")
    for arguments in (
        ["evaluate", str(tmp_path / "run.toml")],
        ["check", str(tmp_path / "log.dsjson")],
        ["init", str(tmp_path / "log.ndjson"), "--out", str(tmp_path / "new.toml")],
        ["report", str(tmp_path / "log.ndjson")],
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "this is a pipe" in error


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.csv")
        assert "this is a socket" in message_of("s.csv")


def test_folders_and_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").mkdir()
    assert "holds no file of a known format" in message_of(tmp_path / "x.parquet")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    assert read_or_refuse(lambda: bc.read_log(tmp_path / "loop.csv", **PARTS))
    folder = tmp_path / "round"
    folder.mkdir()
    (folder / "log.csv").write_text(GOOD)
    # Two circles: followed, there would be 2**40 paths.
    (folder / "one").symlink_to(folder)
    (folder / "two").symlink_to(folder)
    assert len(bc.read_log(folder, **PARTS)) == 2
    assert len(bc.read_log(str(folder / "**" / "*.csv"), **PARTS)) == 2


def test_names_with_unusual_characters(tmp_path: Path) -> None:
    for path in ("a\0b.csv", "file:///a\0b.csv", "", "y" * 10_000 + ".csv", "a\nb\x1b[2J.csv", "\udcff.csv"):
        for read in READERS:
            assert read_or_refuse(lambda read=read, path=path: read(path))  # type: ignore[misc]
    for number, name in enumerate(["a\nb.csv", "\udcff.csv", "a b;rm.csv", "[x].csv", "a\x1b[2J.csv"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_text(GOOD)
        read_or_refuse(lambda folder=folder, name=name: bc.read_log(folder / name, **PARTS))  # type: ignore[misc]
        read_or_refuse(lambda folder=folder: bc.read_log(folder, **PARTS))  # type: ignore[misc]


@pytest.mark.parametrize("path", [3, b"log.csv", None, [None], [b"log.csv"]])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(OptionError, match=r"it must be text or a pathlib\.Path"):
        bc.read_log(path, **PARTS)


@pytest.mark.parametrize(
    "address",
    [
        *("http://127.0.0.1:1/log.csv", "https://127.0.0.1:1/log.csv", "gopher://nowhere/log.csv", "://", "file://"),
        *("file:///nowhere/log.csv", "file://nowhere/log.csv", "data://text,x", "javascript://%0aalert(1)"),
    ],
)
def test_addresses_that_lead_nowhere(address: str) -> None:
    assert read_or_refuse(lambda: bc.read_log(address, **PARTS))
    assert read_or_refuse(lambda: bc.read_vw(address))


def test_a_path_may_climb_and_an_address_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(GOOD)
    assert len(bc.read_log(f"{tmp_path}/../{tmp_path.name}/log.csv", **PARTS)) == 2
    assert len(bc.read_log(f"file://{tmp_path}/log.csv", **PARTS)) == 2


@pytest.mark.parametrize(
    "name", ["k=1", "k=", "=v", "k=a=b", "a=1", "k=%00", "k=%FF", "k=\x1b[2J", "k=__HIVE_DEFAULT_PARTITION__"]
)
def test_folders_with_odd_values(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "log.csv").write_text(GOOD)
    read_or_refuse(lambda: bc.read_log(tmp_path, **PARTS))
    read_or_refuse(lambda: bc.read_log(tmp_path, **{**PARTS, "context": ["x", "k"]}))
