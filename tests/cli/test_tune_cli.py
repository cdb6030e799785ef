from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.training.folder import DONE, ERROR, run_folders

QUICK = ["--set", "hidden=8", "--set", "epochs=3", "--workers", 1]
quick = pytest.mark.usefixtures("quick")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    ncgnn.save(ncgnn.generate(200, 600, classes=3, features=8, seed=1), folder / "g.npz")
    config = folder / "c.toml"
    config.write_text(
        '[data]\ndataset = "g.npz"\n[model]\nname = "mlp"\n'
        "[search.training]\nlearning_rate = [0.01, 0.02]\nweight_decay = []\n"
    )
    command = ["tune", "--config", config, *QUICK, "--runs", folder / "runs"]
    command += ["--trials", 4, "--evaluate-seeds", 2]
    return folder, command, run(*command)


def test_a_device_that_is_not_there_is_said_before_any_trial(tmp_path):
    result = run("tune", "digits", "--device", "nowhere", "--runs", tmp_path)
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert not list(tmp_path.glob("tune-*/journal.jsonl"))


@quick
def test_a_table_says_what_was_found(tuned):
    folder, _, result = tuned
    assert result.exit_code == 0, result.output
    for words in (
        "training.learning_rate",
        "model.dropout",
        "validation accuracy in the search, seed 0",
        "validation accuracy, fresh seeds 1, 2",
        "test accuracy, fresh seeds 1, 2",
        "test macro-F1, fresh seeds 1, 2",
        "majority class, fresh seeds 1, 2",
        "±",
        "4 complete, 0 pruned, 0 failed",
    ):
        assert words in result.stdout
    assert "training.weight_decay" not in result.stdout
    assert "[4/4] trials: best val" in result.stderr
    command = shlex.split(result.stderr.splitlines()[-1])
    assert command[:3] == ["ncgnn", "train", str(folder / "g.npz")]
    assert command[-2:] == ["--seeds", "1,2"]
    again = run(*command[1:])
    assert again.exit_code == 0, again.output
    assert again.stderr.count("found finished") == 2
    assert "of the test nodes of the fresh splits were training or validation" in result.stderr


@quick
def test_the_same_command_again_only_prints(tuned):
    folder, command, _ = tuned
    (journal,) = folder.glob("runs/tune-*/journal.jsonl")
    before = journal.read_bytes()
    again = run(*command, "--json")
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert journal.read_bytes() == before
    assert set(found["parameters"]) == {"training.learning_rate", "model.dropout"}
    assert found["search"]["complete"] == 4
    assert found["evaluation"]["seeds"] == [1, 2]
    assert 0 < found["evaluation"]["test_accuracy"]["mean"] <= 1
    assert 0 < found["evaluation"]["test_nodes_seen_in_search"] < 1


@quick
def test_a_search_by_another_metric_names_it(tuned, tmp_path):
    _, command, _ = tuned
    others = ["--metric", "roc_auc", "--trials", 1, "--runs", tmp_path]
    result = run(*command, *others)
    assert result.exit_code == 0, result.output
    assert "validation ROC AUC in the search, seed 0" in result.stdout
    assert "test ROC AUC, fresh seeds 1, 2" in result.stdout
    assert "[1/1] trials: best val ROC AUC" in result.stderr
    found = json.loads(run(*command, *others, "--json").stdout)
    assert found["metric"] == "roc_auc"
    assert 0 < found["search"]["val_roc_auc"] <= 1
    assert {"val_accuracy", "val_roc_auc", "test_roc_auc"} < found["evaluation"].keys()


@quick
def test_the_best_configuration_is_trained_as_it_is(tuned):
    folder, _, _ = tuned
    (best,) = folder.glob("runs/tune-*/best.toml")
    result = run("train", "--config", best, "--seeds", "1,2", "--runs", folder / "runs", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("found finished") == 2


@quick
def test_a_failed_run_is_tried_once_more_if_wanted(tuned, tmp_path):
    folder, command, _ = tuned
    first = next(path for path in run_folders(folder / "runs") if (path / DONE).is_file())
    shutil.copytree(folder / "runs", tmp_path / "runs", symlinks=True)
    run_folder = tmp_path / "runs" / first.name
    (run_folder / DONE).unlink()
    (run_folder / ERROR).write_text('{"format": 1, "error": "the disk was full"}')
    moved = [tmp_path / "runs" if part == folder / "runs" else part for part in command]
    failed = run(*moved)
    assert failed.exit_code == 1
    assert "the disk was full" in failed.stderr
    assert "--retry-failed" in failed.stderr
    assert run(*moved, "--retry-failed").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "GRAPH"),
        (["digitz"], "digits"),
        (["digits", "--model", "ncgc"], "ncgcn"),
        (["digits", "--model", "ncgcn,gcn"], "one at a time"),
        (["digits", "--set", "foo=1"], "ncgcn: foo: there is no such option"),
        (["digits", "--set", "seed=1", "--seeds", "2"], "contradict"),
        (["digits", "--evaluate-seeds", "-2"], "--evaluate-seeds"),
        (["digits", "--timeout", "nan"], "timeout"),
        (["digits", "--timeout", "inf"], "timeout"),
        (["digits", "--seeds", "0"], "--seeds"),
        (["digits", "--evaluate-seeds", "x"], "--evaluate-seeds"),
        (["digits", "--evaluate-seeds", "0,"], "seed 0 is used"),
        (["digits", "--split", "published"], "published"),
        (["digits", "--timeout", "0"], "timeout"),
        (["digits", "--storage", "x"], "--storage"),
        (["--config", "none.toml"], "none.toml"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    result = run("tune", *arguments, "--runs", tmp_path)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_saves_and_the_same_command_goes_on(tmp_path):
    command = [sys.executable, "-m", "ncgnn", "tune", "digits", "--model", "mlp"]
    command += ["--set", "hidden=16", "--set", "epochs=400", "--set", "patience=400"]
    command += ["--workers", "2", "--trials", "2", "--evaluate-seeds", "0", "--runs", tmp_path]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and not any(tmp_path.glob("tune-*/trials/*/*/metrics.jsonl")):
        time.sleep(0.02)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "the same command continues" in said
    assert "Traceback" not in said
    assert any(tmp_path.glob("tune-*/trials/*/*/checkpoint.safetensors"))
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["search"]["complete"] == 2
    assert not any(tmp_path.glob("tune-*/trials/*"))
