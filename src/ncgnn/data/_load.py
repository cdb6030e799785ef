"""From a name or a file to a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph import Graph, as_graph

if TYPE_CHECKING:
    from ncgnn.data._arrays import GraphArrays
    from ncgnn.data._catalog import DatasetEntry
    from ncgnn.graph import GraphLike


def load(
    name: str | Path,
    data_dir: str | Path | None = None,
    *,
    download: bool = True,
    raw_features: bool = False,
) -> Graph:
    """Load a data set by name, or a graph from an npz file.

    A data set is looked for in ``data_dir`` (or the folder that the environment variable
    ``NCGNN_DATA`` names), then in the cache, and is otherwise downloaded from its authors' site,
    checked, and kept as npz. ``digits`` ships with scikit-learn and needs no file.

    Args:
        name: A name that ``ncgnn datasets`` lists, or the path of an npz file.
        data_dir: Folder with npz files.
        download: Whether a data set that is not at hand may be downloaded.
        raw_features: Keep the counts that the files of the two Coauthor graphs hold; by default
            their features are 0/1, as in the paper and in PyG.

    Raises:
        UnknownNameError: No data set of that name.
        DataNotFoundError: Not at hand and not to be had; says what to put where.
        DataMismatchError: The file does not hold what the data set's entry promises.
        InputError: The file is malformed.
    """
    path = Path(name).expanduser()
    if path.suffix == ".npz" or len(path.parts) > 1 or path.is_file():
        return _load_file(path)
    from ncgnn.data._fetch import load_arrays

    known = _entry(str(name))
    arrays, _ = load_arrays(known.name, data_dir, download=download)
    graph = graph_of_arrays(arrays, known.name)
    if known.binary_features and not raw_features and graph.features is not None:
        graph = with_binary_features(graph)
    return graph


def _entry(name: str) -> DatasetEntry:
    from ncgnn.data._catalog import entry

    try:
        return entry(name)
    except UnknownNameError:
        if Path(f"{name}.npz").is_file():
            raise InputError(f"there is no data set {name}; did you mean {name}.npz?") from None
        raise


def _load_file(path: Path) -> Graph:
    from ncgnn.data._npz import read_npz

    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of an npz file in it.")
    if not path.is_file():
        raise InputError(f"there is no file {path}; give the path of an npz file or a known name.")
    if path.suffix != ".npz":
        raise InputError(
            f"{path} does not end in .npz; only npz files are read, and ncgnn.save(graph, …) "
            "writes one from a PyG Data, a NetworkX graph, a scipy matrix or an edge index."
        )
    try:
        return graph_of_arrays(read_npz(path), path.stem)
    except InputError as error:
        message = str(error)
        raise InputError(message if str(path) in message else f"{path}: {message}") from error


def save(graph: GraphLike, path: str | Path) -> Path:
    """Write a graph as an npz file that :func:`load` reads; it appears whole or not at all.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        path: A name that ends in ``.npz``; an existing file is replaced.
    """
    from ncgnn.data._arrays import GraphArrays
    from ncgnn.data._npz import write_npz

    path = Path(path).expanduser()
    if path.suffix != ".npz" or path.is_dir():
        raise InputError(f"{path} is no name for an npz file; choose one that ends in .npz.")
    graph = as_graph(graph)
    arrays = GraphArrays(
        edge_index=graph.edge_index(),
        labels=graph.labels,
        features=graph.features,
        splits=graph.shipped_splits,
        class_names=graph.class_names,
        node_ids=graph.node_ids,
        origin=graph.origin,
        num_classes=graph.num_classes,
    )
    write_npz(path, arrays)
    return path


def graph_of_arrays(arrays: GraphArrays, name: str) -> Graph:
    """Validate the content of a file and make a graph of it."""
    return Graph.from_edge_index(
        arrays.edge_index,
        labels=arrays.labels,
        features=arrays.features,
        num_classes=arrays.num_classes,
        class_names=arrays.class_names,
        node_ids=arrays.node_ids,
        shipped_splits=arrays.splits,
        name=name,
        origin=arrays.origin,
    )


def with_binary_features(graph: Graph) -> Graph:
    """The same graph with every feature that is not zero set to one."""
    from dataclasses import replace

    features: Any = graph.features
    ones: Any = (features != 0).astype("float32")
    note = f"{graph.origin}; features as 0/1" if graph.origin else "features as 0/1"
    return replace(graph, features=ones, origin=note)


def generate(nodes: int, edges: int, *, name: str = "csbm", **options: Any) -> Graph:
    """Generate a contextual stochastic block-model graph.

    Args:
        nodes: Number of nodes.
        edges: Number of undirected edges.
        name: Name of the graph.
        **options: ``classes``, ``homophily``, ``groups``, ``features``, ``feature_signal``,
            ``class_shares`` and ``seed``, as in :func:`ncgnn.data.csbm`.
    """
    from ncgnn.data._csbm import csbm

    made = csbm(nodes, edges, **options)
    # Arrays that cannot be written to are shared, not copied.
    for array in (made.indptr, made.indices, made.labels):
        array.flags.writeable = False
    settings = ", ".join(f"{key}={value!r}" for key, value in sorted(options.items()))
    return Graph.from_csr(
        made.indptr,
        made.indices,
        labels=made.labels,
        features=made.features,
        num_classes=options.get("classes", 2),
        name=name,
        origin=f"generated: csbm(nodes={nodes}, edges={edges}{', ' if settings else ''}{settings})",
    )
