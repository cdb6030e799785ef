"""What decides which numbers RESULTS.md shows."""

from __future__ import annotations

import importlib
import tomllib
from argparse import Namespace
from pathlib import Path

import pytest

from ncgnn.experiments import Record, read_stored, write_stored
from ncgnn.training import make_config

FOLDER = Path(__file__).parent.parent / "benchmarks"
GRAPH = "chameleon-filtered"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def record(config, val=0.5, test=0.5):
    result = {
        "scores": {
            "val": {"accuracy": val, "macro_f1": val},
            "test": {"accuracy": test, "macro_f1": test},
        },
        "seed": config.training.seed,
        "majority_baseline": 0.3,
        "epochs": 3,
        "split_sha256": "0" * 64,
    }
    return Record(config.name, config.model_dump(mode="json"), result, 1.0)


def kept(records):
    return {one.name: one for one in records}


def test_the_choice_is_by_validation_and_waits_for_all_of_the_search(benchmark):
    competitors = benchmark("competitors")
    tried = competitors.search("paper", "gcn", GRAPH)
    assert len(tried) == len(competitors.CHOICES)
    assert {config.training.seed for config in tried} == {competitors.SEARCH_SEED}
    records = [record(c, val=0.4 + 0.1 * (i == 2), test=0.9 - i / 10) for i, c in enumerate(tried)]
    assert competitors.final("paper", "gcn", GRAPH, kept(records[1:])) == []
    chosen = competitors.final("paper", "gcn", GRAPH, kept(records))
    assert [config.training.seed for config in chosen] == [0, 1, 2]
    rate, decay, dropout = competitors.CHOICES[2]
    for config in chosen:
        assert (config.training.learning_rate, config.training.weight_decay) == (rate, decay)
        assert config.model.options["dropout"] == dropout


def test_what_is_not_searched_keeps_its_preset(benchmark):
    competitors = benchmark("competitors")
    assert competitors.search("paper", "hog", GRAPH) == []
    first, second = (
        competitors.config_of("paper", row, GRAPH, 2, 0) for row in ("sngnn", "sngnn++")
    )
    assert first.model.options["variant"] == "plus"
    assert second.model.options["variant"] == "plusplus"
    preset = competitors.config_of("paper", "sngnn", GRAPH, 0, 0).model.options
    assert first.model.options == preset  # one layer has no dropout to choose
    assert first.training.learning_rate == competitors.CHOICES[2][0]


def test_only_cells_below_the_paper_are_corrected(benchmark):
    competitors = benchmark("competitors")
    (planned, *_) = competitors.final("paper", "hog", GRAPH, {})
    for test, short in ((0.39, True), (0.41, False)):  # the paper prints 41.87
        again = competitors.corrected("hog", GRAPH, kept([record(planned, test=test)]))
        assert [config.training.class_shares for config in again] == ["val"] * short
    assert not competitors.is_short("appnp", GRAPH, [record(planned, test=0.1)])


def test_tables_show_planned_runs_alone(benchmark, tmp_path, monkeypatch):
    competitors, tables = benchmark("competitors"), benchmark("_competitor_tables")
    place = tmp_path / "kept.jsonl"
    monkeypatch.setitem(competitors.STORES, "paper", place)
    planned = competitors.final("paper", "hog", GRAPH, {})
    runs = [record(config, test=0.40 + 0.01 * i) for i, config in enumerate(planned)]
    other = planned[0].model_copy(
        update={"training": planned[0].training.model_copy(update={"learning_rate": 0.3})}
    )
    write_stored([*runs, record(other, test=0.99)], place)
    assert len(read_stored(place)) == 4
    text = tables.tables("paper")
    assert "| hog | 41.00 ± 1.00 (3) |" in text
    assert "| hog | preset |" in text
    assert "sngnn" not in text
    assert "99.00" not in text


