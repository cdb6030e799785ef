"""What a model remembers between the passes of training, and no copy of it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import torch

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from ncgnn.nn._dropout import DropoutKey

_Kept = TypeVar("_Kept")


class NotCopied:
    """Something that is new and empty in every copy or pickle of the model that it belongs to."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class LastPass(NotCopied, Generic[_Kept]):
    """What ``extra_loss`` needs of the training pass before it, until it takes it.

    A training pass is one with a key of dropout and with gradients. Other passes, such as those of
    an evaluation, leave what is kept as it is.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def keep(self, key: DropoutKey | None, kept: _Kept) -> None:
        """Keep what a pass with this key has computed, if it is one of training."""
        if key is not None and torch.is_grad_enabled():
            self._kept = kept

    def take(self) -> _Kept:
        """What is kept, which is forgotten then.

        Raises:
            InputError: There was no training pass since it was last taken.
        """
        kept, self._kept = self._kept, None
        if kept is None:
            raise InputError("extra_loss: it needs a training pass of the model right before it.")
        return kept
