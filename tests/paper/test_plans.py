"""What decides which numbers the pages of results show."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest

from ncgnn.errors import InputError
from ncgnn.experiments import Record, paired_test, read_stored, write_stored
from ncgnn.experiments.tuning.space import make_search
from ncgnn.nn import model_class
from ncgnn.paper import Store, plan
from ncgnn.paper.plans import combined, competitors, control, modes
from ncgnn.paper.plans.pages import plan_names, result_pages
from ncgnn.training import make_config

ROOT = Path(__file__).parent.parent.parent
GRAPH = "chameleon-filtered"
PAPER, STRATIFIED = plan("competitors"), plan("stratified")


def record(config, val=0.5, test=0.5, **more):
    result = {
        "revision": model_class(config.model.name).revision_of(config.model.options),
        "scores": {
            "val": {"accuracy": val, "macro_f1": val},
            "test": {"accuracy": test, "macro_f1": test},
        },
        "seed": config.training.seed,
        "majority_baseline": 0.3,
        "epochs": 3,
        "split_sha256": "0" * 64,
    } | more
    return Record(config.name, config.model_dump(mode="json"), result, 1.0)


@pytest.fixture
def store(tmp_path):
    """A folder of stored runs, to which runs can be added."""
    made = Store(tmp_path)

    def add(name, records):
        write_stored(records, tmp_path / f"{name}.jsonl")
        return Store(tmp_path)

    made.add = add
    return made


def test_the_choice_is_by_validation_and_waits_for_all_of_the_search(store):
    tried = PAPER.search("gcn", GRAPH)
    assert len(tried) == len(competitors.CHOICES)
    assert {config.training.seed for config in tried} == {competitors.SEARCH_SEED}
    records = [record(c, val=0.4 + 0.1 * (i == 2), test=0.9 - i / 10) for i, c in enumerate(tried)]
    assert PAPER.final("gcn", GRAPH, store.add("competitors", records[1:])) == []
    chosen = PAPER.final("gcn", GRAPH, store.add("competitors", records))
    assert [config.training.seed for config in chosen] == [0, 1, 2]
    rate, decay, dropout = competitors.CHOICES[2]
    for config in chosen:
        assert (config.training.learning_rate, config.training.weight_decay) == (rate, decay)
        assert config.model.options["dropout"] == dropout


def test_what_is_not_searched_keeps_its_preset(store):
    assert PAPER.search("hog", GRAPH) == []
    (first, *_), (second, *_) = (PAPER.search(row, GRAPH)[2:] for row in ("sngnn", "sngnn++"))
    assert first.model.options["variant"] == "plus"
    assert second.model.options["variant"] == "plusplus"
    # One layer has no dropout to choose.
    assert first.model.options == PAPER.search("sngnn", GRAPH)[0].model.options
    assert first.training.learning_rate == competitors.CHOICES[2][0]


def test_only_cells_below_the_paper_are_corrected(store):
    (planned, *_) = PAPER.final("hog", GRAPH, store)
    for test, short in ((0.39, True), (0.41, False)):  # the paper prints 41.87
        kept = Store(store.folder)
        kept._read["competitors"] = {planned.name: record(planned, test=test)}
        again = PAPER.corrected("hog", GRAPH, kept)
        assert [config.training.class_shares for config in again] == ["val"] * short
    assert not competitors.is_short("appnp", GRAPH, [record(planned, test=0.1)])


def test_tables_show_planned_runs_alone_and_say_what_is_short(store):
    planned = PAPER.final("hog", GRAPH, store)
    runs = [record(config, test=0.30 + 0.01 * i) for i, config in enumerate(planned)]
    changed = planned[0].training.model_copy(update={"learning_rate": 0.3})
    other = record(planned[0].model_copy(update={"training": changed}), test=0.99)
    kept = store.add("competitors", [*runs, other])
    assert len(read_stored(kept.folder / "competitors.jsonl")) == 4
    text = "\n".join(table.markdown() for table in PAPER.tables(kept))
    assert "| hog | 31.00 ± 1.00 (3) |" in text
    assert "| hog, paper | 41.87 ± 5.94 \\* |" in text
    assert "hog on chameleon-filtered 31.00 (paper 41.87)" in text
    assert "| hog | preset |" in text
    assert "| sngnn |" not in text
    assert "99.00" not in text
    (missing,) = [note for note in PAPER.tables(kept)[0].notes if note.startswith("Not trained")]
    assert missing.endswith("cagnn on chameleon-filtered.")
    assert " hog," not in missing
    assert "sngnn, cagnn" in missing
    kept = store.add(
        "competitors", [record(c, test=0.42) for c in PAPER.corrected("hog", GRAPH, kept)]
    )
    assert "31.00 → 42.00 (paper 41.87)" in PAPER.tables(kept)[0].notes[1]


@pytest.fixture(scope="module")
def pages():
    return result_pages(Store(ROOT / "results"))


@pytest.mark.parametrize("name", plan_names())
def test_the_pages_are_made_of_the_stored_runs(pages, name):
    text = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert text == pages[f"{name}.md"]
    assert text.count("\n| ") > 10


def test_the_front_page_says_what_the_tables_say(pages):
    """Every number of the first table of RESULTS.md stands on a page."""
    first = (ROOT / "RESULTS.md").read_text(encoding="utf-8").split("```sh")[0]
    others = [ROOT / "docs" / name for name in ("metrics.md", "grouping.md")]
    written = [path.read_text(encoding="utf-8") for path in others]
    everything = "\n".join(
        [*pages.values(), *written, (ROOT / "RESULTS.md").read_text().split("```")[2]]
    )
    numbers = {word.strip("(),;.:") for word in first.split()}
    numbers = {one for one in numbers if one.replace(".", "").isdigit() and "." in one}
    assert len(numbers) > 15
    assert not {one for one in numbers if one not in everything}


def test_shipped_parameters_are_those_that_the_kept_search_chose():
    store = Store(ROOT / "results")
    shipped = (files("ncgnn.training") / "presets" / "searched.toml").read_text(encoding="utf-8")
    assert shipped == PAPER.presets(store)
    assert "gcn" in tomllib.loads(shipped)
    assert not {"hog", "cpgnn", "gbksage", "sngnn++", "ncgcn"} & tomllib.loads(shipped).keys()
    for model in ("gcn", "sngnn", "glognn"):
        planned = PAPER.final(model, GRAPH, store)
        own = [make_config(dataset=GRAPH, model=model, split="paper", seed=s) for s in range(3)]
        assert [config.name for config in own] == [config.name for config in planned]


def test_authors_own_parameters_of_a_graph_are_tried_too():
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


def test_ours_are_searched_as_well_where_the_papers_parameters_are_of_other_splits(store):
    tried = STRATIFIED.search("ncgcn", GRAPH)
    assert len(tried) == len(competitors.CHOICES) + 1
    assert tried[-1].model.options["dropout"] == [0.6, 0.2]  # the paper's own
    searched = [record(c, val=0.1 + 0.8 * (c is tried[-1])) for c in tried]
    kept = store.add("stratified", searched)
    kept = store.add("stratified", [record(c) for c in STRATIFIED.final("ncgcn", GRAPH, kept)])
    assert "| ncgcn | 0.1, 0.005, 0.6/0.2 |" in STRATIFIED.tables(kept)[2].markdown()
    # Its control has its parameters, and no search of its own.
    assert STRATIFIED.search("ncgcn, nobody high", GRAPH) == []
    chosen, control_of = (
        STRATIFIED.final(row, GRAPH, kept)[0] for row in ("ncgcn", "ncgcn, nobody high")
    )
    assert control_of.training == chosen.training
    differ = {
        option
        for option, value in control_of.model.options.items()
        if value != chosen.model.options[option]
    }
    assert differ == {"grouped"}


def test_the_largest_graphs_borrow_their_choice_from_the_paper_splits(store):
    assert STRATIFIED.search("gcn", "computers") == []
    tried = PAPER.search("gcn", "computers")
    runs = [record(config, val=i / 10, test=1 - i / 10) for i, config in enumerate(tried)]
    # The search is not over.
    kept = store.add("competitors", runs[:1])
    assert STRATIFIED.final("gcn", "computers", kept) == []
    kept = store.add("competitors", runs)
    (chosen,) = STRATIFIED.final("gcn", "computers", kept)
    assert chosen.data.split == "stratified"
    assert competitors.searched_values(chosen) == competitors.searched_values(tried[-1])
    (own,) = STRATIFIED.final("ncgcn", "computers", kept)
    assert own.model == make_config(dataset="computers", model="ncgcn").model


def test_the_tables_of_modes_show_planned_runs_alone_in_the_order_of_seeds(store):
    planned = modes.plan_runs("ncgcn renormalized", "photo")
    assert [config.training.seed for config in planned] == list(range(10))
    changed = planned[0].training.model_copy(update={"learning_rate": 0.3})
    other = planned[0].model_copy(update={"training": changed})
    runs = [record(config, test=config.training.seed / 10) for config in reversed(planned)]
    for number, run in enumerate(runs):
        run.result["group_sizes"] = [number, 9 - number]
        run.result["scores"]["train"] = run.result["scores"]["val"]
    kept = store.add("accuracy", [record(other, test=0.99), *runs])
    test, _, _, _, high = plan("modes").tables(kept)
    assert "45.00 ± 30.28 (10)" in test.markdown()
    assert "99" not in test.markdown()
    assert "0.0, 11.1, 22.2 |" in high.markdown()


def test_missing_runs_are_trained_and_kept(store):
    trained = []

    def run(configs):
        trained.extend(configs)
        return []

    kept = Store(store.folder, run)
    plan("modes").train(kept, ["photo"])
    assert {config.data.dataset for config in trained} == {"photo"}
    first = len(trained)
    store.add("accuracy", [record(config) for config in trained[:5]])
    trained.clear()
    plan("modes").train(Store(store.folder, run), ["photo"])
    assert len(trained) == first - 5
    trained.clear()
    plan("modes").train(Store(store.folder), ["photo"])  # nobody trains here
    assert not trained


def test_runs_of_an_earlier_revision_are_marked_and_trained_again(store):
    planned = modes.plan_runs("ncgcn none", "photo")
    old = [record(config, test=0.4, revision=1) for config in planned]
    for run in old:
        run.result["scores"]["train"] = run.result["scores"]["val"]
        run.result["group_sizes"] = [1, 1]
        run.result.pop("revision")  # as the first results were written
    test = plan("modes").tables(store.add("accuracy", old))[0]
    assert "40.00 ± 0.00 (10) †" in test.markdown()
    assert "began at 0.5" in test.notes[-1]
    trained = []
    again = Store(store.folder, lambda configs: trained.extend(configs) or [])
    again.train(planned, "accuracy")
    assert [config.name for config in trained] == [config.name for config in planned]
    new = record(planned[3], test=0.6, group_sizes=[1, 1])
    new.result["scores"]["train"] = new.result["scores"]["val"]
    test = plan("modes").tables(store.add("accuracy", [new]))[0]
    assert "| 60.00 (1) |" in test.markdown()
    assert "†" not in test.markdown()


def test_changes_are_compared_within_one_revision(store):
    def planned(row, tests, revision):
        configs = modes.plan_runs(row, "photo")[: len(tests)]
        runs = []
        for config, test in zip(configs, tests, strict=True):
            more = {"split_sha256": f"{config.training.seed:064}", "group_sizes": [1, 1]}
            run = record(config, test=test, nodes={"train": 60, "test": 20}, **more)
            run.result["revision"] = revision
            run.result["scores"]["train"] = run.result["scores"]["val"]
            runs.append(run)
        return runs

    whole = planned("ncgcn renormalized", [0.7, 0.7, 0.72], 1)
    strict = planned("ncgcn strict", [0.71, 0.73, 0.77], 1)
    table = plan("modes").tables(store.add("accuracy", [*whole, *strict]))[-1]
    assert table.title == modes.CHANGES
    (row,) = table.rows
    assert row[0] == "ncgcn strict"
    (cell,) = filter(None, row[1:])
    assert cell.startswith("+3.00 (")
    assert cell.endswith(" †")
    newer = planned("ncgcn renormalized", [0.9, 0.9, 0.9], 2)
    assert plan("modes").tables(store.add("accuracy", newer))[-1].title != modes.CHANGES


def control_runs(row, graph, test, high):
    """Runs of a row with accuracies of all nodes and of those with high NC, by seed."""
    found = []
    for config, all_nodes, part in zip(control.plan_runs(row, graph), test, high, strict=False):
        groups = [{"part": 0, "nodes": 10, "accuracy": all_nodes}]
        groups += (
            [] if part is None else [{"part": 1, "nodes": 1 if part == 0 else 10, "accuracy": part}]
        )
        more = {"accuracy_by_true_group": groups, "nodes": {"train": 60, "test": 20}}
        split = f"{config.training.seed:064}"
        found.append(record(config, test=all_nodes, split_sha256=split, **more))
    return found


def test_grouping_is_compared_with_its_control(store):
    photo = [
        *control_runs(control.GROUPED, "photo", [0.9, 0.8, 0.85], [0.5, 0.6, 0.7]),
        *control_runs(control.CONTROL, "photo", [0.8, 0.75, 0.7], [0.4, 0.6, 0.7]),
    ]
    actor = control_runs(control.PLAIN, "actor", [0.4, 0.4], [None, 0])
    alone = control_runs(control.CONTROL, "actor", [0.3, 0.3], [None, 0])
    every, high, low = plan("control").tables(store.add("accuracy", [*photo, *actor, *alone]))
    rows = {row[0]: row[1:] for row in every.rows}
    assert rows["photo"][:4] == ("20", "85.00 ± 5.00 (3)", "75.00 ± 5.00 (3)", "")
    groups, channel, both = rows["photo"][4:]
    test = paired_test([0.9, 0.8, 0.85], [0.8, 0.75, 0.7], 1 / 3)
    # t² = 6 with two degrees of freedom.
    assert test.p_value == pytest.approx(1 - (6 / 8) ** 0.5)
    low_end, high_end = (100 * (test.mean + sign * test.margin) for sign in (-1, 1))
    assert groups == f"+10.00 (−{-low_end:.2f} to +{high_end:.2f}), p 0.13"
    assert (channel, both) == ("", "")
    assert rows["actor"][4:] == ("", "−10.00", "")
    assert [row[0] for row in high.rows] == ["photo"]
    assert [row[0] for row in low.rows] == ["photo", "actor"]
    assert high.rows[0][5].startswith("+3.33")
    old = control_runs(control.GROUPED, "photo", [0.1] * 3, [0.1] * 3)
    for run in old:
        run.result["revision"] = 1
    assert plan("control").tables(Store(store.folder / "none")) == []
    (store.folder / "accuracy.jsonl").unlink()
    assert plan("control").tables(store.add("accuracy", [*old, *photo[3:]])) == []


CASE = next(c for c in combined.CASES if (c.split, c.dataset) == ("published", GRAPH))
TWO = replace(CASE, trials={"nctuned-gcn": 20, "nctuned-sage": 20})


def choice(model, value, trials=20, key=None, **parameters):
    key = TWO.search_key(model) if key is None else key
    return combined.Choice("published", GRAPH, model, value, trials, parameters, key, 0.8)


def test_no_separated_model_is_chosen_before_all_were_searched():
    first = choice("nctuned-gcn", 0.5)
    few = choice("nctuned-sage", 0.9, 3, key="another search")
    second = choice("nctuned-sage", 0.4)
    assert combined.best_choice(TWO, [first]) is None
    assert combined.best_choice(TWO, [first, few]) is None
    assert combined.best_choice(TWO, [first, second]) == first


def test_choices_are_kept_and_replaced(tmp_path):
    place = tmp_path / "choices.json"
    old, other = choice("nctuned-gcn", 0.5, 3), choice("nctuned-sage", 0.4)
    for one in (old, other, choice("nctuned-gcn", 0.6, 20, **{"model.raw": False})):
        combined.add_choice(one, place)
    found = {(c.model, c.value, c.trials) for c in combined.read_choices(place)}
    assert found == {("nctuned-gcn", 0.6, 20), ("nctuned-sage", 0.4, 20)}
    best = combined.best_choice(TWO, combined.read_choices(place))
    configs = combined.counted_runs(TWO, best)
    assert [config.training.seed for config in configs] == list(range(10))
    assert {config.model.options["raw"] for config in configs} == {False}
    assert {config.training.patience for config in configs} == {80}
    without = combined.beside_runs(TWO, best)
    assert {config.model.name for config in without} == {"tuned-gcn"}
    assert {config.training.patience for config in without} == {200}
    assert combined.beside_runs(replace(TWO, widths={"nctuned-gcn": 128}), best) == []


def test_the_combined_table_stands_beside_the_best_printed_number(store, monkeypatch):
    monkeypatch.setattr(combined, "CASES", (TWO,))
    place = store.folder / combined.CHOICES
    assert plan("combined").tables(store) == []
    best = choice("nctuned-gcn", 0.512, 20, **{"model.raw": False})
    for one in (best, choice("nctuned-sage", 0.4, 20)):
        combined.add_choice(one, place)
    runs = [record(config, val=0.52, test=0.48) for config in combined.counted_runs(TWO, best)]
    runs += [record(config, test=0.45) for config in combined.beside_runs(TWO, best)]
    (table,) = plan("combined").tables(store.add("combined", runs))
    text = table.markdown()
    assert "| separated, test | 48.00 ± 0.00 (10) |" in text
    assert "| printed | 46.29 ± 3.40 |" in text
    assert "| its backbone as tuned by its authors, test | 45.00 ± 0.00 (10) |" in text
    assert "| what was chosen | `nctuned-gcn`, raw=false |" in text
    assert "| validation in the search, trials | 51.20, 20 |" in text
    assert "| test nodes that the search had seen | 80 % |" in text
    assert "squirrel" not in text


def test_the_control_of_a_choice_is_searched_alike_without_groups(store, monkeypatch):
    monkeypatch.setattr(combined, "CASES", (TWO,))
    monkeypatch.setattr(combined, "load", lambda name, data_dir: None)
    monkeypatch.setattr(combined, "seen_share", lambda *given: 0.0)
    asked = []

    def search(dataset, model, **options):
        asked.append((model, options))
        config = make_config(dataset=dataset, model=model, split="published")
        found = {"training.averaging": 0.9}
        return SimpleNamespace(value=0.4, parameters=found, config=config)

    trained = []
    kept = Store(store.folder, lambda configs: trained.extend(configs) or [], search)
    place = store.folder / combined.CHOICES
    best = choice("nctuned-gcn", 0.5, 20, **{"model.separation": "strict"})
    for one in (best, choice("nctuned-sage", 0.4)):
        combined.add_choice(one, place)
    plan("combined").train(kept)
    ((model, options),) = asked
    assert (model, options["trials"], options["seeds"]) == ("nctuned-gcn", 20, TWO.search_seeds)
    assert options["settings"]["model.separation"] == "none"
    assert options["settings"]["training.patience"] == TWO.patience
    # What is searched is the space of the choice but for groups, as `tune` itself reads it.
    made = make_search(
        dataset=GRAPH, model=model, settings=options["settings"], search=options["search"]
    )
    whole = make_search(
        dataset=GRAPH, model=model, settings=TWO.settings(model), search=TWO.searched()
    )
    groups = {"model.separation", "model.deviation", "model.threshold"}
    assert whole.values.keys() - made.values.keys() == groups
    assert made.values.items() <= whole.values.items()
    control_of = combined.find_control(TWO, best, combined.read_choices(place))
    assert combined.best_choice(TWO, combined.read_choices(place)) == best
    planned = combined.counted_runs(TWO, control_of)
    assert {config.model.options["separation"] for config in planned} == {"none"}
    assert {config.training.averaging for config in planned} == {0.9}
    assert {config.name for config in planned} <= {config.name for config in trained}
    runs = [record(config, test=0.48) for config in combined.counted_runs(TWO, best)]
    runs += [record(config, test=0.45) for config in planned]
    (table,) = plan("combined").tables(store.add("combined", runs))
    text = table.markdown()
    assert "| the same without groups, searched alike, test | 45.00 ± 0.00 (10) |" in text
    assert "| separated minus that | +3.00 |" in text
    plan("combined").train(Store(store.folder, kept.run, search))
    assert len(asked) == 1  # it is kept


def test_a_model_without_a_search_is_judged_by_validation(store, monkeypatch):
    actor = next(case for case in combined.CASES if case.dataset == "actor")
    tried = actor.configs("ncgcn", {}, [100])
    monkeypatch.setattr(combined, "load", lambda name, data_dir: None)
    monkeypatch.setattr(combined, "seen_share", lambda *given: 0.0)
    with pytest.raises(InputError, match="could not be trained"):
        combined.make_choice(actor, "ncgcn", store)
    kept = store.add("combined", [record(config, val=0.3, test=0.9) for config in tried])
    made = combined.make_choice(actor, "ncgcn", kept)
    assert (made.value, made.parameters) == (0.3, {})


@pytest.mark.parametrize(
    "change",
    [
        {"space": CASE.space | {"model.threshold": [0.9]}},
        {"patience": 7},
        {"search_seeds": (0,)},
        {"counted": 5},
        {"trials": {"nctuned-gcn": 81}},
    ],
)
def test_another_search_is_another_choice(change):
    assert replace(CASE, **change).search_key("nctuned-gcn") != CASE.search_key("nctuned-gcn")


def test_large_graphs_keep_presets_of_heavy_models(store):
    assert len(competitors.HEAVY) == 12
    for row in competitors.HEAVY:
        assert PAPER.search(row, "computers") == []
        (config,) = PAPER.final(row, "computers", store)
        own = make_config(dataset="computers", model=row, split="paper", seed=0)
        assert config.name == own.name
    assert PAPER.search("gcn", "computers")
    assert set(PAPER.rows("computers")) == {*competitors.BASIC, *competitors.HEAVY}
    ours = {*competitors.OURS, *competitors.CONTROLS}
    assert set(STRATIFIED.rows("computers")) == {*competitors.BASIC, *ours}


def test_photo_and_pubmed_have_three_seeds_on_the_papers_splits_alone(store):
    assert [c.training.seed for c in PAPER.final("hog", "photo", store)] == [0, 1, 2]
    assert len(STRATIFIED._runs("gcn", "photo", 0, range(1))) == 1
    assert STRATIFIED.more_seeds == {}


def timed(row, graph, seconds):
    config = make_config(dataset=graph, model=row, split="paper", seed=9)
    return replace(record(config), seconds=seconds)


def test_the_cheapest_run_comes_first_and_an_unknown_one_last(store):
    kept = store.add("competitors", [timed("hog", "photo", 100.0), timed("hog", "actor", 1.0)])
    sizes = {"photo": 7650 + 119081, "computers": 13752 + 245861}
    expected = 100 * sizes["computers"] / sizes["photo"]
    assert PAPER.expected_seconds("hog", "computers", kept) == pytest.approx(expected)
    assert PAPER.expected_seconds("wrgat", "computers", kept) == float("inf")
    kept = store.add("competitors", [timed("cpgnn", "photo", 3.0), timed("gbksage", "photo", 5.0)])
    seen = []
    kept.run = lambda configs: seen.extend((c.model.name, len(configs)) for c in configs) or []
    kept.deadline = float("inf")
    PAPER.train(kept, ["computers"])
    finals = [name for name, together in seen if together == 1]
    assert finals[:3] == ["cpgnn", "gbksage", "hog"]
    assert set(finals[3:12]) == set(competitors.HEAVY) - {"cpgnn", "gbksage", "hog"}


def test_nothing_begins_after_the_deadline_and_what_is_done_is_kept(store):
    configs = PAPER.final("hog", "photo", store)
    begun = []

    def run(batch):
        begun.extend(config.training.seed for config in batch)
        store.deadline = 0.0  # long ago, once the first run is finished
        return []

    store.run, store.deadline = run, float("inf")
    store.train(configs, "competitors")
    assert begun == [0]
    assert store.is_late
    store.deadline = None
    assert not store.is_late
