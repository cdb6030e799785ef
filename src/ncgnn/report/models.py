"""Models and their options as tables for the terminal."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import BaseModel

Fact = dict[str, Any]

_NAMES = {"integer": "whole number", "boolean": "true or false", "string": "text", "null": "none"}
_MEMORY = "memory grows with"
_EDGES = {
    "incoming": "a node sees its incoming edges",
    "both": "seen in both directions",
    "none": "not seen",
}
_ROLE = re.compile(r":\w+:(?=`)")


def model_tables(rows: Sequence[Fact]) -> list[Table]:
    """The models there are, by family, and those that are known by their results alone."""
    table = _narrow("name", "title", _MEMORY, "paper")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    table.columns[2].max_width = 18  # leaves room for a paper in a terminal with 80 columns
    table.columns[3].overflow = "fold"
    table.caption = "ncgnn models NAME shows the options of one."
    made = [row for row in rows if row["implemented"]]
    for family in dict.fromkeys(row["family"] for row in made):
        table.add_section()
        table.add_row(f"[bold]{escape(family)}[/]")
        for row in made:
            if row["family"] == family:
                texts = (row["name"], row["title"], row["memory"], _short(row["paper"]))
                table.add_row(*map(escape, texts))
    missing = [row for row in rows if not row["implemented"]]
    return [table, _published(missing)] if missing else [table]


def model_details(row: Fact) -> list[Table]:
    """One model: what it is, where it comes from, and its options."""
    about = Table(show_header=False, title=escape(row["title"]), title_justify="left")
    about.add_column(no_wrap=True)
    about.add_column(overflow="fold")
    facts = {
        "name": row["name"],
        "about": row.get("about"),
        "family": row["family"],
        "paper": row["paper"],
        _MEMORY: row["memory"],
        "directed edges": _EDGES.get(row["edges"]),
        "published accuracy": _scores(row["published"]),
    }
    if row["implemented"]:
        facts["presets"] = _presets(row["presets"])
    else:
        facts["status"] = "not implemented"
    for name, value in facts.items():
        if value:
            about.add_row(name, escape(_plain(value)))
    return [about, _options(row["options"])] if row["implemented"] else [about]


def option_facts(kind: type[BaseModel]) -> list[Fact]:
    """Name, type, default and meaning of every option, from the class that describes them."""
    schema = kind.model_json_schema()
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        meanings |= dict(_attributes(base.__dict__.get("__doc__") or ""))
    return [
        {
            "name": name,
            "type": _type(field, schema.get("$defs", {})),
            "default": field.get("default"),
            "required": name in schema.get("required", ()),
            "meaning": _plain(meanings.get(name, "")),
        }
        for name, field in schema["properties"].items()
    ]


def _narrow(*columns: str) -> Table:
    """A table with little between its columns."""
    return Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _published(rows: Sequence[Fact]) -> Table:
    table = _narrow("name", "title", "family", "paper", "accuracy")
    table.title, table.title_justify = "Not implemented", "left"
    table.caption = (
        "Accuracy in percent that their authors report with 60/20/20 splits, as the "
        "separated-learning paper quotes it."
    )
    for column in (*table.columns[:3], table.columns[4]):
        column.no_wrap = True
    for row in rows:
        texts = (row["name"], row["title"], row["family"], _short(row["paper"]))
        table.add_row(*map(escape, texts), _scores(row["published"], "\n"))
    return table


def _options(rows: Sequence[Fact]) -> Table:
    table = Table("option", "type", "default", "meaning", title="Options", title_justify="left")
    table.columns[0].no_wrap = True
    table.columns[1].max_width = 20
    for row in rows:
        default = "(required)" if row["required"] else _value(row["default"])
        table.add_row(*map(escape, (row["name"], row["type"], default, row["meaning"])))
    return table


def _presets(presets: Mapping[str, Any]) -> str:
    """Which parameters come without asking, a line for each kind."""
    common = [
        f"{option}={_value(value)}"
        for section in presets["every_graph"].values()
        for option, value in section.items()
    ]
    parts = {
        "on every data set": common,
        "own values for": presets["datasets"],
        "values by our search, on paper splits of": presets["searched"],
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


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    """Names and meanings under ``Attributes:`` of a docstring."""
    _, _, section = inspect.cleandoc(text).partition("Attributes:\n")
    lines = re.split(r"\n(?=\S)", section)[0]
    for entry in re.split(r"\n(?= {4}\S)", f"\n{lines}"):
        name, colon, meaning = entry.partition(":")
        if colon:
            yield name.strip(), " ".join(meaning.split())


def _plain(text: str) -> str:
    """Text without the marks of reStructuredText."""
    return _ROLE.sub("", text).replace("`", "")


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
    name = str(field.get("type", "anything"))
    name = _NAMES.get(name, name)
    return f"{name}{'s' if many and name.endswith('number') else ''}{_range(field)}"


def _range(field: Mapping[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {field[name]:g}" for name, sign in signs.items() if name in field]
    return f" {' and '.join(limits)}" if limits else ""


def _value(value: Any) -> str:
    """A value as TOML has it, words without quotes."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)
