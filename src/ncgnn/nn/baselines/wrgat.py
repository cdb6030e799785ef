"""WRGAT: relational attention on a multigraph of nodes with similar surroundings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import torch
from pydantic import Field
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from ncgnn.nn.base import Model, PlainOptions, checked
from ncgnn.nn.baselines.wrgat_structure import ring_limit, structural_relations
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import times
from ncgnn.sparse import (
    ConstantSparse,
    edge_softmax,
    gather_columns,
    gather_rows,
    sampled_dot,
    weighted_matmul,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, GraphInputs

_SLOPE = 0.2


class WRGATOptions(PlainOptions):
    """Options of WRGAT."""

    relations: Annotated[int, Field(ge=1, le=100)] = 10
    """Number of structural relations, from ring 0 on, the node's own degree."""
    rings: Annotated[int, Field(ge=1, le=100)] | None = None
    """Upper limit of the rings that are compared; relations beyond it have no edges. By default 10,
    and 3 where comparing 10 would take hours.
    """
    original_edges: bool = False
    """Whether the edges of the graph are one more relation, before the others."""


class WRGAT(Model):
    r"""Relational attention on a multigraph of similar nodes (https://arxiv.org/abs/2106.06586).

    The graph is replaced by relations between nodes with similar degrees around them, see
    :mod:`ncgnn.nn.baselines.wrgat_structure`: relation k joins nodes whose rings 0 … k are alike,
    and :math:`w_{ij}` says how much. A layer is

    .. math::
        x_i' = x_i W + b + \sum_r \frac{1}{|N_r(i)|} \sum_{j \in N_r(i)} w_{ij} α_{ij} x_j W_r,
        \qquad α_{ij} = \operatorname{softmax}_{j \in N_r(i)}
        \operatorname{LeakyReLU}_{0.2}(a_r^\top [x_i W_r \,\|\, x_j W_r]),

    and the model is two of them with ReLU and dropout between.

    As in the released code, the mean follows the softmax, weights are normalized at the source of
    an edge, repeated edges count repeatedly, and the graph's own edges take no part by default.
    What is different: rings are compared by exact dynamic time warping, where the released code
    approximates it (fastDTW with radius 1, which never finds less); exp(-D) is normalized without
    underflow; nodes of one degree are chosen in ascending order, so that the order of nodes counts;
    and ``relations = 10`` are relations 0 … 9, where the released filter of that number keeps 0 …
    10. Directed edges count in both directions for the rings; as a relation of their own they
    point from source to target.

    The relations are made when a graph is first seen, which takes minutes for tens of thousands of
    nodes, and kept in the cache folder. Training holds one relation's activations of the first
    layer at a time and computes them again in the backward pass.
    """

    paper = (
        "Suresh et al., Breaking the Limit of Graph Neural Networks by Improving the "
        "Assortativity of Graphs with Local Mixing Patterns, KDD 2021, arXiv:2106.06586"
    )
    family = "rewired"
    memory = "relations × (nodes × log nodes + features × hidden)"
    edges = "both"
    Options = WRGATOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.options = checked(self.Options, options)
        hidden = self.options.hidden
        relations = self.options.relations + self.options.original_edges
        self.first = RelationalAttention(num_features, hidden, relations)
        self.second = RelationalAttention(hidden, num_classes, relations)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        relations = self.relations(inputs)
        hidden = self.first(inputs.features, relations)
        hidden = relu_dropout(hidden, self.options.dropout, at(key, 0))
        return self.second(hidden, relations)

    def relations(self, inputs: GraphInputs) -> tuple[ConstantSparse, ...]:
        """The relations of a graph, with weights divided by the number of edges into a node."""
        wanted = self.options.rings, self.options.relations
        depth = inputs.kept(("structural rings", *wanted), lambda: ring_limit(inputs, *wanted))
        structural = structural_relations(inputs, depth)
        original = (inputs.mean_operator(),) if self.options.original_edges else ()
        return (*original, *structural)


