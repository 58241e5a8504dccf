"""Build policies, evaluators and intervals from text: ``linucb:alpha=0.3``, or ``module:factory`` for a user's own.

A user's module is imported and its factory called: the only place where the command line runs code of others.
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

from backcast.errors import BackcastError, OptionError, PolicyError, did_you_mean
from backcast.provenance import describe_object


@dataclass(frozen=True)
class Registry:
    """A kind of object, and its built-in names with their public names in backcast."""

    kind: str
    names: dict[str, str]


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
        "warm-start": "WarmStart",
        "delayed": "Delayed",
    },
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
        "stable-var": "StableVar",
        "cadr": "CADR",
        "reward-quantile": "RewardQuantile",
        "cvar": "CVaR",
    },
)
INTERVALS = Registry(
    "interval",
    {
        "anytime": "Anytime",
        "theorem-2": "TheoremTwo",
        "segments": "Segments",
        "infinitesimal-jackknife": "InfinitesimalJackknife",
        "group-jackknife": "GroupJackknife",
        "normal": "Normal",
        "student": "Student",
        "adjusted-student": "AdjustedStudent",
        "bootstrap": "Bootstrap",
        "bca": "BCa",
        "hoeffding": "Hoeffding",
        "empirical-bernstein": "EmpiricalBernstein",
        "clopper-pearson": "ClopperPearson",
        "cressie-read": "CressieRead",
        "betting": "Betting",
    },
)


_made: list[tuple[Any, dict[str, Any]]] = []  # objects of users' factories in this process, and how they were made


def factory_description(value: Any) -> dict[str, Any] | None:
    """Return the factory that made an object, with its options and folder, for a saved result; None for others."""
    for made, description in _made:
        if made is value:
            return {
                **description,
                "options": {key: describe_object(each) for key, each in description["options"].items()},
            }
    return None


def build(text: str, registry: Registry, folder: Path | None = None) -> Any:
    """Build the object that a text such as ``linucb:alpha=0.3`` describes; modules are searched in ``folder`` too.

    >>> build("linucb:alpha=0.5", POLICIES)
    LinUCB(alpha=0.5, ridge=1, batch_size=1)
    >>> build("linubc", POLICIES)
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: there is no policy 'linubc'; did you mean 'linucb'? Built in: uniform, fixed, logged, \
epsilon-greedy, egreedy, softmax, linucb, thompson, ucb1, round-robin, warm-start, delayed; your own: \
mymodule:make_policy
    """
    name, _, options = text.partition(":")
    factory, _, factory_options = options.partition(":")
    if _normalize(name) not in registry.names and factory.strip().isidentifier():
        name, options = f"{name}:{factory}", factory_options
    return build_from(name, _parse_options(name, options), registry, folder)


def build_from(name: str, options: dict[str, Any], registry: Registry, folder: Path | None = None) -> Any:
    """Build an object by its name, built in or ``module:factory``, with these options.

    >>> build_from("linucb", {"alpha": 0.5}, POLICIES)
    LinUCB(alpha=0.5, ridge=1, batch_size=1)
    """
    built_in = _normalize(name)
    if built_in in registry.names:
        factory = getattr(importlib.import_module("backcast"), registry.names[built_in])
        if registry is POLICIES and "policy" in options:
            options = {**options, "policy": _build_nested(built_in, options["policy"], folder)}
        try:
            return _call(factory, built_in, options)
        except BackcastError:
            raise
        except (TypeError, ValueError, OverflowError) as problem:
            raise OptionError(f"{built_in}: an option has an unusable value ({problem})") from None
    module, _, attribute = name.partition(":")
    if attribute.strip().isidentifier():
        try:
            made = _call(_import_factory(module.strip(), attribute.strip(), folder), name, options)
            _made.append((made, {"factory": name, "options": options, "folder": str(folder or Path.cwd())}))
            return made
        except BackcastError:
            raise
        except Exception as problem:
            raise PolicyError(f"{name} failed: {type(problem).__name__}: {problem}") from problem
    raise OptionError(
        f"there is no {registry.kind} {module!r}{did_you_mean(_normalize(module), registry.names)} "
        f"Built in: {', '.join(registry.names)}; your own: mymodule:make_{registry.kind}"
    )


def _build_nested(name: str, policy: Any, folder: Path | None) -> Any:
    """Build the policy inside of another: a table of a run file, or text, in brackets if it has several options.

    >>> _build_nested("warm-start", "(linucb:alpha=0.5,ridge=2)", None)
    LinUCB(alpha=0.5, ridge=2, batch_size=1)
    """
    if isinstance(policy, dict) and isinstance(policy.get("kind"), str):
        return build_from(
            policy["kind"], {key: each for key, each in policy.items() if key != "kind"}, POLICIES, folder
        )
    if not isinstance(policy, str):
        raise OptionError(f"{name}: policy is {policy!r}; give a policy, such as policy=(linucb:alpha=0.3)")
    text = policy.strip()
    return build(text[1:-1] if text.startswith("(") and text.endswith(")") else text, POLICIES, folder)


def _normalize(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _parse_options(name: str, text: str) -> dict[str, Any]:
    """Parse ``key=value,key=value``; commas inside brackets belong to a value."""
    options = {}
    for part in re.split(r",(?![^\[({]*[\])}])", text):
        key, sign, value = part.partition("=")
        if sign:
            options[key.strip()] = parse_value(value.strip())
        elif part.strip():
            raise OptionError(f"{name}: {part.strip()!r} is not an option; write key=value, such as {name}:key=0.5")
    return options


def parse_value(text: str) -> Any:
    """Parse a number, a truth value, None or a list; anything else is text.

    >>> parse_value("0.5"), parse_value("true"), parse_value("[0.25, 0.75]"), parse_value("big")
    (0.5, True, [0.25, 0.75], 'big')
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        # not a literal of Python, or nested too deeply for its parser
        return text


def _import_factory(module: str, name: str, folder: Path | None) -> Callable[..., Any]:
    """Import a user's factory from the current folder, the folder of the run file, or what is installed."""
    for searched in (os.getcwd(), *([] if folder is None else [str(folder)])):
        if searched not in sys.path:
            sys.path.insert(0, searched)
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
    return factory  # type: ignore[no-any-return]  # any callable; the object that it returns is checked later


def _call(factory: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    """Call a factory after a check of the options against its signature."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # some built-in classes have no signature
        return factory(**options)
    known = signature.parameters
    accepts_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for key, value in options.items():
        if key in known:
            _check_number(name, known[key], value)
        elif not accepts_any:
            choices = f"Options: {', '.join(known)}" if known else "It takes none"
            raise OptionError(f"{name} has no option {key!r}{did_you_mean(key, known)} {choices}")
    try:
        signature.bind(**options)
    except TypeError as problem:
        raise OptionError(f"{name}: {problem}; give it as {name}:key=value") from None
    return factory(**options)


def _check_number(name: str, parameter: inspect.Parameter, value: Any) -> None:
    """Refuse a value that is not a number if the parameter is annotated as one."""
    annotation = parameter.annotation
    type_name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    fits = isinstance(value, int | float) or (value is None and type_name.endswith("| None"))
    if type_name.removesuffix(" | None") in ("float", "int") and not fits:
        raise OptionError(f"{name}: {parameter.name} is {value!r}; it must be a number")
