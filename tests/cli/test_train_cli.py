from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.cli.train import about_edges, about_parameters
from ncgnn.experiments import grid
from ncgnn.graph import Graph
from ncgnn.training import make_config, run_folders, train_run

QUICK = ["--set", "hidden=8", "--set", "epochs=4"]
quick = pytest.mark.usefixtures("quick")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    result = run("train", "digits", *QUICK, "--seeds", 2, "--runs", runs)
    assert result.exit_code == 0, result.output
    return runs, result


def test_train_prints_mean_and_deviation_over_seeds(trained):
    runs, result = trained
    assert "±" in result.stdout
    assert "macro-F1" in result.stdout
    assert "majority class of test" in result.stdout
    folders = sorted(path.name[:26] for path in run_folders(runs))
    assert folders == ["digits-ncgcn-stratified-s0", "digits-ncgcn-stratified-s1"]
    for folder in run_folders(runs):
        assert (folder / "report.html").is_file()
        assert (folder / "done.json").is_file()
        assert {p.suffix for p in (folder / "figures").iterdir()} == {".png", ".svg"}


def test_the_same_command_again_only_prints(trained):
    runs, _ = trained
    before = {p: p.stat().st_mtime_ns for p in runs.rglob("*") if p.name != ".lock"}
    again = run("train", "digits", *QUICK, "--seeds", 2, "--runs", runs, "--json")
    assert again.exit_code == 0
    assert len(json.loads(again.stdout)["runs"]) == 2
    assert {p: p.stat().st_mtime_ns for p in runs.rglob("*") if p.name != ".lock"} == before


def test_evaluate_and_predict_agree_with_the_run(trained, tmp_path):
    runs, _ = trained
    folder = next(path for path in run_folders(runs) if "-s0-" in path.name)
    stored = json.loads((folder / "result.json").read_text())
    evaluated = run("evaluate", folder, "--json")
    assert json.loads(evaluated.stdout)["scores"] == stored["scores"]
    shown = run("evaluate", folder.name, "--runs", runs).stdout
    assert "low NC" in shown
    assert "clear" in shown
    assert "test nodes" in shown
    out = tmp_path / "p.parquet"
    predicted = run("predict", folder, "--out", out, "--top", 2, "--json")
    said = json.loads(predicted.stdout)
    assert said["path"] == str(out)
    assert said["answers"] == 1797 == sum(said["kinds"].values())
    table = pq.read_table(out).to_pydict()
    test = [i for i, part in enumerate(table["part"]) if part == "test"]
    right = sum(table["predicted"][i] == table["label"][i] for i in test)
    assert right / len(test) == stored["scores"]["test"]["accuracy"]
    assert set(table["group"]) <= {"low", "high"}
    assert "top_2_probability" in table
    refused = run("predict", folder, "--out", out)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr


def test_explain_a_node_of_the_run(trained, tmp_path):
    runs, _ = trained
    folder = next(path for path in runs.iterdir() if "-s0-" in path.name)
    out = tmp_path / "why.parquet"
    shown = run("explain", folder.name, 7, "--runs", runs, "--neighbors", 4, "--out", out)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("7: predicted ")
    assert "neighbors were not tried one by one." in shown.stdout
    assert "all own features" in shown.stdout
    assert pq.read_table(out)["part"].to_pylist().count("neighbor") == 4
    said = json.loads(run("explain", folder, 7, "--json", "--neighbors", 4).stdout)
    assert [one["effect"] for one in said["effects"]] == pytest.approx(
        pq.read_table(out)["effect"].to_pylist()
    )
    for words, message in (
        ([9999], "has no node 9999"),
        ([7, "--out", out], "--force"),
        ([7, "--out", tmp_path / "why.pdf"], "must end in .html, .csv"),
        ([7, "--out", tmp_path / "no" / "why.html"], "no folder"),
        ([7, "--edges", out], "--edges come with --nodes"),
    ):
        refused = run("explain", folder, *words)
        assert refused.exit_code == 2
        assert message in refused.stderr


