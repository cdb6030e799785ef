from __future__ import annotations

from ncgnn.experiments import Watcher, grid

COMPARED = ("metrics.jsonl", "result.json", "weights.safetensors", "config.toml", "split.json")
TINY = {"hidden": 16, "epochs": 12, "learning_rate": 0.05}


def tiny_cells(models=("ncgcn", "gcn"), seeds=(0, 1), **settings):
    return grid(["digits"], models, seeds=seeds, settings=TINY | settings)


def hopeless_cells(seeds=(0,)):
    """Cells whose loss is no number from the second epoch on."""
    return tiny_cells(["mlp"], seeds, learning_rate=1e35, weight_decay=1.0)


def contents(runs):
    """The files of every run that must not depend on how it was trained, by run and file."""
    return {
        (path.name, name): (path / name).read_bytes()
        for path in runs.iterdir()
        for name in COMPARED
    }


class Notes(Watcher):
    """Remembers what it heard; ``meddle`` is called with every cell that begins or goes on."""

    def __init__(self, meddle=None, stop_after=None):
        self.meddle, self.stop_after = meddle, stop_after
        self.to_do, self.done_before, self.left, self.begun = [], None, [], []

    def on_plan(self, cells, finished):
        self.to_do, self.done_before = [cell.name for cell in cells], finished

    def on_start(self, cell):
        self.begun.append(cell.name)

    def on_progress(self, cell, state):
        if self.meddle is not None:
            self.meddle(cell, state)

    def on_end(self, cell):
        self.left.append(cell)

    def stop(self):
        return self.stop_after is not None and len(self.left) >= self.stop_after
