"""The folder of one run: what is in it, and whether it can be trusted.

======================  =======================================================================
``config.toml``         the configuration with every option filled in
``environment.json``    versions, machine, threads, hash of the graph; where it was continued
``split.json``          the nodes of train, val and test, with their hash
``metrics.jsonl``       one line per epoch
``checkpoint.*``        the latest state of training, while it lasts
``weights.safetensors`` the best epoch's weights, with the groups and NC in force
``result.json``         scores and accuracy per group
``timing.json``         how long it took
``graph.npz``           the graph, where a model that was fitted in Python was saved
``dataset/``            the graph as a dataset folder, with its encoders, if it came from one; its
                        files are links to the first ones where the file system has links
``experts.json``        of a mixture whose experts were trained apart: how each of them was
``auto.json``           what was tried before the run was chosen; see :mod:`ncgnn.training.auto`
``start.*``             the first weights, where they are those of an earlier run
``refit/``              the same model trained on all labels; see :mod:`ncgnn.training.refit`
``error.json``          what a run failed with
``done.json``           the checksums of all that the result rests on, written last
======================  =======================================================================

Every file but the lines of ``metrics.jsonl`` says the number of its format. Beside the runs,
``latest`` is a link to the newest; where there are no links, a file with its name.
"""

from __future__ import annotations

import hashlib
import json
import platform
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError, safe_open

from ncgnn._io import (
    as_path,
    atomic_write,
    is_locked,
    make_durable,
    remove_leftovers,
    sha256_of_file,
    take_lock,
    temporary_path,
    write_text,
)
from ncgnn._numba import thread_count
from ncgnn.data import MANIFEST, is_folder
from ncgnn.errors import InputError
from ncgnn.nn import Grouping, describe_error
from ncgnn.training.config import FORMAT, RunConfig, read_config_file, resolve_config, to_toml

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from ncgnn.nn import Model
    from ncgnn.training.trainer import Trainer

CONFIG, ENVIRONMENT, SPLIT = "config.toml", "environment.json", "split.json"
HISTORY, CHECKPOINT, WEIGHTS = "metrics.jsonl", "checkpoint.safetensors", "weights.safetensors"
RESULT, TIMING, DONE, GRAPH = "result.json", "timing.json", "done.json", "graph.npz"
ERROR, LATEST = "error.json", "latest"
START, LEARNED = "start.safetensors", "start.json"
EXPERTS, TRIED = "experts.json", "auto.json"
DATASET = "dataset"
# What only some runs have; the manifest of a dataset folder has the checksums of its other files.
_OPTIONAL = (GRAPH, f"{DATASET}/{MANIFEST}", START, LEARNED, EXPERTS)
_NEEDED = (CONFIG, ENVIRONMENT, SPLIT, HISTORY, WEIGHTS, RESULT, TIMING)
# What a checkpoint calls the hash of the lines of the epochs before it.
_HISTORY_HASH = "history_sha256"
_PACKAGES = ("ncgnn", "torch", "torch_geometric", "numpy", "scipy", "numba")


class DamagedFileError(InputError):
    """A file of a run does not hold what was written to it."""


class RunInUseError(InputError):
    """Another process trains this run."""


class OtherRunError(InputError):
    """A folder of this run's name holds another one."""


_Part = Literal["train", "val", "test"]
_Score = Annotated[float, Field(allow_inf_nan=False)] | None
_Parts = list[dict[str, Any]]