@quick
def test_a_run_follows_its_graph_to_another_place(tmp_path):
    graph, runs = tmp_path / "mine.npz", tmp_path / "runs"
    ncgnn.save(ncgnn.generate(120, 400, classes=3, features=4), graph)
    assert run("train", graph, "--model", "mlp", *QUICK, "--runs", runs).exit_code == 0
    (folder,) = run_folders(runs)
    moved = graph.rename(tmp_path / "moved.npz")
    assert "no file" in run("evaluate", folder).stderr
    assert run("evaluate", folder, moved).exit_code == 0
    out = tmp_path / "p.parquet"
    assert run("predict", folder, moved, "--out", out).exit_code == 0
    assert pq.read_table(out).num_rows == 120
    nowhere = run("predict", folder, moved, "--out", tmp_path / "no" / "p.csv")
    assert "no folder" in nowhere.stderr


@quick
def test_a_run_answers_for_another_graph(tmp_path):
    graph, other, runs = tmp_path / "mine.npz", tmp_path / "other.npz", tmp_path / "runs"
    ncgnn.save(ncgnn.generate(120, 400, classes=3, features=4), graph)
    ncgnn.save(ncgnn.generate(90, 300, classes=3, features=4, seed=1), other)
    assert run("train", graph, "--model", "sage", *QUICK, "--runs", runs).exit_code == 0
    (folder,) = run_folders(runs)
    out = tmp_path / "p.csv"
    told = run("predict", folder, other, "--out", out, "--only", "new")
    assert told.stdout.splitlines()[0].startswith("90 answers, mean probability 0.")
    assert told.stdout.splitlines()[-1] == f"written: {out}"
    assert out.read_text().count("\n") == 91
    for words, message in (
        (["--only", "new"], "has no new nodes"),
        (["--edges", other], "--edges come with --nodes"),
        (["--out", tmp_path / "p.xlsx"], "must end in .csv, .tsv, .parquet, .feather"),
    ):
        refused = run("predict", folder, *words)
        assert refused.exit_code == 2
        assert message in refused.stderr


@quick
def test_several_models_are_compared_in_one_table(tmp_path):
    graph = tmp_path / "mine.npz"
    ncgnn.save(ncgnn.generate(200, 800, classes=3, features=8), graph)
    models = ["--model", "ncgcn,gcn,mlp"]
    result = run("train", graph, *models, *QUICK, "--runs", tmp_path / "runs")
    assert result.exit_code == 0, result.output
    for name in ("ncgcn", "gcn", "mlp", "majority"):
        assert name in result.stdout


def test_the_metric_selects_the_epoch_and_is_named_everywhere(tmp_path, request):
    chosen = ["train", "digits", *QUICK, "--metric", "macro_f1", "--runs", tmp_path]
    result = run(*chosen)
    assert result.exit_code == 0, result.output
    (folder,) = run_folders(tmp_path)
    stored = json.loads((folder / "result.json").read_text())
    history = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    best = max(history, key=lambda record: record["val_macro_f1"])
    assert (stored["metric"], stored["best_epoch"]) == ("macro_f1", best["epoch"])
    scores = {part: f"{100 * stored['scores'][part]['macro_f1']:.2f}" for part in ("val", "test")}
    assert f"val macro-F1 {scores['val']}%, test {scores['test']}%" in result.stderr
    assert "validation macro-F1" in result.stdout
    page = (folder / "report.html").read_text()
    assert re.search(rf"Test macro-F1 {scores['test']} % \([\d.]+–[\d.]+\), accuracy", page)
    assert "Selected by</td><td>validation macro-F1" in page
    assert "macro-F1" in run("evaluate", folder).stdout
    request.getfixturevalue("quick")
    compared = run(*chosen, "--model", "mlp,gcn")
    assert "Best on validation by macro-F1" in compared.stdout
    refused = run(*chosen, "--set", "metric=accuracy")
    assert (refused.exit_code, "--metric and --set metric" in refused.stderr) == (2, True)
    assert "macro_f1" in run("train", "digits", "--metric", "f1", "--runs", tmp_path).stderr


