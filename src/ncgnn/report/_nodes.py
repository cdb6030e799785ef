"""The per-node vectors as a table on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ncgnn._files import atomic_write
from ncgnn.errors import InputError
from ncgnn.metrics import confusion_masks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.metrics import Analysis

TableFormat = Literal["csv", "parquet"]


def node_columns(analysis: Analysis) -> dict[str, NDArray[Any]]:
    """One column per fact about a node.

    ``node`` is the user's identifier, ``label`` the class number, ``commonest`` the commonest class
    among the node and its neighbours, ``group_k`` whether NC at hop count k is low or high.
    """
    graph = analysis.graph
    columns: dict[str, NDArray[Any]] = {
        "node": np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids,
        "label": graph.labels,
        "degree": graph.degrees,
        "commonest": analysis.commonest,
        **analysis.per_node,
    }
    if graph.class_names is not None:
        columns["class"] = _names(graph.labels, graph.class_names)
        columns["commonest_class"] = _names(analysis.commonest, graph.class_names)
    for hops in analysis.hops:
        high = confusion_masks(analysis.per_node[f"nc_{hops}"], analysis.threshold)[1]
        columns[f"group_{hops}"] = np.where(high, "high", "low")
    return columns


def _names(numbers: NDArray[np.int64], names: tuple[str, ...]) -> NDArray[Any]:
    return np.array([*names, ""])[np.where(numbers < 0, len(names), numbers)]


def write_nodes(analysis: Analysis, path: Path, table_format: TableFormat = "csv") -> Path:
    """Write the per-node table; undefined values are empty (CSV) or null (Parquet)."""
    return write_table(node_columns(analysis), path, table_format)


def write_table(
    columns: Mapping[str, NDArray[Any]], path: Path, table_format: TableFormat = "csv"
) -> Path:
    """Write columns of equal length; NaN is empty (CSV) or null (Parquet)."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if table_format not in ("csv", "parquet"):
        raise InputError(f"format is '{table_format}'; choose csv or parquet.")
    arrays = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    table = pa.table(arrays)
    with atomic_write(path) as stream:
        if table_format == "csv":
            pyarrow.csv.write_csv(table, stream)
        else:
            pyarrow.parquet.write_table(table, stream)
    return path
