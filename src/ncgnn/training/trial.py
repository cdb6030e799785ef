"""A little of a run, done before it begins: how long it takes, and how large its parts are.

Of a run in batches some real batches are trained on, and some rows of every layer computed. Of a
run on the whole graph some epochs are trained; where these would take long, on a miniature of the
graph, with as many edges per node and every part of the split.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy

from ncgnn._numba import thread_count
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.nn import BlockMaker, DropoutKey, compute_block, compute_rows, row_parts
from ncgnn.sparse import ConstantSparse
from ncgnn.training.loading import new_trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncgnn.nn import Block
    from ncgnn.training.batches import Batch, Batches
    from ncgnn.training.config import RunConfig
    from ncgnn.training.trainer import Trainer

# An epoch of so many multiply-adds takes about a second; more are done on a miniature.
_WHOLE_WORK = 2e9
# How much is timed, after what compiles: at least and at most, and for how long in between.
_LEAST, _MOST, _SECONDS = 2, 20, 0.7
# Parts of the nodes that are computed of every layer, and the bytes of rows that they read.
_PARTS = 6
_ROW_BYTES = 64 << 20


@dataclass(frozen=True)
class BatchTrial:
    """What some batches of a run have shown.

    Attributes:
        steps: How many an epoch has.
        block_bytes: Size of the largest of these.
        kept_bytes: What a step on it keeps for the gradients.
        part_bytes: Size of the largest part of the nodes that a layer is computed for.
        widths: How many numbers every layer has per node.
        step_seconds: Time of a step, with what prepares it.
        pass_seconds: Time of exact answers for all nodes.
        group_seconds: Time of new groups.
    """

    steps: int
    block_bytes: int
    kept_bytes: int
    part_bytes: int
    widths: tuple[int, ...]
    step_seconds: float
    pass_seconds: float
    group_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Time of an epoch that reaches a new high."""
        return self.steps * self.step_seconds + self.pass_seconds + self.group_seconds


def try_batches(config: RunConfig, graph: Graph) -> BatchTrial:
    """Train on some batches of a run, and compute some rows of every layer.

    Args:
        config: The configuration, of a run in batches.
        graph: The graph.
    """
    trainer = new_trainer(config, graph)
    batches = trainer.batches
    if batches is None:
        raise InputError(f"{trainer.model.title} is not trained in batches; leave batch_size out.")
    group, group_seconds = _try_groups(trainer)
    seen = group[: trainer.seen.num_nodes]
    with torch.random.fork_rng(devices=[]):
        block_bytes, kept_bytes, step_seconds = _try_steps(trainer, batches, seen)
        widths, part_bytes, pass_seconds = _try_rows(trainer, group)
    passes = 1.0
    if trainer.seen is not trainer.inputs:  # what training sees is answered for on its own
        passes += trainer.seen.num_nodes / trainer.inputs.num_nodes
    return BatchTrial(
        batches.count(trainer.seen_train),
        block_bytes,
        kept_bytes,
        part_bytes,
        widths,
        step_seconds,
        passes * pass_seconds,
        group_seconds,
    )


def _try_groups(trainer: Trainer) -> tuple[torch.Tensor, float]:
    """Groups of all nodes by the labels of training nodes, and the time that they take."""
    if trainer.rule is None:
        return torch.zeros(trainer.inputs.num_nodes, dtype=torch.int64), 0.0
    trainer.grouper(trainer.inputs.known)  # prepares the graph
    began = _clock()
    group = trainer.grouper(trainer.inputs.known).group
    return group, _clock() - began


def _try_steps(trainer: Trainer, batches: Batches, group: torch.Tensor) -> tuple[int, int, float]:
    """Bytes of the largest block, and of what is kept for its gradients; the time of a step."""
    model, optimizer = trainer.model, trainer.new_optimizer()
    sizes: list[tuple[int, int]] = []
    stamps: list[float] = []
    for nodes, block, inside in _endless(trainer, batches, group):
        labels = trainer.seen.labels.index_select(0, nodes)
        model.train()
        optimizer.zero_grad(set_to_none=True)
        kept = _Kept([*model.state_dict().values(), *_tensors(block)])
        with kept:
            logits = compute_block(model, block, inside, DropoutKey(0, len(stamps)))
            extra, loss = model.extra_loss(nodes, labels), cross_entropy(logits, labels)
        (loss if extra is None else loss + extra).backward()
        optimizer.step()
        sizes.append((sum(value.nbytes for value in _tensors(block)), kept.bytes))
        stamps.append(_clock())
        if _is_enough(stamps):
            break
    largest = max(sizes)
    return *largest, (stamps[-1] - stamps[0]) / (len(stamps) - 1)


def _endless(trainer: Trainer, batches: Batches, group: torch.Tensor) -> Iterator[Batch]:
    """The batches of one epoch after the other."""
    for epoch in count():
        with batches.draw(trainer.seen_train, group, epoch) as drawn:
            yield from drawn


def _is_enough(stamps: list[float]) -> bool:
    """Whether enough was timed, by the times at which each piece of work had ended."""
    timed = len(stamps) - 1
    return timed >= _LEAST and (timed >= _MOST or stamps[-1] - stamps[0] >= _SECONDS)


