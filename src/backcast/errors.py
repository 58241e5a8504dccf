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

__all__ = [
    "BackcastError",
    "ColumnError",
    "Enough",
    "EvaluationError",
    "HorizonNotReached",
    "LogError",
    "NeedsStationaryPolicy",
    "NeedsUniformLog",
    "OptionError",
    "PolicyError",
    "SourceError",
    "WorkError",
]


MOST_SIGNS = 2_000  # of a message: values are quoted in it, and a value may be as large as a file


class BackcastError(Exception):
    r"""Root of the tree: catch this to catch everything backcast raises on purpose.

    Messages quote names and values from files. So that none can move a terminal's cursor, or fill it, what cannot be
    printed is written as an escape, and the middle of what is too long is left out.

    >>> print(LogError("the column 'a\x1b[2J'"))
    the column 'a\x1b[2J'
    """

    def __str__(self) -> str:
        return readable(super().__str__())


def readable(text: str) -> str:
    r"""A text of any origin as a message may show it.

    >>> readable("a\x1b[2J"), len(readable("a" * 10**6)) < 2_100
    ('a\\x1b[2J', True)
    """
    if len(text) > MOST_SIGNS:
        half = MOST_SIGNS // 2
        text = f"{text[:half]} ... ({len(text) - 2 * half:,} characters) ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


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


class Enough(BackcastError):
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
