"""Splits that came with the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ncgnn.data._arrays import SHIPPED_SPLITS
from ncgnn.data.splits._labels import as_array
from ncgnn.data.splits._request import Parts
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncgnn.data.splits._request import SplitRequest


def ships(request: SplitRequest, name: str) -> bool:
    """Tell whether the graph came with the splits of that name, which then must be complete."""
    found = [key for key in SHIPPED_SPLITS[name] if key in request.shipped]
    missing = [key for key in SHIPPED_SPLITS[name] if key not in request.shipped]
    if found and missing:
        raise InputError(
            f"the graph ships {', '.join(found)} but not {', '.join(missing)}, "
            f"so its '{name}' split is incomplete."
        )
    return bool(found)


def shipped_indices(request: SplitRequest, name: str) -> Parts:
    """Take the one split that came as index arrays, the same for every seed."""
    return _labelled_parts(request, [_indices(request, key) for key in SHIPPED_SPLITS[name]])


def shipped_masks(request: SplitRequest, name: str) -> Parts:
    """Take variant seed mod V of the V masks that came with the graph."""
    masks = [_masks(request, key) for key in SHIPPED_SPLITS[name]]
    variants = {mask.shape[0] for mask in masks}
    if len(variants) > 1:
        raise InputError(
            f"{', '.join(SHIPPED_SPLITS[name])} must have the same number of variants, "
            f"but they have {', '.join(str(mask.shape[0]) for mask in masks)}."
        )
    variant = request.seed % variants.pop()
    return _labelled_parts(request, [np.flatnonzero(mask[variant]) for mask in masks])


def _indices(request: SplitRequest, key: str) -> NDArray[np.int64]:
    nodes = as_array(request.shipped[key], key)
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise InputError(
            f"{key} must be one row of node indices, "
            f"but it is {nodes.dtype} of shape {nodes.shape}."
        )
    if nodes.size and not 0 <= int(nodes.min()) <= int(nodes.max()) < request.labels.size:
        raise InputError(f"{key} holds nodes outside 0 … {request.labels.size - 1}.")
    return nodes.astype(np.int64)


def _masks(request: SplitRequest, key: str) -> NDArray[np.bool_]:
    masks: NDArray[Any] = np.atleast_2d(as_array(request.shipped[key], key))
    if masks.ndim != 2 or masks.shape[1] != request.labels.size or not masks.shape[0]:
        raise InputError(
            f"{key} must be masks of shape [variants, {request.labels.size}], "
            f"but its shape is {masks.shape}."
        )
    if masks.dtype != np.bool_ and not np.isin(masks, (0, 1)).all():
        raise InputError(f"{key} must be boolean masks, but it holds {masks.dtype} values.")
    return masks.astype(np.bool_)


def _labelled_parts(request: SplitRequest, parts: list[NDArray[np.int64]]) -> Parts:
    train, val, test = (part[request.labels[part] >= 0] for part in parts)
    return Parts("shipped", train, val, test)
