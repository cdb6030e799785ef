"""Sparse matrices in CSR form: where entries are, and constant matrices.

Selections of rows and columns follow the order of their index. Within a row the entries keep their
order, so columns stay ascending when the index is ascending (as a mask is). A position may be
selected several times.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import numpy as np
import torch

from ncgnn._numba import over_blocks
from ncgnn.errors import InputError
from ncgnn.graph import check_csr, check_edges, check_nodes, to_numpy
from ncgnn.sparse._backend import (
    BLOCKS,
    FULL_ROWS,
    NARROW,
    PATHS,
    WIDE,
    Product,
    add_up_transposed,
    empty,
    row_blocks,
    row_sums,
    torch_csr,
)
from ncgnn.sparse._kernels import (
    copy_rows,
    count_kept,
    filter_rows,
    group,
    is_symmetric,
    keep_entries,
    row_pointer,
    scale_entries,
    transpose_pattern,
)
from ncgnn.sparse.devices import bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    ArrayLike = torch.Tensor | NDArray[Any] | Sequence[int] | Sequence[float] | Sequence[bool]
    Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _nothing() -> None:
    """What a reference to nothing gives."""


def _without_references(holder: object) -> dict[str, Any]:
    """What a copy or a pickle holds: all but references to what may be gone."""
    return {name: value for name, value in vars(holder).items() if not isinstance(value, ref)}


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
        m, n = _check_shape(shape)
        rows = check_csr(to_numpy(indptr, "indptr"), to_numpy(indices, "indices"), n)
        if rows != m:
            raise InputError(f"indptr must have {m + 1} entries for {m} rows, not {rows + 1}.")
        crow, col = _as_tensor(indptr, "indptr"), _as_tensor(indices, "indices")
        if crow.device != col.device:
            raise InputError(f"indptr is on {crow.device}, but indices are on {col.device}.")
        dtype = index_dtype(n, m, col.shape[0])
        # Copies of their own, because the kernels trust them and do not look again.
        crow, col = (part.to(dtype, copy=True).contiguous() for part in (crow, col))
        return cls(crow, col, (m, n))

    @classmethod
    def from_edge_index(cls, edge_index: ArrayLike, num_nodes: int) -> SparsePattern:
        """Row = target, column = source, columns ascending; repeated edges are merged.

        The values of entries must follow :attr:`edge_index` of the result, not the argument.
        """
        return _merge_edges(edge_index, num_nodes)[0]

    @cached_property
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
        """The row of each entry [nnz], made when first needed and kept."""
        return self._make_rows()

    def _make_rows(self) -> torch.Tensor:
        rows = torch.arange(self.shape[0], device=self.device, dtype=self.col.dtype)
        return torch.repeat_interleave(rows, self.row_counts, output_size=self.nnz)

    @property
    def edge_index(self) -> torch.Tensor:
        """The edges source → target [2, nnz] in the order of the entries, int64."""
        return torch.stack([self.col, self.row]).to(torch.int64)

    @property
    def transposed(self) -> tuple[SparsePattern, torch.Tensor]:
        """The pattern of the transpose and, for each of its entries, the entry here.

        Values v of this pattern are ``v[permutation]`` in the transposed one. Made and kept when
        first needed; a symmetric pattern is its own transpose and stores the permutation only.
        """
        pattern, permutation = self._turned
        return (self if pattern is None else pattern), permutation

    @cached_property
    def _turned(self) -> tuple[SparsePattern | None, torch.Tensor]:
        """What :attr:`transposed` gives; None for itself, as nothing that holds itself is freed."""
        pattern, permutation = self.transpose()
        return (None if pattern is self else pattern), permutation

    def transpose(self) -> tuple[SparsePattern, torch.Tensor]:
        """What :attr:`transposed` gives, of which the permutation is not kept."""
        if "_turned" in self.__dict__:
            return self.transposed
        m, n = self.shape
        if PATHS.get(self.device.type) == "compiled":
            parts = (self.crow.new_empty(n + 1), empty((self.nnz,), self.col))
            crow, col, permutation = *parts, torch.empty_like(self.col)
            arrays = (self.crow, self.col, crow, col, permutation)
            transpose_pattern(*(array.numpy() for array in arrays))
        else:
            starts, permutation = _group(self.col, n)
            crow = starts.to(self.col.dtype)
            col = self._make_rows().index_select(0, permutation)
        # Of unsorted columns the transpose of the transpose is another one.
        for known in (self.__dict__.get("_mirror", _nothing)(), self):
            if known is None or known.shape != (n, m):
                continue
            if torch.equal(crow, known.crow) and torch.equal(col, known.col):
                return known, permutation
        made = SparsePattern(crow, col, (n, m))
        self.mirror(made)
        return made, permutation

    def mirror(self, other: SparsePattern) -> None:
        """Let two patterns know that they are the transposes of each other, while both exist."""
        self.__dict__["_mirror"], other.__dict__["_mirror"] = ref(other), ref(self)

    @cached_property
    def blocks(self) -> NDArray[Any]:
        """Bounds of blocks of rows with about equal numbers of entries and rows, for threads."""
        work = self.crow.cpu().numpy().astype(np.int64) + np.arange(self.shape[0] + 1)
        shares = np.linspace(0, work[-1], BLOCKS + 1)
        bounds = np.searchsorted(work, shares)
        bounds[0], bounds[-1] = 0, self.shape[0]
        return bounds.astype(np.int64)

    def weigh(self, values: torch.Tensor) -> torch.Tensor:
        """Values [nnz] or [nnz, heads] times the mask of their entries; here there is none."""
        return values

    def to(self, device: torch.device | str) -> SparsePattern:
        """The pattern on a device; itself where it is there already."""
        crow, col = self.crow.to(device), self.col.to(device)
        return self if col is self.col else SparsePattern(crow, col, self.shape)

    def __getstate__(self) -> dict[str, Any]:
        return _without_references(self)

    def __repr__(self) -> str:
        return f"SparsePattern(shape={self.shape}, nnz={self.nnz}, device={self.device})"


@dataclass(frozen=True, eq=False, repr=False)
class ConstantSparse:
    """An m × n matrix in CSR form that never changes and gets no gradient.

    The product with a dense tensor, ``matrix @ x``, is differentiable in x. Its backward pass
    multiplies by the transpose, which is made at the first backward pass and kept; a symmetric
    matrix is found out to be its own transpose and stores nothing more.

    Use one of the ``from_...`` constructors, which check and copy their input. The constructor
    itself trusts its parts, and none of them may be changed in place.

    Second-class behavior: products run in float32 and float64 only, and the dense side must have
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
        checked = _as_values(values, "values", pattern.nnz)
        return cls(pattern, checked.to(pattern.device, copy=True).contiguous())

    @classmethod
    def from_scipy(cls, matrix: Any, *, copy: bool = True) -> ConstantSparse:
        """A scipy sparse matrix or array of any format.

        Args:
            matrix: The matrix.
            copy: Whether to copy it; its memory is shared otherwise where types allow it, and must
                never be written to again.
        """
        if not hasattr(matrix, "tocsr"):
            raise InputError(f"matrix must be a scipy sparse matrix, not {type(matrix).__name__}.")
        csr = matrix.tocsr()
        if copy:
            return cls.from_csr(csr.indptr, csr.indices, csr.data, shape=csr.shape)
        check_csr(csr.indptr, csr.indices, csr.shape[1])
        dtype = index_dtype(*csr.shape, csr.nnz)
        crow, col = (share(part).to(dtype) for part in (csr.indptr, csr.indices))
        values = csr.data if csr.data.dtype.kind == "f" else csr.data.astype(np.float32)
        check_float(entries := share(values), "values")
        return cls(SparsePattern(crow, col, csr.shape), entries)

    @classmethod
    def from_edge_index(
        cls, edge_index: ArrayLike, num_nodes: int, values: ArrayLike | None = None
    ) -> ConstantSparse:
        """The adjacency of a graph: row = target, column = source, columns ascending.

        Row i lists the sources of the edges into node i, so that ``matrix @ x`` adds up what
        flows into each node. Repeated edges become one entry: the sum of their ``values``, or 1
        where there are none.
        """
        pattern, place = _merge_edges(edge_index, num_nodes)
        if values is None:
            return cls(pattern, torch.ones(pattern.nnz, device=pattern.device))
        given = _as_values(values, "values", place.shape[0]).to(pattern.device)
        return cls(pattern, given.new_zeros(pattern.nnz).index_add_(0, place, given))

    @cached_property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.pattern.shape

    @cached_property
    def nnz(self) -> int:
        """The number of stored entries."""
        return self.pattern.nnz

    @cached_property
    def dtype(self) -> torch.dtype:
        """The type of the entries."""
        return self.values.dtype

    @cached_property
    def device(self) -> torch.device:
        """Where the matrix is stored."""
        return self.values.device

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        """A·X for X [n], [n, d] or [n, ..., d]; the gradient of X is Aᵀ·G."""
        check_match(dense, "dense", self.dtype, self.device)
        m, n = self.shape
        if dense.dim() == 0 or dense.shape[0] != n:
            raise InputError(
                f"dense must have {n} rows for a matrix of shape {[m, n]}, but its shape is "
                f"{list(dense.shape)}."
            )
        flat = dense if dense.dim() == 2 else dense.reshape(n, dense.shape[1:].numel())
        out = cast("torch.Tensor", Product.apply(self.pattern, self.values, flat, self))
        return out if dense.dim() == 2 else out.reshape(m, *dense.shape[1:])

    def t_matmul(self, dense: torch.Tensor) -> torch.Tensor:
        """Aᵀ·X for X [m, d], without making the transpose where rows hold many entries."""
        check_match(dense, "dense", self.dtype, self.device)
        adds_up = (
            PATHS.get(self.device.type) == "compiled"
            and self.nnz >= FULL_ROWS * sum(self.shape)
            and dense.dim() == 2
            and dense.shape[1] >= WIDE
        )
        if not adds_up or (dense.requires_grad and torch.is_grad_enabled()):
            return self.transposed @ dense
        if dense.shape[0] != self.shape[0]:
            raise InputError(
                f"dense must have {self.shape[0]} rows for the transpose of a matrix of shape "
                f"{list(self.shape)}, but its shape is {list(dense.shape)}."
            )
        return add_up_transposed(self.pattern, self.values, dense.detach())

    @property
    def transposed(self) -> ConstantSparse:
        """The transpose; a symmetric matrix with sorted columns is its own."""
        origin = self.__dict__.get("_origin", _nothing)()
        if origin is not None:
            return origin
        return self if self._turned is None else self._turned

    @cached_property
    def _turned(self) -> ConstantSparse | None:
        """The transpose; None for itself, as nothing that holds itself is freed at once."""
        if self._equals_its_transpose():
            return None
        pattern, permutation = self.pattern.transpose()
        transpose = ConstantSparse(pattern, self.values.index_select(0, permutation))
        transpose.__dict__["_origin"] = ref(self)
        return transpose

    def _equals_its_transpose(self) -> bool:
        if self.shape[0] != self.shape[1]:
            return False
        if PATHS.get(self.device.type) == "compiled":
            arrays = (self.pattern.crow.numpy(), self.pattern.col.numpy(), self.values.numpy())
            return is_symmetric(*arrays)
        pattern, permutation = self.pattern.transpose()
        mirrored = self.values.index_select(0, permutation)
        return pattern is self.pattern and torch.equal(mirrored, self.values)

    def t(self) -> ConstantSparse:
        """The same as :attr:`transposed`, as a torch tensor has it."""
        return self.transposed

    def scale(
        self, rows: torch.Tensor | None = None, cols: torch.Tensor | None = None
    ) -> ConstantSparse:
        """D_r·A·D_c for the diagonals ``rows`` [m] and ``cols`` [n]; the pattern is shared.

        The diagonals are converted to the type and device of the matrix.
        """
        if rows is None and cols is None:
            return self
        if PATHS.get(self.device.type) == "compiled":
            return ConstantSparse(self.pattern, self._scale_entries(rows, cols))
        factors: list[torch.Tensor] = []
        if rows is not None:
            left = _as_values(rows, "rows", self.shape[0]).to(self.values)
            counts = self.pattern.row_counts
            factors.append(torch.repeat_interleave(left, counts, output_size=self.nnz))
        if cols is not None:
            right = _as_values(cols, "cols", self.shape[1]).to(self.values)
            factors.append(right.index_select(0, self.pattern.col))
        # The factors first: r_i·c_j is the same number as r_j·c_i, so symmetry survives rounding.
        product = factors[0] if len(factors) == 1 else factors[0] * factors[1]
        return ConstantSparse(self.pattern, product * self.values)

    def _scale_entries(self, rows: torch.Tensor | None, cols: torch.Tensor | None) -> torch.Tensor:
        """The entries of D_r·A·D_c, in one pass and the same order of factors."""
        nothing, out = self.values[:0], empty((self.nnz,), self.values)
        left = nothing if rows is None else _as_values(rows, "rows", self.shape[0])
        right = nothing if cols is None else _as_values(cols, "cols", self.shape[1])
        pattern, factors = self.pattern, (left.to(nothing), right.to(nothing))
        over_blocks(
            row_blocks(pattern, NARROW * self.nnz),
            scale_entries,
            pattern.crow.numpy(),
            pattern.col.numpy(),
            self.values.numpy(),
            factors[0].contiguous().numpy(),
            factors[1].contiguous().numpy(),
            out.numpy(),
        )
        return out

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
        rows = _as_index(index, "index", self.shape[0], self.device)
        compiled = PATHS.get(self.device.type) == "compiled"
        select = _select_rows if compiled else _select_rows_by_torch
        return _assemble(select(self, rows), (rows.shape[0], self.shape[1]))

    def columns(self, index: ArrayLike) -> ConstantSparse:
        """The matrix A[:, index], for positions in any order or a mask [n]."""
        cols = _as_index(index, "index", self.shape[1], self.device)
        return _select_block(self, torch.arange(self.shape[0], device=cols.device), cols)

    def keep(self, kept: torch.Tensor) -> ConstantSparse:
        """The matrix with those entries only that a mask [nnz] names."""
        pattern = self.pattern
        if PATHS.get(self.device.type) == "compiled":
            crow, mask = torch.empty_like(pattern.crow), kept.contiguous().numpy()
            count_kept(pattern.crow.numpy(), mask, crow.numpy())
            total = int(crow[-1])
            col, values = empty((total + 1,), pattern.col), empty((total + 1,), self.values)
            arrays = (pattern.col, self.values, col, values)
            keep_entries(mask, *(array.numpy() for array in arrays))
            return ConstantSparse(SparsePattern(crow, col[:-1], pattern.shape), values[:-1])
        before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.to(torch.int64).cumsum(0)])
        crow = before.index_select(0, pattern.crow.to(torch.int64)).to(pattern.crow.dtype)
        places = torch.nonzero(kept).view(-1)
        col, values = (part.index_select(0, places) for part in (pattern.col, self.values))
        return ConstantSparse(SparsePattern(crow, col, pattern.shape), values)

    def block(self, rows: ArrayLike, cols: ArrayLike) -> ConstantSparse:
        """The matrix A[rows][:, cols], for positions in any order or masks."""
        kept = _as_index(rows, "rows", self.shape[0], self.device)
        return _select_block(self, kept, _as_index(cols, "cols", self.shape[1], self.device))

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

    def to_scipy(self, *, copy: bool = True) -> csr_array[Any]:
        """A scipy CSR array, with its own memory unless it is only read."""
        from scipy.sparse import csr_array

        entries = (self.values, self.pattern.col, self.pattern.crow)
        parts = (part.detach().cpu().numpy() for part in entries)
        return csr_array(tuple(p.copy() if copy else p for p in parts), shape=self.shape)

    def __getstate__(self) -> dict[str, Any]:
        return _without_references(self)

    def __repr__(self) -> str:
        return (
            f"ConstantSparse(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype}, "
            f"device={self.device})"
        )


