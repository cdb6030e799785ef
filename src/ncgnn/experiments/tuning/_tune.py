"""Parameter search: the paper's spaces or your own, by validation accuracy alone."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError
from ncgnn.experiments._engine import default_workers
from ncgnn.experiments._sweep import sweep
from ncgnn.experiments.tuning._fresh import check_fresh_runs, fresh_seeds, seen_share
from ncgnn.experiments.tuning._place import StudyPlace, quiet
from ncgnn.experiments.tuning._plan import Plan, make_plan
from ncgnn.experiments.tuning._result import TuneResult, TuneWatcher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.trial import FrozenTrial

    from ncgnn.experiments.tuning._study import TuningStudy


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
    counts is the mean validation accuracy over the tuning seeds; test nodes of their splits play no
    part. A fresh seed draws another split, as in the paper: among its test nodes are training and
    validation nodes of the search. The same call goes on with a search that was interrupted, and
    repeats nothing that is done. A script that calls it must do so under
    ``if __name__ == "__main__":``, as every process imports the script.

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
    from ncgnn.data import load
    from ncgnn.experiments.tuning._study import TuningStudy
    from ncgnn.graph._fingerprint import fingerprint
    from ncgnn.training._run import checked_device
    from ncgnn.training._trainable import trainable_split

    checked_device(plan.first.training.device)
    graph = load(plan.first.data.dataset, data_dir)
    configs = [plan.config(plan.space.first, seed) for seed in plan.seeds]
    places = [(config.data.dataset, config.data.split, config.split_seed) for config in configs]
    splits = [trainable_split(graph, *place).sha256 for place in places]
    seen = seen_share(graph, plan.first.data, plan.seeds, fresh)
    check_fresh_runs(root, plan, fresh, graph)
    name = plan.study_name(fingerprint(graph), splits)
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
    from ncgnn.experiments.tuning._files import BEST, TRIALS, write_best, write_trials
    from ncgnn.experiments.tuning._serve import SearchJob
    from ncgnn.experiments.tuning._state import best_of
    from ncgnn.experiments.tuning._workers import search

    end = None if timeout is None else time.monotonic() + timeout
    state = study.state()
    watcher.searched(state)
    try:
        if not state.is_over:
            search(
                SearchJob(study.plan, study.place, study.total, data_dir, threads),
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


def _best(study: TuningStudy, timeout: float | None) -> FrozenTrial:
    """The best trial, written to the study's folder."""
    from ncgnn.experiments.tuning._files import BEST, write_best
    from ncgnn.experiments.tuning._state import best_of, failed_trials

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
