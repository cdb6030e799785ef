"""Values of every type that tables have: read, left out with a reason, or refused in one line."""

import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncgnn.data import read_folder, read_manifest, read_tables, write_folder
from ncgnn.errors import InputError

DAYS = [datetime.time(1), datetime.time(2), datetime.time(4)]
BYTES = [b"\xff" * 16, b"\x01" * 16, b"\xee" * 16]
VALUES = {
    "nanoseconds": (pa.array([1, 2, 3], pa.timestamp("ns", "UTC")), "date"),
    "far years": (pa.array([1, 2, 10**13], pa.timestamp("s")), "date"),
    "time of day": (pa.array(DAYS, pa.time32("s")), "date"),
    "duration": (pa.array([1, 2, 3], pa.duration("ns")), "date"),
    "interval": (pa.array([(1, 2, 3)] * 2 + [(2, 2, 3)], pa.month_day_nano_interval()), "ignore"),
    "numbers of a large list": (pa.array([[1.0]] * 3, pa.large_list(pa.float64())), "list"),
    "list of texts": (pa.array([["x"], ["y", "z"], []]), "ignore"),
    "16 bytes": (pa.array(BYTES, pa.binary(16)), "ignore"),
    "bytes": (pa.array(BYTES, pa.large_binary()), "ignore"),
}


@pytest.mark.parametrize("case", VALUES)
def test_columns_of_all_types_are_read_or_left_out(tmp_path, case):
    values, kind = VALUES[case]
    table = pa.table({"id": [1, 2, 3], "n": [1, 2, 4], "v": values})
    source = table
    if kind != "ignore" and case != "duration":
        pq.write_table(table, source := tmp_path / "nodes.parquet")
    graph = read_tables(source)
    assert {one.name: one.kind for one in graph.source.report.columns}["v"] == kind
    assert graph.features.shape[0] == 3


@pytest.mark.parametrize("end", ["--5", "٨", "8.5", "9" * 19, "x"])
def test_ends_that_are_no_whole_numbers_are_named(end):
    ends = {"source": ["7", " 8", end], "target": ["8", "7", "7"]}
    with pytest.raises(InputError, match=f"row 2, column source: '{end}' is not a whole number"):
        read_tables({"id": [7, 8], "n": [1, 2]}, ends)


def test_spaces_around_whole_numbers_do_not_count():
    graph = read_tables({"id": [7, 8], "n": [1, 2]}, {"source": [" 7"], "target": ["8 "]})
    assert graph.num_edges == 1


def test_labels_that_look_like_numbers():
    dashes = read_tables({"id": [1, 2], "y": ["1", "--1"]}, label="y")
    assert dashes.class_names == ("--1", "1")
    with pytest.raises(InputError, match="row 1, column y: inf is no class"):
        read_tables({"id": [1, 2], "y": [1.0, float("inf")]}, label="y")
    minus = read_tables({"id": [1, 2], "y": [1, -1]}, label="y")
    assert any("-1 is a class" in one for one in minus.source.report.sentences())


def test_an_id_that_is_nowhere_is_named():
    graph = read_tables({"id": [1, 2], "n": [1, 2]})
    with pytest.raises(InputError, match="no node --5"):
        graph.find(["--5"])


def test_years_among_dates_are_refused():
    times = ["2020", "2021-05-01", "2022", "2023-01-01"]
    with pytest.raises(InputError, match="row 1, column t: the column holds both dates and plain"):
        read_tables({"id": [1, 2, 3, 4], "y": list("abab"), "t": times}, label="y", time="t")


def test_a_field_may_be_longer_than_a_block(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,t\na,red blue\nb," + "green " * 400_000 + "\nc,red green\n")
    graph = read_tables(path, columns={"t": "text"})
    assert "t: green" in graph.feature_names


DAMAGE = {
    "nothing": {"format": 1},
    "no fingerprint": {"fingerprint": None},
    "no direction": {"directed": None},
    "files without checksums": {"files": {"labels.npy": "x"}},
    "names of other classes": {"class_names": ["x"]},
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_manifest_is_refused(tmp_path, case):
    graph = read_tables({"id": [1, 2], "y": ["a", "b"], "n": [1, 2]}, label="y")
    path = write_folder(graph, tmp_path / "graph")
    damage = DAMAGE[case]
    manifest = damage if case == "nothing" else read_manifest(path) | damage
    (path / "dataset.json").write_text(json.dumps(manifest))
    for read in (read_manifest, read_folder):
        with pytest.raises(InputError, match="import the tables again"):
            read(path)
