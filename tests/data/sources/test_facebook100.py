from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_array

from ncgnn.data.sources import find_parser
from ncgnn.errors import DataNotFoundError, InputError

# Status, gender, major, second major, dormitory, year, high school.
TABLE = np.array(
    [
        [1, 1, 5, 0, 7, 2005, 100],
        [1, 2, 5, 0, 0, 2006, 101],
        [2, 0, 9, 3, 7, 0, 102],
    ],
    dtype=np.uint16,
)
FRIENDS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=np.float64)


def write(folder, **changes):
    path = folder / "Tiny1.mat"
    content = {"A": csc_array(FRIENDS), "local_info": TABLE} | changes
    savemat(path, {key: value for key, value in content.items() if value is not None})
    return {path.name: path}


def test_gender_is_the_class_and_the_rest_one_hot(tmp_path):
    arrays = find_parser("facebook100")(write(tmp_path))
    assert set(map(tuple, arrays.edge_index().T.tolist())) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert arrays.edge_index().shape == (2, 4)
    assert arrays.labels.tolist() == [0, 1, -1]
    # Values in rising order: status 1 2, major 5 9, second 0 3, dormitory 0 7, year 0 2005 2006,
    # high school 100 101 102.
    assert arrays.features.toarray().astype(int).tolist() == [
        [1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0],
        [1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 1],
    ]
    assert arrays.features.dtype == np.float32


def test_six_features_for_everybody(tmp_path):
    table = np.random.default_rng(0).integers(0, 3, (40, 7)).astype(np.float64)
    arrays = find_parser("facebook100")(write(tmp_path, A=csc_array(np.eye(40)), local_info=table))
    assert (np.diff(arrays.features.indptr) == 6).all()
    assert arrays.edge_index().shape == (2, 0)


BAD = {
    "no adjacency": {"A": None},
    "no table": {"local_info": None},
    "dense adjacency": {"A": FRIENDS},
    "table too short": {"local_info": TABLE[:2]},
    "table too narrow": {"local_info": TABLE[:, :6]},
    "table of text": {"local_info": np.array([["a"] * 7] * 3)},
    "table of fractions": {"local_info": TABLE + 0.5},
    "another gender code": {"local_info": TABLE + np.array([0, 2, 0, 0, 0, 0, 0])},
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_are_named(tmp_path, case):
    with pytest.raises(InputError, match=r"Tiny1\.mat"):
        find_parser("facebook100")(write(tmp_path, **BAD[case]))


@pytest.mark.parametrize("content", [b"", b"no MATLAB file", b"MATLAB 7.3 MAT-file".ljust(200)])
def test_other_files_are_named(tmp_path, content):
    path = tmp_path / "Tiny1.mat"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"Tiny1\.mat is not a readable MATLAB file"):
        find_parser("facebook100")({path.name: path})


def test_a_truncated_and_a_missing_file(tmp_path):
    files = write(tmp_path)
    path = files["Tiny1.mat"]
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InputError, match=r"Tiny1\.mat"):
        find_parser("facebook100")(files)
    path.unlink()
    with pytest.raises(DataNotFoundError, match=r"Tiny1\.mat"):
        find_parser("facebook100")(files)


def test_a_file_that_crashes_the_reader_of_scipy_is_an_error():
    """Found by fuzzing; scipy ends the process with a segmentation fault."""
    path = Path(__file__).with_name("crashes_scipy.mat")
    with pytest.raises(InputError, match=r"is not a readable MATLAB file .* get a fresh copy"):
        find_parser("facebook100")({path.name: path})
