"""People's own tables: a file or data frame of nodes, one of edges, and what becomes of them."""

from ncgnn.data.tables.folder import (
    MANIFEST,
    check_free,
    folder_sha256,
    is_folder,
    keep_folder,
    read_folder,
    read_manifest,
    write_folder,
)
from ncgnn.data.tables.links import choose_ends
from ncgnn.data.tables.reading import (
    SourceTable,
    import_duckdb,
    is_query,
    read_header,
    read_table,
    shorten,
)
from ncgnn.data.tables.schema import KINDS, MEANING, Direction, Schema, Unknown, read_schema
from ncgnn.data.tables.tables import TableReport, Tables, read_tables

__all__ = [
    "KINDS",
    "MANIFEST",
    "MEANING",
    "Direction",
    "Schema",
    "SourceTable",
    "TableReport",
    "Tables",
    "Unknown",
    "check_free",
    "choose_ends",
    "folder_sha256",
    "import_duckdb",
    "is_folder",
    "is_query",
    "keep_folder",
    "read_folder",
    "read_header",
    "read_manifest",
    "read_schema",
    "read_table",
    "read_tables",
    "shorten",
    "write_folder",
]
