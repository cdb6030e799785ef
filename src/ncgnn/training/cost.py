"""What a run takes of memory, counted before it begins, and how an estimate is said.

A run on the whole graph takes what can be counted, in bytes: of the graph, of what a model makes of
its edges and features, of activations, of weights, times coefficients that were measured once for
every model (``benchmarks/estimate.py`` measures them and writes ``coefficients.toml``).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._memory import available_gib, used_gib
from ncgnn.errors import InputError
from ncgnn.nn import GIB, MOST_ENTRIES, SPARSE_COST, Model, feature_shape, model_class
from ncgnn.training.requirements import empty_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.graph import Graph
    from ncgnn.training.config import RunConfig

#: Format of the table of coefficients.
FORMAT = 1
#: Runs that are expected to take longer are told of before they begin.
LONG_SECONDS = 60.0
#: Size of batches where they are chosen without being asked for.
BATCH_SIZE = 1024
_DOUBT = 1.25

# Rows whose products with the features are looked at.
_SAMPLED_ROWS = 256


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take.

    Attributes:
        model: The model's name.
        memory_gib: Peak memory of the process in GiB, interpreter and libraries included.
        available_gib: What this process has and can still get.
        epoch_seconds: Time of an epoch; None where it was not asked for.
        epochs: Upper limit of the number of epochs; patience may end training earlier.
        batch_size: Number of training nodes in a batch; None = all.
        mapped_gib: What of the memory is read from files and given up where others need it.
        remedies: What would need less memory, and how much, None = not known, by what to set.
    """

    model: str
    memory_gib: float
    available_gib: float
    epoch_seconds: float | None
    epochs: int
    batch_size: int | None = None
    mapped_gib: float = 0.0
    remedies: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])

    @property
    def seconds(self) -> float | None:
        """Time of all epochs, if patience ends training no earlier."""
        return None if self.epoch_seconds is None else self.epoch_seconds * self.epochs

    @property
    def title(self) -> str:
        """The model, and the size of batches."""
        if self.batch_size is None:
            return self.model
        return f"{self.model} in batches of {self.batch_size:,}"

    @property
    def fits(self) -> bool:
        """Whether the memory is there."""
        return self.memory_gib - self.mapped_gib <= self.available_gib

    def facts(self) -> dict[str, Any]:
        """The estimate for programs."""
        return {
            "memory_gib": self.memory_gib,
            "mapped_gib": self.mapped_gib,
            "available_gib": self.available_gib,
            "fits": self.fits,
            "batch_size": self.batch_size,
            "epoch_seconds": self.epoch_seconds,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "remedies": dict(self.remedies),
        }

    def sentence(self) -> str:
        """The estimate in one line."""
        said = f"{self.title}: about {self.memory_gib:.1f} GiB of memory"
        if self.epoch_seconds is not None and self.seconds is not None:
            said += (
                f", {time_text(self.epoch_seconds)} per epoch, at most {time_text(self.seconds)} "
                f"for {self.epochs} epochs"
            )
        if not self.fits:
            said += f"; {self.available_gib:.1f} GiB are available"
        if self.remedies and (not self.fits or (self.seconds or 0) > LONG_SECONDS):
            said += f"; less with {self._listed()}"
        return said

    def check(self) -> None:
        """Refuse a run that does not fit.

        Raises:
            InputError: It needs more memory than there is; it names what would need less.
        """
        if not self.fits:
            less = f"Set {self._listed()}, or take" if self.remedies else "Take"
            raise InputError(
                f"{self.title} needs about {self.memory_gib:.1f} GiB of memory for this graph, and "
                f"{self.available_gib:.1f} GiB are available. {less} a machine with more; "
                "memory_check = false trains all the same."
            )

    def _listed(self) -> str:
        found = [
            what if gib is None else f"{what} ({gib:.1f} GiB)"
            for what, gib in self.remedies.items()
        ]
        return " or ".join(found)


def count_cost(config: RunConfig, graph: Graph, epoch_seconds: float | None = None) -> Cost | None:
    """What a run on the whole graph will take; None where nothing was measured for its model.

    Args:
        config: The configuration.
        graph: The graph.
        epoch_seconds: Time of an epoch, if it is known.
    """
    memory = count_memory(config, graph)
    if memory is None:
        return None
    remedies: dict[str, float | None] = {}
    for what, other in _alternatives(config):
        needs = count_memory(other, graph)
        if needs is not None and needs < 0.9 * memory:
            remedies[what] = needs
    if can_take_batches(config, graph):
        remedies[f"batch_size = {BATCH_SIZE}"] = None
    there, epochs = memory_there(), config.training.epochs
    return Cost(config.model.name, memory, there, epoch_seconds, epochs, remedies=remedies)


