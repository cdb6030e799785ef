"""H2GCN: neighbors at distance one and two, kept apart from each other and the node itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import numpy as np
import torch
from pydantic import Field
from torch import nn

from ncgnn.metrics import HopSearch
from ncgnn.nn.base import (
    GIB,
    Model,
    PlainOptions,
    Rate,
    Width,
    free_gib,
    parse_options,
    refuse_beyond,
)
from ncgnn.nn.functional import at, dropout
from ncgnn.nn.layers import FeatureLinear
from ncgnn.sparse import ConstantSparse, SparsePattern, gcn_normalize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.nn.functional import DropoutKey
    from ncgnn.nn.inputs import GraphInputs

#: Pairs of nodes in one block of rows, 64 MiB of columns.
PAIRS_PER_BLOCK = 1 << 24
# Arrays of nodes × hidden in training, beside what is kept of every part: the embedding, and what a
# product, a dropout and their gradients hold at one time. The measured peak of a process that keeps
# what was freed is larger by a factor, since new arrays do not always fit where old ones were.
_WORKING, _SCATTERED = 6, 2.5
_Hop: TypeAlias = "ConstantSparse | DistanceTwo"


class H2GCNOptions(PlainOptions):
    """Options of H2GCN."""

    hidden: Width = 512
    """Width of the embedding; the last layer sees 3 or 7 times as much."""
    dropout: Rate = 0.5
    """Rate before the last layer."""
    layers: Annotated[int, Field(ge=1, le=2)] = 2
    """Number of rounds of messages: 2 for the authors' H2GCN-2, 1 for H2GCN-1."""
    memory_limit: Annotated[float, Field(gt=0)] | None = None
    """GiB that training may take; by default what is available now."""


class H2GCN(Model):
    r"""Neighbors at distance one and two, kept apart (https://arxiv.org/abs/2006.11468).

    .. math::

        R_0 = \mathrm{ReLU}(X W), \quad R_k = [\tilde{A}_1 R_{k-1} \| \tilde{A}_2 R_{k-1}], \quad
        \mathrm{logits} = \mathrm{drop}([R_0 \| R_1 \| R_2]) V

    Ã_k is D^-½ A D^-½ of the pairs at distance exactly k, with its own degrees and without
    self-loops. Edges count in both directions. There are no biases, and weights start Glorot
    uniform. The authors' code penalizes λ·‖W‖², which is a weight decay of 2λ here.

    The pairs at distance two are stored as places only, since their values are products of two
    degrees; a graph for which memory does not suffice is refused before they are stored. Training
    keeps 8 arrays of nodes × hidden. Where nothing is dropped, the logits are computed from the
    other end, so that arrays of nodes × classes are aggregated and not of nodes × hidden; the
    result is the same.
    """

    paper = "Zhu et al., Beyond Homophily in Graph Neural Networks, NeurIPS 2020, arXiv:2006.11468"
    family = "spatial"
    memory = "two-hop pairs, 8 × nodes × hidden"
    edges = "both"
    Options = H2GCNOptions

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__()
        chosen = parse_options(self.Options, options)
        self.dropout, self.layers = chosen.dropout, chosen.layers
        self.memory_limit = chosen.memory_limit
        # Two hops per round, and two more for the degrees of Ã₂.
        self.reach = 2 * chosen.layers + 2
        self.embedding = FeatureLinear(num_features, chosen.hidden, bias=False)
        parts = 2 ** (self.layers + 1) - 1
        self.readout = nn.Parameter(torch.empty(parts * chosen.hidden, num_classes))
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def logits(self, inputs: GraphInputs, key: DropoutKey | None) -> torch.Tensor:
        """Logits of every node; nothing is dropped where ``key`` is None.

        Raises:
            InputError: Training would need more memory than there is.
        """
        hops = (
            inputs.kept("distance one", lambda: self._distance_one(inputs)),
            inputs.kept("distance two", lambda: self._distance_two(inputs)),
        )
        start = torch.relu(self.embedding(inputs))
        weights = self.readout.view(-1, start.shape[1], self.readout.shape[1])
        levels = weights.split([2**k for k in range(self.layers + 1)])
        if key is None or self.dropout == 0:
            return _read_out_first(hops, start, levels)
        return self._read_out_dropped(hops, start, levels, key)

    def _read_out_dropped(
        self,
        hops: Sequence[_Hop],
        part: torch.Tensor,
        levels: Sequence[torch.Tensor],
        key: DropoutKey,
        place: int = 0,
    ) -> torch.Tensor:
        """What a part and all that is made of it add to the logits.

        Every part is dropped and multiplied by its weights as soon as it is there, and what follows
        from it comes before the next one, so that few are there at one time. ``place`` is that of
        the part in its level.
        """
        level = self.layers + 1 - len(levels)
        kept = dropout(part, self.dropout, at(key, 2**level - 1 + place))
        total = kept @ levels[0][place]
        del kept
        if len(levels) == 1:
            return total
        for number, hop in enumerate(hops):
            following = number * 2**level + place
            total = total + self._read_out_dropped(hops, hop @ part, levels[1:], key, following)
        return total

    def _distance_one(self, inputs: GraphInputs) -> ConstantSparse:
        return gcn_normalize(inputs.undirected_adjacency, self_loops=False)

    def _distance_two(self, inputs: GraphInputs) -> DistanceTwo:
        pattern = inputs.undirected_adjacency.pattern
        search = HopSearch(pattern.crow.cpu().numpy(), pattern.col.cpu().numpy(), 2, exactly=True)
        counts = search.sizes()
        pairs, hidden = int(counts.sum()), self.embedding.weight.shape[1]
        needed = estimate_memory(pairs, len(counts), hidden, self.layers, inputs.dtype.itemsize)
        found = f"there are {pairs:,} pairs of nodes at distance two; training"
        less, there = "a smaller hidden, a smaller graph", free_gib(inputs.device)
        refuse_beyond(self.memory_limit, there, needed, found, less)
        return DistanceTwo.of(search, counts, inputs.undirected_adjacency.values)


