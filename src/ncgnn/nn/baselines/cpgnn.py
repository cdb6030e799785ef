"""CPGNN: beliefs propagated with a trained compatibility of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from ncgnn.nn.base import LastPass, Model, Phase, PlainOptions, Rate, Width, parse_options
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import Term, product

if TYPE_CHECKING:
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import ConstantSparse


_PRIOR, _BELIEFS = 0, 1


class CPGNNOptions(PlainOptions):
    """Options of CPGNN."""

    hidden: Width = 512
    """Width of the prior's hidden layer."""
    dropout: Rate = 0.0
    """Rate after that layer; the authors' model has none."""
    steps: Annotated[int, Field(ge=1)] = 1
    """How often beliefs are propagated."""
    pretraining: Annotated[int, Field(ge=1)] = 400
    """Upper limit of the number of epochs in which the prior is trained alone; it is never above
    the number of epochs of the second stage.
    """
    row_penalty: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the penalty on sums of rows of the compatibility matrix."""
    cotraining: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the prior's own cross-entropy in the second stage."""
    alone: bool = False
    """Whether the second stage counts whatever the first one reached."""


class CPGNN(Model):
    """Compatibility-guided propagation, CPGNN-Cheby-1 (https://arxiv.org/abs/2009.13566).

    With Ã = D^-½AD^-½, T₀ = I, T₁ = -Ã and T₂ = 2Ã² - I, a Chebyshev network without biases gives

        R = Σₖ Tₖ·ReLU(Σₘ Tₘ·X·Wₘ)·Vₖ,

    whose beliefs are propagated with a trained compatibility H̄ of classes, ``steps`` times:

        E = softmax(R) - 1/C,    B ← E + A·B·H̄ from B = E,    logits = B + 1/C.

    A is the adjacency with ones, not normalized. Edges count in both directions.

    The first stage of training is that of R alone. From its best epoch H̄ gets its first value: row
    c is the mean of D^-1·A·Y over the training nodes of class c, where Y holds training labels and
    elsewhere softmax(R); rows of classes without such nodes come from the columns (1/C where these
    lack too); then Sinkhorn–Knopp, the mean with the transpose, and 1/C less. The second stage
    trains everything on the logits above, with ``row_penalty``·‖H̄·1‖₁ as a further loss.

    Training takes at most ``pretraining`` + ``epochs`` epochs, and each stage may end earlier, by
    patience.

    The best epoch of the second stage must beat that of the first, as in the released code, where
    the reported score may be one without any propagation; with ``alone`` the second stage stands
    for itself.

    As the authors released it, except for these decisions:

    * The paper's term η·CE(R) of the second stage is ``cotraining``, 0 by default: the function
      that the released code calls for it returns only the L2 penalty.
    * The first stage ends by patience too, which the authors do not have: they train the prior for
      400 epochs and then everything up to epoch 2000.
    * Training nodes without neighbors add zeros to the mean of their class. A class that has no
      others has a row of zeros then, and counts as one without training nodes.
    * T₂ is never formed: Σₘ TₘXWₘ = X(W₀ - W₂) - Ã(XW₁ - 2Ã(XW₂)), which is the same.
    * ``weight_decay`` of the optimizer is twice the authors' factor of ‖W‖²; H̄ is not decayed.
    * Weights start as Glorot's uniform ones, H̄ as 0 until its stage begins.
    """

    title = "CPGNN (Cheby-1)"
    paper = "Zhu et al., Graph Neural Networks with Heterophily, AAAI 2021, arXiv:2009.13566"
    family = "spectral"
    edges = "both"
    uses_weights = True
    Options = CPGNNOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        hidden = self.options.hidden
        self.first = _make_kernels(num_features, hidden)
        self.second = _make_kernels(hidden, num_classes)
        self.compatibility = nn.Parameter(torch.zeros(num_classes, num_classes))
        # A model outside of training is one of the last stage.
        self.register_buffer("stage", torch.tensor(_BELIEFS))
        self.stage: torch.Tensor
        self._prior: LastPass[torch.Tensor] = LastPass()
        # Two layers of T₂, the degrees of the farthest nodes, and the beliefs' own steps.
        self.reach = 5 + self.options.steps

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Of the prior in the first stage, of propagated beliefs otherwise."""
        prior = self.prior(inputs, key)
        if int(self.stage) == _PRIOR:
            return prior
        if self.options.cotraining:
            self._prior.keep(key, prior)
        even = 1 / prior.shape[1]
        first = beliefs = torch.softmax(prior, 1) - even
        (adjacency,) = inputs.messages("both")
        for _ in range(self.options.steps):
            beliefs = first + adjacency @ (beliefs @ self.compatibility)
        return beliefs + even

    def prior(self, inputs: GraphInputs, key: DropoutKey | None = None) -> torch.Tensor:
        """R, the logits of the Chebyshev network."""
        operator = inputs.gcn_operator(self_loops=False, undirected=True)
        features = Term(inputs.features)
        hidden = _apply_chebyshev(operator, *(product(features, w) for w in self.first))
        hidden = relu_dropout(hidden, self.options.dropout, at(key, 0))
        return _apply_chebyshev(operator, *(hidden @ w for w in self.second))

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """The compatibility is not decayed."""
        kernels = [*self.first, *self.second]
        return [
            {"params": kernels, "weight_decay": weight_decay},
            {"params": [self.compatibility], "weight_decay": 0.0},
        ]

    def phases(self, epochs: int, patience: int) -> tuple[Phase, ...]:
        """The prior alone, then everything."""
        pretraining = min(epochs, self.options.pretraining)
        beliefs = Phase("beliefs", epochs, patience, beats_earlier=not self.options.alone)
        return Phase("prior", pretraining, patience), beliefs

    @torch.no_grad()
    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """The second stage begins with the compatibility that the first one's beliefs show."""
        self.stage.fill_(number)
        if number == _BELIEFS:
            beliefs = torch.softmax(self.prior(inputs), 1)
            self.compatibility.copy_(_estimate_compatibility(inputs, beliefs, train, labels))

    def extra_loss(self, train: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The penalty of rows that do not sum to 0, and the prior's own loss where wanted."""
        if int(self.stage) == _PRIOR:
            return self.compatibility.new_zeros(())
        loss = self.options.row_penalty * self.compatibility.sum(1).abs().sum()
        if not self.options.cotraining:
            return loss
        prior = self._prior.take()
        return loss + self.options.cotraining * cross_entropy(prior[train], labels)


def _make_kernels(inputs: int, outputs: int) -> nn.ParameterList:
    """One weight for each of T₀, T₁ and T₂."""
    weights = [nn.Parameter(torch.empty(inputs, outputs)) for _ in range(3)]
    for weight in weights:
        nn.init.xavier_uniform_(weight)
    return nn.ParameterList(weights)


def _apply_chebyshev(
    operator: ConstantSparse, zeroth: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> torch.Tensor:
    """Σₖ Tₖ·Zₖ in two propagations."""
    return zeroth - second - operator @ (first - 2 * (operator @ second))


def _estimate_compatibility(
    inputs: GraphInputs, beliefs: torch.Tensor, train: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """H̄ as training labels and the beliefs of all other nodes show it, [C, C]."""
    classes = beliefs.shape[1]
    known = one_hot(labels, classes).to(beliefs.dtype)
    around = inputs.mean_operator(undirected=True) @ beliefs.index_copy(0, train, known)
    rows = known.t().double() @ around[train].double()
    counts = known.sum(0).double().clamp_min(1)
    matrix = make_doubly_stochastic(fill_missing_rows(rows / counts[:, None]))
    return ((matrix + matrix.t()) / 2 - 1 / classes).to(beliefs.dtype)


def make_doubly_stochastic(
    matrix: torch.Tensor, iterations: int = 3000, tolerance: float = 1e-9
) -> torch.Tensor:
    """Scale columns and rows in turn until all of them sum to 1 (Sinkhorn and Knopp).

    Rows are scaled last, so that they sum to 1 whatever happens. Zeros stay zeros, and where they
    leave no way to do it, columns do not: entries for which there is no way tend to 0, the others
    to fixed values, and that is the result, as soon as it no longer changes. A column or row of
    zeros stays as it is.

    Args:
        matrix: Entries that are not negative [C, C].
        iterations: Upper limit of the number of turns.
        tolerance: How far from 1 the sums of columns may be.
    """
    number = torch.finfo(matrix.dtype)
    for _ in range(iterations):
        before = matrix
        matrix = matrix / matrix.sum(0).clamp_min(number.tiny)
        matrix = matrix / matrix.sum(1, keepdim=True).clamp_min(number.tiny)
        done = (matrix.sum(0) - 1).abs().max() < tolerance
        if bool(done | ((matrix - before).abs().max() <= 4 * number.eps)):
            break
    return matrix


def fill_missing_rows(matrix: torch.Tensor) -> torch.Tensor:
    """Fill rows of zeros from the columns, and with 1/C where both lack."""
    missing = matrix.sum(1) == 0
    unknown = missing[:, None] & missing
    filled = torch.where(missing[:, None], matrix.t(), matrix)
    return torch.where(unknown, 1 / len(matrix), filled)
