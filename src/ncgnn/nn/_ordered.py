"""A graph whose nodes stand in the order of their groups, so that groups are slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch

from ncgnn.nn._inputs import select_rows
from ncgnn.nn._products import Term, product
from ncgnn.nn.baselines._baseline import gcn_operator, mean_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.graph.sparse import ConstantSparse
    from ncgnn.nn._channels import Separation
    from ncgnn.nn._inputs import GraphInputs

#: The rows of every group.
Rows: TypeAlias = "list[torch.Tensor]"
Weights: TypeAlias = "Sequence[torch.Tensor]"


class GroupedGraph:
    """The messages that groups of nodes may receive.

    Args:
        inputs: The graph.
        group: Group of every node.
        num_groups: Number of groups, also empty ones.
        operator: S = norm(A).
        strict: Whether messages pass within groups only, after the first layer.
    """

    def __init__(
        self,
        inputs: GraphInputs,
        group: torch.Tensor,
        num_groups: int,
        operator: ConstantSparse,
        *,
        strict: bool,
    ) -> None:
        self.group, self._strict = group, strict
        self.members = [torch.nonzero(group == s).flatten() for s in range(num_groups)]
        ordered = torch.cat(self.members)
        self.position = torch.empty_like(ordered)
        self.position[ordered] = inputs.everyone
        self._operators = [
            operator.block(rows, rows if strict else ordered) for rows in self.members
        ]
        self._own = [Term(select_rows(inputs.features, rows)) for rows in self.members]
        passed = inputs.propagated(operator, uses=num_groups)
        self._passed = [
            Term(inputs.features, operator.rows(rows))
            if passed is None
            else Term(select_rows(passed, rows))
            for rows in self.members
        ]

    def split(self, rows: torch.Tensor) -> Rows:
        """Rows of all nodes in the order of their groups, as one part per group."""
        return list(rows.split([len(members) for members in self.members]))

    def features_times(self, weights: Weights) -> Rows:
        """X·W_s for the nodes of every group s."""
        return [product(term, weight) for term, weight in zip(self._own, weights, strict=True)]

    def messages_of_features(self, weights: Weights) -> Rows:
        """M_s·S·X·W_s."""
        return [product(term, weight) for term, weight in zip(self._passed, weights, strict=True)]

    def messages(self, rows: Rows, weights: Weights) -> Rows:
        """M_s·S·M_s·H·W_s where groups are kept apart, and M_s·S·H·W_s otherwise."""
        sources = rows if self._strict else [torch.cat(rows)] * len(rows)
        return [
            (operator @ source) @ weight
            for operator, source, weight in zip(self._operators, sources, weights, strict=True)
        ]


class Ordered:
    """The latest graph and grouping of a model, rebuilt only when one of them changes.

    Args:
        separation: ``strict``, ``target-only`` or ``none``.
        num_groups: Number of groups.
        self_loops: Whether every node is its own neighbour too.
        mean: Whether S is the mean over neighbours, and not D^-½ A D^-½.
    """

    def __init__(
        self, separation: Separation, num_groups: int, *, self_loops: bool, mean: bool
    ) -> None:
        self._separation: Separation = separation
        self._num_groups, self._self_loops, self._mean = num_groups, self_loops, mean
        self._inputs: GraphInputs | None = None
        self._graph: GroupedGraph | None = None

    def graph(self, inputs: GraphInputs, group: torch.Tensor) -> GroupedGraph:
        """The graph in the order of its groups."""
        if self._separation == "none":
            group = torch.zeros_like(group)
        known = self._graph
        if inputs is self._inputs and known is not None and torch.equal(known.group, group):
            return known
        self._graph = None  # free the memory before the new one is made
        make = mean_operator if self._mean else gcn_operator
        operator = make(inputs, self_loops=self._self_loops, undirected=True)
        strict = self._separation == "strict"
        self._graph = GroupedGraph(inputs, group.clone(), self._num_groups, operator, strict=strict)
        self._inputs = inputs
        return self._graph

    def __deepcopy__(self, memo: dict[int, object]) -> Ordered:
        return self._anew()

    def _anew(self) -> Ordered:
        return Ordered(
            self._separation, self._num_groups, self_loops=self._self_loops, mean=self._mean
        )

    def __getstate__(self) -> dict[str, object]:
        """A copy in another process makes its own."""
        return vars(self._anew())
