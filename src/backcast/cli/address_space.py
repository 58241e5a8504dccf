"""The limit of the address space (``ulimit -v``): libraries reserve less under it, and too small a one is refused.

Address space is reserved, not used: Arrow's allocator takes a gigabyte of it if that much is left, so that 1.75 GB
sufficed for a run that failed at 2 GB; each thread of OpenBLAS and each arena of malloc takes 40 to 130 MB.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from backcast.errors import ResourceError

# of the streamed evaluation of 143 features, compiled anew: it passed from 1.0 GB on, on Linux with two cores
SMALLEST_LIMIT = 1_200_000_000
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
M_ARENA_MAX, ARENAS = -8, 2  # an option of mallopt in malloc.h; 8 arenas per core are the default


def reserve_less_address_space() -> None:
    """Limit what libraries reserve if the address space is limited; they read these options when they are imported."""
    if address_space_limit() is None:
        return
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with suppress(OSError, AttributeError):  # another C library than that of GNU
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


def check_address_space() -> None:
    """Refuse a limit under which some library would end the process."""
    limit = address_space_limit()
    if limit is not None and limit < SMALLEST_LIMIT:
        raise ResourceError(
            f"the address space is limited to {limit / 1e9:.2f} GB (ulimit -v), and {SMALLEST_LIMIT / 1e9:.2f} GB are "
            f"the least; raise the limit (ulimit -v {SMALLEST_LIMIT // 1024 + 1}), or limit memory by a control group"
        )


def address_space_limit() -> int | None:
    """Return the bytes of address space that this process may have; None if it is not limited."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
