"""Several processes train one model: the same as one process does, to rounding."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

import ncgnn
from ncgnn.errors import InputError
from ncgnn.nn import BlockMaker, DropoutKey, compute_block, infer, minibatch
from ncgnn.training import LostRankError, Ranks, make_config
from ncgnn.training.folder import read_tensors
from ncgnn.training.loading import new_trainer

SMALL = {"hidden": 8, "epochs": 4, "batch_size": 40, "fanout": (4, 4), "precision": "float64"}
WHOLE = {"batch_size": None, "fanout": None}
#: What is trained by one process and by several.
CASES = [
    ("ncgcn", {}),
    ("ncgcn", {"sampling": "labor", "fanout": (4, 2)}),
    ("ncgcn", {"batch_size": 41, "averaging": 0.9}),  # the last batch has one node
    ("ncgcn", {"protocol": "inductive"}),
    ("ncgcn", WHOLE),
    ("ncsage", {}),
    ("ncsage", {"sampling": "labor", "separation": "strict"}),
    ("ncsage", WHOLE),
    ("gcn", {"fanout": (5, 2)}),
    ("gcn", {"sampling": "labor"}),
    ("gcn", WHOLE),
    ("gat", {"fanout": (3, 2)}),
    ("gat", {"sampling": "labor"}),
    ("gat", WHOLE),
    ("tuned-sage", {"layers": 3, "fanout": (4, 3, 2), "norm": "layer"}),
    ("tuned-sage", {"layers": 2, "sampling": "labor", "norm": "none"}),
    ("tuned-sage", {"norm": "batch"} | WHOLE),
    ("mlp", {"fanout": None}),
    ("gbksage", WHOLE),  # three with losses of their own, two with stages
    ("hog", WHOLE),
    ("cpgnn", {"cotraining": 1.0} | WHOLE),
]


def make_graph(nodes=300, edges=1800):
    groups = [(0.7, 0.9), (0.3, 0.3)]
    return ncgnn.generate(nodes, edges, classes=3, features=12, groups=groups, seed=3)


def config_for(model, more, dataset="mine"):
    settings = {name: value for name, value in (SMALL | more).items() if name != "protocol"}
    protocol = {"data.protocol": more["protocol"]} if "protocol" in more else {}
    return make_config(dataset=dataset, model=model, settings=settings | protocol)


def train(graph, ranks, model, more):
    trainer = new_trainer(config_for(model, more), graph)
    trainer.join(ranks)
    records = []
    trainer.run(records.append, keeps_weights=True)
    return trainer.model.state_dict(), trainer.state.best_grouping.group, records


def check_same(one, other, tolerance=1e-10):
    """The same weights, groups and records, to rounding."""
    assert one[0].keys() == other[0].keys()
    for name, value in one[0].items():
        torch.testing.assert_close(other[0][name], value, rtol=0, atol=tolerance)
    assert torch.equal(one[1], other[1])
    for mine, theirs in zip(one[2], other[2], strict=True):
        assert mine.keys() == theirs.keys()
        for name in ("loss", "train_accuracy", "val_accuracy", "val_loss"):
            assert mine[name] == pytest.approx(theirs[name], abs=tolerance), name


PROGRAM = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
import test_ranks
from ncgnn.training import join_ranks
cases = json.loads(sys.argv[3])
with join_ranks() as ranks:
    graph = test_ranks.make_graph()
    trained = [test_ranks.train(graph, ranks, *case) for case in cases]
    torch.save(trained, f"{sys.argv[2]}.{ranks.rank}")
"""


def environment(rank, count, port):
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    said = {name: str(value) for name, value in told.items()}
    return os.environ | threads | said | {"MASTER_ADDR": "127.0.0.1"}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start_ranks(count, program, *arguments):
    """A process per rank, which all run a program."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(rank, count, port),
        )
        for rank in range(count)
    ]


def results_of(processes):
    """What they print, and how they end."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=900)
        found.append((process.returncode, out, err))
    return found


def train_together(count, cases, tmp_path):
    """What every rank has trained."""
    place = tmp_path / "trained"
    here = Path(__file__).resolve().parent
    for code, _, err in results_of(start_ranks(count, PROGRAM, here, place, json.dumps(cases))):
        assert code == 0, err
    return [torch.load(f"{place}.{rank}", weights_only=False) for rank in range(count)]


def check_cases(count, cases, tmp_path):
    graph, together = make_graph(), train_together(count, cases, tmp_path)
    for place, case in enumerate(cases):
        alone = train(graph, Ranks(), *case)
        first = together[0][place]
        check_same(alone, first)
        for other in together[1:]:  # no rank differs from another in a single bit
            assert all(
                torch.equal(first[0][name], value) for name, value in other[place][0].items()
            )
            assert torch.equal(first[1], other[place][1])
            assert [json.dumps(one) for one in first[2]] == [json.dumps(r) for r in other[place][2]]


