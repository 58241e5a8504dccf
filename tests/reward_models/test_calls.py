"""Reward models, evaluators and intervals of users that raise: one error, its cause, exit code 8."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import backcast as bc
from backcast.reward_models.cross_fitting import OutOfSamplePredictions
from tests.support.cli import run

N_EVENTS = 40


@pytest.fixture
def log() -> bc.Log:
    rng = np.random.default_rng(0)
    return bc.Log(rng.random((N_EVENTS, 2)), rng.integers(2, size=N_EVENTS), rng.random(N_EVENTS), [0.5] * N_EVENTS)


class Model:
    """A model that raises in one of its methods, or predicts what it is given."""

    def __init__(self, fails: str = "", predicted: Any = 0.5) -> None:
        self.fails, self.predicted = fails, predicted

    def fit(self, log: bc.Log) -> Self:
        if self.fails == "fit":
            raise ZeroDivisionError("of my own")
        return self

    def predict(self, contexts: Any) -> Any:
        if self.fails == "predict":
            raise ZeroDivisionError("of my own")
        return np.full((len(contexts), 2), self.predicted)


class NoSelf(Model):
    def fit(self, log: bc.Log) -> Any:
        return None


class Narrow(Model):
    def predict(self, contexts: Any) -> Any:
        return np.zeros((len(contexts), 1))


class Predictions:
    """A model with its own way of predicting out of sample."""

    def __init__(self, result: Any = None) -> None:
        self.result = result

    def predictions(self, log: bc.Log, rng: Any) -> Any:
        if self.result is None:
            raise KeyError("of my own")
        return self.result(log)


class Evaluator:
    """An evaluator that raises, or returns what it is given."""

    def __init__(self, result: Any = None) -> None:
        self.result = result

    def estimate(self, request: Any) -> Any:
        if self.result is None:
            raise ZeroDivisionError("of my own")
        return self.result


class Interval:
    def interval(self, sample: Any, level: float) -> Any:
        raise ZeroDivisionError("of my own")


MODELS = [
    (
        Model("fit"),
        r"Model.fit failed on 32 events of rows \d+..\d+: ZeroDivisionError: of my own; .*check_rewa",
    ),
    (Model("predict"), r"Model.predict failed on 8 events of rows \d+..\d+: ZeroDivisionError: of my own"),
    (bc.Fitted(Model("predict")), r"Model.predict failed on 40 events of rows 0..39: ZeroDivisionError: of my own"),
    (bc.Split(Model("fit")), r"Model.fit failed on 20 events"),
    (bc.Progressive(Model("fit"), first=10), r"Model.fit failed on 10 events of rows 0..9"),
    (NoSelf(), r"NoSelf.fit returned None; end it with 'return self'"),
    (Narrow(), r"Narrow.predict: predictions have shape \(8, 1\); expected \(8, 2\)"),
    (
        Model(predicted=np.nan),
        r"Model.predict: the prediction for row \d+, action 0 is nan; predictions must be fini",
    ),
    (Predictions(), r"Predictions.predictions failed on 40 events of rows 0..39: KeyError: 'of my own'"),
    (Predictions(lambda log: (3, 4)), r"Predictions.predictions returned a int and no Log; it must return the events"),
    (Predictions(lambda log: (log, [[0.5]])), r"Predictions.predictions: predictions have shape \(1, 1\); expected"),
]


@pytest.mark.parametrize(("model", "message"), MODELS)
@pytest.mark.parametrize("evaluator", [bc.DR(), bc.DRns()])
def test_a_model_that_raises_or_breaks_its_contract(log: bc.Log, model: Any, message: str, evaluator: Any) -> None:
    if isinstance(model, Model) and isinstance(evaluator, bc.DR) and "8 events" in message:
        message = message.replace("8 events", r"\d+ events")
    with pytest.raises(bc.ContractError, match=message) as caught:
        bc.evaluate(log, bc.Uniform(), evaluator, reward_model=model)
    assert caught.value.exit_code == 8
    if "of my own" in message:
        assert isinstance(caught.value.__cause__, ZeroDivisionError | KeyError)


def test_a_model_that_raises_in_a_worker(log: bc.Log) -> None:
    """Parts of a stream are fitted and predicted where they are evaluated."""
    stream = bc.LogStream.from_logs([log] * 10)
    with pytest.raises(bc.ContractError, match=r"Model.fit failed on \d+ events .*ZeroDivisionError: of my own"):
        bc.evaluate(
            *(stream, bc.UCB1(), bc.ClockReplay(pool=40)),
            horizon=2,
            reward_model=Model("fit"),
            exchangeable=True,
            n_jobs=2,
        )


def test_out_of_sample_predictions_of_a_user_are_used(log: bc.Log) -> None:
    model = Predictions(lambda log: OutOfSamplePredictions(log, np.full((len(log), 2), 0.25)))
    given = bc.evaluate(log, bc.Uniform(), bc.DR(), reward_model=0.25).value
    assert bc.evaluate(log, bc.Uniform(), bc.DR(), reward_model=model).value == pytest.approx(given, rel=1e-12)


def test_lack_of_memory_is_no_fault_of_the_model(log: bc.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Model, "fit", fail)
    with pytest.raises(MemoryError):
        bc.evaluate(log, bc.Uniform(), bc.DR(), reward_model=Model())


@pytest.mark.parametrize("together", [False, True])
def test_an_evaluator_that_raises(log: bc.Log, together: bool) -> None:
    def run_it(**options: Any) -> None:
        evaluator = options.pop("evaluator", bc.IPS())
        if together and not options:
            bc.compare(log, {"a": bc.Uniform(), "b": bc.Fixed([0.25, 0.75])}, evaluator)
        else:
            bc.evaluate(log, bc.Uniform(), evaluator, **options)

    with pytest.raises(
        bc.ContractError, match=r"Evaluator.estimate failed on Log\(40 events.*check_evaluator"
    ) as caught:
        run_it(evaluator=Evaluator())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(bc.ContractError, match=r"Evaluator.estimate returned a float; return a bc.Estimate"):
        run_it(evaluator=Evaluator(0.5))
    with pytest.raises(bc.ContractError, match=r"Interval.interval failed on Log\(40 events.*check_interval"):
        run_it(interval=Interval())


def test_policies_that_raise_for_single_actions(log: bc.Log) -> None:
    class Single:
        def probability_of(self, contexts: Any, actions: Any) -> Any:
            raise ZeroDivisionError("of my own")

    with pytest.raises(bc.PolicyError, match=r"Single.probability_of failed on rows 0..\d+: ZeroDivisionError"):
        bc.evaluate(log, Single(), bc.IPS())


def test_the_command_line_exits_with_code_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_evaluators.py").write_text("class Raises:\n    def estimate(self, request):\n        return {}['mine']\n")
    Path("log.csv").write_text("shown,click,p\n" + "0,1,0.5\n1,0,0.5\n" * 10)
    columns = "--action shown --reward click --propensity p"
    assert run(f"evaluate log.csv {columns} --policy uniform --evaluator own_evaluators:Raises") == 8
    assert capsys.readouterr().err.startswith("error: Raises.estimate failed on Log(20 events, 2 actions, 0 features)")


def test_a_table_by_position_follows_the_events_that_are_set_aside() -> None:
    """Of a part of a log, whose row numbers do not start at 0."""
    rng = np.random.default_rng(0)
    log = bc.Log(rng.random((400, 2)), rng.integers(2, size=400), rng.random(400), np.full(400, 0.5))[100:]
    table = rng.random((400, 2))
    for evaluator in (bc.DRns(q=0.0, warm_up=50), bc.DRns(bc.DRns().q, acceptance=bc.Budget(0.5, calibration=50))):
        by_row, by_position = (
            bc.evaluate(log, bc.UCB1(), evaluator, horizon=10, reward_model=predictions).value
            for predictions in (table, table[100:])
        )
        assert by_position == by_row
    segments: dict[str, Any] = {"interval": bc.Segments(3), "horizon": 10}
    by_row, by_position = (
        bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.0), reward_model=predictions, **segments).value
        for predictions in (table, table[100:])
    )
    assert by_position == by_row
    with pytest.raises(bc.OptionError, match=r"predictions have shape \(7, 2\); expected \(300, 2\)"):
        bc.evaluate(log, bc.UCB1(), bc.DRns(), horizon=10, reward_model=table[:7])
