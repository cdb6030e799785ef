from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from ncgnn._io import write_text
from ncgnn.errors import InputError
from ncgnn.report import EventWriter
from ncgnn.training.folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("tensorboard")


def made_record(epoch: int, shift: float = 0.0, *, separated: bool = True) -> dict[str, Any]:
    record: dict[str, Any] = {
        "epoch": epoch,
        "loss": 2.0 + epoch + shift,
        "train_accuracy": 0.5,
        "val_accuracy": 0.25,
        "val_loss": 1.5,
        "test_accuracy": 0.125,
    }
    if separated:
        record |= {"mean_nc": 0.375, "group_sizes": [7, 3], "alpha": [0.75, 0.0625]}
    return record


def read_back(folder: Path) -> dict[str, list[tuple[int, float]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events: Any = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_every_number_of_a_record_is_a_scalar(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        writer.write(made_record(3))
    assert read_back(tmp_path) == {
        "loss/train": [(3, 5.0)],
        "loss/val": [(3, 1.5)],
        "accuracy/train": [(3, 0.5)],
        "accuracy/val": [(3, 0.25)],
        "accuracy/test": [(3, 0.125)],
        "nc/estimated": [(3, 0.375)],
        "groups/0": [(3, 7.0)],
        "groups/1": [(3, 3.0)],
        "alpha/0": [(3, 0.75)],
        "alpha/1": [(3, 0.0625)],
    }


def test_what_a_record_lacks_is_left_out(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.write(made_record(0, separated=False) | {"test_accuracy": None})
    writer.close()
    assert set(read_back(tmp_path)) == {
        "loss/train",
        "loss/val",
        "accuracy/train",
        "accuracy/val",
    }


def test_a_resumed_run_continues_its_curve(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        for epoch in range(5):  # epochs 3 and 4 come after the checkpoint and are lost
            writer.write(made_record(epoch))
    with EventWriter(tmp_path, first_epoch=3) as writer:
        for epoch in range(6):  # the old records come again, and are passed over
            writer.write(made_record(epoch, shift=0.5))
    expected = [(0, 2.0), (1, 3.0), (2, 4.0), (3, 5.5), (4, 6.5), (5, 7.5)]
    assert read_back(tmp_path)["loss/train"] == expected


def test_a_run_from_the_start_replaces_its_curve(tmp_path: Path) -> None:
    for shift in (0.0, 0.5):
        with EventWriter(tmp_path) as writer:
            for epoch in range(4 if shift == 0 else 2):
                writer.write(made_record(epoch, shift))
    assert read_back(tmp_path)["loss/train"] == [(0, 2.5), (1, 3.5)]


def test_events_of_a_finished_run_leave_it_sound(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    history = [made_record(epoch) for epoch in range(3)]
    write_text(folder / "metrics.jsonl", "".join(json.dumps(one) + "\n" for one in history))
    for _ in range(2):
        with EventWriter(folder.path) as writer:
            for record in history:
                writer.write(record)
    assert read_back(folder.path)["loss/train"] == [(0, 2.0), (1, 3.0), (2, 4.0)]
    folder.mark_done()
    assert set(folder.read_json("done.json")["files"]) == {"metrics.jsonl"}


def test_missing_tensorboard_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'ncgnn\[tensorboard\]'"):
        EventWriter(tmp_path)
    assert not list(tmp_path.iterdir())
