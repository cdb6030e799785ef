from __future__ import annotations

import json
import os
import re
import shutil
import warnings

import numpy as np
import pytest
import torch
from tiny import InterruptedRunError, interrupt_at, tiny_config
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, MessagePassing

import ncgnn
from ncgnn._io import sha256_of_file
from ncgnn.data import Split
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.experiments import read_runs
from ncgnn.graph import as_graph
from ncgnn.nn import grouping, model_class, register_backbone
from ncgnn.nn import registry as _models
from ncgnn.report import write_run_report
from ncgnn.training import DamagedFileError, RunFolder, finished_run, load_run, train_run

COMPARED = ("metrics.jsonl", "result.json", "weights.safetensors", "config.toml", "split.json")


def contents(folder):
    return {name: (folder / name).read_bytes() for name in COMPARED}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return train_run(tiny_config(), tmp_path_factory.mktemp("runs"))


def test_all_files_outlast_a_power_cut_before_the_run_is_marked_as_done(tmp_path, monkeypatch):
    flushed = []

    def fsync(handle):
        there = (tmp_path / tiny_config().name / "done.json").exists()
        flushed.append((os.fstat(handle).st_ino, there))

    monkeypatch.setattr(os, "fsync", fsync)
    run = train_run(tiny_config(), tmp_path)
    before = {number for number, marked in flushed if not marked}
    needed = {*COMPARED, "environment.json", "timing.json", "done.json"}
    assert {(run.folder / name).stat().st_ino for name in needed} <= before


def test_a_run_is_a_folder_with_everything_in_it(undisturbed):
    folder = undisturbed.folder
    names = {path.name for path in folder.iterdir()}
    assert {*COMPARED, "environment.json", "timing.json", "done.json"} <= names
    assert "checkpoint.safetensors" not in names
    environment = json.loads((folder / "environment.json").read_text())
    assert torch.__version__.startswith(environment["packages"]["torch"].split("+")[0])
    assert environment["torch_threads"] >= 1
    assert len(environment["graph_sha256"]) == 64
    history = RunFolder(folder).history()
    assert [record["epoch"] for record in history] == list(range(12))
    result = undisturbed.result
    assert result["scores"]["val"]["accuracy"] == history[result["best_epoch"]]["val_accuracy"]
    assert result["majority_baseline"] == pytest.approx(0.103, abs=0.01)
    assert sum(part["nodes"] for part in result["accuracy_by_true_group"]) == 359


def test_a_finished_run_is_found_not_repeated(undisturbed):
    before = contents(undisturbed.folder)
    again = train_run(tiny_config(), undisturbed.folder.parent)
    assert not again.fresh
    assert again.result == undisturbed.result
    assert contents(undisturbed.folder) == before


@pytest.mark.parametrize("epoch", [0, 4, 11])
def test_an_interrupted_run_ends_as_if_nothing_had_happened(undisturbed, tmp_path, epoch):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(epoch), checkpoint_seconds=0)
    seen = []
    result = train_run(tiny_config(), tmp_path, on_epoch=seen.append, checkpoint_seconds=0)
    assert [record["epoch"] for record in seen] == list(range(12))
    assert contents(result.folder) == contents(undisturbed.folder)


@pytest.mark.parametrize("model", ["ncgat", "tuned-gcn", "gprgnn", "cpgnn", "hog", "linkx"])
def test_models_of_all_kinds_resume_exactly_too(tmp_path, model):
    config = tiny_config(model, epochs=6)
    whole = train_run(config, tmp_path / "a")
    with pytest.raises(InterruptedRunError):
        train_run(config, tmp_path / "b", on_epoch=interrupt_at(3), checkpoint_seconds=0)
    assert contents(train_run(config, tmp_path / "b").folder) == contents(whole.folder)


def test_a_request_to_stop_saves_the_state_first(undisturbed, tmp_path):
    seen = []
    with pytest.raises(KeyboardInterrupt):
        train_run(
            tiny_config(),
            tmp_path,
            on_epoch=seen.append,
            stop=lambda: len(seen) == 5,
        )
    assert (tmp_path / tiny_config().name / "checkpoint.safetensors").is_file()
    result = train_run(tiny_config(), tmp_path)
    assert contents(result.folder) == contents(undisturbed.folder)


