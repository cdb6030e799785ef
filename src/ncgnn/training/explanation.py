"""Why a model answers as it does for one node: what the answer would be without parts of it.

Every effect is exact: the part is left out, and the model computes the node's receptive field
again. Nothing is estimated but the choice of what to leave out where there is too much to try all:
first come those neighbors and features whose gradient promises most.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from ncgnn._version import __version__
from ncgnn.data import Tables, shorten
from ncgnn.errors import InputError
from ncgnn.graph import whole_number
from ncgnn.metrics import class_names
from ncgnn.nn import MaskedInputs, masked_row
from ncgnn.training.answers import Answers
from ncgnn.training.node_table import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.nn import GraphInputs
    from ncgnn.training.inference import Inference, View
    from ncgnn.training.trained import TrainedModel

#: What can be left out: one neighbor or all, one feature, all features of a column, or all.
Part: TypeAlias = Literal["neighbor", "neighbors", "feature", "column", "features"]
#: Number of the format of the files.
FORMAT = 1
#: A part that changes the probability by less is not worth a word.
WORTH_A_WORD = 0.005
#: Longer names end in an ellipsis where they are part of a sentence.
LONGEST_NAME = 50
# So many times more features are tried than are shown.
_MORE_FEATURES = 3


@dataclass(frozen=True)
class Effect:
    """What one part of a node and its surroundings does to the answer.

    Attributes:
        part: What kind of part it is.
        name: The neighbor's id, the name of a feature or column; None for all neighbors or all
            features.
        effect: What the part adds to the probability of the predicted class: that of the answer
            less that without the part. Below 0 it speaks against the answer.
        log_odds: What it adds to the logarithm of the odds p / (1 - p), which says more where the
            model is sure.
        probability: Of the class that is predicted with the part, without it.
        predicted: What would be predicted without the part.
        predicted_probability: With which probability.
        neighbor_class: The class with which a neighbor counts: its label if it was trained on,
            otherwise its prediction.
        edge: Whether the edge points ``in`` to the node, ``out`` of it, or ``both`` ways.
        value: The weight of a neighbor's edge, or the value of a feature as models see it.
    """

    part: Part
    name: str | int | None
    effect: float
    log_odds: float
    probability: float
    predicted: str
    predicted_probability: float
    neighbor_class: str | None = None
    edge: str | None = None
    value: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The answer for one node, and what each part of its surroundings does to it.

    Attributes:
        answer: The node's row of :class:`ncgnn.training.Answers`, classes in words.
        effects: The effects: all neighbors, all own features, then single neighbors, columns and
            features, each the strongest first.
        num_neighbors: How many neighbors the node has.
        num_features: How many of its features are not 0.
        tried: How many neighbors and features were left out one by one.
        notes: What else there is to know.
        model: The model's name.
        graph: The graph's name.
        refitted: Whether the weights that answer were trained on all labels.
    """

    answer: dict[str, Any]
    effects: tuple[Effect, ...]
    num_neighbors: int
    num_features: int
    tried: dict[str, int]
    notes: tuple[str, ...]
    model: str
    graph: str
    refitted: bool = False

    def of(self, *parts: Part) -> list[Effect]:
        """The effects of some kinds of parts, the strongest first."""
        return [one for one in self.effects if one.part in parts]

    @cached_property
    def table(self) -> Any:
        """The effects as a ``pyarrow.Table`` with a row each."""
        import pyarrow as pa

        texts, floats = pa.string(), pa.float64()
        numbers = ("effect", "log_odds", "probability", "predicted_probability", "value")
        rows = [asdict(one) for one in self.effects]
        columns: dict[str, Any] = {"id": pa.array([str(self.answer["id"])] * len(rows), texts)}
        for name in Effect.__dataclass_fields__:
            kind = floats if name in numbers else texts
            given = [row[name] for row in rows]
            if name == "name":
                given = [None if value is None else str(value) for value in given]
            columns[name] = pa.array(given, kind)
        said = {"format": FORMAT, "ncgnn": __version__, "model": self.model}
        said |= {"answer": self.answer}
        return pa.table(columns).replace_schema_metadata({"ncgnn": json.dumps(said)})

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def write(self, path: Path | str, *, for_spreadsheet: bool = False) -> Path:
        """Write the table into a file that ends in .csv, .tsv, .parquet or .feather.

        Args:
            path: The file.
            for_spreadsheet: As in :meth:`ncgnn.training.NodeTable.write`.
        """
        return write_table(self.table, path, for_spreadsheet=for_spreadsheet)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "format": FORMAT,
            "model": self.model,
            "graph": self.graph,
            "refitted": self.refitted,
            "answer": self.answer,
            "effects": [asdict(one) for one in self.effects],
            "num_neighbors": self.num_neighbors,
            "num_features": self.num_features,
            "tried": self.tried,
            "notes": list(self.notes),
        }

    def sentences(self) -> list[str]:
        """The answer and its main reasons in words."""
        answer = self.answer
        said = [f"{answer['id']}: predicted {answer['predicted']} ({answer['probability']:.2f})"]
        if answer["runner_up"] is not None:
            runner_up = f"{answer['runner_up']} ({answer['runner_up_probability']:.2f})"
            said[0] += f", runner-up {runner_up}"
        if answer["label"] is not None:
            known = "the label it was trained with" if answer["seen"] else "its label"
            said[0] += f"; {known} is {answer['label']}"
        said[0] += "."
        if not self.num_neighbors:
            said.append("It has no neighbors.")
        elif answer["kind"] is not None and answer["nc"] is not None:
            said.append(f"The classes around it: {answer['kind']}, NC {answer['nc']:.2f}.")
        for one in self.of("neighbors", "features"):
            what = "neighbors" if one.part == "neighbors" else "own features"
            still = "still " if one.predicted == answer["predicted"] else ""
            outcome = f"{one.predicted} ({one.predicted_probability:.2f})"
            said.append(f"Without its {what} it would {still}be {outcome}.")
        single = self.of("neighbor", "feature")
        for word, sign in (("for", 1), ("against", -1)):
            found = [one for one in single if sign * one.effect >= WORTH_A_WORD]
            found.sort(key=lambda one: -sign * one.effect)
            if found:
                listed = [f"{describe_part(one)} {one.effect:+.2f}" for one in found[:3]]
                said.append(f"Most {word} it: {', '.join(listed)}.")
        if single and all(abs(one.effect) < WORTH_A_WORD for one in single):
            said.append(f"No single part changes the probability by {WORTH_A_WORD}.")
        return [*said, *self.notes]

    def __repr__(self) -> str:
        lines = ["Explanation", *(f"  {sentence}" for sentence in self.sentences())]
        for one in self.effects[:15]:
            lines.append(f"  {one.effect:+.3f}  {describe_part(one)}")
        if len(self.effects) > 15:
            lines.append(f"  … {len(self.effects) - 15} more in .table")
        return "\n".join(lines)


