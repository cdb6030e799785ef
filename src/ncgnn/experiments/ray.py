"""Tasks of a Ray cluster: connecting to one, and a pool of its processes.

A pool works like that of local processes. Ray decides where a task runs by what it needs: cores,
memory, a GPU. A mailbox, an actor on the machine of the driver (the process that has the pool),
takes the reports of tasks and tells them to stop. What is lost with a machine goes on at another
one; a driver that loses its own connection to the cluster leaves all tasks interrupted. Tasks that
lose the driver save their state and end.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from ncgnn._launch import stop_signals
from ncgnn._memory import keep_freed_memory
from ncgnn.data import DATA_VARIABLE
from ncgnn.errors import InputError, NcgnnError, sentence
from ncgnn.experiments.workers import IMPORT_REMEDY, LAST_SECONDS, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from ncgnn.experiments.workers import Work

#: Seconds between two looks at what has happened.
_LOOK = 0.2
#: Seconds after which a mailbox that does not answer is lost.
_ANSWER = 60.0
#: Bytes of the store of a cluster that is started here; results are small.
_STORE = 100 << 20
#: More than any cluster has tasks at a time.
_MOST_TASKS = 100_000


@dataclass(frozen=True)
class Needs:
    """What a task needs of a machine.

    Attributes:
        name: What its process is called.
        threads: Number of cores.
        memory: Bytes; 0 where it is not known.
        gpus: Number of GPUs.
    """

    name: str
    threads: int = 1
    memory: int = 0
    gpus: int = 0


@dataclass(frozen=True)
class _Sent:
    number: int
    task: Any


class _LostError(NcgnnError):
    """The cluster, or the connection to it, is lost."""


class RayPool:
    """Tasks on the machines of a Ray cluster, which all see the same folders.

    Args:
        work: A function of a module, called in a process for every task.
        needs: What a task needs of a machine.
        cores: Number of cores that a cluster has which is started here.
        address: Of an existing cluster (``auto`` for that of this machine); None: one is started,
            and ends with the block.
    """

    def __init__(
        self, work: Work, needs: Callable[[Any], Needs], *, cores: int, address: str | None
    ) -> None:
        self._work, self._needs = work, needs
        self._cores, self._address = cores, address
        self._open = ExitStack()
        self._waiting: list[tuple[float, Any]] = []
        self._sent: dict[Any, _Sent] = {}
        self._begun: set[int] = set()
        self._numbers = count()
        #: Whether the tasks have been asked to stop.
        self.stopping = False
        #: Why the cluster is lost; empty while it is not.
        self.lost = ""

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._ray: Any = opened.enter_context(connect(self._address, self._cores))
            self._errors: Any = self._ray.exceptions
            self._nodes = living_nodes(self._ray)
            self._mailbox = open_mailbox(self._ray)
            self._serve = self._ray.remote(max_retries=0)(_serve)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End all tasks; those at work have time to save their state."""
        with self._open, suppress(self._errors.RayError):
            if self._sent and not self.lost:
                self._stop()
            if self._sent and not self.lost:
                several = {"num_returns": len(self._sent), "timeout": LAST_SECONDS}
                _, left = self._ray.wait(list(self._sent), **several)
                for reference in left:
                    self._ray.cancel(reference, force=True)
            self._ray.kill(self._mailbox)

    def room(self, task: Any) -> int:
        """How many such tasks the cluster has room for at a time."""
        return _room(self._needs(task), self._nodes)

    def add(self, task: Any, *, delay: float = 0.0, first: bool = False) -> None:
        """Queue a task; it begins after ``delay`` seconds or later, when Ray has room for it."""
        place = 0 if first else len(self._waiting)
        self._waiting.insert(place, (time.monotonic() + delay, task))

    def events(self, stop: Callable[[], bool]) -> Iterator[Event]:
        """What happens until no task is left; tasks may be added meanwhile.

        Once ``stop`` says yes, waiting tasks are dropped, and the others are asked to save their
        state and end. So it is when the cluster is lost, of which ``lost`` tells then.
        """
        try:
            while True:
                if not self.stopping and stop():
                    self._stop()
                self._send_due()
                if not self._waiting and not self._sent:
                    return
                yield from self._look()
        except (_LostError, self._errors.RayError) as error:
            self.stopping, self.lost = True, first_line(error)
            with suppress(self._errors.RayError):
                self._mailbox.stop.remote()  # whoever still hears it ends
        self._waiting.clear()
        left = [sent for sent in self._sent.values() if sent.number in self._begun]
        self._sent.clear()
        for sent in left:
            yield Event("died", sent.task, self.lost)

    def _send_due(self) -> None:
        """Hand the tasks that are due to Ray."""
        now = time.monotonic()
        due = [task for when, task in self._waiting if when <= now]
        self._waiting = [(when, task) for when, task in self._waiting if when > now]
        for task in due:
            self._send(task)

    def _send(self, task: Any) -> None:
        number, data = next(self._numbers), os.environ.get(DATA_VARIABLE)
        # Ray itself would report otherwise, and not at all for some, what cannot be read there.
        packed, needs = self._ray.cloudpickle.dumps((self._work, task)), self._needs(task)
        asked = {key: value for key, value in _request(needs, self._nodes).items() if value}
        serve = self._serve.options(name=needs.name, **asked)
        reference = serve.remote(self._mailbox, number, packed, data)
        self._sent[reference] = _Sent(number, task)

    def _look(self) -> Iterator[Event]:
        """What tasks have reported since the last look, and the ends of some."""
        ended: list[Any] = []
        if self._sent:
            ended, _ = self._ray.wait(list(self._sent), num_returns=len(self._sent), timeout=_LOOK)
        else:
            time.sleep(_LOOK)
        tasks = {sent.number: sent.task for sent in self._sent.values()}
        for number, kind, value in self._ray.get(self._mailbox.take.remote(), timeout=_ANSWER):
            if kind == "started":
                self._begun.add(number)
            if number in tasks:
                yield Event(kind, tasks[number], value)
        for reference in ended:
            event = self._end(reference)
            if event is not None:
                yield event

    def _end(self, reference: Any) -> Event | None:
        """How a task has ended; None where it begins again at another machine."""
        errors, task = self._errors, self._sent[reference].task
        try:
            kind, value = self._ray.get(reference)
            event = Event(kind, task, value)
        except (errors.NodeDiedError, errors.ObjectLostError) as error:
            event = None
            if self.stopping:
                event = Event("died", task, first_line(error))
            else:
                self._send_elsewhere(task)
        except errors.WorkerCrashedError:
            event = Event("died", task, "for an unknown reason")
        except errors.OutOfMemoryError:
            event = Event("died", task, "because its node ran out of memory")
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
            event = Event("error", task, f"Ray could not work on it: {first_line(error)}")
        del self._sent[reference]
        return event

    def _send_elsewhere(self, task: Any) -> None:
        self._nodes = living_nodes(self._ray)
        try:
            self._send(task)
        except InputError as error:
            raise _LostError(f"a node was lost, and no other has room: {error}") from None

    def _stop(self) -> None:
        """Ask the tasks at work to end, and forget those that have not begun."""
        self.stopping = True
        self._waiting.clear()
        begun = set(self._ray.get(self._mailbox.stop.remote(), timeout=_ANSWER))
        for reference, sent in [*self._sent.items()]:
            if sent.number not in begun:
                del self._sent[reference]
                self._ray.cancel(reference)


