"""How commands read lists and settings, and how results, notes and errors are printed."""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

import ncgnn
from ncgnn._io import as_path
from ncgnn._launch import launched_as
from ncgnn.cli import options as opt
from ncgnn.errors import InputError, NcgnnError, NcgnnWarning, lacks_memory, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.status import Status

    from ncgnn.report import Table

MOST_SEEDS = 10_000
P = ParamSpec("P")
R = TypeVar("R")


class Verbosity:
    """How much the running command prints; a process runs one command."""

    quiet = False
    verbose = False


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Give a command -v and -q, and turn the package's own errors into one line and exit code 2."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        rank, count = launched_as()
        Verbosity.verbose = bool(kwargs.pop("verbose", False))
        Verbosity.quiet = bool(kwargs.pop("quiet", False)) or rank > 0
        if count > 1:
            # Torch's own remarks would come from every process, before it says what matters.
            os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        try:
            if count > 1 and function.__name__ not in _SEVERAL:
                raise InputError(
                    f"'ncgnn {function.__name__}' runs in one process; start it without torchrun."
                )
            with _warnings_as_lines():
                return function(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            if not rank:
                print("interrupted; finished files are complete.", file=sys.stderr)
            raise typer.Exit(130) from None
        except Exception as error:
            message = _one_line(error)
            if message is None:
                raise
            if Verbosity.verbose:
                traceback.print_exc()
            if count == 1 or not _is_told(error, rank):
                print(f"error: {visible(message)}", file=sys.stderr)
            raise typer.Exit(2) from None

    signature = inspect.signature(function, eval_str=True)
    more = {"verbose": opt.Verbose, "quiet": opt.Quiet}
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


# Commands that several processes may run together.
_SEVERAL = ("train",)


def _is_told(error: Exception, rank: int) -> bool:
    """Whether another of several processes tells of an error that ends this one."""
    if isinstance(error, ncgnn.training.LostRankError):
        return not ncgnn.training.is_first_to("a process is lost")
    return rank > 0 and isinstance(error, NcgnnError)


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
        print(*map(visible, lines), sep="\n", file=sys.stderr)


def say(*lines: str, end: str = "\n") -> None:
    """Print lines for people on standard output."""
    print(*map(visible, lines), sep="\n", end=end)


def emit(text: str, end: str = "\n") -> None:
    """Print what programs take as it is, on standard output; a terminal gets no orders from it."""
    print(visible(text) if sys.stdout.isatty() else text, end=end)


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
    say(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def show_status(text: str) -> Generator[Status]:
    """Show on a terminal what the command is doing."""
    from rich.console import Console

    with Console(stderr=True, quiet=Verbosity.quiet).status(text) as status:
        yield status


def free_path(path: Path, force: bool) -> Path:
    """The path of a file that may be written; an existing one only with ``--force``."""
    path = as_path(path)
    if path.exists() and not force:
        raise InputError(f"{path} exists; name another file, or add --force to replace it.")
    return path


def free_table(path: Path, force: bool) -> Path:
    """The path of a table that may be written, in a folder that exists and a format we know."""
    path = free_path(path, force)
    ncgnn.training.table_format(path)
    check_parent(path)
    return path


def check_for_spreadsheet(asked: bool, kind: str | None) -> None:
    """Refuse ``--for-spreadsheet`` where it would do nothing.

    Args:
        asked: Whether it was given.
        kind: The format of what is written; None if nothing is.
    """
    if asked and (kind is None or kind.removeprefix(".").lower() not in ("csv", "tsv")):
        raise InputError(
            "--for-spreadsheet is for CSV and TSV; name such a file with --out, or leave it out."
        )


def check_parent(path: Path) -> None:
    """Refuse a file in a folder that does not exist, before work begins."""
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it, or name another for --out.")


def free_folder(path: Path) -> Path:
    """The path of a folder that may be written to, whether it exists or not."""
    path = as_path(path)
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
        for part in ([value] if _is_there(value) else value.split(","))
    ]
    found = tuple(dict.fromkeys(part for part in parts if part))
    if not found:
        raise InputError(f"{option} must be a name, or several like a,b; got '{values[0]}'.")
    return found


def _is_there(name: str) -> bool:
    """Whether a file or folder has this name; a long list is no name at all."""
    try:
        return Path(name).exists()
    except OSError:
        return False


def read_paths(values: list[str] | None, option: str) -> list[Path]:
    """Read a list of files, empty if not given."""
    return [as_path(name) for name in read_list(values, option) or ()]


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
            f"got '{text:.200}'."
        )
    return numbers


def read_seeds(values: list[str] | None) -> tuple[int, ...] | None:
    """Read ``--seeds``, a number of seeds or a list; None if not given."""
    if not values:
        return None
    text = ",".join(values)
    if "," in text:
        return read_numbers(values, "--seeds", least=0)
    if text.isdecimal() and (len(text) > 9 or int(text) > MOST_SEEDS):
        raise InputError(f"--seeds must be at most {MOST_SEEDS:,}; got {text:.20}.")
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            "--seeds must be how many, like 3, or a list, like 0,3,7 (seed 0 alone is '0,'); "
            f"got '{text:.200}'."
        )
    return tuple(range(int(text)))


_OPTION_OF = {
    ("data", "dataset"): "GRAPH",
    ("model", "name"): "--models",
    ("data", "split"): "--split",
    ("training", "device"): "--device",
    ("training", "seed"): "--seeds",
    ("training", "metric"): "--metric",
    ("data", "fractions"): "--fractions",
    ("training", "start_from"): "--start-from",
    ("training", "batch_size"): "--batch-size",
    ("data", "protocol"): "--protocol",
    ("training", "fanout"): "--fanout",
}


def read_settings(settings: list[str] | None, **given: Any) -> dict[str, Any]:
    """Read ``--set``, and options such as ``--metric``, which are settings by shorter names.

    ``given`` are the values of arguments and options that stand for one of the configuration, by
    its name there; what is given both ways is refused.
    """
    chosen = dict(ncgnn.training.read_setting(text) for text in settings or [])
    for key in chosen:
        place = ncgnn.training.find_option(key)
        if place in _OPTION_OF and given.get(place[1]):
            raise InputError(
                f"{_OPTION_OF[place]} and --set {key}=… contradict each other; give one of them."
            )
    if metric := given.get("metric"):
        chosen["training.metric"] = metric
    if start := given.get("start_from"):
        chosen["training.start_from"] = start
    if fractions := given.get("fractions"):
        chosen["data.fractions"] = read_fractions(fractions)
    if protocol := given.get("protocol"):
        chosen["data.protocol"] = protocol
    if size := given.get("batch_size"):
        chosen["training.batch_size"] = size
    if fanout := given.get("fanout"):
        chosen["training.fanout"] = read_fanout(fanout)
    return chosen


def read_fanout(text: str) -> tuple[int, ...]:
    """Read ``--fanout``: neighbors per hop."""
    with suppress(ValueError):
        return tuple(-1 if part.strip() == "all" else int(part) for part in text.split(","))
    raise InputError(f"--fanout must be numbers of neighbors, like 15,10 or 10,all; got '{text}'.")


def read_fractions(text: str) -> tuple[float, float, float]:
    """Read ``--fractions``: the shares of train, val and test."""
    with suppress(ValueError):
        train, val, test = map(float, text.split(","))
        return train, val, test
    raise InputError(f"--fractions must be three shares, like 0.7,0.15,0.15; got '{text}'.")
