"""Sparse kernels for graph layers: fast on the CPU, plain torch on every other device.

Rows are targets and columns are sources: row i of an adjacency lists the sources of the edges into
node i, so that ``adjacency @ x`` adds up what flows into each node.

* :class:`ConstantSparse` is a matrix that is never trained: an operator of a graph, or sparse
  features. Products with it are differentiable in the dense side.
* :class:`SparsePattern` says where entries are; :func:`weighted_matmul`, :func:`sampled_dot`,
  :func:`edge_softmax` and the gathers work with trainable values at these places.

On the CPU the compiled kernels use as many threads as torch does, and sum every row in a fixed
order: the same input gives the same bits.
"""

from ncgnn.sparse.matrix import ConstantSparse, SparsePattern
from ncgnn.sparse.normalize import (
    gcn_normalised,
    masked_adjacency,
    or_itself,
    row_normalised,
    rows_or_itself,
    with_self_loops,
)
from ncgnn.sparse.ops import (
    chain_costs,
    edge_softmax,
    gather_columns,
    gather_rows,
    row_sum,
    sampled_dot,
    sparse_dense_chain,
    sparse_product,
    weighted_matmul,
)

__all__ = [
    "ConstantSparse",
    "SparsePattern",
    "chain_costs",
    "edge_softmax",
    "gather_columns",
    "gather_rows",
    "gcn_normalised",
    "masked_adjacency",
    "or_itself",
    "row_normalised",
    "row_sum",
    "rows_or_itself",
    "sampled_dot",
    "sparse_dense_chain",
    "sparse_product",
    "weighted_matmul",
    "with_self_loops",
]
