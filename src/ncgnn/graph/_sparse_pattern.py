"""Where a sparse matrix has entries, without saying which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ncgnn.graph._sparse_backend import BLOCKS
from ncgnn.graph._sparse_build import checked_csr, checked_edge_index, grouped, merged_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph._sparse_checks import ArrayLike


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
