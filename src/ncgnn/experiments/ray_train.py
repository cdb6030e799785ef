"""One model trained by several processes of a Ray cluster, under Ray Train.

Ray Train starts the processes and makes them a process group; what they do together is
:func:`ncgnn.training.train_run`, as under ``torchrun``. The first of them keeps the run's folder,
and tells the driver of its epochs. Whatever ends a process ends all of them, and the same call
continues from the latest checkpoint.
"""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ncgnn._io import as_path
from ncgnn._memory import keep_freed_memory
from ncgnn._numba import use_threads
from ncgnn.data import DATA_VARIABLE
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning, sentence
from ncgnn.experiments.cells import importable_class, use_class
from ncgnn.experiments.engines import default_workers, needs_of
from ncgnn.experiments.ray import Line, connect, first_line, open_mailbox, room_for
from ncgnn.training import LostRankError, train_run

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from ncgnn.experiments.ray import Needs
    from ncgnn.graph import Graph
    from ncgnn.nn import Model
    from ncgnn.training import Choice, RunConfig, RunFolder, RunResult, Start

#: Seconds between two looks at what the processes have told.
_LOOK = 0.2


@dataclass(frozen=True)
class _Job:
    """What every process is told.

    Attributes:
        model: The class of a model of one's own.
        variable: Where data are looked for, as the environment of the driver says.
    """

    config: RunConfig
    runs: Path
    data_dir: Path | None
    threads: int
    start: Start | None
    choice: Choice | None
    before_done: Callable[[RunFolder], object] | None
    model: type[Model] | None
    variable: str | None


@contextmanager
def training_on_ray(
    workers: int | None = None, threads: int = 1, address: str | None = None
) -> Generator[Callable[..., RunResult]]:
    """Yield what trains a run with several processes of a Ray cluster, like ``train_run``.

    Example::

        with training_on_ray(workers=2) as train:
            run = train(config, Path("runs"), graph=graph)

    It takes the arguments of :func:`ncgnn.training.train_run` but those of a split of one's own and
    of checkpoints. ``before_done`` is called in the first process, all else in this one. It raises
    ``NcgnnError`` if a process, or the connection to the cluster, is lost; the same call continues.

    Args:
        workers: Number of processes; None: as many as there is room for.
        threads: Number of threads of each.
        address: Of an existing cluster, whose machines all see the folder of runs and the graph; by
            default one is started here.

    Raises:
        InputError: Why the cluster cannot be used.
    """
    if threads < 1 or (workers is not None and workers < 1):
        raise InputError(f"workers and threads must be at least 1; got {workers} and {threads}.")
    started = default_workers(threads) if workers is None else workers
    with connect(address, started * threads) as ray:
        yield partial(_train_together, ray, workers, threads)


def _train_together(
    ray: Any,
    workers: int | None,
    threads: int,
    config: RunConfig,
    runs: Path,
    *,
    graph: Graph,
    data_dir: Path | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    on_resume: Callable[[int], None] | None = None,
    before_done: Callable[[RunFolder], object] | None = None,
    stop: Callable[[], bool] | None = None,
    start: Start | None = None,
    choice: Choice | None = None,
) -> RunResult:
    """Train a run with several processes; ``graph`` is for what must be known before they start."""
    place = None if data_dir is None else as_path(data_dir).resolve()
    root = as_path(runs).resolve()
    job = _Job(
        *(config, root, place, threads, start, choice, before_done),
        model=importable_class(config.model.name),
        variable=os.environ.get(DATA_VARIABLE),
    )
    needs = needs_of(config, graph, threads, config.name)
    room = room_for(ray, needs)
    if room < (workers or 1):
        raise InputError(
            f"--workers must be at most {room}, for which the Ray cluster has room; got "
            f"{workers or 1}."
        )
    root.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=root, prefix=".ray-", ignore_cleanup_errors=True) as folder:
        fitting = _Fitting(ray, job, needs, workers or room, folder)
        return fitting.run(on_epoch, on_resume, stop)


