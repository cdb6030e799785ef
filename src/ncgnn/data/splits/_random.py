"""Random orders that are the same on every platform and with every version of numpy.

numpy promises that the raw 64-bit stream of a bit generator never changes, and promises nothing of
the kind for the distributions and shuffles built on it (NEP 19). So only raw words are used, and a
random order is the stable argsort of one word per element.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stream_key(stream: str, seed: int) -> int:
    """Return the 128-bit key of a named random stream.

    Two streams share nothing unless both name and seed agree, since the key is the head of
    SHA-256 over the two.
    """
    digest = hashlib.sha256(f"ncgnn/{stream}/{seed}".encode()).digest()
    return int.from_bytes(digest[:16], "little")


def random_words(stream: str, seed: int, count: int) -> NDArray[np.uint64]:
    """Return the first ``count`` words of a named stream (Philox 4x64 with counter 0)."""
    return np.asarray(np.random.Philox(key=stream_key(stream, seed)).random_raw(count))


def shuffled(nodes: NDArray[np.int64], num_nodes: int, stream: str, seed: int) -> NDArray[np.int64]:
    """Put some of the nodes 0 … ``num_nodes`` - 1 in a random order.

    Every node of the graph owns one word of the stream, whether it takes part or not: leaving a
    node out does not change the order of the others.
    """
    words = random_words(stream, seed, num_nodes)[nodes]
    return nodes[np.argsort(words, kind="stable")]
