"""NC as SQL on the command line: ``analyze --sql`` and ``sql``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.cli.sql import _DIALECTS, _WHATS

if TYPE_CHECKING:
    from pathlib import Path

duckdb = pytest.importorskip("duckdb")

NODES = {"name": list("abcdef"), "team": ["x", "x", "y", "y", "", "z"]}
EDGES = {
    "who": list("aabcdde"),
    "whom": list("bccdeea"),
    "how": ["near", "far", "near", "far", "near", "near", "far"],
}
COLUMNS = ("--id", "name", "--label", "team", "--source", "who", "--target", "whom")
ANALYZE = ("analyze", "nodes.csv", "edges.parquet", "--sql", *COLUMNS, "--memory", "500MB")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    pc.write_csv(pa.table(NODES), tmp_path / "nodes.csv")
    pq.write_table(pa.table(EDGES), tmp_path / "edges.parquet")
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


def graph(**options) -> ncgnn.Graph:
    columns = {"id": "name", "label": "team", "source": "who", "target": "whom"}
    return ncgnn.read_tables(NODES, EDGES, **columns, **options)


def test_names_for_completion_are_those_that_there_are():
    assert tuple(ncgnn.metrics.sql.DIALECTS) == _DIALECTS
    assert ncgnn.metrics.sql.WHATS == _WHATS


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_the_numbers_are_those_of_an_import(run, direction: str) -> None:
    done = run(*ANALYZE, "--json", "--hops", "1,2", "--direction", direction)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    theirs = ncgnn.analyze(graph(direction=direction)).to_json()
    assert found["means"] == pytest.approx({key: theirs["means"][key] for key in found["means"]})
    assert set(found["means"]) == {"nh_open", "nh_closed", "nc_1", "nc_2"}
    for key in ("nodes", "edges", "directed", "classes", "unlabeled", "high_share"):
        assert found[key] == theirs[key], key


def test_tables_are_printed_and_files_written_once(run, tmp_path: Path) -> None:
    done = run(*ANALYZE)
    assert done.exit_code == 0, done.output
    for words in ("Isolated nodes", "Neighborhood Confusion, k=1", "6 undirected", "Means"):
        assert words in done.stdout
    assert "Add --out FOLDER" in done.stderr
    done = run(*ANALYZE, "--out", "report", "--format", "parquet")
    assert done.exit_code == 0, done.output
    assert "report/nodes.parquet" in done.stderr
    table = pq.read_table(tmp_path / "report" / "nodes.parquet").to_pydict()
    assert table["id"] == NODES["name"]
    assert table["nc_1"] == pytest.approx(ncgnn.neighborhood_confusion(graph()).tolist())
    summary = json.loads((tmp_path / "report" / "summary.json").read_bytes())
    assert (summary["format"], summary["nodes"]) == (1, 6)
    again = run(*ANALYZE, "--out", "report", "--format", "parquet")
    assert again.exit_code == 2
    assert "add --force" in again.stderr
    assert run(*ANALYZE, "--out", "report", "--format", "parquet", "--force").exit_code == 0


def test_options_reach_the_tables(run) -> None:
    def edges(*words):
        done = run(*ANALYZE, *words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert edges("--kind", "how", "--kinds", "far=0.5")["edges"] == 3
    assert edges("--unlabeled", "x,y", "--classes", "7")["unlabeled"] == 5
    assert edges("--classes", "7")["classes"] == 7
    assert edges("--threshold", "0.99")["threshold"] == 0.99


def test_tables_of_a_database(run, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "mine.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS FROM 'nodes.csv'")
        connection.execute("CREATE TABLE knows AS FROM 'edges.parquet'")
    words = ("analyze", "people", "knows", "--sql", *COLUMNS, "--database", "mine.duckdb")
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["nodes"] == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("analyze", "nodes.csv", "--sql", *COLUMNS), "--sql needs two tables"),
        (("analyze", "nodes.csv", "edges.parquet", "--sql"), "--label must name the column"),
        (("analyze", "nodes.csv", "edges.parquet"), "need --sql and --label"),
        (("analyze", "digits", "--label", "x"), "--label must come with --sql"),
        (("analyze", "digits", "--memory", "2GB"), "--memory must come with --sql"),
        ((*ANALYZE, "--related"), "must come without --sql"),
        ((*ANALYZE, "--label", "tame"), "there is no column 'tame' (label); its columns are name"),
        ((*ANALYZE, "--source", "x"), "there is no column 'x' (source)"),
        ((*ANALYZE, "--memory", "much"), "memory must be an amount like 2GB"),
        ((*ANALYZE, "--kind", "how", "--kinds", "farr"), "no edge is of kind 'farr'"),
        ((*ANALYZE, "--classes", "2"), "num_classes must be at least 3"),
        ((*ANALYZE, "--hops", "0"), "--hops must be different whole numbers from 1"),
        ((*ANALYZE, "--database", "none.duckdb"), "there is no file none.duckdb"),
        (("analyze", "none.csv", *ANALYZE[2:]), "there is no file none.csv"),
        (("analyze", "SELECT 1 FROM nix", *ANALYZE[2:]), "nix does not exist"),
        (("sql", "nc", "--dialect", "oracle"), "unknown dialect 'oracle'; known: duckdb"),
        (("sql", "entropy"), "unknown statement 'entropy'; known: nc"),
        (("sql", "nc", "a b.", "--dialect", "spark"), "nodes must be the name of a table"),
        (("sql", "nc", "--id", " "), "id must be the name of a table or column"),
        (("sql", "nc", "--kinds", "a"), "name it (--kind)"),
    ],
)
def test_mistakes_are_one_line(run, words, message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_printed_statement_runs_as_it_is(run) -> None:
    done = run("sql", "nc", "nodes.csv", "edges.parquet", *COLUMNS, "--unlabeled", "-1,none")
    assert done.exit_code == 0, done.output
    with duckdb.connect() as connection:
        found = dict(connection.execute(done.stdout).fetchall())
    assert found == pytest.approx(
        dict(zip(NODES["name"], ncgnn.neighborhood_confusion(graph()).tolist(), strict=True))
    )


def test_a_statement_has_the_names_of_the_dialect(run) -> None:
    words = ("sql", "nh", "my-project.shop.people", "shop.knows", "--id", "group")
    done = run(*words, "--dialect", "bigquery", "--direction", "forward")
    assert done.exit_code == 0, done.output
    assert "SELECT n.`group` AS node, n.label AS label FROM `my-project`.shop.people AS n" in (
        done.stdout
    )
    assert "FLOAT64" in done.stdout
    assert done.stdout.endswith(";\n")
    told = json.loads(run(*words, "--dialect", "postgres", "--json").stdout)
    assert told["dialect"] == "postgres"
    assert 'n."group"' in told["statement"]
    assert '"my-project".shop.people' in told["statement"]


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_debian_by_sql(run, real_data_dir: Path, release: str) -> None:
    folder = real_data_dir / "debian" / release
    tables = (folder / "packages.parquet", folder / "dependencies.parquet")
    columns = ("--id", "package", "--label", "section", "--source", "package", "--target", "needs")
    done = run("analyze", *tables, "--sql", *columns, "--memory", "1GB", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = ("id", "label", "source", "target")
    options = dict(zip(names, columns[1::2], strict=True))
    ends = pq.read_table(tables[1], columns=["package", "needs"])
    nodes = pq.read_table(tables[0], columns=["package", "section"])
    theirs = ncgnn.analyze(ncgnn.read_tables(nodes, ends, **options), hops=1).means
    assert found["means"] == pytest.approx({key: theirs[key] for key in found["means"]}, abs=1e-12)
