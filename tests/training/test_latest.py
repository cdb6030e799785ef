"""What a run keeps of its dataset, how it is named, and which one is the latest."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from night_tables import night, tables

import ncgnn
from ncgnn.data import keep_folder
from ncgnn.errors import InputError
from ncgnn.experiments import read_runs
from ncgnn.training import (
    DamagedFileError,
    RunFolder,
    find_run,
    load_run,
    make_config,
    point_latest,
    train_run,
)

SETTINGS = {"hidden": 8, "epochs": 2}


@pytest.fixture(scope="module")
def nights():
    return night(0, 90), night(10, 120, seed=1)


@pytest.fixture
def mine(nights, tmp_path) -> Path:
    return ncgnn.save(nights[0], tmp_path / "mine")


def config_of(mine, **more):
    return make_config(dataset=str(mine), model="tuned-sage", settings=SETTINGS | more)


def test_the_content_of_a_folder_is_part_of_the_name(nights, mine, tmp_path):
    before = config_of(mine)
    assert before.name.startswith(f"mine-{before.data.fingerprint[:8]}-tuned-sage-stratified-s0-")
    ncgnn.save(nights[0], mine, force=True)
    assert config_of(mine) == before
    ncgnn.save(nights[1], mine, force=True)
    after = config_of(mine)
    assert after.name != before.name
    # Another name of a class is another content, though all numbers are the same.
    renamed = replace(nights[1], class_names=("food", "toolz"))
    ncgnn.save(renamed, mine, force=True)
    assert renamed.fingerprint == nights[1].fingerprint
    assert config_of(mine).name != after.name


def test_names_of_other_datasets_stay_as_they_were():
    config = make_config(dataset="digits", model="gcn")
    assert config.data.fingerprint is None
    assert config.name == "digits-gcn-stratified-s0-" + config.sha256[:10]
    assert config.sha256 == make_config(dataset="digits", model="gcn").sha256


def test_a_file_of_an_earlier_night_does_not_stand_in_the_way(nights, mine, tmp_path):
    first = train_run(config_of(mine), tmp_path / "runs").folder
    ncgnn.save(nights[1], mine, force=True)
    now = make_config(config=first / "config.toml")
    assert now == config_of(mine)
    stated = RunFolder(first).read_config().data.fingerprint
    asked = make_config(config=first / "config.toml", settings={"fingerprint": stated})
    with pytest.raises(InputError, match="has changed since"):
        train_run(asked, tmp_path / "runs")


def test_the_run_of_yesterday_works_after_its_folder_was_replaced(nights, mine, tmp_path):
    first = train_run(config_of(mine), tmp_path / "runs").folder
    answers = load_run(first).predict().table
    ncgnn.save(nights[1], mine, force=True)
    second = train_run(config_of(mine), tmp_path / "runs").folder
    assert first != second
    loaded = load_run(first)
    assert loaded.predict().table == answers
    assert loaded.graph.name == "mine"
    nodes, edges = tables(90, 95)
    later = loaded.graph.extend(nodes, edges, unknown="drop")
    assert len(loaded.predict(later, only="new")) == 5
    records, problems = read_runs(tmp_path / "runs")
    assert (len(records), problems) == (2, {})
    assert len({record.graph for record in records}) == 2


def test_what_is_kept_takes_no_room_and_is_checked(mine, tmp_path):
    folder = train_run(config_of(mine), tmp_path / "runs").folder
    kept = folder / "dataset"
    assert (kept / "labels.npy").samefile(mine / "labels.npy")
    assert not (kept / "schema.toml").samefile(mine / "schema.toml")
    manifest = json.loads((kept / "dataset.json").read_text())
    (kept / "dataset.json").write_text(json.dumps(manifest | {"origin": "elsewhere"}))
    with pytest.raises(DamagedFileError, match=r"dataset.json has changed"):
        load_run(folder)


def test_where_there_are_no_links_files_are_copied_or_left(monkeypatch, nights, mine, tmp_path):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    graph = ncgnn.load(mine)
    assert not keep_folder(graph, mine, tmp_path / "none", copies=False)
    assert not (tmp_path / "none").exists()
    assert keep_folder(graph, mine, tmp_path / "copy")
    assert ncgnn.load(tmp_path / "copy").fingerprint == graph.fingerprint
    ncgnn.save(nights[1], mine, force=True)  # and of a folder that was replaced, what was read
    assert keep_folder(graph, mine, tmp_path / "written")
    assert ncgnn.load(tmp_path / "written").fingerprint == graph.fingerprint


def test_a_saved_model_of_tables_takes_tables(nights, tmp_path):
    trained = ncgnn.fit(nights[0], "tuned-sage", **SETTINGS)
    loaded = load_run(trained.save(tmp_path / "kept"))
    later = loaded.graph.extend(*tables(90, 95), unknown="drop")
    assert loaded.predict(later, only="new")["id"].tolist() == [f"t{i}" for i in range(90, 95)]


def test_a_folder_is_replaced_at_one_moment_and_maps_of_the_old_one_stay(nights, mine):
    old = ncgnn.load(mine)
    wanted = old.features.toarray()
    known = {graph.fingerprint for graph in nights}
    stop, found, errors = threading.Event(), set(), []

    def read():
        while not stop.is_set():
            try:
                graph = ncgnn.load(mine)
                found.add(graph.fingerprint)
                assert replace(graph).fingerprint == graph.fingerprint  # counted anew
            except Exception as error:
                errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(30):
        ncgnn.save(nights[number % 2], mine, force=True)
    stop.set()
    for reader in readers:
        reader.join()
    assert not errors
    assert found <= known
    assert np.array_equal(old.features.toarray(), wanted)
    assert [path.name for path in mine.parent.iterdir()] == ["mine"]


def test_the_latest_run_is_a_link_that_counts_once(mine, tmp_path):
    runs = tmp_path / "runs"
    folders = [train_run(config_of(mine, seed=seed), runs).folder for seed in (0, 1)]
    for folder in folders:
        assert point_latest(folder)
        assert find_run(runs / "latest") == folder
        assert load_run(runs / "latest").config == RunFolder(folder).read_config()
    assert len(read_runs(runs)[0]) == 2
    assert str((runs / "latest").readlink()) == folders[1].name
    with pytest.raises(InputError, match="holds runs") as error:
        load_run(runs)
    assert " latest" not in str(error.value)


def test_where_there_are_no_links_the_latest_run_is_named_in_a_file(monkeypatch, mine, tmp_path):
    def refuse(*_, **__):
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    runs = tmp_path / "runs"
    folder = train_run(config_of(mine), runs).folder
    assert point_latest(folder)
    assert (runs / "latest").is_file()
    assert load_run(runs / "latest").graph.num_nodes == 90
    assert len(read_runs(runs)[0]) == 1


def test_a_folder_called_latest_is_left_alone(tmp_path):
    (tmp_path / "latest").mkdir()
    assert not point_latest(tmp_path / "run")
    assert find_run(tmp_path / "latest") == tmp_path / "latest"
