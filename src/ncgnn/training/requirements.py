"""What batches and protocols require of a model, and of each other, whatever the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ncgnn.errors import InputError
from ncgnn.nn import Model, block_hops, check_layered, layers_error, model_class

if TYPE_CHECKING:
    from ncgnn.training.config import RunConfig, TrainingConfig

# Neighbors per hop where nothing is said.
FANOUT = 10
# Of a graph that is not known yet; layers are as many for any.
_FEATURES, _CLASSES = 8, 3


def check_requirements(config: RunConfig) -> None:
    """Refuse settings that no run can have, whatever the graph.

    Raises:
        InputError: It names the setting and what to do about it.
    """
    check_batch_options(config.training)
    name, kind = config.model.name, model_class(config.model.name)
    if config.training.batch_size is not None:
        if kind.fits_at_once:
            raise InputError(
                f"batch_size must be left out with {name}, which is fitted to all nodes at once."
            )
        model = empty_model(config)
        if model is None or not model.layered:
            raise layers_error(kind.title)
        read_fanout(config.training.fanout, model)
        normed = any(isinstance(one, nn.BatchNorm1d) for one in model.modules())
        if config.training.batch_size == 1 and normed:
            raise InputError("batch_size must be at least 2 with norm = 'batch'; got 1.")
    _check_protocol(config)


def check_batch_options(training: TrainingConfig) -> None:
    """Refuse options of batches where there are none.

    Raises:
        InputError: It names the option.
    """
    if training.batch_size is not None:
        return
    if training.fanout is not None:
        raise InputError("fanout is for batches; set batch_size, too, or leave it out.")
    if training.sampling != "uniform":
        raise InputError("sampling is for batches; set batch_size, too, or leave it out.")


def read_fanout(fanout: tuple[int, ...] | None, model: Model) -> list[int | None]:
    """The number of neighbors that are drawn at each hop; None = all. One number is for all hops.

    Raises:
        InputError: The model needs the whole graph or all neighbors, or there is not one number per
            layer that passes messages.
    """
    check_layered(model)
    layers, hops = (model.depth or 0) * model.layer_hops, block_hops(model)
    if not layers:  # nobody is asked
        return []
    if fanout is None:
        fanout = (-1 if model.adds_up else FANOUT,) * layers
    if len(fanout) == 1:
        fanout *= layers
    if len(fanout) != layers:
        raise InputError(
            f"fanout must have {layers} numbers for {model.title}, one for each of its layers; got "
            f"{len(fanout)}."
        )
    if 0 in fanout:
        raise InputError("fanout must be at least 1 at every hop, or -1 for all neighbors; got 0.")
    if model.adds_up and max(fanout, default=-1) > 0:
        raise InputError(
            f"fanout must be all (-1) with {model.title}, whose layers add up all messages."
        )
    drawn = [None if count < 0 else count for count in fanout]
    return drawn + drawn[-1:] * (hops - layers)


def empty_model(
    config: RunConfig, num_features: int = _FEATURES, num_classes: int = _CLASSES
) -> Model | None:
    """A model without memory for its weights; None of one that is not computed layer by layer."""
    kind = model_class(config.model.name)
    if kind.compute_layer is Model.compute_layer:
        return None
    with torch.device("meta"):
        model = kind(num_features, num_classes, **config.model.options)
    return None if model.depth is None else model


def _check_protocol(config: RunConfig) -> None:
    """Refuse what a protocol does not allow."""
    if config.data.protocol == "transductive":
        return
    kind = model_class(config.model.name)
    if kind.tied_to:
        raise kind.tied_error(kind.tied_to)
    if kind.untied_by:  # an option decides
        with torch.device("meta"):
            kind(_FEATURES, _CLASSES, num_nodes=1, **config.model.options).check_inductive()
    if config.data.protocol == "temporal" and config.training.class_shares != "train":
        raise InputError(
            "class_shares must be 'train' with protocol = 'temporal', where the shares of later "
            "nodes are not known."
        )
    if config.training.start_from is not None:
        raise InputError(
            "start_from must be left out with protocol = 'inductive' or 'temporal': earlier "
            "weights may have seen what training must not."
        )
