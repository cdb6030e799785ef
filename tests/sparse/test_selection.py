"""Selection of rows, columns and blocks, against dense indexing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncgnn.errors import InputError
from ncgnn.sparse import ConstantSparse
from ncgnn.sparse import _backend as backend

PATHS = ("compiled", "csr")


@st.composite
def selections(draw) -> tuple[ConstantSparse, np.ndarray, np.ndarray]:
    m, n = draw(st.integers(0, 10)), draw(st.integers(0, 10))
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    matrix = sp.random_array((m, n), density=draw(st.floats(0, 1)), rng=random)
    rows = draw(st.lists(st.integers(0, m - 1), max_size=15)) if m else []
    cols = draw(st.lists(st.integers(0, n - 1), max_size=15)) if n else []
    return ConstantSparse.from_scipy(matrix), np.array(rows, int), np.array(cols, int)


@given(selection=selections(), path=st.sampled_from(PATHS))
@settings(deadline=None, max_examples=80)
def test_selection_equals_dense_indexing(selection, path):
    matrix, rows, cols = selection
    dense = matrix.to_dense()
    with backend.forced(path):
        assert torch.equal(matrix.rows(rows).to_dense(), dense[rows])
        assert torch.equal(matrix.columns(cols).to_dense(), dense[:, cols])
        assert torch.equal(matrix.block(rows, cols).to_dense(), dense[rows][:, cols])


@given(selection=selections())
@settings(deadline=None, max_examples=60)
def test_the_paths_give_the_same_entries_in_the_same_order(selection):
    matrix, rows, cols = selection
    blocks = []
    for path in PATHS:
        with backend.forced(path):
            blocks.append((matrix.rows(rows), matrix.block(rows, cols)))
    for left, right in zip(*blocks, strict=True):
        assert torch.equal(left.pattern.crow, right.pattern.crow)
        assert torch.equal(left.pattern.col, right.pattern.col)
        assert torch.equal(left.values, right.values)


@pytest.fixture
def matrix() -> ConstantSparse:
    return ConstantSparse.from_scipy(
        sp.random_array((6, 8), density=0.5, rng=np.random.default_rng(0))
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "convert",
    [
        lambda index: index,
        list,
        torch.from_numpy,
        lambda index: index.astype(np.int32),
        lambda index: index.astype(np.uint8),
        lambda index: torch.from_numpy(index).to(torch.int32),
        lambda index: torch.from_numpy(index.repeat(2))[::2],
    ],
)
def test_every_kind_of_index_is_accepted(matrix, convert, path):
    rows, cols = np.array([5, 0, 3]), np.array([7, 2, 2, 0])
    dense = matrix.to_dense()
    with backend.forced(path):
        block = matrix.block(convert(rows), convert(cols))
    assert torch.equal(block.to_dense(), dense[rows][:, cols])


@pytest.mark.parametrize("as_mask", [torch.from_numpy, np.asarray, list])
def test_masks(matrix, as_mask):
    rows = np.array([True, False, True, True, False, True])
    cols = np.arange(8) % 3 == 1
    dense = matrix.to_dense()
    block = matrix.block(as_mask(rows), as_mask(cols))
    assert torch.equal(block.to_dense(), dense[rows][:, cols])
    assert torch.equal(matrix.rows(as_mask(rows)).to_dense(), dense[rows])
    assert torch.equal(matrix.columns(as_mask(cols)).to_dense(), dense[:, cols])
    assert matrix.rows(np.zeros(6, dtype=bool)).shape == (0, 8)


def test_a_masked_block_of_a_symmetric_matrix_is_symmetric():
    half = sp.random_array((40, 40), density=0.1, rng=np.random.default_rng(1))
    matrix = ConstantSparse.from_scipy(half + half.T)
    mask = torch.arange(40) % 4 != 0
    block = matrix.block(mask, mask)
    assert block.t() is block


def test_selected_matrices_multiply_and_differentiate(matrix):
    rows, cols = [5, 0, 5], [7, 1]
    part = matrix.block(rows, cols)
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: part @ x, x)
    torch.testing.assert_close(part @ x, matrix.to_dense()[rows][:, cols] @ x)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda a: a.rows([6]), "index"),
        (lambda a: a.rows([-1]), "index"),
        (lambda a: a.columns([8]), "index"),
        (lambda a: a.rows([0.5]), "index"),
        (lambda a: a.rows([[0], [1]]), "index"),
        (lambda a: a.rows(torch.ones(8, dtype=torch.bool)), "index"),
        (lambda a: a.block([0], [8]), "cols"),
        (lambda a: a.block([9], [0]), "rows"),
    ],
)
def test_wrong_positions_are_refused_by_name(matrix, call, name):
    with pytest.raises(InputError, match=name):
        call(matrix)
