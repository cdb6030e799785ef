"""The graph operators of GCN and SAGE layers, on the whole graph and on parts of it.

A layer of these backbones is linear in its input: Σ_t P_t · H · W_t + b, with one operator P_t per
weight matrix. None stands for the identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from ncgnn.graph.sparse import ConstantSparse, gcn_normalised, row_normalised
from ncgnn.nn._masking import masked_adjacency, or_itself, rows_or_itself

if TYPE_CHECKING:
    import torch

    from ncgnn.nn._inputs import GraphInputs

Operators: TypeAlias = "tuple[ConstantSparse | None, ...]"


class LinearOperators(ABC):
    """The operators of a backbone on one graph.

    Args:
        inputs: The graph.
        self_loops: Whether every node is its own neighbour too.
    """

    bias: ClassVar[bool]
    terms: ClassVar[int]

    def __init__(self, inputs: GraphInputs, self_loops: bool) -> None:
        self.self_loops = self_loops
        self.base = inputs.looped_adjacency if self_loops else inputs.adjacency
        self.whole = self._normalised(self.base)

    @abstractmethod
    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        """The operators of an adjacency that holds self-loops already where they are wanted."""

    def masked_targets(self, inside: torch.Tensor) -> Operators:
        """norm(M A): only nodes inside receive messages; degrees are of the masked matrix."""
        return self._normalised(masked_adjacency(self.base, targets=inside))

    def masked_sources(self, inside: torch.Tensor) -> Operators:
        """norm(A M): only nodes inside send messages; degrees are of the masked matrix."""
        return self._normalised(masked_adjacency(self.base, sources=inside))

    @abstractmethod
    def within(self, rows: torch.Tensor) -> Operators:
        """Messages among the given nodes only, [rows, rows]."""

    def targets_or_itself(self, inside: torch.Tensor) -> Operators:
        """M S + (I − M): nodes outside pass on what they have."""
        return tuple(op and rows_or_itself(op, inside) for op in self.whole)

    @abstractmethod
    def within_or_itself(self, inside: torch.Tensor) -> Operators:
        """Messages among the nodes inside; nodes outside pass on what they have."""


class GcnOperators(LinearOperators):
    """S = D^-½ A D^-½ of graph convolutional networks (https://arxiv.org/abs/1609.02907)."""

    bias = False
    terms = 1

    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        return (gcn_normalised(adjacency, self_loops=False),)

    def within(self, rows: torch.Tensor) -> Operators:
        """A block of the whole graph's S: separation changes no degree."""
        return tuple(op and op.block(rows, rows) for op in self.whole)

    def within_or_itself(self, inside: torch.Tensor) -> Operators:
        """M S M + (I − M)."""
        return tuple(op and or_itself(op, inside) for op in self.whole)


class SageOperators(LinearOperators):
    """The node itself and the mean of its neighbours (https://arxiv.org/abs/1706.02216).

    Where edges are removed the mean is over the neighbours that are left; mode ``source`` alone
    divides by the number of all neighbours.
    """

    bias = True
    terms = 2

    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        return (None, row_normalised(adjacency))

    def within(self, rows: torch.Tensor) -> Operators:
        """The mean over the neighbours among the given nodes."""
        return (None, row_normalised(self.base.block(rows, rows)))

    def within_or_itself(self, inside: torch.Tensor) -> Operators:
        """The mean over the neighbours inside; a node outside is its own only neighbour."""
        return (None, row_normalised(or_itself(self.base, inside)))


class IdentityOperators(LinearOperators):
    """No neighbours at all."""

    bias = True
    terms = 1

    def _normalised(self, adjacency: ConstantSparse) -> Operators:
        return (None,)

    def within(self, rows: torch.Tensor) -> Operators:
        """Every node by itself."""
        return (None,)

    def within_or_itself(self, inside: torch.Tensor) -> Operators:
        """Every node by itself."""
        return (None,)


OPERATORS: dict[str, type[LinearOperators]] = {
    "gcn": GcnOperators,
    "sage": SageOperators,
    "identity": IdentityOperators,
}
