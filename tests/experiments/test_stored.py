from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_cells import tiny_cells
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.errors import InputError
from ncgnn.experiments import (
    as_records,
    grid,
    of_this_graph,
    read_runs,
    read_stored,
    results_table,
    sweep,
    write_stored,
)
from ncgnn.experiments.workers import WorkerPool
from ncgnn.nn import model_names
from ncgnn.training import RunResult, train_run

SCORE = {"accuracy": 0.5, "macro_f1": 0.4}
RESULT = {
    "scores": {"val": SCORE, "test": SCORE},
    "majority_baseline": 0.1,
    "epochs": 3,
    "split_sha256": "0",
}
pytestmark = pytest.mark.usefixtures("in_process")


def add_some(task, report, stop):
    """In a worker: add every second record of a file to another, one by one."""
    source, kept, start = task
    for record in read_stored(source)[start::2]:
        write_stored([record], kept)


def records_of(configs):
    return as_records(RunResult(Path(c.name), c, RESULT, 1.0, fresh=False) for c in configs)


def test_a_record_of_any_model_can_be_read_again(tmp_path):
    records = records_of(grid("digits", model_names()))
    assert write_stored(records, tmp_path / "kept.jsonl") == len(records)
    assert read_stored(tmp_path / "kept.jsonl") == records


def test_a_run_is_kept_by_the_name_of_its_configuration(tmp_path):
    """Options that are None are not in ``config.toml``, and a folder may be called anything."""
    (config,) = grid("digits", "gat", settings={"epochs": 1, "hidden": 8})
    run = train_run(config, tmp_path)
    run.folder.rename(tmp_path / "mine")
    records, problems = read_runs(tmp_path)
    assert [record.name for record in records] == [config.name]
    assert not problems
    write_stored(records, tmp_path / "kept.jsonl")
    assert read_stored(tmp_path / "kept.jsonl") == records


def test_a_copy_of_a_run_does_not_count_twice(tmp_path):
    sweep(tiny_cells(["mlp"], (0,), epochs=2), tmp_path)
    (folder,) = tmp_path.iterdir()
    copied = tmp_path / "zz-copy"
    copied.mkdir()
    for path in folder.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    records, problems = read_runs(tmp_path)
    assert len(records) == 1
    assert problems == {copied: f"has the same configuration as {folder}."}


def test_a_run_with_another_outcome_replaces_its_record(tmp_path):
    first, second = records_of(grid("digits", "mlp", seeds=2))
    path = tmp_path / "kept.jsonl"
    write_stored([first, second], path)
    changed = replace(first, result=first.result | {"epochs": 9})
    assert write_stored([changed, replace(second, seconds=2.0)], path) == 1
    assert read_stored(path) == [changed, second]
    told = replace(second, graph="0123456789")
    assert write_stored([told], path) == 1
    assert write_stored([second], path) == 0
    assert read_stored(path) == [changed, told]


def test_runs_of_one_configuration_on_two_graphs_are_both_kept(tmp_path):
    (config,) = grid("digits", "mlp")
    (unknown,) = records_of([config])
    first, second = (replace(unknown, graph=graph) for graph in ("a" * 10, "b" * 10))
    path = tmp_path / "kept.jsonl"
    assert write_stored([unknown], path) == 1
    assert write_stored([first], path) == 1  # the same run, whose graph is known now
    assert read_stored(path) == [first]
    assert write_stored([second, first, unknown], path) == 1
    assert read_stored(path) == [first, second]


def test_of_two_graphs_the_one_at_hand_counts(tmp_path):
    graphs = [ncgnn.generate(nodes=60 + n, edges=120, classes=3, features=4) for n in (0, 1)]
    for number, graph in enumerate(graphs):
        ncgnn.save(graph, tmp_path / "mine.npz")
        (config,) = grid(str(tmp_path / "mine.npz"), "mlp", settings={"epochs": 2, "hidden": 4})
        train_run(config, tmp_path / f"runs{number}").folder.rename(tmp_path / f"run{number}")
    runs = tmp_path / "both"
    runs.mkdir()
    for number in (0, 1):
        (tmp_path / f"run{number}").rename(runs / f"run{number}")
    records, problems = read_runs(runs)
    assert len({record.graph for record in records}) == 2
    assert not problems
    fitting, others = of_this_graph(records, [config])
    assert [record.graph for record in fitting] == [graphs[1].fingerprint[:10]]
    assert not others
    assert len(results_table(records)) == 2
    kept = tmp_path / "kept.jsonl"
    for more in (["--add-to", str(kept)], ["--stored", str(kept)]):
        shown = CliRunner().invoke(app, ["results", "--runs", str(runs), "--json", *more])
        assert len(json.loads(shown.stdout)["rows"]) == 2
    assert len(read_stored(kept)) == 2


