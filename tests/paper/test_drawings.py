from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncgnn.paper import Reproduction, Request, target, target_names
from ncgnn.paper.figures.alpha import AlphaData, AlphaGroup, AlphaPanel
from ncgnn.paper.figures.distributions import DistributionPanel, DistributionsData, Histogram
from ncgnn.paper.figures.embeddings import EmbeddingPanel, class_color
from ncgnn.paper.figures.groups import MOST_MODELS, GroupsPanel, ModelCurve
from ncgnn.paper.figures.interplay import Curve, InterplayPanel
from ncgnn.paper.figures.observation import ObservationPanel, Tenth
from ncgnn.paper.figures.parts import ModelPanels, Panels
from ncgnn.paper.figures.sensitivity import HopCurve, Point, SensitivityPanel
from ncgnn.paper.figures.stability import LEVELS, METRICS, Change, StabilityPanel
from ncgnn.paper.running_time import ModelTime, TimePanel
from ncgnn.report import LOOKS, picture
from ncgnn.training import Spread

HALF = Spread(0.5, 0.1)


def distributions() -> DistributionsData:
    shares = Histogram((0.75, 0.25), 0.25)
    panel = DistributionPanel("small", 8, 2, shares, Histogram((0.25, 0.75), 0.75))
    other = replace(panel, dataset="other", heterophily=replace(shares, mean=None))
    return DistributionsData((0.0, 0.5, 1.0), (panel, other))


def observation() -> ModelPanels[Any]:
    tenths = [Tenth(20.0, Spread(0.95, 0.2), 0.25)] * 8
    tenths += [Tenth(0.0, None, None), Tenth(2.5, Spread(0.5, None), 1.0)]
    panel = ObservationPanel("small", 2, 0.4, "test", 3, HALF, tuple(tenths))
    return ModelPanels("gcn", (panel,))


def groups(models: tuple[str, ...] = ("gcn", "ncgcn")) -> Panels[Any]:
    tenths = (Spread(0.9, None), Spread(0.6, 0.1), Spread(0.1, 0.0), *[None] * 7)
    curves = tuple(ModelCurve(model, 2, Spread(0.95, 0.2), HALF, tenths) for model in models)
    nodes = (30.0, 20.0, 2.0, *[0.0] * 7)
    panel = GroupsPanel("small", 1, 0.15, "val", 30.0, 22.0, nodes, curves)
    return Panels((panel, replace(panel, dataset="other", high_nodes=0.5)))


def embeddings() -> Panels[Any]:
    places = tuple(np.linspace(0, 1, 6).tolist())
    high = (True, False, False, True, True, False)
    numbers = (0.75, None, 0.5, places, places[::-1], (0, 1, 2, 9, 17, 2), high)
    panels = [EmbeddingPanel("small", m, 2, 0.4, "test", *numbers) for m in ("gcn", "ncgcn")]
    return Panels(tuple(panels))


def interplay() -> ModelPanels[Any]:
    curve = Curve((0.0, 0.25, 0.5), (0.0, 0.1, 0.1))
    panel = InterplayPanel("small", 1, 2, 0.625, curve, Curve((0.2, 0.4, 0.3), None), curve)
    bare = replace(panel, dataset="other", true_nc=None, test_accuracy=None)
    return ModelPanels("ncgcn", (panel, bare))


def sensitivity() -> ModelPanels[Any]:
    points = (Point(0.3, 2, HALF, Spread(0.6, 0.1)), Point(0.4, 0, None, None))
    curves = tuple(HopCurve(hops, points) for hops in (1, 2, 3))
    return ModelPanels("ncgcn", (SensitivityPanel("small", 2, 0.3, curves),))


def alpha() -> AlphaData:
    low, high = AlphaGroup((0.6, 0.8), (0.0, 1.0, 3.0)), AlphaGroup((0.1,), (4.0, 0.5, 0.0))
    return AlphaData("ncgcn", (0.0, 0.5, 1.0), (AlphaPanel("small", (low, high)),))


def time() -> Panels[Any]:
    names = ("mlp", "gcn", "ncgcn")
    times = [
        ModelTime(n, 2, Spread(4.0**i, 0.5), Spread(2.0**i, None), HALF)
        for i, n in enumerate(names)
    ]
    return Panels((TimePanel("small", tuple(times)),))


