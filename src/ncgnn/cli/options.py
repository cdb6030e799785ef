"""Options that mean the same in every command, and the way errors reach the user."""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
import warnings
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

import ncgnn
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning, lacks_memory

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


def _complete_graph(incomplete: str) -> list[str]:
    return [entry.name for entry in ncgnn.data.list_datasets() if entry.name.startswith(incomplete)]


def _complete_models(incomplete: str) -> list[str]:
    """Names of models after the last comma; read from the presets, as torch takes seconds."""
    before, comma, last = incomplete.rpartition(",")
    presets = (resources.files("ncgnn") / "training" / "presets").iterdir()
    known = sorted(Path(one.name).stem for one in presets)
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


_GRAPH = "A name that 'ncgnn datasets' lists, or the path of an npz file"
GraphArgument = Annotated[
    str, typer.Argument(metavar="GRAPH", help=f"{_GRAPH}.", autocompletion=_complete_graph)
]
MaybeGraphArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        help=f"{_GRAPH}; a --config may name it instead.",
        autocompletion=_complete_graph,
    ),
]
GraphsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GRAPH...",
        help="Names that 'ncgnn datasets' lists, or paths of npz files.",
        autocompletion=_complete_graph,
    ),
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Folder of a finished run, or its name under --runs.")
]
RunListArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Folders of finished runs, or their names under --runs."),
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
    str | None,
    typer.Option(
        "--split",
        help="Split family: stratified, paper, published, planetoid or uniform. By default "
        "stratified; for 'reproduce', that of the printed numbers; for 'results', any.",
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="The validation score that selects the best epoch, and what 'tune' finds: accuracy "
        "(the default), macro_f1, balanced_accuracy, roc_auc or average_precision.",
    ),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu (the default), cuda, mps.")]
RunsOption = Annotated[
    Path,
    typer.Option(
        "--runs", help="Folder of all runs, one folder in it per run.", callback=_from_home
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A name that 'ncgnn models' lists; ncgcn by default.",
        autocompletion=_complete_models,
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--models",
        "--model",
        help="Names that 'ncgnn models' lists, like ncgcn,gcn.",
        autocompletion=_complete_models,
    ),
]
SeedsOption = Annotated[
    list[str] | None,
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
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", help="TOML file with the configuration.")
]
ConfigsOption = Annotated[
    list[str] | None,
    typer.Option("--config", help="TOML files with configurations, for example one per model."),
]
StoredOption = Annotated[
    list[str] | None,
    typer.Option("--stored", help="JSON lines of finished runs ('ncgnn results --add-to')."),
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
_VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell more: every epoch, tracebacks of errors.")
]
_QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print results and errors alone.")
]


class _Verbosity:
    """How much the running command tells; a process runs one command."""

    quiet = False
    verbose = False


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Give a command -v and -q, and turn the package's own errors into one line and exit code 2."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        _Verbosity.verbose = bool(kwargs.pop("verbose", False))
        _Verbosity.quiet = bool(kwargs.pop("quiet", False))
        try:
            with _warnings_as_lines():
                return function(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print("interrupted: files that were finished are whole.", file=sys.stderr)
            raise typer.Exit(130) from None
        except Exception as error:
            message = _one_line(error)
            if message is None:
                raise
            if _Verbosity.verbose:
                traceback.print_exc()
            print(f"error: {message}", file=sys.stderr)
            raise typer.Exit(2) from None

    signature = inspect.signature(function, eval_str=True)
    more = {"verbose": _VerboseOption, "quiet": _QuietOption}
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in more.items()
    ]
    told: Any = guarded
    told.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *extra])
    told.__annotations__ = {**function.__annotations__, **more}
    return guarded


def _one_line(error: Exception) -> str | None:
    """What to tell of an error; None of one that nobody expects."""
    if isinstance(error, NcgnnError):
        return str(error)
    if isinstance(error, OSError):
        return _about_file(error)
    if isinstance(error, OverflowError) or lacks_memory(error):
        return "this does not fit into memory; ask for less."
    return None


