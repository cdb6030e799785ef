"""Sampled neighborhoods, against their definition, in distribution and for what they cost."""

from __future__ import annotations

import threading
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import ncgnn
from ncgnn import _numba
from ncgnn._random import GOLDEN, key_of, mix_bits
from ncgnn.errors import InputError
from ncgnn.sparse import ConstantSparse, NeighborSampler, sampling, take_rows

METHODS = ("uniform", "labor")
# One word of bits; few that are kept sorted; many in a bit set: as (degree, fan-out).
WAYS = [(5, 2), (6, 4), (64, 2), (64, 62), (66, 2), (65, 63)]


def drawn_relation(nodes, density, seed, dtype=np.int32):
    matrix = sp.random_array((nodes, nodes), density=density, rng=np.random.default_rng(seed))
    matrix = matrix.tocsr()
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(dtype)


def regular(nodes, degree, columns=None):
    """Every one of the first nodes has the same neighbors: the last ones."""
    total = max(nodes, degree) if columns is None else columns
    indptr = np.minimum(np.arange(total + 1), nodes) * degree
    indices = np.tile(np.arange(total - degree, total, dtype=np.int32), nodes)
    return indptr.astype(np.int64), indices


@st.composite
def samples(draw):
    nodes = draw(st.integers(1, 40))
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    seed = draw(st.integers(0, 2**31))
    relations = [
        drawn_relation(nodes, draw(st.sampled_from([0, 0.05, 0.3, 1])), seed + place, dtype)
        for place in range(draw(st.integers(1, 2)))
    ]
    fanout = draw(st.lists(st.sampled_from([1, 2, 5, 30, None]), min_size=1, max_size=3))
    wanted = np.random.default_rng(seed).permutation(nodes)[: draw(st.integers(0, nodes))]
    return relations, fanout, wanted, draw(st.sampled_from(METHODS)), seed


@given(case=samples())
@settings(deadline=None, max_examples=150)
def test_a_sample_is_what_it_says(case):
    relations, fanout, wanted, method, seed = case
    sampler = NeighborSampler(relations, fanout, method=method, seed=seed)
    sample = sampler.sample(wanted, epoch=1, batch=2)
    check_sample(sample, relations, fanout, wanted, method)


def check_sample(sample, relations, fanout, wanted, method):
    hops = len(fanout)
    assert np.array_equal(sample.nodes[: len(wanted)], wanted)
    assert len(set(sample.nodes.tolist())) == len(sample.nodes) == sample.within[-1]
    assert len(sample.within) == hops + 1
    assert list(sample.within) == sorted(sample.within)
    assert sample.nodes.dtype == np.int64
    hop_of_row = np.searchsorted(sample.within, np.arange(sample.within[-2]), side="right")
    missing = [False] * len(relations)
    found = {0: set(wanted.tolist())}
    for place, ((indptr, indices), edges) in enumerate(
        zip(relations, sample.relations, strict=True)
    ):
        assert (edges.indptr.dtype, edges.indices.dtype, edges.edges.dtype) == (
            np.int64,
            np.int32,
            np.int64,
        )
        assert len(edges.indptr) == sample.within[hops - 1] + 1
        assert edges.indptr[0] == 0
        assert edges.indptr[-1] == len(edges.indices) == len(edges.edges)
        for row, hop in enumerate(hop_of_row):
            node, own = sample.nodes[row], slice(*edges.indptr[row : row + 2])
            degree, limit = indptr[node + 1] - indptr[node], fanout[hop]
            taken = edges.edges[own]
            assert np.all((indptr[node] <= taken) & (taken < indptr[node + 1]))
            assert np.all(np.diff(taken) > 0)
            assert np.array_equal(sample.nodes[edges.indices[own]], indices[taken])
            assert np.all(edges.indices[own] < sample.within[hop + 1])
            found.setdefault(hop + 1, set()).update(indices[taken].tolist())
            complete = limit is None or degree <= limit
            missing[place] |= not complete
            if complete or method == "uniform":
                assert len(taken) == (degree if complete else limit)
            if edges.scale is not None:
                factor = 1 if complete else degree / limit
                assert np.all(edges.scale[own] == np.float32(factor))
        assert (edges.scale is not None) == missing[place]
    seen = set()
    for hop, end in enumerate(sample.within):
        seen |= found.get(hop, set())
        assert set(sample.nodes[:end].tolist()) == seen


