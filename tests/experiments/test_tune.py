from __future__ import annotations

import csv
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import ncgnn
from ncgnn.errors import InputError
from ncgnn.experiments import Watcher, tune
from ncgnn.experiments.tuning.space import make_search
from ncgnn.experiments.tuning.storage import SearchError, quiet
from ncgnn.experiments.tuning.study import Study
from ncgnn.nn import MLP
from ncgnn.training import make_config, train_run
from ncgnn.training.folder import DONE, ERROR

QUICK = {"hidden": 16, "epochs": 5}
LONG = {"hidden": 16, "epochs": 400, "patience": 400}


in_process = pytest.mark.usefixtures("in_process")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small search on a small graph."""
    graph = tmp_path_factory.mktemp("data") / "g.npz"
    ncgnn.save(ncgnn.generate(300, 900, classes=3, features=8, seed=1), graph)

    def search(runs, **options):
        given = {"trials": 4, "workers": 1, "settings": QUICK, "evaluate_seeds": 0, "runs": runs}
        return tune(str(graph), "mlp", **(given | options))

    return search


def rows(folder):
    with (folder / "trials.csv").open() as stream:
        return list(csv.DictReader(stream))


def trials_of(result, settings=QUICK, total=4):
    """The trials of a study as its storage holds them."""
    dataset = result.config.data.dataset
    with quiet():
        search = make_search(dataset=dataset, model="mlp", settings=settings)
        return Study(search, result.folder, total).trials()


class Stopping(Watcher):
    """Stops when a run has begun in a study."""

    def __init__(self, runs):
        self.runs = runs

    def stop(self):
        return any(self.runs.glob("tune-*/trials/*/*/metrics.jsonl"))


@pytest.fixture(scope="module")
def searched(small, tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    return runs, small(runs, evaluate_seeds=2, seeds=(0, 3))


def test_the_best_trial_wins(searched):
    _, result = searched
    table = rows(result.folder)
    assert len(table) == 4
    assert result.value == max(float(row["val_accuracy"]) for row in table)
    best = max(table, key=lambda row: float(row["val_accuracy"]))
    for option, value in result.parameters.items():
        assert str(value) == best[option]
    assert (result.state.complete, result.state.pruned, result.state.failed) == (4, 0, 0)


@in_process
def test_the_metric_decides_which_trial_wins(tmp_path):
    settings = QUICK | {"metric": "macro_f1"}
    options = {"trials": 3, "workers": 1, "evaluate_seeds": 0, "runs": tmp_path / "study"}
    result = tune("digits", "mlp", settings=settings, **options)
    values = [float(row["val_macro_f1"]) for row in rows(result.folder)]
    assert result.value == max(values)
    found = train_run(result.config, tmp_path).result
    assert found["scores"]["val"]["macro_f1"] == result.value
    assert (found["metric"], result.state.metric) == ("macro_f1", "macro_f1")
    assert f"# macro-F1, {result.value:.4f}" in (result.folder / "best.toml").read_text()
    with pytest.raises(InputError, match="set it with --metric"):
        tune("digits", "mlp", search={"metric": ["accuracy", "macro_f1"]}, **options)


@in_process
def test_a_trial_is_the_mean_over_its_seeds(searched, tmp_path):
    _, result = searched
    configs = [result.config.model_copy(update={"training": t}) for t in _with_seeds(result, 0, 3)]
    values = [train_run(c, tmp_path).result["scores"]["val"]["accuracy"] for c in configs]
    assert result.value == statistics.fmean(values)


def _with_seeds(result, *seeds):
    return [result.config.training.model_copy(update={"seed": seed}) for seed in seeds]


@in_process
def test_the_best_configuration_trains_and_is_what_was_evaluated(searched):
    runs, result = searched
    assert [run.config.training.seed for run in result.runs] == [1, 2]
    for run in result.runs:
        config = make_config(config=result.folder / "best.toml", seed=run.config.training.seed)
        assert config == run.config
        assert not train_run(config, runs).fresh
    best = result.folder / "best.toml"
    assert best.read_text().startswith("# Found by 'ncgnn tune'")
    graph, *options = result.comparison_command((4,))[2:]
    assert graph == result.config.data.dataset
    assert options == ["--config", str(best), "--runs", str(runs), "--seeds", "4,"]
    assert result.comparison_command()[-1] == "1,2"


def test_nothing_heavy_is_kept_and_test_scores_are_not(searched):
    _, result = searched
    names = {path.name for path in result.folder.rglob("*") if path.is_file()}
    assert names == {"best.toml", "trials.csv", "journal.jsonl", "journal.lock", "study.lock"}
    assert "test" not in (result.folder / "journal.jsonl").read_text()


@in_process
def test_the_same_call_again_does_only_what_is_missing(small, tmp_path):
    first = small(tmp_path, trials=2)
    journal = first.folder / "journal.jsonl"
    before, table = journal.read_bytes(), rows(first.folder)
    again = small(tmp_path, trials=2)
    assert journal.read_bytes() == before
    assert again == first
    more = small(tmp_path, trials=4)
    assert journal.read_bytes().startswith(before)
    assert (more.folder, more.state.complete) == (first.folder, 4)
    assert rows(more.folder)[:2] == table
    straight = small(tmp_path / "straight")
    assert _without_times(rows(straight.folder)) == _without_times(rows(more.folder))


def _without_times(table):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in table]


@pytest.mark.slow
def test_a_stopped_search_goes_on_from_its_checkpoint(small, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        small(tmp_path, trials=2, settings=LONG, watcher=Stopping(tmp_path))
    (study,) = tmp_path.iterdir()
    assert len(list(study.glob("trials/00000/*/checkpoint.safetensors"))) == 1
    assert not (study / "best.toml").exists()
    result = small(tmp_path, trials=2, settings=LONG)
    straight = small(tmp_path / "straight", trials=2, settings=LONG)
    found, wanted = _without_times(rows(result.folder)), _without_times(rows(straight.folder))
    assert [row.pop("trial") for row in found] == ["1", "2"]
    assert [row.pop("trial") for row in wanted] == ["0", "1"]
    assert found == wanted


class StoppingAfterOne(Watcher):
    """Stops when a trial is complete."""

    complete = 0

    def on_trial(self, state):
        self.complete = state.complete

    def stop(self):
        return self.complete > 0


def test_the_best_so_far_is_written_when_a_search_is_stopped(small, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        small(tmp_path, trials=50, watcher=StoppingAfterOne())
    (study,) = tmp_path.iterdir()
    values = [float(row["val_accuracy"]) for row in rows(study)]
    assert 0 < len(values) < 50
    assert f"accuracy, {max(values):.4f}, over seed 0" in (study / "best.toml").read_text()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_killed_process_is_replaced_and_loses_nothing(small, tmp_path):
    killed: list[int] = []

    def kill_one() -> None:
        while not any(tmp_path.glob("tune-*/trials/*/*/metrics.jsonl")):
            time.sleep(0.02)
        (process,) = multiprocessing.active_children()
        os.kill(process.pid or 0, signal.SIGKILL)
        killed.append(process.pid or 0)

    killer = threading.Thread(target=kill_one)
    killer.start()
    result = small(tmp_path, trials=2, settings=LONG)
    killer.join()
    trials = trials_of(result, LONG, total=2)
    assert killed
    assert [trial.state.name for trial in trials] == ["FAIL", "COMPLETE", "COMPLETE"]
    assert trials[1].params == trials[0].params
    assert trials[1].user_attrs["deaths"] == 1
    assert result.state.failed == 0


def test_processes_that_start_together_share_the_work(small, tmp_path):
    result = small(tmp_path, trials=6, workers=3)
    assert result.state.done == 6
    states = [trial.state.name for trial in trials_of(result)]
    assert len(states) == 6
    assert set(states) <= {"COMPLETE", "PRUNED"}  # the last ones may be, by who is faster


def test_two_searches_at_once_are_one(small, tmp_path):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(small(tmp_path, trials=6))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.state.done for result in results] == [6, 6]
    assert results[0].parameters == results[1].parameters


@in_process
def test_test_labels_change_nothing(tmp_path):
    graph = ncgnn.generate(300, 900, classes=3, features=8, seed=1)
    test = ncgnn.make_split(graph, "uniform", 0).test
    labels = np.array(graph.labels)
    labels[test] = (labels[test] + 1) % 3
    changed = replace(graph, labels=labels)
    found = []
    for name, one in (("as-it-is", graph), ("changed", changed)):
        ncgnn.save(one, tmp_path / name / "g.npz")
        result = tune(
            str(tmp_path / name / "g.npz"),
            "ncgcn",
            trials=4,
            workers=1,
            split="uniform",
            settings=QUICK,
            evaluate_seeds=0,
            runs=tmp_path / "runs",
        )
        found.append((result.parameters, result.value, _without_times(rows(result.folder))))
    assert found[0] == found[1]


@in_process
def test_a_changed_graph_is_another_study(tmp_path):
    file = tmp_path / "g.npz"
    ncgnn.save(ncgnn.generate(100, 300, classes=2, features=4, seed=1), file)
    options = {"trials": 1, "settings": QUICK, "evaluate_seeds": 0, "workers": 1, "runs": tmp_path}
    first = tune(str(file), "mlp", **options)
    ncgnn.save(ncgnn.generate(100, 300, classes=2, features=4, seed=2), file)
    second = tune(str(file), "mlp", **options)
    assert second.folder != first.folder
    assert len(list(tmp_path.glob("tune-g-mlp-*"))) == 2


@in_process
def test_runs_on_another_graph_of_that_name_are_noticed_before_the_search(tmp_path):
    file = tmp_path / "g.npz"
    options = {"trials": 1, "settings": QUICK, "evaluate_seeds": 1, "workers": 1}
    ncgnn.save(ncgnn.generate(100, 300, classes=2, features=4, seed=1), file)
    first = tune(str(file), "mlp", runs=tmp_path / "runs", **options)
    assert (first.fresh, len(first.runs)) == ((1,), 1)
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "g.npz"  # has the same name, but is another file
    for path in (file, other):
        ncgnn.save(ncgnn.generate(100, 300, classes=2, features=4, seed=2), path)
    unrelated = {**options, "settings": QUICK | {"hidden": 5}}
    assert len(tune(str(file), "mlp", runs=tmp_path / "runs", **unrelated).runs) == 1
    with pytest.raises(InputError, match=f"g.npz has changed since .*{first.runs[0].folder.name}"):
        tune(str(file), "mlp", runs=tmp_path / "runs", **options)
    assert len(list((tmp_path / "runs").glob("tune-*"))) == 2
    assert len(tune(str(other), "mlp", runs=tmp_path / "runs", **options).runs) == 1


@in_process
def test_when_every_trial_fails_the_error_says_why(small, tmp_path):
    hopeless = {"search": {"training.learning_rate": [1e30]}}
    message = r"no trial was complete.*--retry-failed tries again.*in epoch 0; lower"
    with pytest.raises(InputError, match=message):
        small(tmp_path, **hopeless)
    (study,) = tmp_path.iterdir()
    before = rows(study)
    assert [row["state"] for row in before] == ["fail"] * 5
    with pytest.raises(InputError, match=message):
        small(tmp_path, **hopeless)
    assert rows(study) == before
    with pytest.raises(InputError, match=message):
        small(tmp_path, **hopeless, retry_failed=True)
    after = rows(study)
    assert [int(row["trial"]) for row in after] == [int(row["trial"]) + 5 for row in before]


@in_process
def test_a_failed_run_of_the_winner_is_tried_once_more_if_wanted(small, tmp_path):
    options = {"trials": 1, "evaluate_seeds": 1}
    (run,) = small(tmp_path, **options).runs
    (run.folder / DONE).unlink()
    (run.folder / ERROR).write_text('{"format": 1, "error": "the disk was full"}')
    assert small(tmp_path, **options).failed == {run.folder: "the disk was full"}
    retried = small(tmp_path, **options, retry_failed=True)
    assert (retried.failed, len(retried.runs)) == ({}, 1)


@in_process
def test_the_share_of_test_nodes_that_the_search_has_seen(small, tmp_path):
    result = small(tmp_path, trials=1, evaluate_seeds=2)
    graph = ncgnn.load(result.config.data.dataset)
    known = set(ncgnn.make_split(graph, "stratified", 0).test.tolist())
    tests = [ncgnn.make_split(graph, "stratified", seed).test.tolist() for seed in (1, 2)]
    nodes = [node for test in tests for node in test]
    assert result.seen == pytest.approx(sum(node not in known for node in nodes) / len(nodes))
    assert 0.5 < result.seen < 1
    assert small(tmp_path, trials=1, evaluate_seeds=0).seen is None


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_request_to_end_is_for_the_parent_to_hear(small, tmp_path):
    asked: list[int] = []

    def ask() -> None:
        while not any(tmp_path.glob("tune-*/trials/*/*/metrics.jsonl")):
            time.sleep(0.02)
        (process,) = multiprocessing.active_children()
        os.kill(process.pid or 0, signal.SIGTERM)
        asked.append(process.pid or 0)

    thread = threading.Thread(target=ask)
    thread.start()
    result = small(tmp_path, trials=1, settings=LONG)
    thread.join()
    assert asked
    assert [trial.state.name for trial in trials_of(result, LONG, total=1)] == ["COMPLETE"]


@pytest.mark.slow
def test_a_script_without_a_guard_hears_of_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from ncgnn.experiments import tune\n"
        f"tune('digits', 'mlp', trials=1, workers=2, runs={str(tmp_path / 'runs')!r})\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ncgnn.errors.InputError: ")
    assert 'if __name__ == "__main__":' in last


@in_process
def test_a_bad_trial_is_pruned(small, tmp_path):
    rates = {"training.learning_rate": [1e-9, 0.02, 0.03, 0.04, 0.05]}
    settings = {"hidden": 16, "epochs": 30}
    result = small(tmp_path, trials=14, settings=settings, search=rates)
    assert result.state.pruned
    assert result.state.done == 14
    pruned = [row for row in rows(result.folder) if row["state"] == "pruned"]
    assert "1e-09" in {row["training.learning_rate"] for row in pruned}
    assert {row["val_accuracy"] for row in pruned} == {""}
    assert result.parameters["training.learning_rate"] > 0.01


@in_process
def test_a_small_space_is_tried_once_and_no_more(small, tmp_path):
    space = {"training.learning_rate": [0.01, 0.02]}
    fixed = QUICK | {"weight_decay": 0.0, "dropout": 0.1}
    result = small(tmp_path, trials=5, settings=fixed, search=space)
    assert result.state.done == 2
    assert result.state.is_exhausted
    assert sorted(row["training.learning_rate"] for row in rows(result.folder)) == ["0.01", "0.02"]


@in_process
def test_a_time_limit_ends_the_search(small, tmp_path):
    with pytest.raises(InputError, match="the same command continues"):
        small(tmp_path, settings=LONG | {"epochs": 10**6, "patience": 10**6}, timeout=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"seeds": (0, 0)}, "seeds"),
        ({"evaluate_seeds": (0, 5)}, "seed 0 is used in the search"),
        ({"evaluate_seeds": -2}, "evaluate_seeds must .*got -2"),
        ({"evaluate_seeds": (1, 1)}, "evaluate_seeds"),
        ({"evaluate_seeds": (1, -3)}, "evaluate_seeds"),
        ({"split": "published"}, "published"),
        ({"storage": "nonsense"}, "--storage nonsense"),
        ({"storage": "nonsense://u:secret@h/d"}, r"u:\*\*\*@h"),
    ],
)
def test_wrong_input_is_refused(small, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        small(tmp_path, **options)


@in_process
def test_a_split_of_its_own_keeps_its_test_nodes_out_of_the_search(small, tmp_path):
    settings = QUICK | {"split_seed": 7}
    result = small(tmp_path, settings=settings, trials=2, evaluate_seeds=2)
    assert result.seen == 0
    assert len({run.result["split_sha256"] for run in result.runs}) == 1
    redrawn = small(tmp_path, trials=2, evaluate_seeds=2)
    assert redrawn.seen > 0.5


class Searched(MLP):
    """A model of one's own."""


def test_a_class_of_ones_own_is_searched(small, tmp_path):
    options = {"settings": QUICK, "evaluate_seeds": 1, "workers": 1, "runs": tmp_path}
    result = ncgnn.tune("digits", Searched, trials=2, **options)
    assert (result.config.model.name, result.state.complete) == ("Searched", 2)
    assert [run.config.model.name for run in result.runs] == ["Searched"]
    assert result.folder.name.startswith("tune-digits-Searched-")
    best = make_config(config=result.folder / "best.toml", seed=1)
    assert best == result.runs[0].config


def test_a_class_that_workers_cannot_import_is_an_error_with_a_remedy(tmp_path):
    class Hidden(MLP):
        """Known to this process alone."""

    with pytest.raises(SearchError, match=r"does not know the model Hidden.*@register_model"):
        tune("digits", Hidden, settings=QUICK, trials=1, workers=1, runs=tmp_path)