def test_what_could_not_be_read_is_never_written(tmp_path):
    (record,) = records_of(grid("digits", "mlp"))
    path = tmp_path / "kept.jsonl"
    with pytest.raises(ValueError, match="name does not belong"):
        write_stored([replace(record, name="mine")], path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scores": {"val": SCORE, "test": SCORE | {"accuracy": 7.5}}}, "accuracy on test is 7.5"),
        ({"scores": {"val": SCORE | {"accuracy": -1.0}}}, "accuracy on val"),
        ({"scores": {"val": SCORE, "test": {"accuracy": 0.5}}}, "macro_f1"),
        ({"scores": {"test": SCORE}}, "scores.val"),
        ({"majority_baseline": "x"}, "majority_baseline is 'x'"),
        ({"seed": 3}, "seed is not that of its configuration"),
    ],
)
def test_scores_that_cannot_be_are_one_clear_error(tmp_path, changed, words):
    (record,) = records_of(grid("digits", "mlp"))
    path = tmp_path / "kept.jsonl"
    write_stored([record], path)
    line = {"format": 1} | vars(record) | {"result": record.result | changed}
    path.write_text(f"{path.read_text()}{json.dumps(line)}\n")
    with pytest.raises(InputError, match="line 2") as raised:
        read_stored(path)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("number", "words"),
    [(2, "line 2: format must be 1; got 2; a newer version"), (None, "format must be 1; got None")],
)
def test_every_line_tells_its_format(tmp_path, number, words):
    first, second = records_of(grid("digits", "mlp", seeds=2))
    path = tmp_path / "kept.jsonl"
    write_stored([first], path)
    assert json.loads(path.read_text())["format"] == 1
    path.write_text(f"{path.read_text()}{json.dumps({'format': number} | vars(second))}\n")
    with pytest.raises(InputError, match=words) as raised:
        read_stored(path)
    assert ("remove the line" in str(raised.value)) == (number is None)


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    records = records_of(grid("digits", "mlp", seeds=40))
    write_stored(records, tmp_path / "all.jsonl")
    with WorkerPool(add_some, 2) as pool:
        for start in (0, 1):
            pool.add((tmp_path / "all.jsonl", tmp_path / "kept.jsonl", start))
        kinds = [event.kind for event in pool.events(lambda: False)]
    assert kinds.count("result") == 2
    names = {record.name for record in read_stored(tmp_path / "kept.jsonl")}
    assert names == {record.name for record in records}


def test_records_of_another_graph_are_told_apart(tmp_path):
    configs = [*grid("digits", "mlp", seeds=2), *grid("not-at-hand", "mlp")]
    right, wrong, unknown = records_of(configs)
    split = ncgnn.make_split(ncgnn.load("digits"), "stratified", 0)
    right = replace(right, result=right.result | {"split_sha256": split.sha256})
    file = tmp_path / "not-at-hand.npz"
    fitting, others = of_this_graph([right, wrong], configs, tmp_path)
    assert (fitting, others) == ([right], [wrong.name])
    assert not file.exists()
    assert unknown.name not in {record.name for record in fitting}
    # The split may be the same on a graph with other edges.
    same, other = replace(right, graph=ncgnn.load("digits").fingerprint[:10]), "0123456789"
    assert of_this_graph([same], configs, tmp_path) == ([same], [])
    assert of_this_graph([replace(right, graph=other)], configs, tmp_path) == ([], [right.name])


def test_a_record_tells_its_graph(tmp_path):
    (run,) = sweep(tiny_cells(["mlp"], (0,), epochs=2), tmp_path).runs
    (record,) = as_records([run])
    assert record.graph == ncgnn.load("digits").fingerprint[:10]
    assert len(record.code) == 10