def test_nodes_come_in_the_order_of_their_discovery():
    # 0 sees 3 and 4, 1 sees 2 and 4; 4 sees 5.
    indptr, indices = np.array([0, 2, 4, 4, 4, 5, 5]), np.array([3, 4, 2, 4, 5])
    sample = NeighborSampler([(indptr, indices)], [None, 3]).sample([1, 0], 0, 0)
    assert sample.nodes.tolist() == [1, 0, 2, 4, 3, 5]
    assert sample.within == (2, 5, 6)
    (edges,) = sample.relations
    assert edges.indptr.tolist() == [0, 2, 4, 4, 5, 5]
    assert edges.indices.tolist() == [2, 3, 4, 3, 5]
    assert edges.edges.tolist() == [2, 3, 0, 1, 4]
    assert edges.scale is None


def test_full_fan_out_gives_the_bits_of_the_whole_graph():
    graph = ncgnn.generate(3000, 20_000, classes=4, features=16)
    weights = np.random.default_rng(0).random(graph.num_entries, dtype=np.float32)
    wanted = np.random.default_rng(1).permutation(3000)[:200]
    relation = graph.indptr, graph.indices
    sample = NeighborSampler([relation], [None, None]).sample(wanted, 0, 0)
    (edges,) = sample.relations
    rows, columns = sample.within[1:]
    # Columns are not sorted by place: whoever sorts them would add up in another order.
    part = ConstantSparse.from_csr(
        edges.indptr, edges.indices, weights[edges.edges], shape=(rows, columns)
    )
    whole = ConstantSparse.from_csr(graph.indptr, graph.indices, weights, shape=(3000, 3000))
    x = torch.from_numpy(take_rows(graph.features, sample.nodes))
    expected = whole @ torch.from_numpy(graph.features.copy())
    assert torch.equal(part @ x, expected[torch.from_numpy(sample.nodes[:rows])])


@pytest.mark.parametrize("method", METHODS)
def test_a_sample_depends_on_its_arguments_alone(method, monkeypatch):
    graph = ncgnn.generate(5000, 100_000, classes=3)
    relations = [(graph.indptr, graph.indices), drawn_relation(5000, 0.002, 1)]
    wanted = np.arange(0, 5000, 3)
    first = NeighborSampler(relations, [4, 3], method=method, seed=7)
    expected = first.sample(wanted, 2, 3)
    monkeypatch.setattr(sampling, "_LEAST_ROWS", 8)
    for threads in (1, 2, 3):
        monkeypatch.setattr(_numba, "thread_count", lambda threads=threads: threads)
        other = NeighborSampler(relations, [4, 3], method=method, seed=7)
        other.sample(wanted[::2], 0, 0)
        assert_same(other.sample(wanted, 2, 3), expected)
    assert_same(first.sample(wanted, 2, 3), expected)
    for seed, epoch, batch in ((8, 2, 3), (7, 1, 3), (7, 2, 4)):
        other = NeighborSampler(relations, [4, 3], method=method, seed=seed)
        for one, two in zip(
            other.sample(wanted, epoch, batch).relations, expected.relations, strict=True
        ):
            assert not np.array_equal(one.edges, two.edges)


def test_the_draw_of_a_node_does_not_depend_on_the_others():
    graph = ncgnn.generate(2000, 40_000, classes=3)
    sampler = NeighborSampler([(graph.indptr, graph.indices)], [5], seed=3)
    together = sampler.sample(np.arange(2000), 0, 0).relations[0]
    for node in (0, 17, 1999):
        alone = sampler.sample([node], 0, 0).relations[0]
        assert np.array_equal(alone.edges, together.edges[slice(*together.indptr[node : node + 2])])


