"""The multigraph of similar nodes against plain Python."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from drawn_graphs import Drawn, drawn_graph

import ncgnn._numba
from ncgnn.errors import NcgnnWarning
from ncgnn.nn.baselines import wrgat_structure as structural


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ncgnn" / "structural"


def neighbours_of(A):
    both = (A + A.T) > 0
    return [set(torch.nonzero(row).flatten().tolist()) for row in both]


def plain_rings(neighbours, depth):
    """For each node the list of each ring that is not empty."""
    found = []
    for node in range(len(neighbours)):
        seen, ring, lists = {node}, {node}, []
        while ring and len(lists) < depth:
            lists.append(sorted(Counter(len(neighbours[other]) for other in ring).items()))
            ring = set().union(*(neighbours[other] for other in ring)) - seen
            seen |= ring
        found.append(lists)
    return found


def plain_warping(left, right):
    table = {}
    for (i, (a, s)), (j, (b, t)) in itertools.product(enumerate(left), enumerate(right)):
        cost = ((max(a, b) + 0.5) / (min(a, b) + 0.5) - 1) * max(s, t)
        steps = [table.get(place, math.inf) for place in ((i - 1, j), (i, j - 1), (i - 1, j - 1))]
        table[i, j] = cost + (min(steps) if i or j else 0)
    return table[len(left) - 1, len(right) - 1]


def plain_choice(neighbours):
    n = len(neighbours)
    degrees = [len(others) for others in neighbours]
    chosen = []
    for v in range(n):
        waiting = sorted(set(degrees), key=lambda degree: (abs(degree - degrees[v]), -degree))
        order = [u for degree in waiting for u in range(n) if degrees[u] == degree and u != v]
        wanted = 0
        while wanted <= 2 * math.log2(n):
            wanted += 1
        chosen.append(order[:wanted])
    return chosen


def plain_relations(A, depth):
    """For each relation (targets, sources, weights), an entry per edge."""
    neighbours = neighbours_of(A)
    chosen, rings = plain_choice(neighbours), plain_rings(neighbours, depth)
    found = []
    for k in range(depth):
        distances = []
        for v, others in enumerate(chosen):
            for u in others:
                if min(len(rings[u]), len(rings[v])) > k:
                    distance = sum(plain_warping(rings[u][i], rings[v][i]) for i in range(k + 1))
                    distances += [(v, u, distance), (u, v, distance)]
        if not distances:
            break
        sums = Counter()
        for source, _, distance in distances:
            sums[source] += math.exp(-distance)
        edges = [(t, s, math.exp(-distance) / sums[s]) for s, t, distance in distances]
        found.append(tuple(np.array(column) for column in zip(*edges, strict=True)))
    return found


def parts_of(A):
    pattern = Drawn(A, torch.ones(len(A), 1), np.zeros(len(A), int)).inputs()
    pattern = pattern.undirected_adjacency.pattern
    return pattern.crow.numpy(), pattern.col.numpy()


def graphs():
    star = torch.zeros(30, 30, dtype=torch.float64)
    star[0, 1:20] = 1
    path = torch.diag(torch.ones(24, dtype=torch.float64), 1)
    return {
        "sparse": drawn_graph(1, nodes=40, density=0.05).A,
        "dense": drawn_graph(2, nodes=50, density=0.3).A,
        "directed": drawn_graph(3, nodes=30, density=0.1).A,
        "star and isolated": star,
        "path": path,
        "two nodes": torch.tensor([[0.0, 1], [0, 0]]).double(),
    }


GRAPHS = graphs()


@pytest.mark.parametrize("name", GRAPHS)
def test_the_choose_nodes_are_nearest_in_degree(name):
    indptr, _ = parts_of(GRAPHS[name])
    found = structural.choose_nodes(indptr).tolist()
    assert found == plain_choice(neighbours_of(GRAPHS[name]))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("depth", [1, 3, 10])
def test_rings(name, depth):
    A = GRAPHS[name]
    progress = structural._Progress("", None)
    starts, degrees, counts = structural._find_lists(*parts_of(A), depth, progress)
    expected = plain_rings(neighbours_of(A), depth)
    for node, k in itertools.product(range(len(A)), range(depth)):
        span = slice(starts[node * depth + k], starts[node * depth + k + 1])
        found = list(zip(degrees[span].tolist(), counts[span].tolist(), strict=True))
        assert found == (expected[node][k] if k < len(expected[node]) else [])


def test_both_ways_to_the_next_ring_find_the_same_nodes():
    indptr, indices = parts_of(GRAPHS["dense"])
    n = len(indptr) - 1
    found = []
    for outside in (False, True):
        ring_of, queue = np.full(n, -1, np.int8), np.zeros(n, np.int32)
        ring_of[0], begin, stop, rings = 0, 0, 1, []
        for k in range(4):
            graph = (indptr, indices, ring_of, queue)
            if outside:
                end = structural._ring_from_outside(*graph, stop, k)
            else:
                end = structural._ring_from_inside(*graph, begin, stop, k)
            rings.append(set(queue[stop:end].tolist()))
            begin, stop = stop, end
        found.append(rings)
    assert found[0] == found[1]
    assert found[0][0]
    assert found[0][1]


def test_warping_is_exact():
    draw = np.random.default_rng(0)
    scratch = np.empty(40), np.empty(40)
    for _ in range(300):
        most, largest = draw.choice([2, 10, 60]), draw.choice([1, 3, 200])
        lists = []
        for _ in range(2):
            size = draw.integers(1, min(most, 30) + 1)
            degrees = np.sort(draw.choice(most, size, replace=False)).astype(np.int32)
            lists.append((degrees, draw.integers(1, largest + 1, size).astype(np.int32)))
        found = structural.time_warping(*lists[0], *lists[1], *scratch)
        plain = [list(zip(*(part.tolist() for part in parts), strict=True)) for parts in lists]
        assert found == plain_warping(*plain)
        assert found == structural.time_warping(*lists[1], *lists[0], *scratch)


@pytest.mark.parametrize("name", GRAPHS)
def test_relations(name):
    A = GRAPHS[name]
    inputs = Drawn(A, torch.ones(len(A), 1).double(), np.zeros(len(A), int)).inputs()
    found = structural.structural_relations(inputs, 6)
    expected = plain_relations(A, 6)
    assert len(found) == len(expected) > 0
    for relation, (targets, sources, weights) in zip(found, expected, strict=True):
        counts = np.bincount(targets, minlength=len(A))
        dense = np.zeros(A.shape)
        np.add.at(dense, (targets, sources), weights / counts[targets])
        assert np.abs(relation.to_dense().numpy() - dense).max() < 1e-12
        assert relation.row_counts().tolist() == counts.tolist()
        assert relation.nnz == len(targets)
    assert structural.structural_relations(inputs, 6) is found


def test_relations_with_the_same_pairs_share_their_pattern():
    relations = structural.structural_relations(drawn_graph(2, nodes=40, density=0.4).inputs(), 4)
    shared = [a.pattern is b.pattern for a, b in itertools.pairwise(relations)]
    same_size = [a.nnz == b.nnz for a, b in itertools.pairwise(relations)]
    assert shared == same_size
    assert True in shared
    assert False in shared


def test_huge_distances_leave_weights_that_add_up_to_one():
    A = torch.zeros(3004, 3004, dtype=torch.float64)
    A[0, 4:2900], A[1, 2900:3000], A[2, 3000:3003] = 1, 1, 1
    inputs = Drawn(A, torch.ones(len(A), 1).double(), np.zeros(len(A), int)).inputs()
    for relation in structural.structural_relations(inputs, 3):
        weights = relation.scale(rows=relation.row_counts().double())
        sums = weights.column_sums()[relation.row_counts() > 0]
        assert (sums - 1).abs().max() < 1e-12
    indptr, indices = parts_of(A)
    pairs, _ = structural.unique_pairs(structural.choose_nodes(indptr))
    assert np.nanmax(structural.ring_distances(indptr, indices, pairs, 3)) > 800


def test_one_node_has_no_relations():
    inputs = Drawn(torch.zeros(1, 1), torch.ones(1, 1).double(), np.zeros(1, int)).inputs()
    assert structural.structural_relations(inputs, 3) == ()


def test_the_number_of_threads_changes_nothing(monkeypatch):
    indptr, indices = parts_of(drawn_graph(4, nodes=300, density=0.02).A)
    pairs, _ = structural.unique_pairs(structural.choose_nodes(indptr))
    monkeypatch.setattr(
        structural, "_blocks", lambda work: np.linspace(0, len(work), 8).astype(int)
    )
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(ncgnn._numba, "thread_count", lambda threads=threads: threads)
        found.append(structural.ring_distances(indptr, indices, pairs, 8))
    monkeypatch.undo()
    found.append(structural.ring_distances(indptr, indices, pairs, 8))
    for other in found[1:]:
        assert np.array_equal(found[0], other, equal_nan=True)


def dense_relations(inputs):
    return [r.to_dense() for r in structural.structural_relations(inputs, 5)]


def test_long_work_is_kept_on_disk(cache, monkeypatch):
    drawn = drawn_graph(1, nodes=40, density=0.05)
    expected = dense_relations(drawn.inputs())
    assert not cache.exists()
    monkeypatch.setattr(structural, "_WORTH_KEEPING", 0)
    dense_relations(drawn.inputs())
    (file,) = cache.iterdir()
    whole = file.read_bytes()

    def refuse(*_, **__):
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(structural, "ring_distances", refuse)
        found = dense_relations(drawn.inputs())
        assert all(map(torch.equal, found, expected))
        other = Drawn(drawn.A, drawn.X + 1, drawn.labels[::-1].copy())
        assert all(map(torch.equal, dense_relations(other.inputs()), expected))
        with pytest.raises(AssertionError, match="made again"):
            dense_relations(drawn_graph(2, nodes=40, density=0.05).inputs())
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 255
    for damaged in (b"", whole[:-30], whole[: len(whole) // 2], bytes(changed), b"no archive"):
        file.write_bytes(damaged)
        assert all(map(torch.equal, dense_relations(drawn.inputs()), expected))
        assert file.read_bytes() == whole


def test_arrays_of_another_shape_are_not_used(cache, monkeypatch):
    drawn = drawn_graph(1, nodes=40, density=0.05)
    expected = dense_relations(drawn.inputs())
    monkeypatch.setattr(structural, "_WORTH_KEEPING", 0)
    dense_relations(drawn.inputs())
    (file,) = cache.iterdir()
    shape = np.load(file)["distances"].shape
    for wrong in (np.zeros((3, 5)), np.zeros(shape, np.float32), np.array([{}], dtype=object)):
        np.savez(file, distances=wrong)
        assert all(map(torch.equal, dense_relations(drawn.inputs()), expected))


def test_a_cache_folder_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(structural, "_WORTH_KEEPING", 0)
    (tmp_path / "ncgnn").write_text("in the way")
    drawn = drawn_graph(1, nodes=40, density=0.05)
    with pytest.warns(NcgnnWarning, match="cannot be kept in .*structural") as warned:
        assert len(dense_relations(drawn.inputs())) == 5
    assert len(warned) == 1


def test_distances_are_kept_for_the_pairs_that_they_belong_to(cache, monkeypatch):
    monkeypatch.setattr(structural, "_WORTH_KEEPING", 0)
    indptr, indices = parts_of(drawn_graph(1, nodes=40, density=0.05).A)
    pairs, _ = structural.unique_pairs(structural.choose_nodes(indptr))
    for wanted in (pairs, pairs[::-1].copy(), pairs):
        found = structural._load_distances(indptr, indices, wanted, 3)
        expected = structural.ring_distances(indptr, indices, wanted, 3)
        assert np.array_equal(found, expected, equal_nan=True)
    assert len(list(cache.iterdir())) == 2


def test_relations_are_made_one_after_another():
    indptr, indices = parts_of(GRAPHS["dense"])
    chosen = structural.choose_nodes(indptr)
    pairs, pair_of = structural.unique_pairs(chosen)
    distances = structural.ring_distances(indptr, indices, pairs, 3)[pair_of]
    entries = structural.relation_entries(chosen, distances)
    first = next(entries)
    distances[:, 1] = np.nan  # nothing of the second relation was looked at yet
    assert len(first[1]) == 2 * chosen.size
    assert list(entries) == []


def test_progress_is_told_of_long_work_alone(monkeypatch, capsys, tmp_path):
    indptr, indices = parts_of(drawn_graph(4, nodes=300, density=0.02).A)
    pairs, _ = structural.unique_pairs(structural.choose_nodes(indptr))
    structural.ring_distances(indptr, indices, pairs, 3)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(structural, "_QUIET_SECONDS", 0)
    structural.ring_distances(indptr, indices, pairs, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"WRGAT: comparing {len(pairs)} pairs of nodes, " in err
    assert err.count("\n") == 1
    place = tmp_path / "[red]a[/] [/b] :dog: folder" / ("long " * 40) / "file"
    structural.ring_distances(indptr, indices, pairs, 3, place=place)
    out, err = capsys.readouterr()
    assert err.endswith(f"; done once, then kept in {place.parent}\n")
    assert err.count("\n") == 1


def test_large_graphs_get_fewer_rings(monkeypatch):
    inputs = drawn_graph(1).inputs()
    assert structural.ring_limit(inputs, None, 100) == 10
    assert structural.ring_limit(inputs, None, 4) == 4
    monkeypatch.setattr(structural, "_TOO_MANY", 100)
    for relations, wanted in ((100, 10), (4, 4)):
        words = f"3 rings.* instead of {wanted};.*the option rings"
        with pytest.warns(NcgnnWarning, match=words):
            assert structural.ring_limit(inputs, None, relations) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert structural.ring_limit(inputs, None, 3) == 3
        assert structural.ring_limit(inputs, None, 2) == 2
        assert structural.ring_limit(inputs, 7, 10) == 7
        assert structural.ring_limit(inputs, 7, 5) == 5
