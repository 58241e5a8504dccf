"""One sign convention: the first minus the second, as printed, in text, JSON, tables, charts, pages and frames."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.report._summary import summarize
from backcast.report.charts import differences_chart
from backcast.report.html import report_html
from backcast.report.text import differences_table

POLICIES = {"worst": bc.Fixed([1, 0, 0]), "best": bc.Fixed([0, 0, 1]), "middle": bc.Fixed([0, 1, 0])}


@pytest.fixture(scope="module")
def found() -> bc.Comparison:
    """Policies that are not in the order of their values, so that a display by value would turn signs."""
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=900)
    rewards = (rng.random(900) < 0.1 + 0.35 * actions).astype(float)
    log = bc.Log(None, actions, rewards, np.full(900, 1 / 3), n_actions=3, reward_range=(0, 1))
    return bc.compare(log, POLICIES, bc.DR())


def expected_sign(found: bc.Comparison, first: str, second: str) -> float:
    return float(np.sign(found[first].value - found[second].value))


def read_number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def test_every_display_shows_the_first_minus_the_second(found: bc.Comparison) -> None:
    pairs = [(each.first, each.second) for each in found.differences]
    assert {expected_sign(found, *pair) for pair in pairs} == {1.0, -1.0}
    shown: dict[str, dict[tuple[str, str], float]] = {
        "text": {
            (first, second): float(value)
            for first, second, value in re.findall(r"^(\w+) - (\w+): (\S+)", str(found), re.MULTILINE)
            if second != "logged"
        },
        "json": {
            (each["first"], each["second"]): each["value"]
            for each in json.loads(json.dumps(found.to_dict()))["differences"]
        },
        "table": named_values(render_table(found)),
        "chart": {tuple(row["difference"].split(" minus ")): row["estimate"] for row in chart_rows(found)},
        "page": named_values(re.sub(r"<[^>]+>", " ", report_html(found).partition("<script")[0])),
        "notebook": named_values(re.sub(r"<[^>]+>", " ", found._repr_html_().partition("<svg")[0])),
        "item": {pair: found[pair].value for pair in pairs},
    }
    for display, values in shown.items():
        assert set(values) == set(pairs), display
        for pair, value in values.items():
            assert np.sign(value) == expected_sign(found, *pair), (display, pair)
            assert value == pytest.approx(found[pair].value, abs=5e-3), (display, pair)


def test_every_display_shows_the_policy_minus_the_baseline(found: bc.Comparison) -> None:
    rows = {row["policy"]: row for row in found.to_frame().to_pylist()}
    in_text = dict(re.findall(r"^(\w+) - logged: (\S+)", str(found), re.MULTILINE))
    in_json = found.to_dict()["lifts"]
    for name in POLICIES:
        lift = found[name].value - found["logged"].value
        assert found.lifts[name].value == pytest.approx(lift, abs=1e-12)
        assert rows[name]["lift"] == in_json[name]["value"] == found[name, "logged"].value == found.lifts[name].value
        assert float(in_text[name]) == pytest.approx(lift, abs=1e-3)
        assert rows[name]["lift_low"] < lift < rows[name]["lift_high"]
        assert np.sign(rows[name]["relative_lift"]) == np.sign(lift)


def test_a_turned_difference_has_the_negative_value_and_interval(found: bc.Comparison) -> None:
    stored = found.differences[0]
    turned = found[stored.second, stored.first]
    assert (turned.first, turned.second, turned.value) == (stored.second, stored.first, -stored.value)
    assert (turned.interval.low, turned.interval.high) == (-stored.interval.high, -stored.interval.low)
    assert turned.std_error == stored.std_error
    assert -turned == stored
    lift, share = found["logged", "best"], found.lifts["best"].relative_interval
    assert lift.value == -found.lifts["best"].value
    # as a share of the policy: the log earns (b - a) / a of it more
    assert lift.relative == pytest.approx(lift.value / found["best"].value)
    assert lift.relative_interval is not None
    assert share is not None
    assert 1 + lift.relative_interval.low == pytest.approx(1 / (1 + share.high))
    assert 1 + lift.relative_interval.high == pytest.approx(1 / (1 + share.low))


def test_an_unknown_name_is_refused_with_those_that_exist(found: bc.Comparison) -> None:
    assert found["best"] is found.estimates["best"]
    assert found["logged"] is found.baseline
    unknown: list[Any] = ["other", ("best", "other"), 0]
    for key in unknown:
        with pytest.raises(bc.OptionError, match=r"no policy .*; there are 'worst', 'best', 'middle' and 'logged'"):
            found[key]
    wrong: list[Any] = [("best", "best"), ("best", "worst", "middle")]
    for key in wrong:
        with pytest.raises(bc.OptionError, match="give one name or two that differ"):
            found[key]


def render_table(found: bc.Comparison) -> str:
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=120).print(differences_table(summarize(found)))
    return file.getvalue()


def named_values(text: str) -> dict[tuple[str, str], float]:
    found = re.findall(r"(\w+) minus (\w+)\s+([-−]?[\d.]+)", text)
    return {(first, second): read_number(value) for first, second, value in found}


def chart_rows(found: bc.Comparison) -> list[dict[str, Any]]:
    return find_rows(differences_chart(summarize(found)).to_dict())


def find_rows(spec: Any) -> list[dict[str, Any]]:
    """Return the rows of data that name a difference, wherever they are in the specification of a chart."""
    if isinstance(spec, dict):
        if "difference" in spec and "estimate" in spec:
            return [spec]
        return [row for value in spec.values() for row in find_rows(value)]
    return [row for value in spec for row in find_rows(value)] if isinstance(spec, list) else []
