"""Tables from wherever people have them, as Arrow tables: files, data frames, SQL.

Text files are read as text, column by column: what a column holds is decided later, by the whole
column and by what the user says of it, never by its first rows. Every error names the file, the
row and the column; in a file the header is row 1.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ncgnn._io import as_path
from ncgnn.data.npz import reading
from ncgnn.errors import DataNotFoundError, InputError

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
_PARQUET, _ARROW = (".parquet", ".pq"), (".feather", ".arrow", ".ipc")
_PACKED = (".gz", ".bz2", ".zst", ".lz4")
_QUERY = re.compile(r"\s*(select|from|with|values|attach|install|load|pragma|set)\b", re.IGNORECASE)
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
# Endings that DuckDB reads by itself.
_DUCKDB = (".json", ".jsonl", ".ndjson", ".xlsx")
# A field that is longer is a quote that was never closed.
_LONGEST_FIELD = 16 << 20
_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 20, 64 << 20


@dataclass(frozen=True, eq=False)
class SourceTable:
    """A table and where it came from.

    Attributes:
        table: An Arrow table of its columns.
        where: What errors call it: the path of its file, or "the nodes".
        first_row: What errors call its first row.
        notes: What was noticed while reading.
    """

    table: Any
    where: str
    first_row: int = 0
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return self.table.column_names

    def __len__(self) -> int:
        return self.table.num_rows

    def at(self, row: int, column: str) -> str:
        """A place in words, for the beginning of an error."""
        return f"{self.where}, row {row + self.first_row}, column {shorten(column, 60)}"

    def column(self, name: str, option: str) -> Any:
        """A column as one Arrow array; the error says which option named it."""
        if name not in self.columns:
            raise InputError(
                f"{self.where}: there is no column '{name}' ({option}); its columns are "
                f"{shorten(', '.join(self.columns), 200)}."
            )
        column = self.table.column(name)
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        combined = column.combine_chunks()
        return combined if isinstance(combined, pa.Array) else combined.chunk(0)


def read_table(source: Any, what: str, *, encoding: str = "utf-8") -> SourceTable:
    """Read a table.

    Args:
        source: The path of a CSV, TSV, Parquet or Arrow file; a data frame, by the Arrow capsule
            protocol (pandas, polars, DuckDB, pyarrow); a dictionary of columns; a list of rows; or,
            with DuckDB installed, a SQL query, an address or another file that it reads.
        what: ``"nodes"`` or ``"edges"``, for errors.
        encoding: Of text files.

    Raises:
        DataNotFoundError: There is no such file.
        InputError: It names the file, the row and the column.
    """
    if isinstance(source, SourceTable):
        return source
    if isinstance(source, str | Path):
        found = _read_named(source, what, encoding)
    else:
        found = SourceTable(_table_of(source, what), f"the {what}")
    _check_columns(found)
    return replace(found, table=_plain_texts(found.table))


def _read_named(source: str | Path, what: str, encoding: str) -> SourceTable:
    text = str(source)
    if isinstance(source, str) and is_query(text):
        return SourceTable(_query(text, what), f"the {what} query")
    if isinstance(source, str) and _REMOTE.match(text):
        return SourceTable(_query(_from(text), what), text)
    path = as_path(source)
    ending = path.suffix.lower()
    kind = path.with_suffix("").suffix.lower() if ending in _PACKED else ending
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a table in it.")
    if not path.is_file():
        raise DataNotFoundError(f"there is no file {path}; give the path of the {what} table.")
    if kind in _PARQUET or kind in _ARROW:
        return SourceTable(_read_arrow(path, kind in _PARQUET), str(path), first_row=1)
    if kind in _DELIMITERS:
        return _read_text(path, kind, encoding)
    if kind in _DUCKDB:
        return SourceTable(_query(_from(str(path)), what), str(path), first_row=1)
    known = ", ".join([*_DELIMITERS, *_PARQUET, *_ARROW])
    raise InputError(
        f"{path}: a table's name must end in {known}; got '{path.suffix}'. With DuckDB installed "
        "(pip install 'ncgnn[duckdb]'), a SQL query reads anything else."
    )


def _read_arrow(path: Path, parquet: bool) -> Any:
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    if not path.stat().st_size:
        raise InputError(f"{path} is empty; write the table again.")
    with reading(path, "Parquet file" if parquet else "Arrow file"):
        return pq.read_table(path) if parquet else feather.read_table(path)


def _read_text(path: Path, kind: str, encoding: str) -> SourceTable:
    """A delimited text file, every column as text, empty fields as null."""
    import pyarrow as pa
    import pyarrow.csv as pc

    text = _decode(path, encoding).lstrip("\r\n")
    if not text.strip():
        raise InputError(f"{path} is empty; write the table again.")
    names, delimiter = _read_header(path, text, kind)
    notes = list[str]()
    if delimiter != _DELIMITERS[kind]:
        mark = "a tab" if delimiter == "\t" else repr(delimiter)
        notes.append(f"The columns of {path.name} are separated by {mark}.")
    if '"' in text:
        _check_quotes(path, text, delimiter)
    problems: list[str] = []
    content = text.encode()
    block = min(max(_SMALLEST_BLOCK, len(content)), _LARGEST_BLOCK)

    def refuse(row: Any) -> str:
        if not problems:
            problems.append(
                f"{path}, row {row.number}: it has {row.actual_columns} fields, and the header "
                f"{row.expected_columns}: {shorten(row.text)}; correct the row, or put quotes "
                f"around fields that hold {delimiter!r}."
            )
        return "error"

    try:
        table = pc.read_csv(
            io.BytesIO(content),
            # A row must fit into a block.
            pc.ReadOptions(use_threads=False, column_names=names, skip_rows=1, block_size=block),
            pc.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=refuse
            ),
            pc.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except pa.ArrowException as error:
        if problems:
            raise InputError(problems[0]) from None
        raise InputError(f"{path} is not a readable table ({shorten(str(error))}).") from None
    if delimiter != ",":
        table = _read_decimal_commas(table, path, notes)
    return SourceTable(table, str(path), first_row=2, notes=tuple(notes))


def _read_decimal_commas(table: Any, path: Path, notes: list[str]) -> Any:
    """Write columns of numbers like 12,5 and 1.234,5 with a point, as all others have."""
    import pyarrow as pa

    changed: list[str] = []
    for place, name in enumerate(table.column_names):
        texts: list[str | None] = table.column(place).to_pylist()
        known = [text for text in texts if text is not None]
        if any("," in text for text in known) and all(map(_DECIMAL_COMMA.fullmatch, known)):
            plain = [text and text.replace(".", "").replace(",", ".") for text in texts]
            table = table.set_column(place, name, pa.array(plain, pa.string()))
            changed.append(name)
    if changed:
        notes.append(f"Numbers of {path.name} have a decimal comma: {', '.join(changed)}.")
    return table


# A number as it is written with a comma, with or without points between thousands; or no value.
_DECIMAL_COMMA = re.compile(
    r"\s*([+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?|-|n/?a|nan)?\s*", re.IGNORECASE
)


def _decode(path: Path, encoding: str) -> str:
    """The text of a file; the error names the row of the first byte that is none."""
    import pyarrow as pa

    with reading(path, "text file"), pa.input_stream(str(path), compression="detect") as stream:
        content = stream.read()
    marks = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    marked = marks.get(content[:2])
    if marked and encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        raise InputError(
            f"{path} is encoded in {marked}; say so (--encoding {marked}), or save it as UTF-8."
        )
    try:
        text = content.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except LookupError:
        raise InputError(
            f"encoding must be the name of one, such as latin-1; got {encoding!r}."
        ) from None
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        row = content.count(b"\n", 0, start) + 1
        raise InputError(
            f"{path}, row {row}: it is not {encoding} text "
            f"({shorten(str(content[max(0, start - 12) : start + 12]))}); save the table as "
            "UTF-8, or say which encoding it has (--encoding latin-1)."
        ) from None
    if "\0" in text:
        row = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{path}, row {row}: it holds a NUL character, which no text has; {_AGAIN}"
        )
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
    return text


_AGAIN = "write the table again."


def read_header(path: Path, encoding: str = "utf-8") -> tuple[list[str], str]:
    """The columns of a delimited text file and what separates them, by its first line alone."""
    import pyarrow as pa

    with reading(path, "text file"), pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(_SMALLEST_BLOCK)
    kind = path.suffix.lower()
    kind = path.with_suffix("").suffix.lower() if kind in _PACKED else kind
    text = start.decode(
        "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding, "replace"
    )
    return _read_header(path, text.lstrip("\r\n"), kind)


def _read_header(path: Path, text: str, kind: str) -> tuple[list[str], str]:
    """The names in the first line of a text, and the delimiter: that of its kind, or another."""
    header = text[: text.find("\n") + 1 or len(text)]
    delimiter = _DELIMITERS[kind]
    counts = {mark: _outside_quotes(header).count(mark) for mark in (delimiter, ",", ";", "\t")}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best] and not counts[delimiter]:
        delimiter = best
    try:
        names = next(csv.reader([header.rstrip("\r\n")], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        raise InputError(
            f"{path}, row 1: the quotes of the header do not match; correct them."
        ) from None
    return [name.strip() or f"unnamed {place}" for place, name in enumerate(names, 1)], delimiter


def _check_quotes(path: Path, text: str, delimiter: str) -> None:
    """Complain of a quote that is not closed: the rows after it would become one value."""
    limit = csv.field_size_limit(_LONGEST_FIELD)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = start = 0
    try:
        for _ in lines:
            rows, start = rows + 1, lines.line_num
    except csv.Error as error:
        raise InputError(
            f"{path}, row {rows + 1} (line {start + 1}): its quotes do not match ({error}); write "
            'a quote inside a quoted field as "" and close every field.'
        ) from None
    finally:
        csv.field_size_limit(limit)


def _outside_quotes(line: str) -> str:
    return re.sub(r'"[^"]*"', "", line)


def _table_of(source: Any, what: str) -> Any:
    import pyarrow as pa

    try:
        if isinstance(source, dict):
            return pa.table(source)
        if isinstance(source, list | tuple):
            return pa.Table.from_pylist(list(source))
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
        if hasattr(source, "to_arrow_table"):
            return source.to_arrow_table()
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the {what} cannot be read as a table ({shorten(str(error))}); every column must "
            "hold values of one type."
        ) from None
    raise InputError(
        f"the {what} must be the path of a table, a data frame, an Arrow table, or a dictionary "
        f"of columns; got {type(source).__name__}."
    )


def _plain_texts(table: Any) -> Any:
    """The table with texts of a type that all of Arrow's functions take; polars has another."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_string_view(field.type):
            texts = table.column(place).cast(pa.large_string())
            table = table.set_column(place, field.name, texts)
    return table


