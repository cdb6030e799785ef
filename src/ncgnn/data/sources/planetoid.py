"""The files of Planetoid, ``ind.NAME.x``, ``y``, ``allx``, ``ally``, ``tx``, ``ty`` and more.

``allx`` and ``ally`` hold the first nodes in order, of which ``x`` and ``y`` are the training part
and the next 500 the validation part; ``tx`` and ``ty`` hold the test nodes in the order of
``test.index``. Numbers that appear in neither are isolated nodes (in Citeseer): they get no
features and class 0. ``graph`` lists the neighbors of every node.

The files are pickles, and a pickle may call whatever it imports. Here every import is answered from
a short table of stand-ins which only keep what they are given; numpy and scipy objects are built
afterwards, from plain bytes, shapes and types that were checked. Any other import stops the
reading, and so does any instruction that arrays, matrices and lists do not need.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ncgnn.data.npz import SHIPPED_SPLITS, csr_from_parts, errors_in, reading
from ncgnn.data.sources import make_graph, pick_file
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.graph import Graph

_VALIDATION_NODES = 500


def parse(files: Mapping[str, Path]) -> Graph:
    """Read the undirected graph and the published semi-supervised split."""
    test_file = pick_file(files, ".test.index")
    test = _read_test_nodes(test_file)
    known_labels = _read_labels(pick_file(files, ".ally"))
    test_labels = _read_labels(pick_file(files, ".ty"))
    train_nodes = len(_read_labels(pick_file(files, ".y")))
    known = len(known_labels)
    if len(test) != len(test_labels) or test.min() < known or len(np.unique(test)) != len(test):
        raise InputError(
            f"{test_file}: the test nodes do not fit the {known} nodes of .ally and the "
            f"{len(test_labels)} of .ty; get fresh copies of all files"
        )
    if train_nodes + _VALIDATION_NODES > known:
        raise InputError(
            f"{pick_file(files, '.ally')}: {known} nodes are too few for {train_nodes} training "
            f"and {_VALIDATION_NODES} validation nodes; get fresh copies of all files"
        )
    _read_matrix(pick_file(files, ".x"), train_nodes)
    nodes = int(test.max()) + 1
    labels = np.zeros(nodes, dtype=np.int64)
    labels[:known], labels[test] = known_labels, test_labels
    validation = np.arange(train_nodes, train_nodes + _VALIDATION_NODES)
    parts = (np.arange(train_nodes), validation, np.sort(test))
    return make_graph(
        _read_edges(pick_file(files, ".graph"), nodes),
        test_file.parent,
        undirected=True,
        labels=labels,
        features=_read_features(files, known, test, nodes),
        shipped_splits=dict(zip(SHIPPED_SPLITS["planetoid"], parts, strict=True)),
    )


def _read_test_nodes(path: Path) -> NDArray[Any]:
    with reading(path, "text file"):
        fields = path.read_text("ascii").split()
    if not fields or not all(field.isdigit() and len(field) < 10 for field in fields):
        raise InputError(f"{path} must list one node number per line; get a fresh copy")
    return np.array([int(field) for field in fields], dtype=np.int64)


def _read_labels(path: Path) -> NDArray[Any]:
    table = load_pickle(path)
    if not isinstance(table, np.ndarray) or table.ndim != 2 or not table.size:
        raise InputError(f"{path} must hold a table of classes; get a fresh copy of the file")
    return cast("NDArray[Any]", table.argmax(axis=1))


def _read_features(
    files: Mapping[str, Path], known: int, test: NDArray[Any], nodes: int
) -> csr_array[Any]:
    from scipy.sparse import coo_array, csr_array

    known_rows = _read_matrix(pick_file(files, ".allx"), known)
    test_rows = _read_matrix(pick_file(files, ".tx"), len(test))
    if known_rows.shape[1] != test_rows.shape[1]:
        raise InputError(
            f"{pick_file(files, '.tx')} has {test_rows.shape[1]} features but .allx has "
            f"{known_rows.shape[1]}; get fresh copies of all files"
        )
    above, below = known_rows.tocoo(), test_rows.tocoo()
    rows = np.concatenate([above.row, test[below.row]])
    columns = np.concatenate([above.col, below.col])
    values = np.concatenate([above.data, below.data]).astype(np.float32)
    return csr_array(coo_array((values, (rows, columns)), shape=(nodes, known_rows.shape[1])))


def _read_matrix(path: Path, rows: int) -> csr_array[Any]:
    from scipy.sparse import csr_array

    matrix = load_pickle(path)
    if isinstance(matrix, dict) or matrix.ndim != 2:
        raise InputError(f"{path} must hold a matrix of features; get a fresh copy of the file")
    if matrix.shape[0] != rows:
        raise InputError(
            f"{path} has {matrix.shape[0]} rows, expected {rows}; get fresh copies of all files"
        )
    return csr_array(matrix)


def _read_edges(path: Path, nodes: int) -> NDArray[Any]:
    graph = load_pickle(path)
    if not isinstance(graph, dict):
        raise InputError(f"{path} must hold lists of neighbors; get a fresh copy of the file")
    most = path.stat().st_size
    sources: list[int] = []
    targets: list[int] = []
    for node, neighbors in cast("dict[Any, Any]", graph).items():
        if not isinstance(neighbors, list):
            raise InputError(f"{path}: the neighbors of node {node!r} are not a list")
        # A neighbor takes a byte and more; one list for many nodes is no file of Planetoid's.
        if len(targets) + len(cast("list[int]", neighbors)) > most:
            raise InputError(f"{path} lists more neighbors than it holds; get a fresh copy")
        targets += cast("list[int]", neighbors)
        sources += [node] * (len(targets) - len(sources))
    if not all(type(number) is int and 0 <= number < nodes for number in (*sources, *targets)):
        raise InputError(f"{path} names a node outside 0..{nodes - 1}; get a fresh copy")
    return np.array([sources, targets], dtype=np.int64)


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
    """The content of a Planetoid file: an array, a CSR matrix or a dictionary of lists."""
    with reading(path, "Planetoid file"), errors_in(path):
        content = path.read_bytes()
        _check_instructions(content)
        return _build(_Reader(content).load())


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
        if self.code not in _PLAIN_TYPES or self.byte_order not in "<>|=":
            raise ValueError(f"arrays of type {self.code!r} are not read")
        return np.dtype(self.byte_order + self.code)


class _Array:
    """Stands in for a numpy array."""

    __slots__ = ("state",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def build(self) -> NDArray[Any]:
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _Dtype) or not all(type(size) is int for size in shape):
            raise ValueError("an array has no plain type or shape")
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(content, bytes):
            raise ValueError("the content of an array is not bytes")
        kind = dtype.build()
        if min(shape, default=0) < 0 or len(content) != math.prod(shape) * kind.itemsize:
            raise ValueError("an array has not as many bytes as its shape asks for")
        flat = np.frombuffer(content, dtype=kind).astype(kind.newbyteorder("="))
        return flat.reshape(shape, order="F" if fortran else "C")


class _Matrix:
    """Stands in for a scipy CSR matrix."""

    __slots__ = ("state",)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def build(self) -> csr_array[Any]:
        # Older releases of scipy call the shape _shape.
        shape = self.state["_shape"] if "_shape" in self.state else self.state["shape"]
        parts = {key: self.state[key].build() for key in ("data", "indices", "indptr")}
        return csr_from_parts(parts | {"shape": np.array(shape, dtype=np.int64)})


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

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        self.left = most

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"unexpected encoding {encoding!r}")
        # Every text is encoded once; a remembered one, again and again, would fill the memory.
        self.left -= len(text)
        if self.left < 0:
            raise pickle.UnpicklingError("it builds more than it holds")
        return text.encode("latin1")


class _List(_Call):
    """What missing keys of a dictionary would begin with; never made."""

    __slots__ = ()


class _Lists(_Call):
    """An empty dictionary of lists."""

    __slots__ = ()

    def __call__(self, factory: object) -> dict[Any, Any]:
        if not isinstance(factory, _List):
            raise pickle.UnpicklingError("a dictionary is not one of lists")
        return {}


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("collections", "defaultdict"): _Lists(),
    ("__builtin__", "list"): _List(),
    ("builtins", "list"): _List(),
}


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self._encode = _Encode(len(content))

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) == ("_codecs", "encode"):
            return self._encode
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module_name}.{global_name}, which is not allowed"
            ) from None


def _build(content: object) -> Any:
    if isinstance(content, _Array | _Matrix):
        return content.build()
    if isinstance(content, dict):
        return content
    raise ValueError(f"it holds a {type(content).__name__}")
