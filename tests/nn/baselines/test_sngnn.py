"""SNGNN against its formulas with dense matrices."""

from __future__ import annotations

import copy

import pytest
import torch
from baseline_checks import make
from drawn_graphs import CLASSES, drawn_graph

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import DropoutKey
from ncgnn.nn.baselines.sngnn import SNGNN, mark_most_similar
from ncgnn.nn.functional import relu_dropout
from ncgnn.sparse.matrix import SparsePattern

VARIANTS = ["plain", "plus", "plusplus"]


def made(inputs, **options):
    return make(lambda: SNGNN.for_inputs(inputs, **{"hidden": 6, **options}))


def dense_layer(model, layer, A, u):
    """One layer, node by node."""
    options, mixing = model.options, model.mixings[layer]
    if options.self_loops or options.variant == "plain":
        A = A + torch.eye(len(A))
    unit = u / u.norm(dim=1, keepdim=True)
    known, rows = (unit @ unit.T).detach(), []
    for i in range(len(A)):
        everyone = torch.nonzero(A[i]).flatten().tolist()
        near = sorted(everyone, key=lambda j: -known[i, j].item())
        if options.variant != "plain":
            least = options.similarity_threshold
            near = [j for j in near if known[i, j] >= least][: options.top_k]
        messages = [(unit[i] @ unit[j]) * u[j] for j in near]
        rows.append(sum(messages, torch.zeros_like(u[i])) / max(1, len(everyone)))
    mean = torch.stack(rows)
    if options.variant == "plain":
        return mean + mixing.bias
    if options.variant == "plus":
        return mean
    beta = mixing.beta
    return beta * (A @ mixing.nodes.weight + mixing.nodes.bias) + (1 - beta) * mean


def dense_logits(model, drawn):
    first, *others = model.linears
    x = dense_layer(model, 0, drawn.A, drawn.X @ first.weight + first.bias)
    for layer, linear in enumerate(others, start=1):
        x = dense_layer(model, layer, drawn.A, linear(torch.relu(x)))
    return x


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
def test_logits_and_gradients_are_those_of_the_formula(
    directed, sparse, variant, self_loops, layers
):
    drawn = drawn_graph(3, directed=directed, sparse=sparse, density=0.4)
    inputs = drawn.inputs()
    options = {"top_k": 2, "similarity_threshold": 0.1, "layers": layers}
    model = made(inputs, variant=variant, self_loops=self_loops, **options)
    found, expected = model(inputs), dense_logits(model, drawn)
    assert (found - expected).abs().max() < 1e-9
    gradient = torch.randn_like(found)
    parameters = list(model.parameters())
    mine = torch.autograd.grad(found, parameters, gradient)
    theirs = torch.autograd.grad(expected, parameters, gradient)
    for one, other in zip(mine, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("top_k", [1, 2, 5, 100])
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("ties", [True, False])
def test_the_most_similar_of_each_row(top_k, threshold, ties):
    torch.manual_seed(1)
    present = torch.rand(40, 40) < 0.3
    present[7] = False
    similarity = torch.rand(40, 40) * 2 - 1
    if ties:
        similarity = (similarity * 3).round() / 3
    pattern = SparsePattern.from_edge_index(torch.nonzero(present).t().flip(0), 40)
    wanted = torch.zeros(40, 40)
    for i in range(40):
        near = torch.nonzero(present[i]).flatten().tolist()
        near = [j for j in near if similarity[i, j] >= threshold]
        near = sorted(near, key=lambda j: float(-similarity[i, j]))
        wanted[i, near[:top_k]] = 1
    source, target = pattern.edge_index
    found = mark_most_similar(pattern, similarity[target, source], top_k, threshold)
    assert torch.equal(found, wanted[target, source])
    assert 0 < found.sum() < pattern.nnz or threshold == 1 or top_k == 100


def test_the_mean_is_over_all_neighbours():
    """One neighbour of three counts, and gets a third."""
    edges = torch.tensor([[1, 2, 3], [0, 0, 0]])
    features = torch.tensor([[1.0, 0], [2, 0], [0, 1], [-1, 0]]).double().numpy()
    graph = ncgnn.Graph.from_edge_index(edges, features=features, require_labels=False)
    model = SNGNN(2, 2, variant="plus", self_loops=False).double()
    model.linears[0].weight.data = torch.eye(2).double()
    model.linears[0].bias.data.zero_()
    expected = torch.zeros(4, 2).double()
    expected[0, 0] = 2 / 3
    assert torch.allclose(model(graph), expected)


def test_dropout_between_layers():
    drawn, key = drawn_graph(3, sparse=False), DropoutKey(1, 2)
    inputs = drawn.inputs()
    model = made(inputs, variant="plusplus", layers=2, dropout=0.4, similarity_threshold=0.1)
    first, second = model.linears
    x = dense_layer(model, 0, drawn.A, drawn.X @ first.weight + first.bias)
    x = second(relu_dropout(x, 0.4, key.at(1)))
    expected = dense_layer(model, 1, drawn.A, x)
    assert (model(inputs, None, key) - expected).abs().max() < 1e-9
    alone = made(inputs, layers=1)
    assert torch.equal(alone(inputs, None, key), alone(inputs))


def test_renamed_nodes_with_renamed_weights():
    drawn = drawn_graph(2, sparse=False, density=0.5)
    model = made(drawn.inputs(), variant="plusplus", layers=2, top_k=2, similarity_threshold=0.0)
    order = torch.randperm(drawn.num_nodes)
    renamed = copy.deepcopy(model)
    for one, other in zip(renamed.mixings, model.mixings, strict=True):
        one.nodes.weight.data = other.nodes.weight.data[order]
    moved = drawn.permuted(order).inputs()
    expected = model(drawn.inputs())[order]
    assert (renamed(moved) - expected).abs().max() < 1e-9
    assert (model(moved) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("variant", VARIANTS)
def test_another_number_of_nodes(variant):
    model, other = made(drawn_graph(2).inputs(), variant=variant), drawn_graph(2, nodes=9).inputs()
    if variant != "plusplus":
        assert model(other).shape == (9, CLASSES)
        return
    with pytest.raises(InputError, match="weights for the 13 nodes of its graph; this graph has 9"):
        model(other)


def test_what_each_variant_has():
    def names(variant):
        return {name for name, _ in SNGNN(4, 2, num_nodes=9, variant=variant).named_parameters()}

    plus = {"linears.0.weight", "linears.0.bias"}
    assert names("plus") == plus
    assert names("plain") == plus | {"mixings.0.bias"}
    more = {"mixings.0.beta", "mixings.0.nodes.weight", "mixings.0.nodes.bias"}
    assert names("plusplus") == plus | more
    assert SNGNN(4, 2).options.variant == "plus"
    model = SNGNN(4, 2, num_nodes=9, variant="plusplus", init_beta=0.3)
    assert model.mixings[0].beta.item() == pytest.approx(0.3)
    with pytest.raises(InputError, match="num_nodes"):
        SNGNN(4, 2, variant="plusplus")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_row_of_zeros_has_finite_gradients(variant):
    """Its cosines have no derivative; nothing like 1/eps may come of that."""
    inputs = drawn_graph(3).inputs()
    model = made(inputs, variant=variant, similarity_threshold=-0.5)
    with torch.no_grad():
        model.linears[0].weight.zero_()
        model.linears[0].bias.zero_()
    model(inputs).sum().backward()
    assert all(p.grad.abs().max() < 1e6 for p in model.parameters() if p.grad is not None)
