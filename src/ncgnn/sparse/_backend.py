"""Which code computes a sparse operation, on how many threads and into which memory.

There are three paths, which compute the same numbers up to rounding. The CPU takes the first,
CUDA the second and every other device the third:

* ``compiled``: row loops in machine code;
* ``csr``: the CSR product of torch (MKL, cuSPARSE), and torch operations for the rest;
* ``chunks``: gather and ``index_add_`` on a bounded number of entries at a time, for devices
  without a CSR product. On CUDA, ``index_add_`` adds in no fixed order unless
  ``torch.use_deterministic_algorithms(True)`` is set.

With A the matrix of the values and G the gradient of A·X, the gradients are

    ∂X = Aᵀ·G    and    ∂v_e = ⟨G_i, X_j⟩ for the entry e = (i, j),

so that nothing larger than X, G and the values is ever made. The product and the sampled dot
product are the gradients of each other, which makes both differentiable any number of times.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch

from ncgnn._numba import over_blocks, thread_count
from ncgnn._pool import empty_bytes
from ncgnn.sparse._kernels import (
    divide_rows,
    dot_rows,
    head_product_rows,
    narrow_product_rows,
    product_rows,
    shift_rows,
    softmax_gradient_rows,
    sum_rows,
    transposed_product_columns,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from ncgnn.sparse.matrix import ConstantSparse, SparsePattern

Path = Literal["compiled", "csr", "chunks"]

#: Fewer multiply-adds than this do not repay a second thread.
SERIAL_WORK = 1 << 21
#: Blocks of rows that threads share out, and the multiply-adds that are worth a block.
BLOCKS = 64
BLOCK_WORK = 1 << 21
#: From this size on NumPy asks for huge pages and torch does not (measured: the page faults of a
#: fresh block cost a quarter). Large blocks go back to the system when they are freed, so every
#: new result pays for its pages again.
HUGE_BYTES = 4 << 20
#: Numbers that a temporary of the torch paths may hold.
CHUNK_ELEMENTS = 1 << 22
#: Below this many columns the loop over columns costs more than its work.
NARROW = 16
#: Entries per row and column, and columns, from which on a transposed product is added up faster
#: than multiplied out; and the columns that one thread adds up at a time.
FULL_ROWS = 8
WIDE = 128
TILE = 256

#: The path of each type of device.
PATHS: dict[str, Path] = {"cpu": "compiled", "cuda": "csr"}


@contextlib.contextmanager
def forced(path: Path) -> Generator[None]:
    """Use one path for everything on the CPU inside the block: for tests and benchmarks.

    With another path than ``compiled`` models, dropout, NC and groups run on the CPU as they do on
    other devices.
    """
    before, PATHS["cpu"] = PATHS["cpu"], path
    try:
        yield
    finally:
        PATHS["cpu"] = before


class Product(torch.autograd.Function):
    """A·X for values [nnz] and X [n, d], or for each head with [nnz, heads] and [n, heads, d].

    Apply it to the pattern, the values, X, and for a constant matrix the matrix itself, which
    keeps its transpose for the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        pattern: SparsePattern,
        values: torch.Tensor,
        dense: torch.Tensor,
        constant: ConstantSparse | None = None,
    ) -> torch.Tensor:
        """Pick the path and multiply."""
        ctx.pattern, ctx.constant = pattern, constant
        if constant is None:
            _, values_train, dense_train, *_ = ctx.needs_input_grad
            ctx.save_for_backward(values if dense_train else None, dense if values_train else None)
        shape = (pattern.shape[0], *dense.shape[1:])
        if pattern.nnz == 0 or math.prod(shape) == 0:
            return dense.new_zeros(shape)
        values, dense = values.contiguous(), dense.contiguous()
        path = PATHS.get(dense.device.type, "chunks")
        if path == "csr":
            return _csr_product(pattern, values, dense)
        if path == "chunks":
            return _chunked_product(pattern, values, dense)
        if values.dim() == 2:
            kernel = head_product_rows
        else:
            kernel = narrow_product_rows if dense.shape[1] < NARROW else product_rows
        out = empty(shape, dense)
        over_blocks(
            row_blocks(pattern, pattern.nnz * max(NARROW, math.prod(shape[1:]))),
            kernel,
            pattern.crow.numpy(),
            pattern.col.numpy(),
            values.numpy(),
            dense.numpy(),
            out.numpy(),
        )
        return out

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[None, torch.Tensor | None, torch.Tensor | None, None]:
        """Aᵀ·G, and the sampled dot product of G and X."""
        (gradient,), constant = gradients, ctx.constant
        if constant is not None:
            if not ctx.needs_input_grad[2]:
                return None, None, None, None
            other = constant.transposed
            product = Product.apply(other.pattern, other.values, gradient, other)
            return None, None, cast("torch.Tensor", product), None
        values, dense = ctx.saved_tensors
        return (
            None,
            None if dense is None else sampled_dots(ctx.pattern, gradient, dense),
            None if values is None else _transposed_product(ctx.pattern, values, gradient),
            None,
        )


