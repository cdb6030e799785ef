"""A study in a database, which several machines may share."""

from __future__ import annotations

import importlib.util
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
import sqlalchemy.pool  # noqa: F401  # threads that import it together do not get far

import ncgnn
from ncgnn.experiments.tuning import storage
from ncgnn.experiments.tuning.search import run_trial, tune
from ncgnn.experiments.tuning.space import make_search
from ncgnn.experiments.tuning.storage import SearchError, quiet
from ncgnn.experiments.tuning.study import Study
from postgres_server import serve

QUICK = {"hidden": 16, "epochs": 5}
#: Takes a trial in a database, says so, and waits to be killed.
TAKES_ONE = """
import sys, time
from pathlib import Path
from ncgnn.experiments.tuning.study import Study
from ncgnn.experiments.tuning.space import make_search

search = make_search(dataset="digits", model="mlp")
trial = Study(search, Path(sys.argv[1]), 9, sys.argv[2]).take()
print(trial.number, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def postgres():
    """The address of a database server that runs while the tests do."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg, which connects to PostgreSQL, is not installed")
    with serve() as port:
        yield f"postgresql+psycopg://ncgnn@127.0.0.1:{port}/postgres"


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "g.npz"
    ncgnn.save(ncgnn.generate(200, 600, classes=3, features=8, seed=1), path)
    return str(path)


def search_twice_at_once(graph, url, tmp_path):
    """Two machines, each with a folder of its own."""
    found = []

    def search(runs):
        options = {"trials": 6, "workers": 1, "settings": QUICK, "evaluate_seeds": 1}
        found.append(tune(graph, "mlp", runs=runs, storage=url, **options))

    threads = [threading.Thread(target=search, args=(tmp_path / name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = found
    assert first.parameters == second.parameters
    assert (first.state.done, second.state.done) == (6, 6)
    assert first.state.running == 0
    with quiet():
        study = Study(make_search(dataset=graph, model="mlp", settings=QUICK), first.folder, 6, url)
    ended = [trial for trial in study.trials() if trial.state.name in ("COMPLETE", "PRUNED")]
    assert len(ended) == 6


def dead_trial_is_passed_on(url, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 2)
    command = [sys.executable, "-W", "ignore", "-c", TAKES_ONE, str(tmp_path / "other" / "s"), url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == b"0"
    process.kill()
    process.communicate()
    with quiet():
        search = make_search(dataset="digits", model="mlp")
        study = Study(search, tmp_path / "mine" / "s", 1, url)
        begun = time.monotonic()
        while (taken := study.take()) is None:
            assert time.monotonic() - begun < 30
            time.sleep(0.2)
        assert time.monotonic() - begun > 1  # only when there was no sign of life for long enough
        assert taken.params == study.trials()[0].params
        assert (taken.deaths, taken.runs.name) == (1, "00000")
        taken.complete(0.5, [])
        assert study.state().is_over


@pytest.mark.slow
def test_machines_share_a_sqlite_file(graph, tmp_path):
    search_twice_at_once(graph, f"sqlite:///{tmp_path}/study.db", tmp_path)


@pytest.mark.slow
def test_machines_share_a_postgresql_server(graph, postgres, tmp_path):
    search_twice_at_once(graph, postgres, tmp_path)


@pytest.mark.slow
def test_a_dead_trial_is_passed_on_in_sqlite(tmp_path, monkeypatch):
    dead_trial_is_passed_on(f"sqlite:///{tmp_path}/study.db", tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_dead_trial_is_passed_on_in_postgresql(postgres, tmp_path, monkeypatch):
    dead_trial_is_passed_on(postgres, tmp_path, monkeypatch)


@pytest.fixture
def in_sqlite(tmp_path):
    """A study in a database of one file."""
    with quiet():
        search = make_search(dataset="digits", model="mlp", settings={"hidden": 8, "epochs": 3})
        yield Study(search, tmp_path / "mine", 9, f"sqlite:///{tmp_path}/study.db")


def break_reports(study, *, whole=False):
    """Take the table of all reports away from the database, or give it back."""
    names = ["broken", "trial_intermediate_values"]
    old, new = names if whole else reversed(names)
    with closing(sqlite3.connect(study.url.removeprefix("sqlite:///"))) as database:
        database.execute(f"ALTER TABLE {old} RENAME TO {new}")


def test_a_trial_is_not_blamed_for_the_end_of_its_command(in_sqlite, monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 1)
    again = Study(in_sqlite.search, in_sqlite.folder, 9, in_sqlite.url)
    in_sqlite.take().release()  # no more heartbeats
    time.sleep(2.5)
    again.recover()
    taken = again.take()
    assert (taken.number, taken.runs.name, taken.deaths) == (1, "00000", 0)
    taken.release()


def test_a_database_that_is_away_for_a_moment_costs_no_trial(in_sqlite):
    taken, mended = in_sqlite.take(), []

    def away_after_an_epoch() -> bool:
        if not mended:
            break_reports(in_sqlite)
            mended.append(threading.Timer(0.4, break_reports, [in_sqlite], {"whole": True}))
            mended[0].start()
        return False

    run_trial(in_sqlite, taken, ncgnn.load("digits"), stop=away_after_an_epoch)
    (trial,) = in_sqlite.trials()
    assert trial.state.name == "COMPLETE"
    assert len(trial.intermediate_values) == 3


def test_a_database_that_stays_away_is_no_error_of_the_trial(in_sqlite, monkeypatch):
    monkeypatch.setattr(storage, "PAUSES", (0.01,))
    taken = in_sqlite.take()

    def away_after_an_epoch() -> bool:
        break_reports(in_sqlite)
        return False

    with pytest.raises(SearchError, match=r"study\.db cannot be used.*the same command continues"):
        run_trial(in_sqlite, taken, ncgnn.load("digits"), stop=away_after_an_epoch)
    break_reports(in_sqlite, whole=True)
    (trial,) = in_sqlite.trials()
    assert (trial.state.name, "error" in trial.user_attrs) == ("RUNNING", False)
    assert taken.runs.is_dir()


def test_a_retried_trial_that_dies_before_its_first_heartbeat_is_found(tmp_path, monkeypatch):
    with quiet():
        search = make_search(dataset="digits", model="mlp")
        study = Study(search, tmp_path / "s", 2, f"sqlite:///{tmp_path / 'study.db'}")
        study.take().requeue()
        lost = study.optuna.ask()  # and its process is gone
        assert lost.params
        monkeypatch.setattr(storage, "GRACE", -1)
        assert study.is_dead(study.trials()[lost.number])