class _ResultFacts(BaseModel):
    """What a result must hold; a file may be signed by whoever has changed it."""

    model_config = ConfigDict(strict=True, extra="allow")

    dataset: str
    graph: str
    model: str
    split: str
    seed: int
    metric: str
    best_epoch: Annotated[int, Field(ge=0)]
    epochs: Annotated[int, Field(ge=1)]
    scores: dict[_Part, dict[str, _Score]]
    nodes: dict[_Part, int]
    evaluated: _Part = "test"
    majority_baseline: _Score
    never_evaluated: list[int]
    thresholds: list[float] = []
    group_sizes: list[int] = []
    alpha: list[float] | None = None
    mean_nc: float | None = None
    true_mean_nc: float | None = None
    intervals: dict[str, Any] = {}
    classes: list[dict[str, Any]] = []
    confused_pairs: list[dict[str, Any]] = []
    most_confused: dict[str, Any] = {}
    accuracy_by_kind: _Parts = []
    accuracy_by_estimated_kind: _Parts = []
    accuracy_by_estimated_nc_decile: _Parts = []
    accuracy_by_true_nc_decile: _Parts = []
    accuracy_by_degree: _Parts = []
    accuracy_by_true_group: _Parts = []
    accuracy_by_nh_decile: _Parts = []
    accuracy_by_group: _Parts = []
    calibration: dict[str, Any] = {}
    sets: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check_scores(self) -> Self:
        for part in ("train", "val", self.evaluated):
            missing = {"accuracy", self.metric} - self.scores.get(part, {}).keys()
            if missing:
                raise ValueError(f"scores of {part} lack {min(missing)}")
        if self.mean_nc is not None and not self.group_sizes:
            raise ValueError("mean_nc must come with group_sizes")
        return self


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def folder_inside(self, name: str) -> Path:
        """A folder in that of the run, made if it is missing.

        Raises:
            InputError: It is a link to another place, where files of the run do not belong.
        """
        path = self / name
        if path.is_symlink():
            raise InputError(f"{path} is a link, and files of a run stay in its folder; remove it.")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write_json(self, name: str, value: dict[str, Any], *, durable: bool = False) -> None:
        """Write a JSON file atomically."""
        text = json.dumps({"format": FORMAT, **value}, indent=2, allow_nan=False) + "\n"
        write_text(self / name, text, durable=durable)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; the error names the file."""
        try:
            value = json.loads((self / name).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedFileError(f"{self / name}: cannot be read ({error}).") from None
        if not isinstance(value, dict):
            raise DamagedFileError(f"{self / name}: does not hold a JSON object.")
        found = cast("dict[str, Any]", value)
        if (number := found.pop("format", None)) != FORMAT and name != SPLIT:
            raise DamagedFileError(f"{self / name}: format must be {FORMAT}; got {number!r}.")
        return found

    def read_result(self) -> dict[str, Any]:
        """The result of a run, with what others go by in the form in which it was written."""
        found = self.read_json(RESULT)
        try:
            _ResultFacts.model_validate(found)
        except ValidationError as error:
            wrong = describe_error(error).removesuffix(".")
            raise DamagedFileError(f"{self / RESULT}: {wrong}; train the run again.") from None
        return found

    def read_seconds(self) -> float:
        """How long training took."""
        found = self.read_json(TIMING).get("seconds")
        if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0:
            raise DamagedFileError(
                f"{self / TIMING}: seconds must be a number; train the run again."
            )
        return float(found)

    def write_config(self, config: RunConfig, *, durable: bool = False) -> None:
        """Write the configuration."""
        write_text(self / CONFIG, to_toml(config.model_dump(mode="json")), durable=durable)

    def read_config(self) -> RunConfig:
        """Read the configuration."""
        return resolve_config(read_config_file(self / CONFIG).tables, str(self / CONFIG))

    def write_error(self, error: str, *, wrong_input: bool, trace: str = "") -> None:
        """Keep what a run ended with, and whether its input was to blame."""
        self.write_json(ERROR, {"error": error, "input": wrong_input, "traceback": trace})

    def write_history(self, records: Sequence[dict[str, Any]], *, durable: bool = False) -> None:
        """Write one line per epoch."""
        write_text(self / HISTORY, _lines(records).decode(), durable=durable)

    def history(self) -> list[dict[str, Any]]:
        """One record per epoch, up to the first line that is not whole."""
        records: list[dict[str, Any]] = []
        if not (self / HISTORY).is_file():
            return records
        for line in (self / HISTORY).read_bytes().splitlines(keepends=True):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not line.endswith(b"\n") or not isinstance(record, dict):
                break
            records.append(cast("dict[str, Any]", record))
        return records

    def history_until(self, epoch: int, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The records of the epochs that a checkpoint had seen.

        Args:
            epoch: How many they are.
            about: What the checkpoint says.

        Raises:
            DamagedFileError: They are not what was written.
        """
        records = self.history()[:epoch]
        if len(records) < epoch:
            raise DamagedFileError(f"{self / HISTORY} has lost lines.")
        stated = about.get(_HISTORY_HASH)  # earlier releases did not say it
        try:
            found = hashlib.sha256(_lines(records)).hexdigest()
        except ValueError:  # a number that we write nowhere
            found = ""
        if stated is not None and stated != found:
            raise DamagedFileError(f"{self / HISTORY} has changed since it was written.")
        return records

    @contextmanager
    def keep_history(self, records: Sequence[dict[str, Any]]) -> Generator[History]:
        """Write lines to ``metrics.jsonl``, after those that are there, while training goes on."""
        with (self / HISTORY).open("ab") as stream:
            yield History(stream, records)

    def mark_done(self) -> None:
        """Write the completion marker with the checksums of all that the result rests on."""
        present = self.make_durable()
        checksums = {name: sha256_of_file(self / name) for name in present}
        self.write_json(DONE, {"files": checksums}, durable=True)

    def make_durable(self) -> list[str]:
        """Have what is there so far outlast a power cut; returns the names of these files."""
        present = [name for name in (*_NEEDED, *_OPTIONAL) if (self / name).is_file()]
        make_durable([self / name for name in present])
        return present

    def is_done(self) -> bool:
        """Whether the completion marker is there."""
        return (self / DONE).is_file()

    def is_as_written(self, name: str) -> bool:
        """Whether a file is there, and, in a finished run, has the checksum that it had then."""
        if not (self / name).is_file():
            return False
        if not self.is_done():
            return True
        try:
            stated = self.read_json(DONE).get("files")
        except DamagedFileError:
            return False
        return isinstance(stated, dict) and sha256_of_file(self / name) == stated.get(name)

    def check(self) -> None:
        """Complain unless the run is complete and every file is as it was written."""
        if not self.path.is_dir():
            if self.path.is_file() and (self.path.parent / CONFIG).is_file():
                raise InputError(f"{self.path} is a file of a run; name {self.path.parent}.")
            close = get_close_matches(self.path.name, _names_beside(self.path), n=1)
            hint = f"did you mean {close[0]}?" if close else "'ncgnn train' makes one."
            raise InputError(f"there is no run {self.path}; {hint}")
        if is_folder(self.path):
            raise InputError(f"{self.path} is a dataset and no run; 'ncgnn train' makes one of it.")
        inside = [path.name for path in run_folders(self.path) if (path / DONE).is_file()]
        if inside and not (self / CONFIG).is_file():
            more = ", …" if len(inside) > 5 else ""
            raise InputError(f"{self.path} holds runs; name one: {', '.join(inside[:5])}{more}.")
        if not self.is_done():
            raise InputError(
                f"{self.path} is not finished; the command that began it continues it."
            )
        stated = self.read_json(DONE).get("files")
        if not isinstance(stated, dict):
            raise DamagedFileError(f"{self / DONE}: field files is missing; train the run again.")
        for name in (*_NEEDED, *(name for name in _OPTIONAL if name in stated)):
            if not (self / name).is_file():
                raise DamagedFileError(f"{self / name} is missing; train the run again.")
            if sha256_of_file(self / name) != stated.get(name):
                raise DamagedFileError(
                    f"{self / name} has changed since it was written; train the run again."
                )

    def is_in_use(self) -> bool:
        """Whether another process works on it now."""
        return is_locked(self / ".lock")

    @contextmanager
    def lock(self) -> Generator[None]:
        """Keep other processes out; the operating system lets go if this one dies."""
        lock = take_lock(self / ".lock", wait=False)
        if lock is None:
            raise RunInUseError(f"another process is working on {self.path}.")
        inside = [one for one in self.path.iterdir() if one.is_dir() and not one.is_symlink()]
        for folder in (self.path, *inside):
            remove_leftovers(folder)
        try:
            yield
        finally:
            lock.release()


