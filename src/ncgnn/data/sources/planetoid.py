"""The files of Planetoid, ``ind.NAME.x``, ``y``, ``allx``, ``ally``, ``tx``, ``ty`` and more.

``allx`` and ``ally`` hold the first nodes in order, of which ``x`` and ``y`` are the training part
and the next 500 the validation part; ``tx`` and ``ty`` hold the test nodes in the order of
``test.index``. Numbers that appear in neither are isolated nodes (in Citeseer): they get no
features and class 0. ``graph`` lists the neighbours of every node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ncgnn.data._arrays import SHIPPED_SPLITS, GraphArrays
from ncgnn.data.sources._common import checked, pick, undirected_edges
from ncgnn.data.sources._planetoid_pickle import load_pickle
from ncgnn.errors import DataNotFoundError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

_VALIDATION_NODES = 500


def parse(files: Mapping[str, Path]) -> GraphArrays:
    """Read the undirected graph and the published semi-supervised split."""
    import numpy as np

    test_file = pick(files, ".test.index")
    test = _test_nodes(test_file)
    known_labels = _one_hot_labels(pick(files, ".ally"))
    test_labels = _one_hot_labels(pick(files, ".ty"))
    train_nodes = len(_one_hot_labels(pick(files, ".y")))
    known = len(known_labels)
    if len(test) != len(test_labels) or test.min() < known or len(np.unique(test)) != len(test):
        raise InputError(
            f"{test_file}: the test nodes do not fit the {known} nodes of .ally and the "
            f"{len(test_labels)} of .ty; get fresh copies of all files"
        )
    if train_nodes + _VALIDATION_NODES > known:
        raise InputError(
            f"{pick(files, '.ally')}: {known} nodes are too few for {train_nodes} training and "
            f"{_VALIDATION_NODES} validation nodes; get fresh copies of all files"
        )
    _sparse(pick(files, ".x"), train_nodes)
    nodes = int(test.max()) + 1
    labels = np.zeros(nodes, dtype=np.int64)
    labels[:known], labels[test] = known_labels, test_labels
    validation = np.arange(train_nodes, train_nodes + _VALIDATION_NODES)
    parts = (np.arange(train_nodes), validation, np.sort(test))
    arrays = GraphArrays(
        edge_index=_edges(pick(files, ".graph"), nodes),
        labels=labels,
        features=_features(files, known, test, nodes),
        splits=dict(zip(SHIPPED_SPLITS["planetoid"], parts, strict=True)),
    )
    return checked(arrays, test_file.parent)


def _test_nodes(path: Path) -> NDArray[Any]:
    import numpy as np

    try:
        fields = path.read_text("ascii").split()
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a readable text file ({error})") from error
    if not fields or not all(field.isdigit() and len(field) < 10 for field in fields):
        raise InputError(f"{path} must list one node number per line; get a fresh copy")
    return np.array([int(field) for field in fields], dtype=np.int64)


def _one_hot_labels(path: Path) -> NDArray[Any]:
    import numpy as np

    table = load_pickle(path)
    if not isinstance(table, np.ndarray) or table.ndim != 2 or not table.size:
        raise InputError(f"{path} must hold a table of classes; get a fresh copy of the file")
    return cast("NDArray[Any]", table.argmax(axis=1))


def _features(
    files: Mapping[str, Path], known: int, test: NDArray[Any], nodes: int
) -> csr_array[Any]:
    import numpy as np
    from scipy.sparse import coo_array, csr_array

    known_rows = _sparse(pick(files, ".allx"), known)
    test_rows = _sparse(pick(files, ".tx"), len(test))
    if known_rows.shape[1] != test_rows.shape[1]:
        raise InputError(
            f"{pick(files, '.tx')} has {test_rows.shape[1]} features but .allx has "
            f"{known_rows.shape[1]}; get fresh copies of all files"
        )
    above, below = known_rows.tocoo(), test_rows.tocoo()
    rows = np.concatenate([above.row, test[below.row]])
    columns = np.concatenate([above.col, below.col])
    values = np.concatenate([above.data, below.data]).astype(np.float32)
    return csr_array(coo_array((values, (rows, columns)), shape=(nodes, known_rows.shape[1])))


def _sparse(path: Path, rows: int) -> csr_array[Any]:
    from scipy.sparse import csr_array

    matrix = load_pickle(path)
    if isinstance(matrix, dict) or matrix.ndim != 2:
        raise InputError(f"{path} must hold a matrix of features; get a fresh copy of the file")
    if matrix.shape[0] != rows:
        raise InputError(
            f"{path} has {matrix.shape[0]} rows, expected {rows}; get fresh copies of all files"
        )
    return csr_array(matrix)


def _edges(path: Path, nodes: int) -> NDArray[Any]:
    import numpy as np

    graph = load_pickle(path)
    if not isinstance(graph, dict):
        raise InputError(f"{path} must hold lists of neighbours; get a fresh copy of the file")
    sources: list[int] = []
    targets: list[int] = []
    for node, neighbours in cast("dict[Any, Any]", graph).items():
        if not isinstance(neighbours, list):
            raise InputError(f"{path}: the neighbours of node {node!r} are not a list")
        targets += cast("list[int]", neighbours)
        sources += [node] * (len(targets) - len(sources))
    if not all(type(number) is int and 0 <= number < nodes for number in (*sources, *targets)):
        raise InputError(f"{path} names a node outside 0..{nodes - 1}; get a fresh copy")
    return undirected_edges(np.array(sources), np.array(targets), nodes, str(path))
