"""Tables with a row per node, in memory and in files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ncgnn._io import as_path, atomic_write
from ncgnn._version import __version__
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Number of the format of the files; Parquet and Feather hold it in the metadata of the schema.
FORMAT = 1
#: What a file's name ends in, for each format.
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".feather": "feather"}


class NodeTable:
    """One row per node.

    Every library that knows Arrow's capsules takes it as it is: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``duckdb.sql("select * from table")``.

    Attributes:
        table: The same as a ``pyarrow.Table``.
    """

    def __init__(self, table: Any) -> None:
        self.table = table

    @classmethod
    def from_columns(cls, columns: dict[str, Any], about: dict[str, Any] | None = None) -> Self:
        """A table of Arrow's columns, whose metadata hold the format and what is said of it."""
        import pyarrow as pa

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
        return (
            f"{type(self).__name__}({len(self):,} nodes: {', '.join(self.table.column_names[:12])})"
        )

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas ``DataFrame``, where pandas is installed."""
        _import("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """A polars ``DataFrame``, where polars is installed."""
        return _import("polars").DataFrame(self)

    def write(self, path: Path | str, *, for_spreadsheet: bool = False) -> Path:
        """Write a file that ends in .csv, .tsv, .parquet or .feather, whole or not at all.

        Unknown values are empty in CSV and TSV, and values of a list are joined by " | ".

        Args:
            path: The file.
            for_spreadsheet: Whether texts in CSV and TSV that a spreadsheet would take for a
                formula, such as ``=1+1``, begin with an apostrophe, which it takes for text.
        """
        return write_table(self.table, path, for_spreadsheet=for_spreadsheet)


def write_table(
    table: Any, path: Path | str, kind: str | None = None, *, for_spreadsheet: bool = False
) -> Path:
    """Write an Arrow table, whole or not at all.

    Args:
        table: The table.
        path: The file.
        kind: ``"csv"``, ``"tsv"``, ``"parquet"`` or ``"feather"``; by default what the ending of
            the file's name says.
        for_spreadsheet: As in :meth:`NodeTable.write`.
    """
    path = as_path(path)
    kind = kind or table_format(path)
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
            plain = _without_lists(table)
            csv.write_csv(_without_formulas(plain) if for_spreadsheet else plain, stream, options)
    return path


def _without_lists(table: Any) -> Any:
    """The table with texts in place of lists."""
    import pyarrow as pa
    from pyarrow import compute

    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = table.column(place).cast(pa.list_(pa.string()))
            joined = compute.call_function("binary_join", [texts, " | "])
            table = table.set_column(place, field.name, joined)
    return table


def _without_formulas(table: Any) -> Any:
    """The table with an apostrophe before texts that begin as formulas do."""
    import pyarrow as pa
    from pyarrow import compute

    for place, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = table.column(place).cast(pa.string())
            options = compute.ReplaceSubstringOptions(r"^([=+\-@\t\r])", r"'\1")
            safe = compute.call_function("replace_substring_regex", [texts], options)
            table = table.set_column(place, field.name, safe)
    return table


def table_format(path: Path) -> str:
    """The format that the ending of a file's name says.

    Raises:
        InputError: It says none.
    """
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"the file must end in {', '.join(ENDINGS)}; got {path}.")
    return kind


class ClassColumns:
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


def text_column(values: NDArray[np.str_]) -> Any:
    """A column of texts, where an empty one is null."""
    import pyarrow as pa

    return pa.array(values, pa.string(), mask=values == "")


def _import(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} must be installed for this; try 'pip install {name}'.") from None
