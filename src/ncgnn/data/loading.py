"""From a name or a file to a graph.

Finding a data set on this machine, or getting it from its authors.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._io import sha256_of_file
from ncgnn.data import catalog as _catalog
from ncgnn.data.catalog import check_entry
from ncgnn.data.download import download as download_file
from ncgnn.data.npz import read_npz, write_npz
from ncgnn.data.sources import parser
from ncgnn.errors import DataMismatchError, DataNotFoundError, InputError, UnknownNameError
from ncgnn.graph import Graph, as_graph

if TYPE_CHECKING:
    from ncgnn.data.catalog import DatasetEntry, RemoteFile
    from ncgnn.data.npz import GraphArrays
    from ncgnn.graph import GraphLike

#: Environment variable that names a folder with data files.
DATA_VARIABLE = "NCGNN_DATA"


def load_arrays(
    name: str, data_dir: Path | str | None = None, download: bool = True
) -> tuple[GraphArrays, Path]:
    """Load a data set, from this machine if it is here, else from its authors.

    ``NAME.npz`` is looked for in ``data_dir``, in the folder that the environment variable
    ``NCGNN_DATA`` names, and in the cache. Failing that, the authors' files are taken from
    ``raw/NAME`` in the same folders or downloaded, and ``NAME.npz`` is written. What is new goes to
    ``data_dir`` if that is given, else to the cache. A data set that another package ships is made
    from there, whatever the folders hold.

    Args:
        name: Name in the catalogue.
        data_dir: Folder with data files; it must exist.
        download: Whether the network may be used.

    Returns:
        The arrays, checked against the catalogue, and the path that :func:`available` gives from
        now on.

    Raises:
        UnknownNameError: There is no such data set.
        DataNotFoundError: It is not here and could not be downloaded.
        DataMismatchError: A file does not hold this data set.
        InputError: A file is damaged.
    """
    entry = _catalog.entry(name)
    if entry.parser is None:
        return _bundled(entry)
    path = available(entry.name, data_dir)
    if path is not None:
        arrays = read_npz(path)
        check_entry(arrays, entry, str(path))
        return arrays, path
    # The folder of NCGNN_DATA may be shared by many: it is read, never written to.
    target = Path(data_dir).expanduser() if data_dir else cache_dir()
    try:
        return _build(entry, entry.parser, data_dir, target, download)
    except OSError as error:
        if isinstance(error, DataNotFoundError):
            raise
        raise InputError(
            f"data set '{entry.name}' cannot be stored in {target}: {error}; make room there or "
            "give another data folder"
        ) from error


def available(name: str, data_dir: Path | str | None = None) -> Path | None:
    """The ``NAME.npz`` that :func:`load_arrays` would read, or None if there is none yet.

    For a data set that another package ships (an entry without a parser) it is the folder of that
    package.
    """
    entry = _catalog.entry(name)
    if entry.parser is None:
        return _package_folder()
    file_name = f"{entry.name}.npz"
    paths = (folder / file_name for folder in _folders(data_dir))
    return next((path for path in paths if path.exists()), None)


def cache_dir() -> Path:
    """The folder for downloads: ``$XDG_CACHE_HOME/ncgnn``, or ``~/.cache/ncgnn``."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"
    return base / "ncgnn"


def _folders(data_dir: Path | str | None) -> list[Path]:
    named = os.environ.get(DATA_VARIABLE, "")
    given = [Path(text).expanduser() for text in (data_dir, named) if text]
    for folder in given:
        if not folder.is_dir():
            raise InputError(f"there is no data folder {folder}; make it or name another one")
    folders: dict[Path, Path] = {}
    for folder in (*given, cache_dir()):
        # One folder may be named in several ways.
        folders.setdefault(folder.resolve(), folder)
    return list(folders.values())


def _bundled(entry: DatasetEntry) -> tuple[GraphArrays, Path]:
    from ncgnn.data.sources.digits import digits_arrays

    arrays, folder = digits_arrays(), _package_folder()
    check_entry(arrays, entry, str(folder))
    return arrays, folder


def _package_folder() -> Path:
    # Finding a package is quick, importing scikit-learn is not.
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataNotFoundError("scikit-learn, which ships the digits, is not installed")
    return Path(spec.origin).parent


def _build(
    entry: DatasetEntry,
    parser_name: str,
    data_dir: Path | str | None,
    target: Path,
    download: bool,
) -> tuple[GraphArrays, Path]:
    files = _raw_files(entry, data_dir)
    missing = [remote for remote in entry.files if remote.name not in files]
    if missing and not download:
        raise DataNotFoundError(_how_to_get(entry, missing, data_dir, target, "offline"))
    for remote in missing:
        try:
            files[remote.name] = download_file(remote, _raw_folder(target, entry))
        except DataNotFoundError as error:
            reason = str(error)
            raise DataNotFoundError(
                _how_to_get(entry, missing, data_dir, target, reason)
            ) from error
    parsed = parser(parser_name)(files)
    origin = "; ".join(
        f"{remote.url} (SHA-256 {sha256_of_file(files[remote.name])})" for remote in entry.files
    )
    arrays = replace(parsed, origin=origin)
    paths = list(files.values())
    places = paths if len(paths) == 1 else sorted({path.parent for path in paths})
    check_entry(arrays, entry, ", ".join(map(str, places)), downloaded=True)
    path = target / f"{entry.name}.npz"
    write_npz(path, arrays)
    return arrays, path


def _raw_folder(folder: Path, entry: DatasetEntry) -> Path:
    return folder / "raw" / entry.name


def _raw_files(entry: DatasetEntry, data_dir: Path | str | None) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for remote in entry.files:
        for folder in _folders(data_dir):
            path = _raw_folder(folder, entry) / remote.name
            if path.is_file():
                _check_raw_file(path, remote)
                found[remote.name] = path
                break
    return found


def _check_raw_file(path: Path, remote: RemoteFile) -> None:
    if remote.sha256 is not None and sha256_of_file(path) != remote.sha256:
        raise DataMismatchError(
            f"{path} is not the file that {remote.url} had (its SHA-256 is not {remote.sha256}); "
            "move it away and get a fresh copy"
        )


def _how_to_get(
    entry: DatasetEntry,
    missing: list[RemoteFile],
    data_dir: Path | str | None,
    target: Path,
    reason: str,
) -> str:
    looked = ", ".join(str(folder) for folder in _folders(data_dir))
    listed = "\n".join(f"  {remote.name}: {remote.url}" for remote in missing)
    return (
        f"data set '{entry.name}' is not at hand ({reason}); looked for {entry.name}.npz in "
        f"{looked}. Put {entry.name}.npz into {target}, or download these files into "
        f"{_raw_folder(target, entry)} and load again:\n{listed}"
    )


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

    known = _entry(str(name))
    arrays, _ = load_arrays(known.name, data_dir, download=download)
    graph = graph_of_arrays(arrays, known.name)
    if known.binary_features and not raw_features and graph.features is not None:
        graph = with_binary_features(graph)
    return graph


def _entry(name: str) -> DatasetEntry:
    from ncgnn.data.catalog import entry

    try:
        return entry(name)
    except UnknownNameError:
        if Path(f"{name}.npz").is_file():
            raise InputError(f"there is no data set {name}; did you mean {name}.npz?") from None
        raise


def _load_file(path: Path) -> Graph:
    from ncgnn.data.npz import read_npz

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
    from ncgnn.data.npz import GraphArrays, write_npz

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
    from ncgnn.data.block_model import csbm

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
