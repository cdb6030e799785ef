"""Is this the data set that its catalogue entry describes?

The data sets that the package knows: where they come from and what they hold.

The one order of edges that does not depend on how a file lists them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ncgnn.errors import DataMismatchError, UnknownNameError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data.npz import GraphArrays

# The order of the paper's tables.
_PAPER_ORDER = (
    "pubmed",
    "photo",
    "computers",
    "coauthor-cs",
    "coauthor-physics",
    "cora-full",
    "actor",
    "penn94",
    "chameleon-filtered",
    "squirrel-filtered",
)


@dataclass(frozen=True)
class RemoteFile:
    """A file that the authors publish.

    Attributes:
        url: Where it is; always https.
        name: The name it gets on the disk, and under which the parser finds it.
        sha256: Checksum of its bytes, or None if it is not recorded.
        size: How many bytes it may have at most; a download stops there.
    """

    url: str
    name: str
    sha256: str | None = None
    size: int = 2 << 30


@dataclass(frozen=True)
class DatasetEntry:
    """A data set; a count of None means that it is not confirmed and not checked.

    Attributes:
        name: The name to load it by.
        title: Its name for people.
        parser: Which reader of ``ncgnn.data.sources`` understands the files; None for a data set
            that another package ships, which is always at hand.
        files: The authors' files.
        homepage: Where people can read about it.
        citation: Authors, title, venue and year.
        licence: The licence, or None where the authors state none.
        nodes: Number of nodes.
        edges: Undirected edges of an undirected graph, else directed edges.
        directed: Whether the direction of edges is kept.
        features: Number of features.
        classes: Number of classes.
        unlabelled: Number of nodes without a label.
        content_sha256: See ``ncgnn.data._checks.content_sha256``; None if it is not recorded.
        binary_features: The files hold counts where the literature uses 0/1.
        in_paper: One of the ten benchmarks of the paper.
        large: Takes minutes and hundreds of megabytes.
        note: What else a user should know.
    """

    name: str
    title: str
    parser: str | None
    files: tuple[RemoteFile, ...]
    homepage: str
    citation: str
    licence: str | None
    nodes: int | None
    edges: int | None
    features: int | None
    classes: int | None
    unlabelled: int | None = 0
    directed: bool = False
    content_sha256: str | None = None
    binary_features: bool = False
    in_paper: bool = False
    large: bool = False
    note: str = ""


def entry(name: str) -> DatasetEntry:
    """The entry of a data set; case, underscores and spaces in the name do not matter.

    Raises:
        UnknownNameError: There is no such data set.
    """
    known, plain = _by_name(), _plain(name)
    if plain not in known:
        raise UnknownNameError("data set", name, list(known))
    return known[plain]


def canonical(name: str) -> str:
    """A data set's name as the catalogue has it; what it does not know is left as it is."""
    plain = _plain(name)
    return plain if plain in _by_name() else name


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def entries() -> list[DatasetEntry]:
    """All entries, those of the paper first."""
    return list(_by_name().values())


@cache
def _by_name() -> dict[str, DatasetEntry]:
    from ncgnn.data._catalog_bundled import ENTRIES as BUNDLED
    from ncgnn.data._catalog_citation import ENTRIES as CITATION
    from ncgnn.data._catalog_heterophilous import ENTRIES as HETEROPHILOUS
    from ncgnn.data._catalog_products import ENTRIES as PRODUCTS
    from ncgnn.data._catalog_social import ENTRIES as SOCIAL

    items = (*CITATION, *PRODUCTS, *HETEROPHILOUS, *SOCIAL, *BUNDLED)
    by_name = {item.name: item for item in items}
    others = [name for name in by_name if name not in _PAPER_ORDER]
    return {name: by_name[name] for name in (*_PAPER_ORDER, *others)}


