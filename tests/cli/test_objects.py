"""Policies, evaluators and intervals written as text on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backcast as bc
from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, Registry, build
from backcast.errors import OptionError
from tests.support.cli import EVALUATE, run


class TestOwnPolicies:
    def test_module_of_the_current_folder(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "mine.py").write_text(
            "import numpy as np\n"
            "class Always:\n"
            "    def __init__(self, action=0):\n"
            "        self.action = action\n"
            "    def probabilities(self, contexts, available=None):\n"
            "        return np.tile(np.arange(2) == self.action, (len(contexts), 1)).astype(float)\n"
        )
        assert run(f"{EVALUATE} --policy mine:Always --policy mine:Always:action=1 --evaluator ips --json") == 0
        estimates = json.loads(capsys.readouterr().out)["estimates"]
        # the two mails that were clicked count double, out of eight events; so do the three of the other kind
        assert [estimate["value"] for estimate in estimates.values()] == [0.5, 0.75]

    def test_what_is_no_policy_is_refused(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "odd.py").write_text("make = dict\nvalue = 3\n")
        assert run(f"{EVALUATE} --policy odd:make") == 2
        assert "is not a policy" in capsys.readouterr().err
        assert run(f"{EVALUATE} --policy odd:value") == 2
        assert "odd:value is a int; give a function or class" in capsys.readouterr().err
        assert run(f"{EVALUATE} --policy odd:mkae") == 2
        assert "module 'odd' has no 'mkae'; did you mean 'make'?" in capsys.readouterr().err

    def test_a_bug_in_own_code_is_named(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "broken.py").write_text("def make():\n    return 1 / 0\n")
        assert run(f"{EVALUATE} --policy broken:make") == 8
        assert "broken:make failed: ZeroDivisionError: division by zero" in capsys.readouterr().err


class TestSpecs:
    @pytest.mark.parametrize("registry", [POLICIES, EVALUATORS, INTERVALS], ids=lambda registry: registry.kind)
    def test_every_name_stands_for_something_public(self, registry: Registry) -> None:
        assert set(registry.names.values()) <= set(bc.__all__)

    def test_every_evaluator_and_interval_has_a_name(self) -> None:
        everything = {name: getattr(bc, name) for name in bc.__all__}
        classes = {name: thing for name, thing in everything.items() if isinstance(thing, type)}
        homes = [name for name, thing in classes.items() if thing.__module__.startswith("backcast.evaluators.")]
        evaluators = {name for name in homes if callable(getattr(classes[name], "estimate", None))}
        assert evaluators == set(EVALUATORS.names.values())
        intervals = {name for name, thing in classes.items() if thing.__module__.startswith("backcast.intervals.")}
        assert intervals == set(INTERVALS.names.values())

    @pytest.mark.parametrize("registry", [EVALUATORS, INTERVALS], ids=lambda registry: registry.kind)
    def test_every_name_alone_makes_one(self, registry: Registry) -> None:
        for name, public in registry.names.items():
            assert type(build(name, registry)) is getattr(bc, public)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("LinUCB: alpha = 0.25, ridge=2", "LinUCB(alpha=0.25, ridge=2, batch_size=1)"),
            ("epsilon_greedy", "EpsilonGreedy(epsilon=0.1, ridge=1, batch_size=1)"),
            ("fixed:probabilities=[0.25, 0.75]", "Fixed([0.25, 0.75])"),
            ("egreedy:epsilon=0.5", "EpsilonGreedy(epsilon=0.5, ridge=1, batch_size=1)"),
            ("softmax:temperature=0.5,batch_size=4", "Softmax(temperature=0.5, ridge=1, batch_size=4)"),
            ("thompson:scale=1", "LinearThompson(scale=1, ridge=1, batch_size=1)"),
        ],
    )
    def test_policies_in_words(self, text: str, expected: str) -> None:
        assert repr(build(text, POLICIES)) == expected

    def test_evaluators_in_words(self) -> None:
        assert build("dr-ns:q=0.01,c_max=0.5,carry=true", EVALUATORS) == bc.DRns(q=0.01, c_max=0.5, carry=True)
        assert build("dr-ns:q=none", EVALUATORS) == bc.DRns()

    @given(st.floats(0, 1e6), st.integers(1, 10**9))
    def test_numbers_come_through_unchanged(self, alpha: float, batch: int) -> None:
        policy = build(f"linucb:alpha={alpha!r},batch_size={batch}", POLICIES)
        assert (policy.alpha, policy.batch_size) == (alpha, batch)

    @given(st.text(st.characters(exclude_characters=":")))
    def test_any_other_name_is_an_option_error(self, name: str) -> None:
        if name.strip().lower().replace("_", "-") not in POLICIES.names:
            with pytest.raises(OptionError, match="there is no policy"):
                build(name, POLICIES)
