"""What may be asked of a table or figure, and what is said of the rest."""

from __future__ import annotations

import pytest

from ncgnn import generate, save
from ncgnn.errors import DataNotFoundError, InputError, UnknownNameError
from ncgnn.paper import reproduce, request_for, target, targets
from ncgnn.paper.figures.nodes import ConfusionRule, preset_rule
from ncgnn.training import train_run


def test_data_sets_that_are_not_at_hand_are_left_out(monkeypatch, tmp_path):
    def load(dataset, folder, *, download):
        if dataset != "digits":
            raise DataNotFoundError(f"{dataset} is not at hand")

    monkeypatch.setattr(targets, "load", load)
    request, absent = request_for("table1", datasets=["digits", "penn94"], data_dir=tmp_path)
    assert request.datasets == ("digits",)
    assert list(absent) == ["penn94"]
    with pytest.raises(InputError, match="--data-dir"):
        request_for("table1", datasets=["penn94"])


def test_unknown_models_are_named():
    with pytest.raises(UnknownNameError, match="gcn"):
        request_for("table1", datasets=["digits"], models=["gnc"])


@pytest.mark.parametrize("key", ["split", "data.split", "name", "seed"])
def test_what_a_table_says_of_itself_is_not_a_setting(key):
    with pytest.raises(InputError, match=r"use --\w+ instead of --set"):
        request_for("table1", datasets=["digits"], models=["gcn"], settings={key: "uniform"})


def test_what_is_not_shown_cannot_be_chosen():
    with pytest.raises(InputError, match="leave --models out"):
        request_for("duplication", datasets=["digits"], models=["gcn"])
    with pytest.raises(InputError, match=r"duplication needs no runs; leave --seeds out\."):
        request_for("duplication", datasets=["digits"], seeds=5)
    with pytest.raises(InputError, match="--set learning_rate has no effect"):
        request_for("duplication", datasets=["digits"], settings={"learning_rate": 3})
    with pytest.raises(InputError, match="leave GRAPH out"):
        request_for("entropy", datasets=["digits"])


def test_options_without_effect_are_refused():
    with pytest.raises(InputError, match=r"leave --split out\."):
        request_for("entropy", split="uniform")
    with pytest.raises(InputError, match=r"leave --split and --seeds out\."):
        request_for("distributions", datasets=["digits"], split="paper", seeds=3)
    with pytest.raises(InputError, match=r"--set model\.hidden has no effect; it takes hops"):
        request_for("distributions", datasets=["digits"], settings={"model.hidden": 3})
    with pytest.raises(InputError, match=r"--set training\.hops has no effect"):
        request_for("distributions", datasets=["digits"], settings={"training.hops": 3})
    with pytest.raises(InputError, match="give one seed"):
        request_for("embeddings", datasets=["digits"], seeds=2)
    request, _ = request_for("distributions", datasets=["digits"], settings={"model.hops": 3})
    assert request.settings == (("model.hops", 3),)
    assert request_for("embeddings", datasets=["digits"], seeds=[4])[0].seeds == (4,)


def test_what_a_figure_decides_itself_cannot_be_set():
    with pytest.raises(InputError, match="sensitivity decides hops itself; leave --set hops out"):
        request_for("sensitivity", datasets=["digits"], settings={"epochs": 2, "hops": 1})


def test_what_some_rows_decide_is_said_below_the_table():
    settings = {"model.separation": "strict", "epochs": 3}
    options = {"datasets": ["digits"], "models": ["ncgcn", "without-separation"]}
    request, _ = request_for("table1", settings=settings, **options)
    assert _note(request) == 'With model.separation="strict" where a row is not about it, epochs=3.'
    for models in (["ncgcn", "three-hops"], ["three-hops", "ncgcn"]):  # then both are one run
        request, _ = request_for("table1", datasets=["digits"], models=models, settings={"hops": 3})
        assert _note(request) == "With hops=3 where a row is not about it."


@pytest.fixture
def best(tmp_path):
    """A TOML file as `tune` leaves it."""

    def written(model="gcn", dataset="digits", split="paper", name="best.toml"):
        path = tmp_path / name
        path.write_text(
            f'[data]\ndataset = "{dataset}"\nsplit = "{split}"\n[model]\nname = "{model}"\n'
            "hidden = 7\n[training]\nseed = 5\nlearning_rate = 0.3\n"
        )
        return path

    return written


def _table1(**options):
    return request_for("table1", **({"datasets": ["digits"]} | options))[0]


def _cells(name, request):
    return target(name).cells(request)


def _note(request):
    """What stands below both tables of table1."""
    (note,) = {table.notes[-1] for table in reproduce("table1", [], request=request).tables()}
    return note


def test_a_file_gives_the_options_of_the_cells_that_it_names(best):
    request = _table1(models=["gcn", "mlp"], config=best(), seeds=2)
    found = [
        (c.model.name, c.training.seed, c.model.options["hidden"], c.training.learning_rate)
        for c in _cells("table1", request)
    ]
    plain = {
        c.model.name: (c.model.options["hidden"], c.training.learning_rate)
        for c in _cells("table1", _table1(models=["gcn", "mlp"]))
    }
    assert plain["gcn"] != (7, 0.3)
    assert sorted(found) == [
        *(("gcn", seed, 7, 0.3) for seed in (0, 1)),
        *(("mlp", seed, *plain["mlp"]) for seed in (0, 1)),
    ]
    note = _note(request)
    assert note == "With options of best.toml for gcn on digits."


