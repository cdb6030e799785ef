"""``--coverage`` of predict and evaluate."""

from __future__ import annotations

import json

import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from ncgnn.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets") / "runs"
    options = ("--model", "gcn", "--set", "hidden=16", "--set", "epochs=12", "--runs", folder)
    done = run("train", "digits", *options, "--set", "learning_rate=0.05", "--seeds", "2")
    assert done.exit_code == 0, done.stderr
    return folder


def test_predict_writes_sets(runs, tmp_path):
    out = tmp_path / "a.parquet"
    shown = run("predict", "latest", "--runs", runs, "--coverage", "0.9", "--out", out)
    assert shown.exit_code == 0, shown.stderr
    table = pyarrow.parquet.read_table(out)
    sizes = table["set_size"].to_pylist()
    assert [len(one) for one in table["set"].to_pylist()] == sizes
    told = [size for size, seen in zip(sizes, table["seen"].to_pylist(), strict=True) if not seen]
    mean = sum(told) / len(told)
    assert f"sets at 90 %: {mean:.2f} classes on average" in shown.stdout
    plain = run("predict", "latest", "--runs", runs, "--out", tmp_path / "b.csv")
    assert "sets at" not in plain.stdout
    assert "set" not in pyarrow.csv.read_csv(tmp_path / "b.csv").column_names


def test_options_of_sets_tell(runs, tmp_path):
    sizes = {}
    for words in ((), ("--sets", "aps"), ("--sets-by", "none"), ("--allow-empty",)):
        out = tmp_path / f"answers{'-'.join(words)}.csv"
        asked = ("--coverage", "0.8", *words, "--out", out, "--json")
        said = json.loads(run("predict", "latest", "--runs", runs, *asked).stdout)
        assert said["coverage"] == 0.8
        sizes[words] = said["mean_set_size"]
        table = pyarrow.csv.read_csv(out)
        pairs = zip(table["set_size"].to_pylist(), table["seen"].to_pylist(), strict=True)
        found = [size for size, seen in pairs if not seen]
        assert sum(found) / len(found) == pytest.approx(said["mean_set_size"])
    assert len(set(sizes.values())) == 4
    assert sizes["--allow-empty",] < sizes[()] < sizes["--sets", "aps"]


def test_all_seeds_have_sets(runs, tmp_path):
    asked = ("--coverage", "0.9", "--all-seeds", "--json", "--out", tmp_path / "a.csv")
    done = run("predict", "latest", "--runs", runs, *asked)
    assert len(json.loads(done.stdout)["seeds"]) == 2
    assert min(pyarrow.csv.read_csv(tmp_path / "a.csv")["set_size"].to_pylist()) >= 1


def test_evaluate_shows_calibration_and_sets(runs):
    shown = run("evaluate", "latest", "--runs", runs)
    assert "Probabilities, before calibration and after" in shown.stdout
    assert "Sets that should hold the class of 90 % of the nodes" in shown.stdout
    said = json.loads(run("evaluate", "latest", "--runs", runs, "--coverage", 0.8, "--json").stdout)
    assert said["sets"]["coverage"] == 0.8
    kept = json.loads((runs / "latest" / "result.json").read_text())
    assert kept["sets"]["coverage"] == 0.9
    assert kept["calibration"] == said["calibration"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("share", ["90", "0", "1", "nan"])
def test_a_coverage_that_is_no_share_is_refused(runs, command, share):
    done = run(command, "latest", "--runs", runs, "--coverage", share)
    assert done.exit_code == 2
    assert "coverage must lie between 0 and 1" in done.stderr
    assert "0.9 means 90 of 100 sets" in done.stderr


@pytest.mark.parametrize("words", [("--sets", "lac"), ("--sets-by", "none"), ("--allow-empty",)])
def test_words_about_sets_need_a_coverage(runs, words, tmp_path):
    done = run("predict", "latest", "--runs", runs, "--out", tmp_path / "a.csv", *words)
    assert done.exit_code == 2
    assert "need --coverage" in done.stderr
    assert not (tmp_path / "a.csv").exists()


def test_calibration_is_a_setting(runs, tmp_path):
    options = ("--model", "gcn", "--set", "hidden=16", "--set", "epochs=3", "--runs", tmp_path)
    assert run("train", "digits", *options, "--set", "calibration=none").exit_code == 0
    said = json.loads(run("evaluate", "latest", "--runs", tmp_path, "--json").stdout)
    assert said["calibration"]["before"] == said["calibration"]["after"]
    wrong = run("train", "digits", *options, "--set", "calibration=platt")
    assert wrong.exit_code == 2
    assert "training.calibration must be" in wrong.stderr
