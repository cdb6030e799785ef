from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlsplit

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array, issparse

import ncgnn
from ncgnn.data.catalog import (
    DatasetEntry,
    check_dataset,
    content_sha256,
    find_dataset,
    list_datasets,
    register_dataset,
)
from ncgnn.data.download import RemoteFile
from ncgnn.data.npz import read_npz, write_npz
from ncgnn.data.sources import find_parser, list_parsers
from ncgnn.errors import DataMismatchError, InputError, NcgnnWarning, UnknownNameError
from ncgnn.graph import Graph

NAMES = [item.name for item in list_datasets()]
# Files that take more than a moment to compress.
BIG = {"coauthor-cs", "coauthor-physics", "computers", "fb100-cornell5", "pubmed", "tolokers"}
PAPER = [
    "pubmed",
    "photo",
    "computers",
    "coauthor-cs",
    "coauthor-physics",
    "cora-full",
    "actor",
    "penn94",
    "chameleon-filtered-864",
    "squirrel-filtered-2205",
]


def test_the_ten_graphs_of_the_paper_come_first():
    assert NAMES[:10] == PAPER
    assert [item.name for item in list_datasets() if item.in_paper] == PAPER
    assert len(NAMES) == 34


@pytest.mark.parametrize("item", list_datasets(), ids=lambda item: item.name)
def test_every_entry_is_complete(item: DatasetEntry):
    assert item.title
    assert item.citation
    assert item.parser in list_parsers()
    assert item.files or "Ships with" in item.note
    assert len({remote.name for remote in item.files}) == len(item.files)
    for address in (item.homepage, *(remote.url for remote in item.files)):
        assert urlsplit(address).scheme == "https"
        assert " " not in address
    recorded = item.content_sha256 is not None
    assert recorded != ("checksum is not recorded yet" in item.note)
    if recorded:
        assert None not in (item.nodes, item.edges, item.features, item.classes, item.unlabeled)


def test_flags():
    assert {item.name for item in list_datasets() if item.directed} == {"actor", "ogbn-arxiv"}
    assert {item.name for item in list_datasets() if item.large} == {"ogbn-arxiv", "flickr"}
    assert {item.name for item in list_datasets() if item.binary_features} == {
        "coauthor-cs",
        "coauthor-physics",
    }
    variants = {item.name: item.variant_of for item in list_datasets() if item.variant_of}
    assert variants == {
        "chameleon-filtered-864": "chameleon-filtered",
        "squirrel-filtered-2205": "squirrel-filtered",
    }
    for name, original in variants.items():
        assert name in find_dataset(original).note


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Coauthor_CS", "coauthor-cs"),
        ("ogbn_arxiv", "ogbn-arxiv"),
        (" Cora Full ", "cora-full"),
        ("PENN94", "penn94"),
    ],
)
def test_names_are_forgiving(written, meant):
    assert find_dataset(written).name == meant


def test_an_unknown_name_suggests_a_known_one():
    with pytest.raises(UnknownNameError, match="did you mean pubmed"):
        find_dataset("pubmedd")
    with pytest.raises(UnknownNameError, match="unknown file format"):
        find_parser("xml")


def test_importing_the_catalogue_is_light():
    code = (
        "import sys, ncgnn.data.loading, ncgnn.data.catalog as c; c.list_datasets();"
        "print(*(m for m in ('torch', 'scipy', 'rich', 'sklearn') if m in sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    "name", [item.name for item in list_datasets() if item.files and item.content_sha256]
)
def test_real_files_hold_what_their_entries_say(real_data_dir, name):
    path = real_data_dir / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    check_dataset(read_npz(path), find_dataset(name), str(path))


