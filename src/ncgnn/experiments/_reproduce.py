"""The tables and figures of the paper, and some beside them, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import DataNotFoundError, InputError, UnknownNameError
from ncgnn.experiments._grid import check_settings, seed_list
from ncgnn.experiments._request import Request
from ncgnn.training._run import RunResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.experiments._records import Record
    from ncgnn.experiments._request import Target

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


def request_for(
    name: str,
    *,
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: int | Sequence[int] = (0,),
    split: str | None = None,
    data_dir: Path | str | None = None,
    settings: dict[str, Any] | None = None,
    stored: Iterable[Record] = (),
    train: bool = True,
) -> tuple[Request, dict[str, str]]:
    """What a table or figure shall show; data sets that are not at hand are left out.

    Args:
        name: Of the table or figure.
        datasets: By default the paper's.
        models: By default the paper's.
        seeds: Of every cell: how many, from 0 on, or which.
        split: Split family of every cell; by default that of the printed numbers.
        data_dir: Folder with npz files.
        settings: Options of every cell.
        stored: Compact records; a data set whose cells are all among them need not be at hand.
        train: Whether missing cells will be trained; if not, one stored cell is enough for that.

    Returns:
        The request, and for every data set that is not at hand why.

    Raises:
        InputError: No data set is left, or something is named that it does not show.
    """
    wanted = target(name)
    for option, given, shown in (
        ("--datasets", datasets, wanted.datasets),
        ("--models", models, wanted.models),
    ):
        if given is not None and not shown:
            raise InputError(f"{name} shows none; leave {option} out.")
    _check_used(wanted, split, seeds, settings or {})
    check_settings(settings or {})
    folder = None if data_dir is None else Path(data_dir).expanduser()
    asked = tuple(wanted.datasets if datasets is None else dict.fromkeys(datasets))
    request = Request(
        asked,
        tuple(wanted.models if models is None else dict.fromkeys(models)),
        seed_list(seeds),
        split or getattr(wanted, "split", "paper"),
        folder,
        tuple((settings or {}).items()),
    )
    absent = _absent(wanted, request, {record.name for record in stored}, train=train)
    present = tuple(dataset for dataset in asked if dataset not in absent)
    if asked and not present:
        raise InputError(
            f"none of {', '.join(asked)} is at hand; name the folder of your npz files with "
            "--data-dir."
        )
    return replace(request, datasets=present), absent


def _check_used(
    wanted: Target, split: str | None, seeds: int | Sequence[int], settings: dict[str, Any]
) -> None:
    """Complain of options that a table or figure would ignore."""
    chosen = seed_list(seeds)
    if getattr(wanted, "one_seed", False) and len(chosen) > 1:
        raise InputError(f"{wanted.name} draws one run of each model; give one of the seeds.")
    known: frozenset[str] | None = getattr(wanted, "options", None)
    if known is None:
        return
    if split is not None or chosen != (0,):
        raise InputError(f"{wanted.name} rests on no runs; leave --split and --seeds out.")
    useless = [key for key in settings if key.removeprefix("model.") not in known]
    if useless:
        takes = f"; it takes {', '.join(sorted(known))}" if known else ""
        raise InputError(f"{wanted.name} rests on no runs; --set {useless[0]} says nothing{takes}.")


def _absent(wanted: Target, request: Request, stored: set[str], *, train: bool) -> dict[str, str]:
    """Data sets that are not at hand though they are needed, and why."""
    absent: dict[str, str] = {}
    for dataset in request.datasets:
        cells = wanted.cells(replace(request, datasets=(dataset,)))
        kept = [config.name in stored for config in cells]
        if cells and (all(kept) if train else any(kept)):
            continue
        try:
            _look(dataset, request.data_dir, train)
        except DataNotFoundError as error:
            absent[dataset] = str(error)
    return absent


def _look(dataset: str, folder: Path | None, download: bool) -> None:
    from ncgnn.data import load

    load(dataset, folder, download=download)


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
