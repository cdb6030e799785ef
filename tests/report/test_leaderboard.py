"""The leaderboard of a search, and the shares of experts, as tables."""

from __future__ import annotations

from dataclasses import asdict

from ncgnn.report import leaderboard, share_table
from ncgnn.training import COMBINATION_RULE, Row


def facts():
    rows = [
        Row("mlp", "mlp", "a", "finished", val=0.5, test=0.4, seconds=3.2),
        Row("gcn", "gcn", "b", "finished", val=0.75, test=None, seconds=61),
        Row("sage", "sage", "c", "stopped", seconds=2, why="behind sage with other rates"),
        *(Row(f"x{n}", "x", f"{n}", why="no time was left") for n in range(4)),
    ]
    combined = [Row("average of gcn, mlp", "mixture", "m", "finished", val=0.7, test=0.6)]
    return {
        "metric": "macro_f1", "rule": COMBINATION_RULE, "candidates": [asdict(row) for row in rows],
        "combinations": [asdict(row) for row in combined], "chosen": "gcn", "seconds": 70.4,
        "budget": 90.0,
    }  # fmt: skip


def test_rows_are_sorted_by_validation_and_those_left_out_stand_together():
    table = leaderboard(facts())
    plain = table.plain()
    assert plain["head"][1:3] == ("val macro-F1", "val loss")
    assert [row[0] for row in plain["rows"]] == [
        "gcn", "average of gcn, mlp", "mlp", "sage", "x0; x1 and 2 more",
    ]  # fmt: skip
    assert plain["rows"][0][1:5] == ["75.00", "–", "–", "61"]
    assert plain["rows"][3][5] == "stopped: behind sage with other rates"
    assert plain["rows"][4][5] == "skipped: no time was left"
    assert table.rows[0][0].mark == "best"
    assert "70 of 90 seconds" in table.notes[0]


def test_one_of_several_seeds_says_which():
    assert leaderboard(facts()).title == "Leaderboard"
    assert leaderboard(facts() | {"seed": 3}).title == "Leaderboard of seed 3"


def test_searches_by_an_earlier_rule_are_not_told_of_by_the_new_one():
    assert "likelier by more than the standard error" in leaderboard(facts()).notes[0]
    old = {key: value for key, value in facts().items() if key != "rule"}
    assert "likelier" not in leaderboard(old).notes[0]


def shares(**more):
    experts = [{"expert": "mlp", "share": 0.25}, {"expert": "gcn, rate 0.03", "share": 0.75}]
    kinds = {"clear": 1200, "mixed": 30}
    return {"evaluated": "test", "mixture": {"experts": experts, "nodes_by_kind": kinds, **more}}


def test_shares_of_experts_stand_by_kind_where_there_is_a_gate():
    assert share_table({"evaluated": "test"}) is None
    plain = share_table(shares())
    assert plain.plain()["rows"] == [["mlp", "25.00"], ["gcn, rate 0.03", "75.00"]]
    assert "no gate" in plain.notes[0]
    by_kind = [{"clear": 0.2, "mixed": 0.9}, {"clear": 0.8, "mixed": 0.1}]
    gated = [one | {"by_kind": k} for one, k in zip(shares()["mixture"]["experts"], by_kind,
                                                    strict=True)]  # fmt: skip
    table = share_table(shares(experts=gated))
    assert table.head == ("expert", "share", "clear", "mixed")
    assert table.plain()["rows"][0] == ["mlp", "25.00", "20.00", "90.00"]
    assert "clear 1,200, mixed 30" in table.notes[0]
