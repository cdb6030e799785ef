from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NCGNN_DATA", raising=False)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, [str(word) for word in words])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    graph = ncgnn.generate(80, 200, classes=3, features=5)
    return ncgnn.save(graph, tmp_path / "small.npz")


def test_version_and_help(run) -> None:
    assert run("--version").stdout.strip() == f"ncgnn {ncgnn.__version__}"
    shown = run("--help").stdout
    for command in ("analyze", "datasets", "split", "generate"):
        assert command in shown
        assert run(command, "--help").exit_code == 0


def test_analyze_json_is_one_object_with_the_promised_keys(run, small: Path) -> None:
    done = run("analyze", small, "--json", "--hops", "1,2,3")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    expected = {"name", "nodes", "edges", "features", "classes", "unlabeled", "means"}
    assert expected <= set(found)
    assert (found["name"], found["nodes"], found["edges"]) == ("small", 80, 200)
    means = {"nh_open", "nh_closed", "nc_1", "nc_2", "nc_3", "edge_homophily"}
    means |= {"class_insensitive_homophily", "adjusted_homophily", "label_informativeness"}
    assert means <= set(found["means"])
    direct = ncgnn.metrics.mean(ncgnn.neighborhood_confusion(ncgnn.load(small), hops=3))
    assert found["means"]["nc_3"] == pytest.approx(direct)


def test_analyze_prints_tables_and_writes_files(run, small: Path, tmp_path: Path) -> None:
    done = run("analyze", small, "--out", tmp_path / "out", "--format", "parquet")
    assert done.exit_code == 0
    assert "Neighborhood Confusion" in done.stdout
    assert str(tmp_path / "out") in done.stderr.replace("\n", "")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.html", "nodes.parquet", "distribution.svg"} <= written
    assert run("analyze", small, "--out", tmp_path / "out").exit_code == 0
    refused = run("analyze", "digits", "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "holds the report of small; name another folder" in refused.stderr
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["name"] == "small"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("analyze", "pubmd"), "did you mean pubmed"),
        (("analyze", "no/such.npz"), "no/such.npz"),
        (("analyze", "digits", "--hops", "1,x"), "--hops"),
        (("analyze", "digits", "--hops", "0"), "--hops"),
        (("analyze", "digits", "--threshold", "2"), "threshold"),
        (("split", "digits", "--split", "papr"), "did you mean paper"),
        (("split", "digits", "--split", "published"), "published"),
        (("generate", "--nodes", "3", "--edges", "9", "--out", "x.npz"), "edges"),
        (("generate", "--nodes", "3", "--edges", "2", "--out", "x.txt"), ".npz"),
    ],
)
def test_wrong_arguments_give_one_clear_line(run, words: tuple[str, ...], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.output


def test_broken_file_gives_one_clear_line(run, tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not really")
    done = run("analyze", tmp_path / "bad.npz")
    assert done.exit_code == 2
    assert "bad.npz" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_unwritable_output_gives_one_clear_line(run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = run("analyze", small, "--out", tmp_path / "file" / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


def test_datasets_list_and_details(run, tmp_path: Path, real_data_dir: Path) -> None:
    listed = json.loads(run("datasets", "--json", "--data-dir", real_data_dir).stdout)["datasets"]
    at_hand = {row["name"]: row["at_hand"] for row in listed}
    assert at_hand["pubmed"] == str(real_data_dir / "pubmed.npz")
    assert at_hand["ogbn-arxiv"] is None
    assert at_hand["digits"].endswith("digits.py")
    assert "coauthor-physics" in run("datasets").stdout
    details = run("datasets", "pubmed").stdout
    assert "citation" in details


def test_split_command_reports_and_saves(run, tmp_path: Path) -> None:
    done = run("split", "digits", "--split", "paper", "--seed", "3", "--out", tmp_path / "s.json")
    assert done.exit_code == 0
    assert "SHA-256" in done.stdout
    found = json.loads(run("split", "digits", "--split", "paper", "--seed", "3", "--json").stdout)
    saved = json.loads((tmp_path / "s.json").read_text())
    assert found["sha256"] == saved["sha256"]
    assert found["majority_baseline"] == pytest.approx(
        np.bincount(ncgnn.load("digits").labels[saved["test"]]).max() / len(saved["test"])
    )


def test_generate_makes_what_it_was_asked_for(run, tmp_path: Path) -> None:
    path = tmp_path / "mixed.npz"
    words = ("--nodes", 300, "--edges", 900, "--classes", 4, "--confused-share", 0.3)
    done = run("generate", *words, "--features", 6, "--out", path)
    assert done.exit_code == 0
    assert done.stdout.strip() == str(path)
    graph = ncgnn.load(path)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (300, 900, 6)
    again = run("generate", *words, "--out", path, "--force", "--json")
    assert json.loads(again.stdout) == {"path": str(path)}


def test_existing_files_are_kept_unless_forced(run, small: Path, tmp_path: Path) -> None:
    words = ("generate", "--nodes", 5, "--edges", 4, "--out", small)
    before = small.read_bytes()
    done = run(*words)
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert small.read_bytes() == before
    assert run(*words, "--force").exit_code == 0
    assert ncgnn.load(small).num_nodes == 5
    assert run("split", "digits", "--out", small).exit_code == 2


def test_names_of_people_are_no_markup(run, tmp_path: Path) -> None:
    graph = ncgnn.Graph.from_edge_index(
        [[0, 1], [1, 0]], labels=[0, 1], class_names=["[/x]", "a$^$日本"]
    )
    path = ncgnn.save(graph, tmp_path / "b[red]$c$.npz")
    done = run("analyze", path, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "b[red]$c$" in done.stdout
    assert "[/x]" in run("split", path, "--split", "stratified").stdout


def test_split_with_an_empty_test_part(run, tmp_path: Path) -> None:
    graph = ncgnn.Graph.from_edge_index([[0], [1]], labels=[0, 1])
    path = ncgnn.save(graph, tmp_path / "two.npz")
    assert run("split", path).exit_code == 0


def test_folders_and_other_files_are_told_apart(run, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1")
    assert "npz" in run("analyze", tmp_path / "edges.csv").stderr
    assert "is a folder" in run("analyze", tmp_path).stderr
    done = run("analyze", "pubmed", "--data-dir", tmp_path / "nowhere")
    assert "no data folder" in done.stderr


def test_module_is_the_command(tmp_path: Path) -> None:
    import subprocess
    import sys

    call = [sys.executable, "-m", "ncgnn", "--version"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"ncgnn {ncgnn.__version__}"
