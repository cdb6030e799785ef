"""The plans by name, and the generated pages of results: long tables from the stored runs."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn._io import write_text
from ncgnn.errors import InputError, UnknownNameError
from ncgnn.paper.plans.competitors import Competitors
from ncgnn.paper.plans.store import Plan, Store
from ncgnn.paper.targets import Request, reproduce, request_for, target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.report import Table

_PLACES = {
    "control": "control:Control",
    "modes": "modes:Modes",
    "competitors": "competitors:Competitors",
    "stratified": "competitors:Stratified",
    "classic": "pages:Classic",
    "combined": "combined:Combined",
}


def plan_names() -> list[str]:
    """Names of all plans."""
    return list(_PLACES)


def plan(name: str) -> Plan:
    """A plan by name.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in _PLACES:
        raise UnknownNameError("plan", name, plan_names())
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f"ncgnn.paper.plans.{module}"), attribute)()


class Classic(Plan):
    """Tuned classic models beside others on the splits of their authors."""

    name = "classic"
    title = "Tuned classic models and others on published splits"
    about = (
        "The splits of the authors of the tuned classic models "
        "([arXiv:2406.08993](https://arxiv.org/abs/2406.08993)): ten masks of each filtered graph, "
        "one uniform 60/20/20 split of the others, where seeds are first weights. Every model as "
        "its preset says, without a search on these splits; below tuned ones what their authors "
        "report."
    )
    seeds = {"classic-published": 10, "classic-uniform": 3}  # noqa: RUF012

    def __init__(self) -> None:
        self.graphs = tuple(graph for name in self.seeds for graph in target(name).datasets)

    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Train every model with every seed."""
        for name, seeds in self.seeds.items():
            shown = target(name)
            some = [d for d in shown.datasets if datasets is None or d in datasets]
            if some:
                request, _ = request_for(name, datasets=some, seeds=seeds, data_dir=store.data_dir)
                store.train(shown.cells(request), "published", "combined")

    def tables(self, store: Store) -> list[Table]:
        """Accuracy and macro-F1 of both families, of the models and graphs that have runs."""
        stored = store.kept("combined", "published")
        tables: list[Table] = []
        for name, seeds in self.seeds.items():
            shown = target(name)
            every = Request(shown.datasets, shown.models, tuple(range(seeds)), shown.split)
            there = [
                (graph, row.name)
                for graph in every.datasets
                for row in shown.rows(every, graph)
                if any(cell.name in stored for cell in row.configs(every, graph))
            ]
            if there:
                graphs, models = {graph for graph, _ in there}, {model for _, model in there}
                request = replace(
                    every,
                    datasets=tuple(name for name in shown.datasets if name in graphs),
                    models=tuple(name for name in shown.models if name in models),
                )
                made = reproduce(name, (), request=request, stored=stored.values())
                # Rows about graphs would depend on what is at hand where this runs.
                tables += replace(made, data=replace(made.data, facts={})).tables()
        return tables


def result_pages(store: Store) -> dict[str, str]:
    """The pages by file name; a plan of which nothing is stored has none."""
    pages: dict[str, str] = {}
    for one in map(plan, plan_names()):
        if tables := one.tables(store):
            command = f"```sh\nncgnn reproduce {one.name} --data-dir DIR\n```\n"
            head = f"# {one.title}\n\n{one.about}\n\n{command}"
            made_by = "Made by `ncgnn reproduce results --write` from the stored runs.\n"
            parts = [head, *(table.markdown() for table in tables), made_by]
            pages[f"{one.name}.md"] = "\n".join(parts)
    return pages


def write_results(root: Path | str = ".") -> list[Path]:
    """Write the pages of a checkout, and the presets that were searched; returns the paths.

    Args:
        root: The checkout, with its stored runs in ``results``.

    Raises:
        InputError: There are no stored runs.
    """
    root = Path(root)
    store = Store(root / "results")
    texts = {root / "docs" / "results" / name: text for name, text in result_pages(store).items()}
    if not texts:
        raise InputError(f"{store.folder} holds no stored runs; run this in a checkout.")
    presets = Path(str(files("ncgnn.training"))) / "presets" / "searched.toml"
    if store.kept("competitors"):
        texts[presets] = Competitors().presets(store)
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)
