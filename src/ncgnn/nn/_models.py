"""The separated models of the paper, and the registry of all models by name."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.nn._catalog import BY_NAME, ENTRIES
from ncgnn.nn._options import SeparatedOptions, checked
from ncgnn.nn._separated import SeparatedGNN

if TYPE_CHECKING:
    import torch

    from ncgnn.nn._dropout import DropoutKey
    from ncgnn.nn._grouping import GroupingRule
    from ncgnn.nn._inputs import GraphInputs
    from ncgnn.nn._plugin import LayerConstructor

_SEPARATED_NOT_OPTIONS = {"hops", "threshold", "threshold_kind", "guidance", "known_labels"}


class NodeClassifier(Protocol):
    """What training needs of a model."""

    rule: GroupingRule | None

    def __call__(
        self,
        inputs: GraphInputs,
        group: torch.Tensor | None,
        key: DropoutKey | None,
        nodes: torch.Tensor | None,
    ) -> torch.Tensor:
        """Logits of the given nodes, None = all."""
        ...


class SeparatedModel(SeparatedGNN):
    """A separated model that is made from options and knows how its nodes are grouped."""

    Options = SeparatedOptions
    constructor: Any = "gcn"

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        chosen = checked(self.Options, options)
        super().__init__(
            num_features,
            num_classes,
            backbone=type(self).constructor,
            **chosen.model_dump(exclude=_SEPARATED_NOT_OPTIONS),
        )
        self.rule = chosen.rule


class NCGCN(SeparatedModel):
    """Separated learning with graph convolutions.

    Args:
        num_features: Number of features per node.
        num_classes: Number of classes.
        **options: The fields of :class:`SeparatedOptions`.
    """


class NCSAGE(SeparatedModel):
    """Separated learning with SAGE layers (mean); see :class:`NCGCN`."""

    constructor = "sage"


_REGISTERED: dict[str, type[Any]] = {}


def model_names() -> list[str]:
    """The names of all models."""
    return [*(entry.name for entry in ENTRIES if entry.place is not None), *_REGISTERED]


def model_class(name: str) -> type[Any]:
    """The class of a model by its name, imported when it is first asked for."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in BY_NAME:
        raise UnknownNameError("model", name, model_names())
    entry = BY_NAME[name]
    if entry.place is None:
        raise InputError(
            f"{entry.title} is listed with its published results only; it is not implemented "
            f"({entry.paper})."
        )
    module, attribute = entry.place.split(":")
    return getattr(import_module(f"ncgnn.nn.{module}"), attribute)


def made_for(kind: type[Any], inputs: GraphInputs, **options: Any) -> Any:
    """A model for a graph; ``kind.for_inputs`` makes those that have weights for every node."""
    declared = getattr(kind, "for_inputs", None)
    if declared is not None:
        return declared(inputs, **options)
    return kind(inputs.num_features, inputs.num_classes, **options)


def register_backbone(name: str, constructor: LayerConstructor) -> type[Any]:
    """Make a separated model from any message-passing layer, known by a name of its own.

    Args:
        name: The model's name in ``ncgnn.fit(..., model=name)`` of this process.
        constructor: ``(width, hidden) -> layer``, where the layer is called as
            ``layer(x, edge_index)``.

    Returns:
        The model's class.
    """
    if re.fullmatch(r"[\w.-]*\w", name) is None:
        raise InputError(
            f"a model's name is made of letters, digits, '-', '_' and '.', not '{name}'."
        )
    if name in BY_NAME or name in _REGISTERED:
        raise InputError(f"there is a model '{name}' already; choose another name.")
    fields = {"constructor": staticmethod(constructor), "__doc__": f"Separated {name}."}
    _REGISTERED[name] = type(name, (SeparatedModel,), fields)
    return _REGISTERED[name]