@pytest.mark.parametrize("section", ["tables", "competitors", "stratified", "classic", "combined"])
def test_the_published_tables_are_made_of_the_stored_runs(benchmark, section):
    stores, make = benchmark("results").SECTIONS[section]
    assert any(store.is_file() for store in stores)
    shown = (FOLDER.parent / "RESULTS.md").read_text(encoding="utf-8")
    inside = shown.split(f"<!-- {section} begin -->")[1].split(f"<!-- {section} end -->")[0]
    assert inside.strip() == make().strip()
    assert inside.strip()


def test_shipped_parameters_are_those_that_the_kept_search_chose(benchmark):
    competitors, presets = benchmark("competitors"), benchmark("presets")
    assert presets.PLACE.read_text(encoding="utf-8") == presets.text()
    kept_runs = kept(read_stored(competitors.STORES["paper"]))
    for model in ("gcn", "sngnn", "glognn"):
        planned = competitors.final("paper", model, GRAPH, kept_runs)
        shipped = [make_config(dataset=GRAPH, model=model, split="paper", seed=s) for s in range(3)]
        assert [config.name for config in shipped] == [config.name for config in planned]


def test_models_that_are_not_searched_get_no_parameters_of_ours(benchmark):
    shipped = tomllib.loads(benchmark("presets").text())
    assert "gcn" in shipped
    assert not {"hog", "cpgnn", "gbksage", "sngnn++", "ncgcn"} & shipped.keys()


def test_authors_own_parameters_of_a_graph_are_tried_too(benchmark):
    competitors = benchmark("competitors")
    tried = competitors.choices_of("glognn", GRAPH)
    assert len(tried) == len(competitors.CHOICES) + 1
    assert tried[-1] == {
        "training.learning_rate": 0.01,
        "training.weight_decay": 5e-5,
        "model.dropout": 0.0,
    }
    # Neither what our own search ships, nor a preset of all graphs, is an author's choice for one.
    for model, count in (("gcn", 6), ("wrgat", 6)):
        assert len(competitors.choices_of(model, GRAPH)) == count
    assert "model.dropout" not in competitors.choices_of("sgc", GRAPH)[0]


def choice(combined, model, value, trials=20, key=None, **parameters):
    key = combined.search_key("published", GRAPH, model) if key is None else key
    return combined.Choice("published", GRAPH, model, value, trials, parameters, key, 0.8)


def test_no_separated_model_is_chosen_before_all_were_searched(benchmark, monkeypatch):
    combined = benchmark("combined")
    planned = {"nctuned-gcn": 20, "nctuned-sage": 20}
    monkeypatch.setitem(combined.PLAN["published"], GRAPH, planned)
    first = choice(combined, "nctuned-gcn", 0.5)
    few = choice(combined, "nctuned-sage", 0.9, 3, key="another search")
    second = choice(combined, "nctuned-sage", 0.4)
    assert combined.chosen("published", GRAPH, [first]) is None
    assert combined.chosen("published", GRAPH, [first, few]) is None
    assert combined.chosen("published", GRAPH, [first, second]) == first


def test_choices_are_kept_and_replaced(benchmark, tmp_path, monkeypatch):
    combined = benchmark("combined")
    monkeypatch.setattr(combined, "CHOICES", tmp_path / "choices.json")
    monkeypatch.setitem(combined.PLAN["published"], GRAPH, {"nctuned-gcn": 20, "nctuned-sage": 20})
    old, other = choice(combined, "nctuned-gcn", 0.5, 3), choice(combined, "nctuned-sage", 0.4)
    for one in (old, other, choice(combined, "nctuned-gcn", 0.6, 20, **{"model.raw": False})):
        combined.add_choice(one)
    kept_choices = combined.read_choices()
    assert {(c.model, c.value, c.trials) for c in kept_choices} == {
        ("nctuned-gcn", 0.6, 20),
        ("nctuned-sage", 0.4, 20),
    }
    best = combined.chosen("published", GRAPH, kept_choices)
    configs = best.configs()
    assert [config.training.seed for config in configs] == list(range(10))
    assert {config.model.options["raw"] for config in configs} == {False}
    assert {config.training.patience for config in configs} == {80}
    without = combined.beside(best)
    assert {config.model.name for config in without} == {"tuned-gcn"}
    assert {config.training.patience for config in without} == {200}


