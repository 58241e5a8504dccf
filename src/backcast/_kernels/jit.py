"""Compilation: one decorator, a cache on disk that knows its own sources, and a way to tell the user.

Numba keys a cached function by the file it stands in only, so an edited kernel in another file would be served
stale. The cache folder therefore carries a digest of every source file with kernels in it: new code, new folder.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.event
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_folder() -> Path:
    """Where compiled code is kept: under ``NUMBA_CACHE_DIR``, the user's cache folder, or a temporary one."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        # three rooms whole, because their kernels read constants of each other; of the rest, files with kernels alone
        if source.relative_to(package).parts[0] in ("_kernels", "policies", "_engine") or b"\n@compiled" in text:
            digest.update(text)
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    for parent in (Path(home).expanduser(), Path(tempfile.gettempdir())):
        folder = parent / "backcast" / digest.hexdigest()[:16]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="backcast-"))


# For small kernels that run at every event: passing their arrays would cost more than the arithmetic.
ALWAYS_INLINE = {"forceinline": True, "error_model": "numpy"}


def compiled(function: F) -> F:
    """Compile a kernel with Numba, cached on disk; it lets other threads run meanwhile."""
    return _cached(function, error_model="numpy")


def inlined(function: F) -> F:
    """Compile a kernel as ``compiled`` does, to be merged into every loop that calls it."""
    return _cached(function, **ALWAYS_INLINE)


def _cached(function: F, **options: Any) -> F:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        return cast(F, numba.njit(cache=True, nogil=True, **options)(function))
    finally:
        numba.config.CACHE_DIR = before


def uncached(function: F) -> F:
    """Compile for this process only: for drivers with a user's kernels inside, whose edits no cache would see."""
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
    """The same array, or (named) tuple of arrays, numbers and such tuples, without owners. Compiled code only."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _disowned(context, builder, value, arguments[0])

    return value(value), generate


def _disowned(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for place, member in enumerate(kind):
            own = _disowned(context, builder, member, builder.extract_value(value, place))
            value = builder.insert_value(value, own, place)
    return value
