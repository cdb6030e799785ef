"""Reading the JSON form of a split, field by field, so that a bad one can be named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ncgnn.errors import InputError

PARTS = ("train", "val", "test")

_HIGHEST_NODE = np.iinfo(np.int64).max


def read_record(record: object) -> dict[str, Any]:
    """Return the fields of a split's record, checked for presence and kind.

    Raises:
        InputError: The message begins with the name of the field.
    """
    if not isinstance(record, Mapping):
        raise InputError(f"a split must be a JSON object, not {type(record).__name__}.")
    fields = cast("Mapping[str, Any]", record)
    return {
        "family": _text(fields, "family"),
        "origin": _text(fields, "origin"),
        "seed": _seed(fields),
        **{name: _nodes(fields, name) for name in PARTS},
        "sha256": _text(fields, "sha256"),
    }


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise InputError(f"{name}: the field is missing.")
    return fields[name]


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = _field(fields, name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}: a non-empty string is wanted, not {value!r:.40}.")
    return value


def _seed(fields: Mapping[str, Any]) -> int | None:
    value = _field(fields, "seed")
    if value is not None and type(value) is not int:
        raise InputError(f"seed: an integer or null is wanted, not {value!r:.40}.")
    return value


def _nodes(fields: Mapping[str, Any], name: str) -> list[int]:
    value = _field(fields, name)
    if not isinstance(value, list):
        raise InputError(f"{name}: a list of node indices is wanted, not {value!r:.40}.")
    for position, node in enumerate(cast("list[Any]", value)):
        if type(node) is not int or not 0 <= node <= _HIGHEST_NODE:
            raise InputError(f"{name}[{position}]: a node index is wanted, not {node!r:.40}.")
    return cast("list[int]", value)
