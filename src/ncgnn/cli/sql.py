"""NC as SQL: the command that prints statements, and the tables that ``analyze --sql`` measures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ncgnn
from ncgnn._io import write_text
from ncgnn.cli import options as opt
from ncgnn.cli.tables import column_of, read_kinds
from ncgnn.cli.terminal import (
    command,
    emit,
    note,
    print_json,
    print_tables,
    read_list,
    read_numbers,
    show_status,
)
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.metrics.sql import SqlAnalysis

_DIALECTS = ("duckdb", "postgres", "spark", "bigquery", "snowflake")
_WHATS = ("nc", "nh", "nodes", "summary", "check")
PANEL = "With --sql"


def _panel(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=PANEL, **more)


Id = Annotated[
    str | None, column_of("nodes", "with their ids. Default: id, or the first.", "--id", PANEL)
]
Label = Annotated[
    str | None, column_of("nodes", "with the class, empty where unknown.", "--label", PANEL)
]
Source = Annotated[str | None, column_of("edges", "that they start from.", "--source", PANEL)]
Target = Annotated[str | None, column_of("edges", "that they point to.", "--target", PANEL)]
Kind = Annotated[str | None, column_of("edges", "with their kind.", "--kind", PANEL)]
Kinds = Annotated[
    list[str] | None,
    _panel("--kinds", metavar="KIND,KIND", help="Kinds of edges that count. Default: all."),
]
Direction = Annotated[
    Literal["both", "forward", "backward"] | None,
    _panel("--direction", help="Which way messages pass along an edge. Default: both."),
]
Unknown = Annotated[
    Literal["error", "drop", "add"] | None,
    _panel("--unknown", help="What to do with edges to ids that are no node. Default: error."),
]
Unlabeled = Annotated[
    list[str] | None,
    _panel("--unlabeled", metavar="TEXT,TEXT", help="Labels that mean none, like -1."),
]
Classes = Annotated[
    int | None,
    _panel("--classes", min=1, metavar="N", help="Number of classes. Default: as found."),
]
Database = Annotated[
    str | None,
    _panel(
        "--database",
        metavar="FILE",
        help="Database with the tables: a DuckDB file, or what DuckDB attaches, like "
        "postgres:dbname=shop.",
    ),
]
Encoding = Annotated[str | None, _panel("--encoding", help="Encoding of text files.")]
Memory = Annotated[
    str | None,
    _panel(
        "--memory",
        metavar="SIZE",
        help="The most memory that DuckDB uses, like 2GB; the rest goes to --temp. Default: 80% of "
        "the machine's.",
    ),
]
Temp = Annotated[
    Path | None, _panel("--temp", help="Folder for what exceeds --memory. Default: the system's.")
]
Threads = Annotated[
    int | None,
    _panel("--threads", min=1, metavar="N", help="Threads. Default: as many as there are cores."),
]


@dataclass(frozen=True)
class TableOptions:
    """The options of ``analyze`` that only tables have; None where they are not given."""

    id: str | None
    label: str | None
    source: str | None
    target: str | None
    kind: str | None
    kinds: list[str] | None
    direction: str | None
    unknown: str | None
    unlabeled: list[str] | None
    classes: int | None
    database: str | None
    encoding: str | None
    memory: str | None
    temp: Path | None
    threads: int | None

    def refuse(self) -> None:
        """Complain of options that say nothing without ``--sql``."""
        for field in fields(self):
            if getattr(self, field.name) is not None:
                raise InputError(
                    f"--{field.name} must come with --sql, for NODES EDGES; a GRAPH has no columns "
                    "('ncgnn import' makes one of tables)."
                )

    def as_arguments(self) -> dict[str, Any]:
        """What :func:`ncgnn.metrics.sql.confusion_by_sql` takes; defaults are left out."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        given["kinds"] = _names_of_kinds(self.kinds)
        given["unlabeled"] = read_list(self.unlabeled, "--unlabeled")
        given["num_classes"] = given.pop("classes")
        return {name: value for name, value in given.items() if value is not None}


def _names_of_kinds(kinds: list[str] | None) -> list[str] | None:
    # NC counts nodes, so that weights of kinds make no difference.
    return None if kinds is None else [*read_kinds(kinds)]


