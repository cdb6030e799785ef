"""The command line; commands use ``import ncgnn``, which imports on use, so that help is fast."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ncgnn._version import __version__
from ncgnn.cli import data, experiments, runs, sql, suspects, tables, train
from ncgnn.errors import visible


class OneLineGroup(TyperGroup):
    """Commands whose usage errors look like all others: ``error:`` and one sentence."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command; as a program of its own, exit with its code."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except Exception as error:  # Typer's own errors have no name that all versions share
            message = getattr(error, "format_message", None)
            if message is None:
                raise
            context = getattr(error, "ctx", None)
            if not message():  # no command was given, and the help was printed
                sys.exit(2)
            command = context.command_path if context else "ncgnn"
            text = str(message()).rstrip(".").replace("\n", " ").replace(": Value error,", ":")
            text += " See" if text.endswith("?") else "; see"
            print(f"error: {visible(text)} '{command} --help'.", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="ncgnn",
    cls=OneLineGroup,
    help="Separated learning for graphs with confused nodes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _command in (
    data.analyze,
    train.train,
    runs.evaluate,
    runs.predict,
    runs.explain,
    runs.report,
    suspects.suspects,
    runs.changes,
    train.tune,
    experiments.sweep,
    runs.results,
    experiments.reproduce,
    data.datasets,
    data.models,
    data.split,
    data.generate,
    sql.sql,
):
    app.command()(_command)
app.command("import")(tables.import_tables)


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
