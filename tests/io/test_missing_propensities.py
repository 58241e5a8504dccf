"""Logs with a constant propensity, or with none recorded."""

from __future__ import annotations

import numpy as np
import pytest

import backcast as bc

FRAME = {"x": np.linspace(-1, 1, 60), "a": [0, 1, 2] * 20, "r": [0.0, 1.0] * 30}


def test_one_propensity_for_all_events() -> None:
    log = bc.Log.from_frame(FRAME, context="x", action="a", reward="r", propensity=0.25)
    assert (log.propensities == 0.25).all()
    assert not log.propensities_estimated


def test_unrecorded_propensities_are_estimated_and_every_result_says_so() -> None:
    log = bc.Log.from_frame(FRAME, context="x", action="a", reward="r", propensity=None)
    assert log.propensities_estimated
    assert log.propensities == pytest.approx(1 / 3, abs=0.15)
    assert bc.evaluate(log, bc.Uniform(), bc.IPS()).diagnostics.to_dict()["propensities_estimated"]


@pytest.mark.parametrize("value", [0, -0.5, 1.5])
def test_a_constant_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(bc.OptionError, match=r"propensity is .*\(0, 1\]"):
        bc.Log.from_frame(FRAME, context="x", action="a", reward="r", propensity=value)


def test_a_stream_cannot_estimate(tmp_path: object) -> None:
    with pytest.raises(bc.OptionError, match="read it with read_log"):
        bc.scan_log("log.csv", context="x", action="a", reward="r", propensity=None)  # type: ignore[arg-type]
