"""Every error backcast raises on purpose.

::

    BackcastError
    ├── LogError                  the log has wrong values or a wrong shape (also a ValueError)
    │   ├── ColumnError           a named column is missing or unusable
    │   └── SourceError           a file cannot be opened, parsed or combined with the other files
    ├── PolicyError               a policy broke its contract
    ├── OptionError               an option has an invalid value (also a ValueError)
    ├── StopEvaluation            a progress function stops the run and accepts a partial result
    └── EvaluationError           the estimate cannot be computed from this log
        ├── NeedsStationaryPolicy a learning policy was given to an estimator of fixed policies
        ├── NeedsUniformLog       replay was given a log that was not collected uniformly
        ├── HorizonNotReached     no trajectory of the requested length could be built
        └── WorkError             a worker died, a job took too long, or a finished job could not be saved

Each message names the problem, the place, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LONGEST_MESSAGE = 2_000  # characters: messages quote values, and a value may be as large as a file
MOST_CANDIDATES = 5_000  # names compared for a suggestion: a hostile header must not cost minutes


class BackcastError(Exception):
    r"""Root of the tree: catch this to catch every error that backcast raises on purpose.

    Messages quote names and values from files, so they pass through :func:`printable` and are shortened.

    >>> print(LogError("the column 'a\x1b[2J'"))
    the column 'a\x1b[2J'
    """

    def __str__(self) -> str:
        return printable(super().__str__(), LONGEST_MESSAGE)


class LogError(BackcastError, ValueError):
    """The log has wrong values or a wrong shape."""


class ColumnError(LogError):
    """A named column is missing or cannot be used."""


class SourceError(LogError):
    """A file cannot be opened, parsed or combined with the other files."""


class PolicyError(BackcastError):
    """A policy broke its contract."""


class OptionError(BackcastError, ValueError):
    """An option has an invalid value."""


class DriftWarning(UserWarning):
    """The logger or the rewards drift along the log, so that its order may matter."""


class StopEvaluation(BackcastError):
    """Raised by a progress function to stop a run: the estimate then uses the finished work and is marked partial.

    It reaches the caller only if too little work is finished for an estimate.
    """


class EvaluationError(BackcastError):
    """The estimate cannot be computed from this log."""


class NeedsStationaryPolicy(EvaluationError):
    """A learning policy was given to an estimator of fixed policies."""


class NeedsUniformLog(EvaluationError):
    """Replay was given a log that was not collected uniformly."""


class HorizonNotReached(EvaluationError):
    """No trajectory of the requested length could be built from the log."""


class WorkError(EvaluationError):
    """A worker died, a job took too long, or a finished job could not be saved."""


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
