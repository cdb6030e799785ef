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

from ncgnn.graph._sparse_chain import chain_costs, sparse_dense_chain, sparse_product
from ncgnn.graph._sparse_entries import edge_softmax, gather_columns, gather_rows, row_sum
from ncgnn.graph._sparse_matrix import ConstantSparse
from ncgnn.graph._sparse_normalise import gcn_normalised, row_normalised, with_self_loops
from ncgnn.graph._sparse_pattern import SparsePattern
from ncgnn.graph._sparse_weighted import sampled_dot, weighted_matmul

__all__ = [
    "ConstantSparse",
    "SparsePattern",
    "chain_costs",
    "edge_softmax",
    "gather_columns",
    "gather_rows",
    "gcn_normalised",
    "row_normalised",
    "row_sum",
    "sampled_dot",
    "sparse_dense_chain",
    "sparse_product",
    "weighted_matmul",
    "with_self_loops",
]
