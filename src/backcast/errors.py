"""Every error backcast raises on purpose.

::

    BackcastError
    ├── LogError                  the log's values or shape are wrong (also a ValueError)
    │   ├── ColumnError           a named column is missing or unusable
    │   └── SourceError           a file cannot be opened, parsed or joined with its neighbours
    ├── PolicyError               a policy broke its contract
    ├── OptionError               an option has a value that makes no sense (also a ValueError)
    ├── Enough                    a progress function wants the answer from what is done
    └── EvaluationError           the question cannot be answered from this log
        ├── NeedsStationaryPolicy a learning policy was given to an estimator of fixed policies
        ├── NeedsUniformLog       replay was given a log that was not collected uniformly
        ├── HorizonNotReached     no trajectory of the asked length could be built
        └── WorkError             workers died, a piece took too long, or finished work could not be kept

Each message says what, where, the value, and the remedy.
"""

from __future__ import annotations

LONGEST_MESSAGE = 2_000  # characters: messages quote values, and a value may be as large as a file


class BackcastError(Exception):
    r"""Root of the tree: catch this to catch everything backcast raises on purpose.

    Messages quote names and values from files, so they are shown through :func:`printable` and shortened.

    >>> print(LogError("the column 'a\x1b[2J'"))
    the column 'a\x1b[2J'
    """

    def __str__(self) -> str:
        return printable(super().__str__(), LONGEST_MESSAGE)


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


class LogError(BackcastError, ValueError):
    """The log's values or shape are wrong."""


class ColumnError(LogError):
    """A named column is missing or cannot be used."""


class SourceError(LogError):
    """A file cannot be opened, parsed or joined with its neighbours."""


class PolicyError(BackcastError):
    """A policy broke its contract."""


class OptionError(BackcastError, ValueError):
    """An option has a value that makes no sense."""


class StopEvaluation(BackcastError):
    """Raised by a progress function to stop a run: the answer then comes from what is done, and says so.

    It reaches the caller only where nothing is done yet that an answer could come from.
    """


class EvaluationError(BackcastError):
    """The question cannot be answered from this log."""


class NeedsStationaryPolicy(EvaluationError):
    """A learning policy was given to an estimator of fixed policies."""


class NeedsUniformLog(EvaluationError):
    """Replay was given a log that was not collected uniformly."""


class HorizonNotReached(EvaluationError):
    """No trajectory of the asked length could be built from the log."""


class WorkError(EvaluationError):
    """Workers died, a piece of work took too long, or finished work could not be kept."""
