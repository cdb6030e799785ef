"""Numbers of figures that compare models: accuracy by NC, embeddings, and time."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from figure_cases import (
    CLASSES,
    NODES,
    TARGETS,
    ask,
    make,
    small_edges,
    tenth,
    train,
    true_confusion,
)

from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.paper.figures.embeddings import plane
from ncgnn.training import load_run

MODELS = ("gcn", "ncgcn")


def test_groups_against_the_definitions(dataset, folder):
    request = ask("groups", dataset, MODELS)
    runs = train("groups", request, folder)
    made = make("groups", request, runs)
    (panel,) = made.data.panels
    assert [curve.model for curve in panel.curves] == list(MODELS)
    assert (panel.hops, panel.threshold, panel.part, made.missing) == (1, 0.5, "test", ())
    _, labels = small_edges()
    confusion = np.array(true_confusion(1))
    places = np.array([tenth(value) for value in confusion])
    high = confusion > 0.5 + 1e-9
    for curve in panel.curves:
        mine = [run for run in runs.values() if run.config.model.name == curve.model]
        low_right, high_right, by_tenth = [], [], [[] for _ in range(10)]
        for run in mine:
            test = Split.load(run.folder / "split.json").test
            right = load_run(run.folder).probabilities().argmax(1)[test] == labels[test]
            low_right.append(right[~high[test]].mean())
            high_right.append(right[high[test]].mean())
            for number in np.unique(places[test]):
                by_tenth[number].append(right[places[test] == number].mean())
        assert curve.low.mean == pytest.approx(np.mean(low_right))
        assert curve.high.mean == pytest.approx(np.mean(high_right))
        assert curve.high.std == pytest.approx(np.std(high_right, ddof=1))
        for found, values in zip(curve.tenths, by_tenth, strict=True):
            assert (found is None) == (not values)
            assert found is None or found.mean == pytest.approx(np.mean(values))
    tests = [Split.load(run.folder / "split.json").test for run in runs.values()]
    assert panel.high_nodes == np.mean([high[test].sum() for test in tests])
    assert panel.low_nodes + panel.high_nodes == np.mean([len(test) for test in tests])
    assert sum(panel.tenth_nodes) == panel.low_nodes + panel.high_nodes


def test_groups_of_a_model_without_runs_are_left_out(dataset, folder):
    request = ask("groups", dataset, MODELS)
    runs = train("groups", request, folder)
    kept = {name: run for name, run in runs.items() if run.config.model.name == "gcn"}
    made = make("groups", request, kept)
    assert [curve.model for curve in made.data.panels[0].curves] == ["gcn"]
    assert set(made.missing) == set(runs) - set(kept)


def smoothing(rows=slice(None)):
    """D^-1/2 (A + I) D^-1/2 as a dense matrix, where only some rows of A have edges."""
    edges, _ = small_edges()
    whole, matrix = np.zeros((NODES, NODES)), np.zeros((NODES, NODES))
    for source, target in edges:
        whole[target, source] = 1
    matrix[rows] = whole[rows]
    matrix += np.eye(NODES)
    scale = matrix.sum(1) ** -0.5
    return scale[:, None] * matrix * scale


def dense_features(inputs):
    features = inputs.features
    return (features if isinstance(features, torch.Tensor) else features.to_dense()).numpy()


def test_the_first_layer_of_gcn(dataset, folder):
    request = ask("embeddings", dataset, ("gcn",), seeds=(0,))
    (run,) = train("embeddings", request, folder).values()
    model = load_run(run.folder)
    weight = model.model.first.weights[0].detach().numpy()
    bias = model.model.first.bias.detach().numpy()
    expected = np.maximum(smoothing() @ dense_features(model.inputs) @ weight + bias, 0)
    hidden = model.model.compute_hidden(model.inputs, model.grouping.group).numpy()
    assert np.allclose(hidden, expected, atol=1e-5)


@pytest.mark.parametrize("separation", ["strict", "renormalized", "none"])
def test_the_first_layer_of_a_separated_model(dataset, folder, separation):
    settings = (("hidden", 8), ("epochs", 6), ("threshold", 0.2), ("separation", separation))
    request = ask("embeddings", dataset, ("ncgcn",), seeds=(0,), settings=settings)
    (run,) = train("embeddings", request, folder).values()
    kept = load_run(run.folder)
    group = (np.array(true_confusion(1)) > 0.5).astype(np.int64)
    rows = kept.model.compute_hidden(kept.inputs, torch.from_numpy(group)).numpy()
    for s, layer in enumerate(kept.model.first):
        own = group == s if separation != "none" else np.full(NODES, True)
        matrix = smoothing(own) if separation == "renormalized" else smoothing()
        sums = matrix @ dense_features(kept.inputs) @ layer.weights[0].detach().numpy()
        bias = 0 if layer.bias is None else layer.bias.detach().numpy()
        assert np.allclose(rows[own], np.maximum(sums + bias, 0)[own], atol=1e-5)


@pytest.mark.parametrize("model", ["gprgnn", "tuned-gcn", "nctuned-gcn"])
def test_models_without_such_a_layer_are_refused_before_they_train(dataset, model):
    with pytest.raises(InputError, match="no first layer"):
        TARGETS["embeddings"].cells(ask("embeddings", dataset, (model,)))


def test_embeddings_show_the_same_nodes_and_say_how_right_each_model_is(dataset, folder):
    request = ask("embeddings", dataset, seeds=(3,))
    runs = train("embeddings", request, folder)
    data = make("embeddings", request, runs).data
    assert [panel.model for panel in data.panels] == ["gcn", "ncgcn"]
    high = np.array(true_confusion(1)) > 0.5 + 1e-9
    _, labels = small_edges()
    for panel, run in zip(data.panels, runs.values(), strict=True):
        assert panel.label == tuple(labels)
        assert panel.high == tuple(high)
        assert panel.accuracy == run.result["scores"]["test"]["accuracy"]
        groups = {r["part"]: r["accuracy"] for r in run.result["accuracy_by_true_group"]}
        assert (panel.low_accuracy, panel.high_accuracy) == (groups[0], groups[1])
    assert data.panels[0].x != data.panels[1].x
    assert data == make("embeddings", request, runs).data


def test_the_plane_keeps_clusters_apart():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), 40)
    rows = (rng.normal(size=(120, 10)) * 0.1 + 5 * np.eye(10)[labels]).astype(np.float32)
    points = plane(rows, seed=0)
    centers = np.stack([points[labels == c].mean(0) for c in range(CLASSES)])
    nearest = np.linalg.norm(points[:, None] - centers, axis=2).argmin(1)
    assert np.array_equal(nearest, labels)
    with pytest.raises(InputError, match="too few"):
        plane(rows[:3], seed=0)


def test_time_is_that_of_the_runs(dataset, folder):
    request = ask("time", dataset, ("mlp", "gcn"))
    runs = train("time", request, folder)
    (panel,) = make("time", request, runs).data.panels
    for time in panel.times:
        mine = [run for run in runs.values() if run.config.model.name == time.model]
        assert time.runs == 2
        assert time.epochs.mean == 6
        assert time.per_run.mean == pytest.approx(np.mean([run.seconds for run in mine]))
        usual = [json.loads((run.folder / "timing.json").read_text()) for run in mine]
        each = [1000 * timing["seconds_per_epoch"] for timing in usual]
        assert time.per_epoch.mean == pytest.approx(np.mean(each))
        assert time.per_epoch.mean < 1000 * time.per_run.mean / 2  # the median of six epochs
    name = next(iter(runs))
    rest = {other: run for other, run in runs.items() if other != name}
    assert make("time", request, rest).missing == (name,)
