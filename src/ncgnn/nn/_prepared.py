"""What a model keeps between two calls on the same graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ncgnn.nn._channels import arrange, restricted
from ncgnn.nn._inputs import checked_nodes
from ncgnn.nn._products import Term

if TYPE_CHECKING:
    from ncgnn.nn._backbones import Backbone
    from ncgnn.nn._channels import Layout, Separation
    from ncgnn.nn._inputs import GraphInputs

# Training and validation nodes, and a few more that someone may ask for in turn.
_MOST_SELECTIONS = 4


class Prepared:
    """The layouts of the latest graph and grouping, rebuilt only when one of them changes."""

    def __init__(self, backbone: Backbone, separation: Separation, num_groups: int) -> None:
        self._parts = (backbone, separation, num_groups)
        self._inputs: GraphInputs | None = None
        self._layout: Layout | None = None
        self._selected: list[tuple[torch.Tensor, Layout]] = []

    def layout(
        self, inputs: GraphInputs, group: torch.Tensor, nodes: torch.Tensor | None = None
    ) -> Layout:
        """The layout for a graph, the group of each node and the nodes that are asked for."""
        backbone, separation, num_groups = self._parts
        if inputs is not self._inputs:
            self._channel_of = backbone.channels(inputs, separation, num_groups)
            self._raw = Term(inputs.features)
            self._inputs, self._layout = inputs, None
        if separation == "none":
            group = torch.zeros_like(group)
        if self._layout is None or not torch.equal(self._layout.group, group):
            self._layout, self._selected = None, []  # free the memory before the new one is made
            self._layout = arrange(
                inputs, separation, group.clone(), num_groups, self._channel_of, self._raw
            )
        return self._layout if nodes is None else self._of(self._layout, nodes)

    def _of(self, layout: Layout, nodes: torch.Tensor) -> Layout:
        asked = checked_nodes(nodes, layout.group)
        for known, selected in self._selected:
            if torch.equal(known, asked):
                return selected
        if len(self._selected) == _MOST_SELECTIONS:
            self._selected.clear()
        selected = restricted(layout, asked, self._parts[0].restricted)
        self._selected.append((asked.clone(), selected))
        return selected

    def __deepcopy__(self, memo: dict[int, object]) -> Prepared:
        return Prepared(*self._parts)

    def __reduce__(self) -> tuple[type[Prepared], tuple[object, ...]]:
        return Prepared, self._parts
