"""Training on an emulated accelerator: where things are, and how often it is waited for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from tiny import InterruptedRunError, interrupt_at, tiny_config

import ncgnn
from emulated_device import NAME, Emulator
from ncgnn.errors import InputError
from ncgnn.nn import Grouper, Grouping, GroupingRule
from ncgnn.sparse import _backend
from ncgnn.training import load_run, new_trainer, train_run

SEPARATED = ("ncgcn", "ncsage")


@pytest.fixture
def device():
    with Emulator() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def graph():
    return ncgnn.generate(300, 900, classes=4, features=8, feature_signal=0.6, seed=5)


@pytest.fixture(scope="module")
def split(graph):
    return ncgnn.make_split(graph, "stratified", 0)


def trainer_on(place, graph, split, model="ncgcn", **settings):
    chosen = {"epochs": 30, "patience": 30, "precision": "float64", "threshold": 0.3} | settings
    chosen = chosen if model in SEPARATED else {k: v for k, v in chosen.items() if k != "threshold"}
    return new_trainer(tiny_config(model, device=place, **chosen), graph, split)


def check_same(expected, found):
    """Records are the same to rounding, in the same order."""
    assert len(expected) == len(found)
    for one, other in zip(expected, found, strict=True):
        assert list(one) == list(other)
        for name, value in one.items():
            same = value if value is None else pytest.approx(value, rel=1e-7)
            assert other[name] == same, name


WAITS = {
    "a number": lambda x: float(x.sum()),
    "a truth": lambda x: bool((x > 0).any()),
    "a copy": lambda x: x.cpu(),
    "a copy into another": lambda x: torch.empty(6, dtype=torch.float64).copy_(x),
    "places": lambda x: x.nonzero(),
    "a mask": lambda x: x[x > 0],
    "a mask that is written to": lambda x: x.index_put_((x > 0,), x.new_zeros(())),
    "masked": lambda x: x.masked_select(x > 0),
    "equal": lambda x: torch.equal(x, x + 1),
    "unique": lambda x: x.unique(),
    "bins": lambda x: torch.bincount(x.long(), minlength=9),
    "repeated": lambda x: torch.repeat_interleave(x, x.long()),
}


@pytest.mark.parametrize("case", WAITS)
def test_what_is_waited_for_is_counted(device, case):
    x = torch.arange(6, dtype=torch.float64).to(NAME)
    assert device.total == 0
    WAITS[case](x)
    assert device.total == 1


def test_what_is_not_waited_for_is_not_counted(device):
    x = torch.arange(6, dtype=torch.float64).to(NAME)
    x.index_select(0, x.long())[x.long()].mul_(2).sum()
    torch.repeat_interleave(x, x.long(), output_size=15).sort()
    (
        x.masked_fill(x > 0, 1),
        torch.where(x > 1, x, 0),
        torch.zeros_like(x).scatter_add_(0, x.long(), x),
    )
    assert device.total == 0
    assert device.sent == 1


def test_the_emulated_device_refuses_what_a_device_refuses(device):
    x = torch.ones(3).to(NAME)
    assert x.device.type == NAME
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError, match="numpy"):
        x.numpy()


MODELS = [
    ("ncgcn", {"separation": "renormalized"}),
    ("ncgcn", {"separation": "strict"}),
    ("gcn", {}),
    ("ncsage", {}),
    ("tuned-gcn", {}),
    ("mlp", {}),
    ("ncgcn", {"metric": "macro_f1"}),
]


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        pytest.param(*case, id="-".join(map(str, (case[0], *case[1].values()))), marks=marks)
        for place, case in enumerate(MODELS)
        for marks in [[] if place == 0 else [pytest.mark.slow]]
    ],
)
def test_an_ordinary_epoch_is_waited_for_at_most_twice(device, graph, split, model, settings):
    trainer = trainer_on(NAME, graph, split, model, **settings)
    rows = []

    def count(record):
        rows.append(
            (record["test_accuracy"] is not None, device.total, device.sent, device.largest)
        )
        device.restart()

    trainer.run(count, keeps_weights=True)
    # What groups change is made anew in the epoch after a new high.
    ordinary = [row for before, row in pairwise(rows) if not (before[0] or row[0])]
    others = [row for before, row in pairwise(rows) if before[0] or row[0]]
    assert len(ordinary) > 3, "too few ordinary epochs: little was tested"
    assert others, "no new high after the first: little was tested"
    logits = len(split.val) * graph.num_classes
    by_host = "metric" in settings  # scikit-learn looks at the logits of validation nodes
    assert {row[1] for row in ordinary} == {2 if by_host else 1}
    assert max(row[1] for row in others) <= (40 if model in SEPARATED else 4 + 2 * by_host)
    assert max(row[2] for row in rows[1:]) == 0, "something was sent to the device"
    if not by_host:
        assert max(row[3] for row in rows) < 20 < graph.num_nodes, "labels or groups came back"
        assert logits > 20


def test_groups_and_nc_stay_on_the_device(device, graph, split):
    trainer = trainer_on(NAME, graph, split, epochs=4)
    before = trainer.state.grouping
    trainer.epoch()
    after = trainer.state.grouping
    assert after is not before
    for grouping in (before, after):
        assert grouping.group.device.type == grouping.confusion.device.type == NAME
        assert grouping.to(trainer.inputs.device) is grouping
    assert grouping.confusion.cpu().any()


@pytest.mark.slow
@pytest.mark.parametrize("separation", ["renormalized", "strict"])
def test_training_there_is_training_here_to_rounding(device, graph, split, separation):
    records = []
    for place in ("cpu", NAME):
        records.append([])
        trainer_on(place, graph, split, separation=separation, epochs=8).run(records[-1].append)
    here, there = records
    assert len(here) == len(there) == 8
    assert len({tuple(record["group_sizes"]) for record in here}) > 1, "groups never changed"
    check_same(here, there)


@pytest.mark.slow
def test_a_run_there_is_kept_resumed_evaluated_and_read_here(device, tmp_path):
    config = tiny_config(epochs=8, device=NAME)
    whole = train_run(config, tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        train_run(config, tmp_path / "parts", on_epoch=interrupt_at(4), checkpoint_seconds=0)
    resumed = []
    parts = train_run(config, tmp_path / "parts", on_resume=resumed.append)
    assert resumed
    assert parts.result["scores"] == whole.result["scores"]
    there, here = load_run(whole.folder), load_run(whole.folder, device="cpu")
    assert there.inputs.device.type == NAME
    assert there.grouping.group.device.type == "cpu"
    assert torch.equal(there.grouping.group, here.grouping.group)
    torch.testing.assert_close(there.logits().cpu(), here.logits(), rtol=1e-3, atol=1e-3)
    assert len(there.predict()) == there.graph.num_nodes


RULES = [
    GroupingRule(guidance=guidance, kind=kind, thresholds=thresholds, hops=hops)
    for guidance, kinds in (
        ("nc", ("value", "quantile", "attainable", "attainable-quantile")),
        ("nh", ("value", "quantile")),
        ("degree", ("value",)),
    )
    for kind in kinds
    for thresholds in ((0.5,), (0.0, 0.3, 0.9, 1.0))
    for hops in (1, 2)
]


@pytest.mark.parametrize("unlabeled", [0.0, 0.5, 0.97])
@pytest.mark.parametrize(
    "rule", RULES, ids=lambda r: f"{r.guidance}-{r.kind}-{len(r.thresholds)}-{r.hops}"
)
def test_torch_groups_as_compiled_code_does(graph, rule, unlabeled):
    draw = np.random.default_rng(3)
    labels = np.where(draw.random(300) < unlabeled, -1, draw.integers(0, 4, 300))
    grouper = Grouper(graph, rule)
    expected = grouper(torch.from_numpy(labels))
    with _backend.forced("chunks"):
        found = Grouper(graph, rule)(torch.from_numpy(labels))
    assert torch.equal(found.group, expected.group)
    assert found.group.dtype == expected.group.dtype
    np.testing.assert_allclose(found.confusion, expected.confusion, rtol=0, atol=1e-12)


def test_torch_refuses_what_compiled_code_refuses(graph):
    for labels, message in (
        (np.full(300, -1), "no labels"),
        (np.arange(300), "contain.* 299, but"),
    ):
        for path in ("compiled", "chunks"):
            with _backend.forced(path), pytest.raises(InputError, match=message):
                Grouper(graph, GroupingRule())(torch.from_numpy(labels))


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("ncgcn", "chunks"),
        pytest.param("ncgcn", "csr", marks=pytest.mark.slow),
        pytest.param("tuned-gcn", "chunks", marks=pytest.mark.slow),
        pytest.param("tuned-gcn", "csr", marks=pytest.mark.slow),
    ],
)
def test_whole_runs_are_the_same_on_every_path(graph, split, model, path):
    records = []
    for one in ("compiled", path):
        records.append([])
        with _backend.forced(one):
            trainer_on("cpu", graph, split, model, epochs=8).run(records[-1].append)
    check_same(*records)


def test_groups_are_described_once(device):
    grouping = Grouping.start(7, NAME)
    for _ in range(3):
        assert grouping.describe(2) == (0.0, [7, 0])
    assert device.total == 1
