"""Finished runs: records of them, files of records, and tables that compare them.

A record holds the configuration and the scores of a run, without weights. It comes from a run
folder, or from a line of a JSON file that is kept beside the code. A row of a table holds records
that differ in nothing but their seed, and rows are compared seed by seed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ncgnn._io import as_path, locked, write_text
from ncgnn.data import load
from ncgnn.errors import DataNotFoundError, InputError, NcgnnError
from ncgnn.experiments.cells import read_error
from ncgnn.experiments.comparison import Difference, compare_runs
from ncgnn.training import (
    CONFIG,
    DETAILS,
    DONE,
    ENVIRONMENT,
    ERROR,
    DamagedFileError,
    RunFolder,
    Spread,
    code_versions,
    config_sha256,
    family_of,
    finished_run,
    naming_options,
    revision,
    run_folders,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.training import RunConfig, RunResult

#: Number of the format of a stored record.
FORMAT = 1
_NEEDED_OPTIONS = (
    ("data", "dataset"),
    ("data", "split"),
    ("model", "name"),
    ("training", "seed"),
)
#: Options that make a comparison uneven beside the models themselves.
_EFFORTS = (
    *("data.scaling", "model.hidden", "model.layers"),
    *("training.epochs", "training.patience", "training.metric", "training.class_shares"),
    "training.averaging",
)


@dataclass(frozen=True)
class Record:
    """A finished run.

    Attributes:
        config: All options that name the run, by section.
        result: The content of ``result.json`` but for its long parts.
        code: The first digits of the hash of this package's source that trained it, with ``+``
            between them if another version continued it; "" if unknown.
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
            naming_options(run.config.model_dump(mode="json")),
            {key: value for key, value in run.result.items() if key not in DETAILS},
            run.seconds,
            *read_origin(RunFolder(run.folder)),
        )
        for run in runs
    ]


def read_origin(run: RunFolder) -> tuple[str, str]:
    """:attr:`Record.code` and :attr:`Record.graph` of a run."""
    try:
        known = run.read_json(ENVIRONMENT)
    except DamagedFileError:
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
    root = as_path(folder)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}; name the folder of your runs with --runs.")
    found: dict[tuple[str, str], tuple[Record, Path]] = {}
    problems: dict[Path, str] = {}
    for path in run_folders(root):
        run = RunFolder(path)
        try:
            if not (run / DONE).is_file():
                if (run / ERROR).is_file():
                    problems[path] = f"failed: {read_error(run)[0]}"
                elif (run / CONFIG).is_file():
                    problems[path] = "not finished; the command that began it continues it."
                continue
            (record,) = as_records([finished_run(run)])
        except (NcgnnError, OSError) as error:
            problems[path] = str(error)
            continue
        first = found.setdefault((record.name, record.graph), (record, path))[1]
        if first != path:
            problems[path] = f"has the same configuration as {first}."
    return [record for record, _ in found.values()], problems


def read_stored(path: Path | str) -> list[Record]:
    """Records from a file of JSON lines; the error names the line that is damaged."""
    path = as_path(path)
    found: dict[tuple[str, str], Record] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            form = fields.pop("format", None)
            if isinstance(form, int) and form > FORMAT:
                raise InputError(
                    f"{path}, line {number}: format must be {FORMAT}; got {form}; a newer version "
                    "of ncgnn reads it."
                )
            if form != FORMAT:
                raise ValueError(f"format must be {FORMAT}; got {form!r}")
            record = _check_record(Record(**fields))
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}, line {number}: must be the record of a run ({error!r}). If the file is "
                "one of 'ncgnn results --add-to', remove the line; else name another."
            ) from None
        found[record.name, record.graph] = record
    return list(found.values())


