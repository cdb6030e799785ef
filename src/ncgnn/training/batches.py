"""Mini-batches: training nodes a few at a time, with some of the edges around them.

What is drawn depends on the seed, the epoch and the batch alone, so that a resumed run draws the
same. The next batches are drawn by another thread while a step is taken.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from ncgnn.errors import InputError
from ncgnn.nn import BlockMaker, block_hops, check_layered
from ncgnn.training.prefetcher import Prefetcher

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from ncgnn.nn import Block, Drawing, GraphInputs, Model
    from ncgnn.training.config import TrainingConfig

    #: The nodes of a batch, its block, and the group of every node of that.
    Batch = tuple[torch.Tensor, Block, torch.Tensor | None]

# Neighbors per hop where nothing is said.
FANOUT = 10
# Sets the order of training nodes apart from other random numbers of the same seed.
_ORDER = int.from_bytes(b"order")


class Batches:
    """Draws the batches of every epoch.

    Args:
        inputs: The graph.
        model: The model that they are for.
        config: Their size, fan-out, way of sampling and seed.
    """

    def __init__(self, inputs: GraphInputs, model: Model, config: TrainingConfig) -> None:
        check_layered(model)
        self.size, self.seed = config.batch_size or 1, config.seed
        self.sampling: Drawing = config.sampling
        self.fanout = read_fanout(config.fanout, model)
        self.maker = BlockMaker(inputs, model)

    def count(self, train: torch.Tensor) -> int:
        """How many batches an epoch has."""
        return -(-len(train) // self.size)

    @contextmanager
    def draw(
        self, train: torch.Tensor, group: torch.Tensor, epoch: int, first: int = 0
    ) -> Generator[Iterator[Batch]]:
        """The batches of an epoch from one on; every training node is in one of all of them."""
        maker = self.maker
        maker.use_groups(group.to(maker.inputs.device))
        nodes = train.cpu().numpy()
        order = np.random.default_rng([self.seed, _ORDER, epoch]).permutation(len(nodes))

        def prepare(place: int) -> Batch:
            number = first + place
            part: NDArray[np.int64] = nodes[order[number * self.size : (number + 1) * self.size]]
            key = self.seed, epoch, number
            block = maker.make(part, maker.sample(part, self.fanout, method=self.sampling, key=key))
            return torch.from_numpy(part).to(train.device), block, maker.group_of(block)

        with Prefetcher(prepare, self.count(train) - first) as prepared:
            yield prepared


def read_fanout(fanout: tuple[int, ...] | None, model: Model) -> list[int | None]:
    """The number of neighbors that are drawn at each hop; None = all.

    Raises:
        InputError: There is not one number per layer that passes messages.
    """
    layers, hops = (model.depth or 0) * model.layer_hops, block_hops(model)
    if fanout is None:
        fanout = (FANOUT,) * layers
    if len(fanout) != layers:
        raise InputError(
            f"fanout must have {layers} numbers for {model.title}, one for each of its layers; got "
            f"{len(fanout)}."
        )
    if 0 in fanout:
        raise InputError("fanout must be at least 1 at every hop, or -1 for all neighbors; got 0.")
    drawn = [None if count < 0 else count for count in fanout]
    return drawn + drawn[-1:] * (hops - layers)
