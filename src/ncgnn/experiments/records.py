"""Records of finished runs, read from run folders and kept as JSON lines beside code.

A record holds configuration and scores, without weights.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncgnn._io import locked, write_text
from ncgnn.errors import DataNotFoundError, InputError, NcgnnError
from ncgnn.experiments.cells import kept_error
from ncgnn.training import (
    CONFIG,
    DONE,
    ENVIRONMENT,
    ERROR,
    DamagedFileError,
    RunFolder,
    code_versions,
    config_sha256,
    finished_run,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncgnn.training import RunConfig, RunResult


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


_NEEDED_OPTIONS = (
    ("data", "dataset"),
    ("data", "split"),
    ("model", "name"),
    ("training", "seed"),
)


def read_stored(path: Path | str) -> list[Record]:
    """Records from a file of JSON lines; the error names the line that is damaged."""
    path = Path(path).expanduser()
    found: dict[tuple[str, str], Record] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    for number, line in enumerate(lines, 1):
        try:
            record = _record(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}, line {number}: is no record of a run ({error!r}). If the file is one of "
                "'ncgnn results --add-to', remove the line; else name another."
            ) from None
        found[record.name, record.graph] = record
    return list(found.values())


def _record(fields: dict[str, Any]) -> Record:
    """A record with all that is asked of it later, whose name is that of its configuration."""
    config, result = fields["config"], fields["result"]
    code, graph = (str(fields.get(key, "")) for key in ("code", "graph"))
    record = Record(str(fields["name"]), config, result, float(fields["seconds"]), code, graph)
    for section, option in _NEEDED_OPTIONS:
        if option not in config[section]:
            raise KeyError(f"{section}.{option}")
    _check_scores(result)
    if not record.name.endswith(f"-{config_sha256(config)[:10]}"):
        raise ValueError("its name does not belong to its configuration")
    if "seed" in result and result["seed"] != config["training"]["seed"]:
        raise ValueError("its seed is not that of its configuration")
    return record


def _check_scores(result: dict[str, Any]) -> None:
    """Complain unless what tables are made of is there, and within its bounds."""
    lacking = {"scores", "epochs", "majority_baseline", "split_sha256"} - result.keys()
    if lacking or "val" not in result["scores"]:
        raise KeyError(*lacking or ("scores.val",))
    shares: dict[str, Any] = {}
    for part, scores in result["scores"].items():
        shares |= {f"{score} on {part}": scores[score] for score in ("accuracy", "macro_f1")}
    if "test" in result["scores"]:
        shares["majority_baseline"] = result["majority_baseline"]
    for what, value in shares.items():
        if not isinstance(value, float | int) or not 0 <= value <= 1:
            raise ValueError(f"{what} is {value!r}")


def write_stored(records: Iterable[Record], path: Path | str) -> int:
    """Add records to a file of JSON lines; one that has changed or tells more replaces its old one.

    Runs of one configuration on several graphs are all kept.

    Several processes may add to one file at a time.

    Returns:
        The number of records that were new or have changed.
    """
    path = Path(path).expanduser()
    # A file of its own is locked, because this one is replaced.
    with locked(path.with_name(f".{path.name}.lock")):
        known = {(r.name, r.graph): r for r in (read_stored(path) if path.is_file() else ())}
        new = 0
        for record in records:
            _record(vars(record))  # what could not be read again is never written
            place, mine = _place(record, known), (record.name, record.graph)
            if place not in known or _tells_more(record, known[place]):
                if place != mine:  # of which graph the old one is was not known
                    known.pop(place)
                known[mine] = record
                new += 1
        write_text(path, "".join(_line(record) for record in known.values()))
    return new


def _place(record: Record, known: dict[tuple[str, str], Record]) -> tuple[str, str]:
    """The key of the record that this one would replace, or its own."""
    mine, unknown = (record.name, record.graph), (record.name, "")
    if mine not in known and unknown in known:
        return unknown
    if not record.graph:
        return next((key for key in known if key[0] == record.name), mine)
    return mine


def _line(record: Record) -> str:
    told = {key: value for key, value in vars(record).items() if value != ""}
    return f"{json.dumps(told, allow_nan=False)}\n"


def _tells_more(record: Record, known: Record) -> bool:
    """Whether a run came out differently, or is told to be of a graph or version unknown so far."""
    if known.graph and not record.graph:
        return False
    told = (record.graph and not known.graph) or (record.code and not known.code)
    return bool(told) or record.result != known.result


def of_this_graph(
    records: Iterable[Record], configs: Iterable[RunConfig], data_dir: Path | None = None
) -> tuple[list[Record], list[str]]:
    """The records of some runs on the graph and split at hand, and names of the others.

    Where a data set is not at hand, its records are taken at their word; of older ones that do not
    tell their graph, the split says whether it is the same.
    """
    from ncgnn.data import load, make_split

    kept: dict[str, list[Record]] = {}
    for record in records:
        kept.setdefault(record.name, []).append(record)
    fitting: list[Record] = []
    others: list[str] = []
    wanted = [config for config in configs if config.name in kept]
    for dataset in dict.fromkeys(config.data.dataset for config in wanted):
        try:
            graph = load(dataset, data_dir, download=False)
            graph_sha256 = graph.fingerprint
        except DataNotFoundError:
            graph, graph_sha256 = None, ""
        for config in (config for config in wanted if config.data.dataset == dataset):
            found = kept[config.name]
            if graph is not None:
                split = make_split(graph, config.data.split, config.split_seed, warn=False)
                found = [
                    record
                    for record in found
                    if record.result.get("split_sha256") == split.sha256
                    and graph_sha256.startswith(record.graph)
                ]
            fitting += found[-1:]
            others += [] if found else [config.name]
    return fitting, others
