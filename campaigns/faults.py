"""The n-th write, flush or renaming fails, for every n: is it told in a line, is anything lost?

python campaigns/faults.py [--jobs train,refit,…] [--kinds full,write,flush,rename] [--step 1]

Every job is done once in peace. Then it is done in an empty folder again and again while one
operation on a file in that folder fails, the first, the second and so on, until none is left to
fail: `full` is a disk that takes nothing any more from that write on (ENOSPC), `write`, `flush` and
`rename` fail once (EIO). After each the command must have ended with one line, or have managed
without; `ncgnn results` must read the folder; and the same command, undisturbed, must end with the
files of the undisturbed job, byte for byte but for times and machines, nothing half made beside.

Operations are those of Python. What numpy writes of an array, and SQLite of a search, is not seen.
"""

from __future__ import annotations

import argparse
import builtins
import errno
import io
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kills import JOBS, Place, contents, new_folder

if TYPE_CHECKING:
    from collections.abc import Callable

#: What fails: the kind of operation, with which error, and whether all later ones fail as well.
KINDS = {
    "full": ("write", errno.ENOSPC, True),
    "write": ("write", errno.EIO, False),
    "flush": ("flush", errno.EIO, False),
    "rename": ("rename", errno.EIO, False),
}
WANTED = ("train", "refit", "import", "predict", "analyze")
# A child says by its exit code that nothing was left to fail.
_NOTHING_FAILED, _TRACEBACK = 77, 78


class Faults:
    """Lets one operation on files below a folder fail."""

    def __init__(self, root: Path, kind: str, number: int) -> None:
        self.root, self.number = str(root), number
        self.operation, self.code, self.lasts = KINDS[kind]
        self.seen = 0

    def meet(self, operation: str) -> None:
        """Fail if it is the turn of this operation."""
        if operation == self.operation:
            self.seen += 1
            if self.seen == self.number or (self.lasts and self.seen > self.number):
                raise OSError(self.code, os.strerror(self.code))

    def concerns(self, path: Any) -> bool:
        """Whether a path is below the folder."""
        if isinstance(path, int):
            return False
        return str(Path(os.fsdecode(path)).absolute()).startswith(self.root)

    def arm(self) -> None:
        """Put itself between Python and the system, for the rest of the process."""
        faults, real_open = self, io.open

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                faults.meet("write")
                return super().write(data)

        def open_file(
            file: Any, mode: str = "r", buffering: int = -1, *text: Any, **named: Any
        ) -> Any:
            if not set(mode) & set("wxa+") or not faults.concerns(file):
                return real_open(file, mode, buffering, *text, **named)
            raw = File(file, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return stream if "b" in mode else io.TextIOWrapper(stream, *text, **named)

        builtins.open = io.open = open_file  # pyright: ignore
        os.fsync = _before(os.fsync, lambda *_: faults.meet("flush"))
        for name in ("replace", "rename"):
            after = _before(
                getattr(os, name),
                lambda _, target, *__: faults.concerns(target) and faults.meet("rename"),
            )
            setattr(os, name, after)


def _before(function: Callable[..., Any], first: Callable[..., Any]) -> Callable[..., Any]:
    def both(*given: Any, **named: Any) -> Any:
        first(*given)
        return function(*given, **named)

    return both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default=",".join(WANTED))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--step", type=int, default=1, help="try every STEP-th operation")
    chosen = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="ncgnn-faults-") as folder:
        place = Place(Path(folder))
        for name in chosen.jobs.split(","):
            for kind in chosen.kinds.split(","):
                found, told = try_all(place, name, kind, chosen.step)
                wrong += len(told)
                counted = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
                print(f"{name}, {kind}: {counted}", flush=True)
                for line in told:
                    print(f"  {line}", flush=True)
    sys.exit(int(wrong > 0))


def try_all(place: Place, name: str, kind: str, step: int) -> tuple[Counter[str], list[str]]:
    """Let one operation after the other fail; what happened how often, and what is wrong."""
    job, found, told = JOBS[name], Counter[str](), list[str]()
    whole = new_folder(job, place, f"{name}-{kind}-whole")
    code, said = call(job.command(place, whole))
    assert code == 0, said
    expected, number = contents(whole), 1
    while True:
        out = new_folder(job, place, f"{name}-{kind}-{number}")
        code, said = call(job.command(place, out), Faults(out, kind, number))
        if code == _NOTHING_FAILED:
            found["points"] = (number - 1) // step
            shutil.rmtree(out)
            return found, told
        lines = [line for line in said.splitlines() if line.startswith("error")]
        if code == _TRACEBACK or (code and len(lines) != 1):
            told.append(f"{number}: ended with {code}: {said[-700:]}")
        found["managed" if code == 0 else "told in a line"] += 1
        if (read := call(["", "-m", "ncgnn", "results", "--runs", str(out)]))[0] == _TRACEBACK:
            told.append(f"{number}: results: {read[1][-500:]}")
        code, said = call(job.command(place, out))
        if code:
            told.append(f"{number}: the same command again: {said[-500:]}")
        now = contents(out)
        told += [
            f"{number}: {path} differs"
            for path in sorted({*expected, *now})
            if expected.get(path) != now.get(path)
        ]
        told += [f"{number}: {path.name} is left" for path in out.rglob(".*.part")]
        shutil.rmtree(out)
        number += step


def call(command: list[str], faults: Faults | None = None) -> tuple[int, str]:
    """Run a command of ours in a child that has its modules already; its exit code and its errors.

    The code is that of :data:`_NOTHING_FAILED` where nothing was left to fail.
    """
    arguments = command[command.index("ncgnn") + 1 :]
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            code = 1
            try:
                code = _work(arguments, errors.fileno(), faults)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), errors.read().decode(errors="replace")


def _work(arguments: list[str], errors: int, faults: Faults | None) -> int:
    """In the child: the command, with its errors in a file."""
    from ncgnn.cli import app

    os.dup2(errors, 2)
    warnings.simplefilter("ignore")
    if faults is not None:
        faults.arm()
    with redirect_stderr(os.fdopen(2, "w", closefd=False)), redirect_stdout(io.StringIO()):
        try:
            app(arguments, standalone_mode=True)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
            code = _TRACEBACK
        sys.stderr.flush()
    return _NOTHING_FAILED if faults is not None and faults.seen < faults.number else code


if __name__ == "__main__":
    import ncgnn.cli
    import ncgnn.report
    import ncgnn.training  # noqa: F401  children have them by then

    main()
