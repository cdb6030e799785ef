"""Handwritten digits as a graph of nearest neighbors: real data on every machine, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncgnn.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_NEIGHBORS = 8
_ORIGIN = (
    "Optical Recognition of Handwritten Digits, test set: E. Alpaydin and C. Kaynak (1998), UCI "
    "Machine Learning Repository, https://doi.org/10.24432/C50P49; as shipped with scikit-learn. "
    f"Edges: symmetrized {_NEIGHBORS} nearest neighbors by Euclidean distance of the pixels."
)


def parse(files: Mapping[str, Path]) -> Graph:
    """Make the graph of scikit-learn's digits: 1797 images of 8x8 pixels, ten classes.

    Image i is tied to its 8 nearest images by Euclidean distance on the raw pixels (itself
    excluded, ties broken by the lower index), and an edge in one direction counts for both. The
    pixels are the integers 0 … 16, so all distances are exact and the graph is the same everywhere.

    Args:
        files: Not used: the images come with scikit-learn.
    """
    from sklearn.datasets import load_digits

    pixels, labels = (np.asarray(part).astype(np.int64) for part in load_digits(return_X_y=True))
    return Graph.from_edge_index(
        both_directions(find_nearest(pixels, _NEIGHBORS)),
        labels=labels,
        features=pixels.astype(np.float32),
        class_names=[str(digit) for digit in range(10)],
        origin=_ORIGIN,
    )


def find_nearest(points: NDArray[np.int64], neighbors: int) -> NDArray[np.int64]:
    """Return the nearest other points of each point [n, neighbors], in no particular order.

    Uses ‖a - b‖² = ‖a‖² + ‖b‖² - 2 a·b in integers.
    """
    count = points.shape[0]
    # Products of small integers are exact in float64, where the matrix product is fast.
    products = (points.astype(np.float64) @ points.T.astype(np.float64)).astype(np.int64)
    squares = np.diag(products)
    distances = squares[:, None] + squares[None, :] - 2 * products
    # One number for distance and index: no two are alike, so the selection is unambiguous.
    ranks = distances * count + np.arange(count)
    np.fill_diagonal(ranks, np.iinfo(np.int64).max)
    return np.partition(ranks, neighbors - 1, axis=1)[:, :neighbors] % count


def both_directions(nearest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return both directions of every tie, without duplicates, sorted by source and target."""
    count, neighbors = nearest.shape
    sources, targets = np.repeat(np.arange(count), neighbors), nearest.ravel()
    pairs = np.unique(np.concatenate([sources * count + targets, targets * count + sources]))
    return np.stack(np.divmod(pairs, count))
