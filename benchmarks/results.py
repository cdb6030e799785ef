"""The tables of RESULTS.md from the stored results.

    python benchmarks/results.py            # prints them
    python benchmarks/results.py --write    # puts them into RESULTS.md

Each stands there between two marks; what has no stored results yet is left as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import _accuracy_tables
import _classic_tables
import _combined_tables
import _competitor_tables
import combined
from accuracy import STORE
from competitors import STORES

from ncgnn._io import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent.parent / "RESULTS.md"
#: By the words in the marks: the stored results, and what makes the tables.
SECTIONS: dict[str, tuple[tuple[Path, ...], Callable[[], str]]] = {
    "tables": ((STORE,), _accuracy_tables.tables),
    "competitors": ((STORES["paper"],), lambda: _competitor_tables.tables("paper")),
    "stratified": ((STORES["stratified"],), lambda: _competitor_tables.tables("stratified")),
    "classic": ((combined.STORE, _classic_tables.STORE), _classic_tables.tables),
    "combined": ((combined.STORE,), _combined_tables.tables),
}


def replaced(text: str, name: str, inside: str) -> str:
    """A text with other words between two marks."""
    begin, end = f"<!-- {name} begin -->", f"<!-- {name} end -->"
    if begin not in text or end not in text:
        sys.exit(
            f"{RESULTS}: has no lines '{begin}' and '{end}'; add them where the tables belong."
        )
    before, after = text.split(begin)[0], text.split(end)[1]
    return f"{before}{begin}\n\n{inside}\n\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    present = [n for n, (stores, _) in SECTIONS.items() if any(s.is_file() for s in stores)]
    made = {name: text for name in present if (text := SECTIONS[name][1]())}
    if not write:
        print(*made.values(), sep="\n\n")
        return
    text = RESULTS.read_text()
    for name, inside in made.items():
        text = replaced(text, name, inside)
    write_text(RESULTS, text)


if __name__ == "__main__":
    main()
