from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from ncgnn.data.sources import find_parser
from ncgnn.errors import DataNotFoundError, InputError

ADJACENCY = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
FEATURES = np.arange(1.0, 9.0).reshape(4, 2)
CLASSES = {"0": 2, "1": 0, "3": 1}
ROLES = {"tr": [0, 3], "va": [1], "te": []}


def write(folder, adjacency=ADJACENCY, features=FEATURES, classes=CLASSES, roles=ROLES):
    files = {
        name: folder / name for name in ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
    }
    save_npz(files["adj_full.npz"], csr_matrix(adjacency))
    np.save(files["feats.npy"], features, allow_pickle=True)
    files["class_map.json"].write_text(classes if isinstance(classes, str) else json.dumps(classes))
    files["role.json"].write_text(roles if isinstance(roles, str) else json.dumps(roles))
    return files


def test_graph_labels_and_split(tmp_path):
    arrays = find_parser("graphsaint")(write(tmp_path))
    assert set(map(tuple, arrays.edge_index().T.tolist())) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert arrays.edge_index().shape == (2, 4)
    assert arrays.labels.tolist() == [2, 0, -1, 1]
    np.testing.assert_array_equal(arrays.features, FEATURES)
    assert arrays.features.dtype == np.float32
    assert arrays.shipped_splits["train_masks"].tolist() == [[True, False, False, True]]
    assert arrays.shipped_splits["val_masks"].tolist() == [[False, True, False, False]]
    assert not arrays.shipped_splits["test_masks"].any()


BAD = {
    "adjacency not square": ({"adjacency": np.ones((4, 5))}, "adj_full"),
    "features too short": ({"features": np.ones((3, 2))}, "feats"),
    "features flat": ({"features": np.ones(4)}, "feats"),
    "features are NaN": ({"features": np.full((4, 2), np.nan)}, "features"),
    "features pickled": ({"features": np.array([[{}]] * 4, dtype=object)}, "feats"),
    "classes are no JSON": ({"classes": "{"}, "class_map"),
    "classes are a list": ({"classes": [1, 2]}, "class_map"),
    "a class for nobody": ({"classes": {"4": 1}}, "class_map"),
    "a class for text": ({"classes": {"x": 1}}, "class_map"),
    "several classes": ({"classes": {"0": [0, 1]}}, "class_map"),
    "a negative class": ({"classes": {"0": -1}}, "class_map"),
    "roles are no JSON": ({"roles": "nothing"}, "role"),
    "no test part": ({"roles": {"tr": [0], "va": [1]}}, "role"),
    "a role for nobody": ({"roles": ROLES | {"te": [4]}}, "role"),
    "a role for text": ({"roles": ROLES | {"te": ["2"]}}, "role"),
    "roles overlap": ({"roles": ROLES | {"te": [0]}}, "test_masks"),
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_are_named(tmp_path, case):
    changes, name = BAD[case]
    with pytest.raises(InputError, match=name) as caught:
        find_parser("graphsaint")(write(tmp_path, **changes))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", ["adj_full.npz", "feats.npy", "class_map.json", "role.json"])
def test_truncated_and_missing_files(tmp_path, name):
    files = write(tmp_path)
    content = files[name].read_bytes()
    files[name].write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=name):
        find_parser("graphsaint")(files)
    files[name].unlink()
    with pytest.raises(DataNotFoundError, match=name):
        find_parser("graphsaint")(files)
