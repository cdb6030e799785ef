"""What the tables of RESULTS.md have in common."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncgnn.experiments import Record

Result = dict[str, Any]


def head(graphs: Sequence[str]) -> list[str]:
    """A column for the names of rows, and one per graph."""
    return [f"| | {' | '.join(graphs)} |", f"|{' --- |' * (len(graphs) + 1)}"]


def cell(results: Sequence[Result], part: str = "test", score: str = "accuracy") -> str:
    """Mean ± sample standard deviation (number of seeds), in percent."""
    if not results:
        return ""
    values = [100 * result["scores"][part][score] for result in results]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread} ({len(values)})"


def results(records: Sequence[Record]) -> list[Result]:
    """What runs came to."""
    return [record.result for record in records]


def marked(records: Sequence[Record]) -> str:
    """A cell of test accuracy; runs of several versions of the package are marked."""
    versions = {version for record in records for version in record.code.split("+")} - {""}
    return cell(results(records)) + (" ‡" if len(versions) > 1 else "")


def majority(by_graph: Iterable[Sequence[Result]]) -> str:
    """A row with the accuracy of always answering the commonest class, over all seeds there."""
    shares = [{r["seed"]: 100 * r["majority_baseline"] for r in results} for results in by_graph]
    means = [f"{statistics.fmean(one.values()):.2f}" if one else "" for one in shares]
    return f"| majority class | {' | '.join(means)} |"
