"""Data sets, the user's own files, generated graphs and splits."""

from ncgnn.data.block_model import CsbmArrays, csbm
from ncgnn.data.catalog import DatasetEntry, canonical, content_sha256, entries, entry
from ncgnn.data.loading import (
    DATA_VARIABLE,
    available,
    cache_dir,
    generate,
    load,
    load_arrays,
    save,
)
from ncgnn.data.npz import GraphArrays, NpzArchive, read_npz, write_npz
from ncgnn.data.splits.families import custom_split, make_split, split_families
from ncgnn.data.splits.report import SplitReport, split_report
from ncgnn.data.splits.split import Split

__all__ = [
    "DATA_VARIABLE",
    "CsbmArrays",
    "DatasetEntry",
    "GraphArrays",
    "NpzArchive",
    "Split",
    "SplitReport",
    "available",
    "cache_dir",
    "canonical",
    "content_sha256",
    "csbm",
    "custom_split",
    "entries",
    "entry",
    "generate",
    "load",
    "load_arrays",
    "make_split",
    "read_npz",
    "save",
    "split_families",
    "split_report",
    "write_npz",
]
