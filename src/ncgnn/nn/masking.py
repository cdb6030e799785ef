"""A graph as a model sees it, with masks: numbers that messages and features are multiplied by.

Gradients to the masks say how much single edges and features count for an answer. A mask is applied
after normalization, as PyG's explanations do it, and self-loops that a model adds have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ncgnn.nn.inputs import GraphInputs
from ncgnn.sparse import MaskedSparse, MaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.nn.inputs import Constant, Direction
    from ncgnn.sparse import ConstantSparse


def masked_row(inputs: GraphInputs, node: int) -> tuple[Constant, torch.Tensor, NDArray[np.int64]]:
    """Features where those of one node have gradients.

    Returns:
        The features; the values of the node's row that have gradients, which for sparse features
        are factors of 1; and the columns that these belong to.
    """
    features = inputs.features
    if isinstance(features, torch.Tensor):
        own = features[node].clone().requires_grad_()
        place = torch.tensor([node], device=inputs.device)
        every = np.arange(inputs.num_features)
        return features.index_copy(0, place, own[None]), own, every
    pattern = features.pattern
    start, end = int(pattern.crow[node]), int(pattern.crow[node + 1])
    places = torch.full((features.nnz,), -1, dtype=torch.int64, device=inputs.device)
    places[start:end] = torch.arange(end - start, device=inputs.device)
    own = features.values.new_ones(end - start).requires_grad_()
    mask = torch.cat([own, own.new_ones(1)])
    columns = pattern.col[start:end].cpu().numpy().astype(np.int64)
    return MaskedSparse.of(features, mask, places), own, columns


class MaskedInputs(GraphInputs):
    """The inputs of a graph with a mask of its edges and with other features.

    The mask reaches models that are :attr:`~ncgnn.nn.Model.maskable`.

    Args:
        inputs: The graph.
        features: In place of its features, with or without gradients; dense, or a
            :class:`ncgnn.sparse.MaskedSparse`.
        mask: A number per edge of ``inputs.edge_index``; None = all 1.
    """

    def __init__(
        self, inputs: GraphInputs, features: Constant, mask: torch.Tensor | None = None
    ) -> None:
        for name in ("adjacency", "weighted_adjacency", "undirected_adjacency", "along"):
            getattr(inputs, name)  # made once, in the inputs that stay
        self.__dict__.update(inputs.__dict__)
        self.features = features
        self._propagated, self._kept, self._of_edges = {}, {}, {}
        self._mask = None if mask is None else torch.cat([mask, mask.new_ones(1)])

    @property
    def x(self) -> torch.Tensor:
        """The features as PyG's layers take them."""
        if isinstance(self.features, torch.Tensor):
            return self.features
        raise MaskError("a dense matrix")

    def propagate(
        self, operator: ConstantSparse, *, steps: int = 1, uses: int = 1
    ) -> tuple[Constant, int]:
        """Nothing is made beforehand: features and operator may have gradients."""
        return self.features, steps

    def messages(
        self, direction: Direction = "incoming", *, self_loops: bool = False
    ) -> tuple[ConstantSparse, ...]:
        """The matrices along which messages pass, with the mask."""
        found = super().messages(direction, self_loops=self_loops)
        return self._masked(found)

    def gcn_operators(
        self, direction: Direction = "incoming", *, self_loops: bool = True
    ) -> tuple[ConstantSparse, ...]:
        """The normalized matrices of :meth:`messages`, with the mask."""
        found = super().gcn_operators(direction, self_loops=self_loops)
        return self._masked(found) if direction == "separate" else found

    def _masked(self, matrices: tuple[ConstantSparse, ...]) -> tuple[ConstantSparse, ...]:
        """Matrices with the mask; the second one holds messages against the edges."""
        mask = self._mask
        if mask is None:
            return matrices
        return tuple(
            MaskedSparse.of(matrix, mask, self._places(matrix, against=place == 1))
            for place, matrix in enumerate(matrices)
        )

    def _places(self, matrix: ConstantSparse, *, against: bool) -> torch.Tensor:
        """The edge that each message runs along, -1 for self-loops.

        A message from j to i runs along j → i where that is stored, otherwise against i → j. With
        ``against`` and stored edges that all point where they were given to, it is the other way
        round.
        """
        pattern, stored, count = matrix.pattern, self.adjacency.pattern, self.num_nodes
        row, col = pattern.row.to(torch.int64), pattern.col.to(torch.int64)
        known = stored.row.to(torch.int64) * count + stored.col
        if not len(known):
            return torch.full_like(row, -1)
        keys = [row * count + col, col * count + row]
        if against and self.graph.edge_directions is None:
            keys.reverse()
        places = torch.full_like(row, -1)
        for key in keys:
            found = torch.searchsorted(known, key).clamp(max=len(known) - 1)
            places = torch.where((places < 0) & (known[found] == key), found, places)
        return places
