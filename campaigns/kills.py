"""SIGKILL at random moments: is anything lost, is anything changed?

python campaigns/kills.py [--jobs train,batches,…] [--times 20] [--seed 0] [--keep FOLDER]

Every job is done once in peace. Then, as often as said, it begins in an empty folder, one of its
processes is killed at a random moment, and the same command ends it. All files must then be those
of the undisturbed job, byte for byte but for times and machines, and no half-made file may be left.
The line of a job says how often it was killed in time, and what was lost or changed.

`batches` and `ranks` write a checkpoint every second; the others, which are commands, as they do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

import ncgnn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Files that tell of times and machines, and may differ.
VOLATILE = ("timing.json", "environment.json", "done.json", "report.html", "run.log")
#: Of a job that was never disturbed, the longest that it may take, in seconds.
LONGEST = 900.0
COMMAND = [sys.executable, "-W", "ignore", "-m", "ncgnn"]
WORKER = """
import sys
from pathlib import Path
from ncgnn.training import join_ranks, make_config, train_run
place, runs, epochs = sys.argv[1:]
settings = {"epochs": int(epochs), "patience": int(epochs), "hidden": 16, "batch_size": 256}
config = make_config(dataset=place, model="ncgcn", settings=settings)
with join_ranks():
    train_run(config, Path(runs), checkpoint_seconds=1.0)
