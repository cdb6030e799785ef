"""Parameter search: the paper's spaces or your own, by a validation score alone.

The score is the metric that also selects the best epoch of a run, by default accuracy. Nothing here
looks at test nodes: what is compared is the best validation score so far, and what is kept of a
trial is its validation score, epochs and seconds.
"""

from __future__ import annotations

import csv
import io
import math
import shutil
import statistics
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError

from ncgnn._io import write_text
from ncgnn._numba import use_threads
from ncgnn.data import load
from ncgnn.errors import InputError, sentence
from ncgnn.experiments.sweeps import Watcher, default_workers, sweep
from ncgnn.experiments.tuning.space import (
    Plan,
    check_fresh_runs,
    fresh_seeds,
    make_plan,
    seen_share,
)
from ncgnn.experiments.tuning.study import (
    SearchError,
    StudyPlace,
    TuningStudy,
    best_of,
    failed_trials,
    quiet,
    step_of,
)
from ncgnn.experiments.workers import WorkerPool
from ncgnn.training import (
    SCORE_NAMES,
    RunFolder,
    RunInUseError,
    checked_device,
    to_toml,
    train_run,
    trainable_split,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.trial import FrozenTrial

    from ncgnn.experiments.tuning.study import SearchState, TakenTrial
    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig, RunResult

BEST, TRIALS = "best.toml", "trials.csv"


def write_trials(path: Path, plan: Plan, trials: Sequence[FrozenTrial]) -> None:
    """Write a row per trial that has ended; all copies of a trial are one row."""
    names = list(plan.space.choices)
    failed = {trial.number for trial in failed_trials(trials)}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["trial", "state", f"val_{plan.metric}", "epochs", "seconds", *names, "error"])
    for trial in trials:
        state, error = trial.state.name.lower(), trial.user_attrs.get("error", "")
        if state not in ("complete", "pruned") and trial.number not in failed:
            continue
        scores: list[dict[str, Any]] = trial.user_attrs.get("scores", [])
        spent = [sum(score[key] for score in scores) if scores else "" for key in _SPENT]
        values = [trial.params.get(name, "") for name in names]
        # Optuna's value of a pruned trial is its last report, which compares with no other.
        value = trial.value if state == "complete" else ""
        writer.writerow([trial.number, state, value, *spent, *values, error])
    write_text(path, stream.getvalue())


_SPENT = ("epochs", "seconds")


def write_best(path: Path, plan: Plan, best: FrozenTrial, counts: str) -> None:
    """Write the best trial as a configuration that ``ncgnn train --config`` takes.

    Args:
        path: The file.
        plan: What was searched.
        best: The best trial.
        counts: How many trials there were, in words.
    """
    tree = plan.config(best.params, plan.seeds[0]).model_dump(mode="json")
    del tree["training"]["seed"]  # whoever trains it says which
    seeds = ", ".join(str(seed) for seed in plan.seeds)
    header = (
        f"# Found by 'ncgnn tune' ({counts}): trial {best.number} had the best mean validation\n"
        f"# {SCORE_NAMES[plan.metric]}, {best.value:.4f}, over seed {seeds}. Searched: "
        f"{', '.join(plan.space.values)}.\n\n"
    )
    write_text(path, header + to_toml(tree))


class TuneWatcher(Watcher):
    """Hears of a search and of the winner's evaluation and may stop both; this one is silent."""

    def searched(self, state: SearchState) -> None:
        """The search is so far."""


@dataclass(frozen=True)
class TuneResult:
    """What came of a parameter search.

    Attributes:
        folder: Folder of the study, with ``best.toml`` and ``trials.csv``.
        parameters: The best values that were found, by ``section.option``.
        config: The best configuration, with the first tuning seed.
        seeds: The tuning seeds.
        value: Its mean validation score over the tuning seeds, by ``config.training.metric``.
        state: How many trials there were, and how they ended.
        seen: Share of the test nodes of the fresh seeds' splits that were training or validation
            nodes of a tuning seed's split; None without fresh seeds or test nodes.
        fresh: The fresh seeds.
        runs: The winner's runs with fresh seeds.
        failed: The error of every such run that failed, by its folder.
    """

    folder: Path
    parameters: dict[str, Any]
    config: RunConfig
    seeds: tuple[int, ...]
    value: float
    state: SearchState
    seen: float | None
    fresh: tuple[int, ...]
    runs: tuple[RunResult, ...]
    failed: dict[Path, str]

    def comparison_command(self, seeds: Sequence[int] = ()) -> list[str]:
        """The command that trains the winner with the seeds of other models, word by word.

        Args:
            seeds: Those of the models to compare with; by default the fresh seeds.
        """
        place = ["--config", str(self.folder / BEST), "--runs", str(self.folder.parent)]
        numbers = tuple(seeds) or self.fresh or self.seeds
        # One number alone would say how many.
        listed = ",".join(map(str, numbers)) + ("," if len(numbers) == 1 else "")
        return ["ncgnn", "train", self.config.data.dataset, *place, "--seeds", listed]


