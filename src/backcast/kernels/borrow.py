"""Arrays without their owner: inside a loop, counting references costs more than the arithmetic.

Numba raises and lowers an atomic counter whenever an array is handed on or taken out of a tuple, some five nanoseconds
each, and can prove only some of it needless. A borrowed array has no counter. It must not outlive the call it was
borrowed in, which holds for loops that are given their arrays and return numbers.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["borrow"]


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
