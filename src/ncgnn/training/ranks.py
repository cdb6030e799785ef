"""Ranks of a process group: several processes that train one model together.

Every process runs the same program, and has a rank. Each works on its share of the nodes of a
batch; torch's ``DistributedDataParallel`` combines the gradients, so that all ranks take the same
step. Whatever has to be decided once is decided by the first rank, which the others hear of; it
alone writes files and speaks to people.

Without a process group there is one rank, which does everything, and nothing here does anything:

    ranks = Ranks.here()
    share = ranks.share(nodes)
    ...
    stopped = ranks.any(asked_to_stop)

A process group is made by :func:`join_ranks`, from what ``torchrun`` says, or by whoever calls
:func:`ncgnn.fit` or :func:`ncgnn.training.train_run`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import distributed, nn

from ncgnn._launch import launched_as
from ncgnn.errors import InputError, NcgnnError, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

T = TypeVar("T")

# What processes of a group know of each other without passing messages, if it was made here.
_stores: list[Any] = []
# What errors of a connection have in their text; those of a type of their own are known by it.
_OF_CONNECTIONS = ("gloo", "nccl", "connection", "socket")


class LostRankError(NcgnnError):
    """Another rank has ended, so that this one cannot go on."""


@dataclass(frozen=True, eq=False)
class Share:
    """What one rank works on of some nodes.

    Attributes:
        nodes: Its nodes. Where there are fewer nodes than ranks, some have one that others have,
            too, and that does not count.
        counts: How many of them count: all, or none.
        weight: By which their mean is multiplied, so that the mean over ranks is that over all
            nodes.
    """

    nodes: torch.Tensor
    counts: int
    weight: float


class Ranks:
    """The processes that train one model together, of which this is one.

    Every method but :meth:`share` waits for all ranks, which must call the same ones in the same
    order.

    Args:
        rank: The number of this process.
        count: How many there are.
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    @classmethod
    def here(cls) -> Ranks:
        """Those of the process group of this process; one alone where there is none."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def alone(self) -> bool:
        """Whether this is the only one."""
        return self.count == 1

    @property
    def leads(self) -> bool:
        """Whether this one decides, writes and speaks for all."""
        return self.rank == 0

    def share(self, nodes: torch.Tensor) -> Share:
        """The share of this rank of some nodes, of which there is at least one."""
        if self.alone:
            return Share(nodes, len(nodes), 1.0)
        own = nodes[self.rank :: self.count]
        weight = len(own) * self.count / len(nodes)
        return Share(own if len(own) else nodes[:1], len(own), weight)

    def sum(self, *numbers: float) -> list[float]:
        """The sums of numbers over all ranks."""
        if self.alone:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=_device())
        with hearing_others():
            distributed.all_reduce(total)
        return total.tolist()

    def any(self, flag: bool) -> bool:
        """Whether a flag is set on any rank."""
        return self.sum(float(flag))[0] > 0

    def broadcast(self, value: T) -> T:
        """What the first rank says, on all; what others say does not count."""
        if self.alone:
            return value
        said = [value if self.leads else None]
        with hearing_others():
            distributed.broadcast_object_list(said, src=0)
        return cast("T", said[0])

    def first(self, function: Callable[[], T]) -> T:
        """What a function gives on the first rank, which alone calls it; or the error it raises."""
        if self.alone:
            return function()
        if not self.leads:
            return cast("T", self.hear())
        answer = _Answer.of(function)
        return cast("T", self.broadcast(answer).read(answer.error))

    def hear(self) -> Any:
        """What the first rank gets of :meth:`first`, on the others."""
        return self.broadcast(_Answer()).read(None)

    def together(self, function: Callable[[], T]) -> T:
        """Call a function on every rank; where one raises an error, all raise that of the first."""
        if self.alone:
            return function()
        answer = _Answer.of(function)
        errors: list[Exception | None] = [None] * self.count
        with hearing_others():
            distributed.all_gather_object(errors, _portable(answer.error))
        for rank, error in enumerate(errors):
            if error is not None:
                raise (answer.error or error) if rank == self.rank else _named(rank, error)
        return cast("T", answer.value)

    def exchange(self, rows: torch.Tensor, ends: Sequence[int]) -> None:
        """Give every rank all rows of a tensor, of which each has computed some.

        Args:
            rows: A tensor [n, …]; the rows of rank r are those from ``ends[r - 1]`` to ``ends[r]``.
            ends: Where the rows of every rank end.
        """
        with hearing_others():
            for rank, end in enumerate(ends):
                first = ends[rank - 1] if rank else 0
                if end > first:
                    distributed.broadcast(rows[first:end], src=rank)

    def wrap(self, model: nn.Module) -> Callable[[Callable[[], T]], T]:
        """What passes of a model are called by, so that its gradients are means over all ranks.

        Its parameters are those of the first rank from now on.

        Returns:
            Takes a function without arguments, and gives what that one gives: the loss, or a tuple
            with the loss in it, whose ``backward`` waits for the others.
        """
        if self.alone:
            return lambda compute: compute()
        from torch.nn.parallel import DistributedDataParallel

        with hearing_others():
            # A group without nodes in a batch has parameters without gradients.
            return DistributedDataParallel(_Passes(model), find_unused_parameters=True)


class _Passes(nn.Module):
    """A model, of which parts other than its own ``forward`` are called."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[], Any]) -> Any:
        """What a function of the model gives."""
        return compute()