def distinct_edges(
    source: NDArray[Any], target: NDArray[Any], nodes: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and targets of the edges, each edge once, sorted by target and then source.

    Args:
        source: Sources, within 0 … ``nodes`` - 1.
        target: Targets, likewise.
        nodes: Number of nodes, below 3·10⁹.
    """
    import numpy as np

    # Unsigned and signed 64-bit integers would add up to inexact floats.
    pairs = np.sort(target.astype(np.int64) * nodes + source.astype(np.int64, copy=False))
    first = np.ones(len(pairs), dtype=bool)
    first[1:] = pairs[1:] != pairs[:-1]
    target, source = np.divmod(pairs[first], max(nodes, 1))
    return source, target


def content_sha256(arrays: GraphArrays) -> str:
    """SHA-256 of what the arrays say, however they say it.

    The order and repetition of edges, integer types, explicit zeros, the order of columns in a
    sparse row and whether the features are sparse or dense make no difference. Feature values
    count as float32. Names, identifiers, the origin and ``num_classes`` are not part of it.

    Args:
        arrays: A valid graph.

    Returns:
        64 hexadecimal digits.
    """
    return _content_sha256(arrays, _distinct_edges(arrays))


def _content_sha256(arrays: GraphArrays, edges: NDArray[Any]) -> str:
    import numpy as np

    digest = hashlib.sha256(b"ncgnn graph content 1\n")

    def add(name: str, array: NDArray[Any], kind: str) -> None:
        plain = np.ascontiguousarray(array, dtype=kind)
        digest.update(f"{name} {kind} {plain.shape}\n".encode())
        digest.update(plain.data)

    add("edges", edges, "<i8")
    add("labels", np.asarray(arrays.labels), "<i8")
    for name, (array, kind) in _feature_parts(arrays).items():
        add(name, array, kind)
    for key in sorted(arrays.splits):
        part = np.asarray(arrays.splits[key])
        if part.dtype.kind == "b":
            add(key, part, "|u1")
        else:
            add(key, np.sort(part), "<i8")
    return digest.hexdigest()


def check_entry(
    arrays: GraphArrays, entry: DatasetEntry, where: str, *, downloaded: bool = False
) -> None:
    """Raise an error if the arrays are not the data set of the entry.

    Args:
        arrays: What was read.
        entry: What the catalogue says; counts and checksums that it leaves open are not compared.
        where: The file, for the message.
        downloaded: The arrays were parsed just now from the authors' files.

    Raises:
        DataMismatchError: A count or the checksum differs.
    """
    edges = _distinct_edges(arrays)
    for field, expected, found in _counts(arrays, entry, len(edges)):
        if expected is not None and expected not in found:
            raise DataMismatchError(
                f"data set '{entry.name}': {where} has {found[0]} {field}, expected {expected}; "
                + _remedy(entry, downloaded)
            )
    if entry.content_sha256 is None:
        return
    checksum = _content_sha256(arrays, edges)
    if checksum != entry.content_sha256:
        raise DataMismatchError(
            f"data set '{entry.name}': the counts of {where} are right but its content is not "
            f"(content SHA-256 {checksum}, expected {entry.content_sha256}): edges, labels, "
            "feature values or shipped splits differ; " + _remedy(entry, downloaded)
        )


def _remedy(entry: DatasetEntry, downloaded: bool) -> str:
    if entry.parser is None:
        return "the package that ships it was changed: install it again"
    if downloaded:
        return (
            f"the authors' files may have changed since they were recorded (see {entry.homepage}): "
            "delete them to download them again, or use them under another name as your own data"
        )
    return f"move the file away and load the data set again, or get a fresh copy ({entry.homepage})"


def _counts(
    arrays: GraphArrays, entry: DatasetEntry, distinct: int
) -> list[tuple[str, int | None, tuple[int, ...]]]:
    import numpy as np

    labels = np.asarray(arrays.labels)
    if entry.directed:
        # Authors count the edges that they list; a file may hold repeated ones only once.
        edges = ("directed edges", entry.edges, (distinct, int(arrays.edge_index.shape[1])))
    else:
        both = None if entry.edges is None else 2 * entry.edges
        edges = ("edges, counting both directions", both, (distinct,))
    return [
        ("nodes", entry.nodes, (len(labels),)),
        edges,
        ("features", entry.features, (_feature_count(arrays),)),
        ("classes", entry.classes, (len(np.unique(labels[labels >= 0])),)),
        ("unlabelled nodes", entry.unlabelled, (int((labels < 0).sum()),)),
    ]


def _feature_count(arrays: GraphArrays) -> int:
    return 0 if arrays.features is None else int(arrays.features.shape[1])


def _distinct_edges(arrays: GraphArrays) -> NDArray[Any]:
    """Pairs (target, source), each once, sorted."""
    import numpy as np

    listed = np.asarray(arrays.edge_index)
    source, target = distinct_edges(listed[0], listed[1], len(arrays.labels))
    return np.stack([target, source], axis=1)


def _feature_parts(arrays: GraphArrays) -> dict[str, tuple[NDArray[Any], str]]:
    import numpy as np
    from scipy.sparse import csr_array

    if arrays.features is None:
        return {}
    features: Any = arrays.features
    matrix = csr_array(features).astype(np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return {
        "feature shape": (np.asarray(matrix.shape), "<i8"),
        "feature rows": (np.asarray(matrix.indptr), "<i8"),
        "feature columns": (np.asarray(matrix.indices), "<i8"),
        "feature values": (np.asarray(matrix.data), "<f4"),
    }
