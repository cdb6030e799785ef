"""What a model answers for nodes, as an Arrow table with a row per node."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn._io import atomic_write
from ncgnn._version import __version__
from ncgnn.errors import InputError
from ncgnn.graph import whole_number
from ncgnn.metrics import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

#: Number of the format of the files; Parquet and Feather hold it in the metadata of the schema.
FORMAT = 1
#: What a file's name ends in, for each format.
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".feather": "feather"}


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of some nodes, a row or an entry per node.

    Attributes:
        ids: The user's identifiers.
        part: ``train``, ``val``, ``test``, ``new`` or empty.
        labels: Class numbers, -1 = unlabeled.
        probabilities: Of every class [n, classes].
        confusion: NC, NaN = unknown.
        kinds: As :func:`ncgnn.node_kinds` gives them.
        groups: Of a separated model: a name or number each; None where there are no groups.
        seen: Whether the node's label was trained on.
    """

    ids: NDArray[Any]
    part: NDArray[np.str_]
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    confusion: NDArray[np.float64]
    kinds: NDArray[np.str_]
    groups: NDArray[Any] | None
    seen: NDArray[np.bool_]

    @classmethod
    def choose(cls, first: NDArray[np.bool_], one: Facts, other: Facts) -> Facts:
        """What is known of the same nodes from two sides: of some by the first, of others not."""
        chosen: dict[str, Any] = {}
        for field in fields(cls):
            mine, theirs = getattr(one, field.name), getattr(other, field.name)
            if mine is None:
                chosen[field.name] = None
                continue
            where = first if mine.ndim == 1 else first[:, None]
            chosen[field.name] = np.where(where, mine, theirs)
        return cls(**chosen)