def count_memory(config: RunConfig, graph: Graph) -> float | None:
    """GiB that a run on the whole graph will take at its peak; None where it is not known."""
    known = _coefficients().get(kind_of(config))
    if known is None or config.training.device != "cpu":
        return None
    return _weighted(known["memory"], Sizes.of(config, graph).bytes()) / GIB


def memory_there() -> float:
    """GiB that this process has and can still get."""
    return available_gib() + used_gib()


def is_too_large(config: RunConfig, graph: Graph) -> bool:
    """Whether a run on the whole graph is expected not to fit into memory."""
    if not config.training.memory_check or config.training.batch_size is not None:
        return False
    needs = count_memory(config, graph)
    # Estimates may be too high: a run is refused where it needs so much more than there is.
    return needs is not None and needs > _DOUBT * memory_there()


def can_take_batches(config: RunConfig, graph: Graph) -> bool:
    """Whether the model can be trained in batches."""
    model = empty_model(config, feature_shape(graph)[1], graph.num_classes)
    return model is not None and model.layered and not model.fits_at_once


def check_memory(config: RunConfig, graph: Graph) -> None:
    """Refuse a run that will not fit into memory, before anything is made for it.

    Raises:
        InputError: It will not.
    """
    if is_too_large(config, graph) and (cost := count_cost(config, graph)) is not None:
        cost.check()


def kind_of(config: RunConfig) -> str:
    """What coefficients are kept by: the model, and how it separates nodes."""
    mode = config.model.options.get("separation")
    return config.model.name if mode is None else f"{config.model.name} {mode}"


