"""Instructions of the processor that Python has no words for, for compiled code."""

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


def _comparison(lanes: int) -> Any:
    """Compare all pairs of up to so many labels in vector registers, of whatever width they are."""

    def compare(
        _typing: Any, labels: Any, _first: Any, _count: Any, own: Any, _more: Any, _none: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            array, first, count, own, more, none = arguments
            parts = context.make_array(kind)(context, builder, array)
            place = builder.mul(first, ir.Constant(ir.IntType(64), _item_bytes(kind)))
            address = cgutils.pointer_add(builder, parts.data, place)
            rows = _Lanes(builder, lanes, kind.dtype.bitwidth)
            return rows.compare(address, count, own, more, none)

        kinds = (labels, types.uint64, types.int64, own, types.int64, own)
        return types.int64(*kinds), generate

    return intrinsic(compare)


class _Lanes:
    """Code for a vector of numbers, one per lane."""

    def __init__(self, builder: Any, lanes: int, bits: int) -> None:
        self.builder, self.lanes, self.bits = builder, lanes, bits
        self.number = ir.IntType(bits)
        self.vector = ir.VectorType(self.number, lanes)

    def constant(self, *values: int) -> Any:
        """These values, or one in all lanes."""
        return ir.Constant(self.vector, list(values) * (self.lanes // len(values)))

    def turned(self, vector: Any, places: list[int]) -> Any:
        """The lanes of a vector at other places."""
        order = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), places)
        return self.builder.shuffle_vector(vector, vector, order)

    def everywhere(self, value: Any) -> Any:
        """A 64-bit number or one of a lane's width, in all lanes."""
        if value.type.width > self.bits:
            value = self.builder.trunc(value, self.number)
        first = ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(self.constant(0), value, first)
        return self.turned(one, [0] * self.lanes)

    def compare(self, address: Any, count: Any, own: Any, more: Any, none: Any) -> Any:
        """See :data:`compare_16`."""
        build, lanes, zero = self.builder, self.lanes, self.constant(0)
        loaded = build.load(build.bitcast(address, self.vector.as_pointer()))
        loaded.align = self.bits // 8
        none = self.everywhere(none)
        is_there = build.icmp_unsigned("<", self.constant(*range(lanes)), self.everywhere(count))
        labels = build.select(is_there, loaded, none)
        is_own = build.icmp_unsigned("==", labels, self.everywhere(own))
        counts = build.add(build.select(is_own, self.everywhere(more), zero), self.constant(1))
        for step in range(1, lanes):
            other = self.turned(labels, [(lane + step) % lanes for lane in range(lanes)])
            same = build.icmp_unsigned("==", labels, other)
            counts = build.add(counts, build.zext(same, self.vector))
        is_known = build.icmp_unsigned("!=", labels, none)
        counts = build.select(is_known, counts, zero)
        shape = ir.FunctionType(self.number, [self.vector])
        name = f"llvm.vector.reduce.umax.v{lanes}i{self.bits}"
        highest = build.call(cgutils.get_or_insert_function(build.module, shape, name), [counts])
        size = build.ctpop(build.bitcast(is_known, ir.IntType(lanes)))
        word = ir.IntType(64)
        size, highest = (
            part if part.type == word else build.zext(part, word) for part in (size, highest)
        )
        return build.or_(build.shl(size, word(8)), highest)


#: Number of ones in a 64-bit word.
popcount = cast("Callable[[Any], Any]", intrinsic(_population_count))
#: Position of the lowest one in a 64-bit word.
lowest_bit = cast("Callable[[Any], Any]", intrinsic(_trailing_zeros))
#: Start to fetch an entry of a contiguous array, counted over all dimensions, into the caches.
#: A hint: the entry need not exist.
prefetch = cast("Callable[[Any, Any], None]", intrinsic(_fetch))
#: How often labels are among ``labels[first : first + count]``, at most 16 of them:
#: ``compare_16(labels, first, count, own, more, none)`` is 256 · s + t, with s the number of labels
#: other than ``none``, and t the count of the commonest one; if ``own`` is there at all, it counts
#: ``more`` times more. The array must have 16 entries from ``first`` on.
compare_16 = cast("Callable[[Any, Any, Any, Any, Any, Any], Any]", _comparison(16))
#: The same for at most 32 labels, and for at most 64.
compare_32 = cast("Callable[[Any, Any, Any, Any, Any, Any], Any]", _comparison(32))
compare_64 = cast("Callable[[Any, Any, Any, Any, Any, Any], Any]", _comparison(64))
