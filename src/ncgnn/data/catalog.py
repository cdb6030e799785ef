"""The datasets that the package knows: where they come from, what they hold, and how to check it.

``datasets.toml`` beside this file describes them; :func:`register_dataset` adds one's own.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.download import RemoteFile
from ncgnn.errors import DataMismatchError, InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from ncgnn.graph import Graph, GraphLike

    Loader = Callable[..., GraphLike]


@dataclass(frozen=True)
class DatasetEntry:
    """What is known of a dataset; a count of None is not confirmed and not checked.

    Attributes:
        title: Its name for people.
        parser: Which module of ``ncgnn.data.sources`` understands the files, or for a registered
            dataset the function that makes it.
        files: The authors' files; none for a dataset that is made on the spot.
        homepage: Where people can read about it.
        citation: Authors, title, venue and year.
        license: The license, or None where the authors state none.
        edges: Undirected edges of an undirected graph, else directed edges.
        unlabeled: Number of nodes without a label.
        directed: Whether the direction of edges is kept.
        content_sha256: See :func:`content_sha256`; None if it is not recorded.
        binary_features: The files hold counts where the literature uses 0/1.
        variant_of: The dataset whose shipped parameters are meant for this one too.
        in_paper: One of the ten benchmarks of the paper.
        large: Takes minutes and hundreds of megabytes.
        note: What else a user should know.
    """

    name: str
    title: str
    parser: str
    files: tuple[RemoteFile, ...] = ()
    homepage: str = ""
    citation: str = ""
    license: str | None = None
    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None
    unlabeled: int | None = None
    directed: bool = False
    content_sha256: str | None = None
    binary_features: bool = False
    variant_of: str = ""
    in_paper: bool = False
    large: bool = False
    note: str = ""


def list_datasets() -> list[DatasetEntry]:
    """All entries: those of the paper, the others, and those that were registered."""
    return list(_known().values())


def find_dataset(name: str) -> DatasetEntry:
    """The entry of a dataset; case, underscores and spaces in the name do not matter.

    Raises:
        UnknownNameError: There is no such dataset.
    """
    known, plain = _known(), _plain(name)
    if plain not in known:
        raise UnknownNameError("dataset", name, list(known))
    return known[plain]


def canonical_name(name: str) -> str:
    """A dataset's name as the catalog has it; what it does not know is left as it is."""
    plain = _plain(name)
    return plain if plain in _known() else name


#: Functions that make registered datasets, by name.
LOADERS: dict[str, Loader] = {}
_registered: dict[str, DatasetEntry] = {}


def register_dataset(
    name: str,
    loader: Loader,
    *,
    files: Iterable[RemoteFile | Mapping[str, Any] | str] = (),
    replace: bool = False,
    **facts: Any,
) -> DatasetEntry:
    """Make a dataset of one's own known by name in this process.

    For example ``register_dataset("karate", lambda: networkx_graph)``, or, with files to download,
    ``register_dataset("mine", parse, files=["https://example.org/mine.csv"], nodes=2708)``.

    Args:
        name: The name to load it by.
        loader: Returns a :class:`~ncgnn.Graph` or anything that becomes one. It is called whenever
            the dataset is loaded; with ``files``, once, with ``{file name: path}``, and its graph
            is kept as npz beside other downloads.
        files: Addresses of files to download, or :class:`RemoteFile` with name, checksum and size.
        replace: Whether the name may be known already.
        **facts: More fields of :class:`DatasetEntry`; counts and ``content_sha256`` are checked.

    Raises:
        InputError: The name is taken, or a fact is unknown.
    """
    plain = _plain(name)
    if plain in _known() and not replace:
        raise InputError(f"dataset '{plain}' exists; choose another name or say replace=True.")
    made_by = f"{loader.__module__}.{getattr(loader, '__qualname__', loader)}"
    entry = _make_entry(plain, {"title": name, "parser": made_by, "files": files} | facts)
    LOADERS[plain], _registered[plain] = loader, entry
    return entry


def _known() -> dict[str, DatasetEntry]:
    return _catalog() | _registered


@cache
def _catalog() -> dict[str, DatasetEntry]:
    content = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text("utf-8"))
    entries: dict[str, DatasetEntry] = {}
    for name, fields in content["datasets"].items():
        collection = (
            content["collections"][fields.pop("collection")] if "collection" in fields else {}
        )
        entries[name] = _make_entry(name, collection | fields)
    return entries


