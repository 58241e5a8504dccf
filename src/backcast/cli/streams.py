"""Standard streams of a command: a closed pipe discards further output, unsupported characters are replaced."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from backcast.errors import OptionError

REPLACE_CHARACTERS = "backcast-replace"  # name of the error handler of the encoder
# what messages and tables contain beyond ASCII; all other characters become a question mark
SUBSTITUTES = {
    "→": "->",
    "←": "<-",
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "±": "+/-",
    "×": "x",
    "·": "*",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "π": "pi",
    "μ": "mu",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "\N{NO-BREAK SPACE}": " ",
    "\N{NARROW NO-BREAK SPACE}": " ",
}


class FilesNotWritten(OptionError):
    """The result was printed, but a file could not be written."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # that of the reason: bad input, or a full disk


def replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Return a substitute for characters that an encoding does not have; an error handler of ``codecs``.

    >>> codecs.register_error(REPLACE_CHARACTERS, replace_characters)
    >>> "a → b ± é".encode("ascii", REPLACE_CHARACTERS)
    b'a -> b +/- ?'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SUBSTITUTES.get(character, "?") for character in error.object[error.start : error.end]), error.end


@contextmanager
def tolerant_streams() -> Iterator[None]:
    """Make standard output and the error stream replace characters, and discard what follows after a closed pipe.

    A reader such as ``head`` closes the pipe when it has read its lines. The command then continues: it writes its
    files and ends with the exit code that it would have had.
    """
    codecs.register_error(REPLACE_CHARACTERS, replace_characters)
    streams = sys.stdout, sys.stderr
    error_handlers = [getattr(stream, "errors", None) for stream in streams]
    for stream in streams:
        _set_error_handler(stream, REPLACE_CHARACTERS)
    # both are None in programs without a console
    sys.stdout, sys.stderr = (stream and _PipeStream(stream) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for stream, handler in zip(streams, error_handlers, strict=True):
            _set_error_handler(stream, handler)


def _set_error_handler(stream: Any, handler: str | None) -> None:
    if handler is not None:
        with suppress(AttributeError, OSError, ValueError):  # not a text file, or one that cannot be flushed
            stream.reconfigure(errors=handler)


def discard_output(stream: Any) -> None:
    """Discard what is in the buffer of a stream that cannot be written, and all that follows."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


class _PipeStream:
    """A text stream that discards output once the reader has closed the pipe."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return int(self._stream.write(text))
        except BrokenPipeError:
            discard_output(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            discard_output(self._stream)
