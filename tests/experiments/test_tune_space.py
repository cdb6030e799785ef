from __future__ import annotations

import pytest

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.experiments.tuning.space import make_search
from ncgnn.training import search_space

NOTHING = {option: [] for option in search_space("mlp")}


def search(**options):
    return make_search(**({"dataset": "digits", "model": "mlp"} | options))


def test_the_groups_of_an_option_are_chosen_apart_and_joined():
    space = search(model="ncgcn")
    assert list(space.values) == list(search_space("ncgcn"))
    assert {"model.dropout.0", "model.dropout.1", "model.hops"} <= set(space.choices)
    chosen = {name: values[-1] for name, values in space.choices.items()}
    settings = space.settings(chosen | {"model.dropout.0": 0.1, "model.dropout.1": 0.4})
    assert settings["model.dropout"] == [0.1, 0.4]
    config = search(model="ncgcn").config(chosen | {"model.dropout.0": 0.1}, seed=7)
    assert config.model.options["dropout"] == [0.1, 0.9]
    assert config.training.seed == 7


def test_values_are_replaced_added_and_taken_out():
    space = search(
        search={
            "training.learning_rate": [0.02, 0.2],
            "data.scaling": ["raw", "row"],
            "training.weight_decay": [],
        }
    )
    assert space.values["training.learning_rate"] == [0.02, 0.2]
    assert space.values["data.scaling"] == ["raw", "row"]
    assert "training.weight_decay" not in space.values
    assert "model.dropout" in space.values


@pytest.mark.parametrize("key", ["dropout", "model.dropout"])
def test_a_fixed_value_is_not_searched(key):
    made = search(settings={key: 0.25})
    assert "model.dropout" not in made.values
    assert made.base.model.options["dropout"] == 0.25


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model.droput": [0.1]}, "model.droput: there is no such option; did you mean dropout"),
        ({"traning.epochs": [5]}, "there is no section 'traning'"),
        (
            {"model.dropout": [0.1, 1.5]},
            "model.dropout must be less than 1; got 1.5",
        ),
        ({"model.dropout": 0.1}, "model.dropout must be a list of values"),
        ({"model.dropout": {"low": 0.1}}, "model.dropout must be a list of values"),
        ({"model.dropout": [0.1, 0.1]}, "model.dropout lists a value twice"),
        ({"model.dropout": [0.1, [0.2]]}, "one such list per group"),
        ({"model.dropout": [[0.1], []]}, "gives a group no values"),
        ({"training.seed": [0, 1]}, "set it with --seeds"),
        (NOTHING, "there is nothing to search for mlp"),
    ],
)
def test_a_wrong_space_is_one_clear_error(values, message):
    with pytest.raises(InputError) as caught:
        search(search=values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fixed_and_searched_contradict_each_other():
    with pytest.raises(InputError, match=r"model\.dropout has a fixed value and is searched"):
        search(settings={"dropout": 0.1}, search={"model.dropout": [0.1, 0.2]})
    with pytest.raises(InputError, match="contradict"):
        search(settings={"seed": 3}, seeds=(4,))


def test_a_seed_among_the_settings_is_the_tuning_seed(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("[training]\nseed = 5\n")
    assert search().seeds == (0,)
    assert search(settings={"seed": 3}).seeds == (3,)
    assert search(settings={"training.seed": 3}).base.training.seed == 3
    assert search(config=file).seeds == (5,)
    assert search(config=file, seeds=(1, 2)).seeds == (1, 2)
    assert search(settings={"seed": 3}) == search(seeds=(3,))


def test_a_file_holds_fixed_values_and_the_space(tmp_path):
    ncgnn.save(ncgnn.generate(60, 200, classes=3, features=4), tmp_path / "mine.npz")
    file = tmp_path / "c.toml"
    file.write_text(
        '[data]\ndataset = "mine.npz"\n[model]\nname = "gcn"\nhidden = 8\n'
        "[search.model]\ndropout = [0.1, 0.2]\n[search.training]\nweight_decay = []\n"
    )
    made = search(config=file, dataset=None, model=None, settings={"epochs": 4})
    assert made.base.data.dataset == str(tmp_path / "mine.npz")
    assert (made.base.model.name, made.base.model.options["hidden"]) == ("gcn", 8)
    assert made.base.training.epochs == 4
    assert made.values["model.dropout"] == [0.1, 0.2]
    assert set(made.values) == {"model.dropout", "training.learning_rate"}
    with pytest.warns(NcgnnWarning, match="not used for mlp"):
        other = search(config=file, dataset=None, model="mlp")
    assert other.base.model.options["hidden"] == 512
    assert other.values["model.dropout"] == search_space("mlp")["model.dropout"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serch.model]\ndropout = [0.1]", r"no section \[serch\]"),
        ("[search.modle]\ndropout = [0.1]", r"no section \[modle\]"),
        ("search = 3", "must hold sections"),
        ("[search]\ndropout = [0.1]", r"no section \[dropout\]"),
        ("[search.model]\nfoo = [1]", r"model\.foo: there is no such option"),
    ],
)
def test_errors_of_a_file_name_it(tmp_path, text, message):
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        search(config=file)
    assert str(file) in str(caught.value)


def test_equal_plans_have_equal_names():
    def name(**options):
        return search(**options).study_name("0", ["0"])

    assert name() == name(split="stratified")
    assert name().startswith("tune-digits-mlp-stratified-")
    others = [
        name(model="gcn"),
        name(split="uniform"),
        name(settings={"hidden": 8}),
        name(seeds=(0, 1)),
        name(search={"model.dropout": [0.1]}),
        search().study_name("1", ["0"]),
        search().study_name("0", ["1"]),
    ]
    assert len({name(), *others}) == 8


@pytest.mark.parametrize("key", ["seed", "split_seed", "split", "dataset", "name", "device"])
def test_what_another_option_says_is_never_searched(key):
    with pytest.raises(InputError, match="cannot be searched"):
        search(search={key: [0, 1]})


def test_an_option_is_one_whether_its_section_is_named_or_not():
    assert search(search={"dropout": [0.9]}).values["model.dropout"] == [0.9]
    assert "dropout" not in search(search={"dropout": [0.9]}).values
    assert search(seeds=2).seeds == (0, 1)


def test_the_name_of_a_study_says_nothing_of_folders(tmp_path):
    names = set()
    for folder in ("here", "there"):
        file = tmp_path / folder / "mine.npz"
        ncgnn.save(ncgnn.generate(60, 200, classes=3, features=4), file)
        names.add(search(dataset=str(file)).study_name("0", ["0"]))
    (name,) = names
    assert name.startswith("tune-mine-mlp-")


def test_what_the_preset_says_is_looked_for_among_the_choices():
    paper = make_search(dataset="chameleon-filtered", model="ncgcn", split="paper")
    chosen = paper.preset
    assert chosen["training.learning_rate"] == 0.1
    assert (chosen["model.dropout.0"], chosen["model.dropout.1"]) == (0.6, 0.2)
    assert (chosen["model.hops"], chosen["model.threshold"]) == (2, 0.6)
    other = {"model.threshold": [0.1, 0.2], "model.dropout": [0.6, 0.5]}
    none = make_search(
        dataset="chameleon-filtered", model="ncgcn", split="paper", search=other
    ).preset
    assert not {"model.threshold", "model.dropout"} & none.keys()
