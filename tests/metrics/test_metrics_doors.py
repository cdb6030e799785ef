"""What comes in through the arguments of the metrics."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.metrics.confusion import TorchConfusion

SQUARE = np.array([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])


def data_of_four_classes():
    from torch_geometric.data import Data

    return Data(edge_index=torch.from_numpy(SQUARE), y=torch.tensor([0, 1, 2, 3]))


def test_predictions_that_miss_a_class_keep_the_scale_of_the_graph():
    data = data_of_four_classes()
    predictions = torch.tensor([0, 1, 1, 0])
    of_data = ncgnn.neighborhood_confusion(data, labels=predictions)
    of_graph = ncgnn.neighborhood_confusion(ncgnn.Graph.from_pyg(data), labels=predictions)
    assert np.array_equal(of_data, of_graph)
    shares = ncgnn.neighborhood_class_distribution(data, labels=predictions)
    assert shares.shape == (4, 4)
    with pytest.raises(InputError, match="class 7"):
        ncgnn.neighborhood_confusion(data, labels=[0, 1, 2, 7])


def test_isolated_nodes_at_the_end_of_a_data_count():
    from torch_geometric.data import Data

    data = Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, 1]))
    assert ncgnn.neighborhood_confusion(data).tolist() == [0, 1, 0]


def test_bad_features_do_not_matter_to_labels():
    data = data_of_four_classes()
    data.x = torch.full((4, 2), float("nan"))
    assert ncgnn.neighborhood_confusion(data).shape == (4,)
    with pytest.raises(InputError, match="NaN"):
        ncgnn.Graph.from_pyg(data)


def test_gaps_between_classes_warn():
    with pytest.warns(NcgnnWarning, match="no node has class 0"):
        ncgnn.neighborhood_confusion(SQUARE, labels=[10, 10, 20, 20])
    with pytest.raises(InputError, match="without gaps"):
        ncgnn.neighborhood_confusion(SQUARE, labels=[0, 1, 2, 10**6])
    assert ncgnn.neighborhood_confusion(SQUARE, [0, 2, 2, 0], num_classes=5).max() < 1


@pytest.mark.parametrize("hops", [0, -1, 1.5, float("nan"), "2", None, [1, 2], 10**30])
def test_hop_counts_are_whole_numbers(hops):
    with pytest.raises(InputError, match="hops"):
        ncgnn.neighborhood_confusion(SQUARE, [0, 1, 0, 1], hops=hops)


def test_very_many_hops_end():
    values = ncgnn.neighborhood_confusion(SQUARE, [0, 1, 0, 1], hops=2**31 - 1)
    assert values.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("num_classes", [0, -1, 2.5, "3", 10**11])
def test_numbers_of_classes_are_checked(num_classes):
    with pytest.raises(InputError, match="num_classes"):
        ncgnn.neighborhood_confusion(SQUARE, [0, 1, 0, 1], num_classes=num_classes)


@pytest.mark.parametrize("classes", range(2, 130))
def test_equally_common_classes_are_exactly_one(classes):
    star = np.stack([np.arange(1, classes), np.zeros(classes - 1, dtype=int)])
    assert ncgnn.neighborhood_confusion(star, np.arange(classes))[0] == 1


@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([0, 1, 2, 4]),
        torch.tensor([0, 1, 2, -7]),
        torch.tensor([0.0, 1.7, 2.0, 3.0]),
        torch.tensor([0, 1, 2, 3, 0]),
    ],
)
def test_the_torch_path_refuses_what_the_other_refuses(labels):
    tracker = ncgnn.ConfusionTracker(SQUARE, num_classes=4)
    with pytest.raises(InputError):
        tracker(labels)
    with pytest.raises(InputError):
        TorchConfusion(tracker, "cpu")(labels)


def test_misspelt_neighborhoods_are_refused_at_once():
    with pytest.raises(InputError, match="clsoed"):
        ncgnn.ConfusionTracker(SQUARE, num_classes=2, neighborhood="clsoed")


def test_masks_answer_in_kind():
    low, high = ncgnn.confusion_masks(torch.tensor([0.2, 0.5, 0.9, float("nan")]), 0.5)
    assert isinstance(low, torch.Tensor)
    assert high.tolist() == [False, False, True, False]
    assert ncgnn.confusion_masks([0.2, 0.9], 0.5)[1].tolist() == [False, True]
    for threshold in (float("nan"), "a", None, -0.1, 1.1):
        with pytest.raises(InputError, match="threshold"):
            ncgnn.confusion_masks([0.2], threshold)


def test_analysis_with_more_classes_than_labels():
    graph = ncgnn.generate(40, 90, classes=2)
    wide = ncgnn.analyze(graph, num_classes=5)
    assert wide.class_pairs.shape == (5, 5)
    assert wide.to_json()["classes"] == 5
    other = ncgnn.analyze(graph, labels=np.arange(40) % 5, num_classes=5, hops=3)
    assert list(other.high_share) == [3]
    with pytest.raises(InputError, match="hops"):
        ncgnn.analyze(graph, hops=())
    with pytest.raises(InputError, match="threshold"):
        ncgnn.analyze(graph, threshold=2)


def test_class_pairs_do_not_depend_on_threads():
    graph = ncgnn.generate(60_000, 300_000, classes=7, homophily=0.4)
    before = numba.get_num_threads()
    found = set()
    try:
        for threads in range(1, before + 1):
            numba.set_num_threads(threads)
            found.add(ncgnn.label_informativeness(graph, kind="node"))
    finally:
        numba.set_num_threads(before)
    assert len(found) == 1


def test_unknown_kinds_are_refused_without_edges_too():
    with pytest.raises(InputError, match="bogus"):
        ncgnn.label_informativeness(np.zeros((2, 0), dtype=int), [0, 1], kind="bogus")


def test_the_transform_says_what_is_missing():
    data = data_of_four_classes()
    assert ncgnn.AddNeighborhoodConfusion([1, 2])(data).nc.shape == (4, 2)
    data.y = None
    with pytest.raises(InputError, match="'y'"):
        ncgnn.AddNeighborhoodConfusion()(data)


def test_a_graph_without_any_label_is_refused():
    bare = ncgnn.Graph.from_edge_index(SQUARE, num_classes=3, require_labels=False)
    with pytest.raises(InputError, match="no labels"):
        ncgnn.neighborhood_confusion(bare)
