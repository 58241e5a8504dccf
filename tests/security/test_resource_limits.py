"""Files that announce or decompress to more than any log: an error or the correct log, in bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backcast as bc
from backcast.cli.objects import POLICIES, build
from backcast.cli.settings import read_run_file
from backcast.errors import BackcastError, EvaluationError, LogError, OptionError, ResourceError, SourceError
from backcast.io import limits
from backcast.io._vw_files import looks_like_vw
from tests.security.attack import PARTS, read_or_refuse, run_isolated

pytestmark = pytest.mark.xdist_group("hostile memory")

ROWS = 12_345  # a number whose bytes occur nowhere else in the file's footer
PRELUDE = """
import resource
import backcast as bc
from backcast.errors import BackcastError
def report(read):
    try:
        print(repr(read()))
    except BackcastError as error:
        print(type(error).__name__, str(error)[:300])
    try:  # ru_maxrss starts from the memory of the process that started this one, here a worker of pytest
        status = open("/proc/self/status").read()
        kilobytes = int(status.partition("VmHWM:")[2].split()[0])
    except OSError:
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(kilobytes // 1024, "MB")
PARTS = {"context": "x*", "action": "a", "reward": "r", "propensity": "p"}
"""


def message_of(path: Path, **options: Any) -> str:
    with pytest.raises(BackcastError) as caught:
        bc.read_log(path, **{**PARTS, **options})
    return str(caught.value)


def varint(number: int) -> bytes:
    """Return a number as it is written in the footer of a Parquet file."""
    code, encoded = (number << 1) ^ (number >> 63), bytearray()
    while code > 127:
        encoded.append(code & 127 | 128)
        code >>= 7
    return bytes([*encoded, code])


def write_forged(path: Path, claimed: int) -> Path:
    """Write a Parquet file whose footer announces another number of rows, everywhere."""
    return write_with_footer(path, (ROWS,), lambda footer: footer.replace(varint(ROWS), varint(claimed)))


def write_with_footer(path: Path, groups: tuple[int, ...], change: Callable[[bytes], bytes]) -> Path:
    """Write a Parquet file of row groups with these numbers of rows and a changed footer."""
    sink = io.BytesIO()
    rng = np.random.default_rng(0)
    with pa.parquet.ParquetWriter(
        sink, schema=pa.schema(dict.fromkeys("rxp", pa.float64()) | {"a": pa.int64()})
    ) as file:
        for rows in groups:
            ones = np.ones(rows)
            columns = {"r": rng.random(rows), "x": rng.random(rows), "p": 0.5 * ones, "a": rng.integers(2, size=rows)}
            file.write_table(pa.table(columns), row_group_size=rows)
    content = sink.getvalue()
    size = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - size], content[-8 - size : -8]
    assert all(footer.count(varint(rows)) >= 3 for rows in groups)
    footer = change(footer)
    path.write_bytes(body + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return path


@pytest.mark.parametrize("claimed", [2**60, 2**31, ROWS + 1, 0, -1, -(2**60)])
def test_absurd_numbers_of_rows(tmp_path: Path, claimed: int) -> None:
    path = write_forged(tmp_path / "log.parquet", claimed)
    assert read_or_refuse(lambda: bc.read_log(path, **PARTS))
    read_or_refuse(lambda: next(iter(bc.scan_log(path, **PARTS))))


FIRST, SECOND = 5_001, 7_344  # of two row groups; ROWS together


def change_count(footer: bytes, index: int, claimed: int) -> bytes:
    """Change one of the row counts of the first row group: 0 is that of the rewards, -1 that of the group."""
    between = footer.split(varint(FIRST))
    counts = [varint(FIRST)] * (len(between) - 1)
    counts[index] = varint(claimed)
    return b"".join(part + count for part, count in zip(between, [*counts, b""], strict=True))


def change_all_counts(footer: bytes, claimed: int) -> bytes:
    """Change the row counts of the first row group, its columns and the file consistently."""
    return footer.replace(varint(FIRST), varint(claimed)).replace(varint(ROWS), varint(claimed + SECOND))


FOOTER_CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "more, everywhere": lambda footer: change_all_counts(footer, FIRST + 1),
    "many more, everywhere": lambda footer: change_all_counts(footer, 2**33),
    "more, in the row group": lambda footer: change_count(footer, -1, FIRST + 1),
    "fewer, in the row group": lambda footer: change_count(footer, -1, FIRST - 1),
    "none, in row group and file": lambda footer: change_count(footer, -1, 0).replace(varint(ROWS), varint(SECOND)),
    "fewer than none": lambda footer: change_all_counts(footer, -1),
    "more, in the file": lambda footer: footer.replace(varint(ROWS), varint(ROWS + 1)),
    "fewer, in the file": lambda footer: footer.replace(varint(ROWS), varint(ROWS - 1)),
    "more, in the rewards": lambda footer: change_count(footer, 0, FIRST + 1),
    "fewer, in the rewards": lambda footer: change_count(footer, 0, FIRST - 1),
}
READERS: dict[str, Callable[[bc.LogStream], Any]] = {
    "parts": list,
    "the log": lambda stream: stream.read(),
    "its head": lambda stream: stream.split_head(ROWS),
    "in two": lambda stream: [list(stream.slice(0, ROWS // 2)), list(stream.slice(ROWS // 2))],
    "split": lambda stream: [list(part) for part in stream.split(2)],
    "the average": lambda stream: stream.average_reward(),
    "a learner": lambda stream: bc.evaluate(stream, bc.UCB1(), bc.DRns(q=0.1)),
    "a learner in segments": lambda stream: bc.evaluate(
        stream, bc.UCB1(), bc.DRns(q=0.1), horizon=5, interval=bc.Segments(3), n_jobs=2
    ),
    "a fixed policy": lambda stream: bc.evaluate(stream, bc.Fixed([0.25, 0.75]), bc.IPS(), n_jobs=2),
    "clock replay": lambda stream: bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=3),
}


@pytest.mark.parametrize("change", FOOTER_CHANGES)
def test_wrong_row_counts(tmp_path: Path, change: str) -> None:
    """However a stream is read, and whether or not the action labels are collected first, the error names the file."""
    path = write_with_footer(tmp_path / "log.parquet", (FIRST, SECOND), FOOTER_CHANGES[change])
    known: dict[str, Any] = {**PARTS, "n_actions": 2}
    for parts in (known, PARTS):
        for name, read in READERS.items():
            with pytest.raises(
                (SourceError, ResourceError), match=r"log\.parquet: .*announce.*Write it again$|more than there is"
            ) as caught:
                read(bc.scan_log(path, **parts))
            assert str(caught.value).isprintable(), name


def test_an_untouched_file_of_two_row_groups_is_read(tmp_path: Path) -> None:
    path = write_with_footer(tmp_path / "log.parquet", (FIRST, SECOND), lambda footer: footer)
    for read in READERS.values():
        read(bc.scan_log(path, **PARTS, n_actions=2))


def test_a_stream_that_claims_too_many_parts_is_refused_before_they_are_listed(tmp_path: Path) -> None:
    path = write_with_footer(tmp_path / "log.parquet", (FIRST, SECOND), lambda footer: change_all_counts(footer, 2**60))
    stream = bc.scan_log(path, **PARTS, n_actions=2)
    with pytest.raises(EvaluationError, match=r"would be cut into 11,529,215,046,069 parts, .*ClockReplay\(parts="):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=3)
    with pytest.raises(SourceError, match="announces"):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(parts=4), horizon=3)


def test_a_file_that_announces_no_rows_and_has_some(tmp_path: Path) -> None:
    """It is refused, although reading would skip it."""
    write_with_footer(tmp_path / "0.parquet", (FIRST, SECOND), lambda footer: footer)
    write_with_footer(tmp_path / "1.parquet", (FIRST,), lambda footer: change_count(change_count(footer, 0, 0), -1, 0))
    with pytest.raises(SourceError, match=r"1\.parquet: row group 0 announces 0 rows but 5,001 values of"):
        bc.scan_log(tmp_path, **PARTS, n_actions=2)


def test_rows_that_memory_cannot_hold_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet"
    ones = np.ones(50_000)
    pa.parquet.write_table(pa.table({"x": ones, "a": ones.astype(int), "r": ones, "p": ones}), path)
    (tmp_path / "log.csv").write_text("x,a,r,p\n" + "1,1,1,0.5\n" * 50_000)
    assert len(bc.read_log(path, **PARTS)) == 50_000
    monkeypatch.setattr(limits, "total_memory", lambda: 2**20)
    needed = "50,000 rows need 2 MB of memory, more than there is; read it in parts with scan_log"
    assert needed in message_of(path)
    assert "read it in parts with scan_log" in message_of(tmp_path / "log.csv")
    assert sum(map(len, bc.scan_log(path, **PARTS, batch_rows=10_000))) == 50_000


def test_text_that_unpacks_to_a_thousand_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops when the rows read exceed the memory: 16 KB on disk would give 2 million rows."""
    with gzip.open(tmp_path / "log.csv.gz", "wt", compresslevel=9) as file:
        file.write("x,a,r,p\n" + "1,1,1,0.5\n" * 2_000_000)
    lines = gzip.compress(b"1:1:0.5 | a b c\n" * 500_000)
    (tmp_path / "log.vw.gz").write_bytes(lines)
    (tmp_path / "line.vw.gz").write_bytes(gzip.compress(b"1" * 3_000_000))
    monkeypatch.setattr(limits, "total_memory", lambda: 2**23)
    monkeypatch.setattr(limits, "MOST_LINE", 10**6)
    assert "all of it needs more memory than there is" in message_of(tmp_path / "log.csv.gz", n_actions=2)
    with pytest.raises(bc.ResourceError, match="too many for the memory; read it in parts with scan_vw"):
        bc.read_vw(tmp_path / "log.vw.gz")
    with pytest.raises(SourceError, match=r"longer than (1,000,000|838,860) characters"):
        bc.read_vw(tmp_path / "line.vw.gz")


def test_features_of_vowpal_wabbit_that_multiply_are_refused(tmp_path: Path) -> None:
    """4,000 shared features crossed with 4,000 of an action would be 16 million."""
    names = " ".join(f"f{i}" for i in range(4000))
    (tmp_path / "log.vw").write_text(f"shared |U {names}\n0:1:0.5 |A {names}\n|A x\n")
    with pytest.raises(SourceError, match=r"line 1: crossing makes up to 16,004,000 features of one decision"):
        bc.read_vw(tmp_path / "log.vw")
    assert len(bc.read_vw(tmp_path / "log.vw", interactions=None)) == 1


@pytest.mark.parametrize(
    "text", ["1 " * 100_000, "1" * 200_000, "1:0:0.5 " * 50_000, "|" * 100_000, "shared " * 50_000]
)
def test_the_head_of_a_text_file_is_recognised_in_linear_time(tmp_path: Path, text: str) -> None:
    """A pattern that backtracks would take hours; the limit is the one of the whole test."""
    (tmp_path / "log.txt").write_text(text + "|\n")
    start = time.process_time()
    looks_like_vw(str(tmp_path / "log.txt"))
    assert time.process_time() - start < 5


def test_memory_is_what_the_process_may_have() -> None:
    assert 0 < limits.total_memory() < 2**62
    printed = run_isolated("from backcast.io.limits import total_memory; print(total_memory())", gigabytes=2)
    assert int(printed) <= 2 * 2**30


def test_texts_repeated_by_codes_end_in_bounded_memory(tmp_path: Path) -> None:
    """60,000 times a megabyte, in files of 50 KB; repeated per row it would be 60 GB."""
    n = 60_000
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, int)), pa.array(["7" * 10**6]))
    ones = np.ones(n)
    for part in ("x", "a", "r"):
        columns = {"x": ones, "a": ones.astype(int), "r": ones, "p": ones, part: repeated}
        pa.parquet.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
    printed = run_isolated(
        PRELUDE
        + """
for part in ("x", "a", "r"):
    report(lambda: bc.read_log(f"{part}.parquet", **PARTS))
""",
        seconds=300,
        folder=tmp_path,
    ).splitlines()
    assert printed[0] == "Log(60,000 events, 1 actions, 1 feature)"
    assert printed[2] == "Log(60,000 events, 1 actions, 1 feature)"
    assert "row 0 (r.parquet): reward is" in printed[4]
    assert int(printed[5].split()[0]) < 1_000


