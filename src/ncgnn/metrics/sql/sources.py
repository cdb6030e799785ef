"""What DuckDB reads tables from, and what ids and labels are in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

from ncgnn._io import as_path
from ncgnn.data import SourceTable, is_query, read_header, read_table, shorten
from ncgnn.errors import DataNotFoundError, InputError
from ncgnn.metrics.sql.dialects import DIALECTS, read_by_duckdb

#: The dialect of everything that is run here.
DUCKDB = DIALECTS["duckdb"]
_REMOTE = re.compile(r"\w+://")
_FRACTIONS = ("FLOAT", "DOUBLE")
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_NESTED = re.compile(r"(STRUCT|MAP|UNION|LIST|BLOB|VARIANT|GEOMETRY).*|.*\[\d*\]", re.DOTALL)
_BLANK = r"E' \t\r\n\f\v'"


@dataclass(frozen=True)
class Source:
    """Something to read from.

    Attributes:
        text: What stands after FROM.
        types: Its columns with their types.
        names: An empty table with the same columns, which knows what errors call it.
        at_hand: Whether it can be read several times at no cost.
    """

    text: str
    types: dict[str, str]
    names: SourceTable
    at_hand: bool

    def holds_texts(self, column: str) -> bool:
        """Whether ids are texts, as everything is but numbers."""
        return not _WHOLE.fullmatch(self.types[column]) and self.types[column] not in _FRACTIONS

    def ids(self, table: str, name: str, *, texts: bool) -> str:
        """A column of ids as texts or as whole numbers, whatever it holds itself."""
        kind, column = self.types[name], f"{table}.{DUCKDB.exact(name)}"
        rule = f"{self.names.where}: column {name} must hold texts or whole numbers"
        if _NESTED.fullmatch(kind):
            raise InputError(f"{rule}; got {kind}.")
        if kind in _FRACTIONS:
            column = _whole(column, rule)
        elif not texts and not _WHOLE.fullmatch(kind):
            return f"CAST(trim(CAST({column} AS VARCHAR), {_BLANK}) AS BIGINT)"
        return f"CAST({column} AS VARCHAR)" if texts and kind != "VARCHAR" else column

    def labels(self, table: str, name: str) -> str:
        """A column of labels, NULL where there is none."""
        kind, column = self.types[name], f"{table}.{DUCKDB.exact(name)}"
        rule = f"{self.names.where}: column {name} (label) must hold names or whole numbers"
        if _NESTED.fullmatch(kind):
            raise InputError(f"{rule}; got {kind}.")
        if kind in _FRACTIONS:
            return _whole(f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END", rule)
        if kind != "VARCHAR" and not kind.startswith("ENUM"):
            return column
        text = f"trim(CAST({column} AS VARCHAR), {_BLANK})"
        return f"CASE WHEN lower({text}) IN ('', 'nan', '<na>') THEN NULL ELSE {text} END"


def _whole(column: str, rule: str) -> str:
    """Numbers with a fraction as whole ones, which they must be."""
    wrong = f"error({DUCKDB.literal(shorten(rule, 200) + '; got a fraction.')})"
    return (
        f"CASE WHEN {column} IS NULL OR {column} = floor({column}) THEN CAST({column} AS BIGINT) "
        f"ELSE CAST({wrong} AS BIGINT) END"
    )


def find_source(
    source: Any,
    what: str,
    connection: Any,
    name: str,
    *,
    encoding: str,
    tables: bool,
    at_hand: bool,
) -> Source:
    """Find out what is to be read.

    Args:
        source: A file, an address, a query, a data frame, or the name of a table.
        what: ``"nodes"`` or ``"edges"``, for errors.
        connection: Of DuckDB.
        name: What a data frame is called there.
        encoding: Of text files.
        tables: Whether there is a database with tables.
        at_hand: Whether those can be read several times at no cost.
    """
    text, where, here = None, f"the {what}", True
    if isinstance(source, str) and is_query(source):
        text, where, here = DUCKDB.table(source, what), f"the {what} query", False
    elif isinstance(source, str | Path) and (text := _find_files(str(source), what, encoding)):
        where = str(source)
        here = text.startswith("read_parquet") and not _REMOTE.match(where)
    elif isinstance(source, str) and tables:
        text, where, here = DUCKDB.table(source, what), f"the {what} table {source}", at_hand
    elif hasattr(source, "scanner") and hasattr(source, "schema"):  # a dataset of Arrow
        connection.register(name, source)
    else:
        found = read_table(source, what, encoding=encoding)
        where = found.where
        connection.register(name, found.table)
    text = text or name
    described = connection.execute(f"DESCRIBE SELECT * FROM {text} AS t").fetchall()
    types = {str(row[0]): str(row[1]) for row in described}
    import pyarrow as pa

    empty = pa.table({column: pa.array([], pa.string()) for column in types})
    return Source(text, types, SourceTable(empty, where), here)


def _find_files(name: str, what: str, encoding: str) -> str | None:
    """How DuckDB reads the files of a name; None where it is the name of none that it reads."""
    if _REMOTE.match(name):
        return read_by_duckdb(name)
    path = str(as_path(name))
    item = read_by_duckdb(path)
    if item is None:
        return None
    found = [path] if Path(path).is_file() else sorted(glob(path, recursive=True))  # noqa: PTH207
    if not found:
        raise DataNotFoundError(f"there is no file {path}; give the path of the {what} table.")
    if item.startswith("read_csv"):
        return f"read_csv({DUCKDB.literal(path)}, {_describe_text(Path(found[0]), encoding)})"
    return item


def _describe_text(path: Path, encoding: str) -> str:
    """How a text file is read: by its header, not by what DuckDB guesses of its rows."""
    names, delimiter = read_header(path, encoding)
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path}: the column '{repeated}' is there twice; rename one of them.")
    columns = ", ".join(f"{DUCKDB.literal(name)}: 'VARCHAR'" for name in names)
    mark = r"E'\t'" if delimiter == "\t" else DUCKDB.literal(delimiter)
    options = [f"columns = {{{columns}}}", f"delim = {mark}", "header = true"]
    options += ["auto_detect = false", "quote = '\"'", "escape = '\"'"]
    if encoding.lower() not in ("utf-8", "utf8"):
        options.append(f"encoding = {DUCKDB.literal(encoding)}")
    return ", ".join(options)
