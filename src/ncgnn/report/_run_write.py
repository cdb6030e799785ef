"""Writing a run's report into its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncgnn._files import atomic_write, write_text
from ncgnn.report._figures import picture
from ncgnn.report._run_figures import DPI, run_figures
from ncgnn.report._run_html import run_page
from ncgnn.report._run_words import RunFacts

if TYPE_CHECKING:
    from pathlib import Path

    from ncgnn.training._folder import RunFolder

REPORT, FIGURES = "report.html", "figures"


def write_run_report(folder: RunFolder) -> list[Path]:
    """Write ``report.html`` and the figures as PNG and SVG; returns the paths, report first.

    The run's result must be written already; whether the run is marked as done does not matter.
    Every picture is drawn once: the report holds the bytes of the PNG files.
    """
    run = RunFacts.read(folder)
    pictures: dict[str, bytes] = {}
    paths: list[Path] = []
    for name, figure in run_figures(run.config, run.history, run.result).items():
        pictures[name] = picture(figure, "png", DPI)
        files = {"png": pictures[name], "svg": picture(figure, "svg")}
        for suffix, content in files.items():
            path = folder / FIGURES / f"{name}.{suffix}"
            with atomic_write(path) as stream:
                stream.write(content)
            paths.append(path)
    report = folder / REPORT
    write_text(report, run_page(run, pictures))
    return [report, *paths]
