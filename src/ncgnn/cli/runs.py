"""The commands about finished runs: results, evaluate, predict, explain, report and changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ncgnn
from ncgnn._io import as_path, write_text
from ncgnn.cli import options as opt
from ncgnn.cli.terminal import (
    check_for_spreadsheet,
    check_parent,
    command,
    emit,
    free_path,
    free_table,
    note,
    print_json,
    print_tables,
    read_list,
    read_paths,
    say,
    show_status,
)
from ncgnn.errors import InputError, NcgnnError

if TYPE_CHECKING:
    from ncgnn.experiments import Record
    from ncgnn.graph import Graph
    from ncgnn.report import Table
    from ncgnn.training import TrainedModel

#: At most so many runs that cannot be shown are named.
MOST_PROBLEMS = 5
EXPORTS = ("csv", "parquet", "md", "tex")


@command
def results(
    graphs: opt.Graphs = None,
    models: opt.Models = None,
    runs: opt.Runs = Path("runs"),
    stored: opt.Stored = None,
    split: opt.OnlySplit = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Compare all with this model, seed by seed, by a paired test."
        ),
    ] = None,
    by_true_group: Annotated[
        bool,
        typer.Option(
            "--by-true-group",
            help="Accuracy on nodes of low and of high NC by the true labels; with --against, the "
            "test on those of high NC.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the table: a .csv, .parquet, .md or .tex file."),
    ] = None,
    add_to: Annotated[
        Path | None,
        typer.Option(help="Add the runs, without weights, to a file of JSON lines."),
    ] = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Show finished runs: mean ± deviation over seeds, per model, graph and split family."""
    if out is not None:
        out = free_path(out, force)
        if out.suffix[1:] not in EXPORTS:
            raise InputError(f"--out must end in .{', .'.join(EXPORTS)}; got {out}.")
    wanted = _Filter(read_list(graphs, "GRAPH"), read_list(models, "--models"), split)
    every, problems = _read_records(runs, read_paths(stored, "--stored"))
    records = [record for record in every if wanted.includes(record.config)]
    if not records:
        raise InputError(_none_like_that(every, runs))
    problems = {path: text for path, text in problems.items() if wanted.may_include(path)}
    rows = ncgnn.experiments.results_table(records, against)
    remarks = list(ncgnn.experiments.uneven_efforts(rows))
    if by_true_group:
        groups = ncgnn.experiments.by_true_group(rows, against)
        if not groups:
            raise InputError("--by-true-group needs runs with test nodes; none of these have any.")
        tables = ncgnn.report.true_group_tables(groups)
        columns = ncgnn.report.true_group_columns(groups)
        remarks += ncgnn.experiments.other_divisions(groups, against) if against else []
    else:
        tables = ncgnn.report.results_tables(rows)
        columns = ncgnn.report.results_columns(rows)
    if json:
        print_json({"rows": _plain(columns), "problems": {str(p): t for p, t in problems.items()}})
    else:
        print_tables(*tables)
    if against is not None:
        remarks += ncgnn.experiments.without_pairs(rows, against)
    note(*(f"note: {remark}" for remark in remarks))
    if out is not None:
        _export(tables, columns, out)
        note("Written:", f"  {out}")
    if add_to is not None:
        count = ncgnn.experiments.write_stored(records, add_to)
        note(f"{count} new or changed runs added to {add_to}")
    note(*(f"no finished runs of {name}" for name in wanted.names_without_runs(every)))
    shown = [*problems.items()][:MOST_PROBLEMS]
    note(*(f"not shown: {path}: {problem}" for path, problem in shown))
    if len(problems) > MOST_PROBLEMS:
        note(f"{len(problems) - MOST_PROBLEMS} more are not shown; --json lists all")


