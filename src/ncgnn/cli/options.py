"""Options that mean the same in every command, and the way errors reach the user."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from ncgnn.errors import InputError, NcgnnError, lacks_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.console import Console


class TableFormat(StrEnum):
    """Formats of per-node tables."""

    csv = "csv"
    parquet = "parquet"


class EngineChoice(StrEnum):
    """Where the runs of a sweep are trained."""

    local = "local"
    ray = "ray"


def _from_home(path: Path) -> Path:
    """A path as it is meant; a shell leaves ``--runs=~/runs`` as it is."""
    return path.expanduser()


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
MaybeSplitOption = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Split family: stratified (the default), paper, published, planetoid or uniform.",
    ),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu (the default), cuda, mps.")]
RunsOption = Annotated[
    Path,
    typer.Option(
        "--runs", help="Folder of all runs, one folder in it per run.", callback=_from_home
    ),
]
DatasetsOption = Annotated[
    str | None,
    typer.Option(
        "--datasets", help="Names that 'ncgnn datasets' lists, or npz files; several like a,b."
    ),
]
ModelsOption = Annotated[
    str | None,
    typer.Option("--models", help="Names that 'ncgnn models' lists; several like ncgcn,gcn."),
]
SeedsOption = Annotated[
    str | None,
    typer.Option(
        "--seeds", help="How many seeds, from 0 on; or a list of them, like 0,3,7. One: seed 0."
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One option of the configuration, like training.epochs=200; may be repeated.",
    ),
]


def _only_file(files: list[Path] | None) -> list[Path] | None:
    if files and len(files) > 1:
        raise typer.BadParameter("one file only; 'ncgnn sweep' takes several.")
    return files


ConfigOption = Annotated[
    list[Path] | None,
    typer.Option("--config", help="TOML file with the configuration.", callback=_only_file),
]
ConfigsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        help="TOML file with a configuration; may be repeated, for example once per model.",
    ),
]
EngineOption = Annotated[
    EngineChoice,
    typer.Option("--engine", help="local: processes of this machine; ray: a Ray cluster."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", help="Address of an existing Ray cluster; without it a local one is started."
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Runs at a time; by default as many as cores allow."),
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads of each worker.")]
RetryOption = Annotated[
    bool, typer.Option("--retry-failed", help="Try runs and trials that failed before once more.")
]
TrainOption = Annotated[
    bool,
    typer.Option("--train/--no-train", help="Train what is missing, or only show what there is."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]


def one_clear_error(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the package's own errors into one line on standard error and exit code 2."""

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _warnings_as_lines():
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
        except (MemoryError, OverflowError, RuntimeError) as error:
            if not (isinstance(error, OverflowError) or lacks_memory(error)):
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


@contextmanager
def _warnings_as_lines() -> Generator[None]:
    """Print the package's own warnings as one line each, and each once."""
    import warnings

    from ncgnn.errors import NcgnnWarning

    show, told = warnings.showwarning, set[str]()

    def shown(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, NcgnnWarning):
            show(message, category, *place, **more)
        elif str(message) not in told:
            told.add(str(message))
            print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", NcgnnWarning)
        warnings.showwarning = shown
        yield


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


def seed_numbers(text: str | None) -> tuple[int, ...] | None:
    """Read how many seeds, or a list of them; None is left for the configuration to say."""
    if text is None:
        return None
    if "," not in text:
        if not text.isdecimal() or int(text) < 1:
            wanted = "give how many, like 3, or a list, like 0,3,7; seed 0 alone is '0,'"
            raise InputError(f"--seeds is '{text}'; {wanted}.")
        return tuple(range(int(text)))
    return whole_numbers(text.strip(","), "--seeds", least=0)


def only(files: list[Path] | None) -> Path | None:
    """The file of a ``--config`` that takes one."""
    return files[0] if files else None


def chosen_settings(settings: list[str] | None, seeds: str | None) -> dict[str, Any]:
    """Read ``KEY=VALUE`` options; seeds are said in one way only."""
    from ncgnn.training import read_setting

    chosen = dict(read_setting(text) for text in settings or [])
    if seeds is not None and {"seed", "training.seed"} & set(chosen):
        raise InputError("--seeds and --set seed=… contradict each other; give one of them.")
    return chosen


def names(text: str, option: str) -> tuple[str, ...]:
    """Read ``"a,b"``; the error names the option."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise InputError(f"{option} is '{text}'; give a name, or several like a,b.")
    return tuple(dict.fromkeys(found))


def table_console() -> Console:
    """A console for tables; a file has no narrow edge."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=160)


def print_json(value: Any) -> None:
    """Print one JSON object on standard output."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
