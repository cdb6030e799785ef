"""A dataset as a folder: plain arrays that are mapped into memory, texts, and checksums.

======================  ======================================================================
``dataset.json``        name, classes, origin, counts and the checksums of all other files;
                        written last
``schema.toml``         what the columns of tables mean; edit it and import again
``tables.json``         schema and encoders, for rows that come later
``*.npy``               edges, labels, features, ids, splits and the arrays of the encoders
======================  ======================================================================

A graph without tables has no schema and no encoders. Nothing is pickled, and nothing of a folder
is seen before all of it is written. A folder is replaced as a whole, its files are never written
to again: whoever has mapped the old ones into memory, or has links to them, keeps what they held.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from types import NoneType
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import numpy as np

from ncgnn._io import as_path, make_durable, remove_leftovers, sha256_of_file, temporary_path
from ncgnn.data.npz import HEADERS, errors_in, reading
from ncgnn.data.tables.encoding import Features
from ncgnn.data.tables.links import LinkReport
from ncgnn.data.tables.schema import Column, parse_schema
from ncgnn.data.tables.tables import TableReport, Tables
from ncgnn.errors import InputError
from ncgnn.graph import Graph, check_csr

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

#: Format of the folder.
FORMAT = 1
MANIFEST, TABLES, SCHEMA = "dataset.json", "tables.json", "schema.toml"
_AGAIN = "import the tables again, or get a fresh copy of the folder"
# Larger folders are checked by the sizes of their files only: reading them all would take minutes.
_MOST_CHECKED = 4 << 30
# What a manifest says.
_FIELDS: dict[str, tuple[type, ...]] = {
    "files": (dict,),
    "fingerprint": (str,),
    "origin": (str,),
    "num_classes": (int,),
    "class_names": (list, NoneType),
    "feature_shape": (list, NoneType),
    "directed": (bool,),
    "merged_duplicates": (int,),
}
_EDGE_ARRAYS = ("edge_weights", "edge_directions")
# Of Linux: "this folder", and "let two names change places".
_AT_HERE, _EXCHANGE = -100, 2


def is_folder(path: Path | str) -> bool:
    """Whether there is a dataset folder at a path."""
    return (as_path(path) / MANIFEST).is_file()


def write_folder(graph: Graph, path: Path | str, *, force: bool = False) -> Path:
    """Write a graph as a dataset folder, which appears whole or not at all.

    Args:
        graph: The graph; if it was made of tables, their schema and encoders come along.
        path: A folder that does not exist or is empty.
        force: Whether another dataset folder may be replaced.
    """
    path = as_path(path)
    check_free(path, force=force)
    with _building(path) as build:
        _fill(graph, build)
    return path


def keep_folder(graph: Graph, source: Path | str, path: Path, *, copies: bool = True) -> bool:
    """Keep a dataset folder as it is now at another place, whatever becomes of it.

    Large files are linked, which takes no room, or copied where they cannot be.

    Args:
        graph: What the folder held when it was read. If it holds another graph now, this one is
            written.
        source: The folder.
        path: Where to keep it; a folder with the same graph there is left as it is.
        copies: Whether files may be copied or written; if not, they may be missing at the end.

    Returns:
        Whether it is kept.
    """
    with suppress(InputError):
        if is_folder(path) and read_manifest(path)["fingerprint"] == graph.fingerprint:
            return True
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError, InputError):
        with _building(path) as build:
            _link_files(as_path(source), build, graph.fingerprint, copies=copies)
        return True
    if copies:
        write_folder(graph, path)
    return copies


def _link_files(source: Path, folder: Path, fingerprint: str, *, copies: bool) -> None:
    """Link the files of a dataset folder, and complain unless they are those of the graph."""
    manifest = read_manifest(source)
    if manifest["fingerprint"] != fingerprint:
        raise InputError(f"{source} has changed since it was read.")
    for name in manifest["files"]:
        try:
            os.link(source / name, folder / name)
        except OSError:
            if not copies:
                raise
            shutil.copyfile(source / name, folder / name)
    for name in (SCHEMA, MANIFEST):  # small, and one of them is for people to edit
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    _check_files(folder, read_manifest(folder))
    make_durable([folder / MANIFEST])


@contextmanager
def _building(path: Path) -> Generator[Path]:
    """A new folder that takes its place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, path.name)
    build = temporary_path(path)
    try:
        build.mkdir()
        yield build
        _swap(build, path)
    finally:
        shutil.rmtree(build, ignore_errors=True)