def test_settings_win_over_files_and_rows_over_both(best):
    path = best("ncgcn")
    path.write_text('[model]\nname = "ncgcn"\nseparation = "strict"\nhidden = 7\nhops = 1\n')
    models = ["ncgcn", "without-separation", "three-hops"]
    request = _table1(models=models, config=[path, path], settings={"hidden": 9})
    options = [cell.model.options for cell in _cells("table1", request)]
    assert {o["hidden"] for o in options} == {9}
    assert [o["separation"] for o in options] == ["strict", "none", "strict"]
    assert [o["hops"] for o in options] == [1, 1, 3]


def test_files_that_say_nothing_here_are_refused(best):
    with pytest.raises(InputError, match=r"best\.toml is for mlp on digits, which is not among"):
        _table1(models=["gcn"], config=best("mlp"))
    with pytest.raises(InputError, match="is for gcn on photo"):
        _table1(models=["gcn"], config=best(dataset="photo"))
    with pytest.raises(InputError, match="is for split family uniform, and table1 shows paper"):
        _table1(models=["gcn"], config=best(split="uniform"))
    said = _table1(models=["gcn"], config=best(split="uniform"), split="stratified")
    assert {cell.data.split for cell in _cells("table1", said)} == {"stratified"}
    with pytest.raises(InputError, match=r"best\.toml and .*other\.toml are both for gcn"):
        _table1(models=["gcn"], config=[best(), best(name="other.toml")])
    with pytest.raises(InputError, match="efficiency trains all models alike; leave --config out"):
        request_for("efficiency", datasets=["digits"], models=["gcn"], config=best())
    with pytest.raises(InputError, match=r"duplication needs no runs; leave --config out\."):
        request_for("duplication", datasets=["digits"], config=best())


def test_a_file_beside_its_graph_is_for_that_graph(best, tmp_path, monkeypatch):
    save(generate(nodes=60, edges=120, classes=3, features=4, seed=0), tmp_path / "mine.npz")
    path = best(dataset="mine.npz", split="stratified")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    request, _ = request_for(
        "table1", datasets=["../mine.npz"], models=["gcn"], split="stratified", config=path
    )
    (cell,) = _cells("table1", request)
    assert cell.model.options["hidden"] == 7


def test_a_figure_names_its_files(best, tmp_path):
    path = best("ncgcn")
    request, _ = request_for("alpha", datasets=["digits"], config=path, settings={"epochs": 2})
    runs = [train_run(cell, tmp_path / "runs") for cell in _cells("alpha", request)]
    figure = reproduce("alpha", runs, request=request).figure()
    below = figure.get_supxlabel().replace("\n", " ")
    assert "With options of best.toml for ncgcn on digits, epochs=2." in below


def test_groups_of_a_figure_follow_the_file(best):
    path = best("ncgcn")
    path.write_text('[model]\nname = "ncgcn"\nhops = 2\nthreshold = 0.9\n')
    request, _ = request_for("groups", datasets=["digits"], models=["gcn", "ncgcn"], config=path)
    assert preset_rule(request, "digits") == ConfusionRule(2, 0.9)


def test_rows_that_keep_their_own_and_other_families_are_said_below(best):
    path = best("ncgcn", split="uniform")
    path.write_text(path.read_text().replace("hidden", "hops"))
    models = ["ncgcn", "three-hops"]
    request = _table1(models=models, config=path, split="stratified")
    note = _note(request)
    assert note == (
        "With options of best.toml for ncgcn on digits (found for uniform splits) where a row is "
        "not about them."
    )


def test_one_column_has_one_split_per_seed(best):
    path = best("gcn")
    path.write_text('[data]\nsplit_seed = 7\n[model]\nname = "gcn"\n')
    with pytest.raises(InputError, match="add --set split_seed"):
        _table1(models=["gcn", "mlp"], config=path, seeds=2)
    _table1(models=["gcn", "mlp"], config=path, seeds=2, settings={"split_seed": 7})
    _table1(models=["gcn"], config=path, seeds=2)


def test_a_file_that_changes_meanwhile_changes_nothing(best, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    best()
    request = _table1(models=["gcn"], config="best.toml")
    before = _cells("table1", request)
    (tmp_path / "best.toml").write_text("[model]\nhidden = 3\n")
    monkeypatch.chdir("/")
    assert _cells("table1", request) == before


def test_files_of_absent_data_sets_are_not_spoken_of(best, monkeypatch):
    def load(dataset, folder, *, download):
        if dataset == "pubmed":
            raise DataNotFoundError("not at hand")

    monkeypatch.setattr(targets, "load", load)
    options = {"datasets": ["digits", "pubmed"], "models": ["gcn"]}
    request, absent = request_for("table1", config=best(dataset="pubmed"), **options)
    assert list(absent) == ["pubmed"]
    assert request.files == ()


@pytest.mark.parametrize("name", ["efficiency", "time", "observation", "embeddings"])
def test_what_trains_all_models_alike_takes_no_file(name, best):
    with pytest.raises(InputError, match=f"{name} trains all models alike"):
        request_for(name, datasets=["digits"], config=best())


def test_names_are_known_however_they_are_written():
    request, _ = request_for("table1", datasets=["Digits", "DIGITS"], models=["gcn"])
    assert request.datasets == ("digits",)
    assert len(_cells("table1", request)) == 1


def test_an_impossible_threshold_is_said_before_anything_is_trained():
    with pytest.raises(InputError, match="threshold must be one number"):
        request_for(
            "groups",
            datasets=["digits"],
            models=["ncgcn"],
            settings={"threshold": [0.3, 0.6], "dropout": [0.1, 0.1, 0.1]},
        )
