"""What a run will take: peak memory and time, said before it begins.

Both are sums of what can be counted beforehand, times coefficients that were measured once for
every model (``benchmarks/estimate.py`` measures them and writes ``coefficients.toml``). Memory is
counted in bytes: of the graph, of what a model makes of its edges and features, of activations, of
weights. Time is counted in pieces of work whose speed is measured on this machine and on this graph
when an estimate is asked for, which takes a fraction of a second: sums over neighbors, products
with features, dense products, passes over memory.
"""

from __future__ import annotations

import time
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn._memory import available_gib, used_gib
from ncgnn._numba import thread_count
from ncgnn.errors import InputError
from ncgnn.graph import as_graph
from ncgnn.nn import GIB, MOST_ENTRIES, SPARSE_COST, Model, check_features, model_class
from ncgnn.sparse import ConstantSparse
from ncgnn.training.config import make_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.training.config import RunConfig

#: Format of the table of coefficients.
FORMAT = 1
#: Runs that are expected to take longer are told of before they begin.
LONG_SECONDS = 60.0
# Estimates may be too high: a run is refused where it needs so much more than there is.
_DOUBT = 1.25

# Rows whose products with the features are looked at, and how much work is timed.
_SAMPLED_ROWS = 256
_TIMED_ENTRIES = 400_000
# Of fewer, the call takes longer than the work.
_LEAST_ENTRIES = 4_000
_TIMED_ROWS = 20_000
_MOST_ROWS = 1_000_000
_REPEATS = 3


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take.

    Attributes:
        model: The model's name.
        memory_gib: Peak memory of the process in GiB, interpreter and libraries included.
        available_gib: What this process has and can still get.
        epoch_seconds: Time of an epoch; None where it was not asked for.
        epochs: Upper limit of the number of epochs; patience may end training earlier.
        remedies: What would need less memory, and how much, None = not known, by what to set.
    """

    model: str
    memory_gib: float
    available_gib: float
    epoch_seconds: float | None
    epochs: int
    remedies: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])

    @property
    def seconds(self) -> float | None:
        """Time of all epochs, if patience ends training no earlier."""
        return None if self.epoch_seconds is None else self.epoch_seconds * self.epochs

    @property
    def fits(self) -> bool:
        """Whether the memory is there."""
        return self.memory_gib <= self.available_gib

    def facts(self) -> dict[str, Any]:
        """The estimate for programs."""
        return {
            "memory_gib": self.memory_gib,
            "available_gib": self.available_gib,
            "fits": self.fits,
            "epoch_seconds": self.epoch_seconds,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "remedies": dict(self.remedies),
        }

    def sentence(self) -> str:
        """The estimate in one line."""
        said = f"{self.model}: about {self.memory_gib:.1f} GiB of memory"
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
                f"{self.model} needs about {self.memory_gib:.1f} GiB of memory for this graph, and "
                f"{self.available_gib:.1f} GiB are available. {less} a machine with more; "
                "memory_check = false trains all the same."
            )

    def _listed(self) -> str:
        found = [
            what if gib is None else f"{what} ({gib:.1f} GiB)"
            for what, gib in self.remedies.items()
        ]
        return " or ".join(found)


def estimate(graph: GraphLike, model: str | type[Model] = "ncgcn", **settings: Any) -> Cost:
    """What training a model on a graph will take, without training it.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes, for example a PyG ``Data``.
        model: A model's name, or a subclass of :class:`ncgnn.nn.Model`.
        **settings: Options as :func:`ncgnn.fit` takes them, for example ``hidden=64``.

    Raises:
        InputError: Nothing was measured for this model.

    Example:
        >>> import ncgnn
        >>> cost = ncgnn.estimate(ncgnn.load("digits"), "ncgcn", hidden=32)
        >>> cost.fits, cost.memory_gib < 1
        (True, True)
    """
    known = as_graph(graph, require_labels=False)
    told = settings | {"data.fingerprint": None}
    config = make_config(dataset=known.name, model=model, settings=told)
    cost = estimate_run(config, known)
    if cost is None:
        raise InputError(
            f"model must be one whose cost was measured; got {config.model.name}; known: "
            f"{', '.join(sorted({name.partition(' ')[0] for name in _coefficients()}))}."
        )
    return cost


def estimate_run(config: RunConfig, graph: Graph, *, timed: bool = True) -> Cost | None:
    """What a run will take; None where nothing was measured for its model, or for its device.

    Args:
        config: The configuration.
        graph: The graph.
        timed: Whether to estimate the time too, for which some work is timed.
    """
    known = _measured(config, graph)
    if known is None or config.training.device != "cpu":
        return None
    sizes = Sizes.of(config, graph)
    memory = _weighted(known["memory"], sizes.bytes()) / GIB
    seconds = None
    if timed:
        speeds = Speeds.measure(graph, sizes.hidden)
        seconds = _weighted(known["time"], sizes.work(speeds))
    remedies: dict[str, float | None] = {}
    for what, other in _alternatives(config):
        needs = estimate_run_memory(other, graph)
        if needs is not None and needs < 0.9 * memory:
            remedies[what] = needs
    if model_class(config.model.name).compute_layer is not Model.compute_layer:
        remedies["batch_size = 1024"] = None
    there = available_gib() + used_gib()
    return Cost(config.model.name, memory, there, seconds, config.training.epochs, remedies)


def may_be_long(config: RunConfig, graph: Graph) -> bool:
    """Whether a run could take long on a slow machine; nothing is timed for it."""
    known = _measured(config, graph)
    if known is None or config.training.device != "cpu":
        return False
    work = Sizes.of(config, graph).work(_SLOW)
    return _weighted(known["time"], work) * config.training.epochs > LONG_SECONDS


def estimate_run_memory(config: RunConfig, graph: Graph) -> float | None:
    """GiB that a run will take at its peak; None where it is not known."""
    known = _measured(config, graph)
    if known is None:
        return None
    return _weighted(known["memory"], Sizes.of(config, graph).bytes()) / GIB


def check_memory(config: RunConfig, graph: Graph) -> None:
    """Refuse a run that will not fit into memory, before anything is made for it.

    Raises:
        InputError: It will not.
    """
    if not config.training.memory_check or config.training.device != "cpu":
        return
    needs = estimate_run_memory(config, graph)
    if needs is None or needs <= _DOUBT * (available_gib() + used_gib()):
        return
    cost = estimate_run(config, graph, timed=False)
    if cost is not None:
        cost.check()


def _measured(config: RunConfig, graph: Graph) -> dict[str, Any] | None:
    """The coefficients of a run; None where there are none, or nothing that could be trained."""
    return None if graph.features is None else _coefficients().get(kind_of(config))


def kind_of(config: RunConfig) -> str:
    """What coefficients are kept by: the model, and how it separates nodes."""
    if config.training.batch_size is not None:
        return f"{config.model.name} in batches"  # nothing is known of these
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
        features, options = check_features(graph), config.model.options
        nodes, columns = graph.num_nodes, graph.num_features
        nnz = features.size if isinstance(features, np.ndarray) else features.nnz
        dense = isinstance(features, np.ndarray) or SPARSE_COST * nnz >= nodes * columns
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

    def work(self, speeds: Speeds) -> dict[str, float]:
        """Seconds of the work that an epoch is a sum of, each times a coefficient."""
        by_features = speeds.dense if self.dense else speeds.features
        by_kept = speeds.dense if self.kept_dense else speeds.features
        messages = self.entries * self.hidden * speeds.messages
        products = float(self.nodes) * self.hidden**2 * speeds.dense
        passes = float(self.nodes) * self.hidden * speeds.memory
        return {
            "epoch": 1.0,
            "messages": messages,
            "features": self.features * self.hidden * by_features,
            "kept": self.kept * self.hidden * by_kept,
            "products": products,
            "passes": passes,
            "more_messages": messages * (self.layers - 1),
            "more_products": products * (self.layers - 1),
            "more_passes": passes * (self.layers - 1),
            "entries": self.entries * speeds.memory,
            "class_messages": self.entries * self.classes * speeds.messages,
            "weights": self.weights * speeds.memory,
        }


def _groups(options: Mapping[str, Any]) -> int:
    threshold = options.get("threshold", (0.5,))
    return 1 + (len(threshold) if isinstance(threshold, list | tuple) else 1)


def _on_no_device(config: RunConfig, graph: Graph) -> Model:
    """The model without memory for its weights."""
    kind = model_class(config.model.name)
    with torch.device("meta"):
        return kind(graph.num_features, graph.num_classes, **config.model.options)


def _propagates(model: Model) -> bool:
    """Whether its first layer has the features multiplied by an operator beforehand."""
    backbone = getattr(model, "backbone", None)
    operators = getattr(backbone, "operators", None)
    mode = getattr(model, "separation", "none")
    return bool(getattr(operators, "has_messages", False)) and mode != "renormalized"


def _propagated(graph: Graph, count: float, dense: bool, groups: int) -> tuple[float, float, bool]:
    """Entries of the product of operator and features: formed, kept, and whether dense then."""
    nodes, columns, entries = graph.num_nodes, graph.num_features, graph.num_entries
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


@dataclass(frozen=True)
class Speeds:
    """Seconds of one multiply-add, or of one number, on this machine and this graph.

    Attributes:
        messages: Of a sum over neighbors, with the neighbors of the graph.
        features: Of a product with its sparse features.
        dense: Of a dense product.
        memory: Of one number that is read and written.
    """

    messages: float
    features: float
    dense: float
    memory: float

    @classmethod
    def measure(cls, graph: Graph, hidden: int) -> Speeds:
        """Time some of each; CPU time where there is one thread only."""
        width = max(8, min(hidden or 64, 128))
        rows = min(max(graph.num_nodes, _TIMED_ROWS), _MOST_ROWS)
        values = torch.rand(rows, width)
        square = torch.rand(width, width)
        some = values[:_TIMED_ROWS]
        around = _some_rows(graph.indptr, graph.indices, rows)
        dense = _seconds(lambda: some @ square) / (len(some) * width**2)
        messages = SPARSE_COST * dense
        if around.nnz > _LEAST_ENTRIES:
            messages = _seconds(lambda: around @ values) / (around.nnz * width)
        by_features = messages
        features: Any = graph.features
        if not isinstance(features, np.ndarray) and features.nnz > _LEAST_ENTRIES:
            part = _some_rows(features.indptr, features.indices, graph.num_features)
            weight = torch.rand(graph.num_features, width)
            by_features = _seconds(lambda: part @ weight) / max(1, part.nnz * width)
        memory = _seconds(lambda: torch.relu(values)) / values.numel()
        return cls(messages, by_features, dense, memory)


# Several times slower than any machine of today.
_SLOW = Speeds(messages=1e-9, features=1e-9, dense=2e-10, memory=2e-9)


def _some_rows(indptr: Any, indices: Any, columns: int) -> ConstantSparse:
    """The first rows of a pattern, as many as are timed, with ones."""
    last = max(1, int(np.searchsorted(indptr, _TIMED_ENTRIES, side="right")) - 1)
    starts = np.asarray(indptr[: last + 1]).astype(np.int64)
    chosen = np.asarray(indices[: starts[-1]]).astype(np.int64) % max(1, columns)
    return ConstantSparse.from_csr(starts, chosen, shape=(len(starts) - 1, columns))


def _seconds(work: Callable[[], object]) -> float:
    clock = time.process_time if thread_count() == 1 else time.perf_counter
    work()  # compiles
    found: list[float] = []
    for _ in range(_REPEATS):
        started = clock()
        work()
        found.append(clock() - started)
    return max(min(found), 1e-9)


def time_text(seconds: float) -> str:
    """A time in words."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
