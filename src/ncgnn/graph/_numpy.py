"""Reading arrays in whatever form a user holds them."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ncgnn.errors import InputError


def to_numpy(values: Any, field: str = "the input") -> np.ndarray[Any, Any]:
    """An array of a tensor on any device, a list, or anything else that numpy takes."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        kind = type(values).__name__
        raise InputError(f"{field} cannot be read as an array from {kind}: {error}.") from error


def whole_number(value: Any, field: str, least: int, most: int) -> int:
    """A whole number within bounds."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InputError(f"{field} is {value!r}; give a whole number from {least} to {most}.")
    return number


def is_scipy_sparse(value: object) -> bool:
    """Whether ``value`` is a scipy sparse matrix or array of any format."""
    from scipy.sparse import issparse

    return issparse(value)
