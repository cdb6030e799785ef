"""The commands that need no run: analyze, datasets, models, split and generate."""

from __future__ import annotations

from dataclasses import asdict
from json import loads as read_json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ncgnn
from ncgnn.cli import options as opt
from ncgnn.cli import sql
from ncgnn.cli.terminal import (
    check_for_spreadsheet,
    command,
    free_folder,
    free_path,
    note,
    print_json,
    print_tables,
    read_fractions,
    read_numbers,
    say,
    show_status,
)
from ncgnn.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from ncgnn.data import Split, SplitReport
    from ncgnn.graph import Graph
    from ncgnn.report import Table


@command
def analyze(
    graph: opt.Graph,
    edges: Annotated[
        str | None,
        typer.Argument(
            metavar="EDGES", help="With --sql, where GRAPH is the table of nodes: that of edges."
        ),
    ] = None,
    hops: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST", help="Hop counts k of NC and entropy. Default: 1,2; with --sql 1."
        ),
    ] = None,
    threshold: Annotated[float, typer.Option(help="NC above it counts as high.")] = 0.5,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html, summary.json, tables of nodes, figures."),
    ] = None,
    table_format: Annotated[
        opt.TableFormat, typer.Option("--format", help="Format of the tables of nodes.")
    ] = "csv",
    related: Annotated[
        bool,
        typer.Option(
            "--related",
            help="Add metrics of other papers: 2NCS, local assortativity, aggregation similarity, "
            "density-aware homophily.",
        ),
    ] = False,
    data_dir: opt.DataDir = None,
    by_sql: Annotated[
        bool,
        typer.Option(
            "--sql",
            help="Measure NC and NH of two tables, NODES EDGES, where they are: Parquet, CSV or a "
            "database, by DuckDB, also beyond memory.",
        ),
    ] = False,
    id: sql.Id = None,
    label: sql.Label = None,
    source: sql.Source = None,
    target: sql.Target = None,
    kind: sql.Kind = None,
    kinds: sql.Kinds = None,
    direction: sql.Direction = None,
    unknown: sql.Unknown = None,
    unlabeled: sql.Unlabeled = None,
    classes: sql.Classes = None,
    database: sql.Database = None,
    encoding: sql.Encoding = None,
    memory: sql.Memory = None,
    temp: sql.Temp = None,
    threads: sql.Threads = None,
    for_spreadsheet: opt.ForSpreadsheet = False,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Measure how confused the nodes of a graph are, and name those that stand out."""
    options = sql.TableOptions(
        *(id, label, source, target, kind, kinds, direction, unknown, unlabeled, classes),
        *(database, encoding, memory, temp, threads),
    )
    counts = read_numbers(hops or (["1"] if by_sql else ["1,2"]), "--hops")
    out = None if out is None else free_folder(out)
    if by_sql:
        if related or data_dir is not None or for_spreadsheet:
            raise InputError(
                "--related, --data-dir and --for-spreadsheet must come without --sql; remove them."
            )
        sql.analyze_tables(
            graph, edges, options, counts, threshold, out, table_format, force=force, json=json
        )
        return
    options.refuse()
    check_for_spreadsheet(for_spreadsheet, out and table_format)
    if edges is not None:
        raise InputError(f"two tables, {graph} and {edges}, need --sql and --label COLUMN.")
    _analyze_graph(
        graph, counts, threshold, out, table_format, for_spreadsheet, related, data_dir, force, json
    )


def _analyze_graph(
    graph: str,
    hops: tuple[int, ...],
    threshold: float,
    out: Path | None,
    table_format: opt.TableFormat,
    for_spreadsheet: bool,
    related: bool,
    data_dir: Path | None,
    force: bool,
    json: bool,
) -> None:
    paths: list[Path] = []
    with show_status("reading the graph") as status:
        loaded = ncgnn.load(graph, data_dir)
        if out is not None and not force:
            _check_report(out, loaded.name)
        status.update("measuring (the first time also compiles, once per machine)")
        analysis = ncgnn.analyze(loaded, hops=hops, threshold=threshold, related=related)
        if out is not None:
            status.update("writing tables and figures")
            paths = ncgnn.report.write_analysis(
                analysis, out, table_format, for_spreadsheet=for_spreadsheet
            )
    if json:
        print_json(analysis.to_json())
    else:
        striking = [one for one in ncgnn.report.striking_tables(analysis, 10, 4) if one.rows]
        print_tables(*ncgnn.report.analysis_tables(analysis), *striking, wide=False)
    if paths:
        note("Written:", *(f"  {path}" for path in paths))
    elif not json:
        note("Add --out FOLDER for fifty nodes of each list, every node, pictures and a report.")


def _check_report(folder: Path, name: str) -> None:
    """Refuse to replace the report of another graph."""
    try:
        there = read_json((folder / "summary.json").read_bytes()).get("name", name)
    except (OSError, ValueError, AttributeError):
        return
    if there != name:
        raise InputError(
            f"{folder} holds the report of {there}; name another folder, or add --force to "
            "replace it."
        )


@command
def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show everything about one dataset.")
    ] = None,
    data_dir: opt.DataDir = None,
    json: opt.Json = False,
) -> None:
    """List the known datasets and which of them are on this machine."""
    known = ncgnn.data.list_datasets() if name is None else [ncgnn.data.find_dataset(name)]
    rows: list[dict[str, Any]] = []
    for one in known:
        path = ncgnn.data.find_stored(one.name, data_dir)
        rows.append(asdict(one) | {"at_hand": None if path is None else str(path)})
    if json:
        print_json({"datasets": rows})
    else:
        print_tables(_overview(rows) if name is None else _details(rows[0]), wide=False)


def _overview(rows: list[dict[str, Any]]) -> Table:
    sizes = ("nodes", "edges", "features", "classes")
    lines = [
        (
            row["name"],
            *("?" if row[key] is None else f"{row[key]:,}" for key in sizes),
            *("yes" if row[key] else "" for key in ("in_paper", "at_hand")),
        )
        for row in rows
    ]
    head = ("name", *sizes, "paper", "at hand")
    return ncgnn.report.Table("", head, tuple(lines), compact=True, unbroken=tuple(range(7)))


def _details(row: dict[str, Any]) -> Table:
    shown = row | {"files": "\n".join(file["url"] for file in row["files"])}
    lines = [(key, str(value)) for key, value in shown.items() if value not in (None, "")]
    return ncgnn.report.Table(row["name"], (), tuple(lines), left=2, unbroken=(0,))


@command
def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show one model, with all its options.")
    ] = None,
    json: opt.Json = False,
) -> None:
    """List the known models, or show the options of one."""
    # Names of classes and of other packages' models may hold capitals.
    if name is not None and name not in ncgnn.nn.model_names():
        name = name.lower()
    known = [*ncgnn.nn.model_names(), *ncgnn.paper.published("listed")]
    if name is not None and name not in known:
        raise UnknownNameError("model", name, known)
    rows = [_model_facts(one) for one in known] if name is None else [_all_model_facts(name)]
    if json:
        print_json({"models": rows})
        return
    report = ncgnn.report
    tables = report.model_tables(rows) if name is None else report.model_details(rows[0])
    print_tables(*tables, wide=False)


def _model_facts(name: str) -> dict[str, Any]:
    """What the list says of a model."""
    listed = ncgnn.paper.published("listed").get(name)
    if listed is not None:
        printed = ncgnn.paper.published("leaderboard")[name]
        return {
            "name": name,
            **listed,
            "memory": None,
            "edges": None,
            "edge_weights": None,
            "implemented": False,
            "published": {dataset: mean for dataset, (mean, _) in printed.items()},
        }
    kind = ncgnn.nn.model_class(name)
    return {
        "name": name,
        "title": kind.title,
        "family": kind.family,
        "memory": kind.memory,
        "edges": kind.edges,
        "edge_weights": kind.uses_weights and kind.edges != "none",
        "paper": kind.paper,
        "implemented": True,
        "published": {},
    }


def _all_model_facts(name: str) -> dict[str, Any]:
    """All that is known of a model."""
    facts = _model_facts(name)
    if not facts["implemented"]:
        return facts
    preset, has_own_values = ncgnn.training.preset, ncgnn.training.has_own_values
    kind = ncgnn.nn.model_class(name)
    own = {one.name: preset(name, one.name) for one in ncgnn.data.list_datasets()}
    return facts | {
        "about": (kind.__doc__ or "").strip().partition("\n")[0],
        "presets": {
            "every_graph": preset(name, ""),
            "datasets": [dataset for dataset in own if has_own_values(name, dataset, None)],
            "searched": ncgnn.training.searched_datasets(name),
            "row_scaled": [
                dataset
                for dataset, tree in own.items()
                if tree.get("data", {}).get("scaling") == "row"
            ],
        },
        "options": ncgnn.report.option_facts(kind.Options),
    }


@command
def split(
    graph: opt.Graph,
    split: opt.Split = None,
    fractions: opt.Fractions = None,
    seed: opt.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="File to save the split to, as JSON.")] = None,
    force: opt.Force = False,
    data_dir: opt.DataDir = None,
    json: opt.Json = False,
) -> None:
    """Make a split and report what it holds.

    Families: stratified (60/20/20 within every class), paper (a fixed count per class in train),
    published (masks that ship with the graph), planetoid, uniform, and time (earlier nodes train,
    later ones test).
    """
    out = None if out is None else free_path(out, force)
    loaded = ncgnn.load(graph, data_dir)
    shares = ncgnn.data.DEFAULT_FRACTIONS if fractions is None else read_fractions(fractions)
    made = ncgnn.make_split(loaded, split or "stratified", seed, fractions=shares)
    report = ncgnn.split_report(made, loaded.labels, loaded.num_classes)
    if out is not None:
        made.save(out)
    if json:
        print_json({"graph": loaded.name} | report.to_json())
    else:
        print_tables(_split_table(made, report, loaded), wide=False)
    if out is not None:
        note("Written:", f"  {out}")


def _split_table(made: Split, report: SplitReport, graph: Graph) -> Table:
    names = graph.class_names or tuple(str(label) for label in range(graph.num_classes))
    parts = (report.train, report.val, report.test)
    rows: list[tuple[str, ...]] = [
        (name, *(f"{part.class_counts[label]:,}" for part in parts))
        for label, name in enumerate(names)
    ]
    rows += [(), ("all", *(f"{part.size:,} ({part.share:.0%})" for part in parts))]
    notes = [f"SHA-256: {made.sha256}"]
    if report.majority_class is not None:
        answer, right = names[report.majority_class], f"{report.majority_baseline:.1%}"
        notes.insert(0, f"Always answering class {answer} is right on {right} of the test nodes.")
    title = f"{graph.name}: {made.family} split ({made.origin}), seed {made.seed}"
    head = ("class", "train", "validation", "test")
    return ncgnn.report.Table(title, head, tuple(rows), tuple(notes))


@command
def generate(
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")],
    edges: Annotated[int, typer.Option(min=0, help="Number of undirected edges.")],
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
    classes: Annotated[int, typer.Option(min=1, help="Number of classes.")] = 2,
    homophily: Annotated[
        float, typer.Option(min=0, max=1, help="Chance of drawing a neighbor of the same class.")
    ] = 0.8,
    confused_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of nodes with --confused-homophily.")
    ] = 0.0,
    confused_homophily: Annotated[
        float, typer.Option(min=0, max=1, help="Homophily of those nodes.")
    ] = 0.2,
    features: Annotated[int, typer.Option(min=0, help="Number of features.")] = 0,
    feature_signal: Annotated[
        float, typer.Option(min=0, help="Distance of the class means from the center.")
    ] = 1.0,
    seed: opt.Seed = 0,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Generate a block-model graph with homophilous and confused nodes."""
    out = free_path(out, force)
    options: dict[str, Any] = {"homophily": homophily}
    if confused_share > 0:
        shares = ((1 - confused_share, homophily), (confused_share, confused_homophily))
        options = {"groups": shares}
    options |= {"classes": classes, "features": features, "feature_signal": feature_signal}
    graph = ncgnn.generate(nodes, edges, name=out.stem, seed=seed, **options)
    path = ncgnn.save(graph, out)
    print_json({"path": str(path)}) if json else say(str(path))
