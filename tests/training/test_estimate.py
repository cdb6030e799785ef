"""What a run will take, said beforehand."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from tiny import tiny_config

import ncgnn
from ncgnn.errors import InputError
from ncgnn.training import Cost, estimate, estimate_run, may_be_long, time_text, train_run
from ncgnn.training.config import make_config
from ncgnn.training.trial import miniature, try_batches

module = sys.modules["ncgnn.training.cost"]


def generated(nodes, features=32):
    return ncgnn.generate(nodes=nodes, edges=5 * nodes, classes=5, features=features)


def test_more_of_anything_takes_more():
    small, large = generated(2_000), generated(20_000)
    for model in ("ncgcn", "gcn"):
        first = estimate(small, model, hidden=64)
        assert estimate(large, model, hidden=64).memory_gib > first.memory_gib
        assert estimate(small, model, hidden=512).memory_gib > first.memory_gib
        assert 0.2 < first.memory_gib < 2
        assert first.fits


def test_time_is_that_of_all_epochs():
    cost = estimate(generated(2_000), "ncgcn", hidden=64, epochs=30)
    assert cost.epochs == 30
    assert cost.seconds == pytest.approx(30 * cost.epoch_seconds)
    assert 1e-4 < cost.epoch_seconds < 5
    before = torch.random.get_rng_state()
    assert estimate(generated(2_000), "gcn", hidden=64, epochs=1).epoch_seconds > 1e-4
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_model_that_was_not_measured_is_not_guessed():
    assert estimate_run(tiny_config("linkx"), ncgnn.load("digits")) is None
    with pytest.raises(InputError, match=r"model must be one whose cost was measured; got linkx"):
        estimate(ncgnn.load("digits"), "linkx")


def test_a_run_that_does_not_fit_is_refused_before_it_begins(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "available_gib", lambda: 0.0)
    monkeypatch.setattr(module, "used_gib", lambda: 0.01)
    message = r"ncgcn needs about 0\.\d GiB of memory for this graph, and 0\.0 GiB are available"
    with pytest.raises(InputError, match=message) as refused:
        train_run(tiny_config(), tmp_path, graph=ncgnn.load("digits"))
    assert "memory_check = false" in str(refused.value)
    trained = ncgnn.fit(ncgnn.load("digits"), "ncgcn", hidden=16, epochs=2, memory_check=False)
    assert len(trained.history) == 2


def test_remedies_need_less_and_are_named():
    cost = Cost("ncgcn", 9.0, 4.0, 2.0, 500, remedies=REMEDIES)
    with pytest.raises(InputError, match=r'Set separation = "strict" \(3\.2 GiB\) or hidden = 32'):
        cost.check()
    assert "2.0 s per epoch, at most 17 min for 500 epochs; 4.0 GiB are available" in (
        cost.sentence()
    )
    graph = generated(50_000, features=16)
    found = estimate(graph, "ncgcn", hidden=512).remedies
    assert found["hidden = 256"] < estimate(graph, "ncgcn", hidden=512).memory_gib


def test_batches_are_a_remedy_and_are_not_refused_themselves(monkeypatch, tmp_path):
    graph = generated(1_000)
    assert "batch_size = 1024" in estimate(graph, "gcn").remedies
    monkeypatch.setattr(module, "available_gib", lambda: 0.0)
    monkeypatch.setattr(module, "used_gib", lambda: 0.01)
    told = {"hidden": 64, "epochs": 2}
    config = make_config(dataset="digits", model="gcn", settings=told)
    with pytest.raises(InputError, match=r"Set batch_size = 1024, or take a machine with more"):
        train_run(config, tmp_path, graph=graph)
    assert ncgnn.fit(graph, "gcn", **told, batch_size=256).history


def test_batches_are_estimated_from_some_of_them():
    graph = generated(3_000)
    told = {"hidden": 64, "epochs": 30, "batch_size": 300}
    cost = estimate(graph, "ncgcn", **told)
    assert cost.batch_size == 300
    assert cost.facts()["batch_size"] == 300
    assert "ncgcn in batches of 300: about 0." in cost.sentence()
    assert cost.seconds == pytest.approx(30 * cost.epoch_seconds)
    assert 0.5 < cost.memory_gib < 2
    wide = estimate(graph, "ncgcn", **(told | {"hidden": 2048}))
    assert wide.memory_gib > cost.memory_gib + 0.1
    assert wide.epoch_seconds > cost.epoch_seconds
    inductive = estimate(graph, "ncgcn", **told, protocol="inductive")
    assert inductive.epoch_seconds > 1e-4
    assert estimate(graph, "gcn", batch_size=300).memory_gib > 0.5
    assert estimate_run(make_config(dataset="digits", model="boosting"), graph) is None


def test_a_trial_tells_steps_and_widths():
    graph = generated(3_000)
    config = make_config(dataset="digits", model="sage", settings={"hidden": 32, "batch_size": 500})
    trial = try_batches(config, graph)
    assert trial.steps == 4  # of 1,800 training nodes
    assert trial.widths == (32, 5)
    assert trial.block_bytes > 500 * 32 * 4  # the features of a batch
    assert trial.kept_bytes > 0
    parts = trial.steps * trial.step_seconds + trial.pass_seconds + trial.group_seconds
    assert trial.epoch_seconds == pytest.approx(parts)


def test_pages_of_a_folder_do_not_count_as_needed(tmp_path):
    ncgnn.save(generated(20_000, features=256), tmp_path / "mine")
    graph = ncgnn.load(tmp_path / "mine")
    cost = estimate(graph, "gcn", hidden=16, batch_size=1024)
    assert cost.mapped_gib > 20_000 * 256 * 4 / 2**30
    assert replace(cost, available_gib=cost.memory_gib - cost.mapped_gib).fits
    assert not replace(cost, available_gib=cost.memory_gib - 1.1 * cost.mapped_gib).fits


def test_a_miniature_has_as_many_edges_per_node_and_every_part():
    graph = generated(6_000)
    split = ncgnn.make_split(graph)
    small, parts = miniature(graph, split, 10)
    assert 600 <= small.num_nodes <= 604
    mean = graph.num_entries / graph.num_nodes
    assert small.num_entries / small.num_nodes == pytest.approx(mean, rel=0.1)
    assert not small.is_directed
    for own, whole in zip((parts.train, parts.val), (split.train, split.val), strict=True):
        assert len(own) == pytest.approx(len(whole) / 10, abs=1)
    assert small.num_classes == graph.num_classes


def test_the_check_is_no_part_of_the_names_of_runs():
    plain = make_config(dataset="digits", model="gcn")
    assert (
        plain.name
        == make_config(dataset="digits", model="gcn", settings={"memory_check": True}).name
    )


def test_short_runs_are_not_timed_for():
    assert not may_be_long(tiny_config(), ncgnn.load("digits"))
    config = make_config(dataset="digits", model="ncgcn", settings={"hidden": 512})
    assert may_be_long(config, generated(50_000))


def test_another_device_is_not_judged():
    config = tiny_config().replaced("training", device="cuda")
    assert estimate_run(config, ncgnn.load("digits")) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12 ms"), (3.21, "3.2 s"), (45.6, "46 s"), (600, "10 min"), (9000, "2.5 h")],
)
def test_times_are_said_in_words(seconds, text):
    assert time_text(seconds) == text


REMEDIES = {'separation = "strict"': 3.2, "hidden = 32": 5.0}
CHILD = """
import json, pathlib, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
from ncgnn._memory import keep_freed_memory
keep_freed_memory()
import ncgnn
from ncgnn.report import write_run_report
from ncgnn.training import make_config, train_run
nodes, model = int(sys.argv[1]), sys.argv[2]
graph = ncgnn.generate(nodes=nodes, edges=8 * nodes, classes=6, features=48, homophily=0.6)
told = {"hidden": 96, "epochs": 4}
cost = ncgnn.estimate(graph, model, **told)
config = make_config(dataset="digits", model=model, settings=told)
clock, times = [time.process_time()], []
def after(record):
    times.append(time.process_time() - clock[0])
    clock[0] = time.process_time()
with tempfile.TemporaryDirectory() as folder:
    where = pathlib.Path(folder)
    train_run(config, where, graph=graph, on_epoch=after, before_done=write_run_report)
lines = pathlib.Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmHWM"))
seconds = sum(times[2:]) / len(times[2:])
print(json.dumps([cost.memory_gib / peak, cost.epoch_seconds / seconds]))
"""


def ratios(nodes, model):
    """Estimates divided by what a process of its own has taken."""
    command = [sys.executable, "-c", CHILD, str(nodes), model]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_an_estimate_is_near_what_a_run_takes():
    memory, seconds = ratios(5_000, "ncgcn")
    assert 0.6 < memory < 1.6
    assert 0.2 < seconds < 5


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("model", ["ncgcn", "gcn", "sage", "tuned-sage"])
def test_an_estimate_is_within_a_quarter(model):
    memory, _ = ratios(150_000, model)
    assert 0.75 < memory < 1.25
