"""The order of a product of three matrices, chosen by its cost."""

from __future__ import annotations

from typing import Literal

import torch

from ncgnn.errors import InputError
from ncgnn.graph._sparse_backend import path_for
from ncgnn.graph._sparse_checks import check_match
from ncgnn.graph._sparse_matrix import ConstantSparse
from ncgnn.graph._sparse_pattern import SparsePattern

Order = Literal["propagate first", "transform first"]

#: Cost of one multiply-add in a dense product, in a sparse-dense product, and in the product of
#: two sparse matrices. Measured on a CPU; only their ratios matter.
DENSE, SPARSE, SPARSE_PAIR = 1.0, 10.0, 900.0


def sparse_dense_chain(
    S: ConstantSparse, X: torch.Tensor | ConstantSparse, W: torch.Tensor
) -> torch.Tensor:
    """S·X·W in the cheaper of its two orders; both give the same result up to rounding.

    Args:
        S: Constant matrix [m, n], such as a normalised adjacency.
        X: Features [n, d], dense or constant sparse.
        W: Weights [d, h].

    Returns:
        Dense [m, h], differentiable in W and in a dense X.

    With sparse X, (S·X)·W forms the sparse product anew in every call; if X stays the same and
    S·X is sparse enough, it is cheaper still to form it once and to multiply that by W.
    """
    costs = chain_costs(S, X, W)
    if costs["propagate first"] < costs["transform first"]:
        return propagate_first(S, X, W)
    return transform_first(S, X, W)


def propagate_first(
    S: ConstantSparse, X: torch.Tensor | ConstantSparse, W: torch.Tensor
) -> torch.Tensor:
    """(S·X)·W."""
    return (sparse_product(S, X) if isinstance(X, ConstantSparse) else S @ X) @ W


def transform_first(
    S: ConstantSparse, X: torch.Tensor | ConstantSparse, W: torch.Tensor
) -> torch.Tensor:
    """S·(X·W)."""
    return S @ (X @ W)


def sparse_product(left: ConstantSparse, right: ConstantSparse) -> ConstantSparse:
    """The sparse product of two constant matrices, on devices that have one (CPU and CUDA)."""
    shape = (left.shape[0], right.shape[1])
    if left.nnz == 0 or right.nnz == 0:
        empty = torch.zeros(shape[0] + 1, dtype=left.pattern.crow.dtype, device=left.device)
        return ConstantSparse(SparsePattern(empty, right.pattern.col[:0], shape), left.values[:0])
    product = left.to_torch() @ right.to_torch()
    pattern = SparsePattern(product.crow_indices(), product.col_indices(), shape)
    return ConstantSparse(pattern, product.values())


def chain_costs(
    S: ConstantSparse, X: torch.Tensor | ConstantSparse, W: torch.Tensor
) -> dict[Order, float]:
    """The cost of each order: multiply-adds, weighted by their kind.

    With s = nnz(S), the forward costs of a dense X are SPARSE·s·d + DENSE·m·d·h for (S·X)·W and
    DENSE·n·d·h + SPARSE·s·h for S·(X·W). Backward, where a gradient is asked for, each gradient
    costs one dense product more, and the sparse product is repeated where its operand needs one.
    """
    _check_chain(S, X, W)
    trains_w = W.requires_grad and torch.is_grad_enabled()
    if isinstance(X, ConstantSparse):
        return _sparse_costs(S, X, W.shape[1], trains_w)
    trains_x = X.requires_grad and torch.is_grad_enabled()
    (m, n), (d, h) = S.shape, W.shape
    dense_products = 1 + trains_w + trains_x
    return {
        "propagate first": SPARSE * S.nnz * d * (1 + trains_x) + DENSE * m * d * h * dense_products,
        "transform first": DENSE * n * d * h * dense_products
        + SPARSE * S.nnz * h * (1 + (trains_w or trains_x)),
    }


def _sparse_costs(
    S: ConstantSparse, X: ConstantSparse, h: int, trains_w: bool
) -> dict[Order, float]:
    transform = SPARSE * (X.nnz + S.nnz) * h * (1 + trains_w)
    if path_for(S.device) == "chunks":
        return {"propagate first": float("inf"), "transform first": transform}
    pairs = int(X.row_counts().index_select(0, S.pattern.col).sum())
    filled = min(pairs, S.shape[0] * X.shape[1])
    # The transpose of a product that is not kept must be made for each backward pass.
    multiply = SPARSE * filled * h * (1 + trains_w) + SPARSE_PAIR * filled * trains_w
    return {"propagate first": SPARSE_PAIR * pairs + multiply, "transform first": transform}


def _check_chain(S: ConstantSparse, X: torch.Tensor | ConstantSparse, W: torch.Tensor) -> None:
    if isinstance(X, ConstantSparse):
        check_match(X.values, "X", S.dtype, S.device)
    else:
        check_match(X, "X", S.dtype, S.device)
    check_match(W, "W", S.dtype, S.device)
    if len(X.shape) != 2 or X.shape[0] != S.shape[1]:
        raise InputError(f"X must have shape [{S.shape[1]}, d], not {list(X.shape)}.")
    if W.dim() != 2 or W.shape[0] != X.shape[1]:
        raise InputError(f"W must have shape [{X.shape[1]}, h], not {list(W.shape)}.")
