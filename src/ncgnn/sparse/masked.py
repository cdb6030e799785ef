"""Matrices whose entries can be masked: constants times numbers that have gradients.

An explanation asks how an answer changes with single edges, or with single entries of sparse
features. A mask holds a number for each of them; the entries of a matrix, and of whatever is
selected from it, say which of these numbers they are multiplied by. Normalization does not see the
mask: messages are multiplied by it afterwards, as in PyG.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import torch

from ncgnn.errors import InputError
from ncgnn.sparse.matrix import ConstantSparse, SparsePattern
from ncgnn.sparse.ops import weighted_matmul

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncgnn.sparse.matrix import ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class MaskedPattern(SparsePattern):
    """A pattern whose entries have a mask.

    Attributes:
        mask: Numbers, with or without gradients, the last of them 1.
        places: Which of them each entry is multiplied by [nnz]; -1 stands for the last.
    """

    mask: torch.Tensor
    places: torch.Tensor

    def weigh(self, values: torch.Tensor) -> torch.Tensor:
        """Values [nnz] or [nnz, heads] times the mask of their entries."""
        factors = self.mask[self.places].to(values.dtype)
        return values * (factors if values.dim() == 1 else factors[:, None])


@dataclass(frozen=True, eq=False, repr=False)
class MaskedSparse(ConstantSparse):
    """A matrix whose entries are constants times a mask; products have gradients to it."""

    pattern: MaskedPattern

    @classmethod
    def of(cls, matrix: ConstantSparse, mask: torch.Tensor, places: torch.Tensor) -> MaskedSparse:
        """A matrix with a mask; see :class:`MaskedPattern`."""
        plain = matrix.pattern
        pattern = MaskedPattern(plain.crow, plain.col, plain.shape, mask, places)
        return cls(pattern, matrix.values)

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        """A·X for X [n], [n, d] or [n, ..., d], with gradients to X and to the mask."""
        flat = dense if dense.dim() <= 2 else dense.flatten(1)
        out = weighted_matmul(self.pattern, self.pattern.weigh(self.values), flat)
        return out.reshape(len(out), *dense.shape[1:])

    def scale(
        self, rows: torch.Tensor | None = None, cols: torch.Tensor | None = None
    ) -> MaskedSparse:
        """D_r·A·D_c, with the same mask."""
        return MaskedSparse(self.pattern, self._plain(self.values).scale(rows, cols).values)

    def rows(self, index: ArrayLike) -> MaskedSparse:
        """The matrix A[index]."""
        return self._select(lambda numbers: numbers.rows(index))

    def columns(self, index: ArrayLike) -> MaskedSparse:
        """The matrix A[:, index]."""
        return self._select(lambda numbers: numbers.columns(index))

    def block(self, rows: ArrayLike, cols: ArrayLike) -> MaskedSparse:
        """The matrix A[rows][:, cols]."""
        return self._select(lambda numbers: numbers.block(rows, cols))

    def keep(self, kept: torch.Tensor) -> MaskedSparse:
        """The matrix with those entries only that a mask [nnz] names."""
        return self._select(lambda numbers: numbers.keep(kept))

    def _select(self, select: Callable[[ConstantSparse], ConstantSparse]) -> MaskedSparse:
        """Entries that are found by selecting among their numbers, which float64 holds exactly."""
        every = torch.arange(self.nnz, dtype=torch.float64, device=self.device)
        found = select(self._plain(every))
        chosen = found.values.to(torch.int64)
        places = self.pattern.places.index_select(0, chosen)
        entries = ConstantSparse(found.pattern, self.values.index_select(0, chosen))
        return MaskedSparse.of(entries, self.pattern.mask, places)

    def _plain(self, values: torch.Tensor) -> ConstantSparse:
        """Other values at the same places, without the mask."""
        pattern = self.pattern
        return ConstantSparse(SparsePattern(pattern.crow, pattern.col, pattern.shape), values)

    def t(self) -> NoReturn:
        """Refused: whoever needs the transpose would lose the mask."""
        raise MaskError("a transpose")

    def t_matmul(self, dense: torch.Tensor) -> NoReturn:
        """Refused, see :meth:`t`."""
        raise MaskError("a product with the transpose")

    def to_torch(self) -> NoReturn:
        """Refused, see :meth:`t`."""
        raise MaskError("a torch tensor")

    def to_dense(self) -> NoReturn:
        """Refused, see :meth:`t`."""
        raise MaskError("a dense matrix")

    def to_scipy(self, *, copy: bool = True) -> NoReturn:
        """Refused, see :meth:`t`."""
        raise MaskError("a scipy matrix")


class MaskError(InputError):
    """Something that would lose the mask of a matrix."""

    def __init__(self, what: str) -> None:
        super().__init__(f"a matrix with a mask must not become {what}, which would lose the mask.")