def living_nodes(ray: Any) -> list[dict[str, float]]:
    """The resources of every machine of a cluster."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def room_for(ray: Any, needs: Needs) -> int:
    """How many tasks with such needs a cluster has room for at a time."""
    return _room(needs, living_nodes(ray))


def _room(needs: Needs, nodes: Sequence[Mapping[str, float]]) -> int:
    asked = _request(needs, nodes)
    wanted = {"CPU": asked["num_cpus"], "GPU": asked["num_gpus"], "memory": asked["memory"]}
    return sum(
        min(int(node.get(kind, 0) // much) for kind, much in wanted.items() if much)
        for node in nodes
    )


def _request(needs: Needs, nodes: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """What a task asks Ray for; more than any machine has it would wait for, for ever."""
    most = max((node.get("CPU", 0) for node in nodes), default=0)
    if most < needs.threads:
        raise InputError(
            f"--threads must be at most {most:.0f}, the cores of the largest node; got "
            f"{needs.threads}."
        )
    large = [node for node in nodes if node.get("CPU", 0) >= needs.threads]
    fitting = [node for node in large if node.get("GPU", 0) >= needs.gpus]
    if not fitting:
        raise InputError(
            f"no node of the Ray cluster with {needs.threads} cores has a GPU; set --device cpu, "
            "or name another cluster with --address."
        )
    # A run that needs more than that is for itself to refuse.
    memory = min(needs.memory, int(max(node.get("memory", 0) for node in fitting)))
    return {"num_cpus": needs.threads, "num_gpus": needs.gpus, "memory": memory}


def open_mailbox(ray: Any) -> Any:
    """Start the actor that takes reports of tasks and tells them to stop."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Mailbox:  # sent as it is, as its process need not import the package
        def __init__(self) -> None:
            import asyncio

            self.messages: list[tuple[int, str, Any]] = []
            self.begun: list[int] = []
            self.order = asyncio.Event()

        async def begin(self, number: int) -> bool:
            if self.order.is_set():
                return False
            self.begun.append(number)
            self.messages.append((number, "started", None))
            return True

        async def put(self, number: int, value: Any) -> None:
            self.messages.append((number, "report", value))

        async def take(self) -> list[tuple[int, str, Any]]:
            taken, self.messages = self.messages, []
            return taken

        async def stop(self) -> list[int]:
            self.order.set()
            return self.begun

        async def stopped(self) -> None:
            await self.order.wait()

    here = ray.get_runtime_context().get_node_id()
    place = NodeAffinitySchedulingStrategy(here, soft=False)
    options = {"num_cpus": 0, "scheduling_strategy": place, "max_concurrency": _MOST_TASKS}
    return ray.remote(Mailbox).options(**options).remote()


