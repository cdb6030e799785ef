"""GBKSage: GraphSAGE with two kernels and a gate per edge between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from pydantic import Field
from torch import nn
from torch.nn.functional import leaky_relu, softplus

from ncgnn.nn.base import LastPass, Model, PlainOptions, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import times
from ncgnn.sparse import gather_columns, gather_rows, row_sum, weighted_matmul

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, GraphInputs
    from ncgnn.sparse import ConstantSparse, SparsePattern

Version = Literal["released", "paper"]
_SLOPE = 0.2


class GBKSageOptions(PlainOptions):
    """Options of GBKSage."""

    gate_weight: Annotated[float, Field(ge=0)] = 30.0
    """Weight λ of the gates' loss."""
    gate_target: Version = "released"
    """What a gate should be 1 for: ``released``, edges between two nodes of which neither is of
    class 0; or ``paper``, edges within a class.
    """
    center: Version = "released"
    """What the second kernel sees: ``released``, the node itself; or ``paper``, its neighbors."""


class GBKSage(Model):
    r"""GraphSAGE with two kernels and a gate between them (https://arxiv.org/abs/2110.15777).

    A gate per edge j → i, from two numbers per node, decides which kernel sees a neighbor:

    .. math::
        s_{ij} = σ(\operatorname{LeakyReLU}_{0.2}(a_l^\top W_g^\top x_j + a_r^\top W_g^\top x_i)),
        \qquad p_i = \operatorname{mean}_j s_{ij} x_j,
        \qquad u_i = \operatorname{mean}_j (1 - s_{ij}) x_i .

    A layer gives :math:`[p_i W_p + b_p \,\|\, u_i W_n + b_n] + x_i W`, with half of the columns
    from either kernel, or their sum if the number of columns is odd. The model is two layers with
    ReLU and dropout between. The loss gets, for each layer, λ times the mean cross-entropy of the
    numbers :math:`(1 - s, s)`, taken as logits, over edges between training nodes.

    The released code is followed where it differs from the paper, and the paper's way is an option:
    :math:`u_i` uses :math:`x_i`, not :math:`x_j` (``center``); and the target of a gate compares
    class numbers by their cosine, which is 1 whenever neither is 0, not only within a class
    (``gate_target``). Its default of 16 hidden columns and λ = 1.84 are not followed: here they are
    512, as for all models, and 30, as in its script. Edges are the incoming ones, without loops.

    Means of neighbors are taken after the kernels, which is the same and needs no array of edges
    times features.
    """

    paper = "Du et al., GBK-GNN: Gated Bi-Kernel Graph Neural Networks, WWW 2022, arXiv:2110.15777"
    family = "attention"
    memory = "nodes × hidden, edges"
    reach = 2
    uses_weights = True
    Options = GBKSageOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        hidden = self.options.hidden
        self.first = GatedKernels(num_features, hidden, self.options.center)
        self.second = GatedKernels(hidden, num_classes, self.options.center)
        self._last: LastPass[tuple[SparsePattern, torch.Tensor, torch.Tensor]] = LastPass()

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        operator = inputs.mean_operator()
        hidden, first_gates = self.first(inputs.features, operator)
        hidden = relu_dropout(hidden, self.options.dropout, at(key, 0))
        logits, second_gates = self.second(hidden, operator)
        self._last.keep(key, (operator.pattern, first_gates, second_gates))
        return logits

    def extra_loss(self, train: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of the gates of the training pass that was just computed."""
        pattern, *gates = self._last.take()
        edges, target, source = _find_edges_within(train, pattern)
        target, source = labels[target], labels[source]
        if self.options.gate_target == "paper":
            open_gate = target == source
        else:
            open_gate = (target > 0) & (source > 0)
        losses = [compute_gate_loss(gate.index_select(0, edges), open_gate) for gate in gates]
        return self.options.gate_weight * sum(losses, gates[0].new_zeros(()))


class GatedKernels(nn.Module):
    """A layer with two kernels and gates."""

    def __init__(self, width: int, out: int, center: Version) -> None:
        super().__init__()
        self.center = center
        self.joined = out % 2 == 0
        half = out // 2 if self.joined else out
        self.gate = nn.Parameter(torch.empty(width, out))
        # The part of the source and that of the target.
        self.attention = nn.Parameter(torch.empty(2, out))
        self.kernels = nn.ParameterList([torch.empty(width, half) for _ in range(2)])
        self.biases = nn.ParameterList([torch.empty(half) for _ in range(2)])
        self.root = nn.Parameter(torch.empty(width, out))
        # As the released code: Glorot's, but for biases and the root as torch's Linear.
        nn.init.xavier_uniform_(self.gate)
        bound = (6 / (1 + out)) ** 0.5
        nn.init.uniform_(self.attention, -bound, bound)
        for kernel in self.kernels:
            nn.init.xavier_uniform_(kernel)
        bound = max(1, width) ** -0.5
        for parameter in (*self.biases, self.root):
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Constant, operator: ConstantSparse) -> tuple[torch.Tensor, torch.Tensor]:
        """[n, out] from [n, width], and the gates [nnz] of the operator's entries."""
        scorer = self.gate @ self.attention.t()
        weights = [scorer, *self.kernels, self.root]
        # One product for all: where features are sparse, its cost is that of reading them.
        products = times(x, torch.cat(weights, dim=1))
        scores, positive, negative, root = products.split([w.shape[1] for w in weights], dim=1)
        gates = _compute_gates(operator.pattern, scores)
        first = weighted_matmul(operator.pattern, gates * operator.values, positive.contiguous())
        rest = (1 - gates) * operator.values
        if self.center == "released":
            second = row_sum(operator.pattern, rest)[:, None] * negative
        else:
            second = weighted_matmul(operator.pattern, rest, negative.contiguous())
        first, second = first + self.biases[0], second + self.biases[1]
        both = torch.cat([first, second], dim=1) if self.joined else first + second
        return both + root, gates


def _compute_gates(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    source, target = scores.unbind(1)
    total = gather_columns(pattern, source.contiguous())
    total = total + gather_rows(pattern, target.contiguous())
    return torch.sigmoid(leaky_relu(total, _SLOPE))


def compute_gate_loss(gates: torch.Tensor, open_gate: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of (1 - s, s) as logits; 0 where there are no edges."""
    if not len(gates):
        return gates.sum()
    # The cross-entropy of two logits is the softplus of the wrong one minus the right one.
    return softplus(torch.where(open_gate, 1 - 2 * gates, 2 * gates - 1)).mean()


def _find_edges_within(
    train: torch.Tensor, pattern: SparsePattern
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Places of the edges between training nodes, and of their targets and sources in ``train``."""
    place = torch.full((pattern.shape[0],), -1, dtype=torch.int64, device=train.device)
    place[train] = torch.arange(len(train), device=train.device)
    target, source = place[pattern.row], place[pattern.col]
    edges = torch.nonzero((target >= 0) & (source >= 0)).flatten()
    return edges, target[edges], source[edges]
