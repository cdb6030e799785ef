"""What a run keeps of the environments that it was trained in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import InterruptedRunError, interrupt_at, tiny_config

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.experiments.results import read_origin
from ncgnn.training import DamagedFileError, RunFolder, make_config, to_toml, train_run
from ncgnn.training.config import FORMAT
from ncgnn.training.folder import environment


def test_other_source_code_is_told(tmp_path):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(3), checkpoint_seconds=0)
    path = tmp_path / tiny_config().name / "environment.json"
    stored = json.loads(path.read_text())
    assert len(stored["code_sha256"]) == 64
    path.write_text(json.dumps(stored | {"code_sha256": "0"}))
    with pytest.warns(NcgnnWarning, match="code_sha256: 0 then"):
        train_run(tiny_config(), tmp_path)


def test_another_environment_is_told(tmp_path):
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(3), checkpoint_seconds=0)
    path = tmp_path / tiny_config().name / "environment.json"
    changed = json.loads(path.read_text()) | {"python": "3.0"}
    path.write_text(json.dumps(changed))
    with pytest.warns(NcgnnWarning, match="python: 3.0 then"):
        train_run(tiny_config(), tmp_path)


@pytest.mark.filterwarnings("ignore:.*continues in another environment")
@pytest.mark.parametrize("damage", [None, 3, ["x"]])
def test_other_environments_of_a_run_are_kept(tmp_path, damage):
    """Twice continued elsewhere, by the same source: two versions in all."""
    path = tmp_path / tiny_config().name / "environment.json"
    for epoch in (3, 5):
        with pytest.raises(InterruptedRunError):
            train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(epoch), checkpoint_seconds=0)
        if epoch == 3:
            origin = json.loads(path.read_text())
            begun = origin | {"code_sha256": "f" * 64, "continued_in": damage}
            path.write_text(json.dumps(begun))
    train_run(tiny_config(), tmp_path)
    kept = json.loads(path.read_text())
    del origin["format"]
    assert kept == begun | {"continued_in": [origin]}
    assert read_origin(RunFolder(path.parent))[0] == f"{'f' * 10}+{origin['code_sha256'][:10]}"


@pytest.mark.filterwarnings("ignore:.*(another environment|starts anew)")
def test_an_environment_that_nothing_was_kept_from_is_forgotten(tmp_path):
    folder = RunFolder(tmp_path / tiny_config().name)
    with pytest.raises(InterruptedRunError):
        train_run(tiny_config(), tmp_path, on_epoch=interrupt_at(3), checkpoint_seconds=0)
    origin = folder.read_json("environment.json")
    folder.write_json("environment.json", origin | {"code_sha256": "f" * 64})
    (folder / "checkpoint.safetensors").write_bytes(b"damaged")
    train_run(tiny_config(), tmp_path)
    assert folder.read_json("environment.json") == origin


def test_a_worker_records_the_code_that_was_imported(monkeypatch):
    before = environment()["code_sha256"]
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"edited since")
    assert environment()["code_sha256"] == before


@pytest.mark.parametrize("name", ["result.json", "environment.json"])
def test_files_of_another_format_are_refused(tmp_path, name):
    folder = RunFolder(train_run(tiny_config(epochs=1), tmp_path).folder)
    content = json.loads((folder / name).read_text())
    assert content["format"] == FORMAT
    (folder / name).write_text(json.dumps(content | {"format": FORMAT + 1}))
    with pytest.raises(DamagedFileError, match=rf"{name}: format must be {FORMAT}; got"):
        folder.read_json(name)


def test_a_configuration_of_another_format_is_refused(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(to_toml(tiny_config().model_dump(mode="json")))
    assert make_config(config=path) == tiny_config()
    path.write_text(path.read_text().replace(f"format = {FORMAT}", "format = 99"))
    with pytest.raises(InputError, match="format must be 1; got 99"):
        make_config(config=path)
