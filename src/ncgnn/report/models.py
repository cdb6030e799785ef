"""Tables of models, of their options, and of what training them takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ncgnn.report.tables import Table
from ncgnn.training import time_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from ncgnn.graph import Graph
    from ncgnn.training import Cost

Fact = dict[str, Any]

_MEMORY = "memory grows with"


def model_tables(rows: Sequence[Fact]) -> list[Table]:
    """The implemented models by family, and those of which only results are known."""
    made = [row for row in rows if row["implemented"]]
    lines: list[tuple[str, ...]] = []
    for family in dict.fromkeys(row["family"] for row in made):
        lines.append((family,))
        lines += [
            (row["name"], row["title"], row["memory"], _short(row["paper"]))
            for row in made
            if row["family"] == family
        ]
    models = Table(
        "",
        ("name", "title", _MEMORY, "paper"),
        tuple(lines),
        ("ncgnn models NAME shows the options of one.",),
        left=4,
        compact=True,
        unbroken=(0, 1),
        widths={2: 18},  # leaves room for a paper in a terminal with 80 columns
    )
    missing = [
        (
            *(row["name"], row["title"], row["family"], _short(row["paper"])),
            _scores(row["published"], "\n"),
        )
        for row in rows
        if not row["implemented"]
    ]
    quoted = Table(
        "Not implemented",
        ("name", "title", "family", "paper", "accuracy"),
        tuple(missing),
        (
            "Accuracy in percent that their authors report with 60/20/20 splits, as the "
            "separated-learning paper quotes it.",
        ),
        left=5,
        compact=True,
        unbroken=(0, 1, 2, 4),
    )
    return [models, quoted] if missing else [models]


def model_details(row: Fact) -> list[Table]:
    """One model: what it is, where it comes from, and its options."""
    facts = {
        "name": row["name"],
        "about": row.get("about"),
        "family": row["family"],
        "paper": row["paper"],
        _MEMORY: row["memory"],
        "directed edges": _edges(row),
        "edge weights": _uses(row.get("edge_weights")),
        "published accuracy": _scores(row["published"]),
        "presets": _presets(row["presets"]) if row["implemented"] else None,
        "status": None if row["implemented"] else "not implemented",
    }
    lines = tuple((name, _plain(value)) for name, value in facts.items() if value)
    about = Table(row["title"], (), lines, left=2, unbroken=(0,))
    if not row["implemented"] or not row["options"]:
        return [about]
    options = tuple(
        (
            option["name"],
            option["type"],
            "(required)" if option["required"] else _value(option["default"]),
            option["meaning"],
        )
        for option in row["options"]
    )
    head = ("option", "type", "default", "meaning")
    return [about, Table("Options", head, options, left=4, unbroken=(0,), widths={1: 20})]


def _uses(used: bool | None) -> str | None:
    return None if used is None else "used" if used else "not used"


def _edges(row: Fact) -> str | None:
    """What a model sees of edges, by default where it has an option for that."""
    words = {
        "incoming": "a node sees its incoming edges",
        "both": "seen in both directions",
        "none": "not seen",
    }
    seen = words.get(row["edges"])
    chosen = any(option["name"] == "direction" for option in row.get("options", ()))
    return f"{seen}, unless direction says otherwise" if seen and chosen else seen


def option_facts(kind: type[BaseModel]) -> list[Fact]:
    """Name, type, default and meaning of every option, from the class that describes them."""
    schema = kind.model_json_schema()
    return [
        {
            "name": name,
            "type": _type(field, schema.get("$defs", {})),
            "default": field.get("default"),
            "required": name in schema.get("required", ()),
            "meaning": " ".join(_plain(kind.model_fields[name].description or "").split()),
        }
        for name, field in schema["properties"].items()
    ]


def _presets(presets: Mapping[str, Any]) -> str:
    """The values that a model has without being told, a line for each kind."""
    common = [
        f"{option}={_value(value)}"
        for section in presets["every_graph"].values()
        for option, value in section.items()
    ]
    parts = {
        "on every dataset": common,
        "own values for": presets["datasets"],
        "values of our search, on paper splits of": presets["searched"],
        "features scaled by row for": presets["row_scaled"],
    }
    lines = [f"{words}: {', '.join(values)}" for words, values in parts.items() if values]
    return "\n".join(lines) or "none: defaults are used"


def _scores(published: Mapping[str, float], between: str = ", ") -> str:
    return between.join(f"{dataset} {value:.2f}" for dataset, value in published.items())


def _short(paper: str) -> str:
    """Authors, venue and year of a reference."""
    authors, *more = paper.split(", ")
    dated = [part for part in more if re.search(r"(^| )\d{4}$", part)]
    return ", ".join([authors, *(dated or more)[-1:]])


def _plain(text: str) -> str:
    """Text without the marks of reStructuredText."""
    return re.sub(r":\w+:(?=`)", "", text).replace("`", "")


def _type(field: Mapping[str, Any], shared: Mapping[str, Any], *, many: bool = False) -> str:
    """The type of a JSON schema in words."""
    if "$ref" in field:
        return _type(shared[field["$ref"].rpartition("/")[2]], shared)
    if "enum" in field or "const" in field:
        return ", ".join(_value(value) for value in field.get("enum", [field.get("const")]))
    if "anyOf" in field:
        return " or ".join(_type(one, shared) for one in field["anyOf"])
    if field.get("type") == "array":
        parts = field.get("prefixItems") or [field.get("items", {})]
        return f"list of {', '.join(_type(part, shared, many=True) for part in parts)}"
    names = {"integer": "whole number", "boolean": "true or false", "string": "text"}
    names |= {"null": "none"}
    name = str(field.get("type", "anything"))
    name = names.get(name, name)
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {field[key]:g}" for key, sign in signs.items() if key in field]
    plural = "s" if many and name.endswith("number") else ""
    return f"{name}{plural} {' and '.join(limits)}".rstrip()


def _value(value: Any) -> str:
    """A value as TOML has it, words without quotes."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)


def cost_table(graph: Graph, costs: Mapping[str, Cost | None]) -> Table:
    """What training some models on a graph will take; None of those that were not measured."""
    rows: list[tuple[str, ...]] = []
    for name, cost in costs.items():
        if cost is None:
            rows.append((name, "–", "–", "–", "not measured"))
            continue
        said = "" if cost.fits else "does not fit"
        if cost.remedies and not cost.fits:
            less = [
                what if gib is None else f"{what}: {gib:.1f} GiB"
                for what, gib in cost.remedies.items()
            ]
            said = f"does not fit; {', '.join(less)}"
        epoch = "–" if cost.epoch_seconds is None else time_text(cost.epoch_seconds)
        most = "–" if cost.seconds is None else f"{time_text(cost.seconds)} ({cost.epochs} epochs)"
        rows.append((name, f"{cost.memory_gib:.2f}", epoch, most, said))
    there = [cost.available_gib for cost in costs.values() if cost is not None]
    available = f" {there[0]:.1f} GiB are available." if there else ""
    return Table(
        f"What training on {graph.name} will take",
        ("model", "peak GiB", "an epoch", "at most", ""),
        tuple(rows),
        (
            f"Estimates; rough for graphs unlike those measured.{available} Patience may end it "
            "earlier.",
        ),
        text=(4,),
        compact=True,
    )
