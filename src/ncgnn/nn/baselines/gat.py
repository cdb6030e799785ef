"""GAT: attention over neighbors, in several heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import torch
from pydantic import model_validator
from torch import nn
from torch.nn.functional import elu

from ncgnn.nn.base import DirectionOption, Model, PlainOptions, Rate, Width, parse_options
from ncgnn.nn.blocks import first_rows
from ncgnn.nn.functional import at, attend, dropout
from ncgnn.nn.layers import FeatureLinear

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import SparsePattern


class GATOptions(PlainOptions):
    """Options of GAT."""

    hidden: Width = 512
    """Width of all heads of the first layer together."""
    dropout: Rate = 0.5
    """Rate of the input of both layers."""
    attention_dropout: Rate | None = None
    """Rate of the attention of both layers; None for that of ``dropout``."""
    heads: Width = 8
    """Attention heads of the first layer, each of width ``hidden / heads``."""
    output_heads: Width = 1
    """Attention heads of the second layer, whose logits are averaged."""
    direction: DirectionOption = "incoming"
    """Which messages count: along stored edges into a node (``incoming``), along edges in ``both``
    directions alike, or ``separate``: along and against edges, with weights of their own for each.
    """

    @model_validator(mode="after")
    def _even_heads(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(
                f"hidden: {self.hidden} cannot be shared out evenly among {self.heads} heads; "
                "choose a multiple, or other heads"
            )
        return self


class GAT(Model):
    r"""Graph attention network (https://arxiv.org/abs/1710.10903), two layers.

    .. math::

        e_{ij} = \mathrm{LeakyReLU}_{0.2}(a^\top W x_i + b^\top W x_j), \quad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i) \cup i}(e_{ij}), \quad
        h_i = \sum_j \mathrm{drop}(\alpha_{ij}) W x_j + c

    The heads of the first layer are concatenated and followed by ELU; those of the second are
    averaged. The input of both layers is dropped. N(i) are the sources of incoming edges; with
    ``direction = "separate"`` there is one such sum over them and one over the targets of outgoing
    edges, each with its own W, a and b, and i itself is in neither of them but has weights
    :math:`W' x_i`.

    Decisions: ``hidden`` is the width of all heads together, so that GAT is as wide as the other
    models (the authors' 8 heads of 8 units are ``hidden=64``). The authors drop 0.6 everywhere.
    Weights start as in PyG's ``GATConv``, Glorot uniform with zero biases.
    """

    paper = "Veličković et al., Graph Attention Networks, ICLR 2018, arXiv:1710.10903"
    family = "attention"
    memory = "nodes × hidden, edges × heads"
    reach = depth = 2
    maskable = True
    Options = GATOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = parse_options(self.Options, options)
        self.dropout, hidden = chosen.dropout, chosen.hidden
        given = chosen.attention_dropout
        self.attention_dropout = self.dropout if given is None else given
        self.direction = chosen.direction
        self.first = FeatureLinear(num_features, hidden, bias=False)
        self.first_heads = Attention(chosen.heads, hidden // chosen.heads)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Linear(hidden, chosen.output_heads * num_classes, bias=False)
        self.second_heads = Attention(chosen.output_heads, num_classes)
        self.second_bias = nn.Parameter(torch.zeros(num_classes))
        for weight in (self.first.weight, self.second.weight):
            nn.init.xavier_uniform_(weight)
        self.first_more = self.second_more = None
        if chosen.direction == "separate":
            wide = chosen.output_heads * num_classes
            self.first_more = _Separate(
                FeatureLinear(num_features, hidden, bias=False),
                Attention(chosen.heads, hidden // chosen.heads),
                FeatureLinear(num_features, hidden, bias=False),
            )
            self.second_more = _Separate(
                nn.Linear(hidden, wide, bias=False),
                Attention(chosen.output_heads, num_classes),
                nn.Linear(hidden, num_classes, bias=False),
            )

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        hidden = self.compute_layer(0, inputs, None, None, key)
        return self.compute_layer(1, inputs, hidden, None, key)

    def compute_layer(
        self,
        number: int,
        inputs: GraphInputs,
        h: torch.Tensor | None,
        group: torch.Tensor | None,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        """The concatenated heads after ELU, dropped as the second layer takes them; the logits."""
        along, *against = inputs.messages(self.direction or "incoming", self_loops=True)
        pattern, rate = along.pattern, self.attention_dropout
        entries = [
            inputs.number_entries(kind, one.pattern) for kind, one in enumerate((along, *against))
        ]
        if h is None:
            given = inputs, self.dropout, at(key, 0)
            before = self.first(*given)
            heads = self.first_heads(pattern, before, rate, at(key, 1), entries[0])
            hidden = heads.flatten(1) + self.first_bias
            if self.first_more is not None:
                dropped = rate, at(key, 4), entries[1]
                heads, own = self.first_more(against[0].pattern, given, *dropped)
                hidden = hidden + heads.flatten(1) + own
            return dropout(elu(hidden), self.dropout, at(key, 2))
        before = self.second(h)
        heads = self.second_heads(pattern, before, rate, at(key, 3), entries[0])
        logits = heads.mean(1) + self.second_bias
        if self.second_more is not None:
            dropped = rate, at(key, 5), entries[1]
            heads, own = self.second_more(against[0].pattern, (h,), *dropped)
            logits = logits + heads.mean(1) + own
        return logits


class _Separate(nn.Module):
    """What a layer with separate directions adds: attention against edges, and the node itself."""

    def __init__(self, linear: nn.Module, heads: Attention, own: nn.Module) -> None:
        super().__init__()
        self.linear, self.heads, self.own = linear, heads, own
        for layer in (linear, own):
            nn.init.xavier_uniform_(cast("torch.Tensor", layer.weight))

    def forward(
        self,
        pattern: SparsePattern,
        given: tuple[Any, ...],
        rate: float,
        key: int | None,
        entries: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of heads [n, heads, width] and of the node itself, from what linear maps are given."""
        own = first_rows(self.own(*given), pattern.shape[0])
        return self.heads(pattern, self.linear(*given), rate, key, entries), own


class Attention(nn.Module):
    """The weights of :func:`ncgnn.nn.functional.attend`."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.target = nn.Parameter(torch.empty(heads, width))
        self.source = nn.Parameter(torch.empty(heads, width))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(
        self,
        pattern: SparsePattern,
        nodes: torch.Tensor,
        rate: float,
        key: int | None,
        entries: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """[n, heads, width] from transformed nodes [n, heads · width]."""
        nodes = nodes.view(-1, *self.target.shape)
        return attend(pattern, nodes, self.target, self.source, rate, key, entries)
