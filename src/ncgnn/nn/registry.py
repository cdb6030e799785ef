"""The separated models of the paper, and the registry of all models by name.

Every model that the package knows: where it is, whose it is, and what it needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.nn.base import SeparatedOptions, checked
from ncgnn.nn.separated.model import SeparatedGNN

if TYPE_CHECKING:
    import torch

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.grouping import GroupingRule
    from ncgnn.nn.inputs import GraphInputs
    from ncgnn.nn.separated.backbones import LayerConstructor

#: What a model sees of a directed edge.
Edges = Literal["incoming", "both", "none"]
Family = Literal["separated", "features", "spatial", "attention", "spectral", "rewired", "global"]


@dataclass(frozen=True)
class ModelEntry:
    """A model of the list.

    Attributes:
        name: What ``--model`` calls it.
        title: What papers call it.
        family: How it uses the graph.
        paper: Where it was published.
        place: ``module:class`` under :mod:`ncgnn.nn`; None where it is not implemented.
        memory: What its largest arrays grow with.
        edges: Whether a node sees ``incoming`` edges, edges in ``both`` directions, or ``none``.
        published: Accuracy that its authors report with 60/20/20 splits, in percent, by data set,
            as the separated-learning paper quotes it; for models that are not implemented.
    """

    name: str
    title: str
    family: Family
    paper: str
    place: str | None
    memory: str = "nodes × hidden"
    edges: Edges = "incoming"
    published: tuple[tuple[str, float], ...] = ()


_SEPARATED = "Zhou et al., Clarify Confused Nodes via Separated Learning, arXiv:2306.02285"
_OURS = "Ours, after arXiv:2306.02285 and arXiv:2406.08993"
_TUNED = "Luo et al., Classic GNNs are Strong Baselines, NeurIPS 2024, arXiv:2406.08993"

ENTRIES: tuple[ModelEntry, ...] = (
    ModelEntry("ncgcn", "NCGCN", "separated", _SEPARATED, "registry:NCGCN"),
    ModelEntry("ncsage", "NCSAGE", "separated", _SEPARATED, "registry:NCSAGE"),
    ModelEntry(
        "ncgat",
        "NCGAT",
        "separated",
        _SEPARATED,
        "separated.plugged:NCGAT",
        "edges × heads, nodes × features",
    ),
    ModelEntry(
        "ncgin", "NCGIN", "separated", _SEPARATED, "separated.plugged:NCGIN", "nodes × features"
    ),
    ModelEntry(
        "ncgraphconv",
        "NCGraphConv",
        "separated",
        _SEPARATED,
        "separated.plugged:NCGraphConv",
        "nodes × features",
    ),
    ModelEntry(
        "nctuned-gcn", "NCTunedGCN", "separated", _OURS, "separated.tuned:NCTunedGCN", edges="both"
    ),
    ModelEntry(
        "nctuned-sage",
        "NCTunedSAGE",
        "separated",
        _OURS,
        "separated.tuned:NCTunedSAGE",
        edges="both",
    ),
    ModelEntry(
        "gcn",
        "GCN",
        "spatial",
        "Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, "
        "ICLR 2017, arXiv:1609.02907",
        "baselines.classic:GCN",
    ),
    ModelEntry(
        "sage",
        "GraphSAGE",
        "spatial",
        "Hamilton et al., Inductive Representation Learning on Large Graphs, NeurIPS 2017, "
        "arXiv:1706.02216",
        "baselines.classic:GraphSAGE",
    ),
    ModelEntry("mlp", "MLP", "features", "", "baselines.classic:MLP", edges="none"),
    ModelEntry(
        "gat",
        "GAT",
        "attention",
        "Veličković et al., Graph Attention Networks, ICLR 2018, arXiv:1710.10903",
        "baselines.gat:GAT",
        "nodes × hidden, edges × heads",
    ),
    ModelEntry(
        "h2gcn",
        "H2GCN",
        "spatial",
        "Zhu et al., Beyond Homophily in Graph Neural Networks, NeurIPS 2020, arXiv:2006.11468",
        "baselines.h2gcn:H2GCN",
        "two-hop pairs, 8 × nodes × hidden",
        edges="both",
    ),
    ModelEntry(
        "gprgnn",
        "GPRGNN",
        "spectral",
        "Chien et al., Adaptive Universal Generalized PageRank Graph Neural Network, ICLR 2021, "
        "arXiv:2006.07988",
        "baselines.gprgnn:GPRGNN",
    ),
    ModelEntry(
        "fagcn",
        "FAGCN",
        "attention",
        "Bo et al., Beyond Low-frequency Information in Graph Convolutional Networks, AAAI 2021, "
        "arXiv:2101.00797",
        "baselines.fagcn:FAGCN",
        "nodes × hidden × layers, edges",
        edges="both",
    ),
    ModelEntry(
        "acmgcn",
        "ACM-GCN",
        "spectral",
        "Luan et al., Revisiting Heterophily For Graph Neural Networks, NeurIPS 2022, "
        "arXiv:2210.07606",
        "baselines.acmgcn:ACMGCN",
        "3 × nodes × hidden",
    ),
    ModelEntry(
        "cpgnn",
        "CPGNN (Cheby-1)",
        "spectral",
        "Zhu et al., Graph Neural Networks with Heterophily, AAAI 2021, arXiv:2009.13566",
        "baselines.cpgnn:CPGNN",
        edges="both",
    ),
    ModelEntry(
        "wrgat",
        "WRGAT",
        "rewired",
        "Suresh et al., Breaking the Limit of Graph Neural Networks by Improving the "
        "Assortativity of Graphs with Local Mixing Patterns, KDD 2021, arXiv:2106.06586",
        "baselines.wrgat:WRGAT",
        "relations × (nodes × log nodes + features × hidden)",
        edges="both",
    ),
    ModelEntry(
        "gbksage",
        "GBKSage",
        "attention",
        "Du et al., GBK-GNN: Gated Bi-Kernel Graph Neural Networks, WWW 2022, arXiv:2110.15777",
        "baselines.gbksage:GBKSage",
        "nodes × hidden, edges",
    ),
    ModelEntry(
        "hog",
        "HOG-GCN",
        "global",
        "Wang et al., Powerful Graph Convolutional Networks with Adaptive Propagation Mechanism "
        "for Homophily and Heterophily, AAAI 2022",
        "baselines.hog:HOG",
        "two-hop pairs × 50",
        edges="both",
    ),
    ModelEntry(
        "glognn",
        "GloGNN",
        "global",
        "Li et al., Finding Global Homophily in Graph Neural Networks When Meeting Heterophily, "
        "ICML 2022, arXiv:2205.07308",
        "baselines.glognn:GloGNN",
        "nodes × hidden",
    ),
    ModelEntry(
        "sngnn",
        "SNGNN",
        "rewired",
        "Zou et al., Similarity-Navigated Graph Neural Networks for Node Classification, "
        "Information Sciences 2023",
        "baselines.sngnn:SNGNN",
        "edges; plusplus: nodes × classes weights",
    ),
    ModelEntry(
        "cagnn",
        "CAGNN",
        "spatial",
        "Chen et al., Exploiting Neighbor Effect: Conv-Agnostic GNN Framework for Graphs with "
        "Heterophily, TNNLS 2023",
        "baselines.cagnn:CAGNN",
    ),
    ModelEntry(
        "appnp",
        "APPNP",
        "spectral",
        "Gasteiger et al., Predict then Propagate, ICLR 2019, arXiv:1810.05997",
        "baselines.appnp:APPNP",
    ),
    ModelEntry(
        "sgc",
        "SGC",
        "spectral",
        "Wu et al., Simplifying Graph Convolutional Networks, ICML 2019, arXiv:1902.07153",
        "baselines.sgc:SGC",
        "nodes × features",
    ),
    ModelEntry(
        "gcnii",
        "GCNII",
        "spatial",
        "Chen et al., Simple and Deep Graph Convolutional Networks, ICML 2020, arXiv:2007.02133",
        "baselines.gcnii:GCNII",
        "nodes × hidden × layers",
    ),
    ModelEntry(
        "mixhop",
        "MixHop",
        "spatial",
        "Abu-El-Haija et al., MixHop: Higher-Order Graph Convolutional Architectures via "
        "Sparsified Neighborhood Mixing, ICML 2019, arXiv:1905.00067",
        "baselines.mixhop:MixHop",
        "powers × nodes × hidden",
    ),
    ModelEntry(
        "linkx",
        "LINKX",
        "features",
        "Lim et al., Large Scale Learning on Non-Homophilous Graphs, NeurIPS 2021, "
        "arXiv:2110.14446",
        "baselines.linkx:LINKX",
        "nodes × hidden weights",
    ),
    ModelEntry(
        "bernnet",
        "BernNet",
        "spectral",
        "He et al., BernNet: Learning Arbitrary Graph Spectral Filters via Bernstein "
        "Approximation, NeurIPS 2021, arXiv:2106.10994",
        "baselines.bernnet:BernNet",
        "degree × nodes × classes",
        edges="both",
    ),
    ModelEntry(
        "tuned-gcn",
        "tuned GCN",
        "spatial",
        _TUNED,
        "baselines.tuned:TunedGCN",
        "nodes × hidden × layers",
        edges="both",
    ),
    ModelEntry(
        "tuned-sage",
        "tuned SAGE",
        "spatial",
        _TUNED,
        "baselines.tuned:TunedSAGE",
        "nodes × hidden × layers",
        edges="both",
    ),
    ModelEntry(
        "tuned-gat",
        "tuned GAT",
        "attention",
        _TUNED,
        "baselines.tuned:TunedGAT",
        "nodes × hidden × layers, edges",
        edges="both",
    ),
    ModelEntry(
        "geom-gcn",
        "Geom-GCN",
        "rewired",
        "Pei et al., Geom-GCN: Geometric Graph Convolutional Networks, ICLR 2020, arXiv:2002.05287",
        None,
        published=(("pubmed", 90.72), ("actor", 31.96)),
    ),
    ModelEntry(
        "snowball",
        "Snowball",
        "spatial",
        "Luan et al., Break the Ceiling: Stronger Multi-scale Deep Graph Convolutional Networks, "
        "NeurIPS 2019, arXiv:1906.02174",
        None,
        published=(("pubmed", 89.04), ("actor", 36.00)),
    ),
    ModelEntry(
        "colinkdist",
        "CoLinkDist",
        "features",
        "Luo et al., Distilling Self-Knowledge From Contrastive Links to Classify Graph Nodes "
        "Without Passing Messages, 2021, arXiv:2106.08541",
        None,
        published=(
            ("pubmed", 89.58),
            ("photo", 94.36),
            ("computers", 89.42),
            ("coauthor-cs", 95.80),
            ("coauthor-physics", 97.05),
            ("cora-full", 70.32),
        ),
    ),
    ModelEntry(
        "3ference",
        "3ference",
        "spatial",
        "Luo et al., Inferring from References with Differences for Semi-Supervised Node "
        "Classification on Graphs, Mathematics 2022",
        None,
        published=(
            ("pubmed", 88.90),
            ("photo", 95.05),
            ("computers", 90.74),
            ("coauthor-cs", 95.99),
            ("coauthor-physics", 97.22),
        ),
    ),
    ModelEntry(
        "exphormer",
        "Exphormer",
        "attention",
        "Shirzad et al., Exphormer: Sparse Transformers for Graphs, ICML 2023, arXiv:2303.06147",
        None,
        published=(
            ("photo", 95.35),
            ("computers", 91.47),
            ("coauthor-cs", 94.93),
            ("coauthor-physics", 96.89),
        ),
    ),
    ModelEntry(
        "favardgnn",
        "FavardGNN",
        "spectral",
        "Guo and Wei, Graph Neural Networks with Learnable and Optimal Polynomial Bases, "
        "ICML 2023, arXiv:2302.12432",
        None,
        published=(("pubmed", 90.90), ("actor", 43.05)),
    ),
)

BY_NAME: dict[str, ModelEntry] = {entry.name: entry for entry in ENTRIES}


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
