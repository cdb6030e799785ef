"""Where the first layers of GCN and of NCGCN put confused nodes, drawn on a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ncgnn.errors import InputError
from ncgnn.nn import Model, model_class
from ncgnn.paper.figures import parts
from ncgnn.paper.figures.nodes import evaluated_nodes, evaluated_part, observed_rule, share
from ncgnn.paper.figures.observation import observed_options
from ncgnn.paper.printed import model_title
from ncgnn.paper.targets import Row, Target
from ncgnn.report import (
    BLUE,
    GREEN,
    ORANGE,
    PARTS,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    percent,
)
from ncgnn.training import load_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.paper.targets import Request, Runs
    from ncgnn.training import RunResult

PERPLEXITY = 30.0
#: Principal components that are handed to t-SNE, as its authors do.
COMPONENTS = 50
#: Nodes that are drawn; t-SNE of more takes minutes and shows blots.
MOST_NODES = 3000
_HUES = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, "#777777")
#: Black and white are mixed in when all hues were used: share of the hue, and of white.
_SHADES = ((1.0, 0.0), (0.55, 0.0), (0.6, 0.4))


@dataclass(frozen=True)
class EmbeddingPanel:
    """One model on one dataset, by NC within ``hops`` (k) and its ``threshold`` (T).

    Attributes:
        part: Whose accuracy is stated, ``test`` or ``val``.
        accuracy: Of all evaluated nodes.
        low_accuracy: Of those with low NC; None if there are none.
        high_accuracy: Of those with high NC.
        x: Place of every drawn node; the same nodes for all models of a dataset.
        y: Place of every drawn node.
        label: Class of every drawn node.
        high: Whether its true NC is high.
    """

    dataset: str
    model: str
    hops: int
    threshold: float
    part: str
    accuracy: float
    low_accuracy: float | None
    high_accuracy: float | None
    x: tuple[float, ...]
    y: tuple[float, ...]
    label: tuple[int, ...]
    high: tuple[bool, ...]


class Embeddings(Target[parts.Panels[EmbeddingPanel]]):
    """Fig. "Visualization of embeddings learned by GCN before and after guidance by NC".

    GCN is the paper's standard one (64 hidden units, dropout 0.5), and a separated model has the
    same width and dropout, and separates with the k and T by which nodes are drawn. Learning rate
    and weight decay of models other than GCN are those of their presets. One seed is drawn.
    """

    name = "embeddings"
    title = "t-SNE of first-layer outputs, by class and NC"
    kind = "figure"
    datasets = ("coauthor-cs",)
    models = ("gcn", "ncgcn")
    ignores_presets = True
    has_one_seed = True

    def rows(self, request: Request, dataset: str) -> list[Row]:
        """The models with the paper's standard options, and its k and T where they have them."""
        rows: list[Row] = []
        for model in request.models:
            if model_class(model).compute_hidden is Model.compute_hidden:
                raise InputError(
                    f"{model} has no first layer that could be drawn; choose mlp, gcn, sage or a "
                    "separated model of two layers, like ncgcn."
                )
            rows.append(Row(model, model, options=observed_options(request, dataset, model)))
        return rows

    def collect(self, request: Request, runs: Runs) -> parts.Panels[EmbeddingPanel]:
        """Points on the plane, and the accuracies of the stored models."""
        panels = [
            _panel(request, dataset, run)
            for dataset in request.datasets
            for _, found in self.finished(request, dataset, runs)
            for run in found
        ]
        return parts.Panels(tuple(panels))

    def draw(self, data: parts.Panels[EmbeddingPanel]) -> Figure:
        """Triangles are nodes with high NC, dots those with low NC, colors are classes."""
        datasets = list(dict.fromkeys(panel.dataset for panel in data.panels))
        models = list(dict.fromkeys(panel.model for panel in data.panels))
        size = (max(4.0 * len(models), 5.0), 3.7 * len(datasets) + 0.3)
        figure = Figure(figsize=size, layout="constrained")
        for panel in data.panels:
            row, column = datasets.index(panel.dataset), models.index(panel.model)
            place = row * len(models) + column + 1
            _draw_panel(figure.add_subplot(len(datasets), len(models), place), panel)
        handles = [_mark("^", 6, edge=0.7), _mark("o", 4, edge=0)]
        names = ["high NC of the true labels", "low NC"]
        figure.legend(handles, names, loc="outside upper left", ncols=2, frameon=False, fontsize=8)
        _add_class_legend(
            figure, 1 + max((max(panel.label, default=0) for panel in data.panels), default=0)
        )
        return figure


