"""Results as JSON files: a round trip changes nothing, and other files are refused."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backcast as bc
from backcast._arrays import FloatArray, IntArray
from backcast._serialization import from_json, to_json
from backcast.diagnostics import ReplayDiagnostics
from backcast.errors import OptionError, SourceError
from backcast.report.html import report_html
from backcast.results import result_document


def even_log(events: int = 400) -> bc.Log:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=events)
    rewards = (rng.random(events) < np.where(actions == 1, 0.75, 0.25)).astype(float)
    return bc.Log(None, actions, rewards, np.full(events, 0.5), reward_range=(0, 1))


@cache
def estimates() -> dict[str, bc.Estimate]:
    """One of every kind of diagnostics."""
    log = even_log()
    return {
        "weights": bc.evaluate(log, bc.Fixed([0.25, 0.75]), bc.IPS()),
        "model": bc.evaluate(log, bc.Uniform(), bc.DM()),
        "one run": bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.01)),
        "clock": bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), horizon=10, replicates=60),
        "permutations": bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.01), horizon=10, replicates=60),
    }


@cache
def comparison() -> bc.Comparison:
    return bc.compare(even_log(), {"a": bc.UCB1(), "b": bc.RoundRobin()}, horizon=10, replicates=60)


HEALTH = bc.check(even_log(), bc.UCB1())


def saved_and_read(result: Any, folder: Path) -> Any:
    return bc.load_result(bc.save_result(result, folder / "result.json", about={"log": "even.csv"})).result


class TestRoundTrip:
    @pytest.mark.parametrize("name", ["weights", "model", "one run", "clock", "permutations"])
    def test_an_estimate_comes_back(self, name: str, tmp_path: Path) -> None:
        estimate = estimates()[name]
        read = saved_and_read(estimate, tmp_path)
        assert type(read.diagnostics) is type(estimate.diagnostics)
        assert str(read) == str(estimate)
        assert read.to_dict() == estimate.to_dict()
        assert report_html(read, health=HEALTH) == report_html(estimate, health=HEALTH)

    def test_a_dict_of_them_and_a_comparison_come_back(self, tmp_path: Path) -> None:
        for result in (estimates(), comparison()):
            read = saved_and_read(result, tmp_path)
            assert type(read) is type(result)
            assert report_html(read, health=HEALTH) == report_html(result, health=HEALTH)

    def test_facts_beside_the_result_come_back(self, tmp_path: Path) -> None:
        about = {"log": "even.csv", "events": 400}
        bc.save_result(comparison(), tmp_path / "r.json", about=about, partial=True, health=HEALTH)
        read = bc.load_result(tmp_path / "r.json")
        assert str(read.health) == str(HEALTH)
        assert (read.about, read.partial) == ({"log": "even.csv", "events": 400}, True)
        assert read.made_by == f"backcast {bc.__version__}"

    def test_numbers_that_json_does_not_have_come_back(self, tmp_path: Path) -> None:
        estimate = estimates()["one run"]
        assert isinstance(estimate.diagnostics, ReplayDiagnostics)
        odd = replace(estimate, std_error=math.nan, diagnostics=replace(estimate.diagnostics, theorem_1=math.inf))
        read = saved_and_read(odd, tmp_path)
        assert math.isnan(read.std_error)
        assert read.diagnostics.theorem_1 == math.inf

    def test_diagnostics_of_user_evaluators_are_saved(self, tmp_path: Path) -> None:
        @dataclass(frozen=True)
        class UserDiagnostics:
            events: int = 7
            mood: str = "good"

            def to_dict(self) -> dict[str, Any]:
                return {"events": self.events, "mood": self.mood}

        read = saved_and_read(replace(estimates()["weights"], diagnostics=UserDiagnostics()), tmp_path)
        assert read.diagnostics.to_dict() == {"events": 7, "mood": "good"}
        assert read.diagnostics.events == 7
        assert "mood  good" in str(read.diagnostics)
        assert "mood" in report_html(read)


@dataclass(frozen=True)
class Inner:
    name: str
    value: float


@dataclass(frozen=True)
class Everything:
    """A field of every type that results have."""

    count: int
    truth: bool
    number: float
    perhaps: float | None
    floats: FloatArray
    ints: IntArray
    inner: Inner
    several: tuple[Inner, ...]
    pair: tuple[str, float]
    table: dict[str, float]
    anything: Any = None


floats = st.floats(allow_nan=False)


class TestPlain:
    @given(floats, floats, st.lists(floats), st.text(), st.lists(st.integers(-(2**60), 2**60)))
    def test_values_survive_json(
        self, number: float, other: float, many: list[float], name: str, counts: list[int]
    ) -> None:
        inner = Inner(name, other)
        first = Everything(
            *(len(many), number > 0, number, None, np.array(many), np.array(counts, dtype=np.int64)),
            *(inner, (inner, inner), (name, number), {name: other}),
        )
        second = from_json(Everything, json.loads(json.dumps(to_json(first), allow_nan=False)))
        np.testing.assert_array_equal(second.floats, first.floats)
        np.testing.assert_array_equal(second.ints, first.ints)
        assert second.floats.dtype == np.float64
        assert replace(second, floats=first.floats, ints=first.ints) == first

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("count", 1.5, "count is 1.5; it must be a whole number"),
            ("count", True, "count is True; it must be a whole number"),
            ("number", "much", "number is 'much'; it must be a number"),
            ("inner", 3, "inner is 3; it must hold the fields of Inner"),
            ("inner", {"name": "x"}, "inner has no 'value'"),
            ("several", {}, "several is {}; it must be a list"),
            ("pair", ["x"], "pair holds 1 values; it must hold 2"),
            ("ints", 3, "ints is 3; it must be a list"),
            ("floats", ["x"], "floats is 'x'; it must be a number"),
        ],
    )
    def test_a_value_of_the_wrong_type_is_refused_with_its_path(self, field: str, value: Any, words: str) -> None:
        inner = Inner("a", 0.5)
        good = to_json(Everything(1, True, 0.5, 1.0, np.zeros(1), np.zeros(1, np.int64), inner, (), ("a", 1.0), {}))
        with pytest.raises(SourceError, match=f"thing.{words}".replace("{}", r"\{\}")):
            from_json(Everything, {**good, field: value}, "thing")


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"format": "other"}, "this is no result of backcast"),
            ({"version": 99}, "its version is 99 and 1 is what backcast"),
            ({"log": None}, "the result is damaged"),
            ({"estimate": {"value": 1}}, "estimate has no 'std_error'; is the file complete?"),
            ({"estimate": 3}, "estimate is 3; it must hold the fields of Estimate"),
        ],
    )
    def test_other_documents(self, change: dict[str, Any], words: str, tmp_path: Path) -> None:
        document = result_document(estimates()["weights"]) | change
        (tmp_path / "r.json").write_text(json.dumps(document))
        with pytest.raises(SourceError, match=words):
            bc.load_result(tmp_path / "r.json")

    def test_files_that_are_no_json_or_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "r.json").write_bytes(b"\x80\x04K\x01.")
        with pytest.raises(SourceError, match="cannot be read as JSON"):
            bc.load_result(tmp_path / "r.json")
        with pytest.raises(SourceError, match="cannot be read"):
            bc.load_result(tmp_path / "none.json")

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="the result cannot be written"):
            bc.save_result(estimates()["weights"], tmp_path / "no" / "r.json")
