"""The logger "backcast", and forecasts."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

import backcast as bc
from backcast import _forecast
from backcast._parallel.jobs import Execution
from backcast._readings import OutcomeReading
from backcast._request import EvaluationRequest
from backcast._time_budget import event_seconds
from tests.support.policies import FollowTheLeader

LOG = bc.Log(None, actions=[0, 1] * 50, rewards=[1, 0] * 50, propensities=[0.5] * 100)


def test_what_is_about_to_run_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="backcast"):
        bc.evaluate(LOG, bc.Uniform())
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("evaluating Uniform() on Log(100 events, 2 actions, 0 features) with DR()")
    assert any(message.startswith("auto chose") for message in messages)
    assert messages[-1] == "about a second of work"
    assert all(record.name == "backcast" for record in caplog.records)


def test_nothing_is_written_unless_logging_is_configured() -> None:
    code = (
        "import logging, backcast as bc\n"
        "log = bc.Log(None, actions=[0, 1] * 50, rewards=[1, 0] * 50, propensities=[0.5] * 100)\n"
        "bc.evaluate(log, bc.Uniform(), bc.IPS())\n"
        "logging.getLogger('backcast').warning('not shown')\n"
        "print(logging.getLogger('numba').level == logging.WARNING)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_forecast_counts_scorings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forecast, "seconds_per_event", lambda policy, log: 0.5)

    def seconds(evaluator: Any, policy: Any, **options: Any) -> float:
        request = EvaluationRequest(LOG, policy, **options)
        return _forecast.evaluation_seconds(request, evaluator, [policy])

    # 100 events, half a second each
    assert seconds(bc.DR(), bc.Uniform()) == 50.0
    # 60 passes of 20 updates; each scores all 100 events, and has influences of all of them
    options: dict[str, Any] = {"horizon": 20, "replicates": 60}
    influences = 60 * 100 * _forecast.INFLUENCE_SECONDS
    expected = 60 * 20 * 100 * (0.5 + _forecast.ROUND_SECONDS) + influences
    assert seconds(bc.ClockReplay(), FollowTheLeader(), **options) == pytest.approx(expected)
    # compiled policies are not timed
    learner = bc.UCB1()
    passes = 60 * 100 * event_seconds(learner, LOG, 20)
    assert seconds(bc.ClockReplay(), learner, **options) == pytest.approx(passes + influences)
    two_jobs = seconds(bc.ClockReplay(), learner, **options, execution=Execution(2))
    assert two_jobs == pytest.approx(passes / 2 + influences)
    # settings of the default reward model are tried on all of 100 events
    model = 100 * (_forecast.CHOICE_SECONDS + _forecast.FIT_SECONDS)
    with_model = seconds(bc.ClockReplay(), learner, **options, reward_model=bc.CrossFit(bc.LowVariance()))
    assert with_model == pytest.approx(passes + influences + model)
    # clock replay reads outcomes in the same passes, others repeat them
    readings = (OutcomeReading("ms", 0), OutcomeReading("cost", 1))
    with_readings = seconds(bc.ClockReplay(), learner, **options, readings=readings)
    assert with_readings == pytest.approx(1.2 * passes + 3 * influences)
    assert seconds(bc.DR(), bc.Uniform(), readings=readings) == 150.0


def test_the_forecast_counts_what_passes_keep_of_readings() -> None:
    request = EvaluationRequest(LOG, None, replicates=60, readings=(OutcomeReading("ms", 0), OutcomeReading("cost", 1)))
    policies = [bc.UCB1(), bc.Uniform()]
    # three numbers of each of 100 events in 60 passes of one learner, for two outcomes
    assert _forecast.reading_memory(request, bc.ClockReplay(), policies) == 3 * 8 * 100 * 60 * 2
    assert _forecast.reading_memory(request, bc.DRns(), policies) == 0


def test_a_lack_of_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_forecast, "LARGE_LOG", 0)
    monkeypatch.setattr(_forecast, "free_memory", lambda: 10_000)
    bc.evaluate(LOG, bc.Uniform(), bc.IPS())
    assert "and 10 KB are free; open the log with scan_log" in caplog.text
