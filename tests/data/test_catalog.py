from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array, issparse

from ncgnn.data.catalog import DatasetEntry, check_entry, content_sha256, entries, entry
from ncgnn.data.npz import GraphArrays, read_npz, write_npz
from ncgnn.data.sources import PARSERS, parser
from ncgnn.errors import DataMismatchError, UnknownNameError

NAMES = [item.name for item in entries()]
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
    "chameleon-filtered",
    "squirrel-filtered",
]


def test_the_ten_graphs_of_the_paper_come_first():
    assert NAMES[:10] == PAPER
    assert [item.name for item in entries() if item.in_paper] == PAPER
    assert len(NAMES) == 32


@pytest.mark.parametrize("item", entries(), ids=lambda item: item.name)
def test_every_entry_is_complete(item: DatasetEntry):
    assert item.title
    assert item.citation
    assert bool(item.files) == (item.parser in PARSERS)
    assert item.files or "Ships with" in item.note
    assert len({remote.name for remote in item.files}) == len(item.files)
    for address in (item.homepage, *(remote.url for remote in item.files)):
        assert urlsplit(address).scheme == "https"
        assert " " not in address
    for remote in item.files:
        assert "/" not in remote.name
    recorded = item.content_sha256 is not None
    assert recorded != ("checksum is not recorded yet" in item.note)
    if recorded:
        assert None not in (item.nodes, item.edges, item.features, item.classes, item.unlabelled)


def test_flags():
    assert {item.name for item in entries() if item.directed} == {"actor", "ogbn-arxiv"}
    assert {item.name for item in entries() if item.large} == {"ogbn-arxiv", "flickr"}
    assert {item.name for item in entries() if item.binary_features} == {
        "coauthor-cs",
        "coauthor-physics",
    }
    assert "earlier one with 864 nodes" in entry("chameleon-filtered").note
    assert "earlier one with 2205 nodes" in entry("squirrel-filtered").note


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
    assert entry(written).name == meant


def test_an_unknown_name_suggests_a_known_one():
    with pytest.raises(UnknownNameError, match="did you mean pubmed"):
        entry("pubmedd")
    with pytest.raises(UnknownNameError, match="unknown file format"):
        parser("xml")


def test_importing_the_catalogue_is_light():
    code = (
        "import sys, ncgnn.data.loading, ncgnn.data.catalog as c; c.entries();"
        "print(*(m for m in ('torch', 'scipy', 'rich', 'sklearn') if m in sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    "name", [item.name for item in entries() if item.files and item.content_sha256]
)
def test_real_files_hold_what_their_entries_say(real_data_dir, name):
    path = real_data_dir / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    check_entry(read_npz(path), entry(name), str(path))


def test_every_real_file_has_an_entry(real_data_dir):
    recorded = {item.name for item in entries() if item.content_sha256}
    assert {path.stem for path in real_data_dir.glob("*.npz")} <= recorded


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(item.name, marks=[pytest.mark.slow] if item.name in BIG else [])
        for item in entries()
        if item.files and item.content_sha256
    ],
)
def test_real_files_survive_writing(real_data_dir, tmp_path, name):
    path = real_data_dir / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    write_npz(tmp_path / "copy.npz", read_npz(path))
    assert content_sha256(read_npz(tmp_path / "copy.npz")) == entry(name).content_sha256


def loosely_written(arrays: GraphArrays, random) -> GraphArrays:
    """The same content: edges shuffled and repeated, other types, zeros spelled out."""
    columns = list(range(arrays.edge_index.shape[1])) * 2
    random.shuffle(columns)
    features = arrays.features
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
        for key, part in reversed(arrays.splits.items())
    }
    return replace(
        arrays,
        edge_index=arrays.edge_index[:, columns].astype(np.int64),
        labels=arrays.labels.astype(np.int8),
        features=features,
        splits=splits,
        origin="elsewhere",
        class_names=None,
        node_ids=None,
        num_classes=9,
    )


@settings(deadline=None, max_examples=60)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_checksum_sees_content_only(arrays, random):
    assert content_sha256(loosely_written(arrays, random)) == content_sha256(arrays)


def small_graph() -> GraphArrays:
    return GraphArrays(
        edge_index=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
        labels=np.array([0, 1, -1]),
        features=csr_array(np.array([[1, 0], [0, 2], [0, 0]], dtype=np.float32)),
        splits={"planetoid_train": np.array([0]), "train_masks": np.array([[True, False, False]])},
    )


@pytest.mark.parametrize(
    "change",
    [
        {"edge_index": np.array([[0, 1], [1, 0]])},
        {"edge_index": np.array([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])},
        {"labels": np.array([0, 1, 1])},
        {"features": None},
        {"features": np.array([[1, 0], [0, 2], [0, 1]], dtype=np.float32)},
        {"features": np.array([[1, 0, 0], [0, 2, 0], [0, 0, 0]], dtype=np.float32)},
        {"splits": {}},
        {"splits": {"planetoid_train": np.array([1])}},
        {"splits": {"planetoid_val": np.array([0])}},
    ],
)
def test_the_checksum_sees_every_change(change):
    assert content_sha256(replace(small_graph(), **change)) != content_sha256(small_graph())


def small_entry(**changes) -> DatasetEntry:
    fields = {
        "name": "small",
        "title": "Small",
        "parser": "planetoid",
        "files": (),
        "homepage": "https://example.org/small",
        "citation": "Nobody",
        "licence": None,
        "nodes": 3,
        "edges": 2,
        "features": 2,
        "classes": 2,
        "unlabelled": 1,
        "content_sha256": content_sha256(small_graph()),
    }
    return DatasetEntry(**(fields | changes))


def test_matching_data_passes():
    check_entry(small_graph(), small_entry(), "small.npz")
    check_entry(small_graph(), small_entry(directed=True, edges=4), "small.npz")
    unknown = {"nodes": None, "edges": None, "features": None, "classes": None}
    check_entry(small_graph(), small_entry(**unknown, unlabelled=None), "small.npz")
    check_entry(small_graph(), small_entry(content_sha256=None), "small.npz")


def test_directed_edges_may_be_counted_as_listed():
    twice = replace(small_graph(), edge_index=np.array([[0, 0, 1], [1, 1, 2]]))
    for count in (2, 3):
        check_entry(
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
        ({"unlabelled": 0}, "has 1 unlabelled nodes, expected 0"),
        ({"content_sha256": "0" * 64}, "counts of small.npz are right but its content is not"),
    ],
)
def test_a_mismatch_names_data_set_file_field_and_remedy(change, words):
    with pytest.raises(DataMismatchError) as caught:
        check_entry(small_graph(), small_entry(**change), "small.npz")
    message = str(caught.value)
    assert words in message
    assert "data set 'small'" in message
    assert "move the file away" in message


def test_a_changed_download_says_so():
    with pytest.raises(DataMismatchError) as caught:
        check_entry(
            small_graph(), small_entry(content_sha256="0" * 64), "raw/small", downloaded=True
        )
    message = str(caught.value)
    assert "counts of raw/small are right" in message
    assert "the authors' files may have changed" in message
    assert content_sha256(small_graph()) in message
