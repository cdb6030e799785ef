"""A PyG transform that attaches Neighborhood Confusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.transforms import BaseTransform

from ncgnn.errors import InputError
from ncgnn.graph import as_graph
from ncgnn.metrics.confusion import neighborhood_confusion

if TYPE_CHECKING:
    from collections.abc import Sequence


class AddNeighborhoodConfusion(BaseTransform):
    """Attach the Neighborhood Confusion of every node to a PyG ``Data``.

    Args:
        hops: The hop count k, or several.
        attribute: Name of the new attribute; with several hop counts, one column each.
        labels: Name of the attribute that holds the labels.
        num_classes: Number of classes; by default the largest label plus one.
    """

    def __init__(
        self,
        hops: int | Sequence[int] = 1,
        attribute: str = "nc",
        labels: str = "y",
        num_classes: int | None = None,
    ) -> None:
        self.hops = hops
        self.attribute = attribute
        self.labels = labels
        self.num_classes = num_classes

    def forward(self, data: Any) -> Any:
        """Return ``data`` with the attribute, float32 [n] or [n, hop counts]."""
        if self.labels not in data or data[self.labels] is None:
            raise InputError(f"the Data has no '{self.labels}'; set it or name another attribute.")
        labels = data[self.labels]
        graph = as_graph(data, labels, num_classes=self.num_classes, features=False)
        several = not isinstance(self.hops, int)
        counts = tuple(self.hops) if not isinstance(self.hops, int) else (self.hops,)
        columns = [torch.from_numpy(neighborhood_confusion(graph, hops=hops)) for hops in counts]
        values = torch.stack(columns, dim=1).float().to(getattr(labels, "device", "cpu"))
        data[self.attribute] = values if several else values[:, 0]
        return data
