"""The natural logarithm in a form that the compiler vectorises: 1.1 instead of 4 nanoseconds per number."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from backcast._arrays import FloatArray
from backcast._kernels.jit import compiled

DOUBLE, INTEGER = ir.DoubleType(), ir.IntType(64)
FRACTION = np.int64((1 << 52) - 1)  # bits of the fraction of a double
ONE = np.int64(1023 << 52)  # bits of 1.0
TWO_TO_52 = np.int64(1075 << 52)  # bits of 2^52, whose fraction counts by ones
OFFSET = 2.0**52 + 1023.0
ROOT_OF_TWO, LOG_OF_TWO = 2.0**0.5, float(np.log(2.0))


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _bits_of(typing_context: Any, x: Any) -> Any:
    """Return the bits of a double as an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], INTEGER)

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _double_of(typing_context: Any, bits: Any) -> Any:
    """Return the double with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], DOUBLE)

    return types.float64(types.int64), generate


@compiled
def write_logarithms(values: FloatArray, out: FloatArray) -> None:
    """Write the logarithms of positive numbers, with a relative error below 1e-13; of 0 some finite number.

    With ``x = 2^e m`` and ``m`` between the roots of 1/2 and 2, it is ``e log 2 + 2 artanh((m - 1)/(m + 1))``, whose
    series converges by a factor of 34 per term.

    >>> out = np.zeros(3)
    >>> write_logarithms(np.array([1.0, 4.0, 1e300]), out)
    >>> bool(np.abs(out - np.log([1.0, 4.0, 1e300])).max() < 1e-12)
    True
    """
    for k in range(values.size):
        bits = _bits_of(values[k])
        mantissa = _double_of((bits & FRACTION) | ONE)
        # the bits of 2^52 with the exponent in place of the fraction: no conversion of integers, which AVX2 lacks
        exponent = _double_of(((bits >> 52) & 2047) | TWO_TO_52) - OFFSET
        is_large = mantissa > ROOT_OF_TWO
        mantissa = 0.5 * mantissa if is_large else mantissa
        exponent = exponent + 1.0 if is_large else exponent
        ratio = (mantissa - 1.0) / (mantissa + 1.0)
        z = ratio * ratio
        series = 1.0 / 17.0
        series = series * z + 1.0 / 15.0
        series = series * z + 1.0 / 13.0
        series = series * z + 1.0 / 11.0
        series = series * z + 1.0 / 9.0
        series = series * z + 1.0 / 7.0
        series = series * z + 1.0 / 5.0
        series = series * z + 1.0 / 3.0
        out[k] = exponent * LOG_OF_TWO + 2.0 * (ratio + ratio * z * series)
