from __future__ import annotations

import hashlib
import json
import threading
from functools import partial

import numpy as np
import pytest
from loopback_server import Answer, running_server

from ncgnn.data import catalog as _catalog
from ncgnn.data import download as _download
from ncgnn.data import loading as _fetch
from ncgnn.data.catalog import DatasetEntry, content_sha256
from ncgnn.data.download import RemoteFile
from ncgnn.data.loading import cache_dir, find_stored, load
from ncgnn.data.npz import read_npz, write_npz
from ncgnn.data.sources import find_parser
from ncgnn.errors import (
    DataMismatchError,
    DataNotFoundError,
    InputError,
    NcgnnWarning,
    UnknownNameError,
)

NODES = b"id\tfeatures\tlabel\n0\t1,2\t0\n1\t0\t1\n2\t2\t1\n"
EDGES = b"id\tid\n0\t1\n1\t2\n2\t2\n"
NAMES = ("node_feature_label.txt", "graph_edges.txt")
KEPT = "received.json"


def tiny_entry(urls, checksum=None, sums=(None, None), **changes):
    fields = {
        "name": "tiny-graph",
        "title": "Tiny",
        "parser": "geom-gcn",
        "files": tuple(map(RemoteFile, urls, NAMES, sums)),
        "homepage": "https://example.org/tiny",
        "citation": "Nobody",
        "nodes": 3,
        "edges": 3,
        "features": 3,
        "classes": 2,
        "directed": True,
        "content_sha256": checksum,
    }
    return DatasetEntry(**(fields | changes))


@pytest.fixture
def checksum(tmp_path):
    files = {name: tmp_path / f"sample-{name}" for name in NAMES}
    for path, content in zip(files.values(), (NODES, EDGES), strict=True):
        path.write_bytes(content)
    found = content_sha256(find_parser("geom-gcn")(files))
    for path in files.values():
        path.unlink()
    return found


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server with the two files, an empty cache, and no data folder from outside."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NCGNN_DATA", raising=False)
    monkeypatch.setattr(_download, "_PAUSES_SECONDS", (0.0, 0.0))
    insecure = partial(_download.download, allow_insecure=True)
    monkeypatch.setattr(_fetch, "download_file", insecure)
    with running_server() as running:
        running.urls = [running.serve("/nodes", NODES), running.serve("/edges", EDGES)]
        yield running


@pytest.fixture
def tiny(server, monkeypatch, checksum):
    """Put an entry into the catalogue; keywords change it."""

    def use(**changes):
        item = tiny_entry(server.urls, **({"checksum": checksum} | changes))
        monkeypatch.setattr(_catalog, "_catalog", lambda: {item.name: item})
        return item

    use()
    return use


def assert_is_tiny(arrays):
    assert arrays.labels.tolist() == [0, 1, 1]
    assert sorted(map(tuple, arrays.edge_index().T.tolist())) == [(0, 1), (1, 2), (2, 2)]


def test_download_parse_cache_and_then_no_network(server, tiny, tmp_path):
    assert find_stored("tiny-graph") is None
    arrays = load("Tiny_Graph")
    assert_is_tiny(arrays)
    path = find_stored("tiny-graph")
    assert path == cache_dir() / "tiny-graph.npz" == tmp_path / "cache/ncgnn/tiny-graph.npz"
    assert server.requests == ["/nodes", "/edges"]

    again = load("tiny-graph")
    assert_is_tiny(again)
    assert (again.fingerprint, again.name) == (arrays.fingerprint, "tiny-graph")
    assert len(server.requests) == 2
    assert again.origin == arrays.origin
    for url, content in zip(server.urls, (NODES, EDGES), strict=True):
        assert f"{url} (SHA-256 {hashlib.sha256(content).hexdigest()})" in again.origin


def test_a_data_folder_gets_the_new_files(server, tiny, tmp_path):
    (tmp_path / "mine").mkdir()
    load("tiny-graph", tmp_path / "mine")
    assert (tmp_path / "mine" / "tiny-graph.npz").is_file()
    assert {item.name for item in (tmp_path / "mine/raw/tiny-graph").iterdir()} == {*NAMES, KEPT}
    assert not cache_dir().exists()


