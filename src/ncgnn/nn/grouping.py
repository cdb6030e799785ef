"""Which group of a separated model a node belongs to, estimated from labels or predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph import Graph, as_graph
from ncgnn.metrics import TIE, ConfusionTracker, confusion_masks
from ncgnn.sparse import widest_float

if TYPE_CHECKING:
    from ncgnn.graph import GraphLike
    from ncgnn.metrics import TorchConfusion

#: Gives one number per node from the graph and the class of every node, -1 = unknown.
GuidanceFunction: TypeAlias = Callable[[Graph, NDArray[np.int64]], NDArray[Any] | torch.Tensor]
Guidance: TypeAlias = str | GuidanceFunction
ThresholdKind = Literal["value", "quantile", "attainable", "attainable-quantile"]

_RELATIVE: tuple[ThresholdKind, ...] = ("attainable", "attainable-quantile")

# As TIE, where there is single precision only.
_SINGLE_TIE = 1e-6
# Stored neighborhoods of two or more hops may take this much memory; see ConfusionTracker.
MEMORY_BUDGET = 1 << 30


@dataclass(frozen=True)
class GroupingRule:
    """How nodes are grouped.

    Attributes:
        hops: Size of the neighborhood, k.
        thresholds: Ascending; a node is in group g if its confusion is above g of them.
        guidance: ``"nc"`` groups by Neighborhood Confusion; ``"nh"`` by 1 - Node Homophily (of the
            closed neighborhood), the paper's ablation; ``"degree"`` by :func:`scaled_degree`. Also
            a name from :func:`register_guidance`, or a function ``(graph, labels) -> values``.
        kind: Whether thresholds are values of the confusion (``"value"``) or quantiles of it among
            all nodes (``"quantile"``), or values or quantiles of NC divided by the largest NC that
            a node's neighborhood admits (``"attainable"``, ``"attainable-quantile"``; see
            :func:`ncgnn.relative_confusion`). Where nobody is above a quantile of the last, as it
            is the largest value, the limit is the next smaller value.
        known_labels: Whether training nodes count with their labels instead of the predictions.
        grouped: Whether nodes leave the first group at all.
    """

    hops: int = 1
    thresholds: tuple[float, ...] = (0.5,)
    guidance: Guidance = "nc"
    kind: ThresholdKind = "value"
    known_labels: bool = False
    grouped: bool = True

    def limits(self, values: NDArray[np.float64]) -> tuple[float, ...]:
        """The thresholds as values; quantiles are taken among the given values of all nodes."""
        if self.kind == "quantile":
            return tuple(float(np.nanquantile(values, share)) for share in self.thresholds)
        if self.kind == "attainable-quantile":
            return tuple(_quantile_below_top(values, share) for share in self.thresholds)
        return self.thresholds

    def assign(self, values: NDArray[np.float64], limits: tuple[float, ...]) -> NDArray[np.int64]:
        """The group of every value: the number of limits that it is above; 0 without groups."""
        group = np.zeros(len(values), dtype=np.int64)
        for limit in limits if self.grouped else ():
            if self.guidance in ("nc", "nh"):
                group += confusion_masks(values, limit)[1]
            else:
                group += values > limit  # a quantile of other values may be any number
        return group

    def assign_there(self, values: torch.Tensor) -> torch.Tensor:
        """The group of every value of NC or 1 - NH, found where the values are."""
        group = torch.zeros(len(values), dtype=torch.int64, device=values.device)
        tie = TIE if values.dtype == torch.float64 else _SINGLE_TIE
        for limit in self._limits_there(values) if self.grouped else ():
            group += values > limit + tie
        return group

    def _limits_there(self, values: torch.Tensor) -> list[torch.Tensor | float]:
        """The thresholds as values, quantiles as tensors, so that nobody waits for them."""
        if not self.kind.endswith("quantile"):
            return list(self.thresholds)
        ordered, count = values.sort().values, (~values.isnan()).sum()  # NaN comes last
        limits = [_quantile_of(ordered, count, share) for share in self.thresholds]
        if self.kind == "attainable-quantile":
            limits = [_below_top(values, limit) for limit in limits]
        return list(limits)


@dataclass(frozen=True, eq=False)
class Grouping:
    """How confused every node is, float64 [n], and the group that follows, int64 [n].

    While a model is trained both are where the model is; afterwards they are on the CPU.
    """

    confusion: torch.Tensor
    group: torch.Tensor

    @classmethod
    def start(cls, num_nodes: int, device: torch.device | str = "cpu") -> Grouping:
        """Before anything is known nobody is confused: NC = 0, all nodes in the first group."""
        confusion = torch.zeros(num_nodes, dtype=torch.float64)
        return cls(confusion, torch.zeros(num_nodes, dtype=torch.int64)).to(device)

    def to(self, device: torch.device | str) -> Grouping:
        """The same on a device; itself where it is there already."""
        there = torch.device(device)
        confusion = self.confusion.to(there, widest_float(there))
        group = self.group.to(there)
        if confusion is self.confusion and group is self.group:
            return self
        return Grouping(confusion, group)

    def __reduce__(self) -> tuple[object, ...]:
        """Sent to another process it lies on the CPU, as that one's devices are its own."""
        return Grouping, (self.confusion.cpu(), self.group.cpu())

    def describe(self, count: int) -> tuple[float, list[int]]:
        """The mean confusion, and the sizes of so many groups; looked at once."""
        if count not in self._described:
            kind = widest_float(self.group.device)
            sizes = [(self.group == group).sum().to(kind) for group in range(count)]
            mean, *found = torch.stack([self.confusion.mean(), *sizes]).cpu().tolist()
            self._described[count] = mean, [int(size) for size in found]
        return self._described[count]

    @cached_property
    def _described(self) -> dict[int, tuple[float, list[int]]]:
        return {}


