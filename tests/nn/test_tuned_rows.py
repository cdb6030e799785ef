"""Tuned models compute for few nodes what they compute for all."""

import numpy as np
import pytest
import torch

import ncgnn
from ncgnn.graph import Graph
from ncgnn.nn import GraphInputs, model_class


def directed_graph(sparse):
    random = np.random.default_rng(1)
    edges = random.integers(400, size=(2, 500))
    features = random.random((400, 30)) * (random.random((400, 30)) < (0.1 if sparse else 1.0))
    weights = random.random(500) + 0.5
    return Graph.from_edge_index(
        edges, labels=random.integers(3, size=400), features=features, edge_weights=weights
    )


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("direction", ["incoming", "both", "separate"])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("name", ["tuned-gcn", "tuned-sage"])
def test_few_rows_are_those_of_all(name, direction, sparse, residual):
    inputs = GraphInputs(directed_graph(sparse), dtype=torch.float64)
    options = {"hidden": 8, "layers": 2, "direction": direction, "residual": residual}
    model = model_class(name).for_inputs(inputs, **options).double().eval()
    nodes = torch.tensor([7, 3, 399])
    with torch.no_grad():
        rows = model._needed(inputs, nodes)
        assert rows is not None
        assert len(rows[0]) < 200
        found = model(inputs, None, None, nodes)
        assert torch.allclose(found, model(inputs)[nodes], atol=1e-12)
    assert torch.equal(model(inputs, None, None, nodes), model(inputs)[nodes])


def test_new_nodes_are_answered_alike_whole_or_in_their_field():
    graph = directed_graph(True)
    trained = ncgnn.fit(
        graph, "tuned-sage", hidden=8, epochs=3, layers=2, direction="separate", calibration="none"
    )
    later = graph.extend(np.eye(30)[:2], [[400, 5, 401], [3, 400, 400]])
    answers = trained.predict(later, only="new", probabilities=True).table.to_pydict()
    with torch.no_grad():
        logits = trained.model.eval()(GraphInputs(later))[-2:]
    expected = torch.softmax(logits.double(), dim=1).numpy()
    columns = [answers[name] for name in answers if name.startswith("probability_")]
    assert np.allclose(np.stack(columns, axis=1), expected, atol=1e-6)
