"""Neighborhood Confusion, Eq. (3) of "Clarify Confused Nodes via Separated Learning"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph import to_numpy
from ncgnn.metrics.neighborhoods import MEMORY_BUDGET, Neighborhoods, check_neighborhood, labelled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike
    from ncgnn.metrics.neighborhoods import Neighborhood

# NC within this distance of the threshold counts as equal to it, so that rounding in the logarithm
# never decides on which side a node with exactly the threshold's confusion falls.
_TIE = 1e-9


def neighborhood_confusion(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "closed",
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    r"""Neighborhood Confusion of every node.

    .. math:: NC_i^{(k)} = -\frac{1}{\log |C|} \log
        \frac{\max_c |\{j \in N_i^k \cup \{i\} : y_j = c\}|}{|N_i^k \cup \{i\}|}

    with :math:`N_i^k` the nodes from which ``i`` is reached in at most k steps. It is 0 when all
    labels agree and 1 when all classes are equally common; with a single class it is 0. Unlabelled
    nodes are left out of both counts, but have an NC of their own from their labelled neighbours.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions, -1 = unlabelled; by default the graph's own.
        hops: The hop count k.
        neighborhood: ``"closed"`` as defined above, or ``"open"``: without the node itself.
        num_classes: Number of classes; by default the graph's.
        empty: Value of nodes without any labelled node in their neighbourhood.

    Returns:
        One value per node, float64.

    Example:
        >>> import numpy as np, ncgnn
        >>> star = np.array([[1, 2, 3], [0, 0, 0]])
        >>> ncgnn.neighborhood_confusion(star, labels=[0, 1, 1, 1]).round(3).tolist()
        [0.415, 0.0, 0.0, 0.0]
    """
    given = labelled(graph, labels, num_classes)
    around = Neighborhoods(given.graph, hops)
    return around.confusion(given.classes, given.num_classes, neighborhood, empty)


def confusion_masks(confusion: Any, threshold: float) -> tuple[Any, Any]:
    r"""The NC masks of Eq. (15): :math:`M^{low} = I(NC \le T)` and :math:`M^{high} = I(NC > T)`.

    A node whose NC is NaN, because nothing is known of its neighbourhood, is low.

    Args:
        confusion: NC per node.
        threshold: The threshold T.

    Returns:
        Two boolean vectors, low and high; every node is in exactly one. Tensors for a tensor, on
        its device, otherwise arrays.
    """
    check_threshold(threshold)
    values = confusion if hasattr(confusion, "detach") else to_numpy(confusion)
    high = values > threshold + _TIE
    return ~high, high


def check_threshold(threshold: float) -> None:
    """A threshold lies where NC does."""
    number: Any = threshold
    if not isinstance(number, int | float | np.floating) or not 0 <= number <= 1:
        raise InputError(f"threshold is {threshold!r}; give a number between 0 and 1, as NC is.")


class ConfusionTracker:
    """Neighborhood Confusion of one graph for labels that keep changing.

    What depends on the graph alone is prepared once. Call the tracker with new labels, for example
    a model's predictions; it answers in kind: a numpy array for an array, a tensor on the same
    device for a tensor. Tensors on another device than the CPU are counted there.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        hops: The hop count k.
        num_classes: Number of classes; by default the graph's.
        neighborhood: ``"closed"`` or ``"open"``.
        memory_budget: For two or more hops: bytes that the stored neighbourhoods may take. Where
            they do not fit, every call searches them again, in memory proportional to the graph.
        empty: Value of nodes without any labelled node in their neighbourhood.

    Example:
        >>> import numpy as np, ncgnn
        >>> path = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> tracker = ncgnn.ConfusionTracker(path, hops=2, num_classes=2)
        >>> tracker(np.array([0, 0, 1])).round(3).tolist()
        [0.585, 0.585, 0.585]
    """

    def __init__(
        self,
        graph: GraphLike,
        hops: int = 1,
        *,
        num_classes: int | None = None,
        neighborhood: Neighborhood = "closed",
        memory_budget: int = MEMORY_BUDGET,
        empty: float = float("nan"),
    ) -> None:
        from ncgnn.graph import Graph, as_graph

        if not isinstance(graph, Graph):
            graph = as_graph(graph, num_classes=num_classes, require_labels=False)
        self.num_classes = graph.num_classes if num_classes is None else num_classes
        if num_classes is None and self.num_classes < 1:
            raise InputError("the graph has no labels; say how many classes with num_classes=….")
        check_neighborhood(neighborhood)
        self.graph = graph
        self.hops = hops
        self.neighborhood: Neighborhood = neighborhood
        self.empty = empty
        self.neighborhoods = Neighborhoods(graph, hops, memory_budget=memory_budget)
        self._on_device: Any = None

    def __call__(self, labels: Any) -> Any:
        """NC of every node under ``labels``."""
        if not hasattr(labels, "detach"):
            return self._count(np.asarray(labels))
        import torch

        if labels.device.type != "cpu" and self.neighborhoods.stored:
            return self._torch_path(labels.device)(labels)
        values = torch.from_numpy(self._count(labels.detach().cpu().numpy()))
        return values.to(labels.device)

    def _count(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        given = labelled(self.graph, labels, self.num_classes)
        return self.neighborhoods.confusion(
            given.classes, self.num_classes, self.neighborhood, self.empty
        )

    def _torch_path(self, device: Any) -> Any:
        from ncgnn.metrics._kernels.on_device import TorchConfusion

        if self._on_device is None or self._on_device.device != device:
            self._on_device = TorchConfusion(self, device)
        return self._on_device
