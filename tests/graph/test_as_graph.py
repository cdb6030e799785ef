"""One door for every form of graph."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_matrix

from ncgnn.errors import InputError
from ncgnn.graph import Graph, as_graph

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

EDGES = np.array([[0, 1, 2], [1, 2, 2]])
LABELS = [0, 1, 1]


def pyg(**fields):
    from torch_geometric.data import Data

    return Data(edge_index=torch.from_numpy(EDGES.copy()), **({"num_nodes": 3} | fields))


def networkx(**attributes):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(3))
    graph.add_edges_from(EDGES.T.tolist())
    for name, values in attributes.items():
        nx.set_node_attributes(graph, dict(enumerate(values)), name)
    return graph


def scipy(kind=coo_array):
    return kind((np.ones(3), (EDGES[0], EDGES[1])), shape=(3, 3))


FORMS = {
    "Graph": lambda: Graph.from_edge_index(EDGES, labels=LABELS),
    "unlabeled Graph": lambda: Graph.from_edge_index(EDGES, require_labels=False),
    "Data": pyg,
    "labeled Data": lambda: pyg(y=torch.tensor([1, 0, 0])),
    "NetworkX": networkx,
    "labeled NetworkX": lambda: networkx(y=[1, 0, 0]),
    "NetworkX with class names": lambda: networkx(y=["b", "a", "a"]),
    "scipy": scipy,
    "scipy matrix": lambda: scipy(csr_matrix),
    "array": lambda: EDGES,
    "narrow array": lambda: EDGES.astype(np.int32),
    "tensor": lambda: torch.from_numpy(EDGES.copy()),
    "lists": lambda: EDGES.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "labels", [LABELS, np.array(LABELS), torch.tensor(LABELS)], ids=["list", "array", "tensor"]
)
def test_every_form_with_labels(form, labels):
    graph = as_graph(FORMS[form](), labels)
    assert isinstance(graph, Graph)
    assert sorted(graph.edge_index().T.tolist()) == [[0, 1], [1, 2], [2, 2]]
    assert graph.labels.tolist() == LABELS
    assert graph.num_classes == 2


@pytest.mark.parametrize("form", FORMS)
def test_every_form_with_labels_and_a_number_of_classes(form):
    graph = as_graph(FORMS[form](), LABELS, num_classes=5)
    assert (graph.labels.tolist(), graph.num_classes) == (LABELS, 5)


HAVE_LABELS = ["Graph", "labeled Data", "labeled NetworkX", "NetworkX with class names"]


@pytest.mark.parametrize("form", [form for form in FORMS if form not in HAVE_LABELS])
def test_labels_say_how_many_classes_there_are(form):
    graph = as_graph(FORMS[form](), [0, 1, 2])
    assert (graph.labels.tolist(), graph.num_classes) == ([0, 1, 2], 3)


@pytest.mark.parametrize("form", HAVE_LABELS)
def test_other_labels_keep_to_the_classes_of_the_graph(form):
    assert as_graph(FORMS[form](), [0, 0, 0]).num_classes == 2
    with pytest.raises(InputError, match="class 2, but num_classes is 2"):
        as_graph(FORMS[form](), [0, 1, 2])


@pytest.mark.parametrize(
    "form", ["unlabeled Graph", "Data", "NetworkX", "scipy", "array", "tensor", "lists"]
)
def test_graphs_without_labels(form):
    with pytest.raises(InputError, match="no labels"):
        as_graph(FORMS[form]())
    graph = as_graph(FORMS[form](), require_labels=False)
    assert graph.labels.tolist() == [-1, -1, -1]
    assert as_graph(FORMS[form](), require_labels=False, num_classes=4).num_classes == 4


def test_a_graph_stays_itself():
    graph = Graph.from_edge_index(EDGES, labels=LABELS)
    assert as_graph(graph) is graph
    assert as_graph(graph, num_classes=4).num_classes == 4
    assert as_graph(graph, num_classes=4).labels.tolist() == LABELS
    assert graph.num_classes == 2


def test_trainable_tensors_of_labels():
    labels = torch.tensor([0.0, 1.0, 1.0], requires_grad=True)
    assert as_graph(EDGES, labels).labels.tolist() == LABELS


@pytest.mark.parametrize(
    "thing", [None, 3, [1, 2, 3], object(), {"edges": 1}, np.zeros(4, dtype=int)]
)
def test_other_things_are_refused(thing):
    with pytest.raises(InputError, match="cannot read a graph from"):
        as_graph(thing)


@pytest.mark.parametrize("name", ["cora", Path("mine.npz")])
def test_a_name_is_no_graph_but_load_is_named(name):
    with pytest.raises(InputError, match=r"ncgnn\.load"):
        as_graph(name)


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(InputError):
        as_graph([[0, 1], [1]], LABELS)


def test_wrong_labels_are_refused():
    for form in FORMS.values():
        # Edges alone do not say how many nodes there are: then the labels do.
        with pytest.raises(InputError, match=r"labels have shape|edge_index names node 2"):
            as_graph(form(), [0, 1])


def test_labels_say_how_many_nodes_data_without_features_have():
    data = pyg(num_nodes=None)
    del data.num_nodes
    graph = as_graph(data, [0, 1, 1, 0])
    assert graph.num_nodes == 4
    assert graph.labels.tolist() == [0, 1, 1, 0]