def test_files_without_an_end_of_line(tmp_path: Path) -> None:
    """Sparse files take no space on disk and must take little in memory."""
    for name in ("log.csv", "log.ndjson", "log.vw", "run.toml", "r.json"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(2**26 if name == "log.ndjson" else 2**40)
    printed = run_isolated(
        PRELUDE
        + """
from backcast.cli.settings import read_run_file
report(lambda: bc.read_log("log.csv", **PARTS))
report(lambda: bc.read_log("log.ndjson", **PARTS))
report(lambda: read_run_file("run.toml"))
report(lambda: bc.load_result("r.json"))
report(lambda: bc.read_vw("log.vw"))
""",
        seconds=300,
        folder=tmp_path,
    ).splitlines()
    assert all(line.startswith(("SourceError", "ResourceError")) for line in printed[::2])
    assert int(printed[-1].split()[0]) < 1_500


def test_nesting_that_would_end_the_process(tmp_path: Path) -> None:
    for name, content in {
        "lists.ndjson": '{"x":1,"q":' + "[" * 100_000 + "]" * 100_000 + "}\n",
        "objects.ndjson": '{"x":' * 100_000,
        "lines.ndjson": '{"x":\n' * 100_000,
        "late.ndjson": '{"x":1,"a":0,"r":1,"p":0.5}\n' * 60_000 + '{"x":1,"q":' + "[" * 100_000,
        "closed.ndjson": "]" * 100_000 + "\n" + '{"x":' + "[" * 100_000,
        "quoted.ndjson": '{"x":"\n' + '{"x":' + "[" * 100_000,
    }.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(SourceError, match=r"nests deeper than 100 levels|quotation mark"):
            bc.read_log(tmp_path / name, **PARTS)
    deep = '{"_label_cost":1,"_label_probability":0.5,"_label_Action":1,"c":' + '{"a":' * 100_000
    (tmp_path / "log.dsjson").write_text(deep)
    with pytest.raises(SourceError, match="line 1: cannot be read as dsjson"):
        bc.read_vw(tmp_path / "log.dsjson")


JSON_TOKENS = st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b",", b"\n", b'"[a"', b'"\\\\"', b'"]\\"["']))


