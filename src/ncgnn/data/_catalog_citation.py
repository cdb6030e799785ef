"""Catalogue entries of the citation networks."""

from __future__ import annotations

from ncgnn.data.catalog import DatasetEntry, RemoteFile

_PLANETOID = "https://github.com/kimiyoung/planetoid"
_PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
_PLANETOID_CITATION = (
    "P. Sen, G. Namata, M. Bilgic, L. Getoor, B. Gallagher, T. Eliassi-Rad: Collective "
    "Classification in Network Data, AI Magazine, 2008; split of Z. Yang, W. Cohen, "
    "R. Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings, ICML, 2016"
)

_GRAPH2GAUSS = "https://github.com/abojchevski/graph2gauss"
_GRAPH2GAUSS_CITATION = (
    "A. Bojchevski, S. Günnemann: Deep Gaussian Embedding of Graphs: Unsupervised Inductive "
    "Learning via Ranking, ICLR, 2018"
)
_FROM_A_MIRROR = "The checksum was recorded from a mirror, EdisonLeeeee/GraphData."


def _planetoid_files(name: str) -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(f"{_PLANETOID}/raw/master/data/ind.{name}.{part}", f"ind.{name}.{part}")
        for part in _PLANETOID_PARTS
    )


def _graph2gauss_files(name: str) -> tuple[RemoteFile, ...]:
    return (RemoteFile(f"{_GRAPH2GAUSS}/raw/master/data/{name}.npz", f"{name}.npz"),)


ENTRIES = (
    DatasetEntry(
        name="pubmed",
        title="Pubmed",
        parser="planetoid",
        files=_planetoid_files("pubmed"),
        homepage=_PLANETOID,
        citation=(
            "G. Namata, B. London, L. Getoor, B. Huang: Query-driven Active Surveying for "
            "Collective Classification, MLG, 2012; split of Z. Yang, W. Cohen, R. Salakhutdinov: "
            "Revisiting Semi-Supervised Learning with Graph Embeddings, ICML, 2016"
        ),
        licence="MIT (of the repository)",
        nodes=19717,
        edges=44324,
        features=500,
        classes=3,
        content_sha256="2b8e837904df3bc7873f29bb6619753bd4ed88ac2cb14d9d6e4a1368c64c4b63",
        in_paper=True,
    ),
    DatasetEntry(
        name="cora",
        title="Cora",
        parser="planetoid",
        files=_planetoid_files("cora"),
        homepage=_PLANETOID,
        citation=_PLANETOID_CITATION,
        licence="MIT (of the repository)",
        nodes=2708,
        edges=5278,
        features=1433,
        classes=7,
        content_sha256="c9b166365cacbb57ad5e099255509c1be526cf4a7641f922b075e81ce7d3da7c",
    ),
    DatasetEntry(
        name="citeseer",
        title="Citeseer",
        parser="planetoid",
        files=_planetoid_files("citeseer"),
        homepage=_PLANETOID,
        citation=_PLANETOID_CITATION,
        licence="MIT (of the repository)",
        nodes=3327,
        edges=4552,
        features=3703,
        classes=6,
        content_sha256="398888dcec52311464c65680ad09297be150c2bba72fd32701712ce3a032b683",
        note="Isolated nodes that the files leave out have no features and carry class 0.",
    ),
    DatasetEntry(
        name="cora-full",
        title="Cora Full",
        parser="gnn-benchmark",
        files=_graph2gauss_files("cora"),
        homepage=_GRAPH2GAUSS,
        citation=_GRAPH2GAUSS_CITATION,
        licence="MIT (of the repository)",
        nodes=19793,
        edges=63421,
        features=8710,
        classes=70,
        in_paper=True,
        note="The checksum is not recorded yet.",
    ),
    DatasetEntry(
        name="cora-ml",
        title="Cora ML",
        parser="gnn-benchmark",
        files=_graph2gauss_files("cora_ml"),
        homepage=_GRAPH2GAUSS,
        citation=_GRAPH2GAUSS_CITATION,
        licence="MIT (of the repository)",
        nodes=2995,
        edges=8158,
        features=2879,
        classes=7,
        content_sha256="474e9717a1b91b970b8cf6e386a55adf920d5183e042bd4c03cb647e09f316f0",
        note=_FROM_A_MIRROR,
    ),
    DatasetEntry(
        name="dblp",
        title="DBLP",
        parser="gnn-benchmark",
        files=_graph2gauss_files("dblp"),
        homepage=_GRAPH2GAUSS,
        citation=_GRAPH2GAUSS_CITATION,
        licence="MIT (of the repository)",
        nodes=17716,
        edges=52867,
        features=1639,
        classes=4,
        content_sha256="32f783418d8fd0fe00649271de995c3cf343f9f6b07dd20f9426e0f63060a4fc",
        note=_FROM_A_MIRROR,
    ),
    DatasetEntry(
        name="ogbn-arxiv",
        title="ogbn-arxiv",
        parser="ogb",
        files=(
            RemoteFile("https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip", "arxiv.zip"),
        ),
        homepage="https://ogb.stanford.edu/docs/nodeprop/#ogbn-arxiv",
        citation=(
            "W. Hu, M. Fey, M. Zitnik, Y. Dong, H. Ren, B. Liu, M. Catasta, J. Leskovec: Open "
            "Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS, 2020"
        ),
        licence="ODC-BY",
        nodes=169343,
        edges=1166243,
        features=128,
        classes=40,
        directed=True,
        large=True,
        note="Edges point from the citing to the cited paper. The checksum is not recorded yet.",
    ),
)
