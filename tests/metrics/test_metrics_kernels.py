"""Graphs that drive the counting code into each of its ways, against the definitions."""

from __future__ import annotations

import functools
import itertools
import math
import random
import tracemalloc

import brute_force as brute
import numba
import numpy as np
import pytest
from metric_strategies import Case, drawn_case

import ncgnn
from ncgnn import _numba as _compile
from ncgnn import metrics
from ncgnn.graph.graph import compact_classes
from ncgnn.metrics import _kernels
from ncgnn.metrics import homophily as _class_pairs
from ncgnn.metrics import neighborhoods as _neighborhoods
from ncgnn.metrics.neighborhoods import Neighborhoods, label_graph

equal = np.testing.assert_allclose

# Around the limits of four-bit pieces, of byte counters and of the tile of fetched labels.
ROW_LENGTHS = [0, 1, 2, 14, 15, 16, 29, 30, 31, 63, 64, 65, 125, 126, 127, 128, 254, 255, 256]
LONG_ROWS = [4095, 4096, 4097, 8193]
CLASS_COUNTS = [1, 2, 15, 16, 17, 255, 256]


def rows_of_lengths(lengths, num_classes, labeling, *, loops, seed=0):
    """A directed graph whose first nodes have the given numbers of neighbors."""
    draw = random.Random(seed)
    num_nodes = max(lengths) + len(lengths) + 1
    edges = []
    for node, length in enumerate(lengths):
        others = [v for v in range(num_nodes) if v != node]
        edges += [(source, node) for source in draw.sample(others, length)]
        if loops and node % 2 == 0:
            edges.append((node, node))
    labels = {
        "first": lambda v: 0,
        "last": lambda v: num_classes - 1,
        "even": lambda v: v % num_classes,
        "mixed": lambda v: draw.randrange(-1, num_classes),
    }[labeling]
    return Case(num_nodes, edges, [0, *map(labels, range(1, num_nodes))], num_classes)


def check(case, hops=1, **options):
    """All node metrics, closed and open, against the definitions."""
    graph = case.graph()
    plain = (case.num_nodes, case.edges, case.labels)
    for neighborhood in ("closed", "open"):
        closed = neighborhood == "closed"
        same = {"hops": hops, "neighborhood": neighborhood}
        counted = brute.counts(*plain, hops, closed)
        size = np.array([counter.total() for counter in counted])
        top = np.array([max(counter.values(), default=0) for counter in counted])
        own = np.array(
            [
                counter[label] if label >= 0 else 0
                for counter, label in zip(counted, case.labels, strict=True)
            ]
        )
        classes = compact_classes(np.array(case.labels), case.num_classes)
        around = Neighborhoods(graph, hops, **options)
        found = around.count(classes, case.num_classes, closed)
        assert np.array_equal(found.size, size)
        assert np.array_equal(found.top, top)
        assert np.array_equal(found.same, own)
        found = around.count(classes, case.num_classes, closed, leader=True)
        leader = [max(sorted(counter), key=counter.get, default=-1) for counter in counted]
        assert np.array_equal(found.leader, leader)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = math.log(case.num_classes) if case.num_classes > 1 else np.inf
            confusion = np.where(size > 0, -np.log(top / size) / scale, np.nan)
        equal(metrics.neighborhood_confusion(graph, **same), confusion, atol=1e-12)
        entropy = [brute.entropy_of(c.values()) if c else math.nan for c in counted]
        equal(metrics.neighborhood_entropy(graph, **same), entropy, atol=1e-11)
        shares = metrics.neighborhood_class_distribution(graph, **same, empty=0)
        table = np.array([[counter[c] for c in range(case.num_classes)] for counter in counted])
        equal(shares * size[:, None], table, atol=1e-9)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("labeling", ["first", "last", "even", "mixed"])
@pytest.mark.parametrize("num_classes", CLASS_COUNTS)
def test_rows_of_critical_lengths(num_classes, labeling, loops):
    check(rows_of_lengths(ROW_LENGTHS, num_classes, labeling, loops=loops))


@pytest.mark.parametrize("num_classes", [2, 16, 17, 256])
@pytest.mark.parametrize("labeling", ["last", "mixed"])
def test_rows_longer_than_a_tile(num_classes, labeling):
    lengths = [3, *LONG_ROWS, 5, LONG_ROWS[1], 0, 126]
    case = rows_of_lengths(lengths, num_classes, labeling, loops=True)
    assert max(lengths) > 2 * _kernels._TILE
    graph = case.graph()
    for closed in (True, False):
        plain = (case.num_nodes, case.edges, case.labels)
        neighborhood = "closed" if closed else "open"
        equal(
            metrics.neighborhood_confusion(graph, neighborhood=neighborhood),
            brute.confusion(*plain, num_classes, closed=closed),
            atol=1e-12,
        )
        equal(
            metrics.neighborhood_entropy(graph, neighborhood=neighborhood),
            brute.entropy(*plain, closed=closed),
            atol=1e-11,
        )
        equal(
            metrics.node_homophily(graph, neighborhood=neighborhood),
            brute.node_homophily(*plain, closed=closed),
        )


