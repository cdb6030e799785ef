"""``ncgnn models``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncgnn.cli.options import JsonOption, one_clear_error, print_json

if TYPE_CHECKING:
    from ncgnn.nn import ModelEntry


@one_clear_error
def models(
    name: Annotated[str | None, typer.Argument(help="Show one, with all its options.")] = None,
    json: JsonOption = False,
) -> None:
    """List the known models, or show the options of one."""
    from ncgnn.errors import UnknownNameError
    from ncgnn.nn import BY_NAME, ENTRIES

    name = None if name is None else name.lower()
    if name is not None and name not in BY_NAME:
        raise UnknownNameError("model", name, list(BY_NAME))
    rows = [_fact(entry) for entry in ENTRIES] if name is None else [_facts(BY_NAME[name])]
    if json:
        print_json({"models": rows})
        return
    from rich.console import Console

    from ncgnn.report import model_details, model_tables

    console = Console()
    for table in model_tables(rows) if name is None else model_details(rows[0]):
        console.print(table)


def _fact(entry: ModelEntry) -> dict[str, Any]:
    """What the list says of a model; its module is not imported."""
    implemented = entry.place is not None
    return {
        "name": entry.name,
        "title": entry.title,
        "family": entry.family,
        "memory": entry.memory if implemented else None,
        "edges": entry.edges if implemented else None,
        "paper": entry.paper,
        "implemented": implemented,
        "published": dict(entry.published),
    }


def _facts(entry: ModelEntry) -> dict[str, Any]:
    """All that is known of a model."""
    if entry.place is None:
        return _fact(entry)
    from ncgnn.data import list_datasets
    from ncgnn.nn import model_class
    from ncgnn.report import option_facts
    from ncgnn.training import has_own_values, preset, searched_datasets

    kind = model_class(entry.name)
    about = (kind.__doc__ or "").strip().partition("\n")[0]
    common = preset(entry.name, "")
    own = {one.name: preset(entry.name, one.name) for one in list_datasets()}
    presets = {
        "every_graph": common,
        "datasets": [dataset for dataset in own if has_own_values(entry.name, dataset, None)],
        "searched": searched_datasets(entry.name),
        "row_scaled": [
            dataset for dataset, tree in own.items() if tree.get("data", {}).get("scaling") == "row"
        ],
    }
    facts = {"about": about, "presets": presets, "options": option_facts(kind.Options)}
    return _fact(entry) | facts
