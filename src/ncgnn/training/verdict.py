"""What a search has shown: whether the graph adds something, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.metrics import node_kinds
from ncgnn.nn import model_class
from ncgnn.training.scores import bootstrap_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ncgnn.training.attempt import Row
    from ncgnn.training.scores import Estimate
    from ncgnn.training.trained import TrainedModel

# Fewer nodes of a kind are not spoken of.
_FEWEST = 50


def evaluated_nodes(trained: TrainedModel) -> tuple[str, NDArray[np.int64]]:
    """The part that scores are of, and its nodes: test, or validation where there are none."""
    split = trained.split
    return ("test", split.test) if len(split.test) else ("val", split.val)


def judge(
    trained: TrainedModel,
    chosen: Row,
    rows: Sequence[Row],
    alone: TrainedModel | None,
    features: Row | None,
) -> dict[str, Any]:
    """What the graph adds to features alone, in numbers and in a sentence, and remedies.

    Args:
        trained: The chosen model.
        chosen: Its row.
        rows: All candidates.
        alone: The best model that sees features alone, by validation.
        features: Its row.
    """
    sees_graph = _sees_graph(trained)
    gain: dict[str, Any] | None = None
    if alone is not None and features is not None and sees_graph:
        gain = _compare(trained, alone) | {"features": features.title}
    tried = any(row.state == "finished" and _uses_both(row.model) for row in rows)
    gains_nothing = (not sees_graph and tried) or (gain is not None and gain["accuracy"][1] <= 0)
    remedies = _remedies(trained, chosen, rows, gains_nothing)
    return {"gain": gain, "sentence": _say(gain, sees_graph, tried, chosen), "remedies": remedies}


def _uses_both(model: str) -> bool:
    """Whether a model looks at features and at edges."""
    return model != "propagation" and model_class(model).edges != "none"


def _sees_graph(trained: TrainedModel) -> bool:
    """Whether edges play a part in a model, or in one of its experts."""
    names = [expert.config.model.name for expert in trained.experts]
    return any(model_class(n).edges != "none" for n in names or [trained.config.model.name])


def _compare(one: TrainedModel, other: TrainedModel) -> dict[str, Any]:
    """The difference in accuracy between two models on the same nodes, all and mixed ones."""
    part, nodes = evaluated_nodes(one)
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
        "mixed_nodes": int(mixed.sum()),
        "mixed": None if there is None else list(there),
    }


def _say(gain: dict[str, Any] | None, sees_graph: bool, tried: bool, chosen: Row) -> str:
    """What the graph adds, in a sentence."""
    if not sees_graph and tried:
        return (
            f"The graph adds nothing here: {chosen.title}, which sees features alone, has the best "
            "validation score."
        )
    if not sees_graph:
        return "What the graph adds is not known: no model of features and graph finished in time."
    if gain is None:
        return "What the graph adds is not known: no candidate that sees features alone finished."
    value, low, high = gain["accuracy"]
    interval = f"95 %: {_points(low)} to {_points(high)}"
    which = "test" if gain["part"] == "test" else "validation"
    if low > 0:
        text = f"The graph adds {_points(value)} points to the features alone ({interval})"
    elif high < 0:
        text = f"The graph costs: {_points(value)} points against features alone ({interval})"
    else:
        text = (
            f"Whether the graph adds something to the features alone, {gain['nodes']:,} {which} "
            f"nodes cannot tell: {_points(value)} points ({interval})"
        )
    if gain["mixed"] is not None:
        value, low, high = gain["mixed"]
        text += f"; on mixed nodes {_points(value)}"
        text += "" if low > 0 or high < 0 else f" ({_points(low)} to {_points(high)})"
    return f"{text}."


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
            f"nobody is answered {', '.join(unseen[:5])}{', …' if len(unseen) > 5 else ''}, though "
            "training nodes are of it: select by metric = 'macro_f1', or merge rare classes."
        )
    return found


def _lacks_time(row: Row) -> bool:
    return any(word in row.why for word in ("time", "left", "would take"))


def _never_answered(trained: TrainedModel) -> list[str]:
    """Classes of training nodes that are the answer for no node at all."""
    answered = np.unique(trained.logits().argmax(1).cpu().numpy())
    known = np.unique(trained.graph.labels[trained.split.train])
    names = trained.graph.class_names
    missing = np.setdiff1d(known, answered).tolist()
    return [str(label) if names is None else names[label] for label in missing]
