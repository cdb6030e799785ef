"""The command that makes a dataset of people's own tables: import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ncgnn
from ncgnn._io import as_path
from ncgnn.cli import options as opt
from ncgnn.cli.terminal import (
    command,
    note,
    print_json,
    print_tables,
    read_list,
    show_status,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.data import TableReport, Tables
    from ncgnn.graph import Graph
    from ncgnn.report import Table

_TABLE = "CSV, TSV, Parquet or Arrow file; with DuckDB also a SQL query or address"
# What a terminal shows of the classes.
_MOST_CLASSES = 12


def column_of(of: str, text: str, name: str, panel: str | None = None) -> Any:
    """The option that names a column of the nodes or edges."""
    help = f"Column of the {of} {text}"
    return typer.Option(name, metavar="COLUMN", help=help, rich_help_panel=panel)


@command
def import_tables(
    nodes: Annotated[str, typer.Argument(metavar="NODES", help=f"Table of nodes: {_TABLE}.")],
    edges: Annotated[
        str | None, typer.Argument(metavar="EDGES", help="Table of edges, likewise.")
    ] = None,
    id: Annotated[
        str | None, column_of("nodes", "with their ids. Default: id, or the first one.", "--id")
    ] = None,
    label: Annotated[
        str | None, column_of("nodes", "with the class, empty where it is unknown.", "--label")
    ] = None,
    split: Annotated[
        str | None, column_of("nodes", "that says train, val or test.", "--split")
    ] = None,
    time: Annotated[
        str | None, column_of("nodes", "with a date, to train on earlier ones.", "--time")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME=KIND",
            help="Kind of a column where the guess is wrong: number, skewed, category, date, text, "
            "list or ignore; may be repeated.",
        ),
    ] = None,
    source: Annotated[str | None, column_of("edges", "that they start from.", "--source")] = None,
    target: Annotated[str | None, column_of("edges", "that they point to.", "--target")] = None,
    weight: Annotated[str | None, column_of("edges", "with a positive number.", "--weight")] = None,
    kind: Annotated[str | None, column_of("edges", "with their kind.", "--kind")] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kinds",
            metavar="KIND,KIND=WEIGHT",
            help="Kinds of edges that count, like depends,recommends=0.5. Default: all alike.",
        ),
    ] = None,
    direction: Annotated[
        Literal["both", "forward", "backward"] | None,
        typer.Option(help="Which way messages pass along an edge. Default: both."),
    ] = None,
    unknown: Annotated[
        Literal["error", "drop", "add"] | None,
        typer.Option(help="What to do with edges to ids that are no node. Default: error."),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="An edited schema.toml of an earlier import.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of text files.")] = "utf-8",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write the dataset to. Without it nothing is written."),
    ] = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Make a dataset of a table of nodes and a table of edges.

    Shows what every column was taken for; then writes a folder that all other commands take as
    GRAPH. What was decided is in its schema.toml: edit it and import again with --schema.
    """
    if out is not None:
        ncgnn.data.check_free(as_path(out), force=force)
    with show_status("reading the tables"):
        graph = ncgnn.read_tables(
            nodes,
            edges,
            id=id,
            label=label,
            split=split,
            time=time,
            columns=_read_pairs(column, "--column"),
            source=source,
            target=target,
            weight=weight,
            kind=kind,
            kinds=None if kinds is None else read_kinds(kinds),
            direction=direction,
            unknown=unknown,
            schema=schema,
            encoding=encoding,
            name="tables" if out is None else as_path(out).resolve().name,
        )
    tables: Any = graph.source
    if not json:
        print_tables(*_describe(graph, tables), wide=False)
    if out is not None:
        with show_status("writing the dataset"):
            ncgnn.save(graph, out, force=force)
    if json:
        print_json(_to_json(graph, tables) | {"path": None if out is None else str(out)})
    elif out is None:
        note("Nothing was written; add --out FOLDER.")
    else:
        note(f"Written: {out}", *_next_steps(graph, out))


def _next_steps(graph: Graph, out: Path) -> list[str]:
    """What to do with a dataset, or what it lacks for that."""
    if graph.num_unlabeled == graph.num_nodes:
        return ["  it has no labels; import it again with --label to learn and analyze them"]
    edges = "" if graph.num_edges else "  it has no edges: every node is on its own"
    steps = [
        edges,
        f"  ncgnn analyze {out} --out report                 which nodes are confused",
        f"  ncgnn train {out} --refit                      choose a model, and train it",
    ]
    return [step for step in steps if step]


def _read_pairs(given: list[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in given or []:
        name, equals, value = one.rpartition("=")
        if not equals or not name:
            raise InputError(f"{option} must be NAME=KIND; got '{one}'.")
        pairs[name.strip()] = value.strip()
    return pairs


def read_kinds(given: list[str]) -> dict[str, float]:
    """Read ``--kinds``: kinds of edges with their weights."""
    weights: dict[str, float] = {}
    for one in read_list(given, "--kinds") or ():
        name, equals, value = one.rpartition("=")
        if not equals:
            weights[one] = 1.0
            continue
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            raise InputError(
                f"--kinds: the weight of {name} must be a number; got '{value}'."
            ) from None
    return weights


def _describe(graph: Graph, tables: Tables) -> list[Table]:
    """What was found, as tables for a terminal."""
    report, schema, make = tables.report, tables.schema, ncgnn.report.Table
    special = {name: f"the {option}" for option, name in schema.nodes.model_dump().items() if name}
    rows = [(name, use, "", "", "") for name, use in special.items()]
    rows += [
        (one.name, one.kind, one.why, _cut(one.example), f"{one.missing:,}" if one.missing else "")
        for one in report.columns
    ]
    head = ("column", "kind", "because of", "for example", "missing")
    features = f"{graph.num_features:,} features"
    columns = make(
        f"Nodes: {graph.num_nodes:,}, {features}", head, tuple(rows), left=4, unbroken=(0, 1)
    )
    facts: list[tuple[str, str]] = []
    if schema.edges is not None:
        edges, links = schema.edges, report.links
        facts.append(("edges", f"{links.kept:,}, columns '{edges.source}' → '{edges.target}'"))
        facts.append(("direction", edges.direction))
    if report.classes:
        largest = sorted(report.classes.items(), key=lambda pair: -pair[1])
        listed = ", ".join(f"{name} {count:,}" for name, count in largest[:_MOST_CLASSES])
        more = f", … ({len(largest)} in all)" if len(largest) > _MOST_CLASSES else ""
        facts.append((f"classes ({schema.nodes.label})", listed + more))
        facts.append(("unlabeled", f"{report.unlabeled:,}"))
    summary = make("", (), tuple(facts), tuple(report.sentences()), left=2, unbroken=(0,))
    return [columns, summary]


def _to_json(graph: Graph, tables: Tables) -> dict[str, Any]:
    return {
        "nodes": graph.num_nodes,
        "edges": tables.report.links.kept,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "fingerprint": graph.fingerprint,
        "schema": tables.schema.model_dump(mode="json", exclude_none=True),
        "report": report_tree(tables.report),
    }


def report_tree(report: TableReport) -> dict[str, Any]:
    """A report of tables as plain values, with what was noticed in words."""
    return report.to_json() | {"notes": report.sentences()}


def _cut(text: str, most: int = 30) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
