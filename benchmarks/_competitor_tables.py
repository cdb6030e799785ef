"""Tables from the stored results of benchmarks/competitors.py."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from _tables import cell, head, majority
from competitors import (
    CHOICES,
    COSTLY,
    MODELS,
    OURS,
    PLAN,
    SEARCH_SEED,
    SHORT,
    STORES,
    VARIANTS,
    is_short,
    is_tuned,
)

from ncgnn.experiments import Record, read_stored
from ncgnn.experiments._published import printed, published

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _tables import Result

Runs = dict[tuple[str, str], list[Record]]


def stored(split: str) -> tuple[Runs, Runs]:
    """Runs that count, by model and graph, plain and corrected for shares; none of a search."""
    plain: Runs = defaultdict(list)
    corrected: Runs = defaultdict(list)
    for record in read_stored(STORES[split]):
        config = record.config
        training = config["training"]
        if training["seed"] != SEARCH_SEED:
            found = corrected if training.get("class_shares") == "val" else plain
            found[_label(config["model"]), config["data"]["dataset"]].append(record)
    for runs in (*plain.values(), *corrected.values()):
        if len({_without_seed(record) for record in runs}) > 1:
            raise SystemExit(
                f"{STORES[split]}: several configurations of {runs[0].name}; remove one."
            )
    return plain, corrected


def _without_seed(record: Record) -> str:
    config = record.config
    return repr(config | {"training": config["training"] | {"seed": None}})


def _label(model: dict[str, Any]) -> str:
    """The row of runs of a model: its name, or that of a variant."""
    for label, (name, settings) in VARIANTS.items():
        options = {path.removeprefix("model."): value for path, value in settings.items()}
        if model["name"] == name and options.items() <= model.items():
            return label
    return model["name"]


def chosen(records: list[Record]) -> str:
    """Learning rate, weight decay and dropout of the runs that count."""
    if not records:
        return ""
    config = records[0].config
    model = config["model"]["name"]
    if not is_tuned(model):
        return "preset"
    parts = [config["training"]["learning_rate"], config["training"]["weight_decay"]]
    dropout = config["model"].get("dropout")
    text = ", ".join(f"{part:g}" for part in [*parts, *([] if dropout is None else [dropout])])
    return f"{text} (first)" if (model, config["data"]["dataset"]) in COSTLY else text


def paper_cell(model: str, graph: str, records: list[Record]) -> str:
    """What the paper prints; marked where we fall short by more than :data:`SHORT`."""
    paper = printed("table1", model, graph)
    if not isinstance(paper, tuple):
        return paper or ""
    return f"{paper[0]:.2f} ± {paper[1]:.2f}{' *' if is_short(model, graph, records) else ''}"


def tables(split: str) -> str:
    """Accuracy beside the paper's, macro-F1, and the parameters that were chosen."""
    final, corrected = stored(split)
    graphs = [graph for graph in PLAN if any(place == graph for _, place in final)]
    known = {label for label, _ in final}
    present = [m for m in (*MODELS, *OURS) if m in known]
    searched = [model for model in present if model not in OURS]
    note = (
        f" * more than {SHORT:g} points below the paper; `shares`: those runs once more with "
        "`class_shares=val`."
    )
    accuracy = [
        line
        for model in present
        for line in _accuracy(model, graphs, final, corrected, beside_paper=split == "paper")
    ]
    everything = [[r.result for model in present for r in final[model, g]] for g in graphs]

    def rows(models: Sequence[str], show: Callable[[list[Record]], str]) -> list[str]:
        return [_row(model, [show(final[model, graph]) for graph in graphs]) for model in models]

    return "\n".join(
        [
            f"Test accuracy, mean ± sample standard deviation (number of seeds), `{split}` split."
            f"{note if split == 'paper' else ''}",
            *("", *head(graphs), *accuracy, majority(everything)),
            *("", "Test macro-F1.", "", *head(graphs), *rows(present, _macro_f1)),
            "",
            "Learning rate, weight decay and dropout that validation chose, among "
            f"{len(CHOICES)} settings or fewer (CHOICES and PLAN in benchmarks/competitors.py); "
            "`preset`: not searched, `(first)`: the first setting, because an epoch takes seconds.",
            *("", *head(graphs), *rows(searched, chosen)),
        ]
    )


def _accuracy(
    model: str, graphs: Sequence[str], final: Runs, corrected: Runs, *, beside_paper: bool
) -> list[str]:
    """A model's rows: ours, the paper's, and ours with the correction for class shares."""
    lines = [_row(model, [cell(_results(final[model, graph])) for graph in graphs])]
    if beside_paper and model in published("table1"):
        beside = [paper_cell(model, graph, final[model, graph]) for graph in graphs]
        lines.append(_row("paper", beside))
        again = [cell(_results(corrected[model, graph])) for graph in graphs]
        lines += [_row(f"{model}, shares", again)] if any(again) else []
    return lines


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _results(records: Sequence[Record]) -> list[Result]:
    return [record.result for record in records]


def _macro_f1(records: Sequence[Record]) -> str:
    return cell(_results(records), score="macro_f1")
