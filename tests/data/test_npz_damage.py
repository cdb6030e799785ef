"""Whatever happens to the bytes of a graph file, it loads or gives one clear error."""

from __future__ import annotations

import contextlib
import io
import zipfile

import numpy as np
import pytest
from graph_files import plain_members, save

from ncgnn.data.npz import read_npz
from ncgnn.errors import InputError


def loads_or_is_refused(path) -> None:
    with contextlib.suppress(InputError):
        read_npz(path)


@pytest.mark.filterwarnings("ignore:.*did you mean:ncgnn.errors.NcgnnWarning")
def test_flipped_bytes_are_refused_or_harmless(tmp_path):
    members = {key: plain_members()[key] for key in ("edge_index", "y", "train_masks", "origin")}
    members |= {"val_masks": members["train_masks"] ^ True}
    members |= {"test_masks": np.zeros((1, 4), dtype=bool), "x": np.ones((4, 1))}
    whole = save(tmp_path / "whole.npz", members).read_bytes()
    path = tmp_path / "graph.npz"
    for position in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[position] ^= (0xFF, 0x01, 0x80, 0x10)[position % 4]
        path.write_bytes(damaged)
        loads_or_is_refused(path)


def test_cut_off_files_are_refused(tmp_path):
    whole = save(tmp_path / "whole.npz", plain_members()).read_bytes()
    path = tmp_path / "graph.npz"
    for length in range(0, len(whole), 5):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            read_npz(path)


@pytest.mark.parametrize("key", plain_members())
def test_flipped_bytes_under_a_right_checksum(tmp_path, key):
    """The zip checksum hides most damage; here the member itself is wrong."""
    members = {}
    for name, array in plain_members().items():
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        members[name] = stream.getvalue()
    path = tmp_path / "graph.npz"
    for position in range(len(key) % 2, len(members[key]), 2):
        damaged = bytearray(members[key])
        damaged[position] ^= (0x01, 0xFF, 0x10)[position % 3]
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in (members | {key: bytes(damaged)}).items():
                archive.writestr(f"{name}.npy", content)
        loads_or_is_refused(path)
