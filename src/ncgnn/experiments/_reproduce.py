"""The tables and figures of the paper, and some beside them, by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import UnknownNameError
from ncgnn.training._run import RunResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.experiments._records import Record
    from ncgnn.experiments._request import Request, Target

_PLACES = {
    "table1": "tables.accuracy:TABLE1",
    "table2": "tables.accuracy:TABLE2",
    "classic-uniform": "tables.accuracy:CLASSIC_UNIFORM",
    "classic-published": "tables.accuracy:CLASSIC_PUBLISHED",
    "duplication": "tables.duplication:DuplicationTarget",
    "leaderboard": "tables.leaderboard:LeaderboardTarget",
    "efficiency": "tables.efficiency:EfficiencyTarget",
    "distributions": "figures._distributions:Distributions",
    "observation": "figures._observation:Observation",
    "embeddings": "figures._embeddings:Embeddings",
    "groups": "figures._groups:Groups",
    "interplay": "figures._interplay:Interplay",
    "sensitivity": "figures._sensitivity:Sensitivity",
    "alpha": "figures._alpha:Alpha",
    "time": "figures._time:Time",
    "entropy": "figures._entropy:Entropy",
}


#: What is about time: their runs need a machine to themselves.
_TIMED = ("efficiency", "time")


def targets() -> list[str]:
    """Names of all tables and figures."""
    return list(_PLACES)


def target(name: str) -> Target:
    """A table or figure by name.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in _PLACES:
        raise UnknownNameError("table or figure", name, targets())
    module, _, attribute = _PLACES[name].partition(":")
    found = getattr(import_module(f"ncgnn.experiments.{module}"), attribute)
    return found() if isinstance(found, type) else found


@dataclass(frozen=True)
class Reproduction:
    """A table or figure, as far as it can be made.

    Attributes:
        target: What it is.
        request: What was asked for, without the data sets that are not at hand.
        absent: Data sets that are not at hand, with the reason.
        data: Its numbers.
    """

    target: Target
    request: Request
    absent: dict[str, str]
    data: Any


def is_timed(name: str) -> bool:
    """Whether a table or figure is about time, so that its runs must not share the machine."""
    return name in _TIMED


def reproduce(
    name: str,
    runs: Iterable[RunResult],
    *,
    request: Request,
    absent: dict[str, str] | None = None,
    stored: Iterable[Record] = (),
) -> Reproduction:
    """Make a table or figure from finished runs.

    Args:
        name: Of the table or figure.
        runs: Finished runs; those that it does not rest on are not looked at.
        request: What it shall show.
        absent: Data sets that are not at hand.
        stored: Compact records, used where there is no run; see :func:`takes_stored`.
    """
    wanted = target(name)
    found = {run.config.name: run for run in runs}
    if takes_stored(name):
        kept = {record.name: record for record in stored}
        for config in wanted.cells(request):
            if config.name not in found and config.name in kept:
                record = kept[config.name]
                place = Path(config.name)
                found[config.name] = RunResult(
                    place, config, record.result, record.seconds, fresh=False
                )
    return Reproduction(wanted, request, absent or {}, wanted.collect(request, found))


def takes_stored(name: str) -> bool:
    """Whether scores suffice: figures need more, and times of other machines do not compare."""
    return target(name).kind == "table" and not is_timed(name)
