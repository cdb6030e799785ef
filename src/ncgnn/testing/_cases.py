"""Small graphs for the checks, and the words for what does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs

if TYPE_CHECKING:
    from ncgnn.nn import DropoutKey

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
