"""A constant sparse matrix, as graph operators and sparse features are.

Row pointers and columns from checked CSR parts or from lists of entries.

Where a sparse matrix has entries, without saying which.

Selecting rows and columns of a pattern, with a payload: one number for each entry.

Every function returns the new pattern and its payload. Rows follow the order of the index. Within
a row the entries keep their order, so columns stay ascending when the index is ascending (as a
mask is). A position may be selected several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.errors import InputError
from ncgnn.sparse._backend import (
    BLOCKS,
    constant_matmul,
    empty,
    path_for,
    row_sums,
    torch_csr,
    transposed_matmul,
)
from ncgnn.sparse._kernels import copy_rows, filter_rows, group, is_symmetric, row_pointer
from ncgnn.sparse.checks import (
    as_index,
    as_integers,
    as_shape,
    as_values,
    check_float,
    check_range,
    index_dtype,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.sparse.checks import ArrayLike


def checked_csr(
    indptr: ArrayLike, indices: ArrayLike, shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, tuple[int, int]]:
    """Own copies of CSR parts that are known to be consistent: the kernels do not look again."""
    m, n = as_shape(shape)
    crow, col = as_integers(indptr, "indptr"), as_integers(indices, "indices")
    if crow.device != col.device:
        raise InputError(f"indptr is on {crow.device}, but indices are on {col.device}.")
    if crow.shape[0] != m + 1:
        raise InputError(f"indptr must have {m + 1} entries for {m} rows, not {crow.shape[0]}.")
    if int(crow[0]) != 0 or int(crow[-1]) != col.shape[0] or bool((crow.diff() < 0).any()):
        raise InputError(
            f"indptr must rise from 0 to the number of indices ({col.shape[0]}) without falling."
        )
    check_range(col, "indices", n)
    dtype = index_dtype(n, m, col.shape[0])
    return crow.to(dtype, copy=True).contiguous(), col.to(dtype, copy=True).contiguous(), (m, n)


def checked_edge_index(edge_index: ArrayLike, num_nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The targets and the sources of edges, int64 and in range."""
    as_shape((num_nodes, num_nodes), "num_nodes")
    edges = as_integers(edge_index, "edge_index", dimensions=2).to(torch.int64)
    if edges.shape[0] != 2:
        raise InputError(f"edge_index must have shape [2, E], not {list(edges.shape)}.")
    check_range(edges, "edge_index", num_nodes)
    return edges[1], edges[0]


