"""The leaderboard of a search: what was tried, how good it was, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.report.style import percent
from ncgnn.report.tables import Marked, Table
from ncgnn.training import SCORE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping


def leaderboard(facts: Mapping[str, Any]) -> Table:
    """Candidates and combinations by their validation scores; the chosen one stands out.

    Args:
        facts: What ``auto.json`` holds, or ``trained.auto``.
    """
    every = [*facts["candidates"], *facts["combinations"]]
    scored = sorted((row for row in every if row["val"] is not None), key=lambda row: -row["val"])
    rows = [_row(row, is_chosen=row["title"] == facts["chosen"]) for row in scored]
    left: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in every:
        if row["val"] is None:
            left.setdefault((row["state"], row["why"]), []).append(row)
    if left:
        rows.append(())
        rows += [_row(_together(alike), is_chosen=False) for alike in left.values()]
    name = SCORE_NAMES[facts["metric"]]
    head = ("candidate", f"val {name}", f"test {name}", "seconds", "")
    note = (
        f"Chosen by validation: {facts['chosen']}. Test scores were measured when all was chosen. "
        f"{facts['seconds']:.0f} of {facts['budget']:.0f} seconds were used."
    )
    return Table("Leaderboard", head, tuple(rows), (note,), text=(4,), compact=True, widths={0: 60})


def _together(rows: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Candidates that were left out for the same reason, as one."""
    titles = [row["title"] for row in rows]
    more = f" and {len(titles) - 2} more" if len(titles) > 2 else ""
    seconds = sum(row["seconds"] for row in rows)
    return {**rows[0], "title": "; ".join(titles[:2]) + more, "seconds": seconds}


def _row(row: Mapping[str, Any], *, is_chosen: bool) -> tuple[str | Marked, ...]:
    """The cells of a candidate."""
    why = "" if row["state"] == "finished" else f"{row['state']}: {row['why']}"
    title = Marked(row["title"], "best") if is_chosen else row["title"]
    spent = f"{row['seconds']:.0f}" if row["seconds"] >= 0.5 else ""
    return title, percent(row["val"]) or "–", percent(row["test"]) or "–", spent, why
