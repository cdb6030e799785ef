"""Files of records: JSON lines, small enough to be kept beside code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._files import write_text
from ncgnn._locks import locked
from ncgnn.errors import DataNotFoundError, InputError
from ncgnn.experiments._records import Record
from ncgnn.training._config import config_sha256

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.training import RunConfig

_NEEDED_OPTIONS = (
    ("data", "dataset"),
    ("data", "split"),
    ("model", "name"),
    ("training", "seed"),
)


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
    name, seconds, code = str(fields["name"]), float(fields["seconds"]), fields.get("code", "")
    record = Record(name, config, result, seconds, str(code))
    for section, option in _NEEDED_OPTIONS:
        if option not in config[section]:
            raise KeyError(f"{section}.{option}")
    for part, scores in result["scores"].items():
        if not isinstance(scores["accuracy"], float):
            raise TypeError(f"accuracy on {part} is {scores['accuracy']!r}")
    lacking = {"scores", "epochs", "majority_baseline", "split_sha256"} - result.keys()
    if lacking or "val" not in result["scores"]:
        raise KeyError(*lacking or ("scores.val",))
    if not record.name.endswith(f"-{config_sha256(config)[:10]}"):
        raise ValueError("its name does not belong to its configuration")
    return record


def write_stored(records: Iterable[Record], path: Path | str) -> int:
    """Add records to a file of JSON lines; one whose scores have changed replaces its old one.

    Several processes may add to one file at a time.

    Returns:
        The number of records that were new or have changed.
    """
    path = Path(path).expanduser()
    # A file of its own is locked, because this one is replaced.
    with locked(path.with_name(f".{path.name}.lock")):
        known = {record.name: record for record in read_stored(path)} if path.is_file() else {}
        new = {
            r.name: r for r in records if r.name not in known or r.result != known[r.name].result
        }
        for record in new.values():
            _record(vars(record))  # what could not be read again is never written
        lines = [json.dumps(vars(record), allow_nan=False) for record in (known | new).values()]
        write_text(path, "".join(f"{line}\n" for line in lines))
    return len(new)


def of_this_graph(
    records: Iterable[Record], configs: Iterable[RunConfig], data_dir: Path | None = None
) -> tuple[list[Record], list[str]]:
    """The records of some runs whose split is that of the graph at hand, and names of the others.

    Where a data set is not at hand, its records are taken at their word.
    """
    from ncgnn.data import load, make_split

    kept = {record.name: record for record in records}
    fitting: list[Record] = []
    others: list[str] = []
    wanted = [config for config in configs if config.name in kept]
    for dataset in dict.fromkeys(config.data.dataset for config in wanted):
        try:
            graph = load(dataset, data_dir, download=False)
        except DataNotFoundError:
            graph = None
        for config in (config for config in wanted if config.data.dataset == dataset):
            record = kept[config.name]
            if graph is not None:
                split = make_split(graph, config.data.split, config.split_seed, warn=False)
                if record.result.get("split_sha256") != split.sha256:
                    others.append(record.name)
                    continue
            fitting.append(record)
    return fitting, others
