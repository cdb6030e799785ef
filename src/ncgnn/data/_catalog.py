"""The data sets that the package knows: where they come from and what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ncgnn.errors import UnknownNameError

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
