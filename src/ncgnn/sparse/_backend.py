"""The product of a constant sparse matrix and a dense tensor, with its gradient.

Which code computes a sparse operation, on how many threads and into which memory.

There are three paths, which compute the same numbers up to rounding. The CPU takes the first,
CUDA the second and every other device the third:

* ``compiled``: row loops in machine code;
* ``csr``: the CSR product of torch (MKL, cuSPARSE), and torch operations for the rest;
* ``chunks``: gather and ``index_add`` on a bounded number of entries at a time, for devices
  without a CSR product.

The sparse operations in plain torch, for any device and without any E × d array.

Entries are taken in chunks, so that no temporary exceeds :data:`CHUNK_ELEMENTS` numbers. On CUDA,
``index_add_`` adds in no fixed order unless ``torch.use_deterministic_algorithms(True)`` is set.

The sparse operations on tensors without gradients: each one picks its path.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch

from ncgnn._numba import over_blocks, thread_count, thread_pool
from ncgnn.errors import InputError
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
from ncgnn.sparse.checks import check_match

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

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
ALIGNMENT = 64

_forced: Path | None = None


@contextlib.contextmanager
def forced(path: Path) -> Generator[None]:
    """Use one path for everything inside the block: for tests and benchmarks."""
    global _forced
    before, _forced = _forced, path
    try:
        yield
    finally:
        _forced = before


def path_for(device: torch.device) -> Path:
    """The path of an operation on a device."""
    if _forced is not None:
        return _forced
    if device.type == "cpu":
        return "compiled"
    return "csr" if device.type == "cuda" else "chunks"


def run_rows(
    kernel: Callable[..., None], bounds: NDArray[Any], work: int, *arrays: NDArray[Any]
) -> None:
    """Call ``kernel(first, last, *arrays)`` for all rows, on as many threads as torch may use.

    The calling thread takes blocks as the others do, and whoever is free takes the next one: a
    thread that has to wait for a busy core does not hold up the rest.

    Args:
        kernel: Compiled code, which runs without the interpreter lock.
        bounds: Bounds of :data:`BLOCKS` blocks of rows.
        work: Number of multiply-adds; small work stays on the calling thread, and neighbouring
            blocks are joined until a block is worth its call.
        arrays: Passed on.
    """
    threads = min(torch.get_num_threads(), thread_count())
    if threads == 1 or work < SERIAL_WORK:
        kernel(0, int(bounds[-1]), *arrays)
        return
    join = 1
    while join < BLOCKS // 2 and work * join < BLOCKS * BLOCK_WORK:
        join *= 2
    spans = iter(list(pairwise(bounds[::join].tolist())))

    def take_blocks() -> None:
        for first, last in spans:
            kernel(first, last, *arrays)

    helpers = [
        thread_pool(os.getpid(), threads - 1).submit(take_blocks) for _ in range(threads - 1)
    ]
    take_blocks()
    for helper in helpers:
        if not helper.cancel():
            helper.result()


def empty(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """An uninitialised contiguous tensor of the type and device of another one."""
    size = like.element_size() * math.prod(shape)
    if like.device.type != "cpu" or size < HUGE_BYTES:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    return torch.from_numpy(memory[offset : offset + size]).view(like.dtype).view(shape)


def torch_csr(
    crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """A torch CSR tensor that shares the memory of its parts."""
    _announce_csr_silently()
    return torch.sparse_csr_tensor(crow, col, values, size=shape, check_invariants=False)


@functools.cache
def _announce_csr_silently() -> None:
    """Let torch say once, unheard, that its CSR support is in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zero = torch.zeros(1, dtype=torch.int64)
        torch.sparse_csr_tensor(zero, zero[:0], torch.zeros(0), size=(0, 0))


CHUNK_ELEMENTS = 1 << 22


