from __future__ import annotations

import json
import shutil
import statistics

import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn._io import sha256_of_file
from ncgnn.cli import app
from ncgnn.cli.experiments import NAMES, PLAN_NAMES
from ncgnn.cli.progress import titles
from ncgnn.experiments import grid, read_runs, results_table
from ncgnn.graph import Graph
from ncgnn.paper import plan_names, target_names
from ncgnn.report import results_tables

SEVERAL = "mlp,gcn,sage,gat,h2gcn,gprgnn,fagcn,ncgcn"
SMALL = ["--set", "epochs=2", "--set", "hidden=4"]
quick = pytest.mark.usefixtures("quick")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run("sweep", "digits", "--models", "gcn,mlp", "--seeds", 2, *SMALL, "--runs", folder)
    return folder


def test_a_sweep_is_done_once(runs):
    result = run(
        *("sweep", "digits", "--models", "gcn,mlp", "--seeds", 2),
        *(*SMALL, "--runs", runs, "--json"),
    )
    shown = json.loads(result.stdout)
    assert len(shown["runs"]) == 4
    assert shown["failed"] == {}
    assert "4 found finished" in result.stderr
    assert "runs to train: 0" in result.stderr


@quick
def test_a_sweep_with_another_metric_shows_it_beside_accuracy(tmp_path):
    command = ["sweep", "digits", "--models", "mlp", "--seeds", 2, "--metric", "macro_f1"]
    result = run(*command, *SMALL, "--runs", tmp_path)
    assert result.stderr.count(": val macro-F1 ") == 2
    (table,) = results_tables(results_table(read_runs(tmp_path)[0]))
    assert "selected by" in result.stdout
    line = dict(zip(table.head, table.rows[0], strict=True))
    assert line["selected by"] == "macro-F1"
    scores = [json.loads(one.read_text())["scores"] for one in tmp_path.glob("*/result.json")]
    mean = statistics.fmean(part["val"]["macro_f1"] for part in scores)
    assert line["validation macro-F1"].startswith(f"{100 * mean:.2f} ± ")
    assert {"validation accuracy", "test accuracy", "test macro-F1"} < set(table.head)
    (row,) = json.loads(run("results", "--runs", tmp_path, "--json").stdout)["rows"]
    assert (row["metric"], row["val_score"]) == ("macro_f1", pytest.approx(mean))


def test_a_sweep_is_shown_before_it_is_trained(runs):
    command = ["sweep", "digits", "--models", "gcn,mlp,sage", "--seeds", 2, *SMALL]
    result = run(*command, "--runs", runs, "--no-train", "--json")
    states = [shown["state"] for shown in json.loads(result.stdout)["runs"]]
    assert states == ["finished"] * 4 + ["missing"] * 2
    assert "Runs: 6" in run(*command, "--runs", runs, "--no-train").stdout
    assert not list(runs.glob("*-sage-*"))


@quick
def test_what_was_found_best_makes_a_table(tmp_path):
    best = tmp_path / "best.toml"
    best.write_text('[data]\ndataset = "digits"\n[model]\nname = "gcn"\nhidden = 6\n')
    command = ["reproduce", "table1", "digits", "--models", "gcn,mlp", "--config"]
    places = ["--runs", tmp_path / "runs", "--out", tmp_path / "out"]
    shown = json.loads(run(*command, best, "--set", "epochs=3", *places, "--json").stdout)
    assert shown["config"][str(best)]["model"] == {"name": "gcn", "hidden": 6}
    assert shown["data"]["missing"] == []
    assert "hidden = 6" in next((tmp_path / "runs").glob("*-gcn-*/config.toml")).read_text()
    assert "hidden = 6" not in next((tmp_path / "runs").glob("*-mlp-*/config.toml")).read_text()
    assert "options of best.toml for gcn on digits" in (tmp_path / "out" / "table1.md").read_text()


@quick
def test_a_changed_graph_is_no_failure_to_try_again(tmp_path):
    path = tmp_path / "mine.npz"
    command = ["sweep", path, "--models", "mlp", *SMALL, "--runs", tmp_path / "runs"]
    for seed in (0, 1):
        ncgnn.save(ncgnn.generate(nodes=60, edges=120, classes=3, features=4, seed=seed), path)
        result = run(*command, code=seed)
    assert "failed runs:" in result.stderr
    assert "has changed since" in result.stderr


