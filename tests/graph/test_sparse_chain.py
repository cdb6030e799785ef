"""The product of three matrices: both orders, and the choice between them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ncgnn.errors import InputError
from ncgnn.sparse import _backend as backend
from ncgnn.sparse.matrix import ConstantSparse
from ncgnn.sparse.ops import (
    chain_costs,
    propagate_first,
    sparse_dense_chain,
    sparse_product,
    transform_first,
)


def whole_matrix(m: int, n: int, density: float, seed: int) -> ConstantSparse:
    """Small whole numbers: every order of summation gives exactly the same result."""
    random = np.random.default_rng(seed)
    matrix = sp.random_array((m, n), density=density, rng=random)
    matrix.data = random.integers(-4, 5, matrix.nnz).astype(np.float64)
    return ConstantSparse.from_scipy(matrix)


@given(
    sizes=st.tuples(*[st.integers(0, 8)] * 4),
    density=st.floats(0, 1),
    seed=st.integers(0, 2**31),
    sparse=st.booleans(),
)
@settings(deadline=None, max_examples=120)
def test_both_orders_are_exactly_equal(sizes, density, seed, sparse):
    m, n, d, h = sizes
    S, X = whole_matrix(m, n, density, seed), whole_matrix(n, d, density, seed + 1)
    W = torch.randint(-4, 5, (d, h)).double().requires_grad_()
    gradient = torch.randint(-4, 5, (m, h)).double()
    expected = S.to_dense() @ X.to_dense() @ W
    (expected_gradient,) = torch.autograd.grad(expected, W, gradient)
    features = X if sparse else X.to_dense()
    for function in (propagate_first, transform_first, sparse_dense_chain):
        out = function(S, features, W)
        assert torch.equal(out, expected)
        assert torch.equal(torch.autograd.grad(out, W, gradient)[0], expected_gradient)


def test_gradients_of_weights_and_dense_features():
    S = whole_matrix(4, 5, 0.5, seed=1)
    X = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    W = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda X, W: sparse_dense_chain(S, X, W), (X, W))


def cheaper(S, X, W) -> str:
    costs = chain_costs(S, X, W)
    return min(costs, key=costs.get)


def test_the_order_follows_the_widths():
    S = whole_matrix(200, 200, 0.1, seed=2)
    narrow, wide = (
        torch.ones(200, 4, dtype=torch.float64),
        torch.ones(200, 500, dtype=torch.float64),
    )
    assert cheaper(S, narrow, torch.ones(4, 500, dtype=torch.float64)) == "propagate first"
    assert cheaper(S, wide, torch.ones(500, 4, dtype=torch.float64)) == "transform first"


def test_a_few_rows_are_propagated_first():
    S = whole_matrix(2000, 2000, 0.01, seed=3).rows([3, 5])
    features = whole_matrix(2000, 50, 0.2, seed=4)
    W = torch.ones(50, 64, dtype=torch.float64, requires_grad=True)
    assert cheaper(S, features, W) == "propagate first"
    assert cheaper(S, features.to_dense(), W) == "propagate first"


def test_gradients_count():
    """Without a gradient of X, propagating first spares the backward pass its sparse product."""
    S = whole_matrix(300, 300, 0.2, seed=5)
    X = torch.ones(300, 60, dtype=torch.float64)
    W = torch.ones(60, 50, dtype=torch.float64, requires_grad=True)
    assert cheaper(S, X, W) == "propagate first"
    with torch.no_grad():
        assert cheaper(S, X, W) == "transform first"


def test_devices_without_a_sparse_pair_product_transform_first():
    S, X = whole_matrix(20, 20, 0.2, seed=6).rows([0]), whole_matrix(20, 9, 0.2, seed=7)
    with backend.forced("chunks"):
        assert cheaper(S, X, torch.ones(9, 50, dtype=torch.float64)) == "transform first"


@pytest.mark.parametrize("density", [0.0, 0.3])
def test_product_of_two_sparse_matrices(density):
    left, right = whole_matrix(6, 7, density, seed=8), whole_matrix(7, 5, 0.4, seed=9)
    product = sparse_product(left, right)
    assert torch.equal(product.to_dense(), left.to_dense() @ right.to_dense())
    assert product.t().shape == (5, 6)


@pytest.mark.parametrize(
    ("X", "W", "name"),
    [
        (torch.ones(4, 3), torch.ones(3, 2), "X"),
        (torch.ones(5, 3, dtype=torch.float64), torch.ones(3, 2), "X"),
        (torch.ones(5), torch.ones(3, 2), "X"),
        (torch.ones(5, 3), torch.ones(2, 3), "W"),
        (torch.ones(5, 3), torch.ones(3), "W"),
        (whole_matrix(5, 3, 0.5, seed=1), torch.ones(3, 2), "X"),
    ],
)
def test_wrong_arguments_are_refused_by_name(X, W, name):
    S = whole_matrix(4, 5, 0.5, seed=0).to(torch.float32)
    with pytest.raises(InputError, match=name):
        sparse_dense_chain(S, X, W)
