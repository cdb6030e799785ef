from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ncgnn.data.sources import find_parser
from ncgnn.errors import InputError

ADJACENCY = csr_array(
    np.array(
        [
            [1, 2, 0, 0],
            [0, 0, 1, 0],
            [0, 1, 0, 0],
            [1, 0, 0, 0],
        ],
        dtype=np.float32,
    )
)
EDGES = {(0, 1), (1, 0), (1, 2), (2, 1), (3, 0), (0, 3)}
COUNTS = np.array([[1, 0, 3], [0, 0, 0], [0, 2, 0], [1, 1, 1]], dtype=np.float32)
LABELS = np.array([0, 1, 1, 2])


def csr_members(matrix, prefix):
    return {
        f"{prefix}data": matrix.data,
        f"{prefix}indices": matrix.indices,
        f"{prefix}indptr": matrix.indptr,
        f"{prefix}shape": np.array(matrix.shape),
    }


def members(adj="adj_", attr="attr_"):
    names = np.array(["one", "two", None, {}], dtype=object)
    return {
        **csr_members(ADJACENCY, adj),
        **csr_members(csr_array(COUNTS), attr),
        "labels": LABELS,
        "node_names": names,
        "attr_names": names[:3],
        "class_names": names[:3],
        "metadata": names,
    }


def write(folder, content, split=None):
    path = folder / "tiny.npz"
    np.savez(path, allow_pickle=True, **content)
    files = {path.name: path}
    if split is not None:
        split_path = folder / "tiny-graph_split.npz"
        np.savez(split_path, **split)
        files[split_path.name] = split_path
    return files


def parse(folder, content, split=None):
    return find_parser("gnn-benchmark")(write(folder, content, split))


@pytest.mark.parametrize(
    ("adj", "attr"),
    [
        ("adj_", "attr_"),
        ("adj_matrix.", "attr_matrix."),
        ("adj_matrix_", "attr_matrix_"),
    ],
)
def test_undirected_without_self_loops_and_counts_kept(tmp_path, adj, attr):
    arrays = parse(tmp_path, members(adj, attr))
    assert set(map(tuple, arrays.edge_index().T.tolist())) == EDGES
    assert arrays.edge_index().shape == (2, len(EDGES))
    np.testing.assert_array_equal(arrays.features.toarray(), COUNTS)
    assert arrays.features.dtype == np.float32
    np.testing.assert_array_equal(arrays.labels, LABELS)
    assert arrays.shipped_splits == {}
    assert arrays.class_names is None


def test_dense_attributes(tmp_path):
    content = {key: value for key, value in members().items() if not key.startswith("attr_")}
    arrays = parse(tmp_path, content | {"attr_matrix": COUNTS.astype(np.float64) + 1})
    np.testing.assert_array_equal(arrays.features, COUNTS + 1)
    assert arrays.features.dtype == np.float32


def test_explicit_zeros_are_no_edges(tmp_path):
    content = members()
    content["adj_data"] = np.zeros_like(content["adj_data"])
    assert parse(tmp_path, content).edge_index().shape == (2, 0)


def test_the_split_beside_the_graph(tmp_path):
    split = {"train": np.array([3, 0]), "valid": np.array([1]), "test": np.array([2])}
    splits = parse(tmp_path, members(), split).shipped_splits
    assert splits["uniform_train"].tolist() == [3, 0]
    assert splits["uniform_val"].tolist() == [1]
    assert splits["uniform_test"].tolist() == [2]


BAD = {
    "adjacency missing": {"adj_data": None},
    "attributes missing": {"attr_indptr": None},
    "labels missing": {"labels": None},
    "labels pickled": {"labels": np.array([{}, 1, 2, 3], dtype=object)},
    "labels are fractions": {"labels": np.array([0.5, 1, 1, 2])},
    "labels are one number": {"labels": np.array(3)},
    "labels too short": {"labels": np.array([0, 1])},
    "labels too small": {"labels": np.array([0, 1, 1, -7])},
    "adjacency not square": {"adj_shape": np.array([4, 5])},
    "rows fall": {"adj_indptr": np.array([0, 4, 3, 4, 5])},
    "column outside": {"attr_indices": np.array([0, 2, 1, 0, 1, 9])},
    "attributes are NaN": {"attr_data": np.full(6, np.nan)},
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_are_named(tmp_path, case):
    content = {key: value for key, value in (members() | BAD[case]).items() if value is not None}
    with pytest.raises(InputError, match=r"tiny\.npz"):
        parse(tmp_path, content)


@pytest.mark.parametrize(
    "change",
    [
        {"train": np.array([9])},
        {"train": np.array([1])},
        {"train": np.array([0.5])},
        {"train": np.array([None, {}], dtype=object)},
    ],
)
def test_malformed_splits_are_refused(tmp_path, change):
    split = {"train": np.array([0]), "valid": np.array([1]), "test": np.array([2])} | change
    with pytest.raises(InputError, match=str(tmp_path)):
        parse(tmp_path, members(), split)


def test_a_truncated_file_is_named(tmp_path):
    files = write(tmp_path, members())
    path = files["tiny.npz"]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"tiny\.npz is a damaged"):
        find_parser("gnn-benchmark")(files)
