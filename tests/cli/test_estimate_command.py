"""``ncgnn train --estimate``, and what is said before long runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

import ncgnn
from ncgnn.cli.app import app
from ncgnn.cli.auto import about_cost
from ncgnn.cli.train import about_protocol
from ncgnn.training import make_config

choice = sys.modules["ncgnn.training.choice"]
module = sys.modules["ncgnn.training.cost"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_an_estimate_is_printed_and_nothing_is_trained(tmp_path):
    runs = tmp_path / "runs"
    done = run("train", "digits", "--models", "ncgcn,gcn", "--estimate", "--runs", runs)
    assert done.exit_code == 0
    assert "What training on digits will take" in done.stdout
    assert "ncgcn" in done.stdout
    assert "peak GiB" in done.stdout
    assert not runs.exists()


def test_estimates_for_programs():
    done = run("train", "digits", "--models", "gcn,linkx", "--seeds", "2", "--estimate", "--json")
    found = json.loads(done.stdout)
    assert set(found["estimates"]) == {"gcn", "linkx"}
    assert found["estimates"]["linkx"] is None
    assert found["estimates"]["gcn"]["fits"] is True
    assert found["estimates"]["gcn"]["memory_gib"] > 0.1


def test_a_run_that_does_not_fit_ends_in_one_line(tmp_path, monkeypatch, quick):
    monkeypatch.setattr(module, "available_gib", lambda: 0.0)
    monkeypatch.setattr(module, "used_gib", lambda: 0.01)
    monkeypatch.setattr(module, "can_take_batches", lambda config, graph: False)
    monkeypatch.setattr(choice, "can_take_batches", lambda config, graph: False)
    arguments = ("train", "digits", "--models", "gcn", "--set", "epochs=2", "--runs", tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    assert "error: gcn needs about" in done.stderr
    assert "Traceback" not in done.stderr
    shown = run(*arguments, "--estimate")
    assert shown.exit_code == 0
    assert "does not fit" in shown.stdout
    assert run(*arguments, "--set", "memory_check=false").exit_code == 0


def test_a_run_that_does_not_fit_is_trained_in_batches_and_found_again(
    tmp_path, monkeypatch, quick
):
    arguments = ("train", "digits", "--models", "gcn", "--set", "epochs=2", "--runs", tmp_path)
    with monkeypatch.context() as little:
        little.setattr(module, "available_gib", lambda: 0.0)
        little.setattr(module, "used_gib", lambda: 0.01)
        done = run(*arguments, "--json")
        assert done.exit_code == 0
        assert "gcn needs about 0." in done.stderr
        assert "trained in batches of 1,024 (as with batch_size = 1024)" in done.stderr
        assert "memory_check = false trains on the whole graph" in done.stderr
    folder = json.loads(done.stdout)["runs"][0]["folder"]
    assert "batch_size = 1024" in (Path(folder) / "config.toml").read_text()
    again = run(*arguments, "--json")  # with all the memory there is
    assert json.loads(again.stdout)["runs"][0]["folder"] == folder
    assert "Found finished" in again.stderr
    other = run(*arguments, "--json", "--set", "memory_check=false")
    assert json.loads(other.stdout)["runs"][0]["folder"] != folder


def test_a_long_run_is_told_of_and_a_short_one_is_not():
    config = make_config(dataset="digits", model="ncgcn", settings={"hidden": 16, "epochs": 5})
    assert about_cost(config, ncgnn.load("digits")) is None
    graph = ncgnn.generate(nodes=60_000, edges=900_000, classes=5, features=64)
    long = make_config(dataset="digits", model="ncgcn", settings={"hidden": 512, "epochs": 5000})
    assert "per epoch, at most" in about_cost(long, graph)


def test_temporal_training_on_a_random_split_is_told_of():
    told = {"protocol": "temporal"}
    assert "drawn at random" in about_protocol(make_config(dataset="digits", settings=told))
    by_time = make_config(dataset="digits", split="time", settings=told)
    assert about_protocol(by_time) is None
    assert about_protocol(make_config(dataset="digits")) is None
