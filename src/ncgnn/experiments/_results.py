"""Finished runs as rows: one per model, options, data set and split family."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ncgnn.experiments._compared import compared
from ncgnn.experiments._rows import Row, flat, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.experiments._records import Record

#: What does not make two runs different models.
_SEEDED = ("training.seed",)


def results_table(records: Iterable[Record], against: str | None = None) -> list[Row]:
    """Group runs by all of their configuration but the seed.

    Args:
        records: Finished runs.
        against: Label of a row (model, and options if there are several rows of it) with which the
            others of the same data set and split family are compared, seed by seed.

    Returns:
        Rows by data set, split family, model and options. Split families are never put together.
    """
    known = list(records)
    mixed = _mixed(known)
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in known:
        graph = record.graph if record.config["data"]["dataset"] in mixed else ""
        groups[_key(record), graph].append(record)
    families: dict[tuple[str, str, str], list[list[Record]]] = defaultdict(list)
    for group in groups.values():
        families[_place(group[0])].append(group)
    rows = [
        Row(*place, _options(group[0], siblings, mixed), _by_seed(group))
        for place, siblings in sorted(families.items())
        for group in siblings
    ]
    rows.sort(key=lambda row: (row.dataset, row.split, row.model, row.options))
    return rows if against is None else compared(rows, against)


def _mixed(records: Iterable[Record]) -> set[str]:
    """Data sets that were another graph in some runs than in others: a file may have changed."""
    graphs: dict[str, set[str]] = defaultdict(set)
    for record in records:
        graphs[record.config["data"]["dataset"]] |= {record.graph} - {""}
    return {dataset for dataset, found in graphs.items() if len(found) > 1}


def _place(record: Record) -> tuple[str, str, str]:
    data = record.config["data"]
    return data["dataset"], data["split"], record.config["model"]["name"]


def _key(record: Record) -> str:
    options = {k: v for k, v in flat(record.config).items() if k not in _SEEDED}
    return json.dumps(options, sort_keys=True)


def _options(record: Record, siblings: Sequence[Sequence[Record]], mixed: set[str]) -> str:
    """The options in which a row differs from most runs of this model on this data set.

    Where no value of an option is commoner than all others, every row says its own; and so it does
    of the graph where a data set was several.
    """
    own = flat(record.config)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    configs = [flat(group[0].config) for group in siblings]
    for name in dict.fromkeys(name for config in configs for name in config):
        for config, group in zip(configs, siblings, strict=True):
            counts[name][json.dumps(config.get(name))] += len(group)
    unusual = {
        name: own.get(name)
        for name, found in sorted(counts.items())
        if name not in _SEEDED and json.dumps(own.get(name)) != _commonest(found)
    }
    said = [f"{name.partition('.')[2]}={short(v)}" for name, v in unusual.items()]
    if record.config["data"]["dataset"] in mixed:
        said.append(f"graph={record.graph or 'unknown'}")
    return " ".join(said)


def _commonest(counts: Counter[str]) -> str | None:
    first, *others = counts.most_common(2)
    return None if others and others[0][1] == first[1] else first[0]


def _by_seed(group: Sequence[Record]) -> dict[int, Record]:
    found = {int(record.config["training"]["seed"]): record for record in group}
    return dict(sorted(found.items()))
