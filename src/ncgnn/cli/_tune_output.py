"""What ``ncgnn tune`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.table import Table

    from ncgnn.experiments.tuning._result import TuneResult


def tune_table(result: TuneResult) -> Table:
    """What was found, for people."""
    from rich.markup import escape
    from rich.table import Table

    from ncgnn.report._results_tables import percent
    from ncgnn.training import summary

    config = result.config
    title = f"{config.model.name} on {config.data.dataset}, {config.data.split} split"
    table = Table("", "", title=escape(title), title_justify="left", show_header=False)
    for option, value in result.parameters.items():
        table.add_row(option, escape(str(value)))
    table.add_section()
    table.add_row(f"validation in the search, {_seeds(result.seeds)}", f"{100 * result.value:.2f}")
    if result.runs:
        over = summary(result.runs)
        fresh = f"fresh {_seeds(over.seeds)}"
        table.add_row(f"validation, {fresh}", percent(over.val_accuracy))
        if "accuracy" in over.test:
            table.add_row(f"test, {fresh}", percent(over.test["accuracy"]), style="bold")
        if "macro_f1" in over.test:
            table.add_row(f"test macro-F1, {fresh}", percent(over.test["macro_f1"]))
        if over.majority_baseline is not None:
            table.add_row(f"majority class, {fresh}", percent(over.majority_baseline))
    table.add_row("trials", result.state.in_words)
    return table


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(seed) for seed in seeds)}"


def tune_tree(result: TuneResult) -> dict[str, Any]:
    """What was found, for programs."""
    from dataclasses import asdict

    from ncgnn.training import summary

    over = summary(result.runs) if result.runs else None
    test = {} if over is None else {name: asdict(one) for name, one in over.test.items()}
    majority = None if over is None else over.majority_baseline
    return {
        "study": str(result.folder),
        "dataset": result.config.data.dataset,
        "model": result.config.model.name,
        "split": result.config.data.split,
        "parameters": result.parameters,
        "search": {
            "seeds": list(result.seeds),
            "val_accuracy": result.value,
            "complete": result.state.complete,
            "pruned": result.state.pruned,
            "failed": result.state.failed,
        },
        "evaluation": None
        if over is None
        else {
            "seeds": list(over.seeds),
            "val_accuracy": asdict(over.val_accuracy),
            "test_accuracy": test.get("accuracy"),
            "test_macro_f1": test.get("macro_f1"),
            "majority_baseline": None if majority is None else asdict(majority),
            "test_nodes_seen_in_search": result.seen,
            "runs": [str(run.folder) for run in result.runs],
        },
        "failed": {str(path): error for path, error in result.failed.items()},
    }


def tune_notes(result: TuneResult, data_dir: Path | None) -> Iterator[str]:
    """What a person should know beside the table."""
    from ncgnn.training._folder import ERROR

    command = f"ncgnn train --config {result.folder / 'best.toml'} --runs {result.folder.parent}"
    fresh = list(result.fresh)
    if fresh:  # those of the search were lucky
        command += f" --seeds {','.join(map(str, fresh))}{',' if len(fresh) == 1 else ''}"
    if data_dir is not None:
        command += f" --data-dir {data_dir}"
    yield f"The study is in {result.folder}; '{command}' trains the best parameters."
    if result.seen and result.runs:
        yield (
            f"note: {result.seen:.0%} of the test nodes of the fresh splits were training or "
            "validation nodes in the search, so the parameters (not the weights) were chosen with "
            "their labels, as in the paper's own protocol."
        )
    state = result.state
    left = state.total - state.done
    if state.is_exhausted:
        again = f"; {state.failed} failed, --retry-failed tries again" if state.failed else ""
        yield f"Every choice of the search space was tried, {state.size} in all{again}."
    elif left > 0 and state.is_hopeless:
        yield f"{left} trials are left, but errors have ended the search; --retry-failed goes on."
    elif left > 0:
        yield f"{left} trials are left; the same command goes on."
    for path, error in result.failed.items():
        yield f"failed: {path}: {error}"
    if any((path / ERROR).is_file() for path in result.failed):
        yield "--retry-failed tries failed runs once more."
