"""TOML files that say, for some runs, what a preset would say otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn.errors import InputError
from ncgnn.training._presets import read_config_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.training._config_file import ConfigFile


def read_config_files(
    config: Path | str | Sequence[Path | str] | None,
) -> tuple[ConfigFile, ...]:
    """One file, several or none, each once."""
    files = [config] if isinstance(config, Path | str) else config or ()
    paths = dict.fromkeys(Path(file).expanduser().absolute() for file in files)
    return tuple(read_config_file(path) for path in paths)


def file_for(files: Sequence[ConfigFile], dataset: str, model: str) -> ConfigFile | None:
    """The file of a model on a data set.

    Raises:
        InputError: There are several.
    """
    fitting = [file for file in files if file.fits(dataset, model)]
    if len(fitting) > 1:
        found = " and ".join(str(file.path) for file in fitting)
        raise InputError(f"{found} are both for {model} on {dataset}; leave one out.")
    return fitting[0] if fitting else None


def check_all_used(
    files: Iterable[ConfigFile], shown: Iterable[tuple[str | None, str | None]]
) -> None:
    """Complain of a file that is for no run; ``shown`` holds data sets and models."""
    runs = set(shown)
    for file in files:
        if not any(file.fits(*run) for run in runs):
            raise InputError(
                f"{file.path} is for {file.scope}, which is not asked for; leave the file out, or "
                "name these with --models and --datasets."
            )