def _alternatives(config: RunConfig) -> list[tuple[str, RunConfig]]:
    """The same run with settings that need less memory."""
    options = config.model.options
    found: list[tuple[str, RunConfig]] = []
    changes: list[dict[str, Any]] = []
    if options.get("separation") in ("renormalized", "source", "target-only"):
        changes.append({"separation": "strict"})
    if isinstance(hidden := options.get("hidden"), int) and hidden >= 32:
        changes.append({"hidden": hidden // 2})
    for change in changes:
        model = config.model.model_copy(update=change)
        said = ", ".join(
            f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"'
            for name, value in change.items()
        )
        found.append((said, config.model_copy(update={"model": model})))
    return found


def _weighted(coefficients: Mapping[str, float], amounts: Mapping[str, float]) -> float:
    return sum(coefficients.get(name, 0.0) * amount for name, amount in amounts.items())


@cache
def _coefficients() -> dict[str, dict[str, dict[str, float]]]:
    """Memory and time per piece, for every kind of model that was measured."""
    text = (files("ncgnn.training") / "coefficients.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    if table.pop("format", None) != FORMAT:
        raise InputError(f"coefficients.toml: format must be {FORMAT}; install the package again.")
    return table


def known_models() -> list[str]:
    """The models that were measured on whole graphs."""
    return sorted({kind.partition(" ")[0] for kind in _coefficients()})


@dataclass(frozen=True)
class Sizes:
    """What is counted of a run before it begins.

    Attributes:
        nodes: Number of nodes.
        entries: Number of stored edges.
        hidden: Width of hidden layers, times the number of heads where these have rows apart.
        layers: Number of hidden layers that are kept for gradients.
        classes: Number of classes.
        columns: Number of features.
        stored: Bytes of the graph's own arrays but the features.
        features: Entries of the features as a model sees them.
        dense: Whether they are dense.
        formed: Entries of the product of operator and features that is tried beforehand.
        kept: The same where it is kept.
        kept_dense: Whether it is dense then.
        weights: Number of trained numbers.
    """

    nodes: int
    entries: int
    hidden: int
    layers: int
    classes: int
    columns: int
    stored: int
    features: float
    dense: bool
    formed: float
    kept: float
    kept_dense: bool
    weights: int

    @classmethod
    def of(cls, config: RunConfig, graph: Graph) -> Sizes:
        """Count; of products with sparse features, some rows are looked at."""
        features, options = graph.features, config.model.options
        nodes, columns = feature_shape(graph)
        dense, nnz = True, nodes * columns
        if features is not None and not isinstance(features, np.ndarray):
            nnz = int(features.nnz)
            dense = SPARSE_COST * nnz >= nodes * columns
        count = float(nodes * columns if dense else nnz)
        model = _on_no_device(config, graph)
        formed = kept = 0.0
        kept_dense = dense
        if _propagates(model):
            groups = 1 if options.get("separation", "none") == "none" else _groups(options)
            formed, kept, kept_dense = _propagated(graph, count, dense, groups)
        arrays = (graph.indptr, graph.indices, graph.labels, graph.node_ids)
        more = (*arrays, graph.edge_weights, graph.edge_directions)
        return cls(
            nodes=nodes,
            entries=graph.num_entries,
            hidden=int(options.get("hidden", 0)) * int(options.get("heads", 1)),
            layers=int(options.get("layers", 1)),
            classes=graph.num_classes,
            columns=columns,
            stored=sum(array.nbytes for array in more if array is not None),
            features=count,
            dense=dense,
            formed=formed,
            kept=kept,
            kept_dense=kept_dense,
            weights=sum(parameter.numel() for parameter in model.parameters()),
        )

    def bytes(self) -> dict[str, float]:
        """Bytes that memory is a sum of, each times a coefficient."""
        rows = 4.0 * self.nodes * self.hidden
        return {
            "process": float(GIB),
            "stored": float(self.stored),
            "features": self.features * (4 if self.dense else 8),
            "formed": self.formed * (4 if self.dense else 8),
            "kept": self.kept * (4 if self.kept_dense else 8),
            "entries": float(self.entries),
            "nodes": float(self.nodes),
            "classes": 4.0 * self.nodes * self.classes,
            "rows": rows,
            "more_rows": rows * (self.layers - 1),
            "weights": 4.0 * self.weights,
        }

    @property
    def work(self) -> float:
        """About how many multiply-adds of dense products an epoch is worth."""
        sparse = SPARSE_COST * self.entries + self.features * (1 if self.dense else SPARSE_COST)
        width = max(self.hidden, self.classes)
        return (sparse + self.nodes * width) * width * self.layers


def _groups(options: Mapping[str, Any]) -> int:
    threshold = options.get("threshold", (0.5,))
    return 1 + (len(threshold) if isinstance(threshold, list | tuple) else 1)


def _on_no_device(config: RunConfig, graph: Graph) -> Model:
    """The model without memory for its weights."""
    kind = model_class(config.model.name)
    with torch.device("meta"):
        return kind(feature_shape(graph)[1], graph.num_classes, **config.model.options)


def _propagates(model: Model) -> bool:
    """Whether its first layer has the features multiplied by an operator beforehand."""
    backbone = getattr(model, "backbone", None)
    operators = getattr(backbone, "operators", None)
    mode = getattr(model, "separation", "none")
    return bool(getattr(operators, "has_messages", False)) and mode != "renormalized"


def _propagated(graph: Graph, count: float, dense: bool, groups: int) -> tuple[float, float, bool]:
    """Entries of the product of operator and features: formed, kept, and whether dense then."""
    (nodes, columns), entries = feature_shape(graph), graph.num_entries
    whole = float(nodes * columns)
    formed = whole
    if not dense:
        per_entry = count / max(1, nodes)
        if min(per_entry * (entries + nodes), whole) > MOST_ENTRIES:
            return 0.0, 0.0, dense
        formed = _sample_product(graph) * nodes
    is_dense = dense or SPARSE_COST * formed >= whole
    cost = whole if is_dense else SPARSE_COST * formed
    before = groups * (count if dense else SPARSE_COST * count) + SPARSE_COST * (entries + nodes)
    if cost > before:
        return formed, 0.0, is_dense
    return formed, (whole if is_dense else formed), is_dense


def _sample_product(graph: Graph) -> float:
    """Mean number of different features that a node and its neighbors have."""
    from scipy.sparse import csr_array

    features: Any = graph.features
    rows = np.unique(np.linspace(0, graph.num_nodes - 1, _SAMPLED_ROWS).astype(np.int64))
    found = 0
    for row in rows.tolist():
        around = np.append(graph.neighbors(row), row)
        found += len(np.unique(csr_array(features[around]).indices))
    return found / len(rows)


def time_text(seconds: float) -> str:
    """A time in words."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
