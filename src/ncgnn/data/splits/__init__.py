"""Which nodes train, which choose the model and which judge it.

Splits belong to named families, because results under two families must never share a table:
:func:`make_split` makes one by name and seed, :func:`custom_split` takes a person's own parts, and
:func:`split_report` says what a split holds and which accuracy means nothing on it.
"""

from ncgnn.data.splits.families import custom_split, make_split, split_families
from ncgnn.data.splits.split import PartReport, Split, SplitReport, split_report

__all__ = [
    "PartReport",
    "Split",
    "SplitReport",
    "custom_split",
    "make_split",
    "split_families",
    "split_report",
]
