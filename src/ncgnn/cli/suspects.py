"""The command about labels that may be wrong: suspects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ncgnn
from ncgnn._memory import keep_freed_memory
from ncgnn.cli import options as opt
from ncgnn.cli.terminal import (
    check_for_spreadsheet,
    command,
    free_table,
    note,
    print_json,
    print_tables,
    read_settings,
    say,
)

if TYPE_CHECKING:
    from ncgnn.report import Table
    from ncgnn.training import Suspects

#: So many are shown on a terminal; --out writes all.
MOST_SHOWN = 20


@command
def suspects(
    graph: opt.Graph,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The model of graph and features, as 'ncgnn models' lists them.",
            autocompletion=opt.complete_model,
        ),
    ] = "tuned-sage",
    folds: Annotated[
        int, typer.Option(min=2, metavar="N", help="Parts, each judged by models without it.")
    ] = 5,
    only: Annotated[
        Literal["suspects", "all"],
        typer.Option(help="List the labels that are called suspects, or all with their scores."),
    ] = "suspects",
    top: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="List the K most suspect at most.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the list, a .csv, .tsv, .parquet or .feather file."),
    ] = None,
    settings: opt.Settings = None,
    seed: opt.Seed = 0,
    device: opt.Device = None,
    data_dir: opt.DataDir = None,
    for_spreadsheet: opt.ForSpreadsheet = False,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """List labels that are probably wrong, the most suspect first, with the reason.

    Every label is judged by models that were trained without it, of the graph and of the features
    alone, and by the labels around it. A score is the probability that the label is wrong. An
    interrupted search begins anew.
    """
    out = None if out is None else free_table(out, force)
    check_for_spreadsheet(for_spreadsheet, out and out.suffix)
    said = read_settings(settings, dataset=graph, name=model, device=device)
    ncgnn.training.check_options(said, ncgnn.nn.model_name(model))
    # By their full names, so that none is taken for an argument.
    chosen = {".".join(ncgnn.training.find_option(key)): value for key, value in said.items()}
    loaded = ncgnn.load(graph, data_dir)
    from ncgnn.cli.progress import FoldProgress

    keep_freed_memory()
    with FoldProgress(folds) as progress:
        found = ncgnn.find_suspects(
            loaded,
            model,
            folds=folds,
            seed=seed,
            device=device or "cpu",
            only=only,
            top=top,
            on_fold=progress.done,
            **chosen,
        )
    if out is not None:
        found.write(out, for_spreadsheet=for_spreadsheet)
    if json:
        print_json({**found.summary(), "path": None if out is None else str(out), "rows": [*found]})
    else:
        if len(found):
            print_tables(suspects_table(found))
        else:
            say(*_nothing_found(found.summary()))
            note("--only all lists all labels, the most suspect first.")
        if out is not None:
            note(f"Written: {out}")
        elif len(found) > MOST_SHOWN:
            note(f"--out FILE writes all {len(found):,}.")


def suspects_table(found: Suspects, most: int = MOST_SHOWN) -> Table:
    """The most suspect labels, for a terminal."""
    said = found.summary()
    noun = "suspect" if said["suspects"] == 1 else "suspects"
    rows: list[tuple[str, ...]] = []
    for place, row in enumerate(found):
        if place == most:
            break
        words = [str(row[name]) for name in ("id", "label", "suggested")]
        rows.append((*words, f"{row['score']:.2f}", row["reason"] or "nothing contradicts it"))
    return ncgnn.report.Table(
        f"{said['suspects']:,} {noun} among {said['judged']:,} labels",
        ("id", "label", "suggested", "wrong", "reason"),
        tuple(rows),
        (_about(said),),
        left=5,
        compact=True,
        widths={0: 28, 1: 16, 2: 16},
        unbroken=(3,),
    )


def _nothing_found(said: dict[str, Any]) -> list[str]:
    """What is said in place of a table without rows."""
    return [f"No label is called a suspect, of {said['judged']:,} that were judged.", _about(said)]


def _about(said: dict[str, Any]) -> str:
    """How many labels are estimated to be wrong, and whom that was believed from."""
    weights = ", ".join(f"{name} {value:.2f}" for name, value in said["weights"].items())
    count = round(said["estimated"])
    some = "About one label" if count == 1 else f"About {count:,} labels" if count else "No label"
    verb = "are" if count > 1 else "is"
    share = f" ({said['estimated'] / said['judged']:.1%})" if count else ""
    return (
        f"{some}{share} {verb} estimated to be wrong. 'wrong' is a probability. "
        f"Weights of opinions: {weights}."
    )
