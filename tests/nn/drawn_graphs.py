"""Small random graphs as dense matrices and as what models take, and models for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from ncgnn.graph import Graph
from ncgnn.nn.inputs import GraphInputs
from ncgnn.nn.separated.model import SeparatedGNN

CLASSES = 3


@dataclass(frozen=True, eq=False)
class Drawn:
    """``A[i, j]`` is the weight of an edge from j to i; ``A`` has no self-loops."""

    A: torch.Tensor
    X: torch.Tensor
    labels: np.ndarray

    @property
    def num_nodes(self):
        return len(self.A)

    @property
    def edge_index(self):
        return torch.nonzero(self.A).t().flip(0)

    def graph(self):
        X = self.X.numpy()
        features = csr_array(X) if (X == 0).mean() > 0.5 else X
        source, target = self.edge_index
        weights = None if self.A.max() <= 1 else self.A[target, source].numpy()
        return Graph.from_edge_index(
            self.edge_index,
            features=features,
            labels=self.labels,
            num_classes=CLASSES,
            edge_weights=weights,
        )

    def inputs(self, dtype=torch.float64, **options):
        known = torch.from_numpy(self.labels)
        return GraphInputs(self.graph(), dtype=dtype, **options).knowing(known)

    def permuted(self, order):
        return Drawn(self.A[order][:, order], self.X[order], self.labels[order.numpy()])


def drawn_graph(
    seed, *, nodes=13, features=16, directed=True, sparse=True, density=0.2, weighted=False
):
    """The last two nodes have no edges at all; weights of edges are quarters up to 4."""
    draw = np.random.default_rng(seed)
    A = draw.random((nodes, nodes)) < density
    if not directed:
        A |= A.T
    np.fill_diagonal(A, False)
    A[-2:], A[:, -2:] = False, False
    X = draw.normal(size=(nodes, features))
    if sparse:
        X *= draw.random((nodes, features)) < 0.07
        X[0, 0] = 1
    labels = draw.integers(0, CLASSES, nodes)
    A = A.astype(np.float64)
    if weighted:
        weights = draw.integers(1, 17, (nodes, nodes)) / 4
        A *= weights if directed else np.maximum(weights, weights.T)
    return Drawn(torch.from_numpy(A), torch.from_numpy(X), labels)


def groups_of(num_nodes, seed=0):
    """Names and group vectors, with the number of groups."""
    draw = np.random.default_rng(seed)
    mixed = torch.from_numpy(draw.permutation(np.arange(num_nodes) % 2))
    return {
        "mixed": (mixed, 2),
        "all low": (torch.zeros(num_nodes, dtype=torch.int64), 2),
        "all high": (torch.ones(num_nodes, dtype=torch.int64), 2),
        "three": (torch.from_numpy(draw.permutation(np.arange(num_nodes) % 3)), 3),
        "one of three empty": (2 * mixed, 3),
    }


def model_for(num_features, *, groups=2, hidden=7, seed=0, dtype=torch.float64, **options):
    """A model whose parameters are all different from their first values."""
    torch.manual_seed(seed)
    rates = options.setdefault("dropout", (0.5,) * groups)
    options.setdefault("threshold", tuple(i / len(rates) for i in range(1, len(rates))))
    model = SeparatedGNN(num_features, CLASSES, hidden=hidden, **options).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def copied(source, target):
    """The target, with the parameters of a model that names them alike."""
    target.load_state_dict(source.state_dict())
    return target
