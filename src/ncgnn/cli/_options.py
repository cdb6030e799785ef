"""Options that mean the same in every command, and the way errors reach the user."""

from __future__ import annotations

import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from ncgnn.errors import InputError, NcgnnError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH", help="A name that 'ncgnn datasets' lists, or the path of an npz file."
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="NCGNN_DATA",
        help="Folder with npz files, looked at before the cache and before any download.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of tables.")
]
SplitOption = Annotated[
    str, typer.Option("--split", help="Split family; 'ncgnn split --help' lists them.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]


def one_clear_error(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the package's own errors into one line on standard error and exit code 2."""

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except NcgnnError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            print(f"error: {error.strerror or error}{where}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            print(
                "interrupted: files that were finished are whole.",
                file=sys.stderr,
            )
            raise typer.Exit(130) from None

    return guarded


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Read ``"1,2"``; the error names the option."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1 or len(set(numbers)) != len(numbers):
        raise InputError(f"{option} is '{text}'; give different whole numbers from 1, like 1,2.")
    return numbers


def print_json(value: Any) -> None:
    """Print one JSON object on standard output."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
