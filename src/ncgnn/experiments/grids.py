"""Grids of configurations: every model on every data set with every seed, with files for some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError
from ncgnn.nn import model_name
from ncgnn.training import located, make_config, read_config_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncgnn.nn import Model
    from ncgnn.training import ConfigFile, RunConfig


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
                "name these as GRAPH and with --models."
            )


_SAID_ELSEWHERE = {
    "data.dataset": "GRAPH",
    "data.split": "--split",
    "model.name": "--models",
    "training.seed": "--seeds",
}


def grid(
    datasets: str | Sequence[str] | None = None,
    models: str | type[Model] | Sequence[str | type[Model]] | None = None,
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
        models: Names, or classes of your own, which processes that train them must be able to
            import; None: what the TOML file says, or ncgcn.
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
    graphs = _each(
        [datasets] if isinstance(datasets, str) else datasets or _named(files, "dataset")
    )
    if graphs == [None]:
        raise InputError("name a graph, or several: GRAPH on the command line, datasets in Python.")
    graphs = list(dict.fromkeys(located(graph) for graph in graphs))
    several = [models] if isinstance(models, str | type) else models
    named = [one if isinstance(one, str) else model_name(one) for one in several or ()]
    chosen = _each(named or _named(files, "model"))
    common = _common_split(files)
    check_all_used(files, [(dataset, model) for dataset in graphs for model in chosen])
    return [
        make_config(
            dataset=dataset,
            model=model,
            split=common.get("split") if file is None and split is None else split,
            device=device,
            seed=seed,
            config=file,
            settings=_with_split_seed(settings or {}, common if file is None else {}),
        )
        for dataset in graphs
        for model in chosen
        for file in [one for one in files if one.fits(dataset, model)] or [None]
        for seed in numbers
    ]


def _named(files: Sequence[ConfigFile], what: str) -> list[str] | None:
    """Data sets or models that files name."""
    return [name for file in files if (name := getattr(file, what)) is not None] or None


def _common_split(files: Sequence[ConfigFile]) -> dict[str, Any]:
    """The split that all files agree on; cells without a file have it too."""
    found = [file.tables.get("data", {}) for file in files]
    return {
        option: found[0][option]
        for option in ("split", "split_seed")
        if found and all(option in data and data[option] == found[0][option] for data in found)
    }


def _with_split_seed(settings: Mapping[str, Any], common: dict[str, Any]) -> dict[str, Any]:
    said = {key.rpartition(".")[2] for key in settings}
    extra = {"data.split_seed": common["split_seed"]} if "split_seed" in common else {}
    return dict(settings) if "split_seed" in said else {**settings, **extra}


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


def short_names(datasets: Iterable[str]) -> dict[str, str]:
    """The ends of paths, as long as it takes to tell them apart."""
    paths = {name: Path(name).parts for name in datasets}
    names: dict[str, str] = {}
    for name, parts in paths.items():
        others = [one for one in paths.values() if one != parts]
        length = next(
            (n for n in range(1, len(parts)) if all(one[-n:] != parts[-n:] for one in others)),
            len(parts),
        )
        names[name] = str(Path(*parts[-length:])) if parts else name
    return names
