"""Polynomial filters of the graph: SGC on features; APPNP, GPRGNN and BernNet on logits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import nn

from ncgnn.nn.base import Model, ModelOptions, PlainOptions, Rate, parse_options
from ncgnn.nn.functional import at, dropout, relu_dropout
from ncgnn.nn.layers import FeatureLinear, Term, product
from ncgnn.sparse import weighted_matmul

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import ConstantSparse


class SGCOptions(ModelOptions):
    """Options of SGC, which has no hidden layer and drops nothing."""

    steps: Annotated[int, Field(ge=0)] = 2
    """Power K of the operator."""


class SGC(Model):
    r"""Simple graph convolution (https://arxiv.org/abs/1902.07153): one linear layer.

    .. math:: \mathrm{logits} = S^K X W + b, \quad S = (D+I)^{-1/2} (A+I) (D+I)^{-1/2}

    over incoming edges. S is applied to the features once for all epochs, as often as this makes
    them cheaper to multiply by; what remains of its K applications follows after the weights,
    where it costs nodes × classes only. Both give the same logits. What S was applied to is kept
    with the graph, for the latest K alone.
    """

    paper = "Wu et al., Simplifying Graph Convolutional Networks, ICML 2019, arXiv:1902.07153"
    family = "spectral"
    memory = "nodes × features"
    uses_weights = True
    Options = SGCOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.steps = parse_options(self.Options, options).steps
        self.reach = self.steps + 1
        self.linear = FeatureLinear(num_features, num_classes)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; ``key`` plays no part."""
        operator = inputs.gcn_operator()
        constant, left = inputs.propagate(operator, steps=self.steps)
        total = product(Term(constant), self.linear.weight)
        for _ in range(left):
            total = operator @ total
        return total if self.linear.bias is None else total + self.linear.bias


class PerceptronOptions(PlainOptions):
    """Options of filtered perceptrons."""

    dropout: Rate = 0.5
    """Rate of the features and after the hidden layer."""


class FilteredPerceptron(Model):
    """H = drop(ReLU(drop(X)·W₁ + b₁))·W₂ + b₂, which subclasses filter.

    Attributes:
        undecayed: Name of the parameter or layer that gets no weight decay.
    """

    family = "spectral"
    uses_weights = True
    Options = PerceptronOptions
    undecayed: ClassVar[str]

    def __init__(
        self, num_features: int, num_classes: int, options: PerceptronOptions, bias: bool = True
    ) -> None:
        super().__init__()
        self.dropout = options.dropout
        self.first = FeatureLinear(num_features, options.hidden, bias=bias)
        self.second = nn.Linear(options.hidden, num_classes, bias=bias)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """One group with weight decay and one without."""
        groups: list[dict[str, Any]] = [
            {"params": [], "weight_decay": weight_decay},
            {"params": [], "weight_decay": 0.0},
        ]
        for name, parameter in self.named_parameters():
            groups[name.startswith(self.undecayed)]["params"].append(parameter)
        return groups

    def unfiltered(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """H of every node, with dropout at places 0 and 1."""
        hidden = self.first(inputs, self.dropout, at(key, 0))
        return self.second(relu_dropout(hidden, self.dropout, at(key, 1)))


class APPNPOptions(PerceptronOptions):
    """Options of APPNP."""

    edge_dropout: Rate = 0.5
    """Rate of the operator's entries, drawn anew for every step."""
    steps: Annotated[int, Field(ge=0)] = 10
    """Number K of propagation steps."""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Teleport probability."""
    bias: bool = False
    """Whether the two linear layers have biases."""


class APPNP(FilteredPerceptron):
    r"""A perceptron's logits, spread by personalized PageRank (https://arxiv.org/abs/1810.05997).

    .. math::

        Z_0 = \mathrm{drop}(\mathrm{ReLU}(\mathrm{drop}(X) W_1)) W_2, \quad
        Z_{k+1} = (1-\alpha)\, \mathrm{drop}(\hat{A})\, Z_k + \alpha Z_0, \quad
        \mathrm{logits} = Z_K

    with the self-looped Â = (D+I)^-½ (A+I) (D+I)^-½ over incoming edges. As in the authors' code,
    there are no biases, entries of Â are dropped in training, and weight decay is for the first
    layer alone. Only arrays of nodes × classes are propagated.
    """

    paper = "Gasteiger et al., Predict then Propagate, ICLR 2019, arXiv:1810.05997"
    Options = APPNPOptions
    undecayed = "second"

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__(num_features, num_classes, chosen, chosen.bias)
        self.edge_dropout, self.steps, self.alpha = chosen.edge_dropout, chosen.steps, chosen.alpha
        self.reach = chosen.steps + 1

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        operator = inputs.gcn_operator()
        current = start = self.unfiltered(inputs, key)
        for step in range(self.steps):
            if key is None or self.edge_dropout == 0:
                spread = operator @ current
            else:
                place = key.at(2 + step)
                values = dropout(operator.values[:, None], self.edge_dropout, place)[:, 0]
                spread = weighted_matmul(operator.pattern, values, current)
            current = (1 - self.alpha) * spread + self.alpha * start
        return current


class GPRGNNOptions(PerceptronOptions):
    """Options of GPRGNN."""

    propagation_dropout: Rate = 0.5
    """Rate of what is propagated."""
    steps: Annotated[int, Field(ge=0)] = 10
    """Highest power K of the operator."""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Teleport probability of the PageRank that the coefficients start as."""


class GPRGNN(FilteredPerceptron):
    r"""Generalized PageRank of a perceptron's logits (https://arxiv.org/abs/2006.07988).

    .. math::

        Z = \sum_{k=0}^{K} \gamma_k \hat{A}^k H, \quad
        H = \mathrm{drop}(\mathrm{drop}(\mathrm{ReLU}(\mathrm{drop}(X) W_1 + b_1)) W_2 + b_2)

    with the self-looped Â = (D+I)^-½ (A+I) (D+I)^-½ over incoming edges. The coefficients γ are
    trained without bounds and without weight decay, as the authors' code does; they start as
    personalized PageRank, γ_k = α(1-α)^k and γ_K = (1-α)^K. The default of α is that of the
    separated-learning paper; the authors' code has 0.1, and they tune it.
    """

    paper = (
        "Chien et al., Adaptive Universal Generalized PageRank Graph Neural Network, ICLR "
        "2021, arXiv:2006.07988"
    )
    Options = GPRGNNOptions
    undecayed = "gamma"

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__(num_features, num_classes, chosen)
        self.propagation_dropout = chosen.propagation_dropout
        self.gamma = nn.Parameter(truncate_page_rank(chosen.alpha, chosen.steps))
        self.reach = chosen.steps + 1

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        power = dropout(self.unfiltered(inputs, key), self.propagation_dropout, at(key, 2))
        total = self.gamma[0] * power
        for gamma in self.gamma[1:]:
            power = inputs.gcn_operator() @ power
            total = total + gamma * power
        return total


def truncate_page_rank(alpha: float, steps: int) -> torch.Tensor:
    """Coefficients of personalized PageRank that is cut off after some steps; they sum to 1."""
    gamma = [alpha * (1 - alpha) ** k for k in range(steps)]
    return torch.tensor([*gamma, (1 - alpha) ** steps])


class BernNetOptions(PerceptronOptions):
    """Options of BernNet."""

    propagation_dropout: Rate = 0.5
    """Rate of what is propagated."""
    degree: Annotated[int, Field(ge=1, le=20)] = 10
    """Degree K of the filter, at most 20."""


class BernNet(FilteredPerceptron):
    """A filter in the Bernstein basis on the logits of a perceptron (arXiv:2106.10994).

    H = drop(drop(ReLU(drop(X)·W₁ + b₁))·W₂ + b₂), at the rates ``dropout``, ``dropout`` and
    ``propagation_dropout`` from the inside out, and

    logits = Σ_k ReLU(θ_k) · C(K, k) / 2^K · (2I - L)^(K-k) · L^k · H,   k = 0 … K,

    with the Laplacian L = I - D^-½ A D^-½ of the graph without self-loops. The basis is one of
    filters on the spectrum of an undirected graph, so every edge counts in both directions. All θ
    are 1 at first, which is the filter that changes nothing, and are not decayed. The released code
    can give θ a learning rate of its own; by default it is that of all parameters, as here.

    The sum takes 2K products with A on n × classes numbers, not the K(K + 3)/2 of the direct form;
    see :func:`apply_bernstein`.
    """

    paper = (
        "He et al., BernNet: Learning Arbitrary Graph Spectral Filters via Bernstein "
        "Approximation, NeurIPS 2021, arXiv:2106.10994"
    )
    memory = "degree × nodes × classes"
    edges = "both"
    Options = BernNetOptions
    undecayed = "theta"

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = parse_options(self.Options, options)
        super().__init__(num_features, num_classes, chosen)
        self.propagation_dropout = chosen.propagation_dropout
        self.theta = nn.Parameter(torch.ones(chosen.degree + 1))
        self.reach = chosen.degree + 1

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node."""
        h = dropout(self.unfiltered(inputs, key), self.propagation_dropout, at(key, 2))
        operator = inputs.gcn_operator(self_loops=False, undirected=True)
        return apply_bernstein(operator, torch.relu(self.theta), h)


def apply_bernstein(operator: ConstantSparse, theta: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Σ_k θ_k · C(K, k) · N^(K-k) · M^k · h, with M = L/2, N = I - M and L = I - operator.

    M and N commute, so partial sums follow from one another: with z_k = M^k·h and s_0 = θ_0·h,
    s_k = N·s_(k-1) + θ_k · C(K, k) · z_k, and s_K is the result. z and s go side by side through
    one product per step. Halves keep the spectrum of M and N within [0, 1].

    Errors of rounding grow with K: in single precision they were 3e-7 of the result for K = 10 and
    2e-5 for K = 20 on a small graph, where those of the direct form were 2e-6 and 4e-5.
    """
    degree = len(theta) - 1
    z, s = h, theta[0] * h
    for k in range(1, degree + 1):
        moved_z, moved_s = (operator @ torch.cat([z, s], dim=1)).chunk(2, dim=1)
        z = (z - moved_z) / 2
        s = torch.addcmul((s + moved_s) / 2, theta[k] * math.comb(degree, k), z)
    return s
