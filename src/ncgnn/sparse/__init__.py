"""Sparse kernels for graph layers: fast on the CPU, plain torch on every other device.

Rows are targets and columns are sources: row i of an adjacency lists the sources of the edges into
node i, so that ``adjacency @ x`` adds up what flows into each node.

* :class:`ConstantSparse` is a matrix that is never trained: an operator of a graph, or sparse
  features. Products with it are differentiable in the dense side.
* :class:`SparsePattern` says where entries are; :func:`weighted_matmul`, :func:`sampled_dot`,
  :func:`edge_softmax` and the gathers work with trainable values at these places.
* :class:`NeighborSampler` draws some of the edges around nodes; :func:`take_rows` gathers features.

On the CPU the compiled kernels use as many threads as torch does, and sum every row in a fixed
order: the same input gives the same bits.
"""

from ncgnn.sparse._backend import empty
from ncgnn.sparse.devices import Seen, bounds, look_at, runs_compiled, widest_float
from ncgnn.sparse.masked import MaskedSparse, MaskError
from ncgnn.sparse.matrix import ConstantSparse, SparsePattern, index_dtype, share
from ncgnn.sparse.normalize import (
    add_self_loops,
    directed_normalize,
    gcn_normalize,
    masked_adjacency,
    power_or_zero,
    row_normalize,
)
from ncgnn.sparse.ops import (
    edge_softmax,
    gather_columns,
    gather_rows,
    row_sum,
    sampled_dot,
    sparse_product,
    weighted_matmul,
)
from ncgnn.sparse.sampling import NeighborSampler, Sample, SampledEdges, take_rows

__all__ = [
    "ConstantSparse",
    "MaskError",
    "MaskedSparse",
    "NeighborSampler",
    "Sample",
    "SampledEdges",
    "Seen",
    "SparsePattern",
    "add_self_loops",
    "bounds",
    "directed_normalize",
    "edge_softmax",
    "empty",
    "gather_columns",
    "gather_rows",
    "gcn_normalize",
    "index_dtype",
    "look_at",
    "masked_adjacency",
    "power_or_zero",
    "row_normalize",
    "row_sum",
    "runs_compiled",
    "sampled_dot",
    "share",
    "sparse_product",
    "take_rows",
    "weighted_matmul",
    "widest_float",
]
