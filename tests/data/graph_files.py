"""A small valid graph file, for tests that change or damage it."""

from __future__ import annotations

import numpy as np


def plain_members():
    """The arrays of a valid file with four nodes."""
    return {
        "edge_index": np.array([[0, 1, 2], [1, 0, 3]], dtype=np.int32),
        "y": np.array([0, 1, -1, 2], dtype=np.int32),
        "x_data": np.array([1, 2, 3], dtype=np.uint8),
        "x_indices": np.array([0, 1, 0], dtype=np.int32),
        "x_indptr": np.array([0, 2, 2, 3, 3], dtype=np.int32),
        "x_shape": np.array([4, 2]),
        "train_masks": np.array([[True, False, False, False]]),
        "val_masks": np.array([[False, True, False, False]]),
        "test_masks": np.array([[False, False, False, True]]),
        "planetoid_train": np.array([0]),
        "planetoid_val": np.array([1]),
        "planetoid_test": np.array([3]),
        "class_names": np.array(["a", "b", "c"]),
        "node_ids": np.array(["p", "q", "r", "s"]),
        "origin": np.array("somewhere"),
    }


def save(path, members):
    np.savez_compressed(path, **members)
    return path
