"""Every error backcast raises on purpose.

::

    BackcastError                     exit code
    ├── LogError                  2   the log has wrong values or a wrong shape (also a ValueError)
    │   ├── ColumnError               a named column is missing or unusable
    │   └── SourceError               a file cannot be opened, parsed or combined with the other files
    ├── OptionError               2   an option has an invalid value (also a ValueError)
    ├── PolicyError               8   a policy raised an exception or broke its contract
    ├── ContractError             8   an evaluator, interval or reward model raised an exception or broke its contract
    ├── ResourceError             7   memory or disk space does not suffice
    ├── StopEvaluation            130 a progress function stops the run and accepts a partial result
    └── EvaluationError           6   the estimate cannot be computed from this log
        ├── NeedsStationaryPolicy 2   a learning policy was given to an estimator of fixed policies
        ├── NeedsUniformLog           replay was given a log that was not collected uniformly
        ├── HorizonNotReached         no trajectory of the requested length could be built
        ├── NoOverlap                 the log has no event that the policy would choose
        └── WorkError             7   a worker died, a job took too long, or a finished job could not be saved

Each message names the problem, the place, the value and the remedy. A call that does not fit the signature of a
function (an argument is missing, or its name does not exist) raises Python's TypeError, which names the argument.
``exit_code`` of a class is the exit code of a
command that ends with the error; a class without a number of its own has that of its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

LONGEST_MESSAGE = 2_000  # characters: messages quote values, and a value may be as large as a file
MOST_CANDIDATES = 5_000  # names compared for a suggestion: a hostile header must not cost minutes


class BackcastError(Exception):
    r"""Root of the tree: catch this to catch every error that backcast raises on purpose.

    Messages quote names and values from files, so they pass through :func:`printable` and are shortened.

    >>> print(LogError("the column 'a\x1b[2J'"))
    the column 'a\x1b[2J'
    """

    exit_code: int = 2

    def __str__(self) -> str:
        return printable(super().__str__(), LONGEST_MESSAGE)


class LogError(BackcastError, ValueError):
    """The log has wrong values or a wrong shape."""


class ColumnError(LogError):
    """A named column is missing or cannot be used."""


class SourceError(LogError):
    """A file cannot be opened, parsed or combined with the other files."""


class PolicyError(BackcastError):
    """A policy raised an exception or broke its contract."""

    exit_code = 8


class ResourceError(BackcastError):
    """Memory or disk space does not suffice."""

    exit_code = 7


class ContractError(BackcastError):
    """An evaluator, an interval or a reward model raised an exception or broke its contract."""

    exit_code = 8


class OptionError(BackcastError, ValueError):
    """An option has an invalid value."""


class DriftWarning(UserWarning):
    """The logger or the rewards drift along the log, so that its order may matter."""


class StopEvaluation(BackcastError):
    """Raised by a progress function to stop a run: the estimate then uses the finished work and is marked partial.

    It reaches the caller only if too little work is finished for an estimate.
    """

    exit_code = 130


class EvaluationError(BackcastError):
    """The estimate cannot be computed from this log."""

    exit_code = 6


class NeedsStationaryPolicy(EvaluationError):
    """A learning policy was given to an estimator of fixed policies."""

    exit_code = 2


class NeedsUniformLog(EvaluationError):
    """Replay was given a log that was not collected uniformly."""


class HorizonNotReached(EvaluationError):
    """No trajectory of the requested length could be built from the log."""


class NoOverlap(EvaluationError):
    """The log has no event that the policy would choose, so it has no information on the policy."""


class WorkError(EvaluationError):
    """A worker died, a job took too long, or a finished job could not be saved."""

    exit_code = 7


def is_lack_of_memory(problem: BaseException) -> bool:
    """Return whether an exception of any kind means that memory, or address space, ran out.

    >>> is_lack_of_memory(MemoryError()), is_lack_of_memory(RuntimeError("can't start new thread"))
    (True, True)
    """
    # a thread without memory for its stack is a RuntimeError, a library without address space an ImportError
    signs = ("can't start new thread", "failed to map segment", "Cannot allocate memory")
    return isinstance(problem, MemoryError) or any(sign in str(problem) for sign in signs)


def is_built_in(thing: object) -> bool:
    """Return whether an object is an instance of a class of this package.

    >>> is_built_in(LogError()), is_built_in(0.5)
    (True, False)
    """
    return type(thing).__module__.startswith("backcast.")


@contextmanager
def convert_errors(source: object, method: str, place: str, remedy: str) -> Iterator[None]:
    """Raise what a method of a user's object raises as :class:`ContractError`, with the original error as its cause.

    Errors of backcast, and a lack of memory, pass unchanged.

    >>> with convert_errors(0.5, "predict", "4 events", "give a model"):
    ...     1 / 0
    Traceback (most recent call last):
    backcast.errors.ContractError: float.predict failed on 4 events: ZeroDivisionError: division by zero; give a model
    """
    try:
        yield
    except BackcastError:
        raise
    except Exception as problem:
        if is_lack_of_memory(problem):
            raise
        name = f"{type(source).__name__}.{method}"
        raise ContractError(f"{name} failed on {place}: {type(problem).__name__}: {problem}; {remedy}") from problem


def printable(text: str, longest: int | None = None) -> str:
    r"""Return text of any origin on one line, safe for a terminal: control characters are escaped.

    Line breaks become spaces. The middle of a text longer than ``longest`` is left out.

    >>> printable("a\nb\x1b[2J"), len(printable("a" * 10**6, 2_000)) < 2_100
    ('a b\\x1b[2J', True)
    """
    if longest is not None and len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} ... ({len(text) - 2 * half:,} characters) ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode()


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a suggestion that continues the sentence "there is no ..."; a full stop if no candidate is similar.

    >>> did_you_mean("Alfa", ["alpha", "ridge"]), did_you_mean("x", ["alpha"])
    ("; did you mean 'alpha'?", '.')
    """
    import difflib

    by_folded_name = {candidate.casefold(): candidate for candidate in islice(candidates, MOST_CANDIDATES)}
    nearest = difflib.get_close_matches(name.casefold(), by_folded_name, n=1)
    return f"; did you mean {by_folded_name[nearest[0]]!r}?" if nearest else "."
