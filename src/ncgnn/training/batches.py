"""Mini-batches: training nodes a few at a time, with some of the edges around them.

What is drawn depends on the seed, the epoch and the batch alone, so that a resumed run draws the
same. The next batches are drawn by another thread while a step is taken.

Of several processes each draws the whole batch, which is little work, and makes the block of its
share of the nodes: what is around a node does not depend on who else has a share.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn import BlockMaker
from ncgnn.training.prefetcher import Prefetcher
from ncgnn.training.ranks import Ranks
from ncgnn.training.requirements import read_fanout

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from ncgnn.nn import Block, Drawing, GraphInputs, Model
    from ncgnn.training.config import TrainingConfig

    #: The nodes of a batch, the block of this process's share, and the group of every node of that.
    Batch = tuple[torch.Tensor, Block, torch.Tensor | None]

# Sets the order of training nodes apart from other random numbers of the same seed.
_ORDER = int.from_bytes(b"order")


class Batches:
    """Draws the batches of every epoch.

    Args:
        inputs: The graph.
        model: The model that they are for.
        config: Their size, fan-out, way of sampling and seed.

    Attributes:
        normalizes: Whether the model normalizes its rows by the other rows of a batch.
    """

    def __init__(self, inputs: GraphInputs, model: Model, config: TrainingConfig) -> None:
        self.size, self.seed = config.batch_size or 1, config.seed
        self.normalizes = any(isinstance(one, nn.BatchNorm1d) for one in model.modules())
        if self.size == 1 and self.normalizes:
            raise InputError("batch_size must be at least 2 with norm = 'batch'; got 1.")
        self.sampling: Drawing = config.sampling
        self.fanout = read_fanout(config.fanout, model)
        self.maker = BlockMaker(inputs, model)

    def count(self, train: torch.Tensor) -> int:
        """How many batches an epoch has."""
        whole, rest = divmod(len(train), self.size)
        # A node alone would have no mean and deviation to be normalized by.
        return max(1, whole + (rest > 1 or (rest == 1 and self.size == 1)))

    @contextmanager
    def draw(
        self,
        train: torch.Tensor,
        group: torch.Tensor,
        epoch: int,
        first: int = 0,
        ranks: Ranks | None = None,
    ) -> Generator[Iterator[Batch]]:
        """The batches of an epoch from one on; every training node is in one of all of them.

        Args:
            train: The training nodes.
            group: The group of every node.
            epoch: The number of the epoch.
            first: The number of the first batch.
            ranks: Which processes have a share of every batch; None: this one alone.
        """
        maker, ranks = self.maker, ranks or Ranks()
        maker.use_groups(group.to(maker.inputs.device))
        nodes, count = train.cpu().numpy(), self.count(train)
        order = np.random.default_rng([self.seed, _ORDER, epoch]).permutation(len(nodes))

        def prepare(place: int) -> Batch:
            number = first + place
            end = len(order) if number == count - 1 else (number + 1) * self.size
            part: NDArray[np.int64] = nodes[order[number * self.size : end]]
            key = self.seed, epoch, number
            sample = maker.sample(part, self.fanout, method=self.sampling, key=key)
            share = ranks.share(torch.arange(len(part)))
            own = None if len(share.nodes) == len(part) else share.nodes.numpy()
            block = maker.make(part, sample, own=own)
            return torch.from_numpy(part).to(train.device), block, maker.group_of(block)

        with Prefetcher(prepare, count - first) as prepared:
            yield prepared
