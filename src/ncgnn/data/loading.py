"""From a name or a file to a graph: on this machine, or from its authors."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._io import as_path, sha256_of_file, write_text
from ncgnn.data.catalog import (
    LOADERS,
    check_dataset,
    content_sha256,
    find_dataset,
    list_datasets,
)
from ncgnn.data.download import download as download_file
from ncgnn.data.npz import read_npz, write_npz
from ncgnn.data.sources import find_parser
from ncgnn.data.tables import is_folder, read_folder, write_folder
from ncgnn.errors import (
    DataMismatchError,
    DataNotFoundError,
    InputError,
    NcgnnWarning,
    UnknownNameError,
)
from ncgnn.graph import Graph, as_graph

if TYPE_CHECKING:
    from ncgnn.data.catalog import DatasetEntry
    from ncgnn.graph import GraphLike

#: Environment variable that names a folder with data files.
DATA_VARIABLE = "NCGNN_DATA"
# Beside the authors' files: what they were when they were first used.
_RECEIVED = "received.json"
_FORMAT = 1


def load(
    name: str | Path,
    data_dir: str | Path | None = None,
    *,
    download: bool = True,
    raw_features: bool = False,
) -> Graph:
    """Load a dataset by name, or a graph from an npz file or a dataset folder.

    ``NAME.npz`` is looked for in ``data_dir``, in the folder that the environment variable
    ``NCGNN_DATA`` names, and in the cache. Failing that, the authors' files are taken from
    ``raw/NAME`` in the same folders or downloaded, and ``NAME.npz`` is written. What is new goes to
    ``data_dir`` if that is given, else to the cache. Checksums of the authors' files are kept
    beside them, in ``received.json``, and files that differ later are refused. A dataset without
    files, such as ``digits``, which ships with scikit-learn, is made on the spot, whatever the
    folders hold.

    Args:
        name: A name that ``ncgnn datasets`` lists, or the path of an npz file or of a folder that
            ``ncgnn import`` wrote.
        data_dir: Folder with data files; it must exist.
        download: Whether a missing dataset may be downloaded.
        raw_features: Keep the counts that the files of the two Coauthor graphs hold; by default
            their features are 0/1, as in the paper and in PyG.

    Raises:
        UnknownNameError: No dataset of that name.
        DataNotFoundError: Not found and not downloaded; the message says what to put where.
        DataMismatchError: The file does not hold what the dataset's entry promises.
        InputError: The file is malformed.
    """
    path = as_path(name)
    if path.suffix == ".npz" or len(path.parts) > 1 or path.is_file() or str(name).endswith("/"):
        return _load_file(path)
    if is_folder(path) and str(name) not in {entry.name for entry in list_datasets()}:
        return read_folder(path)
    entry = _find_entry(str(name))
    stored = find_stored(entry.name, data_dir)
    if not entry.files:
        graph = _make(entry, {})
        check_dataset(graph, entry, entry.parser)
    elif stored is not None:
        graph = read_npz(stored)
        check_dataset(graph, entry, str(stored))
        _check_content(graph, entry, stored)
    else:
        graph = _build(entry, data_dir, download)
    graph = replace(graph, name=entry.name)
    return _binarize(graph) if entry.binary_features and not raw_features else graph


def save(graph: GraphLike, path: str | Path, *, force: bool = False) -> Path:
    """Write a graph for :func:`load`; it appears whole or not at all.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        path: A name that ends in ``.npz``, where an existing file is replaced; or a folder, which
            also keeps how tables were encoded, so that rows that come later can be added.
        force: Whether an existing dataset folder may be replaced.
    """
    path = as_path(path)
    if path.suffix != ".npz":
        if path.suffix[1:].isalpha() and not is_folder(path):  # the name of some other file
            raise InputError(f"{path} is no name for a graph; end it in .npz, or name a folder.")
        return write_folder(as_graph(graph, require_labels=False), path, force=force)
    if path.is_dir():
        raise InputError(f"{path} is a folder; choose the name of a file that ends in .npz.")
    write_npz(path, as_graph(graph))
    return path


def find_stored(name: str, data_dir: Path | str | None = None) -> Path | None:
    """The ``NAME.npz`` that :func:`load` would read, or None if there is none yet.

    For a dataset without files it is the file of the code that makes it.
    """
    entry = find_dataset(name)
    if not entry.files:
        return _code_file(entry)
    paths = (folder / f"{entry.name}.npz" for folder in _folders(data_dir))
    return next((path for path in paths if path.exists()), None)


def cache_dir() -> Path:
    """The folder for downloads: ``$XDG_CACHE_HOME/ncgnn``, or ``~/.cache/ncgnn``."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".cache"
    return base / "ncgnn"


