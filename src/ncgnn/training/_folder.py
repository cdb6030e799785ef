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
``error.json``          what a run failed with
``done.json``           the checksums of all that the result rests on, written last
======================  =======================================================================
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ncgnn._files import make_durable, sha256_of_file, write_text
from ncgnn._locks import is_locked, take_lock
from ncgnn.errors import InputError
from ncgnn.training._config import RunConfig, resolved
from ncgnn.training._tensors import DamagedFileError
from ncgnn.training._toml import read_toml, to_toml

if TYPE_CHECKING:
    from collections.abc import Generator

CONFIG, ENVIRONMENT, SPLIT = "config.toml", "environment.json", "split.json"
METRICS, CHECKPOINT, WEIGHTS = "metrics.jsonl", "checkpoint.safetensors", "weights.safetensors"
RESULT, TIMING, DONE, GRAPH = "result.json", "timing.json", "done.json", "graph.npz"
ERROR = "error.json"
_NEEDED = (CONFIG, ENVIRONMENT, SPLIT, METRICS, WEIGHTS, RESULT, TIMING)


class RunInUseError(InputError):
    """Another process trains this run."""


class OtherRunError(InputError):
    """A folder of this run's name holds another one."""


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def write_json(self, name: str, value: Any, *, durable: bool = False) -> None:
        """Write a JSON file atomically."""
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
        write_text(self / name, text, durable=durable)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; the error names the file."""
        try:
            value = json.loads((self / name).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedFileError(f"{self / name}: cannot be read ({error}).") from None
        if not isinstance(value, dict):
            raise DamagedFileError(f"{self / name}: does not hold a JSON object.")
        return cast("dict[str, Any]", value)

    def write_config(self, config: RunConfig, *, durable: bool = False) -> None:
        """Write the configuration."""
        write_text(self / CONFIG, to_toml(config.model_dump(mode="json")), durable=durable)

    def read_config(self) -> RunConfig:
        """Read the configuration."""
        return resolved(read_toml(self / CONFIG), str(self / CONFIG))

    def write_error(self, error: str, *, wrong_input: bool, trace: str = "") -> None:
        """Keep what a run ended with, and whether its input was to blame."""
        self.write_json(ERROR, {"error": error, "input": wrong_input, "traceback": trace})

    def history(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        return read_records(self / METRICS)

    def mark_done(self) -> None:
        """Write the completion marker with the checksums of all that the result rests on."""
        present = self.make_durable()
        checksums = {name: sha256_of_file(self / name) for name in present}
        self.write_json(DONE, {"files": checksums}, durable=True)

    def make_durable(self) -> list[str]:
        """Have what is there so far outlast a power cut; returns the names of these files."""
        present = [name for name in (*_NEEDED, GRAPH) if (self / name).is_file()]
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
            raise InputError(f"there is no run {self.path}; 'ncgnn train' makes one.")
        inside = sorted(path.parent.name for path in self.path.glob(f"*/{DONE}"))
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
        for name in (*_NEEDED, *({GRAPH} & stated.keys())):
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
        handle = take_lock(self / ".lock", wait=False)
        if handle is None:
            raise RunInUseError(f"another process is working on {self.path}.")
        with handle:
            yield


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines up to the first one that is not whole."""
    records: list[dict[str, Any]] = []
    if not path.is_file():
        return records
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(record, dict):
            break
        records.append(record)
    return records
