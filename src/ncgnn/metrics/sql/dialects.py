"""How each database writes names, texts and types."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ncgnn.data import is_query
from ncgnn.errors import InputError, UnknownNameError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PACKED = r"(\.(gz|zst))?"
# Names that DuckDB reads as files; what the function of each ending is called, and its options.
_FILES = {
    re.compile(r".*\.(parquet|pq)", re.IGNORECASE): ("read_parquet", ""),
    # As texts, so that an id 007 stays 007, as in all other commands.
    re.compile(rf".*\.(csv|tsv|tab|txt){_PACKED}", re.IGNORECASE): (
        "read_csv",
        ", header = true, all_varchar = true, skip = 0",
    ),
    re.compile(rf".*\.(json|jsonl|ndjson){_PACKED}", re.IGNORECASE): ("read_json", ""),
    re.compile(r".*\.xlsx", re.IGNORECASE): ("read_xlsx", ""),
}
# Words that some database reserves, and that columns and tables are nevertheless called.
_RESERVED = """
    account all alter analyse analyze and anti any array as asc asof at authorization between
    binary both by case cast check collate collation column concurrently connect connection
    constraint contains create cross cube current current_date current_role current_time
    current_timestamp current_user database default deferrable define delete desc describe
    distinct do drop else end enum escape except exclude exists extract false fetch filter
    following for foreign freeze from full function glob grant group grouping groups hash having
    if ignore ilike in increment initially inner insert intersect interval into is isnull issue
    join lambda lateral leading left like limit localtime localtimestamp lookup map merge minus
    natural new no not notnull null nulls of offset on only or order organization outer over
    overlaps partition pivot placing positional preceding primary proto qualify range recursive
    references regexp respect returning revoke right rlike rollup row rows sample schema select
    semi session_user set show similar some start struct summarize symmetric table tablesample
    then time timestamp to trailing treat trigger true try_cast unbounded union unique unnest
    unpivot update user using values variadic verbose view when whenever where window with within
"""


@dataclass(frozen=True)
class Dialect:
    """What differs between databases in the statements that are written here.

    Attributes:
        name: What it is called here.
        title: What people call it.
        quote: The sign around a name that is not plain.
        text: The type of texts.
        double: The type of numbers of 64 bits with a fraction.
        whole: The type of whole numbers of 64 bits.
        backslashes: Whether a backslash in a text has a meaning.
    """

    name: str
    title: str
    quote: str = '"'
    text: str = "VARCHAR"
    double: str = "DOUBLE"
    whole: str = "BIGINT"
    backslashes: bool = False

    def column(self, name: str, field: str) -> str:
        """The name of a column; in quotes of its own it is taken to the letter.

        Plain names stand as they are, so that the database reads capitals as it always does; all
        others are quoted.
        """
        return self._name(name.strip(), name, field)

    def table(self, name: str, field: str) -> str:
        """What stands after FROM: a table's name, like ``schema.table``, or a query in brackets.

        In DuckDB also a file or an address.
        """
        if is_query(name):
            return f"(\n{name.strip().rstrip(';')}\n)"
        if self.name == "duckdb" and (item := read_by_duckdb(name)):
            return item
        return ".".join(self._name(part, name, field) for part in _split(name.strip()))

    def literal(self, text: str) -> str:
        """A text between single quotes."""
        if _CONTROL.search(text):
            raise InputError(f"a text in a statement must be one line; got {text!r}.")
        if self.backslashes:
            text = text.replace("\\", "\\\\")
        doubled = "\\'" if self.name in ("spark", "bigquery") else "''"
        return f"'{text.replace(chr(39), doubled)}'"

    def _name(self, part: str, whole: str, field: str) -> str:
        inner = part
        exact = len(part) > 2 and part[0] == part[-1] and part[0] in '"`'
        if exact:
            inner = part[1:-1].replace(part[0] * 2, part[0])
        elif _PLAIN.fullmatch(part) and part.lower() not in _RESERVED.split():
            return part
        if not inner.strip() or _CONTROL.search(inner):
            raise InputError(
                f"{field} must be the name of a table or column, like orders or sales.orders; "
                f"got {whole!r}."
            )
        if self.name == "bigquery" and re.search(r"[`\\]", inner):
            raise InputError(
                f"{field} must hold no backtick and no backslash in {self.title}; got {whole!r}."
            )
        return self.exact(inner)

    def exact(self, name: str) -> str:
        """A name to the letter, in quotes."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote


def _split(name: str) -> list[str]:
    """The parts of a name at its dots; those between quotes stay together with them."""
    parts = re.findall(r'("(?:[^"]|"")*"|`(?:[^`]|``)*`|[^.]*)(\.|$)', name)
    found = [part for part, _ in parts]
    # The pattern also matches the empty end of a name that does not end in a dot.
    return found[:-1] if len(found) > 1 and not name.endswith(".") else found


def read_by_duckdb(name: str) -> str | None:
    """How DuckDB reads a file, several (``part-*.parquet``) or an address; None for a table."""
    place = "'" + name.replace("'", "''") + "'"
    for pattern, (function, options) in _FILES.items():
        if pattern.fullmatch(name):
            return f"{function}({place}{options})"
    return place if "://" in name else None


DIALECTS = {
    one.name: one
    for one in (
        Dialect("duckdb", "DuckDB"),
        Dialect("postgres", "PostgreSQL", double="DOUBLE PRECISION"),
        Dialect("spark", "Spark", quote="`", text="STRING", backslashes=True),
        Dialect(
            *("bigquery", "BigQuery", "`", "STRING", "FLOAT64", "INT64"),
            backslashes=True,
        ),
        Dialect("snowflake", "Snowflake", backslashes=True),
    )
}


def find_dialect(name: str) -> Dialect:
    """A dialect by name."""
    if name not in DIALECTS:
        raise UnknownNameError("dialect", name, [*DIALECTS])
    return DIALECTS[name]