def merge_entries(
    rows: torch.Tensor, cols: torch.Tensor, shape: tuple[int, int]
) -> tuple[SparsePattern, torch.Tensor]:
    """A pattern with ascending columns and one entry per place, and where each entry went."""
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
    return SparsePattern(crow, (kept % max(n, 1)).to(dtype), shape), place


def _merge_edges(edge_index: ArrayLike, num_nodes: int) -> tuple[SparsePattern, torch.Tensor]:
    """The pattern of edges, and the entry of each edge."""
    shape = _check_shape((num_nodes, num_nodes), "num_nodes")
    check_nodes(check_edges(edge_index), "edge_index", num_nodes)
    edges = _as_tensor(edge_index, "edge_index").to(torch.int64)
    return merge_entries(edges[1], edges[0], shape)


def _group(keys: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of every key 0 .. size - 1: ``order[starts[k] : starts[k + 1]]``, ascending."""
    dtype = index_dtype(size, keys.shape[0])
    if PATHS.get(keys.device.type) == "compiled":
        starts = torch.empty(size + 1, dtype=dtype)
        order = torch.empty(keys.shape[0], dtype=dtype)
        group(keys.numpy(), starts.numpy(), order.numpy())
        return starts, order
    ordered, order = torch.sort(keys, stable=True)
    bounds = torch.arange(size + 1, device=keys.device, dtype=keys.dtype)
    return torch.searchsorted(ordered, bounds).to(dtype), order.to(dtype)


def _select_rows(matrix: ConstantSparse, rows: torch.Tensor) -> Parts:
    pattern, crow = matrix.pattern, _select_row_pointer(matrix, rows)
    total = int(crow[-1])
    col, values = empty((total,), pattern.col), empty((total,), matrix.values)
    arrays = (pattern.crow, pattern.col, matrix.values, rows, crow, col, values)
    copy_rows(*(array.numpy() for array in arrays))
    return crow, col, values


def _select_row_pointer(matrix: ConstantSparse, rows: torch.Tensor) -> torch.Tensor:
    crow = torch.empty(rows.shape[0] + 1, dtype=torch.int64)
    row_pointer(matrix.pattern.crow.numpy(), rows.numpy(), crow.numpy())
    return crow


def _select_block(matrix: ConstantSparse, rows: torch.Tensor, cols: torch.Tensor) -> ConstantSparse:
    shape = (rows.shape[0], cols.shape[0])
    if PATHS.get(matrix.device.type) == "compiled":
        index = cols.numpy()
        place = np.full(matrix.shape[1], -1, matrix.pattern.col.numpy().dtype)
        positions = np.arange(index.shape[0], dtype=place.dtype)
        place[index] = positions
        if np.array_equal(place[index], positions):  # no column is selected twice
            return _assemble(_filter_rows(matrix, rows, place), shape)
    return _assemble(_select_block_by_torch(matrix, rows, cols), shape)


def _filter_rows(matrix: ConstantSparse, rows: torch.Tensor, place: NDArray[Any]) -> Parts:
    pattern, crow = matrix.pattern, _select_row_pointer(matrix, rows)
    room = int(crow[-1]) + 1
    col, values = empty((room,), pattern.col), empty((room,), matrix.values)
    filter_rows(
        pattern.crow.numpy(),
        pattern.col.numpy(),
        matrix.values.numpy(),
        rows.numpy(),
        place,
        crow.numpy(),
        col.numpy(),
        values.numpy(),
    )
    total = int(crow[-1])
    col, values = (torch.from_numpy(part.numpy()[:total].copy()) for part in (col, values))
    return crow, col, values


def _select_rows_by_torch(matrix: ConstantSparse, rows: torch.Tensor) -> Parts:
    pattern = matrix.pattern
    crow = _pointer(pattern.row_counts.index_select(0, rows))
    total = int(crow[-1])
    shift = pattern.crow.index_select(0, rows) - crow[:-1]
    entries = torch.repeat_interleave(shift, crow.diff(), output_size=total)
    entries += torch.arange(total, device=pattern.device)
    return crow, pattern.col.index_select(0, entries), matrix.values.index_select(0, entries)


def _select_block_by_torch(matrix: ConstantSparse, rows: torch.Tensor, cols: torch.Tensor) -> Parts:
    starts, order = _group(cols, matrix.shape[1])
    crow, col, row_values = _select_rows_by_torch(matrix, rows)
    copies = starts.diff().index_select(0, col)
    ends = _pointer(copies)
    # Position of each copy among the copies of its column.
    first = starts.index_select(0, col).to(torch.int64) - ends[:-1]
    total = int(ends[-1])
    places = torch.repeat_interleave(first, copies, output_size=total)
    places += torch.arange(total, device=places.device)
    values = torch.repeat_interleave(row_values, copies, output_size=total)
    return ends.index_select(0, crow), order.index_select(0, places), values


def _pointer(counts: torch.Tensor) -> torch.Tensor:
    pointer = torch.zeros(counts.shape[0] + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=pointer[1:])
    return pointer


def _assemble(parts: Parts, shape: tuple[int, int]) -> ConstantSparse:
    crow, col, values = parts
    dtype = index_dtype(*shape, col.shape[0])
    return ConstantSparse(SparsePattern(crow.to(dtype), col.to(dtype), shape), values)


def share(array: NDArray[Any]) -> torch.Tensor:
    """A tensor in the memory of an array, which may be read-only and must not be written to."""
    plain = np.ascontiguousarray(array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, that it could be written to
        return torch.from_numpy(plain)


def _as_tensor(array: ArrayLike, name: str) -> torch.Tensor:
    """A detached tensor of an array; it may share its memory."""
    if isinstance(array, torch.Tensor):
        return array.detach()
    plain = np.asarray(array)
    if plain.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers, not {plain.dtype}.")
    if not plain.flags.writeable or not plain.dtype.isnative or plain.dtype.kind == "u":
        # torch warns about read-only memory and knows neither foreign byte orders nor all
        # unsigned types.
        signed = np.dtype(np.int64) if plain.dtype.kind == "u" else plain.dtype.newbyteorder("=")
        plain = plain.astype(signed)
    return torch.from_numpy(np.ascontiguousarray(plain))


def _as_values(array: ArrayLike, name: str, size: int) -> torch.Tensor:
    """A float vector of a given size; integers and booleans become float32."""
    tensor = _as_tensor(array, name)
    if isinstance(array, torch.Tensor) and array.requires_grad:
        raise InputError(f"{name} requires a gradient; use weighted_matmul for trainable values.")
    if tensor.dim() != 1 or tensor.shape[0] != size:
        raise InputError(f"{name} must have shape [{size}], not {list(tensor.shape)}.")
    if not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        return tensor.to(torch.float32)
    check_float(tensor, name)
    return tensor


def _as_index(selection: ArrayLike, name: str, size: int, device: torch.device) -> torch.Tensor:
    """Positions 0 .. size - 1 as int64, from positions or from a mask; negatives are refused."""
    tensor = _as_tensor(selection, name)
    if tensor.dtype == torch.bool:
        if tensor.shape != (size,):
            raise InputError(f"the mask {name} must have shape [{size}], not {list(tensor.shape)}.")
        if tensor.device == device and device.type == "cpu":
            # One thread: starting those of torch takes longer than looking at a mask.
            return torch.from_numpy(np.flatnonzero(tensor.numpy()))
        return torch.nonzero(tensor.to(device)).view(-1)
    if tensor.dim() != 1 or (tensor.numel() and tensor.dtype.is_floating_point):
        raise InputError(f"{name} must be positions in one dimension or a mask, not {selection!r}.")
    index = tensor.to(device=device, dtype=torch.int64).contiguous()
    lowest, highest = bounds(index)
    if lowest < 0 or highest >= size:
        wrong = lowest if lowest < 0 else highest
        raise InputError(f"{name} holds {wrong}, which is outside 0 .. {size - 1}.")
    return index


def check_float(tensor: torch.Tensor, name: str) -> None:
    """Refuse other types than float32 and float64."""
    if tensor.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} must be float32 or float64, not {tensor.dtype}.")


def check_match(tensor: Any, name: str, dtype: torch.dtype, device: torch.device) -> None:
    """Refuse what is no tensor of a given type on a given device."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{name} must be a torch tensor, not {type(tensor).__name__}.")
    if tensor.layout != torch.strided:
        raise InputError(f"{name} must be dense, not {tensor.layout}.")
    if tensor.dtype != dtype:
        raise InputError(f"{name} is {tensor.dtype}, but the matrix is {dtype}; convert one.")
    if tensor.device != device:
        raise InputError(f"{name} is on {tensor.device}, but the matrix is on {device}.")


def _check_shape(shape: tuple[int, int], name: str = "shape") -> tuple[int, int]:
    """Two plain non-negative integers."""
    sizes = tuple(int(size) for size in shape)
    if len(sizes) != 2 or min(sizes) < 0:
        raise InputError(f"{name} must be two non-negative integers, not {tuple(shape)}.")
    return sizes[0], sizes[1]


def index_dtype(*largest: int) -> torch.dtype:
    """``int32`` where every number fits, otherwise ``int64``."""
    return torch.int32 if max(largest) <= np.iinfo(np.int32).max else torch.int64
