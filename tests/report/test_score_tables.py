from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from test_run_figures import made_result

from ncgnn.report import confusion_figure, evaluation_tables, picture, places_figure
from ncgnn.report.scores import (
    against_table,
    class_table,
    interval_text,
    pair_table,
    points_text,
    score_text,
)
from ncgnn.training.config import make_config
from ncgnn.training.scores import Scored

LONG = "a class whose name goes on and on, much longer than any table would like"


def detailed_result(classes: int = 4) -> dict[str, Any]:
    """A made result with what scores of real answers say per class."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, classes, 200)
    predicted = np.where(rng.random(200) < 0.8, true, rng.integers(0, classes, 200))
    names = [LONG, *(f"c{number}" for number in range(1, classes))]
    known = Scored(true, predicted, names, np.array([f"node {place}" for place in range(200)]))
    part = np.arange(200) % 2
    ranges: dict[int, dict[str, Any]] = {0: {"from": 0.0, "to": 0.0}, 1: {"from": 0.01, "to": 0.5}}
    degrees: dict[int, dict[str, Any]] = {0: {"from": 2, "to": 2}, 1: {"from": 3, "to": 4}}
    return made_result() | {
        "tenths": {"hops": 1, "alone": False},
        "intervals": {"level": 0.95, "resamples": 1000} | known.intervals(),
        "classes": known.by_class(),
        "confused_pairs": known.confused_pairs(),
        "most_confused": known.most_confused(),
        "accuracy_by_estimated_kind": known.by_part(
            part, {0: {"kind": "clear"}, 1: {"kind": "mixed"}}, macro_f1=True
        ),
        "accuracy_by_estimated_nc_decile": known.by_part(part, ranges),
        "accuracy_by_true_nc_decile": known.by_part(part, ranges),
        "accuracy_by_degree": known.by_part(part, degrees, macro_f1=True),
    }


def test_tables_come_in_the_order_of_interest() -> None:
    tables = evaluation_tables(detailed_result(), make_config(dataset="tiny", model="ncgcn"))
    titles = [table.title for table in tables]
    assert titles[1:] == [
        "Per class of test nodes",
        "Most confused classes",
        "Where the model is right",
    ]
    assert tables[0].head == ("score", "train", "validation", "test", "test, 95 %")
    assert "seeds or splits" in " ".join(tables[0].notes)


def test_classes_are_named_and_long_names_shortened() -> None:
    result = detailed_result()
    table = class_table(result)
    assert table is not None
    first, row = result["classes"][0], table.rows[0]
    assert str(row[0]).endswith("…")
    assert len(str(row[0])) == 40
    ends = interval_text(first["f1_interval"])
    assert row[4] == f"{100 * first['f1']:.1f} ({ends})"
    assert [cell[0] for cell in table.rows[1:]] == ["c1", "c2", "c3"]
    stream = io.StringIO()
    Console(file=stream, width=80).print(table)
    assert max(len(line) for line in stream.getvalue().splitlines()) <= 80


def test_undefined_scores_are_dashes() -> None:
    result = detailed_result()
    result["classes"][1] |= {"precision": None, "precision_interval": None}
    table = class_table(result)
    assert table is not None
    assert table.rows[1][2] == "–"


def test_pairs_have_examples_and_nothing_is_said_of_a_model_that_is_always_right() -> None:
    result = detailed_result()
    table = pair_table(result)
    assert table is not None
    assert "node " in str(table.rows[0][4])
    counts = [int(str(row[2])) for row in table.rows]
    assert counts == sorted(counts, reverse=True)
    assert pair_table(result | {"confused_pairs": []}) is None
    empty: dict[str, Any] = {"classes": [], "counts": [], "support": []}
    assert confusion_figure(result | {"most_confused": empty}) is None


def test_places_say_what_is_estimated_and_what_true() -> None:
    *_, table = evaluation_tables(detailed_result(), make_config(dataset="tiny", model="ncgcn"))
    titles = [str(row[0]) for row in table.rows if len(row) == 1]
    assert titles == [
        "Kind, estimated",
        "Kind, by the true labels",
        "NC, estimated, k=1, tenths of nodes with neighbors",
        "NC of the true labels, k=1, tenths of nodes with neighbors",
        "NC of the true labels, k=2, at 0.4",
        "Groups of the model",
        "Degree",
        "Node homophily NH of the true labels",
    ]
    names = [str(row[0]) for row in table.rows]
    assert "0.010 to 0.500" in names
    assert "0.000" in names
    assert "3 to 4" in names


def test_a_run_of_an_earlier_version_shows_what_it_has() -> None:
    old = made_result()
    assert class_table(old) is None
    assert pair_table(old) is None
    assert places_figure(old) is None
    assert confusion_figure(old) is None
    assert len(evaluation_tables(old, make_config(dataset="tiny", model="ncgcn"))) == 2


def test_scores_of_few_nodes_are_not_shown() -> None:
    row = {"nodes": 9, "accuracy": 0.5, "accuracy_interval": [0.2, 0.8]}
    assert score_text(row) == "too few"
    assert score_text(row | {"nodes": 10}) == "50.0 (20.0–80.0)"
    assert score_text({"nodes": 10, "accuracy": 0.5}) == "50.00"
    assert score_text({"nodes": 10, "accuracy": 1.0, "accuracy_interval": None}) == "100"
    assert score_text({"nodes": 0, "accuracy": None}) == "–"


def test_differences_have_signs() -> None:
    assert points_text(0.016, [0.011, 0.0214]) == "+1.6 (+1.1 to +2.1)"
    assert points_text(-0.0001, [-0.01, 0.0]) == "+0.0 (-1.0 to +0.0)"
    assert points_text(0.5, None) == "+50.0"


def test_two_runs_are_compared_in_points() -> None:
    scores: dict[str, Any] = {
        "nodes": 300,
        "only_first": 12,
        "only_second": 3,
        "accuracy": 0.03,
        "accuracy_interval": [0.01, 0.05],
        "macro_f1": -0.01,
        "macro_f1_interval": [-0.02, 0.01],
    }
    parts = [{"kind": "mixed"} | scores, {"kind": "alone"} | scores | {"nodes": 9}]
    table = against_table(made_result() | {"against": {"run": "other"} | scores | {"parts": parts}})
    assert table is not None
    assert table.title == "Against other"
    all_nodes = ("all", "300", "+3.0 (+1.0 to +5.0)", "-1.0 (-2.0 to +1.0)", "12", "3")
    assert table.rows[0] == all_nodes
    assert table.rows[1] == ("mixed", *all_nodes[1:])
    assert table.rows[2][2:4] == ("too few", "too few")


def test_a_control_without_groups_is_not_told_to_have_some() -> None:
    result = detailed_result() | {"group_sizes": [300, 0]}
    for grouped, told in ((True, 1), (False, 0)):
        config = make_config(dataset="tiny", model="ncgcn", settings={"grouped": grouped})
        places = evaluation_tables(result, config)[-1]
        assert sum("high NC holds 0 of 300" in note for note in places.notes) == told


def test_figures_show_intervals_and_shares() -> None:
    result = detailed_result()
    figure = places_figure(result)
    assert figure is not None
    left: Any = figure.axes[0]
    assert [label.get_text() for label in left.get_xticklabels()] == ["0.00\n100", "0.01–0.50\n100"]
    drawn = left.containers[0].lines[0].get_ydata()
    assert list(drawn) == [row["accuracy"] for row in result["accuracy_by_estimated_nc_decile"]]
    heat = confusion_figure(result)
    assert heat is not None
    axis: Any = heat.axes[0]
    assert axis.get_yticklabels()[0].get_text() == "a class whose nam…"
    found = result["most_confused"]
    shares = {
        (row, column): 100 * count / found["support"][row]
        for row, counts in enumerate(found["counts"])
        for column, count in enumerate(counts)
    }
    texts = {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in axis.texts}
    assert texts == {place: f"{share:.0f}" for place, share in shares.items() if share >= 1}
    assert picture(heat, "png").startswith(b"\x89PNG")


@pytest.mark.parametrize("classes", [2, 30])
def test_the_heat_map_holds_few_classes(classes: int) -> None:
    figure = confusion_figure(detailed_result(classes))
    assert figure is not None
    axis: Any = figure.axes[0]
    assert 2 <= len(axis.get_yticklabels()) <= 15
