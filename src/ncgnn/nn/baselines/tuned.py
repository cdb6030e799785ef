"""GCN, GraphSAGE and GAT with residuals, normalization and depth (Luo et al., NeurIPS 2024).

The three models are stacks of layers norm(convolution(h) + [h·W + b]) that differ in the
convolution alone. Every graph is made undirected, unless ``direction`` says otherwise. A
convolution is called as ``(inputs, h)``, where h is the output of the layer before, and None stands
for the features. Weights come before neighbors, so that sparse features stay sparse and nothing is
wider than a hidden layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import ConvolutionOptions, DirectionOption, Model, Rate, Width, parse_options
from ncgnn.nn.blocks import first_rows
from ncgnn.nn.functional import at, attend, relu_dropout
from ncgnn.nn.inputs import as_nodes
from ncgnn.nn.layers import FeatureLinear, Norm, Term, make_norm, product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Direction, GraphInputs
    from ncgnn.sparse import ConstantSparse


#: An operator, None = the identity, and what its product with h is multiplied by, None = left out.
WeightedTerm: TypeAlias = "tuple[ConstantSparse | None, torch.Tensor | None]"
# Where more of the nodes take part, all of them are computed at once.
_FEW = 0.5


class GraphConvolution(nn.Module):
    """Â·h·W + b with Â = D^-½ A D^-½; ``self_loops`` put ones on the diagonal of A.

    With separate directions Ŝ·h·W + Ŝᵀ·h·W' + b with Ŝ = D_in^-½ A D_out^-½, and with self-loops
    h·W'' beside it.
    """

    def __init__(self, width: int, hidden: int, self_loops: bool, direction: Direction) -> None:
        super().__init__()
        self.self_loops: bool = self_loops
        self.direction: Direction = direction
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, hidden)))
        self.bias = nn.Parameter(torch.zeros(hidden))
        separate = direction == "separate"
        self.against = _another(self.weight) if separate else None
        self.own = _another(self.weight) if separate and self_loops else None

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden]."""
        operator, *against = inputs.gcn_operators(self.direction, self_loops=self.self_loops)
        total = _times(inputs, h, self.weight, operator) + self.bias
        return _plus(total, inputs, h, (self.against, self.own), (*against, None))

    def terms(self, inputs: GraphInputs) -> list[WeightedTerm]:
        """The operators P_t and weights W_t of Σ_t P_t·h·W_t + b."""
        operators = inputs.gcn_operators(self.direction, self_loops=self.self_loops)
        found = [*zip(operators, (self.weight, self.against), strict=False)]
        return [*found, (None, self.own)]


class MeanConvolution(nn.Module):
    """h·W + mean(h of neighbors)·V + b, with separate directions two means.

    With these, no node is among those that a mean is over: its own row has weights already.
    """

    def __init__(self, width: int, hidden: int, self_loops: bool, direction: Direction) -> None:
        super().__init__()
        self.self_loops: bool = self_loops
        self.direction: Direction = direction
        self.own = nn.Parameter(torch.empty(width, hidden))
        self.neighbors = nn.Parameter(torch.empty(width, hidden))
        self.bias = nn.Parameter(torch.empty(hidden))
        self.against = None
        if direction == "separate":
            self.against = nn.Parameter(torch.empty(width, hidden))
        bound = max(1, width) ** -0.5  # as torch's Linear
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden]."""
        operator, *against = inputs.mean_operators(self.direction, self_loops=self.self_loops)
        around = _times(inputs, h, self.neighbors, operator)
        total = _times(inputs, h, self.own) + around + self.bias
        return _plus(total, inputs, h, (self.against,), against)

    def terms(self, inputs: GraphInputs) -> list[WeightedTerm]:
        """The operators P_t and weights W_t of Σ_t P_t·h·W_t + b."""
        operators = inputs.mean_operators(self.direction, self_loops=self.self_loops)
        return [(None, self.own), *zip(operators, (self.neighbors, self.against), strict=False)]


class AttentionConvolution(nn.Module):
    """Σ_j α_ij z_j with z = h·W and α_ij = softmax_j LeakyReLU(⟨a, z_i⟩ + ⟨b, z_j⟩).

    It has one head and no bias. With separate directions, every direction has a W and an attention,
    and with self-loops the node's own row has weights and is not attended to.
    """

    def __init__(self, width: int, hidden: int, self_loops: bool, direction: Direction) -> None:
        super().__init__()
        self.self_loops: bool = self_loops
        self.direction: Direction = direction
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, hidden)))
        self.target = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden)))
        self.source = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden)))
        separate = direction == "separate"
        more = (self.weight, self.target, self.source) if separate else ()
        self.against = nn.ParameterList(map(_another, more))
        self.own = _another(self.weight) if separate and self_loops else None

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden]."""
        along, *against = inputs.messages(self.direction, self_loops=self.self_loops)
        z = product(Term(inputs.features), self.weight) if h is None else h @ self.weight
        total = attend(along.pattern, z.unsqueeze(1), self.target, self.source).squeeze(1)
        for matrix in against:
            weight, target, source = self.against
            z = product(Term(inputs.features), weight) if h is None else h @ weight
            total = total + attend(matrix.pattern, z.unsqueeze(1), target, source).squeeze(1)
        return _plus(total, inputs, h, (self.own,), (None,))


