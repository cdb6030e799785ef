"""How good predictions are: scores, and scores where nodes are confused and where not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import numpy as np
import torch

from ncgnn.data import split_report
from ncgnn.errors import InputError
from ncgnn.metrics import (
    KINDS,
    attainable_confusion,
    class_names,
    confusion_masks,
    group_names,
    neighborhood_confusion,
    node_homophily,
    node_kinds,
    relative_confusion,
)
from ncgnn.nn import Grouper
from ncgnn.training.scores import LEVEL, RESAMPLES, Scored, compare_answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.data import Split
    from ncgnn.graph import Graph
    from ncgnn.nn import GraphInputs, Grouping, GroupingRule, Mixture, Model
    from ncgnn.training.inference import Outcome
    from ncgnn.training.trained import TrainedModel

Metric = Literal[
    "accuracy", "macro_f1", "balanced_accuracy", "roc_auc", "average_precision", "likelihood"
]
METRICS: tuple[Metric, ...] = get_args(Metric)
Scores = dict[str, float | None]
#: The parts of a split.
PARTS = ("train", "val", "test")
#: What people call the scores.
SCORE_NAMES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "likelihood": "likelihood",
    "calibration_error": "calibration error",
}

#: What of an evaluation is long, and of interest for one run only.
DETAILS = (
    *("classes", "confused_pairs", "most_confused"),
    *("accuracy_by_estimated_nc_decile", "accuracy_by_true_nc_decile", "accuracy_by_degree"),
    "tenths",
    *("calibration", "sets", "mixture"),
)
#: NC above it is high where a model has no threshold on NC of its own.
DEFAULT_THRESHOLD = 0.5
#: A group with a smaller share of the nodes is warned of.
SMALL_GROUP = 0.01
#: The accuracy of fewer nodes is not compared with that of others.
FEWEST_NODES = 10


def scores(logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor) -> Scores:
    r"""Scores of the predictions on some nodes: those of :func:`score`, and two more.

    * ``calibration_error``: :math:`\sum_b |B_b|/n \cdot |acc(B_b) - conf(B_b)|` over 15 bins of
      equal width of the highest probability (Guo et al., https://arxiv.org/abs/1706.04599).
    * ``loss``: the mean cross-entropy.

    A score that is not defined, or not finite because logits overflow, is None.
    """
    if not len(nodes):
        raise InputError("there are no nodes to score; the split has an empty part.")
    chosen, truth = logits.index_select(0, nodes).detach(), labels.index_select(0, nodes)
    values: Scores = {metric: score(metric, chosen, truth) for metric in METRICS}
    probabilities = torch.softmax(chosen.cpu().double(), dim=1).numpy()
    values["calibration_error"] = calibration_error(truth.cpu().numpy(), probabilities)
    values["loss"] = float(torch.nn.functional.cross_entropy(chosen, truth))
    return {
        name: value if value is not None and np.isfinite(value) else None
        for name, value in values.items()
    }


def score(metric: Metric, logits: torch.Tensor, labels: torch.Tensor) -> float | None:
    """One score of the logits of some nodes [n, classes], given their labels [n].

    * ``accuracy``: the share of nodes whose highest logit is at their class.
    * ``macro_f1``: the mean over classes of F1 = 2·TP / (2·TP + FP + FN), over all classes that
      occur among the labels or the predictions of these nodes.
    * ``balanced_accuracy``: the mean recall over the classes that occur among the labels.
    * ``roc_auc``: the area under the ROC curve of the probability of class 1, that is the
      probability that a random node of class 1 gets a higher one than a random node of class 0,
      ties counting one half. With more than two classes, the mean of the areas of each class
      against all others, over the classes that occur among the labels.
    * ``average_precision``: Σ (R_i - R_{i-1}) P_i over the thresholds of the same probability, with
      precision P and recall R. With more than two classes, the mean as for ``roc_auc``.
    * ``likelihood``: the geometric mean of the probability of a node's own class, exp(-loss). It
      still tells epochs apart where few validation nodes are all classified rightly.

    The two areas are None where all labels are of one class or a probability is not a number.
    """
    # Only here, because importing it takes a tenth of the time of importing torch.
    from sklearn import metrics

    true = labels.cpu().numpy()
    probabilities = torch.softmax(logits.detach().cpu().double(), dim=1).numpy()
    predicted = probabilities.argmax(1)
    if metric == "accuracy":
        return float(np.mean(predicted == true))
    if metric == "likelihood":
        return float(torch.nn.functional.cross_entropy(logits.detach(), labels).neg().exp())
    if metric == "macro_f1":
        return float(metrics.f1_score(true, predicted, average="macro"))
    seen = np.unique(true)
    if metric == "balanced_accuracy":
        return float(metrics.recall_score(true, predicted, labels=seen, average="macro"))
    if len(seen) < 2 or not np.isfinite(probabilities).all():
        return None
    area = _roc_auc if metric == "roc_auc" else _average_precision
    classes = (1,) if probabilities.shape[1] == 2 else seen
    return float(np.mean([area(true == c, probabilities[:, c]) for c in classes]))


# Scikit-learn's functions check their arguments for longer than they compute, once per class.


def _roc_auc(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    """The area under the ROC curve, from the mean rank of positive nodes; ties share theirs."""
    from scipy.stats import rankdata

    ranks, ones = rankdata(values), int(positive.sum())
    above = float(ranks[positive].sum()) - ones * (ones + 1) / 2
    return above / (ones * (len(values) - ones))


def _average_precision(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    """The sum of precisions, each times the recall that its threshold adds."""
    order = np.argsort(-values, kind="stable")
    last = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    found = np.cumsum(positive[order])[last]
    gains = np.diff(found, prepend=0) / found[-1]
    return float((gains * found / (last + 1)).sum())


def check_metric(metric: Metric, labels: NDArray[np.int64]) -> None:
    """Refuse to select models by a metric that is not defined on validation nodes.

    Raises:
        InputError: The validation nodes are all of one class, which a ranking needs two of.
    """
    if metric in ("roc_auc", "average_precision") and len(np.unique(labels)) < 2:
        raise InputError(
            f"metric must be defined on the validation nodes; got {metric}, and these are all of "
            "one class; choose accuracy, or another split."
        )


def calibration_error(
    true: NDArray[Any], probabilities: NDArray[np.float64], bins: int = 15
) -> float:
    """Expected calibration error of the highest probability."""
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == true
    if not np.isfinite(confidence).all():
        return float("nan")
    place = confidence_bins(confidence, bins)
    gaps = np.bincount(place, weights=right.astype(float) - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(true))


def confidence_bins(confidence: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """The bin of equal width that each probability is in, its upper end included."""
    return np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def evaluation(
    model: Model, inputs: GraphInputs, split: Split, grouping: Grouping, outcome: Outcome
) -> dict[str, Any]:
    """Everything that is reported of a trained model that makes this of the nodes of its graph.

    Where it is right is shown by what the true labels say: by kind, NC and NH of nodes; and by what
    is known when it answers: by estimated kind and NC, which predictions come with, by the groups
    that it was run with, and by degree. It is that of the nodes of the part ``evaluated``: test
    nodes, or validation nodes where the split has no others. Labels of test nodes enter nothing
    else.
    """
    graph, rule = inputs.graph, model.rule
    report = split_report(split, graph)
    evaluated, _ = evaluated_part(split)
    true = true_groups(graph, rule)
    known = scored(graph, split, outcome.logits)
    result: dict[str, Any] = {
        "scores": part_scores(inputs, split, outcome.logits),
        "nodes": {name: len(getattr(split, name)) for name in PARTS},
        "evaluated": evaluated,
        "intervals": {"level": LEVEL, "resamples": RESAMPLES} | known.intervals(),
        "majority_baseline": report.majority_baseline,
        "never_evaluated": list(report.never_evaluated),
        "classes": known.by_class(),
        "confused_pairs": known.confused_pairs(),
        "most_confused": known.most_confused(),
        "hops": true.hops,
        "thresholds": list(true.thresholds),
        "threshold_kind": true.kind,
        **scores_by_place(graph, split, known, true, outcome),
        "true_mean_nc": true.mean,
    }
    if rule is not None:
        group = grouping.group
        sizes = torch.bincount(group, minlength=len(rule.thresholds) + 1).tolist()
        nodes = evaluated_part(split)[1]
        result["accuracy_by_group"] = known.by_part(group.numpy()[nodes], _numbered(len(sizes)))
        result["group_sizes"] = sizes
        result["small_groups"] = small_groups(sizes)
        result["mean_nc"] = float(grouping.confusion.mean())
        if (alpha := model.channel_alpha) is not None:
            result["alpha"] = [float(a) for a in alpha.detach()]
    return result


def expert_shares(trained: TrainedModel) -> dict[str, Any]:
    """How much the experts of a mixture count at the evaluated nodes, in all and by kind.

    Kinds are the estimated ones, as answers come with them. Without a gate every expert counts the
    same at all nodes, and ``by_kind`` is left out.

    Returns:
        ``experts``, a record for each with its title and mean ``share``; and ``nodes_by_kind``.
    """
    model, options = cast("Mixture", trained.model.eval()), trained.config.model.options
    tried = () if trained.auto is None else trained.auto["candidates"]
    titles = {row["name"]: row["title"] for row in tried}
    named = [titles.get(e.config.name, e.config.model.name) for e in trained.experts]
    named = named or [expert["name"] for expert in options["experts"]]
    _, nodes = evaluated_part(trained.split)
    group = trained.grouping.group.to(trained.inputs.device)
    shares = model.shares(trained.inputs, group).double().cpu().numpy()[:, nodes]
    kind = trained.outcome.kinds[nodes]
    at = {name: kind == name for name in KINDS if (kind == name).any()}
    experts: list[dict[str, Any]] = []
    for title, share in zip(named, shares, strict=True):
        experts.append({"expert": title, "share": float(share.mean())})
        if model.gate != "none":
            by_kind = {name: float(share[where].mean()) for name, where in at.items()}
            experts[-1]["by_kind"] = by_kind
    return {"experts": experts, "nodes_by_kind": {k: int(one.sum()) for k, one in at.items()}}


def evaluated_part(split: Split) -> tuple[str, NDArray[np.int64]]:
    """The part whose answers are looked at closely, and its nodes: test, or else validation."""
    return ("test", split.test) if len(split.test) else ("val", split.val)


def scored(graph: Graph, split: Split, logits: torch.Tensor) -> Scored:
    """What is true and what is answered of the evaluated nodes."""
    _, nodes = evaluated_part(split)
    predicted = logits.argmax(1).cpu().numpy()
    names = class_names(graph, logits.shape[1])
    return Scored(graph.labels[nodes], predicted[nodes], names, graph.ids[nodes])


def part_scores(inputs: GraphInputs, split: Split, logits: torch.Tensor) -> dict[str, Scores]:
    """The scores of every part of a split that has nodes."""
    nodes = {name: torch.from_numpy(getattr(split, name).copy()) for name in PARTS}
    return {
        name: scores(logits, inputs.labels, part.to(logits.device))
        for name, part in nodes.items()
        if len(part)
    }


def scores_by_place(
    graph: Graph,
    split: Split,
    known: Scored,
    true: TrueGroups,
    outcome: Outcome,
) -> dict[str, Any]:
    """Scores of the evaluated nodes by what is around them."""
    _, nodes = evaluated_part(split)
    own = node_kinds(graph)
    kind, degree = _kind_places(own), degree_classes(graph)
    homophily = deciles(node_homophily(graph, neighborhood="closed"))
    kinds = {place: {"kind": name} for place, name in enumerate(KINDS)}
    estimated, actual = (
        # Both of one hop, whatever groups follow; that of nodes which are alone says nothing.
        ranked_tenths(np.where(kinds == "alone", np.nan, values)[nodes])
        for values, kinds in (
            (outcome.confusion, outcome.kinds),
            (neighborhood_confusion(graph), own),
        )
    )
    ranges = enumerate(map(degree_range, range(int(degree.max(initial=0)) + 1)))
    degrees = {place: {"from": low, "to": high} for place, (low, high) in ranges}
    group = true.group[nodes]
    return {
        "accuracy_by_kind": known.by_part(kind[nodes], kinds, macro_f1=True),
        "accuracy_by_estimated_kind": known.by_part(
            _kind_places(outcome.kinds)[nodes], kinds, macro_f1=True
        ),
        "tenths": {"hops": 1, "alone": False},
        "accuracy_by_estimated_nc_decile": known.by_part(*estimated),
        "accuracy_by_true_nc_decile": known.by_part(*actual),
        "accuracy_by_degree": known.by_part(degree[nodes], degrees, macro_f1=True),
        "accuracy_by_true_group": known.by_part(group, _numbered(len(true.thresholds) + 1)),
        "accuracy_by_nh_decile": known.by_part(homophily[nodes], _numbered(10)),
    }


def _kind_places(kinds: NDArray[np.str_]) -> NDArray[np.int64]:
    return np.select([kinds == name for name in KINDS], range(len(KINDS)), -1)


def _numbered(count: int) -> dict[int, dict[str, Any]]:
    """Parts that are called by their numbers."""
    return {number: {"part": number} for number in range(count)}


def degree_classes(graph: Graph) -> NDArray[np.int64]:
    """Nodes by how many edges end at them, loops not counted: 0, 1, 2, 3 to 4, 5 to 8 and so on."""
    degree = graph.degrees - graph.self_loops
    doublings = np.ceil(np.log2(np.maximum(degree, 1))).astype(np.int64)
    return np.where(degree > 0, 1 + doublings, 0)


def degree_range(place: int) -> tuple[int, int]:
    """The smallest and the largest degree of a class of :func:`degree_classes`."""
    return (place, place) if place < 2 else (2 ** (place - 2) + 1, 2 ** (place - 1))


def ranked_tenths(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.int64], dict[int, dict[str, Any]]]:
    """Divide nodes into ten parts of one size by a value; equal ones stay together.

    So there are fewer than ten parts where many values are equal; one that is left with fewer than
    :data:`FEWEST_NODES` nodes is joined with that of the next higher values, the last one with that
    before.

    Returns:
        The part of every node, -1 for NaN; and for each part ``from`` and ``to``, its smallest and
        its largest value.
    """
    known, rounded = np.isfinite(values), np.round(values, 9)
    if not known.any():
        return np.full(len(values), -1), {}
    limits = np.quantile(rounded[known], np.arange(1, 10) / 10, method="lower")
    place = np.searchsorted(np.unique(limits), rounded, side="left")
    place = np.unique(np.where(known, place, -1), return_inverse=True)[1] - int(not known.all())
    place = _join_small(place)
    names = {
        number: {"from": float(rounded[chosen].min()), "to": float(rounded[chosen].max())}
        for number in range(int(place.max()) + 1)
        if (chosen := place == number).any()
    }
    return place.astype(np.int64), names


def _join_small(place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Parts in their order, those of few nodes joined with the next one; -1 stays."""
    sizes = np.bincount(place[place >= 0])
    number, count = np.zeros(len(sizes), dtype=np.int64), 0
    for part in range(1, len(sizes)):
        count += int(sizes[part - 1])
        number[part] = number[part - 1] + int(count >= FEWEST_NODES)
        count = 0 if count >= FEWEST_NODES else count
    if count + int(sizes[-1]) < FEWEST_NODES and number[-1] > 0:
        number[number == number[-1]] -= 1
    return np.where(place >= 0, number[place], -1)


def compare_trained(first: TrainedModel, second: TrainedModel) -> dict[str, Any]:
    """How two trained models differ on the same evaluated nodes, in all and by kind of node.

    Kinds are those by the true labels, in the graph of the first.

    Returns:
        What :func:`ncgnn.training.scores.compare_answers` says of them.

    Raises:
        InputError: Their evaluated nodes are not the same, or have other labels.
    """
    pairs: list[tuple[TrainedModel, Scored]] = []
    for trained in (first, second):
        known = scored(trained.graph, trained.split, trained.outcome.logits)
        pairs.append((trained, known.of(np.argsort(known.ids, kind="stable"))))
    (_, mine), (_, theirs) = pairs
    evaluated = [evaluated_part(trained.split)[0] for trained, _ in pairs]
    if evaluated[0] != evaluated[1] or not np.array_equal(mine.ids, theirs.ids):
        names = [trained.graph.name for trained in (first, second)]
        if names[0] != names[1]:
            raise InputError(
                f"against must be a run on the same graph, {names[0]}; got one on {names[1]}."
            )
        common = len(np.intersect1d(mine.ids, theirs.ids)) if evaluated[0] == evaluated[1] else 0
        raise InputError(
            f"against must be a run with the same test nodes; got one with {len(theirs.true):,}, "
            f"of which {common:,} are among the {len(mine.true):,} here; train both on the same "
            "split with the same seed."
        )
    if mine.names != theirs.names or not np.array_equal(mine.true, theirs.true):
        raise InputError(
            "against must be a run with the same classes and labels of test nodes; got others."
        )
    _, nodes = evaluated_part(first.split)
    nodes = nodes[np.argsort(first.graph.ids[nodes], kind="stable")]
    kinds = {place: {"kind": name} for place, name in enumerate(KINDS)}
    return compare_answers(mine, theirs, _kind_places(node_kinds(first.graph))[nodes], kinds)


class TrueGroups(NamedTuple):
    """Groups of nodes by NC of the true labels, with the mean NC; None if it is nowhere defined."""

    confusion: NDArray[np.float64]
    group: NDArray[np.int64]
    hops: int
    thresholds: tuple[float, ...]
    kind: str
    mean: float | None


def true_groups(graph: Graph, rule: GroupingRule | None) -> TrueGroups:
    """Group nodes by NC of the true labels as a model's rule does, where it compares NC itself.

    Otherwise NC is divided at one half; or at one half of what is attainable, where most
    neighborhoods are too small for an NC of one half and hardly any node has it.
    """
    hops = 1 if rule is None else rule.hops
    confusion = neighborhood_confusion(graph, hops=hops)
    mean = float(np.nanmean(confusion)) if np.isfinite(confusion).any() else None
    if rule is not None and rule.guidance == "nc" and rule.kind.startswith("attainable"):
        rule = replace(rule, grouped=True)  # where nodes belong, wherever a model puts them
        group = Grouper(graph, rule)(torch.from_numpy(graph.labels.copy())).group.numpy()
        return TrueGroups(confusion, group, hops, rule.thresholds, rule.kind, mean)
    thresholds = (DEFAULT_THRESHOLD,)
    if rule is not None and rule.kind == "value" and rule.guidance == "nc":
        thresholds = rule.thresholds
    elif _is_out_of_reach(graph, confusion, hops):
        relative = relative_confusion(graph, hops=hops)
        high = confusion_masks(relative, DEFAULT_THRESHOLD)[1].astype(np.int64)
        return TrueGroups(confusion, high, hops, thresholds, "attainable", mean)
    group = np.sum([confusion_masks(confusion, limit)[1] for limit in thresholds], axis=0)
    return TrueGroups(confusion, group, hops, thresholds, "value", mean)


def _is_out_of_reach(graph: Graph, confusion: NDArray[np.float64], hops: int) -> bool:
    """Whether hardly any node is above the threshold, because most cannot be."""
    if confusion_masks(confusion, DEFAULT_THRESHOLD)[1].mean() >= SMALL_GROUP:
        return False
    reach = attainable_confusion(graph, hops=hops)
    return bool(confusion_masks(reach, DEFAULT_THRESHOLD)[0].mean() > 0.5)


def small_groups(sizes: Sequence[int]) -> list[int]:
    """The groups that hold under one percent of the nodes."""
    return [group for group, size in enumerate(sizes) if size < SMALL_GROUP * sum(sizes)]


def about_small_groups(sizes: Sequence[int], kind: str = "value", guidance: Any = "nc") -> str:
    """A sentence on the groups with under one percent of the nodes; empty if there are none."""
    if not (small := small_groups(sizes)):
        return ""
    names = group_names(len(sizes), measure_name(guidance))
    held = " and ".join(f"{names[group]} holds {sizes[group]:,}" for group in small)
    remedy = "set another threshold"
    if kind == "value":
        better = "attainable" if guidance == "nc" else "quantile"
        remedy = f'set threshold_kind = "{better}" or another threshold'
    return (
        f"of the groups, {held} of {sum(sizes):,} nodes, under one percent: "
        f"{'its' if len(small) == 1 else 'their'} weights learn from hardly anybody; {remedy}."
    )


def measure_name(guidance: Any) -> str:
    """What people call the measure that groups follow: NC, 1 − NH in the ablation, or another."""
    known = {"nc": "NC", "nh": "1 − NH"}
    return known.get(guidance) or getattr(guidance, "__name__", str(guidance))


def deciles(share: NDArray[np.float64]) -> NDArray[np.int64]:
    """The tenth of [0, 1] that a share lies in: 0 for [0, 0.1), …, 9 for [0.9, 1]; -1 for NaN."""
    known = np.nan_to_num(share, nan=-1.0)
    tenth = np.minimum(np.floor(known * 10 + 1e-9), 9).astype(np.int64)
    return np.where(np.isnan(share), -1, tenth)