@contextmanager
def _warnings_as_lines() -> Generator[None]:
    """Print the package's own warnings as one line each, and each once."""
    show, told = warnings.showwarning, set[str]()

    def print_once(
        message: Warning | str, category: type[Warning], *place: Any, **more: Any
    ) -> None:
        if not issubclass(category, NcgnnWarning):
            show(message, category, *place, **more)
        elif str(message) not in told:
            told.add(str(message))
            note(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", NcgnnWarning)
        warnings.showwarning = print_once
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


def is_quiet() -> bool:
    """Whether the user wants results and errors alone."""
    return _Verbosity.quiet


def is_verbose() -> bool:
    """Whether the user wants to know more."""
    return _Verbosity.verbose


def note(*lines: str) -> None:
    """Print lines for a person on standard error, unbroken, so that commands can be copied."""
    if lines and not _Verbosity.quiet:
        print(*lines, sep="\n", file=sys.stderr)


def free_path(path: Path, force: bool) -> Path:
    """A file that may be written; the error says how to replace an existing one."""
    path = path.expanduser()
    if path.exists() and not force:
        raise InputError(f"{path} exists; name another file, or add --force to replace it.")
    return path


def free_folder(path: Path) -> Path:
    """A folder that may be written to, made or not."""
    path = path.expanduser()
    if path.exists() and not path.is_dir():
        raise InputError(f"--out is {path}, which is a file; name a folder.")
    return path


def read_list(values: list[str] | None, option: str) -> tuple[str, ...] | None:
    """Read a list: ``a,b`` and ``a b`` (or the option twice) mean the same; None if not given."""
    if not values:
        return None
    parts = [
        part.strip()
        for value in values
        for part in ([value] if Path(value).exists() else value.split(","))
    ]
    found = tuple(dict.fromkeys(part for part in parts if part))
    if not found:
        raise InputError(f"{option} must be a name, or several like a,b; got '{values[0]}'.")
    return found


def read_paths(values: list[str] | None, option: str) -> list[Path] | None:
    """Read a list of files."""
    found = read_list(values, option)
    return None if found is None else [Path(name).expanduser() for name in found]


def read_path(values: list[str] | None, option: str) -> Path | None:
    """Read a file where one is enough."""
    found = read_paths(values, option)
    if found is not None and len(found) > 1:
        raise InputError(f"{option} takes one file only; 'ncgnn sweep' takes several.")
    return None if found is None else found[0]


def read_numbers(text: str, option: str, least: int = 1) -> tuple[int, ...]:
    """Read ``1,2``; the error names the option."""
    try:
        numbers = tuple(int(part) for part in text.strip(",").split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < least or len(set(numbers)) != len(numbers):
        raise InputError(
            f"{option} must be different whole numbers from {least}, like {least},{least + 1}; "
            f"got '{text}'."
        )
    return numbers


def read_seeds(values: list[str] | None, option: str = "--seeds") -> tuple[int, ...] | None:
    """Read how many seeds, or a list of them; None is left for the configuration to say."""
    if not values:
        return None
    text = ",".join(values)
    if "," in text:
        return read_numbers(text, option, least=0)
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"{option} must say how many, like 3, or list them, like 0,3,7 (seed 0 alone is "
            f"'0,'); got '{text}'."
        )
    return tuple(range(int(text)))


def read_settings(
    settings: list[str] | None,
    named: dict[str, tuple[str, Any]] | None = None,
    metric: str | None = None,
) -> dict[str, Any]:
    """Read ``KEY=VALUE`` options.

    Args:
        settings: What ``--set`` was given.
        named: Keys that have an argument or option of their own, with its name and value; what is
            said in both ways is refused.
        metric: What ``--metric`` was given, which is a setting by a shorter name.
    """
    named = {"training.metric": ("--metric", metric), **(named or {})}
    chosen = dict(ncgnn.training.read_setting(text) for text in settings or [])
    for key in chosen:
        option, value = named.get(".".join(ncgnn.training.placed(key)), ("", None))
        if value is not None:
            raise InputError(f"{option} and --set {key}=… contradict each other; give one of them.")
    return chosen if metric is None else chosen | {"training.metric": metric}


def table_console(*, wide: bool = True) -> Console:
    """A console for tables; a file has no narrow edge, where tables are wide."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or not wide else Console(width=160)


def print_json(value: Any) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