def test_two_processes_train_the_model_of_one(tmp_path):
    check_cases(2, [("ncgcn", {"batch_size": 41, "fanout": (4, 2), "epochs": 2})], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_every_kind_of_model_is_that_of_one_process(tmp_path, count):
    check_cases(count, CASES, tmp_path)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("nodes", [1, 2, 7, 12])
def test_shares_cover_the_nodes(count, nodes):
    everyone = torch.arange(nodes) + 10
    shares = [Ranks(rank, count).share(everyone) for rank in range(count)]
    counted = torch.cat([share.nodes[: share.counts] for share in shares])
    assert counted.sort().values.tolist() == everyone.tolist()
    assert all(len(share.nodes) for share in shares)
    # The mean over ranks of their weighted means is the mean of all.
    values = torch.arange(nodes + 10, dtype=torch.float64) ** 2
    means = [share.weight * values[share.nodes].mean() for share in shares]
    assert float(sum(means) / count) == pytest.approx(float(values[everyone].mean()))


def gradients(model, group, block, labels, weight, step):
    for parameter in model.parameters():
        parameter.grad = None
    logits = compute_block(model, block, group, DropoutKey(0, step, block.places))
    (weight * cross_entropy(logits, labels)).backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("sampling", ["uniform", "labor"])
@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("ncgcn", {"fanout": (4, 2)}),
        ("ncsage", {"separation": "target-only"}),
        ("gat", {"fanout": (3, 2)}),
        ("gat", {"direction": "separate", "fanout": (2, 4)}),
        ("tuned-sage", {"layers": 3, "fanout": (4, 3, 2), "norm": "layer"}),
        ("mlp", {"fanout": None}),
    ],
)
def test_gradients_of_shares_add_up(model, more, sampling):
    graph = make_graph()
    if more.get("direction"):
        ends = torch.randint(300, (2, 1500), generator=torch.manual_seed(0)).numpy()
        graph = ncgnn.graph.Graph.from_edge_index(
            ends, labels=graph.labels, features=graph.features
        )
    trainer = new_trainer(config_for(model, more | {"sampling": sampling}), graph)
    group = torch.arange(300) % 2
    trainer.model.train()

    def drawn(ranks):
        with trainer.batches.draw(trainer.train, group, 0, ranks=ranks) as batches:
            return list(batches)

    parts = [drawn(Ranks(rank, 3)) for rank in range(3)]
    for step, (nodes, block, own) in enumerate(drawn(Ranks())):
        labels = trainer.seen.labels[nodes]
        whole = gradients(trainer.model, own, block, labels, 1.0, step)
        several = []
        for rank, batches in enumerate(parts):
            of_all, block, own = batches[step]
            assert torch.equal(of_all, nodes)
            share = Ranks(rank, 3).share(nodes)
            assert torch.equal(block.nodes[: len(share.nodes)], share.nodes)
            labels = trainer.seen.labels[share.nodes]
            several.append(gradients(trainer.model, own, block, labels, share.weight / 3, step))
        for expected, *found in zip(whole, *several, strict=True):
            known = [one for one in found if one is not None]
            assert (expected is None) == (not known)
            if expected is not None:
                torch.testing.assert_close(sum(known), expected, rtol=1e-9, atol=1e-12)


class Threads:
    """Helpers of an inference that are threads of one process."""

    def __init__(self, rank, count, shared, barrier):
        self.rank, self.count, self.shared, self.barrier = rank, count, shared, barrier

    def exchange(self, rows, ends):
        self.shared[self.rank] = rows
        self.barrier.wait()
        copies = [one.clone() for one in self.shared]
        self.barrier.wait()
        for rank, end in enumerate(ends):
            first = ends[rank - 1] if rank else 0
            rows[first:end] = copies[rank][first:end]


