from __future__ import annotations

import gzip
import zipfile

import numpy as np
import pytest

from ncgnn.data.sources import find_parser
from ncgnn.errors import DataNotFoundError, InputError

TABLES = {
    "raw/edge.csv.gz": "0,1\n2,0\n0,1\n1,1\n",
    "raw/node-feat.csv.gz": "0.5,-1.25\n1e-3,2\n3,4\n",
    "raw/node-label.csv.gz": "2\n0\n1\n",
    "raw/node_year.csv.gz": "2001\n2002\n2003\n",
    "split/time/train.csv.gz": "2\n0\n",
    "split/time/valid.csv.gz": "1\n",
    "split/time/test.csv.gz": "",
}


def write(folder, **changes):
    path = folder / "tiny.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (TABLES | changes).items():
            if content is not None:
                packed = content if isinstance(content, bytes) else gzip.compress(content.encode())
                archive.writestr(f"tiny/{name}", packed)
    return {path.name: path}


def test_edges_as_listed_and_the_time_split(tmp_path):
    files = write(tmp_path)
    arrays = find_parser("ogb")(files)
    assert arrays.edge_index().tolist() == [[2, 0, 1], [0, 1, 1]]
    assert arrays.merged_duplicates == 1
    assert arrays.labels.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(
        arrays.features, np.array([[0.5, -1.25], [1e-3, 2], [3, 4]], dtype=np.float32)
    )
    assert arrays.shipped_splits["train_masks"].tolist() == [[True, False, True]]
    assert arrays.shipped_splits["val_masks"].tolist() == [[False, True, False]]
    assert arrays.shipped_splits["test_masks"].tolist() == [[False, False, False]]
    assert list(tmp_path.iterdir()) == [files["tiny.zip"]]


BAD = {
    "edges missing": {"raw/edge.csv.gz": None},
    "split missing": {"split/time/valid.csv.gz": None},
    "not compressed": {"raw/edge.csv.gz": b"0,1\n"},
    "cut off": {"raw/node-feat.csv.gz": gzip.compress(b"0.5,1\n" * 99)[:-12]},
    "text": {"raw/edge.csv.gz": "source,target\n0,1\n"},
    "ragged": {"raw/node-feat.csv.gz": "1,2\n1\n1,2\n"},
    "three ends": {"raw/edge.csv.gz": "0,1,2\n"},
    "edge outside": {"raw/edge.csv.gz": "0,3\n"},
    "edge negative": {"raw/edge.csv.gz": "0,-1\n"},
    "two labels": {"raw/node-label.csv.gz": "1,2\n1,2\n1,2\n"},
    "no labels": {"raw/node-label.csv.gz": ""},
    "features too short": {"raw/node-feat.csv.gz": "1,2\n"},
    "features are NaN": {"raw/node-feat.csv.gz": "nan,2\n1,2\n1,2\n"},
    "split outside": {"split/time/test.csv.gz": "3\n"},
    "split overlaps": {"split/time/test.csv.gz": "1\n"},
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_are_named(tmp_path, case):
    with pytest.raises(InputError, match=r"tiny\.zip"):
        find_parser("ogb")(write(tmp_path, **BAD[case]))


def test_other_and_missing_files(tmp_path):
    files = write(tmp_path)
    files["tiny.zip"].write_bytes(b"no zip file")
    with pytest.raises(InputError, match=r"tiny\.zip is not a readable zip file"):
        find_parser("ogb")(files)
    files["tiny.zip"].unlink()
    with pytest.raises(DataNotFoundError, match=r"tiny\.zip"):
        find_parser("ogb")(files)


def test_members_with_hostile_names_are_left_alone(tmp_path):
    files = write(tmp_path, **{"../../escaped.txt": gzip.compress(b"x")})
    find_parser("ogb")(files)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.zip"]
    assert not (tmp_path.parent / "escaped.txt").exists()
