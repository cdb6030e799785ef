"""Models by name: built-in ones, those of other packages, and those that a program registers.

Another package makes a model known with an entry point in its ``pyproject.toml``::

    [project.entry-points."ncgnn.models"]
    my-model = "my_package.my_module:MyModel"
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.nn.base import Model
from ncgnn.nn.separated.model import SeparatedGNN

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.nn.separated.backbones import LayerConstructor

#: Module and class of every built-in model; modules are imported when a model is first asked for.
BUILT_IN: dict[str, str] = {
    "ncgcn": "separated.model:NCGCN",
    "ncsage": "separated.model:NCSAGE",
    "ncgat": "separated.model:NCGAT",
    "ncgin": "separated.model:NCGIN",
    "ncgraphconv": "separated.model:NCGraphConv",
    "nctuned-gcn": "separated.tuned:NCTunedGCN",
    "nctuned-sage": "separated.tuned:NCTunedSAGE",
    "gcn": "baselines.classic:GCN",
    "sage": "baselines.classic:GraphSAGE",
    "mlp": "baselines.classic:MLP",
    "gat": "baselines.gat:GAT",
    "h2gcn": "baselines.h2gcn:H2GCN",
    "gprgnn": "baselines.spectral:GPRGNN",
    "fagcn": "baselines.fagcn:FAGCN",
    "acmgcn": "baselines.acmgcn:ACMGCN",
    "cpgnn": "baselines.cpgnn:CPGNN",
    "wrgat": "baselines.wrgat:WRGAT",
    "gbksage": "baselines.gbksage:GBKSage",
    "hog": "baselines.hog:HOG",
    "glognn": "baselines.glognn:GloGNN",
    "sngnn": "baselines.sngnn:SNGNN",
    "cagnn": "baselines.cagnn:CAGNN",
    "appnp": "baselines.spectral:APPNP",
    "sgc": "baselines.spectral:SGC",
    "gcnii": "baselines.gcnii:GCNII",
    "mixhop": "baselines.mixhop:MixHop",
    "linkx": "baselines.linkx:LINKX",
    "bernnet": "baselines.spectral:BernNet",
    "tuned-gcn": "baselines.tuned:TunedGCN",
    "tuned-sage": "baselines.tuned:TunedSAGE",
    "tuned-gat": "baselines.tuned:TunedGAT",
    "majority": "baselines.fitted:Majority",
    "logistic": "baselines.fitted:Logistic",
    "propagation": "baselines.fitted:Propagation",
    "boosting": "baselines.boosting:Boosting",
    "feature-boosting": "baselines.boosting:FeatureBoosting",
    "mixture": "mixture:Mixture",
}

_registered: dict[str, type[Model]] = {}
_Kind = TypeVar("_Kind", bound=type[Model])


def model_names() -> list[str]:
    """The names of all models, built-in ones first."""
    return list(dict.fromkeys([*BUILT_IN, *_entry_points(), *_registered]))


def model_class(model: str | type[Model]) -> type[Any]:
    """The class of a model by its name, or the class itself.

    Raises:
        UnknownNameError: There is no model of this name.
        InputError: The class is no :class:`ncgnn.nn.Model`.
    """
    if not isinstance(model, str):
        return _check_class(model)
    name = model_name(model)
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        module, kind = BUILT_IN[name].split(":")
        return getattr(import_module(f"ncgnn.nn.{module}"), kind)
    found = _entry_points().get(name)
    if found is None:
        raise UnknownNameError("model", name, model_names())
    _registered[name] = _check_class(found.load())
    return _registered[name]


def model_name(model: str | type[Model]) -> str:
    """The name of a model; a class that has none yet is registered under its own.

    Capitals play no part where just one model is meant: ``"mymodel"`` is ``"MyModel"``. A name that
    no model has is returned as it is.
    """
    if isinstance(model, str):
        if model in _registered or model in BUILT_IN or model in (known := model_names()):
            return model
        meant = [name for name in known if name.lower() == model.lower()]
        return meant[0] if len(meant) == 1 else model
    if not isinstance(cast("object", model), type):
        raise InputError(f"model must be a name or a subclass of ncgnn.nn.Model; got {model!r}.")
    for name, kind in _registered.items():
        if kind is model:
            return name
    place = f"{model.__module__}:{model.__qualname__}"
    for name, known in BUILT_IN.items():
        if f"ncgnn.nn.{known}" == place:
            return name
    earlier = _registered.get(model.__name__)
    again = earlier is not None and place == f"{earlier.__module__}:{earlier.__qualname__}"
    register_model(model, replace=again)  # a cell of a notebook that was run again
    return model.__name__


@overload
def register_model(model: _Kind, name: str | None = None, *, replace: bool = False) -> _Kind: ...
@overload
def register_model(
    model: None = None, name: str | None = None, *, replace: bool = False
) -> Callable[[_Kind], _Kind]: ...
def register_model(model: Any = None, name: str | None = None, *, replace: bool = False) -> Any:
    """Make a class known by a name: in a call, or as a decorator, ``@register_model``.

    Args:
        model: The class, a subclass of :class:`ncgnn.nn.Model`.
        name: What configurations and the command line call it; by default the name of the class.
        replace: Whether it takes the place of another model of this name.

    Returns:
        The class.
    """
    if model is None:

        def decorate(kind: type[Model]) -> type[Model]:
            return register_model(kind, name, replace=replace)

        return decorate
    kind = _check_class(model)
    name = kind.__name__ if name is None else name
    if re.fullmatch(r"[\w.-]*\w", name) is None:
        raise InputError(
            f"a model's name must consist of letters, digits, '-', '_' and '.'; got '{name}'."
        )
    if not replace and name in model_names() and _registered.get(name) is not kind:
        raise InputError(
            f"there is a model '{name}' already; choose another name, or set replace=True."
        )
    _registered[name] = kind
    return kind


def register_backbone(
    name: str, constructor: LayerConstructor, *, replace: bool = False
) -> type[SeparatedGNN]:
    """Make a separated model of any message-passing layer, and register it.

    Args:
        name: What configurations and the command line call it.
        constructor: ``(width, hidden) -> layer``, where the layer is called as
            ``layer(x, edge_index)``.
        replace: Whether it takes the place of another model of this name.

    Returns:
        The model's class.
    """
    fields: dict[str, Any] = {
        "layer": staticmethod(constructor),
        "uses_weights": False,
        "__doc__": f"Separated {name}.",
    }
    return register_model(type(name, (SeparatedGNN,), fields), name, replace=replace)


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="ncgnn.models")}


def _check_class(model: Any) -> type[Model]:
    if isinstance(model, type) and issubclass(model, Model):
        return model
    raise InputError(f"a model must be a name or a subclass of ncgnn.nn.Model; got {model!r}.")