def assert_same(one, two):
    assert one.within == two.within
    assert np.array_equal(one.nodes, two.nodes)
    for left, right in zip(one.relations, two.relations, strict=True):
        for name in ("indptr", "indices", "edges"):
            assert np.array_equal(getattr(left, name), getattr(right, name))
        assert (left.scale is None) == (right.scale is None)
        assert left.scale is None or np.array_equal(left.scale, right.scale)


def test_relations_are_drawn_apart():
    relation = regular(500, 20)
    sample = NeighborSampler([relation, relation], [5]).sample(np.arange(480), 0, 0)
    one, two = sample.relations
    assert not np.array_equal(one.edges, two.edges)


def test_several_threads_may_sample_at_a_time():
    graph = ncgnn.generate(5000, 50_000, classes=3)
    sampler = NeighborSampler([(graph.indptr, graph.indices)], [5, 5])
    expected = [sampler.sample(np.arange(b, 5000, 50), 0, b) for b in range(20)]
    found = {}

    def work(start):
        for batch in range(start, 20, 4):
            found[batch] = sampler.sample(np.arange(batch, 5000, 50), 0, batch)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch in range(20):
        assert_same(found[batch], expected[batch])


def taken_of(method, degree, fanout, nodes, seed=0, batch=0):
    """Per node, which of its neighbors 0 … degree - 1 are taken."""
    relation = regular(nodes, degree, nodes + degree)
    sampler = NeighborSampler([relation], [fanout], method=method, seed=seed)
    (edges,) = sampler.sample(np.arange(nodes), 0, batch).relations
    return np.split(edges.edges % degree, edges.indptr[1:-1])


@pytest.mark.parametrize(("degree", "fanout"), WAYS)
def test_all_subsets_are_equally_likely(degree, fanout):
    left_out = fanout > degree / 2
    size = degree - fanout if left_out else fanout
    number = {subset: k for k, subset in enumerate(combinations(range(degree), size))}
    counts = np.zeros(len(number))
    for taken in taken_of("uniform", degree, fanout, 20_000, seed=5):
        chosen = set(taken.tolist())
        assert len(chosen) == fanout
        subset = tuple(k for k in range(degree) if (k in chosen) != left_out)
        counts[number[subset]] += 1
    assert chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize(("degree", "fanout"), [(130, 40), (130, 60), (5000, 48), (5000, 49)])
def test_large_rows_are_taken_evenly(degree, fanout):
    nodes = 3000 if degree < 1000 else 400
    taken = np.stack(taken_of("uniform", degree, fanout, nodes, seed=2))
    # Counts of a draw without replacement vary less than those of one with it.
    share = fanout / degree
    counts = np.bincount(taken.ravel(), minlength=degree)
    statistic = np.sum((counts - nodes * share) ** 2) / (nodes * share * (1 - share))
    mean, spread = degree - 1, np.sqrt(2 * degree)
    assert abs(statistic * (degree - 1) / degree - mean) < 4 * spread
    # Whether two neighbors are taken together is not tied to how near they are.
    near = np.mean(np.diff(taken, axis=1) == 1) * (fanout - 1)
    expected = (degree - 1) * share * (fanout - 1) / (degree - 1)
    assert abs(near - expected) < 5 * np.sqrt(expected / nodes)


@pytest.mark.parametrize("relation", [0, 1])
def test_labor_takes_the_sources_with_small_numbers(relation):
    graph = ncgnn.generate(400, 8000, classes=3)
    big = regular(3, 130, 400)  # rows that are longer than a word of bits
    relations = [(graph.indptr, graph.indices), big]
    indptr, indices = relations[relation]
    sampler = NeighborSampler(relations, [7], method="labor", seed=11)
    edges = sampler.sample(np.arange(400), 5, 9).relations[relation]
    key = key_of(11, int.from_bytes(b"sampling"), 5, 9)
    number = [mix_bits((key + node * GOLDEN) % 2**64) / 2**64 for node in range(400)]
    for node in range(400):
        row = indices[indptr[node] : indptr[node + 1]]
        expected = [t for t in row.tolist() if number[t] <= 7 / len(row)]
        assert indices[edges.edges[slice(*edges.indptr[node : node + 2])]].tolist() == expected


