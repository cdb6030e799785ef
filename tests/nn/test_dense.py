"""Sums of dense products."""

from __future__ import annotations

import pytest
import torch

from ncgnn.nn.functional import sum_of_products
from ncgnn.sparse import _backend as backend


def factors(count, bias, seed=0):
    torch.manual_seed(seed)
    rows = [torch.randn(7, 3 + t, dtype=torch.float64, requires_grad=True) for t in range(count)]
    weights = [torch.randn(3 + t, 4, dtype=torch.float64, requires_grad=True) for t in range(count)]
    shift = torch.randn(4, dtype=torch.float64, requires_grad=True) if bias else None
    return rows, weights, shift


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("huge", [1, 1 << 30])
def test_values_and_gradients(count, bias, huge, monkeypatch):
    monkeypatch.setattr(backend, "HUGE_BYTES", huge)  # both kinds of memory
    rows, weights, shift = factors(count, bias)
    expected = sum(h @ w for h, w in zip(rows, weights, strict=True)) + (shift if bias else 0)
    found = sum_of_products(rows, weights, shift)
    torch.testing.assert_close(found, expected)
    given = [*rows, *weights, *([shift] if bias else [])]
    gradient = torch.randn_like(expected)
    for mine, theirs in zip(
        torch.autograd.grad(found, given, gradient),
        torch.autograd.grad(expected, given, gradient),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)
    assert torch.autograd.gradcheck(
        lambda *g: sum_of_products(g[:count], g[count : 2 * count], *g[2 * count :]), given
    )
    assert torch.autograd.gradgradcheck(
        lambda *g: sum_of_products(g[:count], g[count : 2 * count], *g[2 * count :]) ** 2, given
    )


def test_constant_rows_get_no_gradient():
    rows, weights, _ = factors(2, bias=False)
    rows = [row.detach() for row in rows]
    total = sum_of_products(rows, weights)
    total.sum().backward()
    assert all(row.grad is None for row in rows)
    assert all(weight.grad is not None for weight in weights)
    with torch.no_grad():
        assert not sum_of_products(rows, weights).requires_grad