class SampledDot(torch.autograd.Function):
    """⟨left_i, right_j⟩ for every entry (i, j): [nnz] from [m, d], [nnz, heads] from 3-D arrays."""

    @staticmethod
    def forward(
        ctx: Any, pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor
    ) -> torch.Tensor:
        """Pick the path and multiply."""
        ctx.pattern = pattern
        _, left_train, right_train = ctx.needs_input_grad
        ctx.save_for_backward(left if right_train else None, right if left_train else None)
        if pattern.nnz == 0 or left.numel() == 0:
            return left.new_zeros((pattern.nnz, *left.shape[1:-1]))
        left, right = left.contiguous(), right.contiguous()
        if PATHS.get(left.device.type) != "compiled":
            return _chunked_dots(pattern, left, right)
        out = empty((pattern.nnz, *left.shape[1:-1]), left)
        heads = (-1, left.shape[1] if left.dim() == 3 else 1)
        over_blocks(
            row_blocks(pattern, pattern.nnz * math.prod(left.shape[1:])),
            dot_rows,
            pattern.crow.numpy(),
            pattern.col.numpy(),
            left.view(*heads, left.shape[-1]).numpy(),
            right.view(*heads, left.shape[-1]).numpy(),
            out.view(heads).numpy(),
        )
        return out

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[None, torch.Tensor | None, torch.Tensor | None]:
        """Products with the gradient as the values of a matrix."""
        (gradient,), pattern = gradients, ctx.pattern
        left, right = ctx.saved_tensors
        return (
            None,
            None if right is None else product(pattern, gradient, right),
            None if left is None else _transposed_product(pattern, gradient, left),
        )