def _read_out_first(
    hops: Sequence[_Hop], start: torch.Tensor, levels: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Σ_k R_k·V_k, where ``levels`` holds the V_k, as R_0·V_0 + Σ_h Ã_h·(Σ_k R_{k-1}·V_k,h)."""
    total = start @ levels[0][0]
    if len(levels) == 1:
        return total
    for number, hop in enumerate(hops):
        inner = [level.chunk(2)[number] for level in levels[1:]]
        total = total + hop @ _read_out_first(hops, start, inner)
    return total


def estimate_memory(
    pairs: int, nodes: int, hidden: int, layers: int = 2, bytes_per_float: int = 4
) -> float:
    """GiB that training takes: the pairs, the ones of a block of them, and arrays of the nodes."""
    arrays = 2 ** (layers + 1) - 1 + _WORKING
    floats = min(pairs, PAIRS_PER_BLOCK) + _SCATTERED * arrays * nodes * hidden
    bytes_per_pair = 4 if pairs < 2**31 else 8
    return (pairs * bytes_per_pair + floats * bytes_per_float) / GIB


@dataclass(frozen=True, eq=False)
class DistanceTwo:
    """D^-½ A D^-½ for the pairs of nodes at distance exactly two in an undirected graph.

    Attributes:
        blocks: Rows of A, whose ones are all views of the same memory.
        scale: The diagonal D^-½ [n, 1], 0 for nodes without such pairs.
    """

    blocks: tuple[ConstantSparse, ...]
    scale: torch.Tensor

    @classmethod
    def of(
        cls,
        search: HopSearch,
        counts: NDArray[np.int64],
        like: torch.Tensor,
        block: int = PAIRS_PER_BLOCK,
    ) -> DistanceTwo:
        """Find the pairs, about ``block`` at a time; ``like`` is of the wanted type and device."""
        n, starts = len(counts), np.concatenate([[0], np.cumsum(counts)])
        cuts = np.searchsorted(starts, np.arange(block, starts[-1], block))
        bounds = [0, *np.unique(cuts[cuts < n]).tolist(), n]
        ones = like.new_ones(max(int(starts[b] - starts[a]) for a, b in pairwise(bounds)))
        blocks: list[ConstantSparse] = []
        for first, end in pairwise(bounds):
            crow, col = search.members(counts, first, end)
            parts = torch.from_numpy(crow.astype(col.dtype)), torch.from_numpy(col)
            pattern = SparsePattern(*parts, (end - first, n)).to(like.device)
            blocks.append(ConstantSparse(pattern, ones[: pattern.nnz]))
        degrees = torch.from_numpy(counts)[:, None].to(like)
        return cls(tuple(blocks), degrees.pow(-0.5).masked_fill_(degrees == 0, 0))

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        product = _SymmetricProduct.apply(self.blocks, self.scale * dense)
        return self.scale * cast("torch.Tensor", product)


class _SymmetricProduct(torch.autograd.Function):
    """A·X for a symmetric matrix in blocks of rows; the gradient of X is A·G."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        ctx.blocks, dense = arguments
        return torch.cat([block @ dense for block in ctx.blocks])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, cast("torch.Tensor", _SymmetricProduct.apply(ctx.blocks, gradients[0]))
