"""The paper's tables and figures, and a few beside them, made from runs.

A :class:`Target` says which runs it rests on, what it takes from them and how that is shown.
:func:`request_for` makes a :class:`Request` of what is given, or raises one clear error, and
:func:`reproduce` makes the target from finished runs.
"""

from __future__ import annotations

import json
import textwrap
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from matplotlib import rc_context

from ncgnn._io import as_path, write_text
from ncgnn.data import canonical_name, load
from ncgnn.errors import DataNotFoundError, InputError, UnknownNameError
from ncgnn.experiments import check_all_used, check_settings, file_for, read_config_files, seed_list
from ncgnn.nn import model_class
from ncgnn.paper.printed import DATASETS
from ncgnn.report import GRAY, STYLE, Table, freeze_layout, save_figure
from ncgnn.training import RunResult, make_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

    from ncgnn.experiments import Record
    from ncgnn.training import ConfigFile, RunConfig

    #: Finished runs by name.
    Runs = Mapping[str, RunResult]

#: Where each is defined; modules are imported when they are needed.
_PLACES = {
    "table1": "accuracy:Table1",
    "table2": "accuracy:Table2",
    "classic-uniform": "accuracy:ClassicUniform",
    "classic-published": "accuracy:ClassicPublished",
    "duplication": "duplication:Duplication",
    "leaderboard": "accuracy:Leaderboard",
    "efficiency": "running_time:Efficiency",
    "distributions": "figures.distributions:Distributions",
    "stability": "figures.stability:Stability",
    "observation": "figures.observation:Observation",
    "clarified": "clarified:Clarified",
    "embeddings": "figures.embeddings:Embeddings",
    "groups": "figures.groups:Groups",
    "interplay": "figures.interplay:Interplay",
    "sensitivity": "figures.sensitivity:Sensitivity",
    "alpha": "figures.alpha:Alpha",
    "time": "running_time:Time",
    "entropy": "figures.entropy:Entropy",
}
Data = TypeVar("Data", bound="DataclassInstance")


@dataclass(frozen=True)
class Request:
    """What a table or figure shall show.

    Attributes:
        datasets: Names or paths of npz files.
        seeds: Of split, first weights and dropout.
        data_dir: Folder with npz files.
        settings: Options that all its cells share, as ``make_config`` takes them.
        files: TOML files with options of the cells that they name.
    """

    datasets: tuple[str, ...]
    models: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    split: str = "paper"
    data_dir: Path | None = None
    settings: tuple[tuple[str, Any], ...] = ()
    files: tuple[ConfigFile, ...] = ()

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings by option, without section."""
        return {_option(key): value for key, value in self.settings}

    def leaves_open(self, model: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of some options, by ``section.option``, that a model has and no setting names."""
        known, chosen = model_class(model).Options.model_fields, self.chosen
        return {
            key: value
            for key, value in options.items()
            if _option(key) not in chosen
            and (_option(key) in known or not key.startswith("model."))
        }


@dataclass(frozen=True)
class Row:
    """A model as it is trained for a row of a table or a curve of a figure.

    Attributes:
        name: As ``--models`` knows it.
        model: The model that is trained.
        title: As papers call it.
        options: What the row decides itself, by ``section.option``, whatever presets, files and
            settings say.
    """

    name: str
    model: str
    title: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def decides(self) -> frozenset[str]:
        """Names of the options that the row decides itself."""
        return frozenset(_option(key) for key in self.options)

    def configs(self, request: Request, dataset: str) -> list[RunConfig]:
        """Its runs on a dataset, one per seed."""
        return [
            make_config(
                dataset=dataset,
                model=self.model,
                split=request.split,
                seed=seed,
                config=file_for(request.files, dataset, self.model),
                settings=dict(request.settings) | dict(self.options),
            )
            for seed in request.seeds
        ]


