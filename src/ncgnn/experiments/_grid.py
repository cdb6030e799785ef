"""Many configurations at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError
from ncgnn.training import make_config
from ncgnn.training._toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncgnn.training import RunConfig

_SAID_ELSEWHERE = {
    "data.dataset": "--datasets",
    "data.split": "--split",
    "model.name": "--models",
    "training.seed": "--seeds",
}


def grid(
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    split: str | None = None,
    device: str | None = None,
    config: Path | Sequence[Path] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[RunConfig]:
    """Every model on every data set with every seed and configuration, data set by data set.

    Args:
        datasets: Names or paths of npz files; None: what the TOML file says.
        models: Names; None: what the TOML file says, or ncgcn.
        seeds: How many, from 0 on, or which; None: what the TOML file says, or 0.
        split: Split family.
        device: Where tensors live.
        config: TOML file with options for all of them; several are as many configurations. Beside
            ``models``, each of several files is for the model that it names alone.
        settings: More options, as :func:`ncgnn.training.make_config` takes them.
    """
    check_settings(settings or {})
    return [
        make_config(
            dataset=dataset,
            model=model,
            split=split,
            device=device,
            seed=seed,
            config=file,
            settings=settings,
        )
        for dataset in _each(datasets)
        for model in _each(models)
        for file in _files_for(model, [config] if isinstance(config, Path) else config)
        for seed in _each(range(seeds) if isinstance(seeds, int) else seeds)
    ]


def _files_for(model: str | None, files: Sequence[Path] | None) -> list[Path | None]:
    """The files whose options a model takes: of several, those that name it or none."""
    if files is None or len(files) == 1 or model is None:
        return _each(files)
    named = {file: read_toml(file).get("model", {}).get("name", model) for file in files}
    return [file for file in _each(files) if named[file] == model] or [None]


def _each(values: Iterable[Any] | None) -> list[Any]:
    return [None] if values is None else list(dict.fromkeys(values))


def check_settings(settings: Mapping[str, Any]) -> None:
    """Complain about settings that would make all cells alike, or other than they are called."""
    for key in settings:
        for name, option in _SAID_ELSEWHERE.items():
            if key in (name, name.partition(".")[2]):
                raise InputError(f"--set {key}=… is said with {option} here.")
