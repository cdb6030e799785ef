"""``ncgnn evaluate``, ``ncgnn predict`` and ``ncgnn report``: what to do with a finished run.

``ncgnn results``.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncgnn.cli.options import (
    DataDirOption,
    DatasetsOption,
    DeviceOption,
    ForceOption,
    JsonOption,
    ModelsOption,
    RunsOption,
    TableFormat,
    free_path,
    names,
    one_clear_error,
    print_json,
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


@one_clear_error
def results(
    runs: RunsOption = Path("runs"),
    stored: Annotated[
        list[Path] | None,
        typer.Option("--stored", help="JSON lines of finished runs, read too; may be repeated."),
    ] = None,
    datasets: DatasetsOption = None,
    models: ModelsOption = None,
    split: Annotated[str | None, typer.Option(help="Only this split family.")] = None,
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
    """Show finished runs: mean ± deviation over seeds, per model, data set and split family."""
    from ncgnn.experiments import results_table, uneven_efforts, without_pairs, write_stored

    if out is not None:
        check_format(free_path(out, force))
    records, problems = _records(runs, stored or [])
    wanted = [record for record in records if _is_wanted(record.config, datasets, models, split)]
    if not wanted:
        raise InputError(_none_like_that(records, runs))
    problems = {p: t for p, t in problems.items() if _may_be_wanted(p, datasets, models, split)}
    rows = results_table(wanted, against)
    if json:
        print_json({"rows": _plain(rows), "problems": {str(p): t for p, t in problems.items()}})
    else:
        _print(rows)
    alone = [] if against is None else without_pairs(rows, against)
    for sentence in (*uneven_efforts(rows), *alone):
        print(f"note: {sentence}", file=sys.stderr)
    if out is not None:
        export(rows, out.expanduser())
        print(f"Written: {out}", file=sys.stderr)
    if add_to is not None:
        count = write_stored(wanted, add_to)
        print(f"{count} new or changed runs added to {add_to}", file=sys.stderr)
    for absent in _without_runs(records, datasets, models):
        print(f"no finished runs of {absent}", file=sys.stderr)
    for path, problem in [*problems.items()][:MOST_PROBLEMS]:
        print(f"not shown: {path}: {problem}", file=sys.stderr)
    if len(problems) > MOST_PROBLEMS:
        print(
            f"{len(problems) - MOST_PROBLEMS} more are not shown; --json lists all", file=sys.stderr
        )


def _records(runs: Path, stored: list[Path]) -> tuple[list[Record], dict[Path, str]]:
    from ncgnn.experiments import read_runs, read_stored

    # One configuration may have been trained on two contents of a file.
    found: dict[tuple[str, str], Record] = {}
    for path in stored:
        found |= {(record.name, record.graph): record for record in read_stored(path)}
    if stored and not runs.expanduser().is_dir():
        return list(found.values()), {}
    records, problems = read_runs(runs)
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


def _without_runs(records: list[Record], datasets: str | None, models: str | None) -> list[str]:
    """Names that were asked for in vain."""
    graphs = [] if datasets is None else list(names(datasets, "--datasets"))
    kinds = [] if models is None else list(names(models, "--models"))
    absent = [g for g in graphs if not any(_is_wanted(r.config, g, None, None) for r in records)]
    return absent + [
        m for m in kinds if not any(_is_wanted(r.config, None, m, None) for r in records)
    ]


def _may_be_wanted(run: Path, datasets: str | None, models: str | None, split: str | None) -> bool:
    """Whether a run that cannot be shown is, as far as is known, one of those asked for."""
    from ncgnn.training import RunFolder

    try:
        config = RunFolder(run).read_config().model_dump(mode="json")
    except (NcgnnError, OSError):
        return True
    return _is_wanted(config, datasets, models, split)


def _is_wanted(
    config: dict[str, Any], datasets: str | None, models: str | None, split: str | None
) -> bool:
    from ncgnn.training import located

    data = config["data"]
    graph = Path(data["dataset"])
    called = {str(graph), graph.name, graph.stem}
    asked = () if datasets is None else names(datasets, "--datasets")
    whole = (str(Path(name).expanduser().resolve()) for name in asked)  # it need not be there
    asked = {*asked, *whole, *(located(name) for name in asked)}
    return (
        (datasets is None or bool(called & asked))
        and (models is None or config["model"]["name"] in names(models, "--models"))
        and (split is None or data["split"] == split)
    )


def _print(rows: list[Row]) -> None:
    from ncgnn.report import results_tables

    console = table_console()
    for table in results_tables(rows):
        console.print(table)


def check_format(path: Path) -> None:
    """Complain of a file whose name asks for no known format."""
    if path.suffix.removeprefix(".") not in {one.value for one in ExportFormat}:
        known = ", ".join(f".{one.value}" for one in ExportFormat)
        raise InputError(f"--out is {path}; give a file that ends in {known}.")


def export(rows: list[Row], path: Path) -> None:
    """Write rows in the format that the file's name asks for."""
    from ncgnn._io import write_text
    from ncgnn.report import Table, results_columns, results_tables, write_columns

    kind = path.suffix.removeprefix(".")
    if kind in ("csv", "parquet"):
        write_columns(results_columns(rows), path, "csv" if kind == "csv" else "parquet")
        return
    render = Table.markdown if kind == "md" else Table.latex
    write_text(path, "\n".join(render(table) for table in results_tables(rows)))


