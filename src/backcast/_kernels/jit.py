"""Numba: compile decorators, the cache on disk, notification of compilation, arrays without reference counts.

Numba's cache notices edits only in the file of the cached function, not in kernels of other files that it calls. The
name of the cache folder therefore contains a digest of every source file with kernels: new code, new folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.event
from numba import types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

from backcast._private_files import make_private_folder

F = TypeVar("F", bound=Callable[..., Any])

# Numba writes its bytecode to the log, some 90,000 lines at DEBUG; a program that wants them sets the level itself.
if logging.getLogger("numba").level == logging.NOTSET:
    logging.getLogger("numba").setLevel(logging.WARNING)


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled code; None, with a warning, if there is none that only this user can write.

    It is under ``NUMBA_CACHE_DIR``, the user's cache folder, or a private folder among the temporary files. Numba
    unpickles what it finds there, so a file that another user could have written would be another user's program.
    """
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        # these three packages in full, because their kernels read each other's constants; elsewhere, files with kernels
        if source.relative_to(package).parts[0] in ("_kernels", "policies", "_engine") or b"\n@compiled" in text:
            digest.update(text)
    reasons = []
    for find_parent in (_user_cache_folder, _temporary_cache_folder):
        try:
            folder = find_parent() / digest.hexdigest()[:16]
            make_private_folder(folder)
            with tempfile.TemporaryFile(dir=folder):  # is there room, and is it writable?
                return folder
        except (OSError, RuntimeError) as problem:  # RuntimeError: there is no home directory
            reasons.append(getattr(problem, "strerror", None) or str(problem))
    _warn_once("; ".join(reasons))
    return None


def _user_cache_folder() -> Path:
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "backcast"


def _temporary_cache_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir(), f"backcast-{user}")


@cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"compiled code cannot be stored ({reason}), so it is compiled for this process only, which takes some seconds "
        "each time; set NUMBA_CACHE_DIR to a folder with room that only this user can write",
        RuntimeWarning,
        stacklevel=2,
    )


class _CodeCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Numba's cache of one function, without which work goes on: a full disk costs time, not the result."""

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(signature, target_context)
        except Exception as problem:  # unreadable or damaged: any error of unpickling
            self._give_up(problem)
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError as problem:
            self._give_up(problem)

    def _give_up(self, problem: Exception) -> None:
        self.disable()
        _warn_once(getattr(problem, "strerror", None) or str(problem))


# for small kernels that run at every event: passing their arrays would cost more than the arithmetic
ALWAYS_INLINE = {"forceinline": True, "error_model": "numpy"}


def compiled(function: F) -> F:
    """Compile a kernel with Numba, cached on disk; it releases the GIL."""
    return _cached(function, error_model="numpy")


def inlined(function: F) -> F:
    """Compile a kernel as ``compiled`` does, inlined into every loop that calls it."""
    return _cached(function, **ALWAYS_INLINE)


def _cached(function: F, **options: Any) -> F:
    kernel = numba.njit(nogil=True, **options)(function)
    folder = cache_folder()
    if folder is not None:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            kernel._cache = _CodeCache(function)
        except RuntimeError as problem:  # no folder for this function can be made
            _warn_once(str(problem))
        finally:
            numba.config.CACHE_DIR = before
    return cast(F, kernel)


def uncached(function: F) -> F:
    """Compile for this process only: for loops that call a user's kernels, whose edits no cache would notice."""
    return cast(F, numba.njit(nogil=True, error_model="numpy")(function))


class _Listener(numba.core.event.Listener):  # type: ignore[misc]  # numba has no types
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def on_start(self, event: object) -> None:
        if self._callback is not None:
            self._callback()
            self._callback = None

    def on_end(self, event: object) -> None:
        pass


@contextmanager
def on_compilation(callback: Callable[[], None]) -> Iterator[None]:
    """Call ``callback`` once if a kernel has to be compiled inside the block (a cached kernel does not)."""
    with numba.core.event.install_listener("numba:compile", _Listener(callback)):
        yield


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def borrow(typing_context: Any, value: Any) -> Any:
    """Return an array, or a (nested, named) tuple of arrays and numbers, without owners. Compiled code only.

    Numba counts references to every array that a loop touches; without an owner there is nothing to count.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _remove_owners(context, builder, value, arguments[0])

    return value(value), generate


def _remove_owners(context: Any, builder: Any, value_type: Any, value: Any) -> Any:
    if isinstance(value_type, types.Array):
        array = context.make_array(value_type)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(value_type, types.BaseTuple):
        for i, member_type in enumerate(value_type):
            member = _remove_owners(context, builder, member_type, builder.extract_value(value, i))
            value = builder.insert_value(value, member, i)
    return value
