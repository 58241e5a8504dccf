"""Names and imports of the package: no name twice, no module undocumented, no private import across packages."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections import defaultdict
from pathlib import Path

import backcast as bc

SOURCE = Path(bc.__file__).parent
REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
MODULES = sorted(
    module.name for module in pkgutil.walk_packages([str(SOURCE)], "backcast.") if not module.name.endswith(".__main__")
)

# Private modules that other packages may import, and which packages do.
SHARED_PRIVATE_MODULES = {
    "backcast.checks._drift": {"_auto"},
    "backcast.evaluators._bias": {"_time_budget"},
    "backcast.evaluators._pass_cost": {"_time_budget"},
    "backcast.checks._rewards": {"cli"},
    "backcast.evaluators._curve_gains": {"comparison"},
    "backcast.evaluators._disjoint_parts": {"_auto", "_reading_results", "_time_budget", "evaluation", "planning"},
    "backcast.evaluators._logged_rewards": {"_auto", "_reading_results", "comparison", "evaluation"},
    "backcast.evaluators._replay": {"monitoring", "tracing"},
    "backcast.evaluators._pass_inputs": {"replay_summary", "tracing"},
    "backcast.evaluators._replicates": {"_forecast", "_reading_results", "_time_budget"},
    "backcast.evaluators._weighted_events": {"checks"},
    "backcast.intervals._sample": {"evaluation", "evaluators"},
    "backcast.io._column_guesses": {"cli"},
    "backcast.io._columns": {"log"},
    "backcast.io._vw_files": {"cli"},
    "backcast.reward_models._calls": {"evaluators"},
    "backcast.evaluators._passes": {"_time_budget"},
    "backcast.evaluators._replicate_statistics": {"_racing"},
    "backcast.evaluators._reward_predictions": {"_racing", "_reading_results", "replay_summary"},
    "backcast.policies._calls": {
        "_engine",
        "_forecast",
        "_reading_results",
        "_selection",
        "_training_split",
        "checks",
        "comparison",
        "demo_data",
        "environments",
        "evaluation",
        "evaluators",
        "replay_summary",
        "searching",
        "tuning",
    },
    "backcast.propensities._choice_model": {"checks"},
    "backcast.report._summary": {"cli"},
}


def test_no_two_public_classes_have_the_same_name() -> None:
    homes = defaultdict(list)
    for name in MODULES:
        for class_name, item in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if item.__module__ == name and not class_name.startswith("_"):
                homes[class_name].append(name)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_every_public_module_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    public = [name for name in MODULES if not any(part.startswith("_") for part in name.split("."))]
    assert [name for name in public if name not in text] == []


def imported_modules(path: Path) -> set[str]:
    """Return the modules of backcast that a file imports, in functions and for type checkers too."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path} imports relatively; imports are absolute here"
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return imported & set(MODULES)


def test_private_modules_are_shared_with_the_listed_packages_only() -> None:
    shared = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).with_suffix("").parts[0]
        for name in imported_modules(path):
            owner, _, private = name.removeprefix("backcast.").partition("._")
            if private and owner != package:
                shared[name].add(package)
    assert shared == SHARED_PRIVATE_MODULES
