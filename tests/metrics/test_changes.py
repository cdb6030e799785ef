"""What has changed between two graphs, counted by hand, and what is left to chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2, ks_2samp
from torch_geometric.data import Data

import ncgnn
from ncgnn.metrics.drift import stability_index


def make(rows, edges, **columns):
    names, labels = zip(*rows, strict=True)
    ends = list(zip(*edges, strict=True))
    table = {"id": list(names), "y": list(labels), **columns}
    return ncgnn.read_tables(table, {"source": ends[0], "target": ends[1]}, label="y")


BEFORE = [("a", "x"), ("b", "x"), ("c", "y"), ("d", None), ("e", "z")]
AFTER = [("f", "w"), ("a", "x"), ("b", "y"), ("c", None), ("d", "y")]


def test_rows_edges_labels_and_classes_by_hand():
    one = make(BEFORE, [("a", "b"), ("b", "c"), ("e", "a")], n=[1, 2, 3, 4, 5])
    two = make(AFTER, [("a", "b"), ("c", "b"), ("f", "a"), ("d", "a")], n=[6, 1, 2, 3, 4])
    found = ncgnn.compare_graphs(one, two)
    assert (found.nodes.added, found.nodes.removed, found.nodes.kept) == (1, 1, 4)
    # b → c was turned around, d → a is new among old nodes, f → a has a new node.
    assert (found.edges.before, found.edges.after) == (3, 4)
    assert (found.edges.added, found.edges.removed, found.edges_among_kept) == (3, 2, 2)
    assert found.labels == {"changed": 1, "added": 1, "removed": 1}
    assert found.relabeled == {("x", "y"): 1}
    assert found.classes == {"x": (2, 1), "y": (1, 2), "z": (1, 0), "w": (0, 1)}
    assert (found.new_classes, found.gone_classes) == (["w"], ["z"])
    assert found.by_id
    said = " ".join(found.sentences())
    assert "5 nodes: 1 new, 1 gone." in said
    assert "1 have another label (x → y 1), 1 have got one, 1 have lost theirs" in said


def test_remarks_are_what_tables_do_not_show():
    one = make(BEFORE, [("a", "b"), ("b", "c"), ("e", "a")], n=[1, 2, 3, 4, 5])
    two = make(AFTER, [("a", "b"), ("c", "b"), ("f", "a"), ("d", "a")], n=[6, 1, 2, 3, 4])
    found = ncgnn.compare_graphs(one, two)
    told = found.remarks()
    assert told[0] == "2 of the new edges are between old nodes."
    assert any("have another label" in sentence for sentence in told)
    assert "Classes that are new: w." in told
    for words in ("5 nodes:", "4 edges:", "Mean NC", "NC is", "Kinds of nodes", "Drifted"):
        assert not any(words in sentence for sentence in told)


def test_examples_that_are_not_all_end_in_dots():
    names = "abcdefgh"
    edges = [("a", "b")]
    before = make([(name, "xyzw"[i % 4]) for i, name in enumerate(names)], edges)
    after = make([(name, "xyzw"[(i + 1) % 4]) for i, name in enumerate(names)], edges)
    (said,) = [one for one in ncgnn.compare_graphs(before, after).sentences() if "label" in one]
    assert said.count("→") == 3
    assert ", …), 0 have got one" in said


def test_kinds_add_up_with_those_that_are_unknown():
    one = make(BEFORE, [("a", "b"), ("d", "c"), ("e", "a")])
    known = [(name, label or "x") for name, label in BEFORE]
    change = ncgnn.compare_graphs(one, make(known, [("a", "b"), ("d", "c")])).confusion
    assert change.shares_before["unknown"] == 1 / 5
    assert change.shares_after["unknown"] == 0
    for shares in (change.shares_before, change.shares_after):
        assert sum(shares.values()) == pytest.approx(1)
    same = ncgnn.compare_graphs(make(known, [("a", "b")]), make(known, [("a", "b")])).confusion
    assert "unknown" not in same.shares_before


def test_the_order_of_rows_changes_nothing():
    rows = [(f"n{i}", "xy"[i % 2]) for i in range(40)]
    edges = [(f"n{i}", f"n{(i * 7 + 3) % 40}") for i in range(40)]
    prices = np.linspace(0, 1, 40)
    one = make(rows, edges, price=prices, color=["red", "blue", "green", "gray"] * 10)
    turned = np.arange(40)[::-1]
    two = make(
        [rows[i] for i in turned], edges[::-1],
        price=prices[turned], color=[["red", "blue", "green", "gray"][i % 4] for i in turned],
    )  # fmt: skip
    found = ncgnn.compare_graphs(one, two)
    assert found.sentences()[0] == "The same 40 nodes and 40 edges."
    assert not found.notable
    assert not found.confusion.moved
    assert found.confusion.distance == 0
    assert found.confusion.before == pytest.approx(found.confusion.after)
    assert all(one.index == pytest.approx(0) for one in found.columns)


@pytest.fixture(scope="module")
def random_nights():
    random = np.random.default_rng(0)

    def night(rows, shift=0.0, colors=(0.5, 0.3, 0.2), more=""):
        words = random.choice(["old", "big", "wet", "hot"], (rows, 3))
        return ncgnn.read_tables(
            {
                "id": random.permutation(10 * rows)[:rows],
                "y": random.choice(["x", "y", "z"], rows),
                "size": random.normal(shift, 2.0, rows),
                "color": random.choice(["red", "blue", "green"], rows, p=colors),
                "text": [" ".join(row) + (f" {more}" if more else "") for row in words],
            },
            label="y",
            columns={"text": "text"},
        )

    return night


def test_chance_is_no_drift(random_nights):
    first = random_nights(2000)
    alarms = sum(bool(ncgnn.compare_graphs(first, random_nights(1500)).notable) for _ in range(10))
    assert alarms == 0
    # With few rows an index above 0.1 is nothing unusual.
    few = [ncgnn.compare_graphs(random_nights(40), random_nights(40)) for _ in range(10)]
    assert any(one.index > 0.1 for found in few for one in found.columns)
    assert sum(bool(found.notable) for found in few) <= 3


def test_drift_is_named(random_nights):
    first, shares = random_nights(2000), (0.2, 0.3, 0.5)
    found = ncgnn.compare_graphs(first, random_nights(2000, 1.0, shares, "fresh"))
    assert {one.name for one in found.notable} == {"size", "color", "text"}
    by_name = {one.name: one for one in found.columns}
    assert by_name["size"].shift == pytest.approx(0.5, abs=0.1)
    # A row has one new word beside 37/16 different old ones on average.
    assert by_name["text"].unseen == pytest.approx(16 / 53, abs=0.01)
    said = " ".join(found.sentences())
    assert "30% of the words are new" in said
    assert "text: fresh" in found.new_features


def test_limits_are_those_of_the_literature():
    before, after = np.array([50, 30, 20]), np.array([20, 30, 50])
    index, chance = stability_index(before, after)
    p, q = (before + 0.5) / 101.5, (after + 0.5) / 101.5
    assert index == pytest.approx(float(((q - p) * np.log(q / p)).sum()))
    assert chance == pytest.approx(chi2.ppf(0.99, 2) * 0.02, rel=0.02)


def test_distance_of_nc_is_that_of_scipy():
    one, two = ncgnn.generate(200, 3, seed=0), ncgnn.generate(150, 3, seed=1)
    found = ncgnn.compare_graphs(one, two).confusion
    values = [ncgnn.neighborhood_confusion(g).round(9) for g in (one, two)]
    known = [v[~np.isnan(v)] for v in values]
    assert found.distance == pytest.approx(ks_2samp(*known).statistic)


def test_graphs_of_pyg_are_matched_by_number_and_features_that_moved_are_named():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=random)
    edges = torch.randint(300, (2, 900), generator=random)
    y = torch.arange(300) % 3
    moved = x.clone()
    moved[:, 2] += 1
    found = ncgnn.compare_graphs(Data(x=x, edge_index=edges, y=y),
                                 Data(x=moved, edge_index=edges, y=y))  # fmt: skip
    assert not found.by_id
    assert "matched by their numbers" in found.sentences()[0]
    assert [one.name for one in found.columns] == ["feature 2"]
    assert found.columns[0].shift == pytest.approx(1, abs=0.15)


def test_graphs_without_labels_have_no_nc():
    edges = np.array([[0, 1], [1, 2]])
    found = ncgnn.compare_graphs(edges, edges)
    assert found.confusion is None
    assert found.to_json()["nc"] is None