def test_lines_after_the_checkpoint_are_dropped_and_written_again(undisturbed, tmp_path):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(5), checkpoint_seconds=0)
    with (tmp_path / tiny_config().name / "metrics.jsonl").open("ab") as stream:
        stream.write(b'{"epoch": 99, "torn')
    result = train_run(tiny_config(), tmp_path)
    assert contents(result.folder) == contents(undisturbed.folder)


LINES = {
    "a digit": lambda lines: [*lines[:1], lines[1].replace("0.", "0.1", 1), *lines[2:]],
    "a line twice": lambda lines: [*lines[:2], lines[1], *lines[2:]],
    "a line less": lambda lines: [*lines[:2], *lines[3:]],
    "two lines in each other's place": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "brackets without end": lambda lines: [lines[0], "[" * 100_000 + "\n", *lines[2:]],
    "a number without end": lambda lines: [lines[0], '{"epoch": 1e999}\n', *lines[2:]],
}


@pytest.mark.parametrize("change", LINES)
def test_lines_before_the_checkpoint_must_be_those_that_were_written(undisturbed, tmp_path, change):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(5), checkpoint_seconds=0)
    metrics = tmp_path / tiny_config().name / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    assert LINES[change](lines) != lines
    metrics.write_text("".join(LINES[change](lines)))
    with pytest.warns(NcgnnWarning, match=r"metrics\.jsonl has .* Training starts anew"):
        result = train_run(tiny_config(), tmp_path)
    assert contents(result.folder) == contents(undisturbed.folder)


def as_of_later(monkeypatch):
    kind = model_class(tiny_config().model.name)
    monkeypatch.setattr(kind, "revision_of", classmethod(lambda cls, options: 9))


def test_a_finished_run_of_an_earlier_revision_is_kept_and_trained_anew(tmp_path, monkeypatch):
    before = train_run(tiny_config(), tmp_path)
    old = contents(before.folder)
    as_of_later(monkeypatch)
    kept = before.folder.with_name(f"{before.folder.name}-revision-{before.result['revision']}")
    with pytest.warns(NcgnnWarning, match=f"kept as {kept.name}, and trained anew"):
        after = train_run(tiny_config(), tmp_path)
    assert after.fresh
    assert after.result["revision"] == 9
    assert contents(kept) == old
    assert not train_run(tiny_config(), tmp_path).fresh


def test_an_interrupted_run_of_an_earlier_revision_starts_anew(tmp_path, monkeypatch):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(5), checkpoint_seconds=0)
    as_of_later(monkeypatch)
    seen = []
    with pytest.warns(NcgnnWarning, match="trained otherwise. Training starts anew"):
        train_run(tiny_config(), tmp_path, on_resume=seen.append)
    assert not seen