def _check_record(record: Record) -> Record:
    """A record with all that tables need, whose name is that of its configuration."""
    config, result = record.config, record.result
    for field, kind in (("seconds", float | int), ("code", str), ("graph", str)):
        if not isinstance(getattr(record, field), kind):
            raise ValueError(f"{field} is {getattr(record, field)!r}")
    for section, option in _NEEDED_OPTIONS:
        if option not in config[section]:
            raise KeyError(f"{section}.{option}")
    lacking = {"scores", "epochs", "majority_baseline", "split_sha256"} - result.keys()
    if lacking or "val" not in result["scores"]:
        raise KeyError(*lacking or ("scores.val",))
    shares: dict[str, Any] = {}
    for part, scores in result["scores"].items():
        shares |= {f"{score} on {part}": scores[score] for score in ("accuracy", "macro_f1")}
    if "test" in result["scores"]:
        shares["majority_baseline"] = result["majority_baseline"]
    for name, value in shares.items():
        if not isinstance(value, float | int) or not 0 <= value <= 1:
            raise ValueError(f"{name} is {value!r}")
    if not record.name.endswith(f"-{config_sha256(config)[:10]}"):
        raise ValueError("its name does not belong to its configuration")
    if "seed" in result and result["seed"] != config["training"]["seed"]:
        raise ValueError("its seed is not that of its configuration")
    return record


def write_stored(records: Iterable[Record], path: Path | str) -> int:
    """Add records to a file of JSON lines; one that has changed or tells more replaces its old one.

    Runs of one configuration on several graphs are all kept. Several processes may add to one file
    at a time.

    Returns:
        The number of records that were new or have changed.
    """
    path = as_path(path)
    # A file of its own is locked, because this one is replaced.
    with locked(path.with_name(f".{path.name}.lock")):
        known = {(r.name, r.graph): r for r in (read_stored(path) if path.is_file() else ())}
        new = 0
        for record in records:
            _check_record(record)  # what could not be read again is never written
            place, mine = _place(record, known), (record.name, record.graph)
            if place not in known or _tells_more(record, known[place]):
                if place != mine:  # the graph of the old one was not known
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


def _tells_more(record: Record, known: Record) -> bool:
    """Whether a run came out differently, or its graph or version was unknown so far.

    What an earlier revision of a model left never replaces what a later one has.
    """
    if known.graph and not record.graph:
        return False
    if revision(record.result) < revision(known.result):
        return False
    told = (record.graph and not known.graph) or (record.code and not known.code)
    return bool(told) or record.result != known.result


def _line(record: Record) -> str:
    told = {key: value for key, value in vars(record).items() if value != ""}
    return f"{json.dumps({'format': FORMAT, **told}, allow_nan=False)}\n"


def of_this_graph(
    records: Iterable[Record], configs: Iterable[RunConfig], data_dir: Path | None = None
) -> tuple[list[Record], list[str]]:
    """The records of some runs on the graph and split at hand, and names of the others.

    Where a dataset is not at hand, its records are not checked; those without a graph are
    recognized by their split.
    """
    kept: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        kept[record.name].append(record)
    fitting: list[Record] = []
    others: list[str] = []
    wanted = [config for config in configs if config.name in kept]
    for dataset in dict.fromkeys(config.data.dataset for config in wanted):
        try:
            graph = load(dataset, data_dir, download=False)
        except DataNotFoundError:
            graph = None
        for config in (config for config in wanted if config.data.dataset == dataset):
            found = kept[config.name]
            if graph is not None:
                split = config.make_split(graph)
                found = [
                    record
                    for record in found
                    if record.result.get("split_sha256") == split.sha256
                    and graph.fingerprint.startswith(record.graph)
                ]
            fitting += found[-1:]
            others += [] if found else [config.name]
    return fitting, others