def draw(name: str, data: Any, missing: tuple[str, ...] = (), settings: Any = ()) -> Any:
    """The figure as `reproduce` draws it, of runs with one seed."""
    request = Request((), target(name).models, settings=settings)
    return Reproduction(target(name), request, {}, missing, data).figure()


def test_one_run_has_no_density_of_alpha():
    single = AlphaGroup((0.6,), (0.0, 1.0, 3.0)), AlphaGroup((0.1,), (4.0, 0.5, 0.0))
    data = replace(alpha(), panels=(AlphaPanel("small", single),))
    (axis,) = draw("alpha", data).axes
    assert [line.get_xdata()[0] for line in axis.lines] == [0.6, 0.1]
    assert not axis.collections
    assert "1 run" in axis.get_title(loc="left") + axis.get_title()
    assert draw("alpha", alpha()).axes[0].collections  # two runs have one


def stability() -> Panels[Any]:
    small = Change(9.0, {"nc": 0.1, "nh_open": 0.2, "nh_closed": 0.05}, dict.fromkeys(METRICS))
    nobody = Change(0.0, dict.fromkeys(METRICS), dict.fromkeys(METRICS))
    groups = {"all": small, "flipped": small, "neighbors": small, "many": nobody}
    return Panels((StabilityPanel("small", 9, dict.fromkeys(LEVELS, groups)),))


SEVERAL = " ± std"
CASES: dict[str, Any] = {
    "alpha": alpha,
    "distributions": distributions,
    "embeddings": embeddings,
    "entropy": lambda: target("entropy").collect(Request((), ()), {}),
    "groups": groups,
    "interplay": interplay,
    "observation": observation,
    "sensitivity": sensitivity,
    "stability": stability,
    "time": time,
}


def legend_of(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def lines_of(axis: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axis.lines}


def test_every_target_has_a_drawing() -> None:
    figures = {name for name in target_names() if target(name).kind == "figure"}
    assert figures == set(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("image_format", ["png", "svg"])
def test_the_same_numbers_make_the_same_bytes(name: str, image_format: str) -> None:
    first, second = (picture(draw(name, CASES[name]()), image_format) for _ in range(2))
    assert first == second
    assert len(first) > 5000


WITH_PANELS = sorted(set(CASES) - {"entropy"})


@pytest.mark.parametrize("name", WITH_PANELS)
def test_runs_and_settings_are_told(name: str) -> None:
    runs = ["Paper split, seed 0"] if target(name).models else []
    words = _words(draw(name, CASES[name]()))
    below = words[: len(words) - len(runs)]
    assert words == [*below, *runs]
    told = _words(draw(name, CASES[name](), missing=("a", "b"), settings=(("epochs", 3),)))
    assert told == [*below, "2 runs missing", *runs, "With epochs=3."]


def test_figures_of_several_runs_name_their_split_and_seeds() -> None:
    request = Request(("digits",), ("gcn",), seeds=(0, 3), split="stratified")
    figure = Reproduction(target("observation"), request, {}, (), observation()).figure()
    assert _words(figure)[-1] == "Stratified split, seeds 0, 3"


def _words(figure: Any) -> list[str]:
    return list(filter(None, figure.get_supxlabel().replace("\n", " ").split(". ")))


def test_marks_whiskers_and_bars_are_explained() -> None:
    assert "Marks below the curves: one per run" in _words(draw("alpha", CASES["alpha"]()))
    said = _words(draw("groups", groups()))
    assert said[:2] == [
        "Whiskers: standard deviation over runs",
        "Where fewer than 5 nodes are evaluated, nothing is drawn",
    ]
    assert _words(draw("observation", observation()))[1].startswith("Bars: evaluated nodes")


def test_a_legend_names_the_classes() -> None:
    figure: Any = draw("embeddings", CASES["embeddings"]())
    highest = max(max(panel.label) for panel in CASES["embeddings"]().panels)
    names = [text.get_text() for text in figure.legends[1].get_texts()]
    assert names == ["class 0", *(str(label) for label in range(1, highest + 1))]


@pytest.mark.parametrize("name", sorted(set(WITH_PANELS) - {"embeddings"}))
@pytest.mark.parametrize("count", [1, 7])
def test_titles_and_legend_do_not_run_into_each_other(name: str, count: int) -> None:
    data = CASES[name]()
    panels = [replace(data.panels[0], dataset=f"chameleon-filter{n}") for n in range(count)]
    figure: Any = draw(name, replace(data, panels=tuple(panels)), missing=("a",))
    figure.canvas.draw()
    texts = [axis._left_title for axis in figure.axes if axis.get_title("left")]
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    boxes = [text.get_window_extent() for text in [*texts, figure._supxlabel]]
    for place, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y1 <= figure.bbox.height
        assert not any(box.overlaps(other) for other in boxes[:place])


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("distributions", [0, 1]),
        ("entropy", [1]),
        ("groups", [0, 2]),
        ("interplay", [2, 3]),
        ("observation", [0]),
        ("sensitivity", [0]),
    ],
)
def test_accuracies_and_shares_are_in_percent(name: str, axes: list[int]) -> None:
    figure = draw(name, CASES[name]())
    figure.canvas.draw()
    for axis in (figure.axes[place] for place in axes):
        labels = [label.get_text() for label in axis.get_yticklabels()]
        assert labels
        assert all(label.endswith("%") for label in labels)


