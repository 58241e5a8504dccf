"""Sixteen numbers side by side: in single precision one register of a processor, or a few narrower ones.

The compiler's vectorisation is for long loops. For 16 to 32 nodes the tests around each loop cost more than its
arithmetic: of 500 nanoseconds for ten draws with 24 nodes, 50 were arithmetic. A value of :class:`LanesType` is a
vector of LLVM, which needs no loop and has the same bits whatever the width of registers. Compiled code only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 16
SINGLE, DOUBLE, INTEGER = ir.FloatType(), ir.DoubleType(), ir.IntType(32)


class LanesType(types.Type):  # type: ignore[misc]  # numba has no types
    """Numba's type of sixteen numbers, in single or double precision."""

    def __init__(self, element: Any) -> None:
        super().__init__(name=f"Lanes({element})")
        self.vector = ir.VectorType(element, LANES)


SINGLES, DOUBLES = LanesType(SINGLE), LanesType(DOUBLE)


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """A vector of LLVM."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.vector)


def _declare_operator(operation: Any, generate: Callable[..., Any]) -> None:
    @infer_global(operation)
    class _Template(ConcreteTemplate):  # type: ignore[misc]
        cases = (signature(SINGLES, SINGLES, SINGLES), signature(DOUBLES, DOUBLES, DOUBLES))

    @lower_builtin(operation, LanesType, LanesType)  # type: ignore[untyped-decorator]
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return generate(builder, *arguments)


_declare_operator(operator.add, ir.IRBuilder.fadd)
_declare_operator(operator.sub, ir.IRBuilder.fsub)
_declare_operator(operator.mul, ir.IRBuilder.fmul)
_declare_operator(operator.truediv, ir.IRBuilder.fdiv)


def _repeat(builder: Any, value: Any) -> Any:
    kind = ir.VectorType(value.type, LANES)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INTEGER, 0))
    places = ir.Constant(ir.VectorType(INTEGER, LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), places)


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    """Call an intrinsic function of LLVM on vectors."""
    kind = arguments[0].type
    bits = 64 if kind.element == DOUBLE else 32
    function = ir.FunctionType(kind, [kind] * len(arguments))
    return builder.call(get_or_insert_function(builder.module, function, f"llvm.{name}.v{LANES}f{bits}"), arguments)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    kind = DOUBLE if array_type.dtype == types.float64 else SINGLE
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(kind, LANES).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def spread(typing_context: Any, value: Any) -> Any:
    """Return the same number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _repeat(builder, arguments[0])

    return SINGLES(types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def spread_double(typing_context: Any, value: Any) -> Any:
    """Return the same number in every lane, in double precision."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _repeat(builder, arguments[0])

    return DOUBLES(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def load_lanes(typing_context: Any, array: Any, index: Any) -> Any:
    """Return ``array[index : index + 16]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, array, *arguments), align=4)

    return SINGLES(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_lanes(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write ``array[index : index + 16]``, rounded to single precision if the array is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, address = arguments[2], _address(context, builder, array, *arguments[:2])
        if lanes.type != address.type.pointee:
            lanes = builder.fptrunc(lanes, SINGLES.vector)
        builder.store(lanes, address, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic  # type: ignore[untyped-decorator]
def load_affine(typing_context: Any, array: Any, index: Any, scale: Any, shift: Any) -> Any:
    """Return ``scale array[index : index + 16] + shift``, computed in double precision and rounded at the end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = builder.load(_address(context, builder, array, *arguments[:2]), align=8)
        result = _call(builder, "fma", _repeat(builder, arguments[2]), values, _repeat(builder, arguments[3]))
        return builder.fptrunc(result, SINGLES.vector)

    return SINGLES(array, types.intp, types.float64, types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def widen(typing_context: Any, x: Any) -> Any:
    """Return the numbers in double precision."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(arguments[0], DOUBLES.vector)

    return DOUBLES(SINGLES), generate


@intrinsic  # type: ignore[untyped-decorator]
def narrow(typing_context: Any, x: Any) -> Any:
    """Return the numbers rounded to single precision."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fptrunc(arguments[0], SINGLES.vector)

    return SINGLES(DOUBLES), generate


@intrinsic  # type: ignore[untyped-decorator]
def polynomial(typing_context: Any, coefficients: Any, x: Any) -> Any:
    """Return ``coefficients[0] + coefficients[1] x + ...`` by Horner's rule."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        terms = [_repeat(builder, builder.extract_value(arguments[0], i)) for i in range(len(coefficients))]
        total = terms.pop()
        while terms:
            total = _call(builder, "fma", total, arguments[1], terms.pop())
        return total

    return SINGLES(coefficients, SINGLES), generate


@intrinsic  # type: ignore[untyped-decorator]
def size_up_to(typing_context: Any, x: Any, limit: Any) -> Any:
    """Return ``min(|x|, limit)``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = _call(builder, "fabs", arguments[0])
        bound = _repeat(builder, arguments[1])
        return builder.select(builder.fcmp_ordered("<", size, bound), size, bound)

    return SINGLES(SINGLES, types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def select_negative(typing_context: Any, x: Any, negative: Any, other: Any) -> Any:
    """Return ``negative`` where x is negative, and ``other`` elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(ir.VectorType(SINGLE, LANES), [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("<", arguments[0], zero), *arguments[1:])

    return SINGLES(SINGLES, SINGLES, SINGLES), generate


@intrinsic  # type: ignore[untyped-decorator]
def add_to_exponent(typing_context: Any, x: Any, shifted: Any) -> Any:
    """Return ``x 2^k`` for ``shifted = 1.5 2^23 + k``, whose last bits are the integer k."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(INTEGER, LANES)
        bits, exponent = (builder.bitcast(argument, kind) for argument in arguments)
        exponent = builder.shl(exponent, ir.Constant(kind, [23] * LANES))
        return builder.bitcast(builder.add(bits, exponent), SINGLES.vector)

    return SINGLES(SINGLES, SINGLES), generate


@intrinsic  # type: ignore[untyped-decorator]
def sum_lanes(typing_context: Any, x: Any) -> Any:
    """Return the sum of the lanes: of both halves, and so on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, width = arguments[0], LANES
        while width > 1:
            width //= 2
            kind, undefined = ir.VectorType(INTEGER, width), ir.Constant(total.type, ir.Undefined)
            lower, upper = (ir.Constant(kind, list(range(first, first + width))) for first in (0, width))
            total = builder.fadd(
                builder.shuffle_vector(total, undefined, lower), builder.shuffle_vector(total, undefined, upper)
            )
        return builder.fpext(builder.extract_element(total, ir.Constant(INTEGER, 0)), DOUBLE)

    return types.float64(SINGLES), generate
