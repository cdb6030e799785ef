"""Sparse kernels beside their alternatives: ``python benchmarks/sparse.py [part ...]``.

Every line compares ways that ran alternately in this process; a ratio above 1 says how many times
slower the other way is. Absolute times depend on what else the machine does.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from _timing import side_by_side

from ncgnn.sparse import (
    ConstantSparse,
    SparsePattern,
    edge_softmax,
    sparse_product,
    weighted_matmul,
)
from ncgnn.sparse import _backend as backend

if TYPE_CHECKING:
    from collections.abc import Callable

PUBMED = ("Pubmed-like", 19_717, 19_717, 89_000, 512)
COMPUTERS = ("Computers-like", 13_752, 13_752, 492_000, 512)
FEATURES = ("CS-like features", 18_333, 6_805, 18_333 * 60, 512)


def random_matrix(m: int, n: int, entries: int) -> ConstantSparse:
    random = np.random.default_rng(0)
    places = random.integers(0, m, entries), random.integers(0, n, entries)
    values = random.random(entries, dtype=np.float32)
    return ConstantSparse.from_scipy(sp.coo_array((values, places), shape=(m, n)))


def trained(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Callable[[], Any]:
    """A forward and backward pass with fresh leaves."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    gradient = torch.ones_like(function(*inputs))
    return lambda: torch.autograd.grad(function(*leaves), leaves, gradient)


def report(title: str, seconds: dict[str, float]) -> None:
    ours, *others = seconds.items()
    print(f"\n{title}: {ours[0]} {ours[1] * 1e3:.1f} ms")
    for name, value in others:
        print(f"    {name:<44} {value / ours[1]:7.2f} x", flush=True)


def copy_bandwidth() -> float:
    """Bytes per second that a plain copy of 128 MB reads and writes."""
    source, target = torch.zeros(1 << 25), torch.zeros(1 << 25)
    seconds = side_by_side({"copy": lambda: target.copy_(source)})["copy"]
    return 2 * source.nbytes / seconds


