"""A split: three disjoint sets of nodes and the hash that names them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ncgnn._files import write_text
from ncgnn.data.splits._labels import as_array
from ncgnn.data.splits._record import PARTS, read_record
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

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
            part = np.sort(_nodes(getattr(self, name), name))
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


def _nodes(values: object, name: str) -> NDArray[np.int64]:
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