class Target(ABC, Generic[Data]):
    """A table or figure that can be made again.

    Attributes:
        name: As the command line knows it.
        title: What it shows, in a line.
        kind: Whether :meth:`tables` shows it or :meth:`draw`, with or without tables.
        datasets: Shown where the request names none.
        models: Compared where the request names none; empty if it needs no runs.
        split: Split family where the request names none.
        settings: Options that may be set although it needs no runs.
        is_timed: Whether it compares times, so that its runs need a machine to themselves.
        has_one_seed: Whether it shows a single run of every model.
        ignores_presets: Whether all models are trained alike, so that no file may change that.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kind: ClassVar[Literal["table", "figure"]]
    datasets: ClassVar[tuple[str, ...]] = DATASETS
    models: ClassVar[tuple[str, ...]] = ()
    split: ClassVar[str] = "paper"
    settings: ClassVar[frozenset[str]] = frozenset()
    is_timed: ClassVar[bool] = False
    has_one_seed: ClassVar[bool] = False
    ignores_presets: ClassVar[bool] = False

    @property
    def takes_stored(self) -> bool:
        """Whether scores suffice: figures need more, and times of other machines do not compare."""
        return self.kind == "table" and not self.is_timed

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """What is trained on a dataset: by default every model as it is."""
        return [Row(model, model) for model in request.models]

    def cells(self, request: Request) -> list[RunConfig]:
        """The runs that it rests on."""
        return [
            config
            for dataset in request.datasets
            for row in self.rows(request, dataset)
            for config in row.configs(request, dataset)
        ]

    def finished(
        self, request: Request, dataset: str, runs: Runs
    ) -> list[tuple[Row, list[RunResult]]]:
        """The rows of a dataset with their finished runs; a row without any is left out."""
        found = [
            (row, [runs[c.name] for c in row.configs(request, dataset) if c.name in runs])
            for row in self.rows(request, dataset)
        ]
        return [(row, some) for row, some in found if some]

    @abstractmethod
    def collect(self, request: Request, runs: Runs) -> Data:
        """Its numbers from the finished runs, with what is missing left out."""

    def plain(self, data: Data) -> dict[str, Any]:
        """Its numbers as dictionaries, lists and texts, for JSON."""
        return asdict(data)

    def tables(self, data: Data) -> list[Table]:
        """Its numbers as tables; most figures have none."""
        return []

    def draw(self, data: Data) -> Figure:
        """Its numbers as a figure, in the style that :meth:`Reproduction.figure` sets."""
        raise InputError(f"{self.name} is a table and has no figure.")


def target_names() -> list[str]:
    """Names of all tables and figures."""
    return list(_PLACES)


def target(name: str) -> Target[Any]:
    """A table or figure by name.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in _PLACES:
        raise UnknownNameError("table or figure", name, target_names())
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f"ncgnn.paper.{module}"), attribute)()


