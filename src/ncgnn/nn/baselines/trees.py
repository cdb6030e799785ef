"""Boosted trees as plain arrays, which are saved like weights, and the kernel that adds them up.

What scikit-learn has fitted is copied out of its objects, so that nothing of it is pickled. Arrays
have room for as many trees and nodes as there may be; what is not needed adds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ncgnn._numba import compiled, even_blocks, over_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Rows that a tree is applied to at a time, while it is in the processor's cache.
_ROWS = 256
_LEAF = -1


class Trees(nn.Module):
    """Sums of trees, one per output and round.

    A node sends a row to its left child where the column is at most the threshold, or where it is
    missing (NaN) and ``missing_left`` says so.

    Args:
        outputs: Number of sums.
        rounds: The most trees that each may be made of.
        leaves: The most leaves of a tree.

    Attributes:
        column: The column that a node looks at [rounds, outputs, nodes], -1 for a leaf.
        threshold: What it compares it with. Thresholds are numbers of float32, and so are the
            columns that they are compared with, in whichever precision the model is.
        left: The left child's number.
        right: The right child's number.
        missing_left: Whether rows without a value go left.
        value: What a leaf adds.
        start: What the sums begin with [outputs].
        used: Number of rounds that there are.
    """

    def __init__(self, outputs: int, rounds: int, leaves: int) -> None:
        super().__init__()
        shape = (rounds, outputs, 2 * leaves - 1)
        self.register_buffer("column", torch.full(shape, _LEAF, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(shape))
        self.register_buffer("left", torch.zeros(shape, dtype=torch.int32))
        self.register_buffer("right", torch.zeros(shape, dtype=torch.int32))
        self.register_buffer("missing_left", torch.zeros(shape, dtype=torch.bool))
        self.register_buffer("value", torch.zeros(shape))
        self.register_buffer("start", torch.zeros(outputs))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64))
        self.column: torch.Tensor
        self.threshold: torch.Tensor
        self.left: torch.Tensor
        self.right: torch.Tensor
        self.missing_left: torch.Tensor
        self.value: torch.Tensor
        self.start: torch.Tensor
        self.used: torch.Tensor

    @torch.no_grad()
    def store(
        self,
        rounds: Sequence[Sequence[Any]],
        start: NDArray[np.float64],
        outputs: Sequence[int] | NDArray[np.int64],
    ) -> None:
        """Take over the trees that scikit-learn has fitted.

        Args:
            rounds: The trees of every round, as ``HistGradientBoostingClassifier`` keeps them.
            start: What every sum begins with.
            outputs: Which sum each tree of a round belongs to.
        """
        for buffer in self.buffers():
            buffer.zero_()
        self.column.fill_(_LEAF)
        self.start.copy_(torch.from_numpy(start))
        self.used.fill_(len(rounds))
        for number, trees in enumerate(rounds):
            for output, tree in zip(outputs, trees, strict=True):
                self._store_tree(number, int(output), tree.nodes)

    def _store_tree(self, number: int, output: int, nodes: NDArray[Any]) -> None:
        leaf = nodes["is_leaf"].astype(bool)
        limit = _round_down(np.where(leaf, 0, nodes["num_threshold"]))
        for buffer, values in (
            (self.column, np.where(leaf, _LEAF, nodes["feature_idx"])),
            (self.threshold, limit),
            (self.left, nodes["left"].astype(np.int32)),
            (self.right, nodes["right"].astype(np.int32)),
            (self.missing_left, nodes["missing_go_to_left"].astype(bool)),
            (self.value, np.where(leaf, nodes["value"], 0)),
        ):
            buffer[number, output, : len(nodes)] = torch.from_numpy(values)

    def forward(self, columns: torch.Tensor) -> torch.Tensor:
        """The sums for every row of float32 columns [n, outputs], in float64."""
        rows = np.ascontiguousarray(columns.detach().cpu().numpy())
        sums = np.repeat(self.start.double().cpu().numpy()[None], len(rows), axis=0)
        used = int(self.used)
        trees = (
            self.column[:used].cpu().numpy(),
            self.threshold[:used].float().cpu().numpy(),
            self.left[:used].cpu().numpy(),
            self.right[:used].cpu().numpy(),
            self.missing_left[:used].cpu().numpy(),
            self.value[:used].double().cpu().numpy(),
        )
        if len(rows):
            over_blocks(even_blocks(len(rows), 2 * _ROWS), _add_up, rows, *trees, sums)
        return torch.from_numpy(sums).to(columns.device)


def _round_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest numbers of float32 that are not above the values.

    A number of float32 is at most a threshold if and only if it is at most this.
    """
    rounded = values.astype(np.float32)
    above = rounded.astype(np.float64) > values
    return np.where(above, np.nextafter(rounded, np.float32(-np.inf)), rounded)


@compiled
def _add_up(
    first_row: int,
    end_row: int,
    rows: NDArray[np.float32],
    column: NDArray[np.int32],
    threshold: NDArray[np.float32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    missing_left: NDArray[np.bool_],
    value: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    for begin in range(first_row, end_row, _ROWS):
        end = min(begin + _ROWS, end_row)
        for number in range(column.shape[0]):
            for output in range(column.shape[1]):
                for row in range(begin, end):
                    node = 0
                    looked_at = column[number, output, 0]
                    while looked_at >= 0:
                        found = rows[row, looked_at]
                        goes_left = found <= threshold[number, output, node]
                        if found != found:  # NaN
                            goes_left = missing_left[number, output, node]
                        if goes_left:
                            node = left[number, output, node]
                        else:
                            node = right[number, output, node]
                        looked_at = column[number, output, node]
                    sums[row, output] += value[number, output, node]
