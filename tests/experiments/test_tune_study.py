"""A study survives whatever happens to the processes that work on it."""

from __future__ import annotations

import csv
import multiprocessing
import os
import time

import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

import ncgnn
from ncgnn._io import take_lock
from ncgnn.errors import InputError
from ncgnn.experiments.tuning.search import run_trial, write_results
from ncgnn.experiments.tuning.space import make_search
from ncgnn.experiments.tuning.storage import JournalLock, mend_journal, quiet
from ncgnn.experiments.tuning.study import Study, Trial

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

#: Starts processes fast, as it has imported everything.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["ncgnn.experiments.workers"])


def take_one(pipe, folder):
    """In a process: take a trial, say so, and wait to be killed."""
    with quiet():
        trial = open_study(folder).take()
        pipe.send(trial.number)
        time.sleep(600)


def hold_lock(pipe, journal):
    """In a process: hold the lock of the journal until it is killed."""
    lock = JournalLock(journal)
    pipe.send(lock.acquire())
    time.sleep(600)


@pytest.fixture(autouse=True)
def _quiet():
    with quiet():
        yield


def open_study(folder, total=9, **options):
    return Study(make_search(dataset="digits", model="mlp", **options), folder, total)


def start(target, argument):
    ours, theirs = SERVER.Pipe()
    process = SERVER.Process(target=target, args=(theirs, argument), daemon=True)
    process.start()
    return process, ours.recv()


def kill(process):
    process.kill()
    process.join()


def scores(value):
    return [{"seed": 0, "val_accuracy": value, "epochs": 1, "seconds": 0.0}]


def complete(study, value):
    taken = study.take()
    taken.complete(value, scores(value))
    return taken.params


def test_a_torn_tail_is_cut_wherever_it_was_torn(tmp_path):
    study = open_study(tmp_path)
    for value in (0.1, 0.2):
        complete(study, value)
    journal = tmp_path / "journal.jsonl"
    whole = journal.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    for missing in (1, 7, last - 1):
        journal.write_bytes(whole[:-missing])
        again = open_study(tmp_path)
        assert journal.read_bytes() == whole[:-last]
        assert again.trials()[0].value == 0.1
        assert again.trials()[1].state == TrialState.RUNNING
        taken = again.take()  # the one whose end was lost
        assert (taken.params, taken.runs.name) == (again.trials()[1].params, "00001")
        taken.complete(0.2, scores(0.2))
        assert open_study(tmp_path).state().complete == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [("{}\n{}\n{", False), ('{"op', False), ("garbage\n", True), ("{}\n{\n{", True)],
)
def test_a_journal_that_no_kill_explains_is_told(text, told, tmp_path, recwarn):
    journal = tmp_path / "journal.jsonl"
    journal.write_text(text)
    mend_journal(journal)
    assert bool(recwarn.list) == told
    assert all("was damaged" in str(warning.message) for warning in recwarn.list)


def test_a_line_torn_while_others_work_is_cut_before_the_next(tmp_path):
    study = open_study(tmp_path)
    complete(study, 0.1)
    with (tmp_path / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"op_code":4,"worker')
    complete(study, 0.3)
    mend_journal(tmp_path / "journal.jsonl")
    assert open_study(tmp_path).state().best == 0.3


def test_damage_in_the_middle_is_one_clear_error(tmp_path):
    complete(open_study(tmp_path), 0.1)
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"{garbage\n", *lines[2:]]))
    with pytest.raises(InputError, match="is damaged"):
        open_study(tmp_path)


def test_a_lock_ends_with_its_process(tmp_path):
    complete(open_study(tmp_path), 0.1)
    process, said = start(hold_lock, tmp_path / "journal.jsonl")
    assert said
    assert take_lock(tmp_path / "journal.lock", wait=False) is None
    kill(process)
    begun = time.monotonic()
    complete(open_study(tmp_path), 0.2)
    assert time.monotonic() - begun < 5


def test_a_killed_process_loses_no_trial(tmp_path):
    process, number = start(take_one, tmp_path)
    study = open_study(tmp_path)
    other = study.take()  # the first one lives, and is left alone
    assert number == 0
    assert other.number == 1
    assert study.state().running == 2
    kill(process)
    again = study.take()
    dead = study.trials()[0]
    assert dead.state == TrialState.FAIL
    assert again.params == dead.params
    assert (again.runs.name, again.deaths) == ("00000", 1)
    assert study.state().failed == 0
    again.complete(0.5, scores(0.5))
    other.complete(0.4, scores(0.4))
    fresh = study.take()
    assert fresh.params not in (again.params, other.params)
    fresh.release()