class RelationalAttention(nn.Module):
    """A layer with weights and attention of its own for each relation.

    Args:
        width: Number of columns of what comes in.
        out: Number of columns of what goes out.
        relations: Number of relations; those that a graph does not have play no part.
    """

    def __init__(self, width: int, out: int, relations: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(relations, width, out))
        # For each relation the part of the target and that of the source.
        self.attention = nn.Parameter(torch.empty(relations, 2, out))
        self.root = nn.Parameter(torch.empty(width, out))
        self.bias = nn.Parameter(torch.empty(out))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As the released code: Glorot's for matrices, zeros for the bias."""
        relations, width, out = self.weight.shape
        for parameter, fans in (
            (self.weight, width + out),
            (self.root, width + out),
            (self.attention, relations + 2 * out),
        ):
            bound = (6 / fans) ** 0.5
            nn.init.uniform_(parameter, -bound, bound)
        nn.init.zeros_(self.bias)

    def forward(self, x: Constant, relations: Sequence[ConstantSparse]) -> torch.Tensor:
        """[n, out] from [n, width]."""
        total = times(x, self.root) + self.bias
        # One backward step for all slices, which also gives zeros to relations without edges.
        weights, attentions = self.weight.unbind(), self.attention.unbind()
        products = self._products(x, len(relations))
        for relation, x_r, weight, attention in zip(
            relations, products, weights, attentions, strict=False
        ):
            own = None if x_r is not x else weight
            total += cast("torch.Tensor", _Message.apply(relation, x_r, own, attention))
        return total

    def _products(self, x: Constant, count: int) -> list[Constant]:
        """X·W_r of each relation, where all of them are no wider than dense rows of x; else x."""
        _, width, out = self.weight.shape
        if isinstance(x, ConstantSparse) or count * out > width:
            return [x] * count
        together = times(x, self.weight[:count].transpose(0, 1).reshape(width, count * out))
        return [*together.view(len(together), count, out).transpose(0, 1).contiguous()]


def _weigh(
    relation: ConstantSparse, x: Any, weight: torch.Tensor | None, attention: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The entries w_ij·α_ij and the matrix X·W_r that they multiply, which may be given as x.

    A score is a sum of one number of the target and one of the source, (X·W_r)·aᵀ or X·(W_r·aᵀ).
    """
    pattern = relation.pattern
    transformed: torch.Tensor = x if weight is None else times(x, weight)
    if weight is None or _row_entries(x) > weight.shape[1]:
        both = transformed @ attention.t()
    else:
        both = times(x, weight @ attention.t())
    target, source = both.unbind(1)
    scores = gather_rows(pattern, target.contiguous())
    scores = scores + gather_columns(pattern, source.contiguous())
    shares = edge_softmax(pattern, leaky_relu(scores, _SLOPE))
    return shares * relation.values, transformed


def _row_entries(x: Constant) -> float:
    """How many entries of a row take part in a product."""
    return x.shape[1] if isinstance(x, torch.Tensor) else x.nnz / max(1, x.shape[0])


class _Message(torch.autograd.Function):
    """What one relation adds; keeps nothing but its arguments for the backward pass."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        ctx.relation, x, weight, attention = arguments
        ctx.constant = None if isinstance(x, torch.Tensor) else x
        kept = None if ctx.constant is not None else x
        ctx.save_for_backward(kept, weight, attention)
        values, transformed = _weigh(*arguments)
        return weighted_matmul(ctx.relation.pattern, values, transformed)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        wanted = ctx.needs_input_grad[1:]
        copies: list[Any] = [
            None if tensor is None else tensor.detach().requires_grad_(wants)
            for tensor, wants in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        x = ctx.constant if copies[0] is None else copies[0]
        with torch.enable_grad():
            parts = _weigh(ctx.relation, x, *copies[1:])
        values, transformed = (part.detach() for part in parts)
        pattern = ctx.relation.pattern
        transposed, order = pattern.transposed
        of_parts = (
            sampled_dot(pattern, gradients[0], transformed),
            weighted_matmul(transposed, values.index_select(0, order), gradients[0]),
        )
        trained = [i for i, part in enumerate(parts) if part.requires_grad]
        found = torch.autograd.grad(
            [parts[i] for i in trained],
            [copy for copy, wants in zip(copies, wanted, strict=True) if wants],
            [of_parts[i] for i in trained],
        )
        remaining = iter(found)
        return None, *(next(remaining) if wants else None for wants in wanted)
