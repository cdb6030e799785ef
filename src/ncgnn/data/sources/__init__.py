"""Readers of the authors' own file formats, one module each, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ncgnn.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ncgnn.data._arrays import GraphArrays

    Parser = Callable[[Mapping[str, Path]], GraphArrays]

PARSERS: dict[str, str] = {
    "facebook100": "ncgnn.data.sources.facebook100",
    "geom-gcn": "ncgnn.data.sources.geom_gcn",
    "gnn-benchmark": "ncgnn.data.sources.gnn_benchmark",
    "graphsaint": "ncgnn.data.sources.graphsaint",
    "heterophilous": "ncgnn.data.sources.heterophilous",
    "ogb": "ncgnn.data.sources.ogb",
    "planetoid": "ncgnn.data.sources.planetoid",
}


def parser(name: str) -> Parser:
    """The function that reads files of a format: ``parse(files)`` with ``{file name: path}``.

    Raises:
        UnknownNameError: There is no such format.
    """
    if name not in PARSERS:
        raise UnknownNameError("file format", name, list(PARSERS))
    parse: Parser = import_module(PARSERS[name]).parse
    return parse
