"""What has changed between two graphs, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncgnn.report.tables import Marked, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncgnn.metrics import Changes, Counts, Drift

#: At most so many rows of classes and of drifted columns are shown.
MOST_ROWS = 15


def changes_tables(changes: Changes) -> list[Table]:
    """Counts, classes, columns and NC; what no table tells stands below the first one."""
    return [_count_table(changes), *_class_table(changes), *_column_table(changes), *_nc(changes)]


def _count_table(changes: Changes) -> Table:
    rows = (
        _count_row("nodes", changes.nodes),
        _count_row("edges", changes.edges),
        _count_row("features", changes.features),
    )
    title = f"From {changes.names[0]} to {changes.names[1]}"
    return Table(title, ("", "before", "after", "new", "gone"), rows, tuple(changes.remarks()))


def _count_row(name: str, counts: Counts) -> tuple[str, ...]:
    numbers = (counts.before, counts.after, counts.added, counts.removed)
    return (name, *(f"{number:,}" for number in numbers))


def _class_table(changes: Changes) -> Iterator[Table]:
    """The classes whose shares have moved furthest."""
    sizes = [max(sum(pair[side] for pair in changes.classes.values()), 1) for side in (0, 1)]
    shares = {
        name: (before / sizes[0], after / sizes[1])
        for name, (before, after) in changes.classes.items()
    }
    order = sorted(shares, key=lambda name: -abs(shares[name][1] - shares[name][0]))
    order = [name for name in order if shares[name][0] != shares[name][1]]
    if not order:
        return
    rows = tuple(
        (
            name,
            *(f"{count:,}" for count in changes.classes[name]),
            *(f"{share:.2%}" for share in shares[name]),
        )
        for name in order[:MOST_ROWS]
    )
    left = len(order) - MOST_ROWS
    notes = (f"{left:,} other classes have moved less.",) if left > 0 else ()
    head = ("class", "before", "after", "share before", "share after")
    yield Table("Classes whose shares have moved furthest", head, rows, notes)


def _column_table(changes: Changes) -> Iterator[Table]:
    shown = changes.columns[:MOST_ROWS]
    if not shown:
        return
    head = ("column", "kind", "index", "by chance", "shift", "new values")
    left = len(changes.columns) - len(shown)
    notes = (
        "Index: population stability index, notable from 0.1 on if chance makes less of it; shift: "
        "of the mean, in deviations.",
        *([f"{left:,} more have moved."] if left else []),
    )
    rows = tuple(_column_row(one) for one in shown)
    said = "what stands out is bold" if changes.notable else "no column stands out"
    yield Table(f"Drift ({said})", head, rows, notes, left=2)


def _column_row(drift: Drift) -> tuple[Marked | str, ...]:
    values = ((".3f", drift.index), (".3f", drift.chance), ("+.2f", drift.shift))
    values = (*values, (".1%", drift.unseen))
    cells = [f"{value:{form}}" if value is not None else "" for form, value in values]
    return (Marked(drift.name, "best" if drift.is_notable else ""), drift.kind, *cells)


def _nc(changes: Changes) -> Iterator[Table]:
    change = changes.confusion
    if change is None:
        return
    rows = [("mean NC", f"{change.before:.4f}", f"{change.after:.4f}")]
    rows += [
        (
            f"{kind} nodes" if kind != "unknown" else "of unknown kind",
            f"{share:.2%}",
            f"{change.shares_after[kind]:.2%}",
        )
        for kind, share in change.shares_before.items()
    ]
    notes = (
        f"Largest difference of the two distributions of NC: {change.distance:.3f}, by chance up "
        f"to {change.chance:.3f}; mean change of nodes that stayed: {change.kept:+.4f}.",
    )
    yield Table("Neighborhood Confusion", ("", "before", "after"), tuple(rows), notes)
