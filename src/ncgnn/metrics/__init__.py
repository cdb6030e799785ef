"""Metrics of the labels around each node, and what theory says about them.

Per-node vectors come first and means second: every per-node function returns one value per node,
NaN where it is undefined, and :func:`mean` averages the rest.
"""

from typing import TYPE_CHECKING

from ncgnn._lazy import lazy_exports

if TYPE_CHECKING:
    from ncgnn.metrics._class_pairs import class_pair_counts
    from ncgnn.metrics._confusion import (
        ConfusionTracker,
        confusion_masks,
        neighborhood_confusion,
    )
    from ncgnn.metrics._duplication import Duplication, duplication_rates
    from ncgnn.metrics._homophily import (
        adjusted_homophily,
        class_insensitive_homophily,
        edge_homophily,
        node_homophily,
    )
    from ncgnn.metrics._information import (
        label_informativeness,
        neighborhood_class_distribution,
        neighborhood_entropy,
    )
    from ncgnn.metrics._inputs import mean
    from ncgnn.metrics._summary import Analysis, analyze
    from ncgnn.metrics._theory import (
        conditional_entropy,
        entropy_lower_bound,
        error_lower_bound,
        top_share,
    )
    from ncgnn.metrics._transform import AddNeighborhoodConfusion

__all__ = [
    "AddNeighborhoodConfusion",
    "Analysis",
    "ConfusionTracker",
    "Duplication",
    "adjusted_homophily",
    "analyze",
    "class_insensitive_homophily",
    "class_pair_counts",
    "conditional_entropy",
    "confusion_masks",
    "duplication_rates",
    "edge_homophily",
    "entropy_lower_bound",
    "error_lower_bound",
    "label_informativeness",
    "mean",
    "neighborhood_class_distribution",
    "neighborhood_confusion",
    "neighborhood_entropy",
    "node_homophily",
    "top_share",
]

_MODULES = {
    "_class_pairs": ("class_pair_counts",),
    "_confusion": ("ConfusionTracker", "confusion_masks", "neighborhood_confusion"),
    "_duplication": ("Duplication", "duplication_rates"),
    "_homophily": (
        "adjusted_homophily",
        "class_insensitive_homophily",
        "edge_homophily",
        "node_homophily",
    ),
    "_information": (
        "label_informativeness",
        "neighborhood_class_distribution",
        "neighborhood_entropy",
    ),
    "_inputs": ("mean",),
    "_summary": ("Analysis", "analyze"),
    "_theory": ("conditional_entropy", "entropy_lower_bound", "error_lower_bound", "top_share"),
    "_transform": ("AddNeighborhoodConfusion",),
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
)
