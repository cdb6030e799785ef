"""Batches that are prepared ahead: in order, bounded, and without threads left behind."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest

import ncgnn
from ncgnn import _numba
from ncgnn.errors import InputError
from ncgnn.sparse import NeighborSampler, take_rows
from ncgnn.training import Prefetcher


def own_threads():
    return [t for t in threading.enumerate() if t.name.startswith("ncgnn-prefetch")]


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    gc.collect()
    deadline = time.monotonic() + 10
    while own_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not own_threads()


@pytest.mark.parametrize(("ahead", "workers"), [(1, 1), (2, 1), (5, 3), (50, 2)])
def test_items_come_in_order(ahead, workers):
    def prepare(number):
        time.sleep(0.002 * (number % 3))  # later ones are ready earlier
        return number

    with Prefetcher(prepare, 20, ahead=ahead, workers=workers) as items:
        assert list(items) == list(range(20))
        assert next(items, None) is None
    assert not own_threads()


def test_nothing_to_prepare():
    assert list(Prefetcher(lambda number: number, 0)) == []


def test_the_next_items_are_prepared_meanwhile_and_no_more():
    begun = []
    ready = [threading.Event() for _ in range(10)]

    def prepare(number):
        begun.append(number)
        ready[number].set()
        return number

    with Prefetcher(prepare, 10, ahead=3) as items:
        assert next(items) == 0
        # One is taken, three are ahead of it: nobody asks for them, and they are made.
        for number in (1, 2, 3):
            assert ready[number].wait(10)
        time.sleep(0.05)
        assert begun == [0, 1, 2, 3]
    assert begun == [0, 1, 2, 3]


def test_workers_prepare_at_the_same_time():
    meeting = threading.Barrier(2, timeout=20)

    def prepare(number):
        meeting.wait()  # one thread alone would never come through
        return number

    with Prefetcher(prepare, 4, ahead=2, workers=2) as items:
        assert list(items) == [0, 1, 2, 3]


def test_errors_come_where_their_item_would_have():
    begun = []

    def prepare(number):
        begun.append(number)
        if number == 2:
            raise ValueError("no batch 2")
        return number

    items = Prefetcher(prepare, 100, ahead=2)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(ValueError, match="no batch 2"):
        next(items)
    assert max(begun) <= 4
    assert next(items, None) is None
    assert not own_threads()


def test_leaving_early_ends_the_threads():
    begun = []
    with Prefetcher(lambda number: begun.append(number), 1000, ahead=4) as items:
        next(items)
    assert not own_threads()
    assert len(begun) <= 6
    before = len(begun)
    time.sleep(0.05)
    assert len(begun) == before


def test_an_error_of_the_caller_ends_the_threads():
    def work():
        with Prefetcher(lambda number: number, 1000) as items:
            next(items)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        work()
    assert not own_threads()


def test_an_abandoned_prefetcher_prepares_nothing_more():
    begun = []
    for _ in Prefetcher(lambda number: begun.append(number), 1000, ahead=2):
        break
    gc.collect()
    time.sleep(0.05)
    assert len(begun) <= 4


def test_loops_inside_use_one_thread_and_the_caller_keeps_its_own():
    before = _numba.thread_count()
    with Prefetcher(lambda _: _numba.thread_count(), 3) as items:
        assert list(items) == [1, 1, 1]
    assert _numba.thread_count() == before


def test_batches_are_those_of_a_loop():
    graph = ncgnn.generate(2000, 20_000, classes=3, features=8)
    sampler = NeighborSampler([(graph.indptr, graph.indices)], [5, 5])

    def prepare(batch):
        sample = sampler.sample(np.arange(batch * 100, batch * 100 + 100), 0, batch)
        return sample, take_rows(graph.features, sample.nodes)

    with Prefetcher(prepare, 20, ahead=3, workers=2) as batches:
        for number, (sample, x) in enumerate(batches):
            expected, rows = prepare(number)
            assert np.array_equal(sample.nodes, expected.nodes)
            assert np.array_equal(sample.relations[0].indices, expected.relations[0].indices)
            assert np.array_equal(x, rows)


@pytest.mark.parametrize("wrong", [{"ahead": 0}, {"workers": 0}, {"count": -1}])
def test_wrong_numbers_are_named(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be a whole number"):
        Prefetcher(**{"prepare": abs, "count": 3, **wrong})
