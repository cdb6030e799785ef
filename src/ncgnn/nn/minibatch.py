"""Graphs in parts: blocks around some nodes, and exact inference for all of them, layer by layer.

A mini-batch is a :class:`~ncgnn.nn.Block` around a few training nodes, with some of the edges of
every hop. Inference needs no sampling and no receptive fields, which soon hold the whole graph: all
nodes pass through the first layer, a block of rows at a time, then through the second one. The
rows between two layers are in memory, or in a file that is mapped into it where they are too many.
"""

from __future__ import annotations

import itertools
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import torch

from ncgnn._memory import available_gib, return_freed_memory
from ncgnn.errors import InputError
from ncgnn.nn.blocks import Block, BlockEdges, Degrees, block_hops
from ncgnn.nn.inputs import GraphInputs, select_rows
from ncgnn.sparse import NeighborSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from numpy.typing import NDArray

    from ncgnn.nn.base import Model
    from ncgnn.nn.inputs import Direction
    from ncgnn.sparse import Sample, SampledEdges

#: How neighbors are drawn, see :class:`ncgnn.sparse.NeighborSampler`.
Drawing: TypeAlias = Literal["uniform", "labor"]

# In inference a block of rows has about so many edges: its rows stay in the cache, and there are
# few enough blocks.
_EDGES_AT_ONCE = 1 << 15
# Before rows between layers take so much, what training steps have freed is given back: together
# they would be the peak of a run.
_MANY_BYTES = 128 << 20
#: Rows between layers that take a larger share of the available memory are kept in a file.
LARGEST_SHARE = 0.5


def is_layered(model: Model) -> bool:
    """Whether a model can be computed for a part of the nodes at a time."""
    return model.depth is not None and model.layered


def check_layered(model: Model) -> None:
    """Refuse a model that cannot be computed for a part of the nodes at a time.

    Raises:
        InputError: It cannot.
    """
    if not is_layered(model):
        raise layers_error(model.title)


def layers_error(title: str) -> InputError:
    """What is said of a model that cannot be computed for a part of the nodes at a time."""
    return InputError(
        f"{title} needs the whole graph at a time; leave batch_size out, or choose a model with "
        "layers, such as gcn, sage, gat, mlp, tuned-sage, ncgcn or ncsage."
    )


class BlockMaker:
    """Makes the blocks of a graph that a model is computed on.

    Args:
        inputs: The graph.
        model: The model, whose direction says which edges count.

    Attributes:
        hops: How many hops a block for all layers has.
    """

    def __init__(self, inputs: GraphInputs, model: Model) -> None:
        check_layered(model)
        self.inputs, self.model, self.hops = inputs, model, block_hops(model)
        self.direction: Direction = model.direction or "incoming"
        if model.direction is None and model.edges == "both":
            self.direction = "both"
        self.relations: tuple[Relation, ...] = ()
        if self.hops:
            self.relations = inputs.kept(
                ("relations", self.direction),
                lambda: relations_of(inputs, self.direction),
                of_edges=True,
            )
        self._group: torch.Tensor | None = None
        self._inside: list[torch.Tensor] = []
        self._samplers: dict[tuple[object, ...], NeighborSampler] = {}

    def use_groups(self, group: torch.Tensor | None) -> None:
        """Tell which group every node is in from now on."""
        if group is None or (self._group is not None and torch.equal(group, self._group)):
            return
        self._group = group.clone()
        if self.model.counts_groups:
            groups = int(getattr(self.model, "num_groups", 1))
            self._inside = [r.degrees_inside(self._group, groups) for r in self.relations]

    def sample(
        self,
        nodes: NDArray[np.int64],
        fanout: Sequence[int | None],
        *,
        method: Drawing = "uniform",
        key: tuple[int, int, int] = (0, 0, 0),
    ) -> Sample | None:
        """Nodes and edges of a block around some nodes; None where there are no edges to see.

        Args:
            nodes: The nodes.
            fanout: How many neighbors of a node are drawn at hop 1, 2, …; None for all.
            method: How they are drawn.
            key: Seed, epoch and batch, which decide what is drawn.
        """
        if not fanout:
            return None
        seed, epoch, batch = key
        told = (tuple(fanout), method, seed)
        if told not in self._samplers:
            pairs = [(relation.indptr, relation.indices) for relation in self.relations]
            self._samplers[told] = NeighborSampler(pairs, fanout, method=method, seed=seed)
        return self._samplers[told].sample(nodes, epoch, batch)

    def make(
        self,
        nodes: NDArray[np.int64],
        sample: Sample | None,
        *,
        rows_only: bool = False,
        own: NDArray[np.int64] | None = None,
    ) -> Block:
        """The block of a sample.

        Args:
            nodes: The wanted nodes.
            sample: What was drawn around them.
            rows_only: Whether to leave out features of nodes in its last hop.
            own: The places of some of the nodes, if the block is to be what they need of it; it
                then knows where its rows and edges are in the block of all.
        """
        inputs, device, dtype = self.inputs, self.inputs.device, self.inputs.dtype
        places, starts = own, None
        if own is not None and sample is not None:
            sample, places, starts = sample.part(own)
        elif own is not None:
            nodes = nodes[own]
        found = nodes if sample is None else sample.nodes
        place = torch.from_numpy(found).to(device)
        edges: tuple[BlockEdges, ...] = ()
        if sample is not None:
            pairs = zip(self.relations, sample.relations, strict=True)
            edges = tuple(relation.edges(drawn, device, dtype) for relation, drawn in pairs)
        if starts is not None:
            pairs = zip(edges, starts, strict=True)
            edges = tuple(replace(one, starts=_tensor(begun, device)) for one, begun in pairs)
        degrees = Degrees(
            tuple(r.degrees[found].to(device, dtype) for r in self.relations),
            tuple(sums[found].to(device, dtype) for sums in self._inside),
        )
        within: tuple[int, ...] = (len(found),) if sample is None else sample.within
        count = within[max(len(within) - 2, 0)] if rows_only else len(found)
        features = select_rows(inputs.features, place[:count])
        block = Block(place, within, edges, degrees, features, self.direction, inputs.num_classes)
        block.places = None if places is None else _tensor(places, device)
        return block

    def group_of(self, block: Block) -> torch.Tensor | None:
        """The group of every node of a block."""
        return None if self._group is None else self._group.index_select(0, block.nodes)


