"""Masks follow their entries through every selection, and are never lost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import random_array

from ncgnn.errors import InputError
from ncgnn.sparse import ConstantSparse, MaskedSparse, gcn_normalize, masked_adjacency

SIZE = 12


@pytest.fixture
def parts():
    draw = np.random.default_rng(0)
    matrix = random_array((SIZE, SIZE), density=0.3, format="csr", rng=draw)
    plain = ConstantSparse.from_scipy(matrix)
    mask = torch.from_numpy(draw.random(plain.nnz + 1))
    mask[-1] = 1
    places = torch.arange(plain.nnz)
    places[::4] = -1
    masked = MaskedSparse.of(plain, mask.requires_grad_(), places)
    dense = plain.to_dense()
    row, col = (part.to(torch.int64) for part in (plain.pattern.row, plain.pattern.col))
    factors = torch.ones(SIZE, SIZE, dtype=torch.float64)
    factors[row, col] = mask.detach()[places]
    return masked, dense, factors


ROWS, COLS = torch.tensor([5, 2, 9, 3]), torch.tensor([1, 8, 4])


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda m: m, lambda d: d),
        (lambda m: m.rows(ROWS), lambda d: d[ROWS]),
        (lambda m: m.columns(COLS), lambda d: d[:, COLS]),
        (lambda m: m.block(ROWS, COLS), lambda d: d[ROWS][:, COLS]),
        (lambda m: m.rows(ROWS).columns(COLS), lambda d: d[ROWS][:, COLS]),
        (lambda m: m.scale(torch.arange(SIZE).double()), lambda d: d * torch.arange(SIZE)[:, None]),
        (lambda m: m.keep(m.pattern.row > 4), lambda d: d * (torch.arange(SIZE) > 4)[:, None]),
    ],
)
def test_products_are_those_of_the_masked_matrix(parts, change, same):
    masked, dense, factors = parts
    found, expected = change(masked), same(dense * factors)
    x = torch.randn(expected.shape[1], 5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(found @ x, expected @ x)
    torch.testing.assert_close(found @ x[:, 0], expected @ x[:, 0])
    torch.testing.assert_close(found @ x[:, None], (expected @ x)[:, None])
    mask = masked.pattern.mask
    assert torch.autograd.gradcheck(
        lambda m, dense: (
            change(MaskedSparse.of(masked._plain(masked.values), m, masked.pattern.places)) @ dense
        ),
        (mask, x),
    )


def test_normalization_does_not_see_the_mask(parts):
    masked, _, factors = parts
    plain = ConstantSparse.from_scipy(masked._plain(masked.values).to_scipy())
    x = torch.randn(SIZE, 2, dtype=torch.float64)
    expected = (gcn_normalize(plain, self_loops=False).to_dense() * factors) @ x
    torch.testing.assert_close(gcn_normalize(masked, self_loops=False) @ x, expected)
    inside = torch.arange(SIZE) < 6
    left = masked_adjacency(masked, targets=inside)
    expected = (masked_adjacency(plain, targets=inside).to_dense() * factors) @ x
    torch.testing.assert_close(left @ x, expected)


@pytest.mark.parametrize("way", ["t", "to_torch", "to_scipy", "to_dense"])
def test_what_would_lose_the_mask_is_refused(parts, way):
    with pytest.raises(InputError, match="lose the mask"):
        getattr(parts[0], way)()
    with pytest.raises(InputError, match="lose the mask"):
        parts[0].t_matmul(torch.zeros(SIZE, 1, dtype=torch.float64))
