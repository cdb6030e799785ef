"""Operators that are made in one pass give what torch's operations give, and are freed."""

from __future__ import annotations

import pickle
from weakref import ref

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from ncgnn.sparse import ConstantSparse, add_self_loops, gcn_normalize, masked_adjacency, share
from ncgnn.sparse import _backend as backend


def random_square(seed, symmetric=False, loops=True):
    random = np.random.default_rng(seed)
    dense = (random.random((40, 40)) < 0.15) * random.random((40, 40))
    if symmetric:
        dense = dense + dense.T
    if not loops:
        np.fill_diagonal(dense, 0)
    return ConstantSparse.from_scipy(sp.csr_array(dense.astype(np.float32)))


def same(one, other):
    return (
        torch.equal(one.pattern.crow, other.pattern.crow)
        and torch.equal(one.pattern.col, other.pattern.col)
        and torch.equal(one.values, other.values)
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loops", [True, False])
def test_every_operator_equals_that_of_torch(seed, loops):
    matrix = random_square(seed, symmetric=seed % 2 == 0, loops=loops)
    inside = torch.rand(40, generator=torch.Generator().manual_seed(seed)) < 0.5
    scale = torch.rand(40)
    kept = torch.rand(matrix.nnz) < 0.5
    for make in (
        add_self_loops,
        gcn_normalize,
        lambda one: masked_adjacency(one, targets=inside),
        lambda one: masked_adjacency(one, sources=inside),
        lambda one: masked_adjacency(one, targets=inside, sources=~inside),
        lambda one: one.scale(rows=scale),
        lambda one: one.scale(cols=scale),
        lambda one: one.scale(rows=scale, cols=scale),
        lambda one: one.keep(kept),
        lambda one: ConstantSparse(one.pattern, one.values).t(),
    ):
        mine = make(matrix)
        with backend.forced("csr"):
            theirs = make(ConstantSparse(matrix.pattern, matrix.values))
        assert same(mine, theirs)


def test_loops_of_unsorted_columns_are_merged():
    unsorted = ConstantSparse.from_csr([0, 3, 3], [1, 0, 1], [1.0, 2.0, 3.0], shape=(2, 2))
    assert add_self_loops(unsorted).to_dense().tolist() == [[2.0, 4.0], [0.0, 1.0]]


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_matrix_with_its_transpose_is_freed_at_once(symmetric):
    matrix = random_square(1, symmetric=symmetric)
    kept = ref(matrix), ref(matrix.pattern), ref(matrix.t()), ref(matrix.pattern.transposed[0])
    assert all(one() is not None for one in kept)
    del matrix
    assert all(one() is None for one in kept)


def test_a_transpose_outlives_what_it_was_made_of():
    matrix = random_square(2)
    dense, transpose = matrix.to_dense(), matrix.t()
    del matrix
    assert torch.equal(transpose.t().to_dense(), dense)


def test_matrices_with_one_pattern_share_that_of_their_transposes():
    matrix = random_square(3)
    other = matrix.scale(rows=torch.rand(40))
    assert matrix.t().pattern is other.t().pattern
    assert torch.equal(other.t().to_dense(), other.to_dense().T)


def test_patterns_of_unsorted_columns_are_not_taken_for_their_sorted_ones():
    unsorted = ConstantSparse.from_csr([0, 2, 3], [1, 0, 1], [1.0, 2.0, 3.0], shape=(2, 2))
    pattern, transpose = unsorted.pattern, unsorted.t()
    dense = unsorted.to_dense()
    del unsorted
    assert torch.equal(transpose.t().to_dense(), dense)
    assert pattern.nnz == 3


def test_masked_operators_of_a_symmetric_graph_share_their_patterns():
    base, inside = random_square(4, symmetric=True), torch.arange(40) < 15
    into, out = masked_adjacency(base, targets=inside), masked_adjacency(base, sources=inside)
    into.pattern.mirror(out.pattern)
    assert into.t().pattern is out.pattern
    assert torch.equal(into.t().to_dense(), into.to_dense().T)
    assert torch.equal(out.t().to_dense(), out.to_dense().T)


def test_a_wrong_mirror_is_not_believed():
    one, other = random_square(5), random_square(6)
    one.pattern.mirror(other.pattern)
    assert torch.equal(one.t().to_dense(), one.to_dense().T)


def test_a_matrix_with_a_transpose_can_be_pickled():
    matrix = random_square(7)
    matrix.t()
    again = pickle.loads(pickle.dumps(matrix))
    assert torch.equal(again.t().to_dense(), matrix.t().to_dense())


def test_shared_memory_is_not_copied():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    array.flags.writeable = False
    assert share(array).data_ptr() == array.__array_interface__["data"][0]
    matrix = sp.csr_array(array)
    mine = ConstantSparse.from_scipy(matrix, copy=False)
    assert mine.values.data_ptr() == matrix.data.__array_interface__["data"][0]
    assert np.array_equal(mine.to_dense().numpy(), array)
