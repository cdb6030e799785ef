from __future__ import annotations

import json
import re
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from sweep_cells import tiny_cells

from ncgnn.errors import InputError
from ncgnn.experiments import (
    Record,
    as_records,
    format_value,
    paired_test,
    read_runs,
    read_stored,
    results_table,
    short_names,
    uneven_efforts,
    without_pairs,
    write_stored,
)
from ncgnn.report import results_columns, results_tables
from ncgnn.training import train_run
from ncgnn.training.config import config_sha256

SCORES = st.lists(
    st.tuples(st.floats(0, 1, width=32), st.floats(0, 1, width=32)), min_size=2, max_size=12
)


def record(model="gcn", seed=0, test=0.5, split="paper", dataset="digits", nodes=None, **options):
    config = {
        "data": {"dataset": dataset, "split": split, "scaling": "raw"},
        "model": {"name": model, "hidden": 8} | options,
        "training": {"seed": seed, "device": "cpu", "metric": "accuracy", "averaging": 0.0},
    }
    part = {"accuracy": test, "macro_f1": test / 2}
    result = {
        "scores": {"val": part, "test": part},
        "majority_baseline": 0.1,
        "epochs": 3,
        "split_sha256": f"{dataset}{split}{seed}",
    }
    if nodes is not None:
        result["nodes"] = nodes
    return Record(f"run-{config_sha256(config)[:10]}", config, result, 2.0)


def test_rows_are_runs_that_differ_in_their_seed_only():
    rows = results_table([record(seed=s, test=s / 10) for s in (2, 0, 1)])
    assert len(rows) == 1
    assert list(rows[0].records) == [0, 1, 2]
    assert rows[0].spread("test").mean == pytest.approx(0.1)
    assert rows[0].spread("test").std == pytest.approx(0.1)
    assert rows[0].spread("test", "roc_auc") is None


def test_split_families_never_share_a_row():
    rows = results_table([record(split="paper"), record(split="stratified", seed=1)])
    assert [row.split for row in rows] == ["paper", "stratified"]


def test_a_row_is_named_after_what_is_unusual():
    usual = [record("ncgcn", seed=s, hops=1, mode="a") for s in (0, 1)]
    rows = results_table([*usual, record("ncgcn", hops=2, mode="a"), record("mlp")])
    assert [row.label for row in rows] == ["mlp", "ncgcn", "ncgcn hops=2"]


def test_where_no_value_is_usual_every_row_says_its_own():
    rows = results_table([record("ncgcn", mode=mode) for mode in ("a", "b", "c")])
    assert [row.label for row in rows] == ["ncgcn mode=a", "ncgcn mode=b", "ncgcn mode=c"]


def test_runs_of_several_versions_of_the_code_are_marked(tmp_path):
    old, new, unknown = (replace(record(seed=s), code=c) for s, c in enumerate(["aa", "bb", ""]))
    assert write_stored([old, new, unknown], tmp_path / "kept.jsonl") == 3
    (row,) = results_table(read_stored(tmp_path / "kept.jsonl"))
    assert row.codes == {"aa", "bb"}
    (grid,) = results_tables([row])
    assert grid.rows[0][2] == "3‡"
    assert any("different versions" in note for note in grid.notes)
    (grid,) = results_tables(results_table([new, unknown]))
    assert grid.rows[0][2] == "2"
    assert not any("different versions" in note for note in grid.notes)
    assert results_columns([row])["code_versions"].tolist() == [2]
    (row,) = results_table([replace(new, code="bb+cc"), unknown])
    assert row.codes == {"bb", "cc"}


def test_other_devices_are_other_rows():
    other = record(test=0.9)
    other.config["training"]["device"] = "cuda"
    assert len(results_table([record(), other])) == 2


def test_without_a_known_split_there_is_no_comparison():
    first, second = ([record(m, s, 0.5 + s / 10) for s in range(4)] for m in "ab")
    for one in (*first, *second):
        one.result["split_sha256"] = None
    assert results_table([*first, *second], against="b")[0].difference is None


def test_exported_rows_name_pairs_and_runs():
    records = [record(m, s, 0.5 + s / 10) for m, n in (("a", 2), ("b", 3)) for s in range(n)]
    columns = results_columns(results_table(records, against="b"))
    assert list(columns["against"]) == ["b", ""]
    assert list(columns["pairs"]) == [2, 0]
    assert columns["runs"][0].split() == [one.name for one in records[:2]]


