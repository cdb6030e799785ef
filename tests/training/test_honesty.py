"""Ways in which a run could lie or lose something without a word."""

from __future__ import annotations

import json

import pytest
import torch
from test_trainer import trainer_of
from tiny import tiny_config
from typer.testing import CliRunner

import ncgnn
from ncgnn.cli import app
from ncgnn.errors import InputError, NcgnnWarning, UnknownNameError
from ncgnn.training import RunFolder, load_run, make_config, scores, train_run

TABLE = ("--set", "hidden=8", "--set", "epochs=2", "--json")


def command(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_finished_run_is_not_given_out_for_another_graph(tmp_path):
    path = tmp_path / "g.npz"
    arguments = ("train", path, "--model", "ncgcn", *TABLE, "--runs", tmp_path / "runs")
    ncgnn.save(ncgnn.generate(120, 400, classes=3, features=4, seed=1), path)
    assert command(*arguments).exit_code == 0
    ncgnn.save(ncgnn.generate(130, 400, classes=3, features=4, seed=2), path)
    again = command(*arguments)
    assert again.exit_code == 2
    assert "has changed" in again.stderr


def test_a_file_named_in_toml_lies_beside_it(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        ncgnn.save(
            ncgnn.generate(120, 400, classes=3, features=4, seed=seed), tmp_path / name / "g.npz"
        )
        (tmp_path / name / "c.toml").write_text('[data]\ndataset = "g.npz"\n')
    one, other = (make_config(config=tmp_path / name / "c.toml") for name in "ab")
    assert one.data.dataset == str((tmp_path / "a" / "g.npz").resolve())
    assert one.name != other.name


def test_the_seed_of_a_configuration_counts(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text('[data]\ndataset = "digits"\n[training]\nseed = 7\n')
    result = command("train", "--config", config, *TABLE, "--runs", tmp_path / "runs")
    assert json.loads(result.stdout)["runs"][0]["seed"] == 7
    both = command("train", "digits", "--seeds", 2, "--set", "seed=5")
    assert both.exit_code == 2
    assert "contradict" in both.stderr


def test_nothing_is_lost_if_the_marker_cannot_be_written(tmp_path, monkeypatch):
    def full(self):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "mark_done", full)
        with pytest.raises(OSError, match="space"):
            train_run(tiny_config(), tmp_path, checkpoint_seconds=0)
    trained = []
    original = ncgnn.training.Trainer.epoch
    monkeypatch.setattr(
        ncgnn.training.Trainer, "epoch", lambda self: trained.append(1) or original(self)
    )
    assert train_run(tiny_config(), tmp_path).fresh
    assert not trained


def test_a_missing_picture_is_no_damage(tmp_path):
    from ncgnn.report import write_run_report

    run = train_run(tiny_config(epochs=2), tmp_path, before_done=write_run_report)
    (run.folder / "report.html").unlink()
    load_run(run.folder)
    assert not train_run(tiny_config(epochs=2), tmp_path).fresh


def test_a_callback_may_change_weights():
    losses = []
    for sharing in (True, False):
        trainer = trainer_of(ncgnn.load("digits"), epochs=4)
        if not sharing:
            trainer.model.share_products = lambda active: None

        def triple(record, trainer=trainer):
            trainer.model.first[0].weights[0].data.mul_(3.0)

        records = []
        trainer.run(lambda record, f=triple, r=records: (f(record), r.append(record)))
        losses.append([record["loss"] for record in records])
    assert losses[0] == losses[1]


def test_training_leaves_torchs_random_state_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    ncgnn.fit(ncgnn.load("digits"), "gcn", hidden=8, epochs=2)
    assert torch.equal(torch.rand(1), expected)


def test_logits_that_overflow_have_no_loss_and_no_calibration():
    logits = torch.tensor([[float("inf"), 0.0], [0.0, 1.0]])
    got = scores(logits, torch.tensor([0, 1]), torch.arange(2))
    assert got["loss"] is None
    assert got["calibration_error"] is None
    json.dumps(got, allow_nan=False)


@pytest.mark.parametrize("text", ["[]", '{"files": 3}', "{"])
def test_a_damaged_marker_is_named(tmp_path, text):
    run = train_run(tiny_config(epochs=2), tmp_path)
    (run.folder / "done.json").write_text(text)
    with pytest.raises(InputError, match=r"done\.json"):
        load_run(run.folder)
    with pytest.warns(NcgnnWarning, match="trained again"):
        assert train_run(tiny_config(epochs=2), tmp_path).fresh


def test_settings_can_name_model_and_graph():
    config = make_config(dataset="digits", settings={"model.name": "gcn", "data.dataset": "pubmed"})
    assert (config.model.name, config.data.dataset) == ("gcn", "pubmed")
    photo = make_config(dataset="pubmed", model="ncgcn", settings={"data.dataset": "photo"})
    assert photo.training.learning_rate == 0.01  # photo's, not pubmed's


def test_no_folder_is_made_for_a_split_family_that_does_not_exist(tmp_path):
    with pytest.raises(UnknownNameError, match="stratified"):
        make_config(dataset="digits", split="../../evil")
    assert not list(tmp_path.iterdir())


def test_the_trainer_takes_a_model_that_knows_nothing_of_groups():
    class Plain(ncgnn.nn.Model):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(64, 10)

        def logits(self, inputs, key):
            return self.linear(inputs.x)

    trainer = trainer_of(ncgnn.load("digits"), "mlp", epochs=3)
    own = type(trainer)(
        Plain(), trainer.inputs, ncgnn.make_split(trainer.inputs.graph), trainer.config
    )
    own.run()
    assert own.state.best_epoch >= 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('dataset = "texas"', r"dataset belongs under a section, \[data\]"),
        ("epochs = 3", r"epochs belongs under a section, \[training\]"),
        ("hidden = 3", r"hidden belongs under a section, \[model\]"),
        ("[modle]\nhidden = 3", r"there is no section \[modle\]; known: data, model, training"),
        (
            "learnig_rate = 0.1",
            r"learnig_rate: there is no such option; did you mean learning_rate\?",
        ),
        ('heads = 3\n[model]\nname = "gat"', r"heads belongs under a section, \[model\]"),
        ("model = 3", r"model must be a section, \[model\]"),
    ],
)
def test_options_outside_their_section_are_told_where_to_go(tmp_path, text, words):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        make_config(dataset="digits", config=path)
