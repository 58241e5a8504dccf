"""Fingerprints of policies, models, evaluators and intervals: every change of behaviour changes them, nothing else."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import backcast as bc
from backcast._parallel.fingerprint import object_fingerprint

HELPERS = """
    DEPTH = 2.0

    def shift(value, by=1.0):
        return value + by

    def rescale(value):
        return shift(value) * DEPTH
"""
POLICY = """
    import functools
    import numpy as np
    import helpers
    from helpers import rescale

    EPS = 0.1
    TAGS = {"news", "sport", "weather", "music"}
    WEIGHTS = np.array([0.25, 0.75])

    def argmax(scores):
        return scores.argmax(axis=1)

    def scorer(factor):
        def score(contexts):
            return [factor * value for value in contexts]
        return score

    class Base:
        floor = 0.0

        def clip(self, value):
            return max(value, self.floor)

    class Mine(Base):
        \"\"\"A policy.\"\"\"

        batch_size = 5

        def __init__(self, alpha=0.5):
            self.alpha = alpha
            self.score = scorer(2.0)

        @property
        def width(self):
            return 3 * self.alpha

        @staticmethod
        def fold(value):
            return value % 7

        @classmethod
        def make(cls):
            return cls(0.25)

        def probabilities(self, contexts, available=None, sharp=1.0):
            inner = lambda value: value * EPS
            scores = np.tile(WEIGHTS, (len(contexts), 1)) * sharp
            if "news" in {"news", "sport"} and TAGS:
                scores = scores + inner(self.clip(rescale(0.0)))
            best = argmax(scores) + helpers.shift(0)
            return np.full((len(contexts), 2), 0.5) + 0 * best[:, None]

        def learn(self, contexts, actions, rewards, probabilities):
            from helpers import DEPTH
            self.alpha += DEPTH