def _tensor(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(array).to(device)


class Relation:
    """One kind of messages: CSR arrays of a graph, row = who receives them.

    Args:
        indptr: Row pointer.
        indices: The sources of every row's edges, ascending; without self-loops.
        weights: Of edges; None = 1.
    """

    def __init__(
        self, indptr: NDArray[np.int64], indices: NDArray[Any], weights: NDArray[Any] | None
    ) -> None:
        self.indptr, self.indices, self.weights = indptr, indices, weights

    @cached_property
    def degrees(self) -> torch.Tensor:
        """The sum of every row."""
        if self.weights is None:
            return torch.from_numpy(np.diff(self.indptr).astype(np.float64))
        return torch.from_numpy(_sum_rows(self.indptr, self.weights.astype(np.float64)))

    def degrees_inside(self, group: torch.Tensor, groups: int) -> torch.Tensor:
        """The sum of every row over the sources in each group [n, groups]."""
        of_node, n = group.cpu().numpy(), len(self.indptr) - 1
        sums = np.empty((n, groups))
        for first, last in row_bounds(self.indptr):
            part = slice(self.indptr[first], self.indptr[last])
            of_source = of_node[self.indices[part]]
            weights = 1.0 if self.weights is None else self.weights[part]
            starts = self.indptr[first : last + 1] - self.indptr[first]
            for s in range(groups):
                sums[first:last, s] = _sum_rows(starts, (of_source == s) * weights)
        return torch.from_numpy(sums)

    def edges(self, drawn: SampledEdges, device: torch.device, dtype: torch.dtype) -> BlockEdges:
        """The edges of a sample as a block has them."""
        weights = torch.ones(len(drawn.edges), dtype=dtype)
        if self.weights is not None:
            weights = torch.from_numpy(self.weights[drawn.edges]).to(dtype)
        if drawn.scale is not None:
            weights = weights * torch.from_numpy(drawn.scale)
        crow = torch.from_numpy(drawn.indptr).to(torch.int32)
        col = torch.from_numpy(drawn.indices)
        return BlockEdges(crow.to(device), col.to(device), weights.to(device))


def relations_of(inputs: GraphInputs, direction: Direction) -> tuple[Relation, ...]:
    """The kinds of messages of a graph; its own arrays where they are as they should be."""
    graph = inputs.graph
    plain = graph.edge_weights is None and not graph.num_self_loops
    same = direction == "incoming" or (direction == "both" and not graph.is_directed)
    if plain and same:
        return (Relation(graph.indptr, graph.indices, None),)
    nothing = np.zeros((graph.num_nodes, 1), dtype=np.float32)
    alone = GraphInputs(replace(graph, features=nothing), dtype=torch.float64)
    found: list[Relation] = []
    for matrix in alone.messages(direction):
        csr = matrix.to_scipy(copy=False)
        weights = None if bool((matrix.values == 1).all()) else csr.data
        found.append(Relation(csr.indptr.astype(np.int64), csr.indices, weights))
    return tuple(found)


def _sum_rows(indptr: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    totals = np.concatenate([[0.0], np.cumsum(values)])
    return totals[indptr[1:]] - totals[indptr[:-1]]


class Helpers(Protocol):
    """Processes that infer the same together.

    Attributes:
        rank: The number of this one.
        count: How many there are.
    """

    rank: int
    count: int

    def exchange(self, rows: torch.Tensor, ends: Sequence[int]) -> None:
        """Give all of them all rows; those of rank r are those from ``ends[r - 1]`` to its own."""
        ...


@torch.no_grad()
def infer(
    maker: BlockMaker, group: torch.Tensor | None, helpers: Helpers | None = None
) -> torch.Tensor:
    """Logits of all nodes, layer by layer, without dropout [n, classes].

    Args:
        maker: Makes the blocks of a graph for a model.
        group: The group of every node.
        helpers: Who computes a part of the rows of every layer, and this process one of them; None,
            or fewer blocks than processes: this one computes all.
    """
    model, inputs = maker.model.eval(), maker.inputs
    maker.use_groups(group)
    blocks = row_parts(maker)
    if helpers is not None and (helpers.count == 1 or len(blocks) < helpers.count):
        helpers = None
    own, ends = (blocks, []) if helpers is None else _own_blocks(blocks, helpers)
    h, depth = torch.empty(0), model.depth or 0
    with _buffers() as new_rows:
        for number in range(depth):
            after = h
            for begin, end in own:
                nodes = np.arange(begin, end)
                rows = compute_rows(
                    maker, number, nodes, lambda place, h=h: h.index_select(0, place)
                )
                if begin == own[0][0]:
                    shape = inputs.num_nodes, rows.shape[1]
                    is_last = number == depth - 1
                    after = rows.new_empty(shape) if is_last else new_rows(shape, rows)
                after[begin:end] = rows[: end - begin]
            if helpers is not None:
                helpers.exchange(after, ends)
            h = after
    return h


def compute_rows(
    maker: BlockMaker,
    number: int,
    nodes: NDArray[np.int64],
    before: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The rows of a layer for some nodes, without dropout, from all their edges.

    Args:
        maker: Makes the blocks of a graph for a model.
        number: Of the layer, from 0.
        nodes: The nodes.
        before: Gives what the layer before has made of some nodes; not called for the first one.
    """
    model = maker.model
    sample = maker.sample(nodes, [None] * (model.layer_hops + model.extra_hops))
    # Later layers read features, if any, of the rows alone that they compute.
    block = maker.make(nodes, sample, rows_only=number > 0)
    known = before(block.nodes) if number else None
    return model.compute_layer(number, block, known, maker.group_of(block), None)


def row_parts(maker: BlockMaker) -> list[tuple[int, int]]:
    """The first node, and the one after the last, of parts with about as many edges each."""
    pointers = [relation.indptr for relation in maker.relations]
    work = sum(pointers, start=np.zeros(maker.inputs.num_nodes + 1, dtype=np.int64))
    return row_bounds(work)


def _own_blocks(
    blocks: list[tuple[int, int]], helpers: Helpers
) -> tuple[list[tuple[int, int]], list[int]]:
    """The blocks of this process, and where the rows of every process end."""
    cuts = np.linspace(0, len(blocks), helpers.count + 1).astype(np.int64).tolist()
    own = blocks[cuts[helpers.rank] : cuts[helpers.rank + 1]]
    return own, [blocks[cut - 1][1] for cut in cuts[1:]]


def row_bounds(indptr: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Parts of consecutive rows with about as many entries each, and at least a row."""
    n = len(indptr) - 1
    work = indptr + np.arange(n + 1)
    parts = max(1, int(work[-1] // _EDGES_AT_ONCE))
    bounds = np.unique(np.searchsorted(work, np.linspace(0, work[-1], parts + 1)[1:-1]))
    ends = [0, *bounds.tolist(), n]
    return [(first, last) for first, last in itertools.pairwise(ends) if first < last]


@contextmanager
def _buffers() -> Generator[Any]:
    """What makes the rows between two layers: in memory, or in a file if they are too many."""
    with tempfile.TemporaryDirectory(prefix="ncgnn-") as folder:
        made = 0

        def new_rows(shape: tuple[int, int], like: torch.Tensor) -> torch.Tensor:
            nonlocal made
            made += 1
            size = shape[0] * shape[1] * like.element_size()
            if like.device.type != "cpu":
                return like.new_empty(shape)
            if size >= _MANY_BYTES:
                return_freed_memory()
            if size < LARGEST_SHARE * available_gib() * 2**30:
                return like.new_empty(shape)
            kind = np.dtype(str(like.dtype).removeprefix("torch."))
            return torch.from_numpy(np.memmap(f"{folder}/{made}.rows", kind, "w+", shape=shape))

        yield new_rows
