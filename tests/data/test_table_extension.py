"""Rows that come later: the same edges and features as if all had come at once."""

import numpy as np
import pyarrow as pa
import pytest

from ncgnn.data import read_tables
from ncgnn.data.tables.reading import SourceTable
from ncgnn.errors import InputError

NODES = {"id": ["a", "b", "c"], "n": [1.0, 2.0, 4.0]}
MORE = {"id": ["d"], "n": [3.0]}


def links(sources, targets, **columns):
    return {"source": list(sources), "target": list(targets), **columns}


def weights(graph):
    """The weight of every stored edge by the ids of its ends."""
    ends = graph.ids[graph.edge_index()].T.tolist()
    values = np.ones(graph.num_entries) if graph.edge_weights is None else graph.edge_weights
    return {tuple(pair): float(weight) for pair, weight in zip(ends, values, strict=True)}


@pytest.mark.parametrize(("direction", "stored"), [("forward", "ad"), ("backward", "da")])
@pytest.mark.parametrize("edges", [links("ab", "ba"), links("a", "z")], ids=["symmetric", "none"])
def test_edges_of_one_direction_stay_so_whatever_the_first_ones_looked_like(
    direction, stored, edges
):
    graph = read_tables(NODES, edges, direction=direction, unknown="drop")
    grown = graph.extend(MORE, links("a", "d"))
    assert set(weights(grown)) - set(weights(graph)) == {tuple(stored)}


def test_kinds_of_a_pair_that_needs_each_other_count_as_the_strongest_later_too():
    kinds = {"kind": "k", "kinds": {"needs": 1.0, "likes": 0.5}}
    first, later = ("ab", "cc", ["needs", "likes"]), ("ad", "da", ["likes", "needs"])
    ends = [one + other for one, other in zip(first[:2], later[:2], strict=True)]
    every = {name: [*NODES[name], *MORE[name]] for name in NODES}
    at_once = read_tables(every, links(*ends, k=first[2] + later[2]), **kinds)
    graph = read_tables(NODES, links(*first[:2], k=first[2]), **kinds)
    grown = graph.extend(MORE, links(*later[:2], k=later[2]))
    assert weights(grown) == weights(at_once)
    assert weights(grown)["a", "d"] == 1.0


def test_amounts_of_both_directions_add_up_even_if_all_are_one():
    ones = read_tables(NODES, links("abb", "bac", w=[1, 1, 1]), weight="w")
    assert weights(ones)["a", "b"] == 2.0
    assert weights(ones)["b", "c"] == 1.0


def test_edges_between_old_nodes_count_without_a_new_row():
    graph = read_tables(NODES, links("a", "b"))
    known = {name: values[:1] for name, values in NODES.items()}
    assert set(weights(graph.extend(known, links("b", "c")))) == set(weights(graph))
    assert graph.extend(known, links("b", "c")).source.report.links.among_known == 1
    grown = graph.extend(known, links("b", "c"), among_known=True)
    assert set(weights(grown)) - set(weights(graph)) == {("b", "c"), ("c", "b")}
    with pytest.raises(InputError, match="z; add their rows"):
        graph.extend(known, links("z", "c"))


def test_unknown_ends_are_found_without_a_look_at_every_row(monkeypatch):
    looks, column = [], SourceTable.column
    monkeypatch.setattr(SourceTable, "column", lambda *said: looks.append(said) or column(*said))
    graph = read_tables(NODES, links("az" * 500 + "y", "b" * 1001), unknown="drop")
    assert graph.source.report.links.unknown == ["z", "y"]
    assert graph.source.report.links.unknown_rows == 501
    assert len(looks) < 50


def test_texts_of_polars_are_read():
    view = pa.string_view()
    nodes = {"id": pa.array(["a", "b"], view), "n": [1, 2], "c": pa.array(["x", "y"], view)}
    edges = links("ab", "bz")
    edges = {name: pa.array(values, view) for name, values in edges.items()}
    graph = read_tables(nodes, edges, unknown="drop")
    grown = graph.extend({**nodes, "id": pa.array(["a", "c"], view)})
    assert grown.ids.tolist() == ["a", "b", "c"]


def test_columns_may_be_empty_in_new_rows():
    graph = read_tables({"id": [1, 2, 3], "v": [[1.0, 2.0], [2.0, 3.0], [0.0, 1.0]]})
    for empty in (pa.array([None], pa.list_(pa.float64())), [None], [""]):
        grown = graph.extend({"id": [4], "v": empty})
        assert grown.features[-1].tolist() == [0.0, 0.0]


def test_numbers_that_are_missing_for_the_first_time_are_counted():
    graph = read_tables(NODES | {"m": [1.0, None, 3.0]})
    grown = graph.extend({"id": ["d", "e"], "n": [None, 3.0], "m": [None, 2.0]})
    assert {name: one.rows for name, one in grown.source.report.unseen.items()} == {"n": 1}
    assert any("1 rows have values of n" in one for one in grown.source.report.sentences())


@pytest.mark.parametrize("as_text", [False, True])
def test_tables_without_rows_add_nothing(as_text, tmp_path):
    graph = read_tables(
        NODES, links("ab", "bc", k=["x", "y"]), kind="k", kinds={"x": 2.0, "y": 1.0}
    )
    nobody, nothing = {"id": [], "n": []}, links([], [], k=[])
    if as_text:
        for name, head in (("nodes", "id,n"), ("edges", "source,target,k")):
            (tmp_path / f"{name}.csv").write_text(f"{head}\n")
        nobody, nothing = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    assert graph.extend(nobody, nothing).num_nodes == 3
    grown = graph.extend(MORE, nothing)
    assert (grown.num_nodes, grown.num_entries) == (4, graph.num_entries)
    alone = read_tables(NODES, nothing, source="source", target="target")
    assert (alone.num_nodes, alone.num_entries) == (3, 0)
    with pytest.raises(InputError, match="no rows; give a table with at least one"):
        read_tables(nobody, nothing)