@quick
def test_a_toml_file_and_tensorboard(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text(
        '[data]\ndataset = "digits"\n[model]\nname = "mlp"\nhidden = 8\n[training]\nepochs = 3\n'
    )
    result = run("train", "--config", config, "--runs", tmp_path / "runs", "--tensorboard")
    assert result.exit_code == 0, result.output
    (folder,) = run_folders(tmp_path / "runs")
    assert list(folder.glob("events.*"))
    assert run("evaluate", folder).exit_code == 0


def test_a_dry_run_prints_the_configuration_and_trains_nothing(tmp_path):
    done = run("train", "pubmed", "--dry-run", "--runs", tmp_path / "runs")
    assert done.exit_code == 0
    assert tomllib.loads(done.stdout)["model"]["dropout"] == [0.4, 0.3]
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_prints_one_configuration_per_model(tmp_path):
    arguments = ("train", "digits", "--seeds", "3", "--dry-run")
    done = run(*arguments, "--model", "gcn")
    assert done.stdout.startswith("# and the same with seed 1, 2\n")
    assert tomllib.loads(done.stdout)["training"]["seed"] == 0
    done = run(*arguments, "--model", "gcn,mlp", "--json")
    configs = json.loads(done.stdout)["configs"]
    assert [(c["model"]["name"], c["training"]["seed"]) for c in configs] == [
        *(("gcn", seed) for seed in range(3)),
        *(("mlp", seed) for seed in range(3)),
    ]


def test_one_configuration_file_is_enough(tmp_path):
    done = run("train", "--config", "a.toml", "--config", "b.toml", "digits")
    assert done.exit_code == 2
    assert "--config must be one file; got 2" in done.stderr


@quick
def test_a_resumed_run_says_so_and_warnings_are_one_line(tmp_path):
    config = tmp_path / "mine.toml"
    config.write_text('[model]\nname = "gcn"\nhidden = 8\n[training]\nepochs = 5\n')
    arguments = ["train", "--config", config, "digits", "--runs", tmp_path / "runs"]
    (chosen,) = grid(["digits"], config=config)

    def interrupt(record):
        if record["epoch"] == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train_run(chosen, tmp_path / "runs", on_epoch=interrupt, checkpoint_seconds=0)
    assert "continues after epoch 1" in run(*arguments).stderr
    other = run(*arguments, "--model", "mlp").stderr
    assert f"warning: {config}: [model] is for gcn and is not used for mlp.\n" in other


@quick
def test_edges_of_ones_own_graph_are_remarked_on(tmp_path):
    graph = ncgnn.generate(60, 120, classes=2, features=4, seed=0)
    edges = graph.edge_index()

    def remark(kept, *models, name="mine"):
        made = Graph.from_edge_index(kept, labels=graph.labels, features=graph.features, name=name)
        return about_edges(made, models)

    one_way = edges[:, edges[0] < edges[1]]
    assert remark(edges, "gcn") is None
    assert remark(one_way, "fagcn", "mlp", "h2gcn") is None
    assert remark(one_way, "gcn", name="actor") is None
    words = "mine is directed: with gcn, sage a node sees only the sources"
    assert words in (remark(one_way, "fagcn", "gcn", "sage") or "")
    bare = Graph.from_edge_index(edges[:, :0], labels=graph.labels, features=graph.features)
    path = ncgnn.save(bare, tmp_path / "bare.npz")
    done = run("train", path, "--model", "gcn", *QUICK, "--runs", tmp_path / "runs")
    assert done.stderr.startswith("note: bare has no edges")


def test_a_graph_or_model_is_named_once(tmp_path):
    for words in (
        ("digits", "--model", "gcn", "--set", "model.name=mlp"),
        ("digits", "--set", "dataset=texas"),
    ):
        done = run("train", *words, "--runs", tmp_path)
        assert done.exit_code == 2
        assert "contradict each other" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "GRAPH"),
        (["train", "digits", "--model", "ncgcn,gcn", "--set", "hops=1"], ", gcn: "),
        (["train", "digitz"], "digits"),
        (["train", "digits", "--model", "ncgc"], "ncgcn"),
        (["train", "digits", "--set", "foo=1"], "ncgcn: foo: there is no such option"),
        (["train", "digits", "--set", "foo"], "key=value"),
        (["train", "digits", "--seeds", "x"], "--seeds"),
        (["train", "digits", "--fractions", "0.5,0.5"], "--fractions must be three shares"),
        (["train", "digits", "--fractions", "0.5,0.5,0.5"], "fractions must sum to 1"),
        (["train", "digits", "--split", "paper", "--fractions", "0.8,0.1,0.1"], "stratified"),
        (["train", "digits", "--seeds", "0"], "seed 0 alone is '0,'"),
        (["train", "digits", "--split", "published"], "published"),
        (["train", "digits", "--device", "cuda:9"], "cuda:9"),
        (["train", "--config", "none.toml"], "none.toml"),
        (["evaluate", "nowhere"], "nowhere"),
        (["predict", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    extra = ["--runs", str(tmp_path)]
    result = run(*arguments, *extra)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_saves_and_the_same_command_goes_on(tmp_path):
    command = [sys.executable, "-m", "ncgnn", "train", "digits", "--runs", tmp_path]
    command += ["--set", "hidden=16", "--set", "epochs=3000", "--set", "patience=3000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not any(tmp_path.glob("*/metrics.jsonl")):
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command continues" in said
    (folder,) = tmp_path.iterdir()
    assert (folder / "checkpoint.safetensors").is_file()
    assert not (folder / "done.json").exists()


def test_uneven_parameters_are_said():
    def said(*models, split="stratified", **settings):
        configs = [make_config(dataset="actor", model=m, split=split) for m in models]
        return about_parameters(configs, settings)

    assert said("ncgcn", "gcn", "mlp") == (
        "note: ncgcn used parameters found for actor, gcn, mlp those for any graph; for a fair "
        "comparison search them too ('ncgnn tune')."
    )
    assert said("ncgcn", "gcn", split="paper") is None  # both were searched there
    assert said("gcn", "mlp") is None
    assert said("ncgcn") is None
    assert said("ncgcn", "gcn", learning_rate=0.1) is None


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal of its own")
def test_a_terminal_that_is_closed_saves_the_state(tmp_path):
    """As when a connection to another machine is lost: writing to the terminal fails by then."""
    import pty

    command = [sys.executable, "-m", "ncgnn", "train", "digits", "--model", "ncgcn"]
    command += ["--set", "epochs=100000", "--set", "patience=100000", "--set", "hidden=8"]
    child, terminal = pty.fork()
    if not child:
        try:
            os.execv(sys.executable, [*command, "--runs", str(tmp_path)])
        finally:
            os._exit(1)
    ended, deadline = False, time.monotonic() + 120
    try:
        os.set_blocking(terminal, False)
        while not any(p.stat().st_size for p in tmp_path.glob("*/metrics.jsonl")):
            assert time.monotonic() < deadline
            ended = os.waitpid(child, os.WNOHANG)[0] != 0
            assert not ended
            with suppress(BlockingIOError):
                os.read(terminal, 1 << 16)
            time.sleep(0.05)
        os.close(terminal)
        found, status = 0, 0
        while not found:
            assert time.monotonic() < deadline
            found, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.05)
        ended = True
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert list(tmp_path.glob("*/checkpoint.safetensors"))
    assert not list(tmp_path.glob("*/error.json"))
