"""What the machinery of a sweep costs beside training itself.

    python benchmarks/sweeps.py                 # 40 cells on digits, one worker
    python benchmarks/sweeps.py --workers 2

The same cells are trained twice: one after another by plain ``train_run`` in a process that has
imported all, and by a sweep from an empty folder, with starting its processes and all else. The
sweep comes first, so that other work on the machine tells on the ratio of the two; it is also given
to the training times that the sweep's own runs recorded.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=150)
    given = parser.parse_args()

    from ncgnn._numba import use_threads
    from ncgnn.experiments import grid, sweep
    from ncgnn.training import train_run

    settings = {"epochs": given.epochs, "patience": given.epochs, "hidden": 64}
    configs = grid(["digits"], ["ncgcn"], seeds=range(given.cells), settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = sweep(configs, Path(folder) / "sweep", workers=given.workers)
        swept = time.perf_counter() - started
        recorded = sum(run.seconds for run in done.runs)
        use_threads(1)
        train_run(configs[0], Path(folder) / "warm")
        started = time.perf_counter()
        for config in configs:
            train_run(config, Path(folder) / "bare")
        bare = time.perf_counter() - started
        started = time.perf_counter()
        sweep(configs, Path(folder) / "sweep", workers=given.workers)
        again = time.perf_counter() - started
    shortest = min(run.seconds for run in done.runs)
    print(f"{given.cells} cells of {shortest:.2f} s or more, {given.workers} worker(s)")
    print(
        f"sweep, times workers / training times of its runs  {swept * given.workers / recorded:.3f}"
    )
    print(f"sweep, times workers / plain train_run in a loop   {swept * given.workers / bare:.3f}")
    print(f"the same sweep again, all found finished           {again:.2f} s")


if __name__ == "__main__":
    main()