class History:
    """``metrics.jsonl`` of a run that is being trained.

    Args:
        stream: Where lines are added.
        records: Of the lines that are there.
    """

    def __init__(self, stream: IO[bytes], records: Sequence[dict[str, Any]]) -> None:
        self._stream, self._digest = stream, hashlib.sha256(_lines(records))

    def add(self, record: dict[str, Any]) -> None:
        """Write the line of an epoch."""
        line = _metrics_line(record).encode()
        self._stream.write(line)
        self._digest.update(line)

    def flush(self) -> dict[str, str]:
        """Hand over what was written; what a checkpoint says of it."""
        self._stream.flush()
        return {_HISTORY_HASH: self._digest.hexdigest()}


def _metrics_line(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def _lines(records: Sequence[dict[str, Any]]) -> bytes:
    return "".join(map(_metrics_line, records)).encode()


def _names_beside(path: Path) -> list[str]:
    """The names of what may be runs in the folder in which one was looked for."""
    with suppress(OSError):
        beside = [one for one in path.parent.iterdir() if not one.name.startswith(".")]
        return [one.name for one in beside if one.is_dir() and one != path]
    return []


def run_folders(runs: Path) -> list[Path]:
    """The folders in a folder of runs, each once: ``latest`` is one of the others."""
    return sorted(path for path in runs.iterdir() if path.is_dir() and path.name != LATEST)


def find_run(path: Path | str) -> Path:
    """The folder of a run by its path, which may be that of ``latest``."""
    path = as_path(path)
    if path.name != LATEST:
        return path
    if path.is_file():  # where there are no links
        return path.with_name(path.read_text(encoding="utf-8").strip())
    return path.parent / path.readlink() if path.is_symlink() else path


def point_latest(run: Path) -> bool:
    """Let ``latest``, beside a run, be this run from now on.

    Returns:
        Whether it is; a folder of that name is left as it is.
    """
    latest = run.with_name(LATEST)
    if latest.is_dir() and not latest.is_symlink():
        return False
    if find_run(latest) == run:
        return True
    link = temporary_path(latest)
    try:
        link.symlink_to(run.name, target_is_directory=True)
        link.replace(latest)
    except (OSError, NotImplementedError):
        link.unlink(missing_ok=True)
        latest.unlink(missing_ok=True)
        write_text(latest, f"{run.name}\n")
    return True


def write_tensors(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    about: Mapping[str, Any],
    *,
    durable: bool = True,
) -> None:
    """Write tensors and a JSON record about them."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    said = {"format": FORMAT, **about}
    record = {"ncgnn": json.dumps({"about": said, "sha256": _digest(plain, said)})}
    with atomic_write(path, durable=durable) as stream:
        _write_safetensors(stream, plain, record)


def _write_safetensors(
    stream: IO[bytes], tensors: Mapping[str, torch.Tensor], record: Mapping[str, str]
) -> None:
    """Write a safetensors file tensor by tensor; the library's own way copies all of them first.

    The file begins with the length of a header, which is JSON and says where every tensor is.
    """
    header: dict[str, Any] = {"__metadata__": dict(record)}
    ordered = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    end = 0
    for name in ordered:
        value, start = tensors[name], end
        end += value.numel() * value.element_size()
        kind = _KINDS[value.dtype]
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    stream.write(len(text).to_bytes(8, "little") + text)
    for name in ordered:
        value = tensors[name]
        if value.numel():
            stream.write(value.reshape(-1).view(torch.uint8).numpy().data)


#: What safetensors calls the types of tensors.
_KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote.

    Raises:
        DamagedFileError: The file cannot be read, or its bytes have changed.
    """
    try:
        with safe_open(path, framework="pt") as stored:
            record: dict[str, str] = stored.metadata() or {}
            tensors: dict[str, torch.Tensor] = {
                name: stored.get_tensor(name)
                for name in stored.keys()  # noqa: SIM118
            }
        about, stated = (json.loads(record["ncgnn"])[name] for name in ("about", "sha256"))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{path}: cannot be read ({error}).") from None
    if _digest(tensors, about) != stated:
        raise DamagedFileError(f"{path}: its bytes have changed since it was written.")
    if about.get("format") != FORMAT:
        raise DamagedFileError(f"{path}: format must be {FORMAT}; got {about.get('format')!r}.")
    return tensors, about


def trained_tensors(model: Model, grouping: Grouping) -> dict[str, torch.Tensor]:
    """What is kept of a trained model."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    return tensors | {"confusion": grouping.confusion, "group": grouping.group}


def tensors_sha256(tensors: Mapping[str, torch.Tensor]) -> str:
    """A hash of tensors by name."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return _digest(plain, {})


def _digest(tensors: Mapping[str, torch.Tensor], about: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(value.view(-1).numpy().data if value.numel() else b"")
    return digest.hexdigest()


_GROUPINGS = ("grouping", "best_grouping", "seen_grouping", "checked_grouping")


def save_checkpoint(path: Path, trainer: Trainer, about: dict[str, Any]) -> None:
    """Write the state of a trainer."""
    tensors, numbers = state_of(trainer)
    write_tensors(path, tensors, numbers | about)


def state_of(trainer: Trainer) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Model, optimizer, groups, NC and early stopping: tensors and numbers.

    Random states are not among them: every random number is a function of seed and epoch.
    """
    state = trainer.state
    tensors = {f"model.{name}": value for name, value in trainer.model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best_weights.items()}
    tensors |= {f"mean.{name}": value for name, value in state.mean_weights.items()}
    for number, moments in trainer.optimizer.state_dict()["state"].items():
        tensors |= {f"adam.{number}.{name}": value for name, value in moments.items()}
    for name in _GROUPINGS:
        grouping: Grouping | None = getattr(state, name)
        if grouping is not None:  # a protocol's
            tensors[f"{name}.confusion"] = grouping.confusion
            tensors[f"{name}.group"] = grouping.group
    numbers = {
        "epoch": state.epoch,
        "phase": state.phase,
        "phase_start": state.phase_start,
        "best_score": state.best_score,
        "best_epoch": state.best_epoch,
        "batch": state.batch,
        "batch_loss": state.batch_loss,
        "batch_right": state.batch_right,
    }
    return tensors, numbers


def load_checkpoint(path: Path, trainer: Trainer) -> dict[str, Any]:
    """Put a trainer into the state that a checkpoint holds, and return what is said about it."""
    tensors, about = read_tensors(path)
    try:
        restore(trainer, tensors, about)
    except (KeyError, RuntimeError, ValueError, TypeError) as error:
        raise DamagedFileError(f"{path}: does not fit the model ({first_reason(error)}).") from None
    return about


def first_reason(error: Exception) -> str:
    """The first thing that torch finds wrong with weights, of the lines that it says."""
    lines = [line.strip() for line in str(error).splitlines()]
    named = [line for line in lines[1:] if line] or lines or [""]
    return named[0].rstrip(".")


def restore(trainer: Trainer, tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
    """Put a trainer into a state that :func:`state_of` has told."""
    state, device = trainer.state, trainer.inputs.device
    trainer.model.load_state_dict(weights_under("model.", tensors))
    state.phase, state.phase_start = int(about["phase"]), int(about["phase_start"])
    trainer.optimizer = trainer.new_optimizer()
    optimizer = trainer.optimizer.state_dict()
    optimizer["state"] = {}
    for key, value in weights_under("adam.", tensors).items():
        number, name = key.split(".", 1)
        optimizer["state"].setdefault(int(number), {})[name] = value
    trainer.optimizer.load_state_dict(optimizer)
    state.best_weights = {k: v.to(device) for k, v in weights_under("best.", tensors).items()}
    state.mean_weights = {k: v.to(device) for k, v in weights_under("mean.", tensors).items()}
    for name in _GROUPINGS:
        if getattr(state, name) is not None:
            found = Grouping(tensors[f"{name}.confusion"], tensors[f"{name}.group"])
            setattr(state, name, found.to(device))
    state.epoch, state.best_epoch = int(about["epoch"]), int(about["best_epoch"])
    state.best_score = float(about["best_score"])
    state.batch, state.batch_right = int(about.get("batch", 0)), int(about.get("batch_right", 0))
    state.batch_loss = float(about.get("batch_loss", 0.0))


def weights_under(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those tensors whose names begin with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def environment() -> dict[str, Any]:
    """Versions, machine and threads."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "code_sha256": _CODE_SHA256,
        "torch_threads": torch.get_num_threads(),
        "kernel_threads": thread_count(),
        "cuda": torch.version.cuda,
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What has changed between two environments, in words."""
    changed = [
        f"{key}: {before.get(key)} then, {now.get(key)} now"
        for key in now
        if key != "packages" and before.get(key) != now.get(key)
    ]
    packages, stored = now["packages"], before.get("packages")
    then: dict[str, Any] = stored if isinstance(stored, dict) else {}
    changed += [
        f"{name}: {then.get(name)} then, {packages[name]} now"
        for name in packages
        if then.get(name) != packages[name]
    ]
    return changed


def continue_environment(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The environment in which a run began, with those in which it was continued."""
    known = _continuations(before)
    if now in known or not differences(before, now):
        return before
    return before | {"continued_in": [*known, now]}


def code_versions(environment: dict[str, Any]) -> list[str]:
    """Hashes of all source of this package that a run was trained by, the first one first."""
    parts = [environment, *_continuations(environment)]
    return list(dict.fromkeys(str(part["code_sha256"]) for part in parts if "code_sha256" in part))


def _continuations(environment: dict[str, Any]) -> list[dict[str, Any]]:
    stored = environment.get("continued_in")
    parts = cast("list[Any]", stored) if isinstance(stored, list) else []
    return [part for part in parts if isinstance(part, dict)]


def _code_sha256() -> str:
    """A hash of this package's source."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()} ".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


#: Of the source as it was imported: workers are forked from a process that has done so, and the
#: files may have changed when they begin.
_CODE_SHA256 = _code_sha256()


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
