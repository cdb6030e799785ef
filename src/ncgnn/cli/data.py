"""``ncgnn analyze``, ``ncgnn datasets``, ``ncgnn split`` and ``ncgnn generate``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ncgnn.cli.options import (
    DataDirOption,
    ForceOption,
    GraphArgument,
    JsonOption,
    SeedOption,
    SplitOption,
    TableFormat,
    free_folder,
    free_path,
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
def datasets(
    name: Annotated[str | None, typer.Argument(help="Show all that is known of one.")] = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """List the known data sets and which of them are at hand."""
    from ncgnn.data import find_dataset, find_stored, list_datasets

    known = list_datasets() if name is None else [find_dataset(name)]
    rows = [asdict(one) | {"at_hand": _shown(find_stored(one.name, data_dir))} for one in known]
    if json:
        print_json({"datasets": rows})
        return
    from rich.console import Console

    Console().print(_overview(rows) if name is None else _details(rows[0]))


def _shown(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _overview(rows: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(
        "name", "nodes", "edges", "features", "classes", "paper", "at hand", box=box.SIMPLE_HEAD
    )
    table.columns[0].no_wrap = True
    for column in table.columns[1:5]:
        column.justify = "right"
    for row in rows:
        counts = [row[key] for key in ("nodes", "edges", "features", "classes")]
        shown = ["?" if count is None else f"{count:,}" for count in counts]
        marks = ["yes" if row[key] else "" for key in ("in_paper", "at_hand")]
        table.add_row(row["name"], *shown, *marks)
    return table


def _details(row: dict[str, Any]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, title=row["name"], title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for key, value in row.items():
        if key == "files":
            value = "\n".join(file["url"] for file in value)
        if value not in (None, ""):
            table.add_row(key, escape(str(value)))
    return table


@one_clear_error
def split(
    graph: GraphArgument,
    split: SplitOption = "stratified",
    seed: SeedOption = 0,
    out: Annotated[Path | None, typer.Option(help="File to save the split to, as JSON.")] = None,
    force: ForceOption = False,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Make a split and report what it holds.

    Families: stratified (60/20/20 within every class), paper (a fixed count per class in train),
    published (masks that ship with the graph), planetoid and uniform.
    """
    from ncgnn.data import load, make_split, split_report

    out = None if out is None else free_path(out, force)
    loaded = load(graph, data_dir)
    made = make_split(loaded, split, seed)
    report = split_report(made, loaded.labels, loaded.num_classes)
    if out is not None:
        made.save(out)
    if json:
        print_json({"graph": loaded.name} | report.to_json())
    else:
        _print_split(made, report, loaded)
    if out is not None:
        print(f"The split is in {out}", file=sys.stderr)


def _print_split(made: Any, report: Any, graph: Any) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    names = [escape(name) for name in graph.class_names or map(str, range(graph.num_classes))]
    title = f"{escape(graph.name)}: {made.family} ({made.origin}), seed {made.seed}"
    table = Table("class", "train", "val", "test", title=title, title_justify="left")
    parts = (report.train, report.val, report.test)
    for column in table.columns[1:]:
        column.justify = "right"
    for c, name in enumerate(names):
        table.add_row(name, *(f"{part.class_counts[c]:,}" for part in parts))
    table.add_section()
    table.add_row("all", *(f"{part.size:,} ({part.share:.0%})" for part in parts))
    console = Console()
    console.print(table)
    if report.majority_class is not None:
        answer, right = names[report.majority_class], f"{report.majority_baseline:.1%}"
        console.print(f"Always answering class {answer} is right on {right} of test.")
    console.print(f"SHA-256 {made.sha256}", highlight=False)


@one_clear_error
def generate(
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")],
    edges: Annotated[int, typer.Option(min=0, help="Number of undirected edges.")],
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
    classes: Annotated[int, typer.Option(min=1, help="Number of classes.")] = 2,
    homophily: Annotated[
        float, typer.Option(min=0, max=1, help="Chance to draw a neighbour of the own class.")
    ] = 0.8,
    confused_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of nodes with another homophily.")
    ] = 0.0,
    confused_homophily: Annotated[
        float, typer.Option(min=0, max=1, help="The homophily of those nodes.")
    ] = 0.2,
    features: Annotated[int, typer.Option(min=0, help="Number of features.")] = 0,
    feature_signal: Annotated[
        float, typer.Option(min=0, help="Distance of the class means from the centre.")
    ] = 1.0,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> None:
    """Generate a block-model graph with homophilous and confused nodes."""
    from ncgnn.data import generate as make
    from ncgnn.data import save

    out = free_path(out, force)
    options: dict[str, Any] = {"homophily": homophily}
    if confused_share > 0:
        shares = ((1 - confused_share, homophily), (confused_share, confused_homophily))
        options = {"groups": shares}
    options |= {"classes": classes, "features": features, "feature_signal": feature_signal}
    graph = make(nodes, edges, name=out.stem, seed=seed, **options)
    print(save(graph, out))