def merged_entries(
    rows: torch.Tensor, cols: torch.Tensor, shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """CSR parts with ascending columns and one entry per place, and where each entry went."""
    m, n = shape
    keys, order = torch.sort(rows * n + cols, stable=True)
    fresh = torch.ones_like(keys, dtype=torch.bool)
    fresh[1:] = keys[1:] != keys[:-1]
    kept = keys[fresh]
    place = torch.empty_like(order)
    place[order] = fresh.cumsum(0) - 1
    # Row i begins at the first key that is not below i·n.
    first_keys = torch.arange(m + 1, device=keys.device) * n
    dtype = index_dtype(n, m, kept.shape[0])
    crow = torch.searchsorted(kept, first_keys).to(dtype)
    return crow, (kept % max(n, 1)).to(dtype), place


def grouped(keys: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of every key 0 .. size - 1: ``order[starts[k] : starts[k + 1]]``, ascending."""
    dtype = index_dtype(size, keys.shape[0])
    if path_for(keys.device) == "compiled":
        starts = torch.empty(size + 1, dtype=dtype)
        order = torch.empty(keys.shape[0], dtype=dtype)
        group(keys.numpy(), starts.numpy(), order.numpy())
        return starts, order
    ordered, order = torch.sort(keys, stable=True)
    bounds = torch.arange(size + 1, device=keys.device, dtype=keys.dtype)
    return torch.searchsorted(ordered, bounds).to(dtype), order.to(dtype)


@dataclass(frozen=True, eq=False, repr=False)
class SparsePattern:
    """The places of the entries of an m × n matrix in CSR order.

    Row i holds the columns ``col[crow[i] : crow[i + 1]]``: for a graph, the sources of the edges
    into node i. Arrays of trainable values follow this order of entries.

    Use :meth:`from_csr` or :meth:`from_edge_index`, which check their input. The constructor
    itself trusts its parts, and so do the kernels: a pattern must never be changed in place.

    Attributes:
        crow: Row pointer [m + 1], int32 where all numbers fit, otherwise int64.
        col: Column of each entry [nnz], of the same type.
        shape: (m, n).
    """

    crow: torch.Tensor
    col: torch.Tensor
    shape: tuple[int, int]

    @classmethod
    def from_csr(
        cls, indptr: ArrayLike, indices: ArrayLike, *, shape: tuple[int, int]
    ) -> SparsePattern:
        """Copy CSR parts. Unsorted columns and repeated entries are kept as they are."""
        return cls(*checked_csr(indptr, indices, shape))

    @classmethod
    def from_edge_index(cls, edge_index: ArrayLike, num_nodes: int) -> SparsePattern:
        """Row = target, column = source, columns ascending; repeated edges are merged.

        The values of entries must follow :attr:`edge_index` of the result, not the argument.
        """
        rows, cols = checked_edge_index(edge_index, num_nodes)
        shape = (int(num_nodes), int(num_nodes))
        crow, col, _ = merged_entries(rows, cols, shape)
        return cls(crow, col, shape)

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self.col.shape[0])

    @property
    def device(self) -> torch.device:
        """Where the pattern is stored."""
        return self.col.device

    @property
    def row_counts(self) -> torch.Tensor:
        """The number of entries of each row [m]: the in-degrees of a graph."""
        return self.crow.diff()

    @cached_property
    def row(self) -> torch.Tensor:
        """The row of each entry [nnz]; made and kept when it is first asked for."""
        return self._entry_rows()

    def _entry_rows(self) -> torch.Tensor:
        rows = torch.arange(self.shape[0], device=self.device, dtype=self.col.dtype)
        return torch.repeat_interleave(rows, self.row_counts, output_size=self.nnz)

    @property
    def edge_index(self) -> torch.Tensor:
        """The edges source → target [2, nnz] in the order of the entries, int64."""
        return torch.stack([self.col, self.row]).to(torch.int64)

    @cached_property
    def transposed(self) -> tuple[SparsePattern, torch.Tensor]:
        """The pattern of the transpose and, for each of its entries, the entry here.

        Values v of this pattern are ``v[permutation]`` in the transposed one. Made and kept when
        first asked for; a symmetric pattern is its own transpose and stores the permutation only.
        """
        m, n = self.shape
        starts, permutation = grouped(self.col, n)
        crow = starts.to(self.col.dtype)
        col = self._entry_rows().index_select(0, permutation)
        if m == n and torch.equal(crow, self.crow) and torch.equal(col, self.col):
            return self, permutation
        return SparsePattern(crow, col, (n, m)), permutation

    @cached_property
    def blocks(self) -> NDArray[Any]:
        """Bounds of blocks of rows with about equal numbers of entries and rows, for threads."""
        work = self.crow.cpu().numpy().astype(np.int64) + np.arange(self.shape[0] + 1)
        shares = np.linspace(0, work[-1], BLOCKS + 1)
        bounds = np.searchsorted(work, shares)
        bounds[0], bounds[-1] = 0, self.shape[0]
        return bounds.astype(np.int64)

    def to(self, device: torch.device | str) -> SparsePattern:
        """The pattern on a device; itself where it is there already."""
        crow, col = self.crow.to(device), self.col.to(device)
        return self if col is self.col else SparsePattern(crow, col, self.shape)

    def __repr__(self) -> str:
        return f"SparsePattern(shape={self.shape}, nnz={self.nnz}, device={self.device})"


if TYPE_CHECKING:
    Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    Selected = tuple[SparsePattern, torch.Tensor]


def rows_of(pattern: SparsePattern, payload: torch.Tensor, index: ArrayLike) -> Selected:
    """The rows at some positions, or where a mask is true."""
    rows = as_index(index, "index", pattern.shape[0], pattern.device)
    select = _compiled_rows if path_for(pattern.device) == "compiled" else _torch_rows
    return _selected(select(pattern, payload, rows), (rows.shape[0], pattern.shape[1]))


def columns_of(pattern: SparsePattern, payload: torch.Tensor, index: ArrayLike) -> Selected:
    """The columns at some positions, or where a mask is true."""
    cols = as_index(index, "index", pattern.shape[1], pattern.device)
    return _block(pattern, payload, torch.arange(pattern.shape[0], device=cols.device), cols)


def block_of(
    pattern: SparsePattern, payload: torch.Tensor, rows: ArrayLike, cols: ArrayLike
) -> Selected:
    """The entries in some rows and some columns."""
    m, n = pattern.shape
    kept_rows = as_index(rows, "rows", m, pattern.device)
    return _block(pattern, payload, kept_rows, as_index(cols, "cols", n, pattern.device))


def _block(
    pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor
) -> Selected:
    shape = (rows.shape[0], cols.shape[0])
    if path_for(pattern.device) == "compiled":
        index, place = cols.numpy(), np.full(pattern.shape[1], -1, pattern.col.numpy().dtype)
        positions = np.arange(index.shape[0], dtype=place.dtype)
        place[index] = positions
        if np.array_equal(place[index], positions):
            return _selected(_compiled_block(pattern, payload, rows, place), shape)
    return _selected(_torch_block(pattern, payload, rows, cols), shape)


def _compiled_rows(pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor) -> Parts:
    crow = _compiled_pointer(pattern, rows)
    total = int(crow[-1])
    col, new_payload = empty((total,), pattern.col), empty((total,), payload)
    arrays = (pattern.crow, pattern.col, payload, rows, crow, col, new_payload)
    copy_rows(*(array.numpy() for array in arrays))
    return crow, col, new_payload


def _compiled_block(
    pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor, place: NDArray[Any]
) -> Parts:
    crow = _compiled_pointer(pattern, rows)
    room = int(crow[-1]) + 1
    col, new_payload = empty((room,), pattern.col), empty((room,), payload)
    filter_rows(
        pattern.crow.numpy(),
        pattern.col.numpy(),
        payload.numpy(),
        rows.numpy(),
        place,
        crow.numpy(),
        col.numpy(),
        new_payload.numpy(),
    )
    total = int(crow[-1])
    return crow, _trimmed(col, total), _trimmed(new_payload, total)


def _trimmed(array: torch.Tensor, total: int) -> torch.Tensor:
    return torch.from_numpy(array.numpy()[:total].copy())


def _compiled_pointer(pattern: SparsePattern, rows: torch.Tensor) -> torch.Tensor:
    crow = torch.empty(rows.shape[0] + 1, dtype=torch.int64)
    row_pointer(pattern.crow.numpy(), rows.numpy(), crow.numpy())
    return crow


def _torch_rows(pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor) -> Parts:
    crow = _pointer(pattern.row_counts.index_select(0, rows))
    total = int(crow[-1])
    shift = pattern.crow.index_select(0, rows) - crow[:-1]
    entries = torch.repeat_interleave(shift, crow.diff(), output_size=total)
    entries += torch.arange(total, device=pattern.device)
    return crow, pattern.col.index_select(0, entries), payload.index_select(0, entries)


def _torch_block(
    pattern: SparsePattern, payload: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor
) -> Parts:
    starts, order = grouped(cols, pattern.shape[1])
    crow, col, row_payload = _torch_rows(pattern, payload, rows)
    copies = starts.diff().index_select(0, col)
    ends = _pointer(copies)
    # Position of each copy among the copies of its column.
    first = starts.index_select(0, col).to(torch.int64) - ends[:-1]
    places = torch.repeat_interleave(first, copies)
    places += torch.arange(places.shape[0], device=places.device)
    new_payload = torch.repeat_interleave(row_payload, copies)
    return ends.index_select(0, crow), order.index_select(0, places), new_payload


def _pointer(counts: torch.Tensor) -> torch.Tensor:
    pointer = torch.zeros(counts.shape[0] + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=pointer[1:])
    return pointer


def _selected(parts: Parts, shape: tuple[int, int]) -> Selected:
    crow, col, payload = parts
    dtype = index_dtype(*shape, col.shape[0])
    return SparsePattern(crow.to(dtype), col.to(dtype), shape), payload


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
        return ConstantSparse(*rows_of(self.pattern, self.values, index))

    def columns(self, index: ArrayLike) -> ConstantSparse:
        """The matrix A[:, index], for positions in any order or a mask [n]."""
        return ConstantSparse(*columns_of(self.pattern, self.values, index))

    def block(self, rows: ArrayLike, cols: ArrayLike) -> ConstantSparse:
        """The matrix A[rows][:, cols], for positions in any order or masks."""
        return ConstantSparse(*block_of(self.pattern, self.values, rows, cols))

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