def test_comparison_uses_common_seeds_only():
    first = [record("a", s, t) for s, t in ((0, 0.5), (1, 0.7), (2, 0.6))]
    second = [record("b", s, t) for s, t in ((1, 0.6), (2, 0.6), (3, 0.9))]
    row = results_table([*first, *second], against="b")[0]
    assert row.difference.seeds == 2
    assert row.difference.mean == pytest.approx(0.05)
    assert results_table([*first, *second], against="b")[1].difference is None


def test_runs_on_other_splits_are_no_pairs():
    others = [record("b", seed, 0.4) for seed in (0, 1, 2)]
    others[0].result["split_sha256"] = "drawn otherwise"
    mine = [record("a", seed, 0.5) for seed in (0, 1, 2)]
    assert results_table([*mine, *others], against="b")[0].difference.seeds == 2
    assert results_table([mine[0], others[0]], against="b")[0].difference is None


def test_runs_without_test_nodes_are_not_compared():
    untested = record("a", 0)
    del untested.result["scores"]["test"]
    rows = results_table([untested, record("b", 0)], against="b")
    assert rows[0].difference is None
    assert rows[0].spread("test") is None


def test_without_the_sizes_of_the_splits_there_is_no_p_value():
    pairs = [(0.5, 0.4), (0.6, 0.52), (0.7, 0.61)]
    records = [record("a", s, a) for s, (a, _) in enumerate(pairs)]
    records += [record("b", s, b) for s, (_, b) in enumerate(pairs)]
    found = results_table(records, against="b")[0].difference
    assert found.p_value is None
    assert found.over is None
    assert found.mean == pytest.approx(0.09)


def test_seeds_on_one_split_speak_of_initializations():
    pairs = [(0.5, 0.4), (0.6, 0.52), (0.7, 0.61)]
    nodes = {"train": 30, "val": 10, "test": 10}
    records = [record("a", s, a, nodes=nodes) for s, (a, _) in enumerate(pairs)]
    records += [record("b", s, b, nodes=nodes) for s, (_, b) in enumerate(pairs)]
    for one in records:
        one.result["split_sha256"] = "the only one"
    found = results_table(records, against="b")[0].difference
    assert found.over == "initializations"
    assert found.p_value == paired_test(*zip(*pairs, strict=True)).p_value
    records[0].result["split_sha256"] = records[3].result["split_sha256"] = "another"
    assert results_table(records, against="b")[0].difference.p_value is None


def test_comparison_with_nobody_and_with_several():
    with pytest.raises(InputError, match="no runs; known: a"):
        results_table([record("a")], against="c")
    sizes = ((1, 1, 2), (1, 2, 1), (2, 1, 1))
    records = [record("b", hops=h, width=w, depth=d) for h, w, d in sizes] + [record("a")]
    labels = [row.label for row in results_table(records)]
    assert "b" not in labels
    with pytest.raises(InputError, match="several rows"):
        results_table(records, against="b")
    assert results_table(records, against=labels[-1])[0].difference is not None


@given(SCORES)
@settings(max_examples=50, deadline=None)
def test_without_correction_it_is_students_paired_test(pairs):
    first, second = np.array(pairs, dtype=np.float64).T
    found = paired_test(first.tolist(), second.tolist())
    assert found.mean == pytest.approx((first - second).mean(), abs=1e-12)
    if np.std(first - second) > 1e-6:
        assert found.p_value == pytest.approx(ttest_rel(first, second).pvalue, rel=1e-6, abs=1e-12)


def test_overlapping_splits_make_a_difference_less_sure():
    first, second = [0.5, 0.6, 0.7], [0.4, 0.52, 0.61]
    plain, corrected = paired_test(first, second), paired_test(first, second, 1 / 3)
    assert corrected.p_value > plain.p_value
    assert corrected.mean == plain.mean
    # With two degrees of freedom p = 1 - t / sqrt(2 + t^2); here t = 0.09 / sqrt((2/3) 0.0001).
    statistic = 0.09 / np.sqrt((1 / 3 + 1 / 3) * 0.0001)
    by_hand = 1 - statistic / np.sqrt(2 + statistic**2)
    assert corrected.p_value == pytest.approx(by_hand, rel=1e-6)


