from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet
import pytest

import ncgnn
from ncgnn.errors import InputError
from ncgnn.report import html_report, node_columns, write_analysis, write_columns

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
    assert columns["node"].tolist() == ["n0", "n1", "n2", "n3", "n4"]
    assert columns["class"].tolist() == ["<b>x</b>", "y", "y", "", "<b>x</b>"]
    assert columns["commonest"].tolist() == [0, 1, 1, -1, 0]
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
    undefined = [row["node"] for row in rows if row["nh_closed"] == ""]
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
    assert {"report.html", "summary.json", "nodes.csv", "distribution.png"} <= names
    for first, second in zip(paths, again, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name
    assert (tmp_path / "one" / "classes.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "one" / "distribution.svg").read_bytes()
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert summary["means"]["nc_1"] == pytest.approx(analysis.means["nc_1"])


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, -1], [0, 69, 3]])
def test_reports_of_odd_graphs(labels: list[int], tmp_path: Path) -> None:
    graph = ncgnn.Graph.from_edge_index(np.array([[0], [1]]), labels=labels, num_classes=70)
    write_analysis(ncgnn.analyze(graph, hops=(3,)), tmp_path)
    assert "nc_3" in json.loads((tmp_path / "summary.json").read_text())["means"]
