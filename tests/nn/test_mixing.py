"""The weighted sum with ReLU and dropout against plain torch."""

from __future__ import annotations

import pytest
import torch

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey, relu_dropout
from ncgnn.nn.functional import mix_relu_dropout

KEY = DropoutKey(seed=2, step=5).at(1)


def parts_and_weights(count, rows, width, dtype):
    torch.manual_seed(count * 100 + width)
    parts = [torch.randn(rows, width, dtype=dtype, requires_grad=True) for _ in range(count)]
    return parts, torch.randn(rows, count, dtype=dtype, requires_grad=True)


def plain(parts, weights, rate, key, nodes):
    mixed = sum(weights[:, p, None] * part for p, part in enumerate(parts))
    return relu_dropout(mixed, rate, key, nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1, 3, 8, 13])
@pytest.mark.parametrize(("rate", "key"), [(0.0, KEY), (0.4, KEY), (0.4, None), (0.0, None)])
def test_values_and_gradients_are_those_of_plain_torch(dtype, count, width, rate, key):
    rows = 130
    parts, weights = parts_and_weights(count, rows, width, dtype)
    nodes = torch.randperm(rows)
    near = 1e-5 if dtype == torch.float32 else 1e-12
    mine = mix_relu_dropout(parts, weights, rate, key, nodes)
    theirs = plain(parts, weights, rate, key, nodes)
    assert mine.dtype == dtype
    assert torch.allclose(mine, theirs, atol=near, rtol=near)
    gradient = torch.randn(rows, width, dtype=dtype)
    found = torch.autograd.grad(mine, [weights, *parts], gradient)
    expected = torch.autograd.grad(theirs, [weights, *parts], gradient)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=10 * near, rtol=10 * near)


def test_gradients_numerically():
    parts, weights = parts_and_weights(2, 5, 6, torch.float64)
    nodes = torch.arange(5)
    assert torch.autograd.gradcheck(
        lambda w, *p: mix_relu_dropout(p, w, 0.3, KEY, nodes), (weights, *parts)
    )


def test_parts_in_any_memory_order_and_weights_that_repeat():
    parts = [torch.randn(9, 6, dtype=torch.float64).t().requires_grad_() for _ in range(2)]
    weights = torch.randn(2, dtype=torch.float64, requires_grad=True)
    nodes = torch.arange(6)
    mine = mix_relu_dropout(parts, weights.expand(6, 2), 0.3, KEY, nodes)
    theirs = plain(parts, weights.expand(6, 2), 0.3, KEY, nodes)
    for result in (mine, theirs):
        assert torch.allclose(result, theirs)
    strided = torch.randn(9, 6, dtype=torch.float64).t()
    found, expected = (torch.autograd.grad(r, [weights, *parts], strided) for r in (mine, theirs))
    assert all(torch.allclose(one, other) for one, other in zip(found, expected, strict=True))


def test_a_constant_part_needs_no_gradient():
    weights = torch.ones(4, 2)
    trained = torch.ones(4, 3, requires_grad=True)
    mix_relu_dropout(
        [torch.ones(4, 3), trained], weights, 0.0, None, torch.arange(4)
    ).sum().backward()
    assert torch.equal(trained.grad, torch.ones(4, 3))


def test_masks_belong_to_nodes_not_to_rows():
    parts, weights = parts_and_weights(2, 20, 9, torch.float64)
    order = torch.randperm(20)
    whole = mix_relu_dropout(parts, weights, 0.5, KEY, torch.arange(20))
    moved = mix_relu_dropout([part[order] for part in parts], weights[order], 0.5, KEY, order)
    assert torch.equal(moved, whole[order])


def test_no_rows():
    parts = [torch.empty(0, 4, requires_grad=True) for _ in range(2)]
    weights = torch.empty(0, 2, requires_grad=True)
    result = mix_relu_dropout(parts, weights, 0.5, KEY, torch.arange(0))
    assert result.shape == (0, 4)
    result.sum().backward()
    assert parts[0].grad.shape == (0, 4)


def test_rates_are_checked():
    with pytest.raises(InputError, match="dropout"):
        mix_relu_dropout([torch.ones(1, 1)], torch.ones(1, 1), 1.0, KEY, torch.arange(1))


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_gradients_in_the_place_of_the_parts_are_the_same_bits(rate):
    parts, weights = parts_and_weights(3, 130, 13, torch.float32)
    nodes, gradient = torch.randperm(130), torch.randn(130, 13)

    def gradients(owned):
        own = [part * 1 for part in parts]  # which nobody else looks at
        mixed = mix_relu_dropout(own, weights, rate, KEY, nodes, owned=owned)
        return mixed, torch.autograd.grad(mixed, [weights, *parts], gradient)

    (result, found), (again, expected) = gradients(True), gradients(False)
    assert torch.equal(result, again)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_owned_parts_have_one_backward_pass():
    parts, weights = parts_and_weights(2, 10, 4, torch.float32)
    own = [part * 1 for part in parts]
    total = mix_relu_dropout(own, weights, 0.4, KEY, torch.arange(10), owned=True).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        total.backward()
