from __future__ import annotations

import re

import numpy as np
import pytest
from graph_files import plain_members, save
from graph_strategies import graphs
from hypothesis import given, settings
from scipy.sparse import csr_array, issparse

from ncgnn.data.catalog import content_sha256
from ncgnn.data.npz import SHIPPED_SPLITS, read_npz, write_npz
from ncgnn.errors import DataNotFoundError, InputError, NcgnnWarning
from ncgnn.graph import Graph

SMALL = settings(deadline=None, max_examples=60)


def assert_equal_content(first: Graph, second: Graph) -> None:
    assert first.fingerprint == second.fingerprint
    assert (first.features is None) == (second.features is None)
    if first.features is not None:
        assert issparse(first.features) == issparse(second.features)
    assert set(first.shipped_splits) == set(second.shipped_splits)
    for key, part in first.shipped_splits.items():
        np.testing.assert_array_equal(part, second.shipped_splits[key])
    assert first.class_names == second.class_names
    assert (first.node_ids is None) == (second.node_ids is None)
    if first.node_ids is not None:
        assert first.node_ids.tolist() == second.node_ids.tolist()
    assert first.origin == second.origin
    assert first.num_classes == second.num_classes


@SMALL
@given(graphs())
def test_what_is_written_is_read_back(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("npz") / "graph.npz"
    write_npz(path, arrays)
    first_bytes = path.read_bytes()
    again = read_npz(path)
    assert_equal_content(arrays, again)
    assert content_sha256(arrays) == content_sha256(again)
    write_npz(path, again)
    assert path.read_bytes() == first_bytes


def test_files_of_numpy_are_read(tmp_path):
    arrays = read_npz(save(tmp_path / "graph.npz", plain_members() | {"unknown": np.ones(3)}))
    assert arrays.name == "graph"
    assert arrays.edge_index().tolist() == [[1, 0, 2], [0, 1, 3]]
    assert arrays.labels.tolist() == [0, 1, -1, 2]
    assert arrays.features.toarray().tolist() == [[1, 2], [0, 0], [3, 0], [0, 0]]
    assert arrays.class_names == ("a", "b", "c")
    assert arrays.origin == "somewhere"
    assert set(arrays.shipped_splits) == {
        key for key in plain_members() if key.split("_")[-1] in ("masks", "train", "val", "test")
    }


@pytest.mark.parametrize(
    ("on_disk", "in_memory"),
    [
        (np.uint8, np.float32),
        (np.bool_, np.float32),
        (np.int64, np.float32),
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (">f8", np.float64),
    ],
)
@pytest.mark.parametrize("sparse", [True, False])
def test_features_are_float32_unless_the_file_has_float64(tmp_path, on_disk, in_memory, sparse):
    members = plain_members()
    if sparse:
        members["x_data"] = members["x_data"].astype(on_disk)
    else:
        members = {key: value for key, value in members.items() if not key.startswith("x_")}
        members["x"] = np.ones((4, 2)).astype(on_disk)
    assert read_npz(save(tmp_path / "graph.npz", members)).features.dtype == in_memory


def test_counts_take_one_byte_on_disk(tmp_path):
    counts = csr_array(np.array([[0, 3], [255, 0]], dtype=np.float32))
    graph = Graph.from_edge_index(np.zeros((2, 0), dtype=int), labels=[0, 1], features=counts)
    write_npz(tmp_path / "graph.npz", graph)
    with np.load(tmp_path / "graph.npz", allow_pickle=False) as file:
        assert file["x_data"].dtype == np.uint8
        assert file["edge_index"].dtype == np.int32


def test_unsorted_columns_are_sorted(tmp_path):
    members = plain_members()
    members["x_indices"] = np.array([1, 0, 0])
    features = read_npz(save(tmp_path / "graph.npz", members)).features
    assert features.toarray().tolist() == [[2, 1], [0, 0], [3, 0], [0, 0]]


def test_integral_float_labels_are_taken(tmp_path):
    members = plain_members() | {"y": np.array([0.0, 1.0, -1.0, 2.0])}
    labels = read_npz(save(tmp_path / "graph.npz", members)).labels
    assert labels.tolist() == [0, 1, -1, 2]
    assert labels.dtype == np.int64


BAD_MEMBERS = {
    "edges are floats": ("edge_index", np.ones((2, 2))),
    "edges are bools": ("edge_index", np.ones((2, 2), dtype=bool)),
    "edges are lists": ("edge_index", np.array([0, 1])),
    "edges are rows": ("edge_index", np.zeros((3, 2), dtype=int)),
    "edges outside": ("edge_index", np.array([[0], [4]])),
    "edges negative": ("edge_index", np.array([[0], [-1]])),
    "edges huge": ("edge_index", np.array([[0], [2**64 - 1]], dtype=np.uint64)),
    "weights are negative": ("edge_weights", np.array([-1.0])),
    "weights for other edges": ("edge_weights", np.ones(7)),
    "directions unknown": ("edge_directions", np.array([4])),
    "labels are fractions": ("y", np.array([0.5, 1, 0, 0])),
    "labels are infinite": ("y", np.array([np.inf, 1, 0, 0])),
    "labels too small": ("y", np.array([-2, 1, 0, 0])),
    "labels wrap around": ("y", np.array([2**64 - 1, 1, 0, 0], dtype=np.uint64)),
    "no nodes": ("y", np.array([], dtype=int)),
    "values are text": ("x_data", np.array(["a", "b", "c"])),
    "values are complex": ("x_data", np.ones(3, dtype=complex)),
    "values are NaN": ("x_data", np.array([1, np.nan, 1])),
    "values are infinite": ("x_data", np.array([1, np.inf, 1])),
    "values are a table": ("x_data", np.ones((3, 1))),
    "too few values": ("x_indices", np.array([0, 1])),
    "column outside": ("x_indices", np.array([0, 1, 2])),
    "column negative": ("x_indices", np.array([0, -1, 0])),
    "columns are floats": ("x_indices", np.array([0.0, 1.0, 0.0])),
    "rows fall": ("x_indptr", np.array([0, 3, 2, 3, 3])),
    "rows end early": ("x_indptr", np.array([0, 1, 1, 2, 2])),
    "rows start late": ("x_indptr", np.array([1, 2, 2, 3, 3])),
    "too few rows": ("x_indptr", np.array([0, 2, 3])),
    "shape is one number": ("x_shape", np.array([4])),
    "shape is negative": ("x_shape", np.array([4, -2])),
    "shape is a float": ("x_shape", np.array([4.0, 2.0])),
    "masks are numbers": ("train_masks", np.array([[1, 0, 0, 0]])),
    "masks too short": ("test_masks", np.array([[True, False]])),
    "masks of other variants": ("test_masks", np.zeros((2, 3), dtype=bool)),
    "masks overlap": ("test_masks", np.array([[False, True, False, True]])),
    "split outside": ("planetoid_test", np.array([4])),
    "split negative": ("planetoid_test", np.array([-1])),
    "split overlaps": ("planetoid_test", np.array([0])),
    "split repeats": ("planetoid_test", np.array([3, 3])),
    "split is floats": ("planetoid_test", np.array([3.0])),
    "split is a table": ("planetoid_test", np.array([[3]])),
    "too few names": ("class_names", np.array(["a", "b"])),
    "names are numbers": ("class_names", np.arange(3)),
    "classes are a list": ("num_classes", np.array([3])),
    "classes are a float": ("num_classes", np.array(3.0)),
    "no classes": ("num_classes", np.array(0)),
    "negative classes": ("num_classes", np.array(-3)),
    "too few classes": ("num_classes", np.array(2)),
    "more classes than names": ("num_classes", np.array(4)),
    "too few ids": ("node_ids", np.arange(3)),
    "ids are floats": ("node_ids", np.ones(4)),
    "origin is a number": ("origin", np.array(3)),
    "origin is a list": ("origin", np.array(["a"])),
}


@pytest.mark.parametrize("case", BAD_MEMBERS)
def test_a_wrong_array_gives_one_error_with_file_and_field(tmp_path, case):
    key, value = BAD_MEMBERS[case]
    path = save(tmp_path / "graph.npz", plain_members() | {key: value})
    with pytest.raises(InputError) as caught:
        read_npz(path)
    assert str(path) in str(caught.value)
    names = {
        "y": "labels|0 nodes",
        "class_names": "class.names",
        "num_classes": "num_classes|class names",
        "x_data": "x_data|features",
    }
    assert re.search(names.get(key, key), str(caught.value))


@pytest.mark.parametrize(
    "key", ["edge_index", "y", "x_data", "x_shape", "val_masks", "planetoid_train"]
)
def test_a_missing_key_is_named(tmp_path, key):
    members = plain_members()
    del members[key]
    path = save(tmp_path / "graph.npz", members)
    with pytest.raises(InputError, match=f"key '{key}' is missing"):
        read_npz(path)


def test_features_given_twice_are_refused(tmp_path):
    path = save(tmp_path / "graph.npz", plain_members() | {"x": np.ones((4, 2))})
    with pytest.raises(InputError, match="features are given twice"):
        read_npz(path)


@pytest.mark.parametrize("shape", [(4,), (3, 2), (4, 2, 1)])
def test_dense_features_of_wrong_shape_are_refused(tmp_path, shape):
    members = {"edge_index": np.zeros((2, 0), dtype=int), "y": np.zeros(4, dtype=int)}
    path = save(tmp_path / "graph.npz", members | {"x": np.ones(shape)})
    with pytest.raises(InputError, match="features have shape"):
        read_npz(path)


@pytest.mark.parametrize("key", ["y", "class_names", "x_data"])
def test_pickled_arrays_are_never_loaded(tmp_path, key):
    members = plain_members() | {key: np.array([{}, None, "x", 1], dtype=object)}
    path = tmp_path / "graph.npz"
    np.savez(path, allow_pickle=True, **members)
    with pytest.raises(InputError, match="pickled Python objects"):
        read_npz(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"just text", "is not an .npz file"),
        (b"PK\x03\x04 cut off", "truncated"),
        (b"\x93NUMPY\x01\x00", "single .npy array"),
    ],
)
def test_other_files_are_refused(tmp_path, content, words):
    path = tmp_path / "graph.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_npz(path)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(DataNotFoundError, match="does not exist"):
        read_npz(tmp_path / "graph.npz")
    with pytest.raises(InputError, match="is a folder"):
        read_npz(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"class_names": ["nul\0"]},
        {"origin": "nul\0"},
        {"shipped_splits": {"mine": np.array([0])}},
        {"shipped_splits": {"planetoid_train": np.array([0])}},
        {"shipped_splits": dict.fromkeys(SHIPPED_SPLITS["published"], np.array([[True]]))},
    ],
)
def test_nothing_unreadable_is_written(tmp_path, fields):
    graph = Graph.from_edge_index(np.zeros((2, 0), dtype=int), labels=[0], **fields)
    with pytest.raises(InputError, match=r"graph\.npz: "):
        write_npz(tmp_path / "graph.npz", graph)
    assert list(tmp_path.iterdir()) == []


def test_arrays_that_may_be_meant_otherwise_are_named(tmp_path):
    path = tmp_path / "mine.npz"
    save(path, plain_members() | {"train_mask": np.ones(3, dtype=bool), "note": np.zeros(2)})
    with pytest.warns(NcgnnWarning, match=r"'train_mask' \(did you mean 'train_masks'\?\)\.$"):
        read_npz(path)
