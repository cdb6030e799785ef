"""Numbers of figures of separated models: interplay, sensitivity, and α."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from figure_cases import TARGETS, ask, make, small_graph, train, true_confusion

from ncgnn.errors import InputError
from ncgnn.paper.figures import sensitivity
from ncgnn.paper.figures.alpha import kernel_density
from ncgnn.paper.figures.parts import short_name
from ncgnn.paper.figures.sensitivity import best_pair
from ncgnn.training import RunFolder

STOPPING = (("hidden", 8), ("epochs", 30), ("patience", 3), ("learning_rate", 0.05))


@pytest.fixture(scope="module")
def interplay(dataset, folder):
    request = ask("interplay", dataset, seeds=(0, 1, 2), settings=STOPPING)
    return request, train("interplay", request, folder)


def test_interplay_against_the_records(interplay):
    request, runs = interplay
    (panel,) = make("interplay", request, runs).data.panels
    histories = [RunFolder(run.folder).history() for run in runs.values()]
    length = min(map(len, histories))
    assert len({len(history) for history in histories}) > 1  # they stopped at different times
    assert panel.runs == 3
    assert panel.true_nc == pytest.approx(np.mean(true_confusion(1)))
    for curve, key in ((panel.estimated_nc, "mean_nc"), (panel.val_accuracy, "val_accuracy")):
        table = np.array([[record[key] for record in h[:length]] for h in histories])
        assert curve.mean == pytest.approx(table.mean(0))
        assert curve.std == pytest.approx(table.std(0, ddof=1))
    assert panel.estimated_nc.mean[0] == 0


def test_two_files_of_one_name_have_names_of_their_own(dataset, tmp_path):
    (tmp_path / "other").mkdir()
    other = small_graph(tmp_path / "other")
    request = replace(ask("alpha", dataset), datasets=(dataset, other))
    folder = Path(dataset).parent.name
    assert short_name(request, dataset) == f"{folder}/small"
    assert short_name(request, other) == "other/small"
    assert short_name(ask("alpha", dataset), dataset) == "small"
    request = replace(request, datasets=("digits", "/x/digits.npz"))
    assert short_name(request, "/x/digits.npz") == "digits.npz"


@pytest.mark.parametrize("name", ["interplay", "alpha"])
def test_a_file_may_be_named_from_where_it_lies(interplay, name, dataset, monkeypatch):
    request, runs = interplay
    monkeypatch.chdir(Path(dataset).parent)
    near = replace(request, datasets=(Path(dataset).name,))
    found, known = (make(name, some, runs).data for some in (near, request))
    assert found.panels
    assert found == known


def test_test_accuracy_is_that_of_the_best_epoch_so_far(interplay):
    request, runs = interplay
    name, run = next(iter(runs.items()))
    made = make("interplay", request, {name: run})
    history = RunFolder(run.folder).history()
    assert len(made.missing) == 2
    (panel,) = made.data.panels
    for epoch, value in enumerate(panel.test_accuracy.mean):
        best = max(history[: epoch + 1], key=lambda record: record["val_accuracy"])
        assert value == best["test_accuracy"]
    assert panel.test_accuracy.std is None
    assert any(record["test_accuracy"] is None for record in history)


@pytest.mark.parametrize("name", ["interplay", "sensitivity", "alpha"])
def test_models_that_do_not_separate_are_refused(dataset, name):
    with pytest.raises(InputError, match="name a separated model"):
        TARGETS[name].cells(ask(name, dataset, ("gcn",)))
    with pytest.raises(InputError, match="guidance"):
        TARGETS[name].cells(ask(name, dataset, settings=(("guidance", "nh"),)))


def test_alpha_is_that_of_the_runs(interplay):
    request, runs = interplay
    data = make("alpha", request, runs).data
    (panel,) = data.panels
    for group, found in enumerate(panel.groups):
        assert found.values == tuple(run.result["alpha"][group] for run in runs.values())
        assert found.density == kernel_density(found.values, data.grid)
    assert len(panel.groups) == 2
    name = next(iter(runs))
    rest = {other: run for other, run in runs.items() if other != name}
    assert make("alpha", request, rest).missing == (name,)


def density_by_definition(values, grid, width):
    """The mean of Gaussian kernels around the values."""
    kernels = np.exp(-0.5 * ((grid[:, None] - np.array(values)) / width) ** 2)
    return kernels.mean(1) / (width * np.sqrt(2 * np.pi))


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([0.2, 0.35, 0.5, 0.55, 0.9], None),
        ([0.5, 0.5001], 0.01),
        ([0.5, 0.5, 0.5], 0.01),
        ([0.5], 0.01),
    ],
)
def test_density_is_scotts_with_a_least_width(values, width):
    grid = np.linspace(-1, 2, 3001)
    width = width or np.std(values, ddof=1) * len(values) ** -0.2
    density = np.array(kernel_density(values, grid))
    assert density == pytest.approx(density_by_definition(values, grid, width))
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-3)


def test_sensitivity_is_about_every_pair_of_the_paper(dataset):
    cells = TARGETS["sensitivity"].cells(ask("sensitivity", dataset))
    pairs = {(c.model.options["hops"], *c.model.options["threshold"]) for c in cells}
    assert pairs == {(k, t) for k in (1, 2, 3) for t in (0.3, 0.4, 0.5, 0.6, 0.7)}
    assert len(cells) == 30


def test_sensitivity_takes_each_accuracy_from_its_own_run(dataset, folder, monkeypatch):
    monkeypatch.setattr(sensitivity, "HOPS", (1, 3))
    monkeypatch.setattr(sensitivity, "THRESHOLDS", (0.3, 0.5, 0.7))
    request = ask("sensitivity", dataset, settings=(("hidden", 4), ("epochs", 2)))
    runs = train("sensitivity", request, folder)
    dropped = [name for name, run in runs.items() if run.config.model.options["hops"] == 3]
    kept = {name: run for name, run in runs.items() if name not in dropped[:3]}
    made = make("sensitivity", request, kept)
    (panel,) = made.data.panels
    assert made.missing == tuple(dropped[:3])
    assert (panel.preset_hops, panel.preset_threshold) == (None, None)
    for curve in panel.curves:
        for point in curve.points:
            options = {"hops": curve.hops, "threshold": [point.threshold]}
            mine = [
                run.result["scores"]
                for run in kept.values()
                if options.items() <= run.config.model.options.items()
            ]
            assert point.runs == len(mine)
            if not mine:
                assert (point.test, point.val) == (None, None)
                continue
            for part, spread in (("test", point.test), ("val", point.val)):
                assert spread.mean == pytest.approx(np.mean([s[part]["accuracy"] for s in mine]))
    assert [point.runs for point in panel.curves[1].points] == [0, 1, 2]


@pytest.mark.parametrize(
    ("model", "dataset", "best"),
    [
        ("ncgcn", "chameleon-filtered", (2, 0.6)),
        ("ncgcn", "coauthor-cs", (1, 0.7)),
        ("ncgat", "coauthor-cs", (None, None)),
        ("ncgcn", "digits", (None, None)),
        ("nctuned-gcn", "cora", (None, None)),
    ],
)
def test_the_best_pair_is_the_presets(model, dataset, best):
    assert best_pair(model, dataset) == best
