"""Why a label is suspect, in words that can be checked: neighbors, features, single features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.metrics import class_names, lowest_share
from ncgnn.training.label_noise import label_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csc_array, csr_array

    from ncgnn.graph import Graph

#: A feature that fewer other labeled nodes have says nothing of a class.
FEWEST_HOLDERS = 5
#: A feature that more of the labeled nodes have is no trait of some of them.
LARGEST_HOLDING = 0.5
# Names of features are cut at so many letters.
_LONGEST_NAME = 50


@dataclass(frozen=True, eq=False)
class Reasons:
    """What speaks for another class than the label, an entry per node that is asked about.

    Attributes:
        graph: The graph, with the labels as they are.
        nodes: The nodes.
        suggested: The class that each may be instead.
        suspect_around: How many of its neighbors are called suspects themselves.
        neighbors: How many labeled neighbors it has.
        with_label: How many of them share its label.
        with_suggested: How many of them are of the suggested class.
        neighbors_say: The commonest class among them, -1 = there are none.
        with_commonest: How many of them are of that class.
        features_say: The class that the model of features thinks likeliest, -1 = there is none.
        features_probability: How likely; NaN without such a model.
        label_probability: How likely that model thinks the label.
        model_probability: How likely the model of graph and features thinks the suggested class;
            NaN without such a model.
    """

    graph: Graph
    nodes: NDArray[np.int64]
    suggested: NDArray[np.int64]
    suspect_around: NDArray[np.int64]
    neighbors: NDArray[np.int64]
    with_label: NDArray[np.int64]
    with_suggested: NDArray[np.int64]
    neighbors_say: NDArray[np.int64]
    with_commonest: NDArray[np.int64]
    features_say: NDArray[np.int64]
    features_probability: NDArray[np.float64]
    label_probability: NDArray[np.float64]
    model_probability: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        graph: Graph,
        nodes: NDArray[np.int64],
        suggested: NDArray[np.int64],
        suspect: NDArray[np.bool_],
        features: NDArray[np.float64] | None,
        model: NDArray[np.float64] | None,
    ) -> Reasons:
        """Collect what speaks for the suggested classes.

        Args:
            graph: The graph.
            nodes: The nodes.
            suggested: A class for each.
            suspect: Per node of the graph, whether its label is called suspect.
            features: Probabilities by the features alone [n, classes], where there are some.
            model: Probabilities by the model of graph and features, where there is one.
        """
        rows, label = np.arange(len(nodes)), graph.labels[nodes]
        counts = label_counts(graph)[nodes].toarray().astype(np.int64)
        total = counts.sum(axis=1)
        linked = graph.to_scipy("targets")[nodes]
        own = suspect[nodes] & graph.self_loops[nodes]
        around = np.asarray(linked @ suspect.astype(np.float32)).astype(np.int64) - own
        unknown = np.full(len(nodes), np.nan)
        say = np.full(len(nodes), -1) if features is None else features[nodes].argmax(axis=1)
        likely = unknown if model is None else model[nodes, suggested]
        return cls(
            graph=graph,
            nodes=nodes,
            suggested=suggested,
            suspect_around=around,
            neighbors=total,
            with_label=counts[rows, label],
            with_suggested=counts[rows, suggested],
            neighbors_say=np.where(total > 0, counts.argmax(axis=1), -1),
            with_commonest=counts.max(axis=1),
            features_say=say,
            features_probability=unknown if features is None else features[nodes, say],
            label_probability=unknown if features is None else features[nodes, label],
            model_probability=likely,
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Classes in words."""
        named = self.graph.class_names
        found = class_names(self.graph)
        return found if named else tuple(f"class {name}" for name in found)

    def sentences(self, wanted: NDArray[np.bool_]) -> list[str | None]:
        """The reasons in words, None where they are not wanted."""
        traits = FeatureTraits(self.graph) if self.graph.feature_names is not None else None
        return [
            self._sentence(row, traits) if asked else None
            for row, asked in enumerate(wanted.tolist())
        ]

    def _sentence(self, row: int, traits: FeatureTraits | None) -> str:
        label = self.names[self.graph.labels[self.nodes[row]]]
        suggested = self.names[self.suggested[row]]
        parts = [self._about_neighbors(row, label, suggested)]
        if self.features_say[row] >= 0:
            parts.append(self._about_features(row, label))
        trait = None
        if traits is not None:
            trait = traits.strongest(int(self.nodes[row]), int(self.suggested[row]))
        if trait is not None:
            parts.append(f"{trait} are {suggested}")
        sides = (self.neighbors_say[row], self.features_say[row])
        if self.suggested[row] not in sides and self.model_probability[row] > 0.5:
            likely = self.model_probability[row]
            who = "features and neighbors together say"
            if self.graph.features is None:
                who = "the model of the edges says"
            parts.append(f"{who} {suggested} ({likely:.2f})")
        return "; ".join(parts)

    def _about_neighbors(self, row: int, label: str, suggested: str) -> str:
        total, same, other = self.neighbors[row], self.with_label[row], self.with_suggested[row]
        kind = "labeled neighbors" if self.graph.num_unlabeled else "neighbors"
        if not total:
            return f"no {kind}"
        if total == 1:
            text = f"its one {kind[:-1]} is {self.names[self.neighbors_say[row]]}"
        elif self.with_commonest[row] == total:
            every = "both" if total == 2 else f"all {total:,}"
            text = f"{every} {kind} are {self.names[self.neighbors_say[row]]}"
        elif other and other >= same:
            text = f"{other:,} of {total:,} {kind} are {suggested}, {_number(same)} {label}"
        elif same:
            text = f"{same:,} of {total:,} {kind} share its label, {_number(other)} {suggested}"
        else:
            commonest = self.names[self.neighbors_say[row]]
            text = f"{self.with_commonest[row]:,} of {total:,} {kind} are {commonest}, none {label}"
        doubted = self.suspect_around[row]
        return f"{text} ({doubted:,} suspect too)" if doubted else text

    def _about_features(self, row: int, label: str) -> str:
        say, likely = self.features_say[row], self.features_probability[row]
        if say == self.graph.labels[self.nodes[row]]:
            return f"its features agree with {label} ({likely:.2f})"
        rest = f"{label} {self.label_probability[row]:.2f}"
        return f"its features say {self.names[say]} ({likely:.2f}, {rest})"


