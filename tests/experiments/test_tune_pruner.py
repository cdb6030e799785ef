"""A trial is given up for what it is worth at one place, not for what it was worth before."""

from __future__ import annotations

import optuna
import pytest

import ncgnn
from ncgnn.experiments.tuning.search import EpochReporter, run_trial
from ncgnn.experiments.tuning.space import make_search
from ncgnn.experiments.tuning.storage import quiet
from ncgnn.experiments.tuning.study import MedianAtStep, Study, step_of


@pytest.fixture(autouse=True)
def _quiet():
    with quiet():
        yield


def study_of(*trials, warm_up=0):
    """Complete trials, each by its reports: values by seed, stage and number."""
    study = optuna.create_study(direction="maximize", pruner=MedianAtStep(warm_up))
    for reports in trials:
        trial = study.ask()
        for place, value in reports.items():
            trial.report(value, step_of(*place))
        study.tell(trial, 0.5)
    return study


def is_pruned(study, reports):
    trial = study.ask()
    for place, value in reports.items():
        trial.report(value, step_of(*place))
    return trial.should_prune()


FIVE = [{(0, 0, 1): 0.5 + i / 10, (1, 0, 1): 0.5 + i / 10} for i in range(5)]


def test_the_median_is_the_limit():
    study = study_of(*FIVE)
    assert is_pruned(study, {(0, 0, 1): 0.69})
    assert not is_pruned(study, {(0, 0, 1): 0.7})


def test_a_good_first_seed_does_not_save_a_bad_second_one():
    assert is_pruned(study_of(*FIVE), {(0, 0, 1): 0.95, (1, 0, 1): 0.1})


def test_a_good_first_stage_does_not_save_a_bad_second_one():
    staged = [{(0, 0, 1): 0.9, (0, 1, 1): 0.5} for _ in range(5)]
    assert is_pruned(study_of(*staged), {(0, 0, 1): 0.95, (0, 1, 1): 0.4})
    assert not is_pruned(study_of(*staged), {(0, 0, 1): 0.95, (0, 1, 1): 0.6})


def test_every_seed_and_stage_has_a_warm_up():
    places = [(seed, stage, report) for seed in (0, 1) for stage in (0, 1) for report in (1, 2, 3)]
    study = study_of(*[dict.fromkeys(places, 0.9)] * 5, warm_up=2)
    for end, place in enumerate(places, 1):
        assert is_pruned(study, dict.fromkeys(places[:end], 0.1)) == (place[2] == 3)


def test_a_trial_that_has_ended_early_takes_part_with_its_last_report():
    short = [{(0, 0, 1): 0.6, (0, 0, 2): 0.8} for _ in range(5)]
    assert is_pruned(study_of(*short), {(0, 0, 9): 0.7})
    assert not is_pruned(study_of(*short), {(0, 0, 1): 0.7})
    assert not is_pruned(study_of(*short), {(1, 0, 1): 0.0})


def test_a_trial_and_its_repetitions_count_once():
    study = study_of(*FIVE[:4])
    assert not is_pruned(study, {(0, 0, 1): 0.1})
    again = study.ask()
    again.report(0.8, step_of(0, 0, 1))
    again.set_user_attr("repeats", 3)
    study.tell(again, 0.5)
    assert not is_pruned(study, {(0, 0, 1): 0.1})


class Heard:
    """Hears what is reported of a trial, and finds nothing bad."""

    def __init__(self):
        self.heard = {}

    def should_prune(self, value, step):
        self.heard[step] = value
        return False


def test_a_stage_does_not_report_the_best_of_the_one_before():
    trial = Heard()
    report = EpochReporter(trial, 0, 1, "val_macro_f1")
    for phase, value in (("first", 0.9), ("first", 0.8), ("last", 0.2), ("last", 0.3)):
        report({"phase": phase, "val_accuracy": 1.0, "val_macro_f1": value})
    places = [(0, 0, 1), (0, 0, 2), (0, 1, 1), (0, 1, 2)]
    steps = [step_of(*place) for place in places]
    assert trial.heard == dict(zip(steps, (0.9, 0.9, 0.2, 0.3), strict=True))


def test_a_seed_that_was_finished_before_an_interruption_is_reported_again(tmp_path):
    settings, space = {"hidden": 8, "epochs": 3}, {"training.learning_rate": [0.01]}
    search = make_search(
        dataset="digits", model="mlp", settings=settings, search=space, seeds=(0, 1)
    )
    graph, reports = ncgnn.load("digits"), []
    for name, ends in (("whole", (99,)), ("broken", (4, 99))):  # 4 is within the second seed
        study, seen = Study(search, tmp_path / name, 1), []
        for last in ends:

            def stop(last=last, seen=seen):
                seen.append(1)
                return len(seen) > last

            run_trial(study, study.take(), graph, stop=stop)
        reports.append(study.trials()[-1].intermediate_values)
        assert study.trials()[-1].state.name == "COMPLETE"
    assert len(study.trials()) == 2
    assert len(reports[0]) == 6
    assert reports[0] == reports[1]


def test_a_trial_reports_its_best_by_seed_and_stage(tmp_path):
    settings = {"hidden": 8, "epochs": 4, "pretraining": 2}
    space = {"training.learning_rate": [0.01]}
    search = make_search(
        dataset="digits", model="cpgnn", settings=settings, search=space, seeds=(0, 1)
    )
    study = Study(search, tmp_path, 1)
    run_trial(study, study.take(), ncgnn.load("digits"), stop=lambda: False)
    (trial,) = study.trials()
    assert trial.state.name == "COMPLETE"
    places = [(seed, stage) for seed in (0, 1) for stage in (0, 0, 1, 1, 1, 1)]
    numbers = [1, 2, 1, 2, 3, 4] * 2
    steps = [step_of(*place, number) for place, number in zip(places, numbers, strict=True)]
    assert list(trial.intermediate_values) == steps
    ends = [trial.intermediate_values[step_of(seed, 1, 4)] for seed in (0, 1)]
    assert trial.value == pytest.approx(sum(ends) / 2)
