"""Options that mean the same in every command, and the way errors reach the user."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from ncgnn.errors import InputError, NcgnnError

if TYPE_CHECKING:
    from collections.abc import Callable


class TableFormat(StrEnum):
    """Formats of per-node tables."""

    csv = "csv"
    parquet = "parquet"


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
        help="Folder with npz files, looked at before the one that NCGNN_DATA names.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of tables.")
]
SplitOption = Annotated[
    str,
    typer.Option(
        "--split", help="Split family: stratified, paper, published, planetoid or uniform."
    ),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu (the default), cuda, mps.")]
RunsOption = Annotated[
    Path, typer.Option("--runs", help="Folder of all runs, one folder in it per run.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
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
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except OSError as error:
            print(f"error: {_about_file(error)}", file=sys.stderr)
            raise typer.Exit(2) from None
        except (MemoryError, OverflowError):
            print("error: this does not fit into memory; ask for less.", file=sys.stderr)
            raise typer.Exit(2) from None
        except RuntimeError as error:  # how torch says that memory does not suffice
            if "allocate" not in str(error):
                raise
            print("error: this does not fit into memory; ask for less.", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            print(
                "interrupted: files that were finished are whole.",
                file=sys.stderr,
            )
            raise typer.Exit(130) from None

    return guarded


def _about_file(error: OSError) -> str:
    """What went wrong with which file, without the names of temporary ones."""
    reason = (error.strerror or str(error)).lower()
    if error.filename is None:
        return reason
    path = Path(str(error.filename))
    if path.suffix == ".part":
        path = path.with_name(path.name[1:].rsplit(".", 2)[0])
    return f"cannot use {path}: {reason}; name another file or folder."


def free_path(path: Path, force: bool) -> Path:
    """A file that may be written; the error says how to replace an existing one."""
    path = path.expanduser()
    if path.exists() and not force:
        raise InputError(f"{path} exists; name another file, or add --force to replace it.")
    return path


def free_folder(path: Path | None) -> Path | None:
    """A folder that may be written to, made or not."""
    if path is None:
        return None
    path = path.expanduser()
    if path.exists() and not path.is_dir():
        raise InputError(f"--out is {path}, which is a file; name a folder.")
    return path


def whole_numbers(text: str, option: str, least: int = 1) -> tuple[int, ...]:
    """Read ``"1,2"``; the error names the option."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < least or len(set(numbers)) != len(numbers):
        wanted = f"different whole numbers from {least}, like {least},{least + 1}"
        raise InputError(f"{option} is '{text}'; give {wanted}.")
    return numbers


def print_json(value: Any) -> None:
    """Print one JSON object on standard output."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
