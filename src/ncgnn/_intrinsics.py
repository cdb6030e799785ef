"""Single instructions of the processor, for compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable


def _population_count(_typing: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _trailing_zeros(_typing: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


def _fetch(_typing: Any, array: Any, _place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        parts = context.make_array(kind)(context, builder, arguments[0])
        place = builder.mul(arguments[1], ir.Constant(ir.IntType(64), _item_bytes(kind)))
        address = cgutils.pointer_add(builder, parts.data, place)
        address = builder.bitcast(address, cgutils.voidptr_t)
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        name = f"llvm.prefetch.{'p0' if _opaque_pointers() else 'p0i8'}"
        function = cgutils.get_or_insert_function(builder.module, shape, name)
        # To be read, to be kept in all caches, as data.
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _item_bytes(kind: Any) -> int:
    return kind.dtype.bitwidth // 8


def _opaque_pointers() -> bool:
    """Whether this version of LLVM no longer tells pointers apart by what they point to."""
    import llvmlite

    return not getattr(llvmlite, "ir_layer_typed_pointers_enabled", True)


#: Number of ones in a 64-bit word.
popcount = cast("Callable[[Any], Any]", intrinsic(_population_count))
#: Position of the lowest one in a 64-bit word.
lowest_bit = cast("Callable[[Any], Any]", intrinsic(_trailing_zeros))
#: Start to fetch an entry of a contiguous array, counted over all dimensions, into the caches.
#: A hint: the entry need not exist.
prefetch = cast("Callable[[Any, Any], None]", intrinsic(_fetch))