def test_distributions_have_hatches_and_means() -> None:
    figure: Any = draw("distributions", distributions())
    assert legend_of(figure) == ["1 − NH, closed", "mean 1 − NH", "NC", "mean NC"]
    first, second = figure.axes
    assert [patch.get_hatch() for patch in first.patches] == ["", "////"]
    assert [list(patch.get_data().values) for patch in first.patches] == [
        [0.75, 0.25],
        [0.25, 0.75],
    ]
    assert [line.get_xdata()[0] for line in first.lines] == [0.25, 0.75]
    assert [line.get_xdata()[0] for line in second.lines] == [0.75]
    assert "k = 2" in first._left_title.get_text()
    assert "–" in second._left_title.get_text()


def test_stability_shows_the_ratio_of_changes() -> None:
    figure: Any = draw("stability", stability())
    assert len(figure.axes) == 4
    first, *_, last = figure.axes
    drawn = {
        line.get_label(): line.get_xdata().tolist()
        for line in first.lines
        if line.get_marker() != "None"
    }
    assert drawn == {"over NH, Eq. (1)": [0.5], "over NH, closed": [2.0]}
    assert [line.get_xdata() for line in last.lines] == [[1, 1]]  # nobody has so many neighbors
    assert [label.get_text() for label in first.get_yticklabels()] == ["small"]


def test_observation_shows_accuracy_over_shares_of_high_nc() -> None:
    figure: Any = draw("observation", observation())
    (axis,) = figure.axes
    drawn = lines_of(axis)
    assert list(drawn["GCN, test accuracy"].get_xdata()) == pytest.approx(
        [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.95]
    )
    assert list(drawn["GCN, test accuracy"].get_ydata()) == [0.95] * 8 + [0.5]
    assert list(drawn["fewer than 5 nodes"].get_ydata()) == [0.5]
    assert list(drawn["GCN, all test nodes"].get_ydata()) == [0.5, 0.5]
    high, low = axis.containers[0], axis.containers[1]
    assert [bar.get_height() for bar in high] == [0.25] * 8 + [0, 1]
    assert [bar.get_height() for bar in low] == [0.75] * 8 + [0, 0]
    assert {bar.get_hatch() for bar in high} == {"////"}
    segments = axis.collections[-1].get_segments()
    assert max(point[1] for segment in segments for point in segment) <= 1


def test_groups_show_curves_and_the_two_groups() -> None:
    figure: Any = draw("groups", groups())
    curves, pair, _, other_pair = figure.axes
    assert legend_of(figure) == ["GCN", "NCGCN", "threshold T"]
    # The third tenth holds too few nodes to say anything.
    assert list(lines_of(curves)["GCN"].get_ydata()) == [0.9, 0.6]
    assert list(lines_of(curves)["threshold T"].get_xdata()) == [0.15, 0.15]
    assert curves.get_ylabel() == "validation accuracy"
    markers = [lines_of(curves)[name].get_marker() for name in ("GCN", "NCGCN")]
    assert len(set(markers)) == 2
    assert [label.get_text() for label in pair.get_xticklabels()] == ["low\n30", "high\n22"]
    assert [text.get_text() for text in other_pair.texts] == ["few\nnodes"]
    assert other_pair.get_xticklabels()[1].get_text() == "high\n0.5"
    assert len(LOOKS) == MOST_MODELS
    draw("groups", groups(tuple(f"model {number}" for number in range(MOST_MODELS))))


