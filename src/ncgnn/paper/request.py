"""What is asked for when a table or figure is made, and what it takes to make it.

Numbers that others print, to be shown beside ours.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ncgnn.nn import model_class, model_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ncgnn.training import ConfigFile, RunConfig, RunResult

#: A mean with its standard deviation (or 0 where none is printed), or ``OOM``.
Printed = tuple[float, float] | str


@cache
def published(table: str) -> dict[str, dict[str, Any]]:
    """A printed table by row and column."""
    path = files("ncgnn.paper") / "published" / f"{table}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def printed(table: str, row: str, column: str) -> Printed | None:
    """One cell of a printed table; None where it has none."""
    value = published(table).get(row, {}).get(column)
    if value is None or isinstance(value, str):
        return value
    mean, std = value
    return float(mean), float(std)


def model_title(name: str) -> str:
    """What papers call a model, also one that is not implemented here."""
    if name in published("listed"):
        return published("listed")[name]["title"]
    return model_class(name).title if name in model_names() else name


def printed_split(table: str, dataset: str) -> str:
    """The split family that a table's numbers on a data set were measured with."""
    return str(published(table).get("split", {}).get(dataset, "paper"))


#: The paper's data sets, in the order of its main table.
DATASETS = (
    *("pubmed", "photo", "computers", "coauthor-cs", "coauthor-physics", "cora-full", "actor"),
    *("penn94", "chameleon-filtered", "squirrel-filtered"),
)


@dataclass(frozen=True)
class Request:
    """What a table or figure shall show.

    Attributes:
        datasets: Names or paths of npz files.
        models: Names.
        seeds: Of split, first weights and dropout.
        split: The one split family of all its cells.
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

    def config(self, dataset: str, model: str, seed: int, **options: Any) -> RunConfig:
        """The configuration of one cell: preset, file, the request's settings, these options."""
        from ncgnn.experiments import file_for
        from ncgnn.training import make_config

        return make_config(
            dataset=dataset,
            model=model,
            split=self.split,
            seed=seed,
            config=file_for(self.files, dataset, model),
            settings=dict(self.settings) | options,
        )


def defaults(request: Request, model: str, **options: Any) -> dict[str, Any]:
    """Those of a table's or figure's own options that the model has and the request leaves open."""
    from ncgnn.training import placed

    known, given = model_class(model).Options.model_fields, chosen_options(request)
    places = {key: placed(key)[0] for key in options if key not in given}
    return {
        f"{section}.{key}": options[key]
        for key, section in places.items()
        if section != "model" or key in known
    }


def chosen_options(request: Request) -> dict[str, Any]:
    """The request's settings by option, without section."""
    return {key.rpartition(".")[2]: value for key, value in request.settings}


class Target(Protocol):
    """A table or figure of the paper that can be made again.

    Attributes:
        name: As the command line knows it.
        title: What it shows, in a line.
        kind: Whether it is a table or a figure.
        datasets: Shown where the request names none.
        models: Compared where the request names none.

    One that rests on no runs has ``options``, the names of the settings that it takes; one that
    shows a single run of every model is ``one_seed``; one whose runs do not follow the presets
    ``sets_options``.
    """

    name: str
    title: str
    kind: Literal["table", "figure"]
    datasets: tuple[str, ...]
    models: tuple[str, ...]

    def cells(self, request: Request) -> list[RunConfig]:
        """The runs that it rests on."""
        ...

    def collect(self, request: Request, runs: Mapping[str, RunResult]) -> Any:
        """Its numbers from the finished runs, with what is missing left out."""
        ...