@quick
def test_a_failed_run_ends_with_an_error_that_names_it(tmp_path):
    hopeless = ["--set", "learning_rate=1e35", "--set", "weight_decay=1.0"]
    command = ["digits", "--models", "mlp", *SMALL, *hopeless, "--runs", tmp_path]
    result = run("sweep", *command, code=1)
    assert "failed runs (--retry-failed tries them again):" in result.stderr
    assert "digits-mlp-stratified" in result.stderr
    run("reproduce", "table1", *command, "--out", tmp_path / "out", code=1)


@quick
def test_a_configuration_file_is_heeded(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[data]\ndataset = "digits"\nsplit = "paper"\n[model]\nname = "mlp"\n')
    result = run("sweep", "--config", path, *SMALL, "--runs", tmp_path / "runs", "--json")
    (shown,) = json.loads(result.stdout)["runs"]
    assert (shown["model"], shown["split"]) == ("mlp", "paper")


@quick
def test_several_configuration_files_are_as_many_configurations(tmp_path):
    files = []
    for name in ("gcn", "mlp"):
        path = tmp_path / f"{name}.toml"
        path.write_text(f'[model]\nname = "{name}"\n')
        files += ["--config", path]
    result = run(*("sweep", *files, "digits", *SMALL), "--runs", tmp_path / "runs", "--json")
    assert {shown["model"] for shown in json.loads(result.stdout)["runs"]} == {"gcn", "mlp"}


def test_a_report_is_written_for_runs_of_a_sweep(runs):
    names = [path.name for path in sorted(runs.glob("digits-*"))][:2]
    shown = run("report", *names, "--runs", runs).stdout
    assert shown.split() == [str(runs / name / "report.html") for name in names]
    assert all("<html" in (runs / name / "report.html").read_text() for name in names)
    again = json.loads(run("report", names[0], "--runs", runs, "--json").stdout)
    assert again == {"reports": [str(runs / names[0] / "report.html")]}
    run("report", runs / names[0] / "nowhere", code=2)


def test_a_damaged_run_does_not_keep_others_from_a_report(runs, tmp_path):
    copied = tmp_path / "runs"
    for path in sorted(runs.glob("digits-*"))[:2]:
        shutil.copytree(path, copied / path.name)
    first, *others = sorted(copied.iterdir())
    (first / "metrics.jsonl").write_text("cut")
    result = run("report", copied, code=1)
    assert result.stdout.split() == [str(path / "report.html") for path in others]
    assert f"no report: {first / 'metrics.jsonl'} has changed" in result.stderr


def test_a_changed_result_does_not_keep_others_from_a_report(runs, tmp_path):
    copied = tmp_path / "runs"
    for path in sorted(runs.glob("digits-*"))[:2]:
        shutil.copytree(path, copied / path.name)
    first, *others = sorted(copied.iterdir())
    changed = json.loads((first / "result.json").read_text()) | {"nodes": 3}
    (first / "result.json").write_text(json.dumps(changed))
    done = json.loads((first / "done.json").read_text())
    done["files"]["result.json"] = sha256_of_file(first / "result.json")
    (first / "done.json").write_text(json.dumps(done))
    result = run("report", copied, code=1)
    assert result.stdout.split() == [str(path / "report.html") for path in others]
    assert f"no report: {first / 'result.json'}: nodes must be" in result.stderr


def test_the_home_folder_is_understood_in_every_option(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(runs.parent))
    shown = run("results", f"--runs=~/{runs.name}", "--models", "gcn,h2gcn")
    assert "gcn" in shown.stdout
    assert "no finished runs of h2gcn" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep"], "GRAPH"),
        (["sweep", ","], "GRAPH"),
        (["sweep", "digits", "--models", "gnc"], "gcn"),
        (["sweep", "digits", "--seeds", "x"], "--seeds"),
        (["sweep", "digits", "--engine", "ray", "--address", "127.0.0.1:1"], "Ray"),
        (["reproduce", "tabel1"], "table1"),
        (["reproduce", "results"], "no stored runs in ./results"),
        (["reproduce", "table1,duplication"], "one table or figure at a time"),
        (["reproduce", "--models", "gcn"], "name a table or figure: table1"),
        (["reproduce", "observation", "--stored", "kept.jsonl"], "leave --stored out"),
        (["reproduce", "clarified", "--stored", "kept.jsonl"], "leave --stored out"),
        (["reproduce", "stability", "--hours", "1"], "--hours is for plans"),
        (["reproduce", "table1", "digits", "--models", "gnc"], "gcn"),
        (["results", "--runs", "nowhere"], "nowhere"),
        (["sweep", "nosuch", "--models", "gcn,mlp", "--seeds", "3"], "nosuch"),
        (["sweep", "digits", "--set", "split=paper"], "--split"),
        (["sweep", "digits", "--address", "auto"], "--engine ray"),
        (["reproduce", "table1", "digits", "--set", "split=uniform"], "--split"),
        (["reproduce", "time", "digits", "--workers", "2"], "--workers"),
        (["reproduce", "time", "--engine", "ray", "--address", "auto"], "--address"),
        (["reproduce", "embeddings", "digits", "--models", "tuned-gcn"], "tuned-gcn"),
        (["reproduce", "groups", "digits", "--models", SEVERAL], "at most 7"),
        (["sweep", "digits", "--seeds", "³"], "--seeds"),
        (["sweep", "digits", "--split", "published"], "digits"),
        (["results", "--out", "table.xlsx"], ".csv"),
    ],
)
def test_mistakes_get_one_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, code=2)
    assert words in result.stderr
    assert result.stderr.count("error:") == 1
    assert not list(tmp_path.iterdir())


