"""Many configurations at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError
from ncgnn.experiments._config_files import check_all_used, read_config_files
from ncgnn.training import make_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ncgnn.training import RunConfig

_SAID_ELSEWHERE = {
    "data.dataset": "--datasets",
    "data.split": "--split",
    "model.name": "--models",
    "training.seed": "--seeds",
}


def grid(
    datasets: str | Sequence[str] | None = None,
    models: str | Sequence[str] | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    split: str | None = None,
    device: str | None = None,
    config: Path | str | Sequence[Path | str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[RunConfig]:
    """Every model on every data set with every seed and configuration, data set by data set.

    Args:
        datasets: Names or paths of npz files; None: those that the TOML files name.
        models: Names; None: what the TOML file says, or ncgcn.
        seeds: How many, from 0 on, or which; None: what the TOML file says, or 0.
        split: Split family.
        device: Where tensors live.
        config: TOML files, each for the model and the data set that it names, or for all if it
            names none; several for the same are as many configurations.
        settings: More options, as :func:`ncgnn.training.make_config` takes them.
    """
    check_settings(settings or {})
    numbers = _each(None if seeds is None else seed_list(seeds))
    files = read_config_files(config)
    named = [file.dataset for file in files if file.dataset is not None]
    graphs = _each([datasets] if isinstance(datasets, str) else datasets or named or None)
    if graphs == [None]:
        raise InputError("say which graphs: --datasets NAME, or several like a,b.")
    chosen = _each([models] if isinstance(models, str) else models)
    check_all_used(files, [(dataset, model) for dataset in graphs for model in chosen])
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
        for dataset in graphs
        for model in chosen
        for file in [one for one in files if one.fits(dataset, model)] or [None]
        for seed in numbers
    ]


def seed_list(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """The seeds that are meant: so many from 0 on, or these.

    Raises:
        InputError: There is none, one twice, or one that is no seed.
    """
    found = tuple(range(seeds) if isinstance(seeds, int) else seeds)
    if not found or len(set(found)) < len(found) or min(found) < 0:
        raise InputError(
            f"seeds is {seeds}; give how many, or one or more different whole numbers from 0."
        )
    return found


def _each(values: Iterable[Any] | None) -> list[Any]:
    return [None] if values is None else list(dict.fromkeys(values))


def check_settings(settings: Mapping[str, Any]) -> None:
    """Complain about settings that would make all cells alike, or other than they are called."""
    for key in settings:
        for name, option in _SAID_ELSEWHERE.items():
            if key in (name, name.partition(".")[2]):
                raise InputError(f"--set {key}=… is said with {option} here.")