def test_the_correction_is_taken_from_the_split():
    nodes = {"train": 30, "val": 10, "test": 10}
    pairs = [(0.5, 0.4), (0.6, 0.52), (0.7, 0.61)]
    records = [record("a", s, a, nodes=nodes) for s, (a, _) in enumerate(pairs)]
    records += [record("b", s, b, nodes=nodes) for s, (_, b) in enumerate(pairs)]
    found = results_table(records, against="b")[0].difference
    expected = paired_test([a for a, _ in pairs], [b for _, b in pairs], 1 / 3)
    assert found == replace(expected, over="splits", against="b")


def test_few_and_equal_values():
    assert paired_test([0.5], [0.4]).p_value is None
    assert paired_test([0.5, 0.6], [0.5, 0.6]).p_value is None
    assert paired_test([0.75, 0.5], [0.5, 0.25]).p_value is None
    with pytest.raises(InputError):
        paired_test([0.5], [0.5, 0.6])


def test_runs_are_read_whole_or_not_at_all(tmp_path):
    configs = tiny_cells(["mlp"], (0, 1, 2))
    for config in configs:
        train_run(config, tmp_path)
    damaged, unfinished = (tmp_path / config.name for config in configs[:2])
    body = (damaged / "result.json").read_text()
    (damaged / "result.json").write_text(body.replace("accuracy", "accurecy", 1))
    (unfinished / "done.json").unlink()
    failed = tmp_path / "failed"
    failed.mkdir()
    (failed / "error.json").write_text('{"format": 1, "error": "out of luck"}')
    (tmp_path / "notes").mkdir()
    records, problems = read_runs(tmp_path)
    assert [r.name for r in records] == [configs[2].name]
    assert "changed" in problems[damaged]
    assert "not finished" in problems[unfinished]
    assert problems[failed] == "failed: out of luck"
    assert len(problems) == 3
    assert records == as_records([train_run(configs[2], tmp_path)])


def test_stored_records_add_up(tmp_path):
    path = tmp_path / "kept.jsonl"
    first, second = record(seed=0), record(seed=1)
    assert write_stored([first], path) == 1
    assert write_stored([first, second], path) == 1
    assert read_stored(path) == [first, second]
    path.write_text(path.read_text() + "{torn")
    with pytest.raises(InputError, match=r"kept\.jsonl, line 3"):
        read_stored(path)


def test_an_earlier_revision_never_replaces_a_later_one(tmp_path):
    path, old = tmp_path / "kept.jsonl", record(test=0.4)
    new = replace(old, result=record(test=0.5).result | {"revision": 2})
    assert write_stored([old], path) == 1
    assert write_stored([new], path) == 1
    assert write_stored([old], path) == 0
    assert read_stored(path) == [new]


@pytest.mark.parametrize(
    "harm",
    [
        lambda fields: fields["config"].clear(),
        lambda fields: fields["config"]["model"].update(hidden=999),
        lambda fields: fields["result"]["scores"].clear(),
        lambda fields: fields["result"]["scores"]["test"].update(accuracy="much"),
        lambda fields: fields.pop("seconds"),
    ],
)
def test_stored_records_that_are_none(tmp_path, harm):
    path = tmp_path / "kept.jsonl"
    write_stored([record()], path)
    fields = json.loads(path.read_text())
    harm(fields)
    path.write_text(json.dumps(fields) + "\n")
    with pytest.raises(InputError, match=r"line 1: must be the record"):
        read_stored(path)


def test_there_must_be_a_folder(tmp_path):
    with pytest.raises(InputError, match="--runs"):
        read_runs(tmp_path / "nowhere")


def test_differences_that_are_equal_but_for_rounding_have_no_p_value():
    first, second = [0.1 + 0.2, 0.7], [0.1, 0.5]
    assert 0 < statistics.variance([a - b for a, b in zip(first, second, strict=True)]) < 1e-30
    found = paired_test(first, second)
    assert (found.p_value, found.std) == (None, 0.0)


def test_uneven_comparisons_are_told():
    records = [record("a", s, hidden=16) for s in range(2)] + [record("b", s) for s in range(2)]
    records += [record("c", s, depth=3) for s in range(2)]
    rows = results_table(records, against="b")
    assert uneven_efforts(rows) == ["a and b on digits differ in hidden (16 and 8)"]
    assert uneven_efforts(results_table(records)) == []
    averaged = record("d", 0)
    averaged.config["training"]["averaging"] = 0.9
    rows = results_table([averaged, record("b", 0)], against="b")
    assert uneven_efforts(rows) == ["d and b on digits differ in averaging (0.9 and 0.0)"]


