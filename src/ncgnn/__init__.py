"""Separated learning for graphs with confused nodes.

>>> import ncgnn
>>> graph = ncgnn.load("digits")
>>> ncgnn.neighborhood_confusion(graph).shape
(1797,)
"""

from typing import TYPE_CHECKING

from ncgnn._lazy import lazy_exports
from ncgnn._version import __version__

if TYPE_CHECKING:
    from ncgnn.data import custom_split, generate, load, make_split, save, split_report
    from ncgnn.errors import InputError, NcgnnError, NcgnnWarning
    from ncgnn.graph import Graph
    from ncgnn.metrics import (
        AddNeighborhoodConfusion,
        ConfusionTracker,
        adjusted_homophily,
        analyze,
        class_insensitive_homophily,
        conditional_entropy,
        confusion_masks,
        duplication_rates,
        edge_homophily,
        error_lower_bound,
        label_informativeness,
        neighborhood_class_distribution,
        neighborhood_confusion,
        neighborhood_entropy,
        node_homophily,
    )
    from ncgnn.training import fit, load_run

__all__ = [
    "AddNeighborhoodConfusion",
    "ConfusionTracker",
    "Graph",
    "InputError",
    "NcgnnError",
    "NcgnnWarning",
    "__version__",
    "adjusted_homophily",
    "analyze",
    "class_insensitive_homophily",
    "conditional_entropy",
    "confusion_masks",
    "custom_split",
    "duplication_rates",
    "edge_homophily",
    "error_lower_bound",
    "fit",
    "generate",
    "label_informativeness",
    "load",
    "load_run",
    "make_split",
    "neighborhood_class_distribution",
    "neighborhood_confusion",
    "neighborhood_entropy",
    "node_homophily",
    "save",
    "split_report",
]

_DATA = ("custom_split", "generate", "load", "make_split", "save", "split_report")
_ERRORS = ("InputError", "NcgnnError", "NcgnnWarning")
_TRAINING = ("fit", "load_run")
_HERE = ("__version__", "Graph", *_DATA, *_ERRORS, *_TRAINING)
__getattr__, __dir__ = lazy_exports(
    __name__,
    {"Graph": "ncgnn.graph"}
    | dict.fromkeys(_DATA, "ncgnn.data")
    | dict.fromkeys(_ERRORS, "ncgnn.errors")
    | dict.fromkeys(_TRAINING, "ncgnn.training")
    | {name: "ncgnn.metrics" for name in __all__ if name not in _HERE},
    submodules=("data", "errors", "graph", "metrics", "nn", "report", "testing", "training"),
)
