"""``backcast plan``: the number of events that a comparison needs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cli import EVEN_OR_MORE, golden, run, tidy, write_click_log

PLAN = f"{EVEN_OR_MORE} --difference 0.1"
ASSUMED = "--reward-sd 0.5 --weight 2 --horizon 10 --difference 0.1 --difference 0.2"


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_click_log(folder / "log.csv")
    return folder


class TestPlan:
    def test_from_assumptions(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"plan {ASSUMED}") == 0
        assert tidy(capsys.readouterr().out) == golden("plan-assumed.txt")

    def test_from_a_pilot(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"plan {PLAN} --html plan.html --png plan.png --svg plan.svg") == 0
        printed = capsys.readouterr()
        assert tidy(printed.out) == golden("plan.txt")
        assert printed.err.count("The chart is in") == 3
        page = (folder / "plan.html").read_text(encoding="utf-8")
        assert not re.search(r"<script[^>]+src=", page)

    def test_json_is_that_of_the_library(self, capsys: pytest.CaptureFixture[str]) -> None:
        import backcast as bc

        assert run(f"plan {ASSUMED} --power 0.9 --level 0.9 --json") == 0
        assumed = bc.PlanAssumptions(reward_sd=0.5, weight=2, horizon=10)
        expected = bc.plan(assumed, [0.1, 0.2], power=0.9, level=0.9).to_dict()
        assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == json.loads(json.dumps(expected))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("plan --reward-sd 1 --weight 2", "the difference to detect is missing"),
            ("plan --difference 0.1", "there is neither a pilot log nor an assumption"),
            (f"plan {ASSUMED} --png no/plan.png", "the chart cannot be written to 'no/plan.png'"),
        ],
    )
    def test_bad_input(self, words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(words) == 2
        assert message in capsys.readouterr().err
