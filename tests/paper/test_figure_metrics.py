"""Numbers of figures that need the graph: distributions, observation, and the theory."""

from __future__ import annotations

import numpy as np
import pytest
from figure_cases import (
    NODES,
    TARGETS,
    ask,
    make,
    small_edges,
    small_graph,
    tenth,
    train,
    true_confusion,
    true_homophily,
)

import ncgnn.data
from ncgnn.data import Split
from ncgnn.errors import InputError
from ncgnn.paper import Request
from ncgnn.paper.figures.nodes import observed_rule, preset_rule
from ncgnn.paper.printed import DATASETS
from ncgnn.training import load_run


@pytest.fixture(scope="module")
def observed(dataset, folder):
    request = ask("observation", dataset)
    return request, train("observation", request, folder)


def test_every_target_says_what_it_is():
    assert len(TARGETS) == 10
    for name, target in TARGETS.items():
        assert (target.name, target.kind) == (name, "figure")
        assert target.title


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_cells_of_the_paper_are_distinct_and_have_one_split_family(name):
    target = TARGETS[name]
    cells = target.cells(Request(target.datasets, target.models, seeds=(0, 1), split="paper"))
    assert len({cell.name for cell in cells}) == len(cells)
    assert {cell.data.split for cell in cells} <= {"paper"}
    assert bool(cells) == (name not in ("distributions", "entropy", "stability"))


def test_distributions_against_the_definitions(dataset):
    made = make("distributions", ask("distributions", dataset, settings=(("hops", 2),)))
    (panel,) = made.data.panels
    assert (panel.dataset, panel.nodes, panel.hops, made.missing) == ("small", NODES, 2, ())
    unlike = [1 - value for value in true_homophily(closed=True)]
    for histogram, values in ((panel.heterophily, unlike), (panel.confusion, true_confusion(2))):
        assert histogram.mean == pytest.approx(np.mean(values))
        assert sum(histogram.shares) == pytest.approx(1)
        # Rounding may put a value on the edge of two bins into either.
        within = np.cumsum(histogram.shares)
        for edge, share in zip(made.data.edges[1:], within, strict=True):
            assert np.mean(np.array(values) < edge - 1e-9) <= share + 1e-12
            assert share <= np.mean(np.array(values) <= edge + 1e-9) + 1e-12


def test_the_paper_observes_coauthor_cs_with_its_own_rule():
    request = Request((), ())
    rule = observed_rule(request, "coauthor-cs")
    assert (rule.hops, rule.threshold) == (2, 0.4)
    for name in DATASETS:
        if name != "coauthor-cs":
            assert observed_rule(request, name) == preset_rule(request, name)
    chosen = observed_rule(Request((), (), settings=(("model.threshold", 0.5),)), "coauthor-cs")
    assert (chosen.hops, chosen.threshold) == (1, 0.5)
    several = Request((), (), settings=(("threshold", (0.2, 0.5)), ("dropout", 0.5)))
    with pytest.raises(InputError, match="threshold"):
        preset_rule(several, "digits")


def test_observation_against_the_definitions(observed):
    request, runs = observed
    made = make("observation", request, runs)
    (panel,) = made.data.panels
    assert (made.data.model, panel.part, panel.runs, made.missing) == ("gcn", "test", 2, ())
    assert (panel.hops, panel.threshold) == (1, 0.5)
    _, labels = small_edges()
    confusion, homophily = true_confusion(1), true_homophily(closed=False)
    counts, shares, accuracies = np.zeros((2, 10)), np.zeros((2, 10)), np.zeros((2, 10))
    for row, run in enumerate(runs.values()):
        predicted = load_run(run.folder).probabilities().argmax(1)
        for node in Split.load(run.folder / "split.json").test:
            if homophily[node] is None:
                continue
            place = tenth(homophily[node])
            counts[row, place] += 1
            shares[row, place] += confusion[node] > 0.5 + 1e-9
            accuracies[row, place] += predicted[node] == labels[node]
    for place, found in enumerate(panel.tenths):
        some = counts[:, place] > 0
        assert found.nodes == counts[:, place].mean()
        if not some.any():
            assert (found.accuracy, found.high_share) == (None, None)
            continue
        right = accuracies[some, place] / counts[some, place]
        assert found.accuracy.mean == pytest.approx(right.mean())
        assert found.high_share == pytest.approx((shares[some, place] / counts[some, place]).mean())
    assert any(0 < (t.high_share or 0) < 1 for t in panel.tenths)


