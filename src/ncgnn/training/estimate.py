"""Estimates of runs: peak memory and time, said before they begin.

Memory of a run on the whole graph is counted (:mod:`ncgnn.training.cost`). Of a run in batches it
is that of the graph, of weights, of rows between layers and of answers, which are counted, and of
blocks, some of which are made. Time is that of a little of the run, on this machine and this graph
(:mod:`ncgnn.training.trial`).
"""

from __future__ import annotations

from itertools import pairwise
from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._memory import available_gib
from ncgnn.errors import InputError
from ncgnn.graph import as_graph
from ncgnn.nn import GIB, LARGEST_SHARE
from ncgnn.training.config import make_config
from ncgnn.training.cost import (
    LONG_SECONDS,
    Cost,
    Sizes,
    can_take_batches,
    count_cost,
    count_memory,
    known_models,
    memory_there,
)
from ncgnn.training.trial import BatchTrial, time_epoch, try_batches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph import Graph, GraphLike
    from ncgnn.nn import Model
    from ncgnn.training.config import RunConfig

# Seconds of a multiply-add on a slow machine.
_SLOW = 1e-9
# The interpreter with its libraries and compiled code, and what a report needs.
_PROCESS = 0.5 * GIB
# The block that is worked on and those that are prepared ahead are three at a time; with what their
# making takes, and the gaps that they leave in the heaps of two threads, four times as much.
_BLOCKS = 12.0
# What is kept for gradients, these themselves, what comes and goes, and the gaps between; the same
# of the rows that are computed at a time for exact answers.
_PER_KEPT, _PER_PART = 8.0, 6.0
# Per node: labels, NC, groups, degrees, marks of sampling; and copies of the answers for all nodes.
_NODE_BYTES, _ANSWERS = 100.0, 4.0
# Weights, their gradients, what Adam keeps, the best ones.
_PER_WEIGHT = 5.0


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
            f"{', '.join(known_models())}."
        )
    return cost


def estimate_run(config: RunConfig, graph: Graph) -> Cost | None:
    """What a run will take; None where it is not known: of models that nothing was measured for.

    Args:
        config: The configuration.
        graph: The graph.
    """
    if config.training.device != "cpu":
        return None
    if config.training.batch_size is not None:
        return _estimate_batches(config, graph)
    if count_memory(config, graph) is None:
        return None
    return count_cost(config, graph, time_epoch(config, graph, Sizes.of(config, graph).work))


def _estimate_batches(config: RunConfig, graph: Graph) -> Cost | None:
    """What a run in batches will take."""
    if not can_take_batches(config, graph):
        return None
    training = config.training
    trial = try_batches(config, graph)
    parts = batch_bytes(config, graph, trial)
    return Cost(
        config.model.name,
        sum(parts.values()) / GIB,
        memory_there(),
        trial.epoch_seconds,
        training.epochs,
        training.batch_size,
        (parts["mapped"] + parts["rows in files"]) / GIB,
    )


def batch_bytes(config: RunConfig, graph: Graph, trial: BatchTrial) -> dict[str, float]:
    """Bytes that the memory of a run in batches is a sum of, by what they are for."""
    sizes, nodes = Sizes.of(config, graph), graph.num_nodes
    number = 8 if config.training.precision == "float64" else 4
    held = {"graph": 0.0, "mapped": 0.0}
    for array in arrays_of(graph):
        held["mapped" if is_mapped(array) else "graph"] += array.nbytes
    if isinstance(graph.features, np.ndarray):
        shared = graph.features.dtype.itemsize == number and config.data.scaling == "raw"
        features = 0.0 if shared else float(number * graph.features.size)
    else:
        features = sizes.features * (number if sizes.dense else number + 4)
    rows, rows_in_files = _rows_between([nodes * width * number for width in trial.widths])
    own = 1.0 + (0.0 if config.data.protocol == "transductive" else _share_seen(config, graph))
    return {
        "process": _PROCESS,
        "mapped": held["mapped"],
        "graph": held["graph"],
        "features": features,
        "seen": (own - 1.0) * (held["mapped"] + held["graph"] + features),
        "blocks": _BLOCKS * trial.block_bytes + _PER_PART * trial.part_bytes,
        "gradients": _PER_KEPT * trial.kept_bytes,
        "rows": rows,
        "rows in files": rows_in_files,
        "nodes": own * nodes * (_NODE_BYTES + _ANSWERS * graph.num_classes * number),
        "weights": _PER_WEIGHT * sizes.weights * number,
    }


def arrays_of(graph: Graph) -> list[NDArray[Any]]:
    """The large arrays of a graph."""
    found: list[Any] = [graph.indptr, graph.indices, graph.labels]
    features: Any = graph.features
    if isinstance(features, np.ndarray):
        found.append(features)
    elif features is not None:
        found += [features.indptr, features.indices, features.data]
    more = (graph.node_ids, graph.edge_weights, graph.edge_directions)
    return found + [array for array in more if array is not None]


def is_mapped(array: NDArray[Any]) -> bool:
    """Whether an array is in a file that is mapped into memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap)


def _rows_between(layers: list[int]) -> tuple[float, float]:
    """Bytes of the rows of two layers at a time, in memory and in files."""
    most = LARGEST_SHARE * available_gib() * GIB
    pairs: list[tuple[float, float]] = []
    for before, after in pairwise([0, *layers]):
        # Those of the last layer, which are the answers, are counted with these.
        both = [before, after][: 1 if after == layers[-1] else 2]
        kept = sum(size for size in both if size < most)
        pairs.append((float(kept), float(sum(both) - kept)))
    return max(pairs, key=sum)


def _share_seen(config: RunConfig, graph: Graph) -> float:
    """The share of nodes that training, and validation, have a graph of their own of."""
    split = config.make_split(graph)
    seen = len(split.train)
    if config.data.protocol == "temporal":
        seen += len(split.train) + len(split.val)
    return seen / max(1, graph.num_nodes)


def may_be_long(config: RunConfig, graph: Graph) -> bool:
    """Whether a run could take long on a slow machine; nothing is timed for it."""
    training = config.training
    if training.device != "cpu":
        return False
    batches = training.batch_size is not None
    if not (can_take_batches if batches else count_memory)(config, graph):
        return False
    return Sizes.of(config, graph).work * _SLOW * training.epochs > LONG_SECONDS
