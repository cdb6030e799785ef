"""What options take for a number, and how they say that there is none."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

import ncgnn
from ncgnn.errors import InputError
from ncgnn.options import Options
from ncgnn.training import make_config


class Some(Options):
    width: Annotated[int, Field(ge=1)] = 1
    rate: float | None = None
    rates: tuple[Annotated[float, Field(ge=0)], ...] = ()
    power: Literal[0, 1] = 0
    norm: Literal["layer", "none"] = "layer"
    loops: bool = False
    name: str = ""


def test_numbers_are_numbers():
    made = Some(width=3, rate=2, rates=[1, 0.5], power=1, loops=True, name="8", norm="none")
    assert made.rates == (1.0, 0.5)
    assert made.rate == 2.0
    assert (made.loops, made.name, made.norm) == (True, "8", "none")


@pytest.mark.parametrize("wrong", [True, "8", [1, 2]])
@pytest.mark.parametrize("field", ["width", "rate"])
def test_nothing_else_is_taken_for_a_number(field, wrong):
    with pytest.raises(ValidationError):
        Some(**{field: wrong})


@pytest.mark.parametrize("wrong", [[True], ["0.5"], [0.1, False], "0.1"])
def test_nor_in_a_list(wrong):
    with pytest.raises(ValidationError, match="must be a number"):
        Some(rates=wrong)


def test_none_is_a_word_where_there_may_be_no_value():
    assert Some(rate="none").rate is None
    with pytest.raises(ValidationError, match="must be a number"):
        Some(width="none")


def test_the_same_in_configurations():
    config = make_config(dataset="digits", model="gat", settings={"attention_dropout": "none"})
    assert config == make_config(dataset="digits", model="gat")
    config = make_config(dataset="digits", settings={"split_seed": "none"})
    assert config == make_config(dataset="digits")
    config = make_config(dataset="digits", model="tuned-gcn", settings={"norm": "none"})
    assert config.model.options["norm"] == "none"
    for key, value in (("hidden", True), ("epochs", "8"), ("dropout", [0.1, "0.2"])):
        with pytest.raises(InputError, match=rf"\.{key} must be a number; got "):
            make_config(dataset="digits", model="ncgcn", settings={key: value})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: ncgnn.generate(10, 10, groups=3), "groups must be"),
        (lambda g: ncgnn.make_split(g, "stratified", 0, fractions="abc"), "must be numbers"),
        (lambda g: ncgnn.fit(g, 3), "model must be a name or a subclass"),
        (lambda g: g.extend("a", "b"), "features must be a row per new node"),
        (lambda g: ncgnn.generate("x", 10), "nodes"),
        (lambda g: ncgnn.neighborhood_confusion(g, hops="a"), "hops"),
        (lambda g: ncgnn.fit(None), "graph"),
        (lambda g: ncgnn.save(g, None), "path"),
        (lambda g: ncgnn.load_run(None), "path"),
        (lambda g: ncgnn.find_suspects(g, folds="a"), "folds"),
    ],
)
def test_functions_say_what_is_wrong_with_what_they_are_given(call, words):
    graph = ncgnn.generate(60, 200, classes=2, features=3)
    with pytest.raises(InputError, match=words):
        call(graph)
