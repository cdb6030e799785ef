"""Neighborhood Confusion for labels that change: every way to compute it gives the same values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_strategies import cases, drawn_case, labels_of, larger_cases

from ncgnn.errors import InputError
from ncgnn.graph import Graph
from ncgnn.metrics import ConfusionTracker, confusion_masks, neighborhood_confusion
from ncgnn.metrics import confusion as _confusion
from ncgnn.metrics.confusion import TorchConfusion

NEIGHBORHOODS = ["closed", "open"]


def same(one, other):
    return np.array_equal(one, other, equal_nan=True)


def check_all_ways(case, labels, hops, neighborhood, empty):
    graph = case.graph()
    options = {"hops": hops, "neighborhood": neighborhood, "empty": empty}
    stored = ConfusionTracker(graph, **options)
    streamed = ConfusionTracker(graph, **options, memory_budget=0)
    assert stored.neighborhoods.stored
    assert streamed.neighborhoods.stored == (hops == 1)
    expected = neighborhood_confusion(graph, labels, **options)
    assert same(stored(np.array(labels)), expected)
    assert same(streamed(np.array(labels)), expected)
    values = TorchConfusion(stored, "cpu")(torch.tensor(labels))
    assert values.dtype == torch.float64
    np.testing.assert_allclose(values.numpy(), expected, atol=1e-12)


@given(
    case=cases(),
    data=st.data(),
    hops=st.integers(1, 3),
    neighborhood=st.sampled_from(NEIGHBORHOODS),
    empty=st.sampled_from([float("nan"), 0.0]),
)
@settings(deadline=None, max_examples=80)
def test_stored_streamed_and_torch_agree(case, data, hops, neighborhood, empty):
    labels = data.draw(labels_of(case.num_nodes, case.num_classes))
    check_all_ways(case, labels, hops, neighborhood, empty)


@given(case=larger_cases(), hops=st.integers(1, 3), neighborhood=st.sampled_from(NEIGHBORHOODS))
@settings(deadline=None, max_examples=25)
def test_stored_streamed_and_torch_agree_on_larger_graphs(case, hops, neighborhood):
    check_all_ways(case, case.labels, hops, neighborhood, float("nan"))


def test_torch_counts_in_parts(monkeypatch):
    monkeypatch.setattr(_confusion, "_PAIRS_AT_ONCE", 7)
    case = drawn_case(2, 60, 5, 4, unlabeled=0.2)
    check_all_ways(case, case.labels, 2, "closed", 0.0)


def test_the_way_for_other_devices_is_prepared_once():
    case = drawn_case(2, 60, 5, 4)
    tracker = ConfusionTracker(case.graph(), 2)
    prepared = tracker._torch_path(torch.device("cpu"))
    assert tracker._torch_path(torch.device("cpu")) is prepared
    values = prepared(torch.tensor(case.labels)).numpy()
    np.testing.assert_allclose(values, tracker(np.array(case.labels)), atol=1e-12)


def test_one_tracker_serves_many_labels():
    case = drawn_case(5, 120, 4, 5)
    tracker = ConfusionTracker(case.graph(), 2)
    rng = np.random.default_rng(0)
    for _ in range(5):
        labels = rng.integers(-1, 5, case.num_nodes)
        assert same(tracker(labels), neighborhood_confusion(case.graph(), labels, 2))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float32])
def test_arrays_in_arrays_out(dtype):
    case = drawn_case(1, 40, 3, 3)
    values = ConfusionTracker(case.graph())(np.array(case.labels, dtype=dtype))
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    assert values.shape == (40,)
    assert same(values, neighborhood_confusion(case.graph()))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("memory_budget", [0, 1 << 30])
def test_tensors_in_tensors_out(dtype, hops, memory_budget):
    case = drawn_case(1, 40, 3, 3, unlabeled=0.3)
    tracker = ConfusionTracker(case.graph(), hops, memory_budget=memory_budget)
    values = tracker(torch.tensor(case.labels, dtype=dtype))
    assert isinstance(values, torch.Tensor)
    assert values.dtype == torch.float64
    assert values.device.type == "cpu"
    assert same(values.numpy(), neighborhood_confusion(case.graph(), hops=hops))


@pytest.mark.parametrize("budget_of", [lambda size: size - 1, lambda size: size])
def test_neighborhoods_are_stored_only_within_the_budget(budget_of):
    case = drawn_case(4, 100, 3, 2)
    free = ConfusionTracker(case.graph(), 2, memory_budget=1 << 30)
    starts, members = free.neighborhoods.pattern()
    needed = starts.nbytes + members.nbytes
    limited = ConfusionTracker(case.graph(), 2, memory_budget=budget_of(needed))
    assert limited.neighborhoods.stored == (budget_of(needed) >= needed)
    assert limited.neighborhoods.num_members == len(members)
    labels = np.array(case.labels)
    assert same(limited(labels), free(labels))


def test_patterns_that_are_not_stored_cannot_be_had():
    tracker = ConfusionTracker(drawn_case(4, 100, 3, 2).graph(), 2, memory_budget=0)
    with pytest.raises(InputError, match="memory_budget"):
        tracker.neighborhoods.pattern()


def test_the_number_of_classes_comes_from_the_graph_or_the_caller():
    edges = np.array([[0, 1], [1, 0]])
    bare = Graph.from_edge_index(edges, require_labels=False)
    assert ConfusionTracker(bare, num_classes=3).num_classes == 3
    assert ConfusionTracker(edges, num_classes=3)(np.array([0, 2])).tolist() == pytest.approx(
        [np.log(2) / np.log(3)] * 2
    )
    labeled = Graph.from_edge_index(edges, labels=[0, 1], num_classes=4)
    assert ConfusionTracker(labeled).num_classes == 4
    assert ConfusionTracker(labeled, num_classes=5).num_classes == 5
    with pytest.raises(InputError, match="num_classes"):
        ConfusionTracker(bare)
    with pytest.raises(InputError, match="num_classes"):
        ConfusionTracker(edges)


BAD_LABELS = {
    "too many": ([0, 1, 0], "3"),
    "too few": ([0], "1"),
    "unknown class": ([0, 2], "class 2"),
    "far class": ([0, 9], "class 9"),
    "below -1": ([0, -2], "-2"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
@pytest.mark.parametrize("to", [np.array, torch.tensor])
def test_wrong_labels_are_refused(case, to):
    labels, says = BAD_LABELS[case]
    tracker = ConfusionTracker(Graph.from_edge_index([[0, 1], [1, 0]], labels=[0, 1]))
    with pytest.raises(InputError, match=says):
        tracker(to(labels))


@pytest.mark.parametrize("case", BAD_LABELS)
def test_wrong_labels_are_refused_on_other_devices_too(case):
    tracker = ConfusionTracker(Graph.from_edge_index([[0, 1], [1, 0]], labels=[0, 1]))
    with pytest.raises(InputError):
        TorchConfusion(tracker, "cpu")(torch.tensor(BAD_LABELS[case][0]))


def test_wrong_options_are_refused():
    edges = np.array([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="hops"):
        ConfusionTracker(edges, 0, num_classes=2)
    with pytest.raises(InputError, match="neighborhood"):
        ConfusionTracker(edges, num_classes=2, neighborhood="ajar")(np.array([0, 1]))


def test_masks_divide_the_nodes_at_the_threshold():
    low, high = confusion_masks([0.0, 0.4, 0.5, 0.6, 1.0], 0.5)
    assert low.tolist() == [True, True, True, False, False]
    assert high.tolist() == [False, False, False, True, True]
    assert low.dtype == high.dtype == np.bool_


@given(
    st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=20),
    st.floats(0, 1),
)
@settings(deadline=None)
def test_every_node_is_in_one_mask(confusion, threshold):
    low, high = confusion_masks(np.array(confusion), threshold)
    assert np.array_equal(low, ~high)
    for value, is_high in zip(confusion, high, strict=True):
        if abs(value - threshold) > 1e-6:
            assert is_high == (value > threshold)


@pytest.mark.parametrize("num_classes", [2, 3, 5, 7, 10, 16, 40])
@pytest.mark.parametrize("top", [1, 2, 3])
def test_a_node_on_the_threshold_is_low(num_classes, top):
    # The threshold is computed in another way than NC, so the last digits may differ.
    for size in range(top, min(num_classes * top, 90) + 1):
        labels = [0] * top
        while len(labels) < size:
            labels.append(1 + (len(labels) - top) // top)
        edges = np.array([range(1, size), [0] * (size - 1)]).reshape(2, -1)
        confusion = neighborhood_confusion(edges, labels, num_classes=num_classes)[:1]
        threshold = min(np.log(size / top) / np.log(num_classes), 1.0)
        assert confusion_masks(confusion, threshold)[0].all()
        if threshold > 1e-3:
            assert confusion_masks(confusion, threshold - 1e-3)[1].all()


def test_undefined_confusion_is_low():
    low, high = confusion_masks([np.nan, 0.9], 0.0)
    assert low.tolist() == [True, False]
    assert high.tolist() == [False, True]


def test_masks_of_tensors():
    low, _ = confusion_masks(torch.tensor([0.1, 0.9], dtype=torch.float64), 0.5)
    assert low.tolist() == [True, False]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), float("inf")])
def test_thresholds_outside_zero_to_one_are_refused(threshold):
    with pytest.raises(InputError, match="threshold"):
        confusion_masks([0.5], threshold)


@pytest.mark.parametrize("num_classes", [0, -1, 2.5, "3"])
def test_numbers_of_classes_are_checked_before_any_labels_come(num_classes):
    graph = Graph.from_edge_index([[0, 1], [1, 0]], labels=[0, 1])
    with pytest.raises(InputError, match="num_classes"):
        ConfusionTracker(graph, num_classes=num_classes)