def _load_file(path: Path) -> Graph:
    if is_folder(path):
        return read_folder(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder without a dataset; 'ncgnn import' makes one.")
    if not path.is_file():
        raise InputError(f"there is no file {path}; give the path of an npz file or a known name.")
    if path.suffix != ".npz":
        raise InputError(
            f"{path} does not end in .npz; 'ncgnn import' makes a dataset of tables, and "
            "ncgnn.save(graph, …) writes a PyG Data, a NetworkX graph, a scipy matrix or an edge "
            "index."
        )
    return read_npz(path)


def _find_entry(name: str) -> DatasetEntry:
    try:
        return find_dataset(name)
    except UnknownNameError:
        if Path(name).is_dir():
            raise InputError(
                f"{name} is a folder without a dataset; 'ncgnn import' makes one."
            ) from None
        if Path(f"{name}.npz").is_file():
            raise InputError(f"there is no dataset {name}; did you mean {name}.npz?") from None
        if here := sorted(one.name for one in Path().iterdir() if is_folder(one)):
            known = [entry.name for entry in list_datasets()]
            raise UnknownNameError("dataset", name, [*here, *known]) from None
        raise


def _code_file(entry: DatasetEntry) -> Path | None:
    if entry.name in LOADERS:
        code = getattr(LOADERS[entry.name], "__code__", None)
        return None if code is None else Path(code.co_filename)
    # Finding a module is quick, importing it may not be.
    spec = find_spec(f"ncgnn.data.sources.{entry.parser.replace('-', '_')}")
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _folders(data_dir: Path | str | None) -> list[Path]:
    named = os.environ.get(DATA_VARIABLE, "")
    given = [as_path(text) for text in (data_dir, named) if text]
    for folder in given:
        if not folder.is_dir():
            raise InputError(f"there is no data folder {folder}; make it or name another one")
    folders: dict[Path, Path] = {}
    for folder in (*given, cache_dir()):
        # One folder may be named in several ways.
        folders.setdefault(folder.resolve(), folder)
    return list(folders.values())


def _make(entry: DatasetEntry, files: dict[str, Path]) -> Graph:
    """The graph that a registered loader or the parser of the entry makes."""
    if entry.name not in LOADERS:
        return find_parser(entry.parser)(files)
    loader = LOADERS[entry.name]
    return as_graph(loader(files) if entry.files else loader())


def _build(entry: DatasetEntry, data_dir: Path | str | None, download: bool) -> Graph:
    """Make a dataset from the authors' files and store it."""
    # The folder of NCGNN_DATA may be shared by many: it is read, never written to.
    target = as_path(data_dir) if data_dir else cache_dir()
    received = _Received.read(entry, _folders(data_dir))
    try:
        files = _get_files(entry, received, _folders(data_dir), target, download)
        sums = {name: sha256_of_file(path) for name, path in files.items()}
        _check_sums(entry, files, sums, received)
        graph = _make(entry, files)
        places = sorted({path if len(files) == 1 else path.parent for path in files.values()})
        check_dataset(graph, entry, ", ".join(map(str, places)), downloaded=True)
        origin = "; ".join(f"{file.url} (SHA-256 {sums[file.name]})" for file in entry.files)
        path = target / f"{entry.name}.npz"
        kept = received.keep(entry, target, sums)  # that of an earlier content is gone by then
        write_npz(path, replace(graph, origin=origin))
        graph = read_npz(path)  # to the last bit what every later load gives
        kept = kept.keep(entry, target, sums | {path.name: content_sha256(graph)})
        if entry.content_sha256 is None and path.name not in received.sums:
            warnings.warn(
                f"no checksum of {entry.name} is known to ncgnn: its files were taken as they are, "
                f"and their checksums kept in {kept.path}; files that differ will be refused.",
                NcgnnWarning,
                stacklevel=3,
            )
        return graph
    except DataNotFoundError:
        raise
    except OSError as error:
        raise InputError(
            f"dataset '{entry.name}' cannot be stored in {target}: {error}; make room there or "
            "give another data folder"
        ) from error


@dataclass(frozen=True)
class _Received:
    """What the authors' files of a dataset were when they were first used.

    Attributes:
        sums: SHA-256 by the name of a file; that of the graph's content by the name of its npz.
        path: Where that is written; None where nothing is.
    """

    sums: dict[str, str]
    path: Path | None = None

    @classmethod
    def read(cls, entry: DatasetEntry, folders: list[Path]) -> _Received:
        """What the first of some folders knows that knows something."""
        paths = (folder / "raw" / entry.name / _RECEIVED for folder in folders)
        path = next((one for one in paths if one.is_file()), None)
        if path is None:
            return cls({})
        try:
            said = json.loads(path.read_bytes())
            if said["format"] != _FORMAT:
                raise ValueError(f"format must be {_FORMAT}")
            return cls({str(name): str(found) for name, found in dict(said["files"]).items()}, path)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path} cannot be read ({error}); remove it, with the files beside it unless you "
                "trust them"
            ) from None

    @property
    def remedy(self) -> str:
        """How to go on with a file that has changed."""
        return f", or, if you trust the change, remove {self.path}"

    def keep(self, entry: DatasetEntry, target: Path, sums: dict[str, str]) -> _Received:
        """Write down what was used, and what is known from then on."""
        if self.sums == sums:
            return self
        path = target / "raw" / entry.name / _RECEIVED
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps({"format": _FORMAT, "files": sums}, indent=2) + "\n")
        return _Received(sums, path)