def _chunks(nnz: int, dense: torch.Tensor, buffers: int) -> Iterator[tuple[slice, torch.Tensor]]:
    """Slices of the entries, each with buffers for a row of ``dense`` per entry.

    The buffers are used again for every slice: memory that is given back and asked for again
    many times fragments, and the process grows.
    """
    step = min(nnz, max(1, CHUNK_ELEMENTS // max(1, math.prod(dense.shape[1:]))))
    memory = dense.new_empty((buffers, step, *dense.shape[1:]))
    for start in range(0, nnz, step):
        stop = min(start + step, nnz)
        yield slice(start, stop), memory[:, : stop - start]


def csr_product(pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """A·X by the CSR product of torch; one product per head for weights [nnz, heads]."""
    if weights.dim() == 1:
        matrix = torch_csr(pattern.crow, pattern.col, weights, pattern.shape)
        return matrix @ dense
    per_head = [
        csr_product(pattern, weights[:, head].contiguous(), dense[:, head].contiguous())
        for head in range(weights.shape[1])
    ]
    return torch.stack(per_head, dim=1)


def chunked_product(
    pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """A·X by gather and ``index_add_``, a bounded number of entries at a time."""
    out = dense.new_zeros((pattern.shape[0], *dense.shape[1:]))
    for chunk, (messages,) in _chunks(pattern.nnz, dense, buffers=1):
        torch.index_select(dense, 0, pattern.col[chunk], out=messages)
        messages *= weights[chunk].unsqueeze(-1)
        out.index_add_(0, pattern.row[chunk], messages)
    return out


def _sampled_dots_by_torch(
    pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """⟨left_i, right_j⟩ over the last dimension for every entry (i, j), in bounded chunks."""
    out = left.new_empty((pattern.nnz, *left.shape[1:-1]))
    for chunk, (products, factors) in _chunks(pattern.nnz, left, buffers=2):
        torch.index_select(left, 0, pattern.row[chunk], out=products)
        torch.index_select(right, 0, pattern.col[chunk], out=factors)
        torch.sum(products.mul_(factors), dim=-1, out=out[chunk])
    return out


def _row_sums_by_torch(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum of the entries [nnz, heads] of each row."""
    out = entries.new_zeros((pattern.shape[0], *entries.shape[1:]))
    return out.index_add_(0, pattern.row, entries)


def _softmax_by_torch(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores [nnz, heads] of each row."""
    rows = pattern.row.to(torch.int64)
    highest = scores.new_full((pattern.shape[0], *scores.shape[1:]), -torch.inf)
    highest.scatter_reduce_(0, rows.view(-1, 1).expand_as(scores), scores, "amax")
    exponentials = (scores - highest.index_select(0, rows)).exp_()
    return exponentials.div_(_row_sums_by_torch(pattern, exponentials).index_select(0, rows))


def _softmax_gradient_by_torch(
    pattern: SparsePattern, softmax_values: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    """p·(g - Σ p g) for each row."""
    weighted = softmax_values * gradient
    totals = _row_sums_by_torch(pattern, weighted).index_select(0, pattern.row)
    return weighted.sub_(totals.mul_(softmax_values))


#: Below this many columns the loop over columns costs more than its work.
NARROW = 16
#: Entries per row and column, and columns, from which on a transposed product is added up faster
#: than multiplied out; and the columns that one thread adds up at a time.
FULL_ROWS = 8
WIDE = 128
TILE = 256


def product(pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """A·X for weights [nnz] and X [n, d], or for each head with [nnz, heads] and [n, heads, d]."""
    shape = (pattern.shape[0], *dense.shape[1:])
    if pattern.nnz == 0 or math.prod(shape) == 0:
        return dense.new_zeros(shape)
    weights, dense = weights.contiguous(), dense.contiguous()
    path = path_for(dense.device)
    if path == "csr":
        return csr_product(pattern, weights, dense)
    if path == "chunks":
        return chunked_product(pattern, weights, dense)
    if weights.dim() == 2:
        kernel = head_product_rows
    else:
        kernel = narrow_product_rows if dense.shape[1] < NARROW else product_rows
    out = empty(shape, dense)
    run_rows(
        kernel,
        pattern.blocks,
        pattern.nnz * max(NARROW, math.prod(shape[1:])),
        pattern.crow.numpy(),
        pattern.col.numpy(),
        weights.numpy(),
        dense.numpy(),
        out.numpy(),
    )
    return out


def adds_up_transposed(pattern: SparsePattern, dense: torch.Tensor) -> bool:
    """Whether :func:`transposed_product` is the faster way to Aᵀ·X, for X [m, d]."""
    full = pattern.nnz >= FULL_ROWS * sum(pattern.shape)
    return path_for(dense.device) == "compiled" and full and dense.shape[1] >= WIDE


def transposed_product(
    pattern: SparsePattern, weights: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """Aᵀ·X for weights [nnz] and X [m, d], without the transposed matrix; on the CPU."""
    width = dense.shape[1]
    out = empty((pattern.shape[1], width), dense)
    arrays = (pattern.crow, pattern.col, weights.contiguous(), dense.contiguous(), out)
    numbers = tuple(array.numpy() for array in arrays)
    # Every column is added up alone, so its tile changes no bit of it.
    tile = min(TILE, max(NARROW, width // thread_count() // NARROW * NARROW))
    tiles = np.append(np.arange(0, width, tile), width)
    over_blocks(tiles, lambda first, last: transposed_product_columns(first, last, *numbers))
    return out


def sampled_dots(pattern: SparsePattern, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """⟨left_i, right_j⟩ for every entry (i, j): [nnz] from [m, d], [nnz, heads] from 3-D arrays."""
    if pattern.nnz == 0 or left.numel() == 0:
        return left.new_zeros((pattern.nnz, *left.shape[1:-1]))
    left, right = left.contiguous(), right.contiguous()
    if path_for(left.device) != "compiled":
        return _sampled_dots_by_torch(pattern, left, right)
    out = empty((pattern.nnz, *left.shape[1:-1]), left)
    heads = (-1, left.shape[1] if left.dim() == 3 else 1)
    run_rows(
        dot_rows,
        pattern.blocks,
        pattern.nnz * math.prod(left.shape[1:]),
        pattern.crow.numpy(),
        pattern.col.numpy(),
        left.view(*heads, left.shape[-1]).numpy(),
        right.view(*heads, left.shape[-1]).numpy(),
        out.view(heads).numpy(),
    )
    return out


def row_sums(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    """The sum of the entries [nnz, ...] of each row."""
    shape = (pattern.shape[0], *entries.shape[1:])
    if entries.numel() == 0:
        return entries.new_zeros(shape)
    flat = entries.reshape(pattern.nnz, -1).contiguous()
    if path_for(entries.device) != "compiled":
        return _row_sums_by_torch(pattern, flat).view(shape)
    out = empty((shape[0], flat.shape[1]), entries)
    arrays = (pattern.crow.numpy(), flat.numpy(), out.numpy())
    run_rows(sum_rows, pattern.blocks, flat.numel(), *arrays)
    return out.view(shape)


def softmax(pattern: SparsePattern, scores: torch.Tensor) -> torch.Tensor:
    """The softmax of the scores [nnz, ...] over each row."""
    flat = _two_dimensional(pattern, scores)
    if path_for(scores.device) != "compiled" or scores.numel() == 0:
        return _softmax_by_torch(pattern, flat).view(scores.shape)
    out = empty(tuple(flat.shape), scores)
    crow, work = pattern.crow.numpy(), 4 * flat.numel()
    run_rows(shift_rows, pattern.blocks, work, crow, flat.numpy(), out.numpy())
    out.exp_()
    run_rows(divide_rows, pattern.blocks, work, crow, out.numpy())
    return out.view(scores.shape)


def softmax_gradient(
    pattern: SparsePattern, values: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    """The gradient of the scores from the softmax and the gradient of the softmax."""
    flat, slope = _two_dimensional(pattern, values), _two_dimensional(pattern, gradient)
    if path_for(values.device) != "compiled" or values.numel() == 0:
        return _softmax_gradient_by_torch(pattern, flat, slope).view(values.shape)
    out = empty(tuple(flat.shape), values)
    arrays = (pattern.crow.numpy(), flat.numpy(), slope.numpy(), out.numpy())
    run_rows(softmax_gradient_rows, pattern.blocks, 4 * flat.numel(), *arrays)
    return out.view(values.shape)


def _two_dimensional(pattern: SparsePattern, entries: torch.Tensor) -> torch.Tensor:
    return entries.reshape(pattern.nnz, math.prod(entries.shape[1:])).contiguous()


class _ConstantMatmul(torch.autograd.Function):
    """A·X with the gradient Aᵀ·G, which is again such a product: higher orders come for free."""

    @staticmethod
    def forward(ctx: Any, matrix: ConstantSparse, dense: torch.Tensor) -> torch.Tensor:
        ctx.matrix = matrix
        return product(matrix.pattern, matrix.values, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor | None]:
        if not ctx.needs_input_grad[1]:
            return None, None
        return None, cast("torch.Tensor", _ConstantMatmul.apply(ctx.matrix.t(), gradients[0]))


def transposed_matmul(matrix: ConstantSparse, dense: torch.Tensor) -> torch.Tensor:
    """Aᵀ·X for X [m, d], in the faster of two ways."""
    check_match(dense, "dense", matrix.dtype, matrix.device)
    differentiable = dense.requires_grad and torch.is_grad_enabled()
    if dense.dim() != 2 or differentiable or not adds_up_transposed(matrix.pattern, dense):
        return matrix.t() @ dense
    if dense.shape[0] != matrix.shape[0]:
        raise InputError(
            f"dense must have {matrix.shape[0]} rows for the transpose of a matrix of shape "
            f"{list(matrix.shape)}, but its shape is {list(dense.shape)}."
        )
    return transposed_product(matrix.pattern, matrix.values, dense.detach())


def constant_matmul(matrix: ConstantSparse, dense: torch.Tensor) -> torch.Tensor:
    """A·X for X [n], [n, d] or [n, ..., d]."""
    check_match(dense, "dense", matrix.dtype, matrix.device)
    m, n = matrix.shape
    if dense.dim() == 0 or dense.shape[0] != n:
        raise InputError(
            f"dense must have {n} rows for a matrix of shape {[m, n]}, but its shape is "
            f"{list(dense.shape)}."
        )
    flat = dense.reshape(n, math.prod(dense.shape[1:]))
    out = cast("torch.Tensor", _ConstantMatmul.apply(matrix, flat))
    return out.reshape(m, *dense.shape[1:])
