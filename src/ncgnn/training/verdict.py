"""What a search has shown: whether the graph adds something, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.metrics import node_kinds
from ncgnn.nn import model_class
from ncgnn.training.evaluation import evaluated_part
from ncgnn.training.scores import bootstrap_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncgnn.training.attempt import Row
    from ncgnn.training.scores import Estimate
    from ncgnn.training.trained import TrainedModel

# Fewer nodes of a kind are not spoken of, and from fewer validation nodes nothing follows.
_FEWEST = 50
# Edges are called useless where a gain of more than two points can be excluded.
_NO_GAIN = 0.02


def judge(
    trained: TrainedModel,
    chosen: Row,
    rows: Sequence[Row],
    other: TrainedModel | None,
    beside: Row | None,
) -> dict[str, Any]:
    """What the graph adds to features alone, in numbers and in a sentence, and remedies.

    Args:
        trained: The chosen model.
        chosen: Its row.
        rows: All candidates.
        other: The best by validation of what sees features alone, a model or an average; where the
            chosen model is of that kind, the best of what sees the graph.
        beside: Its row.
    """
    sees_graph = sees_edges(trained)
    gain: dict[str, Any] | None = None
    if other is not None and beside is not None:
        pair = (trained, other) if sees_graph else (other, trained)
        features = beside if sees_graph else chosen
        gain = _compare(*pair) | {"features": features.title, "features_val": features.val}
    bare = trained.graph.features is None
    tried = any(row.state == "finished" and _uses_both(row.model, bare) for row in rows)
    gain = gain if (sees_graph or tried) and trained.graph.num_entries else None
    if not trained.graph.num_entries:
        said = "The graph has no edges, so that there is nothing that it could add."
    elif gain is None:
        said = _say_unknown(sees_graph)
    elif sees_graph:
        without = "the commonest class" if gain["features"] == "majority" else gain["features"]
        said = _say_gain(gain, without if bare else "the features alone")
    else:
        said = _say_none(gain, chosen, beside)
    gains_nothing = False
    if gain is not None and tried and not bare:
        _, low, high = gain["accuracy"]
        gains_nothing = low <= 0 and high < _NO_GAIN
    remedies = _remedies(trained, chosen, rows, gains_nothing)
    return {"gain": gain, "sentence": said, "remedies": remedies}


def _uses_both(model: str, bare: bool) -> bool:
    """Whether a model looks at edges, and at features where there are some."""
    return (bare or model != "propagation") and model_class(model).edges != "none"


def sees_edges(trained: TrainedModel) -> bool:
    """Whether edges play a part in a model, or in one of its experts."""
    names = [expert.config.model.name for expert in trained.experts]
    return any(model_class(n).edges != "none" for n in names or [trained.config.model.name])


def _compare(one: TrainedModel, other: TrainedModel) -> dict[str, Any]:
    """The difference in accuracy between two models on the same nodes, all and mixed ones."""
    part, nodes = evaluated_part(one.split)
    labels = one.graph.labels[nodes]
    right, plain = (
        model.logits().argmax(1).cpu().numpy()[nodes] == labels for model in (one, other)
    )
    mixed = node_kinds(one.graph)[nodes] == "mixed"
    there: Estimate | None = None
    if int(mixed.sum()) >= _FEWEST:
        there = bootstrap_difference(right, plain, mixed)
    overall = bootstrap_difference(right, plain)
    return {
        "part": part,
        "nodes": len(nodes),
        "accuracy": list(overall),
        "features_accuracy": float(plain.mean()),
        "mixed_nodes": int(mixed.sum()),
        "mixed": None if there is None else list(there),
    }


def _say_unknown(sees_graph: bool) -> str:
    """Why it is not known what the graph adds."""
    kind = (
        "that sees features alone finished"
        if sees_graph
        else "of features and graph finished in time"
    )
    return f"What the graph adds is not known: no model {kind}."


def _say_none(gain: dict[str, Any], chosen: Row, beside: Row | None) -> str:
    """That validation chose a model which sees no edges, and how far the others are from it."""
    value, low, high = gain["accuracy"]
    sees = "nothing of a node" if chosen.model == "majority" else "features alone"
    title = "the best model of the graph" if beside is None else beside.title
    return (
        f"The graph adds nothing that validation shows: {chosen.title}, which sees {sees}, was "
        f"chosen there; {title}, which sees the graph, differs from it by {_points(value)} "
        f"points on {_nodes(gain)} (95 %: {_points(low)} to {_points(high)})."
    )


def _say_gain(gain: dict[str, Any], rest: str) -> str:
    """What the graph adds to what is known without it, in a sentence."""
    value, low, high = gain["accuracy"]
    interval = f"95 %: {_points(low)} to {_points(high)}"
    nodes = _nodes(gain)
    if low > 0:
        text = f"The graph adds {_points(value)} points to {rest} on {nodes} ({interval})"
    elif high < 0:
        text = f"The graph costs: {_points(value)} points against {rest} on {nodes} ({interval})"
    else:
        text = (
            f"Whether the graph adds something to {rest}, {nodes} cannot tell: {_points(value)} "
            f"points ({interval})"
        )
    if gain["mixed"] is not None:
        value, low, high = gain["mixed"]
        text += f"; on mixed nodes {_points(value)}"
        text += "" if low > 0 or high < 0 else f" ({_points(low)} to {_points(high)})"
    return f"{text}."


def _nodes(gain: dict[str, Any]) -> str:
    """How many nodes a difference was measured on, and of which part."""
    return f"{gain['nodes']:,} {'test' if gain['part'] == 'test' else 'validation'} nodes"


def _points(share: float) -> str:
    """A difference of shares in points, with its sign."""
    text = f"{100 * share:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _remedies(
    trained: TrainedModel,
    chosen: Row,
    rows: Sequence[Row],
    gains_nothing: bool,
) -> list[str]:
    """What would probably help, in sentences; each names what was seen."""
    found: list[str] = []
    if (count := len(trained.split.val)) < _FEWEST:
        found.append(
            f"there {'is 1 validation node' if count == 1 else f'are {count} validation nodes'}: "
            "which model is chosen, and its score there, is mostly luck; more labels help most."
        )
    used = {expert.config.name for expert in trained.experts} or {chosen.name}
    limit = {expert.config.name: expert.config for expert in trained.experts}
    for row in rows:
        if row.name not in used or row.best_epoch is None or row.epochs <= 1:
            continue
        epochs = limit.get(row.name, trained.config).training.epochs
        if row.best_epoch < 0.95 * (epochs - 1):
            continue
        learns = (row.train_accuracy or 0.0) > (row.val_accuracy or 0.0) + 0.01
        found.append(
            f"{row.title} was best in epoch {row.best_epoch}, one of the last: more epochs may be "
            f"better (epochs = {2 * epochs}, and more time)."
            if learns
            else f"{row.title} was best in one of its last epochs and knows its training nodes no "
            "better than others: it learns too slowly; try a larger learning_rate or more epochs."
        )
    skipped = [row for row in rows if row.state in ("skipped", "stopped") and _lacks_time(row)]
    if skipped:
        models = list(dict.fromkeys(row.model for row in skipped))
        found.append(
            f"the time was too short for {len(skipped)} of {len(rows)} candidates "
            f"({', '.join(models)}); more time tries them, and keeps what is done."
        )
    if gains_nothing:
        found.append(
            "edges bring no gain that could be shown: check that they mean what they should, or "
            "leave them out and train mlp or logistic alone."
        )
    if unseen := _never_answered(trained):
        found.append(
            f"{_name_classes(unseen)} never predicted for a node that was not trained on: select "
            "by metric = 'macro_f1', or merge rare classes."
        )
    return found


def _name_classes(names: Sequence[str]) -> str:
    """Some classes, as the beginning of a sentence."""
    if len(names) == 1:
        return f"class {names[0]} is"
    return f"{len(names)} classes ({', '.join(names[:5])}{', …' if len(names) > 5 else ''}) are"


def _lacks_time(row: Row) -> bool:
    return any(word in row.why for word in ("time", "left", "would take"))


def _never_answered(trained: TrainedModel) -> list[str]:
    """Classes of training nodes that are the answer for no other node."""
    others = np.setdiff1d(np.arange(trained.graph.num_nodes), trained.split.train)
    answered = np.unique(trained.logits().argmax(1).cpu().numpy()[others])
    known = np.unique(trained.graph.labels[trained.split.train])
    names = trained.graph.class_names
    missing = np.setdiff1d(known, answered).tolist()
    return [str(label) if names is None else names[label] for label in missing]