@pytest.mark.parametrize("num_classes", [16, 17])
@pytest.mark.parametrize("length", [15, 16, 17, 63, 64, 126, 127])
def test_tiles_that_end_inside_and_between_rows(num_classes, length):
    # Many rows of one length: tile ends fall on row ends for powers of two, inside rows otherwise.
    rows = 2 * _kernels._TILE // length + 3
    draw = random.Random(length)
    labels = [draw.randrange(num_classes) for _ in range(rows)]
    steps = draw.sample(range(1, rows), length) if length < rows else range(1, rows)
    edges = [((v + step) % rows, v) for v in range(rows) for step in steps]
    case = Case(rows, edges, labels, num_classes)
    equal(
        metrics.neighborhood_confusion(case.graph()),
        brute.confusion(rows, edges, labels, num_classes),
        atol=1e-12,
    )


@pytest.mark.parametrize("class_number", range(16))
def test_each_of_sixteen_counters_reaches_its_limit(class_number):
    # 126 neighbors and the node itself, all of one class: the most that byte counters hold.
    edges = [(v, 0) for v in range(1, 127)]
    case = Case(127, edges, [class_number] * 127, 16)
    check(case)


def test_packed_counters_of_words():
    draw = random.Random(5)
    for _ in range(200):
        chosen = [draw.randrange(17) for _ in range(draw.randrange(_kernels.PACKED_LIMIT + 1))]
        units = _kernels.packed_units(16)
        packed = np.uint64(sum(int(units[c]) for c in chosen))
        even, odd = map(np.uint64, _kernels.widen(packed))
        tally = [chosen.count(c) for c in range(16)]
        assert _kernels.byte_sum(even, odd) == sum(tally)
        assert _kernels.byte_max(even, odd) == max(tally)
        assert [_kernels.byte_at(even, odd, c) for c in range(16)] == tally


@pytest.mark.parametrize("seed", range(20))
def test_largest_byte_of_two_words(seed):
    draw = random.Random(seed)
    values = [draw.choice([0, 1, 126, 127, draw.randrange(128)]) for _ in range(16)]
    even = np.uint64(sum(value << (8 * k) for k, value in enumerate(values[:8])))
    odd = np.uint64(sum(value << (8 * k) for k, value in enumerate(values[8:])))
    assert _kernels.byte_max(even, odd) == max(values)


# Where one, two and four registers of labels end, and where counters take over; beyond a tile.
COMPARED_LENGTHS = [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130, 1023, 1024, 1025, 2100]


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("labeling", ["last", "even", "mixed"])
@pytest.mark.parametrize("num_classes", [17, 40, 70, 254, 255, 256, 3000])
def test_compared_rows_have_the_bits_of_counted_ones(num_classes, labeling, loops):
    graph = rows_of_lengths(COMPARED_LENGTHS, num_classes, labeling, loops=loops).graph()
    around, classes = Neighborhoods(graph), graph.compact_labels
    for closed, empty in itertools.product((True, False), (math.nan, 0.25)):
        counts = around.count(classes, num_classes, closed, same=False)
        expected = _neighborhoods.confusion_of_counts(counts, num_classes, empty)
        found = around.confusion(classes, num_classes, closed, empty)
        assert found.tobytes() == expected.tobytes()


def test_memory_mapped_edges_are_not_copied(tmp_path):
    graph = ncgnn.generate(40_000, 800_000, classes=40)
    for name in ("indptr", "indices"):
        np.save(tmp_path / f"{name}.npy", getattr(graph, name))
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices")]
    expected = ncgnn.neighborhood_confusion(graph)  # compiles, too
    tracemalloc.start()
    other = ncgnn.Graph.from_csr(*mapped, labels=graph.labels, num_classes=40)
    _, built = tracemalloc.get_traced_memory()
    other.__dict__["self_loops"] = graph.self_loops  # found in parts of a fixed size
    tracemalloc.reset_peak()
    found = ncgnn.neighborhood_confusion(other)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.tobytes() == expected.tobytes()
    assert np.shares_memory(other.indices, mapped[1])
    assert peak < 40 * graph.num_nodes
    # Rows are checked in parts of a million entries, of which each has a flag and few a number.
    assert built < 3 * (1 << 20)