@dataclass(frozen=True)
class _Filter:
    """The runs to show; None means all."""

    graphs: tuple[str, ...] | None
    models: tuple[str, ...] | None
    split: str | None

    def includes(self, config: dict[str, Any]) -> bool:
        """Whether a run with this configuration is shown."""
        data, graph = config["data"], Path(config["data"]["dataset"])
        named = set[str]()
        for name in self.graphs or ():
            # A path need not exist any more.
            named |= {
                name,
                str(as_path(name).resolve()),
                ncgnn.training.locate_dataset(name),
            }
        return (
            (self.graphs is None or bool({str(graph), graph.name, graph.stem} & named))
            and (self.models is None or config["model"]["name"] in self.models)
            and (self.split is None or data["split"] == self.split)
        )

    def may_include(self, run: Path) -> bool:
        """Whether a damaged or unfinished run would be shown, as far as is known."""
        try:
            config = ncgnn.training.RunFolder(run).read_config().model_dump(mode="json")
        except (NcgnnError, OSError):
            return True
        return self.includes(config)

    def names_without_runs(self, records: list[Record]) -> list[str]:
        """The graphs and models that no run has."""
        singles = {name: _Filter((name,), None, None) for name in self.graphs or ()}
        singles |= {name: _Filter(None, (name,), None) for name in self.models or ()}
        return [
            name
            for name, one in singles.items()
            if not any(one.includes(record.config) for record in records)
        ]


def _read_records(runs: Path, stored: list[Path]) -> tuple[list[Record], dict[Path, str]]:
    """Stored and finished runs, each once, and what is wrong with other folders."""
    # One configuration may have been trained on two contents of a file.
    found = {
        (record.name, record.graph): record
        for path in stored
        for record in ncgnn.experiments.read_stored(path)
    }
    if stored and not runs.is_dir():
        return list(found.values()), {}
    records, problems = ncgnn.experiments.read_runs(runs)
    for record in records:
        found.pop((record.name, ""), None)  # stored before the graph's hash was
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


def _export(tables: list[Table], columns: dict[str, Any], path: Path) -> None:
    """Write results in the format that the ending of the file's name says."""
    report, kind = ncgnn.report, path.suffix[1:]
    if kind == "csv" or kind == "parquet":
        report.write_columns(columns, path, kind)
        return
    render = report.Table.markdown if kind == "md" else report.Table.latex
    write_text(path, "\n".join(render(table) for table in tables))


def _plain(columns: dict[str, Any]) -> list[dict[str, Any]]:
    count = len(next(iter(columns.values()), ()))
    return [
        {name: _json_value(values[place]) for name, values in columns.items()}
        for place in range(count)
    ]


def _json_value(value: Any) -> Any:
    plain = value.item()
    return None if plain != plain else plain  # NaN is the only value that differs from itself


@command
def evaluate(
    run: opt.Run,
    graph: opt.MovedGraph = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Compare with this run on the same test nodes, node by node."
        ),
    ] = None,
    coverage: Annotated[
        float,
        typer.Option(metavar="SHARE", help="How often prediction sets should hold the class."),
    ] = 0.9,
    device: opt.Device = None,
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    json: opt.Json = False,
) -> None:
    """Evaluate a finished run again from its weights: scores per class and place, and sets.

    Intervals are 95 % ones over nodes: they say nothing of other seeds or splits, for which
    'ncgnn results --against' has a test.
    """
    mine = _folder(run, runs)
    other = None if against is None else _folder(against, runs)
    if other is not None and other.resolve() == mine.resolve():
        raise InputError(f"--against must be another run; got {mine.name} on both sides.")
    trained = _load(mine, data_dir, device, graph, refit=False)
    second = None if other is None else _load(other, data_dir, device, graph, refit=False)
    with show_status("evaluating"):
        result = trained.evaluate(against=second, coverage=coverage)
    if other is not None:
        result["against"] = {"run": other.name} | result["against"]
    if json:
        print_json(result)
    else:
        print_tables(*ncgnn.report.evaluation_tables(result, trained.config), wide=False)
        print_tables(*ncgnn.report.trust_tables(result, all_classes=False), wide=False)