@pytest.mark.parametrize("damage", ["flip", "cut", "lines"])
def test_a_damaged_checkpoint_is_reported_and_training_starts_anew(undisturbed, tmp_path, damage):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(5), checkpoint_seconds=0)
    folder = tmp_path / tiny_config().name
    checkpoint, metrics = folder / "checkpoint.safetensors", folder / "metrics.jsonl"
    data = bytearray(checkpoint.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
    if damage == "cut":
        del data[len(data) // 2 :]
    checkpoint.write_bytes(data)
    if damage == "lines":
        metrics.write_text("")
    with pytest.warns(NcgnnWarning, match="starts anew"):
        result = train_run(tiny_config(), tmp_path)
    assert contents(result.folder) == contents(undisturbed.folder)


@pytest.mark.parametrize(
    "name", ["weights.safetensors", "metrics.jsonl", "result.json", "timing.json"]
)
def test_a_damaged_finished_run_is_detected_and_trained_again(undisturbed, tmp_path, name):
    first = train_run(tiny_config(), tmp_path)
    path = first.folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match=name):
        load_run(first.folder)
    with pytest.warns(NcgnnWarning, match="trained again"):
        again = train_run(tiny_config(), tmp_path)
    assert again.fresh
    assert contents(again.folder) == contents(undisturbed.folder)


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("state", ["finished", "interrupted", "damaged"])
def test_a_folder_that_holds_another_run_is_not_taken_for_this_one(tmp_path, state):
    other, mine = tiny_config("mlp"), tiny_config("gcn")
    if state == "interrupted":
        with pytest.raises(InterruptedRunError):
            train_run(other, tmp_path, on_epoch=interrupt_at(3), checkpoint_seconds=0)
    else:
        train_run(other, tmp_path)
    (tmp_path / other.name).rename(tmp_path / mine.name)
    if state == "damaged":
        (tmp_path / mine.name / "metrics.jsonl").write_text("")
    before = everything(tmp_path / mine.name)
    for _ in range(2):
        with pytest.raises(InputError, match=f"holds another run, {other.name}"):
            train_run(mine, tmp_path)
        assert everything(tmp_path / mine.name) == before


def test_a_configuration_that_is_damaged_is_no_other_run(undisturbed, tmp_path):
    run = train_run(tiny_config(), tmp_path)
    path = run.folder / "config.toml"
    path.write_text(path.read_text().replace("epochs = 12", "epochs = 13"))
    with pytest.warns(NcgnnWarning, match=r"config\.toml has changed .* trained again"):
        again = train_run(tiny_config(), tmp_path)
    assert again.fresh
    assert contents(again.folder) == contents(undisturbed.folder)


def test_a_graph_that_changed_is_not_silently_continued_on(tmp_path):
    graph = ncgnn.load("digits")
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(3), checkpoint_seconds=0)
    labels = graph.labels.copy()
    labels[0] = 1 - labels[0]
    with pytest.raises(InputError, match="has changed"):
        train_run(tiny_config(), tmp_path, graph=graph.with_labels(labels))


def with_masks(shift):
    """The digits with masks of their own, which begin at some node."""
    data = ncgnn.load("digits").to_pyg()
    part = torch.arange(data.num_nodes).roll(shift) % 5
    data.train_mask, data.val_mask, data.test_mask = part < 3, part == 3, part == 4
    return as_graph(data)


def test_masks_that_changed_are_not_silently_continued_on(tmp_path):
    config = tiny_config(split="published")
    with pytest.raises(InterruptedRunError):
        train_run(
            config,
            tmp_path,
            graph=with_masks(0),
            on_epoch=interrupt_at(3),
            checkpoint_seconds=0,
        )
    with pytest.raises(InputError, match="published split of digits has changed"):
        train_run(config, tmp_path, graph=with_masks(1))
    assert train_run(config, tmp_path, graph=with_masks(0)).fresh
    with pytest.raises(InputError, match="published split of digits has changed"):
        train_run(config, tmp_path, graph=with_masks(1))


@pytest.mark.parametrize("name", ["environment.json", "split.json"])
@pytest.mark.parametrize("damage", ["cut", "remove"])
def test_a_checkpoint_of_unknown_origin_is_not_continued_from(undisturbed, tmp_path, name, damage):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(3), checkpoint_seconds=0)
    path = tmp_path / tiny_config().name / name
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:40])
    else:
        path.unlink()
    with pytest.warns(NcgnnWarning, match="starts anew"):
        again = train_run(tiny_config(), tmp_path)
    assert contents(again.folder) == contents(undisturbed.folder)


