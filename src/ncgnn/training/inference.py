"""A trained model on nodes that it was not trained with: new ones, or those of another graph.

Old nodes, those of the training graph, keep what the model answered for them, and their groups, if
it is a separated model. The groups of new nodes follow from the classes around them: the labels of
training nodes, and predictions elsewhere, those of new nodes themselves from the second of two
passes on. No other label is read, so that a label of a new node changes no answer. In a mixture the
expert that has groups forms them from its own predictions, as if it was alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from ncgnn.data import Tables
from ncgnn.errors import InputError
from ncgnn.metrics import neighborhood_confusion, node_kinds
from ncgnn.nn import GraphInputs, Grouper, ReceptiveField, nodes_around, receptive_field
from ncgnn.training.answers import Facts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.graph import Graph
    from ncgnn.nn import GroupingRule, Model
    from ncgnn.training.trained import TrainedModel

#: Which nodes answers are wanted for.
Only: TypeAlias = Literal["all", "unlabeled", "test", "new"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model makes of some nodes.

    Attributes:
        logits: [n, classes].
        classes: The class with which a node counts for its neighbors: its label if it was trained
            on, otherwise its prediction.
        confusion: NC of these classes, one hop; groups may follow something else, and what was
            known when they were formed.
        kinds: See :func:`ncgnn.node_kinds`.
    """

    logits: torch.Tensor
    classes: NDArray[np.int64]
    confusion: NDArray[np.float64]
    kinds: NDArray[np.str_]


def own_outcome(trained: TrainedModel) -> Outcome:
    """What a model makes of the nodes of its own graph."""
    graph, logits = trained.graph, trained.logits()
    classes = logits.argmax(1).cpu().numpy()
    classes[trained.seen] = graph.labels[trained.seen]
    confusion = neighborhood_confusion(graph, classes, num_classes=graph.num_classes)
    kinds = node_kinds(graph, classes, num_classes=graph.num_classes)
    return Outcome(logits, classes, confusion, kinds)


