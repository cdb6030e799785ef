r"""Sets of classes that hold the true one as often as promised, also where nodes are confused.

Split-conformal prediction: a score says how odd a class is for a node, and the set of a node holds
the classes whose score is at most a limit. The limit is the ⌈(n + 1)·coverage⌉-th smallest score of
the labels of n calibration nodes; where these and a node to answer for could change places without
anybody noticing (they are exchangeable), the set holds its class with a probability of at least
``coverage`` and at most 1 / (n + 1) more. Two scores, and one more:

* ``"lac"``: 1 − p(class). The smallest sets on average (Sadinle et al., 2019).
* ``"aps"``: the probability of the class and of all that are more probable (Romano et al., 2020).
  Larger sets that follow how hard a node is. Every class counts in full, nothing is random.
* ``"aps-random"``: the same less a random part of the class's own probability, as in the paper:
  smaller sets. The part follows from the node's id, so that an answer stays what it is.

A promise over all nodes is broken where nodes are confused and overdone elsewhere. So there is a
limit for every group of nodes with similar NC (Mondrian conformal prediction): then the promise
holds in each. Groups are fifths, by the NC that the model estimates, of the nodes whose labels were
not trained on; equal values stay together, and groups are merged until each has as many calibration
nodes as :func:`smallest_group` says. Nodes without neighbors have an NC of 0 and nothing else in
common with those whose neighbors all agree: they are a group of their own if it is large enough,
and so are the others, and with the most confused nodes otherwise.

Calibration nodes are the validation nodes. These have also selected the epoch and the temperatures;
``benchmarks/guarantees.py`` measures what is left of the promise on test nodes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.metrics import KINDS, class_names
from ncgnn.training.evaluation import degree_classes, degree_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ncgnn.training.answers import Facts
    from ncgnn.training.trained import TrainedModel

SetScore: TypeAlias = Literal["lac", "aps", "aps-random"]
SetGroups: TypeAlias = Literal["nc", "none"]

#: Groups of NC, before those that are too small are merged.
FIFTHS = 5
#: What is promised where nothing else is asked for.
COVERAGE = 0.9
#: The rules that an evaluation compares, by the names in ``result.json``.
COMPARED: dict[str, tuple[SetScore, SetGroups]] = {
    "lac": ("lac", "none"),
    "lac_by_nc": ("lac", "nc"),
    "aps": ("aps", "none"),
    "aps_by_nc": ("aps", "nc"),
    "aps_random_by_nc": ("aps-random", "nc"),
}


@dataclass(frozen=True)
class SetRule:
    """Which classes are in the set of a node.

    Attributes:
        score: The score.
        coverage: How often a set holds the class of its node.
        edges: The upper end of the NC of each group but the last.
        limits: The largest score of a class in the sets of each group; infinite where there are
            too few calibration nodes, so that sets hold all classes.
        nodes: How many calibration nodes each group had.
        limit: That of nodes whose NC is unknown or says nothing, because they are alone; with too
            few of them among the calibration nodes it is that of the group with the highest NC.
        known: How many calibration nodes have an NC that says something; None without groups.
        apart: Whether nodes whose NC is unknown or says nothing have a limit of their own.
    """

    score: SetScore
    coverage: float
    edges: tuple[float, ...]
    limits: tuple[float, ...]
    nodes: tuple[int, ...]
    limit: float
    known: int | None = None
    apart: bool = False

    @classmethod
    def fit(
        cls,
        probabilities: NDArray[np.float64],
        labels: NDArray[np.int64],
        confusion: NDArray[np.float64] | None = None,
        *,
        coverage: float = COVERAGE,
        score: SetScore = "lac",
        ids: NDArray[Any] | None = None,
        like: NDArray[np.float64] | None = None,
    ) -> SetRule:
        """Find the limits from calibration nodes.

        Args:
            probabilities: Of every class [n, classes].
            labels: Class numbers [n].
            confusion: NC of the nodes, which they are grouped by, NaN = unknown or alone; None =
                all nodes are one group.
            coverage: How often a set should hold the class of its node.
            score: ``"lac"``, ``"aps"`` or ``"aps-random"``.
            ids: Ids of the nodes, for ``"aps-random"``.
            like: NC of the nodes whose fifths are the groups; by default ``confusion``. If they are
                the calibration nodes and those to answer for, who is in which group does not
                depend on which of them calibrate.
        """
        check_coverage(coverage)
        own = set_scores(probabilities, score, ids)[np.arange(len(labels)), labels]
        limit = conformal_quantile(own, coverage)
        if confusion is None:
            return cls(score, coverage, (), (limit,), (len(own),), limit)
        smallest = smallest_group(coverage)
        known = int((~np.isnan(confusion)).sum())
        parts = min(FIFTHS, max(1, known // smallest))
        edges = nc_edges(confusion if like is None else like, parts)
        edges = merge_small(edges, confusion, smallest)
        group = nc_group(confusion, edges)
        alone = group < 0
        # The others must be enough as well, or their sets would hold all classes.
        is_apart = min(int(alone.sum()), int((~alone).sum())) >= smallest
        if not is_apart:
            group = np.where(alone, len(edges), group)
        found = [own[group == number] for number in range(len(edges) + 1)]
        limits = tuple(conformal_quantile(part, coverage) for part in found)
        limit = conformal_quantile(own[alone], coverage) if is_apart else limits[-1]
        return cls(score, coverage, edges, limits, tuple(map(len, found)), limit, known, is_apart)

    def about_groups(self) -> str:
        """A sentence where there are fewer than five groups of NC, and why."""
        count, smallest = len(self.limits), smallest_group(self.coverage)
        if self.known is None or count >= FIFTHS:
            return ""
        there = f"there are {self.known:,}" if self.known != 1 else "there is one"
        why = f"a group needs {smallest:,} validation nodes with neighbors, and {there}"
        if count < min(FIFTHS, self.known // smallest):
            why = "many validation nodes have the same NC"
        if count > 1:
            return f"{count} groups of NC and not {FIFTHS}: {why}."
        rest = ", and one for nodes that are alone" if self.apart else ""
        return f"One limit for all NC{rest}: {why}."

    def sets(
        self,
        probabilities: NDArray[np.float64],
        confusion: NDArray[np.float64],
        ids: NDArray[Any] | None = None,
        *,
        allow_empty: bool = False,
    ) -> NDArray[np.bool_]:
        """Whether each class is in the set of each node [n, classes].

        Args:
            probabilities: Of every class [n, classes].
            confusion: NC of the nodes, NaN = unknown or alone.
            ids: Ids of the nodes, for ``"aps-random"``.
            allow_empty: Whether a set may hold nothing, where no class is usual enough. By default
                it then holds the most probable class: it is right more often than promised where
                the model alone is.
        """
        limits = np.array([*self.limits, self.limit])[nc_group(confusion, self.edges)]
        found = set_scores(probabilities, self.score, ids) <= limits[:, None]
        return found if allow_empty else with_best(found, probabilities)


@dataclass(frozen=True)
class SetRequest:
    """Which sets answers should have; see :meth:`TrainedModel.predict`."""

    coverage: float
    score: SetScore
    by: SetGroups
    allow_empty: bool

    @classmethod
    def of(
        cls, coverage: float | None, sets: SetScore, sets_by: SetGroups, allow_empty: bool
    ) -> SetRequest | None:
        """What the arguments of :meth:`TrainedModel.predict` ask for; None without a coverage.

        Raises:
            InputError: The coverage is no share, or there is none and sets are asked for.
        """
        if coverage is not None:
            check_coverage(coverage)
            return cls(coverage, sets, sets_by, allow_empty)
        if allow_empty or (sets, sets_by) != ("lac", "nc"):
            raise InputError(
                "sets, sets_by and allow_empty need a coverage; give one, like coverage=0.9."
            )
        return None

    def apply(self, trained: TrainedModel, facts: Facts) -> Facts:
        """Give nodes the sets that the rule of a trained model says."""
        rule = trained.set_rule(self.coverage, self.score, self.by)
        if text := about_few_validation(self.coverage, len(trained.split.val)):
            warnings.warn(text, NcgnnWarning, stacklevel=4)
        told = facts.probabilities, telling_confusion(facts.confusion, facts.kinds), facts.ids
        return replace(facts, sets=rule.sets(*told, allow_empty=self.allow_empty))

    def complete(self, facts: Facts) -> Facts:
        """Give empty sets the most probable class, unless they may be empty."""
        if self.allow_empty or facts.sets is None:
            return facts
        return replace(facts, sets=with_best(facts.sets, facts.probabilities))


def check_coverage(coverage: object) -> None:
    """Refuse a coverage that is no share.

    Raises:
        InputError: It is no number between 0 and 1.
    """
    if not isinstance(coverage, float | int | np.floating) or not 0 < coverage < 1:
        got = f"{coverage:g}" if isinstance(coverage, float | int) else repr(coverage)
        raise InputError(f"coverage must lie between 0 and 1; got {got}; 0.9 means 90 of 100 sets.")


def about_few_validation(coverage: float, nodes: int) -> str:
    """A sentence where there are too few calibration nodes for a coverage; else empty."""
    fewest = ceil(coverage / (1 - coverage) - 1e-9)
    if nodes >= fewest:
        return ""
    return (
        f"a coverage of {coverage:g} needs {fewest:,} validation nodes or more; there are "
        f"{nodes:,}, so that every set holds all classes."
    )


def with_best(sets: NDArray[np.bool_], probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The sets, of which empty ones hold the most probable class instead."""
    found, empty = sets.copy(), np.flatnonzero(~sets.any(axis=1))
    found[empty, probabilities[empty].argmax(axis=1)] = True
    return found


