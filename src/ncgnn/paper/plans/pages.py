"""The generated pages of results: long tables from the stored runs, one page per plan."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ncgnn._io import write_text
from ncgnn.errors import InputError, UnknownNameError
from ncgnn.paper.plans.combined import Combined
from ncgnn.paper.plans.competitors import Competitors, searched_presets
from ncgnn.paper.plans.modes import Modes
from ncgnn.paper.plans.store import Plan, Store
from ncgnn.paper.request import Request
from ncgnn.paper.targets import paper_grids, reproduce, request_for, target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.report import Table


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

    def train(self, store: Store, datasets: Sequence[str] | None = None) -> None:
        """Train every model with every seed."""
        for name, seeds in self.seeds.items():
            shown = target(name)
            some = [d for d in shown.datasets if datasets is None or d in datasets]
            if some:
                request, _ = request_for(name, datasets=some, seeds=seeds, data_dir=store.data_dir)
                store.train(shown.cells(request), "published", "combined")

    def tables(self, store: Store) -> list[Table]:
        """Accuracy and macro-F1 of both families, of the models that have runs."""
        stored = list(store.kept("combined", "published").values())
        kept = {record.name for record in stored}
        tables: list[Table] = []
        for name, seeds in self.seeds.items():
            shown = target(name)
            every = Request(
                shown.datasets, shown.models, tuple(range(seeds)), name.removeprefix("classic-")
            )
            there = {cell.model.name for cell in shown.cells(every) if cell.name in kept}
            models = [model for model in shown.models if model in there]
            if not models:
                continue
            request, absent = request_for(
                name, models=models, seeds=seeds, stored=stored, train=False
            )
            made = reproduce(name, (), request=request, absent=absent, stored=stored)
            # Rows about graphs would depend on what is at hand where this runs.
            tables += paper_grids(replace(made, data=replace(made.data, facts={})))
        return tables


PLANS: tuple[Plan, ...] = (
    Modes(),
    Competitors("paper"),
    Competitors("stratified"),
    Classic(),
    Combined(),
)


def plan(name: str) -> Plan:
    """A plan by name.

    Raises:
        UnknownNameError: There is none of that name.
    """
    for one in PLANS:
        if one.name == name:
            return one
    raise UnknownNameError("plan", name, [one.name for one in PLANS])


def result_pages(store: Store) -> dict[str, str]:
    """The pages by file name; a plan of which nothing is stored has none."""
    pages: dict[str, str] = {}
    for one in PLANS:
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
    pages = result_pages(store)
    if not pages:
        raise InputError(f"{store.folder} holds no stored runs; run this in a checkout.")
    texts = {root / "docs" / "results" / name: text for name, text in pages.items()}
    if store.kept("competitors"):
        presets = Path(str(files("ncgnn.training"))) / "presets" / "searched.toml"
        texts[presets] = searched_presets(store)
    for path, text in texts.items():
        write_text(path, text)
    return list(texts)
