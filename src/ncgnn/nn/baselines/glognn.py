"""GloGNN: messages between all nodes, by a matrix in closed form that is never made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn.base import Model, PlainOptions, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import FeatureLinear, NodeLinear

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import ConstantSparse

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0)]


class GloGNNOptions(PlainOptions):
    """Options of GloGNN."""

    variant: Literal["glognn", "glognn++"] = "glognn"
    """``glognn``, or ``glognn++`` with a trained weight for every class."""
    alpha: NotNegative = 0.1
    """Weight α of the size of Z."""
    beta: NotNegative = 0.1
    """Weight β of the distance of Z from the hops of the graph."""
    gamma: Share = 0.2
    """Share γ of the first logits in each round."""
    delta: Share = 1.0
    """Share δ of the features; that of the adjacency is 1 - δ."""
    layers: Count = 2
    """Number of rounds."""
    orders: Count = 2
    """Number of hops."""
    order_weights: Literal["equal", "shared", "per_node"] = "shared"
    """λ is trained and ``shared`` by all nodes, found ``per_node`` from its logits, or all 1
    (``equal``), where the node itself counts as hop 0.
    """

    @model_validator(mode="after")
    def _can_be_solved(self) -> Self:
        if self.alpha + self.beta == 0:
            raise ValueError("alpha, beta: one of them must be above 0")
        return self


class GloGNN(Model):
    """Messages between all nodes, by a matrix Z in closed form (arXiv:2205.07308).

    H₀ = drop(ReLU(δ·(X·W_x + b_x) + (1 - δ)·(B·W_a + b_a)))·W₂ + b₂ with B = (D + I)^-1 (A + I),
    and ``layers`` rounds of H ← (1 - γ)·Z·H + γ·H₀ that begin with H = H₀, where

    Z = [(1 - γ)HHᵀ + βΣ_k λ_k B^k - γ(1 - γ)H₀Hᵀ] · [(1 - γ)²HHᵀ + (α + β)I]^-1.

    ``glognn++`` puts a diagonal matrix Λ, 1/classes at first, into HΛHᵀ and H₀ΛHᵀ of the first
    factor, and H ← (1 - γ)·Z·H·Λ + γ·H₀.

    Z is n × n and never made. With G = (1 - γ)²HᵀH and M = G + (α + β)I, which are classes ×
    classes, a round is equal to

    H ← (H - γH₀)·M⁻¹G + γH₀ + Σ_k λ_k B^k·(H·(1 - γ)β·M⁻¹).

    M⁻¹G and βM⁻¹ have no eigenvalue above 1 and come from no difference, so that a great β does no
    harm; what does is logits that are great or nearly dependent where α + β is small. G and M⁻¹ are
    therefore in double precision, which costs little, as they are small.

    Row i of B holds the edges into node i. This is the released model for small graphs, where the
    dropout of the features has no effect, so that there is none here. W_a has a row for every node,
    so that the model belongs to one graph; with δ = 1, W_a has no effect and is left out, as is W_x
    with δ = 0. ``order_weights`` are the released functions 1 (``equal``), 2 (``shared``) and 3
    (``per_node``); the scripts for GloGNN use 2, the default here.

    Args:
        num_nodes: Number of nodes of the graph; needed unless ``delta`` is 1.
    """

    paper = (
        "Li et al., Finding Global Homophily in Graph Neural Networks When Meeting "
        "Heterophily, ICML 2022, arXiv:2205.07308"
    )
    family = "global"
    uses_weights = True
    Options = GloGNNOptions
    untied_by = "set delta = 1"

    def __init__(
        self, num_features: int, num_classes: int, *, num_nodes: int | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        hidden, orders, delta = self.options.hidden, self.options.orders, self.options.delta
        if delta < 1 and num_nodes is None:
            raise InputError("delta below 1 gives every node weights: num_nodes is needed.")
        self.features = FeatureLinear(num_features, hidden) if delta > 0 else None
        self.nodes = NodeLinear(num_nodes or 0, hidden) if delta < 1 else None
        self.tied_to = "every node" if delta < 1 else ""
        self.second = nn.Linear(hidden, num_classes)
        if self.options.order_weights == "shared":
            self.order_weights = nn.Parameter(torch.full((orders,), 1 / orders))
        elif self.options.order_weights == "per_node":
            self.order_first = nn.Parameter(torch.empty(num_classes, orders))
            self.order_second = nn.Parameter(torch.empty(orders, orders))
            nn.init.kaiming_normal_(self.order_first, mode="fan_out")
            nn.init.kaiming_normal_(self.order_second, mode="fan_out")
        if self.options.variant == "glognn++":
            self.diagonal = nn.Parameter(torch.full((num_classes,), 1 / num_classes))

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A model for a graph, with weights for each of its nodes unless ``delta`` is 1."""
        num_nodes = inputs.num_nodes
        return cls(inputs.num_features, inputs.num_classes, num_nodes=num_nodes, **options)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""
        operator = inputs.mean_operator(self_loops=True)
        hidden = relu_dropout(self._hidden(inputs, operator), self.options.dropout, at(key, 0))
        h = start = self.second(hidden)
        for _ in range(self.options.layers):
            h = self._round(operator, h, start)
        return h

    def _hidden(self, inputs: GraphInputs, operator: ConstantSparse) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        if self.nodes is not None:
            parts.append(self.nodes(operator))
        if self.features is not None:
            parts.append(self.features(inputs))
        return parts[0] if len(parts) == 1 else torch.lerp(*parts, weight=self.options.delta)

    def _round(
        self, operator: ConstantSparse, h: torch.Tensor, start: torch.Tensor
    ) -> torch.Tensor:
        """(1 - γ)·Z·H + γ·H₀, without Z."""
        alpha, beta, gamma = self.options.alpha, self.options.beta, self.options.gamma
        precise = h.double()
        gram = (1 - gamma) ** 2 * (precise.t() @ precise)
        identity = torch.eye(len(gram), dtype=gram.dtype, device=h.device)
        right = torch.cat([gram, (1 - gamma) * beta * identity], dim=1)
        # Where training diverges this gives NaN, which the training loop reports, not an error.
        solved = torch.linalg.solve_ex(gram + (alpha + beta) * identity, right).result
        near, far = solved.to(h.dtype).chunk(2, dim=1)
        if self.options.variant == "glognn++":
            near, far = self.diagonal[:, None] * near * self.diagonal, far * self.diagonal
        return (h - gamma * start) @ near + gamma * start + self._hops(operator, h, h @ far)

    def _hops(self, operator: ConstantSparse, h: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
        """Σ_k λ_k B^k · moved."""
        total = moved if self.options.order_weights == "equal" else torch.zeros_like(moved)
        weights = self._weights(h)
        for hop in range(self.options.orders):
            moved = operator @ moved
            total = total + (moved if weights is None else weights[:, hop : hop + 1] * moved)
        return total

    def _weights(self, h: torch.Tensor) -> torch.Tensor | None:
        """λ of every hop, [1 or n, orders]; None where all are 1."""
        if self.options.order_weights == "equal":
            return None
        if self.options.order_weights == "shared":
            return self.order_weights[None]
        return torch.relu(h @ self.order_first) @ self.order_second
