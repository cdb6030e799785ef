"""Planetoid's pickles, read without running anything that they name.

A pickle may call whatever it imports. Here every import is answered from a short table of
stand-ins which only keep what they are given; numpy and scipy objects are built afterwards, from
plain bytes, shapes and types that were checked. Any other import stops the reading, and so does
any instruction that arrays, matrices and lists do not need.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ncgnn.data._csr_parts import csr_from_parts
from ncgnn.errors import DataNotFoundError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

_PLAIN_TYPES = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
_REMEMBER = frozenset(["PUT", "BINPUT", "LONG_BINPUT"])
_ALSO_NEEDED = (
    "PROTO FRAME STOP MARK MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE NEWOBJ BUILD "
    "NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG1 STRING BINSTRING SHORT_BINSTRING "
    "UNICODE BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 "
    "TUPLE3 EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS"
)
_INSTRUCTIONS = _REMEMBER | frozenset(_ALSO_NEEDED.split())


def load_pickle(path: Path) -> Any:
    """The content of a Planetoid file: an array, a CSR matrix or a dictionary of lists.

    Raises:
        DataNotFoundError: There is no such file.
        InputError: The file names anything but plain arrays, or is damaged.
    """
    try:
        content = path.read_bytes()
        _check_instructions(content)
        return _built(_Reader(io.BytesIO(content), encoding="latin1").load(), str(path))
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{path} does not exist") from error
    except InputError:
        raise
    except Exception as error:
        # Damaged bytes make the unpickler fail in many ways; all of them mean the same.
        raise InputError(
            f"{path} is not a readable Planetoid file ({error}); get a fresh copy"
        ) from error


def _check_instructions(content: bytes) -> None:
    for instruction, argument, _ in pickletools.genops(content):
        if instruction.name not in _INSTRUCTIONS:
            raise pickle.UnpicklingError(f"it uses {instruction.name}, which is not allowed")
        # A remembered object's number sizes a table: one wild number would fill the memory.
        if instruction.name in _REMEMBER and (argument is None or argument > len(content)):
            raise pickle.UnpicklingError("it remembers more objects than it can have")


class _Dtype:
    """Stands in for ``numpy.dtype``: keeps the code and the byte order, nothing else."""

    __slots__ = ("byte_order", "code")

    def __init__(self, code: str, *_: object) -> None:
        self.code = code
        self.byte_order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.byte_order = str(state[1])

    def build(self) -> Any:
        import numpy as np

        if self.code not in _PLAIN_TYPES or self.byte_order not in "<>|=":
            raise ValueError(f"arrays of type {self.code!r} are not read")
        return np.dtype(self.byte_order + self.code)


class _Array:
    """Stands in for a numpy array."""

    __slots__ = ("state",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def build(self) -> NDArray[Any]:
        import numpy as np

        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _Dtype) or not all(type(size) is int for size in shape):
            raise ValueError("an array has no plain type or shape")
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(content, bytes):
            raise ValueError("the content of an array is not bytes")
        kind = dtype.build()
        if min(shape, default=0) < 0 or len(content) != math.prod(shape) * kind.itemsize:
            raise ValueError("an array has not as many bytes as its shape asks for")
        flat = np.frombuffer(content, dtype=kind)
        return flat.reshape(shape, order="F" if fortran else "C")


class _Matrix:
    """Stands in for a scipy CSR matrix."""

    __slots__ = ("state",)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def build(self, where: str) -> csr_array[Any]:
        import numpy as np

        # Older releases of scipy call the shape _shape.
        shape = self.state["_shape"] if "_shape" in self.state else self.state["shape"]
        data, indices, indptr = (self.state[key].build() for key in ("data", "indices", "indptr"))
        return csr_from_parts(
            data, indices, indptr, np.array(shape, dtype=np.int64), where=where, prefix=""
        )


class _Call:
    """A function of the table; as an object without attributes it cannot be tampered with."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a function has no state")


class _Reconstruct(_Call):
    __slots__ = ()

    def __call__(self, *_: object) -> _Array:
        return _Array()


class _Encode(_Call):
    """Python 3 writes bytes in old protocols as text and its encoding."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"unexpected encoding {encoding!r}")
        return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("_codecs", "encode"): _Encode(),
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module_name}.{global_name}, which is not allowed"
            ) from None


def _built(content: object, where: str) -> Any:
    if isinstance(content, _Array):
        return content.build()
    if isinstance(content, _Matrix):
        return content.build(where)
    if isinstance(content, dict):
        return content
    raise ValueError(f"it holds a {type(content).__name__}")
