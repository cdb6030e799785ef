"""NC and NH of tables where they are, by DuckDB: files, data frames and databases, beyond memory.

The statement is that of :func:`write_statement`, but its steps are run one by one, so that one of
them at a time needs memory, and what exceeds the limit goes to a temporary folder.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from ncgnn._io import as_path, atomic_write
from ncgnn._version import __version__
from ncgnn.data import choose_ends, import_duckdb, shorten
from ncgnn.errors import DataNotFoundError, InputError
from ncgnn.graph import whole_number
from ncgnn.metrics.sql.sources import DUCKDB, find_source
from ncgnn.metrics.sql.statements import (
    GraphTables,
    Question,
    Steps,
    among_kinds,
    check_tables,
    label_or_null,
    summarize,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from pathlib import Path

    from ncgnn.data import Direction, Unknown
    from ncgnn.metrics.sql.sources import Source
    from ncgnn.metrics.sql.statements import Step

#: Number of the format of written tables; Parquet files hold it in their metadata.
FORMAT = 1
#: What a written table's name may end in, with DuckDB's options.
ENDINGS = {
    ".csv": "FORMAT csv, HEADER",
    ".tsv": "FORMAT csv, HEADER, DELIMITER '\t'",
    ".parquet": "FORMAT parquet",
}
_MEMORY = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B", re.IGNORECASE)
_ADVICE = re.compile(r"\s*(Possible (fixes|solution)|For more info)", re.IGNORECASE)
# More different labels than this share of the labeled rows are no classes, as at an import.
_MOST_CLASSES = 0.5
# Paths of two steps that are counted at once, and bytes of memory for each before it is merged.
_MOST_PATHS, _PATH, _TEXT_PATH = 50_000_000, 40, 80


@dataclass(frozen=True, repr=False, eq=False)
class SqlAnalysis:
    """What SQL says about two tables.

    Attributes:
        nodes: Number of nodes.
        edges: Number of different edges between different nodes.
        classes: Number of classes.
        unlabeled: Number of nodes without a label.
        isolated: Number of nodes without neighbors.
        direction: Which way edges were followed.
        hops: The hop counts of NC.
        threshold: The threshold between low and high NC.
        means: Means of ``nh_open``, ``nh_closed`` and, for each hop count k, ``nc_k``; None where
            it is defined for no node.
        high_share: For each hop count, the share of nodes with high NC.
        table: An Arrow table with a row per node by id: ``id``, ``label``, ``degree`` and the
            metrics, null where undefined; None where it was not asked for.
    """

    nodes: int
    edges: int
    classes: int
    unlabeled: int
    isolated: int
    direction: Direction
    hops: tuple[int, ...]
    threshold: float
    means: dict[str, float | None]
    high_share: dict[int, float]
    table: Any = None

    def __repr__(self) -> str:
        means = ", ".join(
            f"{key}={'nan' if value is None else format(value, '.3f')}"
            for key, value in self.means.items()
        )
        return f"SqlAnalysis({self.nodes:,} nodes, {self.edges:,} edges, {means})"

    def to_json(self) -> dict[str, Any]:
        """The summary as plain values, by the names of :meth:`ncgnn.metrics.Analysis.to_json`."""
        return {
            "nodes": self.nodes,
            "edges": self.edges,
            "directed": self.direction != "both",
            "classes": self.classes,
            "unlabeled": self.unlabeled,
            "isolated": self.isolated,
            "means": self.means,
            "threshold": self.threshold,
            "high_share": {f"nc_{hops}": share for hops, share in self.high_share.items()},
        }


def confusion_by_sql(
    nodes: Any,
    edges: Any,
    *,
    label: str,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    kind: str | None = None,
    kinds: Iterable[str] | None = None,
    direction: Direction = "both",
    unknown: Unknown = "error",
    unlabeled: Iterable[str] = (),
    hops: int | Sequence[int] = 1,
    num_classes: int | None = None,
    threshold: float = 0.5,
    database: Any = None,
    encoding: str = "utf-8",
    memory: str | None = None,
    temp: Path | str | None = None,
    threads: int | None = None,
    rows: bool = True,
    out: Path | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> SqlAnalysis:
    """Measure NC and NH of tables where they are, by DuckDB.

    Args:
        nodes: One row per node: the path of a Parquet, CSV, TSV, JSON or Arrow file, several like
            ``part-*.parquet``, an address (``s3://…``), a SQL query, a data frame, an Arrow table
            or dataset; with ``database``, also the name of a table.
        edges: One row per edge, likewise.
        label: Column of the nodes with the class; empty = unlabeled.
        id: Column of the nodes with a different value in every row; by default ``id``, or the
            first column.
        source: Column of the edges with the id that an edge starts from; by default the one called
            so, or the first.
        target: Column of the edges with the id that it points to, likewise.
        kind: Column of the edges with their kind.
        kinds: Kinds that count; by default all.
        direction: ``"both"``, ``"forward"`` or ``"backward"``; see :func:`ncgnn.read_tables`.
        unknown: Ends of edges that are no node are an ``"error"``, or the edge is ``"drop"``-ped,
            or the node ``"add"``-ed without a label.
        unlabeled: Texts that mean no label, like ``"-1"``.
        hops: The hop count k of NC, or several. More than one hop means a row for every path of
            two steps, which a node with many neighbors has in millions; the nodes are then counted
            part by part.
        num_classes: Number of classes; by default as many as there are different labels.
        threshold: NC above it is high.
        database: A database with the tables: the path of a DuckDB file, or whatever else DuckDB
            attaches, like ``postgres:dbname=shop``; or an open DuckDB connection.
        encoding: Of text files.
        memory: The most memory that DuckDB uses, like ``"2GB"``; by default 80 % of the machine's.
        temp: Folder for what exceeds it; by default the system's.
        threads: How many threads; by default as many as there are cores.
        rows: Whether the result holds a table with a row per node.
        out: A .csv, .tsv or .parquet file to write that table to, without holding it in memory.
        progress: Is told what is being done.

    Raises:
        InputError: It names the table and the column.

    Example:
        >>> from ncgnn.metrics import sql
        >>> people = {"id": ["ann", "bo", "cy"], "team": ["x", "y", "y"]}
        >>> knows = {"source": ["ann", "cy"], "target": ["bo", "bo"]}
        >>> sql.confusion_by_sql(people, knows, label="team").table["nc_1"].to_pylist()
        [1.0, 0.5849625007211562, 0.0]
    """
    question = Question.of(hops, direction, unknown, num_classes, threshold)
    out = None if out is None else _check_ending(as_path(out))
    tell = progress or _tell_nobody
    with _Session(database, memory, temp, threads) as session:
        tell("reading the nodes")
        session.read_nodes(nodes, id, label, unlabeled, encoding)
        tell("reading the edges")
        session.read_edges(edges, source, target, kind, kinds, encoding)
        tell("checking the tables")
        session.check(question)
        session.count(session.number_nodes(question), tell)
        tell("summing up")
        analysis = session.summarize(question, rows)
        if out is not None:
            tell(f"writing {out.name}")
            session.write(out)
    return analysis


def _tell_nobody(text: str) -> None:
    pass


def _check_ending(path: Path) -> Path:
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"out must end in {', '.join(ENDINGS)}; got {path}.")
    return path


class _AllSteps(NamedTuple):
    """The steps of a statement, and its last query."""

    steps: list[Step]
    last: str


class _Session:
    """A connection with two tables, ``nodes`` (id, label) and ``edges`` (source, target, kind)."""

    def __init__(
        self, database: Any, memory: str | None, temp: Path | str | None, threads: int | None
    ) -> None:
        self._duckdb = import_duckdb("SQL is run by DuckDB")
        self._mark = f"ncgnn_{uuid4().hex[:8]}_"
        self._stack = ExitStack()
        self._made: dict[str, str] = {}
        self._given = hasattr(database, "execute")
        self._database = database
        self._settings = _read_settings(memory, threads)
        self._temp = temp
        if self._given and (memory, temp, threads) != (None, None, None):
            raise InputError(
                "memory, temp and threads must not be given with an open connection; set "
                "memory_limit, temp_directory and threads there."
            )
        self.connection: Any = None
        self._id = self._ends = ("", "")
        self._where = {"nodes": "", "edges": ""}
        self._kinds: tuple[str, ...] | None = None
        self._tables = GraphTables(DUCKDB, f"{self._mark}nodes", f"{self._mark}edges")
        self._names: str | None = None
        self._texts, self._classes = False, 0
        self._result = f"{self._mark}result"

    def __enter__(self) -> _Session:
        with ExitStack() as stack:
            if self._given:
                self.connection = self._database
                stack.callback(self._drop_all)
            else:
                self._connect(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _connect(self, stack: ExitStack) -> None:
        folder = None if self._temp is None else as_path(self._temp)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="ncgnn-", dir=folder))
        self.connection = stack.enter_context(self._duckdb.connect())
        settings = self._settings | {"temp_directory": place, "preserve_insertion_order": "false"}
        for name, value in settings.items():
            self._run(f"SET {name} = {DUCKDB.literal(value)}")
        if self._database is not None:
            self._attach(str(self._database))

    def _attach(self, database: str) -> None:
        place = database
        if not _is_address(database):
            path = as_path(database)
            if not path.is_file():
                raise DataNotFoundError(f"there is no file {path}; give the path of a database.")
            place = str(path)
        name = f"{self._mark}database"
        self._run(f"ATTACH {DUCKDB.literal(place)} AS {name} (READ_ONLY)", f"{place}: ")
        self._run(f"USE {name}")

    @contextmanager
    def _errors_told(self, where: str = "") -> Generator[None]:
        """DuckDB's errors as one sentence each."""
        try:
            yield
        except self._duckdb.OutOfMemoryException as error:
            raise InputError(
                f"the memory does not suffice ({shorten(str(error).splitlines()[0], 160)}); raise "
                "--memory, lower --threads, or name a --temp folder with more room."
            ) from None
        except self._duckdb.Error as error:
            said = _ADVICE.split(str(error))[0]  # advice on DuckDB's own options is left out
            raise InputError(f"{where}{shorten(said, 300)}") from None

    def _run(self, statement: str, where: str = "") -> Any:
        with self._errors_told(where):
            return self.connection.execute(statement)

    def _row(self, query: str) -> dict[str, Any]:
        found = self._run(query)
        names = [column[0] for column in found.description]
        return dict(zip(names, found.fetchall()[0], strict=True))

    def _first_five(self, query: str) -> str:
        found = self._run(f"SELECT DISTINCT x FROM ({query}) AS a ORDER BY x LIMIT 5").fetchall()
        return ", ".join(shorten(str(row[0]), 60) for row in found)

    def _make(self, name: str, query: str, where: str = "", *, view: bool = False) -> None:
        kind = "VIEW" if view else "TABLE"
        self._run(f"CREATE TEMP {kind} {name} AS {query}", where)
        self._made[name] = kind

    def _drop(self, name: str) -> None:
        self._run(f"DROP {self._made.pop(name)} {name}")

    def _drop_all(self) -> None:
        for name in [*self._made][::-1]:
            self._drop(name)
        for what in ("nodes", "edges"):
            self.connection.unregister(f"{self._mark}given_{what}")

    def read_nodes(
        self, nodes: Any, id: str | None, label: str, unlabeled: Iterable[str], encoding: str
    ) -> None:
        """Make the table of nodes: ids, and labels that are NULL where they are missing."""
        item = self._find(nodes, "nodes", encoding)
        where, names = item.names.where, item.names
        key = id or ("id" if "id" in names.columns else names.columns[0])
        for column, option in ((key, "id"), (label, "label")):
            names.column(column, option)
        texts = item.holds_texts(key)
        found, classes = item.ids("n", key, texts=texts), item.labels("n", label)
        classes = label_or_null(DUCKDB, classes, unlabeled)
        query = f"SELECT {found} AS id, {classes} AS label FROM {item.text} AS n"
        self._make(self._tables.nodes, query, f"{where}: ")
        self._id, self._texts, self._where["nodes"] = (key, label), texts, where

    def read_edges(
        self,
        edges: Any,
        source: str | None,
        target: str | None,
        kind: str | None,
        kinds: Iterable[str] | None,
        encoding: str,
    ) -> None:
        """Make the table of edges, or a view where it is at hand."""
        item = self._find(edges, "edges", encoding)
        where = item.names.where
        for column, option in ((source, "source"), (target, "target"), (kind, "kind")):
            if column is not None:
                item.names.column(column, option)
        self._ends, self._where["edges"] = choose_ends(item.names, source, target), where
        columns = [
            f"{item.ids('e', name, texts=self._texts)} AS {end}"
            for name, end in zip(self._ends, ("source", "target"), strict=True)
        ]
        if kinds is not None:
            self._kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
            among_kinds(DUCKDB, kind, self._kinds)
            columns.append(f"CAST(e.{DUCKDB.exact(str(kind))} AS VARCHAR) AS kind")
            self._tables = replace(self._tables, counts=among_kinds(DUCKDB, "kind", self._kinds))
        query = f"SELECT {', '.join(columns)} FROM {item.text} AS e"
        self._make(self._tables.edges, query, f"{where}: ", view=item.at_hand)

    def _find(self, source: Any, what: str, encoding: str) -> Source:
        with self._errors_told(f"the {what}: "):
            return find_source(
                source,
                what,
                self.connection,
                f"{self._mark}given_{what}",
                encoding=encoding,
                tables=self._database is not None,
                # Of another kind of database every reading is a copy over the network.
                at_hand=self._given
                or (self._database is not None and not _is_address(str(self._database))),
            )

    def check(self, question: Question) -> None:
        """Refuse tables that an import would refuse, too."""
        ends = question.unknown == "error"
        counts = self._row(check_tables(self._tables, ends=ends))
        nodes, (id, label), least = self._where["nodes"], self._id, question.num_classes
        if not counts["nodes"]:
            raise InputError(f"{nodes}: it has no rows; give a table with at least one.")
        if counts["missing_ids"]:
            raise InputError(
                f"{nodes}: column {id} has no id in {counts['missing_ids']:,} rows; fill them in, "
                "or remove the rows."
            )
        if counts["repeated_ids"]:
            query = f"SELECT id AS x FROM {self._tables.nodes} GROUP BY id HAVING COUNT(*) > 1"
            raise InputError(
                f"{nodes}: column {id} has some ids more than once: {self._first_five(query)}; "
                "every node needs an id of its own."
            )
        labeled, classes = counts["labeled"], counts["classes"]
        if not labeled:
            raise InputError(f"{nodes}: column {label} (label) is empty; give some labels.")
        if classes > max(100, _MOST_CLASSES * labeled):
            raise InputError(
                f"{nodes}: column {label} (label) has {classes:,} different values in "
                f"{labeled:,} rows, which are no classes; name another column."
            )
        if least is not None and least < classes:
            raise InputError(
                f"num_classes must be at least {classes}, as many as there are labels; got {least}."
            )
        self._check_edges(counts)

    def _check_edges(self, counts: dict[str, Any]) -> None:
        where, (source, target), edges = self._where["edges"], self._ends, self._tables.edges
        if counts["missing_ends"]:
            raise InputError(
                f"{where}: columns {source} and {target} have no id in "
                f"{counts['missing_ends']:,} rows; fill them in, or remove the rows."
            )
        if counts.get("unknown_ends"):
            ends = f"SELECT source AS x FROM {edges} UNION ALL SELECT target FROM {edges}"
            query = f"SELECT x FROM ({ends}) AS a ANTI JOIN {self._tables.nodes} AS n ON n.id = a.x"
            raise InputError(
                f"{where}: columns {source} and {target} name nodes that the nodes do not have: "
                f"{self._first_five(query)}; add their rows, or say what to do with such edges "
                "(--unknown drop or add)."
            )
        if self._kinds is None:
            return
        found = self._run(f"SELECT DISTINCT kind FROM {edges} ORDER BY kind").fetchall()
        there = [str(row[0]) for row in found if row[0] is not None]
        for kind in self._kinds:
            if kind not in there:
                raise InputError(
                    f"{where}: no edge is of kind '{kind}'; there are "
                    f"{shorten(', '.join(there), 200)}."
                )

    def number_nodes(self, question: Question) -> Question:
        """Number nodes whose ids are texts, which are slow to compare, and their labels.

        Returns:
            What is asked of the numbered tables, which have no unknown ends any more.
        """
        if not self._texts:
            return question
        before, self._names = self._tables, f"{self._mark}names"
        known = replace(question, unknown="add" if question.unknown == "add" else "error")
        nodes = Steps(before, known)
        nodes.begin()
        self._make(
            self._names,
            "SELECT row_number() OVER () AS node, k.node AS id, k.label, CASE WHEN label IS NULL "
            f"THEN NULL ELSE dense_rank() OVER (ORDER BY label) END AS class FROM "
            f"({nodes.steps[-1].query}) AS k",
        )
        kind = "" if self._kinds is None else ", e.kind"
        self._make(
            f"{self._mark}numbered",
            f"SELECT s.node AS source, t.node AS target{kind} FROM {before.edges} AS e "
            f"JOIN {self._names} AS s ON s.id = e.source "
            f"JOIN {self._names} AS t ON t.id = e.target",
        )
        self._tables = replace(
            before,
            nodes=self._names,
            edges=f"{self._mark}numbered",
            id="n.node",
            label="n.class",
        )
        self._drop_like("edges", "nodes")
        return replace(question, unknown="error")

    def count(self, question: Question, tell: Callable[[str], None]) -> None:
        """Make the table of results, step by step; what is not needed any more is dropped."""
        steps = self._steps(question)
        for step in steps.steps:
            if step.hops <= 1:
                tell(f"counting: {step.remark}")
                self._make(step.name, step.query, view=step.light)
        self._drop_like("votes_")
        if max(question.hops) > 1:
            self._count_paths(question, tell)
        self._drop_like("pairs", "links")
        self._classes = self._row(f"SELECT classes FROM {self._mark}classes")["classes"]
        last = steps.last
        if self._names is not None:
            named = f"r.* EXCLUDE (id, label) FROM ({last}) AS r JOIN {self._names} AS n"
            last = f"SELECT n.id, n.label, {named} ON n.node = r.id"
        self._make(self._result, last)

    def _count_paths(self, question: Question, tell: Callable[[str], None]) -> None:
        """Count what is more than a step away, for some of the nodes at a time.

        The pairs of nodes that are two steps apart may be thousands of times the edges.
        """
        parts = self._count_parts(max(question.hops))
        for place in range(parts):
            part = f"hash(node) % {parts} = {place}" if parts > 1 else None
            steps = self._steps(question, part)
            for step in [step for step in steps.steps if step.hops > 1]:
                tell(f"counting: {step.remark}, part {place + 1} of {parts}")
                if step.name in self._made:
                    self._run(f"INSERT INTO {step.name} {step.query}")
                else:
                    self._make(step.name, step.query)
            self._drop_like("within_", "votes_")

    def _count_parts(self, hops: int) -> int:
        """How many parts of the nodes have so few paths that memory suffices for each."""
        pairs = f"{self._mark}pairs"
        found = self._row(
            f"SELECT SUM(p.paths * d.degree) AS paths FROM (SELECT other, COUNT(*) AS paths "
            f"FROM {pairs} GROUP BY other) AS p JOIN (SELECT node, COUNT(*) AS degree "
            f"FROM {pairs} GROUP BY node) AS d ON d.node = p.other"
        )
        count = float(found["paths"] or 0)
        nodes = float(self._row(f"SELECT COUNT(*) AS n FROM {self._tables.nodes}")["n"])
        # Longer paths reach everybody at worst.
        count = count if hops == 2 else max(count, nodes * nodes)
        limit = self._row("SELECT current_setting('memory_limit') AS m")["m"]
        most = min(_MOST_PATHS, _read_bytes(limit) / (_TEXT_PATH if self._texts else _PATH))
        return max(1, math.ceil(count / most))

    def _steps(self, question: Question, part: str | None = None) -> _AllSteps:
        steps = Steps(self._tables, question, self._mark, part)
        steps.begin()
        return _AllSteps(steps.steps, steps.select(steps.everything()))

    def _drop_like(self, *names: str) -> None:
        for made in [*self._made]:
            if made.startswith(tuple(self._mark + name for name in names)):
                self._drop(made)

    def summarize(self, question: Question, rows: bool) -> SqlAnalysis:
        """Counts and means of the results."""
        found = self._row(summarize(self._result, DUCKDB, question, str(self._classes)))
        means = {name: found[name] for name in found if name.startswith(("nh_", "nc_"))}
        table: Any = None
        if rows:
            with self._errors_told():
                query = f"SELECT * FROM {self._result} ORDER BY id"
                table = self.connection.sql(query).to_arrow_table()
        return SqlAnalysis(
            *(int(found[key]) for key in ("nodes", "edges", "classes", "unlabeled", "isolated")),
            direction=question.direction,
            hops=question.hops,
            threshold=question.threshold,
            means=means,
            high_share={k: found[f"high_{k}"] for k in question.hops},
            table=table,
        )

    def write(self, path: Path) -> None:
        """Write the results by id, whole or not at all."""
        options = ENDINGS[path.suffix.lower()]
        if "parquet" in options:
            about = json.dumps({"format": FORMAT, "ncgnn": __version__})
            options += f", KV_METADATA {{ncgnn: {DUCKDB.literal(about)}}}"
        with atomic_write(path) as stream:
            place = "'" + stream.name.replace("'", "''") + "'"
            # Into the very file that is there, whose bytes are then flushed to the disk.
            self._run(
                f"COPY (SELECT * FROM {self._result} ORDER BY id) TO {place} "
                f"({options}, USE_TMP_FILE false)"
            )


def _is_address(database: str) -> bool:
    """Whether it names a kind of database, like ``postgres:``, and not a file."""
    return re.match(r"[a-z]\w+:", database) is not None


def _read_settings(memory: str | None, threads: int | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    if memory is not None:
        if not _MEMORY.fullmatch(memory.strip()):
            raise InputError(f"memory must be an amount like 2GB or 500MB; got {memory!r}.")
        settings["memory_limit"] = memory.strip()
    if threads is not None:
        settings["threads"] = str(whole_number(threads, "threads", 1, 4096))
    return settings


def _read_bytes(amount: str) -> float:
    """An amount as DuckDB prints it, such as 1.8 GiB."""
    number, unit = amount.split()
    return float(number) * 1024.0 ** ("bkmgt".index(unit[0].lower()))
