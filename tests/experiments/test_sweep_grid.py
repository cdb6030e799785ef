from __future__ import annotations

import pytest

from ncgnn.errors import InputError
from ncgnn.experiments import grid


def test_a_grid_has_every_cell_once():
    configs = grid(["digits"], ["gcn", "mlp", "gcn"], seeds=3, split="stratified")
    names = [config.name for config in configs]
    assert len(set(names)) == len(names) == 6
    assert [c.training.seed for c in configs] == [0, 1, 2] * 2


def test_a_grid_leaves_open_what_the_file_says(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[data]\ndataset = "digits"\nsplit = "paper"\n[model]\nname = "gcn"\nhidden = 8\n'
        "[training]\nseed = 4\n[search.model]\nhidden = [8, 16]\n"
    )
    (config,) = grid(config=path)
    assert config.name.startswith("digits-gcn-paper-s4-")
    assert config.model.options["hidden"] == 8
    both = grid(models=["mlp", "gcn"], config=path)
    assert {c.data.split for c in both} == {"paper"}
    assert [c.model.name for c in both] == ["mlp", "gcn"]
    assert {c.data.dataset for c in both} == {"digits"}
    assert both[0].model.options["hidden"] == 512  # the file is for gcn


def test_a_file_is_for_the_model_and_the_data_set_that_it_names(tmp_path):
    file = tmp_path / "best.toml"
    file.write_text(
        '[data]\ndataset = "digits"\n[model]\nname = "gcn"\n[training]\nlearning_rate = 0.3\n'
    )
    rates = {
        (c.data.dataset, c.model.name): c.training.learning_rate
        for c in grid(["Digits", "pubmed"], ["gcn", "mlp"], config=file, split="uniform")
    }
    assert len(rates) == 4
    assert [cell for cell, rate in rates.items() if rate == 0.3] == [("digits", "gcn")]
    text = file.read_text().replace("[model]", 'split = "uniform"\nsplit_seed = 3\n[model]')
    file.write_text(text)
    found = grid(["digits", "pubmed"], config=file)  # the model that the file names, on its split
    assert [(c.data.dataset, c.model.name, c.data.split, c.split_seed) for c in found] == [
        ("digits", "gcn", "uniform", 3),
        ("pubmed", "gcn", "uniform", 3),
    ]
    assert [c.training.learning_rate == 0.3 for c in found] == [True, False]
    with pytest.raises(InputError, match="is for gcn on digits, which is not among the runs"):
        grid(["pubmed"], ["gcn"], config=file)


def test_several_files_are_as_many_configurations(tmp_path):
    files = [tmp_path / "wide.toml", tmp_path / "narrow.toml"]
    files[0].write_text('[model]\nname = "gcn"\nhidden = 32\n')
    files[1].write_text('[model]\nname = "sage"\nhidden = 8\n')
    configs = grid(["digits"], seeds=2, config=files)
    assert [(c.model.name, c.model.options["hidden"]) for c in configs] == [
        *[("gcn", 32)] * 2,
        *[("sage", 8)] * 2,
    ]
    configs = grid(["digits"], ["sage", "mlp", "gcn"], config=files)
    assert [(c.model.name, c.model.options["hidden"]) for c in configs] == [
        ("sage", 8),
        ("mlp", 512),
        ("gcn", 32),
    ]


def test_a_file_for_a_model_that_is_not_asked_for_is_a_mistake(tmp_path):
    files = [tmp_path / "gcn.toml", tmp_path / "sage.toml"]
    files[0].write_text('[model]\nname = "gcn"\n')
    files[1].write_text('[model]\nname = "sage"\n')
    with pytest.raises(InputError, match=r"sage\.toml is for sage, which is not"):
        grid(["digits"], ["gcn", "mlp"], config=files)
    files[1].write_text("model = 3\n")
    with pytest.raises(InputError, match=r"sage\.toml: model must be a section"):
        grid(["digits"], ["gcn"], config=files)


def test_a_grid_takes_one_name_for_several(tmp_path):
    file = tmp_path / "gcn.toml"
    file.write_text("[model]\nhidden = 8\n")
    assert grid("digits", "gcn", seeds=2, config=str(file)) == grid(
        ["digits"], ["gcn"], seeds=(0, 1), config=[file]
    )


@pytest.mark.parametrize("seeds", [0, -1, (), (1, 1), (-1,)])
def test_seeds_that_mean_no_run(seeds):
    with pytest.raises(InputError, match="seeds must be"):
        grid("digits", "gcn", seeds=seeds)


@pytest.mark.parametrize("key", ["split", "data.split", "dataset", "model.name", "name", "seed"])
def test_what_distinguishes_cells_is_not_a_setting(key):
    with pytest.raises(InputError, match=r"use (--\w+|GRAPH) instead of --set"):
        grid(["digits"], ["gcn"], settings={key: "x"})
