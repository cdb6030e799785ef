"""What every message-passing layer of a separated model must hold to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ncgnn.nn import SEPARATIONS, SeparatedGNN
from ncgnn.testing.model import (
    ModelCase,
    attempt,
    built,
    chains_case,
    check_everything,
    close,
    logits_of,
    random_case,
    require,
)

if TYPE_CHECKING:
    from ncgnn.nn import BackboneName, LayerConstructor

_WIDTH = 8
_CUT = ("strict", "ego")


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
            where = f"mode '{separation}', {'with' if self_loops else 'without'} self-loops"
            _check_mode(where, constructor, separation, self_loops, seed)


def _check_layer(constructor: LayerConstructor, seed: int) -> None:
    """The layer by itself."""
    where, drawn = "the layer", random_case(seed)
    few = drawn.edges[:, ::2]
    for dtype in (torch.float32, torch.float64):
        layer = _layer(where, constructor, drawn.x.shape[1], seed, dtype)
        x = drawn.x.to(dtype)
        whole = _applied(where, layer, x, drawn.edges)
        fewer = _applied(where, layer, x, few)
        fresh = _layer(where, constructor, drawn.x.shape[1], seed + 1, dtype)
        fresh.load_state_dict(layer.state_dict())
        expected = _applied(where, fresh, x, few)
        remembers = not torch.equal(fewer, expected) and torch.equal(fewer, whole)
        require(
            not remembers,
            where,
            "it remembers the edges of an earlier call (in PyG: cached=True).",
        )
        _applied(f"{where}, for nodes without edges", fresh, x, few[:, :0])
        _applied(f"{where}, for an empty group", fresh, x[:0], few[:, :0])


def _layer(
    where: str, constructor: LayerConstructor, width: int, seed: int, dtype: torch.dtype
) -> Any:
    def build(num_features: int, num_classes: int) -> Any:
        return constructor(width, _WIDTH)

    return built(where, build, seed, dtype)


def _applied(where: str, layer: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    rows = attempt(where, f"a call with {x.dtype}", lambda: layer(x, edges))
    wanted = (len(x), _WIDTH)
    shape = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
    require(shape == wanted, where, f"it gives {shape} instead of a tensor of shape {wanted}.")
    require(rows.dtype == x.dtype, where, f"it gives {rows.dtype} for {x.dtype}.")
    return rows


def _check_mode(
    where: str,
    constructor: Any,
    separation: Any,
    self_loops: bool,
    seed: int,
) -> None:
    def build(num_features: int, num_classes: int) -> SeparatedGNN:
        return SeparatedGNN(
            num_features,
            num_classes,
            hidden=_WIDTH,
            backbone=constructor,
            separation=separation,
            self_loops=self_loops,
        )

    case = ModelCase(where, build, seed)
    check_everything(case)
    _check_channels(case)
    if separation in _CUT:
        _check_removed_messages(case)


def _check_channels(case: ModelCase) -> None:
    """Gradients that are not zero reach both layers of every channel."""
    drawn = random_case(case.seed)
    model = case.model()
    logits_of(case.where, model, drawn.inputs(), drawn.group, None).square().sum().backward()
    for name, layers in (("first", model.first), ("second", model.second)):
        for channel, layer in enumerate(layers):
            trained = [p for p in layer.parameters() if p.requires_grad]
            reached = any(p.grad is not None and bool(p.grad.any()) for p in trained)
            require(
                reached or not trained,
                case.where,
                f"no gradient reaches the {name} layer of channel {channel}.",
            )


def _check_removed_messages(case: ModelCase) -> None:
    """Where the second layer passes nothing between groups, nothing gets there."""
    drawn, model = chains_case(case.seed), case.model()
    starts, ends = slice(0, None, 3), slice(2, None, 3)
    before = logits_of(case.where, model, drawn.inputs(), drawn.group, None)
    for factor in (-1.0, 3.0, 100.0):
        x = drawn.x.clone()
        x[starts] *= factor
        other = replace(drawn, x=x)
        after = logits_of(case.where, model, other.inputs(), drawn.group, None)
        require(
            close(after[ends], before[ends]),
            case.where,
            "features get past a message between groups that this mode removes; a layer may use "
            "the rows and edges that it is given, each row apart from all but its neighbours.",
        )