@command
def predict(
    run: opt.Run,
    graph: opt.OtherGraph = None,
    nodes: opt.NewNodes = None,
    edges: opt.NewEdges = None,
    unknown: opt.UnknownEnds = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .tsv, .parquet or .feather file. Default: answers.csv in the run."
        ),
    ] = None,
    only: Annotated[
        Literal["all", "unlabeled", "test", "new"] | None,
        typer.Option(help="Which nodes to answer for. Default: new with --nodes, otherwise all."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, metavar="K", help="Columns for the K most probable classes.")
    ] = 0,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A column with the probability of every class.")
    ] = False,
    update_old: Annotated[
        bool, typer.Option("--update-old", help="Give old nodes new answers beside new neighbors.")
    ] = False,
    coverage: opt.Coverage = None,
    sets: opt.Sets = None,
    sets_by: opt.SetsBy = None,
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty", help="Leave sets empty where no class is usual enough for the node."
        ),
    ] = False,
    refit: opt.UseRefitted = True,
    all_seeds: Annotated[
        bool,
        typer.Option(
            "--all-seeds",
            help="For nodes without a label and new ones, the mean of all runs that differ by the "
            "seed alone; with auto, of what it chose for each seed.",
        ),
    ] = False,
    device: opt.Device = None,
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    for_spreadsheet: opt.ForSpreadsheet = False,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Answer for the nodes of the run's graph, for new ones, or for those of another graph.

    A row per node: id, part, label, predicted class, probability, runner-up, NC, kind, group and
    whether its label was trained on. NC and kind are those among the labels of training nodes and
    the predictions of all others. With --coverage also a set of classes and its size.
    """
    if coverage is not None:
        ncgnn.training.check_coverage(coverage)
    elif sets is not None or sets_by is not None or allow_empty:
        raise InputError("--sets, --sets-by and --allow-empty need --coverage; give one, like 0.9.")
    sets, sets_by = sets or "lac", sets_by or "nc"
    folder = _folder(run, runs)
    ncgnn.training.RunFolder(folder).check()
    path = free_table(out or folder / "answers.csv", force)
    check_for_spreadsheet(for_spreadsheet, path.suffix)
    new = (nodes, edges, unknown)
    trained, asked = _load_extended(folder, data_dir, device, graph, *new, refit=refit)
    wanted = only or ("all" if nodes is None else "new")
    beside = ncgnn.training.find_other_seeds(folder) if all_seeds and wanted != "test" else []
    others = [_load(one, data_dir, device, None, refit=refit) for one in beside]
    with show_status("answering"):
        answers = trained.predict(
            asked,
            only=wanted,
            top=top,
            probabilities=probabilities,
            update_old=update_old,
            others=others,
            coverage=coverage,
            sets=sets,
            sets_by=sets_by,
            allow_empty=allow_empty,
        )
    answers.write(path, for_spreadsheet=for_spreadsheet)
    if graph is None and (remark := _about_age(trained)) is not None:
        note(remark)
    every = [trained, *others]
    refitted = wanted != "test" and all(one.refitted is not None for one in every)
    said = {"path": str(path), "run": str(folder), "refitted": refitted}
    said |= {"seeds": [one.config.training.seed for one in every], **answers.summary()}
    if coverage is not None:
        said |= {"coverage": coverage, "sets": sets, "sets_by": sets_by}
        said["remark"] = trained.set_rule(coverage, sets, sets_by).about_groups()
    said |= {} if nodes is None else _describe_extension(asked)
    if json:
        print_json(said)
    else:
        say(*_summary_lines(said))


@command
def explain(
    run: opt.Run,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The id of a node.")],
    graph: opt.OtherGraph = None,
    nodes: opt.NewNodes = None,
    edges: opt.NewEdges = None,
    unknown: opt.UnknownEnds = None,
    neighbors: Annotated[
        int, typer.Option(min=0, metavar="N", help="Leave out at most N neighbors one by one.")
    ] = 20,
    features: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the N strongest single features.")
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write a page (.html) or a table (.csv, .tsv, .parquet, .feather)."),
    ] = None,
    refit: opt.UseRefitted = True,
    device: opt.Device = None,
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    for_spreadsheet: opt.ForSpreadsheet = False,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Explain the answer for one node: what it would be without parts of it.

    Neighbors, features and columns are left out in turn, and the model computes the answer again:
    every effect is exact. Groups of separated models stay as they are.
    """
    folder = _folder(run, runs)
    ncgnn.training.RunFolder(folder).check()
    if out is not None:
        out = free_path(out, force)
        ncgnn.report.check_explanation_path(out)
        check_parent(out)
    check_for_spreadsheet(for_spreadsheet, out and out.suffix)
    new = (nodes, edges, unknown)
    trained, asked = _load_extended(folder, data_dir, device, graph, *new, refit=refit)
    with show_status("explaining"):
        found = trained.explain(node, asked, neighbors=neighbors, features=features)
    if out is not None:
        ncgnn.report.write_explanation(found, out, for_spreadsheet=for_spreadsheet)
    if json:
        print_json(found.to_json())
    else:
        say(*found.sentences())
        say(f"By {folder.name}, {_answering_weights(found.refitted, trained)}.")
        print_tables(*ncgnn.report.explanation_tables(found), wide=False)
    if out is not None:
        note("Written:", f"  {out}")


