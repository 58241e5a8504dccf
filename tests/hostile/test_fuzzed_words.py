"""Damaged run files, saved results and words of the command line: an answer, or exit code 2 and one line."""

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
from tests.hostile.attack import damaged, is_log_or_ours

REPLAY_RECORD = b"""# a run
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
@given(content=damaged(REPLAY_RECORD))
def test_damaged_run_files(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_bytes(content)
    is_log_or_ours(lambda: read_run_file(str(path)))


VALUES = st.sampled_from(
    [
        *(
            "",
            "0",
            "-1",
            "nan",
            "1e999",
            "none",
            "true",
            "[]",
            "[0.5,0.5]",
            "[[1]]",
            "{}",
            "'x'",
            "x",
            "[",
            "(1,",
            "9" * 400,
        ),
        *("b'a'", "1j", "0x10", "\0", "é", "[{.5,0.5]", "[None]", "[1,'a']", "1e308", "-0.0"),
    ]
)
KEYS = st.sampled_from(
    [
        "alpha",
        "epsilon",
        "probabilities",
        "batch_size",
        "q",
        "c_max",
        "level",
        "acceptance",
        "",
        "__init__",
        "self",
        "é",
    ]
)
HEADS = st.sampled_from([*POLICIES.names, *EVALUATORS.names, *INTERVALS.names, "", " ", "linubc", "LINUCB", "é", "\0"])


@settings(max_examples=120)
@given(head=HEADS, options=st.lists(st.tuples(KEYS, VALUES), max_size=3))
@example(head="fixed", options=[("probabilities", "[{.5,0.5]")])  # found by atheris
def test_words_of_nonsense(head: str, options: list[tuple[str, str]]) -> None:
    text = f"{head}:" + ",".join(f"{key}={value}" for key, value in options)
    for registry in (POLICIES, EVALUATORS, INTERVALS):
        is_log_or_ours(lambda registry=registry: build(text, registry))  # type: ignore[misc]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    log = bc.Log(None, actions=[0, 1] * 100, rewards=[1, 0] * 100, propensities=[0.5] * 200)
    policies = {"even": bc.Uniform(), "learner": bc.UCB1()}
    found = bc.compare(log, policies, bc.ClockReplay(), horizon=4, replicates=60)
    path = bc.save_result(found, tmp_path_factory.mktemp("whole") / "result.json")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a document, lists by their first two."""
    yield path
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else ()
    for key, item in inner:
        yield from places_in(item, (*path, key))


OTHER: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 2**70, 1e308, "inf", "-inf", "x", "", [], {}, [[]], [None], ["x"], {"a": 1}]
)


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any, *, drop: bool) -> Any:
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


def test_results_with_a_value_of_another_kind(tmp_path: Path, whole: dict[str, Any]) -> None:
    places = list(places_in(whole))
    assert len(places) > 100

    @settings(max_examples=120)
    @given(place=st.sampled_from(places), value=OTHER, drop=st.booleans())
    def attack(place: tuple[Any, ...], value: Any, drop: bool) -> None:
        path = tmp_path / "result.json"
        path.write_text(json.dumps(changed(whole, place, value, drop=drop)))
        is_log_or_ours(lambda: bc.load_result(path))

    attack()


def test_damaged_results(tmp_path: Path, whole: dict[str, Any]) -> None:
    @settings(max_examples=100)
    @given(content=damaged(json.dumps(whole).encode()))
    def attack(content: bytes) -> None:
        path = tmp_path / "result.json"
        path.write_bytes(content)
        is_log_or_ours(lambda: bc.load_result(path))

    attack()


def test_reports_of_changed_results(tmp_path: Path, whole: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """What is loaded is also drawn, or refused in a line."""
    places = [place for place in places_in(whole) if len(place) > 1]

    @settings(max_examples=12)
    @given(place=st.sampled_from(places), value=OTHER)
    def attack(place: tuple[Any, ...], value: Any) -> None:
        path = tmp_path / "result.json"
        path.write_text(json.dumps(changed(whole, place, value, drop=False)))
        capsys.readouterr()
        code = main(["report", str(path), "--report", str(tmp_path / "report.html"), "--quiet"])
        assert code in (0, 2)
        assert capsys.readouterr().err.count("\n") == (code == 2)

    attack()