def set_scores(
    probabilities: NDArray[np.float64], score: SetScore, ids: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """How odd each class is for each node [n, classes]."""
    if score == "lac":
        return 1 - probabilities
    if score not in get_args(SetScore):
        raise InputError(f"sets must be 'lac', 'aps' or 'aps-random'; got '{score}'.")
    order = np.argsort(-probabilities, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(probabilities, order, axis=1), axis=1)
    scores = np.empty_like(probabilities)
    np.put_along_axis(scores, order, sums, axis=1)
    if score == "aps":
        return scores
    if ids is None:
        raise InputError("aps-random needs the ids of the nodes; give ids, or choose aps.")
    return scores - _random_parts(ids)[:, None] * probabilities


def _random_parts(ids: NDArray[Any]) -> NDArray[np.float64]:
    """A number in [0, 1) per id, the same wherever and whenever it is asked for."""
    digests = (blake2b(str(one).encode(), digest_size=8).digest() for one in ids.tolist())
    return np.array([int.from_bytes(digest) / 2**64 for digest in digests])


def conformal_quantile(scores: NDArray[np.float64], coverage: float) -> float:
    """The ⌈(n + 1)·coverage⌉-th smallest of n scores, infinite where there is none."""
    # Rounding must not turn 0.7 · 10 into a little more than 7.
    place = max(1, ceil((len(scores) + 1) * coverage - 1e-9))
    return float(np.partition(scores, place - 1)[place - 1]) if place <= len(scores) else inf


def smallest_group(coverage: float) -> int:
    """The fewest calibration nodes of a group: at least five of them are expected above its limit.

    What a limit from n nodes truly covers scatters around the promise by √(c(1 − c) / n), which is
    four points for c = 0.9 and n = 50.
    """
    return max(50, ceil(5 / (1 - coverage) - 1e-9))


def nc_edges(confusion: NDArray[np.float64], parts: int = FIFTHS) -> tuple[float, ...]:
    """Values of NC that divide nodes into parts of about the same size.

    Equal values stay together. Nodes without a value are not counted.

    Returns:
        The upper end of each part but the last.
    """
    values, counts = np.unique(confusion[~np.isnan(confusion)], return_counts=True)
    if len(values) < 2:
        return ()
    ends = np.cumsum(counts)
    wanted = np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts - 1e-9)
    cuts = sorted(set(wanted.tolist()) - {len(values) - 1})
    # Between two values, so that rounding moves nobody to another group.
    return tuple(float(values[cut] + values[cut + 1]) / 2 for cut in cuts)


