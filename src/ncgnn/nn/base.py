"""What every model is: its base class, its options, its stages of training, its memory."""

from __future__ import annotations

import difflib
import inspect
import warnings
from dataclasses import dataclass
from itertools import chain
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    get_type_hints,
)

import torch
from pydantic import BaseModel, Field, ValidationError, create_model
from torch import nn

from ncgnn._memory import available_gib
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.nn.functional import DropoutKey
from ncgnn.nn.inputs import Direction, as_inputs, as_nodes
from ncgnn.options import AddedLater, Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.nn.grouping import GroupingRule
    from ncgnn.nn.inputs import GraphInputs

#: What a model sees of a directed edge.
Edges: TypeAlias = Literal["incoming", "both", "none"]
Family: TypeAlias = Literal[
    "separated", "features", "spatial", "attention", "spectral", "rewired", "global", "other"
]

Rate = Annotated[float, Field(ge=0, lt=1)]
Width = Annotated[int, Field(ge=1, le=1 << 20)]
DirectionOption = Annotated[Direction, AddedLater]
OptionsKind = TypeVar("OptionsKind", bound="ModelOptions")


class ModelOptions(Options):
    """Options of a model."""


# Characters of a wrong value that a message shows.
_SHOWN = 200
#: What people call some options elsewhere.
_SHORT = {"lr": "learning_rate", "wd": "weight_decay", "epoch": "epochs", "num_layers": "layers"}


