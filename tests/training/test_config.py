from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
from tiny import tiny_config

import ncgnn
from ncgnn.data import load, make_split
from ncgnn.errors import InputError, NcgnnWarning, UnknownNameError
from ncgnn.experiments.cells import make_cells
from ncgnn.nn import Model, ModelOptions, model_class, model_names, register_model, registry
from ncgnn.options import AddedLater
from ncgnn.training import (
    RunFolder,
    config_sha256,
    has_preset,
    load_run,
    make_config,
    naming_options,
    preset,
    search_space,
    train_run,
)
from ncgnn.training.config import read_setting, read_toml, resolve_config, to_toml

DATASETS = [
    "pubmed",
    "photo",
    "computers",
    "coauthor-cs",
    "coauthor-physics",
    "cora-full",
    "actor",
    "penn94",
    "chameleon-filtered-864",
    "squirrel-filtered-2205",
]


@pytest.mark.parametrize("model", ["ncgcn", "ncsage"])
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_dataset_of_the_paper_has_a_preset(model, dataset):
    assert has_preset(model, dataset)
    config = make_config(dataset=dataset, model=model)
    assert config.training.epochs == 500
    assert config.training.patience == 100
    assert config.model.options["hidden"] == 512


def test_presets_hold_the_papers_table():
    pubmed = make_config(dataset="pubmed", model="ncgcn")
    assert (pubmed.training.learning_rate, pubmed.training.weight_decay) == (0.1, 1e-4)
    assert pubmed.model.options["dropout"] == [0.4, 0.3]
    assert pubmed.model.options["threshold"] == [0.5]
    assert pubmed.data.scaling == "row"
    computers = make_config(dataset="computers", model="ncgcn").model.options
    assert (computers["hops"], computers["self_loops"]) == (2, False)
    squirrel = make_config(dataset="squirrel-filtered", model="ncsage")
    assert squirrel.model.options["dropout"] == [0.8, 0.5]
    assert squirrel.data.scaling == "raw"


@pytest.mark.parametrize("model", ["ncgcn", "gcn", "glognn"])
def test_a_variant_of_a_dataset_has_its_presets(model):
    one, other = "chameleon-filtered", "chameleon-filtered-864"
    assert preset(model, one, "paper") == preset(model, other, "paper") != preset(model, "")
    names = {make_config(dataset=name, model=model, split="paper").name for name in (one, other)}
    assert len(names) == 2


def test_a_graph_without_a_preset_gets_defaults():
    assert not has_preset("ncgcn", "digits")
    assert make_config(dataset="digits").training.learning_rate == 0.01
    assert preset("mlp", "digits") == {
        "training": {"epochs": 500, "patience": 100},
        "model": {"hidden": 512},
    }


def test_what_comes_later_wins(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        '[data]\ndataset = "pubmed"\n[model]\nname = "ncgcn"\nhidden = 8\n'
        "[training]\nlearning_rate = 0.2\nepochs = 7\n"
    )
    config = make_config(config=path, seed=3, settings={"training.epochs": 9, "threshold": 0.4})
    assert config.model.options["hidden"] == 8  # the file, over the preset
    assert config.training.learning_rate == 0.2
    assert config.training.weight_decay == 1e-4  # the preset, over defaults
    assert config.training.epochs == 9  # a setting, over the file
    assert config.training.seed == 3
    assert config.model.options["threshold"] == [0.4]


def test_a_data_set_has_one_name_however_it_is_written():
    written = [
        make_config(dataset=name, model="ncgcn", split="paper")
        for name in ("chameleon-filtered", "Chameleon_Filtered", "chameleon filtered")
    ]
    assert len({config.name for config in written}) == 1
    assert preset("ncgcn", "Coauthor_CS") == preset("ncgcn", "coauthor-cs") != preset("ncgcn", "")


def test_a_path_is_meant_from_where_it_was_written(tmp_path, monkeypatch):
    """A file beside the TOML file is what that speaks of, not what the command line does."""
    (tmp_path / "tuned").mkdir()
    for folder in (tmp_path, tmp_path / "tuned"):
        (folder / "mine.npz").touch()
    file = tmp_path / "tuned" / "gcn.toml"
    file.write_text('[data]\ndataset = "mine.npz"\n')
    monkeypatch.chdir(tmp_path)
    there, here = str(tmp_path / "tuned" / "mine.npz"), str(tmp_path / "mine.npz")
    assert make_config(config=file).data.dataset == there
    assert make_config(config=file, dataset="mine.npz").data.dataset == here
    settings = {"data.dataset": "mine.npz"}
    assert make_config(config=file, settings=settings).data.dataset == here