def merge_small(
    edges: Sequence[float], confusion: NDArray[np.float64], smallest: int
) -> tuple[float, ...]:
    """The edges that are left when parts with too few nodes join the smaller one beside them."""
    kept = list(edges)
    while kept:
        group = nc_group(confusion, kept)
        sizes = np.bincount(group[group >= 0], minlength=len(kept) + 1)
        place = int(sizes.argmin())
        if sizes[place] >= smallest:
            break
        left = sizes[place - 1] if place else inf
        right = sizes[place + 1] if place < len(kept) else inf
        del kept[place - 1 if left <= right else place]
    return tuple(kept)


def nc_group(confusion: NDArray[np.float64], edges: Sequence[float]) -> NDArray[np.int64]:
    """The part that each node falls into; -1 where NC is unknown."""
    place = np.searchsorted(np.array(edges, dtype=np.float64), confusion, side="left")
    return np.where(np.isnan(confusion), -1, place)


def telling_confusion(
    confusion: NDArray[np.float64], kinds: NDArray[np.str_]
) -> NDArray[np.float64]:
    """NC of nodes that have neighbors; NaN where a node is alone, and its NC says nothing."""
    return np.where(kinds == "alone", np.nan, confusion)


def find_rule(trained: TrainedModel, coverage: float, score: SetScore, by: SetGroups) -> SetRule:
    """The rule of a trained model, from its validation nodes alone."""
    if by not in get_args(SetGroups):
        raise InputError(f"sets_by must be 'nc' or 'none'; got '{by}'.")
    nodes, outcome = trained.split.val, trained.outcome
    confusion = telling_confusion(outcome.confusion, outcome.kinds)
    return SetRule.fit(
        trained.probabilities()[nodes],
        trained.graph.labels[nodes],
        confusion[nodes] if by == "nc" else None,
        coverage=coverage,
        score=score,
        ids=trained.graph.ids[nodes],
        like=confusion[~trained.seen],
    )