def test_every_real_file_of_an_entry_is_recorded(real_data_dir):
    recorded = {item.name for item in list_datasets() if item.content_sha256}
    assert {path.stem for path in real_data_dir.glob("*.npz")} & set(NAMES) <= recorded


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(item.name, marks=[pytest.mark.slow] if item.name in BIG else [])
        for item in list_datasets()
        if item.files and item.content_sha256
    ],
)
def test_real_files_survive_writing(real_data_dir, tmp_path, name):
    path = real_data_dir / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    write_npz(tmp_path / "copy.npz", read_npz(path))
    assert content_sha256(read_npz(tmp_path / "copy.npz")) == find_dataset(name).content_sha256


def loosely_written(graph: Graph, random) -> Graph:
    """The same content: edges shuffled and repeated, other types, zeros spelled out."""
    columns = list(range(graph.num_entries)) * 2
    random.shuffle(columns)
    features = graph.features
    if features is not None:
        dense = features.toarray() if issparse(features) else features
        rows, places = np.indices(dense.shape).reshape(2, -1)
        order = random.sample(range(dense.size), dense.size)
        spelled_out = coo_array(
            (dense.ravel()[order].astype(np.float64), (rows[order], places[order])), dense.shape
        )
        features = csr_array(spelled_out)
    splits = {
        key: part if part.dtype == bool else part[::-1].astype(np.int16)
        for key, part in reversed(graph.shipped_splits.items())
    }
    return Graph.from_edge_index(
        graph.edge_index()[:, columns],
        labels=graph.labels.astype(np.int8),
        features=features,
        shipped_splits=splits,
        origin="elsewhere",
        num_classes=9,
    )


@settings(deadline=None, max_examples=60)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_checksum_sees_content_only(graph, random):
    assert content_sha256(loosely_written(graph, random)) == content_sha256(graph)


def small_graph(**changes) -> Graph:
    fields = {
        "edge_index": np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
        "labels": np.array([0, 1, -1]),
        "features": csr_array(np.array([[1, 0], [0, 2], [0, 0]], dtype=np.float32)),
        "shipped_splits": {
            "planetoid_train": np.array([0]),
            "train_masks": np.array([[True, False, False]]),
        },
    }
    return Graph.from_edge_index(**(fields | changes))


@pytest.mark.parametrize(
    "change",
    [
        {"edge_index": np.array([[0, 1], [1, 0]])},
        {"edge_index": np.array([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])},
        {"labels": np.array([0, 1, 1])},
        {"features": None},
        {"features": np.array([[1, 0], [0, 2], [0, 1]], dtype=np.float32)},
        {"features": np.array([[1, 0, 0], [0, 2, 0], [0, 0, 0]], dtype=np.float32)},
        {"shipped_splits": {}},
        {"shipped_splits": {"planetoid_train": np.array([1])}},
        {"shipped_splits": {"planetoid_val": np.array([0])}},
    ],
)
def test_the_checksum_sees_every_change(change):
    assert content_sha256(small_graph(**change)) != content_sha256(small_graph())


def small_entry(**changes) -> DatasetEntry:
    fields = {
        "name": "small",
        "title": "Small",
        "parser": "planetoid",
        "files": (RemoteFile("https://example.org/small.x", "small.x"),),
        "homepage": "https://example.org/small",
        "citation": "Nobody",
        "nodes": 3,
        "edges": 2,
        "features": 2,
        "classes": 2,
        "unlabeled": 1,
        "content_sha256": content_sha256(small_graph()),
    }
    return DatasetEntry(**(fields | changes))


def test_matching_data_passes():
    check_dataset(small_graph(), small_entry(), "small.npz")
    check_dataset(small_graph(), small_entry(directed=True, edges=4), "small.npz")
    unknown = {"nodes": None, "edges": None, "features": None, "classes": None}
    check_dataset(small_graph(), small_entry(**unknown, unlabeled=None), "small.npz")
    check_dataset(small_graph(), small_entry(content_sha256=None), "small.npz")