#: So many processes may die before one of them has ended a trial.
_DEATHS_AT_START = 10
#: Seconds after which a process without a trial looks for one again.
_PATIENCE = 0.5
#: A trial is given up as failed when so many processes have died of it.
DEATHS = 3


def run_trial(
    study: TuningStudy, taken: TakenTrial, graph: Graph, stop: Callable[[], bool]
) -> None:
    """Train a trial and tell the study how it ended.

    Args:
        study: Where it belongs.
        taken: The trial.
        graph: What it is trained on.
        stop: Asked after every epoch; if it says yes, the state is saved and the trial is left to
            whoever comes next.
    """
    try:
        if _ends(study, taken, graph, stop):
            shutil.rmtree(taken.runs, ignore_errors=True)
    except UpdateFinishedTrialError:
        pass  # another machine took this process for dead, and has all that is left of the trial
    finally:
        taken.close()


def _ends(study: TuningStudy, taken: TakenTrial, graph: Graph, stop: Callable[[], bool]) -> bool:
    """Whether the trial has come to an end, and was not handed back."""
    earlier = study.earlier(taken)
    if earlier is not None:
        taken.repeat(earlier)
        return True
    if taken.deaths >= DEATHS:
        taken.fail(f"its process was ended {DEATHS} times; if memory ran out, use fewer --workers.")
        return True
    try:
        scores = _train_seeds(study, taken, graph, stop)
    except KeyboardInterrupt:
        taken.hand_back()
        return False
    except (UpdateFinishedTrialError, SearchError):  # nothing is wrong with the trial
        raise
    except optuna.TrialPruned:
        taken.prune()
    except Exception as error:  # whatever it is, the other trials go on
        taken.fail(sentence(error))
    else:
        value = statistics.fmean(score[f"val_{study.plan.metric}"] for score in scores)
        taken.complete(value, scores)
    return True


def _train_seeds(
    study: TuningStudy, taken: TakenTrial, graph: Graph, stop: Callable[[], bool]
) -> list[dict[str, Any]]:
    """What is kept of the runs of all seeds."""
    scores: list[dict[str, Any]] = []
    metric = study.plan.metric
    for place, seed in enumerate(study.plan.seeds):
        config = study.plan.config(taken.params, seed)
        report = _Report(taken, place, study.report_every, f"val_{metric}")
        run = _train_when_free(config, taken, graph, report, stop)
        if not run.fresh:
            for record in RunFolder(run.folder).history():
                report(record)
        scores.append(
            {
                "seed": seed,
                f"val_{metric}": run.result["scores"]["val"][metric],
                "epochs": run.result["epochs"],
                "seconds": round(run.seconds, 3),
            }
        )
    return scores


def _train_when_free(
    config: RunConfig,
    taken: TakenTrial,
    graph: Graph,
    report: _Report,
    stop: Callable[[], bool],
) -> RunResult:
    """Train a run; wait while a process that was taken for dead still has its folder."""
    while True:
        try:
            return train_run(config, taken.runs, graph=graph, on_epoch=report, stop=stop)
        except RunInUseError:
            if stop():
                raise KeyboardInterrupt from None
            time.sleep(1.0)


class _Report:
    """Tells Optuna every few epochs how good a seed is so far, and gives the trial up if told so.

    Args:
        taken: The trial.
        seed_place: Place of the seed among those of the trial.
        every: Number of epochs from one report to the next, the same for all trials.
        score: What a record calls the score that counts.
    """

    def __init__(self, taken: TakenTrial, seed_place: int, every: int, score: str) -> None:
        self._taken, self._seed_place, self._every = taken, seed_place, every
        self._score = score
        self._phase: str | None = None
        self._stage, self._epochs, self._best = 0, 0, 0.0

    def __call__(self, record: dict[str, Any]) -> None:
        if record.get("phase") != self._phase:  # every stage of training has a best of its own
            self._stage += self._phase is not None
            self._phase, self._epochs, self._best = record.get("phase"), 0, 0.0
        self._epochs += 1
        self._best = max(self._best, record[self._score])
        report, rest = divmod(self._epochs, self._every)
        if rest == 0 and self._taken.is_bad(
            self._best, step_of(self._seed_place, self._stage, report)
        ):
            raise optuna.TrialPruned


