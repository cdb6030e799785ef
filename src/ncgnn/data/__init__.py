"""Data sets, the user's own files, generated graphs and splits."""

from typing import TYPE_CHECKING

from ncgnn._lazy import lazy_exports

if TYPE_CHECKING:
    from ncgnn.data._arrays import GraphArrays
    from ncgnn.data._catalog import DatasetEntry, entries, entry
    from ncgnn.data._checks import content_sha256
    from ncgnn.data._csbm import CsbmArrays, csbm
    from ncgnn.data._fetch import available, load_arrays
    from ncgnn.data._load import generate, load, save
    from ncgnn.data._npz import read_npz, write_npz
    from ncgnn.data.splits import (
        Split,
        SplitReport,
        custom_split,
        make_split,
        split_families,
        split_report,
    )

__all__ = [
    "CsbmArrays",
    "DatasetEntry",
    "GraphArrays",
    "Split",
    "SplitReport",
    "available",
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

_MODULES = {
    "_arrays": ("GraphArrays",),
    "_catalog": ("DatasetEntry", "entries", "entry"),
    "_checks": ("content_sha256",),
    "_csbm": ("CsbmArrays", "csbm"),
    "_fetch": ("available", "load_arrays"),
    "_load": ("generate", "load", "save"),
    "_npz": ("read_npz", "write_npz"),
    "splits": (
        "Split",
        "SplitReport",
        "custom_split",
        "make_split",
        "split_families",
        "split_report",
    ),
}
__getattr__, __dir__ = lazy_exports(
    __name__,
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
)
