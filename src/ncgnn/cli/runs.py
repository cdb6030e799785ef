"""``ncgnn results``, ``evaluate``, ``predict`` and ``report``: what to do with finished runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ncgnn
from ncgnn._io import write_text
from ncgnn.cli.options import (
    DataDirOption,
    DeviceOption,
    ForceOption,
    GraphsArgument,
    JsonOption,
    ModelsOption,
    RunArgument,
    RunListArgument,
    RunsOption,
    SplitOption,
    StoredOption,
    TableFormat,
    command,
    free_path,
    is_quiet,
    note,
    print_json,
    read_list,
    read_paths,
    table_console,
)
from ncgnn.errors import InputError, NcgnnError

if TYPE_CHECKING:
    from ncgnn.experiments import Record, Row
    from ncgnn.training import TrainedModel

#: So many runs that cannot be shown are named one by one.
MOST_PROBLEMS = 5


class ExportFormat(StrEnum):
    """Formats of exported tables."""

    csv = "csv"
    parquet = "parquet"
    markdown = "md"
    latex = "tex"


@command
def results(
    graphs: GraphsArgument = None,
    models: ModelsOption = None,
    runs: RunsOption = Path("runs"),
    stored: StoredOption = None,
    split: SplitOption = None,
    against: Annotated[
        str | None,
        typer.Option(help="Compare all with this model, seed by seed, by a paired test."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the table: a .csv, .parquet, .md or .tex file."),
    ] = None,
    add_to: Annotated[
        Path | None,
        typer.Option(help="Add the runs, without weights, to this file of JSON lines."),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Show finished runs: mean ± deviation over seeds, per model, graph and split family."""
    if out is not None:
        out = check_format(free_path(out, force))
    asked = _Asked(read_list(graphs, "GRAPH"), read_list(models, "--models"), split)
    records, problems = _records(runs, read_paths(stored, "--stored") or [])
    wanted = [record for record in records if asked.includes(record.config)]
    if not wanted:
        raise InputError(_none_like_that(records, runs))
    problems = {path: text for path, text in problems.items() if asked.may_include(path)}
    rows = ncgnn.experiments.results_table(wanted, against)
    if json:
        print_json({"rows": _plain(rows), "problems": {str(p): t for p, t in problems.items()}})
    else:
        console = table_console()
        for grid in ncgnn.report.results_tables(rows):
            console.print(grid)
    remarks = list(ncgnn.experiments.uneven_efforts(rows))
    if against is not None:
        remarks += ncgnn.experiments.without_pairs(rows, against)
    note(*(f"note: {remark}" for remark in remarks))
    if out is not None:
        export(rows, out)
        note(f"Written: {out}")
    if add_to is not None:
        count = ncgnn.experiments.write_stored(wanted, add_to)
        note(f"{count} new or changed runs added to {add_to}")
    note(*(f"no finished runs of {name}" for name in asked.without_runs(records)))
    shown = [*problems.items()][:MOST_PROBLEMS]
    note(*(f"not shown: {path}: {problem}" for path, problem in shown))
    if len(problems) > MOST_PROBLEMS:
        note(f"{len(problems) - MOST_PROBLEMS} more are not shown; --json lists all")


@dataclass(frozen=True)
class _Asked:
    """Which runs are asked for; None means all."""

    graphs: tuple[str, ...] | None
    models: tuple[str, ...] | None
    split: str | None

    def includes(self, config: dict[str, Any]) -> bool:
        """Whether a run with this configuration is one of them."""
        data, graph = config["data"], Path(config["data"]["dataset"])
        named = set[str]()
        for name in self.graphs or ():
            # A path need not exist any more.
            named |= {name, str(Path(name).expanduser().resolve()), ncgnn.training.located(name)}
        return (
            (self.graphs is None or bool({str(graph), graph.name, graph.stem} & named))
            and (self.models is None or config["model"]["name"] in self.models)
            and (self.split is None or data["split"] == self.split)
        )

    def may_include(self, run: Path) -> bool:
        """Whether a run that cannot be shown is, as far as is known, one of them."""
        try:
            config = ncgnn.training.RunFolder(run).read_config().model_dump(mode="json")
        except (NcgnnError, OSError):
            return True
        return self.includes(config)

    def without_runs(self, records: list[Record]) -> list[str]:
        """Names that were asked for in vain."""
        singles = [(name, _Asked((name,), None, None)) for name in self.graphs or ()]
        singles += [(name, _Asked(None, (name,), None)) for name in self.models or ()]
        return [
            name
            for name, asked in singles
            if not any(asked.includes(record.config) for record in records)
        ]


def _records(runs: Path, stored: list[Path]) -> tuple[list[Record], dict[Path, str]]:
    # One configuration may have been trained on two contents of a file.
    found: dict[tuple[str, str], Record] = {}
    for path in stored:
        found |= {
            (record.name, record.graph): record for record in ncgnn.experiments.read_stored(path)
        }
    if stored and not runs.expanduser().is_dir():
        return list(found.values()), {}
    records, problems = ncgnn.experiments.read_runs(runs)
    known = {record.name for record in records}
    found = {
        key: record
        for key, record in found.items()
        if key != (record.name, "") or record.name not in known
    }
    found |= {(record.name, record.graph): record for record in records}
    return list(found.values()), problems