def test_embeddings_have_triangles_and_dots() -> None:
    figure: Any = draw("embeddings", embeddings())
    assert len(figure.axes) == 2
    for axis, name in zip(figure.axes, ("GCN", "NCGCN"), strict=True):
        dots, triangles = axis.collections
        assert (len(dots.get_offsets()), len(triangles.get_offsets())) == (3, 3)
        assert len(dots.get_paths()[0].vertices) != len(triangles.get_paths()[0].vertices)
        title = axis._left_title.get_text()
        assert title.startswith(f"{name} on small")
        assert "test accuracy 75.00 % (low –, high 50.00)" in title
    assert legend_of(figure)[0].startswith("high NC")
    assert len({class_color(label) for label in range(24)}) == 24
    assert all(0 <= part <= 1 for label in range(30) for part in class_color(label))


def test_interplay_shows_nc_and_accuracy() -> None:
    figure: Any = draw("interplay", interplay())
    left, right = figure.axes[:2]
    first, second = [axis for axis in figure.axes if axis.get_title("left")]
    accuracy = [axis for axis in figure.axes if not axis.get_title("left")]
    assert (left, right) == (first, second)
    assert list(lines_of(first)["estimated NC"].get_ydata()) == [0, 0.25, 0.5]
    assert list(lines_of(first)["true NC"].get_ydata()) == [0.625, 0.625]
    assert "true NC" not in lines_of(second)
    assert list(lines_of(accuracy[0])["validation accuracy"].get_ydata()) == [0.2, 0.4, 0.3]
    name = "test accuracy of the best epoch so far"
    assert legend_of(figure) == ["estimated NC", "true NC", "validation accuracy", name]
    assert set(lines_of(accuracy[1])) == {"validation accuracy"}


def test_sensitivity_has_a_curve_per_hop_count_and_marks_the_preset() -> None:
    figure: Any = draw("sensitivity", sensitivity())
    (axis,) = figure.axes
    drawn = lines_of(axis)
    curves = {bars.get_label(): bars for bars in axis.containers}
    for hops in (1, 2, 3):
        bars = curves[f"k = {hops}{SEVERAL}"]
        assert list(bars.lines[0].get_ydata()) == [0.5]  # the second threshold has no run
        assert bars.lines[0].get_xdata()[0] == pytest.approx(0.3, abs=0.01)
    assert len({bars.lines[0].get_marker() for bars in curves.values()}) == 3
    assert list(drawn["the preset"].get_xdata()) == [0.3]
    assert axis.get_ylabel() == "test accuracy of NCGCN"


def test_alpha_shows_densities_and_runs() -> None:
    figure: Any = draw("alpha", alpha())
    (axis,) = figure.axes
    drawn = lines_of(axis)
    assert list(drawn["low NC"].get_ydata()) == [0, 1, 3]
    assert list(drawn["high NC"].get_ydata()) == [4, 0.5, 0]
    marks = [line for line in axis.lines if line.get_linestyle() == "None"]
    assert [list(line.get_xdata()) for line in marks] == [[0.6, 0.8], [0.1]]
    assert [fill.get_hatch() for fill in axis.collections] == ["", "////"]


def test_time_has_dots_and_their_numbers() -> None:
    figure: Any = draw("time", time())
    left, right = figure.axes
    dots = [bars.lines[0] for bars in left.containers]
    assert [float(dot.get_xdata()[0]) for dot in dots] == [1, 4, 16]
    assert [text.get_text() for text in right.texts] == ["1", "2", "4"]
    assert [dot.get_marker() for dot in dots] == ["o", "o", "D"]
    assert [label.get_text() for label in left.get_yticklabels()] == ["MLP", "GCN", "NCGCN"]
    assert left.get_xscale() == "log"
    assert not any("$" in label.get_text() for label in left.get_xticklabels())
