from __future__ import annotations

import pytest

from ncgnn.errors import InputError, NcgnnWarning
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
    with pytest.warns(NcgnnWarning, match="not used for mlp"):
        assert [c.model.name for c in grid(models=["mlp", "gcn"], config=path)] == ["mlp", "gcn"]


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
    with pytest.raises(InputError, match=r"sage\.toml is for model sage"):
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
    with pytest.raises(InputError, match="seeds is"):
        grid("digits", "gcn", seeds=seeds)


@pytest.mark.parametrize("key", ["split", "data.split", "dataset", "model.name", "name", "seed"])
def test_what_distinguishes_cells_is_not_a_setting(key):
    with pytest.raises(InputError, match="is said with --"):
        grid(["digits"], ["gcn"], settings={key: "x"})
