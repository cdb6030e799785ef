"""A constant sparse matrix, as graph operators and sparse features are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from ncgnn.errors import InputError
from ncgnn.graph import _sparse_select as select
from ncgnn.graph._sparse_backend import path_for, torch_csr
from ncgnn.graph._sparse_build import checked_edge_index, merged_entries
from ncgnn.graph._sparse_checks import as_values, check_float
from ncgnn.graph._sparse_constant import constant_matmul, transposed_matmul
from ncgnn.graph._sparse_ops import row_sums
from ncgnn.graph._sparse_pattern import SparsePattern
from ncgnn.graph._sparse_pattern_kernels import is_symmetric

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from ncgnn.graph._sparse_checks import ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class ConstantSparse:
    """An m × n matrix in CSR form that never changes and gets no gradient.

    The product with a dense tensor, ``matrix @ x``, is differentiable in x. Its backward pass
    multiplies by the transpose, which is made at the first backward pass and kept; a symmetric
    matrix is found out to be its own transpose and stores nothing more.

    Use one of the ``from_...`` constructors, which check and copy their input. The constructor
    itself trusts its parts, and none of them may be changed in place.

    Second-class behaviour: products run in float32 and float64 only, and the dense side must have
    the type of the matrix (also under autocast); ``torch.func`` transforms are not supported.

    Attributes:
        pattern: The places of the entries; matrices made by :meth:`scale` share it.
        values: The entries [nnz], float32 or float64.
    """

    pattern: SparsePattern
    values: torch.Tensor

    @classmethod
    def from_csr(
        cls,
        indptr: ArrayLike,
        indices: ArrayLike,
        values: ArrayLike | None = None,
        *,
        shape: tuple[int, int],
    ) -> ConstantSparse:
        """Copy CSR parts (NumPy or torch).

        Args:
            indptr: Row pointer [m + 1].
            indices: Column of each entry [nnz]; unsorted columns and repeated entries are kept,
                and repeated entries count as their sum.
            values: Entries [nnz]; integers become float32, None means 1 (float32).
            shape: (m, n).
        """
        pattern = SparsePattern.from_csr(indptr, indices, shape=shape)
        if values is None:
            return cls(pattern, torch.ones(pattern.nnz, device=pattern.device))
        checked = as_values(values, "values", pattern.nnz)
        return cls(pattern, checked.to(pattern.device, copy=True).contiguous())

    @classmethod
    def from_scipy(cls, matrix: Any) -> ConstantSparse:
        """Copy a scipy sparse matrix or array of any format."""
        if not hasattr(matrix, "tocsr"):
            raise InputError(f"matrix must be a scipy sparse matrix, not {type(matrix).__name__}.")
        csr = matrix.tocsr()
        return cls.from_csr(csr.indptr, csr.indices, csr.data, shape=csr.shape)

    @classmethod
    def from_edge_index(
        cls, edge_index: ArrayLike, num_nodes: int, values: ArrayLike | None = None
    ) -> ConstantSparse:
        """The adjacency of a graph: row = target, column = source, columns ascending.

        Row i lists the sources of the edges into node i, so that ``matrix @ x`` adds up what
        flows into each node. Repeated edges become one entry: the sum of their ``values``, or 1
        where there are none.
        """
        rows, cols = checked_edge_index(edge_index, num_nodes)
        shape = (int(num_nodes), int(num_nodes))
        crow, col, place = merged_entries(rows, cols, shape)
        pattern = SparsePattern(crow, col, shape)
        if values is None:
            return cls(pattern, torch.ones(pattern.nnz, device=pattern.device))
        given = as_values(values, "values", rows.shape[0]).to(pattern.device)
        return cls(pattern, given.new_zeros(pattern.nnz).index_add_(0, place, given))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.pattern.shape

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return self.pattern.nnz

    @property
    def dtype(self) -> torch.dtype:
        """The type of the entries."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """Where the matrix is stored."""
        return self.values.device

    def matmul(self, dense: torch.Tensor) -> torch.Tensor:
        """A·X for X [n], [n, d] or [n, ..., d]; the gradient of X is Aᵀ·G."""
        return constant_matmul(self, dense)

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        return constant_matmul(self, dense)

    def t_matmul(self, dense: torch.Tensor) -> torch.Tensor:
        """Aᵀ·X for X [m, d], without making the transpose where rows hold many entries."""
        return transposed_matmul(self, dense)

    @cached_property
    def _transpose(self) -> ConstantSparse:
        if self._equals_its_transpose():
            return self
        pattern, permutation = self.pattern.transposed
        transpose = ConstantSparse(pattern, self.values.index_select(0, permutation))
        transpose.__dict__["_transpose"] = self
        return transpose

    def _equals_its_transpose(self) -> bool:
        if self.shape[0] != self.shape[1]:
            return False
        if path_for(self.device) == "compiled":
            arrays = (self.pattern.crow.numpy(), self.pattern.col.numpy(), self.values.numpy())
            return is_symmetric(*arrays)
        pattern, permutation = self.pattern.transposed
        mirrored = self.values.index_select(0, permutation)
        return pattern is self.pattern and torch.equal(mirrored, self.values)

    def t(self) -> ConstantSparse:
        """The transpose, made once; a symmetric matrix with sorted columns returns itself."""
        return self._transpose

    def scale(
        self, rows: torch.Tensor | None = None, cols: torch.Tensor | None = None
    ) -> ConstantSparse:
        """D_r·A·D_c for the diagonals ``rows`` [m] and ``cols`` [n]; the pattern is shared.

        The diagonals are converted to the type and device of the matrix.
        """
        factors: list[torch.Tensor] = []
        if rows is not None:
            left = as_values(rows, "rows", self.shape[0]).to(self.values)
            counts = self.pattern.row_counts
            factors.append(torch.repeat_interleave(left, counts, output_size=self.nnz))
        if cols is not None:
            right = as_values(cols, "cols", self.shape[1]).to(self.values)
            factors.append(right.index_select(0, self.pattern.col))
        if not factors:
            return self
        # The factors first: r_i·c_j is the same number as r_j·c_i, so symmetry survives rounding.
        product = factors[0] if len(factors) == 1 else factors[0] * factors[1]
        return ConstantSparse(self.pattern, product * self.values)

    def row_counts(self) -> torch.Tensor:
        """The number of entries of each row [m]: the in-degrees of an unweighted graph."""
        return self.pattern.row_counts

    def row_sums(self) -> torch.Tensor:
        """The sum of each row [m]: the weighted in-degrees."""
        return row_sums(self.pattern, self.values)

    def column_sums(self) -> torch.Tensor:
        """The sum of each column [n]: the weighted out-degrees."""
        sums = self.values.new_zeros(self.shape[1])
        return sums.index_add_(0, self.pattern.col, self.values)

    def rows(self, index: ArrayLike) -> ConstantSparse:
        """The matrix A[index], for positions in any order or a mask [m]."""
        return ConstantSparse(*select.rows_of(self.pattern, self.values, index))

    def columns(self, index: ArrayLike) -> ConstantSparse:
        """The matrix A[:, index], for positions in any order or a mask [n]."""
        return ConstantSparse(*select.columns_of(self.pattern, self.values, index))

    def block(self, rows: ArrayLike, cols: ArrayLike) -> ConstantSparse:
        """The matrix A[rows][:, cols], for positions in any order or masks."""
        return ConstantSparse(*select.block_of(self.pattern, self.values, rows, cols))

    def to(
        self,
        device: torch.device | str | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
    ) -> ConstantSparse:
        """The matrix on a device or in a type; itself where nothing changes."""
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        values = self.values.to(device=device or self.device, dtype=dtype or self.dtype)
        check_float(values, "dtype")
        if values is self.values:
            return self
        return ConstantSparse(self.pattern.to(values.device), values)

    def to_torch(self) -> torch.Tensor:
        """A torch CSR tensor that shares the memory of the matrix."""
        return torch_csr(self.pattern.crow, self.pattern.col, self.values, self.shape)

    def to_dense(self) -> torch.Tensor:
        """The dense matrix [m, n]; repeated entries are added up."""
        dense = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        place = self.pattern.row.to(torch.int64), self.pattern.col.to(torch.int64)
        return dense.index_put_(place, self.values, accumulate=True)

    def to_scipy(self) -> csr_array[Any]:
        """A scipy CSR array with its own memory."""
        from scipy.sparse import csr_array

        parts = (self.values, self.pattern.col, self.pattern.crow)
        return csr_array(tuple(part.cpu().numpy().copy() for part in parts), shape=self.shape)

    def __repr__(self) -> str:
        return (
            f"ConstantSparse(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype}, "
            f"device={self.device})"
        )