@dataclass(frozen=True)
class Row:
    """Runs that differ in nothing but their seed.

    Attributes:
        dataset: Name or path of the graph.
        options: Those that distinguish the row from others of this model on this dataset.
        records: The runs, by seed.
        difference: To the row it was compared with.
        content: The first digits of the hash of what the dataset held, ``unknown`` where that is
            not known, and nothing where all runs on the dataset are of one content.
    """

    dataset: str
    split: str
    model: str
    options: str
    records: dict[int, Record]
    difference: Difference | None = None
    content: str = ""

    @property
    def title(self) -> str:
        """The model with its options."""
        return f"{self.model} {self.options}".strip()

    @property
    def label(self) -> str:
        """The model with its options and, where a dataset has held several, the content."""
        return f"{self.title} content {self.content}" if self.content else self.title

    @property
    def metric(self) -> str:
        """The validation score that selected the best epochs."""
        return next(iter(self.records.values())).config["training"]["metric"]

    def spread(self, part: str, score: str = "accuracy") -> Spread | None:
        """Mean and deviation of a score over seeds; None where a run has none."""
        parts = [record.result["scores"].get(part) for record in self.records.values()]
        return _spread_of([None if one is None else one.get(score) for one in parts])

    def mean_of(self, key: str) -> Spread | None:
        """Mean and deviation of another number of ``result.json`` over seeds."""
        return _spread_of([record.result.get(key) for record in self.records.values()])

    @property
    def codes(self) -> set[str]:
        """The versions of this package's source that trained the runs, as far as known."""
        return {code for run in self.records.values() for code in run.code.split("+")} - {""}

    @property
    def seconds(self) -> Spread:
        """Training time."""
        return Spread.of([record.seconds for record in self.records.values()])


def _spread_of(values: Sequence[float | None]) -> Spread | None:
    known = [float(value) for value in values if value is not None]
    return Spread.of(known) if len(known) == len(values) else None


def flatten(tables: dict[str, Any]) -> dict[str, Any]:
    """The tables of a configuration by ``section.option``."""
    return {
        f"{section}.{option}": value
        for section, options in tables.items()
        for option, value in options.items()
    }


def format_value(value: object) -> str:
    """The value of an option, as a label shows it; of a hash the first digits."""
    if value is None:
        return "–"
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        experts = cast("list[dict[str, Any]]", value)
        mark = hashlib.sha256(json.dumps(experts, sort_keys=True).encode()).hexdigest()[:4]
        return f"{'+'.join(str(one.get('name')) for one in experts)}#{mark}"
    text = json.dumps(value).replace('"', "").replace(" ", "")
    return re.sub(r"\b([0-9a-f]{8})[0-9a-f]{56}\b", r"\1", text)


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


def results_table(records: Iterable[Record], against: str | None = None) -> list[Row]:
    """Group runs by all of their configuration but the seed.

    With ``against``, the label of a row (model, and options if there are several rows of it), the
    others of the same dataset and split family are compared with that row, seed by seed.

    Returns:
        Rows by dataset, split family, model and options. Split families are never put together.
    """
    known = list(records)
    contents: dict[str, set[str]] = defaultdict(set)
    for record in known:
        contents[record.config["data"]["dataset"]] |= {_content(record)} - {""}
    # A file may have changed between runs.
    mixed = {dataset for dataset, found in contents.items() if len(found) > 1}
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in known:
        options = {k: v for k, v in _told(record).items() if k != "training.seed"}
        content = _content(record) if record.config["data"]["dataset"] in mixed else ""
        groups[json.dumps(options, sort_keys=True), content].append(record)
    families: dict[tuple[str, str, str], list[list[Record]]] = defaultdict(list)
    for group in groups.values():
        data, model = group[0].config["data"], group[0].config["model"]
        families[data["dataset"], family_of(data), model["name"]].append(group)
    rows = [
        Row(
            *place,
            _options(group[0], siblings),
            _by_seed(group),
            content=(_content(group[0]) or "unknown") if place[0] in mixed else "",
        )
        for place, siblings in sorted(families.items())
        for group in siblings
    ]
    rows.sort(key=lambda row: (row.dataset, row.split, row.model, row.options, row.content))
    return rows if against is None else _compare(rows, against)


def _content(record: Record) -> str:
    """The first digits of the hash of what a dataset held; "" if unknown."""
    return (record.config["data"].get("fingerprint") or record.graph)[:8]


def _told(record: Record) -> dict[str, Any]:
    """What tells a run from others of its seed: its options, and the revision of its model."""
    return flatten(record.config) | {"model.revision": revision(record.result)}


