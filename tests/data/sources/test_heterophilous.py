from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import issparse

from ncgnn.data.catalog import content_sha256
from ncgnn.data.npz import read_npz
from ncgnn.data.sources import find_parser
from ncgnn.errors import InputError

NODES = 5


def members(density=1.0):
    rng = np.random.default_rng(0)
    masks = np.arange(NODES)[None, :] % 3 == np.arange(3)[:, None]
    return {
        "node_features": rng.random((NODES, 3)) * (rng.random((NODES, 3)) < density),
        "node_labels": np.array([0, 1, 0, 1, 2]),
        # Listed once each; one edge twice, one in both directions, one self-loop.
        "edges": np.array([[0, 1], [0, 1], [1, 2], [2, 1], [3, 3], [4, 0]]),
        "train_masks": np.stack([masks[0]] * 10),
        "val_masks": np.stack([masks[1]] * 10),
        "test_masks": np.stack([masks[2]] * 10),
    }


def parse(folder, content):
    path = folder / "tiny.npz"
    np.savez(path, **content)
    return find_parser("heterophilous")({path.name: path})


def test_both_directions_without_repetition(tmp_path):
    arrays = parse(tmp_path, members())
    assert set(map(tuple, arrays.edge_index().T.tolist())) == {
        (0, 1),
        (1, 0),
        (1, 2),
        (2, 1),
        (4, 0),
        (0, 4),
    }
    assert arrays.edge_index().shape == (2, 6)
    assert arrays.labels.tolist() == [0, 1, 0, 1, 2]
    assert {key: part.shape for key, part in arrays.shipped_splits.items()} == {
        "train_masks": (10, NODES),
        "val_masks": (10, NODES),
        "test_masks": (10, NODES),
    }


@pytest.mark.parametrize(("density", "sparse"), [(1.0, False), (0.2, True)])
def test_features_take_the_smaller_form(tmp_path, density, sparse):
    content = members(density)
    features = parse(tmp_path, content).features
    assert issparse(features) == sparse
    assert features.dtype == np.float32
    dense = features.toarray() if sparse else features
    np.testing.assert_array_equal(dense, content["node_features"].astype(np.float32))


BAD = {
    "features missing": {"node_features": None},
    "edges missing": {"edges": None},
    "masks missing": {"val_masks": None},
    "features too short": {"node_features": np.ones((4, 3))},
    "features flat": {"node_features": np.ones(NODES)},
    "features are NaN": {"node_features": np.full((NODES, 3), np.nan)},
    "labels are a table": {"node_labels": np.zeros((NODES, 1), dtype=int)},
    "labels are one number": {"node_labels": np.array(1)},
    "labels are text": {"node_labels": np.array(list("abcde"))},
    "edges transposed": {"edges": np.zeros((2, 6), dtype=int)},
    "edges outside": {"edges": np.array([[0, 5]])},
    "edges are fractions": {"edges": np.array([[0.5, 1]])},
    "masks too short": {"train_masks": np.ones((10, 2), dtype=bool)},
    "masks overlap": {"train_masks": np.ones((10, NODES), dtype=bool)},
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_are_named(tmp_path, case):
    content = {key: value for key, value in (members() | BAD[case]).items() if value is not None}
    with pytest.raises(InputError, match=r"tiny\.npz"):
        parse(tmp_path, content)


def test_a_real_graph_in_the_authors_form(real_data_dir, tmp_path):
    stored = read_npz(real_data_dir / "wisconsin.npz")
    source, target = stored.edge_index()
    once = source < target
    content = {
        "node_features": stored.features.toarray(),
        "node_labels": stored.labels,
        "edges": np.stack([source[once], target[once]], axis=1),
        **stored.shipped_splits,
    }
    assert content_sha256(parse(tmp_path, content)) == content_sha256(stored)