def ring(num_nodes, steps, num_classes, *, seed=0, unlabeled=0.2, loops=True):
    """Every node has the same number of neighbors, at fixed distances round a ring."""
    draw = random.Random(seed)
    edges = [((v + step) % num_nodes, v) for v in range(num_nodes) for step in steps]
    if loops:
        edges += [(v, v) for v in range(0, num_nodes, 3)]
    labels = [
        -1 if draw.random() < unlabeled else draw.randrange(num_classes) for _ in range(num_nodes)
    ]
    labels[0] = 0
    return Case(num_nodes, edges, labels, num_classes)


def last_hop_is_sparse(case, hops):
    """For every node, whether its search must take the way that suits sparse neighborhoods."""
    neighbors = brute.sources(case.num_nodes, case.edges)
    degrees = np.diff(case.graph().indptr)
    words = (case.num_nodes + 63) // 64
    found = []
    for node in range(case.num_nodes):
        inner = brute.within(neighbors, node, hops - 1) | {node}
        before = brute.within(neighbors, node, hops - 2) | {node} if hops > 2 else {node}
        last = inner - before if hops > 1 else inner
        found.append(len(inner) + sum(int(degrees[v]) for v in last) <= words)
    return found


@pytest.mark.parametrize("num_classes", [2, 16, 17, 300])
@pytest.mark.parametrize("hops", [2, 3])
def test_search_of_sparse_neighborhoods(hops, num_classes):
    case = ring(1500, [1, 40], num_classes)
    assert all(last_hop_is_sparse(case, hops))
    check(case, hops)
    check(case, hops, memory_budget=1 << 30)


@pytest.mark.parametrize("num_classes", [2, 7, 40])
def test_search_with_bits_but_without_sets_of_rows(num_classes):
    case = ring(3200, [1, 5, 70, 200, 411, 900, 1500, 2222], num_classes, loops=False)
    searched = Neighborhoods(case.graph(), 2)
    assert len(searched._search.sets[1]) == 0
    assert not any(last_hop_is_sparse(case, 2))
    check(case, 2)
    check(case, 2, memory_budget=1 << 30)


@pytest.mark.parametrize("num_classes", [3, 20])
@pytest.mark.parametrize("hops", [2, 3])
def test_search_with_sets_of_all_rows(hops, num_classes):
    case = drawn_case(hops, 200, 12, num_classes, unlabeled=0.2)
    searched = Neighborhoods(case.graph(), hops)
    assert (searched._search.sets[0] >= 0).sum() > 190
    check(case, hops)
    check(case, hops, memory_budget=1 << 30)


@pytest.mark.parametrize("num_classes", [4, 100])
@pytest.mark.parametrize("hops", [2, 3])
def test_search_with_sets_of_hubs_only(hops, num_classes):
    case = drawn_case(7, 1300, 2, num_classes, hubs=1, unlabeled=0.2)
    searched = Neighborhoods(case.graph(), hops)
    with_set = (searched._search.sets[0] >= 0).sum()
    assert 1 <= with_set < 600
    sparse = last_hop_is_sparse(case, hops)
    assert any(sparse)
    assert not all(sparse)
    check(case, hops)
    check(case, hops, memory_budget=1 << 30)


@pytest.mark.parametrize("hops", [2, 3])
def test_counting_marked_nodes_without_sets_of_classes(hops, monkeypatch):
    case = drawn_case(11, 300, 8, 5, unlabeled=0.2, hubs=1)
    monkeypatch.setattr(Neighborhoods, "_label_sets", lambda *_: np.zeros((0, 0), dtype=np.uint64))
    check(case, hops)


def test_so_many_classes_and_nodes_that_their_sets_are_not_made():
    num_nodes, num_classes = 32000, 300
    draw = random.Random(3)
    edges = [(v, 0) for v in range(1, 3000)] + [(0, v) for v in range(31990, 32000)]
    labels = [draw.randrange(num_classes) for _ in range(num_nodes)]
    case = Case(num_nodes, edges, labels, num_classes)
    searched = Neighborhoods(case.graph(), 2)
    classes = compact_classes(case.graph().labels, num_classes)
    assert len(searched._label_sets(classes, num_classes)) == 0
    equal(
        metrics.neighborhood_confusion(case.graph(), hops=2),
        brute.confusion(num_nodes, edges, labels, num_classes, hops=2),
        atol=1e-12,
    )


@pytest.mark.parametrize("num_classes", [2, 16, 17])
def test_stored_rows_longer_than_a_tile(num_classes):
    # The hub's sources reach its readers in two steps.
    leaves = 2 * _kernels._TILE + 7
    draw = random.Random(num_classes)
    edges = [(v, 0) for v in range(3, leaves + 3)] + [(0, 1), (0, 2), (1, 2), (2, 2)]
    labels = [draw.randrange(-1, num_classes) for _ in range(leaves + 3)]
    case = Case(leaves + 3, edges, labels, num_classes)
    for neighborhood in ("closed", "open"):
        stored = metrics.ConfusionTracker(case.graph(), 2, neighborhood=neighborhood)
        assert stored.neighborhoods.stored
        equal(
            stored(np.array(labels)),
            brute.confusion(
                case.num_nodes, edges, labels, num_classes, 2, neighborhood == "closed"
            ),
            atol=1e-12,
        )