def test_the_order_of_folders(server, tiny, tmp_path, monkeypatch):
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    load("tiny-graph")
    cached = cache_dir() / "tiny-graph.npz"
    for folder in (shared, mine):
        folder.mkdir()
    monkeypatch.setenv("NCGNN_DATA", str(shared))
    assert find_stored("tiny-graph", mine) == cached
    for folder in (shared, mine):
        (folder / "tiny-graph.npz").write_bytes(cached.read_bytes())
    assert find_stored("tiny-graph") == shared / "tiny-graph.npz"
    assert find_stored("tiny-graph", str(mine)) == mine / "tiny-graph.npz"


def test_raw_files_placed_by_hand_are_parsed_without_network(server, tiny, tmp_path):
    raw = tmp_path / "mine" / "raw" / "tiny-graph"
    raw.mkdir(parents=True)
    for name, content in zip(NAMES, (NODES, EDGES), strict=True):
        (raw / name).write_bytes(content)
    assert_is_tiny(load("tiny-graph", tmp_path / "mine", download=False))
    assert (tmp_path / "mine" / "tiny-graph.npz").is_file()
    assert server.requests == []


def test_only_missing_raw_files_are_downloaded(server, tiny, tmp_path):
    raw = tmp_path / "mine" / "raw" / "tiny-graph"
    raw.mkdir(parents=True)
    (raw / NAMES[0]).write_bytes(NODES)
    load("tiny-graph", tmp_path / "mine")
    assert server.requests == ["/edges"]