def test_a_trial_that_kills_its_processes_is_given_up(tmp_path):
    study = open_study(tmp_path)
    for _ in range(3):
        study.take().release()  # to others the same as a death
    taken = study.take()
    assert taken.deaths == 3
    run_trial(study, taken, ncgnn.generate(20, 40), stop=lambda: False)
    assert study.state().failed == 1
    assert "ended 3 times" in study.trials()[taken.number].user_attrs["error"]
    fresh = study.take()
    assert (fresh.deaths, fresh.params == taken.params) == (0, False)
    fresh.release()


def test_a_trial_is_not_blamed_for_the_end_of_its_command(tmp_path):
    process, _ = start(take_one, tmp_path)
    study = open_study(tmp_path)
    study.recover()
    assert study.state().running == 1
    kill(process)
    study.recover()
    assert study.state().running == 0
    again = study.take()
    assert (again.deaths, again.params) == (0, study.trials()[0].params)
    again.release()


def requeue(study):
    study.take().requeue()


def die_before_the_choice(study):
    Trial(study).release()


@pytest.mark.parametrize("interrupt", [requeue, die_before_the_choice])
def test_an_interrupted_search_takes_the_same_course(tmp_path, interrupt):
    values = [0.1, 0.5, 0.3, 0.7, 0.2, 0.4] * 3
    straight = open_study(tmp_path / "a", total=99)
    course = [complete(straight, value) for value in values]
    broken = open_study(tmp_path / "b", total=99)
    again = []
    for place, value in enumerate(values):
        if place in (2, 12):
            interrupt(broken)
            broken = open_study(tmp_path / "b", total=99)
        again.append(complete(broken, value))
    assert again == course


def test_a_trial_that_ends_between_two_looks_is_not_dead(tmp_path):
    study = open_study(tmp_path)
    taken = study.take()
    seen = study.trials()[taken.number]
    taken.complete(0.5, scores(0.5))
    assert not study.is_dead(seen)
    lost = study.take()
    lost.release()
    assert study.is_dead(study.trials()[lost.number])


def test_pruned_trials_have_no_value_in_the_table(tmp_path):
    study = open_study(tmp_path)
    complete(study, 0.8)
    taken = study.take()
    taken.should_prune(0.95, 1)
    taken.prune()
    write_results(study)
    with (tmp_path / "trials.csv").open() as stream:
        rows = [(row["state"], row["val_accuracy"]) for row in csv.DictReader(stream)]
    assert rows == [("complete", "0.8"), ("pruned", "")]


def test_no_more_trials_than_wanted(tmp_path):
    study = open_study(tmp_path, total=2)
    first, second = study.take(), study.take()
    assert study.take() is None
    first.complete(0.1, scores(0.1))
    assert study.take() is None
    assert not study.state().is_over
    second.requeue()
    third = study.take()
    assert third.params == second.params
    third.prune()
    assert study.state().is_over
    more = open_study(tmp_path, total=3).take()
    assert more is not None
    more.release()


def test_errors_end_a_search(tmp_path):
    study = open_study(tmp_path, total=7)
    for _ in range(4):
        study.take().fail("no luck")
    assert not study.state().is_over
    study.take().fail("no luck")
    assert study.state().is_over
    assert study.take() is None


def one_choice(*rates):
    """A space of nothing but learning rates, and quick trials."""
    fixed = {"weight_decay": 0.0, "dropout": 0.1, "hidden": 8, "epochs": 1}
    return {"settings": fixed, "search": {"training.learning_rate": list(rates)}}


def test_every_choice_is_tried_once_and_then_the_search_is_over(tmp_path):
    rates = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    study = open_study(tmp_path, total=20, **one_choice(*rates))
    seen = []
    while (taken := study.take()) is not None:
        rate = taken.params["training.learning_rate"]
        seen.append(rate)
        taken.fail("no") if rate == 0.4 else taken.complete(rate, scores(rate))
    assert sorted(seen) == rates
    state = study.state()
    assert (state.complete, state.failed, state.total, state.size) == (5, 1, 6, 6)
    assert state.is_over
    assert state.is_exhausted
    assert not state.is_hopeless