def describe_error(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """What is wrong with the first field that is wrong, with the names of ``kind`` it may mean."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return describe_unknown_option(field, [] if kind is None else list(kind.model_fields))
    if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
        return f"{field}: {cause}"
    if first["type"] == "missing":
        return f"{field} is missing."
    message = str(first["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    given = "" if isinstance(first.get("input"), dict) else f"; got {_show(first.get('input'))}"
    return f"{field} {message}{given}." if field else f"{message}."


def _show(value: object) -> str:
    """A value as a message shows it, however long it is."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def describe_unknown_option(field: str, known: list[str]) -> str:
    """What is wrong with an unknown option, with the one that is meant or all that there are."""
    name = field.rpartition(".")[2]
    close = difflib.get_close_matches(_SHORT.get(name, name).replace("-", "_"), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}."
    return f"{field}: there is no such option" + (f"; {hint}" if known else ".")


def parse_options(kind: type[OptionsKind], options: dict[str, Any], where: str = "") -> OptionsKind:
    """Options of a kind; the error names the first one that is wrong.

    Args:
        kind: What they are options of.
        options: The given ones.
        where: Put before the option's name in an error.
    """
    try:
        return kind(**options)
    except ValidationError as error:
        raise InputError(f"{where}{describe_error(error, kind)}") from None


class PlainOptions(ModelOptions):
    """Options of models without separation."""

    hidden: Width = 512
    """Width of the hidden layer."""
    dropout: Rate = 0.5
    """Rate after the hidden layer."""


class ConvolutionOptions(PlainOptions):
    """Options of plain message-passing models."""

    self_loops: bool = True
    """Whether every node is its own neighbor too."""
    direction: DirectionOption = "incoming"
    """Which messages count: along stored edges into a node (``incoming``), along edges in ``both``
    directions alike, or ``separate``: along and against edges, with weights of their own for each.
    """


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


def counting_phases(stages: tuple[Phase, ...]) -> set[str]:
    """Names of the stages among whose epochs the best one is."""
    names: set[str] = set()
    for stage in reversed(stages):
        names.add(stage.name)
        if not stage.beats_earlier:
            break
    return names


class Model(nn.Module):
    r"""What training, tuning and reports need of a model; everything but the logits has a default.

    A simple model overrides :meth:`logits`, and its ``__init__`` takes the numbers of features and
    of classes and its options by keyword::

        class Linear(Model):
            def __init__(self, num_features: int, num_classes: int, bias: bool = True) -> None:
                super().__init__()
                self.linear = torch.nn.Linear(num_features, num_classes, bias)

            def logits(self, inputs, key):
                return self.linear(inputs.x)

    A model whose nodes are in groups, or that computes fewer rows where fewer are asked for,
    overrides :meth:`node_logits` instead.

    What a model keeps from one stage of training to the next must be a parameter or a buffer, so
    that an interrupted run resumes with it.

    Attributes:
        title: What papers call the model; by default the name of the class.
        paper: Where it was published.
        family: How it uses the graph.
        memory: What its largest arrays grow with.
        edges: Whether a node sees ``incoming`` edges, edges in ``both`` directions, or ``none``; by
            default, where the model has an option ``direction``.
        uses_weights: Whether the weights of edges count.
        uses_features: Whether features count, or labels and edges alone.
        Options: Its options with their types, defaults and descriptions. A class whose
            ``__init__`` has keyword parameters need not write one.
        fits_at_once: Whether :meth:`begin_phase` finds all that there is to learn, so that training
            is one epoch without a step of the optimizer.
        computes_all: Whether the model computes the logits of all nodes whichever are asked for, so
            that one evaluation serves validation and new pseudo-labels.
        rule: How nodes are grouped; None = not at all.
        reach: How many hops of edges the logits of a node depend on, in the directions that
            ``edges`` names: a node k hops away counts, and so does every edge with an end fewer
            than k hops away. What normalization needs is included: D^-½ of a neighbor needs all of
            that neighbor's edges. None = they may depend on the whole graph.
        tied_to: What of its graph the model has weights for, as in ``"every node"``, so that it
            cannot answer for others; empty where it can.
        untied_by: Options with which it could.
        direction: The option of this name; None where the model has none.
        depth: How many layers :meth:`compute_layer` has; None where the model cannot be computed
            layer by layer, for a part of the nodes at a time.
        layered: Whether these layers are the model's own: a subclass with other logits and the
            layers of its base has none.
        adds_up: Whether a layer adds up messages on its own, so that it needs all neighbors.
        layer_hops: How many hops of edges each of them passes messages along, 1 or 0.
        extra_hops: How much farther it looks, for what its layers normalize by on their own.
        counts_groups: Whether normalization counts the neighbors in each group.
        maskable: Whether all its messages pass along the matrices of ``GraphInputs.messages``,
            ``gcn_operators`` and ``mean_operators``, so that a mask of edges reaches them.
    """

    title: ClassVar[str]
    paper: ClassVar[str] = ""
    family: ClassVar[Family] = "other"
    memory: ClassVar[str] = "nodes × hidden"
    edges: ClassVar[Edges] = "incoming"
    uses_weights: bool = False
    uses_features: ClassVar[bool] = True
    Options = ModelOptions
    fits_at_once: ClassVar[bool] = False
    computes_all: ClassVar[bool] = True
    rule: GroupingRule | None = None
    reach: int | None = None
    tied_to: str = ""
    untied_by: ClassVar[str] = ""
    direction: Direction | None = None
    depth: int | None = None
    layered: ClassVar[bool] = True
    adds_up: bool = False
    layer_hops: int = 1
    extra_hops: int = 0
    counts_groups: bool = False
    maskable: bool = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls)
        if "title" not in own:
            cls.title = cls.__name__
        if own.keys() & {"logits", "node_logits", "forward"}:
            cls.layered = "compute_layer" in own
        if "__init__" in own and "Options" not in own:
            cls.Options = _options_of(cls) or cls.Options

    @classmethod
    def revision_of(cls, options: Mapping[str, Any]) -> int:
        """Raised where a model with these options begins or trains otherwise than before.

        A result holds it, so that one of an earlier revision is told from later ones.
        """
        return 1

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A model for a graph; models with weights for every node override it."""
        return cls(inputs.num_features, inputs.num_classes, **options)

    @property
    def inductive(self) -> bool:
        """Whether the model answers for nodes that its graph did not have in training."""
        return not self.tied_to

    def check_inductive(self) -> None:
        """Refuse new nodes where there are no weights for them.

        Raises:
            InputError: The model belongs to the nodes of its graph.
        """
        if self.tied_to:
            raise self.tied_error(self.tied_to)

    @classmethod
    def tied_error(cls, tied_to: str) -> InputError:
        """What is said of a model with weights for ``tied_to`` of its graph."""
        instead = f"{cls.untied_by}, or train" if cls.untied_by else "train"
        return InputError(
            f"{cls.title} has weights for {tied_to} of its graph and cannot answer for new nodes; "
            f"{instead} another model, such as tuned-sage."
        )

    def forward(
        self,
        inputs: GraphInputs | GraphLike,
        group: torch.Tensor | None = None,
        key: DropoutKey | None = None,
        nodes: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits of every node [n, classes], or of the given nodes alone.

        Args:
            inputs: The graph; keep one :class:`GraphInputs` for many calls.
            group: Group of every node, 0 for the least confused; by default 0 for all. It plays no
                part in models without groups.
            key: Seed and step of dropout; by default random ones in training mode.
            nodes: Whose logits are wanted, each at most once.
        """
        inputs = as_inputs(inputs, self._any_weight())
        if key is None and self.training:
            key = DropoutKey.draw()
        return self.node_logits(inputs, group, key, nodes)

    def _any_weight(self) -> torch.Tensor:
        """A tensor in the model's precision and place."""
        numbers = (value for value in self.buffers() if value.is_floating_point())
        return next(chain(self.parameters(), numbers), torch.empty(0))

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """What :meth:`forward` gives; nothing is dropped where ``key`` is None."""
        logits = self.logits(inputs, key)
        if nodes is None:
            return logits
        return logits.index_select(0, as_nodes(nodes, inputs.everyone))

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node [n, classes]; nothing is dropped where ``key`` is None."""
        raise NotImplementedError(f"{type(self).__name__} must define logits(inputs, key)")

    def compute_layer(
        self,
        number: int,
        inputs: GraphInputs,
        h: torch.Tensor | None,
        group: torch.Tensor | None,
        key: DropoutKey | None,
    ) -> torch.Tensor:
        """The rows of a layer for the first ``inputs.num_rows`` nodes; those of the last, logits.

        Args:
            number: Of the layer, from 0.
            inputs: A graph, or a :class:`ncgnn.nn.Block` of one.
            h: What the layer before gave for all nodes of ``inputs``; None for the first one, which
                reads their features.
            group: Group of every node.
            key: Seed and step of dropout; None: nothing is dropped.
        """
        raise InputError(f"{self.title} cannot be computed layer by layer.")

    def compute_hidden(
        self, inputs: GraphInputs, group: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Output of the first layer for every node [n, hidden], without dropout.

        Raises:
            InputError: The model has no layer that says something of single nodes.
        """
        raise InputError(f"{self.title} has no first layer to look at.")

    @property
    def channel_alpha(self) -> torch.Tensor | None:
        """The weight α of message passing in each group; None where there is none."""
        return None

    def check_graph(self, graph: Graph) -> None:
        """Refuse directions that a graph lacks; tell of missing features and of weights not used.

        Raises:
            InputError: ``direction`` is ``separate``, and edges have none.
        """
        if self.direction == "separate" and not graph.has_direction:
            raise InputError(
                "direction = 'separate' needs edges that point somewhere; those of the graph "
                f"'{graph.name}' all go both ways. Set direction = 'both'."
            )
        if graph.edge_weights is not None and not self.uses_weights and self.edges != "none":
            warnings.warn(
                f"{self.title} does not use the weights of edges: all count alike.",
                NcgnnWarning,
                stacklevel=2,
            )
        if graph.features is None and self.uses_features:
            warnings.warn(
                "the nodes have no features: most models see them all alike but for their edges; "
                "'propagation' and 'boosting' go by the labels around.",
                NcgnnWarning,
                stacklevel=2,
            )

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Groups of parameters for the optimizer; by default one, decayed alike."""
        return [{"params": list(self.parameters()), "weight_decay": weight_decay}]

    def phases(self, epochs: int, patience: int) -> tuple[Phase, ...]:
        """The stages of training, each with a new optimizer; by default one.

        The last one counts, with the weights of its best epoch, unless it must beat the one before
        and does not.
        """
        if self.fits_at_once:
            epochs = patience = 1
        return (Phase("training", epochs, patience),)

    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """Called in evaluation mode when a stage begins.

        Args:
            number: Of the stage, from 0.
            inputs: The graph.
            train: The training nodes.
            labels: Their labels; a model must read no others, though ``inputs`` holds them. In a
                pass it may read :attr:`GraphInputs.known`.
        """

    def extra_loss(self, train: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
        """Added to the cross-entropy of a training step, right after its forward pass."""
        return None

    def share_products(self, active: bool) -> None:
        """Let neighboring passes share products of weights, see :class:`SharedProducts`."""


def _options_of(kind: type[Model]) -> type[ModelOptions] | None:
    """Options from the keyword parameters of a class's ``__init__``; None if it takes ``**``."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    try:
        hints = get_type_hints(kind.__init__, include_extras=True)
    except NameError:  # annotations of names that do not exist yet
        hints = {}
    fields: dict[str, Any] = {}
    for parameter in parameters[2:]:
        required = parameter.default is parameter.empty
        default = ... if required else parameter.default
        usual = Any if required or default is None else type(default)
        fields[parameter.name] = (hints.get(parameter.name, usual), default)
    return create_model(f"{kind.__name__}Options", __base__=ModelOptions, **fields)


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
