"""A PyG transform that attaches Neighborhood Confusion."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.transforms import BaseTransform

from ncgnn.metrics._confusion import neighborhood_confusion


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
        hops: int | tuple[int, ...] = 1,
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
        labels = data[self.labels]
        counts = self.hops if isinstance(self.hops, tuple) else (self.hops,)
        columns = [
            neighborhood_confusion(data, labels, hops, num_classes=self.num_classes)
            for hops in counts
        ]
        values = torch.stack([torch.from_numpy(column) for column in columns], dim=1).float()
        data[self.attribute] = values if isinstance(self.hops, tuple) else values[:, 0]
        return data
