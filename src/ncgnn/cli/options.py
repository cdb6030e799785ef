"""The arguments and options of the commands; what means the same everywhere is declared once."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ncgnn
from ncgnn._io import as_path
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TableFormat = Literal["csv", "parquet"]


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A shell completion of the last name of a list like ``a,b``."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def _model_names() -> list[str]:
    """Names of models, read from the presets: importing torch would take seconds."""
    presets = (resources.files("ncgnn") / "training" / "presets").iterdir()
    names = {Path(one.name).stem for one in presets} - {"common", "searched", "tables"}
    return sorted(names | {"auto", "mixture"})


def _expand_home(path: Path) -> Path:
    """A shell leaves ``--runs=~/runs`` as it is."""
    try:
        return as_path(path)
    except InputError as error:  # options are read before a command begins
        raise typer.BadParameter(str(error)) from None


_FAMILIES = ("stratified", "paper", "published", "planetoid", "uniform", "time")
_METRICS = (
    *("accuracy", "macro_f1", "balanced_accuracy", "roc_auc", "average_precision"),
    "likelihood",
)
_GRAPH = "A name that 'ncgnn datasets' lists, a folder that 'ncgnn import' wrote, or an npz file"

complete_model = complete_from(_model_names)


def _graph(text: str) -> Any:
    complete = complete_from(lambda: (entry.name for entry in ncgnn.data.list_datasets()))
    return typer.Argument(metavar="GRAPH", help=text, autocompletion=complete)


def _split(text: str) -> Any:
    complete = complete_from(lambda: _FAMILIES)
    return typer.Option("--split", metavar="FAMILY", help=text, autocompletion=complete)


Graph = Annotated[str, _graph(f"{_GRAPH}.")]
MaybeGraph = Annotated[str | None, _graph(f"{_GRAPH}; --config may name it instead.")]
MovedGraph = Annotated[str | None, _graph("Where the graph of the run is now, if it has moved.")]
OtherGraph = Annotated[
    str | None,
    _graph(
        "Another graph with the same features, or where that of the run is now. Default: its own."
    ),
]
Graphs = Annotated[
    list[str] | None, _graph("Names that 'ncgnn datasets' lists, dataset folders, or npz files.")
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Folder of a finished run, or its name under --runs; latest is the newest.",
    ),
]
StartFrom = Annotated[
    str | None,
    typer.Option(
        "--start-from",
        metavar="RUN",
        help="Begin with the weights of an earlier run of the same model, like latest. Features "
        "and classes are matched by name; nodes keep their parts of the split.",
    ),
]
Refit = Annotated[
    bool,
    typer.Option(
        "--refit",
        help="Then train once more on all labels, for answers about nodes that have none. Scores "
        "stay those of the run.",
    ),
]
RunList = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="Folders of finished runs, or their names under --runs."),
]
UseRefitted = Annotated[
    bool,
    typer.Option(
        "--refit/--no-refit",
        help="Let the model that was refitted on all labels, if there is one, answer for nodes "
        "without a label and new ones.",
    ),
]
NewNodes = Annotated[
    Path | None,
    typer.Option("--nodes", help="Table of new nodes, in the columns of the run's own tables."),
]
NewEdges = Annotated[
    Path | None,
    typer.Option("--edges", help="Table of the edges of new nodes, to old and new ones."),
]
UnknownEnds = Annotated[
    Literal["error", "drop"] | None,
    typer.Option(
        "--unknown",
        help="What to do with edges to ids that are no node. Default: as at the import.",
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="SHARE",
        help="Add a set of classes that holds the true one this often, like 0.9.",
    ),
]
SetsBy = Annotated[
    Literal["nc", "none"] | None,
    typer.Option(
        "--sets-by",
        help="What the sets' promise holds for: nc, every group of similar NC, or none, all nodes "
        "together. Default: nc.",
    ),
]
Sets = Annotated[
    Literal["lac", "aps", "aps-random"] | None,
    typer.Option(
        "--sets",
        help="The score of sets: lac for the smallest, or aps, aps-random. Default: lac.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with npz files, searched before that of NCGNN_DATA."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Split = Annotated[str | None, _split(f"Split family: {', '.join(_FAMILIES)}. Default: stratified.")]
Fractions = Annotated[
    str | None,
    typer.Option(
        "--fractions",
        metavar="TRAIN,VAL,TEST",
        help="Shares of the split's parts, like 0.7,0.15,0.15. Default: those of the family.",
    ),
]
OnlySplit = Annotated[str | None, _split("Only runs with this split family.")]
PaperSplit = Annotated[str | None, _split("Split family. Default: that of the printed numbers.")]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="SCORE",
        help="Validation score that selects the best epoch, and the best parameters of a search: "
        f"{', '.join(_METRICS)}. Default: accuracy.",
        autocompletion=complete_from(lambda: _METRICS),
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="What training sees: transductive, the whole graph; inductive, training nodes and the "
        "edges among them; temporal, with validation among earlier nodes, too. Default: "
        "transductive.",
        autocompletion=complete_from(lambda: ("transductive", "inductive", "temporal")),
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        min=1,
        metavar="NODES",
        help="Train on so many nodes at a time, with some of the edges around them: for graphs "
        "that are too large to be trained as a whole.",
    ),
]
Fanout = Annotated[
    str | None,
    typer.Option(
        "--fanout",
        metavar="N,N",
        help="Neighbors of a node that a batch draws at each hop, like 15,10; all = all of them. "
        "Default: 10 at every hop.",
    ),
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda or mps. Default: cpu.")]
Runs = Annotated[
    Path,
    typer.Option("--runs", help="Folder of runs, with one folder per run.", callback=_expand_home),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "--models",
        metavar="NAME",
        help="A name that 'ncgnn models' lists. Default: ncgcn.",
        autocompletion=complete_model,
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--models",
        "--model",
        metavar="NAME,NAME",
        help="Names that 'ncgnn models' lists, like ncgcn,gcn.",
        autocompletion=complete_model,
    ),
]
TrainedModels = Annotated[
    list[str] | None,
    typer.Option(
        "--models",
        "--model",
        metavar="NAME,NAME",
        help="Names that 'ncgnn models' lists, like ncgcn,gcn; or auto, which tries some and takes "
        "the best by validation. Default: auto on a graph of your own, ncgcn on known datasets.",
        autocompletion=complete_model,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="TIME",
        help="How long auto may take, like 90s, 10m or 1h30m. Default: 10m.",
    ),
]
Seeds = Annotated[
    list[str] | None,
    typer.Option(
        "--seeds",
        metavar="COUNT|LIST",
        help="How many seeds, counted from 0, like 3; or a list, like 0,3,7. Default: seed 0.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One option of the configuration, like training.epochs=200; may be repeated.",
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="FILE", help="TOML file with the configuration."),
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="FILE,FILE",
        help="TOML files with configurations, for example one per model.",
    ),
]
Stored = Annotated[
    list[str] | None,
    typer.Option(
        "--stored",
        metavar="FILE,FILE",
        help="JSON lines of finished runs, as 'ncgnn results --add-to' writes them.",
    ),
]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="local: processes on this machine; ray: a Ray cluster."),
]
TrainEngine = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--engine",
        help="local: this process; ray: several processes of a Ray cluster, which train one model "
        "in batches.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", help="Address of an existing Ray cluster. Default: start a local one."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, metavar="N", help="Runs at a time. Default: as many as there are cores."
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="With --engine ray: processes that train one model. Default: as many as there are "
        "cores.",
    ),
]
ProcessThreads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, metavar="N", help="With --engine ray: threads per process. Default: 1."
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Threads per worker.")]
Retry = Annotated[
    bool, typer.Option("--retry-failed", help="Try failed runs and trials once more.")
]
Train = Annotated[
    bool,
    typer.Option("--train/--no-train", help="Train what is missing, or only show what exists."),
]
ForSpreadsheet = Annotated[
    bool,
    typer.Option(
        "--for-spreadsheet",
        help="In CSV and TSV: an apostrophe before texts that spreadsheets would take for "
        "formulas.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Random seed.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print every epoch, and tracebacks of errors.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results and errors.")]
