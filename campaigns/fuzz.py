"""Coverage-guided fuzzing of every reader: no input may end in anything but one clear error.

python campaigns/fuzz.py [--readers npz,toml,…] [--seconds 120] [--corpus FOLDER]

It needs atheris (pip install atheris). Every reader has a process of its own, which is ended where
memory grows by a gigabyte or an input takes ten seconds. What it begins with is made from valid
files; what it finds is kept in --corpus, from which the next campaign goes on. An input that ends
in another exception than the package's own is printed with its traceback and kept as `crash-…`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from scipy.io import savemat
from scipy.sparse import csc_array, csr_matrix

if TYPE_CHECKING:
    from collections.abc import Callable

#: Compiled code cannot be watched; these modules are read by Python.
WATCHED = [
    "ncgnn._io", "ncgnn.options", "ncgnn.data.npz", "ncgnn.data.sources", "ncgnn.data.tables",
    "ncgnn.data.loading", "ncgnn.data.splits", "ncgnn.training.config", "ncgnn.training.folder",
    "ncgnn.experiments.results",
]  # fmt: skip
SOURCES = ("planetoid", "ogb", "facebook100")
MEGABYTES, LONGEST = 1000, 10
#: Files of a run that are changed.
OF_RUNS = (
    *("result.json", "timing.json", "split.json", "metrics.jsonl", "config.toml", "done.json"),
)


@dataclass(frozen=True)
class Reader:
    """What reads files of a kind.

    Attributes:
        seeds: Valid inputs.
        read: Reads an input in an empty folder.
    """

    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, Path], object]


@cache
def small() -> Any:
    """A graph with all that a file may hold."""
    import ncgnn

    return ncgnn.generate(30, 60, classes=3, features=4, homophily=0.7, seed=0)


def saved(name: str) -> bytes:
    """The bytes of a file that the package writes for the small graph."""
    import ncgnn

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        ncgnn.save(small(), path)
        return path.read_bytes()


def read_npz_file(data: bytes, folder: Path) -> object:
    from ncgnn.data import read_npz

    (folder / "g.npz").write_bytes(data)
    return read_npz(folder / "g.npz")


def npz_members() -> list[bytes]:
    """Every member of a valid file, with its place before it."""
    with zipfile.ZipFile(io.BytesIO(saved("g.npz"))) as archive:
        return [bytes([n]) + archive.read(name) for n, name in enumerate(archive.namelist())]


def read_npz_member(data: bytes, folder: Path) -> object:
    """A valid file one member of which is replaced, so that checksums of the archive hold."""
    with zipfile.ZipFile(io.BytesIO(saved("g.npz"))) as valid:
        names = valid.namelist()
        changed = names[data[0] % len(names)] if data else names[0]
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name in names:
                archive.writestr(name, data[1:] if name == changed else valid.read(name))
    return read_npz_file(stream.getvalue(), folder)


@cache
def dataset_files() -> dict[str, bytes]:
    """The files of a dataset folder made of tables."""
    import ncgnn

    with tempfile.TemporaryDirectory() as folder:
        ids = [f"n{node}" for node in range(12)]
        nodes = {"id": ids, "x": list(range(12)), "y": ["a", "b", "c"] * 4}
        edges = {"s": ids, "t": ids[1:] + ids[:1]}
        ncgnn.save(ncgnn.read_tables(nodes, edges, label="y"), Path(folder) / "d")
        return {path.name: path.read_bytes() for path in sorted((Path(folder) / "d").iterdir())}


def read_dataset(data: bytes, folder: Path) -> object:
    """A dataset folder one file of which is replaced; checksums of other files hold."""
    from ncgnn._io import sha256_of_file
    from ncgnn.data import read_folder

    files = dataset_files()
    names = sorted(files)
    changed = names[data[0] % len(names)] if data else names[0]
    for name, content in files.items():
        (folder / name).write_bytes(data[1:] if name == changed else content)
    manifest = json.loads(files["dataset.json"])
    if changed in manifest["files"]:
        size, found = len(data) - 1, sha256_of_file(folder / changed)
        manifest["files"][changed] = {"bytes": size, "sha256": found}
        (folder / "dataset.json").write_text(json.dumps(manifest))
    return read_folder(folder)


def read_config(data: bytes, folder: Path) -> object:
    from ncgnn.training import make_config

    (folder / "c.toml").write_bytes(data)
    return make_config(dataset="digits", config=folder / "c.toml")


def read_lines(data: bytes, folder: Path) -> object:
    from ncgnn.experiments import read_stored

    (folder / "r.jsonl").write_bytes(data)
    return read_stored(folder / "r.jsonl")


@cache
def run_files() -> dict[str, bytes]:
    """The files of a finished run."""
    from ncgnn.training import make_config, train_run

    with tempfile.TemporaryDirectory() as folder:
        settings = {"epochs": 2, "hidden": 2}
        config = make_config(dataset="digits", model="ncgcn", settings=settings)
        run = train_run(config, Path(folder))
        return {one.name: one.read_bytes() for one in run.folder.iterdir() if one.is_file()}


def read_run(data: bytes, folder: Path) -> object:
    """A run one file of which was changed and signed anew."""
    from ncgnn._io import sha256_of_file
    from ncgnn.training import RunFolder, finished_run

    files = {n: c for n, c in run_files().items() if not n.startswith(".")}
    changed = OF_RUNS[data[0] % len(OF_RUNS)] if data else OF_RUNS[0]
    for name, content in files.items():
        (folder / name).write_bytes(data[1:] if name == changed else content)
    done = json.loads(files["done.json"])
    if changed in done["files"]:
        done["files"][changed] = sha256_of_file(folder / changed)
        (folder / "done.json").write_text(json.dumps(done))
    run = RunFolder(folder)
    return finished_run(run), run.history()


def read_csv(data: bytes, folder: Path) -> object:
    """Nodes and edges in one input, with an empty line between them."""
    import ncgnn

    nodes, _, edges = data.partition(b"\n\n")
    (folder / "nodes.csv").write_bytes(nodes)
    (folder / "edges.csv").write_bytes(edges)
    return ncgnn.read_tables(folder / "nodes.csv", folder / "edges.csv", unknown="drop")


def read_schema_file(data: bytes, folder: Path) -> object:
    from ncgnn.data import read_schema

    (folder / "schema.toml").write_bytes(data)
    return read_schema(folder / "schema.toml")


def planetoid_files() -> dict[str, bytes]:
    """The files of a small dataset in Planetoid's form."""
    random = np.random.default_rng(0)
    features, labels = random.random((8, 3)).round(), np.eye(2, dtype=np.int32)[[0, 1] * 4]
    parts: dict[str, Any] = {
        "x": csr_matrix(features[:2]), "allx": csr_matrix(features[:6]),
        "tx": csr_matrix(features[6:]), "y": labels[:2], "ally": labels[:6], "ty": labels[6:],
        "graph": {0: [1], 1: [0, 6], 6: [1]},
    }  # fmt: skip
    files = {f"ind.tiny.{name}": pickle.dumps(part, protocol=2) for name, part in parts.items()}
    return files | {"ind.tiny.test.index": b"6\n7\n"}