def _none_like_that(records: list[Record], runs: Path) -> str:
    if not records:
        return f"no finished runs in {runs}; 'ncgnn train' makes some."
    models = sorted({record.config["model"]["name"] for record in records})
    graphs = sorted({Path(record.config["data"]["dataset"]).name for record in records})
    splits = sorted({record.config["data"]["split"] for record in records})
    return (
        f"no finished runs like that in {runs}; there are models {', '.join(models)} on "
        f"{', '.join(graphs)}, split {', '.join(splits)}."
    )


def check_format(path: Path) -> Path:
    """The path of a table, if its name asks for a known format."""
    if path.suffix.removeprefix(".") not in {one.value for one in ExportFormat}:
        known = ", ".join(f".{one.value}" for one in ExportFormat)
        raise InputError(f"--out must be a file that ends in {known}; got {path}.")
    return path


def export(rows: list[Row], path: Path) -> None:
    """Write rows in the format that the file's name asks for."""
    report, kind = ncgnn.report, path.suffix.removeprefix(".")
    if kind in ("csv", "parquet"):
        report.write_columns(
            report.results_columns(rows), path, "csv" if kind == "csv" else "parquet"
        )
        return
    render = report.Table.markdown if kind == "md" else report.Table.latex
    write_text(path, "\n".join(render(grid) for grid in report.results_tables(rows)))


def _plain(rows: list[Row]) -> list[dict[str, Any]]:
    columns = ncgnn.report.results_columns(rows)
    return [
        {name: _json_value(values[place]) for name, values in columns.items()}
        for place in range(len(rows))
    ]


def _json_value(value: Any) -> Any:
    plain = value.item()
    return None if plain != plain else plain  # NaN is the only value that differs from itself


MovedOption = Annotated[
    str | None, typer.Option("--graph", help="Where the run's graph is now, if it has moved.")
]


@command
def evaluate(
    run: RunArgument,
    graph: MovedOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    json: JsonOption = False,
) -> None:
    """Evaluate a finished run again from its weights: scores, and accuracy per group."""
    trained = _load(_folder(run, runs), data_dir, device, graph)
    result = trained.evaluate()
    if json:
        print_json(result)
        return
    console = table_console(wide=False)
    for table in ncgnn.report.evaluation_tables(result, trained.config):
        console.print(table)


@command
def predict(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default predictions.* in the run.")
    ] = None,
    table_format: Annotated[
        TableFormat | None,
        typer.Option("--format", help="Format of the table; by default as --out ends, or csv."),
    ] = None,
    graph: MovedOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    force: ForceOption = False,
) -> None:
    """Write class, probabilities, NC and group of every node of the run's graph.

    NC and group are those that the model was run with, estimated from its own predictions; of a
    model without groups they say how its predictions would be grouped.
    """
    folder = _folder(run, runs)
    ncgnn.training.RunFolder(folder).check()
    ending = out.suffix[1:] if out is not None else ""
    by_ending = {known.value: known for known in TableFormat}
    chosen = table_format or by_ending.get(ending, TableFormat.csv)
    path = free_path(out or folder / f"predictions.{chosen.value}", force)
    if path.suffix not in ("", f".{chosen.value}"):
        known = " or ".join(f".{name}" for name in by_ending)
        raise InputError(f"--out is {path}; let it end in {known}, and --format agree with it.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it, or name another for --out.")
    ncgnn.report.write_columns(
        _load(folder, data_dir, device, graph).predictions(), path, chosen.value
    )
    print(path)


@command
def report(run: RunListArgument, runs: RunsOption = Path("runs")) -> None:
    """Write report.html and figures into finished runs, or into all of a folder of runs."""
    done_file, run_folder = ncgnn.training.DONE, ncgnn.training.RunFolder
    named = [_folder(name, runs) for name in run]
    inside = [sorted(done.parent for done in path.glob(f"*/{done_file}")) for path in named]
    folders = [
        run_folder(path)
        for one, others in zip(named, inside, strict=True)
        for path in (others if others and not (one / done_file).is_file() else [one])
    ]
    damaged = False
    for folder in folders:
        try:
            folder.check()
        except NcgnnError as error:
            if len(folders) == 1:
                raise
            note(f"no report: {error}")
            damaged = True
            continue
        print(ncgnn.report.write_run_report(folder)[0])
    if damaged:
        raise typer.Exit(1)


def _load(
    folder: Path, data_dir: Path | None, device: str | None, graph: str | None
) -> TrainedModel:
    from rich.console import Console

    with Console(stderr=True, quiet=is_quiet()).status("reading the run"):
        return ncgnn.load_run(folder, data_dir, device, graph)


def _folder(run: str, runs: Path) -> Path:
    named = Path(run).expanduser()
    inside = runs.expanduser() / run
    return inside if not named.exists() and inside.exists() else named
