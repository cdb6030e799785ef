"""Neighborhood Confusion with torch operations alone, for any device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.metrics.confusion import ConfusionTracker

# Pairs of node and neighbour that are counted at once; bounds the temporary memory.
_PAIRS_AT_ONCE = 1 << 24


class TorchConfusion:
    """What :class:`ConfusionTracker` computes, on a torch device.

    Args:
        tracker: A tracker whose neighbourhoods are stored.
        device: Where to count.
    """

    def __init__(self, tracker: ConfusionTracker, device: torch.device | str) -> None:
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
        # Apple's devices have no double precision.
        self._dtype = torch.float32 if self.device.type == "mps" else torch.float64
        self._closed = tracker.neighborhood == "closed"
        self._num_classes = tracker.num_classes
        self._empty = tracker.empty

    def __call__(self, labels: torch.Tensor) -> torch.Tensor:
        """NC of every node under ``labels``, float64 on the device where it has that."""
        labels = self._checked(labels.to(self.device))
        counts = self._counts(labels)
        size, top = counts.sum(1), counts.amax(1)
        scale = torch.log2(torch.tensor(max(self._num_classes, 2), dtype=self._dtype))
        ratio = size.to(self._dtype) / top.clamp(min=1).to(self._dtype)
        confusion = torch.log2(ratio.clamp(min=1)) / scale.to(self.device)
        if self._num_classes == 1:
            confusion = torch.zeros_like(confusion)
        return confusion.masked_fill(size == 0, self._empty)

    def _checked(self, labels: torch.Tensor) -> torch.Tensor:
        if labels.shape != (self._num_nodes,) or labels.is_floating_point():
            raise InputError(
                f"labels have shape {list(labels.shape)} and type {labels.dtype}; "
                f"expected {self._num_nodes} whole numbers."
            )
        low, high = labels.aminmax()
        if int(low) < -1 or int(high) >= self._num_classes:
            wrong = int(low) if int(low) < -1 else int(high)
            raise InputError(f"labels contain {wrong}, but num_classes is {self._num_classes}.")
        return labels.long()

    def _counts(self, labels: torch.Tensor) -> torch.Tensor:
        n, slots = len(labels), self._num_classes + 1
        labels = torch.where(labels < 0, self._num_classes, labels)
        counts = torch.zeros(n * slots, dtype=torch.int64, device=self.device)
        pairs = zip(
            self._rows.split(_PAIRS_AT_ONCE), self._sources.split(_PAIRS_AT_ONCE), strict=True
        )
        for rows, sources in pairs:
            places = rows.long() * slots + labels[sources.long()]
            counts.scatter_add_(0, places, torch.ones_like(places))
        counts = counts.view(n, slots)
        if self._closed:
            counts.scatter_add_(1, labels.unsqueeze(1), torch.ones_like(labels).unsqueeze(1))
        return counts[:, : self._num_classes]
