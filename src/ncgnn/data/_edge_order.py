"""The one order of edges that does not depend on how a file lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def distinct_edges(
    source: NDArray[Any], target: NDArray[Any], nodes: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and targets of the edges, each edge once, sorted by target and then source.

    Args:
        source: Sources, within 0 … ``nodes`` - 1.
        target: Targets, likewise.
        nodes: Number of nodes, below 3·10⁹.
    """
    import numpy as np

    # Unsigned and signed 64-bit integers would add up to inexact floats.
    pairs = np.sort(target.astype(np.int64) * nodes + source.astype(np.int64, copy=False))
    first = np.ones(len(pairs), dtype=bool)
    first[1:] = pairs[1:] != pairs[:-1]
    target, source = np.divmod(pairs[first], max(nodes, 1))
    return source, target