@dataclass(frozen=True, eq=False)
class View:
    """What a model sees of some nodes: their receptive field, ready to be computed.

    Attributes:
        model: The model.
        inputs: The field.
        nodes: The nodes of the whole graph that are in it, ascending.
        group: The group of each of them.
        wanted: Where the wanted nodes are among them.
        offsets: What corrects the logits of each for other class shares; None = nothing.
    """

    model: Model
    inputs: GraphInputs
    nodes: NDArray[np.int64]
    group: torch.Tensor
    wanted: torch.Tensor
    offsets: torch.Tensor | None

    def logits(self, inputs: GraphInputs, nodes: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of some nodes of the field, None = all, in which something may have changed."""
        logits = self.model(inputs, self.group, None, nodes)
        if self.offsets is None:
            return logits
        return logits + (self.offsets if nodes is None else self.offsets.index_select(0, nodes))


class Inference:
    """What a trained model makes of the nodes of a graph.

    Args:
        trained: The trained model.
        graph: Its own graph, that with more nodes, or another one with the same features and
            classes and with edges of the same kind.
        update_old: Whether old nodes are answered for anew, with what they see in this graph.

    Attributes:
        old: The number of every node in the training graph, -1 = new.
        labels: Class numbers of training, -1 = unlabeled.
        classes: As in :class:`Outcome`, of all nodes; -1 = not known yet.
        group: The group of every node.
        answered: The nodes that are answered for anew, ascending.
    """

    def __init__(self, trained: TrainedModel, graph: Graph, *, update_old: bool = False) -> None:
        self.trained, self.graph = trained, graph
        if graph is trained.graph:
            self.old, self.labels = np.arange(graph.num_nodes), graph.labels
        else:
            self.old = match_nodes(trained.graph, graph)
            self.labels = check_alike(trained, graph)
        known = self.old >= 0
        self.classes = np.where(known, trained.outcome.classes[self.old], -1)
        self.group = np.where(known, trained.grouping.group.numpy()[self.old], 0)
        self.seen = known & trained.seen[self.old]
        anew = update_old and graph is not trained.graph
        self.answered = np.arange(graph.num_nodes) if anew else np.flatnonzero(~known)
        self._answer: Outcome | None = None
        self._lock = Lock()

    def facts(self, only: Only) -> Facts:
        """What answers say of the wanted nodes."""
        return self.facts_of(self._select(only))

    def facts_of(self, wanted: NDArray[np.int64]) -> Facts:
        """What answers say of some nodes."""
        place = np.full(self.graph.num_nodes, -1, dtype=np.int64)
        place[self.answered] = np.arange(len(self.answered))
        from_new, from_old = place[wanted] >= 0, self.old[wanted]
        outcome = self.trained.outcome
        if from_new.any():
            outcome = _combine(outcome, from_old, self.answer, place[wanted], from_new)
        else:
            outcome = _rows(outcome, from_old)
        part = np.append(_name_parts(self.trained), "new")[from_old]
        rule = self.trained.model.rule
        return Facts(
            ids=self.graph.ids[wanted],
            part=part,
            labels=self.labels[wanted],
            probabilities=self.trained.calibration.probabilities(outcome.logits, outcome.kinds),
            confusion=outcome.confusion,
            kinds=outcome.kinds,
            groups=None if rule is None else _name_groups(self.group[wanted], rule),
            seen=self.seen[wanted],
        )

    def keeps_label(self, only: Only) -> NDArray[np.bool_]:
        """Of the wanted nodes, which are old ones with a label."""
        return np.append(self.trained.graph.labels, -1)[self.old[self._select(only)]] >= 0

    def _select(self, only: Only) -> NDArray[np.int64]:
        """The nodes that answers are wanted for."""
        if only == "all":
            return np.arange(self.graph.num_nodes)
        if only == "new":
            return np.flatnonzero(self.old < 0)
        if only == "unlabeled":
            return np.flatnonzero(self.labels < 0)
        if only == "test":
            return np.flatnonzero((np.append(self.trained.parts, "new") == "test")[self.old])
        raise InputError(f"only must be 'all', 'unlabeled', 'test' or 'new'; got '{only}'.")

    @property
    def answer(self) -> Outcome:
        """The answers for new nodes, or for all; fills in classes and groups of new ones, once."""
        with self._lock:  # threads may ask for the same nodes at a time
            if self._answer is None:
                self._answer = self._find_answer()
            return self._answer

    def _find_answer(self) -> Outcome:
        trained, nodes = self.trained, self.answered
        trained.model.check_inductive()
        new = np.flatnonzero(self.old < 0)
        logits = self._group_and_answer(new)
        if len(nodes) > len(new):
            logits = self._logits(nodes)
            classes = logits.argmax(1).cpu().numpy()
            self.classes = np.where(self.seen, self.classes, classes)
        field = nodes_around(self.graph, nodes, 1)
        classes = self.classes[field.nodes]
        kinds = node_kinds(field.graph, classes, num_classes=logits.shape[1])[field.wanted]
        every = neighborhood_confusion(field.graph, classes, num_classes=logits.shape[1])
        confusion = every[field.wanted]
        return Outcome(logits, self.classes[nodes], confusion, kinds)

    def _group_and_answer(self, new: NDArray[np.int64]) -> torch.Tensor:
        """Logits of new nodes.

        They are grouped without their own predictions first, and once more with them.
        """
        rule = self.trained.model.rule
        if rule is None:
            return self._predict(new)
        if (expert := self.trained.grouped_expert) is not None:
            alone = Inference(expert, self.graph)
            _ = alone.answer  # groups the new nodes
            self.group[new] = alone.group[new]
            return self._predict(new)
        if not np.nan_to_num(self.trained.grouping.confusion.numpy()).any():
            # Nobody was grouped in the best epoch, and only the first group has trained weights.
            return self._predict(new)
        self.group[new] = rule.assign(self._measure(new, rule), self.trained.limits)
        logits = self._predict(new)
        group = rule.assign(self._measure(new, rule), self.trained.limits)
        if not np.array_equal(group, self.group[new]):
            self.group[new] = group
            logits = self._predict(new)
        return logits

    def _predict(self, new: NDArray[np.int64]) -> torch.Tensor:
        """Logits of new nodes, whose predictions count for their neighbors from now on."""
        logits = self._logits(new)
        self.classes[new] = logits.argmax(1).cpu().numpy()
        return logits

    def _logits(self, nodes: NDArray[np.int64]) -> torch.Tensor:
        """Logits of nodes, from their receptive field alone."""
        view = self.view(nodes)
        with torch.no_grad():
            return view.logits(view.inputs, view.wanted)

    def view(self, nodes: NDArray[np.int64] | None = None) -> View:
        """What the model sees of some nodes, None = all, in the groups that are known so far."""
        trained, known, graph = self.trained, self.trained.inputs, self.graph
        if nodes is None:
            everyone = np.arange(graph.num_nodes)
            field = ReceptiveField(graph, everyone, everyone)
        else:
            field = receptive_field(graph, nodes, trained.model)
        inputs = known
        if field.graph is not trained.graph:
            inputs = GraphInputs(
                field.graph, device=known.device, dtype=known.dtype, scaling=known.scaling
            ).knowing(torch.from_numpy(np.where(self.seen, self.classes, -1)[field.nodes]))
        offsets = None
        if trained.correction is not None:
            outside = torch.from_numpy(~self.seen[field.nodes]).to(
                device=inputs.device, dtype=inputs.dtype
            )
            offsets = outside[:, None] * trained.correction.offsets
        return View(
            trained.model.eval(),
            inputs,
            field.nodes,
            torch.from_numpy(self.group[field.nodes]).to(inputs.device),
            torch.from_numpy(field.wanted).to(inputs.device),
            offsets,
        )

    def _measure(self, new: NDArray[np.int64], rule: GroupingRule) -> NDArray[np.float64]:
        """What thresholds apply to, of new nodes, by what is known so far."""
        part, classes, wanted = self.graph, self.classes, new
        if rule.guidance in ("nc", "nh"):
            field = nodes_around(self.graph, new, rule.hops)
            part, classes, wanted = field.graph, classes[field.nodes], field.wanted
        if not (classes >= 0).any():
            return np.full(len(new), np.nan)
        grouper = Grouper(part, rule, self.trained.inputs.num_classes)
        return grouper.compared(grouper.confusion(classes), classes)[wanted]


def _rows(outcome: Outcome, rows: NDArray[np.int64]) -> Outcome:
    """The outcome for some of its nodes."""
    return Outcome(
        outcome.logits.index_select(0, torch.from_numpy(rows).to(outcome.logits.device)),
        outcome.classes[rows],
        outcome.confusion[rows],
        outcome.kinds[rows],
    )


def _combine(
    old: Outcome,
    old_rows: NDArray[np.int64],
    new: Outcome,
    new_rows: NDArray[np.int64],
    from_new: NDArray[np.bool_],
) -> Outcome:
    """Rows of two outcomes in one; ``from_new`` says which one each comes from."""
    found = _rows(new, np.where(from_new, new_rows, 0))
    if from_new.all():
        return found
    kept, where = _rows(old, old_rows[~from_new]), torch.from_numpy(~from_new)
    found.logits[where.to(found.logits.device)] = kept.logits
    kinds = found.kinds.astype("<U8")
    for ours, theirs in (
        (found.classes, kept.classes),
        (found.confusion, kept.confusion),
        (kinds, kept.kinds),
    ):
        ours[~from_new] = theirs
    return Outcome(found.logits, found.classes, found.confusion, kinds)


def _name_parts(trained: TrainedModel) -> NDArray[np.str_]:
    """The part of every node, and ``added`` where edges alone have named it."""
    found, source = trained.parts, trained.graph.source
    if not isinstance(source, Tables) or trained.graph.features is None:
        return found
    is_added = np.zeros(len(found), dtype=bool)
    is_added[source.report.added_to(len(found))] = True
    return np.where(is_added & (found == ""), "added", found)


def _name_groups(group: NDArray[np.int64], rule: GroupingRule) -> NDArray[Any]:
    return np.where(group > 0, "high", "low") if len(rule.thresholds) == 1 else group


def match_nodes(known: Graph, graph: Graph) -> NDArray[np.int64]:
    """For every node of a graph its number in the graph that is known, -1 where it has none."""
    numbers = np.full(graph.num_nodes, -1, dtype=np.int64)
    if is_extension(known, graph):
        numbers[: known.num_nodes] = np.arange(known.num_nodes)
    elif known.node_ids is not None and graph.node_ids is not None:
        numbers[:] = [known.places.get(name, -1) for name in graph.node_ids.tolist()]
    elif known.node_ids is graph.node_ids and known.fingerprint == graph.fingerprint:
        numbers[:] = np.arange(graph.num_nodes)
    return numbers


def is_extension(known: Graph, graph: Graph) -> bool:
    """Whether a graph is another one with more nodes after its own."""
    count = known.num_nodes
    begun_alike = graph.num_nodes - graph.num_added == count - known.num_added
    if graph.num_added <= known.num_added or not begun_alike:
        return False
    mine, theirs = known.node_ids, graph.node_ids
    if mine is None or theirs is None:
        return mine is theirs and _begins_with(graph.features, known.features)
    return shares_ids(known, graph) or np.array_equal(theirs[:count], mine)


def _begins_with(features: Any, first: Any) -> bool:
    """Whether features are those of some nodes and of more after them."""
    if features is None or first is None:
        return features is first
    rows = first.shape[0]
    dense = isinstance(first, np.ndarray)
    if isinstance(features, np.ndarray) != dense:
        return False
    if dense:
        return np.array_equal(features[:rows], first)
    ends = features.indptr[: rows + 1]
    return np.array_equal(ends, first.indptr) and all(
        np.array_equal(getattr(features, part)[: ends[-1]], getattr(first, part))
        for part in ("indices", "data")
    )


def shares_ids(known: Graph, graph: Graph) -> bool:
    """Whether the ids of a graph were kept when nodes were added to it."""
    return any(one is known.places for one in getattr(graph.places, "maps", ()))


def check_alike(trained: TrainedModel, graph: Graph) -> NDArray[np.int64]:
    """Refuse a graph whose features, classes or edges mean something else to the model.

    Returns:
        The labels as class numbers of training.

    Raises:
        InputError: It says what differs.
    """
    known = trained.graph
    if graph.num_features != known.num_features:
        raise InputError(
            f"the graph must have {known.num_features} features, as in training; got "
            f"{graph.num_features}. Encode it as the first one was: graph.extend does."
        )
    mine, theirs = known.feature_names, graph.feature_names
    if mine is not None and theirs is not None and mine != theirs:
        place = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
        raise InputError(
            f"the features must be those of training; feature {place} is '{theirs[place]}' "
            f"instead of '{mine[place]}'."
        )
    labels = match_classes(known, graph)
    if is_extension(known, graph) or trained.model.edges == "none" or not graph.num_entries:
        return labels
    if (known.edge_weights is None) != (graph.edge_weights is None):
        has, had = ("has" if one.edge_weights is not None else "has no" for one in (graph, known))
        raise InputError(
            f"the graph {has} weights of edges and that of training {had}; make both alike."
        )
    found, wanted = _direction(graph), _direction(known)
    if found != wanted:
        raise InputError(f"edges must be {wanted}, as in training; got {found} ones.")
    return labels


def match_classes(known: Graph, graph: Graph) -> NDArray[np.int64]:
    """The labels of a graph as class numbers of the graph that is known.

    Raises:
        InputError: There are classes that training did not know.
    """
    if graph.class_names == known.class_names or not graph.num_classes:
        if graph.num_classes <= known.num_classes:
            return graph.labels
        unknown = [str(number) for number in range(known.num_classes, graph.num_classes)]
    elif graph.class_names is None or known.class_names is None:
        if graph.num_unlabeled == graph.num_nodes:
            return graph.labels
        which = ("names", "numbers") if known.class_names else ("numbers", "names")
        raise InputError(f"classes must have {which[0]}, as in training; got {which[1]}.")
    else:
        place = {name: number for number, name in enumerate(known.class_names)}
        unknown = [name for name in graph.class_names if name not in place]
        if not unknown:
            numbers = np.array([place[name] for name in graph.class_names] + [-1])
            return numbers[graph.labels]
    raise InputError(
        f"the model does not know the class {', '.join(unknown[:5])}; train it on a graph that has "
        "it, or leave those labels out."
    )


def _direction(graph: Graph) -> str:
    if graph.edge_directions is not None:
        return "undirected with known directions"
    return "directed" if graph.is_directed else "undirected"
