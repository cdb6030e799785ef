"""What all commands share: options, how they are read, and how errors and results are printed."""

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
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar

import typer

import ncgnn
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning, lacks_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from rich.status import Status

    from ncgnn.report import Table

P = ParamSpec("P")
R = TypeVar("R")

TableFormat = Literal["csv", "parquet"]


class EngineChoice(StrEnum):
    """Where the runs of a sweep are trained."""

    local = "local"
    ray = "ray"


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A shell completion of the last name of a list like ``a,b``."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def _model_names() -> list[str]:
    """Names of models, read from the presets: importing torch would take seconds."""
    presets = (resources.files("ncgnn") / "training" / "presets").iterdir()
    return sorted(Path(one.name).stem for one in presets)


def _expand_home(path: Path) -> Path:
    """A shell leaves ``--runs=~/runs`` as it is."""
    return path.expanduser()


_FAMILIES = ("stratified", "paper", "published", "planetoid", "uniform")
_METRICS = ("accuracy", "macro_f1", "balanced_accuracy", "roc_auc", "average_precision")
_GRAPH = "A name that 'ncgnn datasets' lists, or the path of an npz file"

_complete_model = complete_from(_model_names)


def _graph(text: str) -> Any:
    complete = complete_from(lambda: (entry.name for entry in ncgnn.data.list_datasets()))
    return typer.Argument(metavar="GRAPH", help=text, autocompletion=complete)


def _split(text: str) -> Any:
    complete = complete_from(lambda: _FAMILIES)
    return typer.Option("--split", metavar="FAMILY", help=text, autocompletion=complete)


