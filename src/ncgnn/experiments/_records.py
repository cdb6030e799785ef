"""What is kept of finished runs: their configuration and their scores, without weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._files import write_text
from ncgnn.errors import InputError, NcgnnError
from ncgnn.training._folder import DONE, ERROR, RESULT, TIMING, RunFolder
from ncgnn.training._toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.training import RunResult


@dataclass(frozen=True)
class Record:
    """A finished run.

    Attributes:
        name: Of its folder.
        config: The tables of ``config.toml``.
        result: What ``result.json`` holds.
        seconds: How long training took.
    """

    name: str
    config: dict[str, Any]
    result: dict[str, Any]
    seconds: float


def as_records(runs: Iterable[RunResult]) -> list[Record]:
    """Finished runs without their folders."""
    return [
        Record(run.config.name, run.config.model_dump(mode="json"), run.result, run.seconds)
        for run in runs
    ]


def read_runs(folder: Path | str) -> tuple[list[Record], dict[Path, str]]:
    """All finished runs of a folder, and what is wrong with the others.

    Every file of a run is checked against its checksum; a damaged run is never read.

    Returns:
        The records by name, and a sentence for every run that failed, is damaged or not finished.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise InputError(f"there is no folder {root}; name the folder of your runs with --runs.")
    records: list[Record] = []
    problems: dict[Path, str] = {}
    for path in sorted(p for p in root.iterdir() if p.is_dir()):
        run = RunFolder(path)
        if not (run / DONE).is_file():
            if (run / ERROR).is_file():
                problems[path] = f"failed: {_kept_error(run)}"
            elif (run / "config.toml").is_file():
                problems[path] = "not finished; the command that began it continues it."
            continue
        try:
            run.check()
            seconds = float(run.read_json(TIMING)["seconds"])
            tables = read_toml(run / "config.toml")
            records.append(Record(path.name, tables, run.read_json(RESULT), seconds))
        except NcgnnError as error:
            problems[path] = str(error)
    return records, problems


def _kept_error(run: RunFolder) -> str:
    try:
        return str(run.read_json(ERROR).get("error"))
    except NcgnnError as error:
        return str(error)


def read_stored(path: Path | str) -> list[Record]:
    """Records from a file of JSON lines; the error names the line that is damaged."""
    path = Path(path)
    found: dict[str, Record] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            record = Record(
                str(fields["name"]),
                dict(fields["config"]),
                dict(fields["result"]),
                float(fields["seconds"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}, line {number}: is no record of a run ({error}); remove the line."
            ) from None
        found[record.name] = record
    return list(found.values())


def write_stored(records: Iterable[Record], path: Path | str) -> int:
    """Add records to a file of JSON lines; those that are in it already stay as they are.

    Returns:
        The number of records that were new.
    """
    path = Path(path)
    known = {record.name: record for record in read_stored(path)} if path.is_file() else {}
    new = {record.name: record for record in records if record.name not in known}
    lines = [json.dumps(vars(record), allow_nan=False) for record in (known | new).values()]
    write_text(path, "".join(f"{line}\n" for line in lines))
    return len(new)
