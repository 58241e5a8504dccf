"""Results as JSON files: a round trip changes nothing, and other files are refused."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import backcast as bc
from backcast.diagnostics import ReplayDiagnostics
from backcast.errors import OptionError, SourceError
from backcast.report.html import report_html
from backcast.results import result_document
from tests.support.logs import two_action_log

LOG = two_action_log(means=(0.25, 0.75))  # results do not keep it alive


@cache
def estimates() -> dict[str, bc.Estimate]:
    """One of every kind of diagnostics."""
    log = LOG
    return {
        "weights": bc.evaluate(log, bc.Fixed([0.25, 0.75]), bc.IPS()),
        "model": bc.evaluate(log, bc.Uniform(), bc.DM()),
        "one run": bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.01)),
        "clock": bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), horizon=10, replicates=60),
        "permutations": bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.01), horizon=10, replicates=60),
    }


@cache
def comparison() -> bc.Comparison:
    return bc.compare(LOG, {"a": bc.UCB1(), "b": bc.RoundRobin()}, horizon=10, replicates=60)


HEALTH = bc.check(LOG, bc.UCB1())


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
        assert "mood    good" in str(read.diagnostics)
        assert "mood" in report_html(read)


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
