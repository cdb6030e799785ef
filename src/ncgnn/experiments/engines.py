"""Engines: where the tasks of sweeps and of parameter searches are worked on.

Every engine opens a :class:`Pool`, which is given tasks and tells what becomes of them: processes
of this machine, or those of a Ray cluster. Whoever uses a pool need not know of which kind it is.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from ncgnn.errors import InputError
from ncgnn.experiments.ray import Needs, RayPool, connect
from ncgnn.experiments.workers import WorkerPool
from ncgnn.training import count_memory, find_device

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from ncgnn.experiments.workers import Event, Work
    from ncgnn.graph import Graph
    from ncgnn.training import RunConfig

EngineName = Literal["local", "ray"]

#: Devices that Ray counts as GPUs.
_GPUS = ("cuda", "xpu")
#: Requests for memory are rounded up to so many bytes.
_STEP = 64 << 20


class Pool(Protocol):
    """Processes that each take the next task when they are free; used in a ``with`` block.

    Attributes:
        stopping: Whether the tasks have been asked to stop.
        lost: Why the pool has lost its processes for good; empty while it has not.
    """

    stopping: bool
    lost: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None:
        """End all processes; those at work have time to save their state."""

    def room(self, task: Any) -> int:
        """How many such tasks are worked on at a time."""
        ...

    def add(self, task: Any, *, delay: float = 0.0, first: bool = False) -> None:
        """Queue a task, at the end or as the first; it begins after ``delay`` seconds or later."""

    def events(self, stop: Callable[[], bool]) -> Iterator[Event]:
        """What happens until no task is left; tasks may be added meanwhile."""
        ...


@dataclass(frozen=True)
class Engine:
    """Where tasks are worked on, and how many at a time.

    Attributes:
        name: ``local`` processes, or tasks of a ``ray`` cluster.
        workers: Number of tasks at a time; None: as many as there are cores for.
        threads: Number of threads of each.
        address: Of an existing Ray cluster; None: one that is started here.
    """

    name: EngineName = "local"
    workers: int | None = None
    threads: int = 1
    address: str | None = None

    def __post_init__(self) -> None:
        if self.threads < 1 or (self.workers is not None and self.workers < 1):
            raise InputError(
                f"workers and threads must be at least 1; got {self.workers} and {self.threads}."
            )
        if self.name not in ("local", "ray"):
            raise InputError(f"engine must be local or ray; got '{self.name}'.")
        if self.address is not None and self.name == "local":
            raise InputError("--address is that of a Ray cluster; add --engine ray.")
        if self.address is not None and self.workers is not None:
            raise InputError(
                "an existing cluster decides how many run at a time; leave --workers out."
            )

    @contextmanager
    def started(self) -> Generator[None]:
        """Keep what pools need for as long as a block takes, so that it is started once."""
        if self.name == "local":
            yield
            return
        with connect(self.address, self._size * self.threads):
            yield

    def open(self, work: Work, needs: Callable[[Any], Needs]) -> Pool:
        """A pool that works on tasks, of which each needs so much of a machine."""
        if self.name == "local":
            return WorkerPool(work, self._size)
        return RayPool(work, needs, cores=self._size * self.threads, address=self.address)

    def check_devices(self, devices: Iterable[str]) -> None:
        """Refuse devices that no task could use.

        Machines of an existing cluster may have others than this one; its pool knows them.
        """
        for device in devices:
            if self.name == "ray" and device.startswith(_GPUS) and ":" in device:
                kind = device.partition(":")[0]
                raise InputError(
                    f"device must be {kind} with --engine ray, which gives every task a GPU of "
                    f"its own; got {device}."
                )
            if self.address is None:
                find_device(device)

    @property
    def _size(self) -> int:
        return default_workers(self.threads) if self.workers is None else self.workers


def default_workers(threads: int) -> int:
    """The number of processes that keep every core of this process busy."""
    known = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    return max(1, cores // threads)


def needs_of(config: RunConfig, graph: Graph, threads: int, name: str) -> Needs:
    """What the training of a run needs of a machine; its memory where that can be counted."""
    device, memory = config.training.device, 0
    counted = count_memory(config, graph) if config.training.batch_size is None else None
    if counted is not None and config.training.memory_check:
        memory = -int(-counted * 2**30 // _STEP) * _STEP
    return Needs(name, threads, memory, int(device.startswith(_GPUS)))