def describe_part(one: Effect) -> str:
    """What was left out, in a few words."""
    if one.name is None:
        return "all neighbors" if one.part == "neighbors" else "all own features"
    if one.part == "feature":
        return shorten(str(one.name), LONGEST_NAME)
    whose = f" ({one.neighbor_class})" if one.neighbor_class else ""
    return f"{one.part} {shorten(str(one.name), LONGEST_NAME)}{whose}"


def explain(
    trained: TrainedModel, node: Any, graph: Graph | None, neighbors: int, features: int
) -> Explanation:
    """What :meth:`TrainedModel.explain` gives."""
    most = whole_number(neighbors, "neighbors"), whole_number(features, "features")
    inference, place = locate(trained, node, graph)
    trial = _Trial(trained, inference, place)
    if graph is not None and inference.graph is not graph:
        trial.notes.append(
            "It is an old node, which the graph of training has already: it keeps its answer, and "
            "is explained there."
        )
    return trial.explain(*most)


def locate(trained: TrainedModel, node: Any, graph: Graph | None) -> tuple[Inference, int]:
    """Where a node is answered for, and its number there.

    A node of the training graph keeps the answer that it has there.
    """
    if np.ndim(node):
        raise InputError("node must be the id of one node; got several. Explain one at a time.")
    inference = trained.look_at(graph)
    place = int(inference.graph.find([node])[0])
    if inference.graph is trained.graph or inference.old[place] < 0:
        return inference, place
    return trained.look_at(None), int(inference.old[place])