class Grouper:
    """Applies a rule to one graph; what depends on the graph alone is prepared once.

    Labels on another device than the CPU are counted and grouped there, and the groups stay there.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes.
        rule: The rule.
        num_classes: Number of classes; by default the graph's.
    """

    def __init__(
        self, graph: GraphLike, rule: GroupingRule, num_classes: int | None = None
    ) -> None:
        check_threshold_kind(rule.kind, rule.guidance)
        self.rule = rule
        self._tracker: ConfusionTracker | None = None
        self._count = self._counter(graph, rule.guidance, num_classes)

    def __call__(self, labels: torch.Tensor) -> Grouping:
        """Group the nodes of the graph by their labels or predictions [n], -1 = unknown."""
        there = None if self._tracker is None else self._tracker.on_device(labels)
        if there is not None:
            return self._group_there(there, labels.detach())
        classes = labels.detach().cpu().numpy()
        confusion = self.confusion(classes)
        values = self.compared(confusion, classes)
        group = self.rule.assign(values, self.rule.limits(values))
        return Grouping(torch.from_numpy(confusion), torch.from_numpy(group)).to(labels.device)

    def _group_there(self, tracker: TorchConfusion, labels: torch.Tensor) -> Grouping:
        """The same where the labels are."""
        of_labels = tracker if self.rule.guidance == "nc" else tracker.unlike
        confusion = values = of_labels(labels)
        if self.rule.kind in _RELATIVE:
            values = tracker.relative(confusion, labels)
        return Grouping(confusion, self.rule.assign_there(values))

    def confusion(self, classes: NDArray[np.int64]) -> NDArray[np.float64]:
        """How confused every node is: its NC, or what the guidance gives."""
        return self._count(classes)

    def compared(
        self, confusion: NDArray[np.float64], classes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """What thresholds are compared with: the confusion, or its share of what is attainable."""
        if self.rule.kind in _RELATIVE and self._tracker is not None:
            return self._tracker.relative(confusion, classes)
        return confusion

    def _counter(
        self, graph: GraphLike, guidance: Guidance, num_classes: int | None
    ) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
        """What gives the values of all nodes from their classes."""
        if guidance not in ("nc", "nh"):
            function = guidance_function(guidance)
            known = as_graph(graph, require_labels=False)
            return lambda classes: _check_values(function(known, classes), known.num_nodes)
        tracker = ConfusionTracker(
            graph, self.rule.hops, num_classes=num_classes, memory_budget=MEMORY_BUDGET
        )
        self._tracker = tracker
        return tracker if guidance == "nc" else tracker.unlike


def check_threshold_kind(kind: ThresholdKind, guidance: Guidance) -> None:
    """Only of NC it is known what is attainable."""
    if kind in _RELATIVE and guidance != "nc":
        raise InputError(
            f"threshold_kind must be value or quantile with guidance {guidance!r}; got {kind}, "
            "which needs guidance 'nc'."
        )


def _quantile_below_top(values: NDArray[np.float64], share: float) -> float:
    """A quantile; where it is the largest value, the next smaller one, so that somebody is above.

    Many nodes share the largest value: every node with one neighbor of another class has it.
    """
    known = values[~np.isnan(values)]
    limit, top = float(np.quantile(known, share)) if known.size else 0.0, known.max(initial=0.0)
    return limit if limit < top else float(known[known < top].max(initial=0.0))


def _quantile_of(ordered: torch.Tensor, count: torch.Tensor, share: float) -> torch.Tensor:
    """A quantile of the first ``count`` of ascending values, between two of them as NumPy's is."""
    place = (count - 1).clamp(min=0).to(ordered.dtype) * share
    before = place.floor()
    part, low = place - before, before.long()
    first = ordered.index_select(0, low.view(1))[0]
    second = ordered.index_select(0, torch.minimum(low + 1, (count - 1).clamp(min=0)).view(1))[0]
    gap = second - first
    return torch.where(part < 0.5, first + gap * part, second - gap * (1 - part))


def _below_top(values: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """A limit, or the next smaller value where it is the largest; NaN counts as nothing."""
    known = values.nan_to_num(0)
    top = known.amax().clamp(min=0)
    below = known.masked_fill(known >= top, 0).amax().clamp(min=0)
    limit = limit.nan_to_num(0)
    return torch.where(limit < top, limit, below)


def _check_values(values: Any, num_nodes: int) -> NDArray[np.float64]:
    """What a function of guidance gave, as float64 [n]; NaN = nothing is known of a node."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"guidance must give one number per node; got {type(values).__name__}."
        ) from None
    if found.shape != (num_nodes,):
        raise InputError(
            f"guidance must give one number per node, [{num_nodes}]; got {list(found.shape)}."
        )
    if np.isinf(found).any():
        raise InputError("guidance must give finite numbers, or NaN; got infinite ones.")
    return found


def scaled_degree(graph: Graph, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""The degree of every node, scaled to [0, 1]: :math:`\log(1 + d_i) / \log(1 + \max_j d_j)`.

    :math:`d_i` is the number of edges into node i, self-loops left out. The logarithm keeps a few
    hubs from pushing everyone else to 0. Labels play no part.
    """
    logarithms = np.log1p(graph.degrees - graph.self_loops)
    return logarithms / max(float(logarithms.max(initial=0)), 1e-12)


_functions: dict[str, GuidanceFunction] = {"degree": scaled_degree}


def register_guidance(name: str, function: GuidanceFunction, *, replace: bool = False) -> None:
    """Make a function known as a value of the option ``guidance``, also in TOML and ``--set``.

    Args:
        name: What configurations call it.
        function: ``(graph, labels) -> values``: one number per node, an array or a tensor, from
            the :class:`ncgnn.graph.Graph` and the class of every node, -1 = unknown. Nodes with
            larger values are in later groups; fixed thresholds lie between 0 and 1.
        replace: Whether it takes the place of another function of this name.
    """
    if not name or name in ("nc", "nh", "none"):
        raise InputError(f"a guidance must have a name other than nc, nh and none; got '{name}'.")
    if not callable(function):
        raise InputError(
            f"guidance must be a function (graph, labels) -> values; got {function!r}."
        )
    if not replace and _functions.get(name, function) is not function:
        raise InputError(
            f"there is a guidance '{name}' already; choose another name, or set replace=True."
        )
    _functions[name] = function


def guidance_function(guidance: Guidance) -> GuidanceFunction:
    """The function of a name, or the function itself.

    Raises:
        UnknownNameError: There is none of this name.
    """
    if not isinstance(guidance, str):
        return guidance
    if guidance not in _functions:
        raise UnknownNameError("guidance", guidance, ["nc", "nh", *_functions])
    return _functions[guidance]


def find_guidance(guidance: Guidance) -> Guidance:
    """A guidance that exists, by its name if it has one."""
    if guidance in ("nc", "nh"):
        return guidance
    function = guidance_function(guidance)
    names = [name for name, known in _functions.items() if known is function]
    return guidance if isinstance(guidance, str) or not names else names[0]
