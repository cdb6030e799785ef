"""What flipped labels do to NC and NH, against the definitions, and the table of controls."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from figure_cases import CLASSES, NODES, TINY, ball, make, small_edges

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph import Graph
from ncgnn.metrics import label_graph
from ncgnn.paper import Request, request_for, target
from ncgnn.paper.figures import stability
from ncgnn.paper.figures.stability import flip_labels, measure_stability
from ncgnn.training import load_run, train_run


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("level", [0.01, 0.3])
def test_labels_are_flipped_to_another_class_each(classes: int, level: float) -> None:
    labels = np.random.default_rng(0).integers(-1, classes, 4000)
    new, flipped = flip_labels(labels, classes, level, seed=3)
    known = labels >= 0
    assert flipped.sum() == round(level * known.sum())
    assert np.array_equal(new != labels, flipped)
    assert (new[~known] == -1).all()
    assert set(new[flipped]) <= set(range(classes))
    steps = Counter(((new - labels)[flipped] % classes).tolist())
    assert set(steps) == set(range(1, classes))
    if level == 0.3:
        assert min(steps.values()) > 0.8 * max(steps.values())
    assert np.array_equal(flip_labels(labels, classes, level, seed=3)[0], new)
    assert not np.array_equal(flip_labels(labels, classes, level, seed=4)[0], new)


def metrics_of(labels) -> dict[str, dict[int, float]]:
    """NC and both NH of the nodes that have neighbors, with sets and loops."""
    found: dict[str, dict[int, float]] = {"nc": {}, "nh_open": {}, "nh_closed": {}}
    for node in range(NODES):
        members = ball(node, 1)
        if len(members) == 1:
            continue
        counts = Counter(int(labels[other]) for other in members)
        own = counts[int(labels[node])]
        found["nc"][node] = -math.log(max(counts.values()) / len(members)) / math.log(CLASSES)
        found["nh_open"][node] = (own - 1) / (len(members) - 1)
        found["nh_closed"][node] = own / len(members)
    return found


def test_changes_against_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    edges, labels = small_edges()
    monkeypatch.setattr(stability, "LEVELS", (0.1,))
    monkeypatch.setattr(stability, "DRAWS", 2)
    monkeypatch.setattr(stability, "MANY", 6)
    graph = Graph.from_edge_index(np.array(edges).T, labels=labels, num_nodes=NODES)
    panel = measure_stability(label_graph(graph), "small")
    before = metrics_of(labels)
    moved = {group: {key: [] for key in before} for group in stability.GROUPS}
    for seed in range(2):
        new, flipped = flip_labels(labels, CLASSES, 0.1, seed)
        after = metrics_of(new)
        for key, values in before.items():
            for node, value in values.items():
                change, around = abs(after[key][node] - value), ball(node, 1) - {node}
                moved["all"][key].append(change)
                if flipped[node]:
                    moved["flipped"][key].append(change)
                elif any(flipped[other] for other in around):
                    moved["neighbors"][key].append(change)
                    if len(around) >= 6:
                        moved["many"][key].append(change)
    assert panel.nodes == len(before["nc"]) < NODES
    for group, found in panel.changes[0.1].items():
        assert found.nodes == len(moved[group]["nc"]) / 2 > 0
        for key, values in moved[group].items():
            assert found.absolute[key] == pytest.approx(np.mean(values))
            spread = np.std(list(before[key].values()))
            assert found.relative[key] == pytest.approx(np.mean(values) / spread)
        ratio = found.absolute["nc"] / found.absolute["nh_open"]
        assert found.ratio("nh_open") == pytest.approx(ratio)


def test_stability_is_a_figure_with_tables(dataset, tmp_path) -> None:
    made = make("stability", Request((dataset,), ()))
    assert [path.name for path in made.write(tmp_path)] == [
        f"stability.{suffix}" for suffix in ("png", "svg", "md", "tex", "csv")
    ]
    *groups, levels = made.tables()
    assert len(groups) == 4
    (panel,) = made.data.panels
    change = panel.changes[0.1]["flipped"]
    row = groups[1].rows[0]
    assert row[0] == "small"
    assert row[2:5] == tuple(f"{change.absolute[key]:.3f}" for key in stability.METRICS)
    assert levels.head[1:] == ("1%", "2%", "5%", "10%", "20%", "30%")
    with pytest.raises(InputError, match="needs no runs"):
        request_for("stability", datasets=[dataset], seeds=3)


@pytest.fixture(scope="module")
def clarified(dataset, folder):
    models = target("clarified").models
    request = Request((dataset,), models, (0, 1), "stratified", None, TINY)
    runs = {cell.name: train_run(cell, folder) for cell in target("clarified").cells(request)}
    return request, runs


def test_the_control_has_nobody_apart(clarified) -> None:
    request, runs = clarified
    made = make("clarified", request, runs)
    (panel,) = made.data.panels
    assert [row.name for row in panel.rows] == ["gcn", "ncgcn", "nobody-apart", "one-channel"]
    for row in target("clarified").rows(request, request.datasets[0]):
        for config in row.configs(request, request.datasets[0]):
            if row.name == "nobody-apart":
                assert config.model.options["threshold"] == [1.0]
                assert runs[config.name].result["group_sizes"][1] == 0
                assert config.model.options["separation"] == "renormalized"
            if row.name == "one-channel":
                assert config.model.options["separation"] == "none"


def test_accuracies_of_groups_add_up(clarified) -> None:
    request, runs = clarified
    (panel,) = make("clarified", request, runs).data.panels
    high = stability_high(panel)
    for row, found in zip(panel.rows, _by_row(request, runs), strict=True):
        for place, run in enumerate(found):
            trained = load_run(run.folder)
            nodes = trained.split.test
            right = trained.probabilities().argmax(1)[nodes] == trained.graph.labels[nodes]
            assert row.accuracy["all"][place] == pytest.approx(right.mean())
            assert row.accuracy["high"][place] == pytest.approx(right[high[nodes]].mean())
            assert row.accuracy["low"][place] == pytest.approx(right[~high[nodes]].mean())


def stability_high(panel) -> np.ndarray:
    """Whose NC of the true labels is above the panel's threshold."""
    _, labels = small_edges()
    found = []
    for node in range(NODES):
        counts = Counter(int(labels[other]) for other in ball(node, panel.hops))
        confusion = -math.log(max(counts.values()) / counts.total()) / math.log(CLASSES)
        found.append(confusion > panel.threshold + 1e-9)
    return np.array(found)


def _by_row(request, runs):
    dataset = request.datasets[0]
    for row in target("clarified").rows(request, dataset):
        yield [runs[config.name] for config in row.configs(request, dataset)]


def test_the_paper_stands_beside_its_own_graph_alone(clarified) -> None:
    request, runs = clarified
    made = make("clarified", request, runs)
    (table,) = made.tables()
    assert not any("paper" in row[0] for row in table.rows)
    (panel,) = made.data.panels
    theirs = replace(panel, dataset="coauthor-cs", split="paper")
    (table,) = target("clarified").tables(replace(made.data, panels=(theirs,)))
    beside = [row for row in table.rows if "paper" in row[0]]
    assert [row[2:5] for row in beside] == [
        ("93.99", "95.91", "57.86"),
        ("95.67", "95.90", "82.47"),
    ]


def test_an_unknown_row_is_named(dataset) -> None:
    request = Request((dataset,), ("nobody",))
    with pytest.raises(UnknownNameError, match="nobody-apart"):
        target("clarified").cells(request)
