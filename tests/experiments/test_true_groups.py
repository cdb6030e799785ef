from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ncgnn.cli import app
from ncgnn.experiments import by_true_group, other_divisions, results_table, write_stored
from ncgnn.experiments.results import Record
from ncgnn.report import true_group_columns, true_group_tables
from ncgnn.training import make_config, naming_options


def record(model, seed, low, high, threshold=0.5, sizes=(80, 20), test=True):
    """A run whose accuracy on truly low and high NC is made up."""
    config = make_config(dataset="digits", model=model, seed=seed)
    options = naming_options(config.model_dump(mode="json"))
    parts = [
        {"part": part, "nodes": nodes, "accuracy": accuracy}
        for part, (nodes, accuracy) in enumerate(zip(sizes, (low, high), strict=True))
        if accuracy is not None
    ]
    scores = {"val": {"accuracy": 0.5, "macro_f1": 0.5}}
    if test:
        scores["test"] = {"accuracy": 0.5, "macro_f1": 0.5}
    result = {
        "scores": scores,
        "epochs": 3,
        "majority_baseline": 0.1,
        "split_sha256": str(seed) * 64,
        "nodes": {"train": 300, "val": 100, "test": 100},
        "hops": 1,
        "thresholds": [threshold],
        "threshold_kind": "value",
        "accuracy_by_true_group": parts,
    }
    return Record(config.name, options, result, 1.0)


MADE = [
    *(record("gcn", seed, 0.9, 0.5 + 0.01 * seed) for seed in range(3)),
    *(record("mlp", seed, 0.8, 0.55 + 0.02 * seed) for seed in range(3)),
    *(record("sage", seed, 0.85, 0.6, threshold=0.3) for seed in range(3)),
]


def test_accuracy_on_truly_confused_nodes_is_compared_seed_by_seed():
    found = {one.row.model: one for one in by_true_group(results_table(MADE), "gcn")}
    mlp = found["mlp"]
    assert mlp.low.spread("test").mean == pytest.approx(0.8)
    assert mlp.high.spread("test").mean == pytest.approx(0.57)
    assert (mlp.low_nodes, mlp.high_nodes, mlp.division) == (80, 20, "0.5")
    assert mlp.high.difference.mean == pytest.approx(0.06)
    assert (mlp.high.difference.against, mlp.high.difference.seeds) == ("gcn", 3)
    assert mlp.high.difference.over == "splits"
    assert found["gcn"].high.difference is None
    assert mlp.row.difference is None, "all nodes are another matter"


def test_other_divisions_speak_of_other_nodes():
    rows = by_true_group(results_table(MADE), "gcn")
    sage = next(one for one in rows if one.row.model == "sage")
    assert sage.high.difference is None
    (said,) = other_divisions(rows, "gcn")
    assert said.startswith("gcn on digits divides NC at 0.5")
    assert said.endswith("other nodes: sage")


def test_runs_without_high_or_without_test_nodes():
    nobody = [record("gcn", seed, 0.9, None) for seed in range(2)]
    (row,) = by_true_group(results_table(nobody))
    assert row.high is None
    assert row.high_nodes == 0
    untested = [record("mlp", seed, 0.9, 0.8, test=False) for seed in range(2)]
    assert by_true_group(results_table(untested)) == []
    both = by_true_group(results_table([*nobody, *MADE[3:6]]), "gcn")
    assert all(one.high is None or one.high.difference is None for one in both)


def test_a_handful_of_nodes_says_nothing():
    few = [record("gcn", seed, 0.9, 0.2, sizes=(95, 5)) for seed in range(2)]
    more = [record("mlp", seed, 0.8, 0.4, sizes=(95, 5)) for seed in range(2)]
    rows = by_true_group(results_table([*few, *more]), "gcn")
    assert [one.high for one in rows] == [None, None]
    (table,) = true_group_tables(rows)
    assert [line[6:8] for line in table.rows] == [("5", "too few")] * 2
    assert "fewer than 10" in table.notes[0]
    mixed = by_true_group(results_table([few[0], *MADE[1:3]]))
    assert list(mixed[0].high.records) == [1, 2]


def test_runs_that_do_not_say_what_they_divide_at_are_left_out():
    untold = [replace(one, result=dict(one.result)) for one in MADE[:3]]
    for one in untold:
        del one.result["thresholds"]
    assert by_true_group(results_table(untold)) == []


def test_tables_and_columns_say_the_same():
    rows = by_true_group(results_table(MADE), "gcn")
    (table,) = true_group_tables(rows)
    line = next(row for row in table.rows if row and row[1] == "mlp")
    assert line[:8] == (*("digits", "mlp", "3", "0.5", "80", "80.00 ± 0.00", "20", "57.00 ± 2.00"),)
    assert str(line[8]).startswith("+6.00 (p ")
    columns = true_group_columns(rows)
    place = list(columns["model"]).index("mlp")
    assert columns["high_difference"][place] == pytest.approx(0.06)
    assert columns["division"][place] == "0.5"
    (alone,) = true_group_tables(by_true_group(results_table(MADE)))
    assert "difference" not in alone.head


def test_the_command_shows_and_writes_it(tmp_path):
    stored = tmp_path / "kept.jsonl"
    write_stored(MADE, stored)
    command = ["results", "--stored", stored, "--runs", tmp_path / "none", "--by-true-group"]
    run = CliRunner().invoke(app, [str(one) for one in (*command, "--against", "gcn")])
    assert run.exit_code == 0, run.output
    assert "Truly confused nodes" in run.stdout
    assert "they divide it otherwise" in run.stderr
    out = tmp_path / "table.csv"
    told = CliRunner().invoke(app, [str(one) for one in (*command, "--json", "--out", out)])
    assert len(json.loads(told.stdout)["rows"]) == 3
    assert "high_accuracy" in out.read_text().splitlines()[0]
    untested = [replace(one, result=one.result | {"accuracy_by_true_group": []}) for one in MADE]
    write_stored(untested, tmp_path / "less.jsonl")
    command[2] = tmp_path / "less.jsonl"
    refused = CliRunner().invoke(app, [str(one) for one in command])
    assert refused.exit_code == 2
    assert "--by-true-group needs runs with test nodes" in refused.stderr
