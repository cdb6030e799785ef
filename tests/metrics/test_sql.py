"""NC and NH by SQL agree with the kernels, in every dialect and from every kind of table."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from metric_strategies import Case, cases, drawn_case

import ncgnn
from ncgnn.errors import DataNotFoundError, InputError
from ncgnn.graph import Graph
from ncgnn.metrics import sql
from ncgnn.metrics.sql import engine
from postgres_server import Psql, serve

duckdb = pytest.importorskip("duckdb")

TOLERANCE = 1e-12
#: Graphs with so many pairs of nodes within two steps that SQL takes long.
LARGE = {"computers", "tolokers", "fb100-cornell5", "coauthor-physics"}
#: Self-loops, repeated edges, both directions, unlabeled and isolated nodes, a spare class.
MIXED = drawn_case(5, 60, 3, 4, unlabeled=0.3, hubs=1)
#: What NC and NH are where nothing, or hardly anything, is known.
CORNERS = {
    "mixed": MIXED,
    "undirected": drawn_case(6, 40, 4, 3, unlabeled=0.2, directed=False),
    "no edges": Case(4, [], [0, 1, -1, 1], 2),
    "only loops": Case(3, [(0, 0), (1, 1), (1, 1)], [0, 1, -1], 3),
    "one class": Case(4, [(0, 1), (1, 2), (2, 2)], [0, 0, -1, 0], 1),
    "one class of three": Case(3, [(0, 1), (1, 2)], [0, 0, -1], 3),
    "unlabeled neighbors": Case(5, [(0, 1), (1, 0), (2, 1), (3, 4)], [0, -1, -1, -1, -1], 2),
}


def tables_of(case):
    """Nodes and edges of a graph as people have them: unlabeled is empty."""
    labels = [None if label < 0 else label for label in case.labels]
    nodes = pa.table({"id": list(range(case.num_nodes)), "label": pa.array(labels, pa.int64())})
    ends = case.edge_index()
    return nodes, pa.table({"source": ends[0], "target": ends[1]})


def graph_of(case, direction):
    """The graph whose stored edges are those that a direction lets messages pass along."""
    ends = case.edge_index()
    if direction == "backward":
        ends = ends[::-1]
    elif direction == "both":
        ends = np.concatenate([ends, ends[::-1]], axis=1)
    fields = {"labels": case.labels, "num_classes": case.num_classes}
    return Graph.from_edge_index(ends, num_nodes=case.num_nodes, **fields)


def expected(graph, hops):
    """The columns of SQL by the kernels."""
    found = {
        "nh_open": ncgnn.node_homophily(graph),
        "nh_closed": ncgnn.node_homophily(graph, neighborhood="closed"),
    }
    return found | {f"nc_{k}": ncgnn.neighborhood_confusion(graph, hops=k) for k in hops}


def assert_same(found, graph, hops=(1, 2)):
    for name, values in expected(graph, hops).items():
        mine = np.asarray(found[name], dtype=np.float64)
        np.testing.assert_allclose(mine, values, rtol=0, atol=TOLERANCE, err_msg=name)


def by_id(table):
    """Columns of a table in the order of its ids, null as NaN."""
    rows = table.sort_by("id")
    return {name: rows[name].to_numpy(zero_copy_only=False) for name in rows.column_names}


def measure(nodes, edges, **options):
    options = {"label": "label", "memory": "500MB", "threads": 1} | options
    return sql.confusion_by_sql(nodes, edges, **options)


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
@pytest.mark.parametrize("name", CORNERS)
def test_duckdb_equals_the_kernels(name, direction):
    case = CORNERS[name]
    found = measure(
        *tables_of(case), direction=direction, num_classes=case.num_classes, hops=(1, 2, 3)
    )
    graph = graph_of(case, direction)
    assert_same(by_id(found.table), graph, (1, 2, 3))
    assert found.nodes == graph.num_nodes
    stored = graph.num_entries - graph.num_self_loops
    assert found.edges == (stored // 2 if direction == "both" else stored)
    assert found.unlabeled == graph.num_unlabeled
    assert found.isolated == int((graph.degrees <= graph.self_loops).sum())


@settings(max_examples=40)
@given(cases())
def test_duckdb_equals_the_kernels_on_drawn_graphs(case):
    found = measure(
        *tables_of(case), direction="forward", num_classes=case.num_classes, hops=(1, 2)
    )
    assert_same(by_id(found.table), graph_of(case, "forward"))


def test_means_are_those_of_an_analysis():
    graph = ncgnn.load("digits")
    nodes, edges = tables_of_graph(graph)
    found = measure(nodes, edges, direction="forward", hops=(1, 2), threshold=0.2)
    told, theirs = found.to_json(), ncgnn.analyze(graph, threshold=0.2).to_json()
    for key in ("nodes", "classes", "unlabeled", "threshold", "high_share"):
        assert told[key] == theirs[key]
    assert told["means"] == pytest.approx({key: theirs["means"][key] for key in told["means"]})
    assert told["high_share"]["nc_1"] > 0
    assert_same(by_id(found.table), graph)
    assert found.table["degree"].to_pylist() == graph.degrees.tolist()


def tables_of_graph(graph):
    labels = graph.labels
    targets = np.repeat(np.arange(graph.num_nodes), graph.degrees)
    nodes = pa.table({"id": np.arange(len(labels)), "label": pa.array(labels, mask=labels < 0)})
    return nodes, pa.table({"source": graph.indices, "target": targets})


def real_names():
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("NCGNN_TEST_DATA", folder))
    return sorted(path.stem for path in folder.glob("*.npz")) or ["pubmed"]


@pytest.mark.parametrize("name", real_names())
def test_one_hop_of_real_graphs(name, real_data_dir):
    check_real(real_data_dir / f"{name}.npz", (1,))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in real_names()],
)
def test_two_hops_of_real_graphs(name, real_data_dir):
    check_real(real_data_dir / f"{name}.npz", (2,))


def check_real(path, hops):
    with np.load(path, allow_pickle=False) as arrays:
        graph = Graph.from_edge_index(arrays["edge_index"], labels=arrays["y"])
    options = {"direction": "forward", "num_classes": graph.num_classes, "memory": "2GB"}
    found = measure(*tables_of_graph(graph), hops=hops, **options)
    assert_same(by_id(found.table), graph, hops)
    values = expected(graph, hops)
    assert found.means == pytest.approx(
        {name: ncgnn.metrics.mean(values[name]) for name in found.means}, abs=TOLERANCE
    )


def test_paths_are_counted_part_by_part_where_there_are_many(monkeypatch):
    told = []
    monkeypatch.setattr(engine, "_MOST_PATHS", 300)
    found = measure(*tables_of(MIXED), hops=(1, 2, 3), num_classes=4, progress=told.append)
    assert any("part 7 of" in text for text in told)
    assert_same(by_id(found.table), graph_of(MIXED, "both"), (1, 2, 3))


# The statements, as they are printed.


def rows_of(text):
    """What a database printed as CSV: columns by id, empty = NaN."""
    rows = sorted(csv.DictReader(io.StringIO(text)), key=lambda row: int(row["id"]))
    return {
        name: [float(row[name]) if row[name] else np.nan for row in rows] for name in [*rows[0]]
    }


@pytest.fixture
def database():
    """The mixed graph as two tables, with a third kind of edges that do not count."""
    nodes, edges = tables_of(MIXED)
    more = {"source": [0, 1, 2], "target": [9, 9, 9], "kind": ["it's", "no", "no"]}
    edges = edges.append_column("kind", pa.array(["yes"] * len(edges), pa.string()))
    edges = pa.concat_tables([edges, pa.table(more)])
    with duckdb.connect() as connection:
        connection.register("given_nodes", nodes)
        connection.register("given_edges", edges)
        connection.execute("CREATE TABLE nodes AS FROM given_nodes")
        connection.execute("CREATE TABLE edges AS FROM given_edges")
        yield connection


def run(connection, statement):
    return connection.sql(statement).to_arrow_table()


KINDS = {"kind": "kind", "kinds": ["yes"], "num_classes": 4}


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_printed_statements_run_as_they_are(database, direction):
    graph, hops = graph_of(MIXED, direction), (1, 2)
    asked = KINDS | {"direction": direction, "hops": hops}
    for what in ("nc", "nodes"):
        found = by_id(run(database, sql.write_statement(what, **asked)))
        values = expected(graph, hops)
        for name in found.keys() & values.keys():
            np.testing.assert_allclose(found[name], values[name], rtol=0, atol=TOLERANCE)
        assert {"nc_1", "nc_2"} <= found.keys()
    found = by_id(run(database, sql.write_statement("nh", **asked)))
    for k, end in ((1, ""), (2, "_2")):
        for kind in ("open", "closed"):
            theirs = ncgnn.node_homophily(graph, hops=k, neighborhood=kind)
            np.testing.assert_allclose(found[f"nh_{kind}{end}"], theirs, rtol=0, atol=TOLERANCE)


def test_a_summary_is_the_mean_of_the_nodes(database):
    asked = KINDS | {"hops": (1, 2), "threshold": 0.3}
    (told,) = run(database, sql.write_statement("summary", **asked)).to_pylist()
    edges = "SELECT * FROM edges WHERE kind = 'yes'"
    found = measure("nodes", edges, database=database, hops=(1, 2), num_classes=4, threshold=0.3,
                    memory=None, threads=None)  # fmt: skip
    for name, value in found.means.items():
        assert told[name] == pytest.approx(value, abs=TOLERANCE)
    assert (told["nodes"], told["edges"]) == (found.nodes, found.edges)
    assert told["high_1"] == pytest.approx(found.high_share[1])
    assert (told["unlabeled"], told["isolated"]) == (found.unlabeled, found.isolated)
    assert 0 < told["unlabeled"] < told["nodes"]


def test_a_check_counts_what_is_wrong():
    nodes = {"id": ["a", "b", "b", None, "c"], "label": ["x", None, "y", "x", "x"]}
    edges = {"source": ["a", "b", None, "q", "q"], "target": ["b", "z", "a", "a", "p"]}
    with duckdb.connect() as connection:
        connection.register("nodes", pa.table(nodes))
        connection.register("edges", pa.table(edges))
        (told,) = run(connection, sql.write_statement("check")).to_pylist()
    assert told == {
        "nodes": 5,
        "labeled": 4,
        "classes": 2,
        "missing_ids": 1,
        "repeated_ids": 1,
        "edges": 5,
        "missing_ends": 1,
        "unknown_ends": 3,
    }


@pytest.mark.parametrize("dialect", [*sql.DIALECTS])
def test_every_dialect_means_the_same(database, dialect):
    """Read with its own grammar, and run by DuckDB."""
    sqlglot = pytest.importorskip("sqlglot")
    asked = KINDS | {"kinds": ["yes"], "hops": (1, 2), "dialect": dialect, "unlabeled": ["none"]}
    for unknown in ("drop", "add"):
        for what in sql.WHATS:
            text = sql.write_statement(what, **asked, unknown=unknown)
            (statement,) = sqlglot.transpile(text, read=dialect, write="duckdb")
            found = run(database, statement)
            if what == "nodes":
                assert_same(by_id(found), graph_of(MIXED, "both"))


@pytest.fixture(scope="module")
def psql():
    with serve() as port:
        yield Psql(port)


def in_postgres(psql, nodes, edges, names):
    """Create and fill two tables; ``names`` are those of tables and columns as SQL has them."""
    people, links, id, label, source, target = names
    kind = "TEXT" if pa.types.is_string(nodes["id"].type) else "BIGINT"
    text = f"CREATE TABLE {people} ({id} {kind}, {label} TEXT);\n"
    text += f"CREATE TABLE {links} ({source} {kind}, {target} {kind});\n"
    for name, table in ((people, nodes), (links, edges)):
        stream = io.BytesIO()
        pc.write_csv(table, stream, pc.WriteOptions(include_header=False))
        text += f"COPY {name} FROM STDIN (FORMAT csv);\n{stream.getvalue().decode()}\\.\n"
    psql(text)


@pytest.mark.parametrize("name", ["mixed", "one class", "unlabeled neighbors"])
def test_postgresql_equals_the_kernels(psql, name):
    case = CORNERS[name]
    schema = f"run_{name.replace(' ', '_')}"
    psql(f"CREATE SCHEMA {schema};")
    names = (f"{schema}.people", f"{schema}.knows", "id", "label", "source", "target")
    in_postgres(psql, *tables_of(case), names)
    for direction in ("both", "forward", "backward"):
        graph = graph_of(case, direction)
        for unknown in ("drop", "add"):
            text = sql.write_statement(
                "nodes",
                *names[:2],
                dialect="postgres",
                hops=(1, 2),
                direction=direction,
                num_classes=case.num_classes,
                unknown=unknown,
            )
            assert_same(rows_of(psql(text)), graph)
    (summary,) = csv.DictReader(
        io.StringIO(psql(sql.write_statement("summary", *names[:2], dialect="postgres")))
    )
    assert int(summary["nodes"]) == case.num_nodes
    (check,) = csv.DictReader(
        io.StringIO(psql(sql.write_statement("check", *names[:2], dialect="postgres")))
    )
    assert (check["unknown_ends"], check["missing_ids"]) == ("0", "0")


@pytest.mark.parametrize("name", ["cora", "actor", "chameleon-filtered"])
def test_postgresql_equals_the_kernels_on_real_graphs(psql, name, real_data_dir):
    with np.load(real_data_dir / f"{name}.npz", allow_pickle=False) as arrays:
        graph = Graph.from_edge_index(arrays["edge_index"], labels=arrays["y"])
    quoted = f'"{name}"'
    psql(f"CREATE SCHEMA {quoted};")
    names = (f"{quoted}.nodes", f"{quoted}.edges", "id", "label", "source", "target")
    in_postgres(psql, *tables_of_graph(graph), names)
    asked = {"dialect": "postgres", "hops": (1, 2), "direction": "forward"}
    text = sql.write_statement("nc", f"{name}.nodes", f"{name}.edges", **asked)
    found = rows_of(psql(text))
    for k in (1, 2):
        theirs = ncgnn.neighborhood_confusion(graph, hops=k)
        np.testing.assert_allclose(found[f"nc_{k}"], theirs, rtol=0, atol=TOLERANCE)


#: Names that would break out of a statement, or that some database reserves.
NASTY = ("user", 'a"b; DROP TABLE x; --', "order", "class of it", "from", "to")


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def test_names_are_quoted_where_they_must_be(psql):
    nodes, edges = tables_of(MIXED)
    in_postgres(psql, nodes, edges, tuple(map(quoted, NASTY)))
    options = dict(zip(("id", "label", "source", "target"), NASTY[2:], strict=True))
    options |= {"num_classes": 4, "hops": (1, 2)}
    # A dot would be taken for the one between schema and table.
    people, links = NASTY[0], quoted(NASTY[1])
    found = rows_of(psql(sql.write_statement("nc", people, links, dialect="postgres", **options)))
    graph = graph_of(MIXED, "both")
    theirs = ncgnn.neighborhood_confusion(graph, hops=2)
    np.testing.assert_allclose(found["nc_2"], theirs, rtol=0, atol=TOLERANCE)
    with duckdb.connect() as connection:
        connection.register("given_nodes", nodes.rename_columns([NASTY[2], NASTY[3]]))
        connection.register("given_edges", edges.rename_columns([NASTY[4], NASTY[5]]))
        connection.execute(f"CREATE TABLE {quoted(NASTY[0])} AS FROM given_nodes")
        connection.execute(f"CREATE TABLE {quoted(NASTY[1])} AS FROM given_edges")
        found = by_id(run(connection, sql.write_statement("nc", people, links, **options)))
    np.testing.assert_allclose(found["nc_2"], theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("dialect", "name", "written"),
    [
        ("postgres", "shop.Orders", "shop.Orders"),
        ("postgres", 'shop."Orders"', 'shop."Orders"'),
        ("postgres", "a b.c", '"a b".c'),
        ("snowflake", "db.sales.orders", "db.sales.orders"),
        ("snowflake", "group", '"group"'),
        ("bigquery", "my-project.d.t", "`my-project`.d.t"),
        ("bigquery", "`my-project.d.t`", "`my-project.d.t`"),
        ("spark", "a`b", "`a``b`"),
        ("duckdb", "it's.parquet", "read_parquet('it''s.parquet')"),
        ("duckdb", "x.CSV.gz", "read_csv('x.CSV.gz', header = true, all_varchar = true, skip = 0)"),
        ("duckdb", "s3://bucket/x", "'s3://bucket/x'"),
        ("duckdb", "main.t", "main.t"),
    ],
)
def test_names_of_tables(dialect, name, written):
    text = sql.write_statement("nc", name, "e", dialect=dialect)
    assert f"FROM {written} AS n" in text


@pytest.mark.parametrize("dialect", [*sql.DIALECTS])
def test_texts_are_escaped(dialect):
    sqlglot = pytest.importorskip("sqlglot")
    nasty = "it's a \\ 'trap'; --"
    text = sql.write_statement("nc", dialect=dialect, kind="kind", kinds=[nasty])
    parsed = sqlglot.parse(text, read=dialect)
    assert len(parsed) == 1
    literals = [one.this for one in parsed[0].find_all(sqlglot.exp.Literal) if one.is_string]
    assert set(literals) == {nasty}


def test_steps_are_not_called_like_tables():
    nodes, edges = tables_of(MIXED)
    with duckdb.connect() as connection:
        connection.register("known", nodes)
        connection.register("pairs", edges)
        asked = {"num_classes": 4, "hops": (1, 2)}
        found = by_id(run(connection, sql.write_statement("nc", "known", "pairs", **asked)))
        again = measure("known", "pairs", database=connection, memory=None, threads=None, **asked)
    theirs = ncgnn.neighborhood_confusion(graph_of(MIXED, "both"), hops=2)
    np.testing.assert_allclose(found["nc_2"], theirs, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(by_id(again.table)["nc_2"], theirs, rtol=0, atol=TOLERANCE)


def test_a_query_stands_for_a_table(database):
    text = sql.write_statement("nc", "SELECT id, label FROM nodes -- all of them", **KINDS)
    assert text.count("all of them") == 1
    found = by_id(run(database, text))
    assert_same(found | expected(graph_of(MIXED, "both"), ()), graph_of(MIXED, "both"), (1,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "postgre"}, "unknown dialect 'postgre'; did you mean postgres"),
        ({"what": "ncc"}, "unknown statement 'ncc'"),
        ({"nodes": ""}, "nodes must be the name of a table"),
        ({"nodes": "a..b"}, "nodes must be the name of a table"),
        ({"id": "a\nb"}, "id must be the name of a table or column"),
        ({"id": "a`b", "dialect": "bigquery"}, "id must hold no backtick"),
        ({"hops": 0}, "hops must be a whole number from 1"),
        ({"hops": ()}, "hops must name at least one"),
        ({"direction": "out"}, "direction must be both, forward or backward"),
        ({"unknown": "error"}, "unknown must be drop or add in a statement"),
        ({"unknown": "x"}, "unknown must be error, drop or add"),
        ({"kinds": ["a"]}, "name it"),
        ({"kind": "k", "kinds": []}, "kinds must name at least one"),
        ({"unlabeled": ["a\0"]}, "must be one line"),
        ({"num_classes": 0}, "num_classes must be a whole number"),
        ({"threshold": 2}, "threshold must be between 0 and 1"),
    ],
)
def test_mistakes_in_statements_are_told(options, message):
    with pytest.raises(InputError, match=message):
        sql.write_statement(**options)


# Where tables come from.

PEOPLE = {"id": ["007", "7", "x y"], "team": ["red", "", "blue"], "age": [1, 2, 3]}
KNOWS = {"from": ["007", "7", "7", "x y"], "to": ["7", "x y", "x y", "x y"], "n": [1, 2, 3, 4]}


def people_by_kernel():
    graph = ncgnn.read_tables(PEOPLE, KNOWS, id="id", label="team", columns={"age": "ignore"})
    return {"nc": ncgnn.neighborhood_confusion(graph).tolist(), "ids": graph.ids.tolist()}


@pytest.fixture
def written(tmp_path):
    """The tables in all kinds of files."""
    for name, columns in (("people", PEOPLE), ("knows", KNOWS)):
        table = pa.table(columns)
        pq.write_table(table, tmp_path / f"{name}.parquet")
        pc.write_csv(table, tmp_path / f"{name}.csv")
        pc.write_csv(table, tmp_path / f"{name}.tsv", pc.WriteOptions(delimiter="\t"))
        feather.write_feather(table, tmp_path / f"{name}.arrow")
        half = len(table) // 2
        pc.write_csv(table.slice(0, half), tmp_path / f"part-{name}-0.csv")
        pc.write_csv(table.slice(half), tmp_path / f"part-{name}-1.csv")
        pq.write_table(table.slice(0, half), tmp_path / f"part-{name}-0.parquet")
        pq.write_table(table.slice(half), tmp_path / f"part-{name}-1.parquet")
        (tmp_path / f"{name}.jsonl").write_text(
            "\n".join(json.dumps(row) for row in table.to_pylist())
        )
    with duckdb.connect(str(tmp_path / "mine.duckdb")) as connection:
        for name, columns in (("people", PEOPLE), ("knows", KNOWS)):
            connection.register("given", pa.table(columns))
            connection.execute(f"CREATE TABLE {name} AS FROM given")
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    [
        *("{}.parquet", "{}.csv", "{}.tsv", "{}.arrow", "{}.jsonl"),
        *("part-{}-*.parquet", "part-{}-*.csv"),
    ],
)
def test_files(written, pattern):
    places = [str(written / pattern.format(name)) for name in ("people", "knows")]
    check_people(measure(*places, label="team"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (b"id,team\na,x\nb,y,z\n", "Expected Number of Columns: 2 Found: 3"),
        (b"id,team\na\nb,y\n", "Expected Number of Columns: 2 Found: 1"),
        (b"id,team\nm\xfcller,x\n", "not utf-8"),
        (b"id,id\na,x\n", "the column 'id' is there twice"),
    ],
)
def test_bad_text_files_are_told(tmp_path, rows, message):
    """DuckDB's guesses would leave out rows, or take them for the header."""
    (tmp_path / "people.csv").write_bytes(rows)
    with pytest.raises(InputError, match=message) as caught:
        measure(tmp_path / "people.csv", {"a": ["a"], "b": ["b"]}, label="team")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_text_files_as_people_have_them(tmp_path, packed):
    content = '\ufeffid;team\nm\u00fcller;x\n"b;""c";"y"\n'.encode()
    path = tmp_path / ("people.csv.gz" if packed else "people.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    found = measure(path, {"a": ["müller"], "b": ['b;"c']}, label="team")
    assert found.table["id"].to_pylist() == ['b;"c', "müller"]
    assert found.table["nc_1"].to_pylist() == [1, 1]
    (tmp_path / "latin.csv").write_bytes("id,team\nmüller,x\nb,y\n".encode("latin-1"))
    edges = {"a": ["müller"], "b": ["b"]}
    assert measure(tmp_path / "latin.csv", edges, label="team", encoding="latin-1").edges == 1


def check_people(found):
    theirs = people_by_kernel()
    rows = {row["id"]: row["nc_1"] for row in found.table.to_pylist()}
    assert rows == pytest.approx(dict(zip(theirs["ids"], theirs["nc"], strict=True)))
    assert (found.edges, found.unlabeled, found.classes) == (2, 1, 2)


def test_tables_in_memory_and_in_databases(written):
    check_people(measure(PEOPLE, KNOWS, label="team"))
    check_people(measure(pa.table(PEOPLE), pa.table(KNOWS), label="team"))
    dataset = ds.dataset(written / "knows.parquet")
    check_people(measure(written / "people.parquet", dataset, label="team"))
    check_people(measure("people", "knows", label="team", database=written / "mine.duckdb"))
    check_people(measure("main.people", str(written / "knows.csv"), label="team",
                         database=str(written / "mine.duckdb")))  # fmt: skip
    query = f"SELECT * FROM '{written / 'people.parquet'}'"
    check_people(measure(query, written / "knows.parquet", label="team"))
    long = f"{query} WHERE CAST(id AS VARCHAR) <> '{'x' * 300}'"
    check_people(measure(long, written / "knows.parquet", label="team"))
    with pytest.raises(InputError, match=r"^postgres:"):
        measure("people", "knows", database=f"postgres:host=localhost port=1 user={'x' * 300}")


def test_a_connection_is_left_as_it_was(written):
    with duckdb.connect(str(written / "mine.duckdb")) as connection:
        before = connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
        options = {"database": connection, "memory": None, "threads": None, "label": "team"}
        check_people(measure("people", "knows", **options))
        check_people(measure("people", pa.table(KNOWS), **options))
        with pytest.raises(InputError, match="no column"):
            measure("people", "knows", **options | {"label": "x"})
        assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == before
        views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal")
        assert views.fetchall() == []
        with pytest.raises(InputError, match="must not be given with an open connection"):
            measure("people", "knows", **options | {"memory": "1GB"})


def test_ids_of_another_type_are_read_as_those_of_the_nodes():
    nodes = {"id": [1, 2, 3], "label": [0.0, 1.0, float("nan")]}
    edges = {"source": ["1", " 2"], "target": [2.0, 3.0]}
    found = measure(nodes, edges)
    assert found.table["nc_1"].to_pylist() == pytest.approx([1, 1, 0])
    assert found.unlabeled == 1
    swapped = measure({"id": ["1", "2"], "label": ["a", "b"]}, {"source": [1], "target": [2]})
    assert swapped.edges == 1


def test_labels_that_mean_none():
    nodes = {"id": [0, 1, 2], "label": [-1, 1, 2]}
    edges = {"source": [0, 1], "target": [1, 2]}
    assert measure(nodes, edges).classes == 3
    for unlabeled in (["-1"], "-1"):
        found = measure(nodes, edges, unlabeled=unlabeled)
        assert (found.classes, found.unlabeled) == (2, 1)
    texts = {"id": [0, 1, 2], "label": [" a ", "NaN", "a"]}
    assert measure(texts, edges).means["nc_1"] == 0
    assert measure(texts, edges).unlabeled == 1


def test_kinds_of_edges():
    nodes = {"id": list("abc"), "label": ["x", "y", "y"]}
    edges = {"source": list("aab"), "target": list("bcc"), "kind": ["near", "far", "far"]}
    for kinds in (["far"], "far"):
        assert measure(nodes, edges, kind="kind", kinds=kinds).edges == 2
    with pytest.raises(InputError, match="no edge is of kind 'fra'; there are far, near"):
        measure(nodes, edges, kind="kind", kinds=["fra"])
    with pytest.raises(InputError, match="name it"):
        measure(nodes, edges, kinds=["far"])


@pytest.mark.parametrize("texts", [True, False])
def test_ends_that_are_no_node(texts):
    """A path through an unknown node exists only where the node is added."""
    name = str if texts else int
    nodes = {"id": list(map(name, (1, 2))), "label": ["x", "y"]}
    edges = {"source": list(map(name, (1, 9))), "target": list(map(name, (9, 2)))}
    with pytest.raises(InputError, match=r"do not have: 9; add their rows.*--unknown drop or add"):
        measure(nodes, edges)
    dropped = measure(nodes, edges, unknown="drop", hops=(1, 2))
    assert (dropped.nodes, dropped.edges, dropped.isolated) == (2, 0, 2)
    assert dropped.table["nc_2"].to_pylist() == [0, 0]
    added = measure(nodes, edges, unknown="add", hops=(1, 2))
    assert (added.nodes, added.edges, added.unlabeled) == (3, 2, 1)
    graph = ncgnn.read_tables(nodes, edges, label="label", unknown="add")
    theirs = dict(zip(graph.ids.tolist(), ncgnn.neighborhood_confusion(graph, hops=2), strict=True))
    rows = {row["id"]: row["nc_2"] for row in added.table.to_pylist()}
    assert rows == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ({"id": [1, 1, 2], "label": [0, 1, 1]}, None, "some ids more than once: 1; every node"),
        ({"id": [1, None, 2], "label": [0, 1, 1]}, None, "column id has no id in 1 rows"),
        ({"id": [1, 1.5, 2], "label": [0, 1, 1]}, None, "must hold texts or whole numbers"),
        ({"id": [[1], [2]], "label": [0, 1]}, None, "must hold texts or whole numbers; got BIG"),
        ({"id": [1, 2], "label": [None, ""]}, None, "column label .label. is empty"),
        ({"id": [1, 2], "label": [0.5, 1]}, None, "must hold names or whole numbers; got a frac"),
        ({"id": [1, 2], "label": [[0], [1]]}, None, "must hold names or whole numbers; got BIG"),
        ({"id": [1, 2], "class": [0, 1]}, None, "no column 'label' .label.; its columns are id"),
        ({"id": [1, 2], "label": [0, 1]}, {"only": [1]}, "edges need two columns"),
        ({"id": [1, 2], "label": [0, 1]}, {"a": [1, None], "b": [2, 2]}, "have no id in 1 rows"),
        ({"id": [1, 2], "label": [0, 1]}, {"a": ["x"], "b": [2]}, "Could not convert"),
        (
            {"id": list(range(200)), "label": list(range(200))},
            None,
            "200 different values in 200 rows, which are no classes",
        ),
        ({"id": pa.array([], pa.int64()), "label": pa.array([], pa.int64())}, None, "has no rows"),
    ],
)
def test_bad_tables_are_told(nodes, edges, message):
    edges = {"source": [1], "target": [2]} if edges is None else edges
    with pytest.raises(InputError, match=message) as caught:
        measure(nodes, edges)
    assert "\n" not in str(caught.value)


