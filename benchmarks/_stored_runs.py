"""Runs whose outcome is kept as JSON lines; several processes share the work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ncgnn.training import RunConfig


class Store:
    """Outcomes of runs by name, in a file to which every process appends.

    Args:
        path: The file.
        runs: Folder of the runs themselves, where interrupted ones go on.
        data_dir: Folder with npz files.
    """

    def __init__(self, path: Path, runs: Path, data_dir: Path | None) -> None:
        self.path, self.runs, self.data_dir = path, runs, data_dir

    def records(self) -> dict[str, dict[str, Any]]:
        """What is kept so far, by the name of the run."""
        if not self.path.is_file():
            return {}
        lines = self.path.read_text().splitlines()
        return {record["name"]: record for record in map(json.loads, lines)}

    def run(self, config: RunConfig, note: str) -> dict[str, Any] | None:
        """The record of a run, trained now if it is not known; None if another process trains it.

        Args:
            config: Its configuration.
            note: Printed beside its accuracy.
        """
        from ncgnn.training import train_run
        from ncgnn.training._folder import RunInUseError

        known = self.records().get(config.name)
        if known is not None:
            return known
        try:
            outcome = train_run(config, self.runs, data_dir=self.data_dir)
        except RunInUseError:
            return None
        record = {
            "name": config.name,
            "config": config.model_dump(mode="json"),
            "result": outcome.result,
            "seconds": round(outcome.seconds, 1),
        }
        if config.name not in self.records():  # another process may have finished it meanwhile
            self.path.parent.mkdir(exist_ok=True)
            with self.path.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
        val, test = (100 * outcome.result["scores"][p]["accuracy"] for p in ("val", "test"))
        print(
            f"{config.data.dataset:20} {config.model.name:8} {note:40} seed "
            f"{config.training.seed:<3} val {val:.2f}  test {test:.2f}  {outcome.seconds:.0f} s, "
            f"{outcome.result['epochs']} epochs",
            flush=True,
        )
        return record
