"""Accuracy of a separated model against the hop count k and the threshold T."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncgnn.paper.figures import parts
from ncgnn.paper.printed import model_title
from ncgnn.paper.targets import Row
from ncgnn.report import LOOKS, show_percent
from ncgnn.training import has_preset, preset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ncgnn.paper.targets import Request, Runs
    from ncgnn.training import RunResult, Spread

HOPS = (1, 2, 3)
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)
#: By how much curves of one threshold stand apart.
_SHIFT = 0.008


@dataclass(frozen=True)
class Point:
    """One pair of k and T: the number of runs, and their accuracies, None where there are none."""

    threshold: float
    runs: int
    test: Spread | None
    val: Spread | None


@dataclass(frozen=True)
class HopCurve:
    """All thresholds with one k."""

    hops: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class SensitivityPanel:
    """One dataset, with the k and T that the paper found best, if any; one curve per k."""

    dataset: str
    preset_hops: int | None
    preset_threshold: float | None
    curves: tuple[HopCurve, ...]


class Sensitivity(parts.SeparatedFigure[parts.ModelPanels[SensitivityPanel]]):
    """Fig. "Sensitivity of NCGCN with respect to k hops of NC and the threshold T".

    All other parameters are those of the preset or of a file in its place.
    """

    name = "sensitivity"
    title = "accuracy against k and T"

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """The model with every pair of k and T."""
        (row,) = super().rows(request, dataset)
        return [
            Row(_name(k, t), row.model, options={"model.hops": k, "model.threshold": t})
            for k in HOPS
            for t in THRESHOLDS
        ]

    def collect(self, request: Request, runs: Runs) -> parts.ModelPanels[SensitivityPanel]:
        """Accuracies over seeds."""
        (model,), panels = request.models, list[SensitivityPanel]()
        for dataset in request.datasets:
            found = {row.name: some for row, some in self.finished(request, dataset, runs)}
            curves = [
                HopCurve(hops, tuple(_point(t, found.get(_name(hops, t), [])) for t in THRESHOLDS))
                for hops in HOPS
            ]
            if found:
                name, best = parts.short_name(request, dataset), best_pair(model, dataset)
                panels.append(SensitivityPanel(name, *best, tuple(curves)))
        return parts.ModelPanels(model, tuple(panels))

    def draw(self, data: parts.ModelPanels[SensitivityPanel]) -> Figure:
        """Test accuracy against T, a curve per k, side by side where they would hide each other."""
        figure, axes, columns = parts.make_panels(len(data.panels), (2.7, 2.1))
        for axis, panel in zip(axes, data.panels, strict=True):
            middle = (len(panel.curves) - 1) / 2
            for place, (curve, look) in enumerate(zip(panel.curves, LOOKS, strict=False)):
                shift = _SHIFT * (place - middle)
                _draw_curve(axis, curve, look, shift)
                _draw_preset(axis, panel, curve, shift)
            axis.set_xticks([point.threshold for point in panel.curves[0].points])
            axis.margins(x=0.06)
            show_percent(axis.yaxis)
            parts.set_panel_title(axis, panel.dataset)
        accuracy = f"test accuracy of {model_title(data.model)}"
        parts.label_outer(axes, columns, "threshold T", accuracy)
        parts.add_legend(figure, axes, columns=4 if columns > 1 else 2)
        return figure


def best_pair(model: str, dataset: str) -> tuple[int, float] | tuple[None, None]:
    """The preset's k and T; None where it has none."""
    if not has_preset(model, dataset):
        return None, None
    options = preset(model, dataset)["model"]
    if not options.keys() >= {"hops", "threshold"}:
        return None, None
    return int(options["hops"]), float(options["threshold"])


def _name(hops: int, threshold: float) -> str:
    return f"k = {hops}, T = {threshold:g}"


def _point(threshold: float, runs: Sequence[RunResult]) -> Point:
    scores = [run.result["scores"] for run in runs]
    test, val = (
        parts.spread(one.get(part, {}).get("accuracy") for one in scores)
        for part in ("test", "val")
    )
    return Point(threshold, len(runs), test, val)


def _draw_curve(axis: Axes, curve: HopCurve, look: tuple[str, Any, str], shift: float) -> None:
    color, dashes, marker = look
    known = [(point.threshold + shift, point.test) for point in curve.points if point.test]
    if not known:
        return
    places, spreads = zip(*known, strict=True)
    error = None if any(one.std is None for one in spreads) else parts.whiskers(spreads)
    style: dict[str, Any] = {"linestyle": dashes, "marker": marker, "markersize": 4.5}
    style |= {"color": color, "linewidth": 1.4, "elinewidth": 0.8, "capsize": 2}
    label = f"k = {curve.hops}{'' if error is None else ' ± std'}"
    axis.errorbar(places, [one.mean for one in spreads], error, label=label, **style)


def _draw_preset(axis: Axes, panel: SensitivityPanel, curve: HopCurve, shift: float) -> None:
    """A ring around the pair that the paper found best."""
    for point in curve.points:
        chosen = (panel.preset_hops, panel.preset_threshold)
        if (curve.hops, point.threshold) == chosen and point.test is not None:
            ring: dict[str, Any] = {"marker": "o", "markersize": 11, "linestyle": "none"}
            ring |= {"markerfacecolor": "none", "markeredgecolor": "black", "clip_on": False}
            axis.plot([point.threshold + shift], [point.test.mean], label="the preset", **ring)