"""
CHANGES = {
    "class attribute": ("policy", "batch_size = 5", "batch_size = 30"),
    "module constant": ("policy", "EPS = 0.1", "EPS = 1.0"),
    "set in a module": ("policy", '"music"}', '"chess"}'),
    "array in a module": ("policy", "[0.25, 0.75]", "[0.75, 0.25]"),
    "helper function": ("policy", "scores.argmax(axis=1)", "scores.argmin(axis=1)"),
    "default argument": ("policy", "sharp=1.0", "sharp=2.0"),
    "closure": ("policy", "scorer(2.0)", "scorer(3.0)"),
    "code in a closure": ("policy", "factor * value", "factor + value"),
    "nested function": ("policy", "value * EPS", "value + EPS"),
    "attribute of a base": ("policy", "floor = 0.0", "floor = 0.5"),
    "method of a base": ("policy", "max(value", "min(value"),
    "property": ("policy", "3 * self.alpha", "4 * self.alpha"),
    "static method": ("policy", "value % 7", "value % 8"),
    "class method": ("policy", "cls(0.25)", "cls(0.5)"),
    "constant in a test": ("policy", '{"news", "sport"}', '{"news", "music"}'),
    "state": ("policy", "alpha=0.5", "alpha=0.75"),
    "helper of a helper": ("helpers", "value + by", "value - by"),
    "default of a helper's helper": ("helpers", "by=1.0", "by=2.0"),
    "constant of another module": ("helpers", "DEPTH = 2.0", "DEPTH = 3.0"),
    "name that is used": ("policy", "np.tile(", "np.repeat("),
    "exception that is handled": ("policy", "self.alpha += DEPTH", "self.alpha -= DEPTH"),
}
NO_CHANGES = {
    "nothing": ("policy", "", ""),
    "line numbers": ("policy", "\nimport functools", "\n\n\nimport functools"),
    "comment": ("policy", "batch_size = 5", "batch_size = 5  # events"),
    "order of a set": ("policy", '{"news", "sport", "weather", "music"}', '{"music", "weather", "sport", "news"}'),
    "constant that is not used": ("policy", "EPS = 0.1", "EPS = 0.1\nOTHER = 7"),
    "function that is not used": ("helpers", "DEPTH = 2.0", "DEPTH = 2.0\n\ndef other():\n    return 1\n"),
    "docstring of a class": ("policy", "A policy.", "A policy of ours."),
}


@pytest.fixture
def write_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Write both modules with one change, and import them from the file, as a new process would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(module: str = "policy", before: str = "", after: str = "") -> ModuleType:
        for name, source in (("helpers", HELPERS), ("policy", POLICY)):
            text = textwrap.dedent(source)
            if name == module:
                assert before in text
                text = text.replace(before, after) if before else text
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("policy")

    yield write
    for name in ("helpers", "policy"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_behaviour_is_noticed(write_modules: Any, change: str) -> None:
    before = object_fingerprint(write_modules().Mine())
    assert object_fingerprint(write_modules(*CHANGES[change]).Mine()) != before


@pytest.mark.parametrize("change", NO_CHANGES)
def test_what_does_not_change_behaviour_does_not_matter(write_modules: Any, change: str) -> None:
    before = object_fingerprint(write_modules().Mine())
    assert object_fingerprint(write_modules(*NO_CHANGES[change]).Mine()) == before


@pytest.mark.parametrize("change", ["class attribute", "module constant", "helper function", "helper of a helper"])
def test_a_checkpoint_of_an_edited_policy_is_refused(write_modules: Any, tmp_path: Path, change: str) -> None:
    """The answer of yesterday's policy must not be given for today's."""
    log = bc.Log(None, actions=[0, 1] * 50, rewards=[0, 1] * 50, propensities=[0.5] * 100)
    options: dict[str, Any] = {"horizon": 5, "replicates": 60, "checkpoint": tmp_path / "done"}
    first = bc.evaluate(log, write_modules().Mine(), bc.ClockReplay(), **options)
    assert bc.evaluate(log, write_modules().Mine(), bc.ClockReplay(), **options) == first
    with pytest.raises(bc.OptionError, match="the checkpoint was made with a different policy"):
        bc.evaluate(log, write_modules(*CHANGES[change]).Mine(), bc.ClockReplay(), **options)


def test_the_fingerprint_is_the_same_in_other_processes(write_modules: Any, tmp_path: Path) -> None:
    program = (
        "from backcast._parallel.fingerprint import object_fingerprint; import policy, numpy as np;"
        "print(object_fingerprint(policy.Mine()));"
        "print(object_fingerprint({'b': {1, 'x'}, 'a': np.arange(3), 'c': policy.scorer}))"
    )
    write_modules()
    found = set()
    for seed in ("0", "1", "2"):
        folder = tmp_path / seed  # on another machine, files are elsewhere
        folder.mkdir()
        for name in ("policy", "helpers"):
            (folder / f"{name}.py").write_text((tmp_path / f"{name}.py").read_text())
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", program]
        result = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        found.add(result.stdout)
    assert len(found) == 1


def first_scores(contexts: Any) -> Any:
    return contexts[:, :2]


def second_scores(contexts: Any) -> Any:
    return contexts[:, 1:3]


@numba.njit
def compiled_first(x: float) -> float:
    return x + 1.0


@numba.njit
def compiled_second(x: float) -> float:
    return x + 2.0


def fitted(penalty: float, flip: int = 0) -> Any:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    model = make_pipeline(StandardScaler(), LogisticRegression(C=penalty))
    return model.fit(x, (x[:, flip] > 0).astype(int))


class Custom:
    """An evaluator, an interval or a reward model of a user."""

    width = 1.0

    def estimate(self, request: Any) -> Any:
        return self.width


class Wider(Custom):
    width = 2.0


PAIRS: dict[str, Callable[[int], Any]] = {
    "functions": lambda i: bc.FromScores((first_scores, second_scores)[i]),
    "lambdas": lambda i: bc.FromScores((lambda x: x[:, :2], lambda x: x[:, 1:])[i]),
    "partials": lambda i: bc.FromScores(functools.partial(np.take, indices=[i, 2], axis=1)),
    "bound methods": lambda i: bc.FromScores(fitted((1.0, 2.0)[i]).predict_proba),
    "scikit-learn models": lambda i: bc.FromScores(fitted(1.0, flip=i)),
    "reward models": lambda i: bc.CrossFit(bc.PerAction(Ridge(alpha=(1.0, 2.0)[i]))),
    "fitted reward models": lambda i: bc.Fitted(Ridge(alpha=1.0).fit([[0.0], [1.0]], [0.0, 1.0 + i])),
    "compiled functions": lambda i: (compiled_first, compiled_second)[i],
    "cached functions": lambda i: functools.lru_cache((first_scores, second_scores)[i]),
    "evaluators": lambda i: (bc.DRns(q=0.01), bc.DRns(q=0.02))[i],
    "custom evaluators": lambda i: (Custom(), Wider())[i],
    "intervals": lambda i: (bc.Segments(4), bc.Segments(5))[i],
    "built-in policies": lambda i: (bc.LinUCB(0.3), bc.LinUCB(0.4))[i],
    "arrays": lambda i: bc.Logged(np.full((4, 2), 0.5 + i / 4)),
    "arrays of objects": lambda i: np.array([{"a": i}, None], dtype=object),
    "generators": np.random.default_rng,
    "nested containers": lambda i: [{"a": ({1, 2}, [i])}],
}


@pytest.mark.parametrize("name", PAIRS)
def test_objects_of_every_kind(name: str) -> None:
    make = PAIRS[name]
    assert object_fingerprint(make(0)) == object_fingerprint(make(0))
    assert object_fingerprint(make(0)) != object_fingerprint(make(1))


def test_torch_modules() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def make(bias: float) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
        torch.nn.init.constant_(model[0].bias, bias)
        return model

    assert object_fingerprint(make(0.5)) == object_fingerprint(make(0.5))
    assert object_fingerprint(make(0.5)) != object_fingerprint(make(0.25))
    half = torch.ones(2, dtype=torch.bfloat16)
    assert object_fingerprint(half) == object_fingerprint(half.clone()) != object_fingerprint(2 * half)


def test_objects_that_contain_themselves() -> None:
    first: list[Any] = [1]
    first.append(first)
    second: list[Any] = [2]
    second.append(second)
    assert object_fingerprint(first) != object_fingerprint(second)


class Holder:
    def __init__(self, content: Any) -> None:
        self.content = content


class Named(Holder):
    def fingerprint(self) -> str:
        return str(self.content)


def test_what_cannot_be_fingerprinted_is_refused_with_the_remedy(tmp_path: Path) -> None:
    message = r"Holder cannot be fingerprinted \(Holder.content: TypeError: cannot pickle '_thread.lock' object\)"
    with pytest.raises(bc.OptionError, match=rf"{message}.*; give Holder a method fingerprint\(\) that returns text"):
        object_fingerprint(Holder(threading.Lock()))
    with (tmp_path / "file").open("w") as file, pytest.raises(bc.OptionError, match=r"Holder.content"):
        object_fingerprint(Holder(file))
    deep: Any = None
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(bc.OptionError, match="nested too deeply"):
        object_fingerprint(Holder(deep))


def test_an_object_may_have_its_own_fingerprint() -> None:
    assert object_fingerprint(Named(threading.Lock())) != object_fingerprint(Named(threading.Lock()))
    assert object_fingerprint(Named("v1")) == object_fingerprint(Named("v1")) != object_fingerprint(Named("v2"))
    wrong = type("Wrong", (), {"fingerprint": lambda self: 7})()
    with pytest.raises(bc.OptionError, match=r"Wrong.fingerprint\(\) returned 7; it must return text or bytes"):
        object_fingerprint(wrong)