def _about_age(trained: TrainedModel) -> str | None:
    """Say that a run's dataset folder holds something else by now."""
    data = trained.config.data
    if data.fingerprint is None or not ncgnn.data.is_folder(data.dataset):
        return None
    if ncgnn.data.folder_sha256(ncgnn.data.read_manifest(data.dataset)) == data.fingerprint:
        return None
    return (
        f"note: {data.dataset} has changed since this run was trained; the answers are of its "
        "content then. 'ncgnn train' makes a new run."
    )


def _answering_weights(refitted: bool, trained: TrainedModel) -> str:
    """Which of a run's weights have answered for a node."""
    if refitted:
        return "with weights refitted on all labels"
    if trained.refitted is not None:
        return "with its own weights, not the refitted ones, as the node has a label"
    return "with its own weights"


def _load_extended(
    folder: Path,
    data_dir: Path | None,
    device: str | None,
    graph: str | None,
    nodes: Path | None,
    edges: Path | None,
    unknown: Literal["error", "drop"] | None,
    *,
    refit: bool,
) -> tuple[TrainedModel, Graph | None]:
    """A run, and the graph to answer for unless it is the run's own, with new nodes if given."""
    if edges is not None and nodes is None:
        raise InputError("--edges come with --nodes; give both.")
    trained, other = _load_beside(folder, data_dir, device, graph, refit=refit)
    if nodes is None:
        return trained, other
    base, options = trained.graph if other is None else other, {"unknown": unknown}
    return trained, base.extend(nodes, edges, **options if base.source is not None else {})


def _load_beside(
    folder: Path, data_dir: Path | None, device: str | None, graph: str | None, *, refit: bool
) -> tuple[TrainedModel, Graph | None]:
    """A run, and the graph that is named beside it unless that is the run's own, moved."""
    if graph is None:
        return _load(folder, data_dir, device, None, refit=refit), None
    given = ncgnn.load(graph, data_dir)
    stated = ncgnn.training.RunFolder(folder).read_json(ncgnn.training.ENVIRONMENT)
    moved = given.fingerprint == stated.get("graph_sha256")
    trained = _load(folder, data_dir, device, graph if moved else None, refit=refit)
    return trained, None if moved else given


def _describe_extension(graph: Graph | None) -> dict[str, Any]:
    """What the tables of new nodes held that the first ones did not, where it is known."""
    report = getattr(graph.source if graph is not None else None, "report", None)
    if report is None:
        return {}
    return {
        "unseen": {name: found.rows for name, found in report.unseen.items() if found.rows},
        "known_rows": report.known,
        "dropped_edges": report.links.unknown_rows,
        "other_labels": dict(report.other_labels),
    }