class Answers:
    """One row per node, in the columns that follow.

    ``id``; ``part`` (train, val, test or new); ``label`` and ``predicted``, by the names of classes
    where they have some; ``probability``; ``runner_up`` and ``runner_up_probability``; ``nc`` and
    ``kind`` of the node's neighborhood, counted among the labels of training nodes and the
    predictions of all others; ``group``, only of separated models; ``seen``, whether the label was
    trained on. What is unknown is null.

    Every library that knows Arrow's capsules takes it as it is: ``polars.DataFrame(answers)``,
    ``pyarrow.table(answers)``, ``duckdb.sql("select * from answers")``.

    Attributes:
        table: The same as a ``pyarrow.Table``.
    """

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def of(
        cls,
        facts: Facts,
        class_names: Sequence[str] | None,
        *,
        top: int = 0,
        probabilities: bool = False,
        about: dict[str, Any] | None = None,
    ) -> Answers:
        """Answers from what is known of nodes.

        Args:
            facts: What is known.
            class_names: Names of the classes, where they have some.
            top: With ``top=3``, columns ``top_1``, ``top_1_probability``, … ``top_3_probability``.
            probabilities: Whether there is a column ``probability_…`` for every class.
            about: What the metadata say of the model.
        """
        import pyarrow as pa

        known = facts.probabilities.shape[1]
        names = _Names(class_names)
        best = _best_classes(facts.probabilities, max(2, min(whole_number(top, "top"), known)))
        shares = np.take_along_axis(facts.probabilities, best, axis=1)
        columns: dict[str, Any] = {
            "id": pa.array(facts.ids),
            "part": _texts(facts.part),
            "label": names.of(facts.labels),
            "predicted": names.of(best[:, 0]),
            "probability": pa.array(shares[:, 0]),
            "runner_up": names.of(best[:, 1]),
            "runner_up_probability": pa.array(shares[:, 1]),
            "nc": pa.array(facts.confusion, from_pandas=True),
            "kind": _texts(facts.kinds),
        }
        if facts.groups is not None:
            columns["group"] = pa.array(facts.groups)
        columns["seen"] = pa.array(facts.seen)
        for place in range(min(top, known)):
            columns[f"top_{place + 1}"] = names.of(best[:, place])
            columns[f"top_{place + 1}_probability"] = pa.array(shares[:, place])
        if probabilities:
            for number in range(known):
                share = np.ascontiguousarray(facts.probabilities[:, number])
                columns[f"probability_{names.text(number)}"] = pa.array(share)
        said = {"format": FORMAT, "ncgnn": __version__, **(about or {})}
        return cls(pa.table(columns).replace_schema_metadata({"ncgnn": json.dumps(said)}))

    def __len__(self) -> int:
        return self.table.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, as dictionaries."""
        for batch in self.table.to_batches(max_chunksize=4096):
            yield from batch.to_pylist()

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column as a numpy array; unknown texts are None, unknown numbers NaN."""
        if column not in self.table.column_names:
            known = ", ".join(self.table.column_names)
            raise InputError(f"there is no column '{column}'; known: {known}.")
        return self.table[column].to_numpy()

    def __repr__(self) -> str:
        return f"Answers({len(self):,} nodes: {', '.join(self.table.column_names[:12])})"

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def summary(self) -> dict[str, Any]:
        """How many answers there are, of which kinds, and how sure they are."""
        kinds = self.table["kind"].to_pylist()
        shares = self["probability"]
        return {
            "answers": len(self),
            "mean_probability": float(shares.mean()) if len(shares) else None,
            "kinds": {kind: kinds.count(kind) for kind in KINDS},
        }

    def to_pandas(self) -> Any:
        """A pandas ``DataFrame``, where pandas is installed."""
        _import("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """A polars ``DataFrame``, where polars is installed."""
        return _import("polars").DataFrame(self)

    def write(self, path: Path | str) -> Path:
        """Write a file that ends in .csv, .tsv, .parquet or .feather, whole or not at all.

        Unknown values are empty in CSV and TSV.
        """
        return write_table(self.table, path)


def write_table(table: Any, path: Path | str) -> Path:
    """Write an Arrow table in the format that the ending of the file's name says."""
    path = Path(path).expanduser()
    kind = table_format(path)
    with atomic_write(path) as stream:
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, stream)
        elif kind == "feather":
            from pyarrow import feather

            feather.write_feather(table, stream)
        else:
            from pyarrow import csv

            options = csv.WriteOptions(delimiter="," if kind == "csv" else "\t")
            csv.write_csv(table, stream, options)
    return path


def table_format(path: Path) -> str:
    """The format that the ending of a file's name says.

    Raises:
        InputError: It says none.
    """
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"the file must end in {', '.join(ENDINGS)}; got {path}.")
    return kind


class _Names:
    """Classes by name, or by number where they have no names."""

    def __init__(self, names: Sequence[str] | None) -> None:
        import pyarrow as pa

        self._names = None if names is None else pa.array(names, pa.string())

    def of(self, classes: NDArray[np.int64]) -> Any:
        """A column of classes; -1 is null."""
        import pyarrow as pa

        numbers = pa.array(classes.astype(np.int64), mask=classes < 0)
        return numbers if self._names is None else self._names.take(numbers)

    def text(self, number: int) -> str:
        """One class in words."""
        return str(number) if self._names is None else self._names[number].as_py()


def _best_classes(probabilities: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The most probable classes of every node, the first of equals first."""
    if count == 2 < probabilities.shape[1]:
        first = probabilities.argmax(1)
        rest = probabilities.copy()
        np.put_along_axis(rest, first[:, None], -1, axis=1)
        return np.stack([first, rest.argmax(1)], axis=1)
    return np.argsort(-probabilities, axis=1, kind="stable")[:, :count]


def _texts(values: NDArray[np.str_]) -> Any:
    """A column of texts, where an empty one is null."""
    import pyarrow as pa

    return pa.array(values, pa.string(), mask=values == "")


def _import(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} must be installed for this; try 'pip install {name}'.") from None
