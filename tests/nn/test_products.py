"""Products of constants with weights."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from drawn_graphs import drawn_graph

from ncgnn.graph.sparse import gcn_normalised
from ncgnn.nn._products import SharedProducts, Term


def terms():
    for sparse in (True, False):
        inputs = drawn_graph(1, sparse=sparse).inputs()
        yield Term(inputs.features), inputs.dense_features
        operator = gcn_normalised(inputs.adjacency)
        yield Term(inputs.features, operator), operator.to_dense() @ inputs.dense_features


def weight():
    torch.manual_seed(0)
    return torch.randn(16, 5, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("active", [False, True])
def test_values_and_gradients_are_those_of_the_matrices(active):
    for term, matrix in terms():
        products, W = SharedProducts(), weight()
        products.active = active
        for _ in range(2):
            found, expected = products.product("a", term, W), matrix @ W
            assert torch.allclose(found, expected)
            gradient = torch.randn_like(expected)
            mine, theirs = (
                torch.autograd.grad(value, W, gradient)[0] for value in (found, expected)
            )
            assert torch.allclose(mine, theirs)


def test_gradients_numerically():
    for term, _ in terms():
        products = SharedProducts()
        assert torch.autograd.gradcheck(lambda w: products.product("a", term, w), weight())  # noqa: B023


class CountedTerm(Term):
    made = 0

    def times(self, weight):
        type(self).made += 1
        return super().times(weight)


@pytest.fixture
def counted():
    CountedTerm.made = 0
    return CountedTerm(drawn_graph(1).inputs().features)


def test_a_product_is_made_once_while_the_weight_stays(counted):
    products, W = SharedProducts(), weight()
    products.active = True
    with torch.no_grad():
        first = products.product("a", counted, W)
    second = products.product("a", counted, W)
    assert counted.made == 1
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert second.requires_grad
    with torch.no_grad():
        W.add_(1)
    assert not torch.equal(products.product("a", counted, W), second)
    torch.autograd.graph.increment_version(W)
    products.product("a", counted, W)
    assert counted.made == 3


def test_another_weight_term_or_name_is_another_product(counted):
    products, W = SharedProducts(), weight()
    products.active = True
    products.product("a", counted, W)
    products.product("b", counted, W)
    products.product("a", counted, weight())
    products.product("a", CountedTerm(counted.constant), W)
    assert counted.made == 4


def test_nothing_is_kept_unless_asked_for(counted):
    products, W = SharedProducts(), weight()
    for _ in range(2):
        products.product("a", counted, W)
    assert counted.made == 2
    products.active = True
    products.product("a", counted, W)
    products.active = False
    W.data.mul_(2)  # a change that torch does not count
    assert torch.allclose(products.product("a", counted, W), counted.constant @ W)


def test_a_frozen_weight_gets_no_gradient(counted):
    products, W = SharedProducts(), weight()
    assert not products.product("a", counted, W.detach()).requires_grad
    with torch.no_grad():
        assert not products.product("a", counted, W).requires_grad


def test_copies_start_empty(counted):
    products, W = SharedProducts(), weight()
    products.active = True
    products.product("a", counted, W)
    for other in (copy.deepcopy(products), pickle.loads(pickle.dumps(products))):
        assert not other.active
