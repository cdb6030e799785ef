"""Products of constants with weights."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from drawn_graphs import drawn_graph

from ncgnn.nn.layers import SharedProducts, Term
from ncgnn.sparse.normalize import gcn_normalize


def terms():
    for sparse in (True, False):
        inputs = drawn_graph(1, sparse=sparse).inputs()
        yield Term(inputs.features), inputs.x
        operator = gcn_normalize(inputs.adjacency)
        yield Term(inputs.features, operator), operator.to_dense() @ inputs.x


def weight():
    torch.manual_seed(0)
    return torch.randn(16, 5, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("active", [False, True])
def test_values_and_gradients_are_those_of_the_matrices(active):
    for term, matrix in terms():
        products, W = SharedProducts(), weight()
        products.active = active
        for _ in range(2):
            found, expected = products.total("a", [term], [W]), matrix @ W
            assert torch.allclose(found, expected)
            gradient = torch.randn_like(expected)
            mine, theirs = (
                torch.autograd.grad(value, W, gradient)[0] for value in (found, expected)
            )
            assert torch.allclose(mine, theirs)


def test_gradients_numerically():
    for term, _ in terms():
        products = SharedProducts()
        assert torch.autograd.gradcheck(lambda w: products.total("a", [term], [w]), weight())  # noqa: B023


@pytest.mark.parametrize("active", [False, True])
def test_sums_of_terms_with_a_bias(active):
    (one, first), (two, second) = list(terms())[:2]
    weights = [weight(), weight().detach().add(1).requires_grad_()]
    bias = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    products = SharedProducts()
    products.active = active
    for _ in range(2):
        with torch.no_grad():
            products.total("a", [one, two], weights, bias)
        found = products.total("a", [one, two], weights, bias)
        expected = first @ weights[0] + second @ weights[1] + bias
        assert torch.allclose(found, expected)
        given = [*weights, bias]
        gradient = torch.randn_like(expected)
        mine, theirs = (torch.autograd.grad(v, given, gradient) for v in (found, expected))
        assert all(torch.allclose(a, b) for a, b in zip(mine, theirs, strict=True))
        with torch.no_grad():
            bias.add_(1)  # a change of the bias alone makes another sum


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
        first = products.total("a", [counted], [W])
    second = products.total("a", [counted], [W])
    assert counted.made == 1
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert second.requires_grad
    with torch.no_grad():
        W.add_(1)
    assert not torch.equal(products.total("a", [counted], [W]), second)
    torch.autograd.graph.increment_version(W)
    products.total("a", [counted], [W])
    assert counted.made == 3


def test_another_weight_term_or_name_is_another_product(counted):
    products, W = SharedProducts(), weight()
    products.active = True
    products.total("a", [counted], [W])
    products.total("b", [counted], [W])
    products.total("a", [counted], [weight()])
    products.total("a", [CountedTerm(counted.constant)], [W])
    assert counted.made == 4


def test_nothing_is_kept_unless_asked_for(counted):
    products, W = SharedProducts(), weight()
    for _ in range(2):
        products.total("a", [counted], [W])
    assert counted.made == 2
    products.active = True
    products.total("a", [counted], [W])
    products.active = False
    W.data.mul_(2)  # a change that torch does not count
    assert torch.allclose(products.total("a", [counted], [W]), counted.constant @ W)


def test_a_frozen_weight_gets_no_gradient(counted):
    products, W = SharedProducts(), weight()
    assert not products.total("a", [counted], [W.detach()]).requires_grad
    with torch.no_grad():
        assert not products.total("a", [counted], [W]).requires_grad


def test_copies_start_empty(counted):
    products, W = SharedProducts(), weight()
    products.active = True
    products.total("a", [counted], [W])
    for other in (copy.deepcopy(products), pickle.loads(pickle.dumps(products))):
        assert not other.active