def sets_report(
    trained: TrainedModel, nodes: NDArray[np.int64], coverage: float = COVERAGE
) -> dict[str, Any]:
    """How often the sets of some nodes hold their class, and how large they are.

    Returns:
        The ``coverage`` that was asked for, the ``groups`` of NC of the validation nodes, and
        ``parts``: all nodes, the groups of NC that have a limit each, fifths of estimated NC,
        estimated kinds, degrees and classes, each with its ``nodes`` and, for every rule of
        :data:`COMPARED`, ``coverage``, mean ``size``, and ``limit_coverage``, before empty sets got
        the most probable class.
    """
    labels, shares = trained.graph.labels[nodes], trained.probabilities()[nodes]
    confusion = telling_confusion(trained.outcome.confusion, trained.outcome.kinds)[nodes]
    found: dict[str, Any] = {}
    for name, (score, by) in COMPARED.items():
        rule = trained.set_rule(coverage, score, by)
        bare = rule.sets(shares, confusion, ids=trained.graph.ids[nodes], allow_empty=True)
        given = with_best(bare, shares)
        rows = np.arange(len(nodes))
        found[name] = given[rows, labels], given.sum(axis=1), bare[rows, labels]
    rule = trained.set_rule(coverage, "lac", "nc")
    return {
        "coverage": coverage,
        "groups": {
            "edges": list(rule.edges),
            "nodes": list(rule.nodes),
            "alone": int((trained.outcome.kinds[trained.split.val] == "alone").sum()),
            "apart": rule.apart,
            "remark": rule.about_groups(),
        },
        "parts": [
            {"by": by, "part": name, "nodes": int(chosen.sum())}
            | {rule: _counted(chosen, *columns) for rule, columns in found.items()}
            for by, name, chosen in _parts(trained, nodes, rule.edges)
            if chosen.any()
        ],
    }


def _counted(chosen: NDArray[np.bool_], *columns: NDArray[Any]) -> dict[str, float]:
    names = ("coverage", "size", "limit_coverage")
    means = (float(column[chosen].mean()) for column in columns)
    return dict(zip(names, means, strict=True))


def _parts(
    trained: TrainedModel, nodes: NDArray[np.int64], edges: tuple[float, ...]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """What nodes are divided by, the name of a part, and whether each node is in it.

    Args:
        trained: The model.
        nodes: The nodes.
        edges: Of the groups that have a limit of their own.
    """
    yield "all", "all", np.ones(len(nodes), dtype=bool)
    every = telling_confusion(trained.outcome.confusion, trained.outcome.kinds)
    confusion = every[nodes]
    fifths = nc_edges(every[~trained.seen])
    for by, ends in {"group": edges, "nc": fifths}.items():
        if by == "group" and ends in ((), fifths):
            continue  # they are all nodes, or the fifths
        group = nc_group(confusion, ends)
        for number in range(group.max(initial=-1) + 1):
            chosen = group == number
            if not chosen.any():
                continue
            low, high = confusion[chosen].min(), confusion[chosen].max()
            yield by, f"{low:.2f}" if low == high else f"{low:.2f}–{high:.2f}", chosen
        yield by, "alone", group < 0
    for kind in KINDS:
        yield "kind", kind, trained.outcome.kinds[nodes] == kind
    degrees = degree_classes(trained.graph)[nodes]
    for place in np.unique(degrees).tolist():
        low, high = degree_range(place)
        yield "degree", f"{low}" if low == high else f"{low}–{high}", degrees == place
    for number, name in enumerate(class_names(trained.graph)):
        yield "class", name, trained.graph.labels[nodes] == number