def analyze_tables(
    nodes: str,
    edges: str | None,
    options: TableOptions,
    hops: tuple[int, ...],
    threshold: float,
    out: Path | None,
    table_format: opt.TableFormat,
    *,
    force: bool,
    json: bool,
) -> None:
    """What ``analyze --sql`` does."""
    if edges is None:
        raise InputError("--sql needs two tables: ncgnn analyze NODES EDGES --sql --label COLUMN.")
    if options.label is None:
        raise InputError("--label must name the column of the nodes with the class.")
    paths: list[Path] = []
    if out is not None:
        paths = [out / f"nodes.{table_format}", out / "summary.json"]
        there = next((path for path in paths if path.exists()), None)
        if there is not None and not force:
            raise InputError(f"{there} exists; name another folder, or add --force to replace it.")
    with show_status("reading the tables") as status:
        analysis = ncgnn.metrics.sql.confusion_by_sql(
            nodes,
            edges,
            hops=hops,
            threshold=threshold,
            rows=False,
            out=paths[0] if paths else None,
            progress=status.update,
            **options.as_arguments(),
        )
        if paths:
            write_text(paths[1], dumps({"format": 1} | analysis.to_json(), indent=2) + "\n")
    _show(analysis, f"{nodes} and {edges}", json=json)
    if paths:
        note("Written:", *(f"  {path}" for path in paths))
    elif not json:
        note("Add --out FOLDER for a table with a row per node.")


def _show(analysis: SqlAnalysis, title: str, *, json: bool) -> None:
    if json:
        print_json(analysis.to_json())
    else:
        print_tables(*ncgnn.report.sql_tables(analysis, title), wide=False)


@command
def sql(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="nc or nh: a row per node; nodes: all of it; summary: counts and means; check: "
            "what is wrong with the tables.",
            autocompletion=opt.complete_from(lambda: _WHATS),
        ),
    ],
    nodes: Annotated[
        str, typer.Argument(metavar="NODES", help="Table of nodes, like schema.table, or a query.")
    ] = "nodes",
    edges: Annotated[
        str, typer.Argument(metavar="EDGES", help="Table of edges, likewise.")
    ] = "edges",
    dialect: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Database that it is for: {', '.join(_DIALECTS)}.",
            autocompletion=opt.complete_from(lambda: _DIALECTS),
        ),
    ] = "duckdb",
    id: Annotated[str, column_of("nodes", "with their ids.", "--id")] = "id",
    label: Annotated[str, column_of("nodes", "with the class, or NULL.", "--label")] = "label",
    source: Annotated[str, column_of("edges", "that they start from.", "--source")] = "source",
    target: Annotated[str, column_of("edges", "that they point to.", "--target")] = "target",
    kind: Annotated[str | None, column_of("edges", "with their kind.", "--kind")] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND,KIND", help="Kinds of edges that count. Default: all."),
    ] = None,
    direction: Annotated[
        Literal["both", "forward", "backward"],
        typer.Option(help="Which way messages pass along an edge."),
    ] = "both",
    unknown: Annotated[
        Literal["drop", "add"],
        typer.Option(help="What to do with edges to ids that are no node."),
    ] = "drop",
    unlabeled: Annotated[
        list[str] | None, typer.Option(metavar="TEXT,TEXT", help="Labels that mean none, like -1.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of classes. Default: as found.")
    ] = None,
    hops: Annotated[list[str], typer.Option(metavar="LIST", help="Hop counts k, like 1,2.")] = [  # noqa: B006
        "1"
    ],
    threshold: Annotated[float, typer.Option(help="In a summary, NC above it is high.")] = 0.5,
    json: opt.Json = False,
) -> None:
    """Print the SQL statement that computes NC or NH where the tables are.

    Plain names stand in it as they are given; others are quoted. Put quotes around a name whose
    capitals count.
    """
    text = ncgnn.metrics.sql.write_statement(
        what,  # pyright: ignore[reportArgumentType]  (a wrong word is told with the known ones)
        nodes,
        edges,
        dialect=dialect,
        id=id,
        label=label,
        source=source,
        target=target,
        kind=kind,
        kinds=_names_of_kinds(kinds),
        direction=direction,
        unknown=unknown,
        unlabeled=read_list(unlabeled, "--unlabeled") or (),
        hops=read_numbers(hops, "--hops"),
        num_classes=classes,
        threshold=threshold,
    )
    print_json({"dialect": dialect, "statement": text}) if json else emit(text, end="")