def test_another_model_than_the_files_drops_the_files_model_options(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('[data]\ndataset = "digits"\n[model]\nname = "ncgcn"\nhops = 2\n')
    with pytest.warns(NcgnnWarning, match="is for ncgcn and is not used for mlp"):
        config = make_config(config=path, model="mlp")
    assert config.model.options == {"hidden": 512, "dropout": 0.5}


def test_a_configuration_round_trips_through_toml(tmp_path):
    config = make_config(dataset="digits", settings={"threshold": [0.2, 0.6], "dropout": 0.1})
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config.model_dump(mode="json")))
    again = make_config(config=path)
    assert again == config
    assert again.sha256 == config.sha256
    assert again.model.options["dropout"] == [0.1, 0.1, 0.1]


def test_equal_configurations_have_equal_names_and_others_not():
    one = make_config(dataset="digits", settings={"hidden": 8})
    assert one.name == make_config(dataset="digits", settings={"model.hidden": 8}).name
    assert one.name != make_config(dataset="digits", settings={"hidden": 9}).name
    assert one.name != make_config(dataset="digits", seed=1, settings={"hidden": 8}).name


def test_stored_runs_keep_their_names():
    """Whatever options models have had added since, one run of every model is called the same."""
    stored: dict[str, dict] = {}
    for path in sorted((Path(__file__).parents[2] / "results").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            stored[record["config"]["model"]["name"]] = record
    assert len(stored) > 20
    for record in stored.values():
        assert resolve_config(record["config"]).name == record["name"]


def test_an_option_that_came_later_names_a_run_only_where_it_is_not_at_its_default(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})

    class Early(Model):
        class Options(ModelOptions):
            hidden: int = 8

    class Late(Model):
        class Options(ModelOptions):
            hidden: int = 8
            shape: Annotated[tuple[int, ...], AddedLater] = (1, 2)

    register_model(Early, "changing", replace=True)
    before = make_config(dataset="digits", model="changing")
    register_model(Late, "changing", replace=True)
    after = make_config(dataset="digits", model="changing")
    assert after.model.options["shape"] == [1, 2]
    assert after.name == before.name
    other = make_config(dataset="digits", model="changing", settings={"shape": [2]})
    assert other.name != before.name
    tables = other.model_dump(mode="json")
    assert naming_options(tables)["model"] == tables["model"]
    assert config_sha256(tables | {"model": {"name": "of another package", "shape": [1, 2]}})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"foo": 1}, "foo: there is no such option; known: hidden.* learning_rate.* scaling"),
        ({"lr": 1}, "lr: there is no such option; did you mean learning_rate?"),
        ({"learning-rate": 1}, "there is no such option; did you mean learning_rate?"),
        ({"epoch": 1}, "epoch: there is no such option; did you mean epochs?"),
        ({"model.foo": 1}, "model.foo: there is no such option"),
        ({"training.foo": 1}, "training.foo: there is no such option"),
        ({"nothing.foo": 1}, "no section 'nothing'"),
        ({"training.epochs": 0}, "training.epochs"),
        ({"learning_rate": -1}, "training.learning_rate"),
        ({"dropout": 1.0}, "model.dropout"),
        ({"dropout": [0.1, 0.2, 0.3]}, "3 rates for 2 groups"),
        ({"threshold": [0.6, 0.2]}, "ascending"),
        ({"threshold": 1.5}, "model.threshold"),
        ({"separation": "sideways"}, "model.separation"),
        ({"scaling": "log"}, "data.scaling"),
    ],
)
def test_a_bad_option_is_named(settings, message):
    with pytest.raises(InputError, match=message):
        make_config(dataset="digits", settings=settings)


@pytest.mark.parametrize("option", ["learning_rate", "weight_decay"])
def test_infinite_steps_are_refused(option):
    with pytest.raises(InputError, match=option):
        make_config(dataset="digits", settings={option: float("inf")})


def test_unknown_models_and_missing_graphs_are_named():
    with pytest.raises(UnknownNameError, match="ncgcn"):
        make_config(dataset="digits", model="ncgc")
    with pytest.raises(InputError, match="GRAPH"):
        make_config()


