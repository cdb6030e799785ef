"""HOG-GCN: propagation by a trained degree of homophily between nodes within two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import torch
from pydantic import Field
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from ncgnn.errors import InputError
from ncgnn.metrics import HopSearch
from ncgnn.nn.base import (
    GIB,
    LastPass,
    Model,
    Phase,
    PlainOptions,
    Width,
    free_gib,
    parse_options,
    refuse_beyond,
)
from ncgnn.nn.functional import at, relu_dropout
from ncgnn.nn.layers import FeatureLinear
from ncgnn.sparse import (
    ConstantSparse,
    add_self_loops,
    gather_rows,
    row_sum,
    sampled_dot,
    weighted_matmul,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.sparse import SparsePattern

# Floats and indices per pair of nodes, from measured peaks. Training: two weights with gradients,
# moments and best values, what a step keeps for its gradients, and a checkpoint being written,
# which takes as much as all weights twice. Prediction: the walks, two weights, the same two as they
# are read from a file, and what a forward pass computes. Model: the walks and two weights.
_PER_PAIR = {"training": (54, 3), "prediction": (10, 2), "model": (3, 1)}
_PERCEPTRON, _ALL = 0, 1


class HOGOptions(PlainOptions):
    """Options of HOG-GCN."""

    hidden2: Width = 256
    """Width of the second layer, and of the perceptron."""
    attribute_weight: float = 0.4
    """Weight of the similarity of predictions in the degree of homophily."""
    structure_weight: float = 1.0
    """Weight of the trained masks of walks in it."""
    pretraining: Annotated[int, Field(ge=1)] = 10
    """Number of epochs in which the perceptron is trained alone."""
    perceptron_weight_decay: Annotated[float, Field(ge=0)] = 0.02
    """L2 penalty of the perceptron, whatever that of the rest is."""
    memory_limit: Annotated[float, Field(gt=0)] | None = None
    """GiB that the model may take, in training or without; by default what is available now."""


class HOG(Model):
    """HOG-GCN: propagation by a trained degree of homophily between nodes (Wang et al., AAAI 2022).

    With S = (A + I)² (numbers of walks), predictions Q = softmax(P) of a linear perceptron
    P = (X·U₁ + c₁)·U₂ + c₂ and, in each of two layers, a trained mask K that starts as A + I,

        T = S⊙K with rows divided by the sums of their absolute values,
        H = 0.4·Q·Qᵀ + 1.0·T,
        out = x·W_own + ω·N·(S⊙H)·(x·W_other) + b,

    where N divides rows by their sums and gets no gradient. ReLU and dropout follow the first
    layer, a linear layer gives the logits. Y holds the perceptron's guess of every node's class
    after its own training of 10 updates, and stays. The loss is the sum of the cross-entropies of
    the logits, of P, and of T·Y of the second layer. The perceptron has a weight decay of its own.

    Everything n × n is multiplied by S entry by entry, so that only pairs of nodes at most two
    steps apart are stored: K has one weight for each. That is the same as the dense form, but may
    still be much. A graph for which memory does not suffice is refused: by :meth:`for_inputs` if
    not even predictions are possible, before any of it is made, and when training begins if that
    takes too much. As weights belong to pairs, the model belongs to one graph.

    Training takes ``pretraining`` epochs of the perceptron and then at most ``epochs`` more. All
    is as the authors released it, except for these decisions:

    * The thresholds r and r₂ of the paper have no effect in the released code; what counts there
      is 0.4 and 1.0 (``attribute_weight``, ``structure_weight``).
    * The released widths are 768 and 256; here ``hidden`` is 512 as for all models, and ``hidden2``
      256. The perceptron is ``hidden2`` wide, as released.
    * The optimizer begins anew with the second stage; the authors' keeps the moments of the
      perceptron.
    * Y comes from the perceptron after all of its 10 updates; the authors' after 9 of them.
    * Validation is without dropout; the released code scores the output of the training step.
    * Edges count in both directions. Weights start as in torch's ``Linear``, ω in (½, 1).

    Args:
        mask: First value of the masks, one entry per pair of nodes at most two steps apart;
            :meth:`for_inputs` makes it.
        num_nodes: Number of nodes.
    """

    title = "HOG-GCN"
    paper = (
        "Wang et al., Powerful Graph Convolutional Networks with Adaptive Propagation "
        "Mechanism for Homophily and Heterophily, AAAI 2022"
    )
    family = "global"
    memory = "two-hop pairs × 50"
    edges = "both"
    Options = HOGOptions
    tied_to = "every pair of nodes at most two steps apart"

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        mask: torch.Tensor,
        num_nodes: int,
        **options: Any,
    ) -> None:
        super().__init__()
        self.options = parse_options(self.Options, options)
        hidden, hidden2 = self.options.hidden, self.options.hidden2
        self.perceptron = nn.ModuleList(
            [FeatureLinear(num_features, hidden2), nn.Linear(hidden2, num_classes)]
        )
        self.own = nn.ModuleList([FeatureLinear(num_features, hidden), nn.Linear(hidden, hidden2)])
        self.other = nn.ModuleList(
            [
                FeatureLinear(num_features, hidden, bias=False),
                nn.Linear(hidden, hidden2, bias=False),
            ]
        )
        self.masks = nn.ParameterList([nn.Parameter(mask.clone()) for _ in range(2)])
        self.omega = nn.Parameter(torch.empty(2).uniform_(0.5, 1.0))
        self.readout = nn.Linear(hidden2, num_classes)
        # -1 until the perceptron has made a guess.
        self.register_buffer("guess", torch.full((num_nodes,), -1, dtype=torch.int64))
        # A model outside of training is one of the last stage.
        self.register_buffer("stage", torch.tensor(_ALL))
        self.guess: torch.Tensor
        self.stage: torch.Tensor
        self._last: LastPass[tuple[torch.Tensor, SparsePattern, torch.Tensor]] = LastPass()

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A model with masks for the pairs of a graph.

        Raises:
            InputError: It would need more memory than there is, even without training.
        """
        check_memory(inputs, parse_options(cls.Options, options).memory_limit, training=False)
        own = {"mask": mark_neighbors(inputs), "num_nodes": inputs.num_nodes}
        return cls(inputs.num_features, inputs.num_classes, **own, **options)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Of the perceptron in the first stage, of the whole model otherwise."""
        self._check_graph(inputs)
        perceptron = self.predictions(inputs)
        if int(self.stage) == _PERCEPTRON:
            return perceptron
        walks = count_walks(inputs)
        predicted = torch.softmax(perceptron, 1)
        weighted = self.options.attribute_weight * predicted
        alike = walks.values * sampled_dot(walks.pattern, weighted, predicted)
        hidden = self._layer(0, inputs, walks, alike, _normalize_walks(walks, self.masks[0]))
        hidden = relu_dropout(hidden, self.options.dropout, at(key, 0))
        shares = _normalize_walks(walks, self.masks[1])
        self._last.keep(key, (perceptron, walks.pattern, shares))
        return self.readout(self._layer(1, hidden, walks, alike, shares))

    def predictions(self, inputs: GraphInputs) -> torch.Tensor:
        """P, the logits of the perceptron."""
        return self.perceptron[1](self.perceptron[0](inputs))

    def _check_graph(self, inputs: GraphInputs) -> None:
        pairs = "pairs of nodes at most two steps apart"
        for what, own, there in (
            ("nodes", len(self.guess), inputs.num_nodes),
            (pairs, len(self.masks[0]), int(count_pairs(inputs).sum())),
        ):
            if own != there:
                raise InputError(
                    f"the model has weights for the {own} {what} of its graph; "
                    f"this graph has {there}."
                )

    def _layer(
        self,
        number: int,
        x: GraphInputs | torch.Tensor,
        walks: ConstantSparse,
        alike: torch.Tensor,
        shares: torch.Tensor,
    ) -> torch.Tensor:
        """x·W_own + ω·N·(S⊙H)·(x·W_other) + b, where S⊙H = ``alike`` + S⊙T."""
        degrees = alike + walks.values * (self.options.structure_weight * shares)
        sums = row_sum(walks.pattern, degrees.detach())
        inverse = sums.reciprocal().masked_fill(sums == 0, 0)
        mixed = weighted_matmul(walks.pattern, degrees, self.other[number](x))
        return self.own[number](x) + self.omega[number] * inverse[:, None] * mixed

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """The perceptron is decayed more."""
        own = list(self.perceptron.parameters())
        rest = [p for name, p in self.named_parameters() if not name.startswith("perceptron.")]
        return [
            {"params": own, "weight_decay": self.options.perceptron_weight_decay},
            {"params": rest, "weight_decay": weight_decay},
        ]

    def phases(self, epochs: int, patience: int) -> tuple[Phase, ...]:
        """A few steps of the perceptron, then everything."""
        steps = self.options.pretraining
        first = Phase("perceptron", steps, steps, keeps_best=False)
        return first, Phase("training", epochs, patience)

    @torch.no_grad()
    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """The second stage begins with the perceptron's guess of all classes, which stays.

        Raises:
            InputError: Training would need more memory than there is.
        """
        if number == _PERCEPTRON:
            check_memory(inputs, self.options.memory_limit, training=True)
        self.stage.fill_(number)
        if number == _ALL:
            self.guess.copy_(self.predictions(inputs).argmax(1))

    def extra_loss(self, train: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The cross-entropies of the perceptron and of the guesses around each node.

        Raises:
            InputError: There are no guesses, as :meth:`begin_phase` was not called for this stage.
        """
        if int(self.stage) == _PERCEPTRON:
            return self.omega.new_zeros(())
        perceptron, pattern, shares = self._last.take()
        if int(self.guess.min()) < 0:
            raise InputError(
                "extra_loss: it needs the perceptron's guesses, which begin_phase(1, ...) makes."
            )
        guess = one_hot(self.guess, perceptron.shape[1]).to(shares.dtype)
        spread = weighted_matmul(pattern, shares, guess)
        return cross_entropy(perceptron[train], labels) + cross_entropy(spread[train], labels)


