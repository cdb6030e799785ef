"""The parameters that the search of benchmarks/competitors.py chose, as presets of the package.

    python benchmarks/presets.py            # prints them
    python benchmarks/presets.py --write    # writes them

`ncgnn train` then trains a competitor on such a graph as RESULTS.md shows it, and `ncgnn reproduce`
finds the kept runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from competitors import MODELS, PLAN, STORES, VARIANTS, final, is_tuned, models_on, searched_values

from ncgnn._io import write_text
from ncgnn.experiments import read_stored

PLACE = Path(__file__).parent.parent / "src/ncgnn/training/presets/searched.toml"
HEAD = """\
# What validation chose among a few settings on a `paper` split with a seed of its own, at the width
# and depth of each model's preset: for the paper's competitors, whose parameters it searched and
# did not print, and for six models more. They serve `paper` splits alone; most test nodes of other
# seeds trained or validated in that search, as in the paper's own. Written by benchmarks/presets.py
# from results/competitors.jsonl.
"""


def text() -> str:
    """The file's content."""
    kept = {record.name: record for record in read_stored(STORES["paper"])}
    lines = [HEAD]
    for model in MODELS:
        if model in VARIANTS or not is_tuned(model):
            continue
        chosen: list[str] = []
        for dataset in PLAN:
            if model in models_on(dataset, "paper"):
                runs = final("paper", model, dataset, kept)
                chosen += [f"{dataset} = {_table(searched_values(runs[0]))}"] if runs else []
        if chosen:
            lines += [f"[{model}]", *chosen, ""]
    return "\n".join(lines)


def _table(values: dict[str, float]) -> str:
    return f"{{ {', '.join(f'{key} = {value!r}' for key, value in values.items())} }}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write_text(PLACE, text())
    else:
        print(text())


if __name__ == "__main__":
    main()
