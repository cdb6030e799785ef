"""The split itself: its hash, masks and file, splits of one's own, and the report."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncgnn.data import Split, custom_split, make_split, split_report
from ncgnn.errors import InputError
from ncgnn.graph import Graph

LABELS = np.array([0, 0, 1, 1, 2, 2, -1, 1])


@pytest.fixture
def split() -> Split:
    return Split("stratified", "drawn", 3, np.array([5, 0]), np.array([2]), np.array([7, 4, 1]))


def test_the_parts_are_sorted_read_only_int64(split):
    assert split.train.tolist() == [0, 5]
    assert split.test.tolist() == [1, 4, 7]
    for part in (split.train, split.val, split.test):
        assert part.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1


def test_the_hash_follows_its_definition(split):
    form = (
        b"train\0" + struct.pack("<qqq", 2, 0, 5)
        + b"val\0" + struct.pack("<qq", 1, 2)
        + b"test\0" + struct.pack("<qqqq", 3, 1, 4, 7)
    )  # fmt: skip
    assert split.sha256 == hashlib.sha256(form).hexdigest()


def test_the_hash_names_the_nodes_and_nothing_else(split):
    same = Split("custom", "custom", None, np.array([0, 5]), split.val, split.test)
    moved = Split("stratified", "drawn", 3, split.val, split.train, split.test)
    assert same.sha256 == split.sha256
    assert same != split
    assert moved.sha256 != split.sha256
    assert split == copy.deepcopy(split) == pickle.loads(pickle.dumps(split))
    assert len({split, copy.deepcopy(split), same}) == 2
    assert split != "split"


def test_masks(split):
    train, val, test = split.masks(8)
    assert np.flatnonzero(train).tolist() == [0, 5]
    assert np.flatnonzero(val).tolist() == [2]
    assert np.flatnonzero(test).tolist() == [1, 4, 7]
    with pytest.raises(InputError, match="node 7, but the graph has only 7"):
        split.masks(7)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [1], []), "node 1 is in a split more than once"),
        (([0, 0], [1], []), "node 0 is in a split more than once"),
        (([-1, 0], [], []), "node -1"),
    ],
)
def test_a_split_cannot_be_unsound(parts, message):
    with pytest.raises(InputError, match=message):
        Split("custom", "custom", None, *(np.array(part, dtype=int) for part in parts))


@pytest.mark.parametrize("part", [[0.7, 1.2], [0.0], [True, False], ["0"], [[0, 1]], [[0], []]])
def test_a_part_holds_node_indices(part):
    with pytest.raises(InputError, match=r"train (must be node indices|cannot be read)"):
        Split("custom", "custom", None, part, [], [])


def test_the_origin_is_one_of_three(split):
    with pytest.raises(InputError, match="origin"):
        Split("custom", "found", None, split.train, split.val, split.test)


@given(parts=st.lists(st.integers(0, 2), max_size=30), seed=st.none() | st.integers(0, 2**80))
@settings(deadline=None)
def test_json_gives_the_split_back(parts, seed):
    train, val, test = (np.flatnonzero(np.array(parts, dtype=int) == part) for part in range(3))
    split = Split("temporal", "drawn", seed, train, val, test)
    assert Split.from_json(json.loads(json.dumps(split.to_json()))) == split


def test_a_file_gives_the_split_back(split, tmp_path):
    path = tmp_path / "new" / "split.json"
    split.save(path)
    assert Split.load(path) == split
    assert [entry.name for entry in path.parent.iterdir()] == ["split.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": [0, 6]}, "sha256: the nodes have the hash"),
        ({"sha256": "0" * 64}, "sha256: the nodes have the hash"),
        ({"sha256": None}, "sha256: must be a non-empty string"),
        ({"val": None}, "val: must be a list of node indices"),
        ({"val": [1.0]}, r"val\[0\]: must be a node index; got 1.0"),
        ({"val": [True]}, r"val\[0\]"),
        ({"test": [1, -4]}, r"test\[1\]: must be a node index; got -4"),
        ({"test": [2**63]}, r"test\[0\]"),
        ({"test": [0]}, "node 0 is in a split more than once"),
        ({"seed": "3"}, "seed: must be an integer or null"),
        ({"family": ""}, "family: must be a non-empty string"),
        ({"origin": "found"}, "origin must be one of"),
    ],
)
def test_a_bad_file_is_named_with_its_field(split, tmp_path, change, message):
    path = tmp_path / "split.json"
    path.write_text(json.dumps(split.to_json() | change))
    with pytest.raises(InputError, match=rf"split\.json: {message}"):
        Split.load(path)


@pytest.mark.parametrize("field", ["family", "origin", "seed", "train", "val", "test", "sha256"])
def test_a_missing_field_is_named(split, field):
    record = split.to_json()
    del record[field]
    with pytest.raises(InputError, match=f"{field}: the field is missing"):
        Split.from_json(record)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[1]", b"null"])
def test_what_is_not_a_split_is_refused(tmp_path, content):
    path = tmp_path / "split.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"split\.json: (not a readable JSON|a split must be)"):
        Split.load(path)
    with pytest.raises(InputError, match=r"absent\.json"):
        Split.load(tmp_path / "absent.json")


def test_custom_split_takes_masks_and_indices():
    mask = np.zeros(8, dtype=bool)
    mask[[0, 5]] = True
    split = custom_split(mask, [2], np.array([7, 4, 1], dtype=np.uint8), labels=LABELS)
    assert (split.family, split.origin, split.seed) == ("custom", "custom", None)
    assert (split.train.tolist(), split.val.tolist()) == ([0, 5], [2])
    assert split.test.tolist() == [1, 4, 7]
    assert custom_split([0], [], [], labels=LABELS).test.size == 0


def test_custom_split_takes_tensors():
    torch = pytest.importorskip("torch")
    mask = torch.zeros(8, dtype=torch.bool)
    mask[:2] = True
    split = custom_split(
        mask, torch.tensor([2]), torch.tensor([], dtype=torch.long), labels=torch.tensor(LABELS)
    )
    assert (split.train.tolist(), split.val.tolist()) == ([0, 1], [2])


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise TypeError("it is on another device")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([], [0], [1]), "train is empty"),
        ((np.zeros(8, dtype=bool), [0], [1]), "train is empty"),
        (([0, 1], [1], []), "node 1 is in a split more than once"),
        (([0], [2], [3, 2]), "node 2 is in a split more than once"),
        (([0, 8], [], []), "train names node 8, but the graph has 8 nodes"),
        (([0], [-1], []), "val names node -1"),
        (([0], [6], []), "val holds 1 unlabeled nodes, for example node 6"),
        (([0, 1, 0, 1, 0, 0, 0, 0], [], []), "more than once; a mask must be of boolean type"),
        ((np.ones(7, dtype=bool), [], []), "mask of 7 nodes, but the graph has 8"),
        (([0.0], [], []), "boolean mask or node indices"),
        (([[0]], [], []), "boolean mask or node indices"),
        ((Unreadable(), [], []), "train cannot be read as an array .*it is on another device"),
    ],
)
def test_custom_split_names_what_is_wrong(parts, message):
    with pytest.raises(InputError, match=message):
        custom_split(*parts, labels=LABELS)


def test_the_report_of_a_split(split):
    report = split_report(split, LABELS, 4)
    assert (report.labeled, report.num_classes, report.sha256) == (7, 4, split.sha256)
    assert report.train.class_counts == (1, 0, 1, 0)
    assert report.train.share == 2 / 7
    assert report.absent == {"train": (1,), "val": (0, 2), "test": ()}
    assert report.never_evaluated == ()
    assert (report.majority_class, report.majority_baseline) == (0, 1 / 3)


def test_the_report_is_plain_json(split):
    record = split_report(split, LABELS).to_json()
    assert json.loads(json.dumps(record)) == record
    assert record["test"] == {
        "size": 3,
        "share": 3 / 7,
        "class_counts": [1, 1, 1],
        "absent": [],
    }


def test_the_report_without_test_nodes():
    split = custom_split([0, 2], [4], [], labels=LABELS)
    report = split_report(split, LABELS)
    assert report.majority_class is None
    assert report.majority_baseline is None
    assert report.never_evaluated == (0, 1)


def test_the_report_refuses_a_split_of_another_graph(split):
    with pytest.raises(InputError, match="node 7, but the graph has only 5"):
        split_report(split, LABELS[:5])
    with pytest.raises(InputError, match="val holds node 2, which has no label"):
        split_report(split, np.where(np.arange(8) == 2, -1, LABELS))


def shipped_graph(**splits) -> Graph:
    no_edges = np.zeros((2, 0), dtype=int)
    return Graph.from_edge_index(no_edges, labels=np.arange(10) % 2, shipped_splits=splits)


def masks(*variants: list[int]) -> np.ndarray:
    return np.array([np.isin(np.arange(10), nodes) for nodes in variants])


def test_a_graph_brings_its_own_masks():
    graph = shipped_graph(
        train_masks=masks([0, 1], [2, 3]),
        val_masks=masks([4, 5], [6, 7]),
        test_masks=masks([6, 7], [8, 9]),
    )
    first, second, third = (make_split(graph, "published", seed) for seed in range(3))
    assert first.train.tolist() == [0, 1]
    assert second.train.tolist() == [2, 3]
    assert (third.sha256, third.seed, third.origin) == (first.sha256, 2, "shipped")
    partly = graph.with_labels(np.where(np.arange(10) == 0, -1, graph.labels))
    assert make_split(partly, "published").train.tolist() == [1]


@pytest.mark.parametrize("family", ["planetoid", "uniform"])
def test_a_shipped_split_serves_every_seed(family):
    parts = {"train": [1, 0], "val": [2, 3], "test": [9, 4]}
    graph = shipped_graph(**{f"{family}_{name}": np.array(part) for name, part in parts.items()})
    first, second = make_split(graph, family, 0), make_split(graph, family, 1)
    assert first.sha256 == second.sha256
    assert (first.train.tolist(), first.origin) == ([0, 1], "shipped")
    with pytest.raises(InputError, match=r"sizes of this .* split are fixed"):
        make_split(graph, family, fractions=(0.5, 0.25, 0.25))
    with pytest.raises(InputError, match=rf"train_masks.*it ships '{family}', and families"):
        make_split(graph, "published")


def test_without_masks_the_alternatives_are_named():
    drawn = "families 'stratified', 'paper' and 'uniform'"
    with pytest.raises(InputError, match=rf"ships no published masks .*; {drawn} can be drawn"):
        make_split([0, 1], "published")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_masks": None}, "ships train_masks, val_masks but not test_masks"),
        (
            {"test_masks": masks([8])[:, :9]},
            r"must be bool \[variants, 10\]",
        ),
        ({"test_masks": masks([8], [9])[:, :9]}, r"test_masks must be .* got bool \[2, 9\]"),
        ({"test_masks": masks([8]) * 2}, "test_masks must be .* got int64"),
        ({"test_masks": masks([0])}, "node 0 is in a split more than once"),
        ({"train_masks": masks([])}, "no training node"),
    ],
)
def test_unsound_masks_are_named(change, message):
    shipped = {"train_masks": masks([0]), "val_masks": masks([1]), "test_masks": masks([2])}
    shipped |= change
    shipped = {key: value for key, value in shipped.items() if value is not None}
    with pytest.raises(InputError, match=message):
        make_split(np.arange(10) % 2, "published", shipped=shipped)


@pytest.mark.parametrize("train", [[0.5], [10], [-1]])
def test_unsound_indices_are_named(train):
    parts = {"uniform_train": train, "uniform_val": [1], "uniform_test": [2]}
    shipped = {key: np.array(part) for key, part in parts.items()}
    with pytest.raises(InputError, match="uniform_train"):
        make_split(np.arange(10) % 2, "uniform", shipped=shipped)
