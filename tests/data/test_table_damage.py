"""Damaged tables: a clear error or a correct graph, never a traceback and never a wrong graph.

What a correct graph is, is found out by another reader: Python's own csv module, line by line.
"""

import csv
import io
import warnings

import numpy as np
import pytest

from ncgnn.data import read_tables
from ncgnn.errors import NcgnnError

ROWS = 40
DAMAGES = 300


def good_tables(random):
    """Two tables as text, with quotes, commas inside quotes, empty fields and accents."""
    nodes, edges = io.StringIO(), io.StringIO()
    table = csv.writer(nodes, lineterminator="\n")
    table.writerow(["id", "class", "size", "color", "about"])
    for i in range(ROWS):
        about = f"item {i}, with a comma" if i % 3 else f'the "best" caf\xe9 no {i}'
        label = ["red", "blue", ""][int(random.integers(3))]
        size = "" if i % 11 == 0 else f"{random.normal():.3f}"
        table.writerow([f"n{i}", label, size, "abc"[i % 3], about])
    links = csv.writer(edges, lineterminator="\n")
    links.writerow(["from", "to", "how"])
    for i in range(2 * ROWS):
        source, target = random.integers(ROWS, size=2)
        links.writerow([f"n{source}", f"n{target}", "xy"[i % 2]])
    return nodes.getvalue(), edges.getvalue()


def lines_of(text):
    return text.splitlines(keepends=True)


def truncate(random, text):
    return text[: int(random.integers(len(text)))].encode()


def flip_byte(random, text):
    content = bytearray(text.encode())
    content[int(random.integers(len(content)))] = int(random.integers(256))
    return bytes(content)


def insert_quote(random, text):
    place = int(random.integers(len(text)))
    return f'{text[:place]}"{text[place:]}'.encode()


def drop_character(random, text):
    place = int(random.integers(len(text)))
    return (text[:place] + text[place + 1 :]).encode()


def shuffle_columns(random, text):
    rows = list(csv.reader(io.StringIO(text)))
    order = random.permutation(len(rows[0]))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[row[i] for i in order] for row in rows])
    return out.getvalue().encode()


def shuffle_rows(random, text):
    header, *rows = lines_of(text)
    return "".join([header, *random.permutation(np.array(rows, dtype=object))]).encode()


def repeat_row(random, text):
    rows = lines_of(text)
    rows.insert(int(random.integers(1, len(rows))), rows[int(random.integers(1, len(rows)))])
    return "".join(rows).encode()


def put_value(*values):
    def put(random, text):
        rows = list(csv.reader(io.StringIO(text)))
        row = rows[int(random.integers(1, len(rows)))]
        row[int(random.integers(len(row)))] = values[int(random.integers(len(values)))]
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        return out.getvalue().encode()

    return put


def encode(random, text):
    return text.encode(["utf-16", "latin-1", "utf-32", "utf-8-sig", "cp037"][random.integers(5)])


def end_lines(random, text):
    return text.replace("\n", ["\r\n", "\r", "\n\n"][random.integers(3)]).encode()


def drop_column(random, text):
    rows = list(csv.reader(io.StringIO(text)))
    place = int(random.integers(len(rows[0])))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([row[:place] + row[place + 1 :] for row in rows])
    return out.getvalue().encode()


def change_delimiter(random, text):
    rows = list(csv.reader(io.StringIO(text)))
    out = io.StringIO()
    mark = [";", "\t", "|"][random.integers(3)]
    csv.writer(out, delimiter=mark, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


DAMAGE = {
    "truncated": truncate,
    "byte flipped": flip_byte,
    "quote inserted": insert_quote,
    "character lost": drop_character,
    "columns shuffled": shuffle_columns,
    "rows shuffled": shuffle_rows,
    "row repeated": repeat_row,
    "not a number": put_value("NaN", "nan", "NA", "null", "-", ""),
    "huge number": put_value("1e308", "-1e308", "1e999", "inf", "9" * 400, "1e-320"),
    "odd text": put_value("\u202e", "a\nb", " n1 ", "=1+1", "\U0001f600", "x" * 70_000),
    "other encoding": encode,
    "other line ends": end_lines,
    "column lost": drop_column,
    "other delimiter": change_delimiter,
    "empty": lambda random, text: b"",
}
# Harmless on purpose: the graph must come out, and be the same up to the order of nodes.
HARMLESS = ("columns shuffled", "rows shuffled")


def plain_rows(content):
    """What Python's csv module reads, strictly; None if it cannot."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    if "\n" not in text:
        text = text.replace("\r", "\n")
    text = text.lstrip("\r\n")
    header = text.split("\n", 1)[0]
    bare = "".join(header.split('"')[::2])
    mark = max(",;\t", key=bare.count) if "," not in bare else ","
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True))
    except csv.Error:
        return None
    names = [name.strip() for name in rows[0]]
    return [dict(zip(names, row, strict=True)) for row in rows[1:] if row]


@pytest.mark.parametrize("part", range(10))
def test_damaged_tables_give_a_clear_error_or_the_right_graph(tmp_path, part):
    outcomes = {"error": 0, "graph": 0}
    for number in range(part, DAMAGES, 10):
        random = np.random.default_rng(number)
        nodes, edges = good_tables(random)
        name = list(DAMAGE)[number % len(DAMAGE)]
        contents = [nodes.encode(), edges.encode()]
        where = int(random.integers(2))
        contents[where] = DAMAGE[name](random, (nodes, edges)[where])
        paths = [tmp_path / f"{number}-nodes.csv", tmp_path / f"{number}-edges.csv"]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        outcomes[try_tables(name, paths, contents)] += 1
    assert outcomes["error"] > 0
    assert outcomes["graph"] > 0


def try_tables(name, paths, contents):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            graph = read_tables(*paths, id="id", label="class", source="from", target="to")
    except NcgnnError as error:
        message = str(error)
        assert name not in HARMLESS, message
        assert any(str(path) in message for path in paths), message
        assert len(message) < 600, message
        return "error"
    nodes, edges = map(plain_rows, contents)
    assert nodes is not None, f"{name}: a table that cannot be read gave a graph"
    assert edges is not None, f"{name}: a table that cannot be read gave a graph"
    assert graph.ids.tolist() == [row["id"] for row in nodes]
    labels = [row["class"].strip() for row in nodes]
    names = graph.class_names
    found = ["" if label < 0 else names[label] for label in graph.labels]
    assert found == ["" if label.lower() == "nan" else label for label in labels]
    places = {row["id"]: place for place, row in enumerate(nodes)}
    pairs = {(places[row["from"]], places[row["to"]]) for row in edges}
    expected = {pair for a, b in pairs if a != b for pair in ((a, b), (b, a))}
    assert set(map(tuple, graph.edge_index().T.tolist())) == expected
    values = graph.features if isinstance(graph.features, np.ndarray) else graph.features.data
    assert np.isfinite(values).all()
    return "graph"
