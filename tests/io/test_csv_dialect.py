"""CSV as spreadsheets write it: delimiters, encodings, decimal commas, dates, words for 0 and 1."""

from __future__ import annotations

import codecs
import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.io._csv_dialect import find_delimiter, find_encoding

ROLES: dict[str, Any] = {"context": "x", "action": "shown", "reward": "bought", "propensity": "p"}
HEADER = ["x", "shown", "bought", "p"]
ROWS = [["1.5", "café", "yes", "0.5"], ["2.5", "thé", "no", "0.25"]]


def write(path: Path, delimiter: str = ",", encoding: str = "utf-8", decimal: str = ".") -> Path:
    lines = [delimiter.join(fields).replace(".", decimal) for fields in (HEADER, *ROWS)]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-16-be"])
def test_delimiters_and_encodings(tmp_path: Path, delimiter: str, encoding: str) -> None:
    path = write(tmp_path / "log.csv", delimiter, encoding)
    log = bc.read_log(path, **ROLES)
    assert log.action_labels == ("café", "thé")
    assert log.rewards.tolist() == [1.0, 0.0]
    stream: Any = pickle.loads(pickle.dumps(bc.scan_log(path, **ROLES)))
    assert stream.read().fingerprint() == log.fingerprint()


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_commas(tmp_path: Path, delimiter: str) -> None:
    log = bc.read_log(write(tmp_path / "log.csv", delimiter, decimal=","), **ROLES)
    assert np.asarray(log.contexts).ravel().tolist() == [1.5, 2.5]
    assert log.propensities.tolist() == [0.5, 0.25]


def test_options_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes("x;y:shown:bought:p\n1:\xf5:1:0.5\n2:b:0:0.5\n".encode("iso-8859-13"))
    log = bc.read_log(path, **{**ROLES, "context": "x;y"}, delimiter=":", encoding="iso-8859-13")
    assert log.action_labels == ("b", "\xf5")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"delimiter": ";;"}, "delimiter is ';;'"), ({"encoding": "utf-9"}, "encoding is 'utf-9'; give a name")],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(bc.OptionError, match=message):
        bc.read_log(write(tmp_path / "log.csv"), **ROLES, **options)


def test_labels_of_bytes_are_text() -> None:
    columns = {"shown": [b"mail", b"none"], "bought": [1, 0], "p": [0.5, 0.5]}
    log = bc.Log.from_frame(columns, **{**ROLES, "context": []})
    assert log.action_labels == ("mail", "none")
    with pytest.raises(bc.LogError, match="not UTF-8"):
        bc.Log.from_frame({**columns, "shown": [b"caf\xe9", b"none"]}, **{**ROLES, "context": []})


def test_dates_with_the_day_first_are_times(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x;shown;bought;p;when\n1;a;1;0,5;24.12.2026 10:30\n2;b;0;0,5;01.02.2026 09:00\n")
    log = bc.read_log(path, **ROLES, times="when")
    assert log.times is not None
    assert set(log.times.astype("datetime64[D]").tolist()) == {datetime.date(2026, 12, 24), datetime.date(2026, 2, 1)}


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("YES", "NO"), ("y", "n")])
def test_words_are_rewards(tmp_path: Path, words: tuple[str, str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"x,shown,bought,p\n1,a,{words[0]},0.5\n2,b,{words[1]},0.5\n")
    assert bc.read_log(path, **ROLES).rewards.tolist() == [1.0, 0.0]


def test_other_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x,shown,bought,p\n1,a,yes,0.5\n2,b,maybe,0.5\n")
    with pytest.raises(bc.LogError, match=r"row 1 .*: reward is 'maybe'"):
        bc.read_log(path, **ROLES)


def test_small_functions() -> None:
    assert find_encoding(codecs.BOM_UTF8 + b"x") == "utf8"
    assert find_encoding(b"caf\xe9,\x81") == "latin-1"
    assert find_delimiter(["a;b;c", "1;2", "1;2;3;4"]) == ";"
    assert find_delimiter(['a,"b;c"', '1,"x;y"']) == ","
    assert find_delimiter([]) == ","