class _Fitting:
    """The processes of a job, and what they tell."""

    def __init__(self, ray: Any, job: _Job, needs: Needs, workers: int, folder: str) -> None:
        self._ray, self._mailbox = ray, open_mailbox(ray)
        packed = ray.cloudpickle.dumps(job)
        self._trainer = _trainer(needs, workers, folder, (self._mailbox, packed))
        self._failure: BaseException | None = None
        self._result: RunResult | None = None
        self._stopped = False
        self._errors: list[NcgnnError] = []

    def run(
        self,
        on_epoch: Callable[[dict[str, Any]], None] | None,
        on_resume: Callable[[int], None] | None,
        stop: Callable[[], bool] | None,
    ) -> RunResult:
        """Listen until all processes have ended."""
        hears: dict[str, Callable[[Any], None] | None] = {"epoch": on_epoch, "resume": on_resume}
        thread = threading.Thread(target=self._fit, daemon=True)  # Ctrl-C is for this one to hear
        thread.start()
        asked = False
        try:
            while thread.is_alive():
                if not asked and stop is not None and stop():
                    asked = True
                    self._mailbox.stop.remote()
                thread.join(_LOOK)
                self._take(hears)
            self._take(hears)
        except self._ray.exceptions.RayError as error:
            self._failure = error
        finally:
            with suppress(self._ray.exceptions.RayError):
                self._mailbox.stop.remote()
        return self._outcome()

    def _fit(self) -> None:
        try:
            self._trainer.fit()
        except BaseException as error:  # it is raised where others wait for it
            self._failure = error

    def _take(self, hears: dict[str, Callable[[Any], None] | None]) -> None:
        for _, _, (kind, value) in self._ray.get(self._mailbox.take.remote(), timeout=60):
            if kind == "result":
                self._result = value
            elif kind == "stopped":
                self._stopped = True
            elif kind == "error":
                self._errors.append(value)
            elif kind == "warning":
                warnings.warn(value, NcgnnWarning, stacklevel=2)
            elif (hear := hears[kind]) is not None:
                hear(value)

    def _outcome(self) -> RunResult:
        """The result, or what there is instead."""
        if self._result is not None:
            return self._result
        if self._stopped:
            raise KeyboardInterrupt
        # That others have ended is what the others say of it.
        for error in self._errors:
            if not isinstance(error, LostRankError):
                raise error
        reason = "" if self._failure is None else f" ({first_line(self._failure)})"
        raise NcgnnError(
            f"the training on Ray has lost a process{reason}; the same command continues the run "
            "from its latest checkpoint."
        )


def _trainer(needs: Needs, workers: int, folder: str, told: tuple[Any, bytes]) -> Any:
    """Ray's own trainer for so many processes."""
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    try:
        import ray.train as train
        from ray.train import torch as ray_torch
    except ImportError:
        raise InputError(
            "training on several processes needs Ray Train: install it with pip install "
            "'ncgnn[ray]'."
        ) from None
    ours: Any = train
    resources = {"CPU": needs.threads} | ({"memory": needs.memory} if needs.memory else {})
    return ray_torch.TorchTrainer(
        _loop,
        train_loop_config={"told": told},
        torch_config=ray_torch.TorchConfig(backend="cpu:gloo,cuda:nccl" if needs.gpus else "gloo"),
        scaling_config=ours.ScalingConfig(
            num_workers=workers, use_gpu=bool(needs.gpus), resources_per_worker=resources
        ),
        run_config=ours.RunConfig(name="train", storage_path=folder),
    )


def _loop(given: dict[str, Any]) -> None:
    """In a process of the group: train along with the others, and tell the driver of it."""
    import ray
    from torch import distributed

    mailbox, packed = given["told"]
    line, leads = Line(mailbox, distributed.get_rank()), distributed.get_rank() == 0

    def tell(kind: str, value: Any = None) -> None:
        if leads:
            line.send((kind, value))

    cluster: Any = ray
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            job: _Job = cluster.cloudpickle.loads(packed)
            run = _train(job, line, tell)
            tell("result", run)
        except KeyboardInterrupt:
            tell("stopped")
        except Exception as error:
            told = error if isinstance(error, NcgnnError) else NcgnnError(sentence(error))
            line.report(("error", told))
            raise  # so that Ray ends the others, too
        finally:
            for text in dict.fromkeys(
                str(one.message) for one in caught if issubclass(one.category, NcgnnWarning)
            ):
                tell("warning", text)
            line.flush()


def _train(job: _Job, line: Line, tell: Callable[[str, Any], None]) -> RunResult:
    """Train the run of a job, in every process."""

    def tell_epoch(record: dict[str, Any]) -> None:
        tell("epoch", record)

    def tell_resumed(epochs: int) -> None:
        tell("resume", epochs)

    if job.variable is not None:
        os.environ[DATA_VARIABLE] = job.variable
    keep_freed_memory()
    use_threads(job.threads)
    use_class(job.config.model.name, job.model)
    return train_run(
        job.config,
        job.runs,
        data_dir=job.data_dir,
        on_epoch=tell_epoch,
        on_resume=tell_resumed,
        before_done=job.before_done,
        stop=line.stopped.is_set,
        start=job.start,
        choice=job.choice,
    )