def test_results_are_shown_compared_and_written(runs, tmp_path):
    table = tmp_path / "table.csv"
    result = run("results", "--runs", runs, "--against", "gcn", "--out", table)
    assert "stratified split" in result.stdout
    assert "mlp" in result.stdout
    assert "n 2" in result.stdout
    head, *lines = table.read_text().splitlines()
    assert head.startswith('"dataset","split","model"')
    assert len(lines) == 2
    assert "exists" in run("results", "--runs", runs, "--out", table, code=2).stderr
    for name in ("table.md", "table.tex", "table.parquet"):
        run("results", "--runs", runs, "--out", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    assert ".parquet" in run("results", "--runs", runs, "--out", "x.doc", code=2).stderr


def test_results_can_be_filtered_and_stored(runs, tmp_path):
    kept = tmp_path / "kept.jsonl"
    result = run("results", "--runs", runs, "--models", "mlp", "--add-to", kept, "--json")
    (row,) = json.loads(result.stdout)["rows"]
    assert row["model"] == "mlp"
    assert row["n"] == 2
    assert row["p_value"] is None
    assert len(kept.read_text().splitlines()) == 2
    shown = run("results", "--runs", tmp_path / "none", "--stored", kept, "--json").stdout
    assert json.loads(shown)["rows"] == [row]
    missed = run("results", "--runs", runs, "x", code=2).stderr
    assert "there are models gcn, mlp on digits, split stratified" in missed


@quick
def test_results_of_a_file_are_found_by_any_of_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(
        "generate", "--nodes", 60, "--edges", 120, "--classes", 3, "--features", 4, "--out", "g.npz"
    )
    run("train", "g.npz", "--model", "mlp", *SMALL)
    for name in ("g", "g.npz", "./g.npz", tmp_path / "g.npz"):
        assert "mlp" in run("results", name).stdout


@quick
def test_a_table_is_made_once_and_then_only_printed(tmp_path):
    command = ["reproduce", "table1", "digits", "--models", "gcn,three-hops", *SMALL]
    command += ["--runs", tmp_path / "runs", "--out", tmp_path / "out"]
    assert "runs to train: 2" in run(*command).stderr
    again = run(*command)
    assert "runs to train: 0, 2 found finished" in again.stderr
    assert "NCGCN (k=3)" in again.stdout
    assert "paper split" in again.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("table1.csv", "table1.md", "table1.tex")
    }


