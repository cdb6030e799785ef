"""A run's history as events for TensorBoard."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ncgnn.training._folder import RunFolder

_SCALARS = {
    "loss": "loss/train",
    "val_loss": "loss/val",
    "train_accuracy": "accuracy/train",
    "val_accuracy": "accuracy/val",
    "test_accuracy": "accuracy/test",
    "mean_nc": "nc/estimated",
}
_PER_GROUP = {"group_sizes": "groups", "alpha": "alpha"}


class EventWriter:
    """Writes the records of a run, one after the other.

    What earlier writers wrote about ``first_epoch`` and later epochs is void: TensorBoard shows one
    curve, also for a run that was interrupted.

    Args:
        folder: Where the event files go.
        first_epoch: The first epoch that is written; records of earlier ones are passed over,
            because an earlier writer has written them.

    Raises:
        InputError: The package tensorboard is not installed.
    """

    def __init__(self, folder: Path, first_epoch: int = 0) -> None:
        self._first = first_epoch
        self._writer = _summary_writer()(log_dir=str(folder), purge_step=first_epoch)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the record of one epoch; what it lacks or holds as null is left out."""
        epoch = int(record["epoch"])
        if epoch >= self._first:
            for name, value in _named(record):
                self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_events(folder: RunFolder) -> None:
    """Write the whole history of a run into its folder; earlier events of it become void."""
    with EventWriter(folder.path) as writer:
        for record in folder.history():
            writer.write(record)


def _named(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, name in _SCALARS.items():
        if record.get(key) is not None:
            yield name, float(record[key])
    for key, name in _PER_GROUP.items():
        for group, value in enumerate(record.get(key) or ()):
            yield f"{name}/{group}", float(value)


def _summary_writer() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensorboard and protobuf about themselves
            from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "events need the package tensorboard, which is not installed; "
            "pip install 'ncgnn[tensorboard]' brings it."
        ) from None
    return SummaryWriter
