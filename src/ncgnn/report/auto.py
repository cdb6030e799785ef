"""What a search has tried, and how much the experts of a mixture count, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.metrics import KINDS
from ncgnn.report.style import PARTS, percent
from ncgnn.report.tables import Marked, Table
from ncgnn.training import COMBINATION_RULE, SCORE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping


def leaderboard(facts: Mapping[str, Any]) -> Table:
    """Candidates and combinations by their validation scores, the chosen one before all others.

    Args:
        facts: What ``auto.json`` holds, or ``trained.auto``.
    """
    every = [*facts["candidates"], *facts["combinations"]]
    scored = sorted((row for row in every if row["val"] is not None), key=lambda row: -row["val"])
    scored.sort(key=lambda row: row["title"] != facts["chosen"])
    rows = [_row(row, is_chosen=row["title"] == facts["chosen"]) for row in scored]
    left: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in every:
        if row["val"] is None:
            left.setdefault((row["state"], row["why"]), []).append(row)
    if left:
        rows.append(())
        rows += [_row(_together(alike), is_chosen=False) for alike in left.values()]
    name = SCORE_NAMES[facts["metric"]]
    head = ("candidate", f"val {name}", "val loss", f"test {name}", "seconds", "")
    rule = (
        "A combination is chosen where its answers for validation nodes are likelier by more than "
        "the standard error (±, in nats, after each model was given one temperature; the column is "
        "without) and its score is not lower by more than two standard errors of the difference, "
        "or at all with fewer than a hundred validation nodes. "
    )
    note = (
        f"Chosen by validation: {facts['chosen']}. "
        + (rule if facts.get("rule") == COMBINATION_RULE else "")
        + "Test scores were measured when all was chosen. "
        f"{facts['seconds']:.0f} of {facts['budget']:.0f} seconds were used."
    )
    notes = (note, *_about_features(facts))
    title = "Leaderboard" if facts.get("seed") is None else f"Leaderboard of seed {facts['seed']}"
    return Table(title, head, tuple(rows), notes, text=(5,), compact=True, widths={0: 60})


def _about_features(facts: Mapping[str, Any]) -> list[str]:
    """What stands for the features alone where the graph's part is told, and how good it is."""
    gain = facts.get("gain")
    if not gain or "features_accuracy" not in gain:
        return []
    part, share = PARTS[gain["part"]], percent(gain["features_accuracy"])
    metric, told = facts["metric"], f"Without the graph: {gain['features']}"
    if gain.get("features_val") is not None:
        told += f", validation {SCORE_NAMES[metric]} {percent(gain['features_val'])}"
    told += f", {part} accuracy {share}"
    if metric != "accuracy":
        told += f"; what the graph adds is told in accuracy, not in {SCORE_NAMES[metric]}"
    return [f"{told}."]


def share_table(result: Mapping[str, Any]) -> Table | None:
    """How much every expert of a mixture counts, in all and by kind; None of other models.

    Args:
        result: What ``result.json`` holds.
    """
    found = result.get("mixture")
    if found is None:
        return None
    experts, counts = found["experts"], found["nodes_by_kind"]
    gated = all("by_kind" in one for one in experts)
    kinds = [kind for kind in KINDS if gated and kind in counts]
    rows = [
        (one["expert"], percent(one["share"]), *(percent(one["by_kind"][kind]) for kind in kinds))
        for one in experts
    ]
    part = PARTS[result["evaluated"]]
    note = f"Percent, the same at all {part} nodes: there is no gate."
    if gated:
        sizes = ", ".join(f"{kind} {counts[kind]:,}" for kind in kinds)
        note = f"Percent, mean over {part} nodes; of each kind, as the model estimates it: {sizes}."
    head = ("expert", "share", *kinds)
    return Table("How much each expert counts", head, tuple(rows), (note,), widths={0: 60})


def _together(rows: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Candidates that were left out for the same reason, as one."""
    titles = [row["title"] for row in rows]
    more = f" and {len(titles) - 2} more" if len(titles) > 2 else ""
    seconds = sum(row["seconds"] for row in rows)
    return {**rows[0], "title": "; ".join(titles[:2]) + more, "seconds": seconds}


def _row(row: Mapping[str, Any], *, is_chosen: bool) -> tuple[str | Marked, ...]:
    """The cells of a candidate."""
    why = ": ".join(word for word in ("chosen" if is_chosen else "", row["why"]) if word)
    if row["state"] != "finished":
        why = f"{row['state']}: {row['why']}"
    title = Marked(row["title"], "best") if is_chosen else row["title"]
    spent = f"{row['seconds']:.0f}" if row["seconds"] >= 0.5 else "<1" if row["seconds"] else ""
    loss = "–" if row["val_loss"] is None else f"{row['val_loss']:.3f}"
    return title, percent(row["val"]) or "–", loss, percent(row["test"]) or "–", spent, why
