"""Logs of Vowpal Wabbit read in parts: the events, and the estimates, are those of the log in memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import backcast as bc
from backcast.io import _vw_stream, limits
from backcast.log import concat_logs
from tests.support.cli import run

N_EVENTS = 230
Source: TypeAlias = "tuple[Any, dict[str, Any]]"


def dsjson_lines(n: int = N_EVENTS, *, start: int = 0, times: bool = True) -> list[str]:
    """Decisions among two or three actions with features, every seventh without a cost."""
    rng = np.random.default_rng(start)
    lines = []
    for k in range(start, start + n):
        n_actions = int(rng.integers(2, 4))
        taken, user = int(rng.integers(n_actions)), int(rng.integers(4))
        p = [1 / n_actions] * n_actions
        record: dict[str, Any] = {
            "_label_cost": -float(rng.random() < (0.75 if taken == user % 2 else 0.25)),
            "_label_probability": p[taken],
            "_labelIndex": taken,
            "a": list(range(1, n_actions + 1)),
            "p": p,
            "c": {"U": {"id": f"u{user}"}, "_multi": [{"A": {"item": f"i{a}"}} for a in range(n_actions)]},
        }
        if times:
            record["Timestamp"] = f"2026-05-01T{k // 3600:02}:{k // 60 % 60:02}:{k % 60:02}Z"
        if k % 7 == 6:
            lines.append(json.dumps({**record, "_label_cost": None, "_skipLearn": True}))
        lines.append(json.dumps(record))
    return lines


ADF = "".join(
    f"shared |U u{k % 3}\n{'0:-1:0.5 ' if k % 2 else ''}|A x\n{'' if k % 2 else '0:0:0.5 '}|A y:{k}\n\n"
    for k in range(90)
)
CB = "".join(f"{1 + k % 3}:{-(k % 4) / 4}:0.5 {'1 2 3' if k % 5 == 0 else ''} | age:{k % 7} new\n" for k in range(90))


@pytest.fixture(params=["dsjson", "adf", "cb", "sparse cb", "two files, one compressed"])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, dict[str, Any]]:
    """Paths and options of a log."""
    monkeypatch.setattr(_vw_stream, "INDEXED_EVENTS", 16)
    if request.param == "dsjson":
        (tmp_path / "log.dsjson").write_text("\n".join(dsjson_lines()))
        return tmp_path / "log.dsjson", {"hash_size": 8}
    if request.param == "two files, one compressed":
        lines = dsjson_lines()
        # the later one first
        (tmp_path / "a.dsjson.gz").write_bytes(gzip.compress("\n".join(lines[100:]).encode()))
        (tmp_path / "b.dsjson").write_text("\n".join(lines[:100]))
        return [tmp_path / "a.dsjson.gz", tmp_path / "b.dsjson"], {"hash_size": 8, "interactions": ["UA"]}
    text, size = (ADF, 8) if request.param == "adf" else (CB, 4096 if request.param == "sparse cb" else 8)
    (tmp_path / "log.vw").write_text(text)
    return tmp_path / "log.vw", {"hash_size": size}


def content(log: bc.Log) -> tuple[Any, ...]:
    return log.fingerprint(), log.action_labels, None if log.times is None else log.times.tolist()


def test_parts_are_the_log(source: Source) -> None:
    path, options = source
    log, stream = bc.read_vw(path, **options), bc.scan_vw(path, batch_rows=37, **options)
    assert content(concat_logs(list(stream))) == content(log)
    assert content(stream.read()) == content(log)
    assert [len(part) for part in stream][:-1] == [37] * (len(log) // 37)
    assert np.concatenate([part.rows for part in stream]).tolist() == list(range(len(log)))
    assert stream.n_events == len(log)
    assert stream.average_reward() == pytest.approx(log.rewards.mean(), rel=1e-12)
    assert (stream.n_actions, stream.n_features, stream.has_action_features) == (
        *(log.n_actions, log.n_features),
        log.has_action_features,
    )
    in_memory, in_parts = log.reading, stream.reading
    assert (in_parts.lines, in_parts.left_out, in_parts.interactions, in_parts.order) == (
        *(in_memory.lines, in_memory.left_out),
        *(in_memory.interactions, in_memory.order),
    )


@pytest.mark.parametrize(("start", "stop"), [(0, 20), (16, 32), (5, 49), (33, None), (49, 50)])
def test_ranges_of_events(source: Source, start: int, stop: int | None) -> None:
    path, options = source
    log, stream = bc.read_vw(path, **options), bc.scan_vw(path, **options)
    cut = stream.slice(start, stop)
    assert content(cut.read()) == content(log[start:stop])
    assert cut.read().rows.tolist() == list(range(start, stop or len(log)))
    head, others = stream.split_head(start + 1)
    assert content(head) == content(log[: start + 1])
    assert others is not None
    assert content(others.slice(2, 9).read()) == content(log[start + 3 : start + 10])
    assert stream.split_head(len(log))[1] is None
    pieces = stream.split(7)
    assert content(concat_logs([piece.read() for piece in pieces])) == content(log)
    sample = stream.sample(20)
    assert content(sample) == content(log[sample.rows])
    assert len(sample) == 20
    assert content(stream.sample(10**6)) == content(log)


@pytest.mark.parametrize("policy", [bc.Uniform(), bc.EpsilonGreedy(0.2)])
def test_estimates_are_those_of_the_log(source: Source, policy: Any) -> None:
    path, options = source
    learns = hasattr(policy, "learn")
    logs: list[Any] = [
        bc.read_vw(path, **options),
        *(bc.scan_vw(path, batch_rows=rows, **options) for rows in (37, 1000)),
    ]
    evaluator, horizon = (bc.DRns(q=0.0), 5) if learns else (bc.DR(), None)
    value, first, second = (
        bc.evaluate(log, policy, evaluator, reward_model=0.5, horizon=horizon).value for log in logs
    )
    assert first == second
    # sums of a stream are taken shard by shard
    assert first == (value if learns else pytest.approx(value, rel=1e-12))


def test_times_out_of_order_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vw_stream, "INDEXED_EVENTS", 8)
    lines = dsjson_lines(30)
    path = tmp_path / "log.dsjson"
    path.write_text("\n".join([*lines[:20], lines[21], lines[20], *lines[22:]]))
    with pytest.raises(bc.SourceError, match=r"log.dsjson, line 22: time .* is before that of the .*read_vw"):
        bc.scan_vw(path)
    (tmp_path / "other.dsjson").write_text("\n".join(lines[10:]))
    path.write_text("\n".join(lines[:20]))
    with pytest.raises(bc.SourceError, match=r"other.dsjson: its times begin .* before the last one of .*log.dsjson"):
        bc.scan_vw([path, tmp_path / "other.dsjson"])
    # without times in all decisions, rows count
    (tmp_path / "other.dsjson").write_text("\n".join(dsjson_lines(5, times=False)))
    assert bc.scan_vw([path, tmp_path / "other.dsjson"]).reading.order == "rows"


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    path.write_text("\n".join(dsjson_lines(30)))
    stream = bc.scan_vw(path)
    path.write_text("\n".join(dsjson_lines(31)))
    with pytest.raises(bc.SourceError, match="the file has changed since the log was opened"):
        list(stream)


def test_faults_have_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    lines = dsjson_lines(30)
    path.write_text("\n".join([*lines[:9], lines[9].replace('"_label_probability": 0.', '"_label_probability": 7.')]))
    with pytest.raises(bc.LogError, match=r"log.dsjson, line 10\): propensity is 7"):
        list(bc.scan_vw(path, batch_rows=4))
    path.write_text('{"c": 3}\n')
    with pytest.raises(bc.LogError, match="no decision with action, cost and probability is in it"):
        bc.scan_vw(path)
    path.write_text(lines[0])
    with pytest.raises(bc.OptionError, match="batch_rows is 0"):
        bc.scan_vw(path, batch_rows=0)
    with pytest.raises(bc.OptionError, match="no decision has features in both namespaces of 'UX'"):
        bc.scan_vw(path, interactions=["UX"])


def test_a_text_too_long_for_memory_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.dsjson"
    path.write_text("\n".join(dsjson_lines(600)))
    # a text of 170,000 characters, and parts of 256 decisions with 0.8 MB of features
    monkeypatch.setattr(limits, "total_memory", lambda: 1_000_000)
    monkeypatch.setattr(_vw_stream, "free_memory", lambda: 1_000_000)
    words = f"evaluate {path} --policy uniform --evaluator ips --json"
    assert run(words) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    document = json.loads(printed.out)
    assert document["estimates"]["uniform"]["diagnostics"]["events"] == 600
    assert run(words.replace(" --json", "")) == 0
    assert "the log does not fit in memory; it is read in parts" in capsys.readouterr().err
    assert run(f"{words} --no-stream") == 7
    assert "leave out --no-stream to read it in parts" in capsys.readouterr().err


def test_the_command_line_streams_and_runs_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, result = tmp_path / "log.dsjson", tmp_path / "result.json"
    path.write_text("\n".join(dsjson_lines()))
    assert run(f"evaluate {path} --policy uniform --evaluator ips --stream --save-json {result} --quiet") == 0
    assert run(f"check {path} --stream --json") == 0
    capsys.readouterr()
    assert run(f"rerun {result}") == 0
    assert "the same to the bit" in capsys.readouterr().out
