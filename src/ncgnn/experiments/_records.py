"""What is kept of finished runs: their configuration and their scores, without weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments._cell import kept_error
from ncgnn.training._environment import code_versions
from ncgnn.training._folder import CONFIG, DONE, ENVIRONMENT, ERROR, RunFolder
from ncgnn.training._run import finished_run
from ncgnn.training._tensors import DamagedFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.training import RunResult


@dataclass(frozen=True)
class Record:
    """A finished run.

    Attributes:
        name: That its configuration gives it.
        config: All options, by section.
        result: What ``result.json`` holds.
        seconds: How long training took.
        code: The first digits of the hash of this package's source that trained it, with ``+``
            between them if it was continued by another version; "" if unknown.
        graph: The first digits of the hash of the graph; "" if unknown.
    """

    name: str
    config: dict[str, Any]
    result: dict[str, Any]
    seconds: float
    code: str = ""
    graph: str = ""


def as_records(runs: Iterable[RunResult]) -> list[Record]:
    """Finished runs without their folders."""
    return [
        Record(
            run.config.name,
            run.config.model_dump(mode="json"),
            run.result,
            run.seconds,
            *origin(RunFolder(run.folder)),
        )
        for run in runs
    ]


def origin(run: RunFolder) -> tuple[str, str]:
    """What :attr:`Record.code` and :attr:`Record.graph` say of a run."""
    try:
        known = run.read_json(ENVIRONMENT)
    except DamagedFileError:  # a compact record has no folder
        return "", ""
    code = "+".join(one[:10] for one in code_versions(known))
    return code, str(known.get("graph_sha256", ""))[:10]


def read_runs(folder: Path | str) -> tuple[list[Record], dict[Path, str]]:
    """All finished runs of a folder, and what is wrong with the others.

    Every file of a run is checked against its checksum; a damaged run is never read, and of two
    folders with the same configuration and graph only the first.

    Returns:
        The records, and a sentence for every folder whose run is not among them.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise InputError(f"there is no folder {root}; name the folder of your runs with --runs.")
    records: dict[tuple[str, str], Record] = {}
    places: dict[tuple[str, str], Path] = {}
    problems: dict[Path, str] = {}
    for path in sorted(p for p in root.iterdir() if p.is_dir()):
        try:
            problem = _unfinished(RunFolder(path))
            if problem is not None:
                problems |= {path: problem} if problem else {}
                continue
            (record,) = as_records([finished_run(RunFolder(path))])
        except (NcgnnError, OSError) as error:
            problems[path] = str(error)
            continue
        key = (record.name, record.graph)
        if key in records:
            problems[path] = f"has the same configuration as {places[key]}."
            continue
        records[key], places[key] = record, path
    return list(records.values()), problems


def _unfinished(run: RunFolder) -> str | None:
    """Why a run is not finished, nothing for what is no run; None if it is."""
    if (run / DONE).is_file():
        return None
    if (run / ERROR).is_file():
        return f"failed: {kept_error(run)}"
    begun = (run / CONFIG).is_file()
    return "not finished; the command that began it continues it." if begun else ""