def test_bad_places_and_options_are_told(written, tmp_path):
    edges = written / "knows.csv"
    with pytest.raises(DataNotFoundError, match=r"there is no file .*none\.parquet"):
        measure(tmp_path / "none.parquet", edges)
    with pytest.raises(DataNotFoundError, match=r"there is no file .*none-\*\.parquet"):
        measure(str(tmp_path / "none-*.parquet"), edges)
    with pytest.raises(DataNotFoundError, match="no file"):
        measure("people", edges)
    with pytest.raises(DataNotFoundError, match="give the path of a database"):
        measure("people", "knows", database=tmp_path / "none.duckdb")
    with pytest.raises(InputError, match="none does not exist"):
        measure("none", "knows", database=written / "mine.duckdb", label="team")
    with pytest.raises(InputError, match="Parser Error"):
        measure("SELECT * FROM (", edges)
    with pytest.raises(InputError, match="memory must be an amount like 2GB"):
        measure(PEOPLE, KNOWS, memory="lots")
    with pytest.raises(InputError, match="threads must be a whole number"):
        measure(PEOPLE, KNOWS, threads=0)
    with pytest.raises(InputError, match=r"out must end in \.csv"):
        measure(PEOPLE, KNOWS, out=tmp_path / "x.xlsx")
    with pytest.raises(InputError, match="num_classes must be at least 2"):
        measure(PEOPLE, KNOWS, label="team", num_classes=1)