def gather_product(pattern: SparsePattern, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The messages of an edge list, one row for each edge, added up at the targets."""
    messages = x.index_select(0, pattern.col) * values.unsqueeze(-1)
    return x.new_zeros(pattern.shape[0], *x.shape[1:]).index_add_(0, pattern.row, messages)


def on_path(path: backend.Path, function: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> None:
        with backend.forced(path):
            function()

    return run


def constant_case(name: str, m: int, n: int, entries: int, width: int) -> None:
    matrix, x = random_matrix(m, n, entries), torch.randn(n, width)
    native, bandwidth = matrix.to_torch(), copy_bandwidth()
    ours = trained(lambda x: matrix @ x, x)
    gather = trained(lambda x: gather_product(matrix.pattern, matrix.values, x), x)
    seconds = side_by_side(
        {
            "ConstantSparse": ours,
            "torch CSR with our cached transpose": on_path("csr", ours),
            "torch CSR autograd": trained(lambda x: native @ x, x),
            "gather + index_add": gather,
        },
        repeats=5,
    )
    once = 2 * (4 * width * (m + n) + 8 * matrix.nnz)
    seconds["roofline: every array moved once"] = once / bandwidth
    seconds["roofline: one dense row moved per entry"] = 8 * width * matrix.nnz / bandwidth
    report(f"{name} ({m} x {n}, {matrix.nnz} entries, width {width})", seconds)


def constant() -> None:
    print(f"\nConstant matrices, forward + backward ({copy_bandwidth() / 1e9:.0f} GB/s copied)")
    for case in (PUBMED, COMPUTERS, FEATURES):
        constant_case(*case)


def transposed() -> None:
    print("\nGradient of weights: added up in cache, against the product of the kept transpose")
    dense = ("Pubmed-like features", 19_717, 500, 988_000, 512)
    wide = ("Physics-like features", 34_493, 8_415, 1_137_000, 512)
    for name, m, n, entries, width in (dense, FEATURES, wide):
        matrix, gradient = random_matrix(m, n, entries), torch.randn(m, width)
        kept = matrix.t()
        ways = {
            "t_matmul": lambda matrix=matrix, g=gradient: matrix.t_matmul(g),
            "transpose": lambda kept=kept, g=gradient: kept @ g,
        }
        report(f"{name} ({m} x {n}, {matrix.nnz} entries, width {width})", side_by_side(ways))


def width_case(name: str, matrix: ConstantSparse, width: int) -> None:
    x = torch.randn(matrix.shape[1], width)
    paths: tuple[backend.Path, ...] = ("compiled", "csr")
    ways = {path: on_path(path, lambda: matrix @ x) for path in paths}
    report(f"{name}, width {width}", side_by_side(ways))


def widths() -> None:
    print("\nForward product, compiled against the CSR product of torch (MKL), by width")
    for name, m, n, entries, _ in (PUBMED, COMPUTERS):
        matrix = random_matrix(m, n, entries)
        for width in (7, 16, 32, 64, 128, 512):
            width_case(name, matrix, width)


def weighted_case(name: str, pattern: SparsePattern, tail: tuple[int, ...]) -> None:
    values, x = torch.rand(pattern.nnz, *tail[:-1]), torch.randn(pattern.shape[1], *tail)
    ways = {
        "weighted_matmul": trained(lambda v, x: weighted_matmul(pattern, v, x), values, x),
        "gather + index_add": trained(lambda v, x: gather_product(pattern, v, x), values, x),
    }
    report(f"{name}, {' heads x '.join(map(str, tail))}", side_by_side(ways, repeats=5))


def weighted() -> None:
    print("\nTrainable values, forward + backward")
    for name, m, n, entries, _ in (PUBMED, COMPUTERS):
        pattern = random_matrix(m, n, entries).pattern
        for tail in ((64,), (512,), (8, 8)):
            weighted_case(name, pattern, tail)


def softmax_case(name: str, pattern: SparsePattern) -> None:
    row, size = pattern.row.long()[:, None].expand(-1, 8), (pattern.shape[0], 8)

    def scattered(scores: torch.Tensor) -> torch.Tensor:
        highest = scores.new_zeros(size).scatter_reduce(0, row, scores.detach(), "amax")
        weights = (scores - highest.gather(0, row)).exp()
        return weights / scores.new_zeros(size).scatter_add(0, row, weights).gather(0, row)

    scores = torch.randn(pattern.nnz, 8)
    ways = {
        "edge_softmax": trained(lambda scores: edge_softmax(pattern, scores), scores),
        "scatter": trained(scattered, scores),
    }
    report(f"{name}, 8 heads", side_by_side(ways))


def softmax() -> None:
    print("\nSoftmax over the edges of each target, forward + backward")
    for name, m, n, entries, _ in (PUBMED, COMPUTERS):
        softmax_case(name, random_matrix(m, n, entries).pattern)


def selection_case(name: str, size: int, entries: int) -> None:
    ours = random_matrix(size, size, entries)
    theirs = ours.to_scipy()
    half = np.random.default_rng(1).permutation(size)[: size // 2]
    mask = np.isin(np.arange(size), half)
    few = half[:1024]
    ways: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("half of the rows", lambda: ours.rows(half), lambda: theirs[half]),
        ("half of the columns", lambda: ours.columns(half), lambda: theirs[:, half]),
        ("block of half", lambda: ours.block(half, half), lambda: theirs[half][:, half]),
        ("block of a mask", lambda: ours.block(mask, mask), lambda: theirs[mask][:, mask]),
        ("block of 1024", lambda: ours.block(few, few), lambda: theirs[few][:, few]),
    ]
    for title, mine, other in ways:
        report(f"{name}, {title}", side_by_side({"ours": mine, "scipy": other}))


def selection() -> None:
    print("\nSelection, against fancy indexing of scipy")
    selection_case("Computers-like", 13_752, 492_000)
    selection_case("Penn94-like", 41_600, 2_700_000)


def costs() -> None:
    print("\nCost of a multiply-add, in units of a dense one")
    matrix, features = random_matrix(*COMPUTERS[1:4]), random_matrix(13_752, 2_000, 400_000)
    x, w = torch.randn(13_752, 512), torch.randn(512, 512)
    ways = {
        "dense": lambda: x @ w,
        "sparse": lambda: matrix @ x,
        "pair": lambda: sparse_product(matrix, features),
    }
    seconds = side_by_side(ways, repeats=5)
    pairs = int(features.row_counts()[matrix.pattern.col.long()].sum())
    dense = seconds["dense"] / (13_752 * 512 * 512)
    sparse, pair = seconds["sparse"] / (matrix.nnz * 512), seconds["pair"] / pairs
    print(f"    sparse {sparse / dense:6.1f}")
    print(f"    pair   {pair / dense:6.1f}")


PARTS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (constant, transposed, widths, weighted, softmax, selection, costs)
}

if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    unknown = set(sys.argv[1:]) - set(PARTS)
    if unknown:
        sys.exit(f"unknown part {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
    print(f"{torch.get_num_threads()} threads")
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