def tune(
    dataset: str | None = None,
    model: str | None = None,
    *,
    trials: int = 100,
    timeout: float | None = None,
    seeds: int | Sequence[int] | None = None,
    evaluate_seeds: int | Sequence[int] = 3,
    split: str | None = None,
    device: str | None = None,
    config: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    data_dir: Path | str | None = None,
    runs: Path | str = "runs",
    workers: int | None = None,
    threads: int = 1,
    storage: str | None = None,
    retry_failed: bool = False,
    watcher: TuneWatcher | None = None,
) -> TuneResult:
    """Search parameters, and train the best ones with fresh seeds.

    The tree-structured Parzen estimator of Optuna proposes values (Akiba et al., "Optuna: A
    Next-generation Hyperparameter Optimization Framework", https://arxiv.org/abs/1907.10902). What
    counts is the mean validation score over the tuning seeds, by the metric that ``settings`` or
    ``config`` name, or else accuracy; test nodes of their splits play no part. A fresh
    seed draws another split, as in the paper: among its test nodes are training and validation
    nodes of the search. The same call goes on with a search that was interrupted, and repeats
    nothing that is done. A script that calls it must do so under ``if __name__ == "__main__":``,
    as every process imports the script.

    Args:
        dataset: Name or path of an npz file.
        model: Name.
        trials: Number of trials that are complete or pruned at the end, earlier ones included.
        timeout: Seconds after which the search stops; the best trial so far is evaluated then.
        seeds: How many, from 0 on, or which; every trial is trained with each. By default the one
            that ``settings`` or ``config`` name, or else 0.
        evaluate_seeds: Seeds to train the best parameters with at the end, none of them used in the
            search; a number stands for the first so many.
        split: Split family.
        device: Where tensors live.
        config: TOML file with fixed values, and values to search under ``[search.training]``,
            ``[search.model]`` and ``[search.data]``.
        settings: More fixed values, as :func:`ncgnn.training.make_config` takes them.
        search: More values to search, by ``section.option``.
        data_dir: Folder with npz files.
        runs: Folder of all runs; the study is a folder in it.
        workers: Number of processes; by default one for every ``threads`` cores.
        threads: Number of threads of each.
        storage: URL of a database, if several machines work on the study.
        retry_failed: Whether to try trials and runs that failed before once more.
        watcher: Hears of progress, and may stop the search.

    Raises:
        InputError: Says what is wrong with the input, or why no trial has ended well.
        KeyboardInterrupt: The watcher has stopped the search; all states are saved.
    """
    _check_numbers(trials, timeout, workers, threads)
    plan = make_plan(
        dataset=dataset,
        model=model,
        split=split,
        device=device,
        config=None if config is None else Path(config).expanduser(),
        settings=settings,
        search=search,
        seeds=seeds,
    )
    fresh = fresh_seeds(plan.seeds, evaluate_seeds)
    root = Path(runs).expanduser().resolve()
    at_hand = None if data_dir is None else Path(data_dir).expanduser().resolve()
    watcher = TuneWatcher() if watcher is None else watcher
    workers = default_workers(threads) if workers is None else workers
    with quiet():
        study, seen = _open(plan, fresh, root, trials, at_hand, storage)
        if retry_failed and study.state().done < trials:
            study.forget_failed()
        _search(study, at_hand, workers, threads, timeout, watcher)
        best, state = _best(study, timeout), study.state()
    evaluated = sweep(
        [plan.config(best.params, seed) for seed in fresh],
        root,
        data_dir=at_hand,
        workers=workers,
        threads=threads,
        retry_failed=retry_failed,
        watcher=watcher,
    )
    if evaluated.left:
        raise KeyboardInterrupt
    return TuneResult(
        folder=study.place.folder,
        parameters=plan.space.settings(best.params),
        config=plan.config(best.params, plan.seeds[0]),
        seeds=plan.seeds,
        value=float(best.value or 0.0),
        state=state,
        seen=seen,
        fresh=fresh,
        runs=evaluated.runs,
        failed=evaluated.failed,
    )


