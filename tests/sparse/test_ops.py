"""Products with trainable values and functions of entries, against dense formulas."""

from __future__ import annotations

import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from ncgnn.errors import InputError
from ncgnn.sparse import (
    ConstantSparse,
    SparsePattern,
    edge_softmax,
    gather_columns,
    gather_rows,
    row_sum,
    sampled_dot,
    sparse_product,
    weighted_matmul,
)
from ncgnn.sparse import _backend as backend

PATHS = ("compiled", "csr", "chunks")
HEADS = (None, 1, 3)


def random_pattern(m: int, n: int, density: float, seed: int) -> SparsePattern:
    matrix = sp.random_array((m, n), density=density, rng=np.random.default_rng(seed)).tocsr()
    return SparsePattern.from_csr(matrix.indptr, matrix.indices, shape=(m, n))


def random_input(pattern, heads, width, dtype=torch.float64):
    middle = () if heads is None else (heads,)
    shapes = [(pattern.nnz, *middle), (pattern.shape[1], *middle, width)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def dense_product(pattern, values, dense):
    if values.dim() == 1:
        return dense_product(pattern, values[:, None], dense[:, None])[:, 0]
    matrix = values.new_zeros((*pattern.shape, values.shape[1]))
    place = pattern.row.long(), pattern.col.long()
    matrix = matrix.index_put(place, values, accumulate=True)
    return torch.einsum("ijh,jhd->ihd", matrix, dense)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(backend, "CHUNK_ELEMENTS", 16)


@pytest.fixture
def one_thread():
    """MKL starts its threads for the smallest product: many of them take long on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@given(
    m=st.integers(0, 9),
    n=st.integers(0, 9),
    density=st.floats(0, 1),
    seed=st.integers(0, 2**31),
    heads=st.sampled_from(HEADS),
    width=st.integers(0, 40),
    path=st.sampled_from(PATHS),
)
@settings(deadline=None, max_examples=80)
def test_product_and_gradients_equal_the_dense_ones(m, n, density, seed, heads, width, path):
    pattern = random_pattern(m, n, density, seed)
    values, dense = random_input(pattern, heads, width)
    expected = dense_product(pattern, values, dense)
    gradient = torch.randn_like(expected)
    expected_gradients = torch.autograd.grad(expected, (values, dense), gradient)
    with backend.forced(path):
        out = weighted_matmul(pattern, values, dense)
        gradients = torch.autograd.grad(out, (values, dense), gradient)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(gradients, expected_gradients)


@pytest.mark.usefixtures("small_chunks", "one_thread")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize(("m", "n"), [(4, 4), (3, 5), (5, 3)])
def test_gradcheck_of_products(path, heads, m, n):
    pattern = random_pattern(m, n, 0.5, seed=m)
    values, dense = random_input(pattern, heads, 2)
    left = torch.randn(m, *dense.shape[1:], dtype=torch.float64, requires_grad=True)
    with backend.forced(path):
        assert gradcheck(lambda v, x: weighted_matmul(pattern, v, x), (values, dense))
        assert gradcheck(lambda a, b: sampled_dot(pattern, a, b), (left, dense))


@pytest.mark.parametrize("heads", [None, 2])
def test_second_derivatives_of_products(heads):
    pattern = random_pattern(3, 4, 0.5, seed=1)
    values, dense = random_input(pattern, heads, 2)
    left = torch.randn(3, *dense.shape[1:], dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda v, x: weighted_matmul(pattern, v, x), (values, dense))
    assert gradgradcheck(lambda a, b: sampled_dot(pattern, a, b), (left, dense))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heads", HEADS)
def test_gradcheck_of_functions_of_entries(path, heads):
    pattern = random_pattern(5, 4, 0.5, seed=1)
    middle = () if heads is None else (heads,)
    entries = torch.randn(pattern.nnz, *middle, dtype=torch.float64, requires_grad=True)
    rows = torch.randn(5, *middle, dtype=torch.float64, requires_grad=True)
    cols = torch.randn(4, *middle, dtype=torch.float64, requires_grad=True)
    checks = [
        (edge_softmax, entries),
        (row_sum, entries),
        (gather_rows, rows),
        (gather_columns, cols),
    ]
    with backend.forced(path):
        for function, x in checks:
            assert gradcheck(lambda x, f=function: f(pattern, x), x)
            assert gradgradcheck(lambda x, f=function: f(pattern, x) ** 2, x)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_paths_agree_on_a_larger_graph(heads, dtype, monkeypatch):
    monkeypatch.setattr(backend, "CHUNK_ELEMENTS", 5000)
    pattern = random_pattern(400, 300, 0.05, seed=2)
    values, dense = random_input(pattern, heads, 40, dtype)
    results = {}
    for path in PATHS:
        with backend.forced(path):
            weights = edge_softmax(pattern, values)
            out = weighted_matmul(pattern, weights, dense)
            gradients = torch.autograd.grad((out**2).sum(), (values, dense))
            results[path] = (weights, out, *gradients)
    for path in ("csr", "chunks"):
        torch.testing.assert_close(results[path], results["compiled"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("heads", HEADS)
def test_the_same_input_gives_the_same_bits_on_any_number_of_threads(heads, monkeypatch):
    monkeypatch.setattr(backend, "SERIAL_WORK", 1)
    monkeypatch.setattr(backend, "BLOCK_WORK", 1 << 10)
    pattern = random_pattern(400, 300, 0.05, seed=3)
    values, dense = random_input(pattern, heads, 40, torch.float32)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            out = weighted_matmul(pattern, edge_softmax(pattern, values), dense)
            results.append((out, *torch.autograd.grad((out**2).sum(), (values, dense))))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


def test_vectors_and_other_layouts():
    pattern = random_pattern(5, 4, 0.6, seed=4)
    values, dense = random_input(pattern, None, 1)
    product = weighted_matmul(pattern, values, dense[:, 0])
    torch.testing.assert_close(product, dense_product(pattern, values, dense)[:, 0])
    column = torch.randn(pattern.nnz, 2, dtype=torch.float64)[:, 1]
    wide = torch.randn(40, 4, dtype=torch.float64).T
    torch.testing.assert_close(
        weighted_matmul(pattern, column, wide), dense_product(pattern, column, wide)
    )


def test_only_what_a_gradient_needs_is_kept():
    pattern = random_pattern(5, 4, 0.6, seed=5)
    values, dense = random_input(pattern, None, 3)
    kept = weighted_matmul(pattern, values, dense.detach()).grad_fn.saved_tensors
    assert kept[0] is None
    assert kept[1] is not None
    out = weighted_matmul(pattern, values.detach(), dense)
    assert out.grad_fn.saved_tensors[1] is None
    assert "_turned" not in vars(pattern)
    out.sum().backward()
    assert "_turned" in vars(pattern)


def test_repeated_entries_each_have_their_own_gradient():
    pattern = SparsePattern.from_csr([0, 3, 4], [1, 0, 1, 1], shape=(2, 2))
    values, dense = random_input(pattern, None, 3)
    assert gradcheck(lambda v, x: weighted_matmul(pattern, v, x), (values, dense))
    torch.testing.assert_close(
        weighted_matmul(pattern, values, dense), dense_product(pattern, values, dense)
    )


def test_pattern_of_edges():
    edges = torch.tensor([[2, 0, 2, 1], [0, 1, 0, 1]])
    pattern = SparsePattern.from_edge_index(edges, 3)
    assert torch.equal(pattern.edge_index, torch.tensor([[2, 0, 1], [0, 1, 1]]))
    assert pattern.row_counts.tolist() == [1, 2, 0]
    assert pattern.to("cpu") is pattern
    assert repr(pattern) == "SparsePattern(shape=(3, 3), nnz=3, device=cpu)"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heads", HEADS)
def test_softmax_equals_pytorch_geometric(path, heads):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.utils import softmax

    pattern = random_pattern(30, 20, 0.2, seed=6)
    middle = () if heads is None else (heads,)
    scores = 10 * torch.randn(pattern.nnz, *middle, dtype=torch.float64)
    with backend.forced(path):
        weights = edge_softmax(pattern, scores)
        sums = row_sum(pattern, weights)
    torch.testing.assert_close(weights, softmax(scores, pattern.row.long(), num_nodes=30))
    filled = pattern.row_counts > 0
    torch.testing.assert_close(sums[filled], torch.ones_like(sums[filled]))
    assert not sums[~filled].any()


@pytest.mark.parametrize("path", PATHS)
def test_softmax_of_extreme_scores(path):
    pattern = SparsePattern.from_csr([0, 2, 4, 6], [0, 1, 0, 1, 0, 1], shape=(3, 2))
    scores = torch.tensor([1e30, -1e30, -math.inf, 5.0, 700.0, 700.0])
    with backend.forced(path):
        weights = edge_softmax(pattern, scores)
        broken = edge_softmax(pattern, torch.tensor([0, math.nan, 0, 0, *[-math.inf] * 2]))
    assert weights.tolist() == [1, 0, 0, 1, 0.5, 0.5]
    assert torch.isnan(broken).tolist() == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda p, v, x: weighted_matmul(p, v[1:], x), "values"),
        (lambda p, v, x: weighted_matmul(p, v.long(), x), "values"),
        (lambda p, v, x: weighted_matmul(p, v.numpy(), x), "values"),
        (lambda p, v, x: weighted_matmul(p, v.to("meta"), x), "values"),
        (lambda p, v, x: weighted_matmul(p, v, x[1:]), "dense"),
        (lambda p, v, x: weighted_matmul(p, v, x.double()), "dense"),
        (lambda p, v, x: weighted_matmul(p, v[:, None], x), "dense"),
        (lambda p, v, x: weighted_matmul(p, v, x[:, None]), "dense"),
        (lambda p, v, x: edge_softmax(p, v[1:]), "scores"),
        (lambda p, v, x: edge_softmax(p, v[:, None, None]), "scores"),
        (lambda p, v, x: row_sum(p, v[1:]), "entries"),
        (lambda p, v, x: gather_rows(p, x), "nodes"),
        (lambda p, v, x: gather_columns(p, x[1:]), "nodes"),
        (lambda p, v, x: sampled_dot(p, x, x), "left"),
        (lambda p, v, x: sampled_dot(p, torch.ones(5), x), "left"),
        (lambda p, v, x: sampled_dot(p, torch.ones(5, 3).half(), x), "left"),
        (lambda p, v, x: sampled_dot(p, torch.ones(5, 2), x), "right"),
    ],
)
def test_wrong_arguments_are_refused_by_name(call, name):
    pattern = random_pattern(5, 4, 0.6, seed=7)
    with pytest.raises(InputError, match=name):
        call(pattern, torch.ones(pattern.nnz), torch.ones(4, 3))


@pytest.mark.parametrize("density", [0.0, 0.3])
def test_product_of_two_sparse_matrices(density):
    random = np.random.default_rng(8)
    left = ConstantSparse.from_scipy(sp.random_array((6, 7), density=density, rng=random))
    right = ConstantSparse.from_scipy(sp.random_array((7, 5), density=0.4, rng=random))
    product = sparse_product(left, right)
    torch.testing.assert_close(product.to_dense(), left.to_dense() @ right.to_dense())
    assert product.t().shape == (5, 6)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_products_give_their_memory_back():
    random = np.random.default_rng(9)
    left = ConstantSparse.from_scipy(sp.random_array((2000, 500), density=0.02, rng=random))
    right = ConstantSparse.from_scipy(sp.random_array((500, 2000), density=0.02, rng=random))
    size = sparse_product(left, right).values.nbytes
    held = _resident_bytes()
    for _ in range(30):
        sparse_product(left, right)
    assert _resident_bytes() - held < 10 * size


def _resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
