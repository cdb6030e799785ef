"""The leaderboard of a search as a table."""

from __future__ import annotations

from dataclasses import asdict

from ncgnn.report import leaderboard
from ncgnn.training import Row


def facts():
    rows = [
        Row("mlp", "mlp", "a", "finished", val=0.5, test=0.4, seconds=3.2),
        Row("gcn", "gcn", "b", "finished", val=0.75, test=None, seconds=61),
        Row("sage", "sage", "c", "stopped", seconds=2, why="behind sage with other rates"),
        *(Row(f"x{n}", "x", f"{n}", why="no time was left") for n in range(4)),
    ]
    combined = [Row("average of gcn, mlp", "mixture", "m", "finished", val=0.7, test=0.6)]
    return {
        "metric": "macro_f1", "candidates": [asdict(row) for row in rows],
        "combinations": [asdict(row) for row in combined], "chosen": "gcn", "seconds": 70.4,
        "budget": 90.0,
    }  # fmt: skip


def test_rows_are_sorted_by_validation_and_those_left_out_stand_together():
    table = leaderboard(facts())
    plain = table.plain()
    assert plain["head"][1:3] == ("val macro-F1", "test macro-F1")
    assert [row[0] for row in plain["rows"]] == [
        "gcn", "average of gcn, mlp", "mlp", "sage", "x0; x1 and 2 more",
    ]  # fmt: skip
    assert plain["rows"][0][1:4] == ["75.00", "–", "61"]
    assert plain["rows"][3][4] == "stopped: behind sage with other rates"
    assert plain["rows"][4][4] == "skipped: no time was left"
    assert table.rows[0][0].mark == "best"
    assert "70 of 90 seconds" in table.notes[0]
