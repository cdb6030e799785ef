"""Accuracy per group and decile, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ncgnn
from ncgnn.data import custom_split
from ncgnn.nn import Grouping
from ncgnn.nn.grouping import GroupingRule
from ncgnn.nn.inputs import GraphInputs
from ncgnn.training.evaluation import evaluation


class Grouped:
    """A model of which only the rule counts."""

    def __init__(self, rule):
        self.rule = rule


@pytest.fixture(scope="module")
def graph():
    return ncgnn.generate(200, 500, classes=3, features=4, homophily=0.5, seed=3)


def found_for(graph, rule):
    draw = np.random.default_rng(0).permutation(200)
    split = custom_split(draw[:100], draw[100:140], draw[140:], labels=graph)
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(200, 3)))
    grouping = Grouping.start(200)
    result = evaluation(Grouped(rule), GraphInputs(graph), split, grouping, logits)
    right = logits.argmax(1).numpy() == graph.labels
    return result, right, split.test


def shares(right, nodes, part):
    """Number of nodes and accuracy by part, as a plain loop counts them."""
    return {
        int(p): (int((part[nodes] == p).sum()), float(right[nodes][part[nodes] == p].mean()))
        for p in np.unique(part[nodes])
    }


def shown(records):
    return {r["part"]: (r["nodes"], r["accuracy"]) for r in records}


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("thresholds", [(0.5,), (0.3, 0.6)])
def test_groups_by_true_nc(graph, hops, thresholds):
    result, right, test = found_for(graph, GroupingRule(hops=hops, thresholds=thresholds))
    nc = ncgnn.neighborhood_confusion(graph, hops=hops)
    part = sum((nc > limit).astype(int) for limit in thresholds)
    assert len(np.unique(part)) == len(thresholds) + 1, "no group may be empty here"
    assert shown(result["accuracy_by_true_group"]) == shares(right, test, part)
    assert result["true_mean_nc"] == pytest.approx(nc.mean())


def test_deciles_are_of_closed_homophily(graph):
    result, right, test = found_for(graph, None)
    closed = ncgnn.node_homophily(graph, neighborhood="closed")
    opened = ncgnn.node_homophily(graph, neighborhood="open")
    decile = np.minimum((closed * 10).astype(int), 9)
    wrong = np.minimum((np.nan_to_num(opened) * 10).astype(int), 9)
    assert shown(result["accuracy_by_nh_decile"]) == shares(right, test, decile)
    assert shares(right, test, decile) != shares(right, test, wrong)