@pytest.mark.parametrize(("degree", "fanout"), [(20, 5), (100, 10)])
def test_labor_takes_as_many_as_the_fan_out_on_average(degree, fanout):
    # Nodes of one batch that share sources take the same ones: count over batches.
    counts = [len(taken_of("labor", degree, fanout, 2, batch=b)[0]) for b in range(3000)]
    spread = np.sqrt(fanout * (1 - fanout / degree) / len(counts))
    assert abs(np.mean(counts) - fanout) < 4 * spread


def test_labor_lets_nodes_share_what_they_take():
    same = taken_of("labor", 40, 6, 30)
    assert all(np.array_equal(row, same[0]) for row in same)
    # A row with more neighbors takes some of those that a shorter one takes.
    indptr = np.array([0, 20, 60, *[60] * 58])
    indices = np.concatenate([np.arange(20, 40), np.arange(20, 60)])
    sampler = NeighborSampler([(indptr, indices)], [8], method="labor")
    for batch in range(20):
        (edges,) = sampler.sample([0, 1], 0, batch).relations
        short, long = np.split(indices[edges.edges], edges.indptr[1:2])
        assert set(long[long < 40].tolist()) <= set(short.tolist())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("degree", [12, 90])
def test_sums_are_unbiased(method, degree):
    random = np.random.default_rng(0)
    values = random.normal(size=200) + 2
    rows = [np.sort(random.choice(200, degree, replace=False)) for _ in range(5)]
    indptr = np.concatenate([np.arange(6) * degree, np.full(195, 5 * degree)])
    indices = np.concatenate(rows)
    sampler = NeighborSampler([(indptr, indices)], [5], method=method, seed=1)
    sums = []
    for batch in range(4000):
        (edges,) = sampler.sample(np.arange(5), 0, batch).relations
        weighted = edges.scale * values[indices[edges.edges]]
        sums.append([part.sum() for part in np.split(weighted, edges.indptr[1:-1])])
    error = np.std(sums, axis=0) / np.sqrt(len(sums))
    full = np.array([values[row].sum() for row in rows])
    assert np.all(np.abs(np.mean(sums, axis=0) - full) < 4 * error)
    assert np.all(error < 0.02 * full)


def test_labor_finds_fewer_nodes_than_uniform():
    graph = ncgnn.generate(20_000, 400_000, classes=5)
    wanted = np.arange(0, 20_000, 20)
    found = {
        method: [
            NeighborSampler([(graph.indptr, graph.indices)], [8, 8], method=method)
            .sample(wanted, 0, batch)
            .within[-1]
            for batch in range(3)
        ]
        for method in METHODS
    }
    assert max(found["labor"]) < 0.8 * min(found["uniform"])


def test_memory_mapped_arrays_are_not_copied(tmp_path):
    graph = ncgnn.generate(500, 5000, classes=3)
    for name in ("indptr", "indices"):
        np.save(tmp_path / f"{name}.npy", getattr(graph, name))
    mapped = tuple(
        np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices")
    )
    sampler = NeighborSampler([mapped], [3, 3])
    for array, own in zip(mapped, sampler._relations[0], strict=True):
        assert np.shares_memory(array, own)
    plain = NeighborSampler([(graph.indptr, graph.indices)], [3, 3])
    assert_same(sampler.sample([1, 2], 0, 0), plain.sample([1, 2], 0, 0))


def test_a_batch_allocates_nothing_for_the_other_nodes():
    nodes = 2_000_000
    indptr = np.minimum(np.arange(nodes + 1) * 3, 3000)
    sampler = NeighborSampler([(indptr, np.tile(np.array([5, 6, 7], np.int32), 1000))], [2, 2])
    sampler.sample([0, 1], 0, 0)
    tracemalloc.start()
    sampler.sample([2, 3], 0, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


GOOD = (np.array([0, 2, 3, 3]), np.array([1, 2, 0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [2]), "relations must be one or more"),
        (([GOOD], []), "fanout must have a number"),
        (([GOOD], [0]), "fanout must be a whole number from 1"),
        (([GOOD], [1.5]), "fanout"),
        (([GOOD, (np.array([0, 0]), np.array([], int))], [2]), "over the same 1 to"),
        (([(np.array([0]), np.array([], int))], [2]), "over the same 1 to"),
        (([(np.array([0.0, 1.0]), np.array([0]))], [2]), "indptr must be a vector"),
        (([(np.array([0, 1]), np.array([[0]]))], [2]), "indices must be a vector"),
    ],
)
def test_wrong_relations_and_fan_outs_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        NeighborSampler(*arguments)