def test_the_combined_table_stands_beside_the_best_printed_number(benchmark, tmp_path, monkeypatch):
    combined, tables = benchmark("combined"), benchmark("_combined_tables")
    monkeypatch.setattr(combined, "CHOICES", tmp_path / "choices.json")
    monkeypatch.setitem(combined.PLAN["published"], GRAPH, {"nctuned-gcn": 20, "nctuned-sage": 20})
    assert tables.table("published", {}) == ""
    for one in (
        choice(combined, "nctuned-gcn", 0.512, 20, **{"model.raw": False}),
        choice(combined, "nctuned-sage", 0.4, 20),
    ):
        combined.add_choice(one)
    best = combined.chosen("published", GRAPH, combined.read_choices())
    runs = [record(config, val=0.52, test=0.48) for config in best.configs()]
    beside = combined.configs_of("tuned-gcn", GRAPH, "published", {})
    text = tables.table("published", kept([*runs, *(record(c, test=0.45) for c in beside)]))
    assert "| separated, test | 48.00 ± 0.00 (10) |" in text
    assert "| printed | 46.29 ± 3.40 |" in text
    assert "| its backbone as tuned by its authors, test | 45.00 ± 0.00 (10) |" in text
    assert "| what was chosen | `nctuned-gcn`, raw=false |" in text
    assert "| validation in the search, trials | 51.20, 20 |" in text
    assert "| test nodes that the search had seen | 80 % |" in text
    assert "squirrel" not in text


def test_a_model_without_a_search_is_judged_by_validation(benchmark, monkeypatch):
    combined = benchmark("combined")
    runs = {}

    def trained(configs, given):
        runs.update(kept(record(config, val=0.3, test=0.9) for config in configs))

    monkeypatch.setattr(combined, "keep_missing", trained)
    monkeypatch.setattr(combined, "stored", lambda: runs)
    monkeypatch.setattr("ncgnn.data.load", lambda name, data_dir: None)
    monkeypatch.setattr("ncgnn.experiments.tuning.space.seen_share", lambda *given: 0.0)
    made = combined.make_choice("paper", "actor", "ncgcn", 0, Namespace(data_dir=None))
    assert (made.value, made.parameters) == (0.3, {})
    assert {one.config["training"]["seed"] for one in runs.values()} == {100}


def test_the_first_tables_show_planned_runs_alone_in_the_order_of_seeds(
    benchmark, tmp_path, monkeypatch
):
    tables, accuracy = benchmark("_accuracy_tables"), benchmark("accuracy")
    place, row = tmp_path / "kept.jsonl", "ncgcn renormalised"
    monkeypatch.setattr(tables, "STORE", place)
    planned = [
        config
        for config in accuracy.configs(["photo"])
        if tables.variant(config.model_dump(mode="json")) == row
    ]
    changed = planned[0].training.model_copy(update={"learning_rate": 0.3})
    other = planned[0].model_copy(update={"training": changed})
    runs = [record(config) for config in reversed(planned)]
    write_stored([record(other, test=0.99), *runs], place)
    assert [one["seed"] for one in tables.stored()[row]["photo"]] == list(range(10))