def check_free(path: Path, *, force: bool = False) -> None:
    """Refuse a place where something else is.

    Raises:
        InputError: There is a file, a folder with other things, or a dataset without ``force``.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError(f"{path} is a file; name a folder for the dataset.")
    if is_folder(path):
        if not force:
            raise InputError(f"{path} holds a dataset already; say --force to replace it.")
    elif any(path.iterdir()):
        raise InputError(f"{path} holds other files; name a new folder for the dataset.")


def _fill(graph: Graph, folder: Path) -> None:
    arrays = _arrays_of(graph)
    tables = graph.source if isinstance(graph.source, Tables) else None
    if tables is not None:
        said, found = tables.features.state()
        arrays |= {f"encoder.{name}": array for name, array in found.items()}
        tree = {
            "format": FORMAT,
            "schema": tables.schema.model_dump(mode="json", exclude_none=True),
            "encoding": tables.encoding,
            "report": _report_tree(tables.report),
            **said,
        }
        (folder / TABLES).write_text(json.dumps(tree, ensure_ascii=False), encoding="utf-8")
        (folder / SCHEMA).write_text(tables.schema.to_toml(), encoding="utf-8")
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
    files = sorted(one for one in folder.iterdir() if one.name != SCHEMA)
    make_durable(files)
    manifest = {
        "format": FORMAT,
        "name": graph.name,
        "origin": graph.origin,
        "nodes": graph.num_nodes,
        "entries": graph.num_entries,
        "num_classes": graph.num_classes,
        "class_names": graph.class_names,
        "feature_shape": None if graph.features is None else list(graph.features.shape),
        "directed": graph.has_direction,
        "merged_duplicates": graph.merged_duplicates,
        "fingerprint": graph.fingerprint,
        "files": {
            one.name: {"bytes": one.stat().st_size, "sha256": sha256_of_file(one)} for one in files
        },
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=1)
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    make_durable([folder / MANIFEST])


def _arrays_of(graph: Graph) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "labels": graph.labels,
    }
    arrays |= {f"split.{key}": part for key, part in graph.shipped_splits.items()}
    for key in _EDGE_ARRAYS:
        if getattr(graph, key) is not None:
            arrays[key] = getattr(graph, key)
    if graph.node_ids is not None:
        arrays["node_ids"] = graph.node_ids
    if graph.feature_names is not None:
        text = "\n".join(name.replace("\n", " ") for name in graph.feature_names).encode()
        arrays["feature_names"] = np.frombuffer(text, dtype=np.uint8)
    features = graph.features
    if isinstance(features, np.ndarray):
        arrays["features"] = features
    elif features is not None:
        for part in ("data", "indices", "indptr"):
            arrays[f"features.{part}"] = getattr(features, part)
    return arrays


def _swap(build: Path, path: Path) -> None:
    """Put a folder in place of another; what was there is gone only when the new one is there."""
    if path.exists() and _exchange(build, path):
        return  # and what was there is removed as what is left of building
    old = None
    if path.exists():
        old = path.with_name(f".{path.name}.{uuid4().hex}.old")
        path.rename(old)
    try:
        build.rename(path)
    except OSError:
        if old is not None:
            old.rename(path)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change places at one moment; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    names = os.fsencode(first.absolute()), os.fsencode(second.absolute())
    return rename(_AT_HERE, names[0], _AT_HERE, names[1], _EXCHANGE) == 0


def read_manifest(path: Path | str) -> dict[str, Any]:
    """What ``dataset.json`` says.

    Raises:
        InputError: The file is damaged or of another format.
    """
    file = as_path(path) / MANIFEST
    manifest = _read_json(file)
    for name, kinds in _FIELDS.items():
        if not isinstance(manifest.get(name, ...), kinds):
            raise InputError(f"{file}: field {name} is missing or damaged; {_AGAIN}.")
    for name, stated in manifest["files"].items():
        known: Any = stated if isinstance(stated, dict) else {}
        if not isinstance(known.get("bytes"), int) or not isinstance(known.get("sha256"), str):
            raise InputError(f"{file}: field files.{name} is damaged; {_AGAIN}.")
    names = manifest["class_names"]
    if names is not None and len(names) != manifest["num_classes"]:
        raise InputError(f"{file}: class_names are not num_classes many; {_AGAIN}.")
    return manifest


def folder_sha256(manifest: Mapping[str, Any]) -> str:
    """A hash of all that a dataset folder holds, by its manifest: the graph, names and encoders.

    Where the tables lay, and the editable schema, are no part of it.
    """
    files = {name: one["sha256"] for name, one in manifest["files"].items() if name != TABLES}
    content = [manifest["fingerprint"], manifest["class_names"], sorted(files.items())]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def read_folder(path: Path | str) -> Graph:
    """Read a dataset folder; arrays stay on the disk until they are used.

    Raises:
        InputError: A file is missing, damaged, or does not fit the others.
    """
    path = as_path(path)
    while True:
        mark = _mark(path)
        try:
            manifest = read_manifest(path)
            graph = _read_as_stated(path, manifest)
        except (InputError, OSError, ValueError):
            if _mark(path) == mark:
                raise
            continue
        if _mark(path) == mark:
            return graph
        # It was replaced while it was being read, and half of it may be of the old one.


def _mark(path: Path) -> tuple[int, int] | None:
    """What tells a folder from another one that took its place; None where there is none."""
    try:
        found = (path / MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _read_as_stated(path: Path, manifest: Mapping[str, Any]) -> Graph:
    _check_files(path, manifest)
    with errors_in(path):
        graph = _graph_of(path, manifest)
    graph.__dict__["fingerprint"] = str(manifest["fingerprint"])
    return graph


def _check_files(path: Path, manifest: Mapping[str, Any]) -> None:
    files: dict[str, dict[str, Any]] = manifest["files"]
    total = sum(int(one["bytes"]) for one in files.values())
    for name, one in files.items():
        file = path / name
        if os.sep in name or not file.is_file():
            raise InputError(f"{file} is missing; {_AGAIN}.")
        same = file.stat().st_size == one["bytes"]
        if same and total <= _MOST_CHECKED:
            same = sha256_of_file(file) == one["sha256"]
        if not same:
            raise InputError(f"{file} has changed since it was written; {_AGAIN}.")


def _graph_of(path: Path, manifest: Mapping[str, Any]) -> Graph:
    names: set[str] = {name[:-4] for name in manifest["files"] if name.endswith(".npy")}
    arrays = {name: _map(path / f"{name}.npy") for name in names}
    check_csr(arrays["indptr"], arrays["indices"])
    features: Any = arrays.get("features")
    if "features.data" in arrays:
        from scipy.sparse import csr_array

        parts = [arrays[f"features.{part}"] for part in ("data", "indices", "indptr")]
        shape = tuple(manifest["feature_shape"])
        check_csr(parts[2], parts[1], shape[1], "features.")
        features = csr_array((parts[0], parts[1], parts[2]), shape=shape)
    feature_names = None
    if "feature_names" in arrays:
        feature_names = tuple(arrays["feature_names"].tobytes().decode().split("\n"))
    class_names = manifest["class_names"]
    return Graph(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        labels=arrays["labels"],
        num_classes=int(manifest["num_classes"]),
        features=features,
        node_ids=arrays.get("node_ids"),
        class_names=None if class_names is None else tuple(class_names),
        feature_names=feature_names,
        edge_weights=arrays.get("edge_weights"),
        edge_directions=arrays.get("edge_directions"),
        name=path.resolve().name,
        origin=str(manifest["origin"]),
        shipped_splits={
            name.partition(".")[2]: array
            for name, array in arrays.items()
            if name.startswith("split.")
        },
        merged_duplicates=int(manifest["merged_duplicates"]),
        source=_tables_of(path, manifest, arrays),
    )


def _tables_of(
    path: Path, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Tables | None:
    if TABLES not in manifest["files"]:
        return None
    tree = _read_json(path / TABLES)
    own = {
        name.partition(".")[2]: array
        for name, array in arrays.items()
        if name.startswith("encoder.")
    }
    try:
        features = Features.restore(tree, own)
        report = _restore_report(tree["report"])
        encoding = str(tree["encoding"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path / TABLES}: it does not hold encoders ({error}); {_AGAIN}."
        ) from None
    return Tables(parse_schema(tree["schema"], str(path / TABLES)), features, encoding, report)


def _map(path: Path) -> NDArray[Any]:
    """An array that stays on the disk until it is used."""
    with reading(path, "array"), HEADERS:
        if path.stat().st_size and np.load(path, mmap_mode="r", allow_pickle=False).size:
            return np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
        return np.load(path, allow_pickle=False)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({error}); {_AGAIN}.") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: does not hold a JSON object; {_AGAIN}.")
    found = cast("dict[str, Any]", value)
    if (number := found.get("format")) != FORMAT:
        raise InputError(f"{path}: format must be {FORMAT}; got {number!r}.")
    return found


def _report_tree(report: TableReport) -> dict[str, Any]:
    tree = asdict(report)
    del tree["unseen"]  # nothing is new to an encoder that was just fitted
    return tree


def _restore_report(tree: Mapping[str, Any]) -> TableReport:
    known = {one.name for one in fields(TableReport)} - {"unseen"}
    given = {key: value for key, value in tree.items() if key in known}
    given["columns"] = tuple(Column(**one) for one in given["columns"])
    given["links"] = LinkReport(**given["links"])
    given["notes"] = tuple(given["notes"])
    return TableReport(**given)
