"""Neighborhood Confusion, Eq. (3) of "Clarify Confused Nodes via Separated Learning"."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.errors import InputError
from ncgnn.graph import (
    Graph,
    as_graph,
    check_some_labeled,
    compact_classes,
    to_numpy,
    whole_number,
)
from ncgnn.metrics.neighborhoods import (
    MEMORY_BUDGET,
    Neighborhoods,
    confusion_of_counts,
    is_closed,
    label_graph,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from numpy.typing import ArrayLike, NDArray

    from ncgnn.graph import GraphLike
    from ncgnn.metrics.neighborhoods import Neighborhood

#: NC within this distance of the threshold counts as equal to it, so that rounding in the logarithm
#: never decides on which side a node with exactly the threshold's confusion falls.
TIE = 1e-9
# Pairs of node and neighbor that are counted at once on other devices; bounds the memory.
_PAIRS_AT_ONCE = 1 << 24


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
    labels agree and 1 when all classes are equally common; with a single class it is 0. Unlabeled
    nodes are left out of both counts, but have an NC of their own from their labeled neighbors.

    Args:
        graph: ``Graph``, PyG ``Data``, or any other form that :func:`ncgnn.graph.as_graph` takes.
        labels: True labels or predictions, -1 = unlabeled; by default the graph's own.
        hops: The hop count k.
        neighborhood: ``"closed"`` as defined above, or ``"open"``: without the node itself.
        num_classes: Number of classes; by default the graph's.
        empty: Value of nodes without any labeled node in their neighborhood.

    Returns:
        One value per node, float64.

    Example:
        >>> import numpy as np, ncgnn
        >>> star = np.array([[1, 2, 3], [0, 0, 0]])
        >>> ncgnn.neighborhood_confusion(star, labels=[0, 1, 1, 1]).round(3).tolist()
        [0.415, 0.0, 0.0, 0.0]
    """
    given = label_graph(graph, labels, num_classes)
    around = Neighborhoods(given.graph, hops)
    return around.confusion(given.classes, given.num_classes, is_closed(neighborhood), empty)


def attainable_confusion(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "closed",
    num_classes: int | None = None,
) -> NDArray[np.float64]:
    r"""The largest NC that every node's neighborhood admits.

    .. math:: NC_{max}(m) = \frac{1}{\log |C|} \log \frac{m}{\lceil m / |C| \rceil}

    with m the number of labeled nodes in the neighborhood, which are spread over the classes as
    evenly as possible. It is 0 where nothing can be confused (m ≤ 1, or a single class); a node
    with one neighbor ends at :math:`\log 2 / \log |C|`, 0.17 among 58 classes. Arguments are those
    of :func:`neighborhood_confusion`; of labels it only counts which nodes have one.
    """
    given = label_graph(graph, labels, num_classes)
    around, closed = Neighborhoods(given.graph, hops), is_closed(neighborhood)
    return attainable_of(_labeled_around(around, given.labels, closed), given.num_classes)


def relative_confusion(
    graph: GraphLike,
    labels: ArrayLike | None = None,
    hops: int = 1,
    *,
    neighborhood: Neighborhood = "closed",
    num_classes: int | None = None,
    empty: float = float("nan"),
) -> NDArray[np.float64]:
    """NC of every node, divided by the largest value that its neighborhood admits.

    It is between 0 and 1 on every graph: 1 means as mixed as so few or so many neighbors can be.
    See :func:`attainable_confusion`; 0 where that is 0. Arguments are those of
    :func:`neighborhood_confusion`.
    """
    given = label_graph(graph, labels, num_classes)
    counts = Neighborhoods(given.graph, hops).count(
        given.classes, given.num_classes, is_closed(neighborhood), same=False
    )
    confusion = confusion_of_counts(counts, given.num_classes)
    relative = relative_to(confusion, attainable_of(counts.size, given.num_classes))
    return np.where(counts.size > 0, relative, empty)


