"""WRGAT and its multigraph of similar nodes against dense matrices and plain Python."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, Drawn, drawn_graph
from torch.nn.functional import leaky_relu

import ncgnn
import ncgnn._numba
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines import wrgat
from ncgnn.nn.baselines.wrgat import WRGAT
from ncgnn.sparse.matrix import ConstantSparse


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
def test_nodes_are_chosen_by_degree(name):
    indptr, _ = parts_of(GRAPHS[name])
    found = wrgat.choose_nodes(indptr).tolist()
    assert found == plain_choice(neighbours_of(GRAPHS[name]))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("depth", [1, 3, 10])
def test_rings(name, depth):
    A = GRAPHS[name]
    progress = wrgat._Progress("", None)
    starts, degrees, counts = wrgat.find_rings(*parts_of(A), depth, progress)
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
                end = wrgat._ring_from_outside(*graph, stop, k)
            else:
                end = wrgat._ring_from_inside(*graph, begin, stop, k)
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
        found = wrgat.warp(*lists[0], *lists[1], *scratch)
        plain = [list(zip(*(part.tolist() for part in parts), strict=True)) for parts in lists]
        assert found == plain_warping(*plain)
        assert found == wrgat.warp(*lists[1], *lists[0], *scratch)


@pytest.mark.parametrize("name", GRAPHS)
def test_relations(name):
    A = GRAPHS[name]
    inputs = Drawn(A, torch.ones(len(A), 1).double(), np.zeros(len(A), int)).inputs()
    found = wrgat.build_relations(inputs, 6)
    expected = plain_relations(A, 6)
    assert len(found) == len(expected) > 0
    for relation, (targets, sources, weights) in zip(found, expected, strict=True):
        counts = np.bincount(targets, minlength=len(A))
        dense = np.zeros(A.shape)
        np.add.at(dense, (targets, sources), weights / counts[targets])
        assert np.abs(relation.to_dense().numpy() - dense).max() < 1e-12
        assert relation.row_counts().tolist() == counts.tolist()
        assert relation.nnz == len(targets)


def test_relations_with_the_same_pairs_share_their_pattern():
    relations = wrgat.build_relations(drawn_graph(2, nodes=40, density=0.4).inputs(), 4)
    shared = [a.pattern is b.pattern for a, b in itertools.pairwise(relations)]
    same_size = [a.nnz == b.nnz for a, b in itertools.pairwise(relations)]
    assert shared == same_size
    assert True in shared
    assert False in shared


def test_huge_distances_leave_weights_that_add_up_to_one():
    A = torch.zeros(3004, 3004, dtype=torch.float64)
    A[0, 4:2900], A[1, 2900:3000], A[2, 3000:3003] = 1, 1, 1
    inputs = Drawn(A, torch.ones(len(A), 1).double(), np.zeros(len(A), int)).inputs()
    for relation in wrgat.build_relations(inputs, 3):
        weights = relation.scale(rows=relation.row_counts().double())
        sums = weights.column_sums()[relation.row_counts() > 0]
        assert (sums - 1).abs().max() < 1e-12
    indptr, indices = parts_of(A)
    pairs, _ = wrgat.find_pairs(wrgat.choose_nodes(indptr))
    assert np.nanmax(wrgat.compare_rings(indptr, indices, pairs, 3)) > 800


def test_one_node_has_no_relations():
    inputs = Drawn(torch.zeros(1, 1), torch.ones(1, 1).double(), np.zeros(1, int)).inputs()
    assert wrgat.build_relations(inputs, 3) == ()


def test_the_number_of_threads_changes_nothing(monkeypatch):
    indptr, indices = parts_of(drawn_graph(4, nodes=300, density=0.02).A)
    pairs, _ = wrgat.find_pairs(wrgat.choose_nodes(indptr))
    monkeypatch.setattr(wrgat, "_blocks", lambda work: np.linspace(0, len(work), 8).astype(int))
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(ncgnn._numba, "thread_count", lambda threads=threads: threads)
        found.append(wrgat.compare_rings(indptr, indices, pairs, 8))
    monkeypatch.undo()
    found.append(wrgat.compare_rings(indptr, indices, pairs, 8))
    for other in found[1:]:
        assert np.array_equal(found[0], other, equal_nan=True)


def dense_relations(inputs):
    return [r.to_dense() for r in wrgat.build_relations(inputs, 5)]


def test_long_work_is_kept_on_disk(cache, monkeypatch):
    drawn = drawn_graph(1, nodes=40, density=0.05)
    expected = dense_relations(drawn.inputs())
    assert not cache.exists()
    monkeypatch.setattr(wrgat, "_WORTH_KEEPING", 0)
    dense_relations(drawn.inputs())
    (file,) = cache.iterdir()
    whole = file.read_bytes()

    def refuse(*_, **__):
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(wrgat, "compare_rings", refuse)
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
    monkeypatch.setattr(wrgat, "_WORTH_KEEPING", 0)
    dense_relations(drawn.inputs())
    (file,) = cache.iterdir()
    shape = np.load(file)["distances"].shape
    for wrong in (np.zeros((3, 5)), np.zeros(shape, np.float32), np.array([{}], dtype=object)):
        np.savez(file, distances=wrong)
        assert all(map(torch.equal, dense_relations(drawn.inputs()), expected))


def test_a_cache_folder_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(wrgat, "_WORTH_KEEPING", 0)
    (tmp_path / "ncgnn").write_text("in the way")
    drawn = drawn_graph(1, nodes=40, density=0.05)
    with pytest.warns(NcgnnWarning, match="cannot be kept in .*structural") as warned:
        assert len(dense_relations(drawn.inputs())) == 5
    assert len(warned) == 1


def test_distances_are_kept_for_the_pairs_that_they_belong_to(cache, monkeypatch):
    monkeypatch.setattr(wrgat, "_WORTH_KEEPING", 0)
    indptr, indices = parts_of(drawn_graph(1, nodes=40, density=0.05).A)
    pairs, _ = wrgat.find_pairs(wrgat.choose_nodes(indptr))
    for wanted in (pairs, pairs[::-1].copy(), pairs):
        found = wrgat._load_distances(indptr, indices, wanted, 3)
        expected = wrgat.compare_rings(indptr, indices, wanted, 3)
        assert np.array_equal(found, expected, equal_nan=True)
    assert len(list(cache.iterdir())) == 2


def test_progress_is_told_of_long_work_alone(monkeypatch, capsys, tmp_path):
    indptr, indices = parts_of(drawn_graph(4, nodes=300, density=0.02).A)
    pairs, _ = wrgat.find_pairs(wrgat.choose_nodes(indptr))
    wrgat.compare_rings(indptr, indices, pairs, 3)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(wrgat, "_QUIET_SECONDS", 0)
    wrgat.compare_rings(indptr, indices, pairs, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"WRGAT: comparing {len(pairs)} pairs of nodes, " in err
    assert err.count("\n") == 1
    place = tmp_path / "[red]a[/] [/b] :dog: folder" / ("long " * 40) / "file"
    wrgat.compare_rings(indptr, indices, pairs, 3, place=place)
    out, err = capsys.readouterr()
    assert err.endswith(f"; done once, then kept in {place.parent}\n")
    assert err.count("\n") == 1


def test_large_graphs_get_fewer_rings(monkeypatch):
    inputs = drawn_graph(1).inputs()
    assert wrgat.limit_rings(inputs, None, 100) == 10
    assert wrgat.limit_rings(inputs, None, 4) == 4
    monkeypatch.setattr(wrgat, "_TOO_MANY", 100)
    for relations, wanted in ((100, 10), (4, 4)):
        words = f"3 rings.* instead of {wanted};.*the option rings"
        with pytest.warns(NcgnnWarning, match=words):
            assert wrgat.limit_rings(inputs, None, relations) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wrgat.limit_rings(inputs, None, 3) == 3
        assert wrgat.limit_rings(inputs, None, 2) == 2
        assert wrgat.limit_rings(inputs, 7, 10) == 7
        assert wrgat.limit_rings(inputs, 7, 5) == 5


def made(**options):
    return make(lambda: WRGAT(16, CLASSES, **{"hidden": 6, "relations": 4, **options}))


def reference_layer(layer, x, relations):
    """Straight from the formula, edge by edge."""
    total = x @ layer.root + layer.bias
    for r, (targets, sources, weights) in enumerate(relations):
        h, a = x @ layer.weight[r], layer.attention[r].flatten()
        rows = []
        for i in range(len(x)):
            edges = np.flatnonzero(targets == i)
            if not len(edges):
                rows.append(torch.zeros_like(h[0]))
                continue
            h_j = h[sources[edges]]
            pairs = torch.cat([h[i].expand_as(h_j), h_j], dim=1)
            shares = torch.softmax(leaky_relu(pairs @ a, 0.2), dim=0)
            w = torch.from_numpy(weights[edges])
            rows.append(((w * shares)[:, None] * h_j).mean(0))
        total = total + torch.stack(rows)
    return total


def reference(model, drawn, depth, original=False):
    relations = plain_relations(drawn.A, depth)
    if original:
        targets, sources = torch.nonzero(drawn.A).t().numpy()
        relations = [(targets, sources, np.ones(len(targets))), *relations]
    hidden = torch.relu(reference_layer(model.first, drawn.X, relations))
    return reference_layer(model.second, hidden, relations)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("options", "depth"),
    [
        ({}, 4),
        ({"relations": 9}, 9),
        ({"rings": 2}, 2),
        ({"hidden": 40}, 4),
        ({"hidden": 5, "relations": 3}, 3),
        ({"original_edges": True}, 4),
    ],
)
def test_logits_and_gradients(directed, sparse, options, depth):
    drawn = drawn_graph(5, directed=directed, sparse=sparse)
    model = made(**options)
    expected = reference(model, drawn, depth, options.get("original_edges", False))
    found = model(drawn.inputs())
    assert (found - expected).abs().max() < 1e-9
    weights = torch.randn_like(expected)
    parameters = list(model.parameters())
    wanted = torch.autograd.grad((expected * weights).sum(), parameters)
    for mine, theirs in zip(
        torch.autograd.grad((found * weights).sum(), parameters), wanted, strict=True
    ):
        assert (mine - theirs).abs().max() < 1e-9


@pytest.mark.parametrize("hidden", [6, 40])
def test_frozen_parameters_get_no_gradient(hidden):
    drawn = drawn_graph(5)
    model = made(hidden=hidden)
    expected = torch.autograd.grad(model(drawn.inputs()).square().sum(), model.first.attention)[0]
    model.requires_grad_(False)
    model.first.attention.requires_grad_(True)
    model(drawn.inputs()).square().sum().backward()
    assert torch.allclose(model.first.attention.grad, expected)
    assert model.first.weight.grad is None


@pytest.mark.parametrize("sparse", [True, False])
def test_a_graph_without_relations_is_seen_by_its_features_alone(sparse):
    drawn = drawn_graph(5, sparse=sparse)
    layer = made(relations=3).first.double()
    found = layer(drawn.inputs().features, ())
    assert (found - (drawn.X @ layer.root + layer.bias)).abs().max() < 1e-9


def test_relations_that_a_graph_lacks_get_zero_gradients():
    model = made(relations=10)
    inputs = drawn_graph(5).inputs()
    there = len(model.relations(inputs))
    assert model.relations(inputs)[0] is model.relations(inputs)[0]
    assert 1 < there < 10
    model(inputs).square().sum().backward()
    assert (model.first.weight.grad[there:] == 0).all()
    assert (model.first.weight.grad[:there] != 0).any(dim=2).any(dim=1).all()


def test_training_keeps_the_activations_of_no_relation():
    # So many features that the products of all relations together are narrower.
    inputs = drawn_graph(2, nodes=60, density=0.05, features=200).inputs()

    def kept(relations):
        sizes = {}

        def pack(tensor):
            if tensor.shape == (60, 31):
                sizes[tensor.data_ptr()] = True
            return tensor

        model = WRGAT(inputs.num_features, CLASSES, hidden=31, relations=relations).double()
        assert len(model.relations(inputs)) == relations
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = model(inputs, key=DropoutKey(0, 0))
            assert logits.requires_grad
            return len(sizes)

    assert kept(5) == kept(1)


def test_sparse_features_stay_sparse(monkeypatch):
    inputs = drawn_graph(5).inputs()
    assert isinstance(inputs.features, ConstantSparse)

    def refuse(*_):
        raise AssertionError("dense")

    monkeypatch.setattr(ConstantSparse, "to_dense", refuse)
    made()(inputs).sum().backward()


def test_dropout_is_keyed_and_copies_agree():
    model, inputs = made(), drawn_graph(5).inputs()
    keyed = [model(inputs, None, DropoutKey(0, step)) for step in (1, 1, 2)]
    assert torch.equal(keyed[0], keyed[1])
    assert not torch.equal(keyed[0], keyed[2])
    expected = model(inputs)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(inputs), expected)


def test_initialisation():
    layer = WRGAT(40, CLASSES, hidden=50, relations=4).first
    for parameter, fans in ((layer.weight, 90), (layer.root, 90), (layer.attention, 104)):
        bound = (6 / fans) ** 0.5
        assert 0.9 * bound < parameter.abs().max() <= bound
    assert (layer.bias == 0).all()


def test_options():
    assert WRGAT.Options().model_dump() == {
        "hidden": 512,
        "dropout": 0.5,
        "relations": 10,
        "rings": None,
        "original_edges": False,
    }
    assert made(original_edges=True).first.weight.shape[0] == 5
    with pytest.raises(InputError, match="relations"):
        WRGAT(4, 2, relations=0)


def test_it_trains():
    trained = ncgnn.fit(ncgnn.load("digits"), "wrgat", hidden=16, epochs=5)
    assert len(trained.history) == 5
    assert trained.history[-1]["loss"] < trained.history[0]["loss"]


@pytest.mark.slow
def test_it_learns_digits():
    trained = ncgnn.fit(ncgnn.load("digits"), "wrgat", hidden=16, epochs=60)
    assert trained.evaluate()["scores"]["test"]["accuracy"] > 0.4
