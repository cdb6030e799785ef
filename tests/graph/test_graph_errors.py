"""Every mistake gets one sentence that names the field."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ncgnn.errors import InputError, NcgnnError
from ncgnn.graph import Graph

EDGES = np.array([[0, 1, 2], [1, 2, 0]])
LABELS = [0, 1, 1]


def build(**fields):
    edges = fields.pop("edge_index", EDGES)
    return Graph.from_edge_index(edges, **({"labels": LABELS} | fields))


def dense(place, value):
    features = np.zeros((3, 4))
    features[place] = value
    return features


def stored(place, value):
    """A CSR matrix that holds a value, among others before it."""
    features = np.eye(3, 4)
    features[place] = value
    return csr_array(features)


MISTAKES = {
    # Edges.
    "source too large": (lambda: build(edge_index=[[3], [0]]), "edge_index names node 3"),
    "target too large": (lambda: build(edge_index=[[0], [7]]), "edge_index names node 7"),
    "source negative": (lambda: build(edge_index=[[-1], [0]]), "edge_index names node -1"),
    "target negative": (lambda: build(edge_index=[[0], [-5]]), "edge_index names node -5"),
    "too few nodes": (
        lambda: Graph.from_edge_index(EDGES, num_nodes=2, labels=[0, 1]),
        "edge_index names node 2",
    ),
    "edges in rows": (
        lambda: build(edge_index=EDGES.T),
        r"edge_index .* got \[3, 2\]",
    ),
    "edges in a vector": (
        lambda: build(edge_index=[0, 1]),
        r"edge_index .* got \[2\]",
    ),
    "edges with weights": (
        lambda: build(edge_index=np.zeros((3, 5), dtype=int)),
        r"edge_index .* got \[3, 5\]",
    ),
    "edges in a cube": (
        lambda: build(edge_index=np.zeros((2, 2, 2), dtype=int)),
        r"edge_index .* got \[2, 2, 2\]",
    ),
    "edges not whole": (
        lambda: build(edge_index=[[0.5], [1.0]]),
        "edge_index .* got float64",
    ),
    "edges true or false": (lambda: build(edge_index=[[True], [False]]), "edge_index .*bool"),
    "edges undefined": (
        lambda: Graph.from_edge_index(np.array([[np.nan], [0]]), require_labels=False),
        "edge_index",
    ),
    "edges with names": (
        lambda: Graph.from_edge_index([["a"], ["b"]], require_labels=False),
        "edge_index",
    ),
    "edges absent": (lambda: Graph.from_edge_index(None, require_labels=False), "edge_index"),
    # Nodes.
    "no nodes, no edges": (lambda: Graph.from_edge_index(np.zeros((2, 0), int)), "empty"),
    "no labels in the vector": (lambda: build(edge_index=[[], []], labels=[]), "empty"),
    "zero nodes": (lambda: build(edge_index=[[], []], labels=None, num_nodes=0), "empty"),
    "empty CSR": (lambda: Graph.from_csr([0], []), "empty"),
    "empty scipy matrix": (lambda: Graph.from_scipy(csr_array((0, 0))), "empty"),
    "empty NetworkX graph": (lambda: Graph.from_networkx(nx.Graph()), "empty"),
    # Labels.
    "no labels": (lambda: build(labels=None), "no labels"),
    "all unlabeled": (lambda: build(labels=[-1, -1, -1]), "no labels"),
    "too few labels": (
        lambda: build(labels=[0, 1], num_nodes=3),
        r"labels have shape \[2\].* 3 nodes",
    ),
    "too many labels": (
        lambda: build(labels=[0, 1, 0, 1], num_nodes=3),
        r"labels have shape \[4\].* 3 nodes",
    ),
    "one label": (lambda: build(labels=0), "labels"),
    "one label in an array": (lambda: build(labels=np.array(0)), "labels"),
    "parts of classes": (lambda: build(labels=[0.5, 1.0, 1.0]), "labels must be .* got float64"),
    "infinite labels": (lambda: build(labels=[0.0, np.inf, 1.0]), "labels must be .* got float64"),
    "one-hot labels": (lambda: build(labels=np.eye(3)), r"labels have shape \[3, 3\].*argmax"),
    "label below -1": (lambda: build(labels=[0, -2, 1]), "labels contain -2"),
    "label beyond the classes": (
        lambda: build(labels=[0, 4, 1], num_classes=3),
        "class 4, but num_classes is 3",
    ),
    "classes with gaps": (lambda: build(labels=[0, 5000, 1]), "labels reach 5000 .* 3 nodes"),
    "too few class names": (lambda: build(class_names=["a"]), "1 class names .* 2 classes"),
    "too many class names": (
        lambda: build(class_names=["a", "b", "c"], num_classes=2),
        "3 class names .* 2 classes",
    ),
    # Features.
    "too few rows": (lambda: build(features=np.ones((2, 4))), r"features have shape \[2, 4\]"),
    "too few sparse rows": (
        lambda: build(features=csr_array((2, 4))),
        r"features have shape \[2, 4\]",
    ),
    "features in a vector": (lambda: build(features=np.ones(3)), r"features have shape \[3\]"),
    "features in a cube": (
        lambda: build(features=np.ones((3, 1, 1))),
        r"features have shape \[3, 1, 1\]",
    ),
    "NaN": (lambda: build(features=dense((1, 2), np.nan)), "features .*NaN.* node 1"),
    "infinite": (lambda: build(features=dense((2, 0), np.inf)), "features .*infinite.* node 2"),
    "minus infinite": (lambda: build(features=dense((0, 0), -np.inf)), "features .* node 0"),
    "sparse NaN": (lambda: build(features=stored((1, 3), np.nan)), "features .*NaN.* node 1"),
    "sparse infinite": (lambda: build(features=stored((2, 0), np.inf)), "features .* node 2"),
    "small NaN": (
        lambda: build(features=dense((1, 1), np.nan).astype(np.float16)),
        "features .* node 1",
    ),
    "NaN in a tensor": (
        lambda: build(features=torch.from_numpy(dense((2, 2), np.nan))),
        "features .* node 2",
    ),
    "words as features": (
        lambda: build(features=[["a"], ["b"], ["c"]]),
        "features must be num",
    ),
    "objects as features": (
        lambda: build(features=np.array([[None], [1], [2]], dtype=object)),
        "features must be numbers; got object",
    ),
    "complex features": (lambda: build(features=np.ones((3, 1)) * 1j), "features .*complex"),
    "ragged features": (lambda: build(features=[[1.0], [1.0, 2.0], [1.0]]), "features"),
    # Identifiers.
    "too few identifiers": (
        lambda: build(node_ids=["a", "b"]),
        r"node_ids .* got \[2\]",
    ),
    "repeated identifiers": (lambda: build(node_ids=["a", "b", "a"]), "node_ids .*twice"),
    "repeated object identifiers": (
        lambda: build(node_ids=np.array([1, "1", 2], dtype=object)),
        "node_ids .*twice",
    ),
    # CSR arrays.
    "indptr not from zero": (lambda: Graph.from_csr([1, 2, 2], [0, 1], labels=[0, 0]), "indptr"),
    "indptr too short a way": (lambda: Graph.from_csr([0, 1, 1], [0, 1], labels=[0, 0]), "indptr"),
    "indptr beyond": (lambda: Graph.from_csr([0, 1, 3], [0, 1], labels=[0, 0]), "indptr"),
    "indptr falling": (lambda: Graph.from_csr([0, 2, 1, 2], [0, 1], labels=[0] * 3), "indptr"),
    "indptr absent": (lambda: Graph.from_csr([], []), "indptr"),
    "indptr a matrix": (lambda: Graph.from_csr([[0, 1]], [0], labels=[0]), "indptr"),
    "indices a matrix": (lambda: Graph.from_csr([0, 1], [[0]], labels=[0]), "indices"),
    "index too large": (
        lambda: Graph.from_csr([0, 1, 1], [2], labels=[0, 0]),
        "indices names node 2",
    ),
    "index negative": (
        lambda: Graph.from_csr([0, 1, 1], [-1], labels=[0, 0]),
        "indices names node -1",
    ),
    "index not whole": (lambda: Graph.from_csr([0, 1, 1], [0.5], labels=[0, 0]), "indices"),
    "index undefined": (lambda: Graph.from_csr([0, 1, 1], [np.nan], labels=[0, 0]), "indices"),
    "indptr not whole": (lambda: Graph.from_csr([0, 0.5, 1], [0], labels=[0, 0]), "indptr"),
    # Other forms.
    "dense adjacency": (lambda: Graph.from_scipy(np.eye(3), labels=LABELS), "scipy .*ndarray"),
    "oblong adjacency": (
        lambda: Graph.from_scipy(csr_array((2, 3))),
        r"square; .*\[2, 3\]",
    ),
    "unknown treatment of self-loops": (lambda: build(self_loops="remove"), "self_loops"),
    # Graphs that exist already.
    "node beyond the last": (lambda: build().neighbors(3), "node 3.* 3 nodes"),
    "node below zero": (lambda: build().neighbors(-1), "node -1"),
    "too few new labels": (lambda: build().with_labels([0]), "labels have shape"),
    "new labels beyond": (lambda: build().with_labels([0, 1, 2]), "class 2, but num_classes is 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    action, says = MISTAKES[mistake]
    with pytest.raises(InputError, match=says) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert isinstance(caught.value, NcgnnError)
    assert isinstance(caught.value, ValueError)


def test_the_number_of_bad_features_is_told():
    features = dense((1, slice(None)), np.nan)
    with pytest.raises(InputError, match="4 NaN or infinite"):
        build(features=features)


def test_labels_are_needed_unless_told_otherwise():
    assert build(labels=None, require_labels=False).num_unlabeled == 3
    assert build(labels=[-1, -1, -1], require_labels=False).num_classes == 0


@pytest.mark.parametrize(
    "labels",
    [
        [0, None, 1],
        [0, "", 1],
        [0, float("nan"), 1],
        np.array([0, np.nan, 1], dtype=np.float32),
        np.array([0, np.nan, 1], dtype=object),
        torch.tensor([0, torch.nan, 1]),
    ],
)
def test_none_nan_and_empty_mean_unlabeled(labels):
    if isinstance(labels, list):
        labels = np.array(labels, dtype=object)
    graph = build(labels=labels)
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.labels.dtype == np.int64
    assert graph.with_labels(labels).labels.tolist() == [0, -1, 1]


def test_labels_may_be_lists_with_gaps():
    assert build(labels=[0, None, 1]).labels.tolist() == [0, -1, 1]
