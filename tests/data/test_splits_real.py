"""Splits of real graphs against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from ncgnn.data import make_split, split_report
from ncgnn.data.npz import SHIPPED_SPLITS

#: The paper's rule: train share in percent, classes never evaluated, classes, and the accuracy in
#: percent of always answering the commonest evaluated class.
PAPER_RULE = {
    "pubmed": (60, 0, 3, "49.8"),
    "photo": (54, 2, 8, "39.0"),
    "computers": (45, 6, 10, "57.2"),
    "coauthor-cs": (50, 6, 15, "36.9"),
    "coauthor-physics": (54, 2, 5, "84.1"),
    "actor": (59, 1, 5, "34.0"),
    "chameleon-filtered": (60, 0, 5, "38.0"),
    "squirrel-filtered": (59, 1, 5, "53.0"),
}


@pytest.fixture
def load(real_data_dir):
    def read(name: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        keys = [key for parts in SHIPPED_SPLITS.values() for key in parts]
        with np.load(real_data_dir / f"{name}.npz", allow_pickle=False) as content:
            return content["y"], {key: content[key] for key in keys if key in content.files}

    return read


@pytest.mark.parametrize("name", PAPER_RULE)
def test_the_paper_rule_on_the_paper_graphs(load, name):
    labels, _ = load(name)
    share, unseen, num_classes, majority = PAPER_RULE[name]
    baselines = []
    for seed in range(10):
        report = split_report(make_split(labels, "paper", seed, warn=False), labels)
        assert report.num_classes == num_classes
        assert round(100 * report.train.share) == share
        assert len(report.never_evaluated) == unseen
        # How many nodes of each class are left does not depend on the draw; only how they fall
        # on validation and test does.
        left = np.array(report.val.class_counts) + np.array(report.test.class_counts)
        assert f"{100 * left.max() / left.sum():.1f}" == majority
        baselines.append(100 * report.majority_baseline)
        assert report.majority_class == left.argmax() or name == "pubmed"
    spread = np.std(baselines) / np.sqrt(len(baselines))
    assert abs(np.mean(baselines) - float(majority)) < 4 * spread + 0.1


@pytest.mark.parametrize(
    ("name", "family", "sizes"),
    [
        ("cora", "planetoid", (140, 500, 1000)),
        ("citeseer", "planetoid", (120, 500, 1000)),
        ("pubmed", "planetoid", (60, 500, 1000)),
        ("photo", "uniform", (4590, 1530, 1530)),
        ("computers", "uniform", (8251, 2750, 2751)),
        ("coauthor-cs", "uniform", (10999, 3666, 3668)),
        ("coauthor-physics", "uniform", (20695, 6898, 6900)),
    ],
)
def test_the_shipped_split_has_its_documented_sizes(load, name, family, sizes):
    labels, shipped = load(name)
    splits = [make_split(labels, family, seed, shipped=shipped) for seed in range(2)]
    assert splits[0].sha256 == splits[1].sha256
    assert splits[0].origin == "shipped"
    assert (splits[0].train.size, splits[0].val.size, splits[0].test.size) == sizes
    drawn = make_split(labels, family)
    assert (drawn.train.size, drawn.val.size, drawn.test.size) == sizes
    assert drawn.origin == "drawn"


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("actor-undirected", (3648, 2432, 1520)),
        ("chameleon", (1092, 729, 456)),
        ("squirrel", (2496, 1664, 1041)),
        ("texas", (87, 59, 37)),
        ("wisconsin", (120, 80, 51)),
        ("minesweeper", (5000, 2500, 2500)),
        ("tolokers", (5879, 2939, 2940)),
    ],
)
def test_the_ten_published_masks(load, name, sizes):
    labels, shipped = load(name)
    hashes = []
    for seed in range(11):
        split = make_split(labels, "published", seed, shipped=shipped, warn=False)
        assert (split.train.size, split.val.size, split.test.size) == sizes
        assert np.array_equal(split.train, np.flatnonzero(shipped["train_masks"][seed % 10]))
        hashes.append(split.sha256)
    assert len(set(hashes)) == 10
    assert hashes[0] == hashes[10]


@pytest.mark.parametrize(
    ("name", "shares"), [("chameleon-filtered", (46, 32, 22)), ("squirrel-filtered", (47, 32, 20))]
)
def test_the_first_published_mask_of_the_filtered_graphs(load, name, shares):
    labels, shipped = load(name)
    split = make_split(labels, "published", 0, shipped=shipped)
    sizes = (split.train.size, split.val.size, split.test.size)
    assert sum(sizes) == labels.size
    assert tuple(round(100 * size / labels.size) for size in sizes) == shares


@pytest.mark.parametrize("name", ["fb100-cornell5", "fb100-amherst41", "fb100-reed98"])
@pytest.mark.parametrize("family", ["paper", "stratified", "uniform"])
def test_unlabeled_nodes_are_in_no_split(load, name, family):
    labels, _ = load(name)
    split = make_split(labels, family)
    total = int((labels >= 0).sum())
    assert total < labels.size
    assert split.train.size + split.val.size + split.test.size == total
    assert (labels[np.concatenate([split.train, split.val, split.test])] >= 0).all()
    assert split.train.size / total == pytest.approx(0.6, abs=0.03)
