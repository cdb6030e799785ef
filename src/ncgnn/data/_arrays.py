"""What a data file says about a graph, as plain arrays, before any validation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

#: Names under which a file may carry splits, with the keys of its three parts.
#: Masks are boolean [variants, nodes]; the others are index arrays.
SHIPPED_SPLITS: dict[str, tuple[str, str, str]] = {
    "published": ("train_masks", "val_masks", "test_masks"),
    "planetoid": ("planetoid_train", "planetoid_val", "planetoid_test"),
    "uniform": ("uniform_train", "uniform_val", "uniform_test"),
}


@dataclass(frozen=True)
class GraphArrays:
    """The content of a data file.

    Attributes:
        edge_index: Integers [2, E]; row 0 holds sources, row 1 targets. An undirected graph lists
            both directions.
        labels: Integers [n]; -1 marks an unlabelled node.
        features: Node features [n, d], sparse CSR or dense, or None.
        splits: Arrays under the keys of :data:`SHIPPED_SPLITS`, where the authors publish splits.
        class_names: One name per class, or None.
        node_ids: One identifier per node (strings or integers), or None.
        origin: Where the content came from, for people.
        num_classes: Number of classes, where the labels alone do not tell, or None.
    """

    edge_index: NDArray[np.integer[Any]]
    labels: NDArray[np.integer[Any]]
    features: csr_array[Any] | NDArray[Any] | None = None
    splits: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    class_names: tuple[str, ...] | None = None
    node_ids: NDArray[Any] | None = None
    origin: str = ""
    num_classes: int | None = None
