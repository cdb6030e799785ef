from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey, functional, relu_dropout
from ncgnn.nn.functional import dropout, kept_entries
from ncgnn.sparse import _backend

KEY = DropoutKey(seed=1, step=2).at(3)


@given(
    rows=st.integers(0, 9),
    width=st.integers(1, 13),
    rate=st.sampled_from([0.1, 0.5, 0.9]),
    seed=st.integers(0, 2**31),
    double=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_compiled_and_torch_paths_are_equal(rows, width, rate, seed, double):
    torch.manual_seed(seed)
    x = torch.randn(rows, width, dtype=torch.float64 if double else torch.float32)
    nodes = torch.randperm(rows + 5)[:rows]
    key = DropoutKey(seed, 7).at(1)
    least = round(rate * 65536)
    scale = torch.tensor(65536 / (65536 - least), dtype=x.dtype)
    expected = torch.relu(x) * (kept_entries(nodes, width, least, key) * scale)
    assert torch.equal(relu_dropout(x, rate, key, nodes), expected)


def test_masks_belong_to_nodes_not_to_places():
    x = torch.rand(50, 10) + 1
    order = torch.randperm(50)
    whole = relu_dropout(x, 0.4, KEY)
    assert torch.equal(relu_dropout(x[order], 0.4, KEY, order), whole[order])
    assert torch.equal(relu_dropout(x[order[:7]], 0.4, KEY, order[:7]), whole[order[:7]])


def test_masks_differ_by_seed_step_and_place():
    x = torch.ones(40, 40)
    keys = [DropoutKey(s, t).at(p) for s in (0, 1) for t in (0, 1) for p in (0, 1)]
    masks = {relu_dropout(x, 0.5, key).numpy().tobytes() for key in keys}
    assert len(masks) == 8
    assert len({DropoutKey(0, step).at(0) for step in range(1000)}) == 1000


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_entries_are_kept_as_often_as_asked_for(rate):
    x = torch.ones(2000, 500)
    kept = relu_dropout(x, rate, KEY)
    share = (kept > 0).double().mean().item()
    spread = (rate * (1 - rate) / x.numel()) ** 0.5
    assert abs(share - (1 - rate)) < 5 * spread + 2**-16
    assert abs(kept.double().mean().item() - 1) < 5 * spread / (1 - rate)
    # Neighbouring columns and rows are independent.
    mask = (kept > 0).double() - (1 - rate)
    for shifted in (mask[:, 1:] * mask[:, :-1], mask[1:] * mask[:-1]):
        assert abs(shifted.mean().item()) < 6 * rate * (1 - rate) / shifted.numel() ** 0.5


def test_gradients():
    x = torch.randn(6, 11, dtype=torch.float64, requires_grad=True)
    nodes = torch.tensor([5, 3, 9, 0, 1, 2])
    assert torch.autograd.gradcheck(lambda y: relu_dropout(y, 0.3, KEY, nodes), x)
    strided = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: relu_dropout(y.t(), 0.3, KEY, nodes), strided)


def test_outside_training_it_is_relu():
    x = torch.randn(5, 5)
    assert torch.equal(relu_dropout(x, 0.5, None), torch.relu(x))
    assert torch.equal(relu_dropout(x, 0.0, KEY), torch.relu(x))


def test_threads_do_not_matter():
    x = torch.randn(5000, 33)
    before = numba.get_num_threads()
    found = []
    try:
        for threads in range(1, before + 1):
            numba.set_num_threads(threads)
            found.append(relu_dropout(x, 0.5, KEY).numpy())
    finally:
        numba.set_num_threads(before)
    assert all(np.array_equal(found[0], other) for other in found)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
@pytest.mark.parametrize("key", [KEY, None])
@pytest.mark.parametrize("drop", [relu_dropout, dropout])
def test_rates_are_checked_in_training_and_outside(drop, rate, key):
    with pytest.raises(InputError, match="dropout must be"):
        drop(torch.ones(1, 1), rate, key)


@pytest.mark.parametrize("width", [1, 4, 7])
def test_dropout_without_relu_keeps_signs_and_passes_gradients_alike(width):
    x = torch.randn(9, width, dtype=torch.float64, requires_grad=True)
    nodes = torch.randperm(20)[:9]
    kept = kept_entries(nodes, width, 1 << 15, KEY)
    assert torch.equal(dropout(x, 0.5, KEY, nodes), x * kept * 2)
    assert torch.autograd.gradcheck(lambda x: dropout(x, 0.5, KEY, nodes), x)
    assert torch.autograd.gradgradcheck(lambda x: dropout(x, 0.5, KEY, nodes) ** 2, x)
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, KEY) is x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_byte_per_entry_gives_the_gradients_of_the_whole_result(dtype):
    gradient = torch.randn(70, 13, dtype=dtype)
    found = []
    for light in (False, True):
        x = torch.linspace(-1, 1, 70 * 13, dtype=dtype).reshape(70, 13).requires_grad_()
        result = relu_dropout(x, 0.4, KEY, light=light)
        kept = result.grad_fn.saved_tensors[0]
        assert kept.element_size() == (1 if light else dtype.itemsize)
        found.append((result, torch.autograd.grad(result, x, gradient)[0]))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("words_at_once", [1, 7, 1 << 20])
@pytest.mark.parametrize("light", [True, False])
@pytest.mark.parametrize("width", [1, 4, 11])
def test_other_devices_drop_the_same_entries(monkeypatch, words_at_once, light, width):
    monkeypatch.setattr(functional, "_WORDS_AT_ONCE", words_at_once)
    nodes, results = torch.randperm(40)[:23], []
    x, gradient = torch.randn(2, 23, width)
    for path in ("compiled", "chunks"):
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        with _backend.forced(path):
            with_relu = relu_dropout(one, 0.3, KEY, nodes, light=light)
            without = dropout(other, 0.3, KEY, nodes)
            torch.autograd.backward([with_relu, without], [gradient, gradient])
        results.append((with_relu, without, one.grad, other.grad))
    for mine, theirs in zip(*results, strict=True):
        assert torch.equal(mine, theirs)


class Largest(TorchDispatchMode):
    """Notes the bytes of the largest tensor that an operation gives."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        if isinstance(result, torch.Tensor):
            self.size = max(self.size, result.untyped_storage().nbytes())
        return result


def test_masks_of_other_devices_take_a_byte_per_entry(monkeypatch):
    monkeypatch.setattr(functional, "_WORDS_AT_ONCE", 1000)
    nodes = torch.arange(400)
    with Largest() as largest:
        kept = kept_entries(nodes, 100, 1 << 15, KEY)
    assert kept.dtype == torch.bool
    assert largest.size == kept.numel() == 40_000
