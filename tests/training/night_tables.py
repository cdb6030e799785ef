"""Small tables of two nights: things that come and go, words and classes that are new."""

from __future__ import annotations

from typing import Any

import numpy as np

import ncgnn

WORDS = {
    "food": ("sweet apple fruit", "round pear fruit", "ripe plum fruit"),
    "tools": ("sharp steel tool", "heavy iron tool", "long oak tool"),
    "toys": ("soft bear toy", "tiny tin toy", "red ball toy"),
}


def tables(
    first: int, last: int, classes: str = "food tools", more: str = "", seed: int = 0
) -> Any:
    """Nodes ``t{first}`` … ``t{last - 1}`` and edges mostly within a class; a seventh unlabeled.

    Things are the same in every night: what they are follows from their number.
    """
    names = classes.split()
    kinds = [names[number % len(names)] for number in range(last)]
    rows = range(first, last)
    nodes = {
        "thing": [f"t{number}" for number in rows],
        "aisle": [None if number % 7 == 6 else kinds[number] for number in rows],
        "price": [float(1 + number % 5) for number in rows],
        "maker": [f"maker {number % 4}" for number in rows],
        "text": [WORDS[kinds[n]][n % 3] + (f" {more}" if n % 2 else "") for n in rows],
    }
    random = np.random.default_rng(seed)
    sources = random.integers(first, last, 5 * (last - first))
    step = len(names) * random.integers(1, 4, len(sources))
    targets = np.minimum(sources + step, last - 1)
    apart = sources != targets
    edges = {
        "from": [f"t{number}" for number in sources[apart]],
        "to": [f"t{number}" for number in targets[apart]],
    }
    return nodes, edges


def night(first: int, last: int, *more: Any, **options: Any) -> Any:
    """The graph of such tables."""
    columns = {"text": "text"}
    return ncgnn.read_tables(
        *tables(first, last, *more, **options), label="aisle", columns=columns, name="mine"
    )
