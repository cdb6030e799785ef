"""Where the runs of a sweep stand, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from ncgnn.errors import DataNotFoundError, InputError, NcgnnError
from ncgnn.experiments._cell import Cell, Status, kept_error, status
from ncgnn.training._folder import CONFIG, ERROR
from ncgnn.training._run import checked_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.training import RunConfig, RunFolder

State = Literal["finished", "running", "interrupted", "damaged", "failed", "missing"]


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        folder: Where it is, or will be.
        config: Its configuration.
        state: ``finished``; ``running`` in another process; ``interrupted``; ``damaged`` since it
            was finished; ``failed``; or ``missing``.
        error: Why a failed one failed, or cannot be trained, or what is damaged.
    """

    folder: Path
    config: RunConfig
    state: State
    error: str = ""


def plan(
    configs: Sequence[RunConfig], runs: Path | str = "runs", *, data_dir: Path | str | None = None
) -> list[PlannedRun]:
    """Where every run stands that :func:`ncgnn.experiments.sweep` would be given.

    Nothing is downloaded; where a graph is not at hand, runs are not checked against it.

    Args:
        configs: What is to be trained; equal configurations are one run.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
    """
    cells = cells_of(configs, Path(runs), data_dir, download=False)
    states, errors = standing(cells, retry_failed=False)
    return [
        _planned(cell, states[name], errors.get(cell.folder.path, ""))
        for name, cell in cells.items()
    ]


def _planned(cell: Cell, state: Status, error: str) -> PlannedRun:
    """A run for people: what a sweep would take up again need not have been interrupted."""
    folder, shown = cell.folder, cast("State", state)
    if state == "interrupted":
        if folder.is_in_use():
            shown = "running"
        elif folder.is_done():
            shown, error = "damaged", _damage(folder)
        elif (folder / ERROR).is_file():
            shown, error = "failed", kept_error(folder)
        elif not (folder / CONFIG).is_file():
            shown = "missing"
    return PlannedRun(folder.path, cell.config, shown, error)


def _damage(folder: RunFolder) -> str:
    try:
        folder.check()
    except NcgnnError as damage:
        return str(damage)
    return ""


def standing(
    cells: dict[str, Cell], retry_failed: bool
) -> tuple[dict[str, Status], dict[Path, str]]:
    """Where every cell stands, and the errors of those that are not to be tried."""
    before: dict[str, Status] = {}
    known: dict[Path, str] = {}
    for name, cell in cells.items():
        try:
            before[name] = status(cell)
        except (InputError, OSError) as problem:  # a changed graph, or an unreadable folder
            before[name], known[cell.folder.path] = "failed", str(problem)
            continue
        if before[name] == "failed" and not retry_failed:
            known[cell.folder.path] = kept_error(cell.folder)
    return before, known


def cells_of(
    configs: Sequence[RunConfig],
    runs: Path,
    data_dir: Path | str | None,
    *,
    threads: int = 1,
    warm_up: bool = False,
    download: bool = True,
) -> dict[str, Cell]:
    """The cells by name, after a look at all that would make every one of them fail.

    Without ``download``, nothing will be trained: cells whose graph is not at hand know no hashes
    of it, and any device will do.
    """
    from ncgnn.data import load
    from ncgnn.graph._fingerprint import fingerprint
    from ncgnn.training._trainable import trainable_split

    place = None if data_dir is None else Path(data_dir).expanduser().resolve()
    root = runs.expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise InputError(f"--runs is {root}, which is a file; name a folder.")
    hashes: dict[str, str] = {}
    splits: dict[tuple[str, str, int], str] = {}
    for dataset in dict.fromkeys(config.data.dataset for config in configs):
        try:
            graph = load(dataset, place, download=download)
        except DataNotFoundError:
            if download:
                raise
            continue
        hashes[dataset] = fingerprint(graph)
        mine = [config for config in configs if config.data.dataset == dataset]
        for key in dict.fromkeys(_split_of(config) for config in mine):
            splits[key] = trainable_split(graph, *key).sha256
    for device in {config.training.device for config in configs} if download else ():
        checked_device(device)
    found = [(c, hashes.get(c.data.dataset, ""), splits.get(_split_of(c), "")) for c in configs]
    return {
        config.name: Cell(config, root, place, threads, graph, split, warm_up)
        for config, graph, split in found
    }


def _split_of(config: RunConfig) -> tuple[str, str, int]:
    return config.data.dataset, config.data.split, config.split_seed
