"""Pickles as Python 2 and the numpy and scipy of its time wrote them (protocol 2)."""

from __future__ import annotations

import struct

import numpy as np


def dumps(value) -> bytes:
    """Pickle an array, a CSR matrix or a dictionary of lists of small numbers."""
    return b"\x80\x02" + _any(value) + b"."


def _any(value) -> bytes:
    if isinstance(value, dict):
        return _graph(value)
    return _array(value) if isinstance(value, np.ndarray) else _csr_matrix(value)


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _string(text: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(text)) + text


def _int(number: int) -> bytes:
    return b"J" + struct.pack("<i", number)


def _tuple(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def _array(array: np.ndarray) -> bytes:
    code = array.dtype.str[1:].encode()
    empty = _tuple(_global("numpy", "ndarray"), _tuple(_int(0)), _string(b"b"))
    dtype = _global("numpy", "dtype") + _tuple(_string(code), _int(0), _int(1)) + b"R"
    dtype += _tuple(_int(3), _string(b"<"), b"N", b"N", b"N", _int(-1), _int(-1), _int(0)) + b"b"
    shape = _tuple(*(_int(size) for size in array.shape))
    in_fortran_order = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
    raw = _string(array.tobytes(order="F" if in_fortran_order else "C"))
    state = _tuple(_int(1), shape, dtype, b"\x88" if in_fortran_order else b"\x89", raw)
    return _global("numpy.core.multiarray", "_reconstruct") + empty + b"R" + state + b"b"


def _csr_matrix(matrix) -> bytes:
    state = {
        b"_shape": _tuple(*(_int(size) for size in matrix.shape)),
        b"maxprint": _int(50),
        b"indices": _array(matrix.indices.astype(np.int32)),
        b"data": _array(matrix.data),
        b"indptr": _array(matrix.indptr.astype(np.int32)),
    }
    items = b"".join(_string(key) + value for key, value in state.items())
    return _global("scipy.sparse.csr", "csr_matrix") + b")\x81}(" + items + b"ub"


def _graph(graph: dict[int, list[int]]) -> bytes:
    made = _global("collections", "defaultdict") + _tuple(_global("__builtin__", "list")) + b"R"
    items = b"".join(
        _int(node) + b"](" + b"".join(_int(number) for number in neighbors) + b"e"
        for node, neighbors in graph.items()
    )
    return made + b"(" + items + b"u"
