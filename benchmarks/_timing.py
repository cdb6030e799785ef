"""Timing two or more ways of doing the same thing, side by side in one run."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def side_by_side(ways: dict[str, Callable[[], Any]], repeats: int = 7) -> dict[str, float]:
    """Median seconds of each way; repetitions alternate, so that noise hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()  # compiles and warms up
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def paired_ratio(one: Callable[[], Any], other: Callable[[], Any], repeats: int = 15) -> float:
    """Median of the ratios of neighbouring repetitions: drifts of the machine cancel out."""
    ratios: list[float] = []
    one(), other()
    for _ in range(repeats):
        times = []
        for way in (one, other):
            start = time.perf_counter()
            way()
            times.append(time.perf_counter() - start)
        ratios.append(times[0] / times[1])
    return statistics.median(ratios)


def line(title: str, ratio: float, bar: str, note: str = "") -> None:
    """Print one measured ratio beside what it should be."""
    print(f"{title:<58} {ratio:8.2f}   (goal: {bar}) {note}", flush=True)
