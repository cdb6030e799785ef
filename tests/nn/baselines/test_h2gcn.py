"""H2GCN against dense matrices of distance one and two."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from baseline_checks import gradients, make
from drawn_graphs import CLASSES, drawn_graph
from scipy.sparse.csgraph import shortest_path

import ncgnn
from ncgnn.errors import InputError
from ncgnn.metrics import HopSearch
from ncgnn.nn import DropoutKey
from ncgnn.nn import base as _memory_guard
from ncgnn.nn.baselines import h2gcn
from ncgnn.nn.baselines.h2gcn import H2GCN, DistanceTwo, estimate_memory
from ncgnn.nn.functional import dropout

KEY = DropoutKey(3, 4)


def made(**options):
    return make(lambda: H2GCN(16, CLASSES, **({"hidden": 7} | options)))


def normalised(A):
    degree = A.sum(1)
    half = torch.where(degree > 0, degree.clamp(min=1) ** -0.5, 0.0)
    return half[:, None] * A * half


def at_distance(drawn, k):
    """By shortest paths, which the model does not use."""
    distances = shortest_path(drawn.A.numpy(), directed=False, unweighted=True)
    return torch.from_numpy((distances == k).astype(np.float64))


def search(adjacency):
    """A search of the nodes at distance two, and their numbers."""
    pattern = adjacency.pattern
    found = HopSearch(pattern.crow.numpy(), pattern.col.numpy(), 2, exactly=True)
    return found, found.sizes()


def dense_logits(model, drawn, key=None):
    """With the whole of R in one matrix."""
    hops = [normalised(at_distance(drawn, k)) for k in (1, 2)]
    levels = [torch.relu(drawn.X @ model.embedding.weight)]
    for _ in range(model.layers):
        levels.append(torch.cat([hop @ levels[-1] for hop in hops], dim=1))
    R = torch.cat(levels, dim=1)
    if key is not None:
        parts = R.split(levels[0].shape[1], dim=1)
        kept = [dropout(part, model.dropout, key.at(i)) for i, part in enumerate(parts)]
        R = torch.cat(kept, dim=1)
    return R @ model.readout


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_logits_and_gradients_are_those_of_dense_matrices(layers, key, directed, sparse):
    drawn = drawn_graph(2, directed=directed, sparse=sparse, density=0.1)
    model = made(layers=layers, dropout=0.3)
    found, expected = model(drawn.inputs(), None, key), dense_logits(model, drawn, key)
    assert (found - expected).abs().max() < 1e-9
    if key is not None:
        assert (found - model(drawn.inputs())).abs().max() > 1e-3
    for mine, theirs in zip(gradients(model, found), gradients(model, expected), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_last_layer_may_come_first(layers, monkeypatch):
    """Both orders, one after the other, on the same weights; nothing to be seen is dropped."""
    inputs, model = drawn_graph(2, density=0.1).inputs(), made(layers=layers)
    after = model(inputs)
    slopes = gradients(model, after)
    monkeypatch.setattr(h2gcn, "dropout", lambda part, rate, key: part)
    monkeypatch.setattr(h2gcn, "_read_out_first", None)
    before = model(inputs, None, KEY)
    assert (before - after).abs().max() < 1e-9
    for one, other in zip(gradients(model, before), slopes, strict=True):
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("block", [1, 20, 1 << 24])
@pytest.mark.parametrize("density", [0.0, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("directed", [True, False])
def test_pairs_at_distance_two(block, density, directed):
    drawn = drawn_graph(7, nodes=60, density=density, directed=directed)
    wanted = at_distance(drawn, 2)
    adjacency = drawn.inputs().undirected_adjacency
    found = DistanceTwo.of(*search(adjacency), adjacency.values, block)
    pattern = torch.cat([rows.to_dense() for rows in found.blocks])
    assert torch.equal(pattern, wanted)
    assert all(rows.pattern.col.dtype == torch.int32 for rows in found.blocks)
    assert sum(rows.nnz for rows in found.blocks) == int(wanted.sum())
    if block == 20 and wanted.sum() > 100:
        assert len(found.blocks) > 4
        assert all(rows.nnz < 20 + 60 for rows in found.blocks)
    memory = {rows.values.untyped_storage().data_ptr() for rows in found.blocks if rows.nnz}
    assert len(memory) <= 1
    X = torch.randn(60, 5, dtype=torch.float64, requires_grad=True)
    G = torch.randn(60, 5, dtype=torch.float64)
    assert (found @ X - normalised(wanted) @ X).abs().max() < 1e-9
    (slope,) = torch.autograd.grad(found @ X, X, G)
    assert (slope - normalised(wanted) @ G).abs().max() < 1e-9


def test_neighbours_of_neighbours_that_are_neighbours_are_not_at_distance_two():
    triangle_with_tail = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
    graph = ncgnn.Graph.from_edge_index(
        triangle_with_tail, features=np.eye(4), require_labels=False
    )
    adjacency = ncgnn.nn.GraphInputs(graph).undirected_adjacency
    assert search(adjacency)[1].tolist() == [1, 1, 0, 2]
    found = DistanceTwo.of(*search(adjacency), adjacency.values)
    places = torch.nonzero(torch.cat([rows.to_dense() for rows in found.blocks])).tolist()
    assert places == [[0, 3], [1, 3], [3, 0], [3, 1]]


def test_pairs_are_found_once_per_graph(monkeypatch):
    inputs, calls, of = drawn_graph(2).inputs(), [], DistanceTwo.of
    monkeypatch.setattr(DistanceTwo, "of", lambda *given: calls.append(given) or of(*given))
    for model in (made(), made(layers=1)):
        model(inputs)
        model(inputs, None, KEY)
    assert len(calls) == 1


def test_too_little_memory_is_said_before_it_is_taken(monkeypatch):
    inputs = drawn_graph(2).inputs()
    pairs = search(inputs.undirected_adjacency)[1].sum()

    def made_too_early(*given):
        raise AssertionError("the pairs are stored before they are known to fit")

    monkeypatch.setattr(DistanceTwo, "of", made_too_early)
    words = rf"{pairs} pairs .* GiB, .* allowed.* hidden, .*memory_limit"
    with pytest.raises(InputError, match=words):
        made(memory_limit=1e-9)(inputs)
    monkeypatch.setattr(_memory_guard, "available_gib", lambda: 1e-9)
    with pytest.raises(InputError, match="are available"):
        made()(inputs, None, KEY)
    monkeypatch.undo()
    assert made(memory_limit=1e-3)(inputs).shape == (13, CLASSES)
    with pytest.raises(InputError, match="memory_limit"):
        made(memory_limit=0)


def test_memory_of_known_graphs():
    cornell = estimate_memory(88_621_282, 18_660, 512)
    assert 1 < cornell < 4  # of 16 GiB
    pattern = 88_621_282 * 4 / 2**30
    assert cornell > pattern + 8 * 18_660 * 512 * 4 / 2**30
    assert estimate_memory(4_000_000_000, 41_554, 512) > 4_000_000_000 * 8 / 2**30
    small, wide = estimate_memory(10, 18_660, 64), estimate_memory(10, 18_660, 128)
    assert wide == pytest.approx(2 * small, rel=1e-3)
    assert estimate_memory(10, 18_660, 64, bytes_per_float=8) == pytest.approx(2 * small, rel=1e-3)
    assert estimate_memory(10, 18_660, 64, layers=1) < small


@pytest.mark.parametrize(("layers", "parts"), [(1, 3), (2, 7)])
def test_training_saves_one_array_per_part(layers, parts):
    """And the embedding."""
    nodes, hidden = 60, 32
    inputs = drawn_graph(4, nodes=nodes, density=0.05).inputs()
    model = made(hidden=hidden, layers=layers).train()
    saved = {}
    hooks = (lambda given: saved.setdefault(given.data_ptr(), given), lambda given: given)
    with torch.autograd.graph.saved_tensors_hooks(*hooks):
        logits = model(inputs, None, KEY)
    of_model = model.readout.untyped_storage().data_ptr()
    sizes = [
        given.numel() for given in saved.values() if given.untyped_storage().data_ptr() != of_model
    ]
    assert logits.requires_grad
    large = [size for size in sizes if size >= nodes * hidden]
    assert large == [nodes * hidden] * (parts + 1)
    assert sum(sizes) < (parts + 1.1) * nodes * hidden


def test_parts_are_dropped_as_they_are_made(monkeypatch):
    """At no time is there more than one part of each level beside what is saved."""
    alive, most = set(), []

    def watched(part, rate, key):
        alive.add(id(part))
        weakref.finalize(part, alive.discard, id(part))
        most.append(len(alive))
        return dropout(part, rate, key)

    monkeypatch.setattr(h2gcn, "dropout", watched)
    made()(drawn_graph(2).inputs(), None, KEY)
    assert len(most) == 7
    assert max(most) == 3


def test_widths_and_options():
    assert H2GCN(16, CLASSES).readout.shape == (7 * 512, CLASSES)
    assert H2GCN(16, CLASSES, layers=1).readout.shape == (3 * 512, CLASSES)
    assert {name for name, _ in made().named_parameters()} == {"embedding.weight", "readout"}
    with pytest.raises(InputError, match="layers"):
        H2GCN(16, CLASSES, layers=3)
