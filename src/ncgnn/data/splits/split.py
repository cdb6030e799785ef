"""A split: three disjoint sets of nodes and the hash that names them.

Reading the JSON form of a split, field by field, so that a bad one can be named.

Labels as every split sees them: checked, 64-bit, with -1 for an unlabelled node.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args, runtime_checkable

import numpy as np

from ncgnn._io import write_text
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

PARTS = ("train", "val", "test")

_HIGHEST_NODE = np.iinfo(np.int64).max


def read_record(record: object) -> dict[str, Any]:
    """Return the fields of a split's record, checked for presence and kind.

    Raises:
        InputError: The message begins with the name of the field.
    """
    if not isinstance(record, Mapping):
        raise InputError(f"a split must be a JSON object, not {type(record).__name__}.")
    fields = cast("Mapping[str, Any]", record)
    return {
        "family": _text(fields, "family"),
        "origin": _text(fields, "origin"),
        "seed": _seed(fields),
        **{name: _nodes(fields, name) for name in PARTS},
        "sha256": _text(fields, "sha256"),
    }


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise InputError(f"{name}: the field is missing.")
    return fields[name]


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = _field(fields, name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}: a non-empty string is wanted, not {value!r:.40}.")
    return value


def _seed(fields: Mapping[str, Any]) -> int | None:
    value = _field(fields, "seed")
    if value is not None and type(value) is not int:
        raise InputError(f"seed: an integer or null is wanted, not {value!r:.40}.")
    return value


def _nodes(fields: Mapping[str, Any], name: str) -> list[int]:
    value = _field(fields, name)
    if not isinstance(value, list):
        raise InputError(f"{name}: a list of node indices is wanted, not {value!r:.40}.")
    for position, node in enumerate(cast("list[Any]", value)):
        if type(node) is not int or not 0 <= node <= _HIGHEST_NODE:
            raise InputError(f"{name}[{position}]: a node index is wanted, not {node!r:.40}.")
    return cast("list[int]", value)


#: Tables with a row per class must fit into memory.
_MOST_CLASSES = 1 << 24


@runtime_checkable
class LabelledGraph(Protocol):
    """What a graph offers to the splits."""

    @property
    def labels(self) -> ArrayLike:
        """Class per node, -1 for an unlabelled node."""
        ...

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        ...

    @property
    def shipped_splits(self) -> Mapping[str, NDArray[Any]]:
        """The splits that came with the graph, under the keys of ``SHIPPED_SPLITS``."""
        ...


def as_array(values: object, name: str) -> NDArray[Any]:
    """Turn lists, numpy arrays and CPU tensors into a numpy array."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as an array: {error}") from error


def checked_labels(
    labels: ArrayLike | LabelledGraph, num_classes: int | None = None
) -> tuple[NDArray[np.int64], int]:
    """Return the labels as int64 [n] and the number of classes.

    Args:
        labels: Class per node with -1 for an unlabelled node, or a graph.
        num_classes: How many classes there are. Without it a graph says so itself, and for plain
            labels it is the highest class plus one.

    Raises:
        InputError: Labels that are not one row of integers ≥ -1, that name a class outside
            ``num_classes`` or far above the number of nodes, or of which none is a class.
    """
    if isinstance(labels, LabelledGraph):
        num_classes = labels.num_classes if num_classes is None else num_classes
        labels = labels.labels
    found = as_array(labels, "labels")
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"labels must be one row of integers, -1 for an unlabelled node, "
            f"but they are {found.dtype} of shape {found.shape}."
        )
    found = found.astype(np.int64)
    highest = int(found.max(initial=-1))
    if highest < 0:
        raise InputError("no node has a label, so there is nothing to split.")
    if int(found.min()) < -1:
        raise InputError(f"labels must be ≥ -1, but one is {int(found.min())}.")
    if num_classes is None:
        if highest >= max(1000, found.size):
            raise InputError(
                f"labels reach {highest} in a graph of {found.size} nodes; "
                "number the classes from 0 on, without gaps."
            )
        num_classes = highest + 1
    num_classes = _class_count(num_classes)
    if highest >= num_classes:
        raise InputError(f"labels name class {highest}, but num_classes is {num_classes}.")
    return found, num_classes


def _class_count(num_classes: int) -> int:
    try:
        count = index(num_classes)
    except TypeError as error:
        raise InputError(f"num_classes must be an integer, not {num_classes!r}.") from error
    if not 1 <= count <= _MOST_CLASSES:
        raise InputError(f"num_classes must be 1 … {_MOST_CLASSES}, but it is {count}.")
    return count


def class_counts(labels: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    """Count the nodes of each class, unlabelled nodes left out."""
    return np.bincount(labels[labels >= 0], minlength=num_classes).astype(np.int64)


Origin = Literal["shipped", "drawn", "custom"]


@dataclass(frozen=True, eq=False)
class Split:
    """Training, validation and test nodes of one graph.

    Two splits are equal if family, origin, seed and nodes are.

    Attributes:
        family: Name of the rule that made it. Results are comparable only within a family.
        origin: ``shipped`` with the graph, ``drawn`` at random or ``custom``.
        seed: The seed that was asked for; None where there is none.
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
            part = np.sort(_nodes_split(getattr(self, name), name))
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
        """Return train, val and test as boolean masks of length ``num_nodes``."""
        highest = max(int(part.max(initial=-1)) for part in (self.train, self.val, self.test))
        if highest >= num_nodes:
            raise InputError(
                f"the split holds node {highest}, but the graph has only {num_nodes} nodes."
            )
        return (
            _mask(self.train, num_nodes),
            _mask(self.val, num_nodes),
            _mask(self.test, num_nodes),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the split as plain lists, numbers and strings, with its hash."""
        return {
            "family": self.family,
            "origin": self.origin,
            "seed": self.seed,
            **{name: getattr(self, name).tolist() for name in PARTS},
            "sha256": self.sha256,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Split:
        """Make a split from what :meth:`to_json` returned.

        Raises:
            InputError: A field is missing or of the wrong kind, or the nodes do not have the
                hash that the record states.
        """
        fields = read_record(record)
        stated = fields.pop("sha256")
        split = cls(**fields)
        if split.sha256 != stated:
            raise InputError(
                f"sha256: the nodes have the hash {split.sha256}, but {stated} is stated; "
                "the split has been changed or damaged."
            )
        return split

    def save(self, path: Path | str, *, durable: bool = True) -> None:
        """Write the split as a JSON file, completely or not at all.

        Args:
            path: The file.
            durable: Whether to wait until it would outlast a power cut.
        """
        write_text(path, json.dumps(self.to_json()) + "\n", durable=durable)

    @classmethod
    def load(cls, path: Path | str) -> Split:
        """Read a file written by :meth:`save` and check its hash.

        Raises:
            InputError: The file cannot be read or does not hold a sound split; the message names
                the file and the field.
        """
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


def _nodes_split(values: object, name: str) -> NDArray[np.int64]:
    nodes = as_array(values, name)
    if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
        raise InputError(
            f"{name} must be node indices in one row, but it is {nodes.dtype} of shape "
            f"{nodes.shape}."
        )
    return nodes.astype(np.int64)


def _mask(nodes: NDArray[np.int64], num_nodes: int) -> NDArray[np.bool_]:
    mask = np.zeros(num_nodes, dtype=np.bool_)
    mask[nodes] = True
    return mask
