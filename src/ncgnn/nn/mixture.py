"""Several models in one: a gate says, node by node, how much each of them counts.

Experts e give probabilities P_e, of a temperature each where they have one, and the mixture answers
p = Σ_e g_e P_e. Without a gate the shares g are the same for all nodes. A gate sees what can be
known of an expert's answer at a node without any label: how sure it is, and how the same expert
answers around it. With q_e^k = M^k P_e, where M is the row-normalized adjacency with self-loops,
the soft Neighborhood Confusion of k hops is log_C(1 / max_c q_e^k): NC with counted labels replaced
by predicted shares. M is applied k times, so that nothing larger than [nodes, classes] is ever
formed; nodes that many walks of k steps reach count more than others.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import torch
from pydantic import Field, field_validator
from torch import nn

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.nn.base import Model, ModelOptions, Width, parse_options
from ncgnn.nn.inputs import as_nodes
from ncgnn.nn.minibatch import BlockMaker, infer, is_layered
from ncgnn.options import AddedLater

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncgnn.graph import Graph
    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import Direction, GraphInputs

#: What the gate sees: everything, everything but NC, or NC alone; or there is no gate.
Gate = Literal["full", "without-nc", "nc", "none"]

# Probabilities below e^-8 say nothing more to a gate.
_LEAST_LOG = -8.0


Temperature = Annotated[float, Field(ge=0.05, le=20)]


class MixtureOptions(ModelOptions):
    """Options of mixtures."""

    experts: tuple[dict[str, Any], ...] = ({"name": "mlp"}, {"name": "gcn"})
    """The models, each a table of its name and its options. At most one of them may have groups,
    which are the groups of the mixture then."""
    gate: Gate = "full"
    """What decides how much an expert counts at a node: its confidence, agreement with neighbors,
    degree and NC (``full``), the same ``without-nc``, or ``nc`` alone. With ``none`` every expert
    counts alike at all nodes."""
    hops: Annotated[int, Field(ge=1)] = 3
    """How many hops the gate looks around a node."""
    width: Width = 16
    """Width of the gate's hidden layer."""
    temperatures: Annotated[tuple[Temperature, ...] | None, AddedLater] = None
    """What the logits of every expert are divided by before experts are combined; ``none``: all
    are taken as they are."""
    trained: Literal["jointly", "apart"] = "jointly"
    """Whether experts and gate are trained at once, or each expert on its own and then the gate, as
    ``auto`` does."""

    @field_validator("experts", mode="before")
    @classmethod
    def _fill_in(cls, experts: Any) -> Any:
        """Every expert with all of its options, so that a configuration is complete."""
        # The registry imports no model until one is asked for, and mixtures are among them.
        from ncgnn.nn.registry import model_class, model_name

        if not isinstance(experts, list | tuple) or not experts:
            raise ValueError("must be a list of tables, each with the name of a model")
        found: list[dict[str, Any]] = []
        for expert in cast("Sequence[Any]", experts):
            if not isinstance(expert, dict) or "name" not in expert:
                raise ValueError("must be tables with the name of a model in each")
            given = dict(cast("dict[str, Any]", expert))
            name = model_name(str(given.pop("name")))
            if name == "mixture":
                raise ValueError("must be other models than mixtures")
            options = parse_options(model_class(name).Options, given, f"experts, {name}: ")
            # TOML has no other word for a missing value.
            plain = options.model_dump(mode="json").items()
            said = {option: "none" if value is None else value for option, value in plain}
            found.append({"name": name, **said})
        return found