GraphArgument = Annotated[str, _graph(f"{_GRAPH}.")]
MaybeGraphArgument = Annotated[str | None, _graph(f"{_GRAPH}; --config may name it instead.")]
MovedGraphArgument = Annotated[
    str | None, _graph("Where the graph of the run is now, if it has moved.")
]
GraphsArgument = Annotated[
    list[str] | None, _graph("Names that 'ncgnn datasets' lists, or paths of npz files.")
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Folder of a finished run, or its name under --runs.")
]
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="Folders of finished runs, or their names under --runs."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with npz files, searched before that of NCGNN_DATA."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of tables.")
]
SplitOption = Annotated[
    str | None, _split(f"Split family: {', '.join(_FAMILIES)}. Default: stratified.")
]
OnlySplitOption = Annotated[str | None, _split("Only runs with this split family.")]
PaperSplitOption = Annotated[
    str | None, _split("Split family. Default: that of the printed numbers.")
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="SCORE",
        help="Validation score that selects the best epoch, and the best parameters of a search: "
        f"{', '.join(_METRICS)}. Default: accuracy.",
        autocompletion=complete_from(lambda: _METRICS),
    ),
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda or mps. Default: cpu.")
]
RunsOption = Annotated[
    Path,
    typer.Option("--runs", help="Folder of runs, with one folder per run.", callback=_expand_home),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A name that 'ncgnn models' lists. Default: ncgcn.",
        autocompletion=_complete_model,
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--models",
        "--model",
        metavar="NAME,NAME",
        help="Names that 'ncgnn models' lists, like ncgcn,gcn.",
        autocompletion=_complete_model,
    ),
]
SeedsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--seeds",
        metavar="COUNT|LIST",
        help="How many seeds, counted from 0, like 3; or a list, like 0,3,7. Default: seed 0.",
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
    list[str] | None,
    typer.Option("--config", metavar="FILE", help="TOML file with the configuration."),
]
ConfigsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="FILE,FILE",
        help="TOML files with configurations, for example one per model.",
    ),
]
StoredOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stored",
        metavar="FILE,FILE",
        help="JSON lines of finished runs, as 'ncgnn results --add-to' writes them.",
    ),
]
EngineOption = Annotated[
    EngineChoice,
    typer.Option("--engine", help="local: processes on this machine; ray: a Ray cluster."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", help="Address of an existing Ray cluster. Default: start a local one."
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Runs at a time. Default: as many as there are cores."),
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads per worker.")]
RetryOption = Annotated[
    bool, typer.Option("--retry-failed", help="Try failed runs and trials once more.")
]
TrainOption = Annotated[
    bool,
    typer.Option("--train/--no-train", help="Train what is missing, or only show what exists."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]
_VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print every epoch, and tracebacks of errors.")
]
_QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but results and errors.")
]


class Verbosity:
    """How much the running command prints; a process runs one command."""

    quiet = False
    verbose = False


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Give a command -v and -q, and turn the package's own errors into one line and exit code 2."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        Verbosity.verbose = bool(kwargs.pop("verbose", False))
        Verbosity.quiet = bool(kwargs.pop("quiet", False))
        try:
            with _warnings_as_lines():
                return function(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print("interrupted; finished files are complete.", file=sys.stderr)
            raise typer.Exit(130) from None
        except Exception as error:
            message = _one_line(error)
            if message is None:
                raise
            if Verbosity.verbose:
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
    # The terminal breaks the lines of the help, not the source.
    paragraphs = (function.__doc__ or "").split("\n\n")
    told.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return guarded


def _one_line(error: Exception) -> str | None:
    """The message of an expected error; None for a bug."""
    if isinstance(error, NcgnnError):
        return str(error)
    if isinstance(error, OverflowError) or lacks_memory(error):
        return "this does not fit into memory; ask for less."
    if not isinstance(error, OSError):
        return None
    reason = (error.strerror or str(error)).lower()
    if error.filename is None:
        return reason
    path = Path(str(error.filename))
    if path.suffix == ".part":  # the temporary file of an atomic write
        path = path.with_name(path.name[1:].rsplit(".", 2)[0])
    return f"cannot use {path}: {reason}; name another file or folder."


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


def note(*lines: str) -> None:
    """Print lines for people on standard error, unwrapped, so that commands can be copied."""
    if lines and not Verbosity.quiet:
        print(*lines, sep="\n", file=sys.stderr)


def print_tables(*tables: Table, wide: bool = True) -> None:
    """Print tables on standard output; wide ones are not wrapped at 80 columns in a file."""
    from rich.console import Console

    console = Console()
    if wide and not console.is_terminal:
        console = Console(width=160)
    for table in tables:
        console.print(table)


def print_json(value: Any) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def show_status(text: str) -> Generator[Status]:
    """Show on a terminal what the command is doing."""
    from rich.console import Console

    with Console(stderr=True, quiet=Verbosity.quiet).status(text) as status:
        yield status


def free_path(path: Path, force: bool) -> Path:
    """The path of a file that may be written; an existing one only with ``--force``."""
    path = path.expanduser()
    if path.exists() and not force:
        raise InputError(f"{path} exists; name another file, or add --force to replace it.")
    return path


def free_folder(path: Path) -> Path:
    """The path of a folder that may be written to, whether it exists or not."""
    path = path.expanduser()
    if path.exists() and not path.is_dir():
        raise InputError(f"--out must be a folder; got the file {path}; name another.")
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


def read_paths(values: list[str] | None, option: str) -> list[Path]:
    """Read a list of files, empty if not given."""
    return [Path(name).expanduser() for name in read_list(values, option) or ()]


def read_config(values: list[str] | None) -> Path | None:
    """Read ``--config`` where there can be one file only."""
    found = read_paths(values, "--config")
    if len(found) > 1:
        raise InputError(
            f"--config must be one file; got {len(found)}; 'ncgnn sweep' takes several."
        )
    return found[0] if found else None


def read_numbers(values: list[str], option: str, least: int = 1) -> tuple[int, ...]:
    """Read different whole numbers, like ``1,2``."""
    text = ",".join(values)
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


def read_seeds(values: list[str] | None) -> tuple[int, ...] | None:
    """Read ``--seeds``, a number of seeds or a list; None if not given."""
    if not values:
        return None
    text = ",".join(values)
    if "," in text:
        return read_numbers(values, "--seeds", least=0)
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            "--seeds must be how many, like 3, or a list, like 0,3,7 (seed 0 alone is '0,'); "
            f"got '{text}'."
        )
    return tuple(range(int(text)))


_OPTION_OF = {
    "dataset": "GRAPH",
    "name": "--models",
    "split": "--split",
    "device": "--device",
    "seed": "--seeds",
    "metric": "--metric",
}


def read_settings(settings: list[str] | None, **given: Any) -> dict[str, Any]:
    """Read ``--set``, and ``--metric``, which is a setting by a shorter name.

    ``given`` are the values of arguments and options that stand for one of the configuration, by
    its name there; what is given both ways is refused.
    """
    chosen = dict(ncgnn.training.read_setting(text) for text in settings or [])
    for key in chosen:
        name = ncgnn.training.placed(key)[1]
        if given.get(name):
            raise InputError(
                f"{_OPTION_OF[name]} and --set {key}=… contradict each other; give one of them."
            )
    metric = given.get("metric")
    return chosen | ({"training.metric": metric} if metric else {})