def test_another_search_is_another_choice(benchmark, monkeypatch):
    combined = benchmark("combined")

    def key():
        return combined.search_key("published", GRAPH, "nctuned-gcn")

    before = key()
    with monkeypatch.context() as changed:
        changed.setitem(combined.SPACE, "model.threshold", [0.9])
        assert key() != before
    with monkeypatch.context() as changed:
        changed.setitem(combined.PATIENCE, GRAPH, 7)
        assert key() != before
    with monkeypatch.context() as changed:
        changed.setitem(combined.MORE_SEEDS, ("published", GRAPH), (0,))
        assert key() != before
    with monkeypatch.context() as changed:
        changed.setitem(combined.SEEDS, "published", ((0, 1), 5))
        assert key() != before
    assert key() == before


def test_sections_without_anything_to_show_are_left_alone(benchmark, tmp_path, monkeypatch):
    results, competitors = benchmark("results"), benchmark("competitors")
    store, place = tmp_path / "stratified.jsonl", tmp_path / "RESULTS.md"
    search = competitors.search("stratified", "gcn", GRAPH)
    write_stored([record(config) for config in search[:1]], store)
    monkeypatch.setitem(competitors.STORES, "stratified", store)
    sections = {"stratified": ((store,), results.SECTIONS["stratified"][1])}
    monkeypatch.setattr(results, "SECTIONS", sections)
    monkeypatch.setattr(results, "RESULTS", place)
    place.write_text("before")
    monkeypatch.setattr("sys.argv", ["results.py", "--write"])
    results.main()
    assert place.read_text() == "before"


def test_marks_of_results_are_checked_before_anything_is_written(benchmark, tmp_path, monkeypatch):
    results = benchmark("results")
    place = tmp_path / "RESULTS.md"
    place.write_text("<!-- tables begin -->old<!-- tables end -->")
    monkeypatch.setattr(results, "RESULTS", place)
    with pytest.raises(SystemExit, match="<!-- combined begin -->"):
        results.replaced(place.read_text(), "combined", "new")
    assert "new" in results.replaced(place.read_text(), "tables", "new")


def test_cells_below_the_paper_are_told_in_words(benchmark):
    competitors, tables = benchmark("competitors"), benchmark("_competitor_tables")
    (planned, *_) = competitors.final("paper", "hog", GRAPH, {})
    found = {("hog", GRAPH): [record(planned, test=0.30)]}
    for again, words in (([], "hog on"), ([record(planned, test=0.42)], "30.00 → 42.00 (paper 41")):
        assert words in tables.short_cells(["hog"], [GRAPH], found, {("hog", GRAPH): again})


def test_ours_are_searched_as_well_where_the_papers_parameters_are_of_other_splits(benchmark):
    competitors, tables = benchmark("competitors"), benchmark("_competitor_tables")
    tried = competitors.search("stratified", "ncgcn", GRAPH)
    assert len(tried) == len(competitors.CHOICES) + 1
    assert tried[-1].model.options["dropout"] == [0.6, 0.2]  # the paper's own
    shown = tables.chosen("ncgcn", GRAPH, [record(tried[-1])])
    assert shown == "0.1, 0.005, 0.6/0.2"


def test_the_largest_graphs_borrow_their_choice_from_the_paper_splits(benchmark, monkeypatch):
    competitors = benchmark("competitors")
    monkeypatch.setattr(competitors, "_stored", lambda split: paper)
    assert competitors.search("stratified", "gcn", "computers") == []
    tried = competitors.search("paper", "gcn", "computers")
    paper = kept(record(config, val=i / 10, test=-i / 10) for i, config in enumerate(tried[:1]))
    assert competitors.final("stratified", "gcn", "computers", {}) == []  # the search is not over
    paper = kept(record(config, val=i / 10, test=1 - i / 10) for i, config in enumerate(tried))
    (chosen,) = competitors.final("stratified", "gcn", "computers", {})
    assert chosen.data.split == "stratified"
    assert competitors.searched_values(chosen) == competitors.searched_values(tried[-1])
    (own,) = competitors.final("stratified", "ncgcn", "computers", {})
    assert own.model == make_config(dataset="computers", model="ncgcn").model
