from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import ncgnn
from ncgnn.errors import DataNotFoundError, InputError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def graph() -> ncgnn.Graph:
    return ncgnn.Graph.from_edge_index(
        np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
        labels=[0, 1, -1],
        features=np.array([[1.0, 0.0], [0.0, 2.5], [0.0, 0.0]]),
        class_names=("no", "yes"),
        node_ids=["a", "b", "c"],
        shipped_splits={
            "train_masks": np.array([[True, False, False]]),
            "val_masks": np.array([[False, True, False]]),
            "test_masks": np.array([[False, False, False]]),
        },
        origin="made by hand",
    )


def test_save_and_load_round_trip(graph: ncgnn.Graph, tmp_path: Path) -> None:
    path = ncgnn.save(graph, tmp_path / "mine.npz")
    again = ncgnn.load(path)
    assert again.name == "mine"
    assert again.class_names == graph.class_names
    assert again.origin == graph.origin
    assert np.array_equal(again.indptr, graph.indptr)
    assert np.array_equal(again.indices, graph.indices)
    assert np.array_equal(again.labels, graph.labels)
    assert again.node_ids is not None
    assert again.node_ids.tolist() == ["a", "b", "c"]
    assert np.array_equal(_dense(again), _dense(graph))
    assert np.array_equal(again.shipped_splits["val_masks"], graph.shipped_splits["val_masks"])
    assert ncgnn.make_split(again, "published", warn=False).train.tolist() == [0]


def test_save_refuses_another_ending(graph: ncgnn.Graph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.npz"):
        ncgnn.save(graph, tmp_path / "mine.pt")


def test_missing_file_and_unknown_name() -> None:
    with pytest.raises(InputError, match=r"nowhere\.npz"):
        ncgnn.load("nowhere.npz")
    with pytest.raises(UnknownNameError, match="did you mean pubmed"):
        ncgnn.load("pubmd")


def test_data_set_that_is_not_at_hand_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NCGNN_DATA", raising=False)
    with pytest.raises(DataNotFoundError) as caught:
        ncgnn.load("penn94", tmp_path, download=False)
    assert "penn94.npz" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, edge_index=np.array([[0], [9]]), y=np.array([0, 1]))
    with pytest.raises(InputError, match=r"bad\.npz"):
        ncgnn.load(path)


def test_file_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "bare.npz"
    np.savez(path, edge_index=np.array([[0], [1]]), y=np.array([-1, -1]))
    with pytest.raises(InputError, match=r"bare\.npz.*no labels"):
        ncgnn.load(path)


def test_digits_needs_nothing() -> None:
    graph = ncgnn.load("digits")
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (1797, 9929, 10)


def test_generated_graph() -> None:
    graph = ncgnn.generate(60, 150, classes=3, features=4, seed=7)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (60, 150, 4)
    assert "seed=7" in graph.origin
    assert ncgnn.make_split(graph, "stratified").train.size > 0


def test_coauthor_features_are_binary_unless_raw(real_data_dir: Path) -> None:
    binary = ncgnn.load("coauthor-cs", real_data_dir)
    raw = ncgnn.load("coauthor-cs", real_data_dir, raw_features=True)
    assert set(np.unique(binary.features.data)) == {1.0}  # pyright: ignore
    assert raw.features.data.max() > 1  # pyright: ignore
    assert "0/1" in binary.origin


def test_environment_variable_names_the_folder(
    real_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCGNN_DATA", str(real_data_dir))
    assert ncgnn.load("texas").num_nodes == 183


def _dense(graph: ncgnn.Graph) -> np.ndarray:
    features = graph.features
    return features if isinstance(features, np.ndarray) else features.toarray()