class Line:
    """The line of a task, in its process, to the driver.

    Calls are waited for as futures, as ``ray.get`` would let Ray give the cores to another task.

    Attributes:
        stopped: Set with the order to stop, and when the driver is gone.
    """

    def __init__(self, mailbox: Any, number: int) -> None:
        from ray.exceptions import RayError

        self._mailbox, self._number = mailbox, number
        self._lost = RayError
        self._last: Any = None
        self.stopped = threading.Event()

        def hear(_: object) -> None:
            self.stopped.set()

        mailbox.stopped.remote().future().add_done_callback(hear)

    def send(self, value: Any) -> None:
        """Tell the driver something, without waiting until it is there."""
        self._last = self._mailbox.put.remote(self._number, value)

    def flush(self) -> None:
        """Wait until all that was sent is there."""
        if self._last is not None:
            with suppress(self._lost):
                self._last.future().result()

    def report(self, value: Any) -> None:
        """Tell the driver something."""
        self.send(value)
        self.flush()


def _serve(mailbox: Any, number: int, packed: bytes, data: str | None) -> tuple[str, Any]:
    """In a process of the cluster: work on a task until its end, or until it is asked to stop."""
    import ray

    cluster: Any = ray
    if not mailbox.begin.remote(number).future().result():
        return "dropped", None
    if data is not None:
        os.environ[DATA_VARIABLE] = data
    keep_freed_memory()
    line = Line(mailbox, number)
    try:
        work, task = cluster.cloudpickle.loads(packed)
    except (AttributeError, ImportError) as error:
        return "error", f"a worker process cannot read its task ({error}); {IMPORT_REMEDY}"
    try:
        return "result", work(task, line.report, line.stopped.is_set)
    except Exception as error:
        return "error", sentence(error)


@contextmanager
def connect(address: str | None, cores: int) -> Generator[Any]:
    """Connect to a cluster, or start one that ends with the block.

    Raises:
        InputError: It says in a sentence why a cluster cannot be used.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # A cluster started here has its machine to itself, like the processes of the local engine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise InputError(
            "engine 'ray' needs Ray: install it with pip install 'ncgnn[ray]'."
        ) from None
    was_connected = ray.is_initialized()
    if not was_connected:
        _begin(ray, address, cores)
    try:
        yield ray
    finally:
        if not was_connected:
            ray.shutdown()


def _begin(ray: Any, address: str | None, cores: int) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # Without a word Ray would join a cluster that happens to run on this machine.
        options |= {"address": "local", "num_cpus": cores}
        options |= {"include_dashboard": False, "object_store_memory": _STORE}
    else:
        _check_reachable(address)
        _check_token(address, address)
        options["address"] = address
    try:
        with _own_signals():
            ray.init(**options)
    except Exception as error:  # of many kinds, Exception itself among them
        ray.shutdown()  # what is half begun would be in the way of the next attempt
        if address is None:
            raise NcgnnError(f"Ray could not be started: {first_line(error)}") from None
        if place := re.search(r"at (\S+:\d+)", str(error)):  # where Ray has found auto
            _check_token(address, place[1])
        reason = _versions(str(error)) or first_line(error)
        raise InputError(f"cannot use the Ray cluster '{address}': {reason}") from None


@contextmanager
def _own_signals() -> Generator[None]:
    """Keep the handlers of signals, by which work is saved; Ray would replace them."""
    before = {number: signal.getsignal(number) for number in stop_signals()}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def _check_reachable(address: str) -> None:
    """Refuse an address at which nobody answers; Ray itself would wait for ever."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # a name that Ray looks up itself, like auto
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise InputError(
            f"cannot reach the Ray cluster '{address}' ({error}); check --address, or leave it out "
            "to start one here."
        ) from None


def _check_token(address: str, place: str) -> None:
    """Refuse a cluster that refuses our token, of which Ray itself tells its log alone."""
    if not re.fullmatch(r"[^/]+:\d+", place):
        return
    try:
        import ray._raylet as raylet

        client: Any = raylet
        client.GcsClient(address=place)
    except Exception as error:  # any other trouble is for ray.init to tell
        if type(error).__name__ == "AuthenticationError":
            raise InputError(
                f"the Ray cluster '{address}' refuses the token of this process, or asks for one; "
                "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) as where the "
                "cluster was started."
            ) from None


def _versions(message: str) -> str:
    """A mismatch of versions in a sentence; empty if an error is none."""
    found = re.findall(r"^\s*(?:Ray|Python): (\S+)", message, re.MULTILINE)
    if "mismatch" not in message or len(found) < 4:
        return ""
    return (
        f"it runs Ray {found[0]} on Python {found[1]}, and this process Ray {found[2]} on Python "
        f"{found[3]}; install the same versions."
    )


def first_line(error: BaseException) -> str:
    """What an error says first; more of Ray's is for its developers."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
