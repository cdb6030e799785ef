"""Parameter search: the paper's spaces or your own, by a validation score alone.

The score is the metric that also selects the best epoch of a run, by default accuracy. Nothing here
looks at test nodes: trials are compared by their best validation score so far, and only validation
score, epochs and seconds are kept of them.
"""

from __future__ import annotations

import csv
import glob
import io
import math
import shutil
import statistics
import time
import warnings
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError

from ncgnn._io import as_path, write_text
from ncgnn._numba import use_threads
from ncgnn.data import load
from ncgnn.errors import InputError, sentence
from ncgnn.experiments.cells import use_class
from ncgnn.experiments.engines import Engine, needs_of
from ncgnn.experiments.sweeps import Watcher, sweep
from ncgnn.experiments.tuning.space import make_search
from ncgnn.experiments.tuning.storage import SearchError, quiet
from ncgnn.experiments.tuning.study import Study, best_trial, failed_trials, step_of
from ncgnn.training import (
    ENVIRONMENT,
    SCORE_NAMES,
    RunFolder,
    RunInUseError,
    refuse_ranks,
    to_toml,
    train_run,
    trainable_split,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from optuna.trial import FrozenTrial

    from ncgnn.data import Split
    from ncgnn.experiments.engines import EngineName, Pool
    from ncgnn.experiments.tuning.space import Search
    from ncgnn.experiments.tuning.study import SearchState, Trial
    from ncgnn.graph import Graph
    from ncgnn.nn import Model
    from ncgnn.training import DataConfig, RunConfig, RunResult

BEST, TRIALS = "best.toml", "trials.csv"
#: A search ends when so many processes in a row die before one of them has ended a trial.
_DEATHS_AT_START = 10
#: Seconds after which a process without a trial looks for one again.
_PAUSE = 0.5
#: A trial fails when so many processes have died of it.
DEATHS = 3


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

        By default the fresh seeds are named.
        """
        place = ["--config", str(self.folder / BEST), "--runs", str(self.folder.parent)]
        numbers = tuple(seeds) or self.fresh or self.seeds
        # One number alone would say how many.
        listed = ",".join(map(str, numbers)) + ("," if len(numbers) == 1 else "")
        return ["ncgnn", "train", self.config.data.dataset, *place, "--seeds", listed]


def tune(
    dataset: str | None = None,
    model: str | type[Model] | None = None,
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
    engine: EngineName = "local",
    workers: int | None = None,
    threads: int = 1,
    address: str | None = None,
    storage: str | None = None,
    retry_failed: bool = False,
    watcher: Watcher | None = None,
) -> TuneResult:
    """Search parameters, and train the best ones with fresh seeds.

    The tree-structured Parzen estimator of Optuna proposes values (Akiba et al., "Optuna: A
    Next-generation Hyperparameter Optimization Framework", https://arxiv.org/abs/1907.10902). What
    counts is the mean validation score over the tuning seeds, by the metric that ``settings`` or
    ``config`` name, or else accuracy; test nodes of their splits play no part. A fresh
    seed draws another split, as in the paper: among its test nodes are training and validation
    nodes of the search. The same call continues a search that was interrupted, and repeats
    nothing that is done. A script that calls it must do so under ``if __name__ == "__main__":``,
    as every process imports the script.

    Args:
        dataset: Name or path of an npz file.
        model: Name, or a class of your own, which processes that train it must be able to import.
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
        runs: Folder of all runs; the study is a folder in it. For a Ray cluster, one that all its
            machines see.
        engine: ``local`` processes, or tasks of a ``ray`` cluster.
        workers: Number of processes; by default one for every ``threads`` cores.
        threads: Number of threads of each.
        address: Of an existing Ray cluster; by default a local one is started.
        storage: URL of a database, if several machines work on the study.
        retry_failed: Whether to try trials and runs that failed before once more.
        watcher: Hears of progress, and may stop the search.

    Raises:
        InputError: Says what is wrong with the input, or why no trial has ended well.
        KeyboardInterrupt: The watcher has stopped the search; all states are saved.
    """
    refuse_ranks("a search")
    if trials < 1:
        raise InputError(f"trials must be at least 1; got {trials}.")
    place = Engine(engine, workers, threads, address)
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise InputError(f"timeout must be a number of seconds above 0; got {timeout}.")
    made = make_search(
        dataset=dataset,
        model=model,
        split=split,
        device=device,
        config=None if config is None else as_path(config),
        settings=settings,
        search=search,
        seeds=seeds,
    )
    fresh = _fresh_seeds(made.seeds, evaluate_seeds)
    root = as_path(runs).resolve()
    at_hand = None if data_dir is None else as_path(data_dir).resolve()
    watcher = Watcher() if watcher is None else watcher
    place.check_devices([made.base.training.device])
    graph = load(made.base.data.dataset, at_hand)
    seen = seen_share(graph, made.base.data, made.seeds, fresh)
    with place.started():
        with quiet():
            study = _open_study(made, graph, fresh, root, trials, storage)
            if retry_failed and study.state().done < trials:
                study.retry_failed()
            best = _run_search(study, graph, at_hand, place, timeout, watcher)
            state = study.state()
        evaluated = sweep(
            [made.config(best.params, seed) for seed in fresh],
            root,
            data_dir=at_hand,
            engine=engine,
            workers=workers,
            threads=threads,
            address=address,
            retry_failed=retry_failed,
            watcher=watcher,
        )
    if evaluated.left:
        raise KeyboardInterrupt
    return TuneResult(
        folder=study.folder,
        parameters=made.settings(best.params),
        config=made.config(best.params, made.seeds[0]),
        seeds=made.seeds,
        value=float(best.value or 0.0),
        state=state,
        seen=seen,
        fresh=fresh,
        runs=evaluated.runs,
        failed=evaluated.failed,
    )


def _fresh_seeds(used: tuple[int, ...], wanted: int | Sequence[int]) -> tuple[int, ...]:
    """Seeds that the search does not use: the first so many, or the wanted ones."""
    if isinstance(wanted, int):
        if wanted < 0:
            raise InputError(f"evaluate_seeds must be a number from 0, or a list; got {wanted}.")
        return tuple(islice((seed for seed in count() if seed not in used), wanted))
    if len(set(wanted)) < len(wanted) or min(wanted, default=0) < 0:
        raise InputError(f"evaluate_seeds must be different whole numbers from 0; got {wanted}.")
    again = sorted(set(wanted) & set(used))
    if again:
        raise InputError(f"seed {again[0]} is used in the search; evaluate with other seeds.")
    return tuple(wanted)


def seen_share(
    graph: Graph, data: DataConfig, used: tuple[int, ...], fresh: tuple[int, ...]
) -> float | None:
    """The share of the fresh seeds' test nodes that a tuning seed trains or validates on."""

    def draw(seed: int) -> Split:
        return data.make_split(graph, seed)

    known = np.zeros(graph.num_nodes, dtype=bool)
    for split in map(draw, used):
        known[split.train] = known[split.val] = True
    tests = [draw(seed).test for seed in fresh]
    nodes = np.concatenate(tests) if tests else np.empty(0, dtype=np.int64)
    return float(known[nodes].mean()) if nodes.size else None


def _open_study(
    search: Search,
    graph: Graph,
    fresh: tuple[int, ...],
    runs: Path,
    trials: int,
    storage: str | None,
) -> Study:
    """Open the study of a search, and queue again what a killed command has left of it."""
    configs = [search.first_config(seed) for seed in search.seeds]
    splits = [trainable_split(graph, config).sha256 for config in configs]
    _check_graph_of_runs(runs, search, fresh, graph)
    folder = runs / search.study_name(graph.fingerprint, splits)
    study = Study(search, folder, trials, storage)
    study.recover()
    return study


def _check_graph_of_runs(runs: Path, search: Search, fresh: Iterable[int], graph: Graph) -> None:
    """Refuse a search whose winner may be a run that exists already, of another graph."""
    for seed in fresh:
        config = search.first_config(seed)
        for path in sorted(runs.glob(f"{glob.escape(config.name.rpartition('-')[0])}-*")):
            run = RunFolder(path)
            try:
                then = run.read_json(ENVIRONMENT).get("graph_sha256")
                may_win = search.can_choose(run.read_config())
            except InputError:  # a damaged run is trained again
                continue
            if then != graph.fingerprint and may_win:
                raise InputError(
                    f"{config.data.dataset} has changed since {path} was trained, which this "
                    "search may choose; name another folder with --runs."
                )


def _run_search(
    study: Study,
    graph: Graph,
    data_dir: Path | None,
    engine: Engine,
    timeout: float | None,
    watcher: Watcher,
) -> FrozenTrial:
    """Have processes work on trials until all are done; returns the best one."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    state = study.state()
    watcher.on_trial(state)
    try:
        if not state.is_over:
            threads, config = engine.threads, study.search.base
            needs = needs_of(config, graph, threads, study.folder.name)
            _run_workers(
                engine.open(_work, lambda _: needs),
                (study.search, study.folder, study.total, study.url, data_dir, threads),
                study.total - state.done,
                on_trial=lambda: watcher.on_trial(study.state()),
                stop=lambda: watcher.stop() or time.monotonic() >= end,
            )
    finally:
        study.tidy()
        best = write_results(study)
    if watcher.stop():
        raise KeyboardInterrupt
    if best is not None:
        return best
    if failed := failed_trials(study.trials()):
        raise InputError(
            "no trial was complete; when the cause is gone, --retry-failed tries again; the last "
            f"error was: {failed[-1].user_attrs['error']}"
        )
    raise InputError(f"no trial was complete after {timeout:g} s; the same command continues.")


def _run_workers(
    pool: Pool,
    task: tuple[Any, ...],
    trials: int,
    on_trial: Callable[[], None],
    stop: Callable[[], bool],
) -> None:
    """Have processes take trials until none is left; a process that dies is replaced."""
    deaths = 0
    with pool:
        for _ in range(min(pool.room(task), trials)):
            pool.add(task)
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
                        f"worker processes die at once ({event.value}); if memory ran out, use "
                        "fewer --workers."
                    )
                pool.add(task)
    if pool.lost:
        raise SearchError(
            f"the Ray cluster is lost: {pool.lost}; the same command continues the search."
        )


def _work(task: tuple[Any, ...], report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
    """In a worker: take trials until there are no more."""
    search, folder, total, url, data_dir, threads = task
    use_threads(threads)
    use_class(search.fixed["model.name"], search.model)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = load(search.base.data.dataset, data_dir)
        study = Study(search, folder, total, url)
        while not stop():
            trial = study.take()
            if trial is not None:
                run_trial(study, trial, graph, stop)
                report(None)
            elif study.state().is_over:
                return
            else:  # others work on the last trials, and their processes may die
                time.sleep(_PAUSE)


def run_trial(study: Study, trial: Trial, graph: Graph, stop: Callable[[], bool]) -> None:
    """Train a trial and tell the study how it ended.

    If ``stop`` says yes after an epoch, the state is saved and the trial left to the next process.
    """
    try:
        if _end_trial(study, trial, graph, stop):
            shutil.rmtree(trial.runs, ignore_errors=True)
    except UpdateFinishedTrialError:
        pass  # another machine took this process for dead, and has all that is left of the trial
    finally:
        trial.release()


def _end_trial(study: Study, trial: Trial, graph: Graph, stop: Callable[[], bool]) -> bool:
    """Bring a trial to its end; returns whether it has come there, and was not queued again."""
    earlier = study.earlier(trial)
    if earlier is not None:
        trial.repeat(earlier)
        return True
    if trial.deaths >= DEATHS:
        trial.fail(f"its process was ended {DEATHS} times; if memory ran out, use fewer --workers.")
        return True
    score = f"val_{study.search.metric}"
    try:
        scores = [
            _train_seed(study, trial, place, graph, stop)
            for place in range(len(study.search.seeds))
        ]
    except KeyboardInterrupt:
        trial.requeue()
        return False
    except (UpdateFinishedTrialError, SearchError):  # nothing is wrong with the trial
        raise
    except optuna.TrialPruned:
        trial.prune()
    except Exception as error:  # whatever it is, the other trials go on
        trial.fail(sentence(error))
    else:
        trial.complete(statistics.fmean(one[score] for one in scores), scores)
    return True


def _train_seed(
    study: Study, trial: Trial, place: int, graph: Graph, stop: Callable[[], bool]
) -> dict[str, Any]:
    """Train a trial with one of its seeds; returns what is kept of the run."""
    search, seed = study.search, study.search.seeds[place]
    config = search.config(trial.params, seed)
    report = EpochReporter(trial, place, study.report_every, f"val_{search.metric}")
    while True:
        try:
            run = train_run(config, trial.runs, graph=graph, on_epoch=report, stop=stop)
            break
        except RunInUseError:  # by a process that was taken for dead
            if stop():
                raise KeyboardInterrupt from None
            time.sleep(1.0)
    if not run.fresh:
        for record in RunFolder(run.folder).history():
            report(record)
    return {
        "seed": seed,
        f"val_{search.metric}": run.result["scores"]["val"][search.metric],
        "epochs": run.result["epochs"],
        "seconds": round(run.seconds, 3),
    }


class EpochReporter:
    """Reports every few epochs how good a seed is so far, and ends the trial if it is pruned."""

    def __init__(self, trial: Trial, seed_place: int, every: int, score: str) -> None:
        self._trial, self._seed_place, self._every = trial, seed_place, every
        self._score = score
        self._phase: str | None = None
        self._stage, self._epochs, self._best = 0, 0, 0.0

    def __call__(self, record: dict[str, Any]) -> None:
        """Take the record of an epoch."""
        if record.get("phase") != self._phase:  # every stage of training has a best of its own
            self._stage += self._phase is not None
            self._phase, self._epochs, self._best = record.get("phase"), 0, 0.0
        self._epochs += 1
        self._best = max(self._best, record[self._score])
        number, rest = divmod(self._epochs, self._every)
        step = step_of(self._seed_place, self._stage, number)
        if rest == 0 and self._trial.should_prune(self._best, step):
            raise optuna.TrialPruned


def write_results(study: Study) -> FrozenTrial | None:
    """Write ``trials.csv``, and ``best.toml`` if a trial is complete; returns the best one."""
    trials = study.trials()
    best = best_trial(trials)
    _write_trials(study.folder / TRIALS, study.search, trials)
    if best is not None:
        _write_best(study.folder / BEST, study.search, best, study.state().summary)
    return best


def _write_trials(path: Path, search: Search, trials: Sequence[FrozenTrial]) -> None:
    """Write a row per trial that has ended; a trial and its retries are one row."""
    names = list(search.choices)
    failed = {trial.number for trial in failed_trials(trials)}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    spent = ("epochs", "seconds")
    writer.writerow(["trial", "state", f"val_{search.metric}", *spent, *names, "error"])
    for trial in trials:
        state, error = trial.state.name.lower(), trial.user_attrs.get("error", "")
        if state not in ("complete", "pruned") and trial.number not in failed:
            continue
        scores: list[dict[str, Any]] = trial.user_attrs.get("scores", [])
        totals = [sum(score[key] for score in scores) if scores else "" for key in spent]
        values = [trial.params.get(name, "") for name in names]
        # Optuna's value of a pruned trial is its last report, which compares with no other.
        value = trial.value if state == "complete" else ""
        writer.writerow([trial.number, state, value, *totals, *values, error])
    write_text(path, stream.getvalue())


def _write_best(path: Path, search: Search, best: FrozenTrial, counts: str) -> None:
    """Write the best trial as a configuration that ``ncgnn train --config`` takes."""
    tree = search.config(best.params, search.seeds[0]).model_dump(mode="json")
    del tree["training"]["seed"]  # whoever trains it says which
    seeds = ", ".join(str(seed) for seed in search.seeds)
    header = (
        f"# Found by 'ncgnn tune' ({counts}): trial {best.number} had the best mean validation\n"
        f"# {SCORE_NAMES[search.metric]}, {best.value:.4f}, over seed {seeds}. Searched: "
        f"{', '.join(search.values)}.\n\n"
    )
    write_text(path, header + to_toml(tree))