def test_runs_on_other_contents_of_a_file_do_not_share_a_row():
    old = [replace(record(seed=seed, test=0.9), graph="aaaa") for seed in (0, 1)]
    new = [replace(record(seed=seed, test=0.1), graph="bbbb") for seed in (2, 3, 4)]
    elsewhere = replace(record(dataset="other"), graph="cccc")
    rows = results_table([*old, *new, elsewhere])
    shown = [(row.dataset, row.label, list(row.records)) for row in rows]
    assert shown == [
        ("digits", "gcn content aaaa", [0, 1]),
        ("digits", "gcn content bbbb", [2, 3, 4]),
        ("other", "gcn", [0]),
    ]
    assert list(rows[0].records.values()) == old
    # What is unknown of one graph is not taken for another.
    unknown = [replace(one, graph="") for one in old]
    assert [list(row.records) for row in results_table([*unknown, *new])] == [[0, 1, 2, 3, 4]]


def test_contents_have_a_column_of_their_own_and_hide_nothing():
    def night(fingerprint, start, seed=0, **options):
        one = record(seed=seed, **options)
        one.config["data"]["fingerprint"] = fingerprint * 8
        one.config["training"]["start_from"] = start and f"sha256:{start * 8}"
        return replace(one, graph=fingerprint)

    first, second = "1f3a9c2e", "0ea2cd80"
    nights = [night(first, None), night(second, "abcdef12")]
    rows = results_table(nights)
    assert [(row.title, row.content) for row in rows] == [("gcn", second), ("gcn", first)]
    (table,) = results_tables(rows)
    assert table.head[:4] == ("dataset", "model", "content", "seeds")
    assert [row[1:3] for row in table.rows] == [("gcn", second), ("gcn", first)]
    assert results_columns(rows)["content"].tolist() == [second, first]
    # On one content there is no such column.
    (table,) = results_tables(results_table(nights[:1]))
    assert "content" not in table.head
    # Where two rows of a content differ in nothing else, the start is told.
    rows = results_table([*nights, night(second, None)])
    assert len({row.label for row in rows}) == 3
    titles = {row.title for row in rows if row.content == second}
    assert titles == {"gcn start_from=–", "gcn start_from=sha256:abcdef12"}


def test_rows_of_different_graphs_are_not_compared():
    mine = [replace(record("a", seed), graph="aaaa") for seed in range(3)]
    others = [replace(record("b", seed), graph="bbbb") for seed in range(3)]
    first, second = results_table([*mine, *others], against="b content bbbb")
    assert (first.label, second.label) == ("a content aaaa", "b content bbbb")
    assert first.difference is None
    unknown = [replace(one, graph="") for one in others]
    assert results_table([*mine, *unknown], against="b")[0].difference.seeds == 3


def test_rows_without_common_seeds_are_told():
    rows = results_table([record("a", 0), record("b", 1), record("c", 1)], against="b")
    (sentence,) = without_pairs(rows, "b")
    assert sentence.startswith("a on digits has no tested split and seed in common with b,")
    assert "it has seed 0" in sentence
    other = results_table([record("a", dataset="else"), record("b", 1)], against="b")
    assert without_pairs(other, "b") == []
    siblings = [record("b", 0), record("b", 0, hidden=9), record("b", 1, dropout=0.5)]
    rows = results_table([*siblings, record("b", 5)], against="b")
    assert [s.split(" on ")[0] for s in without_pairs(rows, "b")] == ["b dropout=0.5"]


def test_files_of_one_name_are_told_apart():
    names = short_names(["/x/a/g.npz", "/x/b/g.npz", "/x/b/h.npz", "digits", "/x/b/g.npz"])
    assert names == {
        "/x/a/g.npz": "a/g.npz",
        "/x/b/g.npz": "b/g.npz",
        "/x/b/h.npz": "h.npz",
        "digits": "digits",
    }


def test_mixtures_are_named_by_their_experts():
    experts = [{"name": "gcn", "hidden": 128}, {"name": "mlp", "hidden": 64}]
    assert re.fullmatch("gcn\\+mlp#[0-9a-f]{4}", format_value(experts))
    assert format_value(experts) != format_value([{"name": "gcn"}, {"name": "mlp"}])
