"""Models: separated learning, its backbones, and models to compare with."""

from typing import TYPE_CHECKING

from ncgnn._lazy import lazy_exports

if TYPE_CHECKING:
    from ncgnn.nn._dropout import DropoutKey, relu_dropout
    from ncgnn.nn._grouping import Grouper, Grouping, GroupingRule
    from ncgnn.nn._inputs import GraphInputs
    from ncgnn.nn._models import NCGCN, NCSAGE, model_class, model_names, register_backbone
    from ncgnn.nn._options import SeparatedOptions
    from ncgnn.nn._protocol import Phase
    from ncgnn.nn._separated import SeparatedGNN
    from ncgnn.nn.baselines.gcn import GCN
    from ncgnn.nn.baselines.mlp import MLP
    from ncgnn.nn.baselines.sage import GraphSAGE

__all__ = [
    "GCN",
    "MLP",
    "NCGCN",
    "NCSAGE",
    "DropoutKey",
    "GraphInputs",
    "GraphSAGE",
    "Grouper",
    "Grouping",
    "GroupingRule",
    "Phase",
    "SeparatedGNN",
    "SeparatedOptions",
    "model_class",
    "model_names",
    "register_backbone",
    "relu_dropout",
]

_MODULES = {
    "_dropout": ("DropoutKey", "relu_dropout"),
    "_grouping": ("Grouper", "Grouping", "GroupingRule"),
    "_inputs": ("GraphInputs",),
    "_models": ("NCGCN", "NCSAGE", "model_class", "model_names", "register_backbone"),
    "_options": ("SeparatedOptions",),
    "_protocol": ("Phase",),
    "_separated": ("SeparatedGNN",),
    "baselines.gcn": ("GCN",),
    "baselines.mlp": ("MLP",),
    "baselines.sage": ("GraphSAGE",),
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
)
