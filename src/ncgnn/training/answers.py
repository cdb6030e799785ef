"""What a model answers for nodes, as an Arrow table with a row per node."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.graph import whole_number
from ncgnn.metrics import KINDS
from ncgnn.training.node_table import ClassColumns, NodeTable, text_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of some nodes, a row or an entry per node.

    Attributes:
        ids: The user's identifiers.
        part: ``train``, ``val``, ``test``, ``new``, ``added`` or empty.
        labels: Class numbers, -1 = unlabeled.
        probabilities: Of every class [n, classes].
        confusion: NC, NaN = unknown.
        kinds: As :func:`ncgnn.node_kinds` gives them.
        groups: Of a separated model: a name or number each; None where there are no groups.
        seen: Whether the node's label was trained on.
        sets: Whether each class is in the prediction set [n, classes]; None where none are wanted.
    """

    ids: NDArray[Any]
    part: NDArray[np.str_]
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    confusion: NDArray[np.float64]
    kinds: NDArray[np.str_]
    groups: NDArray[Any] | None
    seen: NDArray[np.bool_]
    sets: NDArray[np.bool_] | None = None

    @classmethod
    def choose(cls, first: NDArray[np.bool_], one: Facts, other: Facts) -> Facts:
        """What is known of the same nodes from two sides: of some by the first, of others not."""
        chosen: dict[str, Any] = {}
        for field in fields(cls):
            mine, theirs = getattr(one, field.name), getattr(other, field.name)
            if mine is None:
                chosen[field.name] = None
                continue
            where = first if mine.ndim == 1 else first[:, None]
            chosen[field.name] = np.where(where, mine, theirs)
        return cls(**chosen)

    @classmethod
    def average(cls, first: Facts, *others: Facts) -> Facts:
        """The mean probabilities of several models of the same nodes; all else is the first's.

        A class is in the set of a node if it is in the sets of at least half of the models.
        """
        every = [first.probabilities, *(one.probabilities for one in others)]
        shares = np.mean(every, axis=0)
        votes = [one.sets for one in (first, *others) if one.sets is not None]
        sets = np.mean(votes, axis=0) >= 0.5 if votes else None
        return replace(first, probabilities=shares, sets=sets)


class Answers(NodeTable):
    """One row per node, in the columns that follow.

    ``id``; ``part`` (train, val, test, new, or added where edges alone name it); ``label`` and
    ``predicted``, by the names of classes where they have some; ``probability``; ``runner_up``
    and ``runner_up_probability``; ``nc`` and ``kind`` of the node's neighborhood, counted among
    the labels of training nodes and the predictions of all others; ``group``, only of separated
    models; ``seen``, whether the label was trained on; where a coverage is asked for, ``set``,
    the classes of the prediction set, the most probable one first, and ``set_size``. What is
    unknown is null.
    """

    @classmethod
    def of(
        cls,
        facts: Facts,
        class_names: Sequence[str] | None,
        *,
        top: int = 0,
        probabilities: bool = False,
        about: dict[str, Any] | None = None,
    ) -> Answers:
        """Answers from what is known of nodes.

        Args:
            facts: What is known.
            class_names: Names of the classes, where they have some.
            top: With ``top=3``, columns ``top_1``, ``top_1_probability``, … ``top_3_probability``.
            probabilities: Whether there is a column ``probability_…`` for every class.
            about: What the metadata say of the model.
        """
        import pyarrow as pa

        known = facts.probabilities.shape[1]
        names = ClassColumns(class_names)
        best = _best_classes(facts.probabilities, max(2, min(whole_number(top, "top"), known)))
        shares = np.take_along_axis(facts.probabilities, best, axis=1)
        columns: dict[str, Any] = {
            "id": pa.array(facts.ids),
            "part": text_column(facts.part),
            "label": names.of(facts.labels),
            "predicted": names.of(best[:, 0]),
            "probability": pa.array(shares[:, 0]),
            "runner_up": names.of(best[:, 1]),
            "runner_up_probability": pa.array(shares[:, 1]),
            "nc": pa.array(facts.confusion, from_pandas=True),
            "kind": text_column(facts.kinds),
        }
        if facts.groups is not None:
            columns["group"] = pa.array(facts.groups)
        columns["seen"] = pa.array(facts.seen)
        if facts.sets is not None:
            columns["set"] = _set_column(facts.sets, facts.probabilities, names)
            columns["set_size"] = pa.array(facts.sets.sum(axis=1))
        for place in range(min(top, known)):
            columns[f"top_{place + 1}"] = names.of(best[:, place])
            columns[f"top_{place + 1}_probability"] = pa.array(shares[:, place])
        if probabilities:
            for number in range(known):
                share = np.ascontiguousarray(facts.probabilities[:, number])
                columns[f"probability_{names.text(number)}"] = pa.array(share)
        return cls.from_columns(columns, about)

    def summary(self) -> dict[str, Any]:
        """How many answers there are, of which kinds, how sure they are, and how large the sets.

        Probabilities and sets are summed up over nodes whose labels were not trained on, as they
        say nothing at others; over all where there are no such nodes.
        """
        kinds = self.table["kind"].to_pylist()
        told = ~np.asarray(self["seen"], dtype=bool)
        told = told if told.any() else ~told
        shares, parts = self["probability"][told], self.table["part"].to_pylist()
        said: dict[str, Any] = {
            "answers": len(self),
            "mean_probability": float(shares.mean()) if len(shares) else None,
            "kinds": {kind: kinds.count(kind) for kind in KINDS},
            "seen": len(self) - int(told.sum()),
            "new_nodes": parts.count("new"),
            "added_nodes": parts.count("added"),
        }
        if "set_size" in self.table.column_names and len(self):
            sizes = self["set_size"][told]
            said["mean_set_size"] = float(sizes.mean())
            said["single_class_sets"] = float(np.mean(sizes == 1))
        return said


def _set_column(
    sets: NDArray[np.bool_], probabilities: NDArray[np.float64], names: ClassColumns
) -> Any:
    """A column of lists of classes, the most probable one first."""
    import pyarrow as pa

    order = np.argsort(-probabilities, axis=1, kind="stable")
    classes = order[np.take_along_axis(sets, order, axis=1)]
    ends = np.append(0, np.cumsum(sets.sum(axis=1)))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), names.of(classes))


def _best_classes(probabilities: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The most probable classes of every node, the first of equals first."""
    if count == 2 < probabilities.shape[1]:
        first = probabilities.argmax(1)
        rest = probabilities.copy()
        np.put_along_axis(rest, first[:, None], -1, axis=1)
        return np.stack([first, rest.argmax(1)], axis=1)
    return np.argsort(-probabilities, axis=1, kind="stable")[:, :count]
