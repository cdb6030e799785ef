"""Readers of the authors' own file formats, one module each, and what they share.

A module defines ``parse(files)``, which makes a graph of ``{file name: path}``; ``datasets.toml``
names it, with dashes for underscores. Adding a format takes a module here and an entry there.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.npz import check_splits, errors_in
from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph import Graph, check_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    Parser = Callable[[Mapping[str, Path]], Graph]


def list_parsers() -> list[str]:
    """The names of all formats."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def find_parser(name: str) -> Parser:
    """The function that reads files of a format: ``parse(files)`` with ``{file name: path}``."""
    if name not in list_parsers():
        raise UnknownNameError("file format", name, list_parsers())
    parse: Parser = import_module(f"{__name__}.{name.replace('-', '_')}").parse
    return parse


def pick_file(files: Mapping[str, Path], ending: str) -> Path:
    """The one file whose name ends so."""
    found = [path for name, path in files.items() if name.endswith(ending)]
    if len(found) != 1:
        given = ", ".join(sorted(files)) or "none"
        raise InputError(f"files must hold one *{ending}; got {len(found)} (files: {given})")
    return found[0]


def make_graph(edges: ArrayLike, where: Path, *, undirected: bool, **fields: Any) -> Graph:
    """Build a graph; errors name the file.

    Args:
        edges: Sources and targets [2, E].
        where: The file or folder for messages.
        undirected: Whether an edge counts in both directions, and one of a node with itself not.
        **fields: See :class:`ncgnn.graph.GraphFields`.
    """
    pairs = np.asarray(edges)
    if undirected:
        pairs = pairs[:, pairs[0] != pairs[1]]
        pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
    with errors_in(where):
        graph = Graph.from_edge_index(pairs, **fields)
        check_splits(graph.shipped_splits)
    return graph


def shrink_features(features: NDArray[Any], where: str) -> csr_array[Any] | NDArray[Any]:
    """Dense features as float32, in CSR form where that takes less memory."""
    from scipy.sparse import csr_array

    if features.ndim != 2 or features.dtype.kind not in "biuf":
        raise InputError(f"{where} must be a table of numbers; get a fresh copy of the file")
    narrow = features.astype(np.float32, copy=False)
    return csr_array(narrow) if 2 * np.count_nonzero(narrow) < narrow.size else narrow


def whole_numbers(values: NDArray[Any], where: str) -> NDArray[np.int64]:
    """Integers, or floats that are integers, as int64."""
    whole = values.dtype.kind in "biu" or (
        values.dtype.kind == "f" and bool((np.isfinite(values) & (values % 1 == 0)).all())
    )
    if not whole:
        raise InputError(f"{where} must hold whole numbers; get a fresh copy of the file")
    return values.astype(np.int64)


def masks_from_indices(
    parts: Mapping[str, NDArray[Any]], nodes: int, where: Path
) -> dict[str, NDArray[Any]]:
    """One published split, given as node numbers under train, val and test, as boolean masks."""
    masks: dict[str, NDArray[Any]] = {}
    for name, numbers in parts.items():
        with errors_in(where):
            check_nodes(numbers, f"the {name} part", nodes)
        masks[f"{name}_masks"] = np.zeros((1, nodes), dtype=bool)
        masks[f"{name}_masks"][0, numbers] = True
    return masks
