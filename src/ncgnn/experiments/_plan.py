"""Where the runs of a sweep stand, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn.errors import InputError
from ncgnn.experiments._cell import Cell, Status, kept_error, status
from ncgnn.training._run import checked_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.training import RunConfig


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep.

    Attributes:
        folder: Where it is, or will be.
        config: Its configuration.
        state: ``finished``, ``failed``, ``interrupted`` (damaged ones too) or ``missing``.
        error: Why a failed one failed, or cannot be trained.
    """

    folder: Path
    config: RunConfig
    state: Status
    error: str = ""


def plan(
    configs: Sequence[RunConfig], runs: Path | str = "runs", *, data_dir: Path | str | None = None
) -> list[PlannedRun]:
    """Where every run stands that :func:`ncgnn.experiments.sweep` would be given.

    Args:
        configs: What is to be trained; equal configurations are one run.
        runs: Folder of all runs.
        data_dir: Folder with npz files.
    """
    cells = cells_of(configs, Path(runs), data_dir, threads=1)
    states, errors = standing(cells, retry_failed=False)
    return [
        PlannedRun(cell.folder.path, cell.config, states[name], errors.get(cell.folder.path, ""))
        for name, cell in cells.items()
    ]


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
    configs: Sequence[RunConfig], runs: Path, data_dir: Path | str | None, threads: int
) -> dict[str, Cell]:
    """The cells by name, after a look at all that would make every one of them fail."""
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
        graph = load(dataset, place)
        hashes[dataset] = fingerprint(graph)
        mine = [config for config in configs if config.data.dataset == dataset]
        for key in dict.fromkeys(_split_of(config) for config in mine):
            splits[key] = trainable_split(graph, *key).sha256
    for device in {config.training.device for config in configs}:
        checked_device(device)
    found = [(c, hashes[c.data.dataset], splits[_split_of(c)]) for c in configs]
    return {c.name: Cell(c, root, place, threads, graph, split) for c, graph, split in found}


def _split_of(config: RunConfig) -> tuple[str, str, int]:
    return config.data.dataset, config.data.split, config.split_seed
