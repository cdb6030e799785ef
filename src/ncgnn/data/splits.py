"""A split: three disjoint sets of nodes, the hash that names them, and a report on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from ncgnn._io import write_text
from ncgnn.errors import InputError
from ncgnn.graph import Graph, check_class_count, check_labels, to_numpy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

PARTS = ("train", "val", "test")
Origin = Literal["shipped", "drawn", "custom"]


@dataclass(frozen=True, eq=False)
class Split:
    """Training, validation and test nodes of one graph.

    Two splits are equal if family, origin, seed and nodes are.

    Attributes:
        family: Name of the rule that made it. Results are comparable only within a family.
        origin: ``shipped`` with the graph, ``drawn`` at random or ``custom``.
        seed: The seed that was given, or None.
        train: Indices of the training nodes, sorted, read-only int64.
        val: Indices of the validation nodes, likewise.
        test: Indices of the test nodes, likewise.
    """

    family: str
    origin: Origin
    seed: int | None
    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.origin not in get_args(Origin):
            raise InputError(f"origin must be one of {get_args(Origin)}, not '{self.origin}'.")
        for name in PARTS:
            part = np.sort(_read_nodes(getattr(self, name), name))
            part.flags.writeable = False
            object.__setattr__(self, name, part)
        nodes = np.sort(np.concatenate([self.train, self.val, self.test]))
        if nodes.size and nodes[0] < 0:
            raise InputError(f"a split holds node {nodes[0]}, but nodes count from 0.")
        repeated = nodes[1:][nodes[1:] == nodes[:-1]]
        if repeated.size:
            raise InputError(f"node {repeated[0]} is in a split more than once.")

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the three sets of nodes, whatever the family and seed that led to them.

        The bytes are, for train, val and test in turn: the part's name in ASCII, a zero byte, the
        number of nodes and then the sorted nodes, all as little-endian 64-bit integers.
        """
        digest = hashlib.sha256()
        for name in PARTS:
            part: NDArray[np.int64] = getattr(self, name)
            digest.update(name.encode("ascii") + b"\0")
            digest.update(part.size.to_bytes(8, "little"))
            digest.update(part.astype("<i8").tobytes())
        return digest.hexdigest()

    def masks(
        self, num_nodes: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Train, val and test as boolean masks of length ``num_nodes``."""
        highest = max(int(part.max(initial=-1)) for part in (self.train, self.val, self.test))
        if highest >= num_nodes:
            raise InputError(
                f"the split holds node {highest}, but the graph has only {num_nodes} nodes."
            )
        train, val, test = np.zeros((3, num_nodes), dtype=np.bool_)
        train[self.train] = val[self.val] = test[self.test] = True
        return train, val, test

    def to_json(self) -> dict[str, Any]:
        """The split as plain lists, numbers and strings, with its hash."""
        return {
            "family": self.family,
            "origin": self.origin,
            "seed": self.seed,
            **{name: getattr(self, name).tolist() for name in PARTS},
            "sha256": self.sha256,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Split:
        """Make a split from what :meth:`to_json` returned; fields and hash are checked."""
        fields = _read_record(record)
        stated = fields.pop("sha256")
        split = cls(**fields)
        if split.sha256 != stated:
            raise InputError(
                f"sha256: the nodes have the hash {split.sha256}, but {stated} is stated; "
                "the split has been changed or damaged."
            )
        return split

    def save(self, path: Path | str, *, durable: bool = True) -> None:
        """Write a JSON file, whole or not at all, and ``durable`` as in :func:`write_text`."""
        write_text(path, json.dumps(self.to_json()) + "\n", durable=durable)

    @classmethod
    def load(cls, path: Path | str) -> Split:
        """Read a file written by :meth:`save` and check its hash; errors name file and field."""
        try:
            return cls.from_json(json.loads(Path(path).read_bytes()))
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a readable JSON file ({error}).") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str, int | None, str]:
        return self.family, self.origin, self.seed, self.sha256


def _read_nodes(values: object, name: str) -> NDArray[np.int64]:
    nodes = to_numpy(values, name)
    if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
        raise InputError(
            f"{name} must be node indices in one row; got {nodes.dtype} of shape {nodes.shape}."
        )
    return nodes.astype(np.int64)


def _read_record(record: object) -> dict[str, Any]:
    """The fields of a split's JSON form; an :class:`InputError` begins with the bad field."""
    if not isinstance(record, Mapping):
        raise InputError(f"a split must be a JSON object; got {type(record).__name__}.")
    fields = cast("Mapping[str, Any]", record)
    names = ("family", "origin", "seed", *PARTS, "sha256")
    for name in names:
        if name not in fields:
            raise InputError(f"{name}: the field is missing.")
        value = fields[name]
        if name == "seed":
            if value is not None and type(value) is not int:
                raise InputError(f"seed: must be an integer or null; got {value!r:.40}.")
        elif name in PARTS:
            _check_node_list(value, name)
        elif not isinstance(value, str) or not value:
            raise InputError(f"{name}: must be a non-empty string; got {value!r:.40}.")
    return {name: fields[name] for name in names}


def _check_node_list(value: object, name: str) -> None:
    if not isinstance(value, list):
        raise InputError(f"{name}: must be a list of node indices; got {value!r:.40}.")
    for position, node in enumerate(cast("list[Any]", value)):
        if type(node) is not int or not 0 <= node < 1 << 63:
            raise InputError(f"{name}[{position}]: must be a node index; got {node!r:.40}.")


@dataclass(frozen=True)
class PartReport:
    """One part of a split.

    Attributes:
        size: Number of nodes.
        share: Size over the number of labeled nodes of the graph.
        class_counts: Nodes per class.
        absent: Classes that the graph has but this part has not.
    """

    size: int
    share: float
    class_counts: tuple[int, ...]
    absent: tuple[int, ...]


@dataclass(frozen=True)
class SplitReport:
    """What a split holds.

    Attributes:
        num_classes: Number of classes of the graph.
        labeled: Number of labeled nodes of the graph.
        never_evaluated: Classes that the graph has but neither validation nor test.
        majority_class: The commonest class among the test nodes, the first one among equals; None
            without test nodes.
        majority_baseline: Its share of the test nodes: the test accuracy of always answering it,
            which a model must beat; None without test nodes.
    """

    family: str
    origin: str
    seed: int | None
    sha256: str
    num_classes: int
    labeled: int
    train: PartReport
    val: PartReport
    test: PartReport
    never_evaluated: tuple[int, ...]
    majority_class: int | None
    majority_baseline: float | None

    @property
    def absent(self) -> dict[str, tuple[int, ...]]:
        """Per part, the classes that the graph has but the part has not."""
        return {"train": self.train.absent, "val": self.val.absent, "test": self.test.absent}

    def to_json(self) -> dict[str, Any]:
        """The report as plain dictionaries, lists, numbers and strings."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


def split_report(
    split: Split, labels: ArrayLike | Graph, num_classes: int | None = None
) -> SplitReport:
    """Describe a split of a graph; all its nodes must be in the graph and labeled.

    Args:
        split: The split.
        labels: Class per node with -1 for an unlabeled node, or a graph.
        num_classes: Number of classes, where the labels alone do not tell.
    """
    classes, num_classes = read_labels(labels, num_classes)
    _check_fits(split, classes)
    present = count_classes(classes, num_classes) > 0
    labeled = int((classes >= 0).sum())
    train, val, test = (
        _describe_part(classes[getattr(split, name)], present, labeled) for name in PARTS
    )
    majority = int(np.argmax(test.class_counts)) if test.size else None
    return SplitReport(
        family=split.family,
        origin=split.origin,
        seed=split.seed,
        sha256=split.sha256,
        num_classes=num_classes,
        labeled=labeled,
        train=train,
        val=val,
        test=test,
        never_evaluated=find_unevaluated(split, classes, num_classes),
        majority_class=majority,
        majority_baseline=None if majority is None else test.class_counts[majority] / test.size,
    )


def find_unevaluated(split: Split, labels: NDArray[np.int64], num_classes: int) -> tuple[int, ...]:
    """The classes that the labels hold but neither validation nor test."""
    evaluated = labels[np.concatenate([split.val, split.test])]
    unseen = (count_classes(labels, num_classes) > 0) & (count_classes(evaluated, num_classes) == 0)
    return tuple(np.flatnonzero(unseen).tolist())


def _describe_part(
    classes: NDArray[np.int64], present: NDArray[np.bool_], labeled: int
) -> PartReport:
    counts = count_classes(classes, present.size)
    return PartReport(
        size=classes.size,
        share=classes.size / labeled,
        class_counts=tuple(counts.tolist()),
        absent=tuple(np.flatnonzero(present & (counts == 0)).tolist()),
    )


def _check_fits(split: Split, labels: NDArray[np.int64]) -> None:
    for name, mask in zip(PARTS, split.masks(labels.size), strict=True):
        unlabeled = np.flatnonzero(mask & (labels < 0))
        if unlabeled.size:
            raise InputError(f"{name} holds node {unlabeled[0]}, which has no label.")


def read_labels(
    labels: ArrayLike | Graph, num_classes: int | None = None
) -> tuple[NDArray[np.int64], int]:
    """The labels as int64 [n], at least one of them a class, and the number of classes.

    Args:
        labels: Class per node with -1 for an unlabeled node, or a graph, which is checked already.
        num_classes: How many classes there are. Without it a graph says so itself, and for plain
            labels it is the highest class plus one.
    """
    if isinstance(labels, Graph):
        found, num_classes = labels.labels, num_classes or labels.num_classes
    else:
        found = check_labels(labels)
    if not (found >= 0).any():
        raise InputError("no node has a label, so there is nothing to split.")
    return found, check_class_count(found, num_classes)


def count_classes(labels: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    """The number of nodes of each class, unlabeled nodes left out."""
    return np.bincount(labels[labels >= 0], minlength=num_classes).astype(np.int64)