def is_query(text: str) -> bool:
    """Whether a text is a SQL query, and not the name of a table or file."""
    return bool(_QUERY.match(text) and re.search(r"\s", text.strip()))


def import_duckdb(why: str) -> Any:
    """The module, or an error that says why it is needed and how to install it."""
    try:
        return import_module("duckdb")
    except ImportError:
        raise InputError(f"{why}, and it is not installed; pip install 'ncgnn[duckdb]'.") from None


def _query(query: str, what: str) -> Any:
    duckdb = import_duckdb(f"the {what} are a query or a file that DuckDB reads")
    try:
        with duckdb.connect() as connection:
            relation = connection.sql(query)
            if relation is None:
                raise InputError(f"the {what} query gives no table; end it with a SELECT.")
            return relation.to_arrow_table()
    except duckdb.Error as error:
        raise InputError(f"the {what} query failed: {shorten(str(error), 300)}") from None


def _from(place: str) -> str:
    return f"FROM '{place.replace(chr(39), chr(39) * 2)}'"


def _check_columns(found: SourceTable) -> None:
    repeated = [name for name, count in Counter(found.columns).items() if count > 1]
    if repeated:
        raise InputError(
            f"{found.where}: the column '{repeated[0]}' is there twice; rename one of them."
        )


def shorten(text: str, most: int = 120) -> str:
    """A text on one line that a message can hold."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
