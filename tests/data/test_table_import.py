"""Tables as a graph: kinds of columns, labels, edges, and rows that come later."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import ncgnn
from ncgnn.data import read_manifest, read_schema, read_tables
from ncgnn.errors import DataNotFoundError, InputError

WORDS = ["red apple pie", "green tea", "blue sky and sea", "red wine", "green apple"]


def nodes_of(count=30):
    return {
        "name": [f"n{i}" for i in range(count)],
        "class": [["x", "y", None][i % 3] for i in range(count)],
        "size": [None if i == 4 else float(i % 7) for i in range(count)],
        "amount": [10.0 ** (i % 9 if i % 5 == 0 else 0) for i in range(count)],
        "color": [["red", "green"][i % 2] for i in range(count)],
        "about": [f"{WORDS[i % 5]} number{i}" for i in range(count)],
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(count)],
        "place": [[float(i), 1.0 - i] for i in range(count)],
        "constant": ["same"] * count,
    }


def edges_of(count=30):
    return {
        "a": [f"n{i}" for i in range(count - 1)],
        "b": [f"n{i + 1}" for i in range(count - 1)],
        "how": [["likes", "knows"][i % 2] for i in range(count - 1)],
        "much": [1.0 + i % 3 for i in range(count - 1)],
    }


def small(**options):
    return read_tables(nodes_of(), edges_of(), **({"id": "name", "label": "class"} | options))


def kinds_of(graph):
    return {one.name: one.kind for one in graph.source.report.columns}


def test_kinds_of_columns_are_guessed_and_can_be_given():
    assert kinds_of(small()) == {
        "size": "number",
        "amount": "skewed",
        "color": "category",
        "about": "text",
        "day": "date",
        "place": "list",
        "constant": "ignore",
    }
    assert kinds_of(small(columns={"about": "ignore", "size": "category"}))["size"] == "category"
    with pytest.raises(InputError, match="did you mean text"):
        small(columns={"about": "txt"})
    with pytest.raises(InputError, match="no column 'sizes'"):
        small(columns={"sizes": "number"})


def test_labels_ids_and_features_are_named():
    graph = small()
    assert graph.class_names == ("x", "y")
    assert graph.labels[:4].tolist() == [0, 1, -1, 0]
    assert graph.find(["n3"]).tolist() == [3]
    assert len(graph.feature_names) == graph.num_features
    assert "color = red" in graph.feature_names
    assert "about: red apple" in graph.feature_names
    assert "size is missing" in graph.feature_names
    column = graph.features[:, [graph.feature_names.index("size is missing")]].toarray()
    assert np.flatnonzero(column).tolist() == [4]


def test_scaled_numbers_are_those_of_scikit_learn():
    from sklearn.preprocessing import StandardScaler

    graph = small()
    place = graph.feature_names.index("amount")
    expected = StandardScaler().fit_transform(np.log1p(np.array(nodes_of()["amount"]))[:, None])
    assert np.allclose(graph.features[:, [place]].toarray(), expected, atol=1e-6)


def test_edges_keep_their_direction_and_their_weight():
    graph = small(weight="much", kind="how")
    assert not graph.is_directed
    assert graph.has_direction
    forward = graph.edge_directions == 1
    sources, targets = graph.edge_index()
    assert (targets[forward] - sources[forward] == 1).all()
    assert graph.edge_weights.max() == 3
    ahead = small(direction="forward")
    back = small(direction="backward")
    assert ahead.edge_index().tolist() == back.reverse().edge_index().tolist()
    assert ahead.is_directed


def test_kinds_of_edges_are_chosen_and_weighed():
    only = small(kind="how", kinds=["likes"])
    assert only.num_edges == 15
    assert only.source.report.links.other_kinds == 14
    weighed = small(kind="how", kinds={"likes": 1, "knows": 0.5})
    assert set(weighed.edge_weights.tolist()) == {0.5, 1.0}
    with pytest.raises(InputError, match="no edge is of kind 'hates'; there are likes, knows"):
        small(kind="how", kinds=["hates"])
    with pytest.raises(InputError, match="name it \\(--kind\\)"):
        small(kinds=["likes"])


def test_a_pair_of_several_kinds_counts_as_the_strongest():
    nodes = {"id": [1, 2, 3], "v": [0.5, 1, 3]}
    edges = {"u": [1, 1, 2, 2], "w": [2, 2, 1, 3], "k": ["p", "q", "q", "q"]}
    graph = read_tables(nodes, edges, kind="k", kinds={"p": 2, "q": 0.5})
    pairs = dict(zip(map(tuple, graph.edge_index().T.tolist()), graph.edge_weights, strict=True))
    assert pairs == {(0, 1): 2, (1, 0): 2, (1, 2): 0.5, (2, 1): 0.5}
    assert graph.edge_directions.tolist() == [3, 3, 2, 1]
    assert graph.source.report.links.repeated == 1


def test_unknown_ends_are_an_error_or_dropped_or_added():
    nodes, edges = nodes_of(3), {"a": ["n0", "n1", "n9"], "b": ["n1", "zz", "n0"]}
    with pytest.raises(InputError, match="zz, n9; add their rows, or say what"):
        read_tables(nodes, edges)
    dropped = read_tables(nodes, edges, unknown="drop")
    assert (dropped.num_nodes, dropped.num_edges) == (3, 1)
    assert "2 edges are left out" in " ".join(dropped.source.report.sentences())
    told = edges | {"how": ["x", "y", "y"]}
    counted = read_tables(nodes, told, kind="how", unknown="drop").source.report.links
    assert counted.kinds == {"x": 1}
    added = read_tables(nodes, edges, unknown="add")
    assert sorted(added.ids.tolist()) == ["n0", "n1", "n2", "n9", "zz"]
    assert added.num_edges == 3


def test_self_loops_and_repeated_rows_are_reported():
    edges = {"a": ["n0", "n0", "n1"], "b": ["n1", "n1", "n1"]}
    graph = read_tables(nodes_of(3), edges)
    assert graph.num_edges == 1
    said = " ".join(graph.source.report.sentences())
    assert "1 edges from a node to itself are left out" in said
    assert "1 rows repeat an edge" in said


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "csv.gz", "feather"])
def test_files_give_the_same_graph_as_data_frames(tmp_path, kind):
    nodes = {key: value for key, value in nodes_of().items() if key not in ("place", "constant")}
    expected = read_tables(nodes, edges_of(), id="name", label="class")
    paths = []
    for name, columns in (("nodes", nodes), ("edges", edges_of())):
        path = tmp_path / f"{name}.{kind}"
        table = pa.table(columns)
        if kind == "parquet":
            pq.write_table(table, path)
        elif kind == "feather":
            pa.feather.write_feather(table, path)
        else:
            options = pc.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
            with pa.output_stream(path, compression="detect") as stream:
                pc.write_csv(table, stream, options)
        paths.append(path)
    graph = read_tables(*paths, id="name", label="class")
    assert graph.feature_names == expected.feature_names
    assert np.allclose(graph.features.toarray(), expected.features.toarray(), atol=1e-5)
    assert graph.edge_index().tolist() == expected.edge_index().tolist()
    assert graph.labels.tolist() == expected.labels.tolist()


def test_data_frames_come_in_by_the_arrow_capsule():
    class Frame:
        def __init__(self, columns):
            self._table = pa.table(columns)

        def __arrow_c_stream__(self, requested_schema=None):
            return self._table.__arrow_c_stream__(requested_schema)

    graph = read_tables(Frame(nodes_of()), Frame(edges_of()), id="name", label="class")
    assert graph.fingerprint == small().fingerprint


def test_semicolons_and_byte_order_marks_are_understood(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_bytes("\ufeffid;v;w\n1;0.5;a b\n2;1.5;c d\n".encode())
    graph = read_tables(path)
    assert graph.ids.tolist() == ["1", "2"]
    assert "separated by ';'" in " ".join(graph.source.report.sentences())


def test_whole_numbers_as_labels_are_sorted_as_numbers():
    nodes = {"id": [1, 2, 3, 4], "y": [10.0, 9.0, np.nan, 10.0], "v": [1, 2, 3, 5]}
    graph = read_tables(nodes, label="y")
    assert graph.class_names == ("9", "10")
    assert graph.labels.tolist() == [1, 0, -1, 1]
    with pytest.raises(InputError, match=r"row 1, column y: 0.5 is no class"):
        read_tables({"id": [1, 2], "y": [1, 0.5]}, label="y")


def test_a_split_column_and_a_time_column_make_splits():
    nodes = nodes_of() | {"part": [["train", "Validation", "test"][i // 3 % 3] for i in range(30)]}
    graph = read_tables(nodes, edges_of(), id="name", label="class", split="part", time="day")
    published = ncgnn.make_split(graph, "published")
    assert published.train[:3].tolist() == [0, 1, 9]
    time = ncgnn.make_split(graph, "time")
    assert time.train.max() < time.val.min() <= time.val.max() < time.test.min()
    assert "part" not in kinds_of(graph)
    with pytest.raises(InputError, match="'later' is no part of a split"):
        read_tables(nodes | {"part": ["later"] * 30}, split="part", id="name", label="class")
    with pytest.raises(InputError, match="knows no time"):
        ncgnn.make_split(small(), "time")


def test_the_folder_gives_back_the_graph_and_its_encoders(tmp_path):
    graph = small(kind="how", kinds={"likes": 1, "knows": 0.5})
    path = ncgnn.save(graph, tmp_path / "mine")
    again = ncgnn.load(path)
    assert again.fingerprint == graph.fingerprint
    assert ncgnn.Graph.fingerprint.func(again) == graph.fingerprint
    assert again.feature_names == graph.feature_names
    assert again.source.schema == graph.source.schema
    assert again.source.report == graph.source.report
    assert isinstance(again.features.data.base, np.ndarray)
    assert read_manifest(path)["directed"] is True
    more = {key: value[:] for key, value in nodes_of(33).items()}
    links = {"a": ["n30", "n31"], "b": ["n0", "n30"], "how": ["likes", "knows"], "much": [1, 1]}
    first, second = graph.extend(more, links), again.extend(more, links)
    assert first.fingerprint == second.fingerprint
    assert first.num_added == 3


def test_an_edited_schema_is_followed(tmp_path):
    path = ncgnn.save(small(), tmp_path / "mine")
    file = path / "schema.toml"
    file.write_text(file.read_text().replace('about = "text"', 'about = "ignore"'))
    assert read_schema(file).columns["about"] == "ignore"
    graph = read_tables(nodes_of(), edges_of(), schema=file)
    assert kinds_of(graph)["about"] == "ignore"
    assert graph.source.schema.nodes.label == "class"
    file.write_text(file.read_text().replace('"ignore"', '"nonsense"'))
    with pytest.raises(InputError, match=r"schema.toml: columns\..*must be 'number'"):
        read_schema(file)


def test_a_damaged_folder_is_refused(tmp_path):
    path = ncgnn.save(small(), tmp_path / "mine")
    labels = path / "labels.npy"
    content = bytearray(labels.read_bytes())
    content[-1] ^= 1
    labels.write_bytes(content)
    with pytest.raises(InputError, match=r"labels.npy has changed"):
        ncgnn.load(path)
    labels.unlink()
    with pytest.raises(InputError, match=r"labels.npy is missing"):
        ncgnn.load(path)
    (path / "dataset.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(InputError, match="format must be 1; got 2"):
        ncgnn.load(path)


def test_a_folder_replaces_another_only_when_told(tmp_path):
    path = ncgnn.save(small(), tmp_path / "mine")
    with pytest.raises(InputError, match="holds a dataset already; say --force"):
        ncgnn.save(small(), path)
    ncgnn.save(small(weight="much"), path, force=True)
    assert ncgnn.load(path).edge_weights is not None
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other files"):
        ncgnn.save(small(), other, force=True)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_new_rows_are_encoded_as_the_first_ones():
    graph = small()
    rows = {key: value[-3:] for key, value in nodes_of(32).items()}
    rows["color"] = ["red", "violet", "green"]
    rows["about"] = ["red apple pie", "unheard word", "green tea"]
    rows["class"] = ["x", "z", None]
    more = graph.extend(rows, {"a": ["n30", "n0"], "b": ["n31", "n1"], "how": ["likes"] * 2})
    report = more.source.report
    assert more.num_added == 2
    assert report.known == 1
    assert report.unseen["color"].values == {"violet": 1}
    assert set(report.unseen["about"].values) == {"unheard", "word"}
    assert report.other_labels == {"z": 1}
    assert report.links.among_known == 1
    assert more.labels[-2:].tolist() == [-1, -1]
    features = {name: place for place, name in enumerate(graph.feature_names)}
    assert more.features[30, features["color = red"]] == 0
    assert more.features[31, features["color = green"]] == 1


def test_rows_that_are_all_known_add_nothing():
    more = small().extend(nodes_of())
    assert more.num_added == 0
    assert more.num_nodes == 30


def test_new_rows_need_the_columns_that_the_graph_was_made_with():
    rows = {key: value for key, value in nodes_of(31).items() if key != "color"}
    with pytest.raises(InputError, match="no column 'color', which the graph was made with"):
        small().extend(rows)


BAD = {
    "empty": (b"", "is empty"),
    "header only": (b"id,v\n", "has no rows"),
    "short row": (b"id,v,w\n1,2,3\n4,5\n", r"row 3: it has 2 fields, and the header 3"),
    "long row": (b"id,v\n1,2,3\n", r"row 2: it has 3 fields"),
    "open quote": (b'id,v,w\n1,"2,3\n4,5,6\n7,"8",9\n', r"row 2 .*quotes do not match"),
    "stray quote": (b'id,v\n1,"a"b\n', r"row 2 .*quotes do not match"),
    "latin-1": ("id,v\n1,caf\xe9\n".encode("latin-1"), r"row 2: it is not utf-8 text"),
    "utf-16": ("id,v\n1,2\n".encode("utf-16"), "is encoded in utf-16"),
    "nul": (b"id,v\n1,a\x00b\n", r"row 2: it holds a NUL"),
    "twice": (b"id,v\n1,2\n3,4\n1,5\n", r"row 4, column id: '1' is in row 2 already"),
    "no id": (b"id,v\n1,2\n,4\n", r"row 3, column id: there is no id"),
    "two columns": (b"id,v,v\n1,2,3\n", "column 'v' is there twice"),
    "mixed": (
        b"id,v\n" + b"".join(b"%d,%d\n" % (i, i * i % 7) for i in range(40)) + b"99,abc\n",
        r"row 42, column v: 'abc' is not a number",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_give_one_error_with_file_row_and_column(tmp_path, case):
    content, message = BAD[case]
    path = tmp_path / "nodes.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_tables(path)
    assert str(path) in str(caught.value)


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(DataNotFoundError, match="there is no file"):
        read_tables(tmp_path / "nodes.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_tables(tmp_path)
    (tmp_path / "nodes.docx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"must end in .csv"):
        read_tables(tmp_path / "nodes.docx")
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_tables(tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match="must be the path of a table"):
        read_tables(5)
    with pytest.raises(InputError, match=r"no column 'nome' \(id\); its columns are name"):
        read_tables(nodes_of(), id="nome")
    with pytest.raises(InputError, match="which are no classes"):
        read_tables({"id": list(range(300)), "y": [f"c{i}" for i in range(300)]}, label="y")


def test_an_encoding_can_be_given(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_bytes("id,v\ncaf\xe9,2\nb,3\n".encode("latin-1"))
    assert read_tables(path, encoding="latin-1").ids.tolist() == ["caf\xe9", "b"]
    with pytest.raises(InputError, match="encoding must be"):
        read_tables(path, encoding="nonsense")


def test_queries_and_files_of_duckdb(tmp_path):
    pytest.importorskip("duckdb")
    rows = [{"id": f"n{i}", "v": i % 3 + 0.5, "y": "ab"[i % 2]} for i in range(6)]
    (tmp_path / "nodes.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "edges.csv").write_text("s,t\nn0,n1\nn1,n2\nn9,n0\n")
    query = f"SELECT s, t FROM '{tmp_path / 'edges.csv'}' WHERE s <> 'n9'"
    graph = read_tables(tmp_path / "nodes.json", query, label="y")
    assert (graph.num_nodes, graph.num_edges) == (6, 2)
    assert graph.class_names == ("a", "b")
    with pytest.raises(InputError, match="the edges query failed"):
        read_tables(tmp_path / "nodes.json", "SELECT nothing FROM nowhere")
    long = f"{query} AND s <> '{'x' * 300}'"
    assert read_tables(tmp_path / "nodes.json", long, label="y").num_edges == 2
    with pytest.raises(InputError, match="the nodes query failed"):
        read_tables(f"https://localhost:1/{'x' * 300}.parquet", long)


def test_a_query_without_duckdb_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match=r"pip install 'ncgnn\[duckdb\]'"):
        read_tables("SELECT 1 AS id")


def test_numbers_with_decimal_commas_are_numbers(tmp_path):
    rows = [f"n{i};{i},5;1.23{i},25;{'n/a' if i == 3 else f'0,{i}'};a, b" for i in range(8)]
    path = tmp_path / "nodes.csv"
    path.write_text("\n".join(["id;price;income;rating;words", *rows]))
    graph = read_tables(path)
    kinds = {column.name: column for column in graph.source.report.columns}
    assert [kinds[name].kind for name in ("price", "income", "rating")] == ["number"] * 3
    assert (kinds["rating"].missing, kinds["price"].missing) == (1, 0)
    encoder = graph.source.features.encoders[1]
    assert encoder.scaler.mean_ == pytest.approx([np.mean([1230.25 + i for i in range(8)])])
    said = graph.source.report.sentences()
    assert "The columns of nodes.csv are separated by ';'." in said
    assert "Numbers of nodes.csv have a decimal comma: price, income, rating." in said


def test_a_comma_in_a_table_with_commas_is_no_decimal(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,pair\n" + "\n".join(f'n{i},"1,{i}"' for i in range(30)))
    column = read_tables(path).source.report.columns[0]
    assert (column.kind, column.example) == ("ignore", "1,0")


def test_words_for_no_value_are_counted_as_missing():
    nodes = {"id": list("abcdef"), "age": ["n/a", "31", "35", "?", "40", None]}
    column = read_tables(nodes).source.report.columns[0]
    assert (column.kind, column.missing, column.example) == ("number", 3, "31")


def test_edges_without_a_header_are_refused(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("n0,n1\nn1,n2\n")
    with pytest.raises(InputError, match="n0 and n1, names two nodes and no columns"):
        read_tables(nodes_of(3), path)


def test_doubtful_classes_are_remarked_on():
    labels = ["python"] * 9 + ["Python"] * 6 + ["N/A"] * 5 + ["pyhton"]
    nodes = {"id": list(range(len(labels))), "y": labels}
    said = read_tables(nodes, label="y").source.report.sentences()
    assert "Classes that differ in capitals only: Python and python." in said
    assert "Classes that look like no label (leave it empty if so): N/A 5." in said
    assert "1 of 4 classes have under five rows: pyhton." in said