@dataclass(frozen=True)
class _Answer:
    """What a function has given, or the error that it has raised."""

    value: Any = None
    error: Exception | None = None

    @classmethod
    def of(cls, function: Callable[[], Any]) -> _Answer:
        """Call it."""
        try:
            return cls(function())
        except Exception as error:
            return cls(error=error)

    def read(self, own: Exception | None) -> Any:
        """The value; ``own`` is the error as it was raised, where it was raised here."""
        if self.error is not None:
            raise own or self.error
        return self.value

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.value, _portable(self.error))


def _portable(error: Exception | None) -> Exception | None:
    """An error as other processes can read it."""
    if error is None or isinstance(error, NcgnnError):
        return error
    return NcgnnError(sentence(error))


def _named(rank: int, error: Exception) -> Exception:
    """The error of another rank, which its machine may have caused."""
    if rank == 0:
        return error
    kind = InputError if isinstance(error, InputError) else NcgnnError
    return kind(f"rank {rank}: {sentence(error)}")


def _device() -> torch.device:
    """Where tensors must be for the backend of the process group."""
    if "gloo" in distributed.get_backend() or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda")


@contextmanager
def hearing_others() -> Generator[None]:
    """Turn the errors of a connection to a rank that has ended into one sentence.

    Raises:
        LostRankError: There is such an error.
    """
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        lost = isinstance(error, distributed.DistError) if distributed.is_available() else False
        if not lost and not any(word in text for word in _OF_CONNECTIONS):
            raise
        raise LostRankError(
            "another process of this run has ended, so that training stops; the same command "
            "continues the run from its latest checkpoint."
        ) from error


@contextmanager
def join_ranks() -> Generator[Ranks]:
    """Make the process group that the environment speaks of, as ``torchrun`` sets it.

    Tensors of a CPU pass through gloo, those of CUDA devices through NCCL; each rank of a machine
    has a device of its own, which ``device = "cuda"`` means then. Where the environment speaks of
    one process, or of none, there is no group.
    """
    rank, count = launched_as()
    if count == 1 or distributed.is_initialized():
        yield Ranks.here()
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    with hearing_others():
        untyped = cast("Any", distributed)
        store = next(untyped.rendezvous("env://"))[0]
        kept = untyped.PrefixStore("group", store)
        distributed.init_process_group(backend, store=kept, rank=rank, world_size=count)
    _stores.append(store)
    yield Ranks.here()
    # After an error others may be gone, and would be waited for.
    distributed.destroy_process_group()


def is_first_to(tell: str) -> bool:
    """Whether no other process has told something before, as far as that can be known now."""
    try:
        return all(store.add(f"ncgnn: {tell}", 1) == 1 for store in _stores)
    except RuntimeError:  # who kept the store is lost, too
        return True


def refuse_ranks(what: str) -> None:
    """Refuse what one process does alone where there are several.

    Raises:
        InputError: There are several.
    """
    if not Ranks.here().alone:
        raise InputError(f"{what} runs in one process; call it outside of a process group.")
