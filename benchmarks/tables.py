"""Debian's packages: a model of one release answers for the packages that the next one adds.

python benchmarks/tables.py --data FOLDER [--models tuned-sage,…] [--seeds 3] [--no-baselines]

The folder holds bookworm/ and trixie/ with packages.parquet and dependencies.parquet each; both are
written out as CSV and imported from there. Sections are learned on bookworm alone. Packages' names
are ids, never features. Options are not chosen with anything of trixie.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array, hstack
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize

import ncgnn

IMPORT = ("--id", "package", "--label", "section", "--kind", "kind")
#: Validation nodes select the epoch; the rest is trained on.
FRACTIONS = (0.9, 0.1, 0.0)
OURS: dict[str, tuple[str, dict[str, object]]] = {
    "mlp": ("mlp", {}),
    "tuned-sage-both": ("tuned-sage", {"direction": "both"}),
    "tuned-sage": ("tuned-sage", {}),
    "tuned-gat": ("tuned-gat", {}),
    "tuned-gcn": ("tuned-gcn", {}),
    "ncsage": ("ncsage", {}),
    "ncsage-none": ("ncsage", {"separation": "none"}),
    "ncgcn": ("ncgcn", {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("NCGNN_DATA"))
    parser.add_argument("--models", help="only these of ours")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--no-baselines", action="store_true")
    chosen = parser.parse_args()
    folder = None if chosen.data is None else Path(chosen.data)
    folder = folder / "debian" if folder is not None and (folder / "debian").is_dir() else folder
    if folder is None or not (folder / "bookworm").is_dir():
        sys.exit("name the folder of the two releases with --data, or above it with NCGNN_DATA.")
    warnings.simplefilter("ignore", ncgnn.NcgnnWarning)
    with tempfile.TemporaryDirectory() as place:
        work(folder, Path(place), chosen)


def work(folder: Path, place: Path, chosen: argparse.Namespace) -> None:
    write_tables(folder, place)
    arguments = ("old-packages.csv", "old-edges.csv", *IMPORT, "--out", "debian")
    seconds, gigabytes = run_command(place, "import", *arguments)
    print(f"import of bookworm from CSV: {seconds:.1f} s, at most {gigabytes:.2f} GB (bar 60 s, 2)")
    graph = ncgnn.load(place / "debian")
    later = graph.extend(place / "new-packages.csv", place / "new-edges.csv")
    truth = later.labels[graph.num_nodes :]
    assert (truth >= 0).all()
    print(f"{len(truth):,} packages of trixie are new; {graph.num_nodes:,} are learned from")
    if not chosen.no_baselines:
        for name, answers in baselines(graph, later):
            show(name, truth, answers)
    wanted = None if chosen.models is None else chosen.models.split(",")
    for name, (model, settings) in OURS.items():
        if wanted is None or name in wanted:
            measure(graph, later, truth, name, model, settings, chosen.seeds)
    measure_commands(place, graph)


def write_tables(folder: Path, place: Path) -> None:
    """Both releases as CSV; of the new one, what is in the old one too is left out later."""
    for release, name in (("bookworm", "old"), ("trixie", "new")):
        for table, ending in (("packages", "packages"), ("dependencies", "edges")):
            found = pq.read_table(folder / release / f"{table}.parquet")
            pc.write_csv(found, place / f"{name}-{ending}.csv")


def baselines(graph: ncgnn.Graph, later: ncgnn.Graph):
    """Answers of what people would use without this package, one after another."""
    count, labels = graph.num_nodes, graph.labels
    classes = graph.num_classes
    yield "majority", np.full(later.num_nodes - count, np.bincount(labels).argmax())
    votes = neighbor_shares(later, labels, classes)
    first = votes[count:, :classes] + votes[count:, classes:]
    yield "vote of neighbors with a label", np.asarray(first.argmax(axis=1)).ravel()
    features = csr_array(later.features)
    words = np.array([name.startswith("description: ") for name in later.feature_names])
    for name, matrix in (
        ("logistic regression, description", features[:, words]),
        ("logistic regression, all columns", features),
        ("logistic regression, with neighbors' labels", hstack([features, votes], format="csr")),
    ):
        model = LogisticRegression(C=10, max_iter=200, tol=1e-3)
        model.fit(matrix[:count], labels)
        yield name, model.predict(matrix[count:])


def neighbor_shares(graph: ncgnn.Graph, labels: np.ndarray, classes: int) -> csr_array:
    """The shares of known labels among what a node needs, and among what needs it."""
    known = np.zeros((graph.num_nodes, classes), dtype=np.float32)
    known[np.arange(len(labels)), labels] = 1
    parts = []
    for bit in (1, 2):
        kept = (graph.edge_directions & bit > 0).astype(np.float32)
        matrix = csr_array((kept, graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
        parts.append(normalize(csr_array(matrix @ csr_array(known)), norm="l1"))
    return csr_array(hstack(parts, format="csr"))


def measure(
    graph: ncgnn.Graph,
    later: ncgnn.Graph,
    truth: np.ndarray,
    title: str,
    model: str,
    settings: dict[str, object],
    seeds: int,
) -> None:
    """Train on the old release with some seeds, and answer for what is new."""
    number = {name: place for place, name in enumerate(graph.class_names)}
    refitted: list[ncgnn.training.TrainedModel] = []

    def answer(note: str, trained: ncgnn.training.TrainedModel, seconds: float, **more) -> None:
        answers = trained.predict(later, only="new", **more)["predicted"]
        found = np.array([number[one] for one in answers])
        show(f"{title}, {note}", truth, found, f"  {seconds:.0f} s")

    for seed in range(seeds):
        started = time.perf_counter()
        trained = ncgnn.fit(graph, model, seed=seed, fractions=FRACTIONS, **settings)
        answer(f"seed {seed}", trained, time.perf_counter() - started)
        refitted.append(trained.refit())
        seconds = time.perf_counter() - started
        answer(f"seed {seed}, refitted on all labels", refitted[-1], seconds)
    if seeds > 1:
        answer(f"mean of {seeds} seeds, refitted", refitted[0], 0.0, others=refitted[1:])


def show(name: str, truth: np.ndarray, answers: np.ndarray, note: str = "") -> None:
    accuracy = 100 * np.mean(truth == answers)
    macro = f1_score(truth, answers, average="macro", zero_division=0)
    print(f"{name:<70} {accuracy:6.2f} {macro:.3f}{note}", flush=True)


def measure_commands(place: Path, graph: ncgnn.Graph) -> None:
    """The time of all new answers by the command line, and of one in a warm process."""
    options = ("--model", "tuned-sage", "--set", "epochs=3", "--runs", "runs")
    run_command(place, "train", "debian", *options)
    new = ("--nodes", "new-packages.csv", "--edges", "new-edges.csv", "--out", "answers.parquet")
    seconds, gigabytes = run_command(place, "predict", "latest", *new, "--runs", "runs")
    rows = pq.read_table(place / "answers.parquet").num_rows
    print(f"{rows:,} new answers: {seconds:.1f} s, at most {gigabytes:.2f} GB (bar 30 s)")
    trained = ncgnn.load_run(place / "runs" / "latest")
    known, times = set(graph.ids.tolist()), []
    rows = pc.read_csv(place / "new-packages.csv").to_pylist()
    packages = [row for row in rows if row["package"] not in known]
    edges = pc.read_csv(place / "new-edges.csv").to_pylist()
    for package in packages[:: len(packages) // 40]:
        name = package["package"]
        own = [edge for edge in edges if edge["package"] == name and edge["needs"] in known]
        table = own or {"package": [], "needs": [], "kind": []}
        started = time.perf_counter()
        trained.predict(trained.graph.extend([package], table), only="new")
        times.append(1000 * (time.perf_counter() - started))
    median, most = statistics.median(times[1:]), statistics.quantiles(times[1:], n=10)[-1]
    print(f"one new package, warm: {median:.0f} ms, nine of ten under {most:.0f} ms (bar 50)")
    measure_explanations(trained)


def measure_explanations(trained: ncgnn.training.TrainedModel) -> None:
    """The time of explanations in a warm process, of packages drawn at random and of a hub."""
    names = np.random.default_rng(0).choice(trained.graph.ids, 101, replace=False).tolist()
    times = []
    for name in names:
        started = time.perf_counter()
        trained.explain(name)
        times.append(time.perf_counter() - started)
    median, most = statistics.median(times[1:]), statistics.quantiles(times[1:], n=10)[-1]
    print(f"one explanation, warm: {median:.2f} s, nine of ten under {most:.2f} s")
    started = time.perf_counter()
    trained.explain("libc6")
    print(f"explanation of libc6: {time.perf_counter() - started:.1f} s")


def run_command(place: Path, *words: str) -> tuple[float, float]:
    """Seconds and gigabytes of a command in a process of its own."""
    script = (
        "import sys, json, time, resource\n"
        "from ncgnn.cli import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss), "
        "file=sys.stderr)"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=place, capture_output=True, text=True
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(done.stderr)
    kilobytes = json.loads(done.stderr.splitlines()[-1])
    return seconds, kilobytes * 1024 / 1e9


if __name__ == "__main__":
    main()