def find_depth(text: bytes) -> int:
    """Return the largest depth of brackets outside of strings, character by character."""
    depth = deepest = 0
    in_string = escaped = False
    for character in text.decode():
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            in_string = not in_string
        elif not in_string and character in "[{":
            depth += 1
        elif not in_string and character in "]}":
            depth = max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


@given(JSON_TOKENS, st.integers(1, 5), st.integers(0, 4))
def test_nesting_is_measured_across_blocks(tokens: list[bytes], block: int, most: int) -> None:
    text = b"".join(tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "JSON_BLOCK", block)
        patch.setattr(limits, "MOST_DEPTH", most)
        if find_depth(text) > most:
            with pytest.raises(LogError, match=f"deeper than {most} levels"):
                limits.check_depth(io.BytesIO(text))
        else:
            limits.check_depth(io.BytesIO(text))


def test_brackets_in_texts_are_no_nesting(tmp_path: Path) -> None:
    rows = [{"x": "[" * 500 + '\\"{' * 50, "a": 0, "r": 1, "p": 0.5}, {"x": "\\" * 7, "a": 1, "r": 0, "p": 0.5}]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows * 5_000))
    assert len(bc.read_log(tmp_path / "log.ndjson", **PARTS)) == 10_000


@pytest.mark.parametrize(
    "content",
    ["log = " + "[" * 50_000, "a" + ".a" * 50_000 + " = 1", "[" + '"a".' * 50_000 + "a]", f"horizon = {'9' * 5_000}"],
)
def test_run_files_that_nest(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.toml").write_text(content)
    with pytest.raises(SourceError):
        read_run_file(str(tmp_path / "run.toml"))


@pytest.mark.parametrize("value", ["[" * 20_000, "-" * 20_000 + "1", "1+" * 9_000 + "1", "(" * 50, "{[]: 1}"])
def test_option_values_that_nest(value: str) -> None:
    with pytest.raises(OptionError) as caught:
        build(f"linucb:alpha={value}", POLICIES)
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("count", [10**9, 10**12, 10**400])
def test_absurd_options(tmp_path: Path, count: int) -> None:
    (tmp_path / "log.csv").write_text("x,xw,a,r,p\n1,t,0,1,0.5\n2,u,1,0,0.5\n")
    (tmp_path / "log.vw").write_text("1:0.5:0.25 | age:2 new\n2:-1:0.75 | age:3\n")
    with pytest.raises((LogError, OptionError), match="4,194,304"):
        bc.read_log(tmp_path / "log.csv", **PARTS, n_actions=count)
    with pytest.raises((LogError, OptionError), match="4,194,304"):
        bc.read_vw(tmp_path / "log.vw", n_actions=count)
    with pytest.raises((LogError, OptionError), match="4,194,304"):
        bc.Log(None, actions=[0], rewards=[0], propensities=[1], n_actions=count)
    with pytest.raises(OptionError, match="hash_size is"):
        bc.read_log(tmp_path / "log.csv", **PARTS, hash_size=10 * count)
    with pytest.raises(OptionError, match="hash_size is"):
        bc.read_vw(tmp_path / "log.vw", hash_size=10 * count)


def test_an_identifier_is_no_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import backcast._log_validation

    monkeypatch.setattr(backcast._log_validation, "MOST_ACTIONS", 100)
    (tmp_path / "log.csv").write_text("x,a,r,p\n" + "".join(f"1,{row},1,0.5\n" for row in range(1_000)))
    assert "is the column an identifier?" in message_of(tmp_path / "log.csv")


def test_large_labels_and_cells(tmp_path: Path) -> None:
    """10 MB each, in all columns: read, or refused with a short message."""
    large = "y" * 10**7
    for part in ("x", "a", "r", "p"):
        columns: dict[str, Any] = {"x": [1.0, 2.0], "a": ["m", "n"], "r": [1, 0], "p": [0.5, 0.5], part: [large, "z"]}
        pa.parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
        message = read_or_refuse(lambda: bc.read_log(tmp_path / "log.parquet", **PARTS))
        assert bool(message) == (part in "rp")
        assert read_or_refuse(lambda: bc.read_log(tmp_path / "log.parquet", **PARTS, action_labels=["q"]))


def test_many_columns(tmp_path: Path) -> None:
    """4,000 are read; a million are refused, because the header is longer than a block."""
    names = [f"x{number}" for number in range(4_000)]
    row = ",".join(["0", "1", "0.5", *["1"] * len(names)])
    (tmp_path / "log.csv").write_text(",".join(["a", "r", "p", *names]) + f"\n{row}\n")
    assert bc.read_log(tmp_path / "log.csv", **PARTS).n_features == 4_000
    (tmp_path / "log.csv").write_text(",".join(f"x{number}" for number in range(10**6)) + "\n")
    assert "cannot be read as csv" in message_of(tmp_path / "log.csv")


def test_more_columns_than_any_log_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bench/fuzz/full_size.py tries it with 900,000, which Arrow would read in 12 GB of memory."""
    table = pa.table({**{f"x{number}": [1.0] for number in range(98)}, "a": [0], "r": [1.0], "p": [0.5]})
    pa.parquet.write_table(table, tmp_path / "log.parquet")
    monkeypatch.setattr(limits, "MOST_COLUMNS", 101)
    assert bc.read_log(tmp_path / "log.parquet", **PARTS).n_features == 98
    monkeypatch.setattr(limits, "MOST_COLUMNS", 100)
    assert "log.parquet: it has 101 columns, and 100 are the most; write fewer" in message_of(tmp_path / "log.parquet")
