"""An explanation for people: tables for the terminal, and a page with pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncgnn._io import as_path, write_text
from ncgnn.data import shorten
from ncgnn.errors import InputError
from ncgnn.report.style import BLACK, GREEN, ORANGE, PURPLE, SKY, YELLOW, number
from ncgnn.report.tables import Marked, Table, render
from ncgnn.training import describe_part, table_format

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ncgnn.report.tables import Cell
    from ncgnn.training import Effect, Explanation

#: Colors of classes, the commonest first; blue and vermilion mean for and against.
CLASS_COLORS = (GREEN, ORANGE, PURPLE, SKY, YELLOW, BLACK)
OTHER_CLASS = "#999999"
#: In a picture, longer names end in an ellipsis; the table has them in full.
LONGEST_NAME = 34
HEADINGS = {
    "neighbors": "all at once",
    "features": "all at once",
    "neighbor": "neighbors",
    "column": "columns",
    "feature": "features",
}
ARROWS = {"in": "←", "out": "→", "both": "↔"}
ABOUT_ARROWS = "→ the node points to it, ← it points to the node."
ABOUT_CLASSES = "Classes of neighbors are labels of training nodes and predictions of all others."
#: A smaller effect reads 0.000 and has no bar.
LEAST_BAR = 0.0005


def write_explanation(
    explanation: Explanation, path: Path | str, *, for_spreadsheet: bool = False
) -> Path:
    """Write a page (.html) or a table (.csv, .tsv, .parquet, .feather), as the name ends."""
    path = as_path(path)
    check_explanation_path(path)
    if path.suffix.lower() != ".html":
        return explanation.write(path, for_spreadsheet=for_spreadsheet)
    write_text(path, explanation_page(explanation))
    return path


def check_explanation_path(path: Path) -> None:
    """Refuse a name whose ending says no format.

    Raises:
        InputError: It names those that are known.
    """
    if path.suffix.lower() != ".html":
        try:
            table_format(path)
        except InputError:
            raise InputError(
                f"the file must end in .html, .csv, .tsv, .parquet, .feather; got {path}."
            ) from None


def explanation_tables(explanation: Explanation) -> list[Table]:
    """The effects for the terminal."""
    rows: list[tuple[Cell, ...]] = []
    heading = ""
    for one in explanation.effects:
        if HEADINGS[one.part] != heading:
            heading = HEADINGS[one.part]
            rows.append((heading,))
        rows.append(_row(explanation, one))
    predicted = explanation.answer["predicted"]
    head = ("left out", "effect", "log-odds", f"{predicted} without", "predicted without")
    notes = [
        f"Effect: what it adds to the probability of {predicted}, which is "
        f"{explanation.answer['probability']:.3f}."
    ]
    if any(one.neighbor_class for one in explanation.effects):
        notes.append(ABOUT_CLASSES)
    if any(one.edge for one in explanation.effects):
        notes.append(ABOUT_ARROWS)
    table = Table("", head, tuple(rows), tuple(notes), text=(4,), compact=True, widths={0: 64})
    return [table] if rows else []


def _row(explanation: Explanation, one: Effect) -> tuple[Cell, ...]:
    name = shorten(describe_part(one) if one.name is None else str(one.name), 44)
    if one.neighbor_class:
        name += f" ({one.neighbor_class})"
    if one.edge:
        name = f"{ARROWS[one.edge]} {name}"
    other = one.predicted != explanation.answer["predicted"]
    outcome = f"{one.predicted} ({one.predicted_probability:.2f})"
    return (
        f"  {name}",
        f"{one.effect:+.3f}",
        f"{one.log_odds:+.2f}",
        f"{one.probability:.3f}",
        Marked(outcome, "best") if other else "the same",
    )


@dataclass(frozen=True)
class Bar:
    """One effect of a picture.

    Attributes:
        name: Shortened for the picture.
        full: In full.
        effect: What it adds.
        text: The effect in digits.
        share: Its size as a share of the largest one's.
        outcome: What would be predicted instead; empty if nothing else.
        color: Of a neighbor's class.
        kind: A neighbor's class.
        arrow: Which way a neighbor's edge points; empty if it points nowhere.
    """

    name: str
    full: str
    effect: float
    text: str
    share: float
    outcome: str
    color: str = ""
    kind: str = ""
    arrow: str = ""


def explanation_page(explanation: Explanation) -> str:
    """A page that needs nothing else: the answer, pictures of the effects, and all of them."""
    answer = explanation.answer
    neighbors = explanation.of("neighbor")
    colors = _class_colors(neighbors, str(answer["predicted"]))
    bars = _bars(explanation, neighbors, colors)
    pictures = {
        "All at once": _bars(explanation, explanation.of("neighbors", "features")),
        "Columns": _bars(explanation, explanation.of("column")),
        "Features": _bars(explanation, explanation.of("feature")),
    }
    first, *rest = explanation.sentences()
    return render(
        "explanation.html",
        title=f"Why was {answer['predicted']} predicted for {answer['id']}?",
        sentences=[first, " ".join(rest)],
        answer=answer,
        facts=_facts(explanation),
        speak_for=[one for one in bars if one.effect >= 0],
        speak_against=[one for one in bars if one.effect < 0],
        colors=colors,
        center=shorten(str(answer["id"]), 22),
        center_color=colors.get(str(answer["predicted"]), OTHER_CLASS),
        pictures={name: found for name, found in pictures.items() if found},
        scale=Scale.of([one for found in pictures.values() for one in found]),
        effects=_effect_table(explanation),
        other=OTHER_CLASS,
        others=any(one.color == OTHER_CLASS for one in bars),
        about_classes=ABOUT_CLASSES,
        about_arrows=ABOUT_ARROWS if any(one.arrow for one in bars) else "",
        unseen=sum(abs(one.effect) < LEAST_BAR for one in explanation.effects),
    )


@dataclass(frozen=True)
class Scale:
    """Where effects lie in pictures that share one scale, in percent of their width.

    Attributes:
        low: The effect at the left end, 0 or below.
        high: The effect at the right end, 0 or above.
    """

    low: float
    high: float

    @classmethod
    def of(cls, bars: Sequence[Bar]) -> Scale:
        """The scale on which all bars fit."""
        effects = [0.0, *(one.effect for one in bars)]
        return cls(min(effects), max(effects))

    def place(self, effect: float) -> float:
        """Where an effect is."""
        return 100 * (effect - self.low) / ((self.high - self.low) or 1.0)


def _class_colors(neighbors: Sequence[Effect], predicted: str) -> dict[str, str]:
    """Colors of the predicted class and of the commonest ones among neighbors."""
    counts: dict[str, int] = {}
    for one in neighbors:
        if one.neighbor_class is not None:
            counts[one.neighbor_class] = counts.get(one.neighbor_class, 0) + 1
    common = sorted(counts, key=lambda name: (-counts[name], name))
    names = [predicted, *(name for name in common if name != predicted)]
    return dict(zip(names, CLASS_COLORS, strict=False))


def _bars(
    explanation: Explanation, effects: Sequence[Effect], colors: dict[str, str] | None = None
) -> list[Bar]:
    """What a picture shows of effects; nothing of those that would read 0.000."""
    shown = [one for one in effects if abs(one.effect) >= LEAST_BAR]
    largest = max((abs(one.effect) for one in shown), default=0.0)
    bars: list[Bar] = []
    for one in shown:
        full = str(one.name) if one.name is not None else describe_part(one)
        other = one.predicted != explanation.answer["predicted"]
        outcome = f"{one.predicted} ({one.predicted_probability:.2f})"
        bars.append(
            Bar(
                shorten(full, LONGEST_NAME),
                full,
                one.effect,
                f"{one.effect:+.3f}",
                abs(one.effect) / largest if largest else 0.0,
                outcome if other else "",
                (colors or {}).get(one.neighbor_class or "", OTHER_CLASS),
                one.neighbor_class or "",
                ARROWS.get(one.edge or "", ""),
            )
        )
    return bars


def _facts(explanation: Explanation) -> Table:
    """What is known of the node."""
    answer = explanation.answer
    rows = [
        ("Predicted", f"{answer['predicted']} ({answer['probability']:.3f})"),
        ("Runner-up", f"{answer['runner_up']} ({answer['runner_up_probability']:.3f})"),
        ("Label", "–" if answer["label"] is None else str(answer["label"])),
        ("Part", answer["part"] or "–"),
        ("Kind", answer["kind"] or "–"),
        ("Neighborhood Confusion", number(answer["nc"])),
    ]
    if "group" in answer:
        rows.append(("Group", str(answer["group"])))
    rows += [
        ("Neighbors", f"{explanation.num_neighbors:,}"),
        ("Features that are not 0", f"{explanation.num_features:,}"),
        ("Model", f"{explanation.model} on {explanation.graph}"),
        ("Weights", "refitted on all labels" if explanation.refitted else "those of the run"),
    ]
    return Table("", (), tuple(rows), left=2)


def _effect_table(explanation: Explanation) -> Table:
    """All effects, to be searched and sorted."""
    rows = [
        (
            describe_part(one) if one.name is None else str(one.name),
            f"{one.effect:+.4f}",
            f"{one.log_odds:+.3f}",
            f"{one.probability:.4f}",
            f"{one.predicted} ({one.predicted_probability:.4f})",
            one.part,
            one.neighbor_class or "",
        )
        for one in explanation.effects
    ]
    predicted = explanation.answer["predicted"]
    head = ("left out", "effect", "log-odds", f"{predicted} without", "predicted without")
    return Table("", (*head, "part", "class"), tuple(rows), text=(4, 5, 6), searchable=True)