def _another(parameter: nn.Parameter) -> nn.Parameter:
    """A parameter of the same shape, with values of its own."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty_like(parameter)))


def _plus(
    total: torch.Tensor,
    inputs: GraphInputs,
    h: torch.Tensor | None,
    weights: Sequence[torch.Tensor | None],
    operators: Sequence[ConstantSparse | None],
) -> torch.Tensor:
    """The total and operator · h · weight for all weights that there are."""
    for weight, operator in zip(weights, operators, strict=False):
        if weight is not None:
            total = total + _times(inputs, h, weight, operator)
    return total


def _times(
    inputs: GraphInputs,
    h: torch.Tensor | None,
    weight: torch.Tensor,
    operator: ConstantSparse | None = None,
) -> torch.Tensor:
    """The operator times h · weight, where None stands for the features."""
    if operator is None:  # of rows that are wanted alone
        if h is None:
            return product(Term(first_rows(inputs.features, inputs.num_rows)), weight)
        return first_rows(h, inputs.num_rows) @ weight
    if h is None:
        return product(Term(inputs.features, operator), weight)
    return operator @ (h @ weight)


class TunedOptions(ConvolutionOptions):
    """Options of the tuned classic models."""

    hidden: Width = 512
    """Width of every layer."""
    dropout: Rate = 0.5
    """Rate after every layer."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 3
    """Number of convolutions."""
    norm: Norm = "layer"
    """Normalization before the activation: of every node (``layer``), of every column over all
    nodes (``batch``), or ``none``.
    """
    residual: bool = True
    """Whether every layer adds a linear map of its input."""
    direction: DirectionOption = "both"
    """Which messages count: along stored edges into a node (``incoming``), along edges in ``both``
    directions alike, or ``separate``: along and against edges, with weights of their own for each.
    """
    jumping: bool = False
    """Whether the last linear layer sees the sum of all layers, not the last one alone."""


