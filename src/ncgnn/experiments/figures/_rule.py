"""Which nodes a figure calls confused: one k and one T for all models of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncgnn.errors import InputError
from ncgnn.experiments._request import chosen_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ncgnn.experiments._request import Request
    from ncgnn.graph import Graph


@dataclass(frozen=True)
class ConfusionRule:
    """Nodes whose NC within ``hops`` hops is above ``threshold`` are high.

    Attributes:
        hops: The hop count k.
        threshold: The threshold T.
    """

    hops: int
    threshold: float

    def confusion(self, graph: Graph) -> NDArray[np.float64]:
        """NC of the true labels."""
        from ncgnn.metrics import neighborhood_confusion

        return neighborhood_confusion(graph, hops=self.hops)

    def high(self, graph: Graph) -> NDArray[np.bool_]:
        """Whether each node's true NC is high."""
        from ncgnn.metrics import confusion_masks

        return confusion_masks(self.confusion(graph), self.threshold)[1]


#: The paper's observations on Coauthor CS are made with k and T of their own.
OBSERVED = {"coauthor-cs": ConfusionRule(2, 0.4)}


def preset_rule(request: Request, dataset: str) -> ConfusionRule:
    """NCGCN's k and T for a data set, or those that the request sets."""
    from ncgnn.experiments._config_files import file_for
    from ncgnn.training import make_config

    given = chosen_options(request)
    settings = {key: given[key] for key in ("hops", "threshold", "dropout") if key in given}
    file = file_for(request.files, dataset, "ncgcn")
    chosen = make_config(dataset=dataset, model="ncgcn", config=file, settings=settings)
    options = chosen.model.options
    if len(options["threshold"]) != 1:
        raise InputError("threshold: the figure divides nodes into low and high; give one number.")
    return ConfusionRule(int(options["hops"]), float(options["threshold"][0]))


def observed_rule(request: Request, dataset: str) -> ConfusionRule:
    """The k and T of the paper's observations where it states them, else NCGCN's."""
    given = chosen_options(request)
    if dataset in OBSERVED and not {"hops", "threshold"} & given.keys():
        return OBSERVED[dataset]
    return preset_rule(request, dataset)
