"""What cannot be trained is refused before anything is begun."""

from __future__ import annotations

import numpy as np
import pytest

import ncgnn
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.experiments import grid, sweep, tune
from ncgnn.graph import Graph
from ncgnn.training.trainer import check_trainable


def ring(labels, *, features=True):
    nodes = np.arange(len(labels))
    edges = np.stack([nodes, np.roll(nodes, 1)])
    columns = np.ones((len(labels), 1), dtype=np.float32) if features else None
    return Graph.from_edge_index(edges, num_nodes=len(labels), labels=labels, features=columns)


BAD = {
    "one class only": ring(np.zeros(30, dtype=np.int64)),
}


def split_of(**parts):
    return Split(family="custom", origin="custom", seed=None, **parts)


@pytest.mark.parametrize("words", BAD)
def test_sweeps_and_searches_refuse_a_graph_that_nothing_can_learn(tmp_path, words):
    place = str(tmp_path / "mine.npz")
    ncgnn.save(BAD[words], place)
    with pytest.raises(InputError, match=rf"mine\.npz.*{words}"):
        sweep(grid([place], ["mlp"], seeds=[0]), tmp_path / "runs")
    with pytest.raises(InputError, match=rf"mine\.npz.*{words}"):
        tune(place, "mlp", trials=2, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_splits_without_what_training_needs():
    graph = ring(np.where(np.arange(30) < 3, -1, np.arange(30) % 3))
    known, none = np.arange(10, 20), np.arange(0)
    check_trainable(graph, split_of(train=known, val=np.arange(20, 25), test=none))
    with pytest.raises(InputError, match="the split lacks them"):
        check_trainable(graph, split_of(train=known, val=none, test=none))
    with pytest.raises(InputError, match="unlabeled"):
        check_trainable(graph, split_of(train=known, val=np.arange(20, 25), test=np.arange(2)))