def test_a_bad_file_is_named(tmp_path):
    with pytest.raises(InputError, match="no file"):
        read_toml(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[data\n")
    with pytest.raises(InputError, match=r"broken.toml.*line 1"):
        read_toml(broken)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[optimiser]\nx = 1\n")
    with pytest.raises(InputError, match=r"wrong.toml.*\[optimiser\]"):
        make_config(config=wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1", ("a.b", 1)),
        ("a=0.5", ("a", 0.5)),
        ("a=true", ("a", True)),
        ("a=[0.1, 0.2]", ("a", [0.1, 0.2])),
        ("a=0.1,0.2", ("a", [0.1, 0.2])),
        ("a=gcn,mlp", ("a", "gcn,mlp")),
        ("separation=target-only", ("separation", "target-only")),
        ('a="x y"', ("a", "x y")),
    ],
)
def test_settings_are_read_as_toml_or_words(text, expected):
    assert read_setting(text) == expected


def test_a_setting_without_a_value_is_refused():
    with pytest.raises(InputError, match="key=value"):
        read_setting("epochs")


@pytest.mark.parametrize("model", model_names())
def test_every_value_of_a_search_space_is_an_option(model):
    space = search_space(model)
    if model_class(model).fits_at_once:
        assert not any(key.startswith("training.") for key in space)
    elif model not in ("cpgnn", "gbksage", "hog"):  # which the paper did not tune
        assert len(space["training.learning_rate"]) == len(space["training.weight_decay"]) == 5
    for key, values in space.items():
        choices = list(zip(*values, strict=True)) if isinstance(values[0], list) else values
        for value in choices:
            config = make_config(dataset="digits", model=model, settings={key: value})
            section, option = key.split(".")
            found = getattr(config, section).model_dump()[option]
            wanted = list(value) if isinstance(value, tuple) else [value]
            assert found in (value, wanted, wanted * 2)  # one value may stand for both groups


def test_search_spaces_are_the_papers():
    space = search_space("ncgcn")
    assert space["model.threshold"] == [0.3, 0.4, 0.5, 0.6, 0.7]
    assert space["model.hops"] == [1, 2]
    assert space["model.self_loops"] == [False, True]
    assert [len(rates) for rates in space["model.dropout"]] == [10, 10]
    assert "model.dropout" not in search_space("sgc")
    assert "search" not in preset("ncgcn", "pubmed")


def test_a_split_may_have_a_seed_of_its_own(tmp_path):
    plain, fixed = tiny_config("mlp", 3), tiny_config("mlp", 3, split_seed=5)
    assert plain.split_seed == 3
    assert fixed.split_seed == 5
    assert plain.name != fixed.name
    runs = [train_run(tiny_config("mlp", seed, split_seed=5), tmp_path) for seed in (3, 4)]
    hashes = {run.result["split_sha256"] for run in runs}
    assert hashes == {make_split(load("digits"), "stratified", 5, warn=False).sha256}
    assert runs[0].result["scores"] != runs[1].result["scores"]
    assert load_run(runs[0].folder).config == fixed


def test_searched_parameters_are_a_preset_of_paper_splits_that_everything_later_overrides(tmp_path):
    shipped = make_config(dataset="actor", model="gcn", split="paper")
    assert shipped.training.learning_rate == 0.05  # by our search, over the default 0.01
    assert shipped.data.scaling == "row"  # by the model's own preset, which the search left alone
    assert shipped.training.patience == 100
    for family in ({}, {"split": "stratified"}, {"settings": {"split": "stratified"}}):
        assert make_config(dataset="actor", model="gcn", **family).training.learning_rate == 0.01
    by_setting = make_config(dataset="actor", model="gcn", settings={"data.split": "paper"})
    assert by_setting == shipped
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nsplit = "paper"\n[training]\nlearning_rate = 0.002\n')
    given = make_config(dataset="actor", model="gcn", config=path, settings={"dropout": 0.3})
    assert given.training.learning_rate == 0.002
    assert given.model.options["dropout"] == 0.3
    assert given.training.weight_decay == shipped.training.weight_decay


def test_fractions_divide_the_nodes_and_name_the_run_where_they_are_unusual(
    tmp_path,
):
    plain = make_config(dataset="digits", settings={"hidden": 8, "epochs": 2})
    usual = make_config(
        dataset="digits", settings={"hidden": 8, "epochs": 2, "fractions": [0.6, 0.2, 0.2]}
    )
    other = make_config(
        dataset="digits", settings={"hidden": 8, "epochs": 2, "fractions": [0.8, 0.15, 0.05]}
    )
    assert "fractions" not in naming_options(plain.model_dump(mode="json"))["data"]
    assert plain.name == usual.name != other.name
    graph = load("digits")
    wanted = make_split(graph, "stratified", 0, fractions=(0.8, 0.15, 0.05), warn=False)
    run = train_run(other, tmp_path)
    assert run.result["split_sha256"] == wanted.sha256
    assert not train_run(other, tmp_path).fresh
    assert RunFolder(run.folder).read_config() == other
    fitted = ncgnn.fit(graph, hidden=8, epochs=2, fractions=(0.8, 0.15, 0.05))
    assert fitted.split.sha256 == wanted.sha256
    (cell,) = make_cells([other], tmp_path, None)
    assert (cell.state, cell.split_sha256) == ("finished", wanted.sha256)


@pytest.mark.parametrize(
    ("fractions", "words"),
    [
        ([0.5, 0.2, 0.2], "data.fractions must sum to 1"),
        ([0.5, 0.5], "data.fractions"),
        ([1.2, -0.1, -0.1], "data.fractions"),
    ],
)
def test_fractions_that_are_no_shares_are_refused(fractions, words):
    with pytest.raises(InputError, match=words):
        make_config(dataset="digits", settings={"fractions": fractions})


def test_fractions_are_refused_beside_a_split():
    graph = load("digits")
    with pytest.raises(InputError, match="fractions come with the name of a split family"):
        ncgnn.fit(graph, split=make_split(graph), fractions=(0.8, 0.1, 0.1))