def _check_numbers(trials: int, timeout: float | None, workers: int | None, threads: int) -> None:
    if trials < 1 or threads < 1 or (workers is not None and workers < 1):
        raise InputError("trials, workers and threads must be at least 1.")
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise InputError(
            f"timeout is {timeout}; give a number of seconds above 0, or leave it out."
        )


def _open(
    plan: Plan,
    fresh: tuple[int, ...],
    root: Path,
    trials: int,
    data_dir: Path | None,
    storage: str | None,
) -> tuple[TuningStudy, float | None]:
    """Open the study; complain of what would make every trial fail.

    Returns:
        The study, and the share of fresh test nodes that the search has seen.
    """
    checked_device(plan.first.training.device)
    graph = load(plan.first.data.dataset, data_dir)
    configs = [plan.config(plan.space.first, seed) for seed in plan.seeds]
    places = [(config.data.dataset, config.data.split, config.split_seed) for config in configs]
    splits = [trainable_split(graph, *place).sha256 for place in places]
    seen = seen_share(graph, plan.first.data, plan.seeds, fresh)
    check_fresh_runs(root, plan, fresh, graph)
    name = plan.study_name(graph.fingerprint, splits)
    study = TuningStudy(plan, StudyPlace(root / name, name, storage), trials)
    study.adopt()
    return study, seen


def _search(
    study: TuningStudy,
    data_dir: Path | None,
    workers: int,
    threads: int,
    timeout: float | None,
    watcher: TuneWatcher,
) -> None:
    """Work on trials with processes until all are done or the search is stopped."""
    end = None if timeout is None else time.monotonic() + timeout
    state = study.state()
    watcher.searched(state)
    try:
        if not state.is_over:
            about = (study.plan, study.place, study.total, data_dir, threads)
            _run_workers(
                partial(_work, *about),
                min(workers, study.total - state.done),
                on_trial=lambda: watcher.searched(study.state()),
                stop=lambda: watcher.stop() or (end is not None and time.monotonic() >= end),
            )
    finally:
        study.tidy()
        folder, trials = study.place.folder, study.trials()
        write_trials(folder / TRIALS, study.plan, trials)
        if (best := best_of(trials)) is not None:
            write_best(folder / BEST, study.plan, best, study.state().in_words)
    if watcher.stop():
        raise KeyboardInterrupt


def _run_workers(
    work: Any, workers: int, on_trial: Callable[[], None], stop: Callable[[], bool]
) -> None:
    """Have processes take trials until none is left; a process that dies is replaced."""
    deaths = 0
    with WorkerPool(work, workers) as pool:
        for place in range(workers):
            pool.add(place)
        for event in pool.events(stop):
            if event.kind == "report":
                deaths = 0
                on_trial()
            elif event.kind == "error":
                raise SearchError(event.value)
            elif event.kind == "died" and not pool.stopping:
                deaths += 1
                if deaths >= _DEATHS_AT_START:
                    raise SearchError(
                        f"processes of the search end at once ({event.value}); if memory ran out, "
                        "use fewer --workers."
                    )
                pool.add(event.task)


def _work(
    plan: Plan,
    place: StudyPlace,
    total: int,
    data_dir: Path | None,
    threads: int,
    _: int,
    report: Callable[[Any], None],
    stop: Callable[[], bool],
) -> None:
    """In a worker: take trials until there are no more."""
    use_threads(threads)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = load(plan.first.data.dataset, data_dir)
        study = TuningStudy(plan, place, total)
        while not stop():
            taken = study.take()
            if taken is not None:
                run_trial(study, taken, graph, stop)
                report(None)
            elif study.state().is_over:
                return
            else:  # the last trials are in other hands, whose processes may die
                time.sleep(_PATIENCE)


def _best(study: TuningStudy, timeout: float | None) -> FrozenTrial:
    """The best trial, written to the study's folder."""
    trials = study.trials()
    best = best_of(trials)
    if best is None:
        failed = failed_trials(trials)
        if failed:
            raise InputError(
                "no trial has come to its end; when the cause is gone, --retry-failed tries again; "
                f"the last error was: {failed[-1].user_attrs['error']}"
            )
        raise InputError(
            f"no trial was complete after {timeout:g} seconds; the same command goes on."
        )
    # Another machine may have found a better one since the search ended here.
    write_best(study.place.folder / BEST, study.plan, best, study.state().in_words)
    return best