def _get_files(
    entry: DatasetEntry, received: _Received, folders: list[Path], target: Path, download: bool
) -> dict[str, Path]:
    """The authors' files by name: those found, and the others downloaded."""
    raw = Path("raw") / entry.name
    places = [folder / raw / file.name for folder in reversed(folders) for file in entry.files]
    found = {path.name: path for path in places if path.is_file()}
    missing = [file for file in entry.files if file.name not in found]
    try:
        if missing and not download:
            raise DataNotFoundError("offline")
        for file in missing:
            known = file.sha256 or received.sums.get(file.name)
            found[file.name] = download_file(replace(file, sha256=known), target / raw)
    except DataNotFoundError as error:
        looked = ", ".join(str(folder) for folder in folders)
        listed = "\n".join(f"  {file.name}: {file.url}" for file in missing)
        raise DataNotFoundError(
            f"dataset '{entry.name}' was not found ({error}); looked for {entry.name}.npz in "
            f"{looked}. Name the folder of your npz files with --data-dir or NCGNN_DATA, put "
            f"{entry.name}.npz into {target}, or download these files into "
            f"{target / raw} and load again:\n{listed}"
        ) from error
    return {file.name: found[file.name] for file in entry.files}


def _check_sums(
    entry: DatasetEntry, files: dict[str, Path], sums: dict[str, str], received: _Received
) -> None:
    """Refuse files that are not those of the catalog, or not those that were used before."""
    for file in entry.files:
        expected = file.sha256 or received.sums.get(file.name, sums[file.name])
        if sums[file.name] != expected:
            raise DataMismatchError(
                f"{files[file.name]} is not the file that {file.url} had (its SHA-256 is not "
                f"{expected}); move it away and get a fresh copy"
                + (received.remedy if file.sha256 is None else "")
            )


def _check_content(graph: Graph, entry: DatasetEntry, stored: Path) -> None:
    """Refuse another content than the authors' files gave, where the catalog knows no checksum."""
    received = _Received.read(entry, [stored.parent])
    expected = received.sums.get(stored.name)
    if expected is not None and entry.content_sha256 is None and content_sha256(graph) != expected:
        raise DataMismatchError(
            f"dataset '{entry.name}': {stored} is not what the authors' files gave; move it away "
            f"and load the dataset again{received.remedy}"
        )


def _binarize(graph: Graph) -> Graph:
    """The same graph with every feature that is not zero set to one."""
    if graph.features is None:
        return graph
    features: Any = graph.features
    note = f"{graph.origin}; features as 0/1" if graph.origin else "features as 0/1"
    return replace(graph, features=(features != 0).astype("float32"), origin=note)