def _make_entry(name: str, fields: Mapping[str, Any]) -> DatasetEntry:
    base, files = fields.get("base", ""), fields.get("files", ())
    others = {key: value for key, value in fields.items() if key not in ("base", "files")}
    try:
        remote = tuple(RemoteFile.of(file, base) for file in files)
        return DatasetEntry(name=name, files=remote, **others)
    except TypeError as error:
        raise InputError(f"dataset '{name}': {error}") from error


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def content_sha256(graph: Graph) -> str:
    """SHA-256 of what a graph says, however its file says it.

    The order and repetition of edges, integer types, explicit zeros and whether the features are
    sparse or dense make no difference. Feature values count as float32. Names, identifiers, the
    origin and the number of classes are not part of it.
    """
    digest = hashlib.sha256(b"ncgnn graph content 1\n")

    def add(name: str, array: NDArray[Any], kind: str) -> None:
        plain = np.ascontiguousarray(array, dtype=kind)
        digest.update(f"{name} {kind} {plain.shape}\n".encode())
        digest.update(plain.data)

    add("edges", np.stack([graph.targets, graph.indices], axis=1), "<i8")
    add("labels", graph.labels, "<i8")
    if graph.features is not None:
        from scipy.sparse import csr_array

        features: Any = graph.features
        matrix = csr_array(features).astype(np.float32)
        matrix.eliminate_zeros()
        add("feature shape", np.asarray(matrix.shape), "<i8")
        add("feature rows", matrix.indptr, "<i8")
        add("feature columns", matrix.indices, "<i8")
        add("feature values", matrix.data, "<f4")
    for key in sorted(graph.shipped_splits):
        part = graph.shipped_splits[key]
        if part.dtype == bool:
            add(key, part, "|u1")
        else:
            add(key, np.sort(part), "<i8")
    return digest.hexdigest()


def check_dataset(
    graph: Graph, entry: DatasetEntry, where: str, *, downloaded: bool = False
) -> None:
    """Raise a :class:`DataMismatchError` if a graph is not the dataset of the entry.

    Counts and checksums that the entry leaves open are not compared. ``where`` names the file;
    ``downloaded`` says that the graph was parsed just now from the authors' files.
    """
    for field, expected, found in _compare_counts(graph, entry):
        if expected is not None and expected not in found:
            raise DataMismatchError(
                f"dataset '{entry.name}': {where} has {found[0]} {field}, expected {expected}; "
                + _remedy(entry, downloaded)
            )
    if entry.content_sha256 is None:
        return
    checksum = content_sha256(graph)
    if checksum != entry.content_sha256:
        raise DataMismatchError(
            f"dataset '{entry.name}': the counts of {where} are right but its content is not "
            f"(content SHA-256 {checksum}, expected {entry.content_sha256}): edges, labels, "
            "feature values or shipped splits differ; " + _remedy(entry, downloaded)
        )


def _compare_counts(
    graph: Graph, entry: DatasetEntry
) -> list[tuple[str, int | None, tuple[int, ...]]]:
    """Per count, its name, what is expected, and what would be right."""
    if entry.directed:
        # Authors count the edges that they list; a graph holds repeated ones only once.
        listed = graph.num_entries + graph.merged_duplicates
        edges = ("directed edges", entry.edges, (graph.num_entries, listed))
    else:
        both = None if entry.edges is None else 2 * entry.edges
        edges = ("edges, counting both directions", both, (graph.num_entries,))
    present = np.unique(graph.labels[graph.labels >= 0])
    return [
        ("nodes", entry.nodes, (graph.num_nodes,)),
        edges,
        ("features", entry.features, (graph.num_features,)),
        ("classes", entry.classes, (len(present),)),
        ("unlabeled nodes", entry.unlabeled, (graph.num_unlabeled,)),
    ]


def _remedy(entry: DatasetEntry, downloaded: bool) -> str:
    if not entry.files:
        return f"{entry.parser} made another graph than recorded: install its package again"
    if downloaded:
        return (
            f"the authors' files may have changed since they were recorded (see {entry.homepage}): "
            "delete them to download them again, or use them under another name as your own data"
        )
    return f"move the file away and load the dataset again, or get a fresh copy ({entry.homepage})"
