"""``ncgnn analyze`` and ``ncgnn theory``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ncgnn.cli._options import (
    DataDirOption,
    GraphArgument,
    JsonOption,
    TableFormat,
    free_folder,
    one_clear_error,
    print_json,
    whole_numbers,
)


@one_clear_error
def analyze(
    graph: GraphArgument,
    hops: Annotated[str, typer.Option(help="Hop counts k of NC and entropy.")] = "1,2",
    threshold: Annotated[float, typer.Option(help="NC above it counts as high.")] = 0.5,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html, summary.json, the per-node table, figures."),
    ] = None,
    table_format: Annotated[
        TableFormat, typer.Option("--format", help="Format of the per-node table.")
    ] = TableFormat.csv,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Measure how confused the nodes of a graph are."""
    from rich.console import Console

    counts, out = whole_numbers(hops, "--hops"), free_folder(out)
    notes = Console(stderr=True)
    paths: list[Path] = []
    with notes.status("starting") as status:
        import ncgnn

        status.update("reading the graph")
        loaded = ncgnn.load(graph, data_dir)
        status.update("measuring (the first time also compiles, once per machine)")
        analysis = ncgnn.analyze(loaded, hops=counts, threshold=threshold)
        if out is not None:
            from ncgnn.report import write_analysis

            status.update("writing tables and figures")
            paths = write_analysis(analysis, out, table_format.value)
    if json:
        print_json(analysis.to_json())
    else:
        from ncgnn.report import analysis_tables

        console = Console()
        for table in analysis_tables(analysis):
            console.print(table)
    if paths:
        print(f"Results are in {out}:", *(f"  {path}" for path in paths), sep="\n", file=sys.stderr)
    elif not json:
        notes.print("Add --out FOLDER for the values of every node, pictures and a report.")


@one_clear_error
def theory(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")],
    classes: Annotated[
        str, typer.Option(help="Numbers of classes, one curve each.")
    ] = "2,3,5,10,15",
) -> None:
    """Draw conditional entropy and the error bound against NC."""
    from ncgnn.report import save_figure, theory_figure

    figure = theory_figure(whole_numbers(classes, "--classes", least=2))
    for path in save_figure(figure, free_folder(out) or out, "theory"):
        print(path)
