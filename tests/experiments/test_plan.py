"""Where the runs of a sweep stand, before anything is trained."""

from __future__ import annotations

from sweep_cells import hopeless_cells, tiny_cells

from ncgnn.experiments import plan, sweep
from ncgnn.report import plan_grid


def test_a_plan_says_where_every_run_stands(tmp_path):
    configs, bad = tiny_cells(), hopeless_cells()
    assert {run.state for run in plan([*configs, *bad], tmp_path)} == {"missing"}
    assert list(tmp_path.iterdir()) == []  # and makes nothing
    sweep([*configs[:2], *bad], tmp_path, workers=1)
    weights = tmp_path / configs[1].name / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    found = plan([*configs, *bad, configs[0]], tmp_path)
    assert [run.config for run in found] == [*configs, *bad]
    assert [run.folder.name for run in found] == [config.name for config in [*configs, *bad]]
    states = [run.state for run in found]
    assert states[:2] == ["finished", "interrupted"]
    assert set(states[2 : len(configs)]) == {"missing"}
    assert set(states[len(configs) :]) == {"failed"}
    assert all(bool(run.error) == (run.state == "failed") for run in found)


def test_a_plan_as_a_table_counts_runs(tmp_path):
    configs = tiny_cells()
    sweep(configs[:1], tmp_path, workers=1)
    grid = plan_grid(plan(configs, tmp_path))
    counts = {row[2]: [int(str(cell)) for cell in row[3:]] for row in grid.rows if row}
    everything = counts.pop("")
    assert everything == [1, 0, 0, len(configs) - 1]
    assert [sum(column) for column in zip(*counts.values(), strict=True)] == everything
    assert set(counts) == {config.model.name for config in configs}