def test_the_first_trial_takes_what_the_preset_says(tmp_path):
    study = open_study(tmp_path, search={"training.learning_rate": [0.5, 0.01, 0.7]})
    first, second = study.take(), study.take()
    assert first.params["training.learning_rate"] == 0.01  # mlp's own
    assert study.search.preset.items() <= first.params.items()
    assert second.params != first.params
    for taken in (first, second):
        taken.release()


def test_choices_that_are_at_work_are_not_proposed_again(tmp_path):
    study = open_study(tmp_path, total=20, **one_choice(0.1, 0.2, 0.3))
    taken = [study.take() for _ in range(3)]
    assert {one.params["training.learning_rate"] for one in taken} == {0.1, 0.2, 0.3}
    assert study.take() is None
    assert not study.state().is_over
    taken[1].requeue()
    again = study.take()
    assert again.params == taken[1].params
    for one in (taken[0], taken[2], again):
        one.release()


def test_what_two_machines_have_begun_at_once_counts_once(tmp_path):
    study = open_study(tmp_path, **one_choice(0.1, 0.2))
    first = study.take()
    rate = first.params["training.learning_rate"]
    study.optuna.enqueue_trial({"training.learning_rate": rate})
    same = Trial(study)  # by a machine that has not heard of the first
    study.choose(same)
    assert same.params == first.params
    assert study.state().running == 1
    for taken in (first, same):
        taken.complete(0.5, scores(0.5))
    assert study.state().complete == 1
    other = study.take()
    assert other.params["training.learning_rate"] != rate
    other.prune()
    assert study.state().is_exhausted


def test_a_space_of_errors_ends_a_search(tmp_path):
    study = open_study(tmp_path, **one_choice(1e8, 1e9))
    while (taken := study.take()) is not None:
        taken.fail("no")
    assert study.state().failed == 2
    assert study.state().is_hopeless


def test_failed_trials_are_tried_once_more_if_wanted(tmp_path):
    study = open_study(tmp_path, total=7)
    failed = []
    for _ in range(5):
        taken = study.take()
        failed.append(taken.params)
        taken.fail("the disk was full")
    again = open_study(tmp_path, total=7)
    assert again.take() is None
    again.retry_failed()
    again.retry_failed()  # and nothing twice
    assert (again.state().failed, again.state().is_over) == (0, False)
    for params in failed:
        taken = again.take()
        assert (taken.params, taken.deaths, again.earlier(taken)) == (params, 0, None)
        taken.complete(0.5, scores(0.5))
    fresh = again.take()
    assert fresh.params not in failed
    fresh.release()


@pytest.mark.parametrize("ending", ["complete", "fail", "repeat"])
def test_a_trial_that_others_have_taken_over_is_left_to_them(tmp_path, ending):
    study = open_study(tmp_path, **one_choice(0.01))
    graph = ncgnn.load("digits")
    if ending == "repeat":
        run_trial(study, study.take(), graph, stop=lambda: False)
        taken = Trial(study)
        study.choose(taken)
    elif ending == "fail":
        graph = ncgnn.generate(2, 1)  # too small for a split
    if ending != "repeat":
        taken = study.take()
    (taken.runs / "of-the-others").mkdir(parents=True)

    def take_over() -> bool:
        if study.trials()[taken.number].state == TrialState.RUNNING:
            study.optuna.tell(taken.number, state=TrialState.FAIL)
        return False

    if ending != "complete":
        take_over()
    run_trial(study, taken, graph, stop=take_over)
    assert study.trials()[taken.number].state == TrialState.FAIL
    assert "error" not in study.trials()[taken.number].user_attrs
    assert (taken.runs / "of-the-others").is_dir()
    assert not study.lock_of(taken.number).exists()


def test_an_end_that_others_have_told_before_is_not_told_again(tmp_path):
    study = open_study(tmp_path)
    taken = study.take()
    study.optuna.tell(taken.number, state=TrialState.FAIL)
    with pytest.raises(UpdateFinishedTrialError):
        taken.prune()
    assert not study.lock_of(taken.number).exists()
