"""A TOML file with options, and which runs it is for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

Tree = dict[str, Any]


@dataclass(frozen=True)
class ConfigFile:
    """What a TOML file said when it was read.

    Attributes:
        path: Of the file, from the root on.
        tables: Its options by section; those of a search are left out.
    """

    path: Path
    tables: Tree

    @property
    def model(self) -> str | None:
        """The model that it names."""
        return self._named("model", "name")

    @property
    def dataset(self) -> str | None:
        """The data set that it names; a file is looked for beside it."""
        name = self._named("data", "dataset")
        return None if name is None else located(name, self.path.parent)

    @property
    def split(self) -> str | None:
        """The split family that it names."""
        return self._named("data", "split")

    def fits(self, dataset: str | None, model: str | None) -> bool:
        """Whether it is for a model on a data set; None: for any."""
        mine, wanted = self.dataset, None if dataset is None else located(dataset)
        same_model = None in (self.model, model) or self.model == model
        return same_model and (None in (mine, wanted) or mine == wanted)

    @property
    def scope(self) -> str:
        """Which runs it is for, in words."""
        parts = (self.model, None if self.dataset is None else f"on {self.dataset}")
        return " ".join(part for part in parts if part) or "everything"

    def _named(self, section: str, option: str) -> str | None:
        value = self.tables.get(section, {}).get(option)
        return None if value is None else str(value)


def located(dataset: str, beside: Path | None = None) -> str:
    """A data set as the catalogue calls it, or the absolute path of a file.

    A file is looked for in ``beside`` and then in this folder. A run can then be used from any
    folder, two files of one name are two graphs, and one data set has one name.
    """
    from ncgnn.data._catalog import canonical

    if not dataset.endswith(".npz"):
        return canonical(dataset)
    for folder in (Path.cwd(),) if beside is None else (beside, Path.cwd()):
        path = folder / Path(dataset).expanduser()
        if path.is_file():
            return str(path.resolve())
    return dataset
