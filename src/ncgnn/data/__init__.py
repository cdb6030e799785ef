"""Datasets, the user's own files, generated graphs and splits."""

from ncgnn.data.block_model import generate
from ncgnn.data.catalog import (
    DatasetEntry,
    canonical_name,
    content_sha256,
    find_dataset,
    list_datasets,
    register_dataset,
)
from ncgnn.data.download import RemoteFile
from ncgnn.data.families import DEFAULT_FRACTIONS, custom_split, make_split, split_families
from ncgnn.data.loading import DATA_VARIABLE, cache_dir, find_stored, load, save
from ncgnn.data.npz import NpzArchive, read_npz, write_npz
from ncgnn.data.splits import Split, SplitReport, split_report
from ncgnn.data.tables import (
    KINDS,
    MANIFEST,
    MEANING,
    Schema,
    TableReport,
    Tables,
    check_free,
    folder_sha256,
    is_folder,
    keep_folder,
    read_folder,
    read_manifest,
    read_schema,
    read_table,
    read_tables,
    shorten,
    write_folder,
)

__all__ = [
    "DATA_VARIABLE",
    "DEFAULT_FRACTIONS",
    "KINDS",
    "MANIFEST",
    "MEANING",
    "DatasetEntry",
    "NpzArchive",
    "RemoteFile",
    "Schema",
    "Split",
    "SplitReport",
    "TableReport",
    "Tables",
    "cache_dir",
    "canonical_name",
    "check_free",
    "content_sha256",
    "custom_split",
    "find_dataset",
    "find_stored",
    "folder_sha256",
    "generate",
    "is_folder",
    "keep_folder",
    "list_datasets",
    "load",
    "make_split",
    "read_folder",
    "read_manifest",
    "read_npz",
    "read_schema",
    "read_table",
    "read_tables",
    "register_dataset",
    "save",
    "shorten",
    "split_families",
    "split_report",
    "write_folder",
    "write_npz",
]
