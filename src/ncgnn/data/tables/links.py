"""A table of edges as pairs of node numbers: ends looked up, kinds chosen, repeated rows merged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ncgnn.data.tables.reading import shorten
from ncgnn.data.tables.schema import is_text_type, parse_floats
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncgnn.data.tables.reading import SourceTable
    from ncgnn.data.tables.schema import EdgeColumns

# Below this many rows a dictionary is faster than Arrow's table of all ids.
_FEW_ROWS = 100_000


@dataclass
class LinkReport:
    """What became of the rows of a table of edges.

    Attributes:
        rows: How many there are.
        kept: Different pairs of nodes, as they point.
        repeated: Rows that say a pair again.
        self_loops: Rows whose ends are one node; they are left out.
        unknown_rows: Rows with an end that is no node.
        unknown: Some of those ends.
        kinds: Rows by kind.
        other_kinds: Rows of kinds that do not count.
        among_known: Rows between nodes that were there before, left out of an extension.
    """

    rows: int = 0
    kept: int = 0
    repeated: int = 0
    self_loops: int = 0
    unknown_rows: int = 0
    unknown: list[str] = field(default_factory=list[str])
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    other_kinds: int = 0
    among_known: int = 0


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of nodes, each once, as they point, with their weights; None = all one."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    weights: NDArray[np.float64] | None
    report: LinkReport


def read_ids(table: SourceTable, column: str, option: str, texts: bool | None = None) -> Any:
    """A column of ids as an Arrow array of texts or of whole numbers, none of them missing.

    Args:
        table: The table.
        column: The column.
        option: Which option named it.
        texts: Whether ids are texts; None = as the column has them.
    """
    import pyarrow as pa

    values = table.column(column, option)
    if not len(values):  # of no type that says anything
        return values.cast(pa.int64() if texts is False else pa.string())
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{table.at(row, column)}: there is no id; fill it in, or remove the row.")
    kind = values.type
    is_text = is_text_type(kind)
    if pa.types.is_floating(kind):
        numbers = values.to_numpy(zero_copy_only=False)
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)
        if not whole.all():
            row = int(np.argmin(whole))
            raise InputError(
                f"{table.at(row, column)}: {numbers[row]} is no id; ids are texts or whole numbers."
            )
        values = values.cast(pa.int64())
    elif not is_text and not pa.types.is_integer(kind):
        raise InputError(
            f"{table.where}: column {column} must hold texts or whole numbers; got {kind}."
        )
    if is_text if texts is None else texts:
        values = values.cast(pa.string())
        names: list[str] = values.to_pylist()
        row = next((row for row, name in enumerate(names) if not name.strip()), None)
        if row is not None:
            raise InputError(
                f"{table.at(row, column)}: there is no id; fill it in, or remove the row."
            )
        return values
    if is_text:
        values = _trim(values)
    try:
        return values.cast(pa.int64())
    except pa.ArrowException:
        row = _first_failing(values)
        raise InputError(
            f"{table.at(row, column)}: {shorten(str(values[row].as_py()))!r} is not a whole number "
            "below 2⁶³, as the ids of the nodes are."
        ) from None


def _trim(values: Any) -> Any:
    from pyarrow import compute

    return cast("Any", compute).utf8_trim_whitespace(values)


def _first_failing(values: Any) -> int:
    """The first value that is no int64, found by halving."""
    import pyarrow as pa

    low, high = 0, len(values)  # one of these fails, and none before
    while high - low > 1:
        middle = (low + high) // 2
        try:
            values[low:middle].cast(pa.int64())
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def choose_ends(table: SourceTable, source: str | None, target: str | None) -> tuple[str, str]:
    """The columns with the ends of edges: as given, by their usual names, or the first two."""
    usual = (("source", "src", "from", "u"), ("target", "dst", "destination", "to", "v"))
    lower = {name.lower(): name for name in table.columns}
    chosen: list[str | None] = [source, target]
    for place, names in enumerate(usual):
        if chosen[place] is None:
            chosen[place] = next((lower[name] for name in names if name in lower), None)
    left = [name for name in table.columns if name not in chosen]
    for place in range(2):
        if chosen[place] is None:
            if not left:
                raise InputError(
                    f"{table.where}: edges need two columns, source and target; its columns are "
                    f"{shorten(', '.join(table.columns), 200)}."
                )
            chosen[place] = left.pop(0)
    return str(chosen[0]), str(chosen[1])


def look_up(values: Any, places: Mapping[Any, int], ids: NDArray[Any]) -> NDArray[np.int64]:
    """The node number of every id, -1 for none."""
    if len(values) < _FEW_ROWS:
        found = [places.get(value, -1) for value in values.to_pylist()]
        return np.array(found, dtype=np.int64)
    import pyarrow as pa
    from pyarrow import compute

    known, pc = pa.array(ids.tolist(), type=values.type), cast("Any", compute)
    numbers = pc.index_in(values, value_set=known).fill_null(-1)
    return numbers.to_numpy(zero_copy_only=False).astype(np.int64)


def read_links(
    table: SourceTable,
    columns: EdgeColumns,
    ends: tuple[NDArray[np.int64], NDArray[np.int64]],
    num_known: int = 0,
    among_known: bool = True,
) -> Links:
    """Choose and merge the edges of a table.

    Args:
        table: The edges.
        columns: What its columns mean.
        ends: Node numbers of sources and targets, -1 = no node.
        num_known: How many of the nodes were there before.
        among_known: Whether edges between those count.
    """
    sources, targets = ends
    report = LinkReport(rows=len(table))
    kept = (sources >= 0) & (targets >= 0)
    report.unknown_rows = int((~kept).sum())
    loops = kept & (sources == targets)
    report.self_loops = int(loops.sum())
    kept &= ~loops
    if not among_known:
        old = kept & (sources < num_known) & (targets < num_known)
        report.among_known = int(old.sum())
        kept &= ~old
    weights = _weigh(table, columns, report, kept)
    sources, targets, weights = sources[kept], targets[kept], weights[kept]
    order, starts = group_pairs(sources, targets)
    # Amounts add up; of several kinds the one that counts most is taken.
    unite = np.maximum if columns.weight is None else np.add
    merged = unite.reduceat(weights[order], starts) if len(starts) else weights
    report.kept, report.repeated = len(starts), len(order) - len(starts)
    first = order[starts]
    # Amounts are kept even if all are one: those of the two directions add up.
    plain = columns.weight is None and bool((merged == 1).all())
    return Links(sources[first], targets[first], None if plain else merged, report)


def group_pairs(
    sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order in which equal pairs are neighbors, and where each pair begins in it."""
    order = np.lexsort((sources, targets))
    sources, targets = sources[order], targets[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (targets[1:] != targets[:-1]) | (sources[1:] != sources[:-1])
    return order, np.flatnonzero(first)


def _weigh(
    table: SourceTable, columns: EdgeColumns, report: LinkReport, kept: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The weight of every row; rows of kinds that do not count are taken out of ``kept``."""
    weights = np.ones(len(table))
    if columns.weight is not None:
        name = columns.weight
        weights = parse_floats(table, name, table.column(name, "weight"))
        wrong = kept & ~(weights > 0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{table.at(row, name)}: a weight must be a positive number; got "
                f"{table.column(name, 'weight')[row].as_py()!r}; remove edges that do not count."
            )
    if columns.kind is None:
        return weights
    kinds: list[Any] = table.column(columns.kind, "kind").cast("string").to_pylist()
    names = ["" if kind is None else kind for kind in kinds]
    if columns.kinds is None:
        report.kinds = _count_kinds(names, kept)
        return weights
    there = dict(Counter(names).most_common())
    unknown = [kind for kind in columns.kinds if kind not in there]
    if unknown:
        raise InputError(
            f"{table.where}: no edge is of kind '{unknown[0]}'; there are "
            f"{shorten(', '.join(there), 200)}."
        )
    factors = np.array([columns.kinds.get(name, 0.0) for name in names])
    report.other_kinds = int((kept & (factors == 0)).sum())
    kept &= factors > 0
    report.kinds = _count_kinds(names, kept)
    return weights * factors


def _count_kinds(names: list[str], kept: NDArray[np.bool_]) -> dict[str, int]:
    """How many of the edges that are not left out are of each kind, the commonest first."""
    counted = Counter(name for name, stays in zip(names, kept.tolist(), strict=True) if stays)
    return dict(counted.most_common())