def _normalize_walks(walks: ConstantSparse, mask: torch.Tensor) -> torch.Tensor:
    """T: masked walks, with rows divided by the sums of their absolute values."""
    masked = walks.values * mask
    sums = row_sum(walks.pattern, masked.abs()).clamp_min(1e-12)
    return masked * gather_rows(walks.pattern, sums.reciprocal())


def count_pairs(inputs: GraphInputs) -> NDArray[np.int64]:
    """How many nodes are at most two steps away from each, itself included."""

    def count() -> NDArray[np.int64]:
        pattern = inputs.undirected_adjacency.pattern
        return HopSearch(pattern.crow.cpu().numpy(), pattern.col.cpu().numpy(), 2).sizes()

    return inputs.kept("nodes within two steps", count)


def count_walks(inputs: GraphInputs) -> ConstantSparse:
    """S = (A + I)², the numbers of walks of two steps, made once."""

    def make() -> ConstantSparse:
        looped = add_self_loops(inputs.undirected_adjacency).to_scipy()
        walks = looped @ looped
        walks.sort_indices()
        return ConstantSparse.from_scipy(walks).to(inputs.device)

    return inputs.kept("walks of two steps", make)


def mark_neighbors(inputs: GraphInputs) -> torch.Tensor:
    """A + I at the entries of :func:`count_walks`: 1 for neighbors and oneself, otherwise 0."""
    pairs, near = count_walks(inputs).pattern, add_self_loops(inputs.undirected_adjacency).pattern
    entries = torch.zeros(pairs.nnz, dtype=inputs.dtype, device=inputs.device)
    entries[torch.searchsorted(_places(pairs), _places(near))] = 1
    return entries


