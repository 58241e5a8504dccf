"""What a type checker sees of the public interface: programs as users write them have no errors, wrong calls have."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import backcast as bc
from backcast.io._columns import ColumnSpec

ROOT = Path(__file__).parents[2]

PROGRAM = '''
from typing import Any

import numpy as np
import numpy.typing as npt

import backcast as bc


class Own:
    """A policy that is annotated for dense contexts only."""

    def probabilities(
        self, contexts: npt.NDArray[np.float64], available: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.float64]:
        return np.full((len(contexts), 2), 0.5)


class Mean(bc.evaluators.PassEvaluator):
    """An evaluator of a user."""

    def run_pass(
        self, policy: Any, inputs: bc.evaluators.PassInputs, rows: Any, seed: np.random.SeedSequence
    ) -> bc.evaluators.PassResult:
        return bc.evaluators.PassResult.from_rounds(inputs.log.rewards, inputs.horizon)


class Wide:
    """An interval of a user."""

    def interval(self, sample: bc.intervals.WeightedSample, level: float) -> bc.Interval:
        return bc.Interval(sample.value - 1, sample.value + 1, level, "wide", "none", sample.estimand)


log = bc.Log(None, [0, 1], [1.0, 0.0], propensities=[0.5, 0.5])
estimate = bc.evaluate(log, Own(), bc.evaluators.DR(), reward_model=0.5, interval=Wide())
print(estimate.interval.low + estimate.interval.high, estimate.diagnostics.effective_sample_size)
comparison = bc.compare(log, {"own": Own(), "uniform": bc.policies.Uniform()}, Mean(), horizon=1)
print(comparison.differences[0].interval.low)
policies: dict[str, bc.Policy] = {"LinUCB": bc.LinUCB(), "uniform": bc.Uniform()}
bc.compare(log, policies, reward_model=bc.reward_models.CrossFit(bc.PerAction()))
evaluator: bc.evaluators.Evaluator = Mean()
method: bc.intervals.IntervalMethod = bc.intervals.Normal()
model: bc.RewardModel = bc.reward_models.Joint()
'''
WRONG_CALLS = """
import backcast as bc

log = bc.Log(None, [0, 1], [1.0, 0.0], propensities=[0.5, 0.5])
bc.evaluate("log.csv", bc.Uniform())
bc.evaluate(log, 3)
bc.evaluate(log, bc.Uniform(), "DRns")
bc.evaluate(log, bc.Uniform(), interval="wide")
bc.compare(log, [bc.Uniform(), bc.UCB1()])
bc.policies.LinUBC()
"""


def errors_of(program: str, folder: Path) -> str:
    """Run mypy as `make lint` does; its cache makes this a matter of seconds."""
    path = folder / "program.py"
    path.write_text(program)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def test_programs_of_users_have_no_type_errors(tmp_path: Path) -> None:
    [session] = re.findall(r"^```python\n(>>> .*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    lines = [line[4:] for line in session.splitlines() if line.startswith((">>> ", "... "))]
    output = errors_of("\n".join([*lines, PROGRAM.replace("log = bc.Log", "small = bc.Log")]), tmp_path)
    assert "Success" in output, output


def test_wrong_calls_have_type_errors(tmp_path: Path) -> None:
    output = errors_of(WRONG_CALLS, tmp_path)
    assert {int(line) for line in re.findall(r"program\.py:(\d+): error", output)} == {5, 6, 7, 8, 9, 10}


@pytest.mark.parametrize("name", ["policies", "evaluators", "intervals", "reward_models"])
def test_packages_can_be_explored(name: str) -> None:
    package = getattr(bc, name)
    assert dir(package) == sorted(package.__all__)
    assert all(inspect.getdoc(getattr(package, member)) for member in package.__all__)


def test_options_of_a_log_have_the_same_names_everywhere() -> None:
    options = [
        name
        for name, parameter in inspect.signature(bc.Log).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    readers = {field.name for field in fields(ColumnSpec)}
    # names of features are those of the context columns
    assert [name for name in options if name not in readers] == ["feature_names"]
