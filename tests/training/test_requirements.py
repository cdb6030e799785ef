"""What batches and protocols require is said before a graph is loaded."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ncgnn.cli.app import app
from ncgnn.errors import InputError
from ncgnn.training import make_auto, make_config


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("hog", {"batch_size": 50}, "needs the whole graph at a time; leave batch_size out"),
        ("wrgat", {"batch_size": 50}, "needs the whole graph at a time"),
        ("boosting", {"batch_size": 50}, "batch_size must be left out with boosting"),
        ("gcn", {"fanout": (10, 10)}, "fanout is for batches; set batch_size, too"),
        ("gcn", {"sampling": "labor"}, "sampling is for batches; set batch_size, too"),
        ("gcn", {"batch_size": 50, "fanout": (5, 5, 5)}, "fanout must have 2 numbers for GCN"),
        ("gcn", {"batch_size": 50, "fanout": (5, 0)}, "at least 1 at every hop"),
        ("gcn", {"batch_size": 50, "sampling": "all"}, "sampling must be 'uniform' or 'labor'"),
        ("ncgin", {"batch_size": 50, "fanout": (5, 5)}, "whose layers add up all messages"),
        ("tuned-gcn", {"batch_size": 1, "norm": "batch"}, "batch_size must be at least 2 with"),
        ("linkx", {"protocol": "inductive"}, "has weights for every node of its graph"),
        ("glognn", {"protocol": "inductive", "delta": 0.5}, "set delta = 1, or train another"),
        ("gcn", {"protocol": "temporal", "class_shares": "val"}, "class_shares must be 'train'"),
        ("gcn", {"protocol": "inductive", "start_from": "latest"}, "start_from must be left out"),
    ],
)
def test_what_no_graph_could_be_trained_with_is_refused(model, settings, words):
    with pytest.raises(InputError, match=words):
        make_config(dataset="nobody-has-this.npz", model=model, settings=settings)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("gcn", {"batch_size": 10**9, "fanout": (-1,)}),
        ("mlp", {"batch_size": 50, "fanout": (10, 10)}),
        ("tuned-gcn", {"batch_size": 1, "norm": "layer"}),
        ("glognn", {"protocol": "inductive", "delta": 1.0}),
        ("sage", {"protocol": "temporal", "batch_size": 50, "sampling": "labor"}),
    ],
)
def test_what_can_be_trained_is_not(model, settings):
    assert make_config(dataset="nobody-has-this.npz", model=model, settings=settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fanout": (5,)}, "fanout is for batches"),
        ({"batch_size": 0}, "training.batch_size must be greater than or equal to 1; got 0"),
        ({"batch_size": 50, "fanout": (5, 5)}, "fanout must be one number with auto"),
    ],
)
def test_auto_refuses_what_no_candidate_can_take(settings, words):
    with pytest.raises(InputError, match=words):
        make_auto(dataset="nobody-has-this.npz", settings=settings)


def test_the_second_of_two_models_is_looked_at_before_the_first_is_trained(tmp_path):
    words = ["train", "digits", "--models", "gcn,hog", "--batch-size", "50"]
    done = CliRunner().invoke(app, [*words, "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 2
    assert "error: HOG-GCN needs the whole graph at a time" in done.stderr
    assert not (tmp_path / "runs").exists()
