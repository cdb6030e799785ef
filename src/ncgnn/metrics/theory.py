"""How Neighborhood Confusion bounds what can be predicted (all logarithms to base 2).

The second proposition of "Clarify Confused Nodes via Separated Learning" and its appendix: with
:math:`p_{max} = C^{-NC}` the share of the commonest label, and the other labels equally common, the
entropy of a node's label given its neighborhood is a function of NC alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_MOST_CLASSES = 2**53  # beyond, a float does not tell neighboring whole numbers apart


def top_share(confusion: ArrayLike, num_classes: int) -> NDArray[np.float64]:
    r"""Share of the commonest label, Eq. (12): :math:`p_{max} = 2^{-NC \log_2 C}`."""
    values = _check(confusion, num_classes)
    return np.exp2(-values * np.log2(num_classes))


def conditional_entropy(confusion: ArrayLike, num_classes: int) -> NDArray[np.float64]:
    r"""Entropy of a node's label given its neighborhood, in bits, as a function of NC.

    .. math:: H = -p_{max} \log_2 p_{max} - (1 - p_{max}) \log_2 \frac{1 - p_{max}}{C - 1}

    Eq. (10) with Eq. (12) put in, which is Eq. (13). It rises from 0 at NC = 0 to
    :math:`\log_2 C` at NC = 1.

    Args:
        confusion: NC, between 0 and 1.
        num_classes: The number of classes C, at least 2.
    """
    largest = top_share(confusion, num_classes)
    rest = 1 - largest
    entropy = -largest * np.log2(largest)
    spread = np.where(rest > 0, rest / (num_classes - 1), 1.0)
    return entropy - rest * np.log2(spread)


def error_lower_bound(confusion: ArrayLike, num_classes: int) -> NDArray[np.float64]:
    r"""Fano's lower bound on the error rate, :math:`P_e \ge (H - 1) / \log_2 C`, Eq. (14).

    Negative values, which bound nothing, are kept, as in the curve of the appendix.
    """
    return (conditional_entropy(confusion, num_classes) - 1) / np.log2(num_classes)


def entropy_lower_bound(confusion: ArrayLike, num_classes: int) -> NDArray[np.float64]:
    r"""The first proposition as a bound: :math:`H(y_i, Y_{N_i}) \ge NC \cdot \log_2 C`, Eq. (5).

    NC is at most the joint label entropy of the neighborhood divided by :math:`\log_2 C`, with
    equality when all labels that occur are equally common.
    """
    return _check(confusion, num_classes) * np.log2(num_classes)


def _check(confusion: ArrayLike, num_classes: int) -> NDArray[np.float64]:
    if not 2 <= num_classes <= _MOST_CLASSES:
        raise InputError(f"num_classes must be from 2 to {_MOST_CLASSES}; got {num_classes}.")
    values = np.asarray(confusion, dtype=np.float64)
    if np.any((values < 0) | (values > 1)):
        raise InputError("confusion must lie between 0 and 1, as NC does; got values outside.")
    return values
