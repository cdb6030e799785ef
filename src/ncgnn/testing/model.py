"""What every model of nodes must hold to.

Small graphs for the checks, and the words for what does not hold.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from ncgnn.graph import Graph
from ncgnn.nn import DropoutKey, GraphInputs

NUM_FEATURES, NUM_CLASSES = 6, 3

#: Makes a model from the number of features and of classes.
ModelBuilder: TypeAlias = Callable[[int, int], Any]
#: Makes a model for one graph.
GraphModelBuilder: TypeAlias = Callable[[GraphInputs], Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A graph with features and a group per node.

    Attributes:
        edges: Sources and targets [2, E].
        x: Features [n, d], float64.
        group: Group of each node.
    """

    edges: torch.Tensor
    x: torch.Tensor
    group: torch.Tensor

    def inputs(self, dtype: torch.dtype = torch.float64) -> GraphInputs:
        """The graph as models take it."""
        graph = Graph.from_edge_index(
            self.edges,
            features=self.x.numpy(),
            num_classes=NUM_CLASSES,
            require_labels=False,
        )
        return GraphInputs(graph, dtype=dtype)

    def permuted(self, order: torch.Tensor) -> Case:
        """The same graph, whose node i is node ``order[i]`` of this one."""
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        return Case(place[self.edges], self.x[order], self.group[order])


def random_case(seed: int, groups: int = 2, nodes: int = 14) -> Case:
    """A random directed graph whose last node has no edges."""
    generator = torch.Generator().manual_seed(seed)
    present = torch.rand(nodes, nodes, generator=generator) < 0.3
    present[-1], present[:, -1] = False, False
    present.fill_diagonal_(False)
    x = torch.randn(nodes, NUM_FEATURES, generator=generator, dtype=torch.float64)
    group = torch.randperm(nodes, generator=generator) % groups
    return Case(torch.nonzero(present).t(), x, group)


def chains_case(seed: int, copies: int = 4) -> Case:
    """Chains a → b → c, where a and b are in group 1 and c is in group 0.

    From a to c leads one message of each layer, and that of the second one crosses the groups.
    """
    generator = torch.Generator().manual_seed(seed)
    a = 3 * torch.arange(copies)
    edges = torch.cat([torch.stack([a, a + 1]), torch.stack([a + 1, a + 2])], dim=1)
    x = torch.randn(3 * copies, NUM_FEATURES, generator=generator, dtype=torch.float64)
    return Case(edges, x, torch.tensor([1, 1, 0]).repeat(copies))


def require(holds: bool, where: str, message: str) -> None:
    """Raise an ``AssertionError`` unless something holds."""
    if not holds:
        raise AssertionError(f"{where}: {message}")


def attempt(where: str, what: str, work: Callable[[], Any]) -> Any:
    """The result of some work; an error in it becomes an ``AssertionError`` that says where."""
    try:
        return work()
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where}: {what} failed, {type(error).__name__}: {error}") from error


def logits_of(
    where: str, model: Any, inputs: GraphInputs, group: torch.Tensor | None, key: DropoutKey | None
) -> torch.Tensor:
    """What a model gives, which must be one row of finite numbers per node."""
    logits = attempt(where, "the model", lambda: model(inputs, group, key))
    wanted = (inputs.num_nodes, NUM_CLASSES)
    shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    require(shape == wanted, where, f"the result has shape {shape} instead of {wanted}.")
    right = logits.dtype == inputs.dtype
    require(right, where, f"the result is {logits.dtype} for features of {inputs.dtype}.")
    require(bool(logits.isfinite().all()), where, "the result holds infinite or undefined numbers.")
    return logits


