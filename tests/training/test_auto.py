"""Auto: what it tries, what it may not look at, how it keeps its time, and what it returns."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import ncgnn
from ncgnn.data import Split
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.nn import model_class
from ncgnn.report import summary_table, write_run_report
from ncgnn.training import (
    AutoWatcher,
    Row,
    RunFolder,
    RunResult,
    auto_run,
    combination,
    find_other_seeds,
    load_run,
    make_auto,
    refit_run,
    search,
)
from ncgnn.training.calibration import fit_temperature
from ncgnn.training.candidates import list_candidates, read_time
from ncgnn.training.combination import (
    EXPERTS_SCATTER,
    Unseen,
    answer_unseen,
    expert_temperature,
    judge_combination,
    make_mixture,
    select_average,
    train_gate,
    validation_answers,
)
from ncgnn.training.folds import draw_folds
from ncgnn.training.search import Search

FEW = {"candidates": ["logistic", "propagation", "mlp", "gcn", "ncgcn"], "epochs": 12, "hidden": 8}
LONG = FEW | {"time": "1h", "learning_rate": 0.03}


@pytest.fixture(scope="module")
def graph():
    groups = [(0.7, 0.9), (0.3, 0.3)]
    return ncgnn.generate(300, 1200, classes=3, features=12, groups=groups, seed=3)


@pytest.fixture(scope="module")
def place(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("auto") / "mine.npz"
    ncgnn.save(graph, path)
    return str(path)


def asked(place, **settings):
    return make_auto(dataset=place, settings=LONG | settings)


def facts_of(run):
    return json.loads((run.folder / "auto.json").read_text())


def without_times(facts):
    kept = {name: value for name, value in facts.items() if name != "seconds"}
    for part in ("candidates", "combinations"):
        kept[part] = [row | {"seconds": 0} for row in facts[part]]
    return kept


@pytest.fixture(scope="module")
def done(graph, place, tmp_path_factory):
    return auto_run(asked(place), tmp_path_factory.mktemp("runs"), graph=graph, controls=True)


def test_the_chosen_run_is_an_ordinary_one(done, graph):
    trained, facts = load_run(done.folder), facts_of(done)
    assert trained.auto["chosen"] == facts["chosen"]
    rows = facts["candidates"] + facts["combinations"]
    (row,) = [row for row in rows if row["title"] == facts["chosen"]]
    scores = trained.evaluate()["scores"]
    assert scores["val"]["accuracy"] == pytest.approx(row["val"])
    assert scores["test"]["accuracy"] == pytest.approx(row["test"])
    assert len(trained.predict(only="test")) == len(trained.split.test)
    assert trained.explain(trained.graph.ids[0]) is not None
    assert len({row["model"] for row in facts["candidates"]}) == 5


def test_rows_are_what_their_runs_say(done):
    search = next((done.folder.parent / ".auto").iterdir()) / "candidates"
    for row in facts_of(done)["candidates"]:
        own = load_run(search / row["name"]).evaluate()["scores"]
        assert own["val"]["accuracy"] == pytest.approx(row["val"])
        assert own["test"]["accuracy"] == pytest.approx(row["test"])


def test_labels_of_test_nodes_change_nothing_but_test_scores(graph, place, done, tmp_path):
    wanted = asked(place)
    split = wanted.base.make_split(graph)
    labels = graph.labels.copy()
    labels[split.test] = np.random.default_rng(0).permutation(labels[split.test])
    assert not np.array_equal(labels, graph.labels)
    search = Search(wanted, graph.with_labels(labels), tmp_path, split=split, controls=True)
    other, mine = search.run().trained, load_run(done.folder)
    assert other.config == mine.config
    for one, two in zip(mine.model.state_dict().values(), other.model.state_dict().values(),
                        strict=True):  # fmt: skip
        assert torch.equal(one, two)
    facts = facts_of(done)
    rows = zip(facts["candidates"] + facts["combinations"],
               other.auto["candidates"] + other.auto["combinations"], strict=True)  # fmt: skip
    changed = 0
    for one, two in rows:
        changed += one["test"] != two["test"]
        for hidden in ("test", "seconds"):
            one[hidden] = two[hidden] = None
        assert one == two
    assert changed


class StopAt(AutoWatcher):
    """Asks to stop in some epoch of a candidate, or when folds begin."""

    def __init__(self, title, epoch=3):
        self.title, self.epoch, self.asked = title, epoch, False

    def on_epoch(self, title, record, spent, best):
        self.asked |= title == self.title and record["epoch"] == self.epoch

    def on_stage(self, text):
        self.asked |= self.title in text


@pytest.mark.parametrize("where", ["gcn", "ncgcn", "that they have not seen"])
def test_an_interrupted_search_continues_to_the_same_end(graph, place, done, tmp_path, where):
    watcher = StopAt(where)
    with pytest.raises(KeyboardInterrupt):
        auto_run(asked(place), tmp_path, graph=graph, watcher=watcher, controls=True,
                 stop=lambda: watcher.asked)  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == [".auto"]
    again = auto_run(asked(place), tmp_path, graph=graph, controls=True)
    assert without_times(facts_of(again)) == without_times(facts_of(done))
    for name in ("weights.safetensors", "config.toml", "split.json"):
        assert (again.folder / name).read_bytes() == (done.folder / name).read_bytes()


def test_a_finished_search_is_found_and_more_time_goes_on(graph, place, tmp_path):
    wanted = asked(place, time="1h", combine=False, candidates=["logistic", "mlp"])
    first = auto_run(wanted, tmp_path, graph=graph)
    assert first.fresh
    assert not auto_run(wanted, tmp_path, graph=graph).fresh
    again = auto_run(asked(place, time="2h", combine=False, candidates=["logistic", "mlp"]),
                     tmp_path, graph=graph)  # fmt: skip
    assert again.folder == first.folder
    assert facts_of(again)["budget"] == 7200


def test_another_graph_of_the_same_name_is_refused(graph, place, done):
    other = ncgnn.generate(310, 1200, classes=3, features=12, seed=4)
    with pytest.raises(InputError, match="has changed since"):
        auto_run(asked(place), done.folder.parent, graph=other)


def test_time_is_kept(graph, place, tmp_path):
    wanted = asked(place, time="4s", epochs=4000, patience=4000)
    # The machine may have others to serve.
    run = auto_run(wanted, tmp_path, graph=graph, clock=time.process_time)
    facts = facts_of(run)
    # Writing the last candidate, and loading those that are combined, cannot be interrupted.
    assert facts["seconds"] < 4 + 2
    left = [row for row in facts["candidates"] if row["state"] != "finished"]
    assert left
    assert all(row["why"] for row in left)
    assert any("time was too short" in remedy for remedy in facts["remedies"])


def test_a_larger_budget_tries_what_was_skipped(graph, place, tmp_path):
    short = Search(asked(place, time="4s"), graph, tmp_path)
    short.rows["x"] = Row("x", "gcn", "x", why="no time was left")
    short.rows["y"] = Row("y", "gcn", "y", state="failed", why="an error")
    short.keep()
    assert set(Search(asked(place, time="4s"), graph, tmp_path).rows) == {"x", "y"}
    assert set(Search(asked(place, time="1h"), graph, tmp_path).rows) == {"y"}


def test_the_time_of_a_combination_is_not_counted_when_more_time_is_given(graph, place, tmp_path):
    def tick():
        tick.now += 1
        return float(tick.now)

    tick.now = 0
    search = Search(asked(place, time="1h"), graph, tmp_path, clock=tick)
    search.run()
    kept = json.loads((tmp_path / "search.json").read_text())["seconds"]
    assert sum(row.seconds for row in search.rows.values()) < kept < search.spent - 4


def test_candidates_of_an_earlier_revision_are_trained_anew(graph, place, tmp_path, monkeypatch):
    wanted = asked(place, combine=False, candidates=["gcn", "logistic"])
    auto_run(wanted, tmp_path, graph=graph)
    folder = tmp_path / ".auto" / wanted.name
    assert {row.model for row in Search(wanted, graph, folder).rows.values()} == {"gcn", "logistic"}
    monkeypatch.setattr(model_class("gcn"), "revision_of", classmethod(lambda cls, options: 9))
    assert {row.model for row in Search(wanted, graph, folder).rows.values()} == {"logistic"}


def test_a_failed_candidate_ends_nothing(graph, place, tmp_path, monkeypatch):
    def fail(self, *args, **more):
        raise RuntimeError("cannot allocate memory")

    monkeypatch.setattr(model_class("gcn"), "node_logits", fail)
    run = auto_run(asked(place, candidates=["logistic", "gcn"]), tmp_path, graph=graph)
    rows = {row["title"]: row for row in facts_of(run)["candidates"]}
    assert rows["gcn"]["state"] == "failed"
    assert "allocate" in rows["gcn"]["why"]


def test_candidates_come_cheap_ones_first_and_each_once(graph, place):
    wanted = make_auto(dataset=place)
    found = list_candidates(wanted, graph)
    models = len({one.model for one in found})
    assert len({one.model for one in found[:models]}) == models  # one of each before all others
    assert [one.model for one in found[:6]] == [
        "majority", "propagation", "logistic", "mlp", "tuned-sage", "boosting",
    ]  # fmt: skip
    assert found[6].model == "feature-boosting"
    assert [one.title for one in found if one.model == "logistic"] == [
        "logistic", "logistic, penalty 1", "logistic, penalty 10", "logistic, penalty 0.03",
    ]  # fmt: skip
    only = list_candidates(make_auto(dataset=place, settings={"candidates": "boosting"}), graph)
    assert [one.model for one in only] == ["boosting"]
    assert len({one.config.name for one in found}) == len(found) == len({o.title for o in found})
    first = list(dict.fromkeys(one.model for one in found))
    assert first[0] == "majority"
    assert first[-1] == "ncsage"
    fewer = list_candidates(asked(place, candidates=["gcn"]), graph)
    assert [one.title for one in fewer] == ["gcn"]  # its rate is given
    assert fewer[0].config.training.learning_rate == 0.03
    assert fewer[0].config.model.options["hidden"] == 8


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"time": "ten minutes"}, "auto: time must be some seconds, like 90, or like 90s, 10m or "),
        ({"time": "0m"}, "time must be some seconds, .*; got '0m'"),
        ({"candidates": []}, "candidates must name a model, or be left out"),
        ({"candidates": ["auto"]}, "must be single models, not auto"),
        ({"candidates": ["gnc"]}, "unknown model 'gnc'"),
        ({"hiden": 3}, "did you mean hidden"),
        ({"folds": 1}, "folds"),
        ({"start_from": "latest"}, "start_from must be left out"),
        ({"candidates": ["mixture", "mlp"]}, "must be single models, not mixture"),
    ],
)
def test_wrong_options_are_named(place, settings, words):
    with pytest.raises(InputError, match=words):
        make_auto(dataset=place, settings=settings)


def test_times_are_read():
    texts = {"90s": 90, "10m": 600, "1.5h": 5400, 30: 30, "20": 20, "1h30m": 5400, "3m 30s": 210}
    assert {text: read_time(text) for text in texts} == texts


@pytest.fixture(scope="module")
def experts(graph):
    split = ncgnn.make_split(graph, "stratified", 0)
    options = {"split": split, "hidden": 8, "epochs": 15, "learning_rate": 0.03}
    return [ncgnn.fit(graph, name, **options) for name in ("mlp", "gcn", "ncgcn")]


def test_what_nobody_could_be_trained_with_is_said_once():
    edges = np.stack([np.arange(60), np.roll(np.arange(60), 1)])
    one = ncgnn.Graph.from_edge_index(edges, labels=np.zeros(60, dtype=int), features=np.eye(60))
    split = ncgnn.data.Split(
        "custom", "custom", 0, np.arange(20), np.arange(20, 40), np.arange(40, 60)
    )
    with pytest.raises(InputError, match=r"^the graph has one class only; there is nothing"):
        ncgnn.fit(one, "auto", time="20s", split=split)


def test_an_average_by_hand(experts):
    mixture = make_mixture(experts[:2], [0.25, 0.75], "none")
    one, other = (expert.probabilities(calibrated=False) for expert in experts[:2])
    wanted = 0.25 * one + 0.75 * other
    assert np.allclose(mixture.probabilities(calibrated=False), wanted, atol=1e-6)


def test_timid_experts_speak_up_before_they_are_averaged(experts, tmp_path):
    temperatures = [0.5, 1.0]
    mixture = make_mixture(experts[:2], [0.25, 0.75], "none", temperatures=temperatures)
    parts = [torch.softmax(one.logits() / t, 1) for one, t in zip(experts, temperatures,
                                                                 strict=False)]  # fmt: skip
    wanted = (0.25 * parts[0] + 0.75 * parts[1]).numpy()
    assert np.allclose(mixture.probabilities(calibrated=False), wanted, atol=1e-6)
    loaded = load_run(mixture.save(tmp_path / "run"))
    assert torch.equal(loaded.logits(), mixture.logits())
    even = make_mixture(experts[:2], [0.25, 0.75], "none", temperatures=[1.0, 1.0])
    assert even.config == make_mixture(experts[:2], [0.25, 0.75], "none").config
    two = [{"name": "mlp", "hidden": 4}, {"name": "gcn", "hidden": 4}]
    for wrong, words in (
        ([0.5], "one per expert, 2; got 1"),
        ([], "one per expert, 2; got 0"),
        ([1e-30, 1], "greater than or equal to 0.05"),
    ):
        with pytest.raises(InputError, match=words):
            ncgnn.fit(mixture.graph, "mixture", experts=two, temperatures=wrong, epochs=1)


@pytest.mark.parametrize(("factor", "timid"), [(0.1, True), (10.0, False)])
def test_only_timid_experts_have_a_temperature(graph, factor, timid, monkeypatch):
    expert = ncgnn.fit(graph, "gcn", hidden=8, epochs=40, learning_rate=0.03)
    logits, val = factor * expert.logits(), expert.split.val
    monkeypatch.setattr(combination, "predict", lambda *given: logits)
    own = fit_temperature(logits.numpy()[val], graph.labels[val], scatter=EXPERTS_SCATTER)
    assert expert_temperature(expert) == (pytest.approx(own, abs=1e-3) if timid else 1.0)
    training = expert.config.training.model_copy(update={"class_shares": "val"})
    shared = replace(expert, config=expert.config.model_copy(update={"training": training}))
    assert expert_temperature(shared) == 1.0


def test_a_few_nodes_that_are_all_right_sharpen_nobody_much(graph, monkeypatch):
    expert = ncgnn.fit(graph, "gcn", hidden=8, epochs=3)
    right = torch.nn.functional.one_hot(torch.from_numpy(graph.labels), 3).double()
    monkeypatch.setattr(combination, "predict", lambda *given: right)
    few = replace(expert, split=replace(expert.split, val=expert.split.val[:20]))
    assert 0.15 < expert_temperature(few) < 1  # the likeliest one is 0
    unknown = torch.full_like(right, float("nan"))
    monkeypatch.setattr(combination, "predict", lambda *given: unknown)
    assert expert_temperature(few) == 1.0


@pytest.mark.parametrize("count", [40, 400])
def test_few_validation_nodes_excuse_no_lower_score(experts, monkeypatch, count):
    lower, higher = ([{"epoch": 0, "val_accuracy": value}] for value in (0.90, 0.92))
    none = np.empty(0, np.int64)
    split = replace(experts[0].split, train=none, val=np.arange(count), test=none)
    one = replace(experts[0], history=lower, split=split)
    other = replace(experts[1], history=higher, split=split)
    noise, right = np.random.default_rng(0).normal(size=count), np.arange(count) % 10 > 0
    told = {
        id(one): (noise / 10 - 0.1, right),
        id(other): (noise / 10 - 0.5, np.roll(right, 1)),
    }
    monkeypatch.setattr(combination, "_judge_answers", lambda t: told[id(t)])
    found = judge_combination(one, other, "gcn")
    assert found.better == (count == 400)
    assert ("lower by 2.0 points, with 40 validation nodes" in found.why) == (count == 40)


def test_two_models_that_are_sure_and_right_are_equally_good(experts, monkeypatch):
    record = {"epoch": 0, "val_accuracy": 1.0}
    one, other = (replace(expert, history=[record]) for expert in experts[:2])
    count = len(one.split.val)
    right = np.ones(count, dtype=bool)
    told = {id(one): (np.full(count, -1e-6), right), id(other): (np.full(count, -1e-4), right)}
    monkeypatch.setattr(combination, "_judge_answers", lambda t: told[id(t)])
    assert not judge_combination(one, other, "gcn").better
    told[id(one)] = (np.full(count, np.nan), right)
    assert not judge_combination(one, other, "gcn").better


def test_averages_are_made_of_what_models_answer_with_the_labels_they_may_read(
    graph, place, tmp_path, monkeypatch
):
    """Propagation and boosting answer by the labels of training nodes around a node."""
    seen = []

    def select(answers, labels, best, grouped):
        seen.append(answers)
        return select_average(answers, labels, best, grouped)

    monkeypatch.setattr(search, "select_average", select)
    names = ["propagation", "boosting", "mlp"]
    wanted = asked(place, candidates=names)
    auto_run(wanted, tmp_path, graph=graph)
    folder = next((tmp_path / ".auto").iterdir()) / "candidates"
    runs = [load_run(one) for one in folder.iterdir()]
    assert {one.config.model.name for one in runs} == set(names)
    val = runs[0].split.val.copy()
    for one in runs:
        answers = torch.log_softmax(one.logits()[val] / expert_temperature(one), 1)
        assert any(torch.allclose(answers, mine, atol=1e-6) for mine in seen[0])


def test_a_gain_within_its_standard_error_is_none(experts, monkeypatch):
    one, other = experts[0], experts[1]
    count = len(one.split.val)
    right, noise = np.ones(count, dtype=bool), np.random.default_rng(0).normal(size=count)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    noise *= 3  # so that its standard error is more than one nat over all nodes
    record = {"epoch": 0, "val_accuracy": 0.5}
    first = replace(one, history=[record]), replace(other, history=[record])
    for gain, better in ((2.7, False), (3.3, True)):
        told = {id(first[0]): noise + gain / np.sqrt(count), id(first[1]): np.zeros(count)}
        monkeypatch.setattr(
            combination, "_judge_answers", lambda t, told=told: (told[id(t)], right)
        )
        assert judge_combination(*first, "mlp").better == better


def test_a_gate_begins_as_the_best_single_expert(experts, monkeypatch):
    monkeypatch.setattr(combination, "_STEPS", 0)
    mixture = make_mixture(experts, [1 / 3] * 3, "full")
    nodes = torch.arange(mixture.graph.num_nodes)
    answers, seen = validation_answers(mixture, mixture.inputs, nodes)
    trained = train_gate(mixture, Unseen(answers, seen, mixture.inputs.labels), 1)
    shares = trained.model.shares(trained.inputs, trained.grouping.group)
    assert (shares[1] > 0.99).all()


def test_groups_of_a_mixture_are_those_of_its_expert_also_for_new_nodes(experts, graph):
    mixture = make_mixture(experts, [0.5, 0.4, 0.1], "full")
    assert torch.equal(mixture.grouping.group, experts[2].grouping.group)
    random = np.random.default_rng(0)
    edges = np.stack([random.integers(0, 340, 400), random.integers(300, 340, 400)])
    later = graph.add_nodes(graph.features[:40], np.hstack([edges, edges[::-1]]))
    mine, theirs = (one.predict(later, only="new") for one in (mixture, experts[2]))
    assert mine["group"].tolist() == theirs["group"].tolist()
    assert len(set(mine["group"].tolist())) == 2
    assert mine["predicted"].tolist() != theirs["predicted"].tolist()


def test_nc_of_a_mixture_is_that_of_its_own_answers(experts, graph):
    mixture = make_mixture(experts, [0.5, 0.4, 0.1], "full")
    later = graph.add_nodes(graph.features[:2], [[300, 7, 301, 300], [7, 300, 300, 301]])
    answers = mixture.predict(later)
    classes = answers["predicted"].astype(np.int64)
    train = mixture.split.train
    classes[train] = graph.labels[train]
    wanted = ncgnn.neighborhood_confusion(graph, classes[:300], num_classes=3)
    assert answers["nc"][:300] == pytest.approx(wanted)  # old nodes keep their answers
    wanted = ncgnn.neighborhood_confusion(later, classes, num_classes=3)
    assert answers["nc"][300:] == pytest.approx(wanted[300:])


def test_greedy_selection_adds_what_makes_answers_likelier():
    labels = torch.tensor([0, 0, 1, 1])
    sure = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]).log()
    other = torch.tensor([[0.4, 0.6], [0.4, 0.6], [0.1, 0.9], [0.1, 0.9]]).log()
    useless = torch.tensor([[0.1, 0.9]] * 2 + [[0.9, 0.1]] * 2).log()
    shares = select_average([sure, other, useless], labels, 0, [False] * 3)
    assert shares == {0: 0.5, 1: 0.5}
    assert select_average([sure, other], labels, 0, [True, True]) == {0: 1.0}


def test_experts_answer_for_folds_that_they_have_not_seen(experts, graph, tmp_path):
    split = experts[0].split
    labels = np.full(graph.num_nodes, -1)
    labels[split.train] = graph.labels[split.train]
    fold = draw_folds(labels, 2, 0)
    mixture = make_mixture(experts[:2], [0.5, 0.5], "full")
    unseen = answer_unseen(mixture, experts[:2], fold, tmp_path)
    # The labels of a fold change the answers for the other one, and never its own.
    changed = graph.labels.copy()
    mine = np.flatnonzero(fold == 0)
    changed[mine] = (changed[mine] + 1) % 3
    other = [
        replace(one, inputs=type(one.inputs)(graph.with_labels(changed))) for one in experts[:2]
    ]
    again = answer_unseen(mixture, other, fold, tmp_path / "other")
    nodes = np.flatnonzero(fold >= 0)
    own = torch.from_numpy(fold[nodes] == 0)
    for one, two in zip(unseen.answers, again.answers, strict=True):
        assert torch.equal(one[own], two[own])
        assert not torch.equal(one[~own], two[~own])
    kept = answer_unseen(mixture, experts[:2], fold, tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(unseen.answers, kept.answers, strict=True))


def test_answers_of_two_folds_and_of_three_are_kept_apart(experts, graph, tmp_path):
    labels = np.full(graph.num_nodes, -1)
    labels[experts[0].split.train] = graph.labels[experts[0].split.train]
    two, three = (draw_folds(labels, folds, 0) for folds in (2, 3))
    mixture = make_mixture(experts[:2], [0.5, 0.5], "full")
    answer_unseen(mixture, experts[:2], two, tmp_path / "kept")
    after, alone = (
        answer_unseen(mixture, experts[:2], three, tmp_path / name) for name in ("kept", "new")
    )
    assert all(torch.equal(a, b) for a, b in zip(after.answers, alone.answers, strict=True))
    # Folds that were dealt otherwise are other ones, too.
    other = answer_unseen(mixture, experts[:2], draw_folds(labels, 3, 1), tmp_path / "kept")
    assert not torch.equal(other.answers[0], alone.answers[0])


def test_shares_of_classes_do_not_carry_test_labels_into_folds(graph, tmp_path):
    settings = {"hidden": 8, "epochs": 8, "class_shares": "val"}
    expert = ncgnn.fit(graph, "ncgcn", split=ncgnn.make_split(graph, "stratified", 0), **settings)
    split, answers = expert.split, []
    labels = np.full(graph.num_nodes, -1)
    labels[split.train] = graph.labels[split.train]
    fold = draw_folds(labels, 2, 0)
    for word in ("true", "other"):
        changed = graph.labels.copy()
        if word == "other":
            changed[split.test] = 0
        one = replace(expert, inputs=type(expert.inputs)(graph.with_labels(changed)))
        mixture = make_mixture([one], [1.0], "full")
        answers.append(answer_unseen(mixture, [one], fold, tmp_path / word).answers[0])
    assert torch.equal(*answers)


def test_a_gate_learns_whom_to_believe_where(experts):
    # Each is right on one half of the nodes, and one of the columns says on which.
    mixture = make_mixture(experts[:2], [0.5, 0.5], "full")
    nodes = torch.arange(mixture.graph.num_nodes)
    labels = mixture.inputs.labels
    half = nodes % 2 == 0
    right = torch.nn.functional.one_hot(labels, 3) * 0.9 + 0.05
    wrong = right.roll(1, dims=1)
    answers = [torch.where(mine[:, None], right, wrong).log() for mine in (half, ~half)]
    seen = [one.clone() for one in validation_answers(mixture, mixture.inputs, nodes)[1]]
    for one, mine in zip(seen, (half, ~half), strict=True):
        one[:, 4] = mine.to(one.dtype)  # a column that says who is right
    train_gate(mixture, Unseen(answers, seen, labels), 0)
    assert float(mixture.model.second.detach().abs().max()) > 0
    shares = mixture.model.log_shares(seen, len(nodes)).exp()[0].detach()
    assert float(shares[half].mean()) > float(shares[~half].mean())


def test_a_mixture_is_saved_loaded_and_refitted(experts, graph, tmp_path):
    mixture = make_mixture(experts, [0.3, 0.3, 0.4], "full")
    refitted = mixture.refit()
    assert refitted.evaluate() == mixture.evaluate()
    state = refitted.refitted.model.state_dict()
    for place, expert in enumerate(experts):
        alone = expert.refit().refitted
        for name, value in alone.model.state_dict().items():
            assert torch.equal(state[f"experts.{place}.{name}"], value)
    assert torch.equal(refitted.refitted.grouping.group, experts[2].refit().refitted.grouping.group)
    folder = refitted.save(tmp_path / "kept")
    loaded = load_run(folder)
    assert torch.equal(loaded.refitted.logits(), refitted.refitted.logits())
    assert torch.equal(loaded.logits(), mixture.logits())
    again = refit_run(mixture.save(tmp_path / "second"))
    assert torch.equal(again.refitted.logits(), refitted.refitted.logits())
    damaged = folder / "experts.json"
    damaged.write_text(damaged.read_text().replace('"epochs": ', '"epochs": 1'))
    with pytest.raises(InputError, match=r"experts\.json has changed"):
        load_run(folder)


@pytest.mark.parametrize("after", [2, 20])
def test_an_interrupted_refit_of_a_mixture_continues_with_the_expert_it_was_at(
    experts, tmp_path, after
):
    whole = refit_run(make_mixture(experts, [0.3, 0.3, 0.4], "full").save(tmp_path / "whole"))
    folder = make_mixture(experts, [0.3, 0.3, 0.4], "full").save(tmp_path / "parts")
    epochs = []
    with pytest.raises(KeyboardInterrupt):
        refit_run(folder, on_epoch=epochs.append, stop=lambda: len(epochs) == after)
    finished = len(list((folder / "refit").glob("expert-*")))
    needed = [one.schedule.epochs for one in load_run(folder).experts]
    assert finished == sum(sum(needed[: n + 1]) < after for n in range(3))
    more = []
    again = refit_run(folder, on_epoch=more.append)
    assert len(more) == sum(needed[finished:])
    assert torch.equal(again.refitted.logits(), whole.refitted.logits())
    assert not list((folder / "refit").glob("expert-*"))


def test_a_mixture_says_how_much_each_expert_counts(experts):
    even = make_mixture(experts, [0.2, 0.3, 0.5], "none").evaluate()["mixture"]
    assert [one["share"] for one in even["experts"]] == pytest.approx([0.2, 0.3, 0.5])
    assert all("by_kind" not in one for one in even["experts"])
    mixture = make_mixture(experts, [0.2, 0.3, 0.5], "full")
    torch.manual_seed(0)
    with torch.no_grad():
        mixture.model.second.normal_()
    found = mixture.evaluate()["mixture"]
    test = mixture.split.test.copy()
    shares = mixture.model.shares(mixture.inputs, mixture.grouping.group)[:, test]
    mixed = torch.from_numpy(mixture.outcome.kinds[test] == "mixed")
    assert torch.allclose(shares.sum(0), torch.ones(len(test)))
    assert found["nodes_by_kind"]["mixed"] == int(mixed.sum()) > 0
    for one, mine in zip(found["experts"], shares, strict=True):
        assert one["share"] == pytest.approx(float(mine.mean()), abs=1e-6)
        assert one["by_kind"]["mixed"] == pytest.approx(float(mine[mixed].mean()), abs=1e-6)


def test_pages_of_a_mixture_do_not_speak_of_one_training(experts, tmp_path):
    mixture = make_mixture(experts, [0.2, 0.3, 0.5], "none")
    folder = mixture.save(tmp_path / "run")
    page = write_run_report(RunFolder(folder))[0].read_text()
    assert "those of the one expert that has any" in page
    for untrue in ("best epoch", "new high"):
        assert untrue not in page.lower()
    said = json.loads((folder / "result.json").read_text())
    two = [{"name": "mlp", "hidden": 4}, {"name": "gcn", "hidden": 4}]
    joint = ncgnn.fit(mixture.graph, "mixture", experts=two, epochs=1).save(tmp_path / "joint")
    assert "each trained on its own" in page
    assert "each trained on its own" not in write_run_report(RunFolder(joint))[0].read_text()
    result = RunResult(folder, mixture.config, said, mixture.seconds, fresh=True)
    names = [row[0] for row in summary_table([result]).rows]
    assert "seconds of all experts" in names
    assert "epochs" not in names


def test_what_other_seeds_chose_is_found_whatever_it_is(graph, place, tmp_path):
    few = {"combine": False, "candidates": ["logistic", "mlp"], "time": "1h"}
    runs = [
        auto_run(make_auto(dataset=place, seed=seed, settings=LONG | few), tmp_path, graph=graph)
        for seed in (0, 1)
    ]
    other = make_auto(dataset=place, seed=2, settings=LONG | few | {"candidates": ["gcn"]})
    auto_run(other, tmp_path, graph=graph)
    auto_run(make_auto(dataset=place, seed=3, settings=LONG | few | {"time": "2h"}), tmp_path,
             graph=graph)  # fmt: skip
    found = find_other_seeds(runs[0].folder)
    seeds = [load_run(one).config.training.seed for one in found]
    assert sorted(seeds) == [1, 3]  # more time is the same search, other candidates are not
    chosen = {load_run(one).config.model.options.get("penalty", "mlp") for one in found}
    assert chosen
    answers = load_run(runs[0].folder).predict(others=[load_run(one) for one in found])
    assert len(answers) == graph.num_nodes


def test_experts_that_were_trained_apart_are_not_trained_as_one(graph):
    with pytest.raises(InputError, match="trained must be 'jointly'"):
        ncgnn.fit(graph, "mixture", experts=[{"name": "mlp", "hidden": 4}], trained="apart")


def test_fit_and_the_estimator_choose_as_well(graph):
    records = []
    trained = ncgnn.fit(graph, "auto", on_epoch=records.append, **LONG)
    assert {record["candidate"] for record in records} >= {"mlp", "gcn"}
    assert trained.auto["sentence"]
    nodes = np.arange(200)
    classifier = ncgnn.NodeClassifier(graph, "auto", options=LONG | {"combine": False})
    classifier.fit(nodes, graph.labels[:200])
    assert classifier.predict(nodes[:5]).shape == (5,)
    assert classifier.trained_.auto["metric"] == "likelihood"


def test_what_the_graph_adds_is_said_with_its_interval(done):
    facts = facts_of(done)
    value, low, high = facts["gain"]["accuracy"]
    assert low <= value <= high
    assert f"{100 * value:+.1f}".replace("-", "−") in facts["sentence"]
    for model in ("gcn", "propagation"):
        assert model not in facts["gain"]["features"]


class Ticking:
    """A clock by which every epoch of some candidate takes ten seconds, once some were told."""

    def __init__(self, title, stop_at=None, told_again=0):
        self.title, self.now, self.stop_at, self.epochs = title, 0.0, stop_at, -told_again

    def __call__(self):
        return self.now

    def watcher(self):
        clock = self

        class Watcher(AutoWatcher):
            def on_epoch(self, title, record, spent, best):
                clock.epochs += title.startswith(clock.title)
                clock.now += 10 * (title.startswith(clock.title) and clock.epochs > 0)

        return Watcher()

    def stop(self):
        return self.stop_at is not None and self.epochs >= self.stop_at


# Before anything is planned, and 17 epochs into the shorter training, which then goes on.
@pytest.mark.parametrize(("stop_at", "done"), [(2, 2), (20, 17)])
def test_a_candidate_that_is_taken_up_again_is_planned_like_others(
    graph, place, tmp_path, stop_at, done
):
    # 60 epochs of ten seconds do not fit into 480, so that fewer are trained.
    told = {"candidates": ["majority", "gcn"], "epochs": 60, "time": 480, "combine": False}
    whole = Ticking("gcn")
    wanted = asked(place, **told)
    search = Search(wanted, graph, tmp_path / "a", clock=whole, watcher=whole.watcher())
    title = search.run().row.title
    assert "epochs" in title
    first = Ticking("gcn", stop_at)
    with pytest.raises(KeyboardInterrupt):
        Search(wanted, graph, tmp_path / "b", clock=first, stop=first.stop,
               watcher=first.watcher()).run()  # fmt: skip
    second = Ticking("gcn", told_again=done)
    again = Search(
        asked(place, **told), graph, tmp_path / "b", clock=second, watcher=second.watcher()
    )
    row = again.run().row
    assert "epochs" in row.title
    assert row.state == "finished"
    assert again.spent <= 480
    if done == 17:
        assert row.title == title


def test_what_cannot_be_dealt_into_folds_costs_the_gate_alone(graph, place, tmp_path):
    train = np.array([np.flatnonzero(graph.labels == label)[0] for label in range(3)])
    rest = np.setdiff1d(np.arange(graph.num_nodes), train)
    split = Split("custom", "custom", 0, train, rest[:100], rest[100:])
    search = Search(asked(place), graph, tmp_path, split=split)
    assert search.run().trained.auto["sentence"]
    gates = [row for row in search.combined if row.title.startswith("gate")]
    assert [(row.state, row.why) for row in gates] == [
        ("skipped", "there are too few training nodes: no class has two")
    ]


def test_searches_that_choose_the_same_run_tell_of_themselves(graph, place, tmp_path):
    few, more = (
        make_auto(dataset=place, settings={"combine": False, "candidates": names, "time": "1h"})
        for names in (["logistic"], ["logistic", "majority"])
    )
    first, second = (facts_of(auto_run(one, tmp_path, graph=graph)) for one in (few, more))
    assert len(first["candidates"]) < len(second["candidates"])
    assert facts_of(auto_run(few, tmp_path, graph=graph)) == first
    assert facts_of(auto_run(more, tmp_path, graph=graph)) == second


def test_without_edges_models_of_features_are_tried(place):
    alone = ncgnn.Graph.from_edge_index(np.zeros((2, 0), dtype=int), num_nodes=30,
                                        features=np.eye(30), labels=np.arange(30) % 2)  # fmt: skip
    found = {one.model for one in list_candidates(make_auto(dataset=place), alone)}
    assert found == {"majority", "logistic", "feature-boosting", "mlp"}


def test_without_features_the_commonest_class_stands_for_them(graph, tmp_path):
    bare = ncgnn.Graph.from_edge_index(graph.edge_index(), labels=graph.labels)
    place = tmp_path / "bare.npz"
    ncgnn.save(bare, place)
    assert {one.model for one in list_candidates(make_auto(dataset=str(place)), bare)} >= {
        "majority", "propagation", "boosting", "gcn", "ncgcn",
    }  # fmt: skip
    names = ["majority", "propagation", "boosting", "ncgcn"]
    with pytest.warns(NcgnnWarning, match="the nodes have no features"):
        run = auto_run(asked(str(place), candidates=names), tmp_path / "runs", graph=bare)
    gain = facts_of(run)["gain"]
    assert gain["features"] == "majority"
    assert "to the commonest class" in facts_of(run)["sentence"]
    test = run.result["scores"]["test"]
    assert test["accuracy"] > 0.4  # the commonest class has a third
    trained = load_run(run.folder)
    later = trained.graph.extend(1, [[0], [300]])
    assert trained.predict(later, only="new").table.num_rows == 1
    why = trained.explain(0)
    assert why.num_features == 0
    assert {effect.part for effect in why.effects} == {"neighbors", "neighbor"}


def test_random_numbers_of_the_program_stay_as_they_were(graph):
    torch.manual_seed(1)
    ncgnn.fit(graph, "auto", **LONG | {"candidates": ["boosting", "gcn"], "combine": False})
    found = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(found, torch.rand(3))


def test_a_mixture_is_of_an_earlier_revision_with_any_of_its_experts(experts, monkeypatch):
    mixture = make_mixture(experts[:2], [0.5, 0.5], "none")
    options = mixture.config.model.options
    before = type(mixture.model).revision_of(options)
    name = options["experts"][0]["name"]
    monkeypatch.setattr(model_class(name), "revision_of", classmethod(lambda cls, options: 9))
    assert type(mixture.model).revision_of(options) > before


def test_others_must_answer_for_the_same_nodes(graph):
    larger = ncgnn.generate(320, 1200, classes=3, features=12, seed=4)
    options = {"hidden": 4, "epochs": 2}
    one, other = (ncgnn.fit(some, "mlp", **options) for some in (graph, larger))
    with pytest.raises(InputError, match="others must be models of the same graph"):
        one.predict(larger, only="new", others=[other])


def test_an_average_of_features_alone_is_told_beside_the_graph(graph, place, tmp_path):
    search = Search(asked(place), graph, tmp_path)
    search.run()
    rows = {row.title: row for row in search.rows.values()}
    plain = [search._load(rows[title]) for title in ("logistic", "mlp")]
    average = make_mixture([one.trained for one in plain], [0.5, 0.5], "none")
    row = Row("average of logistic, mlp", "mixture", "")
    facts = search._facts(plain[0].__class__(average, row))
    assert facts["gain"]["features"] == row.title
    assert facts["sentence"].startswith(
        f"The graph adds nothing that validation shows: {row.title}"
    )
    told = facts["sentence"].split("; ")[1]
    assert told.startswith(("gcn", "ncgcn", "propagation", "average of"))
    assert "logistic" not in told
    assert "mlp" not in told


def test_experts_of_a_mixture_have_said_what_is_wrong(graph):
    bare, expert = replace(graph, features=None), ncgnn.fit(graph, "gcn", hidden=4, epochs=2)
    mixture = make_mixture([expert] * 2, [0.5, 0.5], "none")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NcgnnWarning)
        mixture.model.check_graph(bare)


def test_titles_tell_the_decay_that_is_trained():
    x = np.random.default_rng(0).normal(size=20)
    nodes = {"id": list(range(20)), "x": x, "y": ["a", "b"] * 10}
    edges = {"s": list(range(19)), "t": list(range(1, 20))}
    graph = ncgnn.read_tables(nodes, edges, label="y")
    titles = [one.title for one in list_candidates(make_auto(dataset="digits"), graph)]
    assert "mlp, decay 0.0001" in titles
    given = make_auto(dataset="digits", settings={"weight_decay": 0.01})
    found = [one for one in list_candidates(given, graph) if one.model == "mlp"]
    assert [(one.title, one.config.training.weight_decay) for one in found] == [("mlp", 0.01)]