def read_planetoid(data: bytes, folder: Path) -> object:
    return parse("planetoid", planetoid_files(), data, folder)


def ogb_files() -> dict[str, bytes]:
    """The tables of a small dataset in OGB's form, before they are packed."""
    return {
        "edge.csv.gz": b"0,1\n1,2\n",
        "num-node-list.csv.gz": b"3\n", "num-edge-list.csv.gz": b"2\n",
        "node-feat.csv.gz": b"0.5,1\n1,2\n3,4\n", "node-label.csv.gz": b"0\n1\n0\n",
    }  # fmt: skip


def read_ogb(data: bytes, folder: Path) -> object:
    from ncgnn.data.sources import find_parser

    files = ogb_files()
    names = sorted(files)
    changed = names[data[0] % len(names)] if data else names[0]
    path = folder / "tiny.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            text = data[1:] if name == changed else content
            archive.writestr(f"tiny/raw/{name}", gzip.compress(text, mtime=0))
    return find_parser("ogb")({path.name: path})


def matlab() -> list[bytes]:
    """Small networks in MATLAB's form, packed and not."""
    table = np.ones((6, 7))
    table[:, 1] = [1, 2, 1, 2, 0, 1]
    found: list[bytes] = []
    for packed in (False, True):
        stream = io.BytesIO()
        savemat(stream, {"A": csc_array(np.eye(6)), "local_info": table}, do_compression=packed)
        found.append(stream.getvalue())
    return found


def read_matlab(data: bytes, folder: Path) -> object:
    from ncgnn.data.sources import find_parser

    (folder / "Tiny1.mat").write_bytes(data)
    return find_parser("facebook100")({"Tiny1.mat": folder / "Tiny1.mat"})


def parse(kind: str, files: dict[str, bytes], data: bytes, folder: Path) -> object:
    """A dataset one file of which is replaced."""
    from ncgnn.data.sources import find_parser

    names = sorted(files)
    changed = names[data[0] % len(names)] if data else names[0]
    paths: dict[str, Path] = {}
    for name, content in files.items():
        paths[name] = folder / name
        paths[name].write_bytes(data[1:] if name == changed else content)
    return find_parser(kind)(paths)


def placed(files: dict[str, bytes]) -> list[bytes]:
    """Every file with its place before it."""
    return [bytes([n]) + files[name] for n, name in enumerate(sorted(files))]