def test_scaling_and_precision_are_heeded(tmp_path):
    run = train_run(tiny_config(scaling="row", precision="float64", epochs=2), tmp_path)
    trained = load_run(run.folder)
    weights = trained.model.state_dict().values()
    assert all(value.dtype == torch.float64 for value in weights if value.is_floating_point())
    sums = trained.inputs.x.sum(1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_layers_with_dropout_of_their_own_resume_exactly(tmp_path, own_layers):
    own_layers("ncdropping", lambda width, hidden: GATConv(width, hidden, dropout=0.5))
    config = tiny_config("ncdropping", epochs=6)
    whole = train_run(config, tmp_path / "a")
    with pytest.raises(InterruptedRunError):
        train_run(config, tmp_path / "b", on_epoch=interrupt_at(3), checkpoint_seconds=0)
    assert contents(train_run(config, tmp_path / "b").folder) == contents(whole.folder)


def test_weights_in_any_layout_can_be_written(tmp_path, own_layers):
    class Transposed(MessagePassing):
        def __init__(self, width, hidden):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(hidden, width).t())

        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=x @ self.weight)

    own_layers("nctransposed", Transposed)
    run = train_run(tiny_config("nctransposed", epochs=2), tmp_path)
    assert load_run(run.folder).evaluate()["scores"] == run.result["scores"]


@pytest.fixture
def own_layers(monkeypatch):
    """Registers backbones that are forgotten after the test."""
    monkeypatch.setattr(_models, "_registered", {})
    return register_backbone


def test_what_a_run_failed_with_is_kept_until_it_succeeds(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise InputError("too large")

    with monkeypatch.context() as patch:
        patch.setattr("ncgnn.training.job.new_trainer", refuse)
        with pytest.raises(InputError, match="too large"):
            train_run(tiny_config(), tmp_path)
    folder = RunFolder(tmp_path / tiny_config().name)
    assert folder.read_json("error.json")["error"] == "too large"
    assert read_runs(tmp_path)[1] == {folder.path: "failed: too large"}
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(2), checkpoint_seconds=0)
    assert not (folder / "error.json").exists()  # what it was stopped for then is another matter
    train_run(tiny_config(), tmp_path)
    assert not (folder / "error.json").exists()
    assert len(read_runs(tmp_path)[0]) == 1


