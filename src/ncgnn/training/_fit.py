"""Training in one call, without a folder."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from ncgnn.data import Split, make_split, split_families
from ncgnn.errors import InputError, NcgnnWarning
from ncgnn.graph import as_graph
from ncgnn.training._algorithm import Trainer
from ncgnn.training._presets import make_config, placed
from ncgnn.training._run import graph_inputs, new_model
from ncgnn.training._trained import TrainedModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from ncgnn.graph import GraphLike
    from ncgnn.training._algorithm import Record


def fit(
    graph: GraphLike,
    model: str = "ncgcn",
    *,
    labels: ArrayLike | None = None,
    split: str | Split = "stratified",
    seed: int = 0,
    device: str = "cpu",
    on_epoch: Callable[[Record], None] | None = None,
    **settings: Any,
) -> TrainedModel:
    """Train a model on a graph and return its best epoch.

    Args:
        graph: Anything that :func:`ncgnn.graph.as_graph` takes, for example a PyG ``Data``.
        model: A model's name, such as ``"ncgcn"``, ``"ncsage"``, ``"gcn"`` or ``"mlp"``.
        labels: Class per node, -1 = unknown, where the graph holds none or others.
        split: A split family, or a split; ``"published"`` takes the masks of a PyG ``Data``.
        seed: Of a drawn split, of the first weights and of dropout.
        device: Where tensors live.
        on_epoch: Called with a record of every epoch.
        **settings: Options by the names that TOML and ``--set`` use, for example ``hidden=64``,
            ``learning_rate=0.01``, ``threshold=0.4``, ``scaling="row"``.

    Example:
        >>> import ncgnn
        >>> trained = ncgnn.fit(ncgnn.load("digits"), "ncgcn", hidden=32, epochs=5)
        >>> sorted(trained.evaluate()["scores"])
        ['test', 'train', 'val']
    """
    for key in settings:
        if placed(key) in (("data", "dataset"), ("model", "name")):
            raise InputError(f"fit: {key} is said by the first two arguments, graph and model.")
    graph = as_graph(graph, labels)
    if split == "stratified" and graph.shipped_splits:
        warnings.warn(
            "the graph has masks of its own, which split='published' would use; a stratified "
            "split is drawn instead.",
            NcgnnWarning,
            stacklevel=2,
        )
    family = split.family if isinstance(split, Split) else split
    if isinstance(split, Split) and family not in split_families():
        family = "custom"
    config = make_config(
        dataset=graph.name, model=model, split=family, seed=seed, device=device, settings=settings
    )
    inputs = graph_inputs(config, graph)
    if isinstance(split, Split):
        parts = split
        if max(part.max(initial=-1) for part in (parts.train, parts.val, parts.test)) >= (
            graph.num_nodes
        ):
            raise InputError("split: it holds nodes that the graph does not have.")
    else:
        parts = make_split(graph, family, config.split_seed)
    trainer = Trainer(new_model(config, inputs), inputs, parts, config.training)
    history: list[Record] = []

    def after_epoch(record: Record) -> None:
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)

    started = time.perf_counter()
    state = trainer.run(after_epoch, keeps_weights=True)
    found = (parts, state.best_grouping, config, history, time.perf_counter() - started)
    return TrainedModel(trainer.model, inputs, *found)