def results() -> list[bytes]:
    """A line of stored results."""
    from ncgnn.experiments import as_records, write_stored
    from ncgnn.training import make_config, train_run

    with tempfile.TemporaryDirectory() as folder:
        settings = {"epochs": 2, "hidden": 2}
        run = train_run(make_config(dataset="digits", settings=settings), Path(folder))
        write_stored(as_records([run]), Path(folder) / "r.jsonl")
        return [(Path(folder) / "r.jsonl").read_bytes()]


READERS = {
    "npz": Reader(lambda: [saved("g.npz")], read_npz_file),
    "member": Reader(npz_members, read_npz_member),
    "dataset": Reader(lambda: placed(dataset_files()), read_dataset),
    "toml": Reader(lambda: [
        b'[model]\nname = "ncgcn"\nhidden = 8\nthreshold = 0.5\n[training]\nepochs = 3\n',
        b'[data]\nsplit = "stratified"\n[model]\nname = "gcn"\n[training]\nlearning_rate = 1e-2\n',
    ], read_config),
    "jsonl": Reader(results, read_lines),
    "run": Reader(lambda: [
        bytes([n]) + run_files()[name] for n, name in enumerate(OF_RUNS)
    ], read_run),
    "csv": Reader(lambda: [
        b"id,x,label\na,1,u\nb,2.5,v\nc,,u\n\nsource,target\na,b\nb,c\n",
        b'id;text\n1;"one; two"\n2;three\n\na\tb\n1\t2\n',
    ], read_csv),
    "schema": Reader(lambda: [dataset_files()["schema.toml"]], read_schema_file),
    "planetoid": Reader(lambda: placed(planetoid_files()), read_planetoid),
    "ogb": Reader(lambda: placed(ogb_files()), read_ogb),
    "matlab": Reader(matlab, read_matlab),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", default=",".join(READERS))
    parser.add_argument("--seconds", type=int, default=120, help="for each reader")
    parser.add_argument("--corpus", type=Path, default=Path("fuzz-corpus"))
    parser.add_argument("--worker", help="for this script alone")
    chosen = parser.parse_args()
    if chosen.worker:
        work(chosen.worker, chosen.corpus, chosen.seconds)
        return
    wrong = 0
    for name in chosen.readers.split(","):
        folder = chosen.corpus / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(READERS[name].seeds()):
            (folder / f"seed-{number}").write_bytes(seed)
        command = [sys.executable, __file__, "--worker", name, "--corpus", str(chosen.corpus)]
        command += ["--seconds", str(chosen.seconds)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        found = {
            line.split(":")[2]: int(line.split()[-1])
            for line in done.stderr.splitlines()
            if line.startswith("stat::")
        }
        count, new = found.get("number_of_executed_units", 0), found.get("new_units_added", 0)
        # Where nothing new is ever found, and nothing was kept before, nothing is watched.
        blind = not new and len([*folder.iterdir()]) <= len(READERS[name].seeds())
        failed = done.returncode != 0 or blind
        wrong += failed
        what = "a finding" if done.returncode else "nothing is watched" if blind else "no finding"
        print(
            f"{name}: {count:,} inputs in {chosen.seconds} s, {new:,} of them new to the code, "
            f"{what}",
            flush=True,
        )
        if failed:
            print(done.stdout[-1500:], done.stderr[-2500:], flush=True)
    sys.exit(int(wrong > 0))


def unwatched() -> list[str]:
    """All other modules of the package: what numba compiles must be as it was written."""
    found = find_spec("ncgnn")
    assert found is not None
    assert found.submodule_search_locations
    root = Path(found.submodule_search_locations[0])
    names = [
        ".".join(("ncgnn", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for path in root.rglob("*.py")
    ]
    return [name for name in names if not name.startswith(tuple(WATCHED))]


def work(name: str, corpus: Path, seconds: int) -> None:
    """Fuzz one reader, in a process of its own."""
    import atheris  # pyright: ignore

    with atheris.instrument_imports(include=["ncgnn"], exclude=unwatched()):
        for module in (*WATCHED, *(f"ncgnn.data.sources.{one}" for one in SOURCES)):
            import_module(module)
    from ncgnn.errors import NcgnnError

    warnings.simplefilter("ignore")
    reader = READERS[name]
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    place = tempfile.TemporaryDirectory(prefix="ncgnn-fuzz-", dir=base)
    folder = Path(place.name)

    def test(data: bytes) -> None:
        for path in folder.iterdir():
            path.unlink()
        try:
            reader.read(data, folder)
        except (NcgnnError, FileNotFoundError):
            return

    for seed in reader.seeds():
        test(seed)
    used = psutil.Process().memory_info().rss >> 20
    options = [f"-max_total_time={seconds}", f"-rss_limit_mb={used + MEGABYTES}"]
    options += [f"-timeout={LONGEST}", "-print_final_stats=1", "-max_len=65536", "-verbosity=0"]
    options += [f"-artifact_prefix={corpus / name}/"]
    atheris.Setup([sys.argv[0], *options, str(corpus / name)], test)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