class Mixture(Model):
    r"""A mixture of experts: p = Σ_e g_e P_e with g = softmax_e(b_e + ⟨a_e, tanh(W_e φ_e)⟩).

    :math:`φ_e` is what the gate sees of expert e at a node, see :meth:`describe`. It begins with
    a = 0, so that experts count by b alone, the same at all nodes.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        inputs: The graph, for experts that need more of it than these numbers.
        **options: The fields of :class:`MixtureOptions`.
    """

    paper = "Jacobs et al., Adaptive Mixtures of Local Experts, Neural Computation 3, 1991"
    memory = "nodes × classes × experts, and what the experts need"
    Options = MixtureOptions

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        inputs: GraphInputs | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        from ncgnn.nn.registry import model_class

        chosen = parse_options(self.Options, options)
        self.gate: Gate = chosen.gate
        self.hops, self.trained_how = chosen.hops, chosen.trained
        self.num_classes = num_classes
        experts: list[Model] = []
        for expert in chosen.experts:
            kind = model_class(expert["name"])
            own = {option: value for option, value in expert.items() if option != "name"}
            sizes = (num_features, num_classes)
            experts.append(
                kind(*sizes, **own) if inputs is None else kind.for_inputs(inputs, **own)
            )
        self.experts = nn.ModuleList(experts)
        given = chosen.temperatures
        self.temperatures = (1.0,) * len(experts) if given is None else given
        if len(self.temperatures) != len(experts):
            raise InputError(
                f"temperatures must be one per expert, {len(experts)}; got "
                f"{len(self.temperatures)}."
            )
        self._take_over(experts)
        self.bias = nn.Parameter(torch.zeros(len(experts)))
        if self.gate != "none":
            columns = self._columns()
            bound = columns**-0.5
            first = torch.empty(len(experts), columns, chosen.width).uniform_(-bound, bound)
            self.first = nn.Parameter(first)
            self.second = nn.Parameter(torch.zeros(len(experts), chosen.width))

    @classmethod
    def revision_of(cls, options: Mapping[str, Any]) -> int:
        """Raised with that of any expert."""
        from ncgnn.nn.registry import model_class

        experts = cast("Sequence[Mapping[str, Any]]", options.get("experts", ()))
        return 1 + sum(model_class(one["name"]).revision_of(one) - 1 for one in experts)

    @classmethod
    def for_inputs(cls, inputs: GraphInputs, **options: Any) -> Self:
        """A mixture for a graph."""
        return cls(inputs.num_features, inputs.num_classes, inputs, **options)

    def _take_over(self, experts: Sequence[Model]) -> None:
        """What the experts can and need, the mixture can and needs."""
        grouped = [expert for expert in experts if expert.rule is not None]
        if len(grouped) > 1:
            names = ", ".join(expert.title for expert in grouped)
            raise InputError(
                f"experts must hold at most one model with groups; got {names}. Leave out all but "
                "one."
            )
        self.grouped = experts.index(grouped[0]) if grouped else None
        self.rule = grouped[0].rule if grouped else None
        both = any(expert.edges == "both" or expert.direction == "both" for expert in experts)
        both = both or any(expert.direction == "separate" for expert in experts)
        self.direction = "both" if both else None
        self.uses_weights = any(expert.uses_weights for expert in experts)
        self.maskable = all(expert.maskable or expert.edges == "none" for expert in experts)
        self.tied_to = next((expert.tied_to for expert in experts if expert.tied_to), "")
        reaches = [0 if expert.edges == "none" else expert.reach for expert in experts]
        known = [reach for reach in reaches if reach is not None]
        more = 0 if self.gate == "none" else self.hops
        self.reach = max(known) + more if len(known) == len(reaches) else None

    def _columns(self) -> int:
        """Number of columns of :meth:`describe`."""
        plain = 0 if self.gate == "nc" else self.num_classes + 4
        return plain + (0 if self.gate == "without-nc" else self.hops)

    def node_logits(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """The logits log Σ_e g_e P_e of the given nodes, None = all."""
        return self.combine(*self._ask(inputs, group, key, nodes))

    def _ask(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> tuple[list[torch.Tensor], list[torch.Tensor] | None]:
        """What every expert says at the given nodes, log P, and what the gate sees of it."""
        wanted = nodes if self.gate == "none" else None
        answers = [
            self.said_by(place, _ask_expert(expert, inputs, group, key, wanted))
            for place, expert in enumerate(cast("Sequence[Model]", self.experts))
        ]
        if self.gate == "none":
            return answers, None
        seen = [self.describe(inputs, answer) for answer in answers]
        if nodes is not None:
            chosen = as_nodes(nodes, inputs.everyone)
            answers = [answer.index_select(0, chosen) for answer in answers]
            seen = [one.index_select(0, chosen) for one in seen]
        return answers, seen

    def said_by(self, expert: int, logits: torch.Tensor) -> torch.Tensor:
        """Log P of an expert, from its logits or from log P without its temperature."""
        temperature = self.temperatures[expert]
        return torch.log_softmax(logits if temperature == 1 else logits / temperature, dim=1)

    @torch.no_grad()
    def shares(self, inputs: GraphInputs, group: torch.Tensor | None) -> torch.Tensor:
        """How much every expert counts at every node, without dropout [experts, nodes]."""
        _, seen = self._ask(inputs, group, None, None)
        return self.log_shares(seen, inputs.num_nodes).exp()

    def combine(
        self, answers: Sequence[torch.Tensor], seen: Sequence[torch.Tensor] | None
    ) -> torch.Tensor:
        """The logits, from log P_e of every expert and from what the gate sees of it."""
        weights = self.log_shares(seen, len(answers[0]))
        total = torch.stack([a + w[:, None] for a, w in zip(answers, weights, strict=True)])
        return torch.logsumexp(total, dim=0)

    def log_shares(self, seen: Sequence[torch.Tensor] | None, count: int) -> torch.Tensor:
        """The logarithm of g_e, of every expert at some nodes [experts, nodes]."""
        scores = self.bias[:, None].expand(-1, count)
        if seen is not None:
            hidden = torch.tanh(torch.bmm(torch.stack(list(seen)), self.first))
            scores = scores + torch.bmm(hidden, self.second[:, :, None]).squeeze(2)
        return torch.log_softmax(scores, dim=0)

    def describe(self, inputs: GraphInputs, answer: torch.Tensor) -> torch.Tensor:
        """What the gate sees of an expert's log-probabilities of all nodes, a row per node.

        log P; what the expert says around the node of its own answer there (q^1); entropy, the
        distance of the two highest probabilities, and the logarithm of the degree; soft NC of one
        hop, two hops, and so on. Everything lies between 0 and about 1.
        """
        direction: Direction = "both" if self.direction == "both" else "incoming"
        operator = inputs.mean_operators(direction, self_loops=True)[0]
        shares, size = answer.exp(), math.log(max(2, self.num_classes))
        around, confusion = shares, list[torch.Tensor]()
        first = shares
        for hop in range(1 if self.gate == "without-nc" else self.hops):
            around = operator @ around
            first = around if hop == 0 else first
            confusion.append(-around.amax(1).clamp(min=1e-12).log() / size)
        columns: list[torch.Tensor] = []
        if self.gate != "nc":
            top = shares.topk(2, dim=1)
            agreement = first.gather(1, top.indices[:, :1])[:, 0]
            entropy = -(shares * answer.clamp(min=-50.0)).sum(1) / size
            margin = top.values[:, 0] - top.values[:, 1]
            degree = inputs.kept(("log degree", direction), lambda: _log_degree(inputs, direction))
            columns = [*(answer.clamp(min=_LEAST_LOG) / -_LEAST_LOG).unbind(1)]
            columns += [agreement, entropy, margin, degree]
        if self.gate != "without-nc":
            columns += confusion
        return torch.stack(columns, dim=1)

    @property
    def channel_alpha(self) -> torch.Tensor | None:
        """That of the expert with groups."""
        if self.grouped is None:
            return None
        return cast("Model", self.experts[self.grouped]).channel_alpha

    def check_graph(self, graph: Graph) -> None:
        """Refuse what one of the experts refuses; of those trained apart nothing is said twice."""
        with warnings.catch_warnings():
            if self.trained_how == "apart":
                warnings.simplefilter("ignore", NcgnnWarning)
            for expert in cast("Sequence[Model]", self.experts):
                expert.check_graph(graph)

    def begin_phase(
        self, number: int, inputs: GraphInputs, train: torch.Tensor, labels: torch.Tensor
    ) -> None:
        """Called when training begins; experts that were trained apart are not trained again.

        Raises:
            InputError: ``trained`` is ``apart``.
        """
        if self.trained_how == "apart":
            raise InputError(
                "trained must be 'jointly' to train a mixture as one model; experts that are "
                "trained apart come from model 'auto', which also chooses them."
            )
        for expert in cast("Sequence[Model]", self.experts):
            expert.begin_phase(number, inputs, train, labels)

    def share_products(self, active: bool) -> None:
        """Let neighboring passes of the experts share products of weights."""
        for expert in cast("Sequence[Model]", self.experts):
            expert.share_products(active)


def _ask_expert(
    expert: Model,
    inputs: GraphInputs,
    group: torch.Tensor | None,
    key: DropoutKey | None,
    nodes: torch.Tensor | None,
) -> torch.Tensor:
    """The logits of an expert; of all nodes layer by layer where the graph is too large at once."""
    if key is None and nodes is None and inputs.in_blocks and is_layered(expert):
        return infer(BlockMaker(inputs, expert), group)
    return expert.node_logits(inputs, group, key, nodes)


def _log_degree(inputs: GraphInputs, direction: Direction) -> torch.Tensor:
    """log(1 + degree), where e^8 neighbors, about 3,000, count 1."""
    operator = inputs.mean_operators(direction, self_loops=True)[0]
    return operator.row_counts().to(inputs.dtype).log() / 8
