"""Runs of every format that was ever written are still read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ncgnn._io import sha256_of_file
from ncgnn.experiments import read_runs
from ncgnn.report import write_run_report
from ncgnn.training import (
    DamagedFileError,
    RunFolder,
    finished_run,
    load_run,
    make_config,
    train_run,
)
from ncgnn.training.config import FORMAT

KEPT = sorted((Path(__file__).parent / "assets").glob("run-format-*"))


def test_there_is_a_run_of_every_format():
    assert [path.name for path in KEPT] == [f"run-format-{n}" for n in range(1, FORMAT + 1)]


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_a_kept_run_answers_as_when_it_was_written(kept, tmp_path):
    run = finished_run(RunFolder(kept))
    trained = load_run(kept)
    scores = trained.evaluate()["scores"]
    assert scores["test"]["accuracy"] == run.result["scores"]["test"]["accuracy"]
    assert scores["val"]["loss"] == pytest.approx(run.result["scores"]["val"]["loss"], abs=1e-5)
    assert [record["epoch"] for record in trained.history] == [0, 1, 2]
    assert len(trained.predict(coverage=0.9)) == trained.graph.num_nodes


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_a_kept_run_is_reported_and_stands_in_tables(kept, tmp_path):
    folder = Path(shutil.copytree(kept, tmp_path / "runs" / kept.name))
    page, *_ = write_run_report(RunFolder(folder))
    assert "ncgcn" in page.read_text(encoding="utf-8")
    records, problems = read_runs(tmp_path / "runs")
    assert not problems
    (record,) = records
    assert record.result["scores"] == json.loads((kept / "result.json").read_text())["scores"]


def test_weights_of_other_sizes_are_told_in_one_line(tmp_path):
    folders = [
        train_run(
            make_config(dataset="digits", model="gcn", settings={"epochs": 1, "hidden": hidden}),
            tmp_path / str(hidden),
        ).folder
        for hidden in (2, 3)
    ]
    path = folders[0] / "weights.safetensors"
    shutil.copy(folders[1] / path.name, path)
    done = json.loads((folders[0] / "done.json").read_text())
    done["files"][path.name] = sha256_of_file(path)
    (folders[0] / "done.json").write_text(json.dumps(done))
    with pytest.raises(DamagedFileError, match=r"does not fit .size mismatch for first") as caught:
        load_run(folders[0])
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; train the run again.")


SPOILT = {
    "no split": lambda result: result["nodes"].pop("val"),
    "an empty record": lambda result: result["accuracy_by_kind"].append({}),
    "pairs alone": lambda result: result.pop("most_confused"),
    "sets alone": lambda result: result.pop("calibration"),
    "no hops": lambda result: result.pop("hops"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_result_that_cannot_be_shown_is_told_in_one_line(tmp_path, case):
    folder = Path(shutil.copytree(KEPT[0], tmp_path / "run"))
    result = json.loads((folder / "result.json").read_text())
    SPOILT[case](result)
    (folder / "result.json").write_text(json.dumps(result))
    try:
        write_run_report(RunFolder(folder))
    except DamagedFileError as error:
        assert str(error).endswith("train the run again.")  # noqa: PT017


def test_an_earlier_result_without_newer_facts_is_shown(tmp_path):
    """As the first releases of the format wrote it."""
    folder = Path(shutil.copytree(KEPT[0], tmp_path / "run"))
    result = json.loads((folder / "result.json").read_text())
    newer = ("classes", "confused_pairs", "most_confused", "calibration", "sets", "intervals")
    for name in (*newer, "tenths", "small_groups"):
        result.pop(name, None)
    (folder / "result.json").write_text(json.dumps(result))
    page, *_ = write_run_report(RunFolder(folder))
    assert "tenths of nodes with neighbors" not in page.read_text(encoding="utf-8")
    assert "tenths of the nodes" in page.read_text(encoding="utf-8")
