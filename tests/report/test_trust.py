"""Tables and pictures of calibration and of prediction sets."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import ncgnn
from ncgnn._io import temporary_path
from ncgnn.errors import InputError
from ncgnn.report import (
    picture,
    summary_table,
    trust_figure,
    trust_tables,
    write_run_report,
)
from ncgnn.training import RunFolder, RunResult, refit_run


@pytest.fixture(scope="module")
def trained():
    graph = ncgnn.generate(900, 3600, classes=14, features=16, homophily=0.7, seed=5)
    return ncgnn.fit(graph, "gcn", hidden=16, epochs=25, learning_rate=0.05)


@pytest.fixture(scope="module")
def result(trained):
    return trained.evaluate()


def test_tables_hold_what_was_counted(result, trained):
    probabilities, sets = trust_tables(result)
    found = result["calibration"]
    errors = [f"{100 * found[when]['calibration_error']:.2f}" for when in ("before", "after")]
    assert probabilities.rows[0] == ("calibration error, %", *errors)
    assert f"Temperature {found['temperature']:.2f}; by kind" in probabilities.notes[0]
    overall = result["sets"]["parts"][0]
    rules = ("lac", "lac_by_nc", "aps", "aps_by_nc", "aps_random_by_nc")
    nodes, cells = len(trained.split.test), []
    for rule in rules:
        share, size = overall[rule]["coverage"], overall[rule]["size"]
        low, high = binomtest(round(share * nodes), nodes).proportion_ci(method="wilson")
        cells.append(f"{100 * share:.1f} ({100 * low:.1f}–{100 * high:.1f}) · {size:.2f}")
    assert sets.rows[0] == ("all", f"{nodes}", *cells)
    assert "90 % of the nodes" in sets.title
    headings = [row[0] for row in sets.rows if len(row) == 1]
    apart = ["Groups that have a limit each"]  # 180 validation nodes make three
    assert headings == [*apart, "Fifths of NC", "Kinds", "Degrees", "Classes"]
    few = "a group needs 50 validation nodes with neighbors, and there are 180."
    assert f"3 groups of NC and not 5: {few}" in sets.notes
    narrow = trust_tables(result, all_classes=False)[1]
    assert narrow.head[2:] == ("LAC", "LAC by NC", "APS by NC")
    assert len(sets.rows) == len(result["sets"]["parts"]) + len(headings)


def test_a_terminal_shows_the_classes_with_the_lowest_coverage(result):
    sets = trust_tables(result, all_classes=False)[1]
    place = next(place for place, row in enumerate(sets.rows) if row == ("Classes",))
    shown = [float(row[3].split()[0]) for row in sets.rows[place + 1 :]]
    assert len(shown) == 12
    assert shown == sorted(shown)
    assert any("Of 14 classes" in note for note in sets.notes)


def test_parts_of_few_nodes_show_nothing(result):
    few = {**result["sets"]["parts"][0], "by": "kind", "part": "alone", "nodes": 3}
    sets = {**result["sets"], "parts": [*result["sets"]["parts"], few]}
    table = trust_tables({**result, "sets": sets})[1]
    assert ("alone", "3", *["too few"] * 5) in table.rows


def test_too_few_validation_nodes_are_told_beside_the_sets(result, trained):
    assert not any("validation nodes or more" in note for note in trust_tables(result)[1].notes)
    told = trust_tables(trained.evaluate(coverage=0.999))[1].notes
    assert any("needs 999 validation nodes or more; there are 180" in note for note in told)


def test_runs_without_calibration_say_so(trained):
    graph = trained.graph
    raw = ncgnn.fit(graph, "gcn", hidden=16, epochs=3, calibration="none").evaluate()
    assert "calibration is none" in trust_tables(raw)[0].notes[0]


def test_what_temperatures_do_to_these_nodes_is_told_with_its_interval(result, trained):
    found, nodes = dict(result["calibration"]), trained.split.test
    losses = [
        -np.log(trained.probabilities(calibrated=one)[nodes, trained.graph.labels[nodes]])
        for one in (True, False)
    ]
    change = losses[0] - losses[1]
    reach = 1.96 * change.std(ddof=1) / np.sqrt(len(nodes))
    mean = change.mean()
    np.testing.assert_allclose(found["change"], [mean, mean - reach, mean + reach])
    words = {"do harm": [0.02, 0.01, 0.03], "cannot be told": [0.02, -0.01, 0.05]}
    words |= {"by −0.020 (95 %: −0.030 to −0.010).": [-0.02, -0.03, -0.01]}
    for told, numbers in words.items():
        calibration = {**found, "change": numbers}
        notes = trust_tables({**result, "calibration": calibration})[0].notes
        assert any(told in note for note in notes)


def test_runs_of_an_earlier_version_show_the_rules_that_they_know(result):
    parts = [{k: v for k, v in one.items() if k != "aps_random_by_nc"}
             for one in result["sets"]["parts"]]  # fmt: skip
    calibration = {k: v for k, v in result["calibration"].items() if k != "change"}
    old = {**result, "sets": {**result["sets"], "parts": parts}, "calibration": calibration}
    probabilities, sets = trust_tables(old)
    assert sets.head[2:] == ("LAC", "LAC by NC", "APS", "APS by NC")
    assert not any("change the cross-entropy" in note for note in probabilities.notes)


def test_nodes_that_calibrate_prove_nothing(trained):
    split = ncgnn.make_split(trained.graph, "stratified", 0, fractions=(0.7, 0.3, 0.0))
    own = ncgnn.fit(trained.graph, "gcn", hidden=8, epochs=3, split=split).evaluate()
    for table in trust_tables(own):
        assert any("no test nodes" in note for note in table.notes)
        assert table.head[0] == "validation nodes"


def test_runs_of_earlier_versions_have_no_tables(result):
    assert trust_tables({key: value for key, value in result.items() if key != "sets"}) == []


def test_the_picture_shows_every_fifth_and_the_promise(result):
    figure = trust_figure(result)
    left, right = figure.axes
    fifths = [one for one in result["sets"]["parts"] if one["by"] == "nc" and one["nodes"] >= 10]
    assert len(right.get_xticks()) == len(fifths)
    assert right.get_lines()[0].get_ydata()[0] == 0.9
    shares = [one["lac_by_nc"]["coverage"] for one in fifths]
    drawn = right.containers[1].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, shares)
    full = [one for one in result["calibration"]["after"]["reliability"] if one["nodes"] >= 10]
    assert left.get_lines()[2].get_ydata()[-1] == pytest.approx(full[-1]["accuracy"])
    assert picture(figure, "png") == picture(trust_figure(result), "png")


def test_bins_of_few_nodes_are_drawn_together(result):
    def drawn(*bins):
        names = ("confidence", "accuracy", "nodes")
        curve = [dict(zip(names, one, strict=True)) for one in bins]
        after = result["calibration"]["after"] | {"reliability": curve}
        left, _ = trust_figure(
            result | {"calibration": result["calibration"] | {"after": after}}
        ).axes
        return left.get_lines()[2].get_xydata(), [one.get_text() for one in left.texts]

    points, said = drawn((0.2, 0.5, 4), (0.3, 0.25, 8), (0.9, 0.9, 50), (0.95, 1.0, 3))
    np.testing.assert_allclose(points[:, 1], [4 / 12, 48 / 53])
    np.testing.assert_allclose(points[:, 0], [3.2 / 12, (45 + 2.85) / 53])
    assert not said
    points, said = drawn((0.2, 0.5, 4), (0.9, 0.9, 5))
    assert not len(points)
    assert said == ["fewer than 10 nodes"]


def test_the_report_has_tables_and_picture(trained, tmp_path):
    folder = RunFolder(trained.save(tmp_path / "run"))
    paths = {path.name for path in write_run_report(folder)}
    assert {"report.html", "trust.png", "trust.svg"} <= paths
    page = (folder / "report.html").read_text()
    assert "How far can answers be relied on?" in page
    assert "Sets that should hold the class of 90 % of the nodes" in page
    pictures = re.findall(r'base64,([^"]+)"', page)
    drawn = (folder / "figures" / "trust.png").read_bytes()
    assert drawn in [base64.b64decode(one) for one in pictures]


def test_figures_stay_in_the_folder_of_their_run(trained, tmp_path, monkeypatch):
    folder = RunFolder(trained.save(tmp_path / "run"))
    (tmp_path / "elsewhere").mkdir()
    (folder / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="figures is a link, and files of a run stay"):
        write_run_report(folder)
    assert not list((tmp_path / "elsewhere").iterdir())
    (folder / "refit").symlink_to(tmp_path / "elsewhere")
    theirs = tmp_path / "elsewhere" / "refit.json", temporary_path(tmp_path / "elsewhere" / "a")
    for path in theirs:
        path.write_text("{}")
        os.utime(path, (0, 0))
    monkeypatch.setattr("ncgnn._io._is_alive", lambda process: False)
    with pytest.raises(InputError, match="refit is a link"):
        refit_run(folder.path)
    assert all(path.read_text() == "{}" for path in theirs)


def test_summaries_have_the_error_of_what_is_answered_beside_the_model_s_own(trained, result):
    def rows_of(told):
        found = RunResult(Path("run"), trained.config, told, 1.0, fresh=True)
        return dict(summary_table([found]).rows)

    told = result | {"seed": 0, "metric": "accuracy", "epochs": 3, "split": "stratified"}
    after = result["calibration"]["after"]["calibration_error"]
    assert rows_of(told)["… with temperatures"].split()[0] == f"{100 * after:.2f}"
    plain = {**result["calibration"], "temperature_by_kind": {}}
    assert "… with temperatures" not in rows_of({**told, "calibration": plain})
