"""Block-model graphs: exact counts, the law of the edges, and sameness everywhere."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncgnn.data.block_model import EdgeLaw, deal_types, generate
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.graph import Graph


def ends(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return sources, graph.indices.astype(np.int64)


def check_form(graph: Graph, nodes: int, edges: int) -> None:
    """Sorted rows, symmetric, without loops and duplicates, with exactly the edges wanted."""
    sources, targets = ends(graph)
    assert graph.indptr.dtype == np.int64
    assert graph.indices.dtype == np.int32
    assert graph.indptr.size == nodes + 1
    assert graph.num_edges == edges == targets.size / 2
    assert (sources != targets).all()
    forward, backward = sources * nodes + targets, targets * nodes + sources
    assert (np.diff(forward) > 0).all()
    assert np.array_equal(forward, np.sort(backward))


def mixing(graph: Graph, chosen: np.ndarray | None = None) -> np.ndarray:
    """Part of each class among the neighbors of the chosen nodes of each class."""
    classes = int(graph.labels.max()) + 1
    sources, targets = ends(graph)
    kept = slice(None) if chosen is None else chosen[sources]
    counts = np.zeros((classes, classes))
    np.add.at(counts, (graph.labels[sources][kept], graph.labels[targets][kept]), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def groups_of(nodes: int, classes: int, groups: list, seed: int = 0) -> np.ndarray:
    """The group of each node of a generated graph."""
    types, _ = deal_types(EdgeLaw.of(nodes, classes, groups, None), seed)
    return types % len(groups)


@given(
    nodes=st.integers(1, 40),
    share=st.floats(0, 1),
    classes=st.integers(1, 5),
    homophily=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**63 - 1),
)
@settings(deadline=None)
def test_any_number_of_edges_up_to_the_complete_graph(nodes, share, classes, homophily, seed):
    classes = min(nodes, classes)
    edges = round(share * nodes * (nodes - 1) // 2)
    graph = generate(
        nodes, edges, classes=classes, homophily=1 if classes == 1 else homophily, seed=seed
    )
    check_form(graph, nodes, edges)
    sizes = np.bincount(graph.labels, minlength=classes)
    assert sizes.max() - sizes.min() <= 1


@given(
    matrix=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=3, max_size=3),
    edges=st.integers(0, 120),
    seed=st.integers(0, 5),
)
@settings(deadline=None)
def test_no_edge_that_the_preferences_exclude(matrix, edges, seed):
    weights = np.array(matrix, dtype=float)
    if not weights.sum(axis=1).all():
        return
    weights /= weights.sum(axis=1, keepdims=True)
    allowed = (weights + weights.T) > 0
    room = sum(
        allowed[a % 3, b % 3] for a, b in itertools.combinations(range(16), 2)
    )  # nodes 0 … 15 with class i mod 3 have the same class sizes: 6, 5, 5
    if edges > room:
        with pytest.raises(InputError, match=f"edges must be at most {room} "):
            generate(16, edges, classes=3, homophily=weights, seed=seed)
        return
    graph = generate(16, edges, classes=3, homophily=weights, seed=seed)
    check_form(graph, 16, edges)
    sources, targets = ends(graph)
    assert allowed[graph.labels[sources], graph.labels[targets]].all()


def test_the_last_edges_come_even_if_hardly_anyone_wants_them():
    graph = generate(60, 60 * 59 // 2, classes=2, homophily=1 - 1e-12)
    check_form(graph, 60, 60 * 59 // 2)


def test_edges_are_the_first_distinct_ones_of_independent_draws():
    """The number of mixed edges in tiny dense graphs against its exact distribution."""
    plan = EdgeLaw.of(4, 2, [(1.0, 0.8)], None)
    within = plan.probability[0, 0] + plan.probability[1, 1]
    state = {(0, 0): 1.0}  # (edges within a class, mixed edges) -> probability
    for _ in range(4):
        following: dict[tuple[int, int], float] = {}
        for (inner, mixed), chance in state.items():
            weight = within * (2 - inner) / 2
            other = plan.probability[0, 1] * (4 - mixed) / 4
            for step, part in (((inner + 1, mixed), weight), ((inner, mixed + 1), other)):
                following[step] = following.get(step, 0) + chance * part / (weight + other)
        state = following
    runs, counts = 1500, np.zeros(5)
    for seed in range(runs):
        graph = generate(4, 4, classes=2, homophily=0.8, seed=seed)
        sources, targets = ends(graph)
        counts[np.sum(graph.labels[sources] != graph.labels[targets]) // 2] += 1
    expected = np.array([state.get((4 - mixed, mixed), 0) for mixed in range(5)])
    assert expected.sum() == pytest.approx(1)
    errors = 4.5 * np.sqrt(expected * (1 - expected) / runs) + 1e-9
    assert (np.abs(counts / runs - expected) < errors).all()


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.9, 1.0])
def test_equal_classes_show_the_homophily_that_was_asked_for(homophily):
    graph = generate(20_000, 200_000, classes=4, homophily=homophily, seed=1)
    check_form(graph, 20_000, 200_000)
    expected = np.full((4, 4), (1 - homophily) / 3)
    np.fill_diagonal(expected, homophily)
    # Each row rests on about 100 000 ends of edges: 5 standard errors are below 0.008.
    assert np.abs(mixing(graph) - expected).max() < 0.008


def test_unequal_classes_follow_the_formula():
    shares = np.array([0.5, 0.3, 0.2])
    wish = np.array([[0.1, 0.6, 0.3], [0.2, 0.7, 0.1], [0.5, 0.0, 0.5]])
    graph = generate(20_000, 300_000, classes=3, homophily=wish, class_shares=shares, seed=2)
    assert np.bincount(graph.labels).tolist() == [10_000, 6_000, 4_000]
    directed = shares[:, None] * wish
    expected = (directed + directed.T) / (directed + directed.T).sum(axis=1, keepdims=True)
    assert np.abs(mixing(graph) - expected).max() < 0.008


def test_groups_differ_as_asked():
    shares = [(0.7, 0.9), (0.3, 0.2)]
    graph = generate(30_000, 450_000, classes=3, groups=shares, seed=3)
    groups = groups_of(30_000, 3, shares, 3)
    check_form(graph, 30_000, 450_000)
    table = np.zeros((3, 2), dtype=int)
    np.add.at(table, (graph.labels, groups), 1)
    assert table.tolist() == [[7000, 3000]] * 3
    mean = 0.7 * 0.9 + 0.3 * 0.2
    for group, homophily in enumerate((0.9, 0.2)):
        realised = np.diag(mixing(graph, groups == group))
        assert np.abs(realised - (homophily + mean) / 2).max() < 0.01


def test_groups_may_have_matrices():
    cycle = np.roll(np.eye(3), 1, axis=1)
    shares = [(0.5, np.eye(3)), (0.5, cycle)]
    graph, groups = generate(9_000, 30_000, classes=3, groups=shares), groups_of(9_000, 3, shares)
    # A node of class c receives from its own class and, along the cycle, from the class before.
    realised = mixing(graph, groups == 1)
    expected = 0.5 * cycle + 0.25 * np.eye(3) + 0.25 * cycle.T
    assert np.abs(realised - expected).max() < 0.03


def test_the_degrees_are_those_of_uniform_ends():
    graph = generate(10_000, 100_000, classes=5, homophily=0.7)
    degrees = np.diff(graph.indptr)
    assert degrees.mean() == 20
    assert degrees.var() == pytest.approx(20, rel=0.1)
    thirds = np.add.reduceat(degrees, [0, 3333, 6666]) / [3333, 3333, 3334]
    assert thirds == pytest.approx([20, 20, 20], abs=0.4)


def test_features_are_class_means_and_unit_noise():
    graph = generate(20_000, 10, classes=4, features=16, feature_signal=3.0, seed=4)
    assert graph.features.shape == (20_000, 16)
    assert graph.features.dtype == np.float32
    means = np.stack([graph.features[graph.labels == c].mean(axis=0) for c in range(4)])
    assert np.linalg.norm(means, axis=1) == pytest.approx([3] * 4, abs=0.1)
    noise = graph.features - means[graph.labels]
    assert noise.std() == pytest.approx(1, abs=0.01)
    assert np.abs(np.corrcoef(noise.T) - np.eye(16)).max() < 0.04
    assert (np.abs(noise) > 1.96).mean() == pytest.approx(0.05, abs=0.003)
    assert generate(10, 5).features is None


def test_the_seed_decides_everything():
    first, same, other = (
        generate(300, 900, features=2, seed=seed).fingerprint for seed in (1, 1, 2)
    )
    assert first == same
    assert first != other
    plain, dressed = generate(300, 900), generate(300, 900, features=4)
    assert np.array_equal(plain.indices, dressed.indices)
    assert (plain.labels != generate(300, 900, seed=1).labels).any()


def test_the_origin_tells_the_options():
    graph = generate(30, 50, homophily=0.5, seed=3)
    assert graph.origin == (
        "generated: csbm(nodes=30, edges=50, classes=2, feature_signal=1.0, features=0, "
        "homophily=0.5, seed=3)"
    )


def test_pairs_within_a_set_are_numbered_once_each():
    from ncgnn.data.block_model import _pairs

    for size in range(2, 12):
        first, second = _pairs(np.arange(size * (size - 1) // 2), size, None)
        found = {tuple(sorted(pair)) for pair in zip(first.tolist(), second.tolist(), strict=True)}
        assert found == set(itertools.combinations(range(size), 2))


def test_several_threads_may_generate_at_once():
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda _: generate(7_000, 30_000, features=2).fingerprint, range(4))
    assert len(set(made)) == 1


def test_a_graph_without_edges_and_one_without_neighbors():
    check_form(generate(5, 0, features=3), 5, 0)
    check_form(generate(1, 0, classes=1, homophily=1), 1, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 0}, "nodes must be a whole number from 1 .*got 0"),
        ({"classes": 0}, "classes must be a whole number from 1 .*got 0"),
        ({"edges": -1}, "edges must be a whole number from 0 .*got -1"),
        ({"edges": 2.5}, "edges must be a whole number .*got 2.5"),
        ({"features": -1}, "features must be .* got -1"),
        ({"seed": -1}, "seed must be .* got -1"),
        ({"edges": 46}, "edges must be at most 45 for 10 nodes; got 46"),
        ({"edges": 21, "homophily": 1.0}, "at most 20 with this homophily; got 21"),
        ({"edges": 26, "homophily": 0.0}, "at most 25 with this homophily; got 26"),
        ({"homophily": 1.5}, "within 0 … 1"),
        ({"homophily": float("nan")}, "within 0 … 1"),
        ({"homophily": 0.5, "classes": 1}, "homophily can only be 1"),
        ({"homophily": [[1.0]]}, r"shape \(2, 2\); got \(1, 1\)"),
        ({"homophily": [[1.5, -0.5], [0.5, 0.5]]}, "without negative entries"),
        ({"homophily": [[0.5, 0.4], [0.5, 0.5]]}, "rows of a homophily matrix must sum to 1"),
        ({"class_shares": [0.5, 0.4]}, "class_shares must sum to 1"),
        ({"class_shares": [1.5, -0.5]}, "class_shares must be finite and not negative"),
        ({"class_shares": [1.0]}, "class_shares has 1 entries for 2 classes"),
        ({"class_shares": [1.0, 0.0]}, "class 1 should be a neighbor but has no node"),
        ({"classes": 11}, "class 10 should be a neighbor but has no node"),
        ({"groups": [(0.7, 0.9), (0.2, 0.1)]}, "shares of the groups must sum to 1"),
        ({"groups": []}, "at least one"),
        ({"groups": [(1.0, 0.9)], "homophily": 0.5}, "exclude each other"),
        ({"features": 2, "feature_signal": float("inf")}, "feature_signal must be a finite"),
    ],
)
def test_what_cannot_be_is_said(arguments, message):
    with pytest.raises(InputError, match=message):
        generate(**({"nodes": 10, "edges": 5} | arguments))


def test_an_empty_class_that_nobody_wants_is_fine():
    graph = generate(10, 20, homophily=np.eye(2), class_shares=[1.0, 0.0])
    check_form(graph, 10, 20)