def product(pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """:class:`Product` with trainable values."""
    return cast("torch.Tensor", Product.apply(pattern, values, dense))


def sampled_dots(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """:class:`SampledDot`."""
    return cast("torch.Tensor", SampledDot.apply(pattern, left, right))


def _transposed_product(
    pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    transposed, permutation = pattern.transposed
    return product(transposed, values.index_select(0, permutation), dense)


def add_up_transposed(
    pattern: SparsePattern, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """Aᵀ·X for values [nnz] and X [m, d], without the transposed matrix; on the CPU."""
    width = dense.shape[1]
    out = empty((pattern.shape[1], width), dense)
    tensors = (pattern.crow, pattern.col, values.contiguous(), dense.contiguous(), out)
    crow, col, weights, x, result = (tensor.numpy() for tensor in tensors)
    # Every column is added up alone, so its tile changes no bit of it.
    tile = min(TILE, max(NARROW, width // thread_count() // NARROW * NARROW))
    tiles = np.append(np.arange(0, width, tile), width)
    over_blocks(tiles, transposed_product_columns, crow, col, weights, x, result)
    return out


def row_sums(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum of the entries [nnz, ...] of each row."""
    shape = (pattern.shape[0], *entries.shape[1:])
    if entries.numel() == 0:
        return entries.new_zeros(shape)
    if PATHS.get(entries.device.type) != "compiled":
        return entries.new_zeros(shape).index_add_(0, pattern.row, entries)
    flat = entries.reshape(pattern.nnz, -1).contiguous()
    out = empty((shape[0], flat.shape[1]), entries)
    arrays = (pattern.crow.numpy(), flat.numpy(), out.numpy())
    over_blocks(row_blocks(pattern, flat.numel()), sum_rows, *arrays)
    return out.view(shape)


def softmax(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores [nnz, ...] over each row."""
    flat = scores.reshape(pattern.nnz, math.prod(scores.shape[1:])).contiguous()
    if PATHS.get(scores.device.type) != "compiled" or scores.numel() == 0:
        rows = pattern.row.to(torch.int64)
        highest = flat.new_full((pattern.shape[0], flat.shape[1]), -torch.inf)
        highest.scatter_reduce_(0, rows.view(-1, 1).expand_as(flat), flat, "amax")
        exponentials = (flat - highest.index_select(0, rows)).exp_()
        sums = row_sums(pattern, exponentials).index_select(0, rows)
        return exponentials.div_(sums).view(scores.shape)
    out = empty(tuple(flat.shape), scores)
    crow, blocks = pattern.crow.numpy(), row_blocks(pattern, 4 * flat.numel())
    over_blocks(blocks, shift_rows, crow, flat.numpy(), out.numpy())
    out.exp_()
    over_blocks(blocks, divide_rows, crow, out.numpy())
    return out.view(scores.shape)


def softmax_gradient(
    pattern: SparsePattern, values: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    """p·(g - Σ p g) for each row, with the softmax p and the gradient g of its result."""
    if PATHS.get(values.device.type) != "compiled" or values.numel() == 0:
        weighted = values * gradient
        totals = row_sums(pattern, weighted).index_select(0, pattern.row)
        return weighted.sub_(totals.mul_(values))
    flat_shape = (pattern.nnz, math.prod(values.shape[1:]))
    flat, slope = (part.reshape(flat_shape).contiguous() for part in (values, gradient))
    out = empty(flat_shape, values)
    arrays = (pattern.crow.numpy(), flat.numpy(), slope.numpy(), out.numpy())
    over_blocks(row_blocks(pattern, 4 * flat.numel()), softmax_gradient_rows, *arrays)
    return out.view(values.shape)


def row_blocks(pattern: SparsePattern, work: int) -> NDArray[Any]:
    """Bounds of blocks of rows, for so many multiply-adds in all.

    Small work is one block; otherwise adjacent blocks are joined until each is worth its call.
    """
    if work < SERIAL_WORK:
        return pattern.blocks[::BLOCKS]
    join = 1
    while join < BLOCKS // 2 and work * join < BLOCKS * BLOCK_WORK:
        join *= 2
    return pattern.blocks[::join]


def empty(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """An uninitialized contiguous tensor of the type and device of another one."""
    size = like.element_size() * math.prod(shape)
    if like.device.type != "cpu" or size < HUGE_BYTES:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    return torch.from_numpy(empty_bytes(size)).view(like.dtype).view(shape)


def torch_csr(
    crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """A torch CSR tensor that shares the memory of its parts."""
    _silence_csr_warning()
    return torch.sparse_csr_tensor(crow, col, values, size=shape, check_invariants=False)


@functools.cache
def _silence_csr_warning() -> None:
    """Swallow the warning, given once, that torch's CSR support is in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zero = torch.zeros(1, dtype=torch.int64)
        torch.sparse_csr_tensor(zero, zero[:0], torch.zeros(0), size=(0, 0))


def _chunks(nnz: int, dense: torch.Tensor, buffers: int) -> Iterator[tuple[slice, torch.Tensor]]:
    """Slices of the entries, each with buffers for a row of ``dense`` per entry.

    The buffers are used again for every slice: memory that is freed and allocated again
    many times fragments, and the process grows.
    """
    step = min(nnz, max(1, CHUNK_ELEMENTS // max(1, math.prod(dense.shape[1:]))))
    memory = dense.new_empty((buffers, step, *dense.shape[1:]))
    for start in range(0, nnz, step):
        stop = min(start + step, nnz)
        yield slice(start, stop), memory[:, : stop - start]


def _csr_product(
    pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """A·X by the CSR product of torch; one product per head for weights [nnz, heads]."""
    if weights.dim() == 1:
        matrix = torch_csr(pattern.crow, pattern.col, weights, pattern.shape)
        return matrix @ dense
    per_head = [
        _csr_product(pattern, weights[:, head].contiguous(), dense[:, head].contiguous())
        for head in range(weights.shape[1])
    ]
    return torch.stack(per_head, dim=1)


def _chunked_product(
    pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """A·X by gather and ``index_add_``, a bounded number of entries at a time."""
    out = dense.new_zeros((pattern.shape[0], *dense.shape[1:]))
    for chunk, (messages,) in _chunks(pattern.nnz, dense, buffers=1):
        torch.index_select(dense, 0, pattern.col[chunk], out=messages)
        messages *= weights[chunk].unsqueeze(-1)
        out.index_add_(0, pattern.row[chunk], messages)
    return out


def _chunked_dots(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """⟨left_i, right_j⟩ over the last dimension for every entry (i, j), in bounded chunks."""
    out = left.new_empty((pattern.nnz, *left.shape[1:-1]))
    for chunk, (products, factors) in _chunks(pattern.nnz, left, buffers=2):
        torch.index_select(left, 0, pattern.row[chunk], out=products)
        torch.index_select(right, 0, pattern.col[chunk], out=factors)
        torch.sum(products.mul_(factors), dim=-1, out=out[chunk])
    return out