def test_directed_edges_may_be_counted_as_listed():
    twice = small_graph(edge_index=np.array([[0, 0, 1], [1, 1, 2]]))
    for count in (2, 3):
        check_dataset(
            twice, small_entry(directed=True, edges=count, content_sha256=None), "small.npz"
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": 4}, "has 3 nodes, expected 4"),
        ({"edges": 3}, "has 4 edges, counting both directions, expected 6"),
        ({"directed": True, "edges": 5}, "has 4 directed edges, expected 5"),
        ({"features": 7}, "has 2 features, expected 7"),
        ({"classes": 3}, "has 2 classes, expected 3"),
        ({"unlabeled": 0}, "has 1 unlabeled nodes, expected 0"),
        ({"content_sha256": "0" * 64}, "counts of small.npz are right but its content is not"),
    ],
)
def test_a_mismatch_names_data_set_file_field_and_remedy(change, words):
    with pytest.raises(DataMismatchError) as caught:
        check_dataset(small_graph(), small_entry(**change), "small.npz")
    message = str(caught.value)
    assert words in message
    assert "dataset 'small'" in message
    assert "move the file away" in message


def test_a_changed_download_says_so():
    with pytest.raises(DataMismatchError) as caught:
        check_dataset(
            small_graph(), small_entry(content_sha256="0" * 64), "raw/small", downloaded=True
        )
    message = str(caught.value)
    assert "counts of raw/small are right" in message
    assert "the authors' files may have changed" in message
    assert content_sha256(small_graph()) in message


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """Nothing registered, and an empty cache."""
    monkeypatch.setattr("ncgnn.data.catalog._registered", {})
    monkeypatch.setattr("ncgnn.data.catalog.LOADERS", {})
    monkeypatch.setattr("ncgnn.data.loading.LOADERS", ncgnn.data.catalog.LOADERS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NCGNN_DATA", raising=False)


def test_a_data_set_of_ones_own_is_loaded_by_name(registry):
    register_dataset("My Ring", lambda: small_graph().to_pyg(), nodes=3)
    graph = ncgnn.load("my_ring")
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("my-ring", 3, 2)
    assert list_datasets()[-1].title == "My Ring"
    assert ncgnn.data.find_stored("my-ring").name == "test_catalog.py"
    with pytest.raises(InputError, match="dataset 'my-ring' exists"):
        register_dataset("my-ring", small_graph)
    register_dataset("my-ring", small_graph, replace=True, nodes=4)
    with pytest.raises(DataMismatchError, match="has 3 nodes, expected 4"):
        ncgnn.load("my-ring")


def test_a_parser_of_ones_own_reads_its_files(registry, tmp_path):
    def parse(files):
        source, target, *labels = np.loadtxt(files["pairs.txt"], dtype=int)
        return Graph.from_edge_index([source, target], labels=labels[0])

    register_dataset("pairs", parse, files=["https://example.org/pairs.txt"])
    (tmp_path / "raw" / "pairs").mkdir(parents=True)
    (tmp_path / "raw" / "pairs" / "pairs.txt").write_text("0 1 2\n1 2 0\n0 1 1\n")
    with pytest.warns(NcgnnWarning, match="no checksum of pairs is known"):
        graph = ncgnn.load("pairs", tmp_path, download=False)
    assert graph.edge_index().tolist() == [[2, 0, 1], [0, 1, 2]]
    assert "https://example.org/pairs.txt (SHA-256 " in graph.origin
    assert ncgnn.load("pairs", tmp_path, download=False).fingerprint == graph.fingerprint


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"color": "red"}, "dataset 'mine': .*color"),
        ({"files": [{"address": "https://example.org/x"}]}, "dataset 'mine': .*address"),
        ({"files": [{"url": "https://example.org/x", "name": "../x"}]}, "plain file name"),
    ],
)
def test_what_cannot_be_registered_is_said(registry, facts, words):
    with pytest.raises(InputError, match=words):
        register_dataset("mine", small_graph, **facts)