def _options(record: Record, siblings: Sequence[Sequence[Record]]) -> str:
    """The options in which a row differs from most runs of this model on this dataset.

    Where no value of an option is commoner than all others, every row has its own. The content of a
    dataset is none of them; and from which run one started, every night from another one, is told
    where runs on the same content differ in it.
    """
    own, content = _told(record), _content(record)
    is_mixture = own["model.name"] == "mixture" and own.get("model.trained") == "apart"
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    configs = [_told(group[0]) for group in siblings]
    for name in dict.fromkeys(name for config in configs for name in config):
        for config, group in zip(configs, siblings, strict=True):
            if name != "training.start_from" or _content(group[0]) == content:
                counts[name][json.dumps(config.get(name))] += len(group)
    shown = [
        f"{name.partition('.')[2]}={format_value(own.get(name))}"
        for name, found in sorted(counts.items())
        if name not in ("training.seed", "data.fingerprint")
        and not (is_mixture and name in _OF_EXPERTS)
        and json.dumps(own.get(name)) != _commonest(found)
    ]
    return " ".join(shown)


#: What says nothing of models that were combined: how each was trained is in runs of their own.
_OF_EXPERTS = (
    *("training.learning_rate", "training.weight_decay", "training.epochs", "training.patience"),
    *("training.averaging", "training.batch_size", "training.fanout", "model.temperatures"),
)


def _commonest(counts: Counter[str]) -> str | None:
    first, *others = counts.most_common(2)
    return None if others and others[0][1] == first[1] else first[0]


def _by_seed(group: Sequence[Record]) -> dict[int, Record]:
    found = {int(record.config["training"]["seed"]): record for record in group}
    return dict(sorted(found.items()))


def _compare(rows: list[Row], against: str) -> list[Row]:
    """Rows with their differences to the one of that label, on the same dataset and splits."""
    references = find_references(rows, against)
    if not references:
        known = ", ".join(sorted({row.label for row in rows}))
        raise InputError(f"--against is '{against}', of which there are no runs; known: {known}.")
    return [compare_row(row, references.get((row.dataset, row.split))) for row in rows]


def find_references(rows: Iterable[Row], against: str) -> dict[tuple[str, str], Row]:
    """By dataset and split family, the row that others are compared with."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if against in (row.label, row.model):
            found[row.dataset, row.split].append(row)
    references: dict[tuple[str, str], Row] = {}
    for place, several in found.items():
        exact = [row for row in several if row.label == against]
        if not exact and len(several) > 1:
            known = "; ".join(row.label for row in several)
            raise InputError(f"--against {against} means several rows; name one of them: {known}.")
        references[place] = (exact or several)[0]
    return references


def compare_row(row: Row, other: Row | None) -> Row:
    """A row with its difference in test accuracy over the seeds and splits that both have."""
    if other is None or other is row:
        return row
    found = compare_runs(row.records, other.records)
    return row if found is None else replace(row, difference=replace(found, against=other.label))


def without_pairs(rows: Iterable[Row], against: str) -> list[str]:
    """Sentences about rows that share no tested split and seed with their reference."""
    every = list(rows)
    references = find_references(every, against)
    return [
        f"{row.label} on {row.dataset} has no tested split and seed in common with {other.label}, "
        f"so there is no difference; it has seed {', '.join(map(str, row.records))}"
        for row in every
        if row.difference is None
        and (other := references.get((row.dataset, row.split))) is not None
        and other is not row
    ]


def uneven_efforts(rows: Iterable[Row]) -> list[str]:
    """Sentences about compared rows with different widths, depths, epochs or features."""
    every = list(rows)
    by_label = {(row.dataset, row.split, row.label): row for row in every}
    said: dict[str, None] = {}
    for row in every:
        if row.difference is None:
            continue
        other = by_label[row.dataset, row.split, row.difference.against]
        both = [flatten(next(iter(one.records.values())).config) for one in (row, other)]
        differ = [
            f"{name.partition('.')[2]} ({' and '.join(format_value(one[name]) for one in both)})"
            for name in _EFFORTS
            # A model may have no such option at all.
            if all(name in one for one in both) and both[0][name] != both[1][name]
        ]
        if differ:
            pair = f"{row.label} and {other.label} on {row.dataset}"
            said[f"{pair} differ in {', '.join(differ)}"] = None
    return list(said)
