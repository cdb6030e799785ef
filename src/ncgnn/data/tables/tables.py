"""Tables of nodes and edges as a graph, and rows that come later as new nodes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data.tables.encoding import Features
from ncgnn.data.tables.labels import (
    label_texts,
    read_labels,
    read_split,
    read_time,
    remark_on_classes,
)
from ncgnn.data.tables.links import (
    LinkReport,
    Links,
    choose_ends,
    group_pairs,
    look_up,
    read_ids,
    read_links,
)
from ncgnn.data.tables.reading import SourceTable, read_table, shorten
from ncgnn.data.tables.schema import (
    Column,
    EdgeColumns,
    Schema,
    describe_columns,
    parse_schema,
    read_schema,
)
from ncgnn.errors import InputError
from ncgnn.graph import BACKWARD, FORWARD, Graph, merge_edges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ncgnn.data.tables.encoding import Unseen
    from ncgnn.data.tables.schema import Direction, Unknown


@dataclass(frozen=True)
class TableReport:
    """What was found in tables, for people to look at before they rely on it.

    Attributes:
        rows: Rows of nodes.
        columns: What each column was taken for.
        classes: Labeled rows by class.
        unlabeled: Rows without a label.
        known: Rows of nodes that were there before, left out of an extension.
        added: Nodes that only edges name.
        links: What became of the edges.
        unseen: Per column, rows of an extension with values that its encoder does not know, and
            the commonest of these.
        other_labels: Labels of an extension that the graph has no class for.
        notes: Whatever else was noticed.
    """

    rows: int
    columns: tuple[Column, ...] = ()
    classes: Mapping[str, int] = field(default_factory=dict[str, int])
    unlabeled: int = 0
    known: int = 0
    added: int = 0
    links: LinkReport = field(default_factory=LinkReport)
    unseen: Mapping[str, Unseen] = field(default_factory=dict[str, "Unseen"])
    other_labels: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()

    def added_to(self, count: int) -> slice:
        """The nodes that only edges name, of a graph with so many; none if others came later."""
        return slice(self.rows, count if self.rows + self.added == count else self.rows)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        tree = asdict(self)
        tree["unseen"] = {
            column: {"rows": one.rows, "values": dict(one.values.most_common(10))}
            for column, one in self.unseen.items()
        }
        return tree

    def sentences(self) -> list[str]:
        """What a person should know, one fact each."""
        said = [*self.notes]
        links = self.links
        if self.known:
            said.append(f"{self.known:,} rows are nodes that the graph has already.")
        if self.added:
            said.append(f"{self.added:,} nodes are named by edges only; they have no features.")
        if links.unknown_rows and not self.added:
            said.append(
                f"{links.unknown_rows:,} edges are left out because an end is no node "
                f"({', '.join(links.unknown)}, …)."
            )
        counts = (
            (links.self_loops, "edges from a node to itself are left out."),
            (links.other_kinds, "edges are of kinds that do not count."),
            (links.among_known, "edges between nodes that were there before are left out."),
            (links.repeated, "rows repeat an edge and are merged into it."),
        )
        said += [f"{count:,} {what}" for count, what in counts if count]
        if links.kinds:
            listed = ", ".join(f"{kind or '(empty)'} {n:,}" for kind, n in links.kinds.items())
            said.append(f"Kinds of edges: {listed}.")
        for column, one in self.unseen.items():
            common = ", ".join(value or "(missing)" for value, _ in one.values.most_common(3))
            said.append(
                f"{one.rows:,} rows have values of {column} that were not there before ({common}, "
                f"…; {len(one.values):,} in all)."
            )
        if self.other_labels:
            listed = ", ".join(list(self.other_labels)[:5])
            said.append(f"{sum(self.other_labels.values()):,} labels are of no class: {listed}.")
        return said


@dataclass(frozen=True, eq=False)
class Tables:
    """Where a graph of tables came from: how they were read and encoded.

    Attributes:
        schema: What the columns mean.
        features: The fitted encoders.
        encoding: Of text files.
        report: What was found in the tables that were read last.
    """

    schema: Schema
    features: Features
    encoding: str
    report: TableReport

    def extend(
        self,
        graph: Graph,
        nodes: Any,
        edges: Any = None,
        *,
        unknown: Unknown | None = None,
        among_known: bool = False,
        encoding: str | None = None,
    ) -> Graph:
        """The graph with the new rows of tables as nodes after its own.

        Encoders and classes stay as they were fitted.

        Args:
            graph: The graph that these tables made.
            nodes: A table of nodes with the same columns; the label may be missing. Rows whose id
                the graph has already are left out.
            edges: A table of edges with the same columns.
            unknown: What happens to ends that are no node: ``"error"`` or ``"drop"``; by default
                what the schema says.
            among_known: Whether edges between nodes that were there before are added too.
            encoding: Of text files; by default that of the first ones.
        """
        chosen = encoding or self.encoding
        table = read_table(nodes, "nodes", encoding=chosen)
        texts = graph.ids.dtype.kind == "U"
        values = read_ids(table, self.schema.nodes.id, "id", texts)
        _check_unique(table, self.schema.nodes.id, values)
        names: list[Any] = values.to_pylist()
        new = [row for row, name in enumerate(names) if name not in graph.places]
        report = TableReport(len(table), known=len(table) - len(new), notes=table.notes)
        places = {names[row]: graph.num_nodes + place for place, row in enumerate(new)}
        links = None
        if edges is not None:
            links = self._links(graph, places, edges, unknown, among_known, chosen)
            report = replace(report, links=links.report)
        features, labels = None, np.zeros(0, dtype=np.int64)
        if new:
            rows = replace(table, table=table.table.take(new))
            features, unseen = self.features.encode(self._complete(rows))
            labels, other = self._labels(rows, graph)
            unlabeled = int((labels < 0).sum())
            report = replace(report, unlabeled=unlabeled, unseen=unseen, other_labels=other)
        grown = replace(graph, num_added=0, source=replace(self, report=report))
        for name in ("places", "is_directed"):  # found out once, for all extensions of a graph
            grown.__dict__[name] = getattr(graph, name)
        if new:
            grown = grown.add_nodes(
                len(new) if features is None else features,
                labels=labels,
                node_ids=np.array([names[row] for row in new]),
            )
        if links is not None and len(links.sources):
            grown = grown.add_edges(_store(links, grown.num_nodes, self.schema.edges))
        if grown.edge_directions is not None:
            grown.__dict__["is_directed"] = False  # every edge is stored both ways
        return grown

    def _complete(self, table: SourceTable) -> SourceTable:
        """Complain of columns that are missing, rather than take them as empty."""
        wanted = [encoder.column for encoder in self.features.encoders]
        missing = [name for name in wanted if name not in table.columns]
        if missing:
            raise InputError(
                f"{table.where}: there is no column '{missing[0]}', which the graph was made with; "
                "add it (its values may be empty)."
            )
        return table

    def _labels(self, table: SourceTable, graph: Graph) -> tuple[NDArray[np.int64], dict[str, int]]:
        column = self.schema.nodes.label
        if column is None or column not in table.columns:
            return np.full(len(table), -1, dtype=np.int64), {}
        texts = label_texts(table, column)
        number = {name: place for place, name in enumerate(graph.class_names or ())}
        other = Counter(text for text in texts if text and text not in number)
        return np.array([number.get(text, -1) for text in texts], dtype=np.int64), dict(other)

    def _links(
        self,
        graph: Graph,
        places: Mapping[Any, int],
        edges: Any,
        unknown: Unknown | None,
        among_known: bool,
        encoding: str,
    ) -> Links:
        table = read_table(edges, "edges", encoding=encoding)
        columns = self.schema.edges
        if columns is None:
            raise InputError("the graph was imported without edges; import it again with them.")
        texts = graph.ids.dtype.kind == "U"
        both = _Both(places, graph.places)
        ids = graph.ids if len(table) < 100_000 else np.array([*graph.ids.tolist(), *places])
        found = [
            look_up(read_ids(table, name, option, texts), both, ids)
            for name, option in ((columns.source, "source"), (columns.target, "target"))
        ]
        chosen = unknown or columns.unknown
        lost = _unknown_ends(table, columns, found)
        if lost and chosen != "drop":
            raise _unknown_error(table, columns, lost, "drop")
        kinds = columns.kinds
        if kinds is not None and columns.kind is not None:
            there = set(table.column(columns.kind, "kind").cast("string").unique().to_pylist())
            columns = columns.model_copy(
                update={"kinds": {name: w for name, w in kinds.items() if name in there}}
            )
        ends = (found[0], found[1])
        links = read_links(table, columns, ends, graph.num_nodes, among_known)
        links.report.unknown = lost
        return links


class _Both(dict[Any, int]):
    """A dictionary of new nodes that falls back on those of a graph."""

    def __init__(self, new: Mapping[Any, int], old: Mapping[Any, int]) -> None:
        super().__init__(new)
        self._old = old

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key)
        return self._old.get(key, default) if found is None else found


def read_tables(
    nodes: Any,
    edges: Any = None,
    *,
    id: str | None = None,
    label: str | None = None,
    split: str | None = None,
    time: str | None = None,
    columns: Mapping[str, str] | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    kind: str | None = None,
    kinds: Mapping[str, float] | Sequence[str] | None = None,
    direction: Direction | None = None,
    unknown: Unknown | None = None,
    schema: Schema | Path | str | None = None,
    encoding: str = "utf-8",
    name: str = "tables",
) -> Graph:
    """Make a graph of a table of nodes and a table of edges.

    Args:
        nodes: One row per node: the path of a CSV, TSV, Parquet or Arrow file, a data frame
            (pandas, polars, Arrow, DuckDB), a dictionary of columns, or, with DuckDB installed, a
            SQL query.
        edges: One row per edge, likewise.
        id: Column of the nodes with a different text or whole number in every row; by default
            ``id``, or the first column.
        label: Column of the nodes with the class, as a name or a whole number; empty = unknown.
        split: Column of the nodes that says train, val or test; the split family ``published``.
        time: Column of the nodes with a date or number; the split family ``time`` trains on the
            earliest 60 % and tests on the latest 20 %.
        columns: Kinds of columns, where the guess is wrong: ``number``, ``skewed``, ``category``,
            ``date``, ``text``, ``list`` or ``ignore``.
        source: Column of the edges with the id that an edge starts from.
        target: Column of the edges with the id that it points to.
        weight: Column of the edges with a positive number; those of repeated rows add up.
        kind: Column of the edges with their kind.
        kinds: Kinds that count, as a list or with a weight each; of a pair with several kinds the
            largest weight counts.
        direction: ``"both"`` (the default): nodes hear from both ends of an edge, and which way it
            points is kept for models that tell the two apart; ``"forward"`` or ``"backward"``:
            messages pass one way only.
        unknown: Ends of edges that are no node are an ``"error"`` (the default), or the edge is
            ``"drop"``-ped, or the node ``"add"``-ed without features and label.
        schema: A schema, or the path of an edited ``schema.toml``; what is given here besides wins.
        encoding: Of text files.
        name: Name of the graph.

    Returns:
        A graph whose ``source`` is a :class:`Tables`: ``graph.source.report`` says what was found,
        ``graph.extend(nodes, edges)`` adds nodes that arrive later.

    Example:
        >>> import ncgnn
        >>> people = {"id": ["ann", "bo", "cy"], "team": ["x", "y", None], "age": [30, 41, 35]}
        >>> knows = {"from": ["ann", "cy"], "to": ["bo", "bo"]}
        >>> graph = ncgnn.read_tables(people, knows, label="team")
        >>> graph.class_names, graph.labels.tolist()
        (('x', 'y'), [0, 1, -1])
    """
    table = read_table(nodes, "nodes", encoding=encoding)
    if not len(table):
        raise InputError(f"{table.where}: it has no rows; give a table with at least one.")
    links = None if edges is None else read_table(edges, "edges", encoding=encoding)
    node_options = {"id": id, "label": label, "split": split, "time": time}
    edge_options = {"source": source, "target": target, "weight": weight, "kind": kind}
    edge_options |= {"kinds": _as_weights(kinds), "direction": direction, "unknown": unknown}
    chosen, found = _decide(table, links, schema, node_options, edge_options, dict(columns or {}))
    return _build(table, links, chosen, found, encoding, name)


def _decide(
    table: SourceTable,
    links: SourceTable | None,
    schema: Schema | Path | str | None,
    node_options: dict[str, Any],
    edge_options: dict[str, Any],
    kinds: dict[str, str],
) -> tuple[Schema, list[Column]]:
    """The schema of two tables: a given one, what options say, and guesses for the rest."""
    given = read_schema(schema) if isinstance(schema, Path | str) else schema
    tree: dict[str, Any] = {} if given is None else given.model_dump(exclude_none=True)
    nodes = tree.get("nodes", {}) | {k: v for k, v in node_options.items() if v is not None}
    if "id" not in nodes:
        nodes["id"] = "id" if "id" in table.columns else table.columns[0]
    for option, name in nodes.items():
        table.column(name, option)
    used = list(nodes.values())
    if len(set(used)) < len(used):
        twice = next(name for name in used if used.count(name) > 1)
        raise InputError(f"column '{twice}' has two meanings among id, label, split and time.")
    found = describe_columns(table, tree.get("columns", {}) | kinds, set(used))
    edges = None
    if links is not None:
        edges = tree.get("edges", {}) | {k: v for k, v in edge_options.items() if v is not None}
        edges["source"], edges["target"] = choose_ends(
            links, edges.get("source"), edges.get("target")
        )
        for option in ("source", "target", "weight", "kind"):
            if edges.get(option) is not None:
                links.column(edges[option], option)
        if edges.get("kinds") is not None and edges.get("kind") is None:
            raise InputError("kinds need the column of the edges with the kind; name it (--kind).")
    said = {"nodes": nodes, "columns": {column.name: column.kind for column in found}}
    return parse_schema(said | ({} if edges is None else {"edges": edges}), "tables"), found


def _build(
    table: SourceTable,
    links: SourceTable | None,
    schema: Schema,
    columns: list[Column],
    encoding: str,
    name: str,
) -> Graph:
    nodes = schema.nodes
    values = read_ids(table, nodes.id, "id")
    _check_unique(table, nodes.id, values)
    ids: list[Any] = values.to_pylist()
    rows, notes = len(table), [*table.notes]
    pairs = Links(np.zeros(0, np.int64), np.zeros(0, np.int64), None, LinkReport())
    if links is not None and schema.edges is not None:
        pairs, more = _read_edges(links, schema.edges, values, ids)
        ids += more
        table = _pad(table, nodes.id, more)
        notes += [*links.notes, *_unused(links, schema.edges)]
    labels, names = read_labels(table, nodes.label)
    if "-1" in names:
        notes.append("The label -1 is a class like others; leave it empty where it means unknown.")
    splits: dict[str, Any] = read_split(table, nodes.split, labels, notes)
    splits |= read_time(table, nodes.time, labels, notes)
    counts = {one: int((labels == place).sum()) for place, one in enumerate(names)}
    notes += remark_on_classes(counts)
    features = Features.fit(table, columns)
    matrix, _ = features.encode(table)
    report = TableReport(
        rows,
        tuple(columns),
        counts,
        int((labels < 0).sum()),
        added=len(ids) - rows,
        links=pairs.report,
        notes=tuple(notes),
    )
    edges = _store(pairs, len(ids), schema.edges)
    graph = Graph.from_csr(
        edges.indptr,
        edges.indices,
        edge_weights=edges.weights,
        edge_directions=edges.directions,
        labels=labels,
        features=matrix,
        node_ids=np.array(ids),
        class_names=names or None,
        feature_names=features.names if matrix is not None else None,
        shipped_splits=splits,
        name=name,
        origin=f"tables {table.where}" + ("" if links is None else f" and {links.where}"),
        require_labels=False,
    )
    # An edge that is there in both directions is no repetition.
    merged = pairs.report.repeated
    source = Tables(schema, features, encoding, report)
    return replace(graph, source=source, merged_duplicates=merged)


def _store(pairs: Links, num_nodes: int, columns: EdgeColumns | None) -> Any:
    """Pairs as the stored edges of a graph, in the directions that count."""
    sources, targets, weights = pairs.sources, pairs.targets, pairs.weights
    direction = "both" if columns is None else columns.direction
    if direction != "both":
        if direction == "backward":
            sources, targets = targets, sources
        return merge_edges(targets, sources, num_nodes, weights)
    bits = np.repeat(np.array([FORWARD, BACKWARD], dtype=np.uint8), len(sources))
    sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    if weights is not None and columns is not None and columns.weight is None:
        # Of a pair that needs each other the larger weight counts, as it does for kinds.
        order, starts = group_pairs(sources, targets)
        weights = np.maximum.reduceat(np.concatenate([weights, weights])[order], starts)
        bits = np.bitwise_or.reduceat(bits[order], starts)
        sources, targets = sources[order[starts]], targets[order[starts]]
    elif weights is not None:
        weights = np.concatenate([weights, weights])
    return merge_edges(targets, sources, num_nodes, weights, bits)


def _read_edges(
    table: SourceTable, columns: EdgeColumns, ids: Any, names: list[Any]
) -> tuple[Links, list[Any]]:
    """The edges, and the ids of nodes that only they name."""
    import pyarrow as pa

    texts = pa.types.is_string(ids.type)
    ends = [
        read_ids(table, name, option, texts)
        for name, option in ((columns.source, "source"), (columns.target, "target"))
    ]
    places = {name: place for place, name in enumerate(names)}
    if columns.source in places and columns.target in places:
        raise InputError(
            f"{table.where}: its first row, {columns.source} and {columns.target}, names two nodes "
            "and no columns; write a header above it, such as source,target."
        )
    known = np.array(names)
    found = [look_up(end, places, known) for end in ends]
    lost = _unknown_ends(table, columns, found)
    more: list[Any] = []
    if lost and columns.unknown == "error":
        raise _unknown_error(table, columns, lost, "drop or add")
    if lost and columns.unknown == "add":
        for end, numbers in zip(ends, found, strict=True):
            for row in np.flatnonzero(numbers < 0).tolist():
                name = end[row].as_py()
                if name not in places:
                    places[name] = len(places)
                    more.append(name)
                numbers[row] = places[name]
    links = read_links(table, columns, (found[0], found[1]))
    links.report.unknown = lost
    return links, more


def _unknown_ends(
    table: SourceTable, columns: EdgeColumns, found: list[NDArray[np.int64]]
) -> list[str]:
    """The first five ends that are no node."""
    first: dict[str, int] = {}
    for name, numbers in zip((columns.source, columns.target), found, strict=True):
        rows = np.flatnonzero(numbers < 0)
        values = table.column(name, "edges").take(rows)
        for value in values.unique()[:5].to_pylist():
            row = int(rows[values.index(value).as_py()])
            text = shorten(str(value), 60)
            first[text] = min(row, first.get(text, row))
    return sorted(first, key=lambda text: first[text])[:5]


def _unknown_error(
    table: SourceTable, columns: EdgeColumns, lost: list[str], remedy: str
) -> InputError:
    return InputError(
        f"{table.where}: columns {columns.source} and {columns.target} name nodes that the nodes "
        f"do not have: {', '.join(lost)}; add their rows, or say what to do with such edges "
        f"(--unknown {remedy})."
    )


def _unused(table: SourceTable, columns: EdgeColumns) -> list[str]:
    used = {columns.source, columns.target, columns.weight, columns.kind}
    unused = [name for name in table.columns if name not in used]
    if not unused:
        return []
    return [
        f"Columns of the edges that are not used: {', '.join(unused)} (name one as weight or kind "
        "if it counts)."
    ]


def _check_unique(table: SourceTable, column: str, values: Any) -> None:
    if len(values.unique()) == len(values):
        return
    first: dict[Any, int] = {}
    for row, value in enumerate(values.to_pylist()):
        if value in first:
            name = shorten(str(value), 60)
            raise InputError(
                f"{table.at(row, column)}: '{name}' is in row {first[value] + table.first_row} "
                "already; every node needs an id of its own."
            )
        first[value] = row


def _pad(table: SourceTable, column: str, more: list[Any]) -> SourceTable:
    """The nodes with a row for each id that only edges name, empty but for the id."""
    if not more:
        return table
    import pyarrow as pa

    empty = {
        name: pa.nulls(len(more), kind) if name != column else pa.array(more).cast(kind)
        for name, kind in zip(table.columns, table.table.schema.types, strict=True)
    }
    return replace(table, table=pa.concat_tables([table.table, pa.table(empty)]))


def _as_weights(kinds: Mapping[str, float] | Sequence[str] | None) -> dict[str, float] | None:
    if kinds is None:
        return None
    from collections.abc import Mapping as MappingType

    if isinstance(kinds, MappingType):
        return {str(name): float(weight) for name, weight in kinds.items()}
    return dict.fromkeys([kinds] if isinstance(kinds, str) else kinds, 1.0)
