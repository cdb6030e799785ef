"""A reproduced table or figure on the screen and on disk.

The tables and figures of the paper, and some beside them, by name.

From what a user asks for to the request of a table or figure, or one clear error.

All figures of the paper by the names of their targets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ncgnn._io import write_text
from ncgnn.data import canonical_name
from ncgnn.errors import DataNotFoundError, InputError, UnknownNameError
from ncgnn.experiments import check_all_used, check_settings, file_for, read_config_files, seed_list
from ncgnn.paper import accuracy as tables
from ncgnn.paper import appendix
from ncgnn.paper.figures.embeddings import draw_embeddings
from ncgnn.paper.figures.metrics import draw_distributions, draw_entropy, draw_observation
from ncgnn.paper.figures.models import draw_groups, draw_time
from ncgnn.paper.figures.parts import footnote
from ncgnn.paper.figures.training import draw_alpha, draw_interplay, draw_sensitivity
from ncgnn.paper.request import Request
from ncgnn.report import Table, save_figure
from ncgnn.training import RunResult, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.figure import Figure

    from ncgnn.experiments import Record
    from ncgnn.paper.request import Target
    from ncgnn.training import ConfigFile, RunConfig

_PLACES = {
    "table1": "accuracy:TABLE1",
    "table2": "accuracy:TABLE2",
    "classic-uniform": "accuracy:CLASSIC_UNIFORM",
    "classic-published": "accuracy:CLASSIC_PUBLISHED",
    "duplication": "appendix:DuplicationTarget",
    "leaderboard": "appendix:LeaderboardTarget",
    "efficiency": "appendix:EfficiencyTarget",
    "distributions": "figures.metrics:Distributions",
    "observation": "figures.metrics:Observation",
    "embeddings": "figures.embeddings:Embeddings",
    "groups": "figures.models:Groups",
    "interplay": "figures.training:Interplay",
    "sensitivity": "figures.training:Sensitivity",
    "alpha": "figures.training:Alpha",
    "time": "figures.models:Time",
    "entropy": "figures.metrics:Entropy",
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
    found = getattr(import_module(f"ncgnn.paper.{module}"), attribute)
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


def request_for(
    name: str,
    *,
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: int | Sequence[int] = (0,),
    split: str | None = None,
    data_dir: Path | str | None = None,
    config: Path | str | Sequence[Path | str] | None = None,
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
        config: TOML files, each with options of the cells whose model and data set it names.
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
        ("GRAPH", datasets, wanted.datasets),
        ("--models", models, wanted.models),
    ):
        if given is not None and not shown:
            what = "data sets" if option == "GRAPH" else "models"
            raise InputError(f"{name} shows no {what}; leave {option} out.")
    files = read_config_files(config)
    _check_used(wanted, split, seeds, settings or {}, files)
    check_settings(settings or {})
    folder = None if data_dir is None else Path(data_dir).expanduser()
    asked = tuple(
        wanted.datasets
        if datasets is None
        else dict.fromkeys(canonical_name(one) for one in datasets)
    )
    request = Request(
        asked,
        tuple(wanted.models if models is None else dict.fromkeys(models)),
        seed_list(seeds),
        split or getattr(wanted, "split", "paper"),
        folder,
        tuple((settings or {}).items()),
        files,
    )
    _check_files(wanted, request, split_was_said=split is not None)
    if vain := [key for key, rows in _decided(wanted, request).items() if rows == "all"]:
        raise InputError(f"{name} decides {vain[0]} itself; leave --set {vain[0]} out.")
    absent = _absent(wanted, request, {record.name for record in stored}, train=train)
    present = tuple(dataset for dataset in asked if dataset not in absent)
    if asked and not present:
        raise InputError(
            f"none of {', '.join(asked)} is at hand; name the folder of your npz files with "
            "--data-dir."
        )
    used = tuple(f for f in files if any(f.fits(dataset, None) for dataset in present))
    return replace(request, datasets=present, files=used), absent


def _check_used(
    wanted: Target,
    split: str | None,
    seeds: int | Sequence[int],
    settings: dict[str, Any],
    files: Sequence[ConfigFile],
) -> None:
    """Complain of options that a table or figure would ignore."""
    chosen = seed_list(seeds)
    if getattr(wanted, "one_seed", False) and len(chosen) > 1:
        raise InputError(f"{wanted.name} draws one run of each model; give one of the seeds.")
    if files and getattr(wanted, "sets_options", False):
        raise InputError(
            f"{wanted.name} trains all models alike; leave --config out, and change single options "
            "with --set."
        )
    known: frozenset[str] | None = getattr(wanted, "options", None)
    if known is None:
        return
    given = {"--split": split is not None, "--seeds": chosen != (0,), "--config": bool(files)}
    if any(given.values()):
        useless = " and ".join(option for option, there in given.items() if there)
        raise InputError(f"{wanted.name} rests on no runs; leave {useless} out.")
    unknown = [key for key in settings if key.removeprefix("model.") not in known]
    if unknown:
        takes = f"; it takes {', '.join(sorted(known))}" if known else ""
        raise InputError(f"{wanted.name} rests on no runs; --set {unknown[0]} says nothing{takes}.")


def _check_files(wanted: Target, request: Request, *, split_was_said: bool) -> None:
    """Complain of files that no cell uses, or that would put several splits into one column."""
    if not request.files:
        return
    cells = wanted.cells(request)
    check_all_used(request.files, [(cell.data.dataset, cell.model.name) for cell in cells])
    for file in request.files:
        if not split_was_said and file.split not in (None, request.split):
            raise InputError(
                f"{file.path} is for split family {file.split}, and {wanted.name} shows "
                f"{request.split}; say which one with --split."
            )
    splits: dict[tuple[str, int], set[int]] = {}
    for cell in cells:
        key = (cell.data.dataset, cell.training.seed)
        splits.setdefault(key, set()).add(cell.split_seed)
    if any(len(seeds) > 1 for seeds in splits.values()):
        raise InputError(
            "split_seed is fixed by a file and not for the other rows, whose splits would be "
            "others; add --set split_seed=… for all."
        )


def decided_by_rows(made: Reproduction) -> set[str]:
    """Settings that are not in force in every row, because some rows are about that option."""
    return set(_decided(made.target, made.request))


def overridden_files(made: Reproduction) -> set[Path]:
    """Files of which some rows do not take all, because they are about one of its options."""
    listening = _Listening(**vars(replace(made.request, seeds=made.request.seeds[:1])))
    made.target.cells(listening)
    found: set[Path] = set()
    for cell, own in listening.heard:
        file = file_for(made.request.files, cell.data.dataset, cell.model.name)
        if file is not None and own & {key for table in file.tables.values() for key in table}:
            found.add(file.path)
    return found


def _decided(wanted: Target, request: Request) -> dict[str, Literal["some", "all"]]:
    """Settings that some or all runs do not have, because the table or figure decides them."""
    # What a row is about depends neither on the seed nor on the graph.
    some = replace(request, seeds=request.seeds[:1], datasets=request.datasets[:1])
    listening = _Listening(**vars(some))
    cells = wanted.cells(listening) if request.settings else []
    own_options = [next(own for made, own in listening.heard if made is cell) for cell in cells]
    found = {
        key: [placed(key)[1] in options for options in own_options] for key, _ in request.settings
    }
    return {key: "all" if all(own) else "some" for key, own in found.items() if any(own)}


@dataclass(frozen=True)
class _Listening(Request):
    """A request that hears which options the runs of a table or figure have of their own."""

    heard: list[tuple[RunConfig, frozenset[str]]] = field(default_factory=list[Any])

    def config(self, dataset: str, model: str, seed: int, **options: Any) -> RunConfig:
        found = super().config(dataset, model, seed, **options)
        self.heard.append((found, frozenset(placed(key)[1] for key in options)))
        return found


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


#: Each draws what the ``collect`` of its target gives.
DRAWN: dict[str, Callable[[Any], Figure]] = {
    "observation": draw_observation,
    "embeddings": draw_embeddings,
    "distributions": draw_distributions,
    "groups": draw_groups,
    "interplay": draw_interplay,
    "sensitivity": draw_sensitivity,
    "alpha": draw_alpha,
    "time": draw_time,
    "entropy": draw_entropy,
}


_ACCURACY = (tables.accuracy_grid, tables.macro_f1_grid)
_GRIDS: dict[str, tuple[Callable[[Any], Table], ...]] = {
    "table1": _ACCURACY,
    "table2": _ACCURACY,
    "classic-uniform": _ACCURACY,
    "classic-published": _ACCURACY,
    "leaderboard": (tables.leaderboard_grid,),
    "duplication": (appendix.duplication_grid,),
    "efficiency": (appendix.efficiency_grid,),
}


def paper_grids(made: Reproduction) -> list[Table]:
    """The tables of a reproduction; a figure has none."""
    if made.target.kind == "figure":
        return []
    grids = [render(made.data) for render in _GRIDS[made.target.name]]
    said = _settings(made)
    return [replace(grid, notes=(*grid.notes, said)) for grid in grids] if said else grids


def _settings(made: Reproduction) -> str:
    """Options by which the runs differ from what the table or figure shows by itself."""
    partly = decided_by_rows(made)
    overridden = overridden_files(made)
    said = [
        f"options of {file.path.name} for {file.scope}{_found_for(file, made.request.split)}"
        f"{' where a row is not about them' if file.path in overridden else ''}"
        for file in made.request.files
    ]
    said += [
        f"{key}={json.dumps(value)}{' where a row is not about it' if key in partly else ''}"
        for key, value in made.request.settings
    ]
    return f"With {', '.join(said)}." if said else ""


def _found_for(file: ConfigFile, split: str) -> str:
    """Another family of splits, if a file names one: nodes tested here were trained on there."""
    return "" if file.split in (None, split) else f" (found for {file.split} splits)"


def _runs(made: Reproduction) -> str:
    """Split family and seeds of the runs that a figure rests on; nothing if it needs none."""
    if not made.target.models:
        return ""
    several = "s" if len(made.request.seeds) > 1 else ""
    seeds = f"seed{several} {', '.join(str(seed) for seed in made.request.seeds)}"
    return f"{made.request.split.capitalize()} split, {seeds}"


def paper_figure(made: Reproduction) -> Figure:
    """The figure of a reproduction."""
    with footnote(". ".join(filter(None, (_runs(made), _settings(made))))):
        return DRAWN[made.target.name](made.data)


def write_reproduction(made: Reproduction, folder: Path | str) -> list[Path]:
    """Write a table as Markdown, LaTeX and CSV, or a figure as PNG and SVG; returns the paths."""
    name, folder = made.target.name, Path(folder)
    if made.target.kind == "figure":
        return save_figure(paper_figure(made), folder, name)
    grids = paper_grids(made)
    paths: list[Path] = []
    for suffix, render in ((".md", Table.markdown), (".tex", Table.latex), (".csv", Table.csv)):
        path = folder / f"{name}{suffix}"
        write_text(path, "\n".join(render(grid) for grid in grids))
        paths.append(path)
    return paths
