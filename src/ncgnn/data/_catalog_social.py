"""Catalogue entries of the social networks and of Actor."""

from __future__ import annotations

from ncgnn.data.catalog import DatasetEntry, RemoteFile

_FACEBOOK100 = "https://github.com/CUAI/Non-Homophily-Large-Scale"
_GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/new_data/film"
_DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="
_NOT_RECORDED = "The checksum is not recorded yet."


def _facebook100(
    name: str,
    university: str,
    *,
    nodes: int | None,
    edges: int | None,
    features: int | None,
    unlabelled: int | None,
    content_sha256: str | None = None,
    in_paper: bool = False,
    note: str = "",
) -> DatasetEntry:
    if content_sha256 is None:
        note = f"{note} {_NOT_RECORDED}".strip()
    quoted = university.replace(" ", "%20")
    url = f"{_FACEBOOK100}/raw/master/data/facebook100/{quoted}.mat"
    return DatasetEntry(
        name=name,
        title=university,
        parser="facebook100",
        files=(RemoteFile(url, f"{university}.mat"),),
        homepage=_FACEBOOK100,
        citation=(
            "A. L. Traud, P. J. Mucha, M. A. Porter: Social Structure of Facebook Networks, "
            "Physica A, 2012; task of D. Lim, F. Hohne, X. Li, S. L. Huang, V. Gupta, O. Bhalerao, "
            "S.-N. Lim: Large Scale Learning on Non-Homophilous Graphs, NeurIPS, 2021"
        ),
        licence=None,
        nodes=nodes,
        edges=edges,
        features=features,
        classes=2,
        unlabelled=unlabelled,
        content_sha256=content_sha256,
        in_paper=in_paper,
        note=note,
    )


ENTRIES = (
    DatasetEntry(
        name="actor",
        title="Actor",
        parser="geom-gcn",
        files=tuple(
            RemoteFile(f"{_GEOM_GCN}/{name}", name)
            for name in ("out1_node_feature_label.txt", "out1_graph_edges.txt")
        ),
        homepage="https://github.com/graphdml-uiuc-jlu/geom-gcn",
        citation=(
            "H. Pei, B. Wei, K. C.-C. Chang, Y. Lei, B. Yang: Geom-GCN: Geometric Graph "
            "Convolutional Networks, ICLR, 2020"
        ),
        licence=None,
        nodes=7600,
        edges=30019,
        features=932,
        classes=5,
        directed=True,
        content_sha256="6ef232bcdd4fd9e9cdeab55b4cd53ef307296a33a0a10b3a4f76cc9b458d60d3",
        in_paper=True,
        note="Directed, 93 of the edges are self-loops; repeated edges are merged.",
    ),
    _facebook100(
        "penn94",
        "Penn94",
        nodes=41554,
        edges=1362229,
        features=4814,
        unlabelled=None,
        in_paper=True,
        note="The published splits are pickled and therefore not loaded.",
    ),
    DatasetEntry(
        name="flickr",
        title="Flickr",
        parser="graphsaint",
        files=(
            RemoteFile(f"{_DRIVE}1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy", "adj_full.npz"),
            RemoteFile(f"{_DRIVE}1join-XdvX3anJU_MLVtick7MgeAQiWIZ", "feats.npy"),
            RemoteFile(f"{_DRIVE}1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9", "class_map.json"),
            RemoteFile(f"{_DRIVE}1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7", "role.json"),
        ),
        homepage="https://github.com/GraphSAINT/GraphSAINT",
        citation=(
            "H. Zeng, H. Zhou, A. Srivastava, R. Kannan, V. Prasanna: GraphSAINT: Graph Sampling "
            "Based Inductive Learning Method, ICLR, 2020"
        ),
        licence=None,
        nodes=89250,
        edges=449878,
        features=500,
        classes=7,
        large=True,
        note=_NOT_RECORDED,
    ),
    _facebook100(
        "fb100-amherst41",
        "Amherst41",
        nodes=2235,
        edges=90954,
        features=1193,
        unlabelled=203,
        content_sha256="4355265f1b564482c86161d420a695885a1de8cf24abaeff1f0666239532c030",
    ),
    _facebook100(
        "fb100-cornell5",
        "Cornell5",
        nodes=18660,
        edges=790777,
        features=4735,
        unlabelled=1838,
        content_sha256="55f17b1f83045c96f453caebf3c780a5c54ef092c56032f1a53994991090ec56",
    ),
    _facebook100(
        "fb100-johns-hopkins55",
        "Johns Hopkins55",
        nodes=None,
        edges=None,
        features=None,
        unlabelled=None,
        note="Its counts are not confirmed yet.",
    ),
    _facebook100(
        "fb100-reed98",
        "Reed98",
        nodes=962,
        edges=18812,
        features=745,
        unlabelled=97,
        content_sha256="549bbf7ffca1e7640a7424f76277151c3cfb28a800f8d8fd9f60ff2461ef6c37",
    ),
)