def _summary_lines(said: dict[str, Any]) -> list[str]:
    """What was answered, in a few lines."""
    lines = [f"{said['answers']:,} answers"]
    if said["answers"]:
        lines[0] += f", mean probability {said['mean_probability']:.3f}"
        if said["seen"]:
            lines[0] += f" without {said['seen']:,} that were trained on"
        kinds = [f"{count:,} {kind}" for kind, count in said["kinds"].items() if count]
        lines.append(f"kinds: {', '.join(kinds) or 'none known'}")
    if "mean_set_size" in said:
        lines.append(
            f"sets at {100 * said['coverage']:g} %: {said['mean_set_size']:.2f} classes on "
            f"average; {said['single_class_sets']:.0%} of them are a single class"
        )
        lines += [said["remark"]] if said.get("remark") else []
    if said["new_nodes"]:
        lines.append(
            f"probabilities, and what sets promise, are for nodes like those of validation; "
            f"{said['new_nodes']:,} came after training and may be of another kind"
        )
        if said["kinds"]["alone"] == said["answers"] > 1:
            lines.append("none of them has an edge: are theirs in a file for --edges?")
    if said["added_nodes"]:
        lines.append(
            f"{said['added_nodes']:,} of them (part: added) are named by edges alone and have no "
            "features: they are unlike those of validation, and neither their probabilities nor "
            "their sets can be relied on"
        )
    if unseen := said.get("unseen"):
        counts = [f"{rows:,} in {column}" for column, rows in unseen.items()]
        lines.append(f"rows with values or words that training did not know: {', '.join(counts)}")
    if said.get("known_rows"):
        lines.append(f"{said['known_rows']:,} rows left out: the graph has these nodes already")
    if said.get("dropped_edges"):
        lines.append(f"{said['dropped_edges']:,} edges left out: an end of them is no node")
    if other := said.get("other_labels"):
        lines.append(f"labels that are no class of training: {', '.join(list(other)[:5])}")
    how = ", refitted on all labels where a node has none" if said["refitted"] else ""
    runs = f"by {Path(said['run']).name}"
    if len(said["seeds"]) > 1:
        others = len(said["seeds"]) - 1
        runs += f" and the runs of {others} other {'seed' if others == 1 else 'seeds'}"
    return [*lines, f"{runs}{how}", f"written: {said['path']}"]


@command
def report(run: opt.RunList, runs: opt.Runs = Path("runs"), json: opt.Json = False) -> None:
    """Write report.html and figures into finished runs, or into all runs of a folder."""
    done = ncgnn.training.DONE
    folders: list[Path] = []
    for path in (_folder(name, runs) for name in run):
        runs_there = ncgnn.training.run_folders(path) if path.is_dir() else []
        inside = [one for one in runs_there if (one / done).is_file()]
        folders += inside if inside and not (path / done).is_file() else [path]
    written: list[str] = []
    for folder in map(ncgnn.training.RunFolder, folders):
        try:
            folder.check()
            page, *_ = ncgnn.report.write_run_report(folder)
        except NcgnnError as error:
            if len(folders) == 1:
                raise
            note(f"error: no report: {error}")
            continue
        written.append(str(page))
        if not json:
            emit(str(written[-1]))
    if json:
        print_json({"reports": written})
    if len(written) < len(folders):
        raise typer.Exit(1)


@command
def changes(
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE",
            help="A finished run (its folder, its name under --runs, or latest), a folder that "
            "'ncgnn import' wrote, an npz file, or a name that 'ncgnn datasets' lists.",
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The later one, likewise.")],
    data_dir: opt.DataDir = None,
    runs: opt.Runs = Path("runs"),
    json: opt.Json = False,
) -> None:
    """Show what has changed between two graphs: rows, labels, classes, drift, NC.

    Nodes are matched by their ids. A drift stands out if it is large (a stability index of 0.1, a
    tenth of a deviation, one word in twenty) and if chance does not explain it.
    """
    with show_status("comparing"):
        first, second = (_find_graph(name, runs, data_dir) for name in (before, after))
        found = ncgnn.compare_graphs(first[0], second[0])
        found = replace(found, names=(first[1], second[1]))
    if json:
        print_json(found.to_json())
    else:
        print_tables(*ncgnn.report.changes_tables(found), wide=False)


def _find_graph(name: str, runs: Path, data_dir: Path | None) -> tuple[Graph, str]:
    """The graph of a run, or one that is named itself, and what it is called: the run, or so."""
    folder = ncgnn.training.RunFolder(_folder(name, runs))
    if not folder.is_done():
        return ncgnn.load(name, data_dir), name
    folder.check()
    return ncgnn.training.load_graph(folder, data_dir), folder.path.name


def _load(
    folder: Path,
    data_dir: Path | None,
    device: str | None,
    graph: str | None,
    *,
    refit: bool,
) -> TrainedModel:
    with show_status("reading the run"):
        return ncgnn.load_run(folder, data_dir, device, graph, refit=refit)


def _folder(run: str, runs: Path) -> Path:
    """The folder of a run that is named by its path, or by its name under ``--runs``."""
    named, inside = as_path(run), runs / run
    by_name = not named.exists() and (inside.exists() or len(named.parts) == 1)
    return ncgnn.training.find_run(inside if by_name else named)