@pytest.mark.parametrize("download", [True, False])
def test_offline_says_what_to_put_where(server, tiny, tmp_path, monkeypatch, download):
    for folder in ("mine", "shared"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("NCGNN_DATA", str(tmp_path / "shared"))
    for path in ("/nodes", "/edges"):
        server.serve(path, Answer(b"", 503))
    with pytest.raises(DataNotFoundError) as caught:
        load("tiny-graph", tmp_path / "mine", download=download)
    message = str(caught.value)
    for words in (
        "dataset 'tiny-graph' was not found",
        "503" if download else "offline",
        f"tiny-graph.npz in {tmp_path / 'mine'}, {tmp_path / 'shared'}, {cache_dir()}",
        f"put tiny-graph.npz into {tmp_path / 'mine'}",
        str(tmp_path / "mine" / "raw" / "tiny-graph"),
        *server.urls,
        *NAMES,
    ):
        assert words in message
    assert bool(server.requests) == download
    assert find_stored("tiny-graph", tmp_path / "mine") is None


def test_a_damaged_file_is_an_error_and_stays(server, tiny, tmp_path):
    path = tmp_path / "tiny-graph.npz"
    path.write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(InputError, match=r"tiny-graph\.npz"):
        load("tiny-graph", tmp_path)
    assert path.read_bytes() == b"PK\x03\x04 damaged"
    assert server.requests == []


def test_a_file_with_other_content_is_an_error_and_stays(server, tiny, tmp_path):
    path = tmp_path / "tiny-graph.npz"
    np.savez(path, edge_index=np.zeros((2, 0), dtype=int), y=np.array([0, 1, 1]))
    before = path.read_bytes()
    with pytest.raises(DataMismatchError, match="has 0 directed edges, expected 3"):
        load("tiny-graph", tmp_path)
    assert path.read_bytes() == before
    assert server.requests == []


def test_a_download_with_other_content_is_not_stored(server, tiny):
    server.serve("/nodes", NODES.replace(b"1,2", b"0,2"))
    with pytest.raises(DataMismatchError) as caught:
        load("tiny-graph")
    message = str(caught.value)
    assert "are right but its content is not" in message
    assert "the authors' files may have changed" in message
    assert str(cache_dir() / "raw" / "tiny-graph") in message
    assert find_stored("tiny-graph") is None


def test_a_download_that_cannot_be_parsed_is_not_stored(server, tiny):
    server.serve("/nodes", b"id\tfeatures\tlabel\nrubbish\n")
    with pytest.raises(InputError, match=r"node_feature_label\.txt, line 2"):
        load("tiny-graph")
    assert find_stored("tiny-graph") is None


def test_recorded_checksums_of_raw_files_are_compared(server, tiny, tmp_path):
    sums = [hashlib.sha256(content).hexdigest() for content in (NODES, EDGES)]
    tiny(sums=sums)
    raw = tmp_path / "raw" / "tiny-graph"
    raw.mkdir(parents=True)
    (raw / NAMES[0]).write_bytes(NODES + b"\n")
    with pytest.raises(DataMismatchError, match="move it away and get a fresh copy"):
        load("tiny-graph", tmp_path)
    (raw / NAMES[0]).unlink()
    assert_is_tiny(load("tiny-graph", tmp_path))


def test_what_nothing_vouches_for_is_trusted_once(server, tiny):
    tiny(checksum=None)
    with pytest.warns(NcgnnWarning, match=r"no checksum of tiny-graph is known .* will be refused"):
        load("tiny-graph")
    assert_is_tiny(load("tiny-graph"))
    stored, raw = cache_dir() / "tiny-graph.npz", cache_dir() / "raw" / "tiny-graph"
    assert set(json.loads((raw / KEPT).read_text())["files"]) == {*NAMES, stored.name}

    other = read_npz(stored).with_labels(np.array([1, 0, 1]))
    write_npz(stored, other)  # of the same counts
    with pytest.raises(
        DataMismatchError, match=r"is not what the authors' files gave.*remove .*received"
    ):
        load("tiny-graph")
    stored.unlink()
    (raw / NAMES[0]).write_bytes(NODES.replace(b"1,2", b"0,2"))
    with pytest.raises(
        DataMismatchError, match=r"if you trust the change, remove .*received\.json"
    ):
        load("tiny-graph")
    (raw / NAMES[0]).unlink()
    server.serve("/nodes", NODES.replace(b"1,2", b"0,2"))
    with pytest.raises(DataMismatchError, match="at its source or on the way and is not used"):
        load("tiny-graph")
    assert not (raw / NAMES[0]).exists()

    (raw / KEPT).unlink()
    with pytest.warns(NcgnnWarning, match="taken as they are"):
        load("tiny-graph")
    assert load("tiny-graph").num_nodes == 3


def test_what_was_trusted_is_remembered_also_after_building_again(server, tiny):
    tiny(checksum=None)
    path, kept = cache_dir() / "tiny-graph.npz", cache_dir() / "raw" / "tiny-graph" / KEPT
    with pytest.warns(NcgnnWarning, match="taken as they are") as said:
        load("tiny-graph")
    assert said[0].filename == __file__
    before = kept.read_text()
    path.unlink()
    graph = load("tiny-graph")
    assert kept.read_text() == before
    write_npz(path, graph.with_labels(np.array([1, 0, 1])))
    with pytest.raises(DataMismatchError):
        load("tiny-graph")


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "files": {}}', "[" * 100_000])
def test_kept_checksums_that_cannot_be_read(server, tiny, text):
    load("tiny-graph")
    (cache_dir() / "tiny-graph.npz").unlink()
    (cache_dir() / "raw" / "tiny-graph" / KEPT).write_text(text)
    with pytest.raises(InputError, match=r"received\.json cannot be read"):
        load("tiny-graph")


def test_a_folder_that_cannot_be_written(server, tiny, tmp_path):
    (tmp_path / "raw").write_text("not a folder")
    with pytest.raises(InputError, match="cannot be stored in"):
        load("tiny-graph", tmp_path)


def test_many_at_once_do_not_disturb_each_other(server, tiny):
    problems = []

    def load_one():
        try:
            assert_is_tiny(load("tiny-graph"))
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=load_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert_is_tiny(read_npz(cache_dir() / "tiny-graph.npz"))
    assert [path.name for path in cache_dir().iterdir() if path.is_file()] == ["tiny-graph.npz"]
    assert {path.name for path in (cache_dir() / "raw/tiny-graph").iterdir()} == {*NAMES, KEPT}


def test_unknown_names(server):
    for function in (load, find_stored):
        with pytest.raises(UnknownNameError):
            function("no such graph")


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_the_cache_is_under_home_by_default(monkeypatch, tmp_path, value):
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "ncgnn"


def test_a_real_file_is_found(real_data_dir, monkeypatch):
    monkeypatch.setenv("NCGNN_DATA", str(real_data_dir))
    assert find_stored("Texas") == real_data_dir / "texas.npz"
    assert load("Texas", download=False).num_nodes == 183
