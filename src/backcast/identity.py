"""What makes a question the same question: the facts by which a checkpoint knows its own.

Objects are told apart by a digest of their state and of the code of their classes. The state is pickled for that, and
the bytes are thrown away: nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from backcast.checkpoint import log_fingerprint, open_checkpoint
from backcast.errors import OptionError
from backcast.evaluators.question import Question
from backcast.log import Log

__all__ = ["facts_of", "identity", "kept_in"]

LONGEST = 60


def kept_in(
    folder: str | PathLike[str] | None, question: Question, evaluator: Any, policies: Mapping[str, Any]
) -> Question:
    """The question with its checkpoint in this folder, made or found; as it is where there is none."""
    if folder is None:
        return question
    return replace(question, keep=open_checkpoint(folder, facts_of(question, evaluator, policies)))


def facts_of(question: Question, evaluator: Any, policies: Mapping[str, Any]) -> dict[str, str]:
    """Everything that a piece of work depends on.

    How many replicates, at which level, and who does them is left out: a piece is the same whatever comes of it, so
    that more replicates may be asked for, and the work done so far serves them.
    """
    from importlib.metadata import version

    return {
        "version of backcast": version("backcast"),
        "version of numpy": np.__version__,
        "log": _log(question.log),
        **{name: identity(policy) for name, policy in policies.items()},
        "evaluator": identity(evaluator),
        "reward model": identity(question.reward_model),
        "interval": identity(question.interval),
        "horizon": repr(question.horizon),
        "seed": repr(question.seed),
    }


def _log(log: Any) -> str:
    if isinstance(log, Log):
        return log_fingerprint(log)
    fingerprint = getattr(log, "fingerprint", None)
    if not callable(fingerprint):
        raise OptionError("a checkpoint needs to know the log again; give a Log, or a stream from scan_log")
    return str(fingerprint())


def identity(value: Any) -> str:
    """How a value is told from others: in words, and by a digest of its state and code.

    >>> identity(0.5), identity(None)
    ('0.5', 'None')
    >>> identity(np.zeros((2, 1))) == identity(np.ones((2, 1)))
    False
    """
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    bytes_of = io.BytesIO()
    try:
        _Digester(bytes_of).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as problem:
        raise OptionError(
            f"{type(value).__name__} cannot be told from others by its state ({problem}), so its checkpoint could be "
            "taken for that of another; leave out what cannot be pickled (__getstate__), or do without a checkpoint"
        ) from None
    return f"{_words(value)} {hashlib.sha256(bytes_of.getvalue()).hexdigest()[:12]}"


def _words(value: Any) -> str:
    shape = getattr(value, "shape", None)
    text = f"array of {' by '.join(map(str, shape))}" if isinstance(shape, tuple) else repr(value)
    if re.search(r" at 0x[0-9a-fA-F]+", text):
        # an address says nothing and changes from run to run
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


class _Digester(pickle.Pickler):
    """Writes functions and classes by their code instead of by name: an edited policy is another policy."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            inside = tuple(cell.cell_contents for cell in value.__closure__ or ())
            return tuple, ([_code(value.__code__), value.__qualname__, value.__defaults__, inside],)
        if isinstance(value, type) and value.__module__ != "builtins":
            written = [f"{value.__module__}.{value.__qualname__}"]
            for kind in value.__mro__:
                functions = [one for one in vars(kind).values() if isinstance(one, FunctionType)]
                written += [f"{one.__qualname__} {_code(one.__code__)}" for one in functions]
            return str, ("\n".join(written),)
        return NotImplemented


def _code(code: CodeType) -> str:
    """A digest of what a function does, wherever it stands in its file."""
    constants = [_constant(one) for one in code.co_consts]
    written = code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants
    return hashlib.sha256(repr(written).encode()).hexdigest()[:16]


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    # a set has no order of its own: it changes from process to process
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
