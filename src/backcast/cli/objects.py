"""Policies and evaluators in words: ``linucb:alpha=0.3``, or ``module:factory`` for a user's own.

A user's module is imported and its factory called: the one place where the command line runs code that is not ours.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backcast.errors import BackcastError, OptionError, did_you_mean


@dataclass(frozen=True)
class Registry:
    """What is being named, its built-in names with their public names in backcast, and an example of a user's own."""

    what: str
    names: dict[str, str]
    own: str


POLICIES = Registry(
    "policy",
    {
        "uniform": "Uniform",
        "fixed": "Fixed",
        "logged": "Logged",
        "epsilon-greedy": "EpsilonGreedy",
        "egreedy": "EpsilonGreedy",
        "softmax": "Softmax",
        "linucb": "LinUCB",
        "thompson": "LinearThompson",
        "ucb1": "UCB1",
        "round-robin": "RoundRobin",
    },
    "mymodule:make_policy",
)


EVALUATORS = Registry(
    "evaluator",
    {
        "clock": "ClockReplay",
        "dr-ns": "DRns",
        "wc": "WC",
        "rs": "RS",
        "replay": "Replay",
        "dm": "DM",
        "ips": "IPS",
        "snips": "SNIPS",
        "clipped-ips": "ClippedIPS",
        "dr": "DR",
        "sndr": "SNDR",
        "switch-dr": "SwitchDR",
        "shrinkage-dr": "ShrinkageDR",
        "pessimistic-dr": "PessimisticDR",
        "sub-gaussian": "SubGaussian",
        "baseline-ips": "BaselineIPS",
        "cab": "CAB",
        "mrdr": "MRDR",
        "reward-quantile": "RewardQuantile",
        "cvar": "CVaR",
    },
    "mymodule:make_evaluator",
)


INTERVALS = Registry(
    "interval",
    {
        "anytime": "Anytime",
        "theorem-2": "TheoremTwo",
        "segments": "Segments",
        "group-jackknife": "GroupJackknife",
        "normal": "Normal",
        "student": "Student",
        "bootstrap": "Bootstrap",
        "bca": "BCa",
        "hoeffding": "Hoeffding",
        "empirical-bernstein": "EmpiricalBernstein",
        "clopper-pearson": "ClopperPearson",
        "cressie-read": "CressieRead",
        "betting": "Betting",
    },
    "mymodule:make_interval",
)


def build(text: str, registry: Registry, folder: Path | None = None) -> Any:
    """The object that a text such as ``linucb:alpha=0.3`` stands for; modules are looked for in ``folder`` too.

    >>> build("linucb:alpha=0.5", POLICIES)
    LinUCB(alpha=0.5, ridge=1, batch_size=1)
    >>> build("linubc", POLICIES)
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: there is no policy 'linubc'; did you mean 'linucb'? Built in: uniform, fixed, logged, \
epsilon-greedy, egreedy, softmax, linucb, thompson, ucb1, round-robin; your own: mymodule:make_policy
    """
    head, _, rest = text.partition(":")
    own, _, options = rest.partition(":")
    if _name(head) not in registry.names and own.strip().isidentifier():
        head, rest = f"{head}:{own}", options
    return build_from(head, _options(head, rest), registry, folder)


def build_from(kind: str, options: dict[str, Any], registry: Registry, folder: Path | None = None) -> Any:
    """The object of a kind, built in or ``module:factory``, made with these options.

    >>> build_from("linucb", {"alpha": 0.5}, POLICIES)
    LinUCB(alpha=0.5, ridge=1, batch_size=1)
    """
    if _name(kind) in registry.names:
        factory = getattr(importlib.import_module("backcast"), registry.names[_name(kind)])
        try:
            return _called(factory, _name(kind), options)
        except BackcastError:
            raise
        except (TypeError, ValueError, OverflowError) as problem:
            raise OptionError(f"{_name(kind)}: an option has a value that it cannot use ({problem})") from None
    module, _, own = kind.partition(":")
    if own.strip().isidentifier():
        return _called(_imported(module.strip(), own.strip(), folder), kind, options)
    raise OptionError(
        f"there is no {registry.what} {module!r}{did_you_mean(_name(module), registry.names)} "
        f"Built in: {', '.join(registry.names)}; your own: {registry.own}"
    )


def _name(text: str) -> str:
    return text.strip().lower().replace("_", "-")


def _imported(module: str, name: str, folder: Path | None) -> Callable[..., Any]:
    """A user's factory; modules in the current folder are found, and those beside the run file."""
    for place in (os.getcwd(), *([] if folder is None else [str(folder)])):
        if place not in sys.path:
            sys.path.insert(0, place)
    try:
        missing = importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        missing = True
    if missing:
        raise OptionError(f"there is no module {module!r}, neither in the current folder nor installed")
    loaded = importlib.import_module(module)
    factory = getattr(loaded, name, None)
    if factory is None:
        raise OptionError(f"module {module!r} has no {name!r}{did_you_mean(name, vars(loaded))}")
    if not callable(factory):
        raise OptionError(f"{module}:{name} is a {type(factory).__name__}; give a function or class that makes one")
    return factory  # type: ignore[no-any-return]  # whatever the user wrote; it is called and judged by what it makes


def _options(name: str, text: str) -> dict[str, Any]:
    return dict(_option(part, name) for part in re.split(r",(?![^\[(]*[\])])", text) if part.strip())


def _called(factory: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    try:
        signature = inspect.signature(factory)
    except ValueError:  # some built-in classes do not tell
        return factory(**options)
    known = signature.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for key, value in options.items():
        if key in known:
            _check_number(name, known[key], value)
        elif not takes_any:
            listed = f"Options: {', '.join(known)}" if known else "It takes none"
            raise OptionError(f"{name} has no option {key!r}{did_you_mean(key, known)} {listed}")
    try:
        signature.bind(**options)
    except TypeError as problem:
        raise OptionError(f"{name}: {problem}; give it as {name}:key=value") from None
    return factory(**options)


def _option(part: str, name: str) -> tuple[str, Any]:
    key, sign, value = part.partition("=")
    if not sign:
        raise OptionError(f"{name}: {part.strip()!r} is not an option; write key=value, such as {name}:key=0.5")
    return key.strip(), _value(value.strip())


def _value(text: str) -> Any:
    """A number, a truth, a list, or the text itself.

    >>> _value("0.5"), _value("true"), _value("[0.25, 0.75]"), _value("big")
    (0.5, True, [0.25, 0.75], 'big')
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        # no value of Python, or one nested too deeply for its parser
        return text


def _check_number(name: str, parameter: inspect.Parameter, value: Any) -> None:
    """Refuse what is not a number where the parameter is annotated as one."""
    annotation = parameter.annotation
    words = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    fits = isinstance(value, int | float) or (value is None and words.endswith("| None"))
    if words.removesuffix(" | None") in ("float", "int") and not fits:
        raise OptionError(f"{name}: {parameter.name} is {value!r}; it must be a number")
