"""Damaged run files, saved results and command-line options: a result, or exit code 2 and one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast.cli import main
from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, build
from backcast.cli.settings import read_run_file
from tests.security.attack import damaged_bytes, read_or_refuse

RUN_FILE = b"""# a run
log = "log.csv"
context = ["x*"]
action = "a"
reward = "r"
propensity = 0.5
horizon = 100
reward_range = [0.0, 1.0]
exchangeable = true
[policies]
even = "uniform"
learner = { kind = "linucb", alpha = 0.3 }
"""


@settings(max_examples=120)
@given(content=damaged_bytes(RUN_FILE))
def test_damaged_run_files(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_bytes(content)
    read_or_refuse(lambda: read_run_file(str(path)))


VALUES = st.sampled_from(
    [
        *("", "0", "-1", "nan", "1e999", "none", "true", "[]", "[0.5,0.5]", "[[1]]", "{}", "'x'", "x", "[", "(1,"),
        *("9" * 400, "b'a'", "1j", "0x10", "\0", "é", "[{.5,0.5]", "[None]", "[1,'a']", "1e308", "-0.0"),
    ]
)
KEYS = st.sampled_from(
    [
        *("alpha", "epsilon", "probabilities", "batch_size", "q", "c_max", "level", "acceptance"),
        *("", "__init__", "self", "é"),
    ]
)
HEADS = st.sampled_from([*POLICIES.names, *EVALUATORS.names, *INTERVALS.names, "", " ", "linubc", "LINUCB", "é", "\0"])


@settings(max_examples=120)
@given(head=HEADS, options=st.lists(st.tuples(KEYS, VALUES), max_size=3))
@example(head="fixed", options=[("probabilities", "[{.5,0.5]")])  # found by atheris
def test_random_options(head: str, options: list[tuple[str, str]]) -> None:
    text = f"{head}:" + ",".join(f"{key}={value}" for key, value in options)
    for registry in (POLICIES, EVALUATORS, INTERVALS):
        read_or_refuse(lambda registry=registry: build(text, registry))  # type: ignore[misc]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A saved comparison."""
    log = bc.Log(None, actions=[0, 1] * 100, rewards=[1, 0] * 100, propensities=[0.5] * 200)
    policies: dict[str, Any] = {"even": bc.Uniform(), "learner": bc.UCB1()}
    comparison = bc.compare(log, policies, bc.ClockReplay(), horizon=4, replicates=60)
    path = bc.save_result(comparison, tmp_path_factory.mktemp("saved") / "result.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each value in a document; of lists, to the first two."""
    yield path
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else ()
    for key, item in inner:
        yield from paths_in(item, (*path, key))


OTHER: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 2**70, 1e308, "inf", "-inf", "x", "", [], {}, [[]], [None], ["x"], {"a": 1}]
)


def change_value(document: dict[str, Any], path: tuple[Any, ...], value: Any, *, drop: bool) -> Any:
    copy = json.loads(json.dumps(document))
    if not path:
        return value
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


def test_results_with_a_value_of_another_kind(tmp_path: Path, document: dict[str, Any]) -> None:
    paths = list(paths_in(document))
    assert len(paths) > 100

    @settings(max_examples=120)
    @given(keys=st.sampled_from(paths), value=OTHER, drop=st.booleans())
    def attack(keys: tuple[Any, ...], value: Any, drop: bool) -> None:
        path = tmp_path / "result.json"
        path.write_text(json.dumps(change_value(document, keys, value, drop=drop)))
        read_or_refuse(lambda: bc.load_result(path))

    attack()


def test_damaged_results(tmp_path: Path, document: dict[str, Any]) -> None:
    @settings(max_examples=100)
    @given(content=damaged_bytes(json.dumps(document).encode()))
    def attack(content: bytes) -> None:
        path = tmp_path / "result.json"
        path.write_bytes(content)
        read_or_refuse(lambda: bc.load_result(path))

    attack()


def test_reports_of_changed_results(
    tmp_path: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A result that loads is also drawn, or refused in one line."""
    paths = [keys for keys in paths_in(document) if len(keys) > 1]

    @settings(max_examples=12)
    @given(keys=st.sampled_from(paths), value=OTHER)
    def attack(keys: tuple[Any, ...], value: Any) -> None:
        path = tmp_path / "result.json"
        path.write_text(json.dumps(change_value(document, keys, value, drop=False)))
        capsys.readouterr()
        code = main(["report", str(path), "--report", str(tmp_path / "report.html"), "--quiet"])
        assert code in (0, 2)
        assert capsys.readouterr().err.count("\n") == (code == 2)

    attack()
