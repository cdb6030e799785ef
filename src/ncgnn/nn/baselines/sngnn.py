"""SNGNN: messages from the most similar neighbors alone."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import torch
from pydantic import Field
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn.base import Model, PlainOptions, Rate, Width, parse_options
from ncgnn.nn.functional import at, relu_dropout, unit_rows
from ncgnn.nn.layers import FeatureLinear, NodeLinear
from ncgnn.sparse import sampled_dot, weighted_matmul

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import ConstantSparse, SparsePattern

Variant = Literal["plain", "plus", "plusplus"]


class SNGNNOptions(PlainOptions):
    """Options of SNGNN."""

    hidden: Width = 512
    """Width of the layers before the last one; one layer has none."""
    dropout: Rate = 0.5
    """Rate between layers; one layer has none."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of layers."""
    variant: Variant = "plus"
    """``plain``, ``plus`` or ``plusplus``."""
    top_k: Annotated[int, Field(ge=1)] = 10
    """How many neighbors a node listens to at most (not ``plain``)."""
    similarity_threshold: Annotated[float, Field(ge=-1, lt=1)] = 0.5
    """Least similarity of a neighbor that is listened to (not ``plain``)."""
    init_beta: Annotated[float, Field(ge=0, le=1)] = 0.5
    """First value of the share of the adjacency (``plusplus``)."""
    self_loops: bool = True
    """Whether every node is its own neighbor too; in ``plain`` it always is."""


class SNGNN(Model):
    """Similarity-navigated graph neural network (Zou et al., Information Sciences 2023).

    With u = X·W + b and the cosine c_ij of u_i and u_j, a layer of each variant gives

    * ``plain``: z_i = 1/|N(i)| · Σ_j c_ij·u_j + b', over N(i) with i itself;
    * ``plus``: the same sum without b', over the ``top_k`` most similar of the neighbors whose
      c_ij is at least ``similarity_threshold``; it is still divided by the number of *all*
      neighbors, as in the released code;
    * ``plusplus``: β·(A·W_A + b_A) + (1 - β)·plus, where β is trained and W_A has a row for every
      node, so that the model belongs to one graph.

    Between layers come ReLU and dropout. Gradients reach W through the similarities that count.
    Of equally similar neighbors the one that comes first counts. With ``self_loops`` every node is
    its own neighbor in A of A·W_A too, as in the released code, so that ``plusplus`` has weights
    from which a training node can learn its label by heart.

    Neighbors are the sources of incoming edges, also in A. That is a decision for directed graphs:
    in A of the released ``plusplus``, rows are sources, so that it sees outgoing edges there.

    The separated-learning paper fixes ``top_k``, the threshold and a trade-off of 0.5, which
    ``plusplus`` alone has all of; but ``plus`` has the better validation accuracy on average over
    five graphs, though not on each (RESULTS.md), so it is the default. ``self_loops`` are on as in
    the released scripts. With one layer ``hidden`` and ``dropout`` play no part, and without
    ``self_loops`` no node's own u enters the sum.

    Args:
        num_nodes: Number of nodes of the graph; needed for ``plusplus``.
    """

    paper = (
        "Zou et al., Similarity-Navigated Graph Neural Networks for Node Classification, "
        "Information Sciences 2023"
    )
    family = "rewired"
    memory = "edges; plusplus: nodes × classes weights"
    Options = SNGNNOptions
    untied_by = "set variant = 'plus'"

    def __init__(
        self, num_features: int, num_classes: int, *, num_nodes: int | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        if self.options.variant == "plusplus" and num_nodes is None:
            raise InputError("variant 'plusplus' has weights for every node: num_nodes is needed.")
        self.tied_to = "every node" if self.options.variant == "plusplus" else ""
        self.reach = self.options.layers
        widths = [self.options.hidden] * (self.options.layers - 1) + [num_classes]
        linears: list[nn.Module] = [FeatureLinear(num_features, widths[0])]
        linears += [nn.Linear(*pair) for pair in pairwise(widths)]
        self.linears = nn.ModuleList(linears)
        self.mixings = nn.ModuleList(
            _Mixing(width, 0 if num_nodes is None else num_nodes, self.options) for width in widths
        )

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A model for a graph, with weights for each of its nodes where the variant has them."""
        num_nodes = inputs.num_nodes
        return cls(inputs.num_features, inputs.num_classes, num_nodes=num_nodes, **options)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        looped = self.options.self_loops or self.options.variant == "plain"
        adjacency = inputs.kept(
            ("adjacency", looped),
            lambda: inputs.looped_adjacency if looped else inputs.adjacency,
        )
        x = self.mixings[0](adjacency, self.linears[0](inputs))
        for place in range(1, len(self.linears)):
            x = relu_dropout(x, self.options.dropout, at(key, place))
            x = self.mixings[place](adjacency, self.linears[place](x))
        return x


class _Mixing(nn.Module):
    """What a layer makes of u; see :class:`SNGNN`."""

    def __init__(self, width: int, num_nodes: int, options: SNGNNOptions) -> None:
        super().__init__()
        self.options = options
        if options.variant == "plain":
            self.bias = nn.Parameter(torch.zeros(width))
        elif options.variant == "plusplus":
            self.nodes = NodeLinear(num_nodes, width)
            self.beta = nn.Parameter(torch.tensor([options.init_beta]))

    def forward(self, adjacency: ConstantSparse, u: torch.Tensor) -> torch.Tensor:
        """[n, width]."""
        pattern, options = adjacency.pattern, self.options
        unit = unit_rows(u)
        similarity = sampled_dot(pattern, unit, unit)
        if options.variant != "plain":
            similarity = similarity * mark_most_similar(
                pattern, similarity.detach(), options.top_k, options.similarity_threshold
            )
        counts = pattern.row_counts.clamp(min=1).to(u.dtype)
        mean = weighted_matmul(pattern, similarity, u) / counts[:, None]
        if options.variant == "plain":
            return mean + self.bias
        if options.variant == "plus":
            return mean
        return self.beta * self.nodes(adjacency) + (1 - self.beta) * mean


def mark_most_similar(
    pattern: SparsePattern, similarity: torch.Tensor, top_k: int, threshold: float
) -> torch.Tensor:
    """1 for the ``top_k`` greatest entries of each row that reach the threshold, 0 for others.

    Two stable sorts, by similarity and then by row, leave the entries of each row in descending
    order, so that an entry's rank is its distance from the first one of its row.
    """
    near = torch.nonzero(similarity >= threshold).flatten()
    near = near[similarity[near].argsort(descending=True, stable=True)]
    row = pattern.row[near].to(torch.int64)
    order = row.argsort(stable=True)
    near, row = near[order], row[order]
    counts = torch.bincount(row, minlength=pattern.shape[0])
    rank = torch.arange(len(near), device=near.device) - (counts.cumsum(0) - counts)[row]
    kept = torch.zeros_like(similarity)
    kept[near[rank < top_k]] = 1
    return kept
