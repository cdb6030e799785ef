"""How long a search will take, said before."""

from __future__ import annotations

import pytest

import ncgnn
from ncgnn.training.candidates import FITTED, STEPWISE, list_candidates, make_auto
from ncgnn.training.forecast import EPOCHS_OF_GCN, forecast


class Clock:
    """Every look at it takes a second."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.fixture(scope="module")
def graph():
    return ncgnn.generate(120, 400, classes=3, features=6, seed=1)


@pytest.fixture(scope="module")
def place(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("forecast") / "mine.npz"
    ncgnn.save(graph, path)
    return str(path)


def expect(graph, place, combine=False, **settings):
    wanted = make_auto(dataset=place, settings=settings)
    split = wanted.base.make_split(graph)
    every = list_candidates(wanted, graph)
    return forecast(every, graph, split, Clock(), combine=combine)


def test_a_timed_epoch_stands_for_all_candidates(graph, place):
    # An epoch of gcn takes the one second between two looks at the clock.
    only = {"candidates": ["gcn", "ncsage"], "learning_rate": 0.01, "epochs": 50}
    assert expect(graph, place, **only) == pytest.approx(50 * (1 + EPOCHS_OF_GCN["ncsage"]))
    longer = expect(graph, place, **only | {"epochs": 5000})
    assert longer == pytest.approx(70 * (1 + EPOCHS_OF_GCN["ncsage"]))
    assert expect(graph, place, combine=True, **only) > expect(graph, place, **only)


def test_fits_in_one_go_count_once_and_are_not_timed_alone(graph, place):
    only = {"candidates": ["boosting", "gcn"], "learning_rate": 0.01, "epochs": 50}
    assert expect(graph, place, **only) == pytest.approx(50 + EPOCHS_OF_GCN["boosting"])
    assert expect(graph, place, candidates=["majority"]) is None


def test_every_usual_candidate_has_a_known_time():
    assert EPOCHS_OF_GCN.keys() == {*FITTED, *STEPWISE}