def test_without_duckdb_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match=r"pip install 'ncgnn\[duckdb\]'"):
        measure(PEOPLE, KNOWS, label="team")


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_results_are_written_whole_and_by_id(tmp_path, ending):
    path = tmp_path / "it's here" / f"nodes.{ending}"
    found = measure(*tables_of(MIXED), num_classes=4, out=path, rows=False)
    assert found.table is None
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    if ending == "parquet":
        table = pq.read_table(path)
        assert json.loads(table.schema.metadata[b"ncgnn"])["format"] == 1
    else:
        options = pc.ParseOptions(delimiter="," if ending == "csv" else "\t")
        table = pc.read_csv(path, parse_options=options)
    assert table["id"].to_pylist() == list(range(MIXED.num_nodes))
    assert_same(by_id(table), graph_of(MIXED, "both"), (1,))


def test_too_little_memory_is_told_and_leaves_nothing(tmp_path):
    graph = ncgnn.generate(40_000, 400_000, classes=9, seed=1)
    out, temp = tmp_path / "nodes.csv", tmp_path / "temp"
    with pytest.raises(InputError, match=r"the memory does not suffice.*raise --memory"):
        measure(*tables_of_graph(graph), memory="1MB", temp=temp, out=out)
    assert not out.exists()
    assert list(temp.iterdir()) == []


def test_what_exceeds_the_limit_goes_to_the_temporary_folder(tmp_path):
    graph = ncgnn.generate(100_000, 1_000_000, classes=9, seed=1)
    seen = []

    def look(_):
        seen.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))

    options = {"temp": tmp_path, "memory": "40MB", "direction": "forward", "progress": look}
    found = measure(*tables_of_graph(graph), **options)
    assert max(seen) > 1_000_000
    assert list(tmp_path.iterdir()) == []
    assert_same(by_id(found.table), graph, (1,))
