"""Provenance: everything that is needed to run an evaluation again, as values of JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, metadata
from typing import Any

import numpy as np

from backcast._equality import ContentEquality
from backcast._parameters import constructor_arguments
from backcast._serialization import to_json
from backcast.errors import OptionError

PACKAGES = ("backcast", "numpy", "numba", "scipy", "scikit-learn", "pyarrow")
# packages whose public classes are described by their options, and built again from them; nothing else is ever called
REBUILT_PACKAGES = ("backcast.policies.", "backcast.evaluators.", "backcast.intervals.", "backcast.reward_models.")
STATEFUL = ("Fitted",)  # what it was fitted on is not an option
MOST_NUMBERS = 1_000  # of an array that is described by its numbers, and of a list
LONGEST_TEXT = 200  # characters of the text that describes an object which cannot be built again


@dataclass(frozen=True, eq=False)
class LogSource(ContentEquality):
    """Where a log was read from.

    Attributes
    ----------
    reader
        The function that read it: "read_log", "scan_log", "read_vw", "scan_vw" or "read_obd".
    paths
        Files, patterns, folders or addresses, as they were given; those of this machine are absolute.
    options
        The other arguments of the reader, as :func:`describe_object` describes them.
    """

    reader: str
    paths: tuple[str, ...]
    options: dict[str, Any]

    def as_read(self) -> LogSource:
        """Return the source of a stream from ``scan_log`` or ``scan_vw`` after it was read into memory."""
        options = {name: value for name, value in self.options.items() if name != "batch_rows"}
        return LogSource(self.reader.replace("scan_", "read_"), self.paths, options)


def log_source(reader: str, path: Any, options: Mapping[str, Any]) -> LogSource:
    """Return the source of a log that this reader read from these paths; options that are None are left out."""
    paths = path if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    described = {name: describe_object(value) for name, value in options.items() if value is not None}
    return LogSource(reader, tuple(map(_absolute, paths)), described)


def _absolute(path: Any) -> str:
    text = str(os.fspath(path))
    return text if "://" in text else os.path.abspath(text)


@dataclass(frozen=True, eq=False)
class LogShape(ContentEquality):
    """Digest and shape of a log.

    Attributes
    ----------
    digest
        Of the contents of a log in memory; of names, sizes and times of modification of the files of a stream.
    events
        Number of events; None for a stream whose events were not counted.
    actions, features
        Number of actions K and of context features d.
    in_memory
        Whether the log was in memory, not a stream.
    times
        The first and the last time of a log in memory that has times; None otherwise.
    """

    digest: str
    events: int | None
    actions: int
    features: int
    in_memory: bool
    times: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Provenance(ContentEquality):
    """How a result was obtained: everything that is needed to run it again.

    Attributes
    ----------
    date
        When the evaluation ended: UTC, ISO 8601.
    log
        Digest and shape of the log.
    source
        The files that the log was read from, and how; None for a log that was not read from files.
    policy
        Description of the policy (:func:`describe_object`).
    arguments
        Arguments of the call as they were given: evaluator, reward model, interval, horizon, level, seed,
        replicates, exchangeable.
    options
        The same as they were used: what "auto", "default" and None stood for.
    versions
        Of Python and of the packages that results depend on.
    """

    date: str
    log: LogShape
    source: LogSource | None
    policy: Any
    arguments: dict[str, Any]
    options: dict[str, Any]
    versions: dict[str, str]


def date_now() -> str:
    """Return the present date and time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on.

    >>> sorted(package_versions())
    ['backcast', 'numba', 'numpy', 'pyarrow', 'python', 'scikit-learn', 'scipy']
    """
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


def describe_object(value: Any) -> Any:
    """Return an option as values of JSON, from which :func:`build_object` builds it again if that is possible.

    Objects of the package are described by class and options, small arrays by their numbers. Any other object is
    described by the name of its class and a text, and cannot be built again.

    >>> from backcast.policies.linear import LinUCB
    >>> describe_object(LinUCB(0.5))
    {'type': 'LinUCB', 'options': {'alpha': 0.5, 'ridge': 1.0, 'batch_size': 1}}
    >>> describe_object(object)
    {'python': 'builtins.object'}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return to_json(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple) and len(value) <= MOST_NUMBERS:
        items = [describe_object(item) for item in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: describe_object(item) for key, item in value.items()}}
    if isinstance(value, np.ndarray):
        if value.size <= MOST_NUMBERS and value.dtype.kind in "biuf":
            return {"array": to_json(value)}
        return {"python": "numpy.ndarray", "text": f"array of {' by '.join(map(str, value.shape))}"}
    options = _constructor_options(value)
    if options is not None:
        return {"type": type(value).__name__, "options": options}
    kind = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return {"python": name} if kind is value else {"python": name, "text": _describe_briefly(value)}


def _describe_briefly(value: Any) -> str:
    text = object.__repr__(value).partition(" at 0x")[0] if " at 0x" in repr(value) else repr(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def _constructor_options(value: Any) -> dict[str, Any] | None:
    """Return the arguments that construct an object of the package; None for any other object."""
    kind = type(value)
    if not kind.__module__.startswith(REBUILT_PACKAGES) or _rebuilt_class(kind.__name__) is not kind:
        return None
    arguments = constructor_arguments(value)
    return None if arguments is None else {name: describe_object(option) for name, option in arguments.items()}


def _rebuilt_class(name: str) -> type | None:
    """Return the public policy, evaluator, interval or reward model of this name; None if there is none."""
    package = import_module("backcast")
    kind = getattr(package, name) if name in package.__all__ and name not in STATEFUL else None
    is_rebuilt = isinstance(kind, type) and kind.__module__.startswith(REBUILT_PACKAGES)
    return kind if is_rebuilt else None


def build_object(description: Any, what: str) -> Any:
    """Return the object that :func:`describe_object` described; raise if it is not one of the package.

    Only public classes of ``REBUILT_PACKAGES`` are called, so a description from a file cannot run other code.

    >>> build_object({"type": "LinUCB", "options": {"alpha": 0.5}}, "the policy")
    LinUCB(alpha=0.5, ridge=1, batch_size=1)
    >>> build_object({"python": "mymodule.Mine"}, "the policy")
    Traceback (most recent call last):
    backcast.errors.OptionError: the policy is a Python object of mymodule.Mine, which cannot be built again from a file
    """
    if isinstance(description, list):
        return [build_object(item, what) for item in description]
    if not isinstance(description, dict):
        return {"inf": np.inf, "-inf": -np.inf}.get(description, description)
    if "array" in description:
        return np.array(description["array"])
    if "tuple" in description:
        return tuple(build_object(description["tuple"], what))
    if "dict" in description:
        return {key: build_object(item, what) for key, item in description["dict"].items()}
    kind = _rebuilt_class(str(description.get("type")))
    options = description.get("options")
    if kind is None or not isinstance(options, dict):
        name = description.get("python", description.get("type"))
        raise OptionError(f"{what} is a Python object of {name}, which cannot be built again from a file")
    arguments = {str(name): build_object(value, f"{name} of {what}") for name, value in options.items()}
    try:
        return kind(**arguments)
    except TypeError as problem:
        raise OptionError(f"{what} cannot be built again: {problem}") from None
