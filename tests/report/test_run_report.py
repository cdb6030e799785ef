from __future__ import annotations

import base64
import html
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from test_run_figures import PLAIN, SEPARATED, made_history, made_result

from ncgnn._io import sha256_of_file, write_text
from ncgnn.report import evaluation_tables, write_run_report
from ncgnn.report.run import RunFacts, run_page
from ncgnn.training.config import make_config, to_toml
from ncgnn.training.folder import DamagedFileError, RunFolder
from ncgnn.training.run import train_run

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = {"python": "3.99.1", "packages": {"torch": "9.8.7"}, "cuda": None}


def made_folder(
    path: Path,
    *,
    separated: bool = True,
    test: bool = True,
    change: dict[str, Any] | None = None,
) -> RunFolder:
    folder = RunFolder(path / "run")
    write_text(folder / "config.toml", to_toml(SEPARATED if separated else PLAIN))
    folder.write_json("environment.json", ENVIRONMENT)
    parts = {"train": list(range(5)), "val": [5, 6], "test": [7, 8, 9] if test else []}
    folder.write_json("split.json", {"family": "stratified", "origin": "drawn", "seed": 7} | parts)
    history = made_history(separated=separated, test=test)
    write_text(folder / "metrics.jsonl", "".join(json.dumps(one) + "\n" for one in history))
    folder.write_json("result.json", made_result(separated=separated, test=test) | (change or {}))
    folder.write_json("timing.json", {"seconds": 12.345, "seconds_per_epoch": 0.00678})
    return folder


def rows_of(page: str) -> list[list[str]]:
    """Every row of every table, as text."""
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]
    return [[html.unescape(cell) for cell in row] for row in cells]


def words_of(folder: RunFolder) -> str:
    """The report with other pictures, which take no time."""
    names = ("curves", "interplay", "groups")
    return run_page(RunFacts.read(folder), {name: name.encode() for name in names})


def pictures_of(page: str) -> list[bytes]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return [base64.b64decode(data) for data in found]


def test_report_states_what_was_run_and_the_scores(tmp_path: Path) -> None:
    page = words_of(made_folder(tmp_path))
    rows = rows_of(page)
    for row in (
        ["Dataset", "tiny (tiny & <odd>)"],
        ["Model", "ncgcn"],
        ["Split family", "stratified (drawn)"],
        ["Seed", "7"],
        ["Split, SHA-256", "5" * 64],
        ["train", "5", "11.10", "12.10", "13.10", "14.10", "0.151"],
        ["validation", "2", "22.20", "23.20", "24.20", "25.20", "0.262"],
        ["test", "3", "33.30", "34.30", "35.30", "36.30", "0.373"],
        ["majority class of test", "3", "28.80", "", "", "", ""],
        ["Training", "12.35 s"],
        ["One epoch", "6.78 ms"],
        ["python", "3.99.1"],
        ["torch", "9.8.7"],
        ["cuda", "–"],
        ["model", "guidance", "nc"],
    ):
        assert row in rows, row
    assert "AUROC" not in page
    assert "<odd>" not in page
    assert "Test accuracy 33.30 %" in page


def test_report_shows_groups_and_alpha_of_the_best_epoch(tmp_path: Path) -> None:
    page = words_of(made_folder(tmp_path))
    rows = rows_of(page)
    assert ["low NC", "1,800", "0.731", "1,290", "61.70"] in rows
    assert ["high NC", "0", "0.269", "0", "–"] in rows
    assert ["low NC", "1,234", "62.50"] in rows
    assert "the mean estimated NC was 0.213" in page
    assert "the mean NC (k=2) is 0.438" in page


def test_report_shows_accuracy_by_kind_unless_nodes_are_few(tmp_path: Path) -> None:
    page = words_of(made_folder(tmp_path))
    rows = rows_of(page)
    assert ["Kind, by the true labels", "test nodes", "accuracy"] in rows
    assert ["clear", "1,200", "87.50"] in rows
    assert ["alone", "9", "too few"] in rows
    old = made_folder(tmp_path / "old")
    result = made_result()
    del result["accuracy_by_kind"], result["evaluated"], result["threshold_kind"]
    old.write_json("result.json", result)
    heads = {row[0] for row in rows_of(words_of(old))}
    assert "Kind, by the true labels" not in heads
    assert "NC of the true labels, k=2, at 0.4" in heads


def test_report_warns_of_small_groups(tmp_path: Path) -> None:
    page = html.unescape(words_of(made_folder(tmp_path)))
    assert "Of the groups, high NC holds 0 of 1,800 nodes, under one percent" in page
    assert 'set threshold_kind = "attainable" or another threshold.' in page
    enough = made_folder(tmp_path / "enough", change={"group_sizes": [1782, 18]})
    assert "under one percent" not in words_of(enough)


def test_report_of_a_plain_model_has_no_groups(tmp_path: Path) -> None:
    page = words_of(made_folder(tmp_path, separated=False))
    assert "estimated" not in page
    assert "α" not in page
    assert len(pictures_of(page)) == 2


def test_report_shows_roc_auc_where_there_is_one(tmp_path: Path) -> None:
    scores = made_result()["scores"]
    scores["test"]["roc_auc"] = 0.876
    rows = rows_of(words_of(made_folder(tmp_path, change={"scores": scores})))
    assert ["train", "5", "11.10", "12.10", "13.10", "–", "14.10", "0.151"] in rows
    assert ["test", "3", "33.30", "34.30", "35.30", "87.60", "36.30", "0.373"] in rows


