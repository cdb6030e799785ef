"""What the readers share: finding a file, and tidying edges and features.

Readers of the authors' own file formats, one module each, imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ncgnn.data.catalog import distinct_edges
from ncgnn.data.npz import check_arrays
from ncgnn.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.data.npz import GraphArrays

if TYPE_CHECKING:
    Parser = Callable[[Mapping[str, Path]], GraphArrays]

PARSERS: dict[str, str] = {
    "facebook100": "ncgnn.data.sources.facebook100",
    "geom-gcn": "ncgnn.data.sources.geom_gcn",
    "gnn-benchmark": "ncgnn.data.sources.gnn_benchmark",
    "graphsaint": "ncgnn.data.sources.graphsaint",
    "heterophilous": "ncgnn.data.sources.heterophilous",
    "ogb": "ncgnn.data.sources.ogb",
    "planetoid": "ncgnn.data.sources.planetoid",
}


def parser(name: str) -> Parser:
    """The function that reads files of a format: ``parse(files)`` with ``{file name: path}``.

    Raises:
        UnknownNameError: There is no such format.
    """
    if name not in PARSERS:
        raise UnknownNameError("file format", name, list(PARSERS))
    parse: Parser = import_module(PARSERS[name]).parse
    return parse


def checked(arrays: GraphArrays, where: Path) -> GraphArrays:
    """The arrays themselves, if they make a graph; ``where`` is named in the error."""
    check_arrays(arrays, str(where))
    return arrays


def pick(files: Mapping[str, Path], ending: str) -> Path:
    """The one file whose name ends so."""
    found = [path for name, path in files.items() if name.endswith(ending)]
    if len(found) != 1:
        given = ", ".join(sorted(files)) or "none"
        raise InputError(f"one file *{ending} is needed, {len(found)} were given (files: {given})")
    return found[0]


def directed_edges(
    source: NDArray[Any], target: NDArray[Any], nodes: int, where: str
) -> NDArray[Any]:
    """Edges [2, E], each once, direction and self-loops kept."""
    import numpy as np

    source, target = source.astype(np.int64), target.astype(np.int64)
    ends = np.concatenate([source, target])
    if ends.size and (ends.min() < 0 or ends.max() >= nodes):
        raise InputError(
            f"{where} has an edge with a node outside 0..{nodes - 1}; get a fresh copy of the file"
        )
    return np.stack(distinct_edges(source, target, nodes))


def undirected_edges(
    source: NDArray[Any], target: NDArray[Any], nodes: int, where: str
) -> NDArray[Any]:
    """Edges [2, E] in both directions, each once, without self-loops."""
    import numpy as np

    proper = source != target
    source, target = source[proper], target[proper]
    return directed_edges(
        np.concatenate([source, target]), np.concatenate([target, source]), nodes, where
    )


def smaller_form(features: NDArray[Any]) -> csr_array[Any] | NDArray[Any]:
    """Dense features as float32, in CSR form where that takes less memory."""
    import numpy as np
    from scipy.sparse import csr_array

    narrow = features.astype(np.float32, copy=False)
    return csr_array(narrow) if 2 * np.count_nonzero(narrow) < narrow.size else narrow


def whole_numbers(values: NDArray[Any], where: str) -> NDArray[Any]:
    """Integers, or floats that are integers, as int64."""
    import numpy as np

    whole = values.dtype.kind in "biu" or (
        values.dtype.kind == "f" and bool((np.isfinite(values) & (values % 1 == 0)).all())
    )
    if not whole:
        raise InputError(f"{where} must hold whole numbers; get a fresh copy of the file")
    return values.astype(np.int64)


def masks_from_indices(
    parts: Mapping[str, NDArray[Any]], nodes: int, where: str
) -> dict[str, NDArray[Any]]:
    """One published split, given as node numbers under train, val and test, as boolean masks."""
    import numpy as np

    masks: dict[str, NDArray[Any]] = {}
    for name, numbers in parts.items():
        if numbers.size and (numbers.min() < 0 or numbers.max() >= nodes):
            raise InputError(
                f"{where}: the {name} part names a node outside 0..{nodes - 1}; "
                "get a fresh copy of the file"
            )
        mask = np.zeros((1, nodes), dtype=bool)
        mask[0, numbers] = True
        masks[f"{name}_masks"] = mask
    return masks
