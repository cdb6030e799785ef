"""Catalogue entries of the co-purchase and co-author graphs."""

from __future__ import annotations

from ncgnn.data.catalog import DatasetEntry, RemoteFile

_HOMEPAGE = "https://github.com/shchur/gnn-benchmark"
_CITATION = (
    "O. Shchur, M. Mumme, A. Bojchevski, S. Günnemann: Pitfalls of Graph Neural Network "
    "Evaluation, Relational Representation Learning Workshop at NeurIPS, 2018"
)
_LICENCE = "MIT (of the repository)"
# The one uniform 60/20/20 split comes from this repository, pinned to one of its commits.
_UNIFORM_SPLITS = (
    "https://raw.githubusercontent.com/LUOyk1999/tunedGNN/"
    "23f9604e8b13a9a6d3faa2f691cd844006979153/medium_graph/data"
)
_NOTE = (
    "The uniform split is that of Y. Luo, L. Shi, X.-M. Wu: Classic GNNs are Strong Baselines, "
    "NeurIPS, 2024. The checksum was recorded from a mirror, EdisonLeeeee/GraphData."
)


def _files(graph: str, split: str) -> tuple[RemoteFile, ...]:
    return (
        RemoteFile(f"{_HOMEPAGE}/raw/master/data/npz/{graph}.npz", f"{graph}.npz"),
        RemoteFile(f"{_UNIFORM_SPLITS}/{split}_split.npz", f"{split}_split.npz"),
    )


ENTRIES = (
    DatasetEntry(
        name="photo",
        title="Photo",
        parser="gnn-benchmark",
        files=_files("amazon_electronics_photo", "amazon-photo"),
        homepage=_HOMEPAGE,
        citation=_CITATION,
        licence=_LICENCE,
        nodes=7650,
        edges=119081,
        features=745,
        classes=8,
        content_sha256="477a5d988f415b844287baea1b734395b9c7daa3ad0798c402338089f24d1be8",
        in_paper=True,
        note=_NOTE,
    ),
    DatasetEntry(
        name="computers",
        title="Computers",
        parser="gnn-benchmark",
        files=_files("amazon_electronics_computers", "amazon-computer"),
        homepage=_HOMEPAGE,
        citation=_CITATION,
        licence=_LICENCE,
        nodes=13752,
        edges=245861,
        features=767,
        classes=10,
        content_sha256="36ee8ca6d6e1b551c913535d077f6cde5fe9609ed545b29b7aa915330dcd7067",
        in_paper=True,
        note=_NOTE,
    ),
    DatasetEntry(
        name="coauthor-cs",
        title="Coauthor CS",
        parser="gnn-benchmark",
        files=_files("ms_academic_cs", "coauthor-cs"),
        homepage=_HOMEPAGE,
        citation=_CITATION,
        licence=_LICENCE,
        nodes=18333,
        edges=81894,
        features=6805,
        classes=15,
        content_sha256="e5fff5f34d53f5b60cef7b4adc785258b365052b511f65f3680640267f1521ae",
        binary_features=True,
        in_paper=True,
        note="The file holds word counts; the literature uses 0/1. " + _NOTE,
    ),
    DatasetEntry(
        name="coauthor-physics",
        title="Coauthor Physics",
        parser="gnn-benchmark",
        files=_files("ms_academic_phy", "coauthor-physics"),
        homepage=_HOMEPAGE,
        citation=_CITATION,
        licence=_LICENCE,
        nodes=34493,
        edges=247962,
        features=8415,
        classes=5,
        content_sha256="d682748bf77c6ed0776ffa669fb0058ce4256631e7eb4168ed6d3cf57de4f47c",
        binary_features=True,
        in_paper=True,
        note="The file holds word counts; the literature uses 0/1. " + _NOTE,
    ),
)