def _number(count: int) -> str:
    return f"{count:,}" if count else "none"


class FeatureTraits:
    """Single features by which nodes of a class are known, for graphs whose features have names.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        from scipy.sparse import coo_array, csr_array

        self.graph = graph
        features: Any = graph.features
        sparse: Any = csr_array(features)
        self._has: csr_array[Any] = (sparse != 0).astype(np.float32)
        labeled = np.flatnonzero(graph.labels >= 0)
        ones = np.ones(len(labeled), dtype=np.float32)
        shape = (graph.num_nodes, graph.num_classes)
        of_class = coo_array((ones, (labeled, graph.labels[labeled])), shape=shape).tocsr()
        self._holders: csc_array[Any] = (self._has.T.tocsr() @ of_class).tocsc()
        self._total = np.asarray(self._holders.sum(axis=1)).reshape(-1)
        self._most = LARGEST_HOLDING * len(labeled)
        self._of_class: dict[int, NDArray[Any]] = {}

    def holders(self, label: int) -> NDArray[Any]:
        """How many nodes of a class have each feature."""
        if label not in self._of_class:
            self._of_class[label] = self._holders[:, [label]].toarray().reshape(-1)
        return self._of_class[label]

    def strongest(self, node: int, suggested: int) -> str | None:
        """Of the features of a node the one that speaks most for a class, in words.

        It speaks for it if more than half of the other labeled nodes that have it are of the class;
        Wilson's interval says how sure that is.
        """
        features = self._has.indices[self._has.indptr[node] : self._has.indptr[node + 1]]
        others = self._total[features] - (self.graph.labels[node] >= 0)
        told = (others >= FEWEST_HOLDERS) & (others <= self._most)
        if not told.any():
            return None
        features, others = features[told], others[told]
        have = self.holders(suggested)[features] - (self.graph.labels[node] == suggested)
        sure = lowest_share(have, others)
        best = int(sure.argmax())
        if have[best] <= others[best] / 2:
            return None
        name = (self.graph.feature_names or ())[features[best]]
        name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        return f'{int(have[best]):,} of {int(others[best]):,} others with "{name}"'
