"""Catalogue entries of the collection of heterophilous graphs by Platonov and others."""

from __future__ import annotations

from ncgnn.data.catalog import DatasetEntry, RemoteFile

_HOMEPAGE = "https://github.com/yandex-research/heterophilous-graphs"
_PLATONOV = (
    "O. Platonov, D. Kuznedelev, M. Diskin, A. Babenko, L. Prokhorenkova: A Critical Look at the "
    "Evaluation of GNNs under Heterophily: Are We Really Making Progress?, ICLR, 2023"
)
_WIKIPEDIA = (
    "B. Rozemberczki, C. Allen, R. Sarkar: Multi-Scale Attributed Node Embedding, Journal of "
    "Complex Networks, 2021"
)
_WEBKB = (
    "H. Pei, B. Wei, K. C.-C. Chang, Y. Lei, B. Yang: Geom-GCN: Geometric Graph Convolutional "
    "Networks, ICLR, 2020"
)


def _entry(
    name: str,
    title: str,
    counts: tuple[int, int, int, int],
    content_sha256: str | None,
    *,
    citation: str = _PLATONOV,
    stem: str | None = None,
    in_paper: bool = False,
    note: str = "",
) -> DatasetEntry:
    """An entry of this collection; ``counts`` are nodes, edges, features and classes."""
    stem = stem or name.replace("-", "_")
    nodes, edges, features, classes = counts
    if content_sha256 is None:
        note = f"{note} The checksum is not recorded yet.".strip()
    return DatasetEntry(
        name=name,
        title=title,
        parser="heterophilous",
        files=(RemoteFile(f"{_HOMEPAGE}/raw/main/data/{stem}.npz", f"{stem}.npz"),),
        homepage=_HOMEPAGE,
        citation=citation,
        licence="MIT (of the repository)",
        nodes=nodes,
        edges=edges,
        features=features,
        classes=classes,
        content_sha256=content_sha256,
        in_paper=in_paper,
        note=note,
    )


def _filtered_note(nodes_in_the_paper: int) -> str:
    return (
        "Duplicated nodes are taken out. This is the later release; the paper used an earlier one "
        f"with {nodes_in_the_paper} nodes."
    )


ENTRIES = (
    _entry(
        "chameleon-filtered",
        "Chameleon Filtered",
        (890, 8854, 2325, 5),
        "e7d102657a665d90e8fbb9d88554a55b40d805966a7ef1d6f49334d5cd6d6599",
        in_paper=True,
        note=_filtered_note(864),
    ),
    _entry(
        "squirrel-filtered",
        "Squirrel Filtered",
        (2223, 46998, 2089, 5),
        "a3981ee907a63625ceb0457c035bd260c35c59424a305a879de422bd90f3d6fe",
        in_paper=True,
        note=_filtered_note(2205),
    ),
    _entry(
        "chameleon",
        "Chameleon",
        (2277, 31371, 2325, 5),
        "639ceac28720e739d82939d801fb8f45e039e818da70022e6cb0eba08850c770",
        citation=_WIKIPEDIA,
        note="Holds many duplicated nodes; prefer chameleon-filtered.",
    ),
    _entry(
        "squirrel",
        "Squirrel",
        (5201, 198353, 2089, 5),
        "610f6a35588fb3c6d72f3f672ff6f459e56d4e0e6cf2f968f6aff13a203e9250",
        citation=_WIKIPEDIA,
        note="Holds many duplicated nodes; prefer squirrel-filtered.",
    ),
    _entry(
        "actor-undirected",
        "Actor (undirected)",
        (7600, 26659, 932, 5),
        "735be662d4c315c72e3df18ab4141cc192d30d7db463659430105aaeafe4c2f2",
        citation=_WEBKB,
        stem="actor",
        note="The paper used the directed graph, which is 'actor'.",
    ),
    _entry(
        "texas",
        "Texas",
        (183, 279, 1703, 5),
        "7054845699d0609d43d9521457e640287bb33899b656d0cf9186b6cecba0fd95",
        citation=_WEBKB,
    ),
    _entry(
        "cornell",
        "Cornell",
        (183, 277, 1703, 5),
        "a131ad29cd41df8b0ead40726bc727087b35e792484b2c68af03af2ee874ea95",
        citation=_WEBKB,
    ),
    _entry(
        "wisconsin",
        "Wisconsin",
        (251, 450, 1703, 5),
        "66164398c487cc46a9c86bf17756e4522aa114ea519cd57e4d81629982db838f",
        citation=_WEBKB,
    ),
    _entry(
        "minesweeper",
        "Minesweeper",
        (10000, 39402, 7, 2),
        "03570d717f1924186d82de150c78dceb32f329715c48e305379aaa8e9a9bf485",
    ),
    _entry(
        "tolokers",
        "Tolokers",
        (11758, 519000, 10, 2),
        "e576ec02c5ce20c05d366fe9ecb182b01526d1821b091cf09c148fafbde817ab",
    ),
    _entry("roman-empire", "Roman Empire", (22662, 32927, 300, 18), None),
    _entry("amazon-ratings", "Amazon Ratings", (24492, 93050, 300, 5), None),
    _entry("questions", "Questions", (48921, 153540, 301, 2), None),
)
