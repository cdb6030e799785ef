"""ConstantSparse: construction, conversion and the product, against dense matrices."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncgnn.errors import InputError
from ncgnn.sparse import ConstantSparse
from ncgnn.sparse import _backend as backend

PATHS = ("compiled", "csr", "chunks")


def random_matrix(m: int, n: int, density: float, seed: int, dtype=np.float64) -> ConstantSparse:
    random = np.random.default_rng(seed)
    matrix = sp.random_array((m, n), density=density, rng=random, data_sampler=random.normal)
    return ConstantSparse.from_scipy(matrix.astype(dtype))


sizes = st.integers(0, 12)
matrices = st.builds(
    random_matrix, sizes, sizes, st.floats(0, 1), st.integers(0, 2**31), st.just(np.float64)
)


@given(matrix=matrices, width=st.integers(0, 70), path=st.sampled_from(PATHS))
@settings(deadline=None, max_examples=80)
def test_product_and_its_gradient_equal_the_dense_ones(matrix, width, path):
    x = torch.randn(matrix.shape[1], width, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(matrix.shape[0], width, dtype=torch.float64)
    with backend.forced(path):
        out = matrix @ x
        out.backward(gradient)
    dense = matrix.to_dense()
    torch.testing.assert_close(out, dense @ x)
    torch.testing.assert_close(x.grad, dense.T @ gradient)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("m", "n"), [(5, 5), (4, 9), (9, 4), (3, 0), (0, 3)])
def test_gradients_of_any_order(path, m, n):
    matrix = random_matrix(m, n, 0.4, seed=m)
    x = torch.randn(n, 3, dtype=torch.float64, requires_grad=True)
    with backend.forced(path):
        assert torch.autograd.gradcheck(lambda x: matrix @ x, x)
        assert torch.autograd.gradgradcheck(lambda x: (matrix @ x) ** 2, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 7, 15, 16, 33, 130])
def test_the_paths_agree_and_threads_do_not_matter(dtype, width, monkeypatch):
    matrix = random_matrix(300, 200, 0.05, seed=1).to(dtype)
    x = torch.randn(200, width, dtype=dtype)
    products = {}
    for path in PATHS:
        with backend.forced(path):
            products[path] = matrix @ x
    expected = matrix.to_dense() @ x
    for product in products.values():
        torch.testing.assert_close(product, expected)
    monkeypatch.setattr(backend, "SERIAL_WORK", 1)
    before = torch.get_num_threads()
    try:
        for threads, block_work in ((1, 1), (2, 1), (2, 1 << 12), (2, 1 << 30)):
            monkeypatch.setattr(backend, "BLOCK_WORK", block_work)
            torch.set_num_threads(threads)
            with backend.forced("compiled"):
                assert torch.equal(matrix @ x, products["compiled"])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 127, 128, 200, 513])
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_transposed_products(dtype, width, density, monkeypatch):
    matrix = random_matrix(90, 40, density, seed=2).to(dtype)
    x = torch.randn(90, width, dtype=dtype)
    found = matrix.t_matmul(x)
    torch.testing.assert_close(found, matrix.to_dense().T @ x)
    made = "_turned" in matrix.__dict__
    assert made == (width < 128 or density == 0.02)
    for threads in (1, 2, 5, 40):
        monkeypatch.setattr(backend, "thread_count", lambda threads=threads: threads)
        assert torch.equal(matrix.t_matmul(x), found)


def test_gradients_of_transposed_products():
    matrix = random_matrix(30, 20, 0.9, seed=3)
    x = torch.randn(30, 130, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(matrix.t_matmul(x).sum(), x)
    torch.testing.assert_close(gradient, matrix.to_dense().sum(1, keepdim=True).expand(-1, 130))
    with pytest.raises(InputError, match="30 rows"):
        matrix.t_matmul(torch.ones(20, 130, dtype=torch.float64))


def test_the_chosen_path_depends_on_the_device():
    assert backend.PATHS == {"cpu": "compiled", "cuda": "csr"}  # all others take chunks


def test_repeated_products_are_bit_identical():
    matrix = random_matrix(400, 400, 0.05, seed=2, dtype=np.float32)
    for width in (8, 64):
        x = torch.randn(400, width)
        first = matrix @ x
        assert all(torch.equal(matrix @ x, first) for _ in range(5))


def test_any_dense_layout_is_accepted():
    matrix = random_matrix(6, 5, 0.5, seed=3)
    dense = matrix.to_dense()
    wide = torch.randn(5, 80, dtype=torch.float64)
    heads = torch.randn(5, 2, 3, dtype=torch.float64)
    vector = torch.randn(5, dtype=torch.float64)
    for x in (wide, wide[:, ::2], torch.randn(40, 5, dtype=torch.float64).T, vector):
        torch.testing.assert_close(matrix @ x, dense @ x)
    expanded = vector[:, None].expand(5, 50)
    torch.testing.assert_close(matrix @ expanded, dense @ expanded)
    torch.testing.assert_close(matrix @ heads, torch.einsum("ij,jhd->ihd", dense, heads))
    assert (matrix @ wide[:, :0]).shape == (6, 0)


@pytest.mark.parametrize("rest", [(), (4,), (2, 3)])
def test_a_matrix_without_rows_or_columns(rest):
    tall = ConstantSparse.from_csr([0, 0, 0], [], shape=(2, 0))
    assert torch.equal(tall @ torch.ones(0, *rest), torch.zeros(2, *rest))
    flat = ConstantSparse.from_csr([0], [], shape=(0, 2))
    assert (flat @ torch.ones(2, *rest)).shape == (0, *rest)
    assert flat.t().shape == (2, 0)


def test_expanded_gradients_are_accepted():
    matrix = random_matrix(50, 40, 0.2, seed=4)
    x = torch.randn(40, 64, dtype=torch.float64, requires_grad=True)
    (matrix @ x).sum().backward()
    torch.testing.assert_close(x.grad, matrix.column_sums()[:, None].expand(40, 64))


def test_the_transpose_is_made_only_for_a_gradient():
    matrix = random_matrix(5, 5, 0.5, seed=5)
    x = torch.randn(5, 2, dtype=torch.float64)
    matrix @ x
    with torch.no_grad():
        matrix @ x.clone().requires_grad_()
    out = matrix @ x.clone().requires_grad_()
    assert "_turned" not in vars(matrix)
    assert "_turned" not in vars(matrix.pattern)
    out.sum().backward()
    assert "_turned" in vars(matrix)


@given(matrix=matrices)
@settings(deadline=None, max_examples=50)
def test_the_transpose_is_kept_and_its_own_inverse(matrix):
    transpose = matrix.t()
    assert torch.equal(transpose.to_dense(), matrix.to_dense().T)
    assert transpose.t() is matrix
    assert matrix.t() is transpose


@given(
    size=st.integers(1, 4),
    entries=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 2))),
    path=st.sampled_from(PATHS),
)
@settings(deadline=None, max_examples=80)
def test_the_transpose_of_unsorted_and_repeated_entries(size, entries, path):
    entries = sorted(
        (e for e in entries if e[0] < size and e[1] < size), key=lambda entry: entry[0]
    )
    counts = np.bincount([row for row, _, _ in entries], minlength=size)
    matrix = ConstantSparse.from_csr(
        np.concatenate([[0], np.cumsum(counts)]),
        [col for _, col, _ in entries],
        [value for _, _, value in entries],
        shape=(size, size),
    )
    with backend.forced(path):
        assert torch.equal(matrix.t().to_dense(), matrix.to_dense().T)


@pytest.mark.parametrize("path", PATHS)
def test_a_symmetric_matrix_is_its_own_transpose(path):
    half = random_matrix(30, 30, 0.1, seed=6).to_scipy()
    symmetric = ConstantSparse.from_scipy(half + half.T)
    with backend.forced(path):
        assert symmetric.t() is symmetric
        assert symmetric.pattern.transposed[0] is symmetric.pattern
        scale = torch.rand(30, dtype=torch.float64)
        scaled = symmetric.scale(rows=scale, cols=scale)
        assert scaled.t() is scaled
        lopsided = symmetric.scale(rows=scale)
        assert lopsided.t() is not lopsided
        assert lopsided.t().pattern is lopsided.pattern


def test_scaling_shares_the_pattern():
    matrix = random_matrix(6, 4, 0.5, seed=7)
    rows = torch.randn(6, dtype=torch.float64)
    cols = torch.randn(4, dtype=torch.float64)
    dense = matrix.to_dense()
    both = matrix.scale(rows=rows, cols=cols)
    assert both.pattern is matrix.pattern
    torch.testing.assert_close(both.to_dense(), rows[:, None] * dense * cols)
    torch.testing.assert_close(matrix.scale(rows=rows).to_dense(), rows[:, None] * dense)
    torch.testing.assert_close(matrix.scale(cols=cols).to_dense(), dense * cols)
    assert matrix.scale() is matrix


@pytest.mark.parametrize("path", PATHS)
def test_sums_and_counts(path):
    matrix = random_matrix(7, 5, 0.4, seed=8)
    dense = matrix.to_dense()
    with backend.forced(path):
        torch.testing.assert_close(matrix.row_sums(), dense.sum(1))
        torch.testing.assert_close(matrix.column_sums(), dense.sum(0))
    assert torch.equal(matrix.row_counts().long(), (dense != 0).sum(1))
    empty = ConstantSparse.from_csr([0, 0], [], shape=(1, 3))
    assert torch.equal(empty.column_sums(), torch.zeros(3))


def test_conversions():
    matrix = random_matrix(6, 4, 0.5, seed=9)
    torch.testing.assert_close(torch.from_numpy(matrix.to_scipy().toarray()), matrix.to_dense())
    assert torch.equal(matrix.to_torch().to_dense(), matrix.to_dense())
    assert matrix.to("cpu") is matrix
    assert matrix.to(torch.float64) is matrix
    single = matrix.to(dtype=torch.float32)
    assert single.dtype == torch.float32
    assert single.pattern is matrix.pattern
    assert repr(matrix).startswith("ConstantSparse(shape=(6, 4), nnz=")
    for twin in (copy.deepcopy(matrix), pickle.loads(pickle.dumps(matrix))):
        assert torch.equal(twin.to_dense(), matrix.to_dense())


def test_moving_to_another_device_and_back():
    matrix = random_matrix(6, 4, 0.5, seed=9)
    moved = matrix.to("meta")
    assert moved.device.type == "meta"
    assert moved.pattern.device.type == "meta"


def test_the_matrix_does_not_follow_later_changes_of_its_source():
    source = sp.csr_array(np.eye(3, dtype=np.float32))
    matrix = ConstantSparse.from_scipy(source)
    source.data[:], source.indices[:] = 5, 0
    assert torch.equal(matrix.to_dense(), torch.eye(3))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16, ">i4"])
def test_read_only_and_foreign_arrays_are_accepted(dtype):
    indptr, indices = np.array([0, 1, 2], dtype), np.array([1, 0], dtype)
    indptr.flags.writeable = indices.flags.writeable = False
    matrix = ConstantSparse.from_csr(indptr, indices, [2, 3], shape=(2, 2))
    assert matrix.pattern.col.dtype == torch.int32
    assert torch.equal(matrix.to_dense(), torch.tensor([[0.0, 2.0], [3.0, 0.0]]))


def test_unsorted_and_repeated_entries_are_kept_and_add_up():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    matrix = ConstantSparse.from_csr([0, 3, 4], [2, 0, 2, 1], values, shape=(2, 3))
    expected = torch.tensor([[2.0, 0.0, 4.0], [0.0, 4.0, 0.0]])
    assert matrix.nnz == 4
    assert torch.equal(matrix.to_dense(), expected)
    assert torch.equal(matrix @ torch.eye(3), expected)
    assert torch.equal(matrix.t().to_dense(), expected.T)


def test_edges_point_from_columns_to_rows():
    edges = torch.tensor([[0, 0, 2], [1, 2, 1]])
    matrix = ConstantSparse.from_edge_index(edges, 3)
    expected = torch.zeros(3, 3)
    expected[edges[1], edges[0]] = 1
    assert torch.equal(matrix.to_dense(), expected)
    assert matrix.values.dtype == torch.float32
    assert torch.equal(matrix.pattern.edge_index, torch.tensor([[0, 2, 0], [1, 1, 2]]))


def test_repeated_edges_are_merged():
    edges = np.array([[0, 1, 0, 0], [1, 0, 1, 1]])
    assert torch.equal(
        ConstantSparse.from_edge_index(edges, 2).to_dense(), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    )
    weighted = ConstantSparse.from_edge_index(edges, 2, values=np.array([1.0, 2.0, 3.0, 4.0]))
    assert weighted.dtype == torch.float64
    assert torch.equal(
        weighted.to_dense(), torch.tensor([[0.0, 2.0], [8.0, 0.0]], dtype=torch.float64)
    )


@given(
    count=st.integers(1, 8),
    edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40),
)
@settings(deadline=None, max_examples=60)
def test_weighted_edges_equal_scipy(count, edges):
    inside = [(s, t) for s, t in edges if s < count and t < count]
    edge_index = np.array(inside, dtype=np.int64).reshape(-1, 2).T
    values = np.arange(1.0, len(inside) + 1)
    matrix = ConstantSparse.from_edge_index(edge_index, count, values)
    expected = sp.coo_array((values, (edge_index[1], edge_index[0])), shape=(count, count))
    np.testing.assert_allclose(matrix.to_dense().numpy(), expected.toarray())


def test_large_outputs_are_ordinary_aligned_tensors():
    like = torch.zeros(1)
    large = backend.empty((backend.HUGE_BYTES // 4 // 64, 64), like)
    assert large.data_ptr() % 64 == 0
    assert large.is_contiguous()
    large.zero_().add_(1)
    assert float(large[-1].sum()) == 64


good = {"indptr": [0, 1, 2], "indices": [0, 1], "values": [1.0, 2.0], "shape": (2, 2)}


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"indptr": [0, 1]}, "indptr"),
        ({"indptr": [0, 2, 1]}, "indptr"),
        ({"indptr": [1, 1, 2]}, "indptr"),
        ({"indptr": [0.0, 1.0, 2.0]}, "indptr"),
        ({"indptr": [0, 1, 3]}, "indptr"),
        ({"indices": [0, 2]}, "indices"),
        ({"indices": [-1, 1]}, "indices"),
        ({"indices": [[0, 1]]}, "indices"),
        ({"indices": ["a", "b"]}, "indices"),
        ({"values": [1.0]}, "values"),
        ({"values": torch.ones(2, requires_grad=True)}, "values"),
        ({"values": torch.ones(2, dtype=torch.float16)}, "values"),
        ({"values": torch.ones(2, dtype=torch.complex64)}, "values"),
        ({"shape": (2, -1)}, "shape"),
        ({"shape": (2, 2, 2)}, "shape"),
    ],
)
def test_wrong_parts_are_refused_by_name(wrong, name):
    ConstantSparse.from_csr(**good)
    with pytest.raises(InputError, match=name):
        ConstantSparse.from_csr(**{**good, **wrong})


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda a: a @ torch.ones(3, 2), "dense"),
        (lambda a: a @ torch.ones(2, 2, dtype=torch.float64), "dense"),
        (lambda a: a @ torch.tensor(1.0), "dense"),
        (lambda a: a @ np.ones((2, 2), np.float32), "dense"),
        (lambda a: a @ torch.eye(2).to_sparse(), "dense"),
        (lambda a: a @ torch.ones(2, 2, device="meta"), "dense"),
        (lambda a: a.scale(rows=torch.ones(3)), "rows"),
        (lambda a: a.scale(cols=torch.ones(2, 2)), "cols"),
        (lambda a: a.to(torch.float16), "dtype"),
        (lambda _: ConstantSparse.from_scipy(np.eye(2)), "matrix"),
        (lambda _: ConstantSparse.from_edge_index([[0, 1]], 2), "edge_index"),
        (lambda _: ConstantSparse.from_edge_index([0, 1], 2), "edge_index"),
        (lambda _: ConstantSparse.from_edge_index([[0], [2]], 2), "edge_index"),
        (lambda _: ConstantSparse.from_edge_index([[0.5], [1.0]], 2), "edge_index"),
        (lambda _: ConstantSparse.from_edge_index([[], []], -1), "num_nodes"),
        (lambda _: ConstantSparse.from_edge_index([[0], [1]], 2, values=[1.0, 2.0]), "values"),
    ],
)
def test_wrong_arguments_are_refused_by_name(call, name):
    matrix = ConstantSparse.from_csr([0, 1, 2], [0, 1], shape=(2, 2))
    with pytest.raises(InputError, match=name):
        call(matrix)
