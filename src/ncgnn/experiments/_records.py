"""What is kept of finished runs: their configuration and their scores, without weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._files import write_text
from ncgnn.errors import InputError, NcgnnError
from ncgnn.experiments._cell import kept_error
from ncgnn.training._config import config_sha256
from ncgnn.training._folder import DONE, ERROR, RESULT, TIMING, RunFolder
from ncgnn.training._toml import read_toml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.training import RunResult


_NEEDED_OPTIONS = (
    ("data", "dataset"),
    ("data", "split"),
    ("model", "name"),
    ("training", "seed"),
)


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
                problems[path] = f"failed: {kept_error(run)}"
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


def read_stored(path: Path | str) -> list[Record]:
    """Records from a file of JSON lines; the error names the line that is damaged."""
    path = Path(path).expanduser()
    found: dict[str, Record] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    for number, line in enumerate(lines, 1):
        try:
            record = _record(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}, line {number}: is no record of a run ({error!r}); remove the line."
            ) from None
        found[record.name] = record
    return list(found.values())


def _record(fields: dict[str, Any]) -> Record:
    """A record with all that is asked of it later, whose name is that of its configuration."""
    config, result = fields["config"], fields["result"]
    record = Record(str(fields["name"]), config, result, float(fields["seconds"]))
    for section, option in _NEEDED_OPTIONS:
        if option not in config[section]:
            raise KeyError(f"{section}.{option}")
    for part, scores in result["scores"].items():
        if not isinstance(scores["accuracy"], float):
            raise TypeError(f"accuracy on {part} is {scores['accuracy']!r}")
    lacking = {"scores", "epochs", "majority_baseline"} - result.keys()
    if lacking or "val" not in result["scores"]:
        raise KeyError(*lacking or ("scores.val",))
    if not record.name.endswith(f"-{config_sha256(config)[:10]}"):
        raise ValueError("its name does not belong to its configuration")
    return record


def write_stored(records: Iterable[Record], path: Path | str) -> int:
    """Add records to a file of JSON lines; those that are in it already stay as they are.

    Returns:
        The number of records that were new.
    """
    path = Path(path).expanduser()
    known = {record.name: record for record in read_stored(path)} if path.is_file() else {}
    new = {record.name: record for record in records if record.name not in known}
    lines = [json.dumps(vars(record), allow_nan=False) for record in (known | new).values()]
    write_text(path, "".join(f"{line}\n" for line in lines))
    return len(new)