class _Trial:
    """Leaves out parts of one node and sees what the model answers then."""

    def __init__(self, trained: TrainedModel, inference: Inference, node: int) -> None:
        self.trained, self.inference, self.node = trained, inference, node
        self.graph, self.names = inference.graph, class_names(trained.graph)
        self.facts = inference.facts_of(np.array([node]))
        self.temperature = float(trained.calibration.temperatures(self.facts.kinds)[0])
        self.view: View = inference.view(np.array([node]))
        self.place = int(self.view.wanted[0])
        self.predicted = int(self.facts.probabilities[0].argmax())
        self.base, self.base_odds = self._compute(self.view.inputs)
        self.row = _dense_row(self.graph, node)
        self.notes: list[str] = []

    def explain(self, neighbors: int, features: int) -> Explanation:
        """All effects, with at most so many neighbors and features one by one."""
        around, entries = self._neighbors(), np.flatnonzero(self.row)
        looks_around = self._looks_around(around)
        tries = neighbors if looks_around else 0
        most = features * _MORE_FEATURES
        if len(around) > tries > 0 or len(entries) > most > 0:
            of_neighbors, of_features = self._estimate(around, entries)
        else:
            of_neighbors, of_features = np.zeros(len(around)), np.zeros(len(entries))
        chosen = around[_largest(of_neighbors, tries)]
        tried = entries[_largest(of_features, most)]
        effects: list[Effect] = []
        if looks_around and len(around):
            effects.append(self._effect("neighbors", None, self._without(around)))
        if len(entries):
            nothing = self._cleared(np.arange(len(self.row)))
            effects.append(self._effect("features", None, nothing))
        effects += _strongest(self._neighbor_effect(other) for other in chosen.tolist())
        effects += _strongest(self._column_effects())
        effects += _strongest(self._feature_effect(one) for one in tried.tolist())[:features]
        self._tell_untried(len(chosen), len(around), "neighbors")
        self._tell_untried(len(tried), len(entries), "features")
        return Explanation(
            self._answer(),
            tuple(effects),
            len(around),
            len(entries),
            {"neighbors": len(chosen), "features": len(tried)},
            tuple(self.notes),
            self.trained.config.model.name,
            self.graph.name,
            refitted=not len(self.trained.split.val),
        )

    def _neighbors(self) -> NDArray[np.int64]:
        """Everybody with an edge to or from the node, ascending."""
        graph, node = self.graph, self.node
        around = graph.neighbors(node)
        if graph.is_directed:
            around = np.concatenate([around, graph.targets[graph.indices == node]])
        return np.setdiff1d(around, [node]).astype(np.int64)

    def _looks_around(self, around: NDArray[np.int64]) -> bool:
        """Whether the model hears from neighbors and can do without some."""
        model = self.trained.model
        if model.edges == "none":
            self.notes.append(f"{model.title} looks at no neighbors.")
            return False
        try:
            if len(around):
                self._compute(self._without(around[:1]))
        except InputError:
            if not model.tied_to:
                raise
            self.notes.append(
                f"{model.title} has weights for {model.tied_to} of its graph: neighbors cannot be "
                "left out."
            )
            return False
        return True

    def _without(self, others: NDArray[np.int64]) -> GraphInputs:
        """The receptive field without the edges between the node and others."""
        inside = np.searchsorted(self.view.nodes, others)
        return self.view.inputs.without_edges(self.place, inside)

    def _cleared(self, columns: NDArray[np.int64]) -> GraphInputs:
        """The receptive field where some of the node's features are 0."""
        row = self.row.copy()
        row[columns] = 0
        return self.view.inputs.with_features(self.place, row)

    def _compute(self, inputs: GraphInputs) -> tuple[NDArray[np.float64], float]:
        """The probabilities of the node's classes, and the log-odds of the predicted one."""
        with torch.no_grad():
            logits = self.view.logits(inputs, self.view.wanted)[0].double() / self.temperature
        return torch.softmax(logits, dim=0).cpu().numpy(), float(self._log_odds(logits))

    def _log_odds(self, logits: torch.Tensor) -> torch.Tensor:
        """The logarithm of p / (1 - p) of the predicted class."""
        others = torch.arange(len(logits), device=logits.device) != self.predicted
        return logits[self.predicted] - torch.logsumexp(logits[others], dim=0)

    def _effect(self, part: Part, name: Any, inputs: GraphInputs, **facts: Any) -> Effect:
        """What a part adds, from the inputs without it."""
        without, odds = self._compute(inputs)
        rest, best = float(without[self.predicted]), int(without.argmax())
        effect = float(self.base[self.predicted]) - rest
        changed = rest, self.names[best], float(without[best])
        return Effect(part, name, effect, self.base_odds - odds, *changed, **facts)

    def _neighbor_effect(self, other: int) -> Effect:
        number = int(self.inference.classes[other])
        edge, weight = self._edge_to(other)
        return self._effect(
            "neighbor",
            self.graph.ids[other].item(),
            self._without(np.array([other])),
            neighbor_class=self.names[number] if number >= 0 else None,
            edge=edge,
            value=weight,
        )

    def _edge_to(self, other: int) -> tuple[str | None, float | None]:
        """Which way the edge points, where that is known, and the larger of its weights."""
        graph = self.graph
        bits, weights = 0, list[float]()
        for target, source, bit in ((self.node, other, 1), (other, self.node, 2)):
            start, end = graph.indptr[target : target + 2].tolist()
            entry = start + int(np.searchsorted(graph.indices[start:end], source))
            if entry == end or graph.indices[entry] != source:
                continue
            if graph.edge_directions is None:
                bits |= bit
            else:
                given = int(graph.edge_directions[entry])
                bits |= given if bit == 1 else (given & 1) << 1 | given >> 1
            if graph.edge_weights is not None:
                weights.append(float(graph.edge_weights[entry]))
        edge = (None, "in", "out", "both")[bits] if graph.has_direction else None
        return edge, max(weights, default=None)

    def _column_effects(self) -> Iterator[Effect]:
        """The effect of each column of a table that says something of the node."""
        source = self.graph.source
        if not isinstance(source, Tables):
            return
        for column, span in source.features.spans.items():
            if self.row[span].any():
                yield self._effect("column", column, self._cleared(np.arange(*span.indices(10**9))))

    def _feature_effect(self, entry: int) -> Effect:
        names = self.graph.feature_names
        name = f"feature {entry}" if names is None else names[entry]
        value = float(self.row[entry])
        return self._effect("feature", name, self._cleared(np.array([entry])), value=value)

    def _estimate(
        self, around: NDArray[np.int64], entries: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """About how much each neighbor and feature matters, of the first order by gradients.

        Where a model has no gradients to edges, neighbors with heavy edges and few others come
        first, and large features.
        """
        model, inputs = self.trained.model, self.view.inputs
        if not model.maskable:
            degrees = self.graph.degrees[around]
            weights = [self._edge_to(other)[1] or 1.0 for other in around.tolist()]
            return np.array(weights) / np.maximum(degrees, 1), np.abs(self.row[entries])
        edges = inputs.adjacency.pattern
        mask = torch.ones(edges.nnz, dtype=inputs.dtype, device=inputs.device, requires_grad=True)
        features, own, columns = masked_row(inputs, self.place)
        with torch.enable_grad():
            logits = self.view.logits(MaskedInputs(inputs, features, mask))[self.place]
            odds, parts = self._log_odds(logits), (mask, own)
            of_edges, of_own = torch.autograd.grad(odds, parts, materialize_grads=True)
        by_entry, by_node = np.zeros(len(self.row)), np.zeros(inputs.num_nodes)
        by_entry[columns] = (of_own * own).detach().abs().cpu().numpy()
        row, col = edges.row.cpu().numpy(), edges.col.cpu().numpy()
        gradient = of_edges.cpu().numpy().astype(np.float64)
        for mine, theirs in ((row, col), (col, row)):
            touching = np.flatnonzero(mine == self.place)
            change = gradient[touching]
            if mine is row or inputs.graph.is_directed:
                change = _share_out(change, self._kinds(touching))
            np.add.at(by_node, theirs[touching], change)
        # A model that looks at no neighbors sees the node alone.
        places = np.minimum(np.searchsorted(self.view.nodes, around), len(by_node) - 1)
        inside = self.view.nodes[places] == around
        return np.where(inside, np.abs(by_node[places]), 0.0), by_entry[entries]

    def _kinds(self, edges: NDArray[np.int64]) -> NDArray[Any]:
        """Which edges a layer adds up together: with separate directions, those of each one."""
        graph = self.view.inputs.graph
        if graph.edge_directions is None or self.trained.model.direction != "separate":
            return np.zeros(len(edges))
        return graph.edge_directions[graph.indices != graph.targets][edges]

    def _tell_untried(self, tried: int, count: int, what: str) -> None:
        if 0 < tried < count:
            self.notes.append(f"{count - tried:,} of {count:,} {what} were not tried one by one.")

    def _answer(self) -> dict[str, Any]:
        """The node's answer, classes in words."""
        answers = Answers.of(self.facts, self.names)
        return next(iter(answers))


def _dense_row(graph: Graph, node: int) -> NDArray[Any]:
    """The features of a node as an array of its own; none count where the graph has none."""
    features: Any = graph.features
    if features is None:
        return np.zeros(1)
    row = features[node] if isinstance(features, np.ndarray) else features[[node]].toarray()[0]
    return np.array(row)


def _share_out(gradient: NDArray[np.float64], kinds: NDArray[Any]) -> NDArray[np.float64]:
    """What leaving out one of the messages changes, of the first order.

    Means and attention share out among those of a kind who are left what one has had.
    """
    change = gradient.copy()
    for kind in np.unique(kinds):
        own = gradient[kinds == kind]
        change[kinds == kind] -= (own.sum() - own) / max(len(own) - 1, 1)
    return change


def _largest(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """The places of the largest values, the first of equals first."""
    return np.argsort(-values, kind="stable")[:most]


def _strongest(effects: Iterator[Effect]) -> list[Effect]:
    return sorted(effects, key=lambda one: -abs(one.effect))