@pytest.mark.parametrize("count", [2, 3, 20])
def test_ranks_share_the_work_of_inference(monkeypatch, count):
    monkeypatch.setattr(minibatch, "_EDGES_AT_ONCE", 300)
    graph = make_graph()
    trainer = new_trainer(config_for("ncgcn", {}), graph)
    group = torch.arange(300) % 2
    alone = infer(BlockMaker(trainer.inputs, trainer.model), group)
    computed, found = [0] * count, [None] * count
    shared, barrier = [None] * count, threading.Barrier(count, timeout=60)

    def work(rank):
        model = copy.deepcopy(trainer.model)
        layer = model.compute_layer

        def counted(*arguments):
            computed[rank] += 1
            return layer(*arguments)

        model.compute_layer = counted
        maker = BlockMaker(trainer.inputs, model)
        found[rank] = infer(maker, group, Threads(rank, count, shared, barrier))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        assert torch.equal(one, alone)  # rows are those of the same blocks
    blocks = len(minibatch.row_parts(BlockMaker(trainer.inputs, trainer.model)))
    # With fewer blocks than processes each computes all of them.
    assert sum(computed) == 2 * blocks * (1 if count <= blocks else count)


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        ("majority", WHOLE, "is fitted at once"),
        ("tuned-sage", {"norm": "batch", "layers": 2}, "norm must be 'layer' or 'none'"),
    ],
)
def test_what_cannot_be_shared_is_refused(model, more, words):
    settings = more | {"hidden": 8} if model != "majority" else {}
    config = make_config(dataset="mine", model=model, settings=SMALL | settings if settings else {})
    with pytest.raises(InputError, match=words):
        new_trainer(config, make_graph()).join(Ranks(1, 2))
    new_trainer(config, make_graph()).join(Ranks())


def test_one_rank_hears_itself():
    ranks = Ranks.here()
    assert ranks.alone
    assert ranks.leads
    assert ranks.sum(1.5, 2) == [1.5, 2]
    assert ranks.first(lambda: 3) == ranks.together(lambda: 3) == ranks.broadcast(3) == 3
    assert ranks.any(True)
    assert not ranks.any(False)
    nodes = torch.arange(3)
    assert ranks.share(nodes).nodes is nodes


def test_a_lost_connection_is_one_sentence_and_other_errors_are_themselves():
    lost = RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer")
    other = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(LostRankError, match="the same command continues"), Ranks(0, 2).hearing():
        raise lost
    for ranks, error in ((Ranks(0, 2), other), (Ranks(), lost), (Ranks(), other)):
        with pytest.raises(RuntimeError) as raised, ranks.hearing():
            raise error
        assert raised.value is error


ERRORS = """
import sys
from ncgnn.errors import InputError
from ncgnn.training import join_ranks
def fail(*where):
    if ranks.rank in where:
        raise InputError(f"{ranks.rank} must be another number.")
    return ranks.rank
with join_ranks() as ranks:
    assert ranks.together(lambda: fail()) == ranks.rank
    assert ranks.first(lambda: fail(1)) == 0
    assert ranks.any(ranks.rank == 1)
    assert ranks.sum(ranks.rank, 1.0) == [1.0, 2.0]
    for call, where in ((ranks.first, (0,)), (ranks.together, (1,)), (ranks.together, (0, 1))):
        try:
            call(lambda: fail(*where))
        except InputError as error:
            print(error)
"""


@pytest.mark.slow
def test_all_ranks_hear_of_an_error():
    zeros = "0 must be another number.\n"
    told = results_of(start_ranks(2, ERRORS))
    assert [code for code, _, _ in told] == [0, 0], told
    assert told[0][1] == f"{zeros}rank 1: 1 must be another number.\n{zeros}"
    assert told[1][1] == f"{zeros}1 must be another number.\n{zeros}"


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_ranks
from ncgnn.training import join_ranks, train_run
_, _, dataset, runs, stop_after = sys.argv
asked = []
def stop():  # one rank alone is asked to
    asked.append(0)
    return ranks.rank == ranks.count - 1 and len(asked) == int(stop_after)
with join_ranks() as ranks:
    seen = []
    try:
        config = test_ranks.config_for("ncgcn", {"epochs": 6}, dataset)
        place = Path(runs) if ranks.leads else Path(runs) / "nobody writes here"
        run = train_run(config, place, on_epoch=seen.append, stop=stop)
        print(run.fresh, run.result["epochs"], len(seen))
    except KeyboardInterrupt:
        print("stopped")
