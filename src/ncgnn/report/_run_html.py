"""A report of one run as a single HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ncgnn.report._figures import picture
from ncgnn.report._page import image, page, table
from ncgnn.report._run_figures import DPI, run_figures
from ncgnn.report._run_words import (
    RunFacts,
    about_rows,
    config_rows,
    corrected_shares,
    environment_rows,
    evaluated_part,
    group_table,
    measure_name,
    score_table,
    time_rows,
    true_group_table,
    unseen_classes,
)
from ncgnn.report._words import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncgnn.training._folder import RunFolder

_STYLE = """
.texts td { text-align: left; overflow-wrap: anywhere; }
.numbers th + th, .numbers td + td { text-align: right; padding: .25rem 0 .25rem 1.5rem; }
.lead { font-size: 1.15rem; }
"""


def run_report(folder: RunFolder) -> str:
    """The report of a run whose result is written, as HTML with its pictures."""
    run = RunFacts.read(folder)
    figures = run_figures(run.config, run.history, run.result)
    return run_page(run, {name: picture(figure, "png", DPI) for name, figure in figures.items()})


def run_page(run: RunFacts, pictures: Mapping[str, bytes]) -> str:
    """The report from what was read, and the PNG pictures by name of the figure."""
    result = run.result
    name = f"{result['model']} on {result['graph']}"
    parts = [
        f"<h1>{escape(name)}</h1>",
        f'<p class="lead">{escape(_headline(run))}</p>',
        _texts(table((), about_rows(run))),
        "<h2>Scores</h2>",
        _numbers(table(*score_table(run))),
        f"<p>{escape(unseen_classes(result))} {escape(corrected_shares(run))}</p>",
        "<h2>Training</h2>",
        image(pictures["curves"], "Loss and accuracy per epoch"),
        "<p>Training loss and accuracy are those of the step, with dropout; all else is measured "
        "without. The best epoch is the first with the highest validation accuracy.</p>",
        *(_groups(run, pictures["interplay"]) if "interplay" in pictures else ()),
        "<h2>Where is the model right?</h2>",
        image(pictures["groups"], "Accuracy by true Neighborhood Confusion and by homophily"),
        _numbers(table(*true_group_table(result))),
        "<p>Neighborhood Confusion (NC) and Node Homophily (NH) are those of the true labels here; "
        "no such label of a test node enters training.</p>",
        "<h2>Configuration</h2>",
        _texts(table(("section", "option", "value"), config_rows(run.config))),
        "<h2>Environment and time</h2>",
        _texts(table((), [*time_rows(run.timing), *environment_rows(run.environment)])),
    ]
    return page(name, parts, _STYLE)


def _headline(run: RunFacts) -> str:
    result = run.result
    key, name = evaluated_part(result)
    text = f"{name.capitalize()} accuracy {number(result['scores'][key]['accuracy'])}"
    if result["majority_baseline"] is None:
        return f"{text}; the split has no test nodes."
    return f"{text}; always answering the commonest class: {number(result['majority_baseline'])}."


def _groups(run: RunFacts, png: bytes) -> list[str]:
    """Groups and α; of models that have them."""
    result, measure = run.result, measure_name(run.config)
    text = f"In the best epoch the mean estimated {measure} was {number(result['mean_nc'])}"
    if measure == "NC":
        text += f"; with the true labels the mean NC (k={result['hops']}) is "
        text += number(result["true_mean_nc"])
    about = (
        f"{text}. A group's weight α is that of message passing; 1 − α is that of the node's own "
        "features. Groups change when validation accuracy reaches a new high."
    )
    return [
        "<h2>Groups</h2>",
        image(png, "Estimated confusion, validation accuracy, group sizes and α per epoch"),
        _numbers(table(*group_table(run))),
        f"<p>{escape(about)}</p>",
    ]


def _texts(html: str) -> str:
    """A table of names and values, all beginning at the left."""
    return f'<div class="texts">{html}</div>'


def _numbers(html: str) -> str:
    """A table whose columns but the first hold numbers, titles above them."""
    return f'<div class="numbers">{html}</div>'