class TunedGNN(Model):
    """What the three models share; they differ in :attr:`convolution`.

    h ← dropout(ReLU(norm(convolution(h) + [h·W + b]))), ``layers`` times, and a linear layer at the
    end. Features are not dropped. Batch normalization counts all nodes of the graph in training,
    labeled or not; its running statistics are buffers.
    """

    paper = "Luo et al., Classic GNNs are Strong Baselines, NeurIPS 2024, arXiv:2406.08993"
    family = "spatial"
    memory = "nodes × hidden × layers"
    edges = "both"
    uses_weights = True
    maskable = True
    Options = TunedOptions
    convolution: type[nn.Module]
    #: Hops that a layer's normalization needs beyond its own one.
    degree_hops: ClassVar[int] = 0

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = parse_options(self.Options, options)
        self.dropout, self.jumping = chosen.dropout, chosen.jumping
        self.depth, self.reach = chosen.layers, chosen.layers + self.degree_hops
        self.direction = chosen.direction
        self.layers, width, linear = nn.ModuleList(), num_features, FeatureLinear
        for _ in range(chosen.layers):
            convolution = self.convolution(
                width, chosen.hidden, chosen.self_loops, chosen.direction
            )
            residual = linear(width, chosen.hidden) if chosen.residual else None
            norm = make_norm(chosen.norm, chosen.hidden)
            self.layers.append(TunedLayer(convolution, residual, norm))
            width, linear = chosen.hidden, nn.Linear
        self.readout = nn.Linear(chosen.hidden, num_classes)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        h: torch.Tensor | None = None
        for place in range(len(self.layers)):
            h = self.compute_layer(place, inputs, h, None, key)
        return cast("torch.Tensor", h)

    def compute_layer(
        self,
        number: int,
        inputs: GraphInputs,
        h: torch.Tensor | None,
        group: torch.Tensor | None,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        """The rows of a layer; with ``jumping`` the sum of all so far stands beside them."""
        total: torch.Tensor | None = None
        if h is not None and self.jumping:
            h, total = h.chunk(2, dim=1)
        given = self.layers[number](inputs, h)
        h = relu_dropout(given, self.dropout, at(key, number))
        if self.jumping:
            total = h if total is None else first_rows(total, len(h)) + h
        if number < len(self.layers) - 1:
            return h if total is None else torch.cat([h, total], dim=1)
        return self.readout(h if total is None else total)

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits of the given nodes, None = all; of few nodes, layers compute what they need."""
        if nodes is not None and key is None and not torch.is_grad_enabled():
            nodes = as_nodes(nodes, inputs.everyone)
            rows = self._needed(inputs, nodes)
            if rows is not None:
                return self._compute_rows(inputs, rows)
        return super().node_logits(inputs, group, key, nodes)

    def _needed(self, inputs: GraphInputs, nodes: torch.Tensor) -> list[torch.Tensor] | None:
        """The rows that each layer must compute for some nodes; None where most of them are."""
        if self.jumping or not hasattr(self.convolution, "terms"):
            return None
        rows = [nodes]
        layers: list[Any] = list(self.layers)
        for layer in layers[:0:-1]:
            parts = [rows[0]]
            for operator, weight in layer.convolution.terms(inputs):
                if operator is not None and weight is not None:
                    parts.append(operator.rows(rows[0]).pattern.col.to(torch.int64))
            rows.insert(0, torch.cat(parts).unique())
            if len(rows[0]) > _FEW * inputs.num_nodes:
                return None
        return rows

    def _compute_rows(self, inputs: GraphInputs, rows: list[torch.Tensor]) -> torch.Tensor:
        """What :meth:`logits` computes, each layer for its rows alone."""
        h, before = torch.empty(0), inputs.everyone
        layers: list[Any] = list(self.layers)
        for layer, wanted in zip(layers, rows, strict=True):
            place = torch.searchsorted(before, wanted)
            total: torch.Tensor = layer.convolution.bias
            for operator, weight in layer.convolution.terms(inputs):
                if weight is None:
                    continue
                if before is inputs.everyone:
                    total = total + Term(inputs.features, operator).rows(wanted).times(weight)
                elif operator is None:
                    total = total + h.index_select(0, place) @ weight
                else:
                    total = total + operator.block(wanted, before) @ (h @ weight)
            if layer.residual is not None and before is inputs.everyone:
                linear = layer.residual
                own = Term(inputs.features).rows(wanted)
                total = total + own.times(linear.weight) + linear.bias
            elif layer.residual is not None:
                total = total + layer.residual(h.index_select(0, place))
            h, before = torch.relu(layer.norm(total)), wanted
        return self.readout(h)


class TunedGCN(TunedGNN):
    """GCN with residuals, normalization and depth (https://arxiv.org/abs/2406.08993).

    Per layer, with Â = D^-½ A D^-½ of the undirected graph,

        h ← dropout(ReLU(norm(Â·h·W + b + [h·W' + b'])))

    and logits h·V + c. As in the released recipe, edges count in both directions and one self-loop
    is added to every node (``self_loops = false`` leaves it out); features are not dropped.
    """

    title = "tuned GCN"
    convolution = GraphConvolution
    degree_hops = 1


class TunedSAGE(TunedGNN):
    """GraphSAGE with residuals, normalization and depth (https://arxiv.org/abs/2406.08993).

    As :class:`TunedGCN`, but the convolution is h·W + mean(h over neighbors)·W'' + b. As in the
    released recipe, the mean counts the node itself too, because the graph has self-loops; with
    ``direction = "separate"`` it does not.
    """

    title = "tuned SAGE"
    convolution = MeanConvolution


class TunedGAT(TunedGNN):
    """GAT with residuals, normalization and depth (https://arxiv.org/abs/2406.08993).

    As :class:`TunedGCN`, but the convolution is Σ_j α_ij z_j, where z = h·W and α_ij is the
    softmax, over the neighbors j of i and i itself, of LeakyReLU(⟨a, z_i⟩ + ⟨b, z_j⟩) with slope
    0.2. It has one head, no bias and no dropout of attention, and holds one number per edge.
    """

    title = "tuned GAT"
    family = "attention"
    memory = "nodes × hidden × layers, edges"
    uses_weights = False
    convolution = AttentionConvolution


class TunedLayer(nn.Module):
    """norm(convolution(h) + [h·W + b]), where the residual h·W + b may be left out."""

    def __init__(self, convolution: nn.Module, residual: nn.Module | None, norm: nn.Module) -> None:
        super().__init__()
        self.convolution, self.residual, self.norm = convolution, residual, norm

    def forward(self, inputs: GraphInputs, h: torch.Tensor | None) -> torch.Tensor:
        """[n, hidden], before the activation."""
        total = self.convolution(inputs, h)
        if self.residual is not None:
            total = total + self._residual_rows(inputs, h, self.residual)
        return self.norm(total)

    def _residual_rows(
        self, inputs: GraphInputs, h: torch.Tensor | None, linear: Any
    ) -> torch.Tensor:
        if h is not None:
            return linear(first_rows(h, inputs.num_rows))
        features = first_rows(inputs.features, inputs.num_rows)
        return product(Term(features), linear.weight) + linear.bias