@quick
def test_a_table_as_json(tmp_path):
    command = ["reproduce", "table1", "digits", "--models", "gcn", *SMALL]
    result = run(*command, "--runs", tmp_path / "r", "--out", tmp_path / "out", "--json")
    shown = json.loads(result.stdout)
    assert shown["split"] == "paper"
    assert shown["data"]["rows"][0]["row"] == "gcn"
    assert shown["settings"] == {"epochs": 2, "hidden": 4}
    assert "With epochs=2, hidden=4." in (tmp_path / "out" / "table1.md").read_text()


@quick
def test_without_training_what_is_missing_is_listed(tmp_path):
    command = ["reproduce", "table1", "digits", "--models", "gcn", *SMALL]
    command += ["--runs", tmp_path / "r", "--out", tmp_path / "out"]
    nothing = run(*command, "--no-train", code=2)
    assert "none of its 1 runs is finished" in nothing.stderr
    assert not list(tmp_path.iterdir())
    run(*command)
    result = run(*command, "--seeds", 2, "--no-train")
    assert "missing runs: 1" in result.stderr
    assert "digits-gcn-paper-s1" in result.stderr


@quick
def test_times_of_earlier_runs_are_told(tmp_path):
    command = ["reproduce", "efficiency", "digits", *SMALL]
    command += ["--runs", tmp_path / "r", "--out", tmp_path / "out"]
    first = run(*command, "--models", "mlp")
    assert "found finished; their times" not in first.stderr
    assert "note: 1 runs were found finished" in run(*command, "--models", "mlp,gcn").stderr


def test_a_figure_is_written(tmp_path):
    run("reproduce", "distributions", "digits", "--out", tmp_path)
    run("reproduce", "entropy", "--out", tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        f"{name}.{kind}" for name in ("distributions", "entropy") for kind in ("png", "svg")
    }


def test_all_targets_are_listed():
    shown = run("reproduce").stdout
    assert tuple(target_names()) == NAMES
    assert tuple(plan_names()) == PLAN_NAMES
    for name in NAMES:
        assert name in shown
    listed = json.loads(run("reproduce", "--json").stdout)["targets"]
    assert tuple(target["name"] for target in listed) == NAMES


@quick
def test_results_are_silent_on_refused_runs_of_other_graphs_and_short_on_many(tmp_path):
    run("train", "digits", "--model", "gcn", *SMALL, "--runs", tmp_path)
    for name in "abcdefg":
        graph = Graph.from_edge_index([[0, 1], [1, 0]], num_nodes=9, labels=[0] * 9)
        ncgnn.save(graph, tmp_path / f"{name}.npz")
        train = ("train", tmp_path / f"{name}.npz", "--model", "gcn", *SMALL)
        run(*train, "--runs", tmp_path, code=2)  # one class
    asked = run("results", "--runs", tmp_path, "digits")
    assert "not shown" not in asked.stderr
    every = run("results", "--runs", tmp_path)
    assert every.stderr.count("not shown: ") == 5
    assert "2 more are not shown" in every.stderr


@quick
def test_results_tell_of_unfinished_runs_that_were_asked_for(tmp_path):
    begun = [*SMALL, "--runs", tmp_path]
    for model in ("gcn", "mlp"):
        run("train", "digits", "--model", model, *begun)
    (folder,) = tmp_path.glob("digits-mlp-*")
    (folder / "done.json").unlink()
    told = f"not shown: {folder}: not finished"
    assert told in run("results", "--runs", tmp_path).stderr
    assert told not in run("results", "--models", "gcn", "--runs", tmp_path).stderr
    (folder / "config.toml").write_text("damaged")
    assert told in run("results", "--models", "gcn", "--runs", tmp_path).stderr


def test_progress_tells_rows_of_one_model_apart():
    configs = {
        config.name: config
        for options in ({"hops": 1}, {"hops": 3}, {"hops": 1, "separation": "none"})
        for config in grid("digits", "ncgcn", seeds=2, settings=options)
    } | {config.name: config for config in grid("digits", "gcn")}
    found = list(titles(configs).values())
    assert len(set(found)) == len(configs) == 7
    assert found[0] == "ncgcn on digits, seed 0, separation=renormalized, hops=1"
    assert found[-1] == "gcn on digits, seed 0"
