"""Which folders a dataset is looked for in, which one is written to, and data without a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ncgnn.data import find_dataset, find_stored, generate, list_datasets, load, save
from ncgnn.data import loading as _fetch
from ncgnn.errors import DataNotFoundError, InputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache, and no data folder from outside."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NCGNN_DATA", raising=False)
    return tmp_path / "cache" / "ncgnn"


def message(name: str, data_dir: Path | str | None) -> str:
    with pytest.raises(DataNotFoundError) as caught:
        load(name, data_dir, download=False)
    return str(caught.value)


@pytest.mark.parametrize("data_dir", [None, ""])
def test_the_folder_of_the_variable_is_never_written_to(tmp_path, monkeypatch, cache, data_dir):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("NCGNN_DATA", str(shared))
    assert f"put texas.npz into {cache}," in message("texas", data_dir)
    written = []

    def refuse(remote, folder, *_):
        written.append(folder)
        raise DataNotFoundError("nothing there")

    monkeypatch.setattr(_fetch, "download_file", refuse)
    with pytest.raises(DataNotFoundError, match="nothing there"):
        load("texas", data_dir)
    with pytest.raises(DataNotFoundError, match="nothing there"):
        load("texas", tmp_path)
    assert written == [cache / "raw" / "texas", tmp_path / "raw" / "texas"]
    assert list(shared.iterdir()) == []


def test_a_folder_is_listed_once(tmp_path, monkeypatch, cache):
    cache.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NCGNN_DATA", str(tmp_path))
    assert f"looked for texas.npz in {tmp_path}, {cache}. " in message("texas", tmp_path)
    assert f"looked for texas.npz in ., {cache}. " in message("texas", ".")
    assert f"looked for texas.npz in {cache}, {tmp_path}. " in message("texas", cache)


def test_a_folder_that_is_not_there_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    for folder in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(InputError, match=f"there is no data folder {folder};"):
            load("texas", folder)
    monkeypatch.setenv("NCGNN_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="there is no data folder"):
        find_stored("texas")


def test_digits_are_always_at_hand(cache):
    assert find_dataset("Digits") in list_datasets()
    graph = load("digits", download=False)
    assert (graph.name, graph.num_edges) == ("digits", find_dataset("digits").edges)
    assert find_stored("digits").name == "digits.py"
    assert not cache.exists()


def test_digits_do_not_come_from_a_file(tmp_path):
    save(generate(20, 30), tmp_path / "digits.npz")
    assert load("digits", tmp_path).num_nodes == 1797
    assert find_stored("digits", tmp_path).name == "digits.py"
