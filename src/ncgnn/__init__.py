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
    from ncgnn.data import generate, load, make_split, save
    from ncgnn.graph import Graph
    from ncgnn.metrics import (
        AddNeighborhoodConfusion,
        ConfusionTracker,
        adjusted_homophily,
        analyze,
        class_insensitive_homophily,
        confusion_masks,
        edge_homophily,
        label_informativeness,
        neighborhood_class_distribution,
        neighborhood_confusion,
        neighborhood_entropy,
        node_homophily,
    )

__all__ = [
    "AddNeighborhoodConfusion",
    "ConfusionTracker",
    "Graph",
    "__version__",
    "adjusted_homophily",
    "analyze",
    "class_insensitive_homophily",
    "confusion_masks",
    "edge_homophily",
    "generate",
    "label_informativeness",
    "load",
    "make_split",
    "neighborhood_class_distribution",
    "neighborhood_confusion",
    "neighborhood_entropy",
    "node_homophily",
    "save",
]

_DATA = ("generate", "load", "make_split", "save")
_HERE = ("__version__", "Graph", *_DATA)
__getattr__, __dir__ = lazy_exports(
    __name__,
    {"Graph": "ncgnn.graph"}
    | dict.fromkeys(_DATA, "ncgnn.data")
    | {name: "ncgnn.metrics" for name in __all__ if name not in _HERE},
)
