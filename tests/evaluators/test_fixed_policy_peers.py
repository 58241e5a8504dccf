"""The same numbers as obp and vw-estimators on the same inputs; see tests/golden/make_peer_numbers.py."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from backcast._request import EvaluationRequest
from backcast.evaluators import DR, IPS, SNDR, SNIPS, ClippedIPS, PessimisticDR, ShrinkageDR, SubGaussian, SwitchDR
from backcast.intervals.asymptotic import CressieRead, Normal
from backcast.intervals.concentration import binomial_interval
from backcast.log import Log
from backcast.policies.fixed import Logged
from tests.golden.peer_inputs import inputs

FOLDER = Path(__file__).parents[1] / "golden"
OBP = json.loads((FOLDER / "obp.json").read_text())
VW = json.loads((FOLDER / "vw_estimators.json").read_text())
CASES = range(len(OBP["cases"]))
THRESHOLD, SHARE = OBP["origin"]["threshold"], OBP["origin"]["share"]


def request(case: int, **asked: Any) -> EvaluationRequest:
    actions, rewards, propensities, target, predicted, reward_range = inputs(case)
    log = Log(None, actions, rewards, propensities, n_actions=target.shape[1], reward_range=reward_range)
    return EvaluationRequest(log, Logged(target), **{"reward_model": predicted, **asked})


PEERS: dict[str, Any] = {
    "IPS": IPS(),
    "ClippedIPS": ClippedIPS(THRESHOLD),
    "SNIPS": SNIPS(),
    "DR": DR(),
    "PessimisticDR": PessimisticDR(THRESHOLD),
    "SNDR": SNDR(),
    "SwitchDR": SwitchDR(THRESHOLD),
    "ShrinkageDR": ShrinkageDR(THRESHOLD),
    "SubGaussian": SubGaussian(SHARE),
}


def test_golden_numbers_say_where_they_come_from() -> None:
    assert (OBP["origin"]["package"], OBP["origin"]["version"]) == ("obp", "0.5.5")
    assert (VW["origin"]["package"], VW["origin"]["version"]) == ("vw-estimators", "0.2.2")
    assert len(OBP["cases"]) == len(VW["cases"]) == 12


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PEERS)
def test_agrees_with_obp(name: str, case: int) -> None:
    assert PEERS[name].estimate(request(case)).value == pytest.approx(OBP["cases"][case][name], rel=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_sub_gaussian_without_a_model_agrees_with_obp(case: int) -> None:
    result = SubGaussian(SHARE).estimate(request(case, reward_model=0.0)).value
    assert result == pytest.approx(OBP["cases"][case]["SubGaussianIPS"], rel=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["IPS", "SNIPS"])
def test_values_agree_with_vw_estimators(name: str, case: int) -> None:
    assert PEERS[name].estimate(request(case)).value == pytest.approx(VW["cases"][case][name], rel=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("name", "interval"),
    [
        ("Normal", Normal()),
        ("CressieRead", CressieRead(largest_weight=math.inf)),
        ("CressieRead bounded", CressieRead(largest_weight=1000.0)),
    ],
)
def test_intervals_agree_with_vw_estimators(name: str, interval: Any, case: int) -> None:
    result = IPS().estimate(request(case, interval=interval, level=0.9)).interval
    assert result is not None
    assert [result.low, result.high] == pytest.approx(VW["cases"][case][name], rel=1e-9, abs=1e-9)


def test_binomial_ends_agree_with_vw_estimators() -> None:
    assert binomial_interval(3.5, 17.25, level=0.9) == pytest.approx(VW["cases"][0]["binomial"], rel=1e-9)
