from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import issparse

from ncgnn.data.sources import find_parser
from ncgnn.errors import InputError


def parse(folder, **changed):
    masks = np.zeros((10, 6), dtype=bool)
    content = {
        "node_features": np.eye(6),
        "node_labels": np.array([0, 1, 0, 1, 2, 0]),
        # Nobody points at 0; only 3 itself points at 3; 5 points at 4 and is pointed at by nobody.
        "edges": np.array([[0, 1], [1, 2], [2, 1], [3, 3], [3, 4], [5, 4], [2, 4]]),
        "train_masks": masks,
        "val_masks": masks,
        "test_masks": masks,
    } | changed
    path = folder / "tiny_directed.npz"
    np.savez(path, **content)
    return find_parser("incoming")({path.name: path})


def test_nodes_that_no_edge_points_at_are_left_out(tmp_path):
    graph = parse(tmp_path)
    assert graph.labels.tolist() == [1, 0, 1, 2]  # of the nodes 1, 2, 3 and 4
    features = graph.features.toarray() if issparse(graph.features) else graph.features
    np.testing.assert_array_equal(features, np.eye(6)[1:5])
    edges = set(map(tuple, graph.edge_index().T.tolist()))
    # 1–2, 3–4 and 2–4 by their new numbers, in both directions, without the loop.
    assert edges == {(0, 1), (1, 0), (2, 3), (3, 2), (1, 3), (3, 1)}
    assert not graph.shipped_splits


@pytest.mark.parametrize("edges", [[[0, 6]], [[-1, 0]], [[0.5, 1]], [[0, 1, 2]]])
def test_malformed_files_are_named(tmp_path, edges):
    with pytest.raises(InputError, match=r"tiny_directed\.npz"):
        parse(tmp_path, edges=np.array(edges))
