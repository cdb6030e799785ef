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
from ncgnn.data.families import custom_split, make_split, split_families
from ncgnn.data.loading import DATA_VARIABLE, cache_dir, find_stored, load, save
from ncgnn.data.npz import NpzArchive, read_npz, write_npz
from ncgnn.data.splits import Split, SplitReport, split_report

__all__ = [
    "DATA_VARIABLE",
    "DatasetEntry",
    "NpzArchive",
    "RemoteFile",
    "Split",
    "SplitReport",
    "cache_dir",
    "canonical_name",
    "content_sha256",
    "custom_split",
    "find_dataset",
    "find_stored",
    "generate",
    "list_datasets",
    "load",
    "make_split",
    "read_npz",
    "register_dataset",
    "save",
    "split_families",
    "split_report",
    "write_npz",
]