class _Kept(saved_tensors_hooks):
    """Counts the bytes that are kept for gradients, those of known tensors excepted."""

    def __init__(self, known: list[torch.Tensor]) -> None:
        self._known = {value.untyped_storage().data_ptr() for value in known}
        self._sizes: dict[int, int] = {}
        super().__init__(self._count, lambda value: value)

    def _count(self, value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in self._known:
            self._sizes[storage.data_ptr()] = storage.nbytes()
        return value

    @property
    def bytes(self) -> int:
        """The bytes."""
        return sum(self._sizes.values())


def _tensors(block: Block) -> list[torch.Tensor]:
    """What a block holds before anything is computed on it."""
    edges = [one for part in block.edges for one in (part.crow, part.col, part.weights)]
    features = block.features
    if isinstance(features, ConstantSparse):
        parts = [features.pattern.crow, features.pattern.col, features.values]
    else:
        parts = [features]
    degrees = block.degrees
    sums = [] if degrees is None else [*degrees.all, *degrees.inside]
    return [block.nodes, *edges, *sums, *parts]


@torch.no_grad()
def _try_rows(trainer: Trainer, group: torch.Tensor) -> tuple[tuple[int, ...], int, float]:
    """Widths of all layers, bytes of the largest part of the nodes, the time of exact answers."""
    maker = BlockMaker(trainer.inputs, trainer.model.eval())
    maker.use_groups(group)
    parts = row_parts(maker)
    chosen = np.unique(np.linspace(0, len(parts) - 1, _PARTS).astype(np.int64)).tolist()
    widths: list[int] = []
    largest, seconds, before = 0, 0.0, torch.empty(0)
    for number in range(trainer.model.depth or 0):
        stamps: list[float] = []
        known = before
        rows = torch.empty(0)
        for place in chosen[:1] + chosen:  # the first one compiles
            nodes = np.arange(*parts[place])
            rows = compute_rows(
                maker, number, nodes, lambda of, known=known: known[of % len(known)]
            )
            stamps.append(_clock())
        widths.append(rows.shape[1])
        seconds += (stamps[-1] - stamps[0]) / (len(stamps) - 1) * len(parts)
        # Rows of so many nodes are read from memory as those of all nodes are, not from a cache.
        shape = min(trainer.inputs.num_nodes, _ROW_BYTES // rows[0].nbytes), rows.shape[1]
        before = torch.rand(shape, dtype=rows.dtype)
        largest = max(largest, rows.nbytes)
    return tuple(widths), largest, seconds


def time_epoch(config: RunConfig, graph: Graph, work: float) -> float:
    """Seconds of an epoch of a run on the whole graph.

    Args:
        config: The configuration.
        graph: The graph.
        work: About how many multiply-adds an epoch is worth.
    """
    split, factor = config.make_split(graph), 1.0
    if work > _WHOLE_WORK:
        nodes = graph.num_nodes
        graph, split = miniature(graph, split, max(2, round(work / _WHOLE_WORK)))
        factor = nodes / graph.num_nodes
    # As many epochs as are timed, however few the run has.
    told = config.replaced("training", memory_check=False, epochs=_MOST + 1, patience=_MOST + 1)
    trainer = new_trainer(told, graph, split)
    stamps: list[float] = []
    with torch.random.fork_rng(devices=[]):
        while not _is_enough(stamps) and not trainer.finished:
            trainer.epoch()
            stamps.append(_clock())
    return factor * (stamps[-1] - stamps[0]) / max(1, len(stamps) - 1)


def miniature(graph: Graph, split: Split, factor: int) -> tuple[Graph, Split]:
    """A graph with fewer nodes, as many edges for each, and every part of a split.

    Every node of it is one of the graph's, with its features and label. Of the graph's edges one in
    ``factor`` is there, between other nodes; ends that are near each other stay so.
    """
    parts = [split.train, split.val, split.test]
    rest = np.setdiff1d(np.arange(graph.num_nodes), np.concatenate(parts))
    nodes = np.sort(np.concatenate([part[::factor] for part in (*parts, rest)]))
    places = np.arange(0, graph.num_entries, 2 * factor)
    targets = np.searchsorted(graph.indptr, places, side="right") - 1
    ends = np.stack([graph.indices[places].astype(np.int64), targets]) % len(nodes)
    features = graph.features
    small = Graph.from_edge_index(
        np.concatenate([ends, ends[::-1]], axis=1),
        num_nodes=len(nodes),
        labels=graph.labels[nodes],
        features=None if features is None else features[nodes],
        num_classes=graph.num_classes,
        edge_weights=None if graph.edge_weights is None else np.tile(graph.edge_weights[places], 2),
        name=graph.name,
    )
    found = [np.flatnonzero(np.isin(nodes, part)) for part in parts]
    return small, Split("custom", "custom", split.seed, *found)


def _clock() -> float:
    """Processor time where there is one thread, which other processes do not lengthen."""
    return time.process_time() if thread_count() == 1 else time.perf_counter()