def built(where: str, build: ModelBuilder, seed: int, dtype: torch.dtype = torch.float64) -> Any:
    """A model in evaluation mode; the state of torch's random numbers stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = attempt(where, "making the model", lambda: build(NUM_FEATURES, NUM_CLASSES))
    require(isinstance(model, torch.nn.Module), where, "the builder gave no torch module.")
    return attempt(where, f"moving the model to {dtype}", lambda: model.to(dtype).eval())


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results are equal up to rounding in double precision."""
    return torch.allclose(one, other, rtol=1e-7, atol=1e-9)


_KEY = DropoutKey(seed=1, step=2)


def check_model(
    build: ModelBuilder | GraphModelBuilder,
    *,
    seed: int = 0,
    per_graph: bool = False,
    ordered: bool = False,
) -> None:
    """Check a model that is called as ``model(inputs, group, key, nodes)``.

    It must give logits of the right shape and precision for every group vector, also where groups
    are empty, and for given nodes their rows alone, in order; repeat them exactly for the same key;
    rename them when nodes are renamed; let gradients reach all of its parameters; survive a round
    trip of its ``state_dict``; work without gradients; and keep nothing of earlier groups.

    Args:
        build: Called as ``build(num_features, num_classes)``; gives a torch module. Where that has
            an attribute ``num_groups``, it is called with so many groups, otherwise with two.
        seed: Seed of graphs and parameters.
        per_graph: The model has weights that belong to nodes or edges of one graph, so that
            ``build(inputs)`` makes it for that graph, and nothing is asked of it on another.
        ordered: The order of nodes counts, because weights belong to them; it is not checked then.

    Raises:
        AssertionError: With a sentence on the first thing that does not hold.
    """
    check_everything(ModelCase("the model", build, seed, per_graph, ordered))


@dataclass(frozen=True)
class ModelCase:
    """A model under test.

    Attributes:
        where: What messages call it.
        build: Makes the model.
        seed: Seed of graphs and parameters.
        per_graph: Whether it is made for a graph, with :attr:`build` called with that.
        ordered: Whether the order of nodes counts.
    """

    where: str
    build: Any
    seed: int
    per_graph: bool = False
    ordered: bool = False

    def model(self, more: int = 0, dtype: torch.dtype = torch.float64) -> Any:
        """A new model."""

        def build_for_graph(num_features: int, num_classes: int) -> Any:
            return self.build(random_case(self.seed).inputs(dtype))

        build = build_for_graph if self.per_graph else self.build
        return built(self.where, build, self.seed + more, dtype)

    def same_as(self, model: Any) -> Any:
        """A new model with the parameters of another."""
        fresh = self.model(more=1)
        fresh.load_state_dict(model.state_dict())
        return fresh


def check_everything(case: ModelCase) -> None:
    """All checks that need no knowledge of the model's inside."""
    groups = int(getattr(case.model(), "num_groups", 2))
    _check_precisions(case, groups)
    _check_repetition(case, groups)
    _check_selection(case, groups)
    _check_memory(case, groups)
    _check_state(case, groups)
    if not case.ordered:
        _check_order(case, groups)
    _check_gradients(case, groups)
    _check_empty_groups(case, groups)


def _check_precisions(case: ModelCase, groups: int) -> None:
    drawn = random_case(case.seed, groups)
    for dtype in (torch.float32, torch.float64):
        model = case.model(dtype=dtype)
        for group in (drawn.group, None):
            for key in (None, _KEY):
                logits_of(case.where, model, drawn.inputs(dtype), group, key)


def _check_repetition(case: ModelCase, groups: int) -> None:
    drawn, model = random_case(case.seed, groups), case.model()
    inputs = drawn.inputs()
    for key, words in ((None, "in evaluation"), (_KEY, "with the same key")):
        one, other = (logits_of(case.where, model, inputs, drawn.group, key) for _ in range(2))
        require(torch.equal(one, other), case.where, f"two calls {words} give different logits.")
    expected = logits_of(case.where, model, inputs, drawn.group, None)
    with torch.no_grad():
        found = logits_of(case.where, model, inputs, drawn.group, None)
    require(not found.requires_grad, case.where, "logits want gradients under torch.no_grad().")
    require(close(found, expected), case.where, "logits change under torch.no_grad().")