"""


def finish(count, place, runs, stop_after=0):
    here = Path(__file__).resolve().parent
    told = results_of(start_ranks(count, RUN, here, place, runs, stop_after))
    assert [code for code, _, _ in told] == [0] * count, told
    return [out.strip() for _, out, _ in told]


def run_in(runs):
    """The one run in a folder."""
    (folder,) = [path for path in runs.iterdir() if path.name != "latest"]
    return folder


def check_runs_alike(one, other, tolerance=1e-9):
    """Two runs of the same name in two folders: the same numbers, to rounding."""
    mine, theirs = run_in(one), run_in(other)
    assert mine.name == theirs.name
    tensors = [read_tensors(run / "weights.safetensors")[0] for run in (mine, theirs)]
    for name, value in tensors[0].items():
        torch.testing.assert_close(tensors[1][name], value, rtol=0, atol=tolerance)
    lines = [(p / "metrics.jsonl").read_text("utf-8").splitlines() for p in (mine, theirs)]
    for line, other_line in zip(*lines, strict=True):
        record, again = json.loads(line), json.loads(other_line)
        assert record["val_loss"] == pytest.approx(again["val_loss"], abs=tolerance)
    return mine, theirs


@pytest.mark.slow
def test_a_run_of_two_ranks_is_continued_by_three_and_by_one(tmp_path):
    place = tmp_path / "mine.npz"
    ncgnn.save(make_graph(), place)
    assert finish(1, place, tmp_path / "alone") == ["True 6 6"]
    runs = tmp_path / "runs"
    assert finish(2, place, runs, 12) == ["stopped"] * 2  # within the third epoch
    assert finish(3, place, runs, 9) == ["stopped"] * 3
    assert finish(1, place, runs) == ["True 6 6"]
    mine, theirs = check_runs_alike(tmp_path / "alone", runs)
    assert not (runs / "nobody writes here").exists()
    assert json.loads((mine / "environment.json").read_text())["processes"] == 1
    begun = json.loads((theirs / "environment.json").read_text())
    assert [begun["processes"], *(one["processes"] for one in begun["continued_in"])] == [2, 3, 1]
    assert finish(2, place, runs) == ["False 6 0"] * 2  # found finished by all


def torchrun(count, *arguments):
    command = ["-m", "torch.distributed.run", f"--nproc-per-node={count}"]
    command += [f"--master-port={free_port()}", "-m", "ncgnn", *map(str, arguments)]
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )


def children_of(process):
    psutil = pytest.importorskip("psutil")
    return [one.pid for one in psutil.Process(process.pid).children()]


def command_for(place, runs, epochs):
    settings = {"epochs": epochs, "patience": epochs, "hidden": 8, "precision": "float64"}
    named = [f"--set={name}={value}" for name, value in settings.items()]
    return ["train", place, "--models=ncgcn", "--batch-size=40", f"--runs={runs}", *named]


def own_lines(text):
    """What the command says itself: torch's launcher has its own words, with brackets and stars."""
    return [line for line in text.splitlines() if line.startswith(("error", "interrupted"))]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_ranks_leave_a_run_that_continues(tmp_path):
    place, epochs, rng = tmp_path / "mine.npz", 40, random.Random(5)
    ncgnn.save(make_graph(), place)
    finish_all(torchrun(2, *command_for(place, tmp_path / "whole", epochs)))
    runs, hits = tmp_path / "runs", 0
    for victim in (1, 0):
        process = torchrun(2, *command_for(place, runs, epochs))
        target = count_lines(runs) + rng.randint(1, 6)
        while process.poll() is None and count_lines(runs) <= target:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        if process.poll() is None:
            hits += 1
            os.kill(children_of(process)[victim], signal.SIGKILL)
        began = time.monotonic()
        _, err = process.communicate(timeout=900)
        assert time.monotonic() - began < 60
        (said,) = own_lines(err)
        assert "another process of this run has ended" in said
        assert "ncgnn/training" not in err, "no traceback of ours"
        folder = run_in(runs)
        assert not (folder / "error.json").exists()
        assert not (folder / "done.json").exists()
    assert hits, "the processes ended before they could be killed"
    finish_all(torchrun(2, *command_for(place, runs, epochs)))
    check_runs_alike(tmp_path / "whole", runs)


def finish_all(process):
    _, err = process.communicate(timeout=900)
    assert process.returncode == 0, err


def count_lines(runs):
    return sum(path.read_bytes().count(b"\n") for path in runs.glob("*/metrics.jsonl"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_signal_saves_the_state_of_all_ranks(tmp_path):
    place, runs = tmp_path / "mine.npz", tmp_path / "runs"
    ncgnn.save(make_graph(), place)
    process = torchrun(2, *command_for(place, runs, 5000))
    while process.poll() is None and not count_lines(runs):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=900)
    (said,) = own_lines(err)
    assert said.startswith("interrupted; the same command continues")
    folder = run_in(runs)
    assert (folder / "checkpoint.safetensors").is_file()
    assert not (folder / "error.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "digits", "--models=gcn"], "'ncgnn sweep' runs in one process"),
        (["train", "digits", "--models=auto"], "auto runs in one process"),
        (["train", "digits", "--models=majority"], "fitted at once"),
        (["train", "nowhere.npz", "--models=gcn"], "nowhere.npz"),
        (["train", "digits", "--models=gcn", "--refit"], "--refit runs in one process"),
    ],
)
def test_what_runs_in_one_process_is_refused_in_a_sentence(tmp_path, arguments, words):
    process = torchrun(2, *arguments, *([f"--runs={tmp_path}"] if arguments[0] == "train" else []))
    _, err = process.communicate(timeout=900)
    (said,) = own_lines(err)
    assert words in said
    assert process.returncode != 0