@pytest.mark.parametrize("num_nodes", [1, 63, 64, 65, 127, 128, 129])
def test_node_counts_around_whole_words(num_nodes):
    case = drawn_case(num_nodes, num_nodes, 6, 3, unlabeled=0.2)
    for hops in (1, 2, 3):
        check(case, hops)
        check(case, hops, memory_budget=1 << 20)


def test_stored_pattern_lists_every_member_in_rising_order():
    for case in (
        ring(1500, [1, 40], 2),
        drawn_case(3, 150, 5, 2),
        drawn_case(4, 900, 2, 2, hubs=1),
    ):
        neighbors = brute.sources(case.num_nodes, case.edges)
        for hops in (2, 3):
            stored = Neighborhoods(case.graph(), hops, memory_budget=1 << 30)
            starts, members = stored.pattern()
            expected = [
                sorted(brute.within(neighbors, v, hops) | {v}) for v in range(case.num_nodes)
            ]
            assert [members[a:b].tolist() for a, b in itertools.pairwise(starts)] == expected
            assert stored.num_members == len(members)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize(
    "case", [ring(1500, [1, 40], 2), drawn_case(3, 150, 5, 2), drawn_case(4, 900, 2, 2, hubs=1)]
)
def test_rings_are_found_for_any_rows(case, hops):
    graph, neighbors = case.graph(), brute.sources(case.num_nodes, case.edges)
    search = metrics.HopSearch(graph.indptr, graph.indices, hops, exactly=True)
    sizes = search.sizes()
    for first, end in ((0, None), (7, 31), (5, 5)):
        starts, members = search.members(sizes, first, end)
        expected = [
            sorted(brute.within(neighbors, v, hops) - brute.within(neighbors, v, hops - 1) - {v})
            for v in range(case.num_nodes)[first:end]
        ]
        assert [members[a:b].tolist() for a, b in itertools.pairwise(starts)] == expected


def test_labels_take_the_smallest_type_that_holds_all_classes():
    labels = np.array([0, -1, 254])
    assert compact_classes(labels, 255).tolist() == [0, 255, 254]
    assert compact_classes(labels, 255).dtype == np.uint8
    assert compact_classes(labels, 256).tolist() == [0, 256, 254]
    assert compact_classes(labels, 256).dtype == np.int32


def everything(case):
    """All results that are computed block by block."""
    graph, labels = case.graph(), np.array(case.labels)
    exact = []
    for hops in (1, 2):
        for neighborhood in ("closed", "open"):
            same = {"hops": hops, "neighborhood": neighborhood}
            exact += [
                metrics.neighborhood_confusion(graph, **same),
                metrics.node_homophily(graph, **same),
                metrics.neighborhood_entropy(graph, **same),
                metrics.neighborhood_class_distribution(graph, **same),
                metrics.ConfusionTracker(graph, **same)(labels),
            ]
    exact.append(metrics.class_pair_counts(graph))
    return exact, _class_pairs.class_pairs(label_graph(graph))[1]


def in_tiny_blocks(monkeypatch):
    """Cut every loop over rows into as many blocks as there may be."""
    small = functools.partial(_compile.balanced_blocks, least_work=1)
    monkeypatch.setattr(_neighborhoods, "balanced_blocks", small)
    monkeypatch.setattr(_class_pairs, "balanced_blocks", small)

    def even(rows, *_):
        return np.linspace(0, rows, min(rows, 9) + 1).astype(np.int64)

    monkeypatch.setattr(_neighborhoods, "even_blocks", even)


@pytest.fixture
def restored_threads():
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.parametrize(
    ("nodes", "degree", "num_classes"), [(700, 12, 5), (700, 1, 300), (300, 60, 20), (5, 1, 2)]
)
def test_results_do_not_depend_on_threads_and_blocks(
    nodes, degree, num_classes, monkeypatch, restored_threads
):
    case = drawn_case(nodes, nodes, degree, num_classes, unlabeled=0.2, hubs=1)
    whole, whole_shares = everything(case)
    in_tiny_blocks(monkeypatch)
    available = min(2, numba.config.NUMBA_NUM_THREADS)
    summed = []
    for threads in range(1, available + 1):
        _compile.use_threads(threads)
        assert _compile.thread_count() == threads
        parts, shares = everything(case)
        for one, other in zip(whole, parts, strict=True):
            assert np.array_equal(one, other, equal_nan=True)
        equal(shares, whole_shares, atol=1e-12)
        summed.append(shares)
    assert all(np.array_equal(shares, summed[0]) for shares in summed)