@pytest.mark.parametrize(
    ("unseen", "sentence"),
    [
        ([], "Every class of the graph occurs"),
        ([4], "Without a validation or test node, and so never evaluated: class 4."),
        ([4, 11], "classes 4, 11."),
    ],
)
def test_report_names_classes_that_are_never_evaluated(
    tmp_path: Path, unseen: list[int], sentence: str
) -> None:
    assert sentence in words_of(made_folder(tmp_path, change={"never_evaluated": unseen}))


def test_report_without_test_nodes(tmp_path: Path) -> None:
    page = words_of(made_folder(tmp_path, test=False))
    assert "Validation accuracy 22.20 %; the split has no test nodes." in page
    assert "majority" not in page
    assert ["low NC", "1,800", "0.731", "1,290", "61.70"] in rows_of(page)


@pytest.mark.parametrize("separated", [True, False])
def test_written_files_are_complete_and_reproducible(tmp_path: Path, separated: bool) -> None:
    folder = made_folder(tmp_path, separated=separated)
    before = {path.name for path in folder.path.iterdir()}
    paths = write_run_report(folder)
    first = {path: path.read_bytes() for path in paths}
    names = ("curves", "interplay", "groups") if separated else ("curves", "groups")
    files = [f"figures/{name}.{suffix}" for name in names for suffix in ("png", "svg")]
    written = [path.relative_to(folder.path).as_posix() for path in paths]
    assert written == ["report.html", *files]
    assert {path.name for path in folder.path.iterdir()} == before | {"report.html", "figures"}
    assert len(list((folder / "figures").iterdir())) == len(files)
    page = first[folder / "report.html"].decode()
    shown = ("groups", *names[:-1])  # where the model is right comes before how it was trained
    assert pictures_of(page) == [first[folder / f"figures/{name}.png"] for name in shown]
    assert all(first[folder / name].startswith(b"\x89PNG") for name in files[::2])
    assert all(b"<svg" in first[folder / name] for name in files[1::2])
    assert write_run_report(folder) == paths
    assert {path: path.read_bytes() for path in paths} == first


def test_a_run_without_result_is_named(tmp_path: Path) -> None:
    folder = made_folder(tmp_path)
    (folder / "result.json").unlink()
    with pytest.raises(DamagedFileError, match=r"result\.json"):
        write_run_report(folder)


@pytest.mark.parametrize("model", ["ncgcn", "gcn"])
def test_report_of_a_trained_run_is_part_of_it(tmp_path: Path, model: str) -> None:
    settings = {"model.hidden": 4, "training.epochs": 3}
    config = make_config(dataset="digits", model=model, settings=settings)
    written: list[Path] = []
    run = train_run(
        config, tmp_path, before_done=lambda folder: written.extend(write_run_report(folder))
    )
    folder = RunFolder(run.folder)
    folder.check()
    assert all(path.is_file() and run.folder in path.parents for path in written)
    page = (folder / "report.html").read_text()
    rows = rows_of(page)
    scores = run.result["scores"]["test"]
    wanted = [f"{100 * scores[key]:.2f}" for key in ("accuracy", "macro_f1", "balanced_accuracy")]
    assert any(row[0] == "test" and row[2:5] == wanted for row in rows)
    assert page.index("Per class") < page.index("Which classes") < page.index("Where is the model")
    assert page.index("Where is the model") < page.index("Training</h2>") < page.index("SHA-256")
    low, high = (f"{100 * end:.1f}" for end in run.result["intervals"]["accuracy"])
    assert any(row[0] == "95 % interval" and row[2] == f"{low}–{high}" for row in rows)
    assert f"accuracy {wanted[0]} % ({low}–{high})" in page
    assert any(row[0] == "7" and row[1] == "36" and "(" in row[4] for row in rows), "a class"
    assert "Degree" in {row[0] for row in rows}
    assert {"places.png", "confusion.svg"} < {path.name for path in written}
    assert ["model", "hidden", "4"] in rows
    assert ["training", "epochs", "3"] in rows
    assert run.result["split_sha256"] in page
    assert (folder / "figures" / "interplay.png").is_file() == (model == "ncgcn")


@pytest.mark.parametrize("test", [True, False])
def test_an_evaluation_in_the_terminal_calls_nodes_what_they_are(test: bool) -> None:
    result = made_result(test=test)
    config = make_config(dataset="tiny", model="ncgcn")
    scores, groups = evaluation_tables(result, config)
    assert scores.head == ("score", "train", "validation", *(["test"] if test else []))
    assert groups.head == ("test nodes" if test else "validation nodes", "number", "accuracy")
    assert ("Kind, by the true labels",) in groups.rows
    assert ("contrary", "81", "12.50") in groups.rows
    assert ("alone", "9", "too few") in groups.rows
    assert ("low NC", "1,290", "61.70") in groups.rows
    assert ("0.1 to 0.2", "10", "25.00") in groups.rows
    assert ("0.5 to 0.6", "9", "too few") in groups.rows
    assert "high NC holds 0 of 1,800 nodes" in groups.notes[0]
    assert "fewer than 10" in groups.notes[1]


def test_a_refit_is_mentioned_if_it_is_of_these_weights(tmp_path: Path) -> None:
    folder = made_folder(tmp_path)
    assert "refitted" not in words_of(folder)
    write_text(folder / "weights.safetensors", "some weights")
    said = {"nodes": 52305, "epochs": 16, "of": sha256_of_file(folder / "weights.safetensors")}
    RunFolder(folder / "refit").write_json("refit.json", said)
    assert "refitted on all 52,305 labels (16 epochs)" in words_of(folder)
    write_text(folder / "weights.safetensors", "others")
    assert "refitted" not in words_of(folder)
