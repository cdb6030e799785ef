"""Batches where a run on the whole graph would not fit into memory, chosen before it begins.

What a run is called follows from its configuration, which says that it is in batches, and free
memory is another one every time. So the same command goes on with what it has begun: a run in
batches that was chosen for it is continued, or found finished, however much memory there is then;
only where none is there, or the run on the whole graph has come farther, memory decides.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ncgnn.training.cost import (
    BATCH_SIZE,
    can_take_batches,
    count_memory,
    is_too_large,
    memory_there,
)
from ncgnn.training.folder import CHECKPOINT, DamagedFileError, RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from ncgnn.graph import Graph
    from ncgnn.training.config import RunConfig

#: Why a run is in batches, in its folder, where nobody has asked for them.
CHOSEN = "batches.json"


@dataclass(frozen=True)
class Choice:
    """Why a run is in batches.

    Attributes:
        model: The model's name.
        whole: The name of the run that was asked for, on the whole graph.
        memory_gib: What that would have needed.
        available_gib: What there was.
        batch_size: Number of training nodes in a batch.
        again: Whether it was chosen before, and holds for this command, too.
    """

    model: str
    whole: str
    memory_gib: float
    available_gib: float
    batch_size: int = BATCH_SIZE
    again: bool = False

    def sentence(self) -> str:
        """What was estimated, what is chosen, and how to have the other."""
        needs, there = f"{self.memory_gib:.1f} GiB", f"{self.available_gib:.1f}"
        were = "were available when it was begun" if self.again else "are available"
        return (
            f"{self.model} needs about {needs} for the whole graph, and {there} {were}: it is "
            f"trained in batches of {self.batch_size:,} (as with batch_size = {self.batch_size}); "
            "memory_check = false trains on the whole graph"
        )

    def write(self, folder: RunFolder) -> None:
        """Keep it in a run's folder."""
        kept = asdict(self)
        del kept["again"]
        folder.write_json(CHOSEN, kept)


def choose_batches(
    config: RunConfig, graph: Graph, runs: Path | None = None
) -> tuple[RunConfig, Choice | None]:
    """Batches for a run that would not fit into memory otherwise, where its model can take them.

    Args:
        config: The configuration; where it says a size of batches, or ``memory_check`` is off, it
            stays as it is.
        graph: The graph.
        runs: Folder of all runs, in which the same command may have begun one.

    Returns:
        The configuration of the run, and why it is in batches; None where it is as asked for.
    """
    training = config.training
    asked = training.batch_size is not None or not training.memory_check
    if asked or training.device != "cpu":
        return config, None
    batches = config.replaced("training", batch_size=BATCH_SIZE)
    if runs is not None:
        whole, other = (RunFolder(runs / one.name) for one in (config, batches))
        if (chosen := _read(other, config)) is not None and _stage(other) > _stage(whole):
            return batches, chosen
        if whole.is_done():
            return config, None
    if not is_too_large(config, graph) or not can_take_batches(config, graph):
        return config, None
    needs, there = count_memory(config, graph) or 0.0, memory_there()
    return batches, Choice(config.model.name, config.name, needs, there)


def _stage(folder: RunFolder) -> int:
    """2 of a finished run, 1 of one that can be continued, else 0."""
    return 2 if folder.is_done() else int((folder / CHECKPOINT).is_file())


def _read(folder: RunFolder, config: RunConfig) -> Choice | None:
    """The choice that was made for a configuration; None where there is none."""
    if not (folder / CHOSEN).is_file():
        return None
    try:
        chosen = Choice(**folder.read_json(CHOSEN), again=True)
    except (DamagedFileError, TypeError):
        return None
    return chosen if chosen.whole == config.name else None
