"""What has changed between two graphs, as tables."""

from __future__ import annotations

import numpy as np

import ncgnn
from ncgnn.report import changes_tables


def night(shift: float, *, labeled: bool = True):
    numbers = np.arange(300)
    return ncgnn.read_tables(
        {
            "id": numbers,
            "y": [None if i == 7 and not labeled else "xyz"[i % 3] for i in numbers],
            "size": np.random.default_rng(0).normal(shift, 1.0, 300),
        },
        {"source": numbers, "target": (numbers * 7 + 3) % 300},
        label="y",
        name="mine",
    )


def test_drift_is_bold_where_it_stands_out():
    titles = []
    for shift in (0.0, 1.0):
        tables = {one.title.split()[0]: one for one in changes_tables(compare(shift))}
        titles.append(tables["Drift"].title)
    assert titles == ["Drift (no column stands out)", "Drift (what stands out is bold)"]
    assert tables["Drift"].rows[0][0].mark == "best"


def test_sentences_repeat_no_table_and_kinds_add_up():
    changes = compare(1.0, labeled=False)
    first, *_, last = changes_tables(changes)
    assert first.notes == tuple(changes.remarks())
    assert not any("Drifted" in note or "Mean NC" in note for note in first.notes)
    names = [row[0] for row in last.rows]
    assert names == ["mean NC", "clear nodes", "mixed nodes", "contrary nodes", "alone nodes",
                     "of unknown kind"]  # fmt: skip
    for side in (1, 2):
        shares = [float(row[side].rstrip("%")) for row in last.rows[1:]]
        assert abs(sum(shares) - 100) < 0.05


def compare(shift: float, *, labeled: bool = True):
    return ncgnn.compare_graphs(night(0.0), night(shift, labeled=labeled))
