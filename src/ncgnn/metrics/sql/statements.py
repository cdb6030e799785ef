"""Neighborhood Confusion and Node Homophily as SQL on a table of nodes and a table of edges.

The conventions are those of :func:`ncgnn.neighborhood_confusion` and :func:`ncgnn.node_homophily`:
repeated edges count once and self-loops not at all, unlabeled nodes (NULL) are left out of all
counts but have an NC of their own, and what is undefined is NULL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from ncgnn.errors import InputError, UnknownNameError
from ncgnn.graph import whole_number
from ncgnn.metrics.confusion import TIE, check_threshold
from ncgnn.metrics.sql.dialects import find_dialect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.data import Direction, Unknown
    from ncgnn.metrics.sql.dialects import Dialect

What = Literal["nc", "nh", "nodes", "summary", "check"]
#: What a statement may ask for.
WHATS: tuple[What, ...] = get_args(What)
_GIVEN = "as given"


def write_statement(
    what: What = "nc",
    nodes: str = "nodes",
    edges: str = "edges",
    *,
    dialect: str = "duckdb",
    id: str = "id",
    label: str = "label",
    source: str = "source",
    target: str = "target",
    kind: str | None = None,
    kinds: Iterable[str] | None = None,
    direction: Direction = "both",
    unknown: Unknown = "drop",
    unlabeled: Iterable[str] = (),
    hops: int | Sequence[int] = 1,
    num_classes: int | None = None,
    threshold: float = 0.5,
) -> str:
    """Write the statement that computes a metric in a database.

    Args:
        what: ``"nc"``: a row (id, nc_1) per node; ``"nh"``: (id, nh_open, nh_closed);
            ``"nodes"``: all of these with label and degree; ``"summary"``: one row of counts and
            means; ``"check"``: one row of counts of what is wrong with the tables, zero each.
        nodes: Table with a row per node, like ``schema.table``, or a query. Plain names are
            written as they are; others, and reserved words, are quoted. Put quotes around a name
            to have its capitals kept. In DuckDB it may be a file.
        edges: Table with a row per edge, likewise.
        dialect: ``duckdb``, ``postgres``, ``spark``, ``bigquery`` or ``snowflake``.
        id: Column of the nodes with a different value in every row.
        label: Column of the nodes with the class; NULL = unlabeled.
        source: Column of the edges with the id that an edge starts from.
        target: Column of the edges with the id that it points to.
        kind: Column of the edges with their kind.
        kinds: Kinds that count; by default all.
        direction: Whether a node hears from ``"both"`` ends of an edge, or from the source
            (``"forward"``) or the target (``"backward"``) only.
        unknown: Whether edges to ids that are no node are left out (``"drop"``), or the ids are
            nodes without a label (``"add"``). A statement cannot refuse them: ``"check"`` counts.
        unlabeled: Texts that mean no label, like ``"-1"``.
        hops: The hop count k, or several.
        num_classes: Number of classes; by default as many as there are different labels.
        threshold: NC above it is high, in a summary.

    Example:
        >>> from ncgnn.metrics import sql
        >>> print(sql.write_statement("nc", "shop.people", "shop.knows", dialect="postgres"))
        WITH
        -- the nodes; NULL = unlabeled
        known AS (
          SELECT n.id AS node, n.label AS label FROM shop.people AS n
        ),
        ...
    """
    if unknown == "error":
        raise InputError(
            "unknown must be drop or add in a statement, which cannot refuse edges; got 'error'; "
            "the statement 'check' counts edges to ids that are no node."
        )
    names = find_dialect(dialect)
    tables = GraphTables(
        names,
        names.table(nodes, "nodes"),
        names.table(edges, "edges"),
        f"n.{names.column(id, 'id')}",
        label_or_null(names, f"n.{names.column(label, 'label')}", unlabeled),
        f"e.{names.column(source, 'source')}",
        f"e.{names.column(target, 'target')}",
        among_kinds(names, kind, kinds),
    )
    return (
        build(what, tables, Question.of(hops, direction, unknown, num_classes, threshold)) + ";\n"
    )


def label_or_null(names: Dialect, column: str, unlabeled: Iterable[str]) -> str:
    """A label, NULL where it is one of the texts that mean none."""
    missing = _listed(names, unlabeled)
    if not missing:
        return column
    return f"CASE WHEN CAST({column} AS {names.text}) IN ({missing}) THEN NULL ELSE {column} END"


def among_kinds(names: Dialect, kind: str | None, kinds: Iterable[str] | None) -> str | None:
    """The condition that an edge counts; None if all do."""
    if kinds is None:
        return None
    if kind is None:
        raise InputError("kinds need the column of the edges with the kind; name it (--kind).")
    listed = _listed(names, kinds)
    if not listed:
        raise InputError("kinds must name at least one kind; got none.")
    return f"CAST(e.{names.column(kind, 'kind')} AS {names.text}) IN ({listed})"


def _listed(names: Dialect, texts: Iterable[str]) -> str:
    several = [texts] if isinstance(texts, str) else texts
    return ", ".join(names.literal(text) for text in several)


@dataclass(frozen=True)
class GraphTables:
    """Two tables in the words of a dialect.

    Attributes:
        dialect: The dialect.
        nodes: What stands after FROM for the nodes, which are called n.
        edges: The same for the edges, which are called e.
        id: What the id of a node is.
        label: What its label is.
        source: What an edge starts from.
        target: What it points to.
        counts: Condition that an edge counts; None if all do.
    """

    dialect: Dialect
    nodes: str
    edges: str
    id: str = "n.id"
    label: str = "n.label"
    source: str = "e.source"
    target: str = "e.target"
    counts: str | None = None


@dataclass(frozen=True)
class Question:
    """What is asked of two tables; see :func:`write_statement`.

    ``unknown = "error"`` says that there are no edges to ids that are no node.
    """

    hops: tuple[int, ...]
    direction: Direction = "both"
    unknown: Unknown = "drop"
    num_classes: int | None = None
    threshold: float = 0.5

    @classmethod
    def of(
        cls,
        hops: int | Sequence[int],
        direction: Direction,
        unknown: Unknown,
        num_classes: int | None,
        threshold: float,
    ) -> Question:
        """The same, checked."""
        several = (hops,) if isinstance(hops, int) else tuple(hops)
        counts = tuple(dict.fromkeys(whole_number(k, "hops", 1, 99) for k in several))
        if not counts:
            raise InputError("hops must name at least one hop count; got none.")
        if direction not in ("both", "forward", "backward"):
            raise InputError(f"direction must be both, forward or backward; got {direction!r}.")
        if unknown not in ("error", "drop", "add"):
            raise InputError(f"unknown must be error, drop or add; got {unknown!r}.")
        if num_classes is not None:
            num_classes = whole_number(num_classes, "num_classes", 1, 1 << 24)
        check_threshold(threshold)
        return cls(counts, direction, unknown, num_classes, threshold)


def build(what: What, tables: GraphTables, question: Question) -> str:
    """The statement, without a semicolon."""
    if what not in WHATS:
        raise UnknownNameError("statement", what, [*WHATS])
    steps = Steps(tables, question)
    if what == "check":
        return steps.close(check_tables(steps.tables))
    steps.begin()
    if what == "nc":
        return steps.close(steps.select([steps.confusion(k) for k in question.hops]))
    if what == "nh":
        return steps.close(steps.select([one for k in question.hops for one in steps.homophily(k)]))
    everything = steps.select(steps.everything())
    if what == "nodes":
        return steps.close(everything)
    per_node = steps.add("per_node", "one row per node", everything)
    return steps.close(summarize(per_node, tables.dialect, question, steps.num_classes()))


def summarize(per_node: str, dialect: Dialect, question: Question, num_classes: str) -> str:
    """Counts and means of a table with a row per node, as one row."""
    one, zero = f"CAST(1 AS {dialect.double})", f"CAST(0 AS {dialect.double})"
    both = " / 2" if question.direction == "both" else ""
    columns = [
        "COUNT(*) AS nodes",
        f"CAST(SUM(degree){both} AS {dialect.whole}) AS edges",
        f"{num_classes} AS classes",
        "COUNT(*) - COUNT(label) AS unlabeled",
        "SUM(CASE WHEN degree = 0 THEN 1 ELSE 0 END) AS isolated",
        "AVG(nh_open) AS nh_open",
        "AVG(nh_closed) AS nh_closed",
        *(f"AVG(nc_{k}) AS nc_{k}" for k in question.hops),
        *(
            f"AVG(CASE WHEN nc_{k} > {question.threshold + TIE!r} THEN {one} ELSE {zero} END) "
            f"AS high_{k}"
            for k in question.hops
        ),
    ]
    return f"SELECT\n  {_lines(columns)}\nFROM {per_node}"


def check_tables(tables: GraphTables, *, ends: bool = True) -> str:
    """One row of counts: rows and classes, and what is wrong with ids and ends.

    Looking up all ends of edges takes longest, and can be left out.
    """
    nodes, edges = f"{tables.nodes} AS n", f"{tables.edges} AS e"
    source, target = tables.source, tables.target
    ids = f"(SELECT DISTINCT {tables.id} AS node FROM {nodes})"
    columns = [
        f"(SELECT COUNT(*) FROM {nodes}) AS nodes",
        f"(SELECT COUNT({tables.label}) FROM {nodes}) AS labeled",
        f"(SELECT COUNT(DISTINCT {tables.label}) FROM {nodes}) AS classes",
        f"(SELECT COUNT(*) FROM {nodes} WHERE {tables.id} IS NULL) AS missing_ids",
        f"(SELECT COUNT({tables.id}) - COUNT(DISTINCT {tables.id}) FROM {nodes}) AS repeated_ids",
        f"(SELECT COUNT(*) FROM {edges}) AS edges",
        f"(SELECT COUNT(*) FROM {edges} WHERE {source} IS NULL OR {target} IS NULL) "
        "AS missing_ends",
    ]
    if ends:
        columns.append(
            f"(\n    SELECT COUNT(*) FROM {edges}\n"
            f"    LEFT JOIN {ids} AS s ON s.node = {source}\n"
            f"    LEFT JOIN {ids} AS t ON t.node = {target}\n"
            f"    WHERE {source} IS NOT NULL AND {target} IS NOT NULL\n"
            "      AND (s.node IS NULL OR t.node IS NULL)\n  ) AS unknown_ends"
        )
    return f"SELECT\n  {_lines(columns)}"


@dataclass(frozen=True)
class Step:
    """A named query of a statement.

    Attributes:
        name: What later steps call it.
        remark: What it holds, in words.
        query: The query.
        hops: Up to how many steps of a path it looks, zero for none.
        light: Whether it costs nothing to run it again.
    """

    name: str
    remark: str
    query: str
    hops: int = 0
    light: bool = False

    def __str__(self) -> str:
        # What was given stays as it is: it may hold texts of several lines.
        inner = self.query if self.remark == _GIVEN else _indent(self.query)
        return f"-- {self.remark}\n{self.name} AS (\n{inner}\n)"


class Steps:
    """The steps of a statement, each a named query on the ones before it.

    Args:
        tables: The tables.
        question: What is asked.
        prefix: What the name of every step begins with.
        part: For paths of two steps and more: a condition on ``node``, the node that is counted
            for; by default all are.

    Attributes:
        steps: The steps.
        tables: The tables; where they are queries, the steps with them.
        nodes: The step with the nodes.
        tallies: The step with the counts of each number of hops.
    """

    def __init__(
        self,
        tables: GraphTables,
        question: Question,
        prefix: str = "",
        part: str | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.tallies: dict[int, str] = {}
        self._question, self._prefix, self._part = question, prefix, part
        # Words of the tables, so that no step is called like one of them.
        self._taken = {*re.findall(r"\w+", f"{tables.nodes} {tables.edges}".lower())}
        self.tables = replace(
            tables,
            nodes=self._name_query("given_nodes", tables.nodes),
            edges=self._name_query("given_edges", tables.edges),
        )
        self.nodes = ""
        self._within: list[str] = []
        self._classes: str | None = None
        # Degrees and homophily come from the same counts as NC where all of it is asked for.
        self._whole = self._own = False

    def begin(self) -> None:
        """Add the first step: the nodes."""
        self.nodes = self.add("known", "the nodes; NULL = unlabeled", self._known())

    def add(self, name: str, remark: str, query: str, hops: int = 0, *, light: bool = False) -> str:
        """Add a step; returns what it is called."""
        name = self._prefix + name
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self.steps.append(Step(name, remark, query, hops, light))
        return name

    def _name_query(self, name: str, item: str) -> str:
        """A step for a query in place of a table, which is then written once."""
        return self.add(name, _GIVEN, item[2:-2]) if item.startswith("(\n") else item

    def everything(self) -> list[str]:
        """The columns of a table of nodes: label, degree, NH of one hop, NC of all hops."""
        self._whole = self._own = True
        degree = f"CAST({self._tally(1)}.degree AS {self.tables.dialect.whole}) AS degree"
        confusion = [self.confusion(k) for k in self._question.hops]
        return ["k.label AS label", degree, *self.homophily(1), *confusion]

    def confusion(self, hops: int) -> str:
        """The column nc_k."""
        self.num_classes()
        counts, double = self._tally(hops), self.tables.dialect.double
        share = f"CAST({counts}.members AS {double}) / {counts}.most"
        scale = f"LN(CAST(c.classes AS {double}))"
        return (
            f"CASE WHEN {counts}.members IS NULL THEN NULL WHEN c.classes < 2 THEN 0\n"
            f"    ELSE LN({share}) / {scale} END AS nc_{hops}"
        )

    def homophily(self, hops: int) -> list[str]:
        """The columns nh_open and nh_closed; of more than one hop with their number."""
        self._own = True
        counts, double = self._tally(hops), self.tables.dialect.double
        same, end = f"{counts}.same", "" if hops == 1 else f"_{hops}"
        return [
            f"CAST({same} - 1 AS {double}) / NULLIF({counts}.members - 1, 0) AS nh_open{end}",
            f"CAST({same} AS {double}) / {counts}.members AS nh_closed{end}",
        ]

    def num_classes(self) -> str:
        """The number of classes, as a query in brackets."""
        if self._classes is None:
            given = self._question.num_classes
            counted = f"SELECT COUNT(DISTINCT label) AS classes FROM {self.nodes}"
            query = counted if given is None else f"SELECT {given} AS classes"
            self._classes = self.add("classes", "how many classes there are", query)
        return f"(SELECT classes FROM {self._classes})"

    def select(self, columns: Sequence[str]) -> str:
        """The query for columns of all nodes."""
        joins = [f"CROSS JOIN {self._classes} AS c"] if self._classes else []
        joins += [f"LEFT JOIN {one} ON {one}.node = k.node" for one in self.tallies.values()]
        listed = _lines(["k.node AS id", *columns])
        return "\n".join([f"SELECT\n  {listed}\nFROM {self.nodes} AS k", *joins])

    def close(self, query: str) -> str:
        """The whole statement, with a last query on its steps."""
        steps = ",\n".join(map(str, self.steps))
        return f"WITH\n{steps}\n{query}" if steps else query

    def _known(self) -> str:
        tables = self.tables
        known = f"SELECT {tables.id} AS node, {tables.label} AS label FROM {tables.nodes} AS n"
        if self._question.unknown != "add":
            return known
        ends = "\n  UNION ALL\n".join(
            f"  SELECT {end} AS node FROM {tables.edges} AS e"
            for end in (tables.source, tables.target)
        )
        return (
            # NULL, of the type that labels have.
            f"{known}\nUNION ALL\nSELECT a.node, {tables.label} AS label\n"
            f"FROM (SELECT DISTINCT node FROM (\n{ends}\n) AS ends) AS a\n"
            f"LEFT JOIN {tables.nodes} AS n ON {tables.id} = a.node\n"
            f"WHERE {tables.id} IS NULL AND a.node IS NOT NULL"
        )

    def _pairs(self) -> str:
        """Each node with those it hears from in one step."""
        tables, direction = self.tables, self._question.direction
        conditions = [f"{tables.source} <> {tables.target}"]
        conditions += [tables.counts] if tables.counts else []
        if self._question.unknown == "drop" and max(self._question.hops) > 1:
            # One hop looks up both ends anyway; a path must not pass an unknown node.
            for end in (tables.source, tables.target):
                conditions.append(f"{end} IN (SELECT node FROM {self.nodes})")
        edges = f"{tables.edges} AS e\nWHERE " + "\n  AND ".join(conditions)
        remark = "each node with its neighbors, every one once"
        if direction != "both":
            ends = (tables.target, tables.source)
            node, other = ends if direction == "forward" else ends[::-1]
            query = f"SELECT DISTINCT {node} AS node, {other} AS other\nFROM {edges}"
            return self.add("pairs", remark, query, 1)
        ends = f"{tables.source}, {tables.target}"
        query = f"SELECT DISTINCT LEAST({ends}) AS low, GREATEST({ends}) AS high\nFROM {edges}"
        links = self.add("links", "each edge once, whichever way it points", query, 1)
        query = (
            f"SELECT low AS node, high AS other FROM {links}\nUNION ALL\n"
            f"SELECT high AS node, low AS other FROM {links}"
        )
        return self.add("pairs", remark, query, 1, light=True)

    def _reached(self, hops: int) -> str:
        """Each node with all others within some steps."""
        if not self._within:
            self._within.append(self._pairs())
        pairs = self._within[0]
        while len(self._within) < hops:
            before, steps = self._within[-1], len(self._within) + 1
            part = f" WHERE {self._part}" if self._part and steps == 2 else ""
            ways = f"{before} AS b JOIN {pairs} AS p ON p.node = b.other"
            query = (
                f"SELECT DISTINCT node, other\nFROM (\n  SELECT node, other FROM {before}{part}\n"
                f"  UNION ALL\n  SELECT b.node, p.other FROM {ways}{_of(part, 'b')}\n"
                ") AS steps\nWHERE node <> other"
            )
            remark = f"the same within {steps} steps"
            self._within.append(self.add(f"within_{steps}", remark, query, steps))
        return self._within[hops - 1]

    def _tally(self, hops: int) -> str:
        """What the labels around each node, its own included, add up to."""
        if hops in self.tallies:
            return self.tallies[hops]
        degree = self._whole and hops == 1
        own = self._own and (hops == 1 or not self._whole)
        votes = self._votes(hops, unlabeled=degree)
        counted = "CASE WHEN v.label IS NOT NULL THEN v.votes END" if degree else "v.votes"
        columns = ["v.node", *(["SUM(v.votes) - 1 AS degree"] if degree else [])]
        columns += [f"SUM({counted}) AS members", f"MAX({counted}) AS most"]
        remark, join = "labeled nodes, and those of the commonest label", ""
        if own:
            remark += " and of the own"
            columns.append("SUM(CASE WHEN v.label = k.label THEN v.votes END) AS same")
            join = f"\nJOIN {self.nodes} AS k ON k.node = v.node"
        query = f"SELECT\n  {_lines(columns)}\nFROM {votes} AS v{join}\nGROUP BY v.node"
        self.tallies[hops] = self.add(f"tally_{hops}", remark, query, hops)
        return self.tallies[hops]

    def _votes(self, hops: int, *, unlabeled: bool) -> str:
        """How often each label, and maybe none, is around each node and at it."""
        others = f"{self._reached(hops)} AS r JOIN {self.nodes} AS k ON k.node = r.other"
        conditions = [] if unlabeled else ["label IS NOT NULL"]
        labeled = _of("".join(f"\n    WHERE {one}" for one in conditions), "k")
        if self._part and hops > 1:
            conditions.append(self._part)
        own = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        query = (
            "SELECT node, label, COUNT(*) AS votes\nFROM (\n"
            f"  SELECT r.node, k.label FROM {others}{labeled}\n"
            f"  UNION ALL\n  SELECT node, label FROM {self.nodes}{own}\n"
            ") AS ballots\nGROUP BY node, label"
        )
        return self.add(f"votes_{hops}", "how often each label is there", query, hops)


def _of(condition: str, table: str) -> str:
    """A condition with the table that its column is of."""
    return re.sub(r"\b(node|label)\b", rf"{table}.\1", condition)


def _lines(columns: Sequence[str]) -> str:
    return ",\n  ".join(columns)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
