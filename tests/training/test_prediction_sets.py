"""Prediction sets: what they promise, on what, and what they may see."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin

import ncgnn
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.training import (
    SetRule,
    nc_edges,
    nc_group,
    prediction_sets,
    with_best,
)
from ncgnn.training.prediction_sets import (
    conformal_quantile,
    merge_small,
    set_scores,
    smallest_group,
)

SCORES = ("lac", "aps", "aps-random")


def draw(count, classes=5, seed=0):
    """Probabilities that are too sure where NC is high, with labels, NC and ids."""
    random = np.random.default_rng(seed)
    confusion = np.maximum(random.uniform(-0.4, 1, size=count), 0)  # many zeros
    true = random.normal(size=(count, classes)) * (4 - 3 * confusion)[:, None]
    labels = (true + random.gumbel(size=true.shape)).argmax(1)
    said = np.exp(true * (1 + confusion)[:, None])
    shares = said / said.sum(1, keepdims=True)
    return shares, labels, confusion, np.arange(count) + 1000 * seed


def test_quantiles_by_hand():
    scores = np.arange(1, 10) / 10  # n = 9
    assert conformal_quantile(scores, 0.9) == 0.9  # the ninth of nine
    assert conformal_quantile(scores, 0.7) == 0.7  # 0.7 · 10 is 7, not a little more
    assert conformal_quantile(scores, 0.91) == np.inf
    assert conformal_quantile(scores[:0], 0.5) == np.inf
    assert conformal_quantile(scores, 1e-12) == 0.1  # the first, however little is asked for
    assert [smallest_group(c) for c in (0.5, 0.9, 0.95, 0.99)] == [50, 50, 100, 500]


def test_scores_by_hand():
    shares = np.array([[0.2, 0.5, 0.3]])
    np.testing.assert_allclose(set_scores(shares, "lac"), [[0.8, 0.5, 0.7]])
    np.testing.assert_allclose(set_scores(shares, "aps"), [[1.0, 0.5, 0.8]])
    random = set_scores(shares, "aps-random", np.array(["bash"]))
    part = (1.0 - random[0, 0]) / 0.2
    assert 0 <= part < 1
    np.testing.assert_allclose(random, [[1.0 - part * 0.2, 0.5 - part * 0.5, 0.8 - part * 0.3]])
    with pytest.raises(InputError, match="sets must be"):
        set_scores(shares, "raps")
    with pytest.raises(InputError, match="ids"):
        set_scores(shares, "aps-random")


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.7, 1.0, np.nan]), max_size=200),
    st.integers(1, 40),
)
def test_groups_hold_enough_and_keep_equals_together(values, smallest):
    confusion = np.array(values, dtype=float)
    edges = merge_small(nc_edges(confusion), confusion, smallest)
    group = nc_group(confusion, edges)
    assert list(edges) == sorted(set(edges))
    assert len(edges) < 5
    assert ((group < 0) == np.isnan(confusion)).all()
    if edges:
        assert np.bincount(group[group >= 0], minlength=len(edges) + 1).min() >= smallest
    for value in np.unique(confusion[~np.isnan(confusion)]):
        assert len(set(group[confusion == value])) == 1
    assert nc_group(np.array([-1.0, 2.0]), edges).tolist() == [0, len(edges)]


def test_groups_are_fifths_of_the_nodes_that_they_are_for():
    shares, labels, confusion, _ = draw(400)
    like = np.linspace(0.5, 1, 5000)
    rule = SetRule.fit(shares, labels, confusion, like=like)
    assert set(rule.edges) <= set(nc_edges(like))
    assert min(rule.nodes) >= smallest_group(0.9)
    assert sum(rule.nodes) == 400
    assert merge_small((0.1, 0.2, 0.3), np.array([0.05, 0.25, 0.25, 0.9]), 1) == (0.2, 0.3)


def test_fifths_of_distinct_values():
    confusion = np.random.default_rng(0).permutation(np.arange(1000) / 1000)
    assert np.bincount(nc_group(confusion, nc_edges(confusion))).tolist() == [200] * 5


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_coverage_is_as_promised_in_every_group(score, coverage):
    held, in_group = [], []
    for seed in range(30):
        shares, labels, confusion, ids = draw(3000, seed=seed)
        old, new = slice(0, 1000), slice(1000, 3000)
        told = {"coverage": coverage, "score": score, "ids": ids[old]}
        rule = SetRule.fit(shares[old], labels[old], confusion[old], **told)
        sets = rule.sets(shares[new], confusion[new], ids[new], allow_empty=True)
        holds = sets[np.arange(2000), labels[new]]
        held.append(holds.mean())
        group = nc_group(confusion[new], nc_edges(confusion))
        in_group.append([holds[group == one].mean() for one in range(group.max() + 1)])
    assert np.mean(held) == pytest.approx(coverage, abs=0.01)
    np.testing.assert_allclose(np.mean(in_group, axis=0), coverage, atol=0.025)


def test_one_limit_for_all_breaks_where_nodes_are_confused():
    shares, labels, confusion, _ = draw(20_000)
    rule = SetRule.fit(shares, labels)
    holds = rule.sets(shares, confusion)[np.arange(len(labels)), labels]
    assert holds[confusion > 0.8].mean() < 0.8


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(SCORES), st.booleans())
def test_more_coverage_never_takes_a_class_away(seed, score, by):
    shares, labels, confusion, ids = draw(300, seed=seed)
    before = None
    for coverage in (0.3, 0.6, 0.8, 0.9):  # all of them with the same groups
        told = {"coverage": coverage, "score": score, "ids": ids}
        rule = SetRule.fit(shares, labels, confusion if by else None, **told)
        sets = rule.sets(shares, confusion, ids)
        assert sets.any(1).all()
        if before is not None:
            assert (sets | ~before).all()
        before = sets


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(SCORES))
def test_the_order_of_nodes_does_not_matter(seed, score):
    shares, labels, confusion, ids = draw(400, seed=seed)
    order = np.random.default_rng(seed).permutation(400)
    one = SetRule.fit(shares, labels, confusion, score=score, ids=ids)
    turned = shares[order], labels[order], confusion[order]
    other = SetRule.fit(*turned, score=score, ids=ids[order])
    assert one == other
    sets = one.sets(shares, confusion, ids)
    assert (other.sets(shares[order], confusion[order], ids[order]) == sets[order]).all()


def test_empty_sets_get_the_most_probable_class():
    shares = np.array([[0.2, 0.5, 0.3], [0.05, 0.05, 0.9]])
    rule = SetRule("lac", 0.9, (), (0.2,), (100,), 0.2)
    nc = np.zeros(2)
    assert rule.sets(shares, nc, allow_empty=True).tolist() == [[False] * 3, [False, False, True]]
    assert rule.sets(shares, nc).tolist() == [[False, True, False], [False, False, True]]


def test_unknown_nc_counts_as_the_highest():
    shares, labels, confusion, _ = draw(500)
    rule = SetRule.fit(shares, labels, confusion)
    assert len(rule.limits) > 1
    unknown, highest = np.full(500, np.nan), np.full(500, 1.0)
    assert (rule.sets(shares, unknown) == rule.sets(shares, highest)).all()
    every = SetRule.fit(shares, labels)
    assert (every.sets(shares, unknown) == every.sets(shares, highest)).all()


def test_nodes_that_are_alone_have_a_limit_of_their_own_if_there_are_enough():
    shares, labels, confusion, _ = draw(1000)
    confusion[:60] = np.nan
    few, many = 49, 60
    for count in (few, many):
        kept = np.r_[0:count, 60:1000]
        rule = SetRule.fit(shares[kept], labels[kept], confusion[kept])
        own = 1 - shares[kept][np.arange(len(kept)), labels[kept]]
        top = (confusion[kept] > rule.edges[-1]) | np.isnan(confusion[kept])
        wanted = own[:count] if count == many else own[top]
        assert rule.limit == conformal_quantile(wanted, 0.9)
        assert sum(rule.nodes) == 940 + (count == few) * few


def test_sets_hold_for_nodes_without_neighbors_too():
    """Half of the nodes have no edges, and features that tell less."""
    random = np.random.default_rng(0)
    drawn = ncgnn.generate(600, 2400, classes=4, features=8, homophily=0.9, seed=3)
    labels = np.concatenate([drawn.labels, random.integers(0, 4, 600)])
    noise = random.normal(0, 1.5, (600, 8)) + np.eye(8)[labels[600:]]
    features = np.concatenate([np.asarray(drawn.to_pyg().x), noise]).astype(np.float32)
    edges = drawn.to_pyg().edge_index
    graph = ncgnn.Graph.from_edge_index(edges, labels=labels, features=features)
    trained = ncgnn.fit(graph, "tuned-sage", hidden=16, epochs=30)
    report = trained.evaluate()["sets"]
    assert report["groups"]["alone"] > 50
    (alone,) = [part for part in report["parts"] if (part["by"], part["part"]) == ("nc", "alone")]
    assert alone["lac_by_nc"]["coverage"] > 0.82
    assert alone["lac"]["coverage"] < alone["lac_by_nc"]["coverage"]


@pytest.mark.parametrize("coverage", [0, 1, 90, -0.1, np.nan, "0.9", True])
def test_a_coverage_is_a_share(coverage):
    shares, labels, *_ = draw(50)
    with pytest.raises(InputError, match="coverage must lie between 0 and 1"):
        SetRule.fit(shares, labels, coverage=coverage)


class _Shares(ClassifierMixin, BaseEstimator):
    """Answers with the probabilities that it is given as features."""

    def fit(self, X, y):
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(1)


@pytest.mark.parametrize("coverage", [0.8, 0.9])
@pytest.mark.parametrize("score", ["lac", "aps"])
def test_quantiles_and_sets_are_those_of_mapie(score, coverage, monkeypatch):
    pytest.importorskip("mapie", reason="mapie, of the extra dev, is not installed")
    from mapie.classification import SplitConformalClassifier

    shares, labels, confusion, ids = draw(601)
    shares = shares / shares.sum(1, keepdims=True)
    old, new = slice(0, 301), slice(301, 601)
    theirs = SplitConformalClassifier(
        _Shares().fit(shares, labels),
        confidence_level=coverage,
        conformity_score=score,
        prefit=True,
        random_state=7,
    ).conformalize(shares[old], labels[old])
    options = {"include_last_label": False} if score == "aps" else {}
    _, sets = theirs.predict_set(shares[new], conformity_score_params=options)
    # MAPIE draws the random part of a score of APS; ours follow from ids.
    drawn = np.random.RandomState(7).uniform(size=301)
    monkeypatch.setattr(prediction_sets, "_random_parts", lambda ids: drawn)
    name = "aps-random" if score == "aps" else "lac"
    rule = SetRule.fit(shares[old], labels[old], coverage=coverage, score=name, ids=ids[old])
    quantile = theirs._mapie_classifier.conformity_score_function_.quantiles_[0]
    assert rule.limit == pytest.approx(quantile, abs=1e-12)
    plain = SetRule(score, coverage, (), (rule.limit,), (301,), rule.limit)
    assert (plain.sets(shares[new], confusion[new]) == sets[:, :, 0]).all()


@pytest.fixture(scope="module")
def graph():
    made = ncgnn.generate(700, 2800, classes=4, features=8, homophily=0.7, seed=5)
    nodes = np.array([f"n{i}" for i in range(700)])
    return ncgnn.Graph.from_edge_index(
        made.edge_index(),
        features=made.features,
        labels=np.array(["ash", "birch", "cedar", "date"])[made.labels],
        node_ids=nodes,
    )


def fit(graph, seed=0, **more):
    chosen = {"hidden": 16, "epochs": 25, "learning_rate": 0.05, "precision": "float64"}
    return ncgnn.fit(graph, "sage", seed=seed, **chosen | more)


@pytest.fixture(scope="module")
def trained(graph):
    return fit(graph)


def members(answers):
    """The sets of answers as they stand in the table."""
    return answers.table["set"].to_pylist()


def test_answers_have_sets(trained, graph):
    plain = trained.predict()
    assert "set" not in plain.table.column_names
    answers = trained.predict(coverage=0.9)
    assert answers.table.schema.field("set").type == pa.list_(pa.string())
    rule, names = trained.set_rule(0.9), graph.class_names
    sets = rule.sets(trained.probabilities(), trained.outcome.confusion)
    for row, held, shares in zip(answers, sets, trained.probabilities(), strict=True):
        order = np.argsort(-shares, kind="stable")
        assert row["set"] == [names[c] for c in order if held[c]]
        assert row["set"][0] == row["predicted"]
        assert row["set_size"] == len(row["set"])
    said = answers.summary()
    assert said["mean_set_size"] == pytest.approx(sets[~trained.seen].sum(1).mean())
    assert (said["seen"], said["new_nodes"]) == (len(trained.split.train), 0)
    assert answers.table.drop_columns(["set", "set_size"]).equals(plain.table)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("by", ["nc", "none"])
def test_sets_come_from_validation_nodes_alone(trained, graph, score, by):
    labels, test = graph.labels.copy(), trained.split.test
    labels[test] = np.random.default_rng(2).permutation(labels[test])
    other = fit(graph.with_labels(labels), split=trained.split)
    asked = {"coverage": 0.9, "sets": score, "sets_by": by}
    one, two = (model.predict(**asked).table["set"] for model in (trained, other))
    assert one.equals(two)
    assert other.set_rule(0.9, score, by) == trained.set_rule(0.9, score, by)
    assert sum(trained.set_rule(0.9, score, by).nodes) == len(trained.split.val)


def test_new_nodes_and_refitted_models_have_sets(trained, graph):
    ends = np.stack([np.arange(20), np.arange(700, 720)])
    names = [f"new{i}" for i in range(20)]
    later = graph.extend(graph.features[:20], ends, node_ids=names)
    answers = trained.predict(later, only="new", coverage=0.9)
    assert len(answers) == 20
    assert answers["set_size"].min() >= 1
    refitted = trained.refit()
    assert refitted.refitted.set_rule(0.9) == trained.set_rule(0.9)
    again = refitted.predict(later, only="new", coverage=0.9)
    assert again["set_size"].min() >= 1
    own, old = refitted.predict(coverage=0.9), trained.predict(coverage=0.9)
    assert members(own) == members(old)  # all nodes have labels, and keep their answers


def test_several_models_vote_on_classes(trained, graph):
    labels = graph.labels.copy()
    labels[:100] = -1
    hidden = graph.with_labels(labels)
    models = [fit(hidden, seed) for seed in range(3)]
    asked = {"only": "unlabeled", "coverage": 0.9}
    single = [members(one.predict(**asked)) for one in models]
    answers = models[0].predict(others=models[1:], **asked)
    for row, *sets in zip(answers, *single, strict=True):
        voted = {name for name in graph.class_names if sum(name in one for one in sets) >= 1.5}
        assert set(row["set"]) == (voted or {row["predicted"]})


def test_files_hold_sets(trained, graph, tmp_path):
    answers = trained.predict(coverage=0.9)
    kept = pyarrow.parquet.read_table(answers.write(tmp_path / "a.parquet"))
    assert kept["set"].to_pylist() == members(answers)
    table = pyarrow.csv.read_csv(answers.write(tmp_path / "a.csv"))
    assert table["set"].to_pylist() == [" | ".join(one) for one in members(answers)]
    numbers = fit(ncgnn.generate(200, 600, classes=3, features=4, seed=1)).predict(coverage=0.8)
    assert numbers.table.schema.field("set").type == pa.list_(pa.int64())
    table = pyarrow.csv.read_csv(numbers.write(tmp_path / "b.csv"))
    wanted = [" | ".join(map(str, one)) for one in members(numbers)]
    assert list(map(str, table["set"].to_pylist())) == wanted


def test_too_few_validation_nodes_are_told(trained):
    with pytest.warns(NcgnnWarning, match="needs 999 validation nodes or more; there are 140"):
        answers = trained.predict(coverage=0.999)
    assert (answers["set_size"] == 4).all()
    # Who only looks at scores has not asked for sets.
    assert trained.evaluate(coverage=0.999)["sets"]["parts"][0]["lac"]["size"] == 4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"coverage": 90}, "coverage must lie between 0 and 1; got 90"),
        ({"coverage": 0.9, "sets": "raps"}, "sets must be 'lac', 'aps' or 'aps-random'"),
        ({"coverage": 0.9, "sets_by": "kind"}, "sets_by must be 'nc' or 'none'"),
        ({"sets": "aps"}, "sets, sets_by and allow_empty need a coverage"),
        ({"sets_by": "none"}, "sets, sets_by and allow_empty need a coverage"),
        ({"allow_empty": True}, "sets, sets_by and allow_empty need a coverage"),
    ],
)
def test_wrong_words_are_named(trained, wrong, words):
    with pytest.raises(InputError, match=words):
        trained.predict(**wrong)


def test_the_evaluation_counts_what_predict_gives(trained, graph):
    report = trained.evaluate(coverage=0.8)["sets"]
    assert report["coverage"] == 0.8
    assert report["groups"]["nodes"] == list(trained.set_rule(0.8).nodes)
    answers = trained.predict(only="test", coverage=0.8)
    holds = np.array([row["label"] in row["set"] for row in answers])
    parts = {(one["by"], one["part"]): one for one in report["parts"]}
    overall = parts["all", "all"]["lac_by_nc"]
    assert overall["coverage"] == pytest.approx(holds.mean())
    assert overall["size"] == pytest.approx(answers["set_size"].mean())
    assert overall["limit_coverage"] <= overall["coverage"]
    for kind in ("clear", "mixed"):
        chosen = answers["kind"] == kind
        assert parts["kind", kind]["nodes"] == chosen.sum()
        assert parts["kind", kind]["lac_by_nc"]["coverage"] == pytest.approx(holds[chosen].mean())
    for by in ("nc", "kind", "degree", "class"):
        assert sum(one["nodes"] for one in report["parts"] if one["by"] == by) == len(answers)
    divided = trained.evaluate()["accuracy_by_degree"]
    degrees = {one["part"]: one["nodes"] for one in report["parts"] if one["by"] == "degree"}
    ranges = {(one["from"], one["to"]): one["nodes"] for one in divided}
    assert degrees == {"–".join(map(str, dict.fromkeys(ends))): n for ends, n in ranges.items()}
    bare = trained.predict(only="test", coverage=0.8, allow_empty=True)
    held = np.array([row["label"] in row["set"] for row in bare])
    assert overall["limit_coverage"] == pytest.approx(held.mean())
    assert with_best(np.zeros((1, 3), dtype=bool), np.array([[0.1, 0.2, 0.7]])).sum() == 1


def test_few_nodes_with_neighbors_among_many_without_share_their_limit():
    random = np.random.default_rng(0)
    shares = random.dirichlet(np.ones(4), size=70)
    labels = random.integers(0, 4, size=70)
    confusion = np.where(np.arange(70) < 65, np.nan, 0.2)
    rule = SetRule.fit(shares, labels, confusion)
    assert np.isfinite(rule.limits).all()
    assert rule.limits == (rule.limit,)


def test_why_there_are_fewer_than_five_groups_is_said():
    random = np.random.default_rng(0)

    def remark(confusion):
        shares = random.dirichlet(np.ones(3), len(confusion))
        labels = random.integers(0, 3, len(confusion))
        return SetRule.fit(shares, labels, confusion).about_groups()

    assert remark(random.random(400)) == ""
    few = "a group needs 50 validation nodes with neighbors, and there are"
    assert remark(random.random(120)) == f"2 groups of NC and not 5: {few} 120."
    assert remark(random.random(60)) == f"One limit for all NC: {few} 60."
    tied = np.where(random.random(400) < 0.85, 0, random.random(400))
    assert remark(tied).endswith("many validation nodes have the same NC.")
    alone = np.append(random.random(65), np.full(65, np.nan))
    assert remark(alone) == f"One limit for all NC, and one for nodes that are alone: {few} 65."
