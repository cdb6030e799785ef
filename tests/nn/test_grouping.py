"""Groups of nodes against confusion and homophily counted by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from drawn_graphs import CLASSES, drawn_graph

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph import Graph
from ncgnn.nn import NCGCN, Grouper, Grouping, GroupingRule, grouping, register_guidance

LABELS = np.array([0, 1, 2, 0, 1, 1, 2, 2, 0, -1, 1, 0, -1])


def around(A, node, hops):
    """The node and everyone from whom it is reached in so many steps."""
    reached = {node}
    for _ in range(hops):
        reached |= {j for i in reached for j in range(len(A)) if A[i, j]}
    return reached


def by_hand(A, labels, hops, guidance):
    values = []
    for node in range(len(A)):
        counter = Counter(labels[j] for j in around(A, node, hops) if labels[j] >= 0)
        if guidance == "nh":
            total = counter.total()
            same = counter[labels[node]] if labels[node] >= 0 else 0
            values.append(1 - same / total if total else 0.0)
        elif counter:
            share = max(counter.values()) / counter.total()
            values.append(-math.log(share) / math.log(CLASSES))
        else:
            values.append(math.nan)
    return np.array(values)


@pytest.mark.parametrize("guidance", ["nc", "nh"])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("thresholds", [(0.5,), (0.0,), (0.2, 0.6), (0.1, 0.3, 0.9)])
@pytest.mark.parametrize("kind", ["value", "quantile"])
@pytest.mark.parametrize("directed", [True, False])
def test_groups_are_those_counted_by_hand(guidance, hops, thresholds, kind, directed):
    labels = LABELS if guidance == "nc" else np.where(LABELS < 0, 0, LABELS)
    drawn = drawn_graph(3, directed=directed, density=0.15)
    rule = GroupingRule(hops=hops, thresholds=thresholds, guidance=guidance, kind=kind)
    found = Grouper(drawn.graph(), rule)(torch.from_numpy(labels))
    expected = by_hand(drawn.A.numpy(), labels, hops, guidance)
    assert np.allclose(found.confusion.numpy(), expected, equal_nan=True)
    values = thresholds if kind == "value" else np.nanquantile(expected, thresholds)
    group = sum((np.nan_to_num(expected) > value + 1e-9).astype(int) for value in values)
    assert found.group.tolist() == group.tolist()
    assert found.group.dtype == torch.int64
    assert found.confusion.dtype == torch.float64


def relative_by_hand(A, labels, hops):
    """NC over that of the most even spread of as many nodes over the classes."""
    values = []
    for node in range(len(A)):
        labeled = [labels[j] for j in around(A, node, hops) if labels[j] >= 0]
        most_even = Counter(place % CLASSES for place in range(len(labeled)))
        if not labeled:
            values.append(math.nan)
            continue
        now, best = (
            math.log(len(labeled) / max(counter.values()))
            for counter in (Counter(labeled), most_even)
        )
        values.append(now / best if best else 0.0)
    return np.array(values)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("thresholds", [(0.5,), (0.0,), (0.2, 0.6)])
@pytest.mark.parametrize("kind", ["attainable", "attainable-quantile"])
@pytest.mark.parametrize("labels", [LABELS, np.where(LABELS < 0, 2, LABELS)], ids=["some", "all"])
def test_groups_by_what_is_attainable_are_those_counted_by_hand(hops, thresholds, kind, labels):
    drawn = drawn_graph(3, density=0.15)
    grouper = Grouper(drawn.graph(), GroupingRule(hops=hops, thresholds=thresholds, kind=kind))
    expected = relative_by_hand(drawn.A.numpy(), labels, hops)
    limits = thresholds
    if kind == "attainable-quantile":
        *_, second, top = sorted({0.0, *expected[~np.isnan(expected)].round(9)})
        quantiles = np.nanquantile(expected, thresholds)
        limits = [second if limit > top - 1e-6 else limit for limit in quantiles]
    group = sum((np.nan_to_num(expected) > limit + 1e-6).astype(int) for limit in limits)
    assert 0 < np.count_nonzero(group) < len(group)
    for _ in range(2):  # what is prepared serves every call
        found = grouper(torch.from_numpy(labels))
        assert found.group.tolist() == group.tolist()
        confusion = by_hand(drawn.A.numpy(), labels, hops, "nc")
        assert np.allclose(found.confusion.numpy(), confusion, equal_nan=True)


def test_a_threshold_that_nc_cannot_reach_is_half_of_what_can_be_reached():
    """A path of 40 nodes with 58 classes: everyone is as confused as two neighbors can make one."""
    edges = np.array([[*range(39), *range(1, 40)], [*range(1, 40), *range(39)]])
    path = Graph.from_edge_index(edges, labels=np.arange(40), num_classes=58)
    labels = torch.arange(40)
    assert not Grouper(path, GroupingRule())(labels).group.any()
    assert Grouper(path, GroupingRule(kind="attainable"))(labels).group.all()
    labels[20:] = 20
    half = Grouper(path, GroupingRule(kind="attainable"))(labels).group
    assert half.tolist() == [1] * 20 + [0] * 20
    # Half of the nodes share the largest value, which this quantile is, too.
    by_quantile = GroupingRule(kind="attainable-quantile", thresholds=(0.6,))
    assert Grouper(path, by_quantile)(labels).group.tolist() == half.tolist()
    assert not Grouper(path, by_quantile)(torch.zeros(40, dtype=torch.int64)).group.any()


@pytest.mark.parametrize("kind", ["attainable", "attainable-quantile"])
@pytest.mark.parametrize("guidance", ["nh", "degree"])
def test_what_is_attainable_is_known_of_nc_alone(kind, guidance):
    with pytest.raises(InputError, match="needs guidance 'nc'"):
        NCGCN(4, 2, guidance=guidance, threshold_kind=kind)
    with pytest.raises(InputError, match="needs guidance 'nc'"):
        Grouper(drawn_graph(0).graph(), GroupingRule(guidance=guidance, kind=kind))
    assert NCGCN(4, 2, threshold_kind=kind).rule.kind == kind


def rarity(graph, labels):
    """Any numbers, also above one and unknown ones, from graph and labels."""
    values = 10.0 * labels + graph.degrees
    return np.where(labels < 0, math.nan, values)


def degree_by_hand(A):
    degrees = A.sum(1)
    return np.log(1 + degrees) / np.log(1 + degrees.max())


@pytest.mark.parametrize("guidance", ["degree", rarity, lambda g, y: torch.tensor(rarity(g, y))])
@pytest.mark.parametrize("thresholds", [(0.5,), (0.2, 0.6)])
@pytest.mark.parametrize("kind", ["value", "quantile"])
def test_groups_by_degree_or_by_a_function_are_those_by_hand(guidance, thresholds, kind):
    drawn = drawn_graph(3)
    A = drawn.A.numpy()
    if guidance == "degree":
        expected = degree_by_hand(A)
    else:
        expected = np.where(LABELS < 0, math.nan, 10.0 * LABELS + A.sum(1))
    rule = GroupingRule(thresholds=thresholds, guidance=guidance, kind=kind)
    found = Grouper(drawn.graph(), rule)(torch.from_numpy(LABELS))
    assert np.allclose(found.confusion.numpy(), expected, equal_nan=True)
    assert found.confusion.dtype == torch.float64
    limits = thresholds if kind == "value" else np.nanquantile(expected, thresholds)
    above = sum((np.nan_to_num(expected, nan=-1) > limit).astype(int) for limit in limits)
    assert found.group.tolist() == above.tolist()
    assert found.group.sum() > 0


def test_degrees_leave_out_self_loops_and_need_no_edges():
    edges = np.array([[0, 1, 2, 2], [1, 1, 1, 0]])
    rule = GroupingRule(guidance="degree")
    looped = Graph.from_edge_index(edges, require_labels=False)
    values = Grouper(looped, rule)(torch.zeros(3, dtype=torch.int64)).confusion
    assert values.tolist() == pytest.approx([math.log(2) / math.log(3), 1, 0])
    empty = Graph.from_edge_index(np.zeros((2, 0), int), num_nodes=3, require_labels=False)
    assert not Grouper(empty, rule)(torch.zeros(3, dtype=torch.int64)).confusion.any()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(4), r"\[13\]; got \[4\]"),
        (np.zeros((13, 1)), r"got \[13, 1\]"),
        (np.full(13, math.inf), "infinite"),
        (None, "one number per node"),
        (["a"] * 13, "got list"),
    ],
)
def test_what_is_not_one_number_per_node_is_refused(values, words):
    grouper = Grouper(drawn_graph(0).graph(), GroupingRule(guidance=lambda graph, labels: values))
    with pytest.raises(InputError, match=words):
        grouper(torch.from_numpy(LABELS))


def test_a_function_is_registered_under_a_name(monkeypatch):
    monkeypatch.setattr(grouping, "_functions", dict(grouping._functions))
    with pytest.raises(UnknownNameError, match="known: nc, nh, degree"):
        Grouper(drawn_graph(0).graph(), GroupingRule(guidance="rarity"))
    with pytest.raises(InputError, match="known: nc, nh, degree"):
        NCGCN(4, 2, guidance="rarity")
    assert NCGCN(4, 2, guidance=rarity).rule.guidance is rarity
    register_guidance("rarity", rarity)
    register_guidance("rarity", rarity)
    assert NCGCN(4, 2, guidance="rarity").rule == NCGCN(4, 2, guidance=rarity).rule
    by_name = Grouper(drawn_graph(0).graph(), GroupingRule(guidance="rarity"))
    by_function = Grouper(drawn_graph(0).graph(), GroupingRule(guidance=rarity))
    labels = torch.from_numpy(LABELS)
    assert torch.equal(by_name(labels).group, by_function(labels).group)
    with pytest.raises(InputError, match="replace=True"):
        register_guidance("rarity", lambda graph, labels: labels)
    with pytest.raises(InputError, match="other than nc"):
        register_guidance("nc", rarity)
    with pytest.raises(InputError, match="must be a function"):
        register_guidance("other", 5)


def test_a_grouper_serves_changing_predictions():
    drawn = drawn_graph(1)
    grouper = Grouper(drawn.graph(), GroupingRule())
    for seed in range(3):
        labels = torch.from_numpy(np.random.default_rng(seed).integers(0, CLASSES, 13))
        fresh = Grouper(drawn.graph(), GroupingRule())(labels)
        assert torch.equal(grouper(labels).group, fresh.group)
        assert torch.equal(grouper(labels).confusion, fresh.confusion)


def test_half_of_the_nodes_are_above_the_median():
    drawn = drawn_graph(0, nodes=60, density=0.1)
    rule = GroupingRule(thresholds=(0.5,), kind="quantile")
    labels = torch.arange(60) % CLASSES
    group = Grouper(drawn.graph(), rule)(labels).group
    assert 0 < int(group.sum()) <= 30


def test_nobody_is_confused_where_all_agree():
    drawn = drawn_graph(0)
    for guidance in ("nc", "nh"):
        rule = GroupingRule(guidance=guidance, thresholds=(0.0,))
        found = Grouper(drawn.graph(), rule)(torch.ones(13, dtype=torch.int64))
        assert not found.group.any()
        assert not found.confusion.any()


def test_the_start_is_the_first_group_for_all():
    start = Grouping.start(4)
    assert start.group.tolist() == [0, 0, 0, 0]
    assert start.confusion.tolist() == [0, 0, 0, 0]


def test_the_number_of_classes_is_wanted_where_the_graph_has_none():
    graph = Graph.from_edge_index(np.array([[0], [1]]), require_labels=False)
    with pytest.raises(InputError, match="num_classes"):
        Grouper(graph, GroupingRule())
    assert Grouper(graph, GroupingRule(), num_classes=2)(torch.tensor([0, 1])).group.tolist() == [
        0,
        1,
    ]
