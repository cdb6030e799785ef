from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ncgnn.metrics import KINDS
from ncgnn.report import curves_figure, groups_figure, interplay_figure, picture
from ncgnn.report.run import run_figures

PLAIN = {"data": {"dataset": "tiny"}, "model": {"name": "gcn", "hidden": 4}}
SEPARATED = {"data": {"dataset": "tiny"}, "model": {"name": "ncgcn", "guidance": "nc"}}


def made_history(epochs: int = 4, *, separated: bool = True, test: bool = True) -> list[Any]:
    records: list[dict[str, Any]] = []
    for epoch in range(epochs):
        record: dict[str, Any] = {
            "epoch": epoch,
            "loss": 2.0 - 0.25 * epoch,
            "train_accuracy": 0.5 + 0.0625 * epoch,
            "val_accuracy": 0.25 + 0.125 * (epoch % 3),
            "val_loss": 1.5 + 0.125 * epoch,
            "test_accuracy": 0.375 + 0.03125 * epoch if test else None,
        }
        if separated:
            record["mean_nc"] = 0.125 * epoch
            record["group_sizes"] = [20 - epoch, epoch]
            record["alpha"] = [0.5 + 0.0625 * epoch, 0.5 - 0.0625 * epoch]
        records.append(record)
    return records


def made_result(*, separated: bool = True, test: bool = True) -> dict[str, Any]:
    names = ("train", "val", "test") if test else ("train", "val")
    keys = ("accuracy", "macro_f1", "balanced_accuracy", "calibration_error", "loss")
    result: dict[str, Any] = {
        "dataset": "tiny",
        "graph": "tiny & <odd>",
        "model": "ncgcn" if separated else "gcn",
        "split": "stratified",
        "split_sha256": "5" * 64,
        "seed": 7,
        "metric": "accuracy",
        "best_epoch": 2,
        "epochs": 4,
        "scores": {
            name: {"roc_auc": None} | {k: 0.111 * (1 + i) + 0.01 * j for j, k in enumerate(keys)}
            for i, name in enumerate(names)
        },
        "nodes": dict(zip(names, (5, 2, 3), strict=False)),
        "majority_baseline": 0.288 if test else None,
        "never_evaluated": [],
        "hops": 2,
        "evaluated": names[-1],
        "thresholds": [0.4],
        "threshold_kind": "value",
        "accuracy_by_kind": [
            {"kind": "clear", "nodes": 1200, "accuracy": 0.875},
            {"kind": "contrary", "nodes": 81, "accuracy": 0.125},
            {"kind": "alone", "nodes": 9, "accuracy": 1.0},
        ],
        "accuracy_by_true_group": [
            {"part": 0, "nodes": 1234, "accuracy": 0.625},
            {"part": 1, "nodes": 56, "accuracy": 0.375},
        ],
        "accuracy_by_nh_decile": [
            {"part": 1, "nodes": 10, "accuracy": 0.25},
            {"part": 5, "nodes": 9, "accuracy": 0.5},
            {"part": 9, "nodes": 30, "accuracy": 0.75},
        ],
        "true_mean_nc": 0.4375,
    }
    if separated:
        result["accuracy_by_group"] = [{"part": 0, "nodes": 1290, "accuracy": 0.617}]
        result["group_sizes"] = [1800, 0]
        result["mean_nc"] = 0.213
        result["alpha"] = [0.731, 0.269]
    return result


def lines_of(axis: Any) -> dict[str, list[float]]:
    return {line.get_label(): list(line.get_ydata()) for line in axis.lines}


def column(history: list[Any], key: str) -> list[Any]:
    return [record[key] for record in history]


def test_curves_show_the_history_and_the_best_epoch() -> None:
    history = made_history()
    axes: list[Any] = curves_figure(history, 2).axes
    loss, accuracy = axes
    drawn = lines_of(loss)
    assert drawn["train"] == column(history, "loss")
    assert drawn["validation"] == column(history, "val_loss")
    drawn = lines_of(accuracy)
    for label, key in (("train", "train"), ("validation", "val"), ("test", "test")):
        assert drawn[label] == column(history, f"{key}_accuracy")
    for axis in (loss, accuracy):
        assert list(axis.lines[0].get_xdata()) == [0, 1, 2, 3]
        assert list(axis.lines[-1].get_xdata()) == [2, 2]
        assert axis.lines[-1].get_label() == "best epoch (2)"


def test_figures_show_the_metric_that_selected_the_best_epoch() -> None:
    history = made_history()
    for record in history:
        record["val_macro_f1"] = 0.5 * record["val_accuracy"]
    figures = run_figures({}, history, made_result() | {"metric": "macro_f1"})
    score: Any = figures["curves"].axes[1]
    assert score.get_ylabel() == "macro-F1"
    assert set(lines_of(score)) == {"validation", "best epoch (2)"}
    assert lines_of(score)["validation"] == column(history, "val_macro_f1")
    *_, right = _interplay_axes(figures["interplay"], "macro-F1")
    assert lines_of(right)["validation macro-F1"] == column(history, "val_macro_f1")


def test_curves_without_test_nodes_have_no_test_curve() -> None:
    accuracy = curves_figure(made_history(test=False), 2).axes[1]
    assert set(lines_of(accuracy)) == {"train", "validation", "best epoch (2)"}


def test_a_huge_first_loss_does_not_flatten_the_others() -> None:
    history = made_history(100)
    for record in history:
        record["loss"] = record["val_loss"] = 1.0
    history[0]["val_loss"] = 4321.0
    axis = curves_figure(history, 2).axes[0]
    assert axis.get_ylim() == pytest.approx((0, 1.5))
    assert [text.get_text() for text in axis.texts] == ["↑ up to 4.32e+03"]