def test_deciles_are_those_of_validation_nodes(observed):
    request, runs = observed
    made = make("observation", request, runs)
    (panel,) = made.data.panels
    _, labels = small_edges()
    homophily = true_homophily(closed=False)
    counts, right = np.zeros((2, 10)), np.zeros((2, 10))
    for row, run in enumerate(runs.values()):
        split = Split.load(run.folder / "split.json")
        among = sorted(homophily[v] for v in split.val if homophily[v] is not None)
        predicted = load_run(run.folder).probabilities().argmax(1)
        for node in split.test:
            if homophily[node] is not None:
                # A value between two of them is interpolated, so this is asked of numpy.
                edges = [np.quantile(among, tenth / 10) for tenth in range(1, 10)]
                place = sum(homophily[node] > edge for edge in edges)
                counts[row, place] += 1
                right[row, place] += predicted[node] == labels[node]
    assert [group.nodes for group in panel.deciles] == counts.mean(0).tolist()
    first = right[:, 0] / counts[:, 0]
    assert panel.deciles[0].accuracy.mean == pytest.approx(first.mean())
    tenths, deciles = made.tables()
    assert [table.title.split(", ")[-1] for table in (tenths, deciles)] == [
        "tenths of NH",
        "deciles of NH",
    ]
    assert len(deciles.rows) == np.count_nonzero(counts.sum(0))
    assert "Rank correlation" in tenths.notes[1]


def test_observation_takes_the_papers_width_unless_told(dataset):
    bare = ask("observation", dataset, settings=())
    assert {c.model.options["hidden"] for c in TARGETS["observation"].cells(bare)} == {64}
    told = ask("observation", dataset, settings=(("model.hidden", 8),))
    assert {c.model.options["hidden"] for c in TARGETS["observation"].cells(told)} == {8}


def test_missing_runs_are_listed_and_the_others_drawn_from(observed):
    request, runs = observed
    first, second = runs
    made = make("observation", request, {first: runs[first]})
    assert made.missing == (second,)
    (panel,) = made.data.panels
    assert (panel.runs, panel.accuracy.std) == (1, None)
    with pytest.raises(InputError, match="none of its 2 runs"):
        make("observation", request)


def test_a_graph_that_has_changed_is_refused(tmp_path):
    path = small_graph(tmp_path)
    request = ask("observation", path, seeds=(0,))
    runs = train("observation", request, tmp_path / "runs")
    edges, labels = small_edges()
    graph = ncgnn.graph.Graph.from_edge_index(np.array(edges[:-2]).T, labels=labels)
    ncgnn.data.save(graph, path)
    with pytest.raises(InputError, match="has changed"):
        make("observation", request, runs)


def test_one_model_only_is_observed(dataset):
    with pytest.raises(InputError, match="shows one model"):
        TARGETS["observation"].cells(ask("observation", dataset, ("gcn", "mlp")))


def test_entropy_ends_where_theory_says():
    data = make("entropy", Request((), ())).data
    assert [curve.classes for curve in data.curves] == [2, 3, 5, 10, 15]
    for curve in data.curves:
        assert curve.entropy[0] == pytest.approx(0)
        assert curve.entropy[-1] == pytest.approx(np.log2(curve.classes))
        assert curve.bound[-1] == pytest.approx(1 - 1 / np.log2(curve.classes))