"""


@dataclass
class Place:
    """Where a campaign keeps its graph, tables, scripts and folders."""

    folder: Path

    def __post_init__(self) -> None:
        groups = [(0.7, 0.9), (0.3, 0.3)]
        graph = ncgnn.generate(4000, 16000, classes=4, features=16, groups=groups, seed=1)
        ncgnn.save(graph, self.graph)
        self.worker.write_text(WORKER)
        named = [f"n{node}" for node in range(400)]
        rows = [f"{name},{row[0]:.3f},{label}" for name, row, label in zip(
            named, graph.features, graph.labels, strict=False)]  # fmt: skip
        (self.folder / "nodes.csv").write_text("\n".join(["id,x,class", *rows]) + "\n")
        kept = [pair for pair in graph.edge_index().T.tolist() if max(pair) < 400]
        links = [f"n{one},n{other}" for one, other in kept]
        (self.folder / "edges.csv").write_text("\n".join(["a,b", *links]) + "\n")

    @property
    def graph(self) -> Path:
        """The graph."""
        return self.folder / "graph.npz"

    @property
    def worker(self) -> Path:
        """What trains in batches, with a checkpoint every second."""
        return self.folder / "worker.py"


@dataclass(frozen=True)
class Job:
    """What is done and killed.

    Attributes:
        command: The command that writes into a folder.
        prepare: What must be in the folder before.
    """

    command: Callable[[Place, Path], list[str]]
    prepare: Callable[[Place, Path], None] = lambda place, out: None


def train(place: Place, out: Path, *more: str) -> list[str]:
    """A run of NCGCN on the whole graph."""
    options = ["--set", "epochs=80", "--set", "patience=80", "--set", "hidden=32"]
    return [*COMMAND, "train", str(place.graph), "--model", "ncgcn", *options, *more,
            "--runs", str(out)]  # fmt: skip


def train_in_batches(place: Place, out: Path, ranks: int = 1) -> list[str]:
    """A run in batches, by one process or several."""
    launcher = [sys.executable, "-W", "ignore"]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return [*launcher, str(place.worker), str(place.graph), str(out), "12"]


def train_once(place: Place, out: Path) -> None:
    """A finished run, made once and then copied."""
    made = place.folder / "finished"
    if not made.is_dir():
        subprocess.run(train(place, made), env=environment(), check=True, capture_output=True)
    shutil.copytree(made, out, symlinks=True)


JOBS = {
    "train": Job(train),
    "refit": Job(lambda place, out: train(place, out, "--refit"), train_once),
    "batches": Job(train_in_batches),
    "ranks": Job(lambda place, out: train_in_batches(place, out, 2)),
    "sweep": Job(lambda place, out: [
        *COMMAND, "sweep", str(place.graph), "--models", "gcn,mlp", "--seeds", "2",
        "--set", "epochs=30", "--set", "hidden=16", "--workers", "2", "--runs", str(out),
    ]),
    "import": Job(lambda place, out: [
        *COMMAND, "import", str(place.folder / "nodes.csv"), str(place.folder / "edges.csv"),
        "--id", "id", "--label", "class", "--out", str(out / "mine"), "--force",
    ]),
    "predict": Job(lambda place, out: [
        *COMMAND, "predict", str(next(one for one in out.glob("graph-*") if one.is_dir())),
        "--coverage", "0.9", "--out", str(out / "answers.csv"), "--force",
    ], train_once),
    "analyze": Job(lambda place, out: [
        *COMMAND, "analyze", str(place.graph), "--out", str(out / "report"), "--force",
    ]),
}  # fmt: skip


@dataclass
class Outcome:
    """What became of a job."""

    killed: int = 0
    too_late: int = 0
    failed: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


def environment() -> dict[str, str]:
    """One thread each, so that sums are those of every other time."""
    return os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for what went wrong")
    chosen = parser.parse_args()
    names = chosen.jobs.split(",")
    if unknown := [name for name in names if name not in JOBS]:
        sys.exit(f"there is no job {unknown[0]}; there are {', '.join(JOBS)}.")
    wrong = False
    with tempfile.TemporaryDirectory(prefix="ncgnn-kills-") as folder:
        place = Place(Path(folder))
        for name in names:
            rng = random.Random(f"{chosen.seed} {name}")
            outcome = disturb(JOBS[name], place, name, chosen.times, rng, chosen.keep)
            wrong |= bool(outcome.failed or outcome.changed or outcome.left)
            print(
                f"{name}: killed {outcome.killed} times ({outcome.too_late} more had ended), "
                f"failed {len(outcome.failed)}, changed {len(outcome.changed)}, left half made "
                f"{len(outcome.left)}",
                flush=True,
            )
            for what in (*outcome.failed, *outcome.changed, *outcome.left):
                print(f"  {what}", flush=True)
    sys.exit(int(wrong))


def disturb(
    job: Job, place: Place, name: str, times: int, rng: random.Random, keep: Path | None
) -> Outcome:
    """Do a job in peace, and then again and again with a kill."""
    whole = new_folder(job, place, f"{name}-whole")
    began = time.monotonic()
    finish(job.command(place, whole))
    seconds, expected = time.monotonic() - began, contents(whole)
    outcome = Outcome()
    for number in range(times):
        before = len(outcome.failed) + len(outcome.changed) + len(outcome.left)
        out = new_folder(job, place, f"{name}-{number}")
        in_time = kill_once(job.command(place, out), rng, seconds)
        if not in_time:  # the machine is less busy than it was
            seconds *= 0.8
        outcome.killed += in_time
        outcome.too_late += not in_time
        try:
            finish(job.command(place, out))
        except subprocess.SubprocessError as error:
            outcome.failed.append(f"{number}: {error}: {getattr(error, 'stderr', '')[-500:]}")
        else:
            found = contents(out)
            every = sorted({*expected, *found})
            outcome.changed += [
                f"{number}: {path}" for path in every if found.get(path) != expected.get(path)
            ]
            outcome.left += [f"{number}: {path.name}" for path in out.rglob(".*.part")]
        wrong = len(outcome.failed) + len(outcome.changed) + len(outcome.left)
        if keep is not None and wrong > before:
            shutil.copytree(out, keep / out.name, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(out)
    return outcome


def new_folder(job: Job, place: Place, name: str) -> Path:
    """An empty folder, with what the job needs."""
    out = place.folder / name
    job.prepare(place, out)
    out.mkdir(exist_ok=True)
    return out


def finish(command: list[str]) -> None:
    """Run a command to its end."""
    subprocess.run(
        command, env=environment(), check=True, capture_output=True, text=True, timeout=LONGEST
    )


def kill_once(command: list[str], rng: random.Random, seconds: float) -> bool:
    """Kill one process of a command at a random moment; say whether it was in time."""
    process = subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(rng.uniform(0.2, 0.95) * seconds)
    if process.poll() is not None:
        return False
    first = psutil.Process(process.pid)
    family = [first, *first.children(recursive=True)]
    with suppress(psutil.NoSuchProcess):
        rng.choice(family).kill()
    with suppress(subprocess.TimeoutExpired):  # the others end, but for a launcher killed itself
        process.wait(timeout=60)
    for one in family:  # psutil knows them by when they began, so that nobody else is meant
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
    psutil.wait_procs(family, timeout=60)
    return True


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of all that must not differ, by its place; of JSON without what may."""
    return dict(walk(folder))


def walk(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not path.is_file() or path.is_symlink() or is_hidden:
            continue
        content = path.read_bytes()
        if path.name in VOLATILE:
            content = b"is there"
        elif path.suffix == ".json":
            content = json.dumps(plain(json.loads(content))).encode()
        yield str(path.relative_to(folder)), hashlib.sha256(content).hexdigest()


def plain(value: object) -> object:
    """Without times, and without checksums of files that hold them."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in ("seconds", "files")}
    return [plain(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
