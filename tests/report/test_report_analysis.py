from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet
import pytest

import ncgnn
from ncgnn.errors import InputError
from ncgnn.report import (
    html_report,
    node_columns,
    striking_tables,
    write_analysis,
    write_columns,
)
from ncgnn.report.mixing import mixing, mixing_order

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def analysis() -> ncgnn.metrics.Analysis:
    graph = ncgnn.Graph.from_edge_index(
        np.array([[0, 1, 2, 3, 0], [1, 0, 1, 1, 0]]),
        num_nodes=5,
        labels=[0, 1, 1, -1, 0],
        class_names=("<b>x</b>", "y"),
        node_ids=["n0", "n1", "n2", "n3", "n4"],
        name="small & odd",
    )
    return ncgnn.analyze(graph)


def test_node_columns_say_what_the_metrics_say(analysis: ncgnn.metrics.Analysis) -> None:
    columns = node_columns(analysis)
    assert columns["id"].tolist() == ["n0", "n1", "n2", "n3", "n4"]
    assert columns["label"].tolist() == ["<b>x</b>", "y", "y", None, "<b>x</b>"]
    assert columns["kind"].tolist() == ncgnn.node_kinds(analysis.graph).tolist()
    assert columns["neighbors"].tolist() == ["y 1", "<b>x</b> 1, y 1", "", "", ""]
    assert columns["commonest"].tolist() == ["<b>x</b>", "y", "y", None, "<b>x</b>"]
    assert columns["group_1"].tolist() == ["high", "high", "low", "low", "low"]
    assert np.array_equal(columns["nc_1"], analysis.per_node["nc_1"], equal_nan=True)


def test_csv_and_parquet_hold_the_same(analysis: ncgnn.metrics.Analysis, tmp_path: Path) -> None:
    write_columns(node_columns(analysis), tmp_path / "nodes.csv", "csv")
    write_columns(node_columns(analysis), tmp_path / "nodes.parquet", "parquet")
    with (tmp_path / "nodes.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    table = pyarrow.parquet.read_table(tmp_path / "nodes.parquet")
    assert list(rows[0]) == table.column_names
    for row, values in zip(rows, table.to_pylist(), strict=True):
        for name, value in values.items():
            assert row[name] == "" if value is None else type(value)(row[name]) == value
    undefined = [row["id"] for row in rows if row["nh_closed"] == ""]
    assert undefined == ["n3"]


def test_unknown_table_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="xlsx"):
        write_columns({}, tmp_path / "nodes.xlsx", "xlsx")  # pyright: ignore


def test_html_escapes_names(analysis: ncgnn.metrics.Analysis) -> None:
    page = html_report(analysis)
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "small &amp; odd" in page


def test_written_folder_is_complete_and_reproducible(
    analysis: ncgnn.metrics.Analysis, tmp_path: Path
) -> None:
    paths = write_analysis(analysis, tmp_path / "one")
    again = write_analysis(analysis, tmp_path / "two")
    names = {path.name for path in paths}
    assert names == {path.name for path in (tmp_path / "one").iterdir()}
    tables = {"nodes.csv", "mixed.csv", "contrary.csv"}
    assert {"report.html", "summary.json", "distribution.png"} | tables <= names
    for first, second in zip(paths, again, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name
    assert (tmp_path / "one" / "classes.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "one" / "distribution.svg").read_bytes()
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert summary["means"]["nc_1"] == pytest.approx(analysis.means["nc_1"])


def test_classes_without_names_stay_numbers() -> None:
    graph = ncgnn.Graph.from_edge_index(np.array([[0], [1]]), labels=[0, 2, -1], num_classes=3)
    columns = node_columns(ncgnn.analyze(graph))
    assert columns["id"].tolist() == [0, 1, 2]
    assert columns["label"].tolist() == [0, 2, None]


def test_another_format_replaces_the_first(
    analysis: ncgnn.metrics.Analysis, tmp_path: Path
) -> None:
    write_analysis(analysis, tmp_path)
    write_analysis(analysis, tmp_path, "parquet")
    assert not list(tmp_path.glob("*.csv"))
    mixed = pyarrow.parquet.read_table(tmp_path / "mixed.parquet").to_pylist()
    assert [row["id"] for row in mixed] == ["n1"]
    assert mixed[0]["neighbors"] == "<b>x</b> 1, y 1"
    assert mixed[0]["labeled_neighbors"] == 2
    contrary = pyarrow.parquet.read_table(tmp_path / "contrary.parquet").to_pylist()
    assert [row["id"] for row in contrary] == ["n0"]
    assert contrary[0]["label"] == "<b>x</b>"


def test_report_lists_striking_nodes_in_tables_that_can_be_searched(
    analysis: ncgnn.metrics.Analysis,
) -> None:
    page = html_report(analysis)
    assert page.count('<table class="data">') == 2
    assert "20% are clear" not in page
    assert "Of 5 nodes 20% are mixed, 20% are contrary, 60% are alone." in page
    mixed, contrary = striking_tables(analysis)
    assert mixed.rows == (("n1", "y", "<b>x</b> 1, y 1", "2", "50%"),)
    assert contrary.rows == (("n0", "<b>x</b>", "y 1", "1", "100%", "100%"),)


def blocks(order: list[int], size: int = 4) -> np.ndarray:
    """Edges between classes of two blocks, their classes shuffled."""
    pairs = np.kron(np.eye(2, dtype=int), np.full((size, size), 50)) + 1
    return pairs[np.ix_(order, order)]


def test_classes_that_mix_stand_side_by_side() -> None:
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    found = [order[place] // 4 for place in mixing_order(blocks(order))]
    assert found in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)
    assert mixing_order(np.ones((2, 2), dtype=int)).tolist() == [0, 1]
    assert sorted(mixing_order(np.zeros((5, 5), dtype=int))) == [0, 1, 2, 3, 4]


def test_small_classes_are_added_up_where_there_are_too_many() -> None:
    labels = np.array([0] * 9 + [1] * 6 + [2, 3, 4, -1])
    edges = np.stack([np.arange(18), np.arange(1, 19)])
    graph = ncgnn.Graph.from_edge_index(edges, labels=labels, num_classes=7)
    analysis = ncgnn.analyze(graph, hops=1)
    every, few = mixing(analysis), mixing(analysis, most=3)
    assert sorted(every.names) == ["0", "1", "2", "3", "4"]
    assert few.names[-1] == "3 others"
    assert few.nodes.tolist()[-1] == 3
    assert few.kinds.sum() == every.kinds.sum() == 18
    kinds = ncgnn.node_kinds(graph)
    assert few.kinds.sum(axis=0).tolist() == [
        int((kinds[labels >= 0] == kind).sum()) for kind in ncgnn.metrics.KINDS
    ]
    # The first small class follows class 1, the other two follow small ones.
    place = few.names.index("1")
    assert few.shares[-1].tolist()[place] == pytest.approx(1 / 3)
    assert few.shares[-1][-1] == pytest.approx(2 / 3)


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, -1], [0, 69, 3]])
def test_reports_of_odd_graphs(labels: list[int], tmp_path: Path) -> None:
    graph = ncgnn.Graph.from_edge_index(np.array([[0], [1]]), labels=labels, num_classes=70)
    write_analysis(ncgnn.analyze(graph, hops=(3,)), tmp_path)
    assert "nc_3" in json.loads((tmp_path / "summary.json").read_text())["means"]
