"""The command line. Heavy imports happen inside the commands, so that help answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

from ncgnn._version import __version__
from ncgnn.cli import _analyze, _data, _models, _reproduce, _results, _sweep, _train, _tune, _use
from ncgnn.cli._group import OneLineGroup

app = typer.Typer(
    name="ncgnn",
    cls=OneLineGroup,
    help="Separated learning for graphs with confused nodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    _analyze.analyze,
    _train.train,
    _use.evaluate,
    _use.predict,
    _use.report,
    _tune.tune,
    _sweep.sweep,
    _results.results,
    _reproduce.reproduce,
    _data.datasets,
    _models.models,
    _data.split,
    _data.generate,
    _analyze.theory,
):
    app.command()(command)


def _version(value: bool) -> None:
    if value:
        print(f"ncgnn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Separated learning for graphs with confused nodes."""


def main() -> None:
    """Run the command line."""
    app()
