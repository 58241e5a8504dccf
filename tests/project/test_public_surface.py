"""The public surface is a list, and this is the list."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import backcast as bc

PROMISED = {
    "the log": "Log LogStream read_log read_obd read_vw scan_log scan_vw",
    "policies": """
        Compiled Delayed EpsilonGreedy Fixed FromClassifier FromScores LinUCB LinearThompson Logged RoundRobin Softmax
        UCB1 Uniform WarmStart
    """,
    "reward models": "Constant CrossFit Fitted Joint LowVariance PerAction Progressive Split",
    "propensities": "estimate_propensities mix_logs with_estimated_propensities",
    "questions": """
        check compare evaluate load_result plan rerun_result reward_distribution save_report save_result search trace
    """,
    "evaluators": """
        BaselineIPS CAB CADR CVaR ClippedIPS ClockReplay DM DR DRns IPS MRDR Monitor PessimisticDR RS Replay
        RewardQuantile SNDR SNIPS ShrinkageDR StableVar SubGaussian SwitchDR WC
    """,
    "assumptions": "PlanAssumptions",
    "objectives": "OptunaObjective",
    "acceptance rules": "Budget Quantile WorstCase",
    "intervals": """
        AdjustedStudent Anytime BCa Betting Bootstrap ClopperPearson CressieRead EmpiricalBernstein GroupJackknife
        Hoeffding InfinitesimalJackknife Normal Segments Student TheoremTwo
    """,
    "results": """
        AfterLearning BiasEstimate BreakEven Breakdown Candidate ClockTrace Comparison Difference Estimate Finding
        GuardrailResult HealthReport Interval LearningCurve LeftOut Plan PolicyFit PropensityDiagnostics
        PropensityEstimate Provenance ReadingSummary Reliability ReplaySummary RerunReport RewardDistribution
        RoundInterval SavedResult SearchResult SegmentResult Trace Verdict
    """,
    "protocols": "LearningPolicy Policy RewardModel",
    "errors": """
        BackcastError ColumnError ContractError DriftWarning EvaluationError HorizonNotReached LogError
        NeedsStationaryPolicy NeedsUniformLog NoOverlap OptionError PolicyError ResourceError SourceError StopEvaluation
        WorkError
    """,
    "modules": "checks environments evaluators intervals io policies propensities reward_models",
}
NAMES = {name for names in PROMISED.values() for name in names.split()}
# Errors and protocols are shown where they are raised and asked for, results where they come from.
SHOWN_ELSEWHERE = {name for kind in ("errors", "protocols", "results") for name in PROMISED[kind].split()}
HEAVY = ["numba", "scipy", "sklearn", "pyarrow", "rich", "altair", "pandas", "joblib", "typer"]


def test_the_list_is_what_was_promised() -> None:
    assert set(bc.__all__) == NAMES
    assert len(bc.__all__) == len(NAMES)


def test_dir_lists_what_is_public_and_nothing_else() -> None:
    assert dir(bc) == sorted([*NAMES, "__version__"])


def test_names_that_are_not_there_are_refused_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'backcast' has no attribute 'LinUBC'"):
        bc.LinUBC  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_can_be_had_and_explains_itself(name: str) -> None:
    item: Any = getattr(bc, name)
    text = inspect.getdoc(item) or ""
    assert text.splitlines()[0].rstrip().endswith((".", "?", ":"))
    if isinstance(item, ModuleType):
        assert item.__all__
    elif name not in SHOWN_ELSEWHERE:
        assert ">>> " in text


def parameters_of(item: Any) -> set[str]:
    """Names a caller may pass."""
    if is_dataclass(item):
        return {field.name for field in fields(item) if field.init and not field.name.startswith("_")}
    return {name for name in inspect.signature(item).parameters if not name.startswith("_")}


def documented(text: str) -> set[str]:
    """Names in the Parameters section of a numpydoc text."""
    lines = text.splitlines()
    start = lines.index("Parameters") + 2
    end = next((i for i in range(start, len(lines)) if lines[i].startswith("---")), len(lines) + 1) - 1
    heads = [line for line in lines[start:end] if line and not line.startswith(" ")]
    names = (head.replace("*", "").split(", ") for head in heads)
    return {name for together in names for name in together if all(name.isidentifier() for name in together)}


@pytest.mark.parametrize("name", sorted(NAMES - SHOWN_ELSEWHERE - set(PROMISED["modules"].split())))
def test_documented_parameters_are_those_of_the_signature(name: str) -> None:
    item = getattr(bc, name)
    text = inspect.getdoc(item) or ""
    if "Parameters\n" in text:
        # scan_log and scan_vw refer to the parameters of read_log and read_vw, and document only those they add
        assert documented(text) == ({"batch_rows"} if name.startswith("scan_") else parameters_of(item))


def test_types_and_lazy_homes_name_the_same_things() -> None:
    """What a type checker sees is what is loaded when a name is first used."""
    stubs = [*Path(bc.__file__).parent.rglob("__init__.pyi")]
    assert len(stubs) == 10
    for stub in stubs:
        assert "from backcast._lazy_imports import lazy_names\n" in stub.with_suffix(".py").read_text()
        package = importlib.import_module(".".join(["backcast", *stub.parent.relative_to(stubs[0].parent).parts]))
        for line in stub.read_text().splitlines():
            if line.startswith("from "):
                _, home, _, name, _, alias = line.split()
                assert name == alias
                assert name in package.__all__
                selected = getattr(package, name)
                assert isinstance(selected, ModuleType) or selected is getattr(importlib.import_module(home), name)


def test_importing_backcast_is_quick() -> None:
    code = "import sys, backcast; print(*[name for name in sys.argv[1:] if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_reading_the_list_loads_nothing_heavy() -> None:
    code = "import sys, backcast; dir(backcast); backcast.OptionError; print('numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_the_package_is_typed() -> None:
    assert Path(bc.__file__).with_name("py.typed").exists()