def test_wrong_methods_are_named():
    with pytest.raises(InputError, match="method must be 'uniform' or 'labor'; got 'ladies'"):
        NeighborSampler([GOOD], [2], method="ladies")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 3, 3, 3], [1, 2], "indptr must rise from 0 .* at row 0"),
        ([0, -1, 2, 2], [1, 2], "indptr must rise"),
        ([2, 1, 2, 2], [1, 2], "indptr must rise"),
        ([0, 2, 2, 2], [1, 9], "indices names node 9"),
        ([0, 2, 2, 2], [-4, 1], "indices names node -4"),
        ([0, 2, 2, 2], [2, 1], "indices must rise within each row"),
        ([0, 2, 2, 2], [1, 1], "indices must rise within each row, without repetition"),
    ],
)
def test_damaged_relations_are_found_before_they_do_harm(method, indptr, indices, message):
    relation = np.array(indptr), np.array(indices)
    with pytest.raises(InputError, match=message):
        NeighborSampler([relation], [5], method=method).sample([0], 0, 0)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([0, 3], "nodes names node 3, but the graph has 3 nodes"),
        ([-1], "nodes names node -1"),
        ([2, 1, 2], "nodes contain 2 twice"),
        ([[0]], "nodes must be a vector"),
        ([0.5], "nodes must be a vector of whole numbers"),
    ],
)
def test_wrong_nodes_are_named_and_leave_no_trace(nodes, message):
    sampler = NeighborSampler([GOOD], [2])
    expected = sampler.sample([0, 1, 2], 0, 0)
    with pytest.raises(InputError, match=message):
        sampler.sample(nodes, 0, 0)
    assert_same(sampler.sample([0, 1, 2], 0, 0), expected)


def test_nothing_may_be_wanted():
    sample = NeighborSampler([GOOD], [2, 2]).sample(np.array([], dtype=np.int64), 0, 0)
    assert sample.within == (0, 0, 0)
    assert sample.relations[0].indptr.tolist() == [0]


@given(
    rows=st.integers(1, 30),
    width=st.integers(0, 40),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=60)
def test_rows_are_those_of_indexing(rows, width, dtype, seed):
    random = np.random.default_rng(seed)
    dense = random.random((rows, width)).astype(dtype)
    nodes = random.integers(0, rows, random.integers(0, 50))
    assert np.array_equal(take_rows(dense, nodes), dense[nodes])
    assert np.array_equal(take_rows(np.asfortranarray(dense), nodes), dense[nodes])
    sparse = sp.csr_array(np.where(dense < 0.3, dense, 0))
    found = take_rows(sparse, nodes)
    assert found.dtype == dtype
    assert np.array_equal(found.toarray(), sparse.toarray()[nodes])


def test_rows_of_memory_mapped_features(tmp_path):
    dense = np.random.default_rng(0).random((5000, 24), dtype=np.float32)
    np.save(tmp_path / "x.npy", dense)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    nodes = np.random.default_rng(1).permutation(5000)
    out = np.empty_like(dense)
    assert take_rows(mapped, nodes, out=out) is out
    assert np.array_equal(out, dense[nodes])
    assert type(take_rows(mapped, nodes)) is np.ndarray


def test_wrong_rows_are_named():
    dense = np.zeros((3, 2), dtype=np.float32)
    with pytest.raises(InputError, match="nodes names node 3"):
        take_rows(dense, [0, 3])
    with pytest.raises(InputError, match="out must be float32 of shape"):
        take_rows(dense, [0, 2], out=np.zeros((2, 2)))
    with pytest.raises(InputError, match="features must be a matrix"):
        take_rows(np.zeros(3), [0])
    with pytest.raises(InputError, match="CSR"):
        take_rows(sp.csc_array(dense), [0])