def _check_selection(case: ModelCase, groups: int) -> None:
    drawn, model = random_case(case.seed, groups), case.model()
    inputs, nodes = drawn.inputs(), torch.tensor([9, 2, 13, 0, 5])
    for key in (None, _KEY):
        everyone = logits_of(case.where, model, inputs, drawn.group, key)

        def given_nodes(key: DropoutKey | None = key) -> Any:
            return model(inputs, drawn.group, key, nodes)

        found = attempt(case.where, "the model, asked for some nodes,", given_nodes)
        same = found.shape == everyone[nodes].shape and close(found, everyone[nodes])
        require(same, case.where, "asked for some nodes, it does not give their rows in order.")


def _check_memory(case: ModelCase, groups: int) -> None:
    drawn, model = random_case(case.seed, groups), case.model()
    inputs, fresh = drawn.inputs(), case.same_as(model)
    logits_of(case.where, model, inputs, drawn.group, None)
    for group in (drawn.group.roll(1), drawn.group.flip(0)):
        one = logits_of(case.where, model, inputs, group, None)
        other = logits_of(case.where, copy.deepcopy(fresh), inputs, group, None)
        require(
            close(one, other),
            case.where,
            "logits depend on the groups of an earlier call; nothing may be kept of the edges "
            "(in PyG: cached=False).",
        )
    if case.per_graph:
        return
    moved = random_case(case.seed + 1, groups)
    one = logits_of(case.where, model, moved.inputs(), moved.group, None)
    other = logits_of(case.where, fresh, moved.inputs(), moved.group, None)
    require(close(one, other), case.where, "logits depend on the graph of an earlier call.")


def _check_state(case: ModelCase, groups: int) -> None:
    drawn, model = random_case(case.seed, groups), case.model()
    inputs = drawn.inputs()
    expected = logits_of(case.where, model, inputs, drawn.group, None)
    found = logits_of(case.where, case.same_as(model), inputs, drawn.group, None)
    require(
        close(found, expected),
        case.where,
        "a new model with the same state_dict gives other logits; what decides on them must be a "
        "parameter or a buffer.",
    )


def _check_order(case: ModelCase, groups: int) -> None:
    drawn, model = random_case(case.seed, groups), case.model()
    generator = torch.Generator().manual_seed(case.seed)
    order = torch.randperm(len(drawn.x), generator=generator)
    moved = drawn.permuted(order)
    expected = logits_of(case.where, model, drawn.inputs(), drawn.group, None)[order]
    found = logits_of(case.where, model, moved.inputs(), moved.group, None)
    require(close(found, expected), case.where, "logits depend on the order of the nodes.")


def _check_gradients(case: ModelCase, groups: int) -> None:
    drawn, model = random_case(case.seed, groups), case.model()
    logits_of(case.where, model, drawn.inputs(), drawn.group, None).square().sum().backward()
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        gradient = parameter.grad
        require(gradient is not None, case.where, f"no gradient reaches the parameter '{name}'.")
        finite = bool(gradient.isfinite().all())
        require(finite, case.where, f"the gradient of the parameter '{name}' is not finite.")


def _check_empty_groups(case: ModelCase, groups: int) -> None:
    drawn, model = random_case(case.seed, groups), case.model()
    inputs = drawn.inputs()
    for alone in range(groups):
        where = f"{case.where}, all nodes in group {alone} of {groups}"
        group = torch.full_like(drawn.group, alone)
        model.zero_grad()
        logits_of(where, model, inputs, group, None).square().sum().backward()
        for name, parameter in model.named_parameters():
            finite = parameter.grad is None or bool(parameter.grad.isfinite().all())
            require(finite, where, f"the gradient of the parameter '{name}' is not finite.")
