"""Conformance suites: whether a model or a layer of your own can be trusted with training.

>>> from torch_geometric.nn import SAGEConv
>>> from ncgnn.testing import check_backbone
>>> check_backbone(SAGEConv)

They need no test framework: what does not hold is an ``AssertionError`` that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

from ncgnn.graph import Graph
from ncgnn.nn import SEPARATIONS, DropoutKey, GraphInputs, Model, SeparatedGNN, model_class

if TYPE_CHECKING:
    from ncgnn.nn import BackboneName, LayerConstructor

__all__ = ["check_backbone", "check_model"]

_KEY = DropoutKey(seed=1, step=2)
_NUM_FEATURES, _NUM_CLASSES, _WIDTH = 6, 3, 8

ModelBuilder: TypeAlias = Callable[[GraphInputs], nn.Module]


def check_model(
    model: str | type[Model] | ModelBuilder,
    *,
    seed: int = 0,
    ordered: bool = False,
    **options: Any,
) -> None:
    """Check a model that is called as ``model(inputs, group, key, nodes)``.

    It must give logits of the right shape and precision for every group vector, also where groups
    are empty, and for given nodes their rows alone, in order; repeat them exactly for the same key;
    rename them when nodes are renamed; let gradients reach all of its parameters; survive a round
    trip of its ``state_dict``; work without gradients; and keep nothing of earlier groups or
    graphs. A model that is fitted at once is fitted first, and gradients are asked only of models
    with parameters. A model with weights for the nodes or edges of its graph, which shows in their
    shapes, is asked nothing about other graphs or another order of nodes.

    Args:
        model: The name of a model, a subclass of :class:`ncgnn.nn.Model`, or a function from inputs
            to a torch module. A module with an attribute ``num_groups`` is called with so many
            groups, others with two.
        seed: Seed of graphs and parameters.
        ordered: Whether logits may depend on the order of nodes.
        **options: Options of a named model or a class, such as ``hidden=8``.

    Raises:
        AssertionError: With a sentence on the first thing that does not hold.

    Example:
        >>> from ncgnn.nn import GCN
        >>> check_model(GCN, hidden=8)
    """

    def build(inputs: GraphInputs) -> nn.Module:
        if isinstance(model, str | type):
            return model_class(model).for_inputs(inputs, **options)
        return model(inputs)

    _ModelSuite("the model", build, seed).check(ordered=ordered)


def check_backbone(constructor: LayerConstructor | BackboneName, *, seed: int = 0) -> None:
    """Check a layer that is to be the backbone of separated learning, in every separation mode.

    On its own, the layer must give one row of the wanted width per node, in the precision of its
    input, also without any node or edge. In a separated model it must pass all that
    :func:`check_model` asks for, gradients must reach the layers of every channel, and features
    must not get past an edge that the mode removes.

    Args:
        constructor: As the argument ``backbone`` of :class:`ncgnn.nn.SeparatedGNN`: called as
            ``constructor(width, hidden)``, it gives a layer that is called as
            ``layer(x, edge_index)``.
        seed: Seed of graphs and parameters.

    Raises:
        AssertionError: With a sentence on the first thing that does not hold.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> check_backbone(GCNConv)
        >>> check_backbone(lambda width, hidden: GCNConv(width, hidden, cached=True))
        Traceback (most recent call last):
        ...
        AssertionError: the layer: it remembers the edges of an earlier call (in PyG: cached=True).
    """
    if not isinstance(constructor, str):
        _check_layer(constructor, seed)
    for separation in SEPARATIONS:
        for self_loops in (True, False):
            _check_mode(constructor, separation, self_loops, seed)


class _ModelSuite:
    """The checks of one model, which ``build`` makes and messages call ``where``."""

    def __init__(self, where: str, build: ModelBuilder, seed: int) -> None:
        self.where, self.seed, self._build = where, seed, build
        self.inputs = _random_case(seed).inputs()
        model = self.model()
        self.groups = int(getattr(model, "num_groups", 2))
        self.case = _random_case(seed, self.groups)
        self.group = self.case.group
        larger = self.model(_random_case(seed, self.groups, nodes=15).inputs())
        shapes, others = (
            {name: value.shape for name, value in one.state_dict().items()}
            for one in (model, larger)
        )
        self.of_one_graph = shapes != others

    def check(self, *, ordered: bool = False) -> None:
        """All that needs no knowledge of the model's inside."""
        self._check_precisions()
        self._check_repetition()
        self._check_selection()
        self._check_memory()
        if not ordered and not self.of_one_graph:
            self._check_order()
        self._check_gradients()

    def model(self, inputs: GraphInputs | None = None, more: int = 0) -> Any:
        """A new model, in the precision of its inputs."""
        inputs = self.inputs if inputs is None else inputs
        model = _make(self.where, lambda: self._build(inputs), self.seed + more, inputs.dtype)
        if getattr(model, "fits_at_once", False):
            train = torch.nonzero(inputs.known >= 0).flatten()
            labels = inputs.known[train]
            fit = lambda: model.begin_phase(0, inputs, train, labels)  # noqa: E731
            _attempt(self.where, "fitting the model", fit)
        return model

    def logits(
        self,
        model: Any,
        group: torch.Tensor | None,
        key: DropoutKey | None = None,
        inputs: GraphInputs | None = None,
    ) -> torch.Tensor:
        """What a model gives, which must be one row of finite numbers per node."""
        inputs = self.inputs if inputs is None else inputs
        logits = _attempt(self.where, "the model", lambda: model(inputs, group, key))
        wanted = (inputs.num_nodes, _NUM_CLASSES)
        shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        self.require(shape == wanted, f"the result has shape {shape} instead of {wanted}.")
        right = logits.dtype == inputs.dtype
        self.require(right, f"the result is {logits.dtype} for features of {inputs.dtype}.")
        finite = bool(logits.isfinite().all())
        self.require(finite, "the result holds infinite or undefined numbers.")
        return logits

    def require(self, holds: bool, message: str) -> None:
        """Raise an ``AssertionError`` unless something holds."""
        _require(holds, self.where, message)

    def _check_precisions(self) -> None:
        for dtype in (torch.float32, torch.float64):
            inputs = self.case.inputs(dtype)
            model = self.model(inputs)
            for group in (self.group, None):
                for key in (None, _KEY):
                    self.logits(model, group, key, inputs)

    def _check_repetition(self) -> None:
        model = self.model()
        for key, words in ((None, "in evaluation"), (_KEY, "with the same key")):
            one, other = (self.logits(model, self.group, key) for _ in range(2))
            self.require(torch.equal(one, other), f"two calls {words} give different logits.")
        expected = self.logits(model, self.group)
        with torch.no_grad():
            found = self.logits(model, self.group)
        self.require(not found.requires_grad, "logits want gradients under torch.no_grad().")
        self.require(_close(found, expected), "logits change under torch.no_grad().")

    def _check_selection(self) -> None:
        model, nodes = self.model(), torch.tensor([9, 2, 13, 0, 5])
        for key in (None, _KEY):
            expected = self.logits(model, self.group, key)[nodes]

            def select(key: DropoutKey | None = key) -> Any:
                return model(self.inputs, self.group, key, nodes)

            found = _attempt(self.where, "the model, asked for some nodes,", select)
            same = found.shape == expected.shape and _close(found, expected)
            self.require(same, "asked for some nodes, it does not give their rows in order.")

    def _check_memory(self) -> None:
        """Nothing but parameters and buffers may decide on the logits."""
        model, fresh = self.model(), self.model(more=1)
        fresh.load_state_dict(model.state_dict())
        first = self.logits(model, self.group)
        for group in (self.group.roll(1), self.group.flip(0)):
            self.require(
                _close(self.logits(model, group), self.logits(deepcopy(fresh), group)),
                "logits depend on the groups of an earlier call; nothing may be kept of the edges "
                "(in PyG: cached=False).",
            )
        if not self.of_one_graph:
            moved = _random_case(self.seed + 1, self.groups)
            inputs = moved.inputs()
            one, other = (
                self.logits(each, moved.group, inputs=inputs) for each in (model, deepcopy(fresh))
            )
            self.require(_close(one, other), "logits depend on the graph of an earlier call.")
        self.require(
            _close(self.logits(fresh, self.group), first),
            "a new model with the same state_dict gives other logits; what decides on them must be "
            "a parameter or a buffer.",
        )

    def _check_order(self) -> None:
        model, case = self.model(), self.case
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(self.inputs.num_nodes, generator=generator)
        moved = _Case(
            order.argsort()[case.edges], case.x[order], case.group[order], case.known[order]
        )
        expected = self.logits(model, self.group)[order]
        found = self.logits(model, moved.group, inputs=moved.inputs())
        self.require(_close(found, expected), "logits depend on the order of the nodes.")

    def _check_gradients(self) -> None:
        model = self.model()
        if not any(parameter.requires_grad for parameter in model.parameters()):
            return
        cases = [(self.group, "")]
        for alone in range(self.groups):
            when = f" with all nodes in group {alone} of {self.groups}"
            cases.append((torch.full_like(self.group, alone), when))
        for group, when in cases:
            model.zero_grad()
            self.logits(model, group).square().sum().backward()
            for name, parameter in model.named_parameters():
                reached = parameter.grad is not None or not parameter.requires_grad
                self.require(reached or bool(when), f"no gradient reaches the parameter '{name}'.")
                finite = parameter.grad is None or bool(parameter.grad.isfinite().all())
                self.require(finite, f"the gradient of the parameter '{name}' is not finite{when}.")