def _plain(rows: list[Row]) -> list[dict[str, Any]]:
    from ncgnn.report import results_columns

    columns = results_columns(rows)
    return [
        {name: _json_value(values[place]) for name, values in columns.items()}
        for place in range(len(rows))
    ]


def _json_value(value: Any) -> Any:
    plain = value.item()
    return None if plain != plain else plain  # NaN is the only value that differs from itself


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Folder of a finished run, or its name under --runs.")
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Folders of finished runs, or their names under --runs."),
]
MovedOption = Annotated[
    str | None, typer.Option("--dataset", help="Where the run's graph is now, if it has moved.")
]


@one_clear_error
def evaluate(
    run: RunArgument,
    dataset: MovedOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    json: JsonOption = False,
) -> None:
    """Evaluate a finished run again from its weights: scores, and accuracy per group."""
    trained = _loaded(_folder(run, runs), data_dir, device, dataset)
    result = trained.evaluate()
    if json:
        print_json(result)
        return
    from rich.console import Console

    from ncgnn.report import evaluation_tables

    console = Console()
    for table in evaluation_tables(result, trained.config):
        console.print(table)


@one_clear_error
def predict(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default predictions.* in the run.")
    ] = None,
    table_format: Annotated[
        TableFormat | None,
        typer.Option("--format", help="Format of the table; by default as --out ends, or csv."),
    ] = None,
    dataset: MovedOption = None,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    runs: RunsOption = Path("runs"),
    force: ForceOption = False,
) -> None:
    """Write class, probabilities, NC and group of every node of the run's graph.

    NC and group are those that the model was run with, estimated from its own predictions; of a
    model without groups they say how its predictions would be grouped.
    """
    from ncgnn.training import RunFolder

    folder = _folder(run, runs)
    RunFolder(folder).check()
    ending = out.suffix[1:] if out is not None else ""
    by_ending = {known.value: known for known in TableFormat}
    chosen = table_format or by_ending.get(ending, TableFormat.csv)
    path = free_path(out or folder / f"predictions.{chosen.value}", force)
    if path.suffix not in ("", f".{chosen.value}"):
        known = " or ".join(f".{name}" for name in by_ending)
        raise InputError(f"--out is {path}; let it end in {known}, and --format agree with it.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it, or name another for --out.")
    from ncgnn.report import write_columns

    write_columns(_loaded(folder, data_dir, device, dataset).predictions(), path, chosen.value)
    print(path)


@one_clear_error
def report(run: RunsArgument, runs: RunsOption = Path("runs")) -> None:
    """Write report.html and figures into finished runs, or into all of a folder of runs."""
    from ncgnn.report import write_run_report
    from ncgnn.training import DONE, RunFolder

    named = [_folder(name, runs) for name in run]
    inside = [sorted(done.parent for done in path.glob(f"*/{DONE}")) for path in named]
    folders = [
        RunFolder(path)
        for one, others in zip(named, inside, strict=True)
        for path in (others if others and not (one / DONE).is_file() else [one])
    ]
    damaged = False
    for folder in folders:
        try:
            folder.check()
        except NcgnnError as error:
            if len(folders) == 1:
                raise
            print(f"no report: {error}", file=sys.stderr)
            damaged = True
            continue
        print(write_run_report(folder)[0])
    if damaged:
        raise typer.Exit(1)


def _loaded(
    folder: Path, data_dir: Path | None, device: str | None, dataset: str | None
) -> TrainedModel:
    from rich.console import Console

    with Console(file=sys.stderr).status("reading the run"):
        from ncgnn.training import load_run

        return load_run(folder, data_dir, device, dataset)


def _folder(run: str, runs: Path) -> Path:
    named = Path(run).expanduser()
    inside = runs.expanduser() / run
    return inside if not named.exists() and inside.exists() else named
