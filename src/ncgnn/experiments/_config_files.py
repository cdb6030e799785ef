"""TOML files that say, for some cells of a table or figure, what a preset would say otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn.errors import InputError
from ncgnn.training._presets import given_tables, located

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class ConfigFile:
    """A TOML file, and which cells it is for.

    Attributes:
        path: Of the file.
        model: The model that it names; None: it is for all.
        dataset: The data set that it names; None: it is for all.
        split: The split family that it names.
    """

    path: Path
    model: str | None = None
    dataset: str | None = None
    split: str | None = None

    def fits(self, dataset: str, model: str) -> bool:
        """Whether it is for a model on a data set."""
        return self.model in (None, model) and self.dataset in (None, located(dataset, None))

    @property
    def scope(self) -> str:
        """Which cells it is for, in words."""
        parts = (self.model, None if self.dataset is None else f"on {Path(self.dataset).name}")
        return " ".join(part for part in parts if part) or "all cells"


def paths_of(config: Path | str | Sequence[Path | str] | None) -> list[Path]:
    """One file, several or none, each once."""
    files = [config] if isinstance(config, Path | str) else config or ()
    return list(dict.fromkeys(Path(file).expanduser() for file in files))


def read_config_files(paths: Iterable[Path]) -> tuple[ConfigFile, ...]:
    """What each file is for."""
    return tuple(_read(path) for path in paths)


def file_for(files: Sequence[ConfigFile], dataset: str, model: str) -> Path | None:
    """The file of a model on a data set.

    Raises:
        InputError: There are several.
    """
    fitting = [file.path for file in files if file.fits(dataset, model)]
    if len(fitting) > 1:
        found = " and ".join(str(path) for path in fitting)
        raise InputError(f"{found} are both for {model} on {dataset}; leave one out.")
    return fitting[0] if fitting else None


def _read(path: Path) -> ConfigFile:
    tables = given_tables(path)
    data, model = tables.get("data", {}), tables.get("model", {})
    dataset, split = data.get("dataset"), data.get("split")
    return ConfigFile(
        path,
        None if model.get("name") is None else str(model["name"]),
        None if dataset is None else located(str(dataset), path),
        None if split is None else str(split),
    )