@dataclass(frozen=True)
class Reproduction:
    """A table or figure, as far as it can be made.

    Attributes:
        request: What was asked for, without the datasets that are not at hand.
        absent: Datasets that are not at hand, with the reason.
        missing: Names of runs that are not finished.
        data: Its numbers, as :meth:`Target.collect` gives them.
    """

    target: Target[Any]
    request: Request
    absent: dict[str, str]
    missing: tuple[str, ...]
    data: Any

    def plain(self) -> dict[str, Any]:
        """Everything as dictionaries, lists and texts, for JSON."""
        request = self.request
        return {
            "name": self.target.name,
            "split": request.split,
            "seeds": list(request.seeds),
            "config": {str(file.path): file.tables for file in request.files},
            "settings": dict(request.settings),
            "absent": self.absent,
            "data": self.target.plain(self.data) | {"missing": list(self.missing)},
        }

    def tables(self) -> list[Table]:
        """The tables, with the settings of their runs below; most figures have none."""
        note = self._settings_note()
        found = self.target.tables(self.data)
        return [replace(one, notes=(*one.notes, note)) for one in found] if note else found

    def figure(self) -> Figure:
        """The figure, with what is missing and the settings of its runs below."""
        with rc_context(STYLE):
            figure = self.target.draw(self.data)
            count = len(self.missing)
            lacking = f"{count} run{'' if count == 1 else 's'} missing" if count else ""
            below = (figure.get_supxlabel(), lacking, self._runs_note(), self._settings_note())
            letters = int(19 * figure.get_figwidth())  # that many small ones fit an inch
            text = "\n".join(textwrap.wrap(". ".join(filter(None, below)), letters))
            if text:
                figure.supxlabel(text, x=0.99, ha="right", fontsize=7, color=GRAY)
            return freeze_layout(figure)

    def write(self, folder: Path | str) -> list[Path]:
        """Write tables as Markdown, LaTeX and CSV and a figure as PNG and SVG; returns paths."""
        name, folder = self.target.name, Path(folder)
        drawn: list[Path] = []
        if self.target.kind == "figure":
            drawn = save_figure(self.figure(), folder, name)
        renderers: dict[str, Callable[[Table], str]] = {
            ".md": Table.markdown,
            ".tex": Table.latex,
            ".csv": Table.csv,
        }
        paths = {folder / f"{name}{suffix}": render for suffix, render in renderers.items()}
        tables = self.tables()
        if not tables:
            return drawn
        for path, render in paths.items():
            write_text(path, "\n".join(render(table) for table in tables))
        return [*drawn, *paths]

    def _runs_note(self) -> str:
        """Split family and seeds of the runs that a figure rests on; nothing if it needs none."""
        if not self.target.models:
            return ""
        seeds = ", ".join(str(seed) for seed in self.request.seeds)
        noun = "seed" if len(self.request.seeds) == 1 else "seeds"
        return f"{self.request.split.capitalize()} split, {noun} {seeds}"

    def _settings_note(self) -> str:
        """Options by which the runs differ from what the table or figure shows by itself."""
        request, rows = self.request, _rows(self.target, self.request)
        notes: list[str] = []
        for file in request.files:
            note = f"options of {file.path.name} for {file.scope}"
            if file.split not in (None, request.split):
                # Nodes that are tested here may have been trained on there.
                note += f" (found for {file.split} splits)"
            options = {option for table in file.tables.values() for option in table}
            if any(file.fits(d, row.model) and row.decides & options for d, row in rows):
                note += " where a row is not about them"
            notes.append(note)
        for key, value in request.settings:
            partly = any(_option(key) in row.decides for _, row in rows)
            about = " where a row is not about it" if partly else ""
            notes.append(f"{key}={json.dumps(value)}{about}")
        return f"With {', '.join(notes)}." if notes else ""


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
        request: What it shall show, as :func:`request_for` gives it.
        absent: Datasets that are not at hand, likewise.
        stored: Compact records, used where there is no run; see :attr:`Target.takes_stored`.

    Raises:
        InputError: It is a figure, and none of its runs is finished.
    """
    wanted = target(name)
    cells = wanted.cells(request)
    found = {run.config.name: run for run in runs}
    if wanted.takes_stored:
        kept = {record.name: record for record in stored}
        for config in cells:
            if config.name not in found and config.name in kept:
                record = kept[config.name]
                found[config.name] = RunResult(
                    Path(config.name), config, record.result, record.seconds, fresh=False
                )
    missing = tuple(config.name for config in cells if config.name not in found)
    if wanted.kind == "figure" and cells and len(missing) == len(cells):
        raise InputError(
            f"figure {name}: none of its {len(cells)} runs is finished; train them first."
        )
    return Reproduction(wanted, request, absent or {}, missing, wanted.collect(request, found))


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
    """What a table or figure shall show; datasets that are not at hand are left out.

    Args:
        name: Of the table or figure.
        datasets: By default the paper's, as for models.
        models: Names of models, or of rows such as ``three-hops``.
        seeds: How many, from 0 on, or which.
        split: By default the split family of the printed numbers.
        data_dir: Folder with npz files.
        config: TOML files, each with options of the cells whose model and dataset it names.
        settings: Options of every cell.
        stored: Compact records; a dataset whose cells are all among them need not be at hand.
        train: Whether missing cells will be trained; if not, one stored cell is enough for that.

    Returns:
        The request, and for every dataset that is not at hand why.

    Raises:
        InputError: No dataset is left, or something is named that it does not show.
    """
    wanted, settings = target(name), settings or {}
    if datasets is not None and not wanted.datasets:
        raise InputError(f"{name} shows no datasets; leave GRAPH out.")
    if models is not None and not wanted.models:
        raise InputError(f"{name} shows no models; leave --models out.")
    files = read_config_files(config)
    _check_options(wanted, split, seed_list(seeds), settings, files)
    check_settings(settings)
    asked = wanted.datasets if datasets is None else map(canonical_name, datasets)
    request = Request(
        tuple(dict.fromkeys(asked)),
        tuple(wanted.models if models is None else dict.fromkeys(models)),
        seed_list(seeds),
        split or wanted.split,
        None if data_dir is None else as_path(data_dir),
        tuple(settings.items()),
        files,
    )
    _check_files(wanted, request, is_split_given=split is not None)
    rows = _rows(wanted, request)
    for key in settings:
        if rows and all(_option(key) in row.decides for _, row in rows):
            raise InputError(f"{name} decides {key} itself; leave --set {key} out.")
    absent = _absent(wanted, request, {record.name for record in stored}, train=train)
    present = tuple(dataset for dataset in request.datasets if dataset not in absent)
    if absent and not present:
        raise InputError(
            f"none of {', '.join(absent)} is at hand; name the folder of your npz files with "
            "--data-dir."
        )
    used = tuple(f for f in files if any(f.fits(dataset, None) for dataset in present))
    return replace(request, datasets=present, files=used), absent


def _check_options(
    wanted: Target[Any],
    split: str | None,
    seeds: tuple[int, ...],
    settings: Mapping[str, Any],
    files: Sequence[ConfigFile],
) -> None:
    """Complain of options that a table or figure would ignore."""
    name = wanted.name
    if wanted.has_one_seed and len(seeds) > 1:
        raise InputError(f"{name} draws one run of each model; give one seed with --seeds.")
    if files and wanted.ignores_presets:
        raise InputError(
            f"{name} trains all models alike; leave --config out, and change single options "
            "with --set."
        )
    if wanted.models:
        return
    given = {"--split": split is not None, "--seeds": seeds != (0,), "--config": bool(files)}
    if any(given.values()):
        useless = " and ".join(option for option, there in given.items() if there)
        raise InputError(f"{name} needs no runs; leave {useless} out.")
    for key in settings:
        if key.removeprefix("model.") not in wanted.settings:
            takes = f"; it takes {', '.join(wanted.settings)}" if wanted.settings else ""
            raise InputError(f"{name} needs no runs, so --set {key} has no effect{takes}.")


def _check_files(wanted: Target[Any], request: Request, *, is_split_given: bool) -> None:
    """Complain of files that no cell uses, or that would put several splits into one column."""
    if not request.files:
        return
    cells = wanted.cells(request)
    check_all_used(request.files, [(cell.data.dataset, cell.model.name) for cell in cells])
    for file in request.files:
        if not is_split_given and file.split not in (None, request.split):
            raise InputError(
                f"{file.path} is for split family {file.split}, and {wanted.name} shows "
                f"{request.split}; choose one with --split."
            )
    splits: dict[tuple[str, int], set[int]] = {}
    for cell in cells:
        key = (cell.data.dataset, cell.training.seed)
        splits.setdefault(key, set()).add(cell.split_seed)
    if any(len(seeds) > 1 for seeds in splits.values()):
        raise InputError(
            "split_seed is set by a file for some rows only, whose splits would differ from the "
            "others'; add --set split_seed=… for all rows."
        )


def _absent(
    wanted: Target[Any], request: Request, stored: set[str], *, train: bool
) -> dict[str, str]:
    """Datasets that are not at hand though they are needed, and why."""
    absent: dict[str, str] = {}
    for dataset in request.datasets:
        cells = wanted.cells(replace(request, datasets=(dataset,)))
        kept = [config.name in stored for config in cells]
        if cells and (all(kept) if train else any(kept)):
            continue
        try:
            load(dataset, request.data_dir, download=train)
        except DataNotFoundError as error:
            absent[dataset] = str(error)
    return absent


def _rows(wanted: Target[Any], request: Request) -> list[tuple[str, Row]]:
    """All rows with their datasets."""
    return [(name, row) for name in request.datasets for row in wanted.rows(request, name)]


def _option(key: str) -> str:
    """The option of a key, ``section.option`` or ``option`` alone."""
    return key.rpartition(".")[2]