def test_memory_that_is_not_to_be_had_is_kept_as_an_error(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr("ncgnn.training.job.new_trainer", refuse)
    with pytest.raises(RuntimeError):
        train_run(tiny_config(), tmp_path)
    kept = RunFolder(tmp_path / tiny_config().name).read_json("error.json")
    assert kept["error"] == "RuntimeError: can't allocate memory"
    assert kept["input"] is False
    assert "Traceback" in kept["traceback"]


def test_an_error_that_cannot_be_kept_hides_no_other(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise InputError("too large")

    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr("ncgnn.training.job.new_trainer", refuse)
    monkeypatch.setattr(RunFolder, "write_error", full)
    with pytest.raises(InputError, match="too large"):
        train_run(tiny_config(), tmp_path)


def test_two_processes_do_not_work_on_one_run(tmp_path):
    folder = RunFolder(tmp_path / tiny_config().name)
    with folder.lock(), pytest.raises(InputError, match="another process"):
        train_run(tiny_config(), tmp_path)


def test_the_marker_is_written_after_everything_else(tmp_path):
    def fail(folder):
        assert not folder.is_done()
        raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, before_done=fail)
    folder = tmp_path / tiny_config().name
    assert (folder / "result.json").is_file()
    with pytest.raises(InputError, match="not finished"):
        load_run(folder)


def test_a_loaded_run_predicts_what_was_measured(undisturbed):
    trained = load_run(undisturbed.folder)
    evaluated = json.loads(json.dumps(trained.evaluate()))
    for key, value in evaluated.items():
        assert undisturbed.result[key] == value, key
    columns = trained.predict(probabilities=True)
    test = columns["part"] == "test"
    right = columns["predicted"] == columns["label"]
    assert right[test].mean() == undisturbed.result["scores"]["test"]["accuracy"]
    total = sum(columns[f"probability_{c}"] for c in range(10))
    assert total == pytest.approx(1)
    sizes = [(columns["group"] == name).sum() for name in ("low", "high")]
    assert sizes == undisturbed.result["group_sizes"]


def test_a_model_without_groups_answers_with_nc_of_training_labels_and_predictions(tmp_path):
    run = train_run(tiny_config("gcn", epochs=3), tmp_path)
    trained = load_run(run.folder)
    columns = trained.predict()
    classes = columns["predicted"].copy()
    classes[trained.split.train] = trained.graph.labels[trained.split.train]
    expected = ncgnn.neighborhood_confusion(trained.graph, classes)
    assert columns["nc"] == pytest.approx(expected)
    assert (columns["kind"] == ncgnn.node_kinds(trained.graph, classes)).all()


def test_fit_takes_a_pyg_data_and_a_split():
    graph = ncgnn.load("digits")
    split = ncgnn.make_split(graph, "stratified", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NcgnnWarning)
        trained = ncgnn.fit(graph.to_pyg(), "gcn", split=split, hidden=16, epochs=3)
    assert trained.split is split
    assert trained.probabilities().shape == (1797, 10)
    assert trained.config.model.options["hidden"] == 16


def test_fit_refuses_a_split_of_another_graph():
    graph = ncgnn.load("digits")
    split = Split("custom", "custom", None, np.array([0, 1]), np.array([2]), np.array([5000]))
    with pytest.raises(InputError, match="does not have"):
        ncgnn.fit(graph, "mlp", split=split, epochs=1)


class MyModel(ncgnn.nn.Model):
    def __init__(self, num_features: int, num_classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.first = GCNConv(num_features, hidden)
        self.second = GCNConv(hidden, num_classes)

    def logits(self, inputs, key):
        hidden = self.first(inputs.x, inputs.edge_index).relu()
        hidden = nn.functional.dropout(hidden, training=self.training)
        return self.second(hidden, inputs.edge_index)


def test_a_short_class_of_ones_own_is_trained_saved_and_loaded(tmp_path, own_layers):
    graph = ncgnn.load("digits")
    trained = ncgnn.fit(graph, MyModel, hidden=24, epochs=20)
    assert trained.config.model.options == {"hidden": 24}
    scores = trained.evaluate()["scores"]
    assert scores["test"]["accuracy"] > 0.4
    folder = trained.save(tmp_path / "run")
    _models._registered.clear()  # as in another program
    with pytest.raises(InputError, match="pass its class with model="):
        ncgnn.load_run(folder)
    again = ncgnn.load_run(folder, model=MyModel)
    assert again.evaluate()["scores"] == scores
    assert torch.equal(again.logits(), trained.logits())
    with pytest.raises(InputError, match="model must be MyModel; got gcn"):
        ncgnn.load_run(folder, model=ncgnn.nn.GCN)


def test_a_class_of_ones_own_is_trained_by_its_name(tmp_path, own_layers):
    graph = ncgnn.load("digits")
    for _ in range(2):  # a cell of a notebook that is run again
        ncgnn.nn.register_model(MyModel, replace=True)
    trained = ncgnn.fit(graph, "mymodel", hidden=24, epochs=3)
    assert isinstance(trained.model, MyModel)
    assert trained.config == ncgnn.fit(graph, MyModel, hidden=24, epochs=3).config
    folder = trained.save(tmp_path / "run")
    assert torch.equal(ncgnn.load_run(folder).logits(), trained.logits())
    with pytest.raises(InputError, match="hiden: there is no such option; did you mean hidden"):
        ncgnn.fit(graph, "mymodel", hiden=24)


def test_capitals_of_a_models_name_play_no_part_where_one_is_meant(tmp_path, own_layers):
    assert tiny_config("NCGCN") == tiny_config("ncgcn")
    path = tmp_path / "run.toml"
    path.write_text('[data]\ndataset = "digits"\n[model]\nname = "NCGCN"\nhidden = 8\n')
    config = ncgnn.training.make_config(config=path, model="ncgcn")
    assert (config.model.name, config.model.options["hidden"]) == ("ncgcn", 8)
    ncgnn.nn.register_model(type("GCN", (MyModel,), {}))
    assert ncgnn.nn.model_class("gcn") is ncgnn.nn.GCN
    assert issubclass(ncgnn.nn.model_class("GCN"), MyModel)


def by_column(graph, labels):
    return torch.tensor(graph.features[:, 20])


def test_a_run_is_guided_by_a_function_and_saved_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(grouping, "_functions", dict(grouping._functions))
    graph = ncgnn.load("digits")
    settings = {"hidden": 8, "epochs": 3, "threshold_kind": "quantile"}
    trained = ncgnn.fit(graph, "ncgcn", guidance=by_column, **settings)
    assert trained.config.model.options["guidance"] is by_column
    assert 0 < trained.grouping.group.sum() < graph.num_nodes
    with pytest.raises(InputError, match=r"model.guidance must have a name.*register_guidance"):
        trained.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="register_guidance"):
        train_run(tiny_config(guidance=by_column), tmp_path)
    ncgnn.nn.register_guidance("column", by_column)
    again = ncgnn.load_run(trained.save(tmp_path / "run"))
    assert again.config.model.options["guidance"] == "column"
    assert torch.equal(again.grouping.group, trained.grouping.group)
    assert torch.equal(again.logits(), trained.logits())


TAMPERED = {
    "no scores": (lambda r: r.pop("scores"), "scores is missing"),
    "scores are text": (lambda r: r.update(scores="high"), "scores must be a valid dict"),
    "a score is text": (
        lambda r: r["scores"]["test"].update(accuracy="0.9"),
        "scores.test.accuracy",
    ),
    "a score without end": (lambda r: r["scores"]["test"].update(accuracy=1e999), "scores.test"),
    "no validation": (lambda r: r["scores"].pop("val"), "json: scores of val lack accuracy"),
    "no calibration": (lambda r: r.update(calibration=3), "calibration must be a valid dict"),
    "sets are text": (lambda r: r.update(sets="x"), "sets must be a valid dict"),
    "classes are numbers": (lambda r: r.update(classes=[1]), "classes.0 must be a valid dict"),
    "a number of intervals": (lambda r: r.update(intervals=5), "intervals must be a valid dict"),
    "a mean in words": (lambda r: r.update(mean_nc="high"), "mean_nc must be a valid number"),
    "a mean of no groups": (
        lambda r: r.update(mean_nc=0.5, group_sizes=[]),
        "mean_nc must come with group_sizes",
    ),
    "nodes are a list": (lambda r: r.update(nodes=[1, 2]), "nodes must be a valid dict"),
    "a seed is text": (lambda r: r.update(seed="a"), "seed must be a valid int"),
    "epochs are text": (lambda r: r.update(epochs="x"), "epochs must be a valid int"),
    "an unknown metric": (lambda r: r.update(metric="nope"), "lack nope"),
    "no split": (lambda r: r.pop("split"), "split is missing"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_result_that_was_changed_and_signed_is_one_line_and_stops_no_table(
    undisturbed, tmp_path, case
):
    change, words = TAMPERED[case]
    shutil.copytree(undisturbed.folder, folder := tmp_path / undisturbed.folder.name)
    result = json.loads((folder / "result.json").read_text())
    change(result)
    (folder / "result.json").write_text(json.dumps(result))
    done = json.loads((folder / "done.json").read_text())
    done["files"]["result.json"] = sha256_of_file(folder / "result.json")
    (folder / "done.json").write_text(json.dumps(done))
    for read in (finished_run, write_run_report):
        with pytest.raises(DamagedFileError, match=re.escape(words)):
            read(RunFolder(folder))
    records, problems = read_runs(tmp_path)
    assert records == []
    assert words in problems[folder]


@pytest.mark.parametrize("changed", [{}, {"seconds": "x"}, {"seconds": None}, {"seconds": True}])
def test_a_time_that_is_none_is_told_in_one_line(undisturbed, tmp_path, changed):
    shutil.copytree(undisturbed.folder, folder := tmp_path / undisturbed.folder.name)
    (folder / "timing.json").write_text(json.dumps({"format": 1} | changed))
    done = json.loads((folder / "done.json").read_text())
    if "timing.json" in done["files"]:
        done["files"]["timing.json"] = sha256_of_file(folder / "timing.json")
    (folder / "done.json").write_text(json.dumps(done))
    for read in (finished_run, write_run_report):
        with pytest.raises(DamagedFileError, match="train the run again"):
            read(RunFolder(folder))
