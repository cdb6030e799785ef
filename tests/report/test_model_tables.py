"""Models and their options as tables."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field
from rich.console import Console

from ncgnn.options import Options
from ncgnn.report import model_details, model_tables, option_facts
from ncgnn.report.models import _short


class Plain(Options):
    """Base."""

    hidden: Annotated[int, Field(ge=1)] = 512
    """Width of the hidden layer."""
    kind: Literal["mean", "sum"] = "mean"
    """What an older class
    says of it."""


class Odd(Plain):
    """Options of every type."""

    kind: Literal["mean", "sum"] = "mean"
    """Which sum, ``mean`` or ``sum``; see :class:`Plain`,
    on a second line: with a colon."""
    rates: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = (0.5, 0.25)
    """Several."""
    limit: Annotated[float, Field(gt=0)] | None = None
    """Or nothing."""
    pair: tuple[int, str] = (1, "a")
    switch: bool = True
    name: str


def shown(tables, columns=80):
    console = Console(width=columns, record=True, file=None, quiet=False)
    with console.capture() as captured:
        for table in tables:
            console.print(table)
    return captured.get()


def row(**more):
    return {
        "name": "odd[red]",
        "title": "Odd [/]",
        "family": "spatial",
        "memory": "nodes",
        "edges": "incoming",
        "edge_weights": False,
        "paper": "One et al., A Title, with Commas, ICLR 2020, arXiv:1234.5678",
        "implemented": True,
        "published": {},
    } | more


def test_options_are_read_from_the_class_and_its_bases():
    facts = {fact["name"]: fact for fact in option_facts(Odd)}
    assert list(facts) == ["hidden", "kind", "rates", "limit", "pair", "switch", "name"]
    types = {name: fact["type"] for name, fact in facts.items()}
    assert types == {
        "hidden": "whole number ≥ 1",
        "kind": "mean, sum",
        "rates": "list of numbers ≥ 0 and < 1",
        "limit": "number > 0 or none",
        "pair": "list of whole numbers, text",
        "switch": "true or false",
        "name": "text",
    }
    meanings = {name: fact["meaning"] for name, fact in facts.items()}
    assert meanings["hidden"] == "Width of the hidden layer."
    assert meanings["kind"] == (
        "Which sum, mean or sum; see Plain, on a second line: with a colon."
    )
    assert meanings["limit"] == "Or nothing."
    assert meanings["pair"] == ""
    assert [name for name, fact in facts.items() if fact["required"]] == ["name"]


@pytest.mark.parametrize(
    ("common", "datasets", "scaled", "words"),
    [
        ({}, [], [], "none: defaults are used"),
        ({}, ["pubmed", "photo"], [], "│ own values for: pubmed, photo "),
        ({}, [], ["actor"], "│ features scaled by row for: actor "),
        ({"training": {"epochs": 7}, "model": {"rate": [0.1]}}, [], [], "epochs=7, rate=[0.1]"),
        ({"model": {"self_loops": True}}, ["photo"], ["actor"], "own values for: photo "),
    ],
)
def test_details(common, datasets, scaled, words):
    presets = {"every_graph": common, "datasets": datasets, "row_scaled": scaled, "searched": []}
    facts = row(about="About :class:`It`.", presets=presets, options=option_facts(Odd))
    text = shown(model_details(facts))
    assert words in text
    for part in ("Odd [/]", "odd[red]", "About It.", "arXiv:1234.5678", "nodes", "(required)"):
        assert part in text
    for default in ("[0.5, 0.25]", "[1, a]", " none ", " true "):
        assert default in text


def test_details_name_the_graphs_of_our_own_search_and_the_edges():
    presets = {"every_graph": {}, "datasets": [], "row_scaled": [], "searched": ["actor", "photo"]}
    text = shown(model_details(row(about="It.", presets=presets, options=option_facts(Odd))))
    assert "values of our search, on paper splits of: actor, photo" in text
    assert "a node sees its incoming edges" in text
    assert "not used" in text


def test_the_list_is_grouped_by_family():
    rows = [row(), row(name="b", family="global"), row(name="c")]
    rows.append(row(name="d", implemented=False, memory=None, published={"actor": 31.9}))
    text = shown(model_tables(rows))
    first = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert first[2:7] == ["spatial", "odd[red]", "c", "global", "b"]
    assert "One et al., ICLR 2020" in text
    assert "actor 31.90" in text.partition("Not implemented")[2]
    assert len(model_tables(rows[:3])) == 1


@pytest.mark.parametrize(
    ("paper", "short"),
    [
        ("", ""),
        ("One and Two, Title, ICLR 2020, arXiv:1234.5678", "One and Two, ICLR 2020"),
        ("One, Title, with Commas, A Journal 2021", "One, A Journal 2021"),
        ("One, Title, arXiv:1234.5678", "One, arXiv:1234.5678"),
    ],
)
def test_short_references(paper, short):
    assert _short(paper) == short
