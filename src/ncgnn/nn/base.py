"""Refusing what does not fit into memory, before anything large is made.

Typed options of models, shared by Python, TOML and the command line.

What a model may tell the training loop about itself; everything here has a default.

A model is any module that is called as ``model(inputs, group, key, nodes)`` and gives logits. If it
has the methods of this protocol, the loop uses them:

``parameter_groups(weight_decay)``
    Groups of parameters for the optimiser, for parameters that are not decayed.
``extra_loss(train, labels)``
    Added to the cross-entropy of a training step, right after the forward pass of that step.
``phases(epochs, patience)``
    Stages of training one after another, each with a new optimiser; the last one counts, with the
    weights of its best epoch, unless it must beat the one before and does not. When a stage
    begins, ``begin_phase(number, inputs, train, labels)`` is called, in evaluation mode.
``computes_all``
    True if the model computes the logits of all nodes whatever it is asked for, so that one
    evaluation serves validation and new pseudo-labels.

The ``labels`` that are passed are those of the training nodes; a model must read no others, though
``inputs`` holds them. What a model keeps from one stage to the next must be a parameter or a
buffer, so that an interrupted run goes on from it.

What the models to compare with are made of.

What a model remembers between the passes of training, and no copy of it does.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Self, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from torch import nn

from ncgnn._memory import available_gib
from ncgnn._typed import Typed
from ncgnn.errors import InputError
from ncgnn.nn.functional import dropout, training_key
from ncgnn.nn.grouping import GroupingRule, Guidance, ThresholdKind
from ncgnn.nn.inputs import as_inputs, checked_nodes
from ncgnn.nn.products import Term, product
from ncgnn.nn.separated.channels import Separation
from ncgnn.sparse import ConstantSparse, gcn_normalize, row_normalize

if TYPE_CHECKING:
    from ncgnn.graph import GraphLike
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Constant, GraphInputs

Rate = Annotated[float, Field(ge=0, lt=1)]
Width = Annotated[int, Field(ge=1)]
OptionsKind = TypeVar("OptionsKind", bound="Options")


class Options(Typed):
    """Options of a model."""

    model_config = ConfigDict(validate_default=True)


#: What people call some options elsewhere.
_SHORT = {"lr": "learning_rate", "wd": "weight_decay", "epoch": "epochs", "num_layers": "layers"}


def complaint(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """What is wrong with the first field that is wrong, with the names of ``kind`` it may mean."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return no_such_option(field, [] if kind is None else list(kind.model_fields))
    message = str(first["msg"]).removeprefix("Value error, ")
    given = "" if isinstance(first.get("input"), dict) else f" (it is {first.get('input')!r})"
    return f"{field}: {message}{given}." if field else f"{message}."


def no_such_option(field: str, known: list[str]) -> str:
    """A complaint of an unknown option, with the one that is meant or all that there are."""
    name = field.rpartition(".")[2]
    close = difflib.get_close_matches(_SHORT.get(name, name).replace("-", "_"), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}."
    return f"{field}: there is no such option" + (f"; {hint}" if known else ".")


def checked(kind: type[OptionsKind], options: dict[str, Any], where: str = "") -> OptionsKind:
    """Options of a kind; the error names the first one that is wrong.

    Args:
        kind: What they are options of.
        options: The given ones.
        where: Put before the option's name in an error.
    """
    try:
        return kind(**options)
    except ValidationError as error:
        raise InputError(f"{where}{complaint(error, kind)}") from None