def attainable_of(size: NDArray[Any], num_classes: int) -> NDArray[np.float64]:
    """The largest NC of neighborhoods with so many labeled nodes."""
    if num_classes == 1:
        return np.zeros(len(size))
    known = np.maximum(size, 1)
    least_top = -(-known // num_classes)
    return np.log2(known / least_top) / np.log2(num_classes)


def relative_to(
    confusion: NDArray[np.float64], attainable: NDArray[np.float64]
) -> NDArray[np.float64]:
    """NC as a share of what is attainable, 0 where that is 0; NaN stays."""
    ratio = np.where(np.isnan(confusion), confusion, 0.0)
    np.divide(confusion, attainable, out=ratio, where=attainable > 0)
    return np.minimum(ratio, 1.0)


def _labeled_around(around: Neighborhoods, labels: NDArray[Any], closed: bool) -> NDArray[np.int32]:
    """How many labeled nodes each neighborhood has."""
    known = compact_classes(np.where(labels >= 0, 0, -1), 1)
    return around.count(known, 1, closed, same=False).size


def confusion_masks(confusion: Any, threshold: float) -> tuple[Any, Any]:
    r"""The NC masks of Eq. (15): :math:`M^{low} = I(NC \le T)` and :math:`M^{high} = I(NC > T)`.

    A node whose NC is NaN, because nothing is known of its neighborhood, is low; every node is in
    exactly one mask. The masks of a tensor are tensors on its device, otherwise arrays.
    """
    check_threshold(threshold)
    values = confusion if hasattr(confusion, "detach") else to_numpy(confusion)
    high = values > threshold + TIE
    return ~high, high


def group_names(count: int, measure: str = "NC") -> list[str]:
    """What the groups of nodes are called, the least confused first."""
    if count == 1:
        return ["all nodes"]
    if count == 2:
        return [f"low {measure}", f"high {measure}"]
    return [f"{measure} group {group}" for group in range(count)]


def check_threshold(threshold: float) -> None:
    """A threshold lies where NC does."""
    number: Any = threshold
    if not isinstance(number, int | float | np.floating) or not 0 <= number <= 1:
        raise InputError(f"threshold must be between 0 and 1, as NC is; got {threshold!r}.")


class ConfusionTracker:
    """Neighborhood Confusion of one graph for labels that keep changing.

    What depends on the graph alone is prepared once. Call the tracker with new labels, for example
    a model's predictions; it answers in kind: a numpy array for an array, a tensor on the same
    device for a tensor. Tensors on another device than the CPU are counted there, unless two or
    more hops did not fit into the budget of memory.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        hops: The hop count k.
        num_classes: Number of classes; by default the graph's.
        neighborhood: ``"closed"`` or ``"open"``.
        memory_budget: For two or more hops: bytes that the stored neighborhoods may take. Where
            they do not fit, every call searches them again, in memory proportional to the graph.
        empty: Value of nodes without any labeled node in their neighborhood.

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
        if not isinstance(graph, Graph):
            graph = as_graph(graph, num_classes=num_classes, require_labels=False)
        if num_classes is None and graph.num_classes < 1:
            raise InputError("the graph has no labels; set num_classes=….")
        count = graph.num_classes if num_classes is None else num_classes
        self.num_classes = whole_number(count, "num_classes", 1, 1 << 24)
        self.graph = graph
        self.hops = hops
        self.closed = is_closed(neighborhood)
        self.empty = empty
        self.neighborhoods = Neighborhoods(graph, hops, memory_budget=memory_budget)
        self._on_device: TorchConfusion | None = None

    def __call__(self, labels: Any) -> Any:
        """NC of every node under ``labels``."""
        if (there := self.on_device(labels)) is not None:
            return there(labels)
        tensor = hasattr(labels, "detach")
        given = labels.detach().cpu().numpy() if tensor else np.asarray(labels)
        whole = given.dtype == np.int64 and given.shape == self.graph.labels.shape
        if whole and given.min() >= 0 and given.max() < self.num_classes:
            classes = compact_classes(given, self.num_classes)  # as models predict them
        else:
            classes = label_graph(self.graph, given, self.num_classes).classes
        values = self.neighborhoods.confusion(classes, self.num_classes, self.closed, self.empty)
        if not tensor:
            return values
        import torch

        from ncgnn.sparse import widest_float

        return torch.from_numpy(values).to(labels.device, widest_float(labels.device))

    def unlike(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """1 - NH: the share of every node's closed neighborhood that has another label."""
        given = label_graph(self.graph, labels, self.num_classes)
        counts = self.neighborhoods.count(given.classes, given.num_classes)
        share = np.ones(len(labels))
        np.divide(counts.same, counts.size, out=share, where=counts.size > 0)
        return 1 - share

    def relative(self, confusion: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
        """NC that was counted under ``labels``, as :func:`relative_confusion` relates it."""
        if labels.min(initial=0) >= 0:
            return relative_to(confusion, self._attainable_by_all)
        return relative_to(confusion, self._attainable(labels))

    @cached_property
    def _attainable_by_all(self) -> NDArray[np.float64]:
        """What is attainable where every node has a label, as it has while a model is trained."""
        return self._attainable(np.zeros(self.graph.num_nodes, dtype=np.int64))

    def _attainable(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        size = _labeled_around(self.neighborhoods, labels, self.closed)
        return attainable_of(size, self.num_classes)

    def on_device(self, labels: Any) -> TorchConfusion | None:
        """What counts with torch where labels are; None where compiled code on the CPU does."""
        if not hasattr(labels, "detach") or not self.neighborhoods.stored:
            return None
        from ncgnn.sparse import runs_compiled

        return None if runs_compiled(labels.device) else self._torch_path(labels.device)

    def _torch_path(self, device: Any) -> TorchConfusion:
        if self._on_device is None or self._on_device.device != device:
            self._on_device = TorchConfusion(self, device)
        return self._on_device


class TorchConfusion:
    """What a tracker with stored neighborhoods computes, with torch alone, on any device.

    Args:
        tracker: The tracker.
        device: Where labels are and values shall be. Nothing but whether labels are classes is
            looked at from outside.
    """

    def __init__(self, tracker: ConfusionTracker, device: torch.device | str) -> None:
        import torch

        from ncgnn.sparse import widest_float

        indptr, indices = tracker.neighborhoods.pattern()
        n = len(indptr) - 1
        starts = torch.from_numpy(indptr.copy())
        rows = torch.repeat_interleave(torch.arange(n), starts.diff())
        sources = torch.from_numpy(indices.copy()).long()
        others = rows != sources
        self.device = torch.device(device)
        self._rows = rows[others].to(self.device, torch.int32)
        self._sources = sources[others].to(self.device, torch.int32)
        self._num_nodes = n
        self._dtype = widest_float(self.device)
        self._tracker = tracker

    def __call__(self, labels: torch.Tensor) -> torch.Tensor:
        """NC of every node under ``labels``, float64 on the device where it has that."""
        counts = self._count(labels, self._tracker.closed)
        size, top = counts.sum(1), counts.amax(1)
        confusion = self._logarithm(size.to(self._dtype) / top.clamp(min=1).to(self._dtype))
        return confusion.masked_fill(size == 0, self._tracker.empty)

    def unlike(self, labels: torch.Tensor) -> torch.Tensor:
        """1 - NH of every node; see :meth:`ConfusionTracker.unlike`."""
        counts = self._count(labels, closed=True)
        size = counts.sum(1)
        own = labels.to(self.device).long()
        same = counts.gather(1, own.clamp(min=0)[:, None])[:, 0].masked_fill(own < 0, 0)
        share = same.to(self._dtype) / size.clamp(min=1).to(self._dtype)
        return 1 - share.masked_fill(size == 0, 1)

    def relative(self, confusion: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """NC as a share of what is attainable; see :meth:`ConfusionTracker.relative`."""
        import torch

        num_classes = self._tracker.num_classes
        labeled = (labels.to(self.device) >= 0).long()
        size = labeled.clone() if self._tracker.closed else torch.zeros_like(labeled)
        for rows, sources in self._pairs():
            size.index_add_(0, rows, labeled.index_select(0, sources))
        size = size.clamp_(min=1)
        least_top = (size + num_classes - 1).div(num_classes, rounding_mode="floor")
        attainable = self._logarithm(size.to(self._dtype) / least_top.to(self._dtype))
        ratio = confusion / attainable.masked_fill(attainable <= 0, 1)
        return ratio.masked_fill((attainable <= 0) & ~confusion.isnan(), 0).clamp(max=1)

    def _logarithm(self, ratio: torch.Tensor) -> torch.Tensor:
        """The logarithm of ratios to the base of the number of classes, 0 below 1."""
        if self._tracker.num_classes == 1:
            return ratio.new_zeros(ratio.shape)
        return ratio.clamp(min=1).log2() / float(np.log2(self._tracker.num_classes))

    def _count(self, labels: torch.Tensor, closed: bool) -> torch.Tensor:
        """The count of each class in each neighborhood, [n, C]."""
        from ncgnn.sparse import bounds

        n, num_classes = self._num_nodes, self._tracker.num_classes
        if labels.shape != (n,) or labels.is_floating_point():
            raise InputError(
                f"labels must be {n} whole numbers; got {labels.dtype} of shape "
                f"{list(labels.shape)}."
            )
        labels = labels.to(self.device)
        low, high = bounds(labels)
        if low < -1 or high >= num_classes:
            wrong = low if low < -1 else high
            raise InputError(f"labels contain {wrong}, but num_classes is {num_classes}.")
        check_some_labeled(np.array([high]))
        slots = num_classes + 1
        classes = labels.long().masked_fill(labels < 0, num_classes)
        counts = classes.new_zeros(n * slots)
        for rows, sources in self._pairs():
            places = rows.long() * slots + classes[sources.long()]
            counts.scatter_add_(0, places, places.new_ones(len(places)))
        counts = counts.view(n, slots)
        if closed:
            counts.scatter_add_(1, classes.unsqueeze(1), classes.new_ones(n, 1))
        return counts[:, :num_classes]

    def _pairs(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Nodes and their neighbors, a bounded number at a time."""
        parts = (self._rows.split(_PAIRS_AT_ONCE), self._sources.split(_PAIRS_AT_ONCE))
        yield from zip(*parts, strict=True)
