"""Files that declare or unpack to absurd sizes are refused before memory is spent on them."""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pytest
from graph_files import plain_members, save
from scipy.io import savemat
from scipy.sparse import csc_array

from ncgnn.data import npz as _limits
from ncgnn.data.npz import read_npy, read_npz
from ncgnn.data.sources import find_parser
from ncgnn.errors import InputError


def with_size(path, name, size):
    """Let the archive declare another size of a member."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.getinfo(name).file_size = size
        archive._didModify = True
    return path


@pytest.mark.parametrize("size", [17 << 30, 65 << 20])
def test_a_declared_size_that_cannot_be(tmp_path, size):
    path = with_size(save(tmp_path / "graph.npz", plain_members()), "y.npy", size)
    with pytest.raises(InputError) as caught:
        read_npz(path)
    assert f"{path}: 'y' unpacks to {size} bytes, more than" in str(caught.value)


def test_an_absurd_ratio_counts_from_some_size_on(tmp_path, monkeypatch):
    members = {"edge_index": np.zeros((2, 0), dtype=int), "y": np.zeros(100_000, dtype=int)}
    path = save(tmp_path / "graph.npz", members)
    monkeypatch.setattr(_limits, "MOST_RATIO", 100)
    assert read_npz(path).labels.size == 100_000
    monkeypatch.setattr(_limits, "HARMLESS_BYTES", 100_000)
    with pytest.raises(InputError, match=r"graph\.npz: 'y' unpacks to 800128 bytes, more than"):
        read_npz(path)


def header(shape, kind="<i8"):
    stream = io.BytesIO()
    fields = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content", [header((1 << 40,)), header((3, 1 << 33), "<f4"), header((1 << 50,), "<U0")]
)
def test_a_header_that_declares_more_than_there_is(tmp_path, content):
    path = tmp_path / "graph.npz"
    save(path, {"edge_index": np.zeros((2, 0), dtype=int)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y.npy", content + bytes(64))
    with pytest.raises(InputError, match=r"graph\.npz: 'y' .*declares \d+ bytes and holds 64"):
        read_npz(path)
    path = tmp_path / "feats.npy"
    path.write_bytes(content + bytes(64))
    with pytest.raises(InputError, match=r"feats\.npy .*declares \d+ bytes and holds 64"):
        read_npy(path)


def ogb_file(path, member: bytes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny/raw/node-label.csv.gz", member)
    return path


def test_tables_packed_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(_limits, "HARMLESS_BYTES", 1 << 16)
    monkeypatch.setattr(_limits, "MOST_RATIO", 20)
    path = ogb_file(tmp_path / "tiny.zip", gzip.compress(b"0\n" * (1 << 20)))
    words = r"tiny\.zip: raw/node-label\.csv\.gz unpacks to more, more than the"
    with pytest.raises(InputError, match=words):
        find_parser("ogb")({path.name: path})
    with_size(path, "tiny/raw/node-label.csv.gz", 1 << 40)
    with pytest.raises(InputError, match=r"node-label\.csv\.gz unpacks to 1099511627776 bytes"):
        find_parser("ogb")({path.name: path})


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_python_unpacks_without_a_bound_is_refused(tmp_path, method):
    path = tmp_path / "graph.npz"
    save(path, {"edge_index": np.zeros((2, 0), dtype=int)})
    stream = io.BytesIO()
    np.save(stream, np.zeros(3, dtype=int))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y.npy", stream.getvalue(), compress_type=method)
    with pytest.raises(InputError, match=r"graph\.npz: 'y' is packed by another method"):
        read_npz(path)
    packed = tmp_path / "tiny.zip"
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("tiny/raw/node-label.csv.gz", gzip.compress(b"0\n"))
    with pytest.raises(InputError, match=r"node-label\.csv\.gz is packed by another method"):
        find_parser("ogb")({packed.name: packed})


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("y.npy", "y.npy"), ("y.npy", "y"), ("y", "y.npy")])
def test_a_member_that_is_there_twice_is_refused(tmp_path, names):
    members = plain_members()
    labels, stream = members.pop("y"), io.BytesIO()
    np.save(stream, labels)
    path = save(tmp_path / "graph.npz", members)
    with zipfile.ZipFile(path, "a") as archive:
        for name in names:
            archive.writestr(name, stream.getvalue())
    with pytest.raises(InputError, match=rf"graph\.npz: '{names[1]}' is in it twice"):
        read_npz(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_table_that_is_there_twice_is_refused(tmp_path):
    path = ogb_file(tmp_path / "tiny.zip", gzip.compress(b"0\n"))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("tiny/raw/node-label.csv.gz", gzip.compress(b"1\n"))
    with pytest.raises(InputError, match=r"node-label\.csv\.gz' is in it twice"):
        find_parser("ogb")({path.name: path})


@pytest.mark.parametrize("parts", [1, 3])
def test_a_matlab_file_that_unpacks_to_too_much(tmp_path, parts):
    content = {"A": csc_array(np.eye(200)), "local_info": np.ones((200, 7))}
    path = tmp_path / "Tiny1.mat"
    savemat(path, content | {"more": np.zeros(1 << 18)}, do_compression=True)
    assert len(find_parser("facebook100")({path.name: path}).labels) == 200
    zeros = {f"more{part}": np.zeros((258 << 20) // parts, np.uint8) for part in range(parts)}
    savemat(path, content | zeros, do_compression=True)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(InputError, match=r"Tiny1\.mat unpacks to more, more than the 268435456"):
        find_parser("facebook100")({path.name: path})
