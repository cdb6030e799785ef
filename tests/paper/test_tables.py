from __future__ import annotations

import copy
import json
import statistics
from dataclasses import replace

import numpy as np
import pytest

from ncgnn.errors import DataNotFoundError, InputError, UnknownNameError
from ncgnn.experiments import as_records, finished_runs
from ncgnn.graph import Graph
from ncgnn.nn import model_names
from ncgnn.paper import (
    Row,
    accuracy,
    published,
    reproduce,
    request_for,
    target,
    target_names,
    targets,
)
from ncgnn.paper.accuracy import ABLATIONS, METHODS
from ncgnn.paper.printed import DATASETS, OTHER_GRAPHS, printed
from ncgnn.training import Spread, train_run

SMALL = {"hidden": 8, "epochs": 4, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small table with one run missing."""
    runs = tmp_path_factory.mktemp("runs")
    models = ["gcn", "ncgcn", "without-separation", "three-hops"]
    request, _ = request_for(
        "table1", datasets=["digits"], models=models, seeds=range(2), settings=SMALL
    )
    cells = target("table1").cells(request)
    for config in cells[:-1]:
        train_run(config, runs)
    return runs, request, cells, reproduce("table1", finished_runs(cells, runs), request=request)


def test_the_paper_is_quoted_rightly():
    assert printed("table1", "ncgcn", "pubmed") == (91.64, 0.53)
    assert printed("table1", "hog", "penn94") == "OOM"
    assert printed("table1", "three-hops", "squirrel-filtered-2205") == (35.26, 5.40)
    # Its numbers stand beside a relative of the graph too, unless that has its own.
    assert printed("table1", "three-hops", "squirrel-filtered") == (35.26, 5.40)
    assert printed("classic", "tuned-gcn", "squirrel-filtered-2205") is None
    assert printed("table2", "ncsage", "ogbn-arxiv") == (59.20, 0.32)
    assert printed("duplication", "neighbors", "chameleon") == (46.03, 0)
    assert printed("efficiency", "gcn", "epoch") == (5.97, 0)
    assert printed("table1", "ncgcn", "texas") is None
    assert "ncgcn" not in published("leaderboard")  # ours are quoted from the main table
    assert set(published("table1")) == {*METHODS, *ABLATIONS}
    assert all(set(row) == set(DATASETS) for row in published("table1").values())


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_head_of_table_1_has_every_number_of_every_graph(dataset):
    rows = [row for row in published("graphs") if row != "split"]
    assert {"classes", "features", "nodes", "edges", "nh"} <= set(rows)
    for row in rows:
        assert printed("graphs", row, dataset) is not None


def test_quoted_methods_are_in_the_list_of_models():
    assert set(published("listed")) <= set(published("leaderboard"))
    assert set(published("leaderboard")) <= {*model_names(), *published("listed")}


def test_every_target_can_be_had_by_name():
    for name in target_names():
        assert target(name).name == name
        assert target(name).kind in ("table", "figure")
        assert target(name).title
    with pytest.raises(UnknownNameError, match="table1"):
        target("tabel1")


def test_cells_are_those_of_the_request(made):
    _, request, cells, _ = made
    assert len(cells) == len({config.name for config in cells}) == 8
    assert {config.data.split for config in cells} == {"paper"}
    separations = [(config.model.name, config.model.options.get("separation")) for config in cells]
    assert ("ncgcn", "none") in separations
    assert max(config.model.options.get("hops", 0) for config in cells) == 3
    assert all(config.training.epochs == 4 for config in cells)
    assert request.data_dir is None


def test_numbers_are_those_of_the_runs(made):
    _, _, cells, reproduction = made
    table = reproduction.data
    assert reproduction.missing == (cells[-1].name,)
    entry = table.entries["gcn", "digits"]
    assert entry.seeds == (0, 1)
    runs = finished_runs(cells[:2], made[0])
    values = [run.result["scores"]["test"]["accuracy"] for run in runs]
    assert entry.test.mean == pytest.approx(statistics.fmean(values))
    assert entry.test.std == pytest.approx(statistics.stdev(values))
    for found, part, score in (
        (entry.val, "val", "accuracy"),
        (entry.macro_f1, "test", "macro_f1"),
    ):
        values = [run.result["scores"][part][score] for run in runs]
        assert found.mean == pytest.approx(statistics.fmean(values))
    assert table.entries["three-hops", "digits"].seeds == (0,)


def with_means(table, **means):
    """The table with other means of test accuracy, or other seeds beside them."""
    entries = {}
    for name, given in means.items():
        mean, seeds = given if isinstance(given, tuple) else (given, (0, 1))
        old = table.entries["gcn", "digits"]
        entries[name, "digits"] = replace(old, test=Spread(mean, 0.1), seeds=seeds)
    rows = tuple(Row(name, "gcn", name) for name in means)
    return replace(table, rows=rows, entries=entries)


def test_ablations_do_not_take_part_in_the_ranking(made):
    best, second = made[3].data.leaders("digits")
    assert best | second == {"gcn", "ncgcn"}
    table = with_means(made[3].data, gcn=0.5, mlp=0.6, **{"three-hops": 0.9})
    assert table.leaders("digits") == ({"mlp"}, {"gcn"})


def test_equal_methods_are_marked_alike(made):
    table = with_means(made[3].data, a=0.70001, b=0.7, c=0.6, d=0.6, e=0.5)
    assert table.leaders("digits") == ({"a", "b"}, {"c", "d"})
    rows = [row for row in shown_table(table).rows if row and row[0] in "abcde"]
    assert [row[1].mark for row in rows] == ["best", "best", "second", "second", ""]


def shown_table(table):
    return target("table1").tables(table)[0]


def test_other_seeds_are_other_splits_and_not_ranked(made):
    assert with_means(made[3].data, b=0.7, c=0.6).leaders("digits") == ({"b"}, {"c"})
    for other in ((0,), (0, 1, 2), (2, 3)):  # whose mean may be of easier splits
        table = with_means(made[3].data, b=0.7, c=0.6, d=(0.65, other))
        assert table.leaders("digits") == (set(), set())
    assert with_means(made[3].data, a=0.9).leaders("digits") == ({"a"}, set())


def test_a_pair_of_joined_nodes_is_one_edge_whatever_its_direction():
    edges = [(0, 1), (1, 0), (1, 2), (2, 2), (3, 1)]
    directed = Graph.from_edge_index(np.array(edges).T, labels=[0, 1, 0, 1])
    assert directed.is_directed
    assert accuracy._count_pairs(directed) == 3
    both = [*edges, *((v, u) for u, v in edges)]
    undirected = Graph.from_edge_index(np.array(both).T, labels=[0, 1, 0, 1])
    assert not undirected.is_directed
    assert accuracy._count_pairs(undirected) == 3


def test_gains_are_relative_and_over_common_seeds(made):
    table = made[3].data
    one, other = table.entries["ncgcn", "digits"], table.entries["gcn", "digits"]
    entries = {
        ("ncgcn", "digits"): replace(one, by_seed={0: 0.66, 1: 0.55, 2: 0.9}),
        ("gcn", "digits"): replace(other, by_seed={0: 0.6, 1: 0.5}),
    }
    gains = accuracy.gain_table(replace(table, entries=entries))
    assert gains.rows == (("NCGCN over GCN", "+10.00", "+10.00 (1)"),)
    assert accuracy.gain_table(replace(table, entries={})) is None
    assert accuracy.gain_table(replace(table, entries=entries, table="classic")) is None


def test_runs_of_an_earlier_revision_are_marked_in_every_table(made):
    data = made[3].data
    for earlier in (False, True):
        entries = {key: replace(one, earlier=earlier) for key, one in data.entries.items()}
        shown = accuracy.Table1().tables(replace(data, entries=entries))
        for table in shown:
            ours = [row for row in table.rows if row and str(row[0]).startswith("NCGCN")]
            assert ours
            assert any("†" in str(cell) for row in ours for cell in row) == earlier, table.title
            assert any("†" in note for note in table.notes) == earlier, table.title


def test_the_papers_mean_gains_come_from_its_table(made):
    """It prints 8.04 and 4.54, from numbers with more digits, and counts OOM as no gain."""
    table = made[3].data
    one, models = table.entries["gcn", "digits"], ("gcn", "ncgcn", "sage", "ncsage")
    entries = {(name, dataset): one for name in models for dataset in DATASETS}
    gains = accuracy.gain_table(replace(table, datasets=DATASETS, entries=entries))
    ours, paper, _, sage = gains.rows
    assert ours[1:] == ("+0.00",) * 10 + ("+0.00 (10)",)
    assert paper[-1] == "+8.01 (10)"
    assert sage[-1] == "+4.55 (10)"
    assert sage[1 + DATASETS.index("penn94")] == ""
    assert sage[1] == f"{100 * (91.55 / 88.73 - 1):+.2f}"


def test_every_seed_counts_once_in_the_majority_class(made):
    runs, request, cells, _ = made
    found = finished_runs(cells, runs)
    shares = {run.config.training.seed: run.result["majority_baseline"] for run in found}
    assert len(shares) == 2
    for run in found:
        run.result["majority_baseline"] = 0.2 + 0.2 * run.config.training.seed
    table = reproduce("table1", found, request=request).data
    assert table.majority == {"digits": pytest.approx(0.3)}  # though one row has one seed


def test_graph_rows_are_measured(made):
    from ncgnn.data import load
    from ncgnn.metrics import neighborhood_confusion

    facts = made[3].data.facts["digits"]
    graph = load("digits")
    assert facts.features == graph.num_features
    assert facts.edges == len({frozenset(pair) for pair in graph.edge_index().T.tolist()})
    assert facts.nodes == graph.num_nodes
    assert facts.nc[1] == pytest.approx(float(neighborhood_confusion(graph, hops=2).mean()))


def test_the_table_shows_ours_above_the_papers(made):
    table = made[3].tables()[0]
    assert table.head == ("", "digits")
    names = [row[0] for row in table.rows if row]
    assert names.index("GCN") < names.index("NCGCN") < names.index("w/o Separ.")
    assert "paper split" in table.title
    assert "majority class" in names
    cells = {row[0]: row[1] for row in table.rows if row}
    assert cells["NCGCN (k=3)"].text.endswith("(1)")  # one seed of two


def test_stored_records_stand_in_for_runs(made):
    runs, request, cells, _ = made
    stored = as_records(finished_runs(cells, runs))
    again = reproduce("table1", [], request=request, stored=stored)
    assert again.data == made[3].data
    assert again.missing == made[3].missing


def test_another_split_family_is_another_table(made):
    runs, _, cells, _ = made
    other, _ = request_for(
        "table1", datasets=["digits"], models=["gcn"], split="stratified", settings=SMALL
    )
    another = reproduce("table1", finished_runs(cells, runs), request=other)
    assert not another.data.entries
    assert len(another.missing) == 1


@pytest.fixture
def loads(monkeypatch):
    """No graph is at hand; whether each may be downloaded is kept."""
    asked = []

    def load(name, folder=None, *, download=True):
        asked.append(download)
        raise DataNotFoundError(f"{name} is not at hand")

    for module in (targets, accuracy):
        monkeypatch.setattr(module, "load", load)
    return asked


def test_kept_scores_suffice_without_the_graph(made, loads):
    runs, _, cells, _ = made
    stored = as_records(finished_runs(cells, runs))
    chosen = {"datasets": ["digits"], "models": ["gcn"], "seeds": 2, "settings": SMALL}
    request, absent = request_for("table1", stored=stored, **chosen)
    assert not absent
    table = reproduce("table1", [], request=request, stored=stored).data
    assert table.entries["gcn", "digits"] == made[3].data.entries["gcn", "digits"]
    assert table.facts == {}
    with pytest.raises(InputError, match="at hand"):
        request_for("table1", datasets=["pubmed"], models=["gcn"], stored=stored, train=False)
    assert loads == [False, False]


def test_a_run_beats_a_stored_record(made):
    runs, request, cells, _ = made
    finished = finished_runs(cells, runs)
    stored = copy.deepcopy(as_records(finished))
    stored[0].result["scores"]["test"]["accuracy"] = 0.9999
    table = reproduce("table1", finished, request=request, stored=stored).data
    assert table.entries["gcn", "digits"] == made[3].data.entries["gcn", "digits"]


def test_numbers_for_other_programs(made):
    shown = json.loads(json.dumps(made[3].plain(), allow_nan=False))["data"]
    assert len(shown["rows"]) == 4
    assert shown["rows"][0]["paper"] is None
    assert shown["missing"] == list(made[3].missing)


def test_duplication_on_a_graph_of_our_own():
    request, _ = request_for("duplication", datasets=["digits"])
    made = reproduce("duplication", [], request=request)
    assert made.data.rates["features", "digits"] == 0
    assert not any("paper" in str(row[0]) for row in made.tables()[0].rows)  # it has no such


def test_efficiency_counts_in_multiples_of_gcn(tmp_path):
    request, _ = request_for(
        "efficiency", datasets=["digits"], models=["gcn", "mlp"], settings={"epochs": 3}
    )
    cells = target("efficiency").cells(request)
    assert [config.model.options["hidden"] for config in cells] == [64, 64]
    runs = [train_run(config, tmp_path) for config in cells]
    table = reproduce("efficiency", runs, request=request).data
    assert table.multiple("gcn", "digits") == 1
    usual = [json.loads((run.folder / "timing.json").read_text()) for run in runs]
    assert table.multiple("mlp", "digits") == pytest.approx(
        usual[1]["seconds_per_epoch"] / usual[0]["seconds_per_epoch"]
    )
    assert 0 < usual[0]["seconds_per_epoch"] < usual[0]["seconds"]
    assert table.paper_multiple("mlp", "digits") is None
    assert table.paper_multiple("mlp", "pubmed") == pytest.approx(2.78 / 5.97)
    assert table.size == "64 hidden units, 2 layers"


@pytest.mark.parametrize("name", [name for name in target_names() if target(name).kind == "table"])
def test_every_table_can_be_shown_and_says_its_settings(name):
    rests_on_runs = target(name).models != ()
    request, _ = request_for(name, datasets=["digits"], settings=SMALL if rests_on_runs else {})
    tables = reproduce(name, [], request=request).tables()
    assert tables
    for table in tables:
        assert ("With " in " ".join(table.notes)) == rests_on_runs
        assert table.title in table.markdown()


def test_the_leaderboard_quotes_others_and_runs_ours(tmp_path):
    request, _ = request_for("leaderboard", datasets=["digits"], models=["ncgcn"], settings=SMALL)
    (config,) = target("leaderboard").cells(request)
    made = reproduce("leaderboard", [train_run(config, tmp_path)], request=request)
    assert printed("leaderboard", "exphormer", "computers") == (91.47, 0)
    ours, macro, _, majority = made.tables()[0].rows[-4:]
    assert ours[0] == "NCGCN, ours"
    assert (macro[0], majority[0]) == ("  macro-F1", "majority class")
    assert all(row[1] for row in (ours, macro, majority))
    test = made.data.entries["ncgcn", "digits"].test.mean
    assert ours[1] == f"{100 * test:.2f} (1)"  # not marked: others have splits of their own


@pytest.mark.parametrize("split", ["paper", "stratified", "published"])
def test_printed_numbers_are_of_one_family(made, split):
    table = replace(made[3].data, datasets=("chameleon-filtered",), split=split)
    shown = table.paper("ncgcn", "chameleon-filtered")
    assert shown == ((46.84, 4.36) if split == "paper" else None)


def test_printed_numbers_stand_beside_their_own_split_family_alone(real_data_dir):
    for name, split, shown in (
        ("table1", "paper", (46.84, 4.36)),
        ("table1", "stratified", None),
        ("classic-published", None, None),
    ):
        request, _ = request_for(
            name,
            datasets=["chameleon-filtered"],
            models=["ncgcn", "tuned-gcn"],
            split=split,
            data_dir=real_data_dir,
        )
        table = reproduce(name, [], request=request).data
        assert table.paper("ncgcn", "chameleon-filtered") == shown
        classic = (46.29, 3.40) if name == "classic-published" else None
        assert table.paper("tuned-gcn", "chameleon-filtered") == classic
        assert table.split == (split or "published")


def test_the_classic_tables_quote_every_cell():
    for name in ("classic-uniform", "classic-published"):
        wanted = target(name)
        for model in ("tuned-gcn", "tuned-sage", "tuned-gat"):
            for dataset in wanted.datasets:
                assert printed("classic", model, dataset) is not None
                assert published("classic")["split"][dataset] == wanted.split


def test_the_papers_nh_and_nc_stand_below_ours():
    request, _ = request_for("table1", datasets=["digits"], models=["gcn"])
    table = reproduce("table1", [], request=request).data
    assert "  paper" not in [row[0] for row in shown_table(table).rows if row]
    pubmed = replace(table, datasets=("pubmed",), facts={"pubmed": table.facts["digits"]})
    rows = [row for row in shown_table(pubmed).rows if row]
    heads = [row[0] for row in rows]
    shown = {heads[place - 1]: row[1] for place, row in enumerate(rows) if row[0] == "  paper"}
    assert (shown["NH"], shown["NC (k=1)"], shown["NC (k=2)"]) == ("0.87", "0.14", "0.20")
    name = "squirrel-filtered"
    filtered = replace(
        table, split="uniform", datasets=(name,), facts={name: table.facts["digits"]}
    )
    assert OTHER_GRAPHS in shown_table(filtered).notes
    assert OTHER_GRAPHS not in shown_table(pubmed).notes


def test_table2_is_inductive():
    wanted, _ = request_for("table2", datasets=["digits"], models=["mlp", "gcn", "glognn"])
    cells = target("table2").cells(wanted)
    assert {config.data.protocol for config in cells} == {"inductive"}
    assert {c.model.options["delta"] for c in cells if c.model.name == "glognn"} == {1.0}
    assert "hog" not in target("table2").models