def _places(pattern: SparsePattern) -> torch.Tensor:
    """Ascending numbers of the entries in a matrix whose rows are written one after another."""
    nodes = torch.arange(pattern.shape[0], device=pattern.device)
    return torch.repeat_interleave(nodes * pattern.shape[1], pattern.row_counts) + pattern.col


def estimate_memory(
    pairs: int,
    bytes_per_float: int = 4,
    use: Literal["training", "prediction", "model"] = "training",
) -> float:
    """GiB that two weights per pair of nodes take; all else is small beside it."""
    floats, indices = _PER_PAIR[use]
    bytes_per_index = 4 if pairs < 2**31 else 8
    return pairs * (floats * bytes_per_float + indices * bytes_per_index) / GIB


def check_memory(inputs: GraphInputs, limit: float | None = None, *, training: bool) -> None:
    """Refuse a graph with too many pairs of nodes at most two steps apart.

    Args:
        inputs: The graph.
        limit: GiB that may be used; None = what is available now.
        training: Whether the model, which is there already, is to be trained; otherwise it is still
            to be made, and will only predict.
    """
    pairs, size = int(count_pairs(inputs).sum()), inputs.dtype.itemsize
    found = f"there are {pairs:,} pairs of nodes at most two steps apart, with two weights each; "
    there = free_gib(inputs.device)
    if training:
        there += estimate_memory(pairs, size, "model")
        needed, found = estimate_memory(pairs, size), found + "training"
    else:
        needed, found = estimate_memory(pairs, size, "prediction"), found + "the model"
    refuse_beyond(limit, there, needed, found, "a smaller graph")