def _panel(request: Request, dataset: str, run: RunResult) -> EmbeddingPanel:
    rule, trained = observed_rule(request, dataset), load_run(run.folder, request.data_dir)
    graph, high = trained.graph, rule.high(trained.graph)
    nodes, drawn = evaluated_nodes(run), _drawn_nodes(graph)
    right = trained.probabilities().argmax(1)[nodes] == graph.labels[nodes]
    group = trained.grouping.group.to(trained.inputs.device)
    hidden = trained.model.compute_hidden(trained.inputs, group).float().cpu().numpy()
    # Four digits are far below a pixel, and files stay small.
    points = plane(hidden[drawn], seed=0).round(4).astype(np.float64)
    return EmbeddingPanel(
        parts.short_name(request, dataset),
        run.config.model.name,
        rule.hops,
        rule.threshold,
        evaluated_part([run]),
        float(right.mean()),
        share(right[~high[nodes]]),
        share(right[high[nodes]]),
        tuple(points[:, 0].tolist()),
        tuple(points[:, 1].tolist()),
        tuple(graph.labels[drawn].tolist()),
        tuple(high[drawn].tolist()),
    )


def _drawn_nodes(graph: Graph) -> NDArray[np.int64]:
    """Labeled nodes, drawn at random where there are too many, in ascending order."""
    labeled = np.flatnonzero(graph.labels >= 0)
    if len(labeled) <= MOST_NODES:
        return labeled
    return np.sort(np.random.default_rng(0).choice(labeled, MOST_NODES, replace=False))


def plane(rows: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Points on a plane that keep neighbors together, the same for the same rows and seed.

    t-SNE ("Visualizing Data using t-SNE", van der Maaten and Hinton, JMLR 2008) of the first
    principal components, with one thread, so that sums are always added in one order.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    count, width = rows.shape
    if count < 4:
        raise InputError(f"{count} nodes are too few to draw; t-SNE needs at least 4.")
    with threadpool_limits(limits=1):
        components = min(COMPONENTS, width, count)
        reduced = PCA(components, random_state=seed).fit_transform(rows)
        perplexity = min(PERPLEXITY, (count - 1) / 3)
        method = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
        return method.fit_transform(reduced)


def _draw_panel(axis: Axes, panel: EmbeddingPanel) -> None:
    x, y, high = np.array(panel.x), np.array(panel.y), np.array(panel.high)
    colors = np.array([class_color(label) for label in panel.label])
    # As pixels: thousands of marks would make the SVG file huge.
    look: dict[str, Any] = {"rasterized": True}
    axis.scatter(x[~high], y[~high], s=5, c=colors[~high], marker="o", linewidths=0, **look)
    look |= {"marker": "^", "edgecolors": "black", "linewidths": 0.4}
    size = float(np.clip(8000 / max(np.count_nonzero(high), 1), 8, 22))
    axis.scatter(x[high], y[high], s=size, c=colors[high], **look)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set_visible(True)
    axis.spines[:].set_color("#cccccc")
    groups = (percent(one) or "–" for one in (panel.low_accuracy, panel.high_accuracy))
    title = f"{model_title(panel.model)} on {panel.dataset}, k = {panel.hops}, "
    title += f"T = {panel.threshold:g}\n{PARTS[panel.part]} accuracy {percent(panel.accuracy)} % "
    parts.set_panel_title(axis, title + "(low {}, high {})".format(*groups))


def _add_class_legend(figure: Figure, classes: int) -> None:
    """Below the panels; where colors come again, they tell no more."""
    if classes > len(_HUES) * len(_SHADES):
        return
    handles = [_mark("o", 4, edge=0, color=class_color(label)) for label in range(classes)]
    names = ["class 0", *(str(label) for label in range(1, classes))]
    columns = min(classes, int(2.6 * figure.get_figwidth()))
    look: dict[str, Any] = {"handletextpad": 0.0, "columnspacing": 0.6, "borderpad": 0.2}
    where = "outside lower left"
    figure.legend(handles, names, loc=where, ncols=columns, frameon=False, fontsize=7.5, **look)


def _mark(marker: str, size: float, edge: float, color: Any = "#bbbbbb") -> Line2D:
    mark = Line2D([], [], linestyle="none", marker=marker, markersize=size)
    mark.set_markerfacecolor(color)
    mark.set_markeredgecolor("black")
    mark.set_markeredgewidth(edge)
    return mark


def class_color(label: int) -> tuple[float, float, float]:
    """A color per class: eight hues, then the same ones darker, then lighter."""
    own, white = _SHADES[label // len(_HUES) % len(_SHADES)]
    red, green, blue = to_rgb(_HUES[label % len(_HUES)])
    return own * red + white, own * green + white, own * blue + white