def _check_layer(constructor: LayerConstructor, seed: int) -> None:
    """The layer by itself."""
    where, case = "the layer", _random_case(seed)
    few = case.edges[:, ::2]
    for dtype in (torch.float32, torch.float64):
        layer, fresh = (
            _make(where, lambda: constructor(_NUM_FEATURES, _WIDTH), number, dtype)
            for number in (seed, seed + 1)
        )
        x = case.x.to(dtype)
        whole = _apply(where, layer, x, case.edges)
        fewer = _apply(where, layer, x, few)
        fresh.load_state_dict(layer.state_dict())
        expected = _apply(where, fresh, x, few)
        remembers = not torch.equal(fewer, expected) and torch.equal(fewer, whole)
        message = "it remembers the edges of an earlier call (in PyG: cached=True)."
        _require(not remembers, where, message)
        _apply(f"{where}, for nodes without edges", fresh, x, few[:, :0])
        _apply(f"{where}, for an empty group", fresh, x[:0], few[:, :0])


def _apply(where: str, layer: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    rows = _attempt(where, f"a call with {x.dtype}", lambda: layer(x, edges))
    wanted = (len(x), _WIDTH)
    shape = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
    _require(shape == wanted, where, f"it gives {shape} instead of a tensor of shape {wanted}.")
    _require(rows.dtype == x.dtype, where, f"it gives {rows.dtype} for {x.dtype}.")
    return rows


def _check_mode(constructor: Any, separation: Any, self_loops: bool, seed: int) -> None:
    """A separated model of the layer in one mode."""
    options: dict[str, Any] = {"hidden": _WIDTH, "separation": separation, "self_loops": self_loops}

    def build(inputs: GraphInputs) -> SeparatedGNN:
        sizes = inputs.num_features, inputs.num_classes
        return SeparatedGNN(*sizes, backbone=constructor, **options)

    loops = "with" if self_loops else "without"
    suite = _ModelSuite(f"mode '{separation}', {loops} self-loops", build, seed)
    suite.check()
    _check_channels(suite)
    if separation == "strict":
        _check_removed_messages(suite)


def _check_channels(suite: _ModelSuite) -> None:
    """Gradients that are not zero reach both layers of every channel."""
    model = suite.model()
    suite.logits(model, suite.group).square().sum().backward()
    for name, layers in (("first", model.first), ("second", model.second)):
        for channel, layer in enumerate(layers):
            trained = [p for p in layer.parameters() if p.requires_grad]
            reached = any(p.grad is not None and bool(p.grad.any()) for p in trained)
            message = f"no gradient reaches the {name} layer of channel {channel}."
            suite.require(reached or not trained, message)


def _check_removed_messages(suite: _ModelSuite) -> None:
    """Where the second layer passes nothing between groups, nothing gets there."""
    case, model = _chains_case(suite.seed), suite.model()
    starts, ends = slice(0, None, 3), slice(2, None, 3)
    before = suite.logits(model, case.group, inputs=case.inputs())
    for factor in (-1.0, 3.0, 100.0):
        x = case.x.clone()
        x[starts] *= factor
        after = suite.logits(model, case.group, inputs=replace(case, x=x).inputs())
        suite.require(
            _close(after[ends], before[ends]),
            "features get past a message between groups that this mode removes; a layer may use "
            "the rows and edges that it is given, each row apart from all but its neighbors.",
        )


@dataclass(frozen=True, eq=False)
class _Case:
    """A graph with features [n, d] in float64, and a group and perhaps a known label per node."""

    edges: torch.Tensor
    x: torch.Tensor
    group: torch.Tensor
    known: torch.Tensor

    def inputs(self, dtype: torch.dtype = torch.float64) -> GraphInputs:
        """The graph as models take it."""
        graph = Graph.from_edge_index(
            self.edges, features=self.x.numpy(), num_classes=_NUM_CLASSES, require_labels=False
        )
        return GraphInputs(graph, dtype=dtype).knowing(self.known)


def _random_case(seed: int, groups: int = 2, nodes: int = 14) -> _Case:
    """A random directed graph whose last node has no edges."""
    generator = torch.Generator().manual_seed(seed)
    present = torch.rand(nodes, nodes, generator=generator) < 0.3
    present[-1], present[:, -1] = False, False
    present.fill_diagonal_(False)
    x = torch.randn(nodes, _NUM_FEATURES, generator=generator, dtype=torch.float64)
    group = torch.randperm(nodes, generator=generator) % groups
    known = torch.randperm(nodes, generator=generator) % (_NUM_CLASSES + 1) - 1
    return _Case(torch.nonzero(present).t(), x, group, known)


def _chains_case(seed: int, copies: int = 4) -> _Case:
    """Chains a → b → c, where a and b are in group 1 and c is in group 0.

    From a to c leads one message of each layer, and that of the second one crosses the groups.
    """
    generator = torch.Generator().manual_seed(seed)
    a = 3 * torch.arange(copies)
    edges = torch.cat([torch.stack([a, a + 1]), torch.stack([a + 1, a + 2])], dim=1)
    x = torch.randn(3 * copies, _NUM_FEATURES, generator=generator, dtype=torch.float64)
    known = torch.arange(3 * copies) % _NUM_CLASSES
    return _Case(edges, x, torch.tensor([1, 1, 0]).repeat(copies), known)


def _make(where: str, build: Callable[[], Any], seed: int, dtype: torch.dtype) -> Any:
    """A module in evaluation mode; the state of torch's random numbers stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _attempt(where, "making the model", build)
    _require(isinstance(module, nn.Module), where, "the builder gave no torch module.")
    return _attempt(where, f"moving the model to {dtype}", lambda: module.to(dtype).eval())


def _attempt(where: str, what: str, work: Callable[[], Any]) -> Any:
    """The result of some work; an error in it becomes an ``AssertionError`` that says where."""
    try:
        return work()
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where}: {what} failed, {type(error).__name__}: {error}") from error


def _require(holds: bool, where: str, message: str) -> None:
    if not holds:
        raise AssertionError(f"{where}: {message}")


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results are equal up to rounding in double precision."""
    return torch.allclose(one, other, rtol=1e-7, atol=1e-9)