class SeparatedOptions(Options):
    """Options of NCGCN, NCSAGE and separated models with other backbones.

    Attributes:
        hidden: Width of both layers.
        separation: Which messages pass between groups; docs/training.md explains the modes.
        dropout: Rate after the first layer: one for all groups, or one per group, low NC first.
        readout_dropout: Rate before the last linear layer.
        self_loops: Whether every node is its own neighbour too.
        activation: Whether ReLU follows the second layer.
        hops: Size k of the neighbourhood in which NC is counted.
        threshold: NC above it is high; several ascending ones make more groups.
        threshold_kind: Whether a threshold is a value of NC or a quantile of it.
        guidance: Group by ``nc`` or, as the ablation, by ``nh``.
        known_labels: Whether training labels replace predictions when NC is estimated.
    """

    hidden: Width = 512
    separation: Separation = "renormalised"
    dropout: tuple[Rate, ...] = (0.5,)
    readout_dropout: Rate = 0.5
    self_loops: bool = True
    activation: bool = False
    hops: Annotated[int, Field(ge=1)] = 1
    threshold: tuple[Annotated[float, Field(ge=0, le=1)], ...] = (0.5,)
    threshold_kind: ThresholdKind = "value"
    guidance: Guidance = "nc"
    known_labels: bool = False

    @field_validator("threshold", "dropout", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _one_rate_per_group(self) -> Self:
        if not self.threshold or list(self.threshold) != sorted(set(self.threshold)):
            raise ValueError("threshold: one number, or several ascending ones, are wanted")
        groups = len(self.threshold) + 1
        if len(self.dropout) == 1:
            object.__setattr__(self, "dropout", self.dropout * groups)
        if len(self.dropout) != groups:
            raise ValueError(
                f"dropout: {len(self.dropout)} rates for {groups} groups; give one per group"
            )
        return self

    @property
    def rule(self) -> GroupingRule:
        """How nodes are grouped."""
        return GroupingRule(
            self.hops, self.threshold, self.guidance, self.threshold_kind, self.known_labels
        )


class PlainOptions(Options):
    """Options of models without separation.

    Attributes:
        hidden: Width of the hidden layer.
        dropout: Rate after the hidden layer.
    """

    hidden: Width = 512
    dropout: Rate = 0.5


class ConvolutionOptions(PlainOptions):
    """Options of plain message-passing models.

    Attributes:
        self_loops: Whether every node is its own neighbour too.
    """

    self_loops: bool = True


@dataclass(frozen=True)
class Phase:
    """One stage of training.

    Attributes:
        name: What records of its epochs call it.
        epochs: Upper limit of its number of epochs.
        patience: Epochs without a new best validation accuracy after which it ends.
        keeps_best: Whether the next stage begins with the weights of its best epoch, or with its
            last ones.
        beats_earlier: Whether an epoch of it counts only if it is better than the best one before
            it; if none is, that one counts in the end. What the model does in the best epoch's
            stage must then follow from its parameters and buffers.
    """

    name: str
    epochs: int
    patience: int
    keeps_best: bool = True
    beats_earlier: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1:
            raise InputError(
                f"the stage '{self.name}' needs at least one epoch and patience of one."
            )


def parameter_groups(model: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Groups of parameters for the optimiser; by default one, decayed alike."""
    declared = getattr(model, "parameter_groups", None)
    if declared is not None:
        return declared(weight_decay)
    return [{"params": list(model.parameters()), "weight_decay": weight_decay}]


def phases(model: Any, epochs: int, patience: int) -> tuple[Phase, ...]:
    """The stages of training; by default one."""
    declared = getattr(model, "phases", None)
    if declared is None:
        return (Phase("training", epochs, patience),)
    stages = tuple(declared(epochs, patience))
    if not stages:
        raise InputError("the model declares no stage of training; phases() must give one.")
    return stages


def counting(stages: tuple[Phase, ...]) -> set[str]:
    """Names of the stages among whose epochs the best one is."""
    names: set[str] = set()
    for stage in reversed(stages):
        names.add(stage.name)
        if not stage.beats_earlier:
            break
    return names


def begin_phase(
    model: Any, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
) -> None:
    """Tell a model that a stage begins."""
    declared = getattr(model, "begin_phase", None)
    if declared is not None:
        declared(number, inputs, train, labels)


def with_extra_loss(
    model: Any, loss: torch.Tensor, train: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The loss of a training step, with what the model adds to it."""
    declared = getattr(model, "extra_loss", None)
    return loss if declared is None else loss + declared(train, labels)


#: Rows that are shorter have no direction.
_SHORTEST = 1e-12


class Baseline(nn.Module, ABC):
    """A model without groups of nodes, which computes the logits of all nodes at once."""

    rule = None
    computes_all = True

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A model for a graph; those with weights for every node override it."""
        return cls(inputs.num_features, inputs.num_classes, **options)

    def forward(
        self,
        inputs: GraphInputs | GraphLike,
        group: torch.Tensor | None = None,
        key: DropoutKey | None = None,
        nodes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits of every node, or of the given ones, [n, classes]; ``group`` plays no part."""
        inputs = as_inputs(inputs, next(self.parameters()))
        logits = self.logits(inputs, training_key(self.training, key))
        if nodes is None:
            return logits
        return logits.index_select(0, checked_nodes(nodes, inputs.everyone))

    @abstractmethod
    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None."""


class FeatureLinear(nn.Module):
    """X·W + b for the features of a graph, sparse or dense, with dropout of the features.

    Args:
        num_features: Number of features.
        width: Number of columns of the result.
        bias: Whether there is a bias.
    """

    def __init__(self, num_features: int, width: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_features, width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch's ``Linear``: uniform within ±1/√(number of features)."""
        bound = max(1, self.weight.shape[0]) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self, inputs: GraphInputs, rate: float = 0.0, key: int | None = None
    ) -> torch.Tensor:
        """[n, width]; ``rate`` and ``key`` as :func:`ncgnn.nn._dropout.dropout` takes them."""
        total = product(Term(dropped_features(inputs, rate, key)), self.weight)
        return total if self.bias is None else total + self.bias


class NodeLinear(nn.Module):
    """A·W + b for an operator A of a graph, where W has a row for every node.

    Args:
        num_nodes: Number of nodes.
        width: Number of columns of the result.
    """

    def __init__(self, num_nodes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_nodes, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch's ``Linear``: uniform within ±1/√(number of nodes)."""
        bound = max(1, len(self.weight)) ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, operator: ConstantSparse) -> torch.Tensor:
        """[n, width]."""
        if operator.shape[1] != len(self.weight):
            raise InputError(
                f"the model has weights for the {len(self.weight)} nodes of its graph; "
                f"this graph has {operator.shape[1]}."
            )
        return operator @ self.weight + self.bias


def times(x: Constant, weight: torch.Tensor) -> torch.Tensor:
    """X·W for constant features or for the trained rows of a layer."""
    if isinstance(x, ConstantSparse) or not x.requires_grad:
        return product(Term(x), weight)
    return x @ weight


def dropped_features(inputs: GraphInputs, rate: float, key: int | None) -> Constant:
    """The features with some entries dropped; sparse ones stay sparse, as zeros stay zeros."""
    features = inputs.features
    if key is None or rate == 0:
        return features
    if isinstance(features, torch.Tensor):
        return dropout(features, rate, key)
    places = inputs.kept("places of the features' entries", lambda: _places(features))
    values = dropout(features.values[:, None], rate, key, places).flatten()
    return ConstantSparse(features.pattern, values)


def _places(matrix: ConstantSparse) -> torch.Tensor:
    pattern = matrix.pattern
    return pattern.row.to(torch.int64) * matrix.shape[1] + pattern.col.to(torch.int64)


def gcn_operator(
    inputs: GraphInputs, *, self_loops: bool = True, undirected: bool = False
) -> ConstantSparse:
    """D^-½ A D^-½ of the graph, made once; degrees are sums of rows, that is of incoming edges."""

    def make() -> ConstantSparse:
        adjacency = inputs.undirected_adjacency if undirected else inputs.adjacency
        return gcn_normalize(adjacency, self_loops=self_loops)

    undirected = undirected and inputs.undirected_adjacency is not inputs.adjacency
    return inputs.kept(("gcn", self_loops, undirected), make)


def mean_operator(
    inputs: GraphInputs, *, self_loops: bool = False, undirected: bool = False
) -> ConstantSparse:
    """D^-1 A of the graph, made once: the mean over the sources of incoming edges."""

    def make() -> ConstantSparse:
        adjacency = inputs.undirected_adjacency if undirected else inputs.adjacency
        return row_normalize(adjacency, self_loops=self_loops)

    undirected = undirected and inputs.undirected_adjacency is not inputs.adjacency
    return inputs.kept(("mean", self_loops, undirected), make)


def at(key: DropoutKey | None, place: int) -> int | None:
    """The key of one place in the model, where anything is dropped at all."""
    return None if key is None else key.at(place)


def unit_rows(x: torch.Tensor) -> torch.Tensor:
    """Rows divided by their Euclidean length; those that have next to none stay as they are."""
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / length.masked_fill(length < _SHORTEST, 1)


_Kept = TypeVar("_Kept")


class NotCopied:
    """Something that is new and empty in every copy or pickle of the model that it belongs to."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class LastPass(NotCopied, Generic[_Kept]):
    """What ``extra_loss`` needs of the training pass before it, until it takes it.

    A training pass is one with a key of dropout and with gradients. Other passes, such as those of
    an evaluation, leave what is kept as it is.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def keep(self, key: DropoutKey | None, kept: _Kept) -> None:
        """Keep what a pass with this key has computed, if it is one of training."""
        if key is not None and torch.is_grad_enabled():
            self._kept = kept

    def take(self) -> _Kept:
        """What is kept, which is forgotten then.

        Raises:
            InputError: There was no training pass since it was last taken.
        """
        kept, self._kept = self._kept, None
        if kept is None:
            raise InputError("extra_loss: it needs a training pass of the model right before it.")
        return kept


GIB = 2**30


def free_gib(device: torch.device) -> float:
    """GiB that are free now, where the tensors go."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / GIB
    return available_gib()


def refuse_beyond(limit: float | None, there: float, needed: float, found: str, less: str) -> None:
    """Complain if more memory is needed than may be used.

    Args:
        limit: GiB that the user allows; None = all that is there.
        there: GiB that are there.
        needed: GiB that are needed.
        found: What was found in the graph and what needs the memory, up to the word "needs".
        less: What would need less.
    """
    most = there if limit is None else limit
    if needed > most:
        raise InputError(
            f"{found} needs about {_gib(needed)}, and {_gib(most)} are "
            f"{'available' if limit is None else 'allowed'}. Use {less}, another model or a "
            "machine with more memory; memory_limit sets how many GiB are allowed."
        )


def _gib(amount: float) -> str:
    """GiB in words, with a digit that says something of small amounts too."""
    return f"{amount:.1f} GiB" if amount >= 0.1 else f"{amount:.2g} GiB"
