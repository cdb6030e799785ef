"""Answers as a table, in memory and in files."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from ncgnn.errors import InputError
from ncgnn.training.answers import Answers, Facts

PROBABILITIES = np.array([[0.2, 0.7, 0.1], [0.4, 0.2, 0.4], [0.1, 0.1, 0.8]])


def make(names=("a,b", 'c"d', "e"), *, groups=None, ids=("x", "y", "z"), **options):
    facts = Facts(
        ids=np.array(ids),
        part=np.array(["train", "", "new"]),
        labels=np.array([1, -1, 2]),
        probabilities=PROBABILITIES,
        confusion=np.array([0.0, np.nan, 0.5]),
        kinds=np.array(["clear", "", "alone"]),
        groups=None if groups is None else np.array(groups),
        seen=np.array([True, False, False]),
    )
    return Answers.of(facts, names, **options)


def test_rows_are_dictionaries_and_what_is_unknown_is_none():
    answers = make(groups=["low", "high", "low"])
    assert len(answers) == 3
    first, second, third = answers
    assert first == {
        "id": "x",
        "part": "train",
        "label": 'c"d',
        "predicted": 'c"d',
        "probability": 0.7,
        "runner_up": "a,b",
        "runner_up_probability": 0.2,
        "nc": 0.0,
        "kind": "clear",
        "group": "low",
        "seen": True,
    }
    assert [second[name] for name in ("part", "label", "nc", "kind")] == [None] * 4
    assert (second["predicted"], second["runner_up"]) == ("a,b", "e")  # equals, in their order
    assert (third["predicted"], third["runner_up"]) == ("e", "a,b")


def test_classes_without_names_are_numbers():
    answers = make(None, ids=(5, 7, 9))
    assert answers.table.schema.field("predicted").type == pa.int64()
    assert answers["predicted"].tolist() == [1, 0, 2]
    assert answers.table["label"].to_pylist() == [1, None, 2]
    assert answers["id"].tolist() == [5, 7, 9]


def test_the_most_probable_classes_and_all_of_them():
    answers = make(top=2)
    assert answers.table.column_names[-4:] == [
        *("top_1", "top_1_probability", "top_2", "top_2_probability"),
    ]
    assert answers["top_2"].tolist() == answers["runner_up"].tolist()
    assert make(top=99).table.column_names[-2:] == ["top_3", "top_3_probability"]
    assert make(top=3)["top_3"].tolist() == ["e", 'c"d', 'c"d']
    every = make(probabilities=True)
    columns = [every[f"probability_{name}"] for name in ("a,b", 'c"d', "e")]
    np.testing.assert_array_equal(np.stack(columns, axis=1), PROBABILITIES)
    with pytest.raises(InputError, match="top must be"):
        make(top=-1)


def test_unknown_columns_are_named():
    with pytest.raises(InputError, match="there is no column 'node'; known: id, part, label"):
        make()["node"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
def test_files_hold_what_the_table_holds(ending, tmp_path):
    answers = make(top=1, probabilities=True)
    path = answers.write(tmp_path / f"answers.{ending}")
    assert path == tmp_path / f"answers.{ending}"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    if ending in ("csv", "tsv"):
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream, delimiter="," if ending == "csv" else "\t"))
        assert [row["predicted"] for row in rows] == answers["predicted"].tolist()
        assert [row["nc"] for row in rows] == ["0", "", "0.5"]
        assert [row["label"] for row in rows] == ['c"d', "", "e"]
        assert [float(row["probability"]) for row in rows] == answers["probability"].tolist()
    else:
        read = (parquet if ending == "parquet" else feather).read_table(path)
        assert read.equals(answers.table)
        assert json.loads(read.schema.metadata[b"ncgnn"])["format"] == 1


def test_a_file_that_cannot_be_written_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"must end in \.csv, \.tsv, \.parquet, \.feather; got"):
        make().write(tmp_path / "answers.xlsx")

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(OSError, match="full"):
        make().write(tmp_path / "answers.parquet")
    assert not list(tmp_path.iterdir())


def test_other_libraries_take_it_through_the_arrow_capsule(monkeypatch):
    answers = make()

    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            return answers.__arrow_c_stream__(requested_schema)

    assert pa.table(Capsule()).equals(answers.table)
    assert pa.schema(answers).equals(answers.table.schema)
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(InputError, match=f"{name} must be installed"):
            getattr(answers, f"to_{name}")()


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_data_frames(name):
    pytest.importorskip(name)
    frame = getattr(make(), f"to_{name}")()
    assert list(frame["predicted"]) == ['c"d', "a,b", "e"]
    assert list(frame.columns) == make().table.column_names