def test_interplay_shows_confusion_accuracy_groups_and_alpha() -> None:
    history = made_history()
    top, sizes, alpha, right = _interplay_axes(interplay_figure(history, 0.4375, 2))
    drawn = lines_of(top)
    assert drawn["mean estimated NC"] == column(history, "mean_nc")
    assert drawn["mean true NC (0.438)"] == [0.4375, 0.4375]
    assert lines_of(right)["validation accuracy"] == column(history, "val_accuracy")
    for axis, key in ((sizes, "group_sizes"), (alpha, "alpha")):
        drawn = lines_of(axis)
        assert drawn["low NC"] == [pair[0] for pair in column(history, key)]
        assert drawn["high NC"] == [pair[1] for pair in column(history, key)]
    shown = [text.get_text() for text in top.get_legend().get_texts()]
    assert "validation accuracy" in shown
    assert "best epoch (2)" in shown


def _interplay_axes(figure: Any, score: str = "accuracy") -> tuple[Any, Any, Any, Any]:
    by_label = {axis.get_ylabel(): axis for axis in figure.axes}
    labels = ("mean NC", "nodes in the group", "α (message passing)", f"validation {score}")
    top, sizes, alpha, right = (by_label[label] for label in labels)
    return top, sizes, alpha, right


def test_interplay_of_the_ablation_speaks_of_homophily() -> None:
    config = {"model": {"name": "ncgcn", "guidance": "nh"}}
    figure = run_figures(config, made_history(), made_result())["interplay"]
    assert set(lines_of(figure.axes[0])) == {"mean estimated 1 − NH", "best epoch (2)"}
    assert "high 1 − NH" in {label for axis in figure.axes for label in lines_of(axis)}


def test_one_channel_for_all_groups_has_one_alpha() -> None:
    history = made_history()
    for record in history:
        record["alpha"] = record["alpha"][:1]
    alpha = _interplay_axes(interplay_figure(history, None, 2))[2]
    assert lines_of(alpha)["all nodes"] == [pair[0] for pair in column(history, "alpha")]


def test_groups_show_accuracy_and_counts() -> None:
    axes: list[Any] = groups_figure(made_result()).axes
    kinds, left, right, behind = axes
    assert [label.get_text() for label in kinds.get_xticklabels()] == [*KINDS]
    assert [bar.get_height() for bar in kinds.patches] == [0.875, 0.125]
    assert [bar.get_center()[0] for bar in kinds.patches] == pytest.approx([0, 2])
    words = ["87.5%\n1,200 nodes", "none", "12.5%\n81 nodes", "too few\n(9)"]
    assert [text.get_text() for text in kinds.texts] == words
    assert [bar.get_height() for bar in left.patches] == [0.625, 0.375]
    assert [label.get_text() for label in left.get_xticklabels()] == ["low NC", "high NC"]
    assert [text.get_text() for text in left.texts] == ["62.5%\n1,234 nodes", "37.5%\n56 nodes"]
    assert "k=2" in left.get_xlabel()
    assert "0.4" in left.get_xlabel()
    drawn = lines_of(right)
    assert drawn["all test nodes (33.3%)"] == pytest.approx([0.333, 0.333])
    expected = [np.nan] * 10
    expected[1], expected[9] = 0.25, 0.75
    assert np.array_equal(drawn["accuracy"], expected, equal_nan=True)
    assert [bar.get_height() for bar in behind.patches] == [0, 10, 0, 0, 0, 9, 0, 0, 0, 30]
    assert behind.patches[1].get_center()[0] == pytest.approx(0.15)


def test_more_groups_have_numbers_and_an_empty_one_has_no_bar() -> None:
    result: dict[str, Any] = made_result(test=False) | {"thresholds": [0.2, 0.4]}
    result["accuracy_by_true_group"][1]["part"] = 2
    left: Any = groups_figure(result).axes[1]
    names = [label.get_text() for label in left.get_xticklabels()]
    assert names == ["NC group 0", "NC group 1", "NC group 2"]
    assert [bar.get_center()[0] for bar in left.patches] == pytest.approx([0, 2])
    assert left.get_ylabel() == "validation accuracy"
    assert "all validation nodes (22.2%)" in lines_of(left)


def test_few_nodes_have_no_bar_and_old_results_no_kinds() -> None:
    result = made_result()
    result["accuracy_by_true_group"][1]["nodes"] = 9
    del result["accuracy_by_kind"], result["evaluated"], result["threshold_kind"]
    kinds, left, *_ = groups_figure(result).axes
    assert not kinds.patches
    assert len(left.patches) == 1
    assert [text.get_text() for text in left.texts] == ["62.5%\n1,234 nodes", "too few\n(9)"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("attainable", "divided at 0.4 of what is attainable"),
        ("attainable-quantile", "divided at 0.4, a quantile of what is attainable"),
    ],
)
def test_the_axis_says_what_thresholds_are_compared_with(kind: str, words: str) -> None:
    axis: Any = groups_figure(made_result() | {"threshold_kind": kind}).axes[1]
    assert axis.get_xlabel().endswith(words)


def test_models_without_groups_have_no_interplay() -> None:
    plain = run_figures(PLAIN, made_history(separated=False), made_result(separated=False))
    assert list(plain) == ["curves", "groups"]
    both = run_figures(SEPARATED, made_history(), made_result())
    assert list(both) == ["curves", "interplay", "groups"]


@pytest.mark.parametrize("image_format", ["png", "svg"])
def test_a_run_of_one_epoch_can_be_drawn(image_format: str) -> None:
    result = made_result() | {"best_epoch": 0, "accuracy_by_nh_decile": []}
    for figure in run_figures(SEPARATED, made_history(1), result).values():
        assert len(picture(figure, image_format)) > 1000
