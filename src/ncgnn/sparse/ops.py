"""Differentiable functions between the nodes and the entries of a pattern.

They hold one number per entry and head: what a score needs. Wide node features belong into
``weighted_matmul`` and ``sampled_dot``, which never spread them over the entries.

The order of a product of three matrices, chosen by its cost.

Products with a sparse matrix whose values are trained.

With A the matrix of the values and G the gradient of A·X, the gradients are

    ∂X = Aᵀ·G    and    ∂v_e = ⟨G_i, X_j⟩ for the entry e = (i, j),

so that nothing larger than X, G and the values is ever made. The product and the sampled dot
product are the gradients of each other, which makes both differentiable any number of times.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import torch

from ncgnn.errors import InputError
from ncgnn.sparse import _backend as ops
from ncgnn.sparse._backend import path_for
from ncgnn.sparse.checks import check_float, check_match
from ncgnn.sparse.matrix import ConstantSparse, SparsePattern

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


class _WeightedMatmul(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
    ) -> torch.Tensor:
        ctx.pattern = pattern
        _, values_train, dense_train = ctx.needs_input_grad
        ctx.save_for_backward(values if dense_train else None, dense if values_train else None)
        return ops.product(pattern, values, dense)

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[None, torch.Tensor | None, torch.Tensor | None]:
        (gradient,), pattern = gradients, ctx.pattern
        values, dense = ctx.saved_tensors
        return (
            None,
            None if dense is None else _dots(pattern, gradient, dense),
            None if values is None else _transposed_product(pattern, values, gradient),
        )


class _SampledDot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor
    ) -> torch.Tensor:
        ctx.pattern = pattern
        _, left_train, right_train = ctx.needs_input_grad
        ctx.save_for_backward(left if right_train else None, right if left_train else None)
        return ops.sampled_dots(pattern, left, right)

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[None, torch.Tensor | None, torch.Tensor | None]:
        (gradient,), pattern = gradients, ctx.pattern
        left, right = ctx.saved_tensors
        return (
            None,
            None if right is None else _product(pattern, gradient, right),
            None if left is None else _transposed_product(pattern, gradient, left),
        )


def _product(pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _WeightedMatmul.apply(pattern, values, dense))


def _dots(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _SampledDot.apply(pattern, left, right))


def _transposed_product(
    pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    transposed, permutation = pattern.transposed
    return _product(transposed, values.index_select(0, permutation), dense)


def weighted_matmul(
    pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """A·X where A has trainable values at the entries of a pattern.

    Args:
        pattern: Places of the entries, m × n.
        values: [nnz] in the order of the pattern's entries, or [nnz, heads].
        dense: [n] or [n, d]; with heads [n, heads, d].

    Returns:
        [m] or [m, d]; with heads [m, heads, d], where head h uses ``values[:, h]``.

    The transposed pattern is made, and kept in the pattern, when a gradient of ``dense`` is first
    asked for. The same input and number of threads give the same bits; on CUDA this holds for the
    CSR product, and for the sums over entries under ``torch.use_deterministic_algorithms(True)``.
    """
    check_entries(pattern, values, "values")
    check_match(dense, "dense", values.dtype, values.device)
    n = pattern.shape[1]
    shape = list(dense.shape)
    if values.dim() == 2 and (len(shape) != 3 or shape[:2] != [n, values.shape[1]]):
        raise InputError(
            f"dense must have shape [{n}, {values.shape[1]}, d] for values with "
            f"{values.shape[1]} heads, not {shape}."
        )
    if values.dim() == 1 and (len(shape) not in (1, 2) or shape[0] != n):
        raise InputError(f"dense must have shape [{n}] or [{n}, d], not {shape}.")
    if dense.dim() == 1:
        return _product(pattern, values, dense.unsqueeze(1)).squeeze(1)
    return _product(pattern, values, dense)


def sampled_dot(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """⟨left_i, right_j⟩ for every entry (i, j) of a pattern, without any nnz × d array.

    Args:
        pattern: Places of the entries, m × n.
        left: [m, d] or [m, heads, d].
        right: [n, d] or [n, heads, d].

    Returns:
        [nnz] or [nnz, heads].
    """
    check_float(left, "left")
    check_match(left, "left", left.dtype, pattern.device)
    check_match(right, "right", left.dtype, left.device)
    m, n = pattern.shape
    if left.dim() not in (2, 3) or left.shape[0] != m:
        raise InputError(f"left must have shape [{m}, d] or [{m}, heads, d], not {[*left.shape]}.")
    if right.shape != (n, *left.shape[1:]):
        raise InputError(
            f"right must have shape {[n, *left.shape[1:]]} as left has, not {[*right.shape]}."
        )
    return _dots(pattern, left, right)


def check_entries(pattern: SparsePattern, entries: torch.Tensor, name: str) -> None:
    """Refuse what does not give one float, or one per head, to each entry."""
    check_match(entries, name, getattr(entries, "dtype", torch.float32), pattern.device)
    check_float(entries, name)
    if entries.dim() not in (1, 2) or entries.shape[0] != pattern.nnz:
        raise InputError(
            f"{name} must have shape [{pattern.nnz}] or [{pattern.nnz}, heads], not "
            f"{list(entries.shape)}."
        )


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
        softmax = ops.softmax(pattern, scores)
        ctx.pattern = pattern
        ctx.save_for_backward(softmax)
        return softmax

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        (softmax,), pattern = ctx.saved_tensors, ctx.pattern
        if not torch.is_grad_enabled():
            return None, ops.softmax_gradient(pattern, softmax, gradients[0])
        weighted = softmax * gradients[0]
        return None, weighted - softmax * _spread(pattern, _row_sum(pattern, weighted))


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return ops.row_sums(pattern, entries)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, _spread(ctx.pattern, gradients[0])


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return torch.repeat_interleave(nodes, pattern.row_counts, dim=0, output_size=pattern.nnz)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, _row_sum(ctx.pattern, gradients[0])


class _GatherColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        return nodes.index_select(0, pattern.col)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor]:
        transposed, permutation = ctx.pattern.transposed
        return None, _row_sum(transposed, gradients[0].index_select(0, permutation))


def _row_sum(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _RowSum.apply(pattern, entries))


def _spread(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    return cast("torch.Tensor", _Spread.apply(pattern, nodes))


def edge_softmax(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores over the entries of each row, i.e. over each target's edges.

    α_e = exp(s_e - max s) / Σ exp(s - max s), both over the row of e.

    Args:
        pattern: Places of the entries.
        scores: [nnz] or [nnz, heads], in the order of the pattern's entries.

    Returns:
        As the scores. A score of -inf gets weight 0; a row of nothing but -inf gets NaN, as in
        ``torch.softmax``.
    """
    check_entries(pattern, scores, "scores")
    return cast("torch.Tensor", _EdgeSoftmax.apply(pattern, scores))


def row_sum(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum over each row of entries [nnz] or [nnz, heads]; 0 for an empty row."""
    check_entries(pattern, entries, "entries")
    return _row_sum(pattern, entries)


def gather_rows(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    """``nodes[i]`` for each entry (i, j), from [m] or [m, heads]: the value at the target."""
    _check_nodes(nodes, pattern.shape[0], pattern)
    return _spread(pattern, nodes)


def gather_columns(pattern: SparsePattern, nodes: torch.Tensor) -> torch.Tensor:
    """``nodes[j]`` for each entry (i, j), from [n] or [n, heads]: the value at the source."""
    _check_nodes(nodes, pattern.shape[1], pattern)
    return cast("torch.Tensor", _GatherColumns.apply(pattern, nodes))


def _check_nodes(nodes: torch.Tensor, size: int, pattern: SparsePattern) -> None:
    check_match(nodes, "nodes", getattr(nodes, "dtype", torch.float32), pattern.device)
    check_float(nodes, "nodes")
    if nodes.dim() not in (1, 2) or nodes.shape[0] != size:
        raise InputError(
            f"nodes must have shape [{size}] or [{size}, heads], not {[*nodes.shape]}."
        )
